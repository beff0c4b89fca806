"""Small trees for tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from kvlitmus.optimized.branch import Place
from kvlitmus.optimized.pool import PagePool
from kvlitmus.optimized.tree import Inserted, Tree


def tree_of(pages: int, size: int = 2, *, policy: str = "lru", host: int = 0, **more: Any) -> Tree:
    return Tree(size, policy, PagePool(pages, size, 1), host=PagePool(host, size, 0) if host else None, **more)


def put(tree: Tree, tokens: Any, **more: Any) -> Inserted:
    """Insert a key in fresh pages."""
    units = np.asarray(tokens, tree.dtype)
    pages = tree.pool.take(len(units) // tree.page_size)
    assert pages is not None
    done = tree.insert(None, units, pages, **more)
    tree.pool.give_back(pages[: done.already])
    return done


def back_up(tree: Tree, place: Place) -> None:
    assert tree.host is not None
    for run in tree.runs(place):
        pages = tree.host.take(run.hi - run.lo)
        assert pages is not None
        tree.give_host(run, pages, settled=True, stored=False)


def array(*tokens: int) -> Any:
    return np.array(tokens, np.int32)
