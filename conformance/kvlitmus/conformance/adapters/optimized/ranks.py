"""The optimized cache on several ranks as a target.

``target``
    a :class:`~kvlitmus.optimized.ranks.RankedCache` for each rank, all in one process, with copies of nothing.
``python``
    the same on the core in Python, and whenever it is looked at, its counters, sets and heaps are counted again.

A call is a step of a scheduler: the rank ticks, its vector is reduced over the groups and along the stages that the
world has, it settles what came out, and does what it was asked.  What has happened to it alone until then its vector
tells.  After a poll or an abort it settles once more: what nobody waits for any longer is given back then.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kvlitmus.conformance.adapters.optimized.flat import PROFILE, missing
from kvlitmus.conformance.ports import Config, Profile, Unsupported
from kvlitmus.conformance.run.plan import RANK_CONFIGS
from kvlitmus.conformance.run.targets import TargetError
from kvlitmus.conformance.specimen.ranks import RankLink
from kvlitmus.spec.interface.ranks import RANK_PORTS, Ask, Decision, Exchange, Local, Prefix, RankView, World

if TYPE_CHECKING:
    from kvlitmus.optimized.ranks import RankedCache
    from kvlitmus.optimized.storage.base import Buffer
    from kvlitmus.optimized.work import Operation, Work

ENDLESS = 1 << 30
"""More pages than prefetches read."""

Asking = Generator[Exchange, tuple[int, ...], Sequence[Decision]]


def prefixes(units: Any, start: int) -> tuple[Prefix, ...]:
    """The pages of a key from so many on."""
    key = tuple(units.tolist())
    return tuple(key[:at] for at in range(start + 1, len(key) + 1))


class Storage:
    """The storage of one rank: it has what the suite says, and takes everything."""

    def __init__(self) -> None:
        self.has = 0
        self.broken = False

    def exists(self, keys: Sequence[str]) -> int:
        """See :class:`kvlitmus.optimized.storage.base.PageStore`."""
        return min(self.has, len(keys))

    def get(self, keys: Sequence[str], size: int | None = None) -> list[bytes | None]:
        """See :class:`kvlitmus.optimized.storage.base.PageStore`; pages have no contents."""
        return [None if self.broken else b"" for _ in keys]

    def get_into(self, keys: Sequence[str], buffers: Sequence[bytearray | memoryview]) -> list[bool]:
        """See :class:`kvlitmus.optimized.storage.base.PageStore`."""
        return [not self.broken for _ in keys]

    def put(self, keys: Sequence[str], values: Sequence[Buffer]) -> list[bool]:
        """See :class:`kvlitmus.optimized.storage.base.PageStore`."""
        return [True for _ in keys]

    def clear(self) -> None:
        """See :class:`kvlitmus.optimized.storage.base.PageStore`."""


class OneRank:
    """One rank: its cache, its storage, and what it has decided in the call under way."""

    def __init__(self, world: World, number: int, target: RanksTarget, policy: str) -> None:
        from kvlitmus.optimized.testing import SetClock

        self.world, self.number, self.target, self.policy = world, number, target, policy
        self.clock = SetClock()
        self.begin()

    def begin(self) -> None:
        """Begin empty, with storage."""
        from kvlitmus.optimized.cache import CacheConfig

        world = self.world
        config = CacheConfig(
            pages=world.pages,
            reserved=0,
            policy=self.policy,
            host_pages=world.host_pages,
            stop=world.stop,
            rate_limit=ENDLESS,
            timeout=(world.limit, 0.0, 0.0),
            core=self.target.core,
        )
        members = next(tree for at in range(len(world.trees)) if self.number in (tree := world.tree(at)))
        self.cache: RankedCache = self.target.rank(
            config, rank=members.index(self.number), ranks=len(members), clock=self.clock
        )
        self.storage = Storage()
        self.cache.attach(self.storage)
        self.answers: dict[int, int] = {}
        self.ended: set[int] = set()
        self.listen()

    def listen(self) -> None:
        """Hear which pages come and go."""
        self.victims: dict[str, list[Prefix]] = {"device": [], "host": []}
        self.cache.tree.tell = self.hear

    def hear(self, what: str, tier: str, run: Any) -> None:
        """Pages come or go."""
        if what == "removed":
            tree = self.cache.tree
            gone = prefixes(tree.path_units(tree.place(run.branch, run.hi)), run.branch.base + run.lo)
            self.victims[tier] += reversed(gone)

    # -- calls ---------------------------------------------------------------------------------

    def ask(self, ask: Ask) -> Asking:
        """A step of the scheduler."""
        from kvlitmus.optimized.ranks import RanksParted

        cache = self.cache
        self.work_on(ask)
        copies = {"write": self.copies(cache.backups.queue), "load": self.copies(cache.loads.queue)}
        reading = cache.fetches.ongoing.get(ask.rid)
        queried = reading is not None and reading.stage == "query"
        for victims in self.victims.values():
            victims.clear()
        try:
            yield from self.agree()
        except RanksParted:
            if ask.what != "rejoin":
                raise
            cache.reset(abort=True)
            self.answers.clear()
            self.ended.clear()
            self.listen()
            return [Decision("commit", "reset", ())]
        decided = [self.noted(kind, before) for kind, before in copies.items()]
        if ask.what == "hit" and reading is not None and queried and reading.stage != "query":
            decided.append(Decision("grant", "hit", self.pages_of(reading)[: reading.hit] if reading.live else ()))
        decided += getattr(self, f"ask_{ask.what}", nothing)(ask)
        if ask.what in ("poll", "abort"):
            self.work_on(ask)
            yield from self.agree()
        gone = [Decision("victims", tier, tuple(pages)) for tier, pages in self.victims.items() if pages]
        return [one for one in [*gone, *decided] if one.prefixes or one.kind in ("match", "commit") or one.of == "hit"]

    def agree(self) -> Generator[Exchange, tuple[int, ...], None]:
        """Tick, reduce over all ranks of the tree, settle."""
        vector = self.cache.tick()
        link = RankLink(self.world, self.number)
        vector[:] = yield from link.agree("min", self.cache.layout.names, vector.tolist())
        self.cache.settle(vector)

    def work_on(self, ask: Ask) -> None:
        """What works in the background goes on: what nobody waits for ends, and pages are put.

        Copies and answers of storage come to the cache when it is asked to take note of them.
        """
        for work in self.cache.jobs():
            told = ask.what == "acks" and work.id in self.ended
            told = told or (ask.what == "hit" and work.kind == "query" and work.rid == ask.rid in self.answers)
            if not work.landed and (work.cancelled or work.kind == "put" or told):
                self.storage.has = self.answers.get(work.rid, 0)
                self.cache.advance(work.id)

    def copies(self, queue: Any) -> dict[Any, tuple[Prefix, ...]]:
        """Copies under way, each with its pages."""
        return {work: self.span(work) for work in queue}

    def span(self, work: Work) -> tuple[Prefix, ...]:
        """The pages of a copy."""
        _, units, start = self.cache.span(work)
        return prefixes(units, start)

    def pages_of(self, operation: Operation) -> tuple[Prefix, ...]:
        """The pages of a prefetch."""
        return prefixes(operation.units, operation.start)

    def noted(self, kind: str, before: dict[Any, tuple[Prefix, ...]]) -> Decision:
        """The copies that were acknowledged."""
        queue = self.cache.backups.queue if kind == "write" else self.cache.loads.queue
        return Decision("ack", kind, tuple(page for work in before if work not in queue for page in before[work]))

    def ask_match(self, ask: Ask) -> list[Decision]:
        """The longest prefix on the device."""
        found = self.cache.match(ask.key)
        return [Decision("match", "device", (ask.key[: len(found.pages)],))]

    def ask_evict(self, ask: Ask) -> list[Decision]:
        """Evict, of the device."""
        self.cache.evict(ask.pages)
        return []

    def ask_insert(self, ask: Ask) -> list[Decision]:
        """What a request computes is cached, as much as there is room for."""
        import numpy as np

        cache = self.cache
        found = cache.match(ask.key)
        there = len(found.pages)
        path = cache.lock(cache.tree.ascend(found.place, there))
        missing = min(len(ask.key) - there, cache.available() + cache.tree.evictable)
        cache.evict(max(0, missing - cache.available()))
        slots = cache.alloc(missing)
        assert slots is not None
        before = list(cache.backups.queue)
        cache.insert(ask.key[: there + missing], np.concatenate([found.pages, slots]))
        cache.unlock(path)
        begun = [page for work in cache.backups.queue if work not in before for page in self.span(work)]
        pages = prefixes(np.array(ask.key[: there + missing]), there)
        return [Decision("commit", "device", pages), Decision("grant", "write", tuple(begun))]

    def ask_load(self, ask: Ask) -> list[Decision]:
        """Load a key back."""
        work = self.cache.load_back(ask.key).work
        return [Decision("grant", "load", () if work is None else self.span(work))]

    def ask_prefetch(self, ask: Ask) -> list[Decision]:
        """Begin to read a key."""
        if not self.cache.prefetch(ask.rid, ask.key).started:
            return []
        self.answers.pop(ask.rid, None)
        return [Decision("grant", "read", self.pages_of(self.cache.fetches.ongoing[ask.rid]))]

    def ask_poll(self, ask: Ask) -> list[Decision]:
        """End a prefetch, if it may end."""
        operation = self.cache.fetches.ongoing.get(ask.rid)
        if operation is None or not self.cache.poll(ask.rid):
            return []
        read = self.pages_of(operation)[: operation.completed]
        return [Decision("commit", "kv", read), Decision("commit", "window", ())]

    def ask_abort(self, ask: Ask) -> list[Decision]:
        """The request is gone."""
        self.cache.abandon(ask.rid)
        return []

    # -- what happens to this rank alone -------------------------------------------------------

    def local(self, event: Local) -> Sequence[Prefix] | None:
        """Something happens to this rank alone."""
        happen = getattr(self, f"local_{event.what}")
        ended: Sequence[Prefix] | None = happen(event)
        return ended

    def local_wrote(self, event: Local) -> Sequence[Prefix]:
        """A backup has landed: all pages of the node."""
        return self.land(self.cache.backups.queue, event.key)

    def local_loaded(self, event: Local) -> Sequence[Prefix]:
        """A load has landed: all its pages."""
        return self.land(self.cache.loads.queue, event.key)

    def land(self, queue: Any, page: Prefix) -> Sequence[Prefix]:
        """The copy of this page has landed."""
        for work, pages in self.copies(queue).items():
            if page in pages and work.id not in self.ended:
                self.ended.add(work.id)
                return pages
        raise NotImplementedError

    def local_found(self, event: Local) -> None:
        """Storage has answered: with a prefix, for there is only KV."""
        if event.boundaries != tuple(range(1, len(event.boundaries) + 1)):
            raise NotImplementedError
        self.answers[event.rid] = len(event.boundaries)

    def reading(self, event: Local) -> Work:
        """The job that reads for a request; raises where nothing is being read."""
        operation = self.cache.fetches.ongoing.get(event.rid)
        work = None if operation is None else operation.work
        if work is None or work.kind != "fetch" or work.landed:
            raise NotImplementedError
        return work

    def local_read(self, event: Local) -> None:
        """So many pages have been read by now."""
        operation = self.cache.fetches.ongoing.get(event.rid)
        work = None if operation is None else operation.work
        if work is not None and work.kind == "fetch" and event.pages == work.done:
            return
        work = self.reading(event)
        if event.pages < work.done:
            raise NotImplementedError
        self.cache.advance(work.id, event.pages - work.done)

    def local_failed(self, event: Local) -> None:
        """Reading has ended early."""
        work = self.reading(event)
        self.storage.broken = True
        self.cache.advance(work.id)
        self.storage.broken = False

    def local_clock(self, event: Local) -> None:
        """It is so late here."""
        self.clock.seconds = event.pages

    def local_pinch(self, event: Local) -> None:
        """Others have so many pages of the host."""
        self.cache.lend("host", event.pages)

    def local_attach(self, event: Local) -> None:
        """Storage comes or goes."""
        if event.pages:
            self.cache.attach(self.storage)
        else:
            self.cache.detach()

    def local_die(self, event: Local) -> None:
        """It is gone."""

    def local_restart(self, event: Local) -> None:
        """It is back, empty."""
        self.begin()

    # -- looking -------------------------------------------------------------------------------

    def view(self) -> RankView:
        """A look at this rank; raises ``AssertionError`` where its tree is not in order, if it is audited.

        A page counts as cached as soon as its copy begins.
        """
        from kvlitmus.optimized.audit import audit
        from kvlitmus.optimized.view import nodes_of

        cache = self.cache
        tree = cache.tree.opened()
        if self.target.audited:
            audit(tree)
        found: dict[str, list[tuple[int, int, Prefix]]] = {"device": [], "host": []}
        paths: list[Prefix] = []
        for node in nodes_of(tree):
            above = paths[node.parent] if node.parent >= 0 else ()
            paths.append((*above, *node.units.tolist()))
            for page in (paths[-1][:at] for at in range(len(above) + 1, len(paths[-1]) + 1)):
                entry = (node.touched, len(page), page)
                if node.pages is not None:
                    found["device"].append(entry)
                if node.host_pages is not None:
                    found["host"].append(entry)
        device, host = (tuple(page for _, _, page in sorted(pages)) for pages in found.values())
        ongoing = cache.fetches.ongoing.values()
        reads = sorted([(int(str(one.rid)), self.pages_of(one)[: len(one.held)], 0) for one in ongoing])
        waiting = sum(map(len, (*cache.host.releasing, *[one.held for one in cache.fetches.zombies])))
        held = (*[(-1, ((),) * waiting, 0)][:waiting], *reads)
        free, host_free = (pool.free_count + len(pool.withheld) for pool in (cache.pool, cache.host.pool))
        return RankView(device, host, (), (), held, (), free, host_free, self.world.window_pages)


def nothing(_: Ask) -> list[Decision]:
    """Of calls in which there is nothing to do but to settle."""
    return []


class OptimizedRanks:
    """All ranks, behind the ports."""

    def __init__(self, target: RanksTarget, policy: str) -> None:
        self.target, self.policy = target, policy
        self.ranks: dict[int, OneRank] = {}

    def ranks_start(self, world: World) -> None:
        """See :class:`~kvlitmus.spec.interface.ranks.Ranks`."""
        self.ranks = {number: OneRank(world, number, self.target, self.policy) for number in world.ranks}

    def ranks_ask(self, rank: int, ask: Ask) -> Asking:
        """See :class:`~kvlitmus.spec.interface.ranks.Ranks`."""
        return self.ranks[rank].ask(ask)

    def ranks_local(self, event: Local) -> Sequence[Prefix] | None:
        """See :class:`~kvlitmus.spec.interface.ranks.Ranks`."""
        return self.ranks[event.rank].local(event)

    def ranks_view(self, rank: int) -> RankView:
        """See :class:`~kvlitmus.spec.interface.ranks.RanksView`."""
        return self.ranks[rank].view()


@dataclass(frozen=True)
class RanksTarget:
    """What makes ranks of the optimized cache, on this core.

    ``audited``: whether a look counts everything again; ``cache``: another kind of rank, for tests.
    """

    core: str = "auto"
    audited: bool = False
    cache: type[RankedCache] | None = None
    profile: Profile = PROFILE
    capabilities: frozenset[str] = frozenset(RANK_PORTS)
    configs = RANK_CONFIGS

    def rank(self, *given: Any, **named: Any) -> RankedCache:
        """A fresh rank."""
        from kvlitmus.optimized.ranks import RankedCache

        return (self.cache or RankedCache)(*given, **named)

    def make(self, config: Config) -> OptimizedRanks:
        """Fresh ranks."""
        if config.pool != "ranks":
            raise Unsupported("this target is several ranks alone")
        return OptimizedRanks(self, config.policy)


TARGETS = {"target": RanksTarget(), "python": RanksTarget("python", audited=True)}


def __getattr__(name: str) -> Any:
    """A target, once it is known that everything it needs is there; raises :class:`TargetError` otherwise."""
    if name not in TARGETS:
        raise AttributeError(name)
    lacking = [one for one in missing() if one != "torch"]
    if lacking:
        raise TargetError(
            f"ranks need {', '.join(lacking)}, which this Python has not: pip install 'kvlitmus[optimized]'"
        )
    return TARGETS[name]
