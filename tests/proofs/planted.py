"""Slips put into the reference, to show that the proofs look: each must be found, by a rule that it names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvlitmus.conformance.adapters.reference.flat import ReferenceCache
from kvlitmus.conformance.ports import Begun, Hit, Sizes, Stored
from kvlitmus.reference import tree as trees
from kvlitmus.spec.units import Key, Name, PageNo, RequestId
from tests.proofs.explore import Scope


class Planted(NamedTuple):
    """A slip, a scope in which it shows, and the rules of which one must name it."""

    make: type[ReferenceCache]
    rules: tuple[str, ...]
    scope: Scope = Scope(requests=1)


class AbortForgetsTheLock(ReferenceCache):
    """The lock of an aborted request stays."""

    def end(self, rid: int, *, keep: bool) -> None:
        locked = self.cache.requests[RequestId(rid)].locked
        super().end(rid, keep=keep)
        if not keep:
            self.cache = self.cache._replace(tree=trees.lock(self.cache.tree, locked))


class AbortLosesTheTail(ReferenceCache):
    """The last page of an aborted request is never freed."""

    def end(self, rid: int, *, keep: bool) -> None:
        free = self.cache.pool.free
        super().end(rid, keep=keep)
        gained = sorted(self.cache.pool.free - free)
        if not keep and gained:
            pool = self.cache.pool
            self.cache = self.cache._replace(pool=pool._replace(free=pool.free - {gained[-1]}))


class PublishKeepsItsOldLock(ReferenceCache):
    """The lock that a request held before it published isn't given back."""

    def publish(self, rid: int, *, chunked: bool) -> Begun:
        locked = self.cache.requests[RequestId(rid)].locked
        answer = super().publish(rid, chunked=chunked)
        self.cache = self.cache._replace(tree=trees.lock(self.cache.tree, locked))
        return answer


class PublishKeepsItsDuplicates(ReferenceCache):
    """A request goes on with its own page where another one had cached that page first."""

    def publish(self, rid: int, *, chunked: bool) -> Begun:
        before = self.cache.requests[RequestId(rid)].row
        row, cached = super().publish(rid, chunked=chunked)
        return Begun((*before[:cached], *row[cached:]), cached)


class EvictionTakesLockedPages(ReferenceCache):
    """Locks are overlooked by evictions."""

    def evict(self, n: int) -> int:
        tree = self.cache.tree
        bare = trees.Tree({name: page._replace(locks=0) for name, page in tree.pages.items()}, tree.clock)
        self.cache = self.cache._replace(tree=bare)
        freed = super().evict(n)
        left = {name: tree.pages[name] for name in self.cache.tree.pages}
        self.cache = self.cache._replace(tree=trees.Tree(left, tree.clock))
        return freed


class EvictionTakesTheNewest(ReferenceCache):
    """The most recently used leaf goes first."""

    def evict(self, n: int) -> int:
        settings = self.cache.settings
        self.cache = self.cache._replace(settings=settings._replace(eviction=trees.Eviction("mru")))
        freed = super().evict(n)
        self.cache = self.cache._replace(settings=settings)
        return freed


class EvictionGoesOneTooFar(ReferenceCache):
    """One page more than asked for is evicted."""

    def evict(self, n: int) -> int:
        return super().evict(n + self.size)


class EvictionPromisesWhatWasAsked(ReferenceCache):
    """An eviction reports what was asked for, not what it freed."""

    def evict(self, n: int) -> int:
        super().evict(n)
        return n


class MatchForgetsTheCap(ReferenceCache):
    """The last slot of a match is missing."""

    def match(self, key: Key) -> Hit:
        hit = super().match(key)
        assert hit.slots is not None
        shorter = max(0, hit.length - 1)
        return hit._replace(length=shorter, slots=hit.slots[:shorter])


class InsertDoesNotSplit(ReferenceCache):
    """An insert of a key that is cached counts a use but does not end a node where the key ends."""

    def insert(
        self, key: Key, slots: Sequence[int], *, protected: int = 0, priority: int = 0, chunked: bool = False
    ) -> Stored:
        before = self.cache.tree.pages
        answer = super().insert(key, slots, protected=protected, priority=priority, chunked=chunked)
        pages = {
            name: page._replace(first=before[name].first) if name in before else page
            for name, page in self.cache.tree.pages.items()
        }
        if len(pages) == len(before):
            self.cache = self.cache._replace(tree=trees.Tree(pages, self.cache.tree.clock))
        return answer


