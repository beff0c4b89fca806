"""Request mutants: what a request owns while it begins, grows and is published."""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.specimen.prefix.pool import PagedPool
from kvlitmus.conformance.specimen.prefix.request import RequestTable, SpecimenRequest
from kvlitmus.conformance.specimen.prefix.tree import Node, RadixTree
from kvlitmus.mutants.registry import PAGED, mutant
from kvlitmus.spec.words.units import Key

CROWDED = (Config(page_size=4, pages=8), Config(page_size=1, pages=8))


@mutant(
    "chunk-matched-again",
    bugs=("S01",),
    links=("https://github.com/sgl-project/sglang/pull/1858",),
    kills=("REQ-04", "REQ-11", "POOL-12"),
)
class ChunkMatchedAgain(RequestTable):
    """The pool leaks with every prompt that is computed in chunks.

    The next chunk begins like a new request, with a match that overwrites the row; what the chunk before
    had computed is neither cached nor freed.
    """

    def publish(self, rid: int, chunked: bool) -> SpecimenRequest:
        if not chunked:
            return super().publish(rid, chunked)
        request = self.running[rid]
        pages, node = self.find(request.key)
        self.tree.lock(node)
        self.tree.unlock(request.node)
        row = self.pool.slots(pages)
        request.row[: len(row)] = row
        request.node, request.cached = node, len(row)
        return request


@mutant(
    "refused-keeps-its-slot",
    bugs=("S22",),
    links=("https://github.com/sgl-project/sglang/pull/16067",),
    kills=("REQ-10", "POOL-12"),
    configs=CROWDED,
)
class RefusedKeepsItsSlot(RequestTable):
    """The pool shrinks whenever a request has to wait.

    What was set aside for the request before it is known that there is room for all of it isn't returned when
    there isn't.  Upstream: a forked Mamba state; here: the request's first page.
    """

    def make_room(self, pages: int) -> bool:
        """One page is taken first; it is put back only if the rest fits."""
        first = self.pool.take(1) if pages > 1 else None
        if first is None:
            return super().make_room(pages)
        if not super().make_room(pages - 1):
            return False
        self.pool.give_back(first)
        return True


@mutant(
    "lock-before-capacity",
    bugs=("V03",),
    links=("https://github.com/vllm-project/vllm/issues/11562", "https://github.com/vllm-project/vllm/pull/11565"),
    kills=("LOCK-02", "LOCK-04", "LOCK-06"),
    configs=CROWDED,
)
class LockBeforeCapacity(RequestTable):
    """The scheduler stands still: everything is protected by requests that never began.

    The matched prefix is locked, then there turns out to be no room, and the return forgets the lock.
    """

    def begin(self, rid: int, key: Key) -> SpecimenRequest | None:
        _, node = self.find(key)
        running = super().begin(rid, key)
        if running is None:
            self.tree.lock(node)
        return running


