"""What a pool does in slots, whichever core hands out its pages, and how it says why it refuses one."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvlitmus.optimized import inputs
from kvlitmus.optimized.arrays import CACHED, FREE, GROUPED, USED, IntArray, PageArray

Numbers = IntArray | Sequence[int]
"""Integers, in an array or else; an array of 32 or 64 bits is used as it is."""

WORDS = {
    FREE: "it is free",
    GROUPED: "it is given back already",
    CACHED: "it is the tree's",
    USED: "it is in use",
}


def as_array(numbers: Numbers) -> IntArray:
    """These integers as an array without gaps."""
    if isinstance(numbers, np.ndarray) and numbers.flags.c_contiguous:
        return numbers
    return np.ascontiguousarray(numbers, dtype=np.int64)


class SlotCalls:
    """The calls of a pool in slots, over those in pages: a core has ``take``, ``give_back``, ``slots`` and the rest.

    ``reserved`` pages at the start are never handed out, ``pages`` follow them, of ``page_size`` slots.
    """

    pages: int
    page_size: int
    reserved: int
    free_count: int
    offsets: NDArray[np.int64]

    def take(self, count: int) -> PageArray | None:
        """``count`` free pages, or ``None``, and nothing changed, where there are too few."""
        raise NotImplementedError

    def give_back(self, pages: Numbers) -> None:
        """Take pages back.

        Raises ``ValueError``, and changes nothing, where one is free already, is named twice or isn't the pool's.
        """
        raise NotImplementedError

    def slots(self, pages: Numbers) -> NDArray[np.int64]:
        """The slots of these pages, in order."""
        raise NotImplementedError

    def whole_pages(self, slots: IntArray) -> tuple[IntArray, int]:
        """The pages that these slots fill, and -1, or the index of the first that doesn't follow."""
        raise NotImplementedError

    def state_of(self, page: int) -> int:
        """The state of a page; raises ``IndexError`` for a page beyond the pool."""
        raise NotImplementedError

    # -- refusals ------------------------------------------------------------------------------

    def refuse(self, pages: Numbers, at: int, what: str) -> None:
        """Raise :class:`WrongPage`: the page at this index can't be ``cached``, or ``freed``, and why."""
        page = int(pages[at])
        raise inputs.WrongPage(f"page {pages[at]} can't be {what}: {self._why(pages, at)}", page)

    def refuse_row(self, row: NDArray[np.int64], start: int, end: int, at: int, what: str) -> None:
        """The same for the pages of some slots of a row."""
        self.refuse(row[start : end : self.page_size] // self.page_size, at, what)

    def _why(self, pages: Numbers, at: int) -> str:
        """Why the page at this index can't be what its caller says it is."""
        page = int(pages[at])
        end = self.reserved + self.pages
        if not self.reserved <= page < end:
            return f"the pool has pages {self.reserved} to {end - 1}"
        if page in pages[:at]:
            return "it is named twice"
        return WORDS[self.state_of(page)]

    # -- in slots ------------------------------------------------------------------------------

    def is_free(self, page: int) -> bool:
        """Whether a page could be handed out now; raises ``IndexError`` for a page beyond the pool."""
        return self.state_of(page) == FREE

    def available(self) -> int:
        """How many slots could be handed out now."""
        return self.free_count * self.page_size

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
        slots = as_array(inputs.integers("slots", slots))
        if self.page_size == 1:
            return slots
        pages, wrong = self.whole_pages(slots)
        if wrong >= 0:
            raise ValueError(f"slots must be whole pages of {self.page_size} in order; see index {wrong}", wrong)
        return pages

    def alloc(self, n: int) -> NDArray[np.int64] | None:
        """``n`` slots in whole pages, or ``None``; raises ``ValueError`` where ``n`` is no whole number of pages."""
        n = operator.index(n)  # NumPy's own numbers wrap around
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
        from kvlitmus.optimized import kernels  # with numba, whose import takes longer than all else here

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


def offsets_in(page_size: int) -> Any:
    """The slots of page 0."""
    return np.arange(page_size, dtype=np.int64)
