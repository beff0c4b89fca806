"""Pools: which pages are free.

A pool hands out whole pages.  It knows which are free, not whose the others are.

Rules of upkeep:

- ``state`` has one byte per page, the never handed out ones at the start included: free, used (some caller's), cached
  (a tree's) or grouped.
- ``stack[:free_count]`` holds each free page once.  The page given back last is handed out first, and what was given
  back together comes in the same order again, so that neighbours stay neighbours.
- While a group is open, what is given back has the state grouped and waits in ``group``.

Both directions cost what they hand over, never what the pool holds, and check it: a page that is given back twice, or
that the pool never handed out, is an error, and the pool is then as it was.  What a pool does in slots is in
:mod:`kvlitmus.optimized.slots`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvlitmus.optimized import kernels
from kvlitmus.optimized.arrays import CACHED, FREE, GROUPED, USED, IntArray, PageArray
from kvlitmus.optimized.calls import Calls, whole
from kvlitmus.optimized.slots import Numbers, SlotCalls, as_array, offsets_in

__all__ = ["Numbers", "PagePool", "as_array"]


class PagePool(SlotCalls):
    """``pages`` pages of ``page_size`` slots, numbered from ``reserved`` on.

    ``withheld``: pages that are neither free nor anybody's (see :meth:`withhold`).
    """

    def __init__(self, pages: int, page_size: int, reserved: int) -> None:
        self.calls = Calls()
        self.pages = pages
        self.page_size = page_size
        self.offsets = offsets_in(page_size)
        self.reserved = reserved
        self.free_count = pages
        self.stack: PageArray = np.arange(reserved + pages - 1, reserved - 1, -1, dtype=np.int32)
        self.state = np.full(reserved + pages, FREE, np.uint8)
        self.state[:reserved] = USED
        self.group: list[IntArray] | None = None
        self.withheld: PageArray = np.empty(0, np.int32)

    # -- in pages ------------------------------------------------------------------------------

    @whole
    def take(self, count: int) -> PageArray | None:
        """``count`` free pages, or ``None``, and nothing changed, where there are too few."""
        if count > self.free_count:
            return None
        self.calls.changed = True
        pages: PageArray = kernels.take(self.stack, self.free_count, count, self.state)
        self.free_count -= count
        return pages

    def give_back(self, pages: Numbers) -> None:
        """Take pages back.

        Raises ``ValueError``, and changes nothing, where one is free already, is named twice or isn't the pool's.
        """
        self._take_back(pages, USED)

    @whole
    def adopt(self, pages: Numbers) -> None:
        """Callers' pages become a tree's; in pools of devices alone, for of host pages only one tree knows.

        Raises ``ValueError``, and changes nothing, where one is free, named twice, a tree's already or not the pool's.
        """
        pages = as_array(pages)
        calls = self.calls
        before, calls.changed = calls.changed, True
        wrong = kernels.hand_over(pages, self.state, self.reserved, USED, CACHED)
        if wrong >= 0:
            calls.changed = before
            self.refuse(pages, wrong, "cached")

    def release(self, pages: Numbers) -> None:
        """Take pages back from a tree; raises ``ValueError``, and changes nothing, where one is not a tree's."""
        self._take_back(pages, CACHED)

    @whole
    def _take_back(self, pages: Numbers, was: int) -> None:
        pages = as_array(pages)
        to = FREE if self.group is None else GROUPED
        calls, kept = self.calls, None if self.group is None else pages.copy()
        before, calls.changed = calls.changed, True
        wrong = kernels.give_back(pages, self.state, self.reserved, was, to, self.stack, self.free_count)
        if wrong >= 0:
            calls.changed = before
            self.refuse(pages, wrong, "freed")
        if self.group is None or kept is None:
            self.free_count += len(pages)
        else:
            self.group.append(kept)

    @whole
    def withhold(self, pages: PageArray) -> None:
        """Hand these pages out no more, which are free or withheld already; of those, the others become free."""
        back = np.setdiff1d(self.withheld, pages)
        more = np.setdiff1d(pages, self.withheld)
        self.calls.changed = True
        self.withheld = pages
        if len(back):
            self.give_back(back)
        if len(more):
            free = self.stack[: self.free_count]
            left = free[~np.isin(free, more)]
            self.stack[: len(left)] = left
            self.free_count = len(left)
            self.state[more] = USED

    def state_of(self, page: int) -> int:
        """The state of a page; raises ``IndexError`` for a page beyond the pool."""
        return int(self.state[page])

    def free_pages(self) -> PageArray:
        """The free pages, in ascending order."""
        return np.sort(self.stack[: self.free_count])

    def group_begin(self) -> None:
        """What is given back from now on waits."""
        if self.group is None:
            self.group = []

    @whole
    def group_end(self) -> None:
        """What was given back in the group becomes free together."""
        self.calls.changed = True
        group, self.group = self.group, None
        for pages in group or ():
            self.state[pages] = USED
            self.give_back(pages)

    # -- in slots ------------------------------------------------------------------------------

    def slots(self, pages: Numbers) -> NDArray[np.int64]:
        """The slots of these pages, in order."""
        slots: NDArray[np.int64] = kernels.spell_slots(as_array(pages), self.page_size)
        return slots

    def whole_pages(self, slots: IntArray) -> tuple[IntArray, int]:
        """The pages that these slots fill, and -1, or the index of the first that doesn't follow."""
        pages = np.empty(-(-len(slots) // self.page_size), np.int32)
        return pages, int(kernels.whole_pages(slots, self.page_size, pages))
