"""Cached pages, and the tree that they make up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kvlitmus.spec.words.quick_replace import lean
from kvlitmus.spec.words.units import Name, PageNo, Tick

BY_AGE = ("fifo", "filo")
"""The policies that ask when a page was created."""


@lean
class Page(NamedTuple):
    """One cached page.

    ``parent``: the name of the page before it, or of its namespace's root.  ``page``: where it is.
    ``touched``, ``created``: ticks of the last use and of the insertion.  ``hits``: how often it
    was used, as the profile counts.  ``locks``: how many receipts and requests cover it.
    ``first``: whether a node begins here.
    ``undated``: whether nobody knows when it was created.  ``unsure``: whether nobody knows how recently it was used; the
    next use that is certain ends that.
    """

    parent: Name
    page: PageNo
    touched: Tick
    created: Tick
    hits: int = 0
    priority: int = 0
    locks: int = 0
    first: bool = False
    undated: bool = False
    unsure: bool = False

    def is_ageless(self, policy: str) -> bool:
        """Whether nobody knows for certain where the page is in the order of a policy."""
        return self.undated if policy in BY_AGE else self.unsure


class Tree(NamedTuple):
    """All cached pages by name, and the time.

    A radix tree groups pages into nodes; here a node is a run of pages whose first one carries the mark ``first``.
    """

    pages: Mapping[Name, Page]
    clock: Tick


class Block(NamedTuple):
    """One entered page of a block table: the prefix that is found there, and how many requests hold this very page."""

    name: Name
    holders: int


def empty_tree() -> Tree:
    """A tree in which nothing is cached."""
    return Tree({}, Tick(0))