class InsertSwapsThePage(ReferenceCache):
    """The page that was offered takes the place of the one that was cached."""

    def insert(
        self, key: Key, slots: Sequence[int], *, protected: int = 0, priority: int = 0, chunked: bool = False
    ) -> Stored:
        answer = super().insert(key, slots, protected=protected, priority=priority, chunked=chunked)
        _, names = self.named(key)
        pages = dict(self.cache.tree.pages)
        for at, name in enumerate(names[self.size - 1 :: self.size]):
            pages[name] = pages[name]._replace(page=PageNo(slots[at * self.size] // self.size))
        self.cache = self.cache._replace(tree=trees.Tree(pages, self.cache.tree.clock))
        return answer


class GroupsFreeAtOnce(ReferenceCache):
    """A group of frees is no group."""

    def free_group_begin(self) -> None:
        """Nothing waits."""


class GrowthIgnoresTheLastPage(ReferenceCache):
    """A growing request opens a page although its last one has room."""

    def grow(self, rid: int, tokens: Sequence[int]) -> Sequence[int] | None:
        new = super().grow(rid, tokens)
        free = sorted(self.cache.pool.free)
        if not new or new[0] % self.size == 0 or not free:
            return new
        pool = self.cache.pool
        self.cache = self.cache._replace(pool=pool._replace(free=pool.free - {free[0]}))
        return [free[0] * self.size + at for at in range(len(new))]


class RefusalKeepsTheLock(ReferenceCache):
    """A request that is refused leaves its prefix locked."""

    def begin(self, rid: int, key: Key) -> Begun | None:
        answer = super().begin(rid, key)
        if answer is None:
            root, names = self.named(key)
            length = trees.cached_prefix(self.cache.tree, names)
            self.cache = self.cache._replace(tree=trees.lock(self.cache.tree, names[length - 1] if length else root))
        return answer


class TwoPagesForOne(ReferenceCache):
    """An allocation rounds up and hands out what was asked for: a page more than the caller knows of."""

    def alloc(self, n: int) -> Sequence[int] | None:
        got = super().alloc(n)
        if got:
            super().alloc(self.size)
        return got


class FreeTwice(ReferenceCache):
    """Freeing what is free already is accepted and reported as more memory."""

    extra = 0

    def free(self, slots: Sequence[int]) -> None:
        try:
            super().free(slots)
        except ValueError:
            self.extra += len(slots)

    def available(self) -> int:
        return super().available() + self.extra


class SpentReceiptsCount(ReferenceCache):
    """A receipt that was given back already is taken again."""

    def unlock(self, receipt: object) -> None:
        assert isinstance(receipt, int)
        if receipt in self.receipts:
            super().unlock(receipt)
            return
        locked = [name for name, page in self.cache.tree.pages.items() if page.locks]
        if locked:
            self.cache = self.cache._replace(tree=trees.lock(self.cache.tree, Name(locked[-1]), -1))


class ResetForgetsTheTree(ReferenceCache):
    """A reset empties the tree and leaves the free list as it is."""

    def reset(self) -> None:
        before = getattr(self, "cache", None)
        super().reset()
        if before is not None:
            self.cache = self.cache._replace(pool=before.pool)


class RoundsDown(ReferenceCache):
    """An extension hands out one slot too few."""

    def alloc_extend(self, before: Sequence[int], after: Sequence[int], last: Sequence[int]) -> Sequence[int] | None:
        got = super().alloc_extend(before, after, last)
        return got if got is None or len(got) < 2 else got[:-1]


class CountsDrift(ReferenceCache):
    """What is protected isn't counted when nothing could be evicted."""

    def sizes(self) -> Sizes:
        evictable, protected = super().sizes()
        return Sizes(evictable, protected if evictable else 0)


PLANTED: tuple[Planted, ...] = (
    Planted(AbortForgetsTheLock, ("LOCK-04",)),
    Planted(AbortLosesTheTail, ("REQ-07", "POOL-12")),
    Planted(PublishKeepsItsOldLock, ("LOCK-04",)),
    Planted(PublishKeepsItsDuplicates, ("REQ-03",)),
    Planted(EvictionTakesLockedPages, ("EVICT-03", "LOCK-01")),
    Planted(EvictionTakesTheNewest, ("EVICT-05",)),
    Planted(EvictionGoesOneTooFar, ("EVICT-06",)),
    Planted(EvictionPromisesWhatWasAsked, ("EVICT-02",)),
    Planted(MatchForgetsTheCap, ("TREE-02",)),
    Planted(InsertDoesNotSplit, ("TREE-13",), Scope(receipts=1, requests=0)),
    Planted(InsertSwapsThePage, ("TREE-08",)),
    Planted(GroupsFreeAtOnce, ("POOL-19",)),
    Planted(GrowthIgnoresTheLastPage, ("REQ-05",), Scope(page_size=2, units=3)),
    Planted(RefusalKeepsTheLock, ("LOCK-04",)),
    Planted(TwoPagesForOne, ("POOL-12",)),
    Planted(FreeTwice, ("MISUSE-01", "MISUSE-02")),
    Planted(SpentReceiptsCount, ("MISUSE-06",)),
    Planted(ResetForgetsTheTree, ("POOL-16",)),
    Planted(RoundsDown, ("POOL-18",), Scope(page_size=2)),
    Planted(CountsDrift, ("LOCK-02",)),
)
