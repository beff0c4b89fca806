"""What must hold of a free-running cache that has come to rest: no work under way, no request running."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from kvlitmus.optimized.audit import complaints
from kvlitmus.optimized.branch import BUSY, NOWHERE, SETTLED, STORED, Branch
from kvlitmus.optimized.hashing import PathNames, page_hashes
from kvlitmus.optimized.hierarchy import HierarchicalCache
from kvlitmus.optimized.pool import PagePool
from kvlitmus.optimized.tree import Place, Tree
from tests.optimized.support.stress_world import Contents, Prints

PrintsOf = Callable[[Hashable, Sequence[int]], Prints]


class Unsound(AssertionError):
    """Something about who owns what can't be."""


def must(fact: bool, text: str) -> None:
    """Raise :class:`Unsound` unless it holds."""
    if not fact:
        raise Unsound(text)


def at_rest(cache: HierarchicalCache, device: Contents, host: Contents, prints_of: PrintsOf) -> int:
    """Look at every page of both pools and at every cached page; returns how many contents were checked."""
    must(not cache.jobs(), "work is under way")
    must(not cache.requests.running, "requests are running")
    must(not len(cache.moving()), f"host pages are in flight: {cache.moving()}")
    must(cache.occupied() == 0, f"{cache.occupied()} units still count against the rate limit")
    must(not (wrong := complaints(cache.tree)), f"the tree's counters or links are off: {wrong[:3]}")
    tree = cache.tree.opened()
    branches = list(tree.branches())
    resident = [branch.dev_pages[: branch.dev] for branch in branches]
    owned("device", cache.pool, resident)
    copies = [pages[pages != NOWHERE] for pages in (host_pages(branch) for branch in branches)]
    owned("host", cache.host.pool, copies)
    must(cache.tree.protected == 0, f"{cache.tree.protected} pages are protected by nobody's lock")
    must(cache.tree.evictable == sum(map(len, resident)), "the count of evictable pages is off")
    return sum(look(tree, branch, device, host, prints_of) for branch in branches)


def owned(tier: str, pool: PagePool, cached: Sequence[NDArray[np.int32]]) -> None:
    """Every page of a pool is free or cached, once."""
    pages = [int(page) for some in (*cached, pool.free_pages()) for page in some]
    twice = [page for page, many in Counter(pages).items() if many > 1]
    must(not twice, f"{tier} pages with two owners: {twice}")
    must(len(pages) == pool.pages, f"{tier}: {pool.pages - len(pages)} pages are lost")


def host_pages(branch: Branch) -> NDArray[np.int32]:
    """The host page of each page of a branch."""
    if branch.host_pages is None:
        return np.full(branch.n, NOWHERE, np.int32)
    return branch.host_pages[: branch.n]


def look(tree: Tree, branch: Branch, device: Contents, host: Contents, prints_of: PrintsOf) -> int:
    """One branch: nothing locked, pinned or busy; contents as they should be on both tiers."""
    size = tree.page_size
    name = f"branch {branch.uid} of {branch.namespace!r}"
    must(not branch.locks, f"{name} is locked")
    copies = host_pages(branch)
    there = copies != NOWHERE
    must(bool(there[branch.dev :].all()), f"{name} has pages on neither tier")
    if branch.pins is not None and branch.flags is not None:
        must(not branch.pins[: branch.n].any(), f"{name} is pinned")
        flags = branch.flags[: branch.n]
        must(not (flags & BUSY).any(), f"{name} is busy")
        must(bool((flags[there] & SETTLED).all()), f"{name} has host copies that never arrived")
    tokens = tree.path_units(Place(branch, branch.n))
    prints = prints_of(branch.namespace, tokens.tolist())[branch.base * size :]
    resident = branch.dev_pages[: branch.dev].astype(np.int64)
    device.check(slots_of(resident, size), prints[: branch.dev * size], f"{name} on the device")
    host.check(slots_of(copies[there].astype(np.int64), size), prints[np.repeat(there, size)], f"{name} on the host")
    return branch.dev + int(there.sum())


def slots_of(pages: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """The slots of these pages."""
    return (pages[:, None] * size + np.arange(size)).reshape(-1)


def stored_pages(cache: HierarchicalCache, prints_of: PrintsOf) -> Iterator[tuple[str, Prints]]:
    """The cached pages that storage is known to have: what each is called there, and what must be in it.

    The names are computed anew, and must be those that the cache has kept.
    """
    size = cache.config.page_size
    tree = cache.tree.opened()
    kept = PathNames(tree, bigram=False)
    for branch in tree.branches():
        place = Place(branch, branch.n)
        units = tree.path_units(place)
        names = page_hashes(units, size, branch.namespace)
        must(names == kept.names(place), f"branch {branch.uid} has other names than its tokens give")
        prints = prints_of(branch.namespace, units.tolist()).reshape(-1, size)
        for at in range(branch.n if branch.flags is not None else 0):
            if branch.flags is not None and branch.flags[at] & STORED:
                yield names[branch.base + at], prints[branch.base + at]
