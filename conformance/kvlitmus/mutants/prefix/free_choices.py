"""Mutants that declare a freedom of the profile and take more than it gives."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.specimen.flat import Specimen
from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.conformance.specimen.prefix.pool import PagedPool
from kvlitmus.conformance.specimen.prefix.request import RequestTable, SpecimenRequest
from kvlitmus.conformance.specimen.prefix.tier import TierTree
from kvlitmus.conformance.specimen.prefix.tree import Node, RadixTree, Unit
from kvlitmus.mutants.prefix.evict import childless
from kvlitmus.mutants.registry import PAGED, mutant
from kvlitmus.spec.words.units import Key

LITTLE = (Config(page_size=4, pages=16),)
BY_FREQUENCY = (Config(page_size=1, policy="lfu"), Config(page_size=4, policy="lfu"))
OWN = replace(PROFILE, evict_order="own")


@mutant("own-order-forgets-locks", profile=OWN, kills=("EVICT-03", "LOCK-01"))
class OwnOrderForgetsLocks(RadixTree):
    """The KV of a running request is evicted under it.

    The cache has an order of its own, and who holds a leaf is no part of it.
    """

    def candidates(self, n: int) -> Collection[Node]:
        return childless(self)


@mutant("own-order-takes-one-more", profile=OWN, kills=("EVICT-06",))
class OwnOrderTakesOneMore(TierTree):
    """Host memory loses a page more than is needed, each time that room is made.

    The cache has an order of its own; how much goes isn't a matter of order.
    """

    def evict_host(self, n: int) -> int:
        return super().evict_host(n + self.page_size)


@mutant("watermark-counts-in-tokens", profile=replace(PROFILE, watermark=2), kills=("REQ-14", "REQ-15"), configs=LITTLE)
class WatermarkCountsInTokens(RequestTable):
    """Requests wait though more than the reserve would be left.

    The reserve is declared in pages, and multiplied by the size of a page once more.
    """

    def begin(self, rid: int, key: Key) -> SpecimenRequest | None:
        size = self.pool.page_size
        if len(self.pool.free_list) - -(-len(key.tokens) // size) < 2 * size:
            return None
        return super().begin(rid, key)


class WholeRequests(Specimen):
    """A specimen that takes requests for computed as a whole."""

    publish_upto = end_upto = None  # type: ignore[assignment]


@mutant("kept-abort-frees-its-pages", profile=replace(PROFILE, aborted="kept"), kills=("REQ-07", "POOL-12"))
class KeptAbortFreesItsPages(WholeRequests):
    """Pages are cached and free at once after an abort.

    An aborted request is inserted like one that has finished, and then its pages are freed all the same.
    """

    def end(self, rid: int, *, keep: bool) -> None:
        request = self.requests.running[rid]
        own = sorted({slot // self.config.page_size for slot in request.row[request.cached :]})
        super().end(rid, keep=True)
        if not keep:
            self.pool.give_back([page for page in own if not self.pool.is_free[page]])


@mutant(
    "two-bits-wrap-around", profile=replace(PROFILE, most_hits=3), kills=("TREE-13", "EVICT-05"), configs=BY_FREQUENCY
)
class TwoBitsWrapAround(RadixTree):
    """What is used most of all is evicted first, now and then.

    A counter of two bits isn't stopped at three, and the fourth use makes it zero.
    """

    def use(self, node: Node, priority: int, chunked: bool) -> None:
        super().use(node, priority, chunked)
        node.hits %= 4


@mutant("batch-begins-when-one-is-full", profile=replace(PROFILE, evict_batch=2), kills=("EVICT-06",))
class BatchBeginsWhenOneIsFull(RadixTree):
    """An eviction of a whole batch takes another one.

    The number of batches is a division and one more, whether something is left over or not.
    """

    def evict(self, n: int) -> int:
        batch = 2 * self.page_size
        return super().evict((n // batch + 1) * batch)


@mutant("turned-away-and-lost", profile=replace(PROFILE, admission="own"), kills=("REQ-07", "POOL-12"))
class TurnedAwayAndLost(RequestTable):
    """Memory is lost with each request that a filter keeps out of the cache.

    What fills no page is freed at the end as ever; nobody thinks of the whole pages that are turned away.
    """

    def end(self, rid: int, keep: bool) -> None:
        request = self.running[rid]
        if keep and len(request.row) % 3 == 0:
            del self.running[rid]
            self.free_tail(request, self.cacheable(request))
            self.tree.unlock(request.node)
        else:
            super().end(rid, keep)


@mutant(
    "expires-though-in-use",
    profile=replace(PROFILE, expiry="lookup"),
    kills=("LOCK-01", "FRAME-01", "POOL-12"),
    configs=(PAGED,),
)
class ExpiresThoughInUse(RadixTree):
    """The KV of a long request is thrown away while it runs.

    A page's age is that of its last use, and nobody asks whether somebody holds it.
    """

    def match(self, namespace: str | None, units: tuple[Unit, ...]) -> tuple[list[int], Node]:
        for leaf in childless(self):
            if leaf.touched < self.clock - 12:
                self.trim(leaf, len(leaf.pages))
        return super().match(namespace, units)


@mutant(
    "reclaims-what-fits-the-free-list",
    profile=replace(PROFILE, release_moment="taken"),
    kills=("POOL-12", "POOL-07"),
)
class ReclaimsWhatFitsTheFreeList(PagedPool):
    """The pool shrinks a little each time that it has nothing left.

    What is given back waits for the next allocation, whose loop over it stops when the request can be served.
    """

    def give_back(self, pages: Sequence[int]) -> None:
        super().give_back(pages[1:] if not self.free_list else pages)


@mutant(
    "last-lock-never-ends",
    profile=replace(PROFILE, unlock_delay=2),
    kills=("LOCK-04", "LOCK-02", "LOCK-06", "TREE-24"),
)
class LastLockNeverEnds(RadixTree):
    """An idle server can't evict what its last request has read.

    A lock ends when the step after it is over, and steps are counted by the locks that are given back in them.
    """

    waiting: Node | None = None

    def unlock(self, node: Node) -> None:
        waiting, self.waiting = self.waiting, node
        if waiting is not None:
            super().unlock(waiting)


@mutant(
    "spare-page-lost-by-aborts",
    profile=replace(PROFILE, spare_pages=1),
    kills=("REQ-07", "POOL-12", "POOL-14"),
)
class SparePageLostByAborts(RequestTable):
    """Memory shrinks by a page with each client that hangs up.

    A request holds a page for tokens that are speculated.  It is given back where the request finishes.
    """

    def __init__(self, pool: PagedPool, tree: RadixTree) -> None:
        super().__init__(pool, tree)
        self.ahead: dict[int, list[int]] = {}

    def begin(self, rid: int, key: Key) -> SpecimenRequest | None:
        begun = super().begin(rid, key)
        if begun is not None:
            self.ahead[rid] = self.pool.take(min(1, len(self.pool.free_list))) or []
        return begun

    def end(self, rid: int, keep: bool) -> None:
        super().end(rid, keep)
        ahead = self.ahead.pop(rid, [])
        if keep:
            self.pool.give_back(ahead)


@mutant(
    "spare-pages-pile-up",
    profile=replace(PROFILE, spare_pages=1),
    kills=("POOL-12", "POOL-14", "FRAME-02"),
)
class SparePagesPileUp(SparePageLostByAborts):
    """A long answer ends with most of the memory that was meant for its drafts.

    Each step takes a page for the next draft, though the one that it has wasn't used.
    """

    def grow(self, rid: int, tokens: Sequence[int]) -> list[int] | None:
        grown = super().grow(rid, tokens)
        if grown is not None:
            self.ahead.setdefault(rid, []).extend(self.pool.take(min(1, len(self.pool.free_list))) or [])
        return grown

    def end(self, rid: int, keep: bool) -> None:
        RequestTable.end(self, rid, keep)
        self.pool.give_back(self.ahead.pop(rid, []))
