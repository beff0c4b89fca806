"""The optimized cache of components as a target.

``target``
    other components go with the KV of their prefix.
``apart``
    components are evicted each alone, and a window must be there in full.
``leaf``, ``later``
    a leaf goes as a whole; with any entry those of the components after its own.

They are in the compiled core alone: without it the target says how to build it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kvlitmus.conformance.adapters.optimized.alone import of_core
from kvlitmus.conformance.ports import Config, Profile, Sizes, Unsupported
from kvlitmus.conformance.ports.component_configs import refuse_others
from kvlitmus.spec.interface.components import ComponentBegun, ComponentEvent
from kvlitmus.spec.words.layouts import Layout, layout_of
from kvlitmus.spec.words.policies import SELECTIVE, WRITE_BACK, WRITE_THROUGH
from kvlitmus.spec.words.shapes import Component, Window
from kvlitmus.spec.words.units import Key, Unit

if TYPE_CHECKING:
    from kvlitmus.optimized.components import ComponentConfig, Kind

Places = dict[str, list[int]]


def kinds_of(layout: Layout) -> tuple[Kind, ...]:
    """The components of a layout in the cache's own words."""
    from kvlitmus.optimized.components import Kind

    def kind(one: Component) -> Kind:
        shape = type(one.shape).__name__.lower()
        size = getattr(one.shape, "reach" if isinstance(one.shape, Window) else "size", 1)
        return Kind(shape, list(layout.places).index(one.pool), one.unit, one.align, size)

    return tuple(map(kind, layout.components))


def numbered(given: object) -> int:
    """A receipt, or a prefetch; raises ``ValueError`` for what is none."""
    if not isinstance(given, int):
        raise ValueError(f"this is no number: {given!r}")
    return given


