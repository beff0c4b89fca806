"""Where the pages of a hierarchy are: each is at one place."""

from __future__ import annotations

from collections.abc import Iterable

from kvlitmus.optimized.branch import Run
from kvlitmus.optimized.hierarchy import HierarchicalCache


def assert_one_home_each(cache: HierarchicalCache, own: Iterable[int], *, pages: int, host_pages: int) -> None:
    """Each page of either pool is cached, free, or in somebody's hands, once.

    own: the device pages of requests.  pages, host_pages: how many pages the two pools have to have.
    """
    device = [page for branch in cache.tree.branches() for page in branch.dev_pages[: branch.dev].tolist()]
    device += [*own, *cache.pool.free_pages().tolist()]
    assert sorted(device) == list(range(1, pages + 1)), "device pages are lost, or have two owners"
    host = host_copies(cache) + cache.moving().tolist() + cache.host.pool.free_pages().tolist()
    assert sorted(host) == list(range(host_pages)), "host pages are lost, or have two owners"


def host_copies(cache: HierarchicalCache) -> list[int]:
    """The host pages that cached pages have copies in."""
    copies = [cache.tree.host_run(Run(branch, 0, branch.n)) for branch in cache.tree.branches()]
    return [page for some in copies for page in some.tolist() if page >= 0]
