"""What was seen of a cache at one moment, by name.

A snapshot lists slots and units.  Rules speak of pages and of the prefixes that they hold, so whoever looks at a cache
reads the snapshot into a :class:`Seen`: free pages, cached pages by name, and what the nodes say of themselves.
"""

from __future__ import annotations

from typing import NamedTuple

from kvlitmus.spec.names import NO_NAME
from kvlitmus.spec.units import Name, PageNo


class NodeInfo(NamedTuple):
    """One node, named: its pages in order, where it hangs, where it ends, and what is wrong with its form."""

    names: tuple[Name, ...]
    pages: tuple[PageNo, ...]
    parent: Name
    end: Name
    broken_node: str
    broken_pages: tuple[str, ...]
    items: dict[Name, PageNo]


class NodeSeen(NamedTuple):
    """A node with the counts it showed; ``parent``: the number of the node above, or -1."""

    info: NodeInfo
    parent: int
    locks: int | None
    hits: int | None
    priority: int | None


class Seen:
    """A cache as it was seen.

    ``available``: what the pool says it could hand out; ``sizes``: the tree's own counters; both ``None`` where nobody
    looked.  ``seen``: whether there was a snapshot; without one the rest is empty.  ``listed``: the free list as it
    stands; ``free``: the pages on it.  ``cached``: every cached page; ``cached_listed``: the pages of all nodes,
    repetitions included.  ``parents``: the names of the parents of all nodes, roots left out.  ``broken``: nodes whose
    form is wrong, in words.
    """

    __slots__ = (
        "available",
        "broken",
        "cached",
        "cached_listed",
        "free",
        "listed",
        "nodes",
        "parents",
        "seen",
        "sizes",
    )

    def __init__(self) -> None:
        self.available: int | None = None
        self.sizes: tuple[int, int] | None = None
        self.seen = False
        self.listed: tuple[PageNo, ...] = ()
        self.free: frozenset[PageNo] = frozenset()
        self.cached: dict[Name, PageNo] = {}
        self.cached_listed: list[PageNo] = []
        self.parents: set[Name] = set()
        self.nodes: list[NodeSeen] = []
        self.broken: list[str] = []

    def parent_of(self, name: Name) -> Name:
        """The name of the page (or root) before this page."""
        for node in self.nodes:
            if name in node.info.items:
                at = node.info.names.index(name)
                return node.info.names[at - 1] if at else node.info.parent
        return NO_NAME
