"""The host's pool: a set of free pages, and what may be done with it; and how pages and slots correspond.

A pool is the set of its usable pages and the subset that is free.  Whatever is not free belongs
to somebody; *to whom* is known by the cache around the pool, not by the pool.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kvlitmus.spec.units import PageNo, Slot, Tokens, page_slots, pages_needed


class Pool(NamedTuple):
    """The usable pages, and those of them that are free (POOL-11: a set repeats nothing)."""

    usable: frozenset[PageNo]
    free: frozenset[PageNo]
    page_size: int


def empty_pool(pages: int, page_size: int, reserved: int = 1) -> Pool:
    """A pool of ``pages`` free pages, numbered from ``reserved`` on: the first ones are never handed out (POOL-06)."""
    usable = frozenset(map(PageNo, range(reserved, reserved + pages)))
    return Pool(usable, usable, page_size)


def available(pool: Pool) -> Tokens:
    """How many slots could be handed out now (POOL-13)."""
    return Tokens(len(pool.free) * pool.page_size)


def allocate(
    pool: Pool, asked: Tokens, choice: Sequence[PageNo] | None = None
) -> tuple[Pool, tuple[PageNo, ...]] | None:
    """Take enough free pages for ``asked`` slots; ``None``, and nothing changed, without (POOL-07, POOL-08).

    The choice is which free pages; left out, the lowest.  Raises ``ValueError`` when ``asked`` is
    negative or no multiple of the page size: such a size is an error, it is never rounded down (POOL-01).
    """
    if asked < 0 or asked % pool.page_size:
        raise ValueError(f"asked must be a multiple of {pool.page_size} and not negative (got {asked})", asked)
    wanted = pages_needed(asked, pool.page_size)
    if wanted > len(pool.free):
        return None
    pages = tuple(sorted(pool.free)[:wanted]) if choice is None else tuple(choice)
    return pool._replace(free=pool.free - frozenset(pages)), pages


def release(pool: Pool, pages: Iterable[PageNo]) -> Pool:
    """Give pages back (POOL-09, POOL-10).

    Raises ``ValueError`` for a page that is free already, that is named twice, or that isn't the
    pool's (MISUSE-01, MISUSE-03): the pool is then as it was.
    """
    returned = tuple(pages)
    distinct = frozenset(returned)
    if len(distinct) < len(returned):
        raise ValueError(f"a page is named twice in {sorted(returned)}", returned)
    if distinct & pool.free:
        raise ValueError(f"pages {sorted(distinct & pool.free)} are free already", returned)
    if not distinct <= pool.usable:
        raise ValueError(f"pages {sorted(distinct - pool.usable)} are not the pool's", returned)
    return pool._replace(free=pool.free | distinct)


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
