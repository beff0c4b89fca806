"""A small flat cache, written from the specification: a pool of pages, a prefix tree of nodes, locks, eviction.

    python examples/flat_cache.py           # judges itself; takes the options of ``kvlitmus run``

Everything that it does is on the page *Implement a cache* (``docs/implement.md``), whose sections are named in the
comments.  It is written to be read: an eviction looks at every node, and nothing is kept that could be counted anew.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path

from kvlitmus.conformance import cli
from kvlitmus.conformance.ports import Unsupported
from kvlitmus.spec.interface import Hit, NodeView, Sizes, Stored, View
from kvlitmus.spec.words.config import Config
from kvlitmus.spec.words.policies import worth
from kvlitmus.spec.words.profile import Profile
from kvlitmus.spec.words.units import Key, Unit

Units = tuple[Unit, ...]


class Node:
    """A run of whole pages that were cached together; a root has none.

    ``touched``, ``created``, ``hits`` and ``priority`` are the node's for all of its pages: where they would come to
    differ it is split.
    """

    def __init__(self, parent: Node | None, units: Units, slots: Sequence[int], now: int) -> None:
        self.parent = parent
        self.units = units
        self.slots = list(slots)
        self.children: dict[Units, Node] = {}
        self.touched = self.created = now
        self.hits = self.priority = self.locks = 0

    def path(self) -> list[Node]:
        """The nodes from here up, without the root."""
        found, node = [], self
        while node.parent is not None:
            found.append(node)
            node = node.parent
        return found


class FlatCache:
    """The cache; its methods are the ports *pool*, *tree*, *locks*, *evict*, *counters*, *inspect* and *reset*."""

    def __init__(self, config: Config, profile: Profile) -> None:
        self.size = config.page_size
        self.usable = range(profile.reserved, profile.reserved + config.pages)
        self.worth = worth(config.policy, profile.slru_hits)
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self.unused = list(self.usable)
        self.roots: dict[str | None, Node] = {}
        self.now = 0

    # The pool

    def alloc(self, n: int) -> list[int] | None:
        """Whole pages, all or none; it never evicts (profile: ``evict_moment``)."""
        if n < 0 or n % self.size:
            raise ValueError(f"n must be a multiple of {self.size} and not negative (got {n})")
        wanted = n // self.size
        if wanted > len(self.unused):
            return None
        taken, self.unused = self.unused[:wanted], self.unused[wanted:]
        return [slot for page in taken for slot in range(page * self.size, (page + 1) * self.size)]

    def free(self, slots: Sequence[int]) -> None:
        """The pages that these slots lie in, each once."""
        self.unused += sorted({slot // self.size for slot in slots})

    def available(self) -> int:
        """How many slots could be handed out."""
        return len(self.unused) * self.size

    # The tree

    def match(self, key: Key) -> Hit:
        """The longest cached prefix; a use of it."""
        node, length = self.find(key)
        self.use(node)
        return Hit(length, self.slots_to(node), node)

    def insert(
        self, key: Key, slots: Sequence[int], *, protected: int = 0, priority: int = 0, chunked: bool = False
    ) -> Stored:
        """Existing pages win; what is missing is cached as one new node."""
        whole = self.whole(key)
        node, already = self.find(key)
        self.use(node, hits=int(not chunked), priority=priority)
        there = self.slots_to(node)
        if already < whole:
            new = Node(node, key.units[already:whole], slots[already:whole], self.now)
            new.hits, new.priority = int(not chunked), priority
            node.children[new.units[: self.size]] = new
        brought = zip(slots[protected:already], there[protected:], strict=True)
        return Stored(already, [slot for slot, cached in brought if slot != cached])

    def whole(self, key: Key) -> int:
        """How many units of the key lie in whole pages."""
        return key.length - key.length % self.size

    def find(self, key: Key) -> tuple[Node, int]:
        """The node that ends with the longest cached prefix, and its length; the node is split there."""
        node = self.roots.setdefault(key.namespace, Node(None, (), (), 0))
        units, at = key.units[: self.whole(key)], 0
        while child := node.children.get(units[at : at + self.size]):
            pairs = zip(child.units, units[at:], strict=False)
            common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
            node = self.split(child, common - common % self.size)
            at += len(node.units)
        return node, at

    def split(self, node: Node, at: int) -> Node:
        """The part of a node before ``at`` as a node of its own, with the same counts.

        The lower part stays the same object, because receipts for the whole node hold it.
        """
        if at == len(node.units):
            return node
        assert node.parent is not None, "a root has no units"
        upper = Node(node.parent, node.units[:at], node.slots[:at], node.created)
        upper.touched, upper.hits, upper.priority, upper.locks = node.touched, node.hits, node.priority, node.locks
        node.parent.children[upper.units[: self.size]] = upper
        node.parent, node.units, node.slots = upper, node.units[at:], node.slots[at:]
        upper.children[node.units[: self.size]] = node
        return upper

    def use(self, node: Node, *, hits: int = 0, priority: int = 0) -> None:
        """Note a use of the whole path, at one tick."""
        self.now += 1
        for one in node.path():
            one.touched = self.now
            one.hits += hits
            one.priority = max(one.priority, priority)

    def slots_to(self, node: Node) -> list[int]:
        """The slots of a path, in order."""
        return [slot for one in reversed(node.path()) for slot in one.slots]

    # Locks

    def lock(self, handle: object) -> object:
        """Protect the path; the receipt is its last node."""
        self.shift(handle, 1)
        return handle

    def unlock(self, receipt: object) -> None:
        """Protect the path once less."""
        self.shift(receipt, -1)

    def shift(self, end: object, by: int) -> None:
        """So many locks more on the path that ends with this node."""
        assert isinstance(end, Node), "handles and receipts are nodes"
        for one in end.path():
            one.locks += by

    # Eviction

    def evict(self, n: int) -> int:
        """Page by page: always the last page of the leaf that is worth least, until enough is free."""
        freed = 0
        while freed < n:
            leaves = [node for node in self.nodes() if not node.children and not node.locks]
            if not leaves:
                break
            freed += self.drop_last_page(min(leaves, key=self.worth))
        return freed

    def drop_last_page(self, leaf: Node) -> int:
        """A leaf is one page shorter, or gone."""
        assert leaf.parent is not None, "a root is no leaf"
        self.free(leaf.slots[-self.size :])
        first = leaf.units[: self.size]
        leaf.units, leaf.slots = leaf.units[: -self.size], leaf.slots[: -self.size]
        if not leaf.units:
            del leaf.parent.children[first]
        return self.size

    # What can be seen

    def nodes(self) -> Iterator[Node]:
        """All nodes, parents first."""
        waiting = [node for root in self.roots.values() for node in root.children.values()]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += node.children.values()

    def sizes(self) -> Sizes:
        """Evictable and protected units, counted."""
        counts = {True: 0, False: 0}
        for node in self.nodes():
            counts[bool(node.locks)] += len(node.units)
        return Sizes(counts[False], counts[True])

    def view(self) -> View:
        """Everything, as it stands."""
        namespaces = {id(root): namespace for namespace, root in self.roots.items()}
        numbers: dict[int, int] = {}
        shown: list[NodeView] = []
        for node in self.nodes():
            parent = numbers.get(id(node.parent), -1)
            namespace = namespaces[id(node.parent)] if parent < 0 else shown[parent].namespace
            numbers[id(node)] = len(shown)
            counts = (node.locks, node.hits, node.priority)
            shown.append(NodeView(parent, namespace, node.units, tuple(node.slots), *counts))
        return View(list(self.unused), shown)


class Target:
    """What makes such caches, and which legal choices they make: those of a profile that says nothing."""

    profile = Profile()

    def make(self, config: Config) -> FlatCache:
        """A fresh cache."""
        if config.pool != "device" or config.tiered or config.storage != "none":
            raise Unsupported("a flat cache on the device, without host memory and storage")
        return FlatCache(config, self.profile)


target = Target()

if __name__ == "__main__":
    os.chdir(Path(__file__).parent)  # where the suite finds this module
    sys.exit(cli.main(["run", "flat_cache:target", *sys.argv[1:]]))
