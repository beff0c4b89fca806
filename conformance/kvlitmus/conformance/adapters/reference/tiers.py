"""The reference with a host below the device, and storage below that, behind the ports.

:class:`TieredReference` keeps one state of :mod:`~kvlitmus.reference.prefix.hierarchy` and replaces it with each call.
What it adds is what the reference has not: names for keys, and the contents of the pools and the storage that the suite
brings (:mod:`~kvlitmus.conformance.adapters.reference.contents`).
"""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.conformance.adapters.reference.contents import Contents, failed, fetched, held_by, queried, written
from kvlitmus.conformance.adapters.reference.flat import ReferencePorts
from kvlitmus.conformance.ports import Begun, Config, Profile
from kvlitmus.conformance.ports.arrays import key_of_array
from kvlitmus.conformance.ports.memory import ShortMemory
from kvlitmus.reference.prefix import event, load
from kvlitmus.reference.prefix.hashing import chain_start, page_hash
from kvlitmus.reference.prefix.hierarchy import (
    DEVICE,
    Listed,
    alone_of,
    empty_hierarchy,
    jobs_of,
    moving,
    occupied,
    record,
    works_of,
)
from kvlitmus.reference.prefix.perform import free_pages, perform
from kvlitmus.reference.prefix.pool import slots_of
from kvlitmus.spec.interface.tiers import (
    FETCH,
    PUT,
    QUERY,
    Event,
    Job,
    Loaded,
    Outcome,
    PageStore,
    Prefetched,
    TierNode,
    TierView,
)
from kvlitmus.spec.law.step import Step
from kvlitmus.spec.prefix.calls import Alloc, EndGroup, Extend, Free, FreeInGroup, Lock, Reset, Unlock
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work_calls import (
    Abandon,
    Advance,
    Attach,
    Detach,
    EvictHost,
    FailCopy,
    FailHostAlloc,
    LoadBack,
    Poll,
    Prefetch,
    SetClock,
    TellLoaded,
    Tick,
)
from kvlitmus.spec.words.names import Names
from kvlitmus.spec.words.schemes import Domain
from kvlitmus.spec.words.units import Key, Name, Tokens

WITHOUT_MEMORY = frozenset(
    {Alloc, Extend, Free, FreeInGroup, EndGroup, Lock, Unlock, TellLoaded, SetClock, FailHostAlloc, FailCopy}
)
"""The calls that take no memory for records of their own."""


