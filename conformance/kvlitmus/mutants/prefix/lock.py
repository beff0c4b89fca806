"""Lock mutants: protection that is lost, doubled or never given back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kvlitmus.conformance.ports import Hit, Stored
from kvlitmus.conformance.specimen.flat import Receipt, Specimen
from kvlitmus.conformance.specimen.prefix.tree import Node, RadixTree, Unit
from kvlitmus.mutants.registry import PAGED, mutant
from kvlitmus.spec.words.units import Key


@mutant(
    "split-forgets-locks",
    bugs=("S95",),
    links=("https://github.com/sgl-project/sglang/pull/38480",),
    kills=("LOCK-03", "LOCK-04"),
)
class SplitForgetsLocks(RadixTree):
    """The prefix of a running request is evicted.

    A split copies everything to the upper half, but not the locks.
    """

    def split(self, node: Node, pages: int) -> Node:
        upper = super().split(node, pages)
        upper.locks = 0
        return upper


@mutant(
    "match-without-split",
    bugs=("F03",),
    links=("https://github.com/bytedance-iaas/sglang/pull/508",),
    kills=("LOCK-02", "LOCK-04"),
)
class MatchWithoutSplit(RadixTree):
    """Leaves stay locked for ever.

    A match that ends within a node returns the whole node as the place to lock; more is locked than
    was returned, and a later split doubles it.
    """

    def match(self, namespace: str | None, units: tuple[Unit, ...]) -> tuple[list[int], Node]:
        """Part of the last node's pages, and the node as it is."""
        size, at = self.page_size, 0
        node = self.root(namespace)
        pages: list[int] = []
        self.clock += 1
        while (child := node.children.get(self.child_key(units[at : at + size]))) is not None:
            common = self.common_pages(child.key, units, at)
            child.touched = self.clock
            pages += child.pages[:common]
            at, node = at + len(child.key), child
            if common < len(child.pages):
                break
        return pages, node


@mutant(
    "evictable-below-zero-locks",
    bugs=("N02",),
    links=("https://github.com/sgl-project/mini-sglang/pull/45",),
    kills=("LOCK-02", "LOCK-06"),
)
class EvictableBelowZeroLocks(RadixTree):
    """Nothing that was ever locked can be evicted again.

    The comparison is off by one: a node becomes evictable when its count falls below zero.
    """

    def unlock(self, node: Node) -> None:
        at: Node | None = node
        while at is not None and at.parent is not None:
            at.locks -= 1
            if at.locks < 0:
                self.evictable += len(at.key)
                self.protected -= len(at.key)
                self.leaves.add(at)
            at = at.parent


@mutant(
    "unpin-does-not-look-again",
    bugs=("L03",),
    links=("https://github.com/LMCache/LMCache/issues/1130", "https://github.com/LMCache/LMCache/pull/1156"),
    kills=("EVICT-01", "EVICT-05"),
)
class UnpinDoesNotLookAgain(Specimen):
    """Entries are never freed, although nothing holds them.

    There are two ways of holding an entry; the end of one of them looks whether it was the last, the end
    of the other does not.  Upstream: references and pins; here: requests and receipts.
    """

    def unlock(self, receipt: object) -> None:
        """Give back, and leave the list of candidates as it is."""
        leaves = set(self.tree.leaves)
        super().unlock(receipt)
        self.tree.leaves = leaves


@mutant(
    "lookup-pins",
    bugs=("L02",),
    links=(
        "https://github.com/LMCache/LMCache/issues/1034",
        "https://github.com/LMCache/LMCache/pull/1075",
        "https://github.com/vllm-project/vllm/pull/35931",
    ),
    kills=("LOCK-02", "LOCK-04", "LOCK-06"),
)
class LookupPins(Specimen):
    """Entries can't be evicted after a look-up that nobody followed.

    A match protects what it finds, and only an insert, the usual next step, drops that again.
    """

    def reset(self) -> None:
        super().reset()
        self.pinned: list[Node] = []

    def match(self, key: Key) -> Hit:
        hit = super().match(key)
        assert isinstance(hit.handle, Node)
        self.tree.lock(hit.handle)
        self.pinned.append(hit.handle)
        return hit

    def insert(
        self, key: Key, slots: Sequence[int], *, protected: int = 0, priority: int = 0, chunked: bool = False
    ) -> Stored:
        while self.pinned:
            self.tree.unlock(self.pinned.pop())
        return super().insert(key, slots, protected=protected, priority=priority, chunked=chunked)


@mutant(
    "two-owners-of-one-pin",
    bugs=("L06",),
    links=("https://github.com/LMCache/LMCache/pull/3004", "https://github.com/LMCache/LMCache/issues/2954"),
    kills=("LOCK-02", "LOCK-04"),
)
class TwoOwnersOfOnePin(RadixTree):
    """What a request was promised is gone when it comes for it.

    Two parts of the engine think that the pin is theirs, and both give it back; where somebody else has
    pinned the same entry, it is *that* pin which is lost.
    """

    def unlock(self, node: Node) -> None:
        """Once for each of the owners, as far as there is something to give back."""
        super().unlock(node)
        if node.parent is not None and node.locks:
            super().unlock(node)


@mutant(
    "last-unlock-frees",
    bugs=("L05",),
    links=("https://github.com/LMCache/LMCache/pull/3884", "https://github.com/LMCache/LMCache/pull/2559"),
    kills=("TREE-04",),
)
class LastUnlockFrees(Specimen):
    """Entries vanish as soon as they have been read once.

    One combination of flags drops the cache's own reference together with the reader's, and the count
    that reaches zero frees the entry.
    """

    def unlock(self, receipt: object) -> None:
        """Free the leaf that nobody holds any more."""
        node = receipt.node if isinstance(receipt, Receipt) else None
        super().unlock(receipt)
        if node in self.tree.leaves:
            self.tree.trim(node, len(node.pages))


@mutant(
    "locked-yet-evictable",
    bugs=("V03",),
    links=("https://github.com/vllm-project/vllm/pull/11565",),
    kills=("LOCK-02", "LOCK-07", "POOL-14"),
)
class LockedYetEvictable(RadixTree):
    """Requests are admitted to memory that can't be had.

    What a request shares is counted as protected, but not subtracted from what could be evicted for it.
    """

    def lock(self, node: Node) -> None:
        evictable = self.evictable
        super().lock(node)
        self.evictable = evictable


@mutant(
    "early-release-of-the-rest",
    bugs=("S71",),
    links=("https://github.com/sgl-project/sglang/pull/28161", "https://github.com/sgl-project/sglang/pull/23882"),
    kills=("LOCK-03", "LOCK-04", "LOCK-02"),
    configs=(PAGED,),
)
class EarlyReleaseOfTheRest(RadixTree):
    """An assertion fails far away, in a cascade of evictions.

    What lies further back than a window is released early; a parent then has fewer locks than its child.
    Upstream: the lock of the sliding window; here: the one lock there is.
    """

    def __init__(self, page_size: int, policy: str, release: Callable[[Sequence[int]], None]) -> None:
        super().__init__(page_size, policy, release)
        self.window = 2 * page_size

    def lock(self, node: Node) -> None:
        self.along(node, super().lock, 1)

    def unlock(self, node: Node) -> None:
        self.along(node, super().unlock, -1)

    def along(self, node: Node, whole_path: Callable[[Node], None], by: int) -> None:
        """Lock or unlock the path, then undo that for what lies beyond the window."""
        whole_path(node)
        at: Node | None = node
        covered = 0
        while at is not None and at.parent is not None:
            if covered >= self.window:
                at.locks -= by
            covered += len(at.key)
            at = at.parent
