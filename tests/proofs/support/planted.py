"""Mutants of the reference, to show that the proofs look: each must be found, by a rule that it names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kvlitmus.conformance.adapters.reference.flat import ReferenceCache
from kvlitmus.conformance.ports import Begun, Hit, Sizes, Stored
from kvlitmus.mutants.mutant import Mutant, recipe_of
from kvlitmus.reference.prefix.perform import free_pages
from kvlitmus.spec.prefix import effects
from kvlitmus.spec.prefix.state import Tier
from kvlitmus.spec.words.units import Key, PageNo, pages_in_order
from tests.proofs.support.explore import Scope

ONE_REQUEST = Scope(requests=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted(Mutant):
    """A mutant of the reference, and a scope in which it shows."""

    scope: Scope


def planted(made: type[ReferenceCache], *kills: str, scope: Scope = ONE_REQUEST) -> Planted:
    """A reference cache with a bug, and the rules of which one must name it."""
    recipe = recipe_of(made.__name__, made)
    return Planted(id=made.__name__, recipe=recipe, kills=kills, target=made, scope=scope)


class Open(ReferenceCache):
    """A reference cache whose state can be tampered with."""

    def plant(self, tree: Tier) -> None:
        """Put another tree in."""
        self.state = self.state._replace(device=tree)

    def lose(self, page: PageNo) -> None:
        """Nobody has this page, and yet it isn't free."""
        self.state = self.state._replace(owners=effects.take(self.state.owners, [page]))


class AbortForgetsTheLock(Open):
    """The lock of an aborted request stays."""

    def end(self, rid: int, *, keep: bool) -> None:
        locked = self.state.requests[rid].locked
        super().end(rid, keep=keep)
        if not keep:
            self.plant(effects.lock(self.state.device, locked))


class AbortLosesTheTail(Open):
    """The last page of an aborted request is never freed."""

    def end(self, rid: int, *, keep: bool) -> None:
        free = free_pages(self.state, self.setting)
        super().end(rid, keep=keep)
        gained = sorted(free_pages(self.state, self.setting) - free)
        if not keep and gained:
            self.lose(gained[-1])


class PublishKeepsItsOldLock(Open):
    """The lock that a request held before it published isn't given back."""

    def publish(self, rid: int, *, chunked: bool) -> Begun:
        locked = self.state.requests[rid].locked
        answer = super().publish(rid, chunked=chunked)
        self.plant(effects.lock(self.state.device, locked))
        return answer


class PublishKeepsItsDuplicates(ReferenceCache):
    """A request goes on with its own page where another one had cached that page first."""

    def publish(self, rid: int, *, chunked: bool) -> Begun:
        before = self.state.requests[rid].row
        row, cached = super().publish(rid, chunked=chunked)
        return Begun((*before[:cached], *row[cached:]), cached)


class EvictionTakesLockedPages(Open):
    """Locks are overlooked by evictions."""

    def evict(self, n: int) -> int:
        tree = self.state.device
        self.plant(Tier({name: page._replace(locks=0) for name, page in tree.pages.items()}, tree.clock))
        freed = super().evict(n)
        self.plant(Tier({name: tree.pages[name] for name in self.state.device.pages}, tree.clock))
        return freed


class EvictionTakesTheNewest(ReferenceCache):
    """The most recently used leaf goes first."""

    def evict(self, n: int) -> int:
        setting = self.setting
        self.setting = replace(setting, config=replace(setting.config, policy="mru"))
        freed = super().evict(n)
        self.setting = setting
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


class InsertDoesNotSplit(Open):
    """An insert of a key that is cached counts a use but does not end a node where the key ends."""

    def insert(
        self, key: Key, slots: Sequence[int], *, protected: int = 0, priority: int = 0, chunked: bool = False
    ) -> Stored:
        before = self.state.device.pages
        answer = super().insert(key, slots, protected=protected, priority=priority, chunked=chunked)
        pages = {
            name: page._replace(first=before[name].first) if name in before else page
            for name, page in self.state.device.pages.items()
        }
        if len(pages) == len(before):
            self.plant(Tier(pages, self.state.device.clock))
        return answer