@mutant(
    "budget-before-the-match",
    bugs=("N06",),
    links=(
        "https://github.com/GeeeekExplorer/nano-vllm/pull/211",
        "https://github.com/GeeeekExplorer/nano-vllm/pull/233",
    ),
    kills=("REQ-01", "REQ-02", "REQ-03"),
    configs=CROWDED,
)
class BudgetBeforeTheMatch(RequestTable):
    """An index error some time after a request was pre-empted.

    How much a request needs is computed from a match; then room is made, which may evict what was matched;
    then the match is repeated, and the two are put together.
    """

    def begin(self, rid: int, key: Key) -> SpecimenRequest | None:
        size = self.pool.page_size
        wanted = -(-len(key.tokens) // size) - len(self.find(key)[0])
        if not self.make_room(wanted):
            return None
        pages, node = self.find(key)
        self.tree.lock(node)
        own = self.pool.take(wanted)
        assert own is not None
        row = self.pool.slots(pages + own)[: len(key.tokens)]
        self.running[rid] = SpecimenRequest(key, row, len(pages) * size, node)
        return self.running[rid]


@mutant(
    "row-not-remapped",
    bugs=("N03",),
    links=("https://github.com/sgl-project/mini-sglang/pull/142",),
    kills=("REQ-03", "REQ-02"),
)
class RowNotRemapped(RequestTable):
    """A request goes on reading pages that were freed.

    Where another request had cached the same pages first, one's own are freed, but stay in the row.
    """

    def publish(self, rid: int, chunked: bool) -> SpecimenRequest:
        row = list(self.running[rid].row)
        request = super().publish(rid, chunked)
        request.row = row
        return request


@mutant(
    "empty-insert-moves-the-anchor",
    bugs=("S93",),
    links=("https://github.com/sgl-project/sglang/pull/38191", "https://github.com/sgl-project/sglang/pull/35821"),
    kills=("LOCK-02", "LOCK-04", "LOCK-06"),
)
class EmptyInsertMovesTheAnchor(RequestTable):
    """A lock is given back on a node on which it isn't held.

    A request has nothing new to cache; the insert of nothing ends at the root, and the root becomes what the
    request thinks it has locked.
    """

    def publish(self, rid: int, chunked: bool) -> SpecimenRequest:
        request = self.running[rid]
        if self.cacheable(request) > request.cached:
            return super().publish(rid, chunked)
        self.store(request, chunked)
        request.node = self.tree.root(request.key.namespace)
        return request


@mutant(
    "resumed-without-a-lock",
    bugs=("S106",),
    links=("https://github.com/sgl-project/sglang/pull/29471",),
    kills=("LOCK-02", "LOCK-04"),
)
class ResumedWithoutALock(RequestTable):
    """The scheduler dies when a retracted request comes back.

    Retraction forgets what the request had locked, and the way back doesn't lock it anew.
    """

    def __init__(self, pool: PagedPool, tree: RadixTree) -> None:
        super().__init__(pool, tree)
        self.retracted: set[int] = set()

    def begin(self, rid: int, key: Key) -> SpecimenRequest | None:
        request = super().begin(rid, key)
        if request is not None and rid in self.retracted:
            self.tree.unlock(request.node)
            request.node = self.tree.root(key.namespace)
        return request

    def end(self, rid: int, keep: bool) -> None:
        super().end(rid, keep)
        if not keep:
            self.retracted.add(rid)


@mutant(
    "cached-when-scheduled",
    bugs=("V06",),
    links=("https://github.com/vllm-project/vllm/pull/29387", "https://github.com/vllm-project/vllm/pull/38715"),
    kills=("POOL-12",),
)
class CachedWhenScheduled(RequestTable):
    """A second request reads KV that the first one hasn't computed yet.

    The pages of a prompt become matchable when they are allocated, without that being declared.
    """

    def begin(self, rid: int, key: Key) -> SpecimenRequest | None:
        request = super().begin(rid, key)
        if request is not None:
            self.store(request, chunked=True)
        return request


@mutant(
    "padding-counts-as-cached",
    bugs=("V08",),
    links=("https://github.com/vllm-project/vllm/pull/42547",),
    kills=("REQ-04", "POOL-12"),
    configs=(PAGED,),
)
class PaddingCountsAsCached(RequestTable):
    """Nothing of the last blocks is ever cached.

    The mark up to which a request is cached is set to its padded length.
    """

    def publish(self, rid: int, chunked: bool) -> SpecimenRequest:
        """All pages count, the partly filled one too."""
        request = super().publish(rid, chunked)
        request.cached = len(request.row)
        return request


@mutant(
    "mark-moved-by-asking",
    bugs=("L09",),
    links=("https://github.com/LMCache/LMCache/issues/4508", "https://github.com/LMCache/LMCache/pull/4525"),
    kills=("REQ-07", "POOL-12"),
)
class MarkMovedByAsking(RequestTable):
    """A span in the middle of a prompt is never stored.

    The mark of what is stored already is moved on where a request asks, not where it stores: here with every
    growth by a whole page.
    """

    def grow(self, rid: int, tokens: Sequence[int]) -> list[int] | None:
        new = super().grow(rid, tokens)
        request = self.running[rid]
        if new is not None and self.cacheable(request) == len(request.row):
            request.cached = self.cacheable(request)
        return new


@mutant(
    "old-pages-after-replacement",
    bugs=("V24",),
    links=("https://github.com/vllm-project/vllm/pull/49145", "https://github.com/vllm-project/vllm/issues/49125"),
    kills=("REQ-02", "POOL-12"),
)
class OldPagesAfterReplacement(RequestTable):
    """The index points to blocks with other contents.

    A retracted request comes back, and the pages of its first life are registered for it again.
    """

    def __init__(self, pool: PagedPool, tree: RadixTree) -> None:
        super().__init__(pool, tree)
        self.first_life: dict[int, list[int]] = {}

    def end(self, rid: int, keep: bool) -> None:
        self.first_life[rid] = list(self.running[rid].row)
        super().end(rid, keep)

    def store(self, request: SpecimenRequest, chunked: bool) -> tuple[int, Node]:
        """The old list, where there is one of the right length."""
        for rid, running in self.running.items():
            old = self.first_life.get(rid)
            if running is request and old is not None and len(old) >= len(request.row):
                request.row[request.cached :] = old[request.cached : len(request.row)]
        return super().store(request, chunked)


CHUNKED_IN_ADVANCE = (
    "https://github.com/vllm-project/vllm/pull/29387",
    "https://github.com/vllm-project/vllm/pull/38715",
)


@mutant(
    "computed-part-ignored",
    bugs=("V06",),
    links=CHUNKED_IN_ADVANCE,
    kills=("REQ-04", "REQ-13"),
)
class ComputedPartIgnored(RequestTable):
    """A second request reads KV that the first one hasn't computed yet.

    A chunk of a long prompt is published with all pages that the prompt has, because they are there already.
    """

    def publish_upto(self, rid: int, upto: int, chunked: bool) -> SpecimenRequest:
        return self.publish(rid, chunked)


@mutant(
    "part-page-rounded-up",
    bugs=("V06",),
    links=CHUNKED_IN_ADVANCE,
    kills=("REQ-04", "REQ-13"),
    configs=(PAGED,),
)
class PartPageRoundedUp(RequestTable):
    """The last tokens of a page are garbage for everybody but the request that will compute them.

    Where a chunk ends within a page, the page counts as computed.
    """

    def cacheable(self, request: SpecimenRequest) -> int:
        """Rounded up, where the rest of the page belongs to the request."""
        whole = request.key.length - request.key.length % self.pool.page_size
        return whole if request.upto is None else min(request.upto + -request.upto % self.pool.page_size, whole)


@mutant(
    "ended-early-keeps-all",
    bugs=("V06",),
    links=CHUNKED_IN_ADVANCE,
    kills=("REQ-13", "TREE-08"),
)
class EndedEarlyKeepsAll(RequestTable):
    """A prompt that was cancelled in the middle is served to the next request as if it had been computed.

    Finishing caches the pages of the whole prompt.
    """

    def end_upto(self, rid: int, upto: int) -> None:
        self.end(rid, keep=True)


@mutant(
    "ended-early-loses-the-rest",
    bugs=("V06",),
    links=CHUNKED_IN_ADVANCE,
    kills=("REQ-07", "POOL-12"),
)
class EndedEarlyLosesTheRest(RequestTable):
    """The pool shrinks with every prompt that ends before it is computed.

    Only the tail that fills no page is freed, counted from the end of the prompt, not from where it was computed.
    """

    def free_tail(self, request: SpecimenRequest, start: int) -> None:
        """From the end of the prompt's whole pages on."""
        if request.upto is not None:
            start = max(start, request.key.length - request.key.length % self.pool.page_size)
        super().free_tail(request, start)


@mutant("aborted-requests-count-as-running", kills=("REQ-15",))
class AbortedRequestsCountAsRunning(RequestTable):
    """An idle server refuses everybody: so many may run at once, and one that is aborted counts for good."""

    most = 6
    admitted = 0

    def begin(self, rid: int, key: Key) -> SpecimenRequest | None:
        running = None if self.admitted >= self.most else super().begin(rid, key)
        self.admitted += running is not None
        return running

    def end(self, rid: int, keep: bool) -> None:
        super().end(rid, keep)
        self.admitted -= keep


@mutant("another-request-takes-it-all", kills=("REQ-15", "REQ-14"))
class AnotherRequestTakesItAll(RequestTable):
    """Requests are served one after the other though there is room for all: as long as one runs, the next is told that
    memory is short when it wants more than half of what is left.
    """

    def make_room(self, pages: int) -> bool:
        if self.running and 2 * pages > len(self.pool.free_list) >= pages:
            return False
        return super().make_room(pages)


CROP = ("https://github.com/huggingface/transformers/issues/47433", "https://github.com/ml-explore/mlx-lm/issues/1494")


@mutant("taken-back-and-not-freed", links=CROP, kills=("REQ-16", "REQ-17", "POOL-12"))
class TakenBackAndNotFreed(RequestTable):
    """Memory goes with every rejected draft: the row is shorter, and what it had behind stays nobody's."""

    def take_back(self, rid: int, n: int) -> int:
        request = self.running[rid]
        left = len(request.row) - n
        request.row = request.row[:left]
        request.key = request.key._replace(tokens=request.key.tokens[:left])
        return 0


@mutant("last-page-taken-back-too", links=CROP, kills=("REQ-17", "POOL-12"))
class LastPageTakenBackToo(RequestTable):
    """A page is freed in which tokens are left: the pages behind are counted from the last whole one."""

    def take_back(self, rid: int, n: int) -> int:
        request, size = self.running[rid], self.pool.page_size
        last = (len(request.row) - n) // size * size
        behind = [slot // size for slot in request.row[max(last, request.cached) :: size]]
        request.row = request.row[: len(request.row) - n]
        request.key = request.key._replace(tokens=request.key.tokens[: len(request.row)])
        self.pool.give_back(behind)
        return len(behind)


@mutant("row-as-long-as-before", links=CROP, kills=("POOL-17", "REQ-01", "POOL-12"))
class RowAsLongAsBefore(RequestTable):
    """Tokens are taken back, and the row keeps their slots: what comes next is written behind them."""

    def take_back(self, rid: int, n: int) -> int:
        row = list(self.running[rid].row)
        freed = super().take_back(rid, n)
        self.running[rid].row = row
        return freed


@mutant("rejected-drafts-in-the-key", links=CROP, kills=("REQ-04", "TREE-08", "TREE-03", "REQ-03"))
class RejectedDraftsInTheKey(RequestTable):
    """Pages are cached under tokens that were rejected: the slots are taken back, and the key keeps them."""

    def take_back(self, rid: int, n: int) -> int:
        key = self.running[rid].key
        freed = super().take_back(rid, n)
        self.running[rid].key = key
        return freed


@mutant("slots-told-that-are-left", links=CROP, kills=("REQ-17",))
class SlotsToldThatAreLeft(RequestTable):
    """Whoever counts on what came free is told the tokens that were taken back, not the slots of whole pages."""

    def take_back(self, rid: int, n: int) -> int:
        super().take_back(rid, n)
        return -(-n // self.pool.page_size)