class TieredReference(ShortMemory, ReferencePorts):
    """One reference hierarchy behind the ports."""

    flush = None  # type: ignore[assignment]  # of flat caches: what becomes of the host's copies isn't specified

    def __init__(self, config: Config, profile: Profile, names: Names | None = None) -> None:
        self.store: PageStore | None = None
        self.page_keys: dict[Name, Key] = {}
        self.hashes: dict[Name, bytes] = {}
        self.told: list[Event] = []
        self.fresh = True
        super().__init__(config, profile, names)

    def reset(self) -> None:
        """See :class:`~kvlitmus.conformance.ports.Resettable`."""
        self.saved: dict[int, Sequence[int]] = {}
        self.contents = Contents(self.config.pages + self.profile.reserved, self.config.host_pages, self.size)
        self.forget()
        if self.fresh:
            self.fresh, self.state = False, empty_hierarchy(self.setting)
        else:
            self.state = perform(self.state, self.setting, Reset()).after
            self.told.append(Event("cleared"))

    def went(self, step: Step[State]) -> None:
        """Make the copies that a call has made, and tell what has changed."""
        if type(step.call) not in WITHOUT_MEMORY:
            self.take_memory()
        self.contents.make(event.moves(step.before, step.after))
        self.told += [self.event(told) for told in event.changes(step.before, step.after)]

    def event(self, told: event.PageChange) -> Event:
        """An event as the port tells it: pages by the hashes under which they are stored."""
        page = self.hash_of(told.name)
        if told.what == event.REMOVED:
            return Event(told.what, told.tier, page)
        namespace, units = self.units_of(told.name)
        parent = self.hash_of(told.parent) if self.names.prefix(told.parent)[1] else None
        return Event(told.what, told.tier, page, parent, units, namespace)

    def fork(self, rid: int, of: int) -> Begun | None:
        """See :class:`~kvlitmus.conformance.ports.Fork`."""
        begun = super().fork(rid, of)
        if begun is not None:
            copied = self.peek(DEVICE, self.state.requests[of].row[begun.cached :])
            self.contents.poke(begun.row[begun.cached :], copied)
        return begun

    def retract(self, rid: int) -> bool:
        """See :class:`~kvlitmus.conformance.ports.Retract`."""
        held = held_by(self.state, rid, self.contents)
        retracted = super().retract(rid)
        if retracted:
            self.saved[rid] = held
        return retracted

    def resume(self, rid: int) -> Begun | None:
        """See :class:`~kvlitmus.conformance.ports.Retract`."""
        begun = super().resume(rid)
        if begun is not None:
            self.contents.poke(begun.row, self.saved.pop(rid))
        return begun

    # -- the host --------------------------------------------------------------------------------

    def host_available(self) -> int:
        """See :class:`~kvlitmus.spec.interface.tiers.HostTier`."""
        return len(works_of(self.state).free) * self.size

    def evict_host(self, n: int) -> int:
        """See :class:`~kvlitmus.spec.interface.tiers.HostTier`."""
        freed: int = self.perform(EvictHost(Tokens(n)))
        return freed

    def load_back(self, key: Key, quota: int | None = None) -> Loaded:
        """See :class:`~kvlitmus.spec.interface.tiers.HostTier`."""
        loaded: Loaded = self.perform(LoadBack(self.path(key), quota))
        return loaded

    def load_back_within(self, key: Key, quota: int) -> Loaded:
        """See :class:`~kvlitmus.spec.interface.tiers.Quota`."""
        return self.load_back(key, quota)

    def layers(self) -> int:
        """See :class:`~kvlitmus.spec.interface.tiers.Layers`."""
        return load.LAYERS

    def layers_ready(self, job: int) -> int:
        """See :class:`~kvlitmus.spec.interface.tiers.Layers`."""
        return next((one.done for one in works_of(self.state).transfers if one.id == job), 0)

    # -- prefetches ------------------------------------------------------------------------------

    def prefetch(self, rid: int, key: Key) -> Prefetched:
        """See :class:`~kvlitmus.spec.interface.tiers.Prefetching`."""
        started: Prefetched = self.perform(Prefetch(rid, self.path(key), None))
        return started

    def raw_prefetch(self, rid: int, tokens: object, namespace: str | None) -> Prefetched:
        """See :class:`~kvlitmus.spec.interface.tiers.RawPrefetching`."""
        return self.prefetch(rid, key_of_array(self, tokens, namespace))

    def poll(self, rid: int) -> bool:
        """See :class:`~kvlitmus.spec.interface.tiers.Prefetching`."""
        over: bool = self.perform(Poll(rid))
        return over

    def loaded(self, rid: int) -> int:
        """See :class:`~kvlitmus.spec.interface.tiers.Prefetching`."""
        units: int = self.perform(TellLoaded(rid))
        return units

    def abandon(self, rid: int) -> None:
        """See :class:`~kvlitmus.spec.interface.tiers.Prefetching`."""
        self.perform(Abandon(rid))

    def occupied(self) -> int:
        """See :class:`~kvlitmus.spec.interface.tiers.Prefetching`."""
        return occupied(self.state)

    # -- work in the background ------------------------------------------------------------------

    def jobs(self) -> Sequence[Job]:
        """See :class:`~kvlitmus.spec.interface.tiers.Steps`."""
        return [self.job(one) for one in jobs_of(self.state)]

    def job(self, one: Listed) -> Job:
        """A job as the port shows it."""
        key, size = self.key_of(one.names[-1]), self.size
        start, done = key.length - len(one.names) * size, one.completed * size
        return Job(one.id, one.kind, key, start, one.rid, done, one.landed, not one.landed, one.failed)

    def advance(self, job: int, outcome: Outcome) -> None:
        """See :class:`~kvlitmus.spec.interface.tiers.Steps`."""
        works = works_of(self.state)
        for waiting in works.operations:
            if waiting.job == job and waiting.stage == QUERY:
                outcome = queried(waiting, outcome, self.store, self.hash_of)
            elif waiting.job == job and waiting.stage == FETCH:
                outcome = fetched(waiting, outcome, self.store, self.hash_of, self.contents)
        for copy in works.transfers:
            if copy.id == job and not copy.landed and copy.kind == PUT:
                outcome = written(self.state, copy, outcome, self.store, self.hash_of, self.contents)
            elif copy.id == job and not copy.landed and outcome.how == "fail":
                failed(self.state, copy, self.contents)
        self.perform(Advance(job, outcome))

    def tick(self) -> None:
        """See :class:`~kvlitmus.spec.interface.tiers.Steps`."""
        self.perform(Tick())

    # -- storage, time, faults, contents ---------------------------------------------------------

    def attach(self, store: PageStore) -> bool:
        """See :class:`~kvlitmus.spec.interface.tiers.Lifecycle`."""
        fresh: bool = self.perform(Attach())
        if fresh:
            self.store = store
        return fresh

    def detach(self) -> bool:
        """See :class:`~kvlitmus.spec.interface.tiers.Lifecycle`."""
        there: bool = self.perform(Detach())
        self.store = None
        return there

    def set_clock(self, seconds: float) -> None:
        """See :class:`~kvlitmus.spec.interface.tiers.Clock`."""
        self.perform(SetClock(seconds))

    def fail_host_alloc(self, after: int) -> None:
        """See :class:`~kvlitmus.spec.interface.tiers.Faults`."""
        self.perform(FailHostAlloc(after))

    def fail_copy(self, kind: str, after: int) -> None:
        """See :class:`~kvlitmus.spec.interface.tiers.CopyFaults`."""
        self.perform(FailCopy(kind, after))

    def failing(self) -> Sequence[str]:
        """See :class:`~kvlitmus.spec.interface.tiers.CopyFaults`."""
        return sorted(works_of(self.state).failing)

    def poke(self, slots: Sequence[int], values: Sequence[int]) -> None:
        """See :class:`~kvlitmus.spec.interface.tiers.Data`."""
        self.contents.poke(slots, values)

    def peek(self, tier: str, slots: Sequence[int]) -> Sequence[int]:
        """See :class:`~kvlitmus.spec.interface.tiers.Data`."""
        return [self.contents.pools[tier][slot] for slot in slots]

    # -- observation -----------------------------------------------------------------------------

    def events(self) -> Sequence[Event]:
        """See :class:`~kvlitmus.spec.interface.tiers.Events`."""
        told, self.told = self.told, []
        return told

    def tiers(self) -> TierView:
        """See :class:`~kvlitmus.spec.interface.tiers.TierInspect`: a page that is marked begins a node."""
        runs: list[list[Name]] = []
        parents: list[int] = []
        node_of: dict[Name, int] = {}
        for name, page in [*self.state.device.pages.items(), *sorted(alone_of(self.state).items())]:
            above = node_of.get(page.parent, -1)
            if page.first or above < 0:
                node_of[name] = len(runs)
                runs.append([name])
                parents.append(above)
            else:
                node_of[name] = above
                runs[above].append(name)
        nodes = [self.tier_node(parent, run) for parent, run in zip(parents, runs, strict=True)]
        return TierView(
            sorted(free_pages(self.state, self.setting)),
            nodes,
            sorted(works_of(self.state).free),
            slots_of(moving(self.state), self.size),
        )

    def tier_node(self, parent: int, run: Sequence[Name]) -> TierNode:
        """One node as the suite sees it."""
        resident, copies, size = self.state.device.pages, self.state.host.pages, self.size
        namespace, _ = self.units_of(run[0])
        units = tuple(unit for name in run for unit in self.units_of(name)[1])
        first = record(self.state, run[0])
        slots = slots_of([resident[name].page for name in run], size) if run[0] in resident else None
        host = slots_of([copies[name].page for name in run], size) if run[0] in copies else None
        pins = max([copies[name].locks for name in run]) if run[0] in copies else 0
        hits = self.setting.counted(first.hits)
        locks = first.locks if slots is not None else 0
        return TierNode(parent, namespace, units, slots, host, locks, hits, first.priority, pins)

    # -- names -----------------------------------------------------------------------------------

    def key_of(self, name: Name) -> Key:
        """The key whose last page this is."""
        found = self.page_keys.get(name)
        if found is None:
            namespace, units = self.names.prefix(name)
            tokens = [unit[0] if isinstance(unit, tuple) else unit for unit in units]
            tokens += [unit[1] for unit in units[-1:] if isinstance(unit, tuple)]
            found = self.page_keys[name] = Key(namespace, tuple(tokens), self.config.bigram)
        return found

    def hash_of(self, name: Name) -> str:
        """The name under which a page is stored: the hash chain from the root to it."""
        found = self.hashes.get(name)
        if found is None:
            namespace, units = self.names.prefix(name)
            before = chain_start(Domain(self.size, self.config.bigram, namespace), None)
            for start in range(0, len(units), self.size):
                before = page_hash(units[start : start + self.size], before)
            found = self.hashes[name] = before
        return found.hex()
