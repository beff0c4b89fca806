"""Release mutants: what the end of a request frees, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.conformance.specimen.prefix.pool import PagedPool
from kvlitmus.conformance.specimen.prefix.request import RequestTable, SpecimenRequest
from kvlitmus.conformance.specimen.prefix.tree import RadixTree
from kvlitmus.mutants.prefix.pool import BelievingPool
from kvlitmus.mutants.registry import PAGED, mutant
from kvlitmus.spec.words.units import Key


@mutant(
    "beyond-committed-forgotten",
    bugs=("S55",),
    links=("https://github.com/sgl-project/sglang/pull/19518",),
    kills=("REQ-07", "POOL-12"),
)
class BeyondCommittedForgotten(RequestTable):
    """Memory leaks with speculative decoding.

    One of the ways out frees what is committed, while slots for more had been allocated ahead: here, on an
    abort, the pages opened since the request began or was last published.
    """

    def __init__(self, pool: PagedPool, tree: RadixTree) -> None:
        super().__init__(pool, tree)
        self.committed: dict[int, int] = {}

    def begin(self, rid: int, key: Key) -> SpecimenRequest | None:
        self.committed[rid] = len(key.tokens)
        return super().begin(rid, key)

    def publish(self, rid: int, chunked: bool) -> SpecimenRequest:
        request = super().publish(rid, chunked)
        self.committed[rid] = len(request.row)
        return request

    def end(self, rid: int, keep: bool) -> None:
        """Free no more than what is committed."""
        if not keep:
            del self.running[rid].row[self.committed[rid] :]
        super().end(rid, keep)


@mutant(
    "tail-page-stranded",
    bugs=("S80",),
    links=("https://github.com/sgl-project/sglang/pull/31616", "https://github.com/sgl-project/sglang/pull/13826"),
    kills=("REQ-07", "POOL-12"),
    configs=(PAGED,),
)
class TailPageStranded(RequestTable):
    """One page is lost with every request whose length is no multiple of the page.

    The allocator hands out whole pages, the request records the tokens, and frees the pages that they fill.
    """

    def free_tail(self, request: SpecimenRequest, start: int) -> None:
        size = self.pool.page_size
        whole = len(request.row) - len(request.row) % size
        self.pool.give_back([slot // size for slot in request.row[start:whole:size]])


@mutant(
    "seam-within-a-page",
    bugs=("S98",),
    links=("https://github.com/sgl-project/sglang/pull/38941",),
    kills=("POOL-11", "POOL-12"),
    configs=(PAGED,),
    beside=(BelievingPool,),
)
class SeamWithinAPage(RequestTable):
    """One page is handed out to two requests.

    A row is freed in two pieces whose seam lies within a page, and each piece frees the whole page.
    """

    def free_tail(self, request: SpecimenRequest, start: int) -> None:
        """What was there before the newest token, then the newest token."""
        size = self.pool.page_size
        seam = max(start, len(request.row) - 1)
        for piece in (request.row[start:seam], request.row[seam:]):
            self.pool.give_back(list(dict.fromkeys(slot // size for slot in piece)))


@mutant(
    "null-slot-is-freed",
    bugs=("S99",),
    links=("https://github.com/sgl-project/sglang/pull/38269",),
    kills=("POOL-06", "POOL-11", "POOL-12"),
    configs=(PAGED,),
    beside=(BelievingPool,),
)
class NullSlotIsFreed(RequestTable):
    """Page 0, the target of padded writes, is handed out, and later freed twice.

    Rows are padded with slot 0, and one way of freeing them doesn't filter that out.
    """

    def free_tail(self, request: SpecimenRequest, start: int) -> None:
        size = self.pool.page_size
        padded = request.row[start:] + [0] * (-len(request.row) % size)
        self.pool.give_back(list(dict.fromkeys(slot // size for slot in padded)))


@mutant(
    "overlap-slot-freed-twice",
    bugs=("S111",),
    links=(
        "https://github.com/sgl-project/sglang/pull/12224",
        "https://github.com/sgl-project/sglang-jax/pull/982",
    ),
    kills=("POOL-11", "POOL-12"),
    beside=(BelievingPool,),
)
class OverlapSlotFreedTwice(RequestTable):
    """The leak check fires after a plain generation.

    A step that ran ahead got a slot for one more token; the end of the request frees the row, and the step's
    own clean-up frees that slot again.
    """

    def end(self, rid: int, keep: bool) -> None:
        """Free the newest token's page once more."""
        request = self.running[rid]
        newest = request.row[-1:] if len(request.row) > self.cacheable(request) else []
        super().end(rid, keep)
        self.pool.give_back([slot // self.pool.page_size for slot in newest])


@mutant(
    "abort-releases-nothing",
    bugs=("T05", "S91"),
    links=("https://github.com/NVIDIA/TensorRT-LLM/pull/15018", "https://github.com/sgl-project/sglang/pull/36926"),
    kills=("REQ-07", "POOL-12"),
)
class AbortReleasesNothing(RequestTable):
    """Blocks belong to nobody after early ends.

    A request that is removed before anything of it was cached takes the short way out, past the release.
    """

    def end(self, rid: int, keep: bool) -> None:
        if not keep and not self.running[rid].cached:
            del self.running[rid]
            return
        super().end(rid, keep)


@mutant(
    "aborted-yet-cached",
    bugs=("V20",),
    links=("https://github.com/vllm-project/vllm/pull/43569",),
    kills=("REQ-09", "POOL-12", "REQ-07"),
)
class AbortedYetCached(RequestTable):
    """A prompt is served pages that were freed before anybody computed them.

    The entries made for a request aren't taken back when it is aborted; its slots are freed all the same.
    """

    def end(self, rid: int, keep: bool) -> None:
        """Leave entries for what is about to be freed."""
        if not keep:
            self.store(self.running[rid], chunked=True)
        super().end(rid, keep)


@mutant(
    "one-flag-keeps-the-lock",
    bugs=("L05",),
    links=("https://github.com/LMCache/LMCache/pull/3884",),
    kills=("LOCK-02", "LOCK-04", "LOCK-06"),
)
class OneFlagKeepsTheLock(RequestTable):
    """The allocator is exhausted after a while, with everything referenced.

    One combination of flags leaves out the release: here a request that finishes without anything new to cache.
    """

    def end(self, rid: int, keep: bool) -> None:
        """Lock once more what nobody will unlock."""
        request = self.running[rid]
        if keep and request.cached and request.cached == self.cacheable(request):
            self.tree.lock(request.node)
        super().end(rid, keep)


class LatePool(BelievingPool):
    """A pool whose groups keep what callers pass by reference and read it when the group ends."""

    def __init__(self, pages: int, page_size: int, reserved: int) -> None:
        super().__init__(pages, page_size, reserved)
        self.lent: list[tuple[list[int], int, int]] = []

    def give_back_part(self, row: list[int], start: int, end: int) -> None:
        """Free the pages of ``row[start:end]``: now, or as the row stands when the group ends."""
        if self.group is None:
            self.give_back([slot // self.page_size for slot in row[start : end : self.page_size]])
        else:
            self.lent.append((row, start, end))

    def free_group_end(self) -> None:
        """Read what was lent, and let it take effect."""
        for row, start, end in self.lent:
            self.give_back([slot // self.page_size for slot in row[start : end : self.page_size]])
        self.lent = []
        super().free_group_end()


@mutant(
    "group-reads-the-row-later",
    links=("https://github.com/sgl-project/sglang/pull/34067",),
    kills=("POOL-12", "REQ-11"),
    beside=(LatePool,),
)
class GroupReadsTheRowLater(RequestTable):
    """The tree's own slots are freed, and a page that another request computed first is lost.

    Within a free group the duplicates are passed as a view of the request's row; publishing then
    overwrites that row with the tree's slots, and the group's end frees what stands there by then.
    """

    def drop_duplicates(self, request: SpecimenRequest, already: int) -> None:
        assert isinstance(self.pool, LatePool)
        self.pool.give_back_part(request.row, request.cached, already * self.pool.page_size)


WAITING = replace(PROFILE, release_delay=2)


class QueuedPool(PagedPool):
    """A pool with a release queue: what comes back is free when more has come back so many times."""

    keeps = 2

    def __init__(self, pages: int, page_size: int, reserved: int) -> None:
        super().__init__(pages, page_size, reserved)
        self.queue: list[list[int]] = []

    def give_back(self, pages: Sequence[int]) -> None:
        """Into the queue, or into the open group."""
        many = len(self.free_list)
        super().give_back(pages)
        self.put_off(many)

    def free_group_end(self) -> None:
        """All that was collected goes into the queue together."""
        many = len(self.free_list)
        super().free_group_end()
        self.put_off(many)

    def put_off(self, many: int) -> None:
        """What is on the free list behind its first so many pages waits."""
        batch = self.free_list[many:]
        if not batch:
            return
        del self.free_list[many:]
        self.queue.append(batch)
        while len(self.queue) > self.keeps:
            self.let_go(self.queue.pop(0))

    def let_go(self, batch: list[int]) -> None:
        """What has waited is free."""
        self.free_list += batch

    def at_once(self, pages: Sequence[int]) -> None:
        """What an eviction has freed was freed since it is needed."""
        super().give_back(pages)


class EvictsAtOnce(RadixTree):
    """A tree whose victims are free at once, over a pool with a release queue."""

    def __init__(self, page_size: int, policy: str, release: Callable[[Sequence[int]], None]) -> None:
        pool = getattr(release, "__self__", None)
        assert isinstance(pool, QueuedPool)
        super().__init__(page_size, policy, pool.at_once)


@mutant(
    "release-queue-too-long",
    profile=replace(WAITING, release_delay=1),
    beside=(EvictsAtOnce,),
    kills=("POOL-12", "POOL-14"),
)
class ReleaseQueueTooLong(QueuedPool):
    """Requests are refused though memory was given back long ago: it waits a call longer than the cache promises."""


@mutant(
    "release-queue-loses-a-page",
    profile=WAITING,
    beside=(EvictsAtOnce,),
    kills=("POOL-12", "POOL-14"),
)
class ReleaseQueueLosesAPage(QueuedPool):
    """Memory shrinks: of what comes out of the release queue together the last page is dropped, if it isn't alone."""

    def let_go(self, batch: list[int]) -> None:
        super().let_go(batch[:-1] if len(batch) > 1 else batch)


@mutant("release-queue-frees-twice", profile=WAITING, beside=(EvictsAtOnce,), kills=("POOL-09", "POOL-11", "POOL-12"))
class ReleaseQueueFreesTwice(QueuedPool):
    """Two requests write into one page: what comes out of the release queue is put on the free list once more by the
    next call.
    """

    def __init__(self, pages: int, page_size: int, reserved: int) -> None:
        super().__init__(pages, page_size, reserved)
        self.again: list[int] = []

    def let_go(self, batch: list[int]) -> None:
        super().let_go(self.again)
        super().let_go(batch)
        self.again = batch
