"""The prefix tree, page by page.

The tree maps the **name** of a page (the prefix that ends with it) to a :class:`Page`: where it
is, what its parent is, and what eviction needs to know.  A radix tree groups such pages into
nodes; here a node is a run of pages whose first one carries the mark ``first``, so that a
*split* sets one mark and can't lose anything else.

Every function returns a new tree; ``clock`` counts the calls that are uses.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from kvlitmus.spec.effects import cached_prefix, insert, leaves, lock, node_of, path, split, touch
from kvlitmus.spec.policies import POLICIES
from kvlitmus.spec.state import Page, Tree, empty_tree
from kvlitmus.spec.units import Name, Pages

__all__ = [
    "Eviction",
    "Page",
    "Tree",
    "cached_prefix",
    "empty_tree",
    "evict",
    "insert",
    "is_closed",
    "leaves",
    "lock",
    "match",
    "node_of",
    "path",
    "sizes",
    "split",
    "touch",
    "unlock",
]


class Eviction(NamedTuple):
    """The choices that an eviction depends on: the policy, and whether whole nodes go at once."""

    policy: str = "lru"
    granularity: str = "page"


def match(tree: Tree, names: Sequence[Name], *, counts: bool = False, renews: bool = False) -> tuple[Tree, Pages]:
    """The longest cached prefix of a key, in pages, and the tree in which its pages were used now.

    Only recency, node boundaries and, where matches count, hits change (TREE-04); see :func:`split`
    for ``renews``.
    """
    length = cached_prefix(tree, names)
    tree = touch(tree, names[:length], hits=int(counts))
    return split(tree, names[length - 1], renews=renews) if length else tree, length


def unlock(tree: Tree, name: Name) -> Tree:
    """Give one protection of the path to this page back (LOCK-04).

    Raises ``ValueError`` when it isn't protected: a receipt is worth one lock, once (MISUSE-06).
    """
    if name in tree.pages and tree.pages[name].locks < 1:
        raise ValueError(f"page {name} is not locked", name)
    return lock(tree, name, -1)


def evict(
    tree: Tree, wanted: Pages, how: Eviction, choice: Sequence[Name] | None = None
) -> tuple[Tree, tuple[Name, ...]]:
    """Remove leaves in the policy's order until ``wanted`` pages are gone or nothing unlocked is left.

    Returns the names removed, in order.  Locked pages stay (EVICT-03); with whole nodes a little
    more than wanted may go (EVICT-06).  The choice is which pages go; left out, the policy decides,
    and the name breaks ties (EVICT-05).
    """
    victims: list[Name] = []
    pages = dict(tree.pages)
    if choice is not None:
        for name in choice:
            del pages[name]
        return Tree(pages, tree.clock), tuple(choice)
    worth = POLICIES[how.policy]
    while len(victims) < wanted:
        rest = Tree(pages, tree.clock)
        candidates = [name for name in leaves(rest) if not pages[name].locks]
        if not candidates:
            break
        leaf = min(candidates, key=lambda name: (*worth(pages[name]), name))
        gone = node_of(rest, leaf) if how.granularity == "node" else (leaf,)
        victims += gone
        for name in gone:
            del pages[name]
    return Tree(pages, tree.clock), tuple(victims)


def is_closed(tree: Tree, roots: Collection[Name]) -> bool:
    """Whether the parent of every cached page is cached, or the root of its namespace (TREE-05)."""
    return all(page.parent in tree.pages or page.parent in roots for page in tree.pages.values())


def sizes(tree: Tree) -> tuple[Pages, Pages]:
    """How many pages could be evicted, and how many are protected (LOCK-02)."""
    protected = sum(1 for page in tree.pages.values() if page.locks)
    return Pages(len(tree.pages) - protected), Pages(protected)