class InsertSwapsThePage(Open):
    """The page that was offered takes the place of the one that was cached."""

    def insert(
        self, key: Key, slots: Sequence[int], *, protected: int = 0, priority: int = 0, chunked: bool = False
    ) -> Stored:
        answer = super().insert(key, slots, protected=protected, priority=priority, chunked=chunked)
        paged = self.path(key).pages
        self.plant(effects.move(self.state.device, dict(zip(paged, pages_in_order(slots, self.size), strict=False))))
        return answer


class GroupsFreeAtOnce(ReferenceCache):
    """A group of frees is no group."""

    def free_group_begin(self) -> None:
        """Nothing waits."""


class GrowthIgnoresTheLastPage(Open):
    """A growing request opens a page although its last one has room."""

    def grow(self, rid: int, tokens: Sequence[int]) -> Sequence[int] | None:
        new = super().grow(rid, tokens)
        free = sorted(free_pages(self.state, self.setting))
        if not new or new[0] % self.size == 0 or not free:
            return new
        self.lose(free[0])
        return [free[0] * self.size + at for at in range(len(new))]


class RefusalKeepsTheLock(Open):
    """A request that is refused leaves its prefix locked."""

    def begin(self, rid: int, key: Key) -> Begun | None:
        answer = super().begin(rid, key)
        if answer is None:
            path = self.path(key)
            self.plant(effects.lock(self.state.device, path.end(effects.cached_prefix(self.state.device, path.pages))))
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


class SpentReceiptsCount(Open):
    """A receipt that was given back already is taken again."""

    def unlock(self, receipt: object) -> None:
        assert isinstance(receipt, int)
        if receipt in self.state.receipts:
            super().unlock(receipt)
            return
        locked = [name for name, page in self.state.device.pages.items() if page.locks]
        if locked:
            self.plant(effects.lock(self.state.device, locked[-1], -1))


class ResetForgetsTheTree(Open):
    """A reset empties the tree and leaves the free list as it is."""

    def reset(self) -> None:
        before = getattr(self, "state", None)
        super().reset()
        if before is not None:
            for page in self.setting.usable - free_pages(before, self.setting):
                self.lose(page)


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
    planted(AbortForgetsTheLock, "LOCK-04"),
    planted(AbortLosesTheTail, "REQ-07", "POOL-12"),
    planted(PublishKeepsItsOldLock, "LOCK-04"),
    planted(PublishKeepsItsDuplicates, "REQ-03"),
    planted(EvictionTakesLockedPages, "EVICT-03", "LOCK-01"),
    planted(EvictionTakesTheNewest, "EVICT-05"),
    planted(EvictionGoesOneTooFar, "EVICT-06"),
    planted(EvictionPromisesWhatWasAsked, "EVICT-02"),
    planted(MatchForgetsTheCap, "TREE-02"),
    planted(InsertDoesNotSplit, "TREE-13", scope=Scope(receipts=1, requests=0)),
    planted(InsertSwapsThePage, "TREE-08"),
    planted(GroupsFreeAtOnce, "POOL-19"),
    planted(GrowthIgnoresTheLastPage, "POOL-17", scope=Scope(page_size=2, units=3)),
    planted(RefusalKeepsTheLock, "LOCK-04"),
    planted(TwoPagesForOne, "POOL-12"),
    planted(FreeTwice, "MISUSE-01", "MISUSE-02"),
    planted(SpentReceiptsCount, "MISUSE-06"),
    planted(ResetForgetsTheTree, "POOL-16"),
    planted(RoundsDown, "POOL-18", scope=Scope(page_size=2)),
    planted(CountsDrift, "LOCK-02"),
)
