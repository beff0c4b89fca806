"""How pages and slots correspond."""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.spec.words.units import PageNo, Slot, page_slots


def whole_pages(slots: Sequence[Slot], page_size: int) -> tuple[PageNo, ...]:
    """The pages that these slots fill.

    Raises ``ValueError`` when they do not fill them in order: part of a page can't be freed (MISUSE-04).
    """
    pages = tuple(PageNo(slot // page_size) for slot in slots[::page_size])
    if tuple(slots) != slots_of(pages, page_size):
        raise ValueError(f"slots must be whole pages of {page_size} in order (got {list(slots)})", tuple(slots))
    return pages


def slots_of(pages: Sequence[PageNo], page_size: int) -> tuple[Slot, ...]:
    """The slots of these pages, in order (POOL-02)."""
    return tuple(slot for page in pages for slot in page_slots(page, page_size))
