"""The reference with a host below the device, and storage below that, behind the ports.

:class:`TieredReference` keeps one :class:`~kvlitmus.reference.hierarchy.Hierarchy` and replaces it with each call.
What it adds is what a model has not: names for keys, and with :mod:`~kvlitmus.conformance.adapters.reference.contents`
the contents of the pools and the storage that the suite brings.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.conformance.adapters.reference.choices import choices_of
from kvlitmus.conformance.adapters.reference.contents import Contents, failed, fetched, queried, written
from kvlitmus.conformance.adapters.reference.flat import ReferencePorts
from kvlitmus.conformance.ports import Begun, Config, Hit, Profile, Stored
from kvlitmus.conformance.ports.tiers import (
    Event,
    Job,
    Loaded,
    Outcome,
    PageStore,
    Prefetched,
    ShortMemory,
    TierNode,
    TierView,
)
from kvlitmus.reference import backup, event, fetch, life, load, tier
from kvlitmus.reference import pool as pools
from kvlitmus.reference.hashing import chain_start, page_hash
from kvlitmus.reference.hierarchy import Hierarchy, empty_hierarchy, moving, occupied
from kvlitmus.spec.calls import Begin, End, Insert, Publish
from kvlitmus.spec.interface.tiers import FETCH, LOAD, PUT, QUERY
from kvlitmus.spec.names import Names, page_names
from kvlitmus.spec.prefetch_life import ANSWERED, ENDED, REVOKED
from kvlitmus.spec.schemes import Domain
from kvlitmus.spec.setting import SNAPSHOT, Setting
from kvlitmus.spec.state import Page, State
from kvlitmus.spec.units import Key, Name, Pages, RequestId, Slot, Tokens

TIERED = frozenset({"tiers"})


class TieredReference(ShortMemory, ReferencePorts):
    """One reference hierarchy behind the ports."""

    def __init__(self, config: Config, profile: Profile, names: Names | None = None) -> None:
        self.store: PageStore | None = None
        self.page_keys: dict[Name, Key] = {}
        self.hashes: dict[Name, bytes] = {}
        self.told: list[Event] = []
        self.now = empty_hierarchy(Setting(config, profile, SNAPSHOT, TIERED), choices_of(config, profile))
        self.fresh = True
        super().__init__(config, profile, names)

    def reset(self) -> None:
        """See :class:`~kvlitmus.conformance.ports.Resettable`."""
        if not self.fresh:
            self.now = life.reset(self.now)
            self.told.append(Event("cleared"))
        self.fresh = False
        self.contents = Contents(self.config.pages + self.profile.reserved, self.config.host_pages, self.size)
        self.forget()

    @property
    def state(self) -> State:
        """What is on the device, for the calls that concern it alone."""
        return self.now.cache

    @state.setter
    def state(self, state: State) -> None:
        self.now = self.now._replace(cache=state)

    def go(self, after: Hierarchy) -> None:
        """This is how it stands after a call: make the copies that it wants made, and tell what changed."""
        self.take_memory()
        before = self.now
        if after.moved:
            self.contents.make(after.moved)
            after = after._replace(moved=())
        self.now = after._replace(cache=self.withheld(before.cache, after.cache))
        for told in event.changes(before, after):
            self.told.append(self.event(told))

    def event(self, told: event.Told) -> Event:
        """An event as the port tells it: pages by the hashes under which they are stored."""
        page = self.hash_of(told.name)
        if told.what == event.REMOVED:
            return Event(told.what, told.tier, page)
        namespace, units = self.units_of(told.name)
        parent = self.hash_of(told.parent) if self.names.prefix(told.parent)[1] else None
        return Event(told.what, told.tier, page, parent, units, namespace)

    # -- tree and requests -----------------------------------------------------------------------

    def named(self, key: Key) -> tuple[Name, tuple[Name, ...]]:
        """The root of the key's namespace, and the names of all prefixes of the key."""
        root = self.names.root(key.namespace)
        return root, self.names.extend(root, key.units)

    def match(self, key: Key) -> Hit:
        """See :class:`~kvlitmus.conformance.ports.PrefixTree`."""
        root, names = self.named(key)
        paged = page_names(names, self.size)
        after, pages, behind = tier.match(self.now, paged, len(names))
        self.go(after)
        end = paged[len(pages) - 1] if pages else root
        return Hit(len(pages) * self.size, pools.slots_of(pages, self.size), end, behind * self.size)

    def insert(
        self, key: Key, slots: Sequence[int], *, protected: int = 0, priority: int = 0, chunked: bool = False
    ) -> Stored:
        """See :class:`~kvlitmus.conformance.ports.PrefixTree`."""
        call = Insert(self.path(key), tuple(map(Slot, slots)), protected, priority, chunked)
        after, stored = life.insert(self.now, call)
        self.go(after)
        return stored

    def evict(self, n: int) -> int:
        """See :class:`~kvlitmus.conformance.ports.Evict`."""
        after, freed, _ = tier.evict(self.now, Tokens(n), self.choice.victims)
        self.go(after)
        return freed

    def begin(self, rid: int, key: Key) -> Begun | None:
        """See :class:`~kvlitmus.conformance.ports.Requests`."""
        after, begun = life.begin(self.now, Begin(rid, self.path(key, row=True)), self.choice)
        self.go(after)
        return begun

    def grow(self, rid: int, tokens: Sequence[int]) -> Sequence[int] | None:
        """See :class:`~kvlitmus.conformance.ports.Requests`."""
        after, new = life.grow(self.now, self.grown(rid, tokens), self.choice)
        self.go(after)
        return new

    def publish(self, rid: int, *, chunked: bool) -> Begun:
        """See :class:`~kvlitmus.conformance.ports.Requests`."""
        after, begun = life.publish(self.now, Publish(rid, None, chunked))
        self.go(after)
        return begun

    def end(self, rid: int, *, keep: bool) -> None:
        """See :class:`~kvlitmus.conformance.ports.Requests`."""
        self.go(life.end(self.now, End(rid, keep)))

    def publish_upto(self, rid: int, upto: int, *, chunked: bool) -> Begun:
        """See :class:`~kvlitmus.conformance.ports.PartlyComputed`."""
        after, begun = life.publish(self.now, Publish(rid, upto, chunked))
        self.go(after)
        return begun

    def end_upto(self, rid: int, upto: int) -> None:
        """See :class:`~kvlitmus.conformance.ports.PartlyComputed`."""
        self.go(life.end(self.now, End(rid, True, upto)))

    # -- the host --------------------------------------------------------------------------------

    def host_available(self) -> int:
        """See :class:`~kvlitmus.conformance.ports.tiers.HostTier`."""
        return pools.available(self.now.host.pool)

    def evict_host(self, n: int) -> int:
        """See :class:`~kvlitmus.conformance.ports.tiers.HostTier`."""
        after, freed = tier.evict_host(self.now, Pages(-(-n // self.size)))
        self.go(after)
        return freed

    def load_back(self, key: Key, quota: int | None = None) -> Loaded:
        """See :class:`~kvlitmus.conformance.ports.tiers.HostTier`."""
        root, names = self.named(key)
        paged = page_names(names, self.size)
        limit = None if quota is None else Tokens(quota)
        after, before, pages = load.load_back(self.now, root, paged, self.choice.victims, quota=limit)
        self.go(after)
        return Loaded(before * self.size, None if pages is None else pools.slots_of(pages, self.size))

    def load_back_within(self, key: Key, quota: int) -> Loaded:
        """See :class:`~kvlitmus.conformance.ports.tiers.Quota`."""
        return self.load_back(key, quota)

    def layers(self) -> int:
        """See :class:`~kvlitmus.conformance.ports.tiers.Layers`."""
        return load.LAYERS

    def layers_ready(self, job: int) -> int:
        """See :class:`~kvlitmus.conformance.ports.tiers.Layers`."""
        return next((one.layers for one in self.now.transfers if one.id == job), 0)

    # -- prefetches ------------------------------------------------------------------------------

    def prefetch(self, rid: int, key: Key) -> Prefetched:
        """See :class:`~kvlitmus.conformance.ports.tiers.Prefetching`."""
        root, names = self.named(key)
        paged = page_names(names, self.size)
        after, submitted = fetch.submit(self.now, RequestId(rid), root, paged, len(names))
        self.go(after)
        matched = submitted.matched * self.size
        return Prefetched(submitted.started, matched, submitted.asked, matched if submitted.started else None)

    def poll(self, rid: int) -> bool:
        """See :class:`~kvlitmus.conformance.ports.tiers.Prefetching`."""
        after, over = fetch.poll(self.now, RequestId(rid))
        self.go(after)
        return over

    def loaded(self, rid: int) -> int:
        """See :class:`~kvlitmus.conformance.ports.tiers.Prefetching`."""
        self.now, units = fetch.told(self.now, RequestId(rid))
        return units

    def abandon(self, rid: int) -> None:
        """See :class:`~kvlitmus.conformance.ports.tiers.Prefetching`."""
        self.go(fetch.abandon(self.now, RequestId(rid)))

    def occupied(self) -> int:
        """See :class:`~kvlitmus.conformance.ports.tiers.Prefetching`."""
        return occupied(self.now)

    # -- work in the background ------------------------------------------------------------------

    def jobs(self) -> Sequence[Job]:
        """See :class:`~kvlitmus.conformance.ports.tiers.Steps`."""
        found = [
            self.job(one.id, one.kind, one.names, landed=one.landed)._replace(failed=one.failed)
            for one in self.now.transfers
        ]
        found += [self.job(one.id, PUT, one.names, landed=one.landed) for one in self.now.puts]
        for one in self.now.operations:
            if one.stage != ENDED:
                kind = FETCH if one.stage == FETCH else QUERY
                landed = one.stage in (ANSWERED, REVOKED)
                found.append(self.job(one.job, kind, one.names, one.rid, done=one.completed, landed=landed))
        return sorted(found)

    def job(
        self, id: int, kind: str, names: Sequence[Name], rid: int = -1, *, done: int = 0, landed: bool = False
    ) -> Job:
        """A job as the port shows it."""
        key = self.key_of(names[-1])
        start = key.length - len(names) * self.size
        return Job(id, kind, key, start, rid, done * self.size, landed, not landed)

    def advance(self, job: int, outcome: Outcome) -> None:
        """See :class:`~kvlitmus.conformance.ports.tiers.Steps`."""
        found = next((one for one in self.jobs() if one.id == job), None)
        if found is None or found.landed:
            raise ValueError(f"job {job} can't go on: it is over, or there is none", job)
        if found.kind == QUERY:
            self.go(queried(self.now, job, outcome, self.store, self.hash_of))
        elif found.kind == FETCH:
            self.go(fetched(self.now, job, outcome, self.store, self.hash_of, self.contents))
        elif found.kind == PUT:
            self.go(written(self.now, job, outcome, self.store, self.hash_of, self.contents))
        elif outcome.how == "fail":
            self.go(failed(self.now, job, self.contents))
        elif found.kind == LOAD:
            self.go(load.copy_layers(self.now, job, outcome.pages if outcome.how == "part" else load.LAYERS))
        else:
            self.go(backup.land(self.now, job))

    def tick(self) -> None:
        """See :class:`~kvlitmus.conformance.ports.tiers.Steps`."""
        self.go(life.tick(self.now))

    # -- storage, time, faults, contents ---------------------------------------------------------

    def attach(self, store: PageStore) -> bool:
        """See :class:`~kvlitmus.conformance.ports.tiers.Lifecycle`."""
        self.now, fresh = life.attach(self.now)
        if fresh:
            self.store = store
        return fresh

    def detach(self) -> bool:
        """See :class:`~kvlitmus.conformance.ports.tiers.Lifecycle`."""
        after, there = life.detach(self.now)
        self.go(after)
        self.store = None
        return there

    def set_clock(self, seconds: float) -> None:
        """See :class:`~kvlitmus.conformance.ports.tiers.Clock`."""
        self.now = self.now._replace(now=seconds)

    def fail_host_alloc(self, after: int) -> None:
        """See :class:`~kvlitmus.conformance.ports.tiers.Faults`."""
        self.now = self.now._replace(host=self.now.host._replace(fault=after))

    def fail_copy(self, kind: str, after: int) -> None:
        """See :class:`~kvlitmus.conformance.ports.tiers.CopyFaults`."""
        self.now = self.now._replace(failing={**self.now.failing, kind: after})

    def failing(self) -> Sequence[str]:
        """See :class:`~kvlitmus.conformance.ports.tiers.CopyFaults`."""
        return sorted(self.now.failing)

    def poke(self, slots: Sequence[int], values: Sequence[int]) -> None:
        """See :class:`~kvlitmus.conformance.ports.tiers.Data`."""
        self.contents.poke(slots, values)

    def peek(self, tier: str, slots: Sequence[int]) -> Sequence[int]:
        """See :class:`~kvlitmus.conformance.ports.tiers.Data`."""
        return [self.contents.pools[tier][slot] for slot in slots]

    # -- observation -----------------------------------------------------------------------------

    def events(self) -> Sequence[Event]:
        """See :class:`~kvlitmus.conformance.ports.tiers.Events`."""
        told, self.told = self.told, []
        return told

    def tiers(self) -> TierView:
        """See :class:`~kvlitmus.conformance.ports.tiers.TierInspect`: a page that is marked begins a node."""
        runs: list[list[Name]] = []
        parents: list[int] = []
        node_of: dict[Name, int] = {}
        for name, page in [*self.now.cache.tree.pages.items(), *sorted(self.now.host.alone.items())]:
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
            sorted(self.now.free),
            nodes,
            sorted(self.now.host.pool.free),
            pools.slots_of(moving(self.now), self.size),
        )

    def tier_node(self, parent: int, run: Sequence[Name]) -> TierNode:
        """One node as the suite sees it."""
        resident, copies, size = self.now.cache.tree.pages, self.now.host.copies, self.size
        namespace, _ = self.units_of(run[0])
        units = tuple(unit for name in run for unit in self.units_of(name)[1])
        first: Page = resident.get(run[0]) or self.now.host.alone[run[0]]
        slots = pools.slots_of([resident[name].page for name in run], size) if run[0] in resident else None
        host = pools.slots_of([copies[name].page for name in run], size) if run[0] in copies else None
        pins = max([copies[name].pins for name in run]) if run[0] in copies else 0
        return TierNode(parent, namespace, units, slots, host, first.locks, first.hits, first.priority, pins)

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
