"""Mutants of the frame: calls that do something besides, correctly in itself."""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.conformance.specimen.hierarchy import TieredSpecimen
from kvlitmus.conformance.specimen.prefix.load import Loader
from kvlitmus.conformance.specimen.prefix.pool import PagedPool
from kvlitmus.conformance.specimen.prefix.request import RequestTable, SpecimenRequest
from kvlitmus.conformance.specimen.prefix.tier import TierTree
from kvlitmus.conformance.specimen.prefix.tree import Node, RadixTree
from kvlitmus.mutants.registry import mutant
from kvlitmus.spec.interface import Hit
from kvlitmus.spec.words.units import Key

EVERYTHING = 1 << 20
"""More slots than any cache has."""


@mutant("publishing-flushes", kills=("FRAME-01",))
class PublishingFlushes(RequestTable):
    """The cache is never warm: whenever a request publishes, all that nobody holds is evicted."""

    def publish(self, rid: int, chunked: bool) -> SpecimenRequest:
        running = super().publish(rid, chunked)
        self.tree.evict(EVERYTHING)
        return running


@mutant("unlocking-flushes", kills=("FRAME-01",))
class UnlockingFlushes(RadixTree):
    """The cache forgets a prompt when its last reader is gone: giving a lock back evicts what it protected."""

    def unlock(self, node: Node) -> None:
        super().unlock(node)
        if node in self.leaves:
            self.trim(node, len(node.pages))


@mutant("freeing-sets-aside", kills=("FRAME-02", "POOL-12", "POOL-14"))
class FreeingSetsAside(PagedPool):
    """The pool runs dry: the first free puts a page of the free list aside for good, to have one in reserve."""

    reserve: Sequence[int] | None = None

    def free(self, slots: Sequence[int]) -> None:
        super().free(slots)
        if self.reserve is None and self.group is None:
            self.reserve = self.take(1)


@mutant("locking-flushes-the-host", kills=("FRAME-03",))
class LockingFlushesTheHost(TierTree):
    """The host tier is never hit: whenever a path is locked, all that is on the host alone is dropped."""

    def lock(self, node: Node) -> None:
        super().lock(node)
        self.evict_host(EVERYTHING)


@mutant("landing-flushes-both-tiers", kills=("FRAME-01", "FRAME-03"))
class LandingFlushesBothTiers(Loader):
    """Every load back empties the cache: when its copy has landed, all that nobody holds goes, on both tiers."""

    def acks(self) -> None:
        waiting = len(self.queue)
        super().acks()
        if len(self.queue) < waiting:
            self.tree.evict(EVERYTHING)
            self.tree.evict_host(EVERYTHING)


@mutant("matching-reserves-host-memory", kills=("FRAME-04", "POOL-12", "TIER-33"))
class MatchingReservesHostMemory(TieredSpecimen):
    """The host runs dry: a match that could be followed by a load takes a host page for it that nobody gives back."""

    def match(self, key: Key) -> Hit:
        hit = super().match(key)
        if hit.host:
            self.host.take(1)
        return hit


@mutant("matching-pins", kills=("FRAME-05",))
class MatchingPins(TieredSpecimen):
    """The host fills with pages that never go: a match protects what it finds there alone, for good."""

    def match(self, key: Key) -> Hit:
        pages, node, behind = self.tree.reach(key.namespace, key.units)
        for one in behind:
            self.tree.pin(one)
        size = self.pool.page_size
        return Hit(len(pages) * size, self.pool.slots(pages), node, sum(len(one.key) for one in behind))


@mutant("ticks-land-copies", kills=("FRAME-06", "BACKUP-03"))
class TicksLandCopies(TieredSpecimen):
    """A request reads what hasn't arrived: a tick takes copies for landed that are still under way."""

    def tick(self) -> None:
        super().tick()
        for work in self.works.works.values():
            if work.kind in ("backup", "load"):
                work.landed = True


@mutant("matching-asks-storage", kills=("FRAME-07", "FETCH-19"))
class MatchingAsksStorage(TieredSpecimen):
    """Every lookup waits for the network: a match asks storage what it has behind the cached part."""

    def match(self, key: Key) -> Hit:
        hit = super().match(key)
        if self.store is not None and not key.bigram:
            self.store.exists(list(self.hasher.page_hashes(key, self.pool.page_size, None)))
        return hit
