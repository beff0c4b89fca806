"""The specimen's pool: a free list of pages, first in, first out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class PagedPool:
    """A fixed number of pages and the list of those that are free.

    Upkeep: ``free_list`` holds each free page once; between ``free_group_begin`` and
    ``free_group_end`` freed pages wait in ``group``.
    """

    def __init__(self, pages: int, page_size: int, reserved: int) -> None:
        self.page_size = page_size
        self.reserved = reserved
        self.pages = pages
        self.free_list = list(range(reserved, reserved + pages))
        self.is_free = [False] * reserved + [True] * pages
        self.group: list[int] | None = None

    def available(self) -> int:
        """Slots that could be handed out now."""
        return len(self.free_list) * self.page_size

    def alloc(self, n: int) -> list[int] | None:
        """``n`` slots in whole pages, or ``None``."""
        if n < 0 or n % self.page_size:
            raise ValueError(f"n must be a multiple of {self.page_size} and not negative (got {n})")
        pages = self.take(n // self.page_size)
        return None if pages is None else self.slots(pages)

    def take(self, count: int) -> list[int] | None:
        """The first ``count`` pages of the free list, or ``None``."""
        if count > len(self.free_list):
            return None
        pages = self.free_list[:count]
        del self.free_list[:count]
        for page in pages:
            self.is_free[page] = False
        return pages

    def slots(self, pages: Iterable[int]) -> list[int]:
        """The slots of these pages, in order."""
        size = self.page_size
        if size == 1:
            return list(pages)
        return [slot for page in pages for slot in range(page * size, page * size + size)]

    def free(self, slots: Sequence[int]) -> None:
        """Take back the pages of these slots; anything but whole pages that are in use is refused."""
        self.give_back(self.whole_pages(slots))

    def whole_pages(self, slots: Sequence[int]) -> list[int]:
        """The pages of these slots; anything but whole pages of the pool is refused."""
        size = self.page_size
        pages = [slot // size for slot in slots[::size]] if size > 1 else list(slots)
        if size > 1 and self.slots(pages) != list(slots):
            raise ValueError(f"slots must be whole pages of {size} in order (got {list(slots)})")
        for page in pages:
            if type(page) is not int or not self.reserved <= page < self.reserved + self.pages:
                raise ValueError(f"page {page} is not the pool's")
        return pages

    def give_back(self, pages: Sequence[int]) -> None:
        """Put pages on the free list, or into the open group."""
        if len(set(pages)) < len(pages):
            raise ValueError(f"a page is named twice in {sorted(pages)}")
        for page in pages:
            if not self.reserved <= page < self.reserved + self.pages or self.is_free[page]:
                raise ValueError(f"page {page} is not in use")
        for page in pages:
            self.is_free[page] = True
        if self.group is None:
            self.free_list += pages
        else:
            self.group += pages

    def free_group_begin(self) -> None:
        """Collect frees from now on."""
        if self.group is None:
            self.group = []

    def free_group_end(self) -> None:
        """Let all collected frees take effect."""
        if self.group is not None:
            self.free_list += self.group
            self.group = None

    def alloc_extend(self, before: Sequence[int], after: Sequence[int], last: Sequence[int]) -> list[int] | None:
        """Slots for the positions ``before[i] .. after[i]-1`` of each request, concatenated; all or none."""
        size = self.page_size
        opened = [-(-new // size) + (-old // size) for old, new in zip(before, after, strict=True)]
        pages = self.take(sum(opened))
        if pages is None:
            return None
        slots: list[int] = []
        for old, new, slot, count in zip(before, after, last, opened, strict=True):
            room = min(new, -(-old // size) * size) - old
            slots += range(slot + 1, slot + 1 + room)
            slots += self.slots(pages[:count])[: new - old - room]
            del pages[:count]
        return slots

    def alloc_decode(self, after: Sequence[int], last: Sequence[int]) -> list[int] | None:
        """The slot of each request's newest token; a page is opened where the last one is full."""
        return self.alloc_extend([length - 1 for length in after], after, last)
