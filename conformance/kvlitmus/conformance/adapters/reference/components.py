"""The reference cache of components as a target: the frozen model behind the ports of components."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.conformance.ports.component_configs import refuse_others
from kvlitmus.reference.prefix.components import events as component_events
from kvlitmus.reference.prefix.components import tree as model
from kvlitmus.reference.prefix.components import writes as component_writes
from kvlitmus.spec.interface import Sizes
from kvlitmus.spec.interface.components import ComponentBegun, ComponentEvent
from kvlitmus.spec.prefix.calls import Alloc, Evict, Free, Insert, Lock, Match, Path, Reset, Unlock, path_of
from kvlitmus.spec.prefix.components.calls import Begun, ComponentHit, Entries, JointCall, Taken
from kvlitmus.spec.prefix.components.state import end_name
from kvlitmus.spec.prefix.listener import DEVICE, HOST
from kvlitmus.spec.prefix.work_calls import (
    Abandon,
    Attach,
    BackUp,
    Commit,
    Copied,
    Detach,
    EvictHost,
    Fetched,
    Found,
    LoadBack,
    Prefetch,
    Write,
    Written,
)
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Key


class ReferenceLookup:
    """The reference behind the ports that all caches of components have."""

    serves = "components"
    """What it has beside these."""

    def __init__(self, config: Config, profile: Profile) -> None:
        self.setting = Setting(config, profile, 3, frozenset({self.serves}))
        self.cache = model.empty(self.setting)
        self.receipts = itertools.count()
        self.fetches = itertools.count()
        self.copies = itertools.count()
        self.begun: Sequence[Begun] = ()
        self.events: list[ComponentEvent] = []

    def perform(self, call: JointCall) -> object:
        """Perform a call, and note what is to be told of it."""
        before = self.cache
        self.cache, answer, self.begun = component_writes.perform(before, self.setting, call, self.copies)
        self.events += component_events.changes(before, self.cache, self.setting)
        return answer

    def path(self, key: Key) -> Path:
        """A key with the names of its prefixes."""
        return path_of(self.setting.names, key, self.setting.size)

    def component_match(self, key: Key) -> tuple[int, Entries, object]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentLookup`."""
        path = self.path(key)
        hit = self.perform(Match(path))
        assert isinstance(hit, ComponentHit)
        return hit.length, hit.entries, (path, hit.length)

    def component_reset(self) -> None:
        """See :class:`~kvlitmus.spec.interface.components.ComponentLookup`."""
        self.perform(Reset())

    def component_events(self) -> Sequence[ComponentEvent]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentEvents`."""
        events, self.events = self.events, []
        return events

    def component_free_places(self) -> Mapping[str, Sequence[int]]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentView`."""
        return model.free_places(self.cache, self.setting)

    def component_entries(self) -> Sequence[tuple[str, str | None, Sequence[object], int]]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentView`."""
        prefix = self.setting.names.prefix
        return [(name, *prefix(at), place) for (name, at), place in self.cache.places(DEVICE).items()]


