"""The prefix tree, page by page.

The tree maps the **name** of a page (the prefix that ends with it) to a :class:`Page`: where it
is, what its parent is, and what eviction needs to know.  A radix tree groups such pages into
nodes; here a node is a run of pages whose first one carries the mark ``first``, so that a
*split* sets one mark and can't lose anything else.

Every function returns a new tree; ``clock`` counts the calls that are uses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from kvlitmus.spec.policies import POLICIES
from kvlitmus.spec.units import Name, PageNo, Pages, Tick


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
    """All cached pages by name, and the time."""

    pages: Mapping[Name, Page]
    clock: Tick


class Eviction(NamedTuple):
    """The choices that an eviction depends on: the policy, and whether whole nodes go at once."""

    policy: str = "lru"
    granularity: str = "page"


def empty_tree() -> Tree:
    """A tree in which nothing is cached."""
    return Tree({}, Tick(0))


def cached_prefix(tree: Tree, names: Sequence[Name]) -> Pages:
    """How many of a key's pages are cached, from the first one on (TREE-02)."""
    length = 0
    for name in names:
        if name not in tree.pages:
            break
        length += 1
    return Pages(length)


def match(tree: Tree, names: Sequence[Name], *, counts: bool = False, renews: bool = False) -> tuple[Tree, Pages]:
    """The longest cached prefix of a key, in pages, and the tree in which its pages were used now.

    Only recency, node boundaries and, where matches count, hits change (TREE-04); see :func:`split`
    for ``renews``.
    """
    length = cached_prefix(tree, names)
    tree = touch(tree, names[:length], hits=int(counts))
    return split(tree, names[length - 1], renews=renews) if length else tree, length


def touch(tree: Tree, names: Iterable[Name], *, hits: int = 0, priority: int | None = None) -> Tree:
    """Note a use of these cached pages: all at the same tick, so that a parent is never older than its child."""
    now = Tick(tree.clock + 1)
    pages = dict(tree.pages)
    for name in names:
        old = pages[name]
        worth = old.priority if priority is None or priority <= old.priority else priority
        pages[name] = Page(old.parent, old.page, now, old.created, old.hits + hits, worth, old.locks, old.first)
    return Tree(pages, now)


def split(tree: Tree, name: Name, *, renews: bool = False) -> Tree:
    """End a node at this page: the pages after it begin nodes of their own (TREE-04).

    Nothing else changes, except that in some caches the upper half counts as created now (``renews``).
    """
    cut = {
        child: page._replace(first=True) for child, page in tree.pages.items() if page.parent == name and not page.first
    }
    if cut and renews:
        cut |= {upper: tree.pages[upper]._replace(created=tree.clock) for upper in node_of(tree, name)}
    return Tree({**tree.pages, **cut}, tree.clock) if cut else tree


def insert(
    tree: Tree,
    root: Name,
    names: Sequence[Name],
    offered: Sequence[PageNo],
    *,
    counts: bool = True,
    priority: int = 0,
    renews: bool = False,
) -> tuple[Tree, Pages]:
    """Cache the missing pages of a key in the pages offered; returns how many were cached before (TREE-08, TREE-09).

    ``root`` is the name of the key's namespace.  Existing pages win over offered ones.  A use is
    counted on the whole path where ``counts`` says so, which a chunk of the same request does not
    (TREE-13); priority never falls (TREE-14); see :func:`split` for ``renews``.
    """
    already = cached_prefix(tree, names)
    tree = touch(tree, names[:already], hits=int(counts), priority=priority)
    if already:
        tree = split(tree, names[already - 1], renews=renews)
    if already == len(names):
        return tree, already
    pages = dict(tree.pages)
    parent = names[already - 1] if already else root
    for position in range(already, len(names)):
        first = position == already
        pages[names[position]] = Page(
            parent, offered[position], tree.clock, tree.clock, int(counts), priority, 0, first
        )
        parent = names[position]
    return Tree(pages, tree.clock), already


def path(tree: Tree, name: Name) -> tuple[Name, ...]:
    """The cached pages from the root to this one, in order."""
    names: list[Name] = []
    while name in tree.pages:
        names.append(name)
        name = tree.pages[name].parent
    return tuple(reversed(names))


def lock(tree: Tree, name: Name, by: int = 1) -> Tree:
    """Protect the path from the root to this page once more (LOCK-01, LOCK-03, LOCK-04)."""
    pages = dict(tree.pages)
    while name in pages:
        old = pages[name]
        pages[name] = Page(
            old.parent, old.page, old.touched, old.created, old.hits, old.priority, old.locks + by, old.first
        )
        name = old.parent
    return Tree(pages, tree.clock)


def unlock(tree: Tree, name: Name) -> Tree:
    """Give one protection of the path to this page back (LOCK-04).

    Raises ``ValueError`` when it isn't protected: a receipt is worth one lock, once (MISUSE-06).
    """
    if name in tree.pages and tree.pages[name].locks < 1:
        raise ValueError(f"page {name} is not locked", name)
    return lock(tree, name, -1)


def leaves(tree: Tree) -> list[Name]:
    """The cached pages without a cached child."""
    parents = {page.parent for page in tree.pages.values()}
    return [name for name in tree.pages if name not in parents]


def node_of(tree: Tree, leaf: Name) -> tuple[Name, ...]:
    """The pages of the node that ends with this leaf, last page first."""
    names = [leaf]
    while not tree.pages[names[-1]].first:
        names.append(tree.pages[names[-1]].parent)
    return tuple(names)


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
