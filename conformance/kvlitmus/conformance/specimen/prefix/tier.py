"""The specimen's tree over two tiers: nodes with a copy on the device, on the host, or on both."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Sequence
from typing import cast

from kvlitmus.conformance.specimen.prefix.host import HostPool
from kvlitmus.conformance.specimen.prefix.tree import Node, RadixTree, Unit
from kvlitmus.conformance.specimen.prefix.works import TieredNode


class TierTree(RadixTree):
    """Prefixes to pages of two pools.

    Upkeep: as for the flat tree, with *resident* for *cached*: ``evictable`` and ``protected`` count
    resident units, ``leaves`` holds the resident, unlocked nodes without a resident child.
    ``host_leaves`` holds the nodes on the host alone that have no child and no pin.  The lists
    ``pages``, ``host`` and ``names`` of a node are replaced, never changed.
    """

    roots: dict[str | None, TieredNode]  # type: ignore[assignment]
    leaves: set[TieredNode]  # type: ignore[assignment]

    def __init__(
        self, page_size: int, policy: str, release: Callable[[Sequence[int]], None], host: HostPool, write: str
    ) -> None:
        super().__init__(page_size, policy, release)
        self.host = host
        self.write_back = write == "write_back"
        self.restored_counts = False
        self.host_leaves: set[TieredNode] = set()
        self.spill: Callable[[TieredNode, int], int] = lambda *_: 0
        self.inserted: Callable[[str | None, tuple[Unit, ...], list[TieredNode]], None] = lambda *_: None

    def root(self, namespace: str | None) -> TieredNode:
        """The root of a namespace."""
        found = super().root(namespace)
        assert isinstance(found, TieredNode)
        return found

    def new_node(self, parent: Node | None, key: tuple[Unit, ...], pages: list[int]) -> TieredNode:
        """A node that nobody refers to yet."""
        self.serial += 1
        assert parent is None or isinstance(parent, TieredNode)
        return TieredNode(parent, key, pages, self.clock, self.serial)

    # -- match and insert ----------------------------------------------------------------------

    def match(self, namespace: str | None, units: tuple[Unit, ...]) -> tuple[list[int], Node]:
        """The pages of the longest resident prefix, and the node where it ends."""
        pages, node, _ = self.reach(namespace, units, hit=True)
        return pages, node

    def reach(
        self, namespace: str | None, units: tuple[Unit, ...], *, hit: bool = False
    ) -> tuple[list[int], TieredNode, list[TieredNode]]:
        """As :meth:`match`, and the nodes behind it that are on the host alone; ``hit``: whether it is a match."""
        self.clock += 1
        pages: list[int] = []
        behind: list[TieredNode] = []
        node = self.root(namespace)
        for child in self.walk(node, units):
            if child.pages:
                pages += child.pages
                node = child
            else:
                behind.append(child)
            if hit:
                self.on_match(child)
        return pages, node, behind

    def walk(self, node: Node, units: tuple[Unit, ...]) -> list[TieredNode]:  # type: ignore[override]
        """The nodes of the longest known prefix, on either tier, split so that the last one ends with it; used now."""
        return cast("list[TieredNode]", super().walk(node, units))

    def split(self, node: Node, pages: int) -> TieredNode:
        """Cut a node after ``pages`` pages; the work on it is on both halves afterwards."""
        assert isinstance(node, TieredNode)
        upper = super().split(node, pages)
        assert isinstance(upper, TieredNode)
        upper.host, node.host = node.host[:pages], node.host[pages:]
        self.split_works(upper, node)
        return upper

    def split_works(self, upper: TieredNode, node: TieredNode) -> None:
        """What reads or writes the copies of a node that was cut does so with both halves.

        A put may have been asked for pages of one half alone, where storage has taken the others before: it is on that
        half, and pins it.  A prefetch that begins below the node pins its end, which is the lower half's.
        """
        for work in tuple(node.works):
            halves = [one for one in (upper, node) if work.kind != "put" or not set(work.sources).isdisjoint(one.host)]
            at = work.nodes.index(node)
            work.nodes[at : at + 1] = halves
            if upper in halves:
                upper.works.append(work)
                upper.pins += work.pins
            if node not in halves:
                node.works.remove(work)
                self.unpin(node)

    def insert(
        self, namespace: str | None, units: tuple[Unit, ...], pages: Sequence[int], priority: int, chunked: bool
    ) -> tuple[int, TieredNode]:
        """Cache what is missing on the device in ``pages``; how many pages were resident already, and the last node."""
        self.clock += 1
        size = self.page_size
        node = self.root(namespace)
        path = self.walk(node, units)
        already = at = 0
        for node in path:
            count = len(node.key) // size
            if node.pages:
                already += count
                self.use(node, priority, chunked)
            else:
                self.restore(node, list(pages[at : at + count]))
                self.use(node, priority, chunked or not self.restored_counts)
            at += count
        if at < len(pages):
            node = self.add_leaf(node, units[at * size :], list(pages[at:]))
            self.use(node, priority, chunked)
            path.append(node)
        if not chunked:
            self.inserted(namespace, units, path)
        return already, node

    def restore(self, node: TieredNode, pages: list[int]) -> None:
        """A node that is on the host alone is on the device as well from now on."""
        node.pages = pages
        self.evictable += len(node.key)
        self.settle(node)
        self.settle(node.parent)
        self.tell_stored("device", node)

    def add_leaf(self, parent: Node, key: tuple[Unit, ...], pages: list[int]) -> TieredNode:
        """Hang a new resident leaf below ``parent``."""
        leaf = super().add_leaf(parent, key, pages)
        assert isinstance(leaf, TieredNode)
        return leaf

    def insert_host(self, node: TieredNode, units: tuple[Unit, ...], pages: list[int]) -> tuple[int, int]:
        """Cache what is missing of ``units`` below ``node`` in host pages.

        Returns how many pages were known already, and how many of the rest found a place: none, where
        the page before has no host copy and backed pages must form a prefix.
        """
        self.clock += 1
        size = self.page_size
        known = 0
        for child in self.walk(node, units):
            known += len(child.key) // size
            node = child
        if known == len(pages) or not self.may_carry(node):
            return known, 0
        leaf = self.new_node(node, units[known * size :], [])
        leaf.host = pages[known:]
        leaf.priority = node.priority
        node.children[self.child_key(leaf.key)] = leaf
        self.name_pages(leaf)
        self.settle(leaf)
        self.settle(node)
        self.tell_stored("host", leaf)
        return known, len(leaf.host)

    def may_carry(self, node: TieredNode) -> bool:
        """Whether host copies may hang below this node."""
        return self.write_back or node.parent is None or bool(node.host)

    # -- locks and pins ------------------------------------------------------------------------

    def pin(self, node: TieredNode) -> None:
        """Keep the host copy of this node."""
        node.pins += 1
        self.host_leaves.discard(node)

    def unpin(self, node: TieredNode) -> None:
        """Give one pin back."""
        node.pins -= 1
        self.settle(node)

    def unprotected(self, node: Node) -> None:
        """A node that nobody protects any more."""
        assert isinstance(node, TieredNode)
        self.settle(node)

    def settle(self, node: TieredNode | None) -> None:
        """Put a node into the leaf sets where it belongs."""
        if node is None or node.parent is None:
            return
        self.leaves.discard(node)
        self.host_leaves.discard(node)
        if node.pages:
            if not node.locks and not any(child.pages for child in node.children.values()):
                self.leaves.add(node)
        elif node.host and not node.children and not node.pins:
            self.host_leaves.add(node)

    # -- eviction ------------------------------------------------------------------------------

    def trim(self, leaf: Node, pages: int) -> int:
        """Take the last ``pages`` pages of a leaf off the device; returns the slots freed.

        Backed pages stay on the host.  The others are written there first under write-back, as many
        as there is room for, and else are gone.
        """
        assert isinstance(leaf, TieredNode)
        if leaf.host:
            return self.demote(leaf, pages)
        if self.write_back:
            pages = self.spill(leaf, pages)
            return self.demote(leaf, pages) if pages else 0
        return self.drop(leaf, pages)

    def demote(self, leaf: TieredNode, pages: int) -> int:
        """The last pages of a backed leaf are on the host alone from now on."""
        if pages < len(leaf.pages):
            self.split(leaf, len(leaf.pages) - pages)
        victims, leaf.pages = leaf.pages, []
        self.evictable -= len(leaf.key)
        self.settle(leaf)
        self.settle(leaf.parent)
        self.tell_removed("device", leaf.names)
        self.release(victims)
        return len(victims) * self.page_size

    def drop(self, leaf: TieredNode, pages: int) -> int:
        """The last pages of an un-backed leaf are gone."""
        return super().trim(leaf, pages)

    def unhang(self, leaf: Node, first: Hashable) -> None:
        """An empty leaf leaves the tree."""
        assert isinstance(leaf, TieredNode)
        parent = leaf.parent
        assert parent is not None
        del parent.children[first]
        self.leaves.discard(leaf)
        self.host_leaves.discard(leaf)
        self.settle(parent)

    def evict_host(self, n: int) -> int:
        """Free at least ``n`` host slots of nodes that are on the host alone; returns how many."""
        heap = [(self.worth(leaf), leaf) for leaf in self.host_leaves]
        heapq.heapify(heap)
        freed = 0
        while freed < n and heap:
            _, leaf = heapq.heappop(heap)
            freed += self.trim_host(leaf, self.host_pages_to_trim(leaf, n - freed))
            parent = leaf.parent
            if not leaf.host and parent in self.host_leaves and parent is not None:
                heapq.heappush(heap, (self.worth(parent), parent))
        return freed

    def host_pages_to_trim(self, leaf: TieredNode, n: int) -> int:
        """How many pages of a victim go when ``n`` slots are still missing: no more than needed."""
        return min(len(leaf.host), -(-n // self.page_size))

    def trim_host(self, leaf: TieredNode, pages: int) -> int:
        """Take the last ``pages`` pages of a host leaf out of the cache; returns the slots freed."""
        size = self.page_size
        keep = len(leaf.host) - pages
        victims, gone = leaf.host[keep:], leaf.names[keep:]
        first = self.child_key(leaf.key)
        leaf.host, leaf.key, leaf.names = leaf.host[:keep], leaf.key[: keep * size], leaf.names[:keep]
        if not keep:
            self.unhang(leaf, first)
        self.tell_removed("host", gone)
        self.host.give_back(victims)
        return pages * size

    def host_room(self, pages: int) -> list[int] | None:
        """Host pages; what lacks is evicted, once."""
        found = self.host.take(pages)
        if found is None:
            self.evict_host((pages - len(self.host.free_list)) * self.page_size)
            found = self.host.take(pages)
        return found
