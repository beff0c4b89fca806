"""Mutants that make room on their own account: the wrong pages, too many of them, or none though it would be enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.specimen.flat import Specimen
from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.conformance.specimen.prefix.backup import BackupQueue
from kvlitmus.conformance.specimen.prefix.load import Loader
from kvlitmus.conformance.specimen.prefix.request import RequestTable
from kvlitmus.conformance.specimen.prefix.tier import TierTree
from kvlitmus.conformance.specimen.prefix.tree import RadixTree
from kvlitmus.conformance.specimen.prefix.works import TieredNode
from kvlitmus.mutants.hosted import HOSTED, NOT_BACK, SGLANG, WRITE_BACK
from kvlitmus.mutants.prefix.pool import AllocationEvictsUnasked
from kvlitmus.mutants.registry import mutant

SMALL = (Config(page_size=1, pages=8), Config(page_size=4, pages=8))


def from_the_other_end(tree: RadixTree, n: int) -> int:
    """An eviction that takes what is worth most."""
    freed = 0
    while freed < n and tree.leaves:
        leaf = max(tree.leaves, key=tree.worth)
        got = tree.trim(leaf, tree.pages_to_trim(leaf, n - freed))
        if not got:
            break
        freed += got
    return freed


@mutant("room-from-the-newest", kills=("EVICT-05",), configs=SMALL)
class RoomFromTheNewest(RequestTable):
    """A conversation that was served a moment ago is computed anew, while old ones stay.

    An explicit eviction follows the policy; the room that a request makes for itself is taken from the other end.
    """

    def make_room(self, pages: int) -> bool:
        short = pages - len(self.pool.free_list)
        if short > 0:
            from_the_other_end(self.tree, short * self.pool.page_size)
        return pages <= len(self.pool.free_list)


@mutant("a-request-flushes", links=(f"{SGLANG}issues/4987",), kills=("EVICT-06",), configs=SMALL)
class ARequestFlushes(RequestTable):
    """One request that is short of a page empties the cache.

    The room that is made is never counted, so everything that nothing protects goes.
    """

    def make_room(self, pages: int) -> bool:
        if pages > len(self.pool.free_list):
            self.tree.evict(self.tree.evictable)
        return pages <= len(self.pool.free_list)


@mutant("room-for-one-more", kills=("EVICT-06",), configs=SMALL)
class RoomForOneMore(RequestTable):
    """Each request that makes room costs a page more than it needs, which nobody declared.

    The page that is opened is counted, and so is the one that it follows.
    """

    def make_room(self, pages: int) -> bool:
        if pages > len(self.pool.free_list):
            super().make_room(pages + 1)
        return pages <= len(self.pool.free_list)


@mutant("refused-while-there-is-room", kills=("REQ-14",))
class RefusedWhileThereIsRoom(RequestTable):
    """A request of two pages or more never begins, whatever is free.

    The question whether a page is free is asked once, for one page.
    """

    def make_room(self, pages: int) -> bool:
        return super().make_room(pages) and pages < 2


@mutant("growth-wants-the-whole-request", kills=("REQ-14",))
class GrowthWantsTheWholeRequest(RequestTable):
    """A long request can't go on, though the page that it needs is free.

    For further tokens as much is asked for as if the request began anew.
    """

    def grow(self, rid: int, tokens: Sequence[int]) -> list[int] | None:
        whole = -(-(len(self.running[rid].row) + len(tokens)) // self.pool.page_size)
        return super().grow(rid, tokens) if whole <= len(self.pool.free_list) else None


@mutant("extension-wants-a-page-each", kills=("POOL-21",))
class ExtensionWantsAPageEach(Specimen):
    """Decoding stops while there is memory: an extension within the last page is refused for want of another.

    A page is counted for each request of the batch, whether it opens one or not.
    """

    def alloc_extend(self, before: Sequence[int], after: Sequence[int], last: Sequence[int]) -> Sequence[int] | None:
        if len(before) > len(self.pool.free_list):
            return None
        return super().alloc_extend(before, after, last)


@mutant(
    "allocation-evicts-the-newest",
    kills=("EVICT-05",),
    profile=replace(PROFILE, evict_moment="alloc"),
    configs=SMALL,
)
class AllocationEvictsTheNewest(AllocationEvictsUnasked):
    """What an allocation takes from the tree, as the profile declares, is what was used last."""

    def alloc(self, n: int) -> Sequence[int] | None:
        short = n - self.pool.available()
        if 0 < short <= self.tree.evictable:
            from_the_other_end(self.tree, short)
        return Specimen.alloc(self, n)


@mutant(
    "allocation-evicts-what-it-wants",
    kills=("EVICT-06",),
    profile=replace(PROFILE, evict_moment="alloc"),
    configs=SMALL,
)
class AllocationEvictsWhatItWants(AllocationEvictsUnasked):
    """What an allocation wants is evicted whatever is free, though the profile declares what it lacks."""

    def alloc(self, n: int) -> Sequence[int] | None:
        if 0 < n - self.pool.available() <= self.tree.evictable:
            self.tree.evict(n)
        return Specimen.alloc(self, n)


@mutant("a-load-makes-room-from-the-newest", kills=("EVICT-05",))
class ALoadMakesRoomFromTheNewest(Loader):
    """What comes back from the host takes the place of what was used last.

    The room for a load is taken from the wrong end of the order.
    """

    def room(self, pages: int, resident: TieredNode) -> list[int] | None:
        short = pages - len(self.pool.free_list)
        if short > 0:
            from_the_other_end(self.tree, short * self.pool.page_size)
        return self.pool.take(pages)


@mutant(
    "a-load-makes-room-for-all",
    links=(f"{SGLANG}blob/main/python/sglang/srt/mem_cache/hiradix_cache.py",),
    kills=("EVICT-06",),
)
class ALoadMakesRoomForAll(Loader):
    """A load that lacks a page takes as many from others as it brings, though the profile declares what it lacks."""

    def room(self, pages: int, resident: TieredNode) -> list[int] | None:
        found = self.pool.take(pages)
        if found is None:
            self.tree.evict(pages * self.pool.page_size)
            found = self.pool.take(pages)
        return found


@mutant("write-back-takes-the-newest", kills=("EVICT-05",), configs=WRITE_BACK)
class WriteBackTakesTheNewest(TierTree):
    """Under write-back the device is emptied from the wrong end: what was used last is written to the host first."""

    def evict(self, n: int) -> int:
        return from_the_other_end(self, n)


@mutant("the-host-drops-its-newest", kills=("EVICT-05",), configs=HOSTED)
class TheHostDropsItsNewest(TierTree):
    """What came to the host last is forgotten first, and what nobody has asked for in a long time stays."""

    def evict_host(self, n: int) -> int:
        freed = 0
        while freed < n and self.host_leaves:
            leaf = max(self.host_leaves, key=self.worth)
            freed += self.trim_host(leaf, self.host_pages_to_trim(leaf, n - freed))
        return freed


@mutant("room-on-the-host-from-its-newest", kills=("EVICT-05",), configs=HOSTED)
class RoomOnTheHostFromItsNewest(TierTree):
    """An explicit eviction of the host follows the policy; the room for a copy is taken from what came last."""

    def host_room(self, pages: int) -> list[int] | None:
        short = (pages - len(self.host.free_list)) * self.page_size
        while short > 0 and self.host_leaves:
            leaf = max(self.host_leaves, key=self.worth)
            short -= self.trim_host(leaf, self.host_pages_to_trim(leaf, short))
        return super().host_room(pages)


@mutant("one-copy-empties-the-host", links=(f"{SGLANG}issues/4987",), kills=("EVICT-06",), configs=HOSTED)
class OneCopyEmptiesTheHost(TierTree):
    """Room for one copy is made by forgetting all that the host has.

    What is dropped is never counted where room is made for a copy.
    """

    def host_room(self, pages: int) -> list[int] | None:
        if pages > len(self.host.free_list):
            self.evict_host(self.host.available() + len(self.host_leaves) * 1_000)
        return super().host_room(pages)


@mutant("host-gives-one-more", kills=("EVICT-06", "TIER-15"), configs=HOSTED)
class HostGivesOneMore(TierTree):
    """Whoever asks the host for room gets a page more: what it held has to be read from storage again."""

    def evict_host(self, n: int) -> int:
        return super().evict_host(n + self.page_size) if n else 0


@mutant("a-copy-makes-room-for-all", kills=("EVICT-06",), configs=HOSTED)
class ACopyMakesRoomForAll(TierTree):
    """A copy that lacks a page drops as many as it has, though the profile declares what it lacks."""

    def host_room(self, pages: int) -> list[int] | None:
        found = self.host.take(pages)
        if found is None:
            self.evict_host(pages * self.page_size)
            found = self.host.take(pages)
        return found


@mutant("backups-flush-the-host", kills=("EVICT-06",), configs=NOT_BACK)
class BackupsFlushTheHost(BackupQueue):
    """Each backup begins with an empty host, short of memory or not."""

    def start(self, node: TieredNode, namespace: str | None, units: tuple[object, ...]) -> bool:
        self.tree.evict_host(len(self.tree.host_leaves) * 1_000)
        return super().start(node, namespace, units)  # type: ignore[arg-type]