class OptimizedComponents:
    """A cache of the compiled core behind the ports of components: names for numbers, lists for arrays."""

    def __init__(self, config: Config, profile: Profile) -> None:
        from kvlitmus.optimized.components import component_tree

        self.config, self.profile = config, profile
        self.layout = layout_of(config.components, config.page_size, config.pages, config.host_pages)
        self.names = [one.name for one in self.layout.components]
        self.pools = list(self.layout.places)
        self.tree = component_tree(self.core_config())

    def core_config(self) -> ComponentConfig:
        """Configuration and profile in the cache's own words."""
        from kvlitmus.optimized.components import ComponentConfig

        return ComponentConfig(
            page_size=self.config.page_size,
            components=kinds_of(self.layout),
            places=tuple(self.layout.places.values()),
            host=tuple(self.layout.host.values()),
            policy=self.config.policy,
            cascade=self.profile.component_cascade,
            window_root=self.profile.window_root,
            bigram=self.config.bigram,
            events=True,
        )

    # -- names and numbers -----------------------------------------------------------------------

    def by_number(self, given: Mapping[str, Any], otherwise: Callable[[], Any]) -> list[Any]:
        """What is given by name, of each component; raises ``ValueError`` for another name."""
        if not given.keys() <= set(self.names):
            raise ValueError(f"there are no such components: {sorted(given)}")
        return [given[name] if name in given else otherwise() for name in self.names]

    def by_name(self, answer: Iterable[Any]) -> dict[str, Any]:
        """What is answered of each component, by name; nothing of one of which nothing is."""
        return {name: some.tolist() for name, some in zip(self.names, answer, strict=True) if len(some)}

    def units(self, key: Key) -> Any:
        """The units of a key, as the core takes them."""
        from kvlitmus.optimized import inputs
        from kvlitmus.optimized.components import brought
        from kvlitmus.optimized.hashing import pack_bigrams

        return pack_bigrams(inputs.tokens(key.tokens)) if self.config.bigram else brought(key.tokens)

    def spelled(self, units: Any) -> tuple[Unit, ...]:
        """The units of the core as the suite has them."""
        one: list[int] = units.tolist()
        if not self.config.bigram:
            return tuple(one)
        return tuple([((unit >> 32) & 0xFFFFFFFF, unit & 0xFFFFFFFF) for unit in one])

    def counted(self, answer: Any) -> dict[str, int]:
        """How many were answered of each component, by name."""
        return dict(zip(self.names, answer.tolist(), strict=True))

    def placed(self, ends: Iterable[Any], places: Iterable[Any]) -> dict[str, dict[int, int]]:
        """Where entries end, and their places, by name."""
        named = self.by_name(places)
        return {name: dict(zip(some, named[name], strict=True)) for name, some in self.by_name(ends).items()}

    def listed(self, entries: Iterable[Any]) -> list[tuple[str, str | None, Sequence[object], int]]:
        """Entries as a look shows them."""
        return [
            (self.names[component], namespace, self.spelled(units), place)
            for component, (namespace, units), place, _ in entries
        ]

    def ends(self, given: Mapping[str, Iterable[int]]) -> list[list[int]]:
        """Where entries end, of each component."""
        return [sorted(some) for some in self.by_number(given, list)]

    def found(self, handle: object) -> tuple[Any, Any]:
        """The namespace and the units of a hit; raises ``ValueError`` for what is no handle."""
        if not isinstance(handle, tuple):
            raise ValueError(f"this is no handle: {handle!r}")
        return handle

    # -- ports -----------------------------------------------------------------------------------

    def component_match(self, key: Key) -> tuple[int, Places, object]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentLookup`."""
        units = self.units(key)
        length, places = self.tree.match(key.namespace, units)
        return length, self.by_name(places), (key.namespace, units[:length])

    def component_reset(self) -> None:
        """See :class:`~kvlitmus.spec.interface.components.ComponentLookup`."""
        self.tree.reset()

    def component_alloc(self, wants: Mapping[str, int]) -> Places | None:
        """See :class:`~kvlitmus.spec.interface.components.Components`."""
        granted = self.tree.alloc(self.by_number(wants, int))
        return None if granted is None else self.by_name(granted)

    def component_free(self, given: Mapping[str, Sequence[int]]) -> None:
        """See :class:`~kvlitmus.spec.interface.components.Components`."""
        self.tree.free(self.by_number(given, list))

    def component_insert(self, key: Key, entries: Mapping[str, Mapping[int, int]]) -> Places:
        """See :class:`~kvlitmus.spec.interface.components.Components`."""
        brought = [sorted(some.items()) for some in self.by_number(entries, dict)]
        ends, places = ([[pair[at] for pair in some] for some in brought] for at in (0, 1))
        return self.by_name(self.tree.insert(key.namespace, self.units(key), ends, places))

    def component_lock(self, handle: object) -> tuple[int, Places]:
        """See :class:`~kvlitmus.spec.interface.components.Components`."""
        receipt, ends = self.tree.lock(*self.found(handle))
        return receipt, self.by_name(ends)

    def component_unlock(self, receipt: object) -> None:
        """See :class:`~kvlitmus.spec.interface.components.Components`."""
        self.tree.unlock(numbered(receipt))

    def component_evict(self, wants: Mapping[str, int]) -> Mapping[str, int]:
        """See :class:`~kvlitmus.spec.interface.components.Components`."""
        return self.counted(self.tree.evict(self.by_number(wants, int)))

    def component_prefetch(
        self, handle: object, key: Key, threshold: int
    ) -> tuple[int | None, Places, Mapping[str, int]]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentPrefetch`."""
        start = len(self.found(handle)[1])
        number, freed = self.tree.prefetch(key.namespace, self.units(key), start, threshold)
        places = self.by_name(self.tree.reserved(number)) if number >= 0 else {}
        return None if number < 0 else number, places, self.counted(freed)

    def component_prefetch_found(
        self, fetch: object, stored: Mapping[str, Sequence[int]]
    ) -> tuple[int, Mapping[str, Mapping[int, int]], Places]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentPrefetch`."""
        boundary, *read = self.tree.prefetch_found(numbered(fetch), self.ends(stored))
        return boundary, self.placed(*read), {}

    def component_prefetch_settled(self, fetch: object) -> Places:
        """See :class:`~kvlitmus.spec.interface.components.ComponentPrefetch`."""
        return self.by_name(self.tree.prefetch_settled(numbered(fetch)))

    def component_prefetch_commit(self, fetch: object, came: Mapping[str, Sequence[int]]) -> tuple[int, Places]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentPrefetch`."""
        end, returned = self.tree.prefetch_commit(numbered(fetch), self.ends(came))
        return end, self.by_name(returned)

    def component_prefetch_abort(self, fetch: object) -> Places:
        """See :class:`~kvlitmus.spec.interface.components.ComponentPrefetch`."""
        return self.by_name(self.tree.prefetch_abort(numbered(fetch)))

    def component_available(self) -> Mapping[str, int]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentCounters`."""
        return dict(zip(self.pools, self.tree.available().tolist(), strict=True))

    def component_sizes(self) -> Mapping[str, Sizes]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentSizes`."""
        loose, needed = self.tree.sizes()
        return {name: Sizes(*both) for name, *both in zip(self.names, loose.tolist(), needed.tolist(), strict=True)}

    def component_events(self) -> Sequence[ComponentEvent]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentEvents`."""

        def event(stored: bool, on_host: bool, component: int, where: Any) -> ComponentEvent:
            if where is None:
                return ComponentEvent("cleared")
            what, tier = "stored" if stored else "removed", "host" if on_host else "device"
            return ComponentEvent(what, tier, self.names[component], where[0], self.spelled(where[1]))

        return [event(*one) for one in self.tree.events()]

    def component_free_places(self) -> Mapping[str, Sequence[int]]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentView`."""
        return {pool: self.tree.free_places(number).tolist() for number, pool in enumerate(self.pools)}

    def component_entries(self) -> Sequence[tuple[str, str | None, Sequence[object], int]]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentView`."""
        return self.listed(self.tree.entries())


