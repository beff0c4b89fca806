"""Components of the compiled core beside the reference's: each call on both, and all that there is after it.

Which of the free places are taken is nobody's promise: the reference takes those that the core took.  The core asks of
components in their order, and so does the reference here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kvlitmus.conformance.adapters.optimized.components import (
    ComponentTarget,
    OptimizedComponentHierarchy,
    OptimizedComponents,
)
from kvlitmus.conformance.adapters.reference.components import ReferenceComponentHierarchy, ReferenceComponents
from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.reference.prefix.components import tree as model
from kvlitmus.reference.prefix.components.perform import ticked
from kvlitmus.spec.interface.components import ComponentEvent
from kvlitmus.spec.prefix.calls import Alloc, Path
from kvlitmus.spec.prefix.components.state import end_name, pool_places
from kvlitmus.spec.prefix.listener import DEVICE, HOST
from kvlitmus.spec.words.units import Key

Prefix = tuple[str, str, str | None, tuple[object, ...]]
"""Tier, component, namespace and units."""


class EntryLook(NamedTuple):
    """All that is known of an entry; ticks of use and insertion as places in their order."""

    place: int
    touched: int
    created: int
    hits: int
    needed: bool


Look = tuple[Mapping[Prefix, EntryLook], object, object, object]


def look(one: Any, rows: Mapping[Prefix, EntryLook], tiers: int) -> Look:
    """All that there is: entries, with ticks in their order, free places, and counters."""
    used, made = ({tick: at for at, tick in enumerate(sorted({row[part] for row in rows.values()}))} for part in (1, 2))
    entries = {at: row._replace(touched=used[row.touched], created=made[row.created]) for at, row in rows.items()}
    frees = [one.component_free_places, *([one.component_free_host] if tiers > 1 else [])]
    free = [{pool: sorted(places) for pool, places in places_of().items()} for places_of in frees]
    counts = [one.component_available(), one.component_available_host() if tiers > 1 else {}]
    return entries, free, counts, one.component_sizes()


def listed(answer: Mapping[str, Sequence[int]]) -> Mapping[str, list[int]]:
    """Of each component, of which there is something."""
    return {name: list(some) for name, some in answer.items() if len(some)}


class Handle(NamedTuple):
    """The handle of a hit of both."""

    mine: object
    other: object


class Pair(OptimizedComponents):
    """The ports of the core; after each call the reference has done the same, or an assertion says what differs."""

    def __init__(self, config: Config, profile: Profile) -> None:
        super().__init__(config, profile)
        self.other: Any = (ReferenceComponentHierarchy if config.tiered else ReferenceComponents)(config, profile)
        self.tiers = (DEVICE, HOST) if config.tiered else (DEVICE,)
        self.told: list[ComponentEvent] = []
        self.numbers: dict[tuple[str, object], Any] = {}

    def both(self, name: str, mine: Sequence[Any], other: Sequence[Any], same: Callable[[Any], Any]) -> tuple[Any, Any]:
        """The answers of a call on both, of which ``same`` is the same; both refuse, or neither."""
        answers: list[Any] = []
        for call, given in ((getattr(super(), name), mine), (getattr(self.other, name), other)):
            try:
                answers.append(call(*given))
            except ValueError as error:
                answers.append(error)
        found, due = answers
        if isinstance(found, ValueError) and isinstance(due, ValueError):
            self.made(None)
            raise found
        refused = isinstance(found, ValueError) or isinstance(due, ValueError)
        assert not refused and same(found) == same(due), f"the core answers {found!r}, the reference {due!r}"
        return found, due

    def alike(self, name: str, *given: Any, same: Callable[[Any], Any] = lambda one: one) -> Any:
        """The answer of a call that is given the same."""
        return self.made(self.both(name, given, given, same)[0])

    def made(self, answer: Any) -> Any:
        """The answer of a call, after which all that there is is compared, and what was told."""
        told, due = super().component_events(), self.other.component_events()
        self.told += told
        forgotten = any(one.what == "cleared" for one in told)
        assert forgotten or sorted(told, key=str) == sorted(due, key=str), f"the core tells {told}, the reference {due}"
        rows: dict[Prefix, EntryLook] = {}
        others: dict[Prefix, EntryLook] = {}
        for tier in self.tiers:
            entries = self.tree.host_entries() if tier == HOST else self.tree.entries()
            for component, (namespace, units), place, (touched, created, hits, pins) in entries:
                row = (tier, self.names[component], namespace, self.spelled(units))
                assert row not in rows, "an entry is cached twice"
                rows[row] = EntryLook(place, touched, created, hits, bool(pins))
            needed = self.other.cache.covered(tier)
            for at, page in model.cached(self.other.cache, tier).items():
                row = (tier, at[0], *self.other.setting.names.prefix(at[1]))
                others[row] = EntryLook(page.page, page.touched, page.created, page.hits, at in needed)
        mine, theirs = (look(one, some, len(self.tiers)) for one, some in ((super(), rows), (self.other, others)))
        assert mine == theirs, f"the core has\n{mine}\nthe reference\n{theirs}"
        return answer

    def in_order(self, wants: Mapping[str, int]) -> dict[str, int]:
        """The same in the order of the components."""
        return {name: wants[name] for name in (*self.names, *wants) if name in wants}

    def pools_of(self, given: Mapping[str, Sequence[int]]) -> list[tuple[str, int]]:
        """Places by their pools: of several components that share one the core and the reference may name another."""
        return sorted((self.layout.named(name).pool, place) for name, some in given.items() for place in some)

    def found(self, handle: object) -> tuple[Any, Any]:
        return super().found(handle.mine if isinstance(handle, Handle) else handle)

    def component_match(self, key: Key) -> tuple[int, Any, object]:
        self.units(key)  # or it is refused before anybody is asked
        found, due = self.both("component_match", [key], [key], lambda answer: (answer[0], listed(answer[1])))
        length, places, handle = self.made(found)
        return length, places, Handle(handle, due[2])

    def component_reset(self) -> None:
        self.alike("component_reset")

    def component_alloc(self, wants: Mapping[str, int]) -> Any:
        before, wants = self.other.cache, self.in_order(wants)

        def many(answer: Any) -> object:
            return answer if answer is None else {name: len(some) for name, some in listed(answer).items()}

        granted, _ = self.both("component_alloc", [wants], [wants], many)
        if granted:
            taken, free = self.pools_of(granted), model.free_places(before, self.other.setting)
            assert len(set(taken)) == len(taken) and all(place in free[pool] for pool, place in taken), "not free"
            answer = {name: tuple(granted.get(name, ())) for name in wants}
            self.other.cache = model.folded(ticked(before), self.other.setting, Alloc(wants), answer)
        return self.made(granted)

    def component_free(self, given: Mapping[str, Sequence[int]]) -> None:
        self.alike("component_free", given)

    def component_insert(self, key: Key, entries: Mapping[str, Mapping[int, int]]) -> Any:
        self.units(key)
        return self.alike("component_insert", key, entries, same=self.pools_of)

    def component_evict(self, wants: Mapping[str, int]) -> Any:
        return self.alike("component_evict", self.in_order(wants))

    def component_events(self) -> Sequence[ComponentEvent]:
        told, self.told = self.told, []
        return told

    # -- what is out, known by other numbers to the reference ------------------------------------

    def component_lock(self, handle: object) -> Any:
        self.found(handle)  # or it is none
        found, due = self.both("component_lock", [handle], [handle.other], lambda answer: listed(answer[1]))  # type: ignore[attr-defined]
        self.numbers["receipt", found[0]] = due[0]
        return self.made(found)

    def component_unlock(self, receipt: object) -> None:
        self.made(self.both("component_unlock", [receipt], [self.numbers.get(("receipt", receipt), -1)], bool))

    def component_prefetch(self, handle: object, key: Key, threshold: int) -> Any:
        def same(answer: Any) -> object:
            return answer[0] is None, {name: len(some) for name, some in listed(answer[1]).items()}, +Counter(answer[2])

        given = [key, threshold]
        found, due = self.both("component_prefetch", [handle, *given], [handle.other, *given], same)  # type: ignore[attr-defined]
        if found[0] is not None:
            self.numbers["fetch", found[0]] = due[0]
            self.chosen(due[0], reserved=pool_places(self.layout, found[1]))
        return self.made(found)

    def chosen(self, number: int, **choice: Any) -> None:
        """A prefetch of the reference has chosen this instead."""
        fetches = self.other.cache.fetches
        self.other.cache = self.other.cache._replace(fetches={**fetches, number: fetches[number]._replace(**choice)})

    def of_fetch(self, name: str, fetch: object, *given: Any, same: Callable[[Any], Any]) -> Any:
        """The answer of a call on a prefetch."""
        number = self.numbers.get(("fetch", fetch), -1)
        found, _ = self.both(name, [fetch, *given], [number, *given], same)
        if name == "component_prefetch_found":
            into = self.pools_of({name: list(some.values()) for name, some in found[1].items()})
            own = self.other.cache.fetches[number].reserved
            assert len(set(into)) == len(into) and set(into) <= own, "it reads into places that are not its own"
            self.chosen(number, reads=found[1])
        return self.made(found)

    def component_prefetch_found(self, fetch: object, stored: Mapping[str, Sequence[int]]) -> Any:
        def same(answer: Any) -> object:
            return answer[0], {name: sorted(some) for name, some in listed(answer[1]).items()}, answer[2]

        return self.of_fetch("component_prefetch_found", fetch, stored, same=same)

    def component_prefetch_settled(self, fetch: object) -> Any:
        return self.of_fetch("component_prefetch_settled", fetch, same=self.pools_of)

    def component_prefetch_commit(self, fetch: object, came: Mapping[str, Sequence[int]]) -> Any:
        same = lambda answer: (answer[0], self.pools_of(answer[1]))  # noqa: E731
        return self.of_fetch("component_prefetch_commit", fetch, came, same=same)

    def component_prefetch_abort(self, fetch: object) -> Any:
        return self.of_fetch("component_prefetch_abort", fetch, same=self.pools_of)


class HostPair(Pair, OptimizedComponentHierarchy):
    """The same with host memory."""

    def of_copy(self, name: str, mine: Sequence[Any], other: Sequence[Any], path: Path) -> Any:
        """The answer of a call that begins a copy: the reference takes the places that the core took."""

        def same(answer: Any) -> object:
            *begun, places, freed = answer
            return (
                begun[0] is None,
                begun[1:],
                {name: sorted(some) for name, some in listed(places).items()},
                +Counter(freed),
            )

        found, due = self.both(name, mine, other, same)
        self.takes(found[0], due[0], found[-2], path)
        return self.made(found)

    def takes(self, mine: object, other: object, places: Mapping[str, Mapping[int, int]], path: Path) -> None:
        """The copy of the reference has these places instead."""
        if mine is None:
            return
        self.numbers["copy", mine] = other
        taken = {(name, end_name(path, end)): place for name, some in places.items() for end, place in some.items()}
        cache = self.other.cache
        copy = cache.under_way[other]._replace(places=taken)
        self.other.cache = cache._replace(under_way={**cache.under_way, other: copy})

    def component_insert(self, key: Key, entries: Mapping[str, Mapping[int, int]]) -> Any:
        self.units(key)
        left, _ = self.both("component_insert", [key, entries], [key, entries], self.pools_of)
        mine, due = self.begun, self.other.component_begun()
        assert len(mine) == len(due), f"the core begins {mine}, the reference {due}"
        for one, other in zip(mine, due, strict=True):
            same = [
                (
                    it.copy is None,
                    it.namespace,
                    it.units,
                    {name for name, some in it.places.items() if some},
                    +Counter(it.evicted),
                )
                for it in (one, other)
            ]
            assert same[0] == same[1], f"the core begins {one}, the reference {other}"
            self.takes(one.copy, other.copy, one.places, self.other.path(key))
        return self.made(left)

    def component_back_up(self, handle: object) -> Any:
        self.found(handle)  # or it is none
        return self.of_copy("component_back_up", [handle], [handle.other], handle.other[0])  # type: ignore[attr-defined]

    def component_load(self, handle: object, key: Key) -> Any:
        self.found(handle)
        return self.of_copy("component_load", [handle, key], [handle.other, key], self.other.path(key))  # type: ignore[attr-defined]

    def component_copied(self, copy: object, ok: bool) -> Any:
        number = self.numbers.pop(("copy", copy), None)
        if number is None:
            return super().component_copied(copy, ok)  # which refuses it; the reference knows no misuse of copies
        return self.made(self.both("component_copied", [copy, ok], [number, ok], self.pools_of)[0])

    def component_evict_host(self, wants: Mapping[str, int]) -> Any:
        return self.alike("component_evict_host", self.in_order(wants))


class PairTarget(ComponentTarget):
    """What makes such pairs."""

    def make(self, config: Config) -> Pair:
        """A fresh pair."""
        return (HostPair if config.tiered else Pair)(config, self.profile)
