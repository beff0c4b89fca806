"""A hierarchy on one rank of several that hold a cache together, and must decide alike.

Each rank has its shard of every page and a tree of its own, and gets the same calls in the same order.  Copies end,
storage answers and clocks go on at other times on each rank, and memory may be unequal.  What follows from such things
waits until all have agreed:

- :meth:`RankedCache.tick` gives one vector (:mod:`~kvlitmus.optimized.agreement`): what this rank has seen;
- a callable reduces it by MIN over all ranks of the tree, whichever groups and messages that takes;
- :meth:`RankedCache.settle` does what follows from the least, and from nothing else.

In between a scheduler goes on: :class:`Pipeline` begins a reduction in one step and settles it in the next one, so that
no step waits for a collective.  All other calls follow from the tree, the pools and what was settled, so they need no
word.

**What waits for a settle.**  A copy is acknowledged when it has landed on every rank, with all that began before it;
where it failed on one, all take it back or make it again.  Storage has what it has on every rank, and a prefetch ends
by agreement (:mod:`~kvlitmus.optimized.ranked_fetch`).  A put is over when it is on all.  Storage is used while every
rank has it.  As much memory is handed out as the least rank has (:mod:`~kvlitmus.optimized.share`).

**A vector may be lost**, with a rank that is gone, say: :meth:`~RankedCache.tick` has changed nothing, and the next one
takes its place.  What a settle refuses has changed nothing either.  Ranks that have parted are told so
(:class:`~kvlitmus.optimized.agreement.RanksParted`); after a reset of each they go on.

Write-back is refused: an eviction would wait for a copy in its midst, and decide by how it ends on this rank.  A rank
that runs out of memory outside the pools can't do as the others do: it is torn, and they are told of it as of one that
is lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from kvlitmus.optimized import inputs
from kvlitmus.optimized.agreement import Agreed, Facts, Layout, RanksParted, Vector
from kvlitmus.optimized.backup import WRITE_BACK
from kvlitmus.optimized.cache import CacheConfig
from kvlitmus.optimized.calls import TornCache
from kvlitmus.optimized.copying import Copies
from kvlitmus.optimized.cores import core_of
from kvlitmus.optimized.hierarchy import HierarchicalCache
from kvlitmus.optimized.late import LateWork
from kvlitmus.optimized.life import TierParts, scheduled, tier_parts_of
from kvlitmus.optimized.mover import Mover, NullMover, PageArray
from kvlitmus.optimized.pool import PagePool
from kvlitmus.optimized.ranked_fetch import RankedFetches
from kvlitmus.optimized.share import Share
from kvlitmus.optimized.steady import SteadyMover
from kvlitmus.optimized.storage.base import PageStore
from kvlitmus.optimized.tree import STORED, Tree
from kvlitmus.optimized.work import FETCH, PUT, Operation, Progress, Runner, Work, WorkTable

__all__ = ["Pipeline", "RankedCache", "RanksParted"]

DEVICE, HOST = "device", "host"


class RankedLate(LateWork):
    """Abandoned work whose pages come back at a settle."""

    def tell_pools(self) -> None:
        """See :class:`LateWork`: the shares ask for them."""


class RankedWorks(WorkTable):
    """All work under way, on a rank that can't go without what it has no memory for."""

    def fault(self, kind: str, error: BaseException) -> None:
        """See :class:`WorkTable`; raises :class:`TornCache` where something did not begin here alone."""
        super().fault(kind, error)
        if isinstance(error, MemoryError):
            raise TornCache(f"no memory for a {kind} that other ranks have begun: this rank is lost") from error