class ReferenceComponents(ReferenceLookup):
    """The reference behind the ports of a cache of components."""

    def component_alloc(self, wants: Mapping[str, int]) -> Entries | None:
        """See :class:`~kvlitmus.spec.interface.components.Components`."""
        granted = self.perform(Alloc(dict(wants)))
        assert granted is None or isinstance(granted, dict)
        return granted

    def component_free(self, given: Mapping[str, Sequence[int]]) -> None:
        """See :class:`~kvlitmus.spec.interface.components.Components`."""
        self.perform(Free({name: tuple(some) for name, some in given.items()}))

    def component_insert(self, key: Key, entries: Mapping[str, Mapping[int, int]]) -> Entries:
        """See :class:`~kvlitmus.spec.interface.components.Components`."""
        path = self.path(key)
        brought = {(name, end_name(path, end)): place for name, some in entries.items() for end, place in some.items()}
        left = self.perform(Insert(path, brought))
        assert isinstance(left, dict)
        return left

    def component_lock(self, handle: object) -> tuple[object, Entries]:
        """See :class:`~kvlitmus.spec.interface.components.Components`."""
        assert isinstance(handle, tuple)
        path, length = handle
        receipt = next(self.receipts)
        cover = self.perform(Lock(end_name(path, length), receipt))
        assert isinstance(cover, dict)
        return receipt, cover

    def component_unlock(self, receipt: object) -> None:
        """See :class:`~kvlitmus.spec.interface.components.Components`."""
        assert isinstance(receipt, int)
        self.perform(Unlock(receipt))

    def component_evict(self, wants: Mapping[str, int]) -> Mapping[str, int]:
        """See :class:`~kvlitmus.spec.interface.components.Components`."""
        freed = self.perform(Evict(dict(wants)))
        assert isinstance(freed, dict)
        return freed

    def component_prefetch(
        self, handle: object, key: Key, threshold: int
    ) -> tuple[int | None, Entries, Mapping[str, int]]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentPrefetch`."""
        assert isinstance(handle, tuple)
        number = next(self.fetches)
        answer = self.perform(Prefetch(number, self.path(key), handle[1], threshold))
        assert isinstance(answer, Taken)
        return None if answer.places is None else number, answer.places or {}, answer.freed

    def component_prefetch_found(
        self, fetch: object, stored: Mapping[str, Sequence[int]]
    ) -> tuple[int, Mapping[str, Mapping[int, int]], Entries]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentPrefetch`."""
        assert isinstance(fetch, int)
        answer = self.perform(Found(fetch, {name: frozenset(some) for name, some in stored.items()}))
        assert isinstance(answer, Taken) and answer.places is not None
        return answer.boundary, answer.places, answer.returned

    def component_prefetch_settled(self, fetch: object) -> Entries:
        """See :class:`~kvlitmus.spec.interface.components.ComponentPrefetch`."""
        assert isinstance(fetch, int)
        returned = self.perform(Fetched(fetch))
        assert isinstance(returned, dict)
        return returned

    def component_prefetch_commit(self, fetch: object, came: Mapping[str, Sequence[int]]) -> tuple[int, Entries]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentPrefetch`."""
        assert isinstance(fetch, int)
        answer = self.perform(Commit(fetch, {name: frozenset(some) for name, some in came.items()}))
        assert isinstance(answer, Taken)
        return answer.boundary, answer.returned

    def component_prefetch_abort(self, fetch: object) -> Entries:
        """See :class:`~kvlitmus.spec.interface.components.ComponentPrefetch`."""
        assert isinstance(fetch, int)
        returned = self.perform(Abandon(fetch))
        assert isinstance(returned, dict)
        return returned

    def component_available(self) -> Mapping[str, int]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentCounters`."""
        return {pool: len(free) for pool, free in model.free_places(self.cache, self.setting).items()}

    def component_sizes(self) -> Mapping[str, Sizes]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentSizes`."""
        return model.sizes(self.cache, self.setting)


class ReferenceComponentHierarchy(ReferenceComponents):
    """The reference behind the ports of a cache of components with host memory."""

    def component_back_up(
        self, handle: object
    ) -> tuple[int | None, Mapping[str, Mapping[int, int]], Mapping[str, int]]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentHost`."""
        assert isinstance(handle, tuple)
        path, length = handle
        number = next(self.copies)
        answer = self.perform(BackUp(path, length, number))
        assert isinstance(answer, Taken)
        return None if answer.places is None else number, answer.places or {}, answer.freed

    def component_load(
        self, handle: object, key: Key
    ) -> tuple[int | None, int, Mapping[str, Mapping[int, int]], Mapping[str, int]]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentHost`."""
        assert isinstance(handle, tuple)
        number = next(self.copies)
        answer = self.perform(LoadBack(self.path(key), start=handle[1], number=number))
        assert isinstance(answer, Taken)
        return None if answer.places is None else number, answer.boundary, answer.places or {}, answer.freed

    def component_copied(self, copy: object, ok: bool) -> Entries:
        """See :class:`~kvlitmus.spec.interface.components.ComponentHost`."""
        assert isinstance(copy, int)
        returned = self.perform(Copied(copy, ok))
        assert isinstance(returned, dict)
        return returned

    def component_evict_host(self, wants: Mapping[str, int]) -> Mapping[str, int]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentHost`."""
        freed = self.perform(EvictHost(dict(wants)))
        assert isinstance(freed, dict)
        return freed

    def component_begun(self) -> Sequence[ComponentBegun]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentWrites`."""
        begun, self.begun = self.begun, ()
        prefix = self.setting.names.prefix
        return [
            ComponentBegun(
                None if one.ended or one.answer.places is None else one.call.number,
                *prefix(one.call.path.names[-1]),
                one.answer.places or {},
                one.answer.freed,
            )
            for one in begun
        ]

    def component_available_host(self) -> Mapping[str, int]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentHostCounters`."""
        return {pool: len(free) for pool, free in model.free_places(self.cache, self.setting, HOST).items()}

    def component_free_host(self) -> Mapping[str, Sequence[int]]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentHostView`."""
        return model.free_places(self.cache, self.setting, HOST)

    def component_host_entries(self) -> Sequence[tuple[str, str | None, Sequence[object], int]]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentHostView`."""
        prefix = self.setting.names.prefix
        return [(name, *prefix(at), place) for (name, at), place in self.cache.places(HOST).items()]


