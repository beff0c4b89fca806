"""Pools: which pages are free.

A pool hands out whole pages.  It knows which are free, not whose the others are.

Rules of upkeep:

- ``state`` has one byte per page, the never handed out ones at the start included: free, used (some caller's), cached
  (a tree's) or grouped.
- ``stack[:free_count]`` holds each free page once.  The page given back last is handed out first, and what was given
  back together comes in the same order again, so that neighbours stay neighbours.
- While a group is open, what is given back has the state grouped and waits in ``group``.

Both directions cost what they hand over, never what the pool holds, and check it: a page that is given back twice, or
that the pool never handed out, is an error, and the pool is then as it was.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kvlitmus.optimized import kernels
from kvlitmus.optimized.kernels import CACHED, FREE, GROUPED, USED, IntArray, PageArray

Numbers = IntArray | Sequence[int]
"""Integers, in an array or else; an array of 32 or 64 bits is used as it is."""


def as_array(numbers: Numbers) -> IntArray:
    """These integers as an array without gaps."""
    if isinstance(numbers, np.ndarray) and numbers.flags.c_contiguous:
        return numbers
    return np.ascontiguousarray(numbers, dtype=np.int64)


class PagePool:
    """``pages`` pages of ``page_size`` slots, numbered from ``reserved`` on.

    ``withheld``: pages that are neither free nor anybody's (see :meth:`withhold`).
    """

    def __init__(self, pages: int, page_size: int, reserved: int) -> None:
        self.pages = pages
        self.page_size = page_size
        self.offsets = np.arange(page_size, dtype=np.int64)
        self.reserved = reserved
        self.free_count = pages
        self.stack: PageArray = np.arange(reserved + pages - 1, reserved - 1, -1, dtype=np.int32)
        self.state = np.full(reserved + pages, FREE, np.uint8)
        self.state[:reserved] = USED
        self.group: list[IntArray] | None = None
        self.withheld: PageArray = np.empty(0, np.int32)

    # -- in pages ------------------------------------------------------------------------------

    def take(self, count: int) -> PageArray | None:
        """``count`` free pages, or ``None``, and nothing changed, where there are too few."""
        if count > self.free_count:
            return None
        pages: PageArray = kernels.take(self.stack, self.free_count, count, self.state)
        self.free_count -= count
        return pages

    def give_back(self, pages: Numbers) -> None:
        """Take pages back.

        Raises ``ValueError``, and changes nothing, where one is free already, is named twice or isn't the pool's.
        """
        self._take_back(pages, USED)

    def adopt(self, pages: Numbers) -> None:
        """Callers' pages become a tree's; in pools of devices alone, for of host pages only one tree knows.

        Raises ``ValueError``, and changes nothing, where one is free, named twice, a tree's already or not the pool's.
        """
        pages = as_array(pages)
        wrong = kernels.hand_over(pages, self.state, self.reserved, USED, CACHED)
        if wrong >= 0:
            raise ValueError(f"page {pages[wrong]} can't be cached: {self._why(pages, wrong)}", int(pages[wrong]))

    def release(self, pages: Numbers) -> None:
        """Take pages back from a tree; raises ``ValueError``, and changes nothing, where one is not a tree's."""
        self._take_back(pages, CACHED)

    def _take_back(self, pages: Numbers, was: int) -> None:
        pages = as_array(pages)
        to = FREE if self.group is None else GROUPED
        wrong = kernels.give_back(pages, self.state, self.reserved, was, to, self.stack, self.free_count)
        if wrong >= 0:
            raise ValueError(f"page {pages[wrong]} can't be freed: {self._why(pages, wrong)}", int(pages[wrong]))
        if self.group is None:
            self.free_count += len(pages)
        else:
            self.group.append(pages.copy())

    def withhold(self, pages: PageArray) -> None:
        """Hand these pages out no more, which are free or withheld already; of those, the others become free."""
        back = np.setdiff1d(self.withheld, pages)
        more = np.setdiff1d(pages, self.withheld)
        self.withheld = pages
        if len(back):
            self.give_back(back)
        if len(more):
            free = self.stack[: self.free_count]
            left = free[~np.isin(free, more)]
            self.stack[: len(left)] = left
            self.free_count = len(left)
            self.state[more] = USED

    def _why(self, pages: IntArray, at: int) -> str:
        """Why the page at this index can't be what its caller says it is."""
        page = int(pages[at])
        if not self.reserved <= page < len(self.state):
            return f"the pool has pages {self.reserved} to {len(self.state) - 1}"
        if page in pages[:at]:
            return "it is named twice"
        words = {
            FREE: "it is free",
            GROUPED: "it is given back already",
            CACHED: "it is the tree's",
            USED: "it is in use",
        }
        return words[int(self.state[page])]

    def is_free(self, page: int) -> bool:
        """Whether a page could be handed out now; raises ``IndexError`` for a page beyond the pool."""
        return bool(self.state[page] == FREE)

    def free_pages(self) -> PageArray:
        """The free pages, in ascending order."""
        return np.sort(self.stack[: self.free_count])

    def group_begin(self) -> None:
        """What is given back from now on waits."""
        if self.group is None:
            self.group = []

    def group_end(self) -> None:
        """What was given back in the group becomes free together."""
        group, self.group = self.group, None
        for pages in group or ():
            self.state[pages] = USED
            self.give_back(pages)

    # -- in slots ------------------------------------------------------------------------------

    def available(self) -> int:
        """How many slots could be handed out now."""
        return self.free_count * self.page_size

    def slots(self, pages: Numbers) -> NDArray[np.int64]:
        """The slots of these pages, in order."""
        slots: NDArray[np.int64] = kernels.spell_slots(as_array(pages), self.page_size)
        return slots

    def opened_slots(self, pages: PageArray) -> NDArray[np.int64]:
        """The slots of pages that were just taken; they are free again where there is no memory for that."""
        try:
            return self.slots(pages)
        except MemoryError:
            self.give_back(pages)
            raise

    def put_slots(self, pages: IntArray, out: NDArray[np.int64]) -> None:
        """Write the slots of these pages, in order, to where there is room for them; it takes no memory."""
        rows = out.reshape(-1, self.page_size)
        np.multiply(pages[:, None], self.page_size, out=rows)
        rows += self.offsets

    def pages_of(self, slots: Numbers) -> IntArray:
        """The pages that these slots fill.

        Raises ``ValueError`` where they aren't whole pages, each in order: part of a page can't be given back.
        """
        slots = as_array(slots)
        if self.page_size == 1:
            return slots
        pages = np.empty(-(-len(slots) // self.page_size), np.int32)
        wrong = kernels.whole_pages(slots, self.page_size, pages)
        if wrong >= 0:
            raise ValueError(f"slots must be whole pages of {self.page_size} in order; see index {wrong}", int(wrong))
        return pages

    def alloc(self, n: int) -> NDArray[np.int64] | None:
        """``n`` slots in whole pages, or ``None``; raises ``ValueError`` where ``n`` is no whole number of pages."""
        if n < 0 or n % self.page_size:
            raise ValueError(f"n must be a multiple of {self.page_size} and not negative (got {n})", n)
        pages = self.take(n // self.page_size)
        return None if pages is None else self.opened_slots(pages)

    def free(self, slots: Numbers) -> None:
        """Take slots back; raises ``ValueError``, and changes nothing, for anything but whole pages in use."""
        self.give_back(self.pages_of(slots))

    def alloc_extend(self, before: Numbers, after: Numbers, last: Numbers) -> NDArray[np.int64] | None:
        """Slots for the positions ``before[i] .. after[i]-1`` of each request, one after the other; all or none.

        ``last[i]`` is the slot of position ``before[i]-1``: its page is filled before others are opened.
        """
        before, after, last = as_array(before), as_array(after), as_array(last)
        if not len(before) == len(after) == len(last):
            raise ValueError(f"one entry per request (got {len(before)}, {len(after)} and {len(last)})")
        pages = self.take(int(kernels.pages_to_open(before, after, self.page_size)))
        if pages is None:
            return None
        slots: NDArray[np.int64] = kernels.extend(before, after, last, pages, self.page_size)
        return slots

    def alloc_decode(self, after: Numbers, last: Numbers) -> NDArray[np.int64] | None:
        """The slot of each request's newest token, of ``after[i]``; a page is opened where the last one is full."""
        after = as_array(after)
        return self.alloc_extend(after - 1, after, last)
