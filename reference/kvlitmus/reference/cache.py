"""Pool, tree and callers together: one cache, and where each of its pages is at home.

A :class:`Cache` is a value.  Its pages are free (the pool knows), cached (the tree knows), or
owned by a request (which carries its row of slots) or by some caller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kvlitmus.reference import pool as pools
from kvlitmus.reference import tree as trees
from kvlitmus.reference.pool import Pool, empty_pool
from kvlitmus.reference.tree import Eviction, Tree, empty_tree
from kvlitmus.spec.units import (
    CACHED,
    FREE,
    REQUEST,
    Name,
    PageNo,
    Pages,
    RequestId,
    Slot,
    Tokens,
    pages_needed,
    pages_of,
)


class Settings(NamedTuple):
    """The legal choices of this cache.

    How it evicts, ``match_cap`` (full, len-1), ``hit_counts`` (insert, match, none), and
    ``split_created``: whether the upper half of a split node keeps its creation time or renews it.
    """

    eviction: Eviction = Eviction()
    match_cap: str = "full"
    hit_counts: str = "insert"
    split_created: str = "keeps"


class Request(NamedTuple):
    """A running request.

    ``names``: the names of all prefixes of its key, in units; ``root``: of its namespace.
    ``row``: its slots, one per token.  The first ``cached`` slots are the tree's, protected by a
    lock on the path to ``locked`` (the root when nothing is).
    """

    root: Name
    names: tuple[Name, ...]
    row: tuple[Slot, ...]
    cached: Tokens
    locked: Name


NO_PAGES = Pages(0)


class Cache(NamedTuple):
    """One cache at one moment."""

    pool: Pool
    tree: Tree
    requests: Mapping[RequestId, Request]
    settings: Settings


def empty_cache(pages: int, page_size: int, *, reserved: int = 1, settings: Settings | None = None) -> Cache:
    """A cache in which every page is free (POOL-16)."""
    return Cache(empty_pool(pages, page_size, reserved), empty_tree(), {}, settings or Settings())


def homes(cache: Cache) -> dict[PageNo, str]:
    """Where each page is at home (POOL-12).

    A page that is neither free nor cached belongs to a request or a caller.

    Raises ``ValueError`` when a page has two homes or two names (TREE-07, POOL-15).
    """
    cached = [page.page for page in cache.tree.pages.values()]
    if len(set(cached)) < len(cached) or not cache.pool.free.isdisjoint(cached):
        raise ValueError(f"a page has two homes: free {sorted(cache.pool.free)}, cached {sorted(cached)}")
    found = dict.fromkeys(cache.pool.usable, REQUEST)
    found.update(dict.fromkeys(cache.pool.free, FREE))
    found.update(dict.fromkeys(cached, CACHED))
    return found


def alloc(
    cache: Cache, asked: Tokens, choice: Sequence[PageNo] | None = None
) -> tuple[Cache, tuple[PageNo, ...]] | None:
    """Hand out pages to a caller, or ``None`` when too few are free (POOL-07)."""
    taken = pools.allocate(cache.pool, asked, choice)
    return None if taken is None else (cache._replace(pool=taken[0]), taken[1])


def free(cache: Cache, pages: Sequence[PageNo]) -> Cache:
    """Take pages back from a caller (POOL-09)."""
    return cache._replace(pool=pools.release(cache.pool, pages))


def match_limit(settings: Settings, units: int, page_size: int) -> Pages:
    """How many pages a match may cover: the whole pages of the key, or of all but one of its units (TREE-10)."""
    if settings.match_cap == "len-1":
        units = max(0, units - 1)
    return Pages(units // page_size)


def match(cache: Cache, page_names: Sequence[Name], units: int) -> tuple[Cache, tuple[PageNo, ...]]:
    """The pages of the longest cached prefix (TREE-02, TREE-03)."""
    limit = match_limit(cache.settings, units, cache.pool.page_size)
    settings = cache.settings
    renews = settings.split_created == "renews"
    tree, length = trees.match(cache.tree, page_names[:limit], counts=settings.hit_counts == "match", renews=renews)
    return cache._replace(tree=tree), tuple(tree.pages[name].page for name in page_names[:length])


def insert(
    cache: Cache,
    root: Name,
    page_names: Sequence[Name],
    offered: Sequence[PageNo],
    *,
    protected: Pages = NO_PAGES,
    priority: int = 0,
    chunked: bool = False,
) -> tuple[Cache, Pages, tuple[PageNo, ...]]:
    """Cache the whole pages of a key; returns how many were cached, and which pages were brought in vain.

    The first ``protected`` pages are the tree's own, so they were not brought at all; the others
    that were cached already are the caller's to free (TREE-11, TREE-12).
    """
    counts = cache.settings.hit_counts == "insert" and not chunked
    renews = cache.settings.split_created == "renews"
    tree, already = trees.insert(cache.tree, root, page_names, offered, counts=counts, priority=priority, renews=renews)
    vain = tuple(
        offered[position]
        for position in range(protected, already)
        if offered[position] != tree.pages[page_names[position]].page
    )
    return cache._replace(tree=tree), already, vain


def lock(cache: Cache, name: Name) -> Cache:
    """Protect the path to a cached page; the root needs no protection."""
    return cache._replace(tree=trees.lock(cache.tree, name))


def unlock(cache: Cache, name: Name) -> Cache:
    """Give one protection back."""
    return cache._replace(tree=trees.unlock(cache.tree, name))


def evict(cache: Cache, asked: Tokens, choice: Sequence[Name] | None = None) -> tuple[Cache, Tokens]:
    """Make room for ``asked`` slots; returns how many slots became free (EVICT-01, EVICT-02, EVICT-04)."""
    wanted = pages_needed(asked, cache.pool.page_size)
    tree, victims = trees.evict(cache.tree, wanted, cache.settings.eviction, choice)
    pool = pools.release(cache.pool, [cache.tree.pages[name].page for name in victims])
    return cache._replace(tree=tree, pool=pool), Tokens(len(victims) * pool.page_size)


def make_room(cache: Cache, pages: Pages, choice: Sequence[Name] | None = None) -> Cache | None:
    """Evict what is missing for ``pages`` free pages; ``None`` when even that is not enough."""
    short = pages - len(cache.pool.free)
    if short > 0:
        cache, _ = evict(cache, Tokens(short * cache.pool.page_size), choice)
    return cache if pages <= len(cache.pool.free) else None


def own_pages(cache: Cache, request: Request) -> frozenset[PageNo]:
    """The pages that a request owns alone: those of its row beyond what is cached."""
    return pages_of(request.row[request.cached :], cache.pool.page_size)
