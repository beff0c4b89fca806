"""Eviction mutants: the wrong victims, too many, too few, or not really gone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import replace

from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.specimen.flat import Specimen
from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.conformance.specimen.prefix.tree import Node, RadixTree, Unit
from kvlitmus.mutants.registry import PLAIN, mutant
from kvlitmus.spec.interface import ORPHAN, NodeView, View


def childless(tree: RadixTree) -> list[Node]:
    """The nodes without children, whoever holds them."""
    stack = list(tree.roots.values())
    found: list[Node] = []
    while stack:
        node = stack.pop()
        stack += node.children.values()
        if not node.children and node.parent is not None:
            found.append(node)
    return found


SMALL = (Config(page_size=4, pages=8), PLAIN)


@mutant(
    "evicted-never-counted",
    bugs=("S03",),
    links=("https://github.com/sgl-project/sglang/issues/4987", "https://github.com/sgl-project/sglang/pull/4989"),
    kills=("EVICT-02", "EVICT-06"),
)
class EvictedNeverCounted(RadixTree):
    """One call empties the whole tier.

    The loop runs until enough was evicted, and nobody moves the counter.  Upstream: the host tier.
    """

    def trim(self, leaf: Node, pages: int) -> int:
        super().trim(leaf, pages)
        return 0


@mutant(
    "parent-never-a-candidate",
    bugs=("S04",),
    links=("https://github.com/sgl-project/sglang/issues/5499",),
    kills=("EVICT-01", "EVICT-05"),
)
class ParentNeverACandidate(RadixTree):
    """An eviction returns far less than asked, although all is idle.

    A node whose last child has just been evicted isn't looked at any more in this eviction.
    """

    def evict(self, n: int) -> int:
        freed = 0
        for leaf in sorted(self.leaves, key=self.worth):
            if freed >= n:
                break
            freed += self.trim(leaf, self.pages_to_trim(leaf, n - freed))
        return freed


@mutant(
    "pinned-is-evicted",
    bugs=("L01",),
    links=("https://github.com/LMCache/LMCache/issues/987", "https://github.com/LMCache/LMCache/pull/993"),
    kills=("EVICT-03", "LOCK-01"),
)
class PinnedIsEvicted(RadixTree):
    """The KV of a running request is evicted under it.

    Whether somebody holds a leaf is not looked at.
    """

    def candidates(self, n: int) -> Collection[Node]:
        return childless(self)


@mutant(
    "bulk-path-ignores-locks",
    bugs=("L04",),
    links=("https://github.com/LMCache/LMCache/pull/3130",),
    kills=("EVICT-03", "LOCK-01"),
    configs=SMALL,
)
class BulkPathIgnoresLocks(RadixTree):
    """A reader sees bytes that were freed.

    Evictions of much go through a path of their own, which frees directly instead of asking who holds what.
    """

    def evict(self, n: int) -> int:
        if n <= 4 * self.page_size:
            return super().evict(n)
        freed = 0
        while freed < n and (ends := childless(self)):
            leaf = min(ends, key=self.worth)
            freed += self.trim(leaf, self.pages_to_trim(leaf, n - freed))
        return freed


@mutant(
    "two-ideas-of-evictable",
    bugs=("K02",),
    links=("https://github.com/kvcache-ai/Mooncake/pull/3421",),
    kills=("EVICT-03", "LOCK-01"),
)
class TwoIdeasOfEvictable(RadixTree):
    """Entries that are in use are evicted, now and then.

    Eviction chooses candidates in two places, by two different tests: at the start leaves that nobody
    holds, on the way up any node without children.
    """

    def next_candidate(self, victim: Node) -> Node | None:
        """On the way up nobody asks for locks."""
        parent = victim.parent
        if victim.pages or parent is None or parent.parent is None or parent.children:
            return None
        return parent


@mutant(
    "parent-stays-among-the-leaves",
    bugs=("T06",),
    links=("https://github.com/NVIDIA/TensorRT-LLM/pull/3735",),
    kills=("EVICT-04", "POOL-12"),
    configs=(Config(page_size=4, pages=8), Config(page_size=1, pages=8)),
)
class ParentStaysAmongTheLeaves(RadixTree):
    """The queue of what may be evicted holds inner nodes; with one of them a whole branch is lost.

    A leaf that gets a child isn't taken off the queue.
    """

    def add_leaf(self, parent: Node, key: tuple[Unit, ...], pages: list[int]) -> Node:
        queued = parent in self.leaves
        leaf = super().add_leaf(parent, key, pages)
        if queued:
            self.leaves.add(parent)
        return leaf

    def trim(self, leaf: Node, pages: int) -> int:
        """What went with its branch has nothing left to give."""
        if not leaf.pages:
            self.leaves.discard(leaf)
            return 0
        return super().trim(leaf, pages)


@mutant(
    "inner-node-becomes-a-gap",
    bugs=("S70",),
    links=("https://github.com/sgl-project/sglang/pull/27562",),
    kills=("TREE-05", "TREE-06", "EVICT-05"),
)
class InnerNodeBecomesAGap(RadixTree):
    """A hit counts pages behind a gap as if they followed on.

    The pages of an inner node are evicted while its children stay, reachable through a node that holds
    nothing.  Upstream: the host tier.
    """

    def evict(self, n: int) -> int:
        """First the idle inner nodes, which are large."""
        inner = [leaf.parent for leaf in self.leaves if leaf.parent is not None]
        freed = 0
        for node in inner:
            if freed < n and node.parent is not None and not node.locks and node.pages:
                freed += len(node.key)
                self.evictable -= len(node.key)
                self.release(node.pages)
                node.pages = []
        return freed if freed >= n else freed + super().evict(n - freed)


@mutant(
    "evicted-but-still-indexed",
    bugs=("V01",),
    links=("https://github.com/vllm-project/vllm/pull/4764",),
    kills=("EVICT-01", "EVICT-04", "POOL-12"),
)
class EvictedButStillIndexed(RadixTree):
    """A prompt is served pages that hold something else by now.

    What is evicted goes to the free list, but its entry stays in the index.
    """

    def trim(self, leaf: Node, pages: int) -> int:
        """Free the pages of a whole leaf, and leave the leaf."""
        if pages < len(leaf.pages):
            return super().trim(leaf, pages)
        self.leaves.discard(leaf)
        self.evictable -= len(leaf.key)
        self.release(list(leaf.pages))
        return len(leaf.key)


@mutant(
    "mirrors-are-skipped",
    bugs=("S82",),
    links=("https://github.com/sgl-project/sglang/pull/33862", "https://github.com/sgl-project/sglang/issues/12875"),
    kills=("EVICT-01", "EVICT-05"),
)
class MirrorsAreSkipped(RadixTree):
    """Nothing can be reclaimed, although nothing is in use.

    The search for victims skips what exists somewhere else as well, and in the end that is everything.
    Upstream: host pages with a device copy; here: leaves beside another leaf.
    """

    def candidates(self, n: int) -> Collection[Node]:
        return [leaf for leaf in self.leaves if leaf.parent is not None and len(leaf.parent.children) == 1]


@mutant(
    "branch-before-others",
    bugs=("S87",),
    links=("https://github.com/sgl-project/sglang/pull/35515",),
    kills=("EVICT-05",),
    configs=(PLAIN, Config(page_size=4, policy="fifo"), Config(page_size=4, policy="lfu")),
)
class WholeBranchBeforeOthers(RadixTree):
    """One branch loses all its pages at once, and the reuse of a long prompt falls to nothing.

    Once a leaf was chosen, eviction follows its branch upwards instead of asking again what is worth least.
    Upstream: the tail window of a branch.
    """

    def evict(self, n: int) -> int:
        freed = 0
        while freed < n and self.leaves:
            leaf: Node | None = min(self.leaves, key=self.worth)
            while leaf is not None and leaf in self.leaves and freed < n:
                freed += self.trim(leaf, self.pages_to_trim(leaf, n - freed))
                leaf = leaf.parent
        return freed


@mutant(
    "ties-by-address",
    links=("https://github.com/sgl-project/sglang/pull/34406",),
    kills=("EVICT-05", "EVICT-07"),
    long_because="each new cache breaks ties the other way round, so a trial may miss what the last one hit",
)
class TiesByAddress(RadixTree):
    """A coarse clock makes ties, and ties are broken by where objects lie in memory (hazard H-35).

    Recipe: compare ``touched // 8``, and order equals by object address; here every second tree of a
    process orders them the other way round.  Two ranks evict different pages, and their trees part.
    Killed by EVICT-05 within one cache and by EVICT-07 across two.
    """

    made = 0

    def __init__(self, page_size: int, policy: str, release: Callable[[Sequence[int]], None]) -> None:
        super().__init__(page_size, policy, release)
        TiesByAddress.made += 1
        sign = 1 if TiesByAddress.made % 2 else -1
        self.worth = lambda node: (node.touched // 8, sign * node.serial)


class TabledTree(RadixTree):
    """A tree with a table of its nodes, from which they are listed."""

    def __init__(self, page_size: int, policy: str, release: Callable[[Sequence[int]], None]) -> None:
        super().__init__(page_size, policy, release)
        self.table: set[Node] = set()

    def new_node(self, parent: Node | None, key: tuple[Unit, ...], pages: list[int]) -> Node:
        """Noted in the table."""
        node = super().new_node(parent, key, pages)
        if parent is not None:
            self.table.add(node)
        return node

    def unhang(self, leaf: Node, first: Hashable) -> None:
        """Gone from the table as well."""
        self.table.discard(leaf)
        super().unhang(leaf, first)


class ShowsItsTable(Specimen):
    """A snapshot shows what is in the table, reachable or not."""

    def view(self) -> View:
        """What can be reached, and each branch of which the node above is gone."""
        free, reachable = super().view()
        nodes = list(reachable)
        table: set[Node] = getattr(self.tree, "table", set())
        gone = [node for node in table if node.parent not in (*table, *self.tree.roots.values())]
        stack = [(ORPHAN, node) for node in gone]
        while stack:
            parent, node = stack.pop()
            slots = tuple(self.pool.slots(node.pages))
            nodes.append(NodeView(parent, node.namespace, node.key, slots, node.locks, node.hits, node.priority))
            stack += [(len(nodes) - 1, child) for child in node.children.values()]
        return View(free, nodes)


@mutant("eviction-cuts-off-a-branch", kills=("TREE-05",), beside=(ShowsItsTable,))
class EvictionCutsOffABranch(TabledTree):
    """Memory is lost for ever, though it is counted as evictable: a node is evicted that others hang below."""

    def candidates(self, n: int) -> Collection[Node]:
        """Whatever isn't locked."""
        return [node for node in self.table if not node.locks]

    def pages_to_trim(self, leaf: Node, n: int) -> int:
        """All of a node that others hang below."""
        return len(leaf.pages) if leaf.children else super().pages_to_trim(leaf, n)


@mutant(
    "clock-is-coarser-than-declared",
    profile=replace(PROFILE, tick_uses=3),
    kills=("EVICT-05", "EVICT-20"),
    configs=(Config(page_size=1, pages=16), Config(page_size=4, pages=16)),
)
class ClockIsCoarserThanDeclared(RadixTree):
    """What was used last is evicted although many uses lie between: sixteen share a tick, where three may.

    Within a tick the page that came last into the tree goes first.
    """

    def __init__(self, page_size: int, policy: str, release: Callable[[Sequence[int]], None]) -> None:
        super().__init__(page_size, policy, release)
        self.worth = lambda node: (node.touched // 16, -node.serial)
