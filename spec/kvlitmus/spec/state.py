"""What is known of a cache at one moment.

The state is in **groups**: the tree, who owns pages, the requests, the receipts, what slots hold.  Each is a value, and
a step that leaves a group alone keeps the very object, so that unchanged groups are known by identity.

The same type serves the reference, where it is all that there is, and the checker, where it is what the calls so far
amount to, corrected by what was seen.  What a checker can't know for certain, because evictions are not seen below
depth 3, is :attr:`State.doubtful`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kvlitmus.spec.calls import Path
from kvlitmus.spec.units import Name, PageNo, Slot, Tick


class Page(NamedTuple):
    """One cached page.

    ``parent``: the name of the page before it, or of its namespace's root.  ``page``: where it is.
    ``touched``, ``created``: ticks of the last use and of the insertion.  ``hits``: how often it
    was used, as the profile counts.  ``locks``: how many receipts and requests cover it.
    ``first``: whether a node begins here.
    """

    parent: Name
    page: PageNo
    touched: Tick
    created: Tick
    hits: int = 0
    priority: int = 0
    locks: int = 0
    first: bool = False


class Tree(NamedTuple):
    """All cached pages by name, and the time.

    A radix tree groups pages into nodes; here a node is a run of pages whose first one carries the mark ``first``.
    """

    pages: Mapping[Name, Page]
    clock: Tick


class Running(NamedTuple):
    """A running request.

    ``row``: its slots, one per token.  The first ``cached`` of them are the tree's, protected by a lock on the path
    to ``locked``.  Into the first ``computed`` of them KV was written; the caller has not come to the others yet.
    """

    path: Path
    row: tuple[Slot, ...]
    cached: int
    computed: int
    locked: Name

    @property
    def upto(self) -> int | None:
        """How many slots are computed, where that is not all of them."""
        return self.computed if self.computed < len(self.row) else None


class State(NamedTuple):
    """What is known of one cache.

    ``tree``: what is cached.  ``doubtful``: the names of it that may be gone, since nobody saw.  ``owners``: how many
    requests and callers own each page that is owned.  ``requests``: by id.  ``receipts``: by the suite's number, where
    the protected path ends.  ``contents``: which prefix's KV was written last into each slot.
    """

    tree: Tree
    doubtful: frozenset[Name]
    owners: Mapping[PageNo, int]
    requests: Mapping[int, Running]
    receipts: Mapping[int, Name]
    contents: Mapping[Slot, Name]


def empty_tree() -> Tree:
    """A tree in which nothing is cached."""
    return Tree({}, Tick(0))


def empty_state() -> State:
    """Nothing is cached, owned, locked or written."""
    return State(empty_tree(), frozenset(), {}, {}, {}, {})
