"""Eviction in batches: whole nodes go, oldest use first, from a heap that is only true while it is used.

A radix tree whose nodes are as long as what was inserted at once.  Nothing is taken out of the heap when a node is
used, locked or split; an eviction begins by pushing again what is in it, as it is now.  A node is never cut to free a
part of it, so an eviction may free more than was asked for, as the profile says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import count

from kvlitmus.conformance.ports import Config, Hit, NodeView, Profile, Sizes, Stored, Unsupported, View
from kvlitmus.spec.words.units import Key, Unit


class Branch:
    """A node: its units, its pages, its children by their first page."""

    def __init__(self, parent: Branch | None, units: tuple[Unit, ...], pages: list[int], when: int) -> None:
        self.parent = parent
        self.units = units
        self.pages = pages
        self.used = self.made = when
        self.children: dict[tuple[Unit, ...], Branch] = {}
        self.locks = self.hits = self.priority = 0
        self.gone = False


class Batch:
    """Pool, tree and heap."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.size = config.page_size
        self.reset()

    def reset(self) -> None:
        """As new."""
        self.pool = list(range(1, 1 + self.config.pages))
        self.roots: dict[str | None, Branch] = {}
        self.heap: list[tuple[int, int, int, Branch]] = []
        self.clock = 0
        self.number = count()
        self.open = self.shut = 0

    def alloc(self, n: int) -> list[int] | None:
        """From the front."""
        wanted = n // self.size
        if wanted > len(self.pool):
            return None
        pages, self.pool = self.pool[:wanted], self.pool[wanted:]
        return self.slots(pages)

    def free(self, slots: Sequence[int]) -> None:
        """To the back."""
        self.pool.extend(dict.fromkeys(slot // self.size for slot in slots))

    def available(self) -> int:
        """All of the pool."""
        return len(self.pool) * self.size

    def slots(self, pages: Sequence[int]) -> list[int]:
        """The slots of these pages."""
        return [page * self.size + at for page in pages for at in range(self.size)]

    def walk(self, key: Key) -> list[Branch]:
        """The nodes along a key, the last one split where the key leaves it; all are used."""
        self.clock += 1
        at, left, found = self.roots.setdefault(key.namespace, Branch(None, (), [], 0)), tuple(key.units), []
        while (child := at.children.get(left[: self.size])) is not None and len(left) >= self.size:
            same = next((n for n, (a, b) in enumerate(zip(child.units, left, strict=False)) if a != b), None)
            whole = min(len(child.units), len(left)) if same is None else same
            pages = whole // self.size
            if pages < len(child.pages):
                child = self.split(child, pages)
            child.used = self.clock
            found.append(child)
            at, left = child, left[len(child.units) :]
        return found

    def split(self, node: Branch, pages: int) -> Branch:
        """An upper half; the node itself is the lower one, so that receipts for it stay true."""
        at = pages * self.size
        assert node.parent is not None
        upper = Branch(node.parent, node.units[:at], node.pages[:pages], node.used)
        upper.made, upper.locks, upper.hits, upper.priority = node.made, node.locks, node.hits, node.priority
        node.parent.children[node.units[: self.size]] = upper
        node.units, node.pages, node.parent = node.units[at:], node.pages[pages:], upper
        upper.children[node.units[: self.size]] = node
        return upper

    def match(self, key: Key) -> Hit:
        """The handle is the last node, or the root."""
        nodes = self.walk(key)
        pages = [page for node in nodes for page in node.pages]
        return Hit(len(pages) * self.size, self.slots(pages), nodes[-1] if nodes else self.roots[key.namespace])

    def insert(
        self, key: Key, slots: Sequence[int], *, protected: int = 0, priority: int = 0, chunked: bool = False
    ) -> Stored:
        """One new node for all that is missing."""
        nodes = self.walk(key)
        already = sum(len(node.pages) for node in nodes)
        whole = key.length // self.size
        if already < whole:
            parent = nodes[-1] if nodes else self.roots[key.namespace]
            units = tuple(key.units[already * self.size : whole * self.size])
            pages = [slots[at * self.size] // self.size for at in range(already, whole)]
            nodes.append(Branch(parent, units, pages, self.clock))
            parent.children[units[: self.size]] = nodes[-1]
            self.open += len(units)
            self.push(nodes[-1])
        for node in nodes:
            node.hits += not chunked
            node.priority = max(node.priority, priority)
        return Stored(already * self.size)

    def up(self, node: Branch) -> Iterator[Branch]:
        """The nodes from here to the root, without it."""
        while node.parent is not None:
            yield node
            node = node.parent

    def lock(self, handle: object) -> object:
        """Count along the path."""
        assert isinstance(handle, Branch)
        for node in self.up(handle):
            if not node.locks:
                self.open -= len(node.units)
                self.shut += len(node.units)
            node.locks += 1
        return handle

    def unlock(self, receipt: object) -> None:
        """Count down along the path; what is free of locks may be in the heap no more."""
        assert isinstance(receipt, Branch)
        for node in self.up(receipt):
            node.locks -= 1
            if not node.locks:
                self.open += len(node.units)
                self.shut -= len(node.units)
                self.push(node)

    def push(self, node: Branch) -> None:
        """Into the heap, as it is now."""
        when = node.made if self.config.policy == "fifo" else node.used
        heappush(self.heap, (node.priority if self.config.policy == "priority" else 0, when, next(self.number), node))

    def evict(self, n: int) -> int:
        """Whole nodes, until it is enough."""
        freed, waiting = 0, dict.fromkeys(node for *_, node in self.heap if not node.gone)
        self.heap = []
        for node in waiting:
            self.push(node)
        while freed < n and self.heap:
            *_, node = heappop(self.heap)
            if node.gone or node.locks or node.children:
                continue
            assert node.parent is not None
            del node.parent.children[node.units[: self.size]]
            node.gone = True
            self.pool += node.pages
            freed += len(node.units)
            self.open -= len(node.units)
            if node.parent.parent is not None:
                self.push(node.parent)
        return freed

    def sizes(self) -> Sizes:
        """Kept up to date by locks."""
        return Sizes(self.open, self.shut)

    def view(self) -> View:
        """Depth first."""
        nodes: list[NodeView] = []
        for namespace, root in self.roots.items():
            stack = [(-1, child) for child in root.children.values()]
            while stack:
                parent, node = stack.pop()
                stack += [(len(nodes), child) for child in node.children.values()]
                slots = tuple(self.slots(node.pages))
                nodes.append(NodeView(parent, namespace, node.units, slots, node.locks, node.hits, node.priority))
        return View(tuple(self.pool), nodes)


class BatchTarget:
    """Makes them for three policies."""

    profile = Profile(evict_granularity="node")

    def make(self, config: Config) -> Batch:
        """A fresh one."""
        if config.policy not in ("lru", "fifo", "priority") or config.pool != "device" or config.tiered:
            raise Unsupported("a tree on the device, by use, age or priority")
        return Batch(config)


target = BatchTarget()
