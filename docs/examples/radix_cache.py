"""A radix tree over a pool of pages: runs of pages that were cached together share a node, and a node splits."""

from __future__ import annotations

from itertools import count, takewhile


class Node:
    """A run of pages; ``key`` and ``pages`` are equally long."""

    def __init__(self, parent: Node | None, key: list[tuple[int, ...]], pages: list[int]) -> None:
        self.parent, self.key, self.pages = parent, key, pages
        self.children: dict[tuple[int, ...], Node] = {}
        self.lock_ref = 0
        self.last_access = 0


class RadixCache:
    """Prefixes of whole pages, by tenant."""

    def __init__(self, num_pages: int, page_size: int) -> None:
        self.page_size = page_size
        self.free_pages = list(range(num_pages))
        self.roots: dict[str | None, Node] = {}
        self.time = count(1)

    def match_prefix(self, tenant: str | None, tokens: tuple[int, ...]) -> tuple[list[int], Node]:
        """The pages of the longest cached prefix, and the node where it ends."""
        node = self.roots.setdefault(tenant, Node(None, [], []))
        size, pages, now = self.page_size, list[int](), next(self.time)
        chunks = [tokens[at : at + size] for at in range(0, len(tokens) - size + 1, size)]
        while chunks and chunks[0] in node.children:
            child = node.children[chunks[0]]
            same = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(child.key, chunks, strict=False))))
            if same < len(child.key):
                child = self.split(child, same)
            child.last_access = now
            pages += child.pages
            node, chunks = child, chunks[same:]
        return pages, node

    def split(self, node: Node, at: int) -> Node:
        """The first pages of a node become a node above it; whoever locks the one locks the other."""
        upper = Node(node.parent, node.key[:at], node.pages[:at])
        upper.last_access = node.last_access
        upper.children[node.key[at]] = node
        assert node.parent is not None
        node.parent.children[node.key[0]] = upper
        node.parent, node.key, node.pages = upper, node.key[at:], node.pages[at:]
        return upper

    def insert(self, tenant: str | None, tokens: tuple[int, ...], pages: list[int]) -> int:
        """Cache a prompt's pages; how many of them were cached before."""
        cached, node = self.match_prefix(tenant, tokens)
        size, before = self.page_size, len(cached)
        chunks = [tokens[at : at + size] for at in range(before * size, len(tokens) - size + 1, size)]
        if chunks:
            node.children[chunks[0]] = child = Node(node, chunks, pages[before : before + len(chunks)])
            child.last_access = node.last_access if node.parent else next(self.time)
        return before

    def lock(self, node: Node | None, change: int) -> None:
        """Protect a path from its end to the root, or give it back."""
        while node is not None:
            node.lock_ref += change
            node = node.parent

    def evict(self, wanted: int) -> int:
        """Free pages from the ends of unlocked leaves, the least recently used first; how many."""
        freed = 0
        while freed < wanted:
            leaves = [node for node in self.nodes() if not node.children and not node.lock_ref]
            if not leaves:
                break
            leaf = min(leaves, key=lambda node: node.last_access)
            assert leaf.parent is not None
            del leaf.parent.children[leaf.key[0]]
            self.free_pages += leaf.pages
            freed += len(leaf.pages)
        return freed

    def nodes(self) -> list[Node]:
        """Every node but the roots, parents first."""
        found = [child for root in self.roots.values() for child in root.children.values()]
        for node in found:
            found += node.children.values()
        return found
