"""Pool mutants: slots handed out wrongly, counted wrongly, or lost on the way back."""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.specimen.flat import Specimen
from kvlitmus.conformance.specimen.prefix.pool import PagedPool
from kvlitmus.mutants.registry import PAGED, mutant


class BelievingPool(PagedPool):
    """A pool that believes its callers, as real ones do for speed: no look at what is being freed.

    No mutant by itself: lawful callers never notice.  Bugs of callers show only in such a pool;
    the specimen's own would raise before any harm is done.
    """

    def give_back(self, pages: Sequence[int]) -> None:
        """Put pages on the free list, or into the open group, whatever they are."""
        for page in pages:
            self.is_free[page] = True
        if self.group is None:
            self.free_list += pages
        else:
            self.group += pages


@mutant(
    "extend-past-committed",
    bugs=("S109",),
    links=("https://github.com/sgl-project/sglang/pull/27731", "https://github.com/sgl-project/sglang/issues/28754"),
    kills=("POOL-12", "POOL-15", "POOL-18", "REQ-01", "REQ-02", "POOL-05"),
)
class ExtendPastCommitted(PagedPool):
    """Two requests own one page while every sum stays balanced.

    The committed length is one token ahead of what is allocated, so a full last page passes for one
    with room: the next token's slot is the one after it, in a page that belongs to somebody else.
    """

    def alloc_extend(self, before: Sequence[int], after: Sequence[int], last: Sequence[int]) -> list[int] | None:
        """Continue after the last slot, even where its page is full."""
        size = self.page_size
        if not all(before):
            return super().alloc_extend(before, after, last)
        reached = [(old // size + 1) * size for old in before]
        opened = [max(0, -(-(new - end) // size)) for new, end in zip(after, reached, strict=True)]
        pages = self.take(sum(opened))
        if pages is None:
            return None
        slots: list[int] = []
        for old, new, slot, end, count in zip(before, after, last, reached, opened, strict=True):
            room = min(new, end) - old
            slots += range(slot + 1, slot + 1 + room)
            slots += self.slots(pages[:count])[: new - old - room]
            del pages[:count]
        return slots


@mutant(
    "refusal-keeps-pages",
    bugs=("S07",),
    links=("https://github.com/sgl-project/sglang/pull/8901",),
    kills=("POOL-08", "POOL-12"),
)
class RefusalKeepsPages(PagedPool):
    """The pool shrinks with every request that it refuses.

    An operation over many pages gives up at the first one that is missing and returns without those
    it has taken already.  Upstream: host pages of a storage read; here: the pages of an allocation.
    """

    def take(self, count: int) -> list[int] | None:
        """Page by page, giving up where the free list ends."""
        pages: list[int] = []
        while len(pages) < count:
            if not self.free_list:
                return None
            page = self.free_list.pop(0)
            self.is_free[page] = False
            pages.append(page)
        return pages


@mutant(
    "short-is-success",
    bugs=("D01",),
    links=("https://github.com/ai-dynamo/dynamo/issues/15079",),
    kills=("POOL-01",),
)
class ShortIsSuccess(PagedPool):
    """The caller believes in memory that it did not get.

    What failed is counted as done.  Upstream: loads of blocks; here: an allocation for which too little is free
    hands out what there is, as if that were all.
    """

    def alloc(self, n: int) -> list[int] | None:
        return super().alloc(min(n, self.available()))


@mutant(
    "quota-forgets-one-exit",
    bugs=("S23",),
    links=("https://github.com/sgl-project/sglang/pull/15439", "https://github.com/sgl-project/sglang/pull/30053"),
    kills=("POOL-07",),
)
class QuotaForgetsOneExit(PagedPool):
    """After a while everything is refused, although the pool is empty.

    A counter of what is occupied guards new work; one of the exits, frees collected in a group,
    never lowers it.  Upstream: the rate limit of prefetches and the queue of failed bootstraps.
    """

    def __init__(self, pages: int, page_size: int, reserved: int) -> None:
        super().__init__(pages, page_size, reserved)
        self.occupied = 0

    def alloc(self, n: int) -> list[int] | None:
        return None if self.occupied * self.page_size + n > self.pages * self.page_size else super().alloc(n)

    def take(self, count: int) -> list[int] | None:
        pages = super().take(count)
        self.occupied += len(pages or ())
        return pages

    def give_back(self, pages: Sequence[int]) -> None:
        """Occupy less, unless it happens in a group."""
        super().give_back(pages)
        if self.group is None:
            self.occupied -= len(pages)


@mutant(
    "counter-read-after-the-swap",
    bugs=("T01",),
    links=("https://github.com/NVIDIA/TensorRT-LLM/issues/11879", "https://github.com/NVIDIA/TensorRT-LLM/pull/12297"),
    kills=("POOL-13", "POOL-14"),
)
class CounterReadAfterTheSwap(PagedPool):
    """The number of free blocks drifts away from the free list.

    The counter to change is chosen by the state of the page, and the page is looked at after its
    state was changed: what is claimed is never subtracted.  Upstream: the level of a block that has
    just been swapped to another one.
    """

    def __init__(self, pages: int, page_size: int, reserved: int) -> None:
        super().__init__(pages, page_size, reserved)
        self.free_pages = pages

    def available(self) -> int:
        return self.free_pages * self.page_size

    def take(self, count: int) -> list[int] | None:
        pages = super().take(count)
        self.free_pages -= sum(self.is_free[page] for page in pages or ())
        return pages

    def give_back(self, pages: Sequence[int]) -> None:
        super().give_back(pages)
        if self.group is None:
            self.free_pages += len(pages)

    def free_group_end(self) -> None:
        self.free_pages += len(self.group or ())
        super().free_group_end()


@mutant(
    "page-number-as-slot",
    bugs=("T04",),
    links=("https://github.com/NVIDIA/TensorRT-LLM/pull/13124",),
    kills=("POOL-02", "POOL-04", "POOL-05", "POOL-03"),
    configs=(PAGED,),
)
class PageNumberAsSlot(PagedPool):
    """Memory of others is read and written.

    The number of a block is used as a position in the pool.
    """

    def alloc(self, n: int) -> list[int] | None:
        """Slots counted from the page's number instead of its first slot."""
        slots, size = super().alloc(n), self.page_size
        if slots is None:
            return None
        return [first // size + offset for first in slots[::size] for offset in range(size)]


@mutant(
    "group-does-not-wait",
    bugs=("S48",),
    links=("https://github.com/sgl-project/sglang/pull/24585",),
    kills=("POOL-19",),
)
class GroupDoesNotWait(PagedPool):
    """Pages are handed out again while somebody still reads them.

    The barrier behind which frees should take effect is left out: they do so at once.  Upstream: an
    eviction that freed device pages with their copies to the host still pending; here: frees in a group.
    """

    def give_back(self, pages: Sequence[int]) -> None:
        group, self.group = self.group, None
        super().give_back(pages)
        self.group = group


@mutant(
    "waits-for-an-end-that-has-passed",
    bugs=("V17",),
    links=("https://github.com/vllm-project/vllm/pull/32255",),
    kills=("POOL-09", "POOL-10", "POOL-12"),
)
class WaitsForAnEndThatHasPassed(PagedPool):
    """Freed pages never come back.

    A free is deferred to an event that has been consumed already.  Upstream: the end of an aborted
    load; here: the end of a group, after which frees go on being collected.
    """

    def free_group_end(self) -> None:
        """Everything so far takes effect; what follows waits for the next end."""
        self.free_list += self.group or []
        self.group = []


@mutant(
    "staging-buffer-reused",
    bugs=("T03",),
    links=("https://github.com/NVIDIA/TensorRT-LLM/pull/15546",),
    kills=("PORT-04",),
)
class StagingBufferReused(PagedPool):
    """A request reads the slots of the one that came after it.

    All answers are built in one buffer, while the caller of before still uses what it was given.
    """

    def __init__(self, pages: int, page_size: int, reserved: int) -> None:
        super().__init__(pages, page_size, reserved)
        self.staging: list[int] = []

    def alloc(self, n: int) -> list[int] | None:
        slots = super().alloc(n)
        if slots is None:
            return None
        self.staging[:] = slots
        return self.staging


@mutant(
    "answer-is-the-free-list",
    bugs=("S29",),
    links=("https://github.com/sgl-project/sglang/pull/31296",),
    kills=("PORT-04",),
)
class AnswerIsTheFreeList(PagedPool):
    """The pages of a request change while another thread copies them.

    An allocation returns a window on the free list, and the free list is then changed in place.
    """

    def __init__(self, pages: int, page_size: int, reserved: int) -> None:
        super().__init__(pages, page_size, reserved)
        self.windows: list[list[int]] = []

    def alloc(self, n: int) -> list[int] | None:
        slots = super().alloc(n)
        if slots:
            self.windows.append(slots)
        return slots

    def give_back(self, pages: Sequence[int]) -> None:
        """Freed pages are written before the head of the list, which is where the newest window lies."""
        super().give_back(pages)
        if self.windows:
            newest = self.windows[-1]
            back = self.slots(pages)[: len(newest)]
            newest[: len(back)] = back


@mutant(
    "grows-from-the-aligned-length",
    bugs=("S80",),
    links=("https://github.com/sgl-project/sglang/pull/31616", "https://github.com/sgl-project/sglang/issues/13741"),
    kills=("POOL-17", "POOL-18"),
    configs=(PAGED,),
)
class GrowsFromTheAlignedLength(PagedPool):
    """Part of a page is stranded whenever a request grows.

    The allocated length that is recorded and the pages that were handed out disagree: here the length is rounded
    up, so the next token opens a page although the last one has room (the other way round: ``tail-page-stranded``).
    """

    def alloc_extend(self, before: Sequence[int], after: Sequence[int], last: Sequence[int]) -> list[int] | None:
        size = self.page_size
        aligned = [-(-old // size) * size for old in before]
        ends = [start + new - old for start, old, new in zip(aligned, before, after, strict=True)]
        return super().alloc_extend(aligned, ends, last)


@mutant(
    "batch-skips-the-check",
    bugs=("K01",),
    links=("https://github.com/kvcache-ai/Mooncake/issues/4239",),
    kills=("POOL-04", "POOL-05", "POOL-15"),
)
class BatchSkipsTheCheck(PagedPool):
    """Memory is handed out while somebody reads it.

    Single operations look whether each thing is theirs to use; the path for many at once looks at the first one
    only.  Upstream: leases of objects that are read in a batch; here: a run of consecutive pages.
    """

    def take(self, count: int) -> list[int] | None:
        """Three pages or more: those that follow the first free one."""
        end = self.reserved + self.pages
        if count < 3 or not self.free_list or self.free_list[0] + count > end:
            return super().take(count)
        pages = list(range(self.free_list[0], self.free_list[0] + count))
        self.free_list = [page for page in self.free_list if page not in pages]
        for page in pages:
            self.is_free[page] = False
        return pages


@mutant(
    "allocation-evicts-unasked",
    links=("https://github.com/sgl-project/sglang/pull/16370",),
    kills=("POOL-20",),
    configs=(Config(page_size=1, pages=8), Config(page_size=4, pages=8)),
)
class AllocationEvictsUnasked(Specimen):
    """Cached prefixes vanish while nobody asked for room.

    An allocation that finds too little evicts the rest on its own, although the profile declares that
    only explicit calls evict (cf. hazard H-09: evictions as a side effect of a reservation).
    """

    def alloc(self, n: int) -> Sequence[int] | None:
        short = n - self.pool.available()
        if 0 < short <= self.tree.evictable:
            self.tree.evict(short)
        return super().alloc(n)


@mutant("batch-crosses-its-pages", kills=("POOL-17",))
class BatchCrossesItsPages(PagedPool):
    """Two requests write into each other's pages: in a batch the new slots come in the wrong order of requests."""

    def alloc_extend(self, before: Sequence[int], after: Sequence[int], last: Sequence[int]) -> list[int] | None:
        """From the last request on."""
        return super().alloc_extend(before[::-1], after[::-1], last[::-1])
