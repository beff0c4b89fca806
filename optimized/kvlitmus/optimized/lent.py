"""A flat cache over pages of an engine that keeps its own allocator.

An engine may have a pool that serves more than this cache, or that has an order of its own.  It hands its
:class:`Allocator` in: the cache takes pages from it for requests, and gives back whatever it lets go of.  The cache's
own pool then hands out nothing, and says of each page only whether it is the engine's or the tree's, so that a page of
the tree that the allocator hands out once more is refused where it is inserted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from kvlitmus.optimized.arrays import CACHED, IntArray, PageArray
from kvlitmus.optimized.cache import CacheConfig, FlatCache
from kvlitmus.optimized.inputs import integers
from kvlitmus.optimized.request import RequestTable
from kvlitmus.optimized.slots import Numbers, SlotCalls, as_array

if TYPE_CHECKING:
    from kvlitmus.optimized.pool import PagePool
    from kvlitmus.optimized.tree import Tree


class AllocatorFault(MemoryError):
    """An allocator that hands out no pages, for it raised, or answered something else; nothing has changed."""


class Allocator(Protocol):
    """Who hands out pages, numbered as the cache's configuration says: ``reserved`` to ``reserved + pages - 1``.

    The cache calls it in the midst of its own calls.  Where ``take`` fails, the call raises :class:`AllocatorFault`.
    What ``free`` raises goes through; if the cache had changed anything by then, it is torn.
    """

    def available(self) -> int:
        """How many pages it could hand out now."""

    def take(self, count: int) -> Numbers | None:
        """So many pages, or ``None`` where there are fewer; the cache then evicts, and asks again."""

    def free(self, pages: PageArray) -> None:
        """These are the engine's again."""


class LentPool(SlotCalls):
    """The calls of a pool over pages that somebody else hands out.

    ``own``: the cache's pool, all of whose pages are in use or the tree's at any time.
    """

    def __init__(self, own: PagePool, allocator: Allocator) -> None:
        self.own = own
        self.allocator = allocator
        self.calls = own.calls
        self.pages, self.page_size, self.reserved = own.pages, own.page_size, own.reserved
        self.offsets = own.offsets

    @property
    def free_count(self) -> int:  # type: ignore[override]  # a number of the allocator's
        """How many pages could be handed out now."""
        return self.allocator.available()

    def take(self, count: int) -> PageArray | None:
        """See :class:`SlotCalls`; raises :class:`AllocatorFault` for an answer that isn't so many pages."""
        try:
            given = self.allocator.take(count)
            if given is None:
                return None
            pages: PageArray = as_array(integers("pages", given)).astype(np.int32, copy=False)
        except Exception as error:
            raise AllocatorFault(f"asked for {count} pages, the allocator failed: {error}") from error
        end = self.reserved + self.pages
        if len(pages) != count or (count and not self.reserved <= pages.min() <= pages.max() < end):
            raise AllocatorFault(f"asked for {count} pages, the allocator answered {given!r}")
        return pages

    def give_back(self, pages: Numbers) -> None:
        """See :class:`SlotCalls`; a page that the allocator has already is its own affair."""
        self.own.give_back(pages)
        self.returned(as_array(pages))

    def returned(self, pages: IntArray) -> None:
        """These pages are free in the cache's own pool, and no others: they are the allocator's."""
        if len(pages):
            self.own.take(len(pages))
            self.allocator.free(pages.astype(np.int32, copy=False))

    def slots(self, pages: Numbers) -> NDArray[np.int64]:
        """See :class:`SlotCalls`."""
        return self.own.slots(pages)

    def whole_pages(self, slots: IntArray) -> tuple[IntArray, int]:
        """See :class:`SlotCalls`."""
        return self.own.whole_pages(slots)

    def state_of(self, page: int) -> int:
        """See :class:`SlotCalls`."""
        return self.own.state_of(page)


class LentRequests(RequestTable):
    """Requests whose pages somebody else hands out."""

    pool: LentPool  # type: ignore[assignment]  # it has those calls of a pool that requests make

    def room(self, pages: int) -> PageArray | None:
        """See :class:`RequestTable`."""
        short = pages - self.pool.free_count
        if short > 0:
            self.pool.returned(self.tree.evict_pages(short))
        return self.pool.take(pages)


class LentCache(FlatCache):
    """A :class:`FlatCache` over pages that an engine's allocator hands out.

    ``config.pages`` says how many there are at most.  All calls are those of a flat cache; ``alloc`` and ``free`` are
    the allocator's, in slots.  A request takes several calls of the core where a flat cache's takes one.
    """

    def __init__(self, config: CacheConfig, allocator: Allocator, *, events: bool | int = False) -> None:
        self.allocator = allocator
        super().__init__(config, events=events)

    def plant(self, tree: Tree) -> None:
        """See :class:`FlatCache`."""
        super().plant(tree)
        tree.pool.take(tree.pool.free_count)
        self.pool = self.lent = LentPool(tree.pool, self.allocator)  # type: ignore[assignment]
        self.requests = LentRequests(self.lent, tree, bigram=self.config.bigram)  # type: ignore[arg-type]

    def evict(self, n: int) -> PageArray:
        """See :meth:`FlatCache.evict`; the allocator has these pages already."""
        pages = super().evict(n)
        self.lent.returned(pages)
        return pages

    def flush(self) -> int:
        """See :meth:`FlatCache.flush`."""
        return len(self.evict(self.tree.evictable * self.config.page_size)) * self.config.page_size

    def reset(self, *, abort: bool = False) -> Sequence[object]:
        """See :meth:`FlatCache.reset`: the allocator gets back what was cached, and what aborted requests had."""
        if not hasattr(self, "lent"):
            return super().reset()
        self.may_reset(abort=abort)
        old = self.lent
        cached = np.flatnonzero(np.asarray(old.own.state) == CACHED).astype(np.int32)
        size = self.config.page_size
        own = [one.row[one.cached :: size] // size for one in self.requests.running.values()]
        answer = super().reset(abort=abort)
        self.allocator.free(np.concatenate([cached, *own]).astype(np.int32))
        return answer