class OptimizedComponentHierarchy(OptimizedComponents):
    """The same with host memory."""

    def __init__(self, config: Config, profile: Profile) -> None:
        super().__init__(config, profile)
        self.begun: list[ComponentBegun] = []

    def backed_up(
        self, namespace: str | None, units: Any
    ) -> tuple[int | None, dict[str, dict[int, int]], dict[str, int]]:
        """Begin to back up a prefix."""
        number, _, ends, _, places, freed = self.tree.back_up(namespace, units)
        return None if number < 0 else number, self.placed(ends, places), self.counted(freed)

    def component_insert(self, key: Key, entries: Mapping[str, Mapping[int, int]]) -> Places:
        """See :class:`~kvlitmus.spec.interface.components.Components`."""
        left = super().component_insert(key, entries)
        if self.config.write in (WRITE_THROUGH, SELECTIVE):
            units = self.units(key)
            prefix = units[: self.tree.due(key.namespace, units, self.config.write == SELECTIVE)]
            copy, places, evicted = self.backed_up(key.namespace, prefix)
            if copy is not None or any(evicted.values()):
                self.begun.append(ComponentBegun(copy, key.namespace, self.spelled(prefix), places, evicted))
        return left

    def component_begun(self) -> Sequence[ComponentBegun]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentWrites`."""
        begun, self.begun = self.begun, []
        return begun

    def component_back_up(
        self, handle: object
    ) -> tuple[int | None, Mapping[str, Mapping[int, int]], Mapping[str, int]]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentHost`."""
        return self.backed_up(*self.found(handle))

    def component_load(
        self, handle: object, key: Key
    ) -> tuple[int | None, int, Mapping[str, Mapping[int, int]], Mapping[str, int]]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentHost`."""
        start = len(self.found(handle)[1])
        number, boundary, ends, _, places, freed = self.tree.load(key.namespace, self.units(key), start)
        return None if number < 0 else number, boundary, self.placed(ends, places), self.counted(freed)

    def component_copied(self, copy: object, ok: bool) -> Places:
        """See :class:`~kvlitmus.spec.interface.components.ComponentHost`."""
        return self.by_name(self.tree.copied(numbered(copy), ok))

    def component_evict_host(self, wants: Mapping[str, int]) -> Mapping[str, int]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentHost`."""
        return self.counted(self.tree.evict_host(self.by_number(wants, int)))

    def component_available_host(self) -> Mapping[str, int]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentHostCounters`."""
        return dict(zip(self.pools, self.tree.available_host().tolist(), strict=True))

    def component_free_host(self) -> Mapping[str, Sequence[int]]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentHostView`."""
        return {pool: self.tree.free_host_places(number).tolist() for number, pool in enumerate(self.pools)}

    def component_host_entries(self) -> Sequence[tuple[str, str | None, Sequence[object], int]]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentHostView`."""
        return self.listed(self.tree.host_entries())


@dataclass(frozen=True)
class ComponentTarget:
    """What makes caches of components of the compiled core."""

    profile: Profile
    capabilities: frozenset[str] = frozenset(
        {
            "component_lookup",
            "components",
            "component_prefetch",
            "component_counters",
            "component_sizes",
            "component_events",
            "component_view",
        }
    )

    pools: tuple[str, ...] = ("component_host", "component_writes")

    def make(self, config: Config) -> OptimizedComponents:
        """A fresh cache; raises :class:`~kvlitmus.conformance.ports.Unsupported` for one with what these have not."""
        refuse_others(config)
        if config.tiered and (config.write == WRITE_BACK or config.storage != "none"):
            raise Unsupported("caches of components of the native core have no write-back, and no storage")
        return (OptimizedComponentHierarchy if config.tiered else OptimizedComponents)(config, self.profile)


ORDERED = Profile(component_order="policy", misuse="reject")

TARGETS = {
    "target": ComponentTarget(ORDERED),
    "apart": ComponentTarget(replace(ORDERED, component_cascade="none", window_root="full")),
    "leaf": ComponentTarget(replace(ORDERED, component_cascade="leaf")),
    "later": ComponentTarget(replace(ORDERED, component_cascade="later")),
}


def __getattr__(name: str) -> Any:
    """A target, once it is known that the compiled core is there; raises :class:`TargetError` otherwise."""
    return of_core(TARGETS, name, "caches of components")