class ReferenceComponentStorage(ReferenceComponentHierarchy):
    """The reference behind the ports of a cache of components with storage behind its host memory."""

    def component_attach(self) -> None:
        """See :class:`~kvlitmus.spec.interface.components.ComponentStorage`."""
        self.perform(Attach())

    def component_detach(self) -> Entries:
        """See :class:`~kvlitmus.spec.interface.components.ComponentStorage`."""
        returned = self.perform(Detach())
        assert isinstance(returned, dict)
        return returned

    def component_write(
        self, handle: object, stored: Mapping[str, Sequence[int]]
    ) -> tuple[int | None, Mapping[str, Sequence[int]]]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentStorage`."""
        assert isinstance(handle, tuple)
        path, length = handle
        number = next(self.copies)
        has = {name: frozenset(some) for name, some in stored.items()}
        answer = self.perform(Write(path, length, has, number))
        assert isinstance(answer, Taken)
        if answer.places is None:
            return None, {}
        return number, {name: sorted(some) for name, some in answer.places.items()}

    def component_written(self, write: object, ok: bool) -> None:
        """See :class:`~kvlitmus.spec.interface.components.ComponentStorage`."""
        assert isinstance(write, int)
        self.perform(Written(write, ok))


class ReferenceComponentTarget:
    """The target ``reference-components``, or a variant of it with other legal choices."""

    capabilities = (
        "component_lookup",
        "components",
        "component_prefetch",
        "component_counters",
        "component_sizes",
        "component_events",
        "component_view",
    )
    pools = ("component_host", "component_writes", "component_storage")

    def __init__(self, profile: Profile) -> None:
        self.profile = profile

    def make(self, config: Config) -> ReferenceComponents:
        """A fresh cache of the components of the configuration."""
        refuse_others(config)
        if config.tiered and config.storage != "none":
            return ReferenceComponentStorage(config, self.profile)
        return (ReferenceComponentHierarchy if config.tiered else ReferenceComponents)(config, self.profile)


ORDERED = Profile(component_order="policy", misuse="reject")

target = ReferenceComponentTarget(ORDERED)
"""The reference: other components go with the KV of their prefix."""

apart_target = ReferenceComponentTarget(replace(ORDERED, component_cascade="none", window_root="full"))
"""The reference when components are evicted each alone, and a window must be there in full."""

leaf_target = ReferenceComponentTarget(replace(ORDERED, component_cascade="leaf"))
"""The reference when a leaf goes as a whole."""

paths_target = ReferenceComponentTarget(
    replace(ORDERED, component_landing="begun", component_extent="path", component_host_spares="device")
)
"""The reference when copies count from their beginning and go by their path, and the host spares what is on both."""