class RankedCache(HierarchicalCache):
    """One rank: number ``rank`` of so many ``ranks``.

    ``prefetches``, ``puts``: how many are told of in a vector.  More prefetches are refused, further puts wait.
    """

    layout: Layout

    def __init__(
        self,
        config: CacheConfig,
        mover: Mover | None = None,
        runner: Runner | None = None,
        *,
        rank: int = 0,
        ranks: int = 1,
        prefetches: int = 32,
        puts: int = 32,
        events: bool | int = False,
        clock: Callable[[], float] = time.monotonic,
        parts: TierParts | None = None,
    ) -> None:
        if config.write == WRITE_BACK:
            raise ValueError("ranks can't write back: an eviction would wait for a copy of one rank")
        self.ranks = inputs.whole("ranks", ranks, 1)
        self.rank = inputs.whole("rank", rank, 0, self.ranks - 1)
        self.layout = Layout(prefetches, puts)
        self.linked: PageStore | None = None
        self.shares: dict[str, Share] = {}
        parts = parts or tier_parts_of(core_of(config.core))
        parts = replace(parts, works=RankedWorks, fetches=RankedFetches, late=RankedLate)
        mover = SteadyMover(NullMover(stepped=runner is None) if mover is None else mover)
        super().__init__(config, mover, runner, events=events, clock=clock, parts=parts)

    def begin_anew(self, tree: Tree, host: PagePool) -> None:
        """See :class:`~kvlitmus.optimized.life.TieredCache`; until the first settle nothing can be handed out."""
        self.store = None
        super().begin_anew(tree, host)
        assert isinstance(self.fetches, RankedFetches)
        self.reads: RankedFetches = self.fetches
        self.reads.most, self.reads.backed = self.layout.prefetches, self.backed
        self.ticks, self.jobs_before = 0, self.works.last
        self.over: dict[Copies, int] = dict.fromkeys((self.backups, self.loads), 0)
        pools, before = {DEVICE: tree.pool, HOST: host}, self.shares
        self.shares = {tier: Share(pool, before.get(tier)) for tier, pool in pools.items()}
        self.told: tuple[list[Operation], list[Work], PageStore | None] | None = None

    # -- what this rank has seen ---------------------------------------------------------------

    def report(self, progress: Progress) -> None:
        """Note what a storage job has achieved here: what follows from it waits for a settle."""
        self.calls.changed = True
        work, pages, over = progress
        work.done += pages
        whole = work.kind in (FETCH, PUT) and work.done == len(work.names)
        work.landed = over or whole

    @scheduled
    def tick(self) -> Vector:  # type: ignore[override]
        """What this rank has seen, to be reduced by MIN over all ranks, and settled.

        It changes nothing but the number of the tick: a vector that isn't settled is void when the next one is taken.
        """
        self.drain()
        now, late = self.now(), self.late.held()
        prefetches = self.reads.under_way()
        puts = self.works.of(PUT)[: self.layout.puts]
        device, host = [share.offer(pages) for share, pages in zip(self.shares.values(), late, strict=True)]
        self.ticks += 1
        self.told = prefetches, puts, self.linked
        return self.layout.pack(
            self.ticks,
            self.rank,
            self.digest(),
            Facts(*self.landed(self.backups), *self.landed(self.loads), device, host, int(self.linked is not None)),
            [self.reads.seen(one, now) for one in prefetches],
            [work.done if work.landed else -1 for work in puts],
        )

    def landed(self, copies: Copies) -> tuple[int, int]:
        """How many of these copies are over since the last reset, and how many before one that has failed."""
        over = well = self.over[copies]
        for work in copies.queue:
            if not work.landed:
                break
            well += work.error is None and well == over
            over += 1
        return over, well

    def digest(self) -> list[int]:
        """Numbers that ranks have alike which have decided alike."""
        tree, reads = self.tree, self.reads
        return [
            *(
                self.works.last - self.jobs_before,
                tree.clock,
                tree.evictable,
                self.pool.free_count,
                self.host.pool.free_count,
            ),
            *(len(self.requests.running), len(reads.ongoing), len(reads.zombies), reads.occupied),
            *self.over.values(),
        ]

    # -- what all have seen --------------------------------------------------------------------

    @scheduled
    def settle(self, vector: object) -> None:
        """Do what follows from what all ranks have seen: the reduced vector of the last tick.

        Raises ``ValueError``, and changes nothing, for what is no such vector; :class:`RanksParted`, and changes
        nothing, where ranks are not alike.
        """
        if self.told is None:
            raise ValueError("there is no tick to settle")
        agreed = self.layout.read(vector, self.ticks, self.ranks)
        prefetches, puts, linked = self.told
        self.calls.changed = True
        self.told = None
        facts = agreed.facts
        self.acknowledge(self.backups, facts.backups_over, facts.backups_well)
        self.acknowledge(self.loads, facts.loads_over, facts.loads_well)
        for operation, seen in zip(prefetches, agreed.prefetches, strict=False):
            if operation.live or operation in self.reads.zombies:
                self.reads.agreed(operation, *seen)
        if self.reads.revoked:
            self.reads.settle()
        for work, pages in zip(puts, agreed.puts, strict=False):
            if pages >= 0:
                self.end_put(work, pages)
        self.link(linked if facts.attached else None)
        if self.host.releasing:
            self.host.free_released()
        self.fit(agreed)

    def acknowledge(self, copies: Copies, over: int, well: int) -> None:
        """Take note of the copies that are over on all ranks, up to the first that has failed on one."""
        while self.over[copies] < well:
            copies.finish(self.next_of(copies))
        if well < over:
            copies.fail(self.next_of(copies))

    def next_of(self, copies: Copies) -> Work:
        """The first copy of a queue, which is over."""
        self.over[copies] += 1
        return copies.queue.popleft()

    def end_put(self, work: Work, pages: int) -> None:
        """Storage has so many pages of a put, on all ranks, and it is over."""
        if not work.cancelled:
            self.puts.mark(work, 0, pages)
        self.puts.end(work)

    def link(self, store: PageStore | None) -> None:
        """Use this storage from now on, which all ranks have, or none; what is being read is read to its end."""
        if (store is None) == (self.store is None):
            return
        self.store = self.fetches.store = self.puts.store = store
        if store is None:
            for work in self.works.of(PUT):
                work.cancelled = True
            self.tree.clear_all_flags(STORED)

    def fit(self, agreed: Agreed) -> None:
        """Have as much memory as the least rank; what is cached beyond that is evicted, as far as it can be."""
        facts, (late, late_host) = agreed.facts, self.late.held()
        device, host = self.shares.values()
        if (short := device.short(facts.device)) > 0:
            self.tree.evict(short)
        if (short := host.short(facts.host)) > 0:
            self.tree.evict_host(short)
        device.fit(facts.device, late)
        host.fit(facts.host, late_host)

    # -- storage and memory of this rank alone -------------------------------------------------

    @scheduled
    def attach(self, store: PageStore) -> bool:
        """This rank has this storage: it is used when all have settled that they have one; refused while there is one.

        After a detach that was not settled yet another storage is refused, too: other ranks don't know that it is gone.
        """
        if self.linked is not None or (self.store is not None and self.store is not store):
            return False
        self.calls.changed = True
        self.linked = store
        return True

    @scheduled
    def detach(self) -> bool:
        """This rank has no storage any more: from the next settle on no rank uses it for anything that begins then."""
        if self.linked is None:
            return False
        self.calls.changed = True
        self.linked = None
        return True

    @scheduled
    def lend(self, tier: str, pages: int) -> None:
        """Others want so many pages of this rank's ``device`` or ``host``; they have them when a settle has said so.

        What is given back by a smaller number is the cache's after a settle.
        """
        self.calls.changed = True
        share = self.shares[tier]
        share.lend(inputs.whole("pages", pages, 0, share.pool.pages))

    def lent(self, tier: str) -> PageArray:
        """The pages that others have."""
        return self.shares[tier].lent

    # -- the end -------------------------------------------------------------------------------

    def close(self, timeout: float = 30.0) -> list[str]:
        """End the threads; what they were to put they put, and the names of what they could not are returned.

        It is no word with other ranks: whoever wants to lose nothing ticks and settles until no jobs are left.
        """
        self.own()
        return self.runner.close(timeout)


class Pipeline:
    """A reduction is begun in one step, and settled in the next one.

    ``begin`` begins to reduce a vector by MIN over all ranks, and returns what waits for its end and gives the least;
    where ``None`` there is one rank alone.
    """

    def __init__(self, cache: RankedCache, begin: Callable[[Vector], Callable[[], Vector]] | None = None) -> None:
        self.cache = cache
        self.begin = begin or alone
        self.least: Callable[[], Vector] | None = None

    def step(self) -> None:
        """Settle the last step's vector, and begin to reduce another one.

        What a reduction raises, since a rank is gone, say, comes through; its vector is void then.
        """
        least, self.least = self.least, None
        if least is not None:
            self.cache.settle(least())
        self.least = self.begin(self.cache.tick())


def alone(vector: Vector) -> Callable[[], Vector]:
    """The least of one rank."""
    return lambda: vector
