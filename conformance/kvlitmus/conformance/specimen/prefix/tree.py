"""The specimen's radix tree: nodes, locks, counters, leaf set, eviction."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field

Unit = int | tuple[int, int]

TreeEvent = tuple[str, str, object, object, tuple[Unit, ...], str | None]
"""What is told to the world: what, tier, page, the page before, units, namespace."""

CLEARED: list[TreeEvent] = [("cleared", "", None, None, (), None)]
"""What a reset tells."""


@dataclass(slots=True, eq=False, repr=False)
class Node:
    """A run of whole pages with one fate: matched, locked and evicted together (but for the tail of a leaf).

    ``names`` are the names of its pages in events; ``uses``: how often an insert came along, whatever counts as a hit.
    """

    parent: Node | None
    key: tuple[Unit, ...]
    pages: list[int]
    created: int
    serial: int
    names: list[int] = field(default_factory=list)
    namespace: str | None = None
    children: dict[Hashable, Node] = field(default_factory=dict)
    locks: int = 0
    uses: int = 0
    hits: int = 0
    priority: int = 0
    touched: int = 0

    def __post_init__(self) -> None:
        self.touched = self.created
        if self.parent is not None:
            self.namespace = self.parent.namespace


POLICIES: dict[str, Callable[[Node], tuple[int, ...]]] = {
    "lru": lambda node: (node.touched, node.serial),
    "mru": lambda node: (-node.touched, node.serial),
    "lfu": lambda node: (node.hits, node.touched, node.serial),
    "fifo": lambda node: (node.created, node.serial),
    "filo": lambda node: (-node.created, node.serial),
    "priority": lambda node: (node.priority, node.touched, node.serial),
    "slru": lambda node: (int(node.hits >= 2), node.touched, node.serial),
}
"""What each policy compares; the smallest goes first, and the serial number makes the order total."""


class RadixTree:
    """Prefixes to pages, for one pool.

    Upkeep: ``evictable`` and ``protected`` count the units of unlocked and locked nodes; ``leaves``
    holds exactly the unlocked nodes without children; a node's key is a multiple of the page long
    and its parent's ``children`` has it under the first page of that key.
    """

    hit_counts = "insert"
    """What counts as a hit: see :class:`~kvlitmus.spec.words.profile.Profile`."""

    def __init__(self, page_size: int, policy: str, release: Callable[[Sequence[int]], None]) -> None:
        self.page_size = page_size
        self.release = release
        self.worth = POLICIES[policy]
        self.roots: dict[str | None, Node] = {}
        self.leaves: set[Node] = set()
        self.evictable = 0
        self.protected = 0
        self.clock = 0
        self.serial = 0
        self.told: list[TreeEvent] = []
        self.last_name = 0

    def root(self, namespace: str | None) -> Node:
        """The root of a namespace."""
        found = self.roots.get(namespace)
        if found is None:
            found = self.roots[namespace] = self.new_node(None, (), [])
            found.namespace = namespace
        return found

    def new_node(self, parent: Node | None, key: tuple[Unit, ...], pages: list[int]) -> Node:
        """A node that nobody refers to yet."""
        self.serial += 1
        return Node(parent, key, pages, self.clock, self.serial)

    # -- what is told to the world -------------------------------------------------------------

    def name_pages(self, node: Node) -> None:
        """Give the pages of a node that have no name yet theirs."""
        count = len(node.key) // self.page_size - len(node.names)
        node.names = [*node.names, *range(self.last_name + 1, self.last_name + count + 1)]
        self.last_name += count

    def tell_stored(self, tier: str, node: Node, start: int = 0) -> None:
        """The pages of a node, from the one at ``start`` on, are on this tier now."""
        size = self.page_size
        assert node.parent is not None
        above = node.names[:start] or node.parent.names
        before = above[-1] if above else None
        for at, name in enumerate(node.names[start:], start):
            self.told.append(("stored", tier, name, before, node.key[at * size : at * size + size], node.namespace))
            before = name

    def tell_removed(self, tier: str, names: Sequence[int]) -> None:
        """These pages are not on this tier any more."""
        self.told += [("removed", tier, name, None, (), None) for name in reversed(names)]

    def pages_cached(self) -> set[int]:
        """The pages of all nodes."""
        pages: set[int] = set()
        stack = list(self.roots.values())
        while stack:
            node = stack.pop()
            pages.update(node.pages)
            stack += node.children.values()
        return pages

    def resident(self, namespace: str | None, units: tuple[Unit, ...]) -> list[int]:
        """The pages of the longest cached prefix; nothing is used, nor split."""
        size, at = self.page_size, 0
        pages: list[int] = []
        node = self.roots.get(namespace)
        while node is not None and at == len(pages) * size:
            child = node.children.get(self.child_key(units[at : at + size])) if len(units) - at >= size else None
            if child is not None:
                pages += child.pages[: self.common_pages(child.key, units, at)]
                at += len(child.key)
            node = child
        return pages

    # -- match and insert ----------------------------------------------------------------------

    def match(self, namespace: str | None, units: tuple[Unit, ...]) -> tuple[list[int], Node]:
        """The pages of the longest cached prefix, and the node where it ends."""
        self.clock += 1
        pages: list[int] = []
        node = self.root(namespace)
        for child in self.walk(node, units):
            pages += child.pages
            node = child
            self.on_match(child)
        return pages, node

    def walk(self, node: Node, units: tuple[Unit, ...]) -> list[Node]:
        """The nodes that cover the longest cached prefix, split so that the last one ends with it, and used now."""
        size = self.page_size
        found: list[Node] = []
        at = 0
        while len(units) - at >= size:
            child = node.children.get(self.child_key(units[at : at + size]))
            if child is None:
                break
            common = self.common_pages(child.key, units, at)
            if common * size < len(child.key):
                child = self.split(child, common)
            child.touched = self.clock
            found.append(child)
            at += len(child.key)
            node = child
        return found

    def child_key(self, units: tuple[Unit, ...]) -> Hashable:
        """What a node's children are found by: their first page."""
        return units[: self.page_size]

    def common_pages(self, key: tuple[Unit, ...], units: tuple[Unit, ...], at: int) -> int:
        """How many whole pages of ``key`` stand in ``units`` from ``at`` on."""
        size = self.page_size
        if units[at : at + len(key)] == key:
            return len(key) // size
        common = 0
        for mine, other in zip(key, units[at:], strict=False):
            if mine != other:
                break
            common += 1
        return common // size

    def split(self, node: Node, pages: int) -> Node:
        """Cut a node after ``pages`` pages; returns the upper half, which inherits everything that it is worth."""
        size = self.page_size
        parent = node.parent
        assert parent is not None
        upper = self.new_node(parent, node.key[: pages * size], node.pages[:pages])
        upper.locks, upper.uses, upper.hits, upper.priority = node.locks, node.uses, node.hits, node.priority
        upper.created, upper.touched = node.created, node.touched
        parent.children[self.child_key(upper.key)] = upper
        node.key, node.pages, node.parent = node.key[pages * size :], node.pages[pages:], upper
        upper.names, node.names = node.names[:pages], node.names[pages:]
        upper.children[self.child_key(node.key)] = node
        return upper

    def on_match(self, node: Node) -> None:
        """A match came along here."""
        node.hits += self.hit_counts == "match"

    def insert(
        self, namespace: str | None, units: tuple[Unit, ...], pages: Sequence[int], priority: int, chunked: bool
    ) -> tuple[int, Node]:
        """Cache what is missing of ``units`` in ``pages``; returns how many were cached already, and the last node."""
        self.clock += 1
        size = self.page_size
        node = self.root(namespace)
        already = 0
        for child in self.walk(node, units):
            already += len(child.pages)
            self.use(child, priority, chunked)
            node = child
        if already < len(pages):
            node = self.add_leaf(node, units[already * size :], list(pages[already:]))
            self.use(node, priority, chunked)
        return already, node

    def use(self, node: Node, priority: int, chunked: bool) -> None:
        """An insert came along here."""
        node.priority = max(node.priority, priority)
        if not chunked:
            node.uses += 1
            node.hits += self.hit_counts == "insert"

    def add_leaf(self, parent: Node, key: tuple[Unit, ...], pages: list[int]) -> Node:
        """Hang a new leaf below ``parent``, and tell."""
        leaf = self.new_node(parent, key, pages)
        parent.children[self.child_key(key)] = leaf
        self.evictable += len(key)
        self.leaves.discard(parent)
        self.leaves.add(leaf)
        self.name_pages(leaf)
        self.tell_stored("device", leaf)
        return leaf

    # -- locks ---------------------------------------------------------------------------------

    def lock(self, node: Node) -> None:
        """Protect the path from this node to the root."""
        at: Node | None = node
        while at is not None and at.parent is not None:
            if at.locks == 0:
                self.evictable -= len(at.key)
                self.protected += len(at.key)
                self.leaves.discard(at)
            at.locks += 1
            at = at.parent

    def unlock(self, node: Node) -> None:
        """Give one protection of the path back."""
        if node.parent is not None and node.locks < 1:
            raise ValueError("this path is not locked")
        at: Node | None = node
        while at is not None and at.parent is not None:
            at.locks -= 1
            if at.locks == 0:
                self.evictable += len(at.key)
                self.protected -= len(at.key)
                self.unprotected(at)
            at = at.parent

    def unprotected(self, node: Node) -> None:
        """A node that nobody protects any more is a leaf if it has no children."""
        if not node.children:
            self.leaves.add(node)

    # -- eviction ------------------------------------------------------------------------------

    def evict(self, n: int) -> int:
        """Free at least ``n`` slots, page by page from the least valuable leaf on; returns how many."""
        heap = [(self.worth(leaf), leaf) for leaf in self.candidates(n)]
        heapq.heapify(heap)
        freed = 0
        while freed < n and heap:
            _, leaf = heapq.heappop(heap)
            freed += self.trim(leaf, self.pages_to_trim(leaf, n - freed))
            following = self.next_candidate(leaf)
            if following is not None:
                heapq.heappush(heap, (self.worth(following), following))
        return freed

    def next_candidate(self, victim: Node) -> Node | None:
        """What an eviction may go on with after it took from this node: its parent, if it was the last child."""
        return victim.parent if not victim.pages and victim.parent in self.leaves else None

    def candidates(self, n: int) -> Collection[Node]:
        """Where an eviction of ``n`` slots may begin."""
        return self.leaves

    def pages_to_trim(self, leaf: Node, n: int) -> int:
        """How many pages of a victim go when ``n`` slots are still missing: no more than needed."""
        return min(len(leaf.pages), -(-n // self.page_size))

    def trim(self, leaf: Node, pages: int) -> int:
        """Evict the last ``pages`` pages of a leaf; an empty leaf leaves the tree.  Returns the slots freed."""
        size = self.page_size
        keep = len(leaf.pages) - pages
        victims, gone = leaf.pages[keep:], leaf.names[keep:]
        first = self.child_key(leaf.key)
        leaf.pages, leaf.key, leaf.names = leaf.pages[:keep], leaf.key[: keep * size], leaf.names[:keep]
        self.evictable -= pages * size
        if not keep:
            self.unhang(leaf, first)
        self.tell_removed("device", gone)
        self.release(victims)
        return pages * size

    def unhang(self, leaf: Node, first: Hashable) -> None:
        """An empty leaf, which its parent has under its first page, leaves the tree."""
        parent = leaf.parent
        assert parent is not None
        del parent.children[first]
        self.leaves.discard(leaf)
        if not parent.children and parent.parent is not None and parent.locks == 0:
            self.leaves.add(parent)
