"""Mutants of the tree over two tiers: demotion, host eviction, splits, and what comes back."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace

from kvlitmus.conformance.ports import Begun, Hit
from kvlitmus.conformance.specimen.hierarchy import TieredSpecimen
from kvlitmus.conformance.specimen.prefix.tier import TierTree
from kvlitmus.conformance.specimen.prefix.tree import Node, Unit
from kvlitmus.conformance.specimen.prefix.works import TieredNode
from kvlitmus.mutants.hosted import NOT_BACK, SELECTIVE, SGLANG, VLLM
from kvlitmus.mutants.prefix.disturbances import nodes
from kvlitmus.mutants.registry import mutant
from kvlitmus.spec.words.units import Key


@mutant(
    "demotion-takes-both-copies",
    bugs=("S81",),
    links=(SGLANG + "issues/33713",),
    kills=("TIER-13",),
)
class DemotionTakesBothCopies(TierTree):
    """The host tier is never hit: what leaves the device is removed, although the host has a copy."""

    def demote(self, leaf: TieredNode, pages: int) -> int:
        keep = len(leaf.host) - pages
        self.host.give_back(leaf.host[keep:])
        self.tell_removed("host", leaf.names[keep:])
        leaf.host = leaf.host[:keep]
        return self.drop(leaf, pages)


@mutant(
    "host-eviction-takes-inner-nodes",
    bugs=("S70",),
    links=(SGLANG + "pull/27562",),
    kills=("POOL-12", "TIER-04", "EVICT-03"),
)
class HostEvictionTakesInnerNodes(TierTree):
    """The host evicts a node that others hang below; they are unreachable, and their memory is gone.

    Whether a node has children is not asked before it becomes a candidate.
    """

    def settle(self, node: TieredNode | None) -> None:
        super().settle(node)
        if node is not None and node.parent is not None and not node.pages and node.host and not node.pins:
            self.host_leaves.add(node)


@mutant(
    "host-eviction-ignores-pins",
    bugs=("L01", "S10"),
    links=(SGLANG + "pull/9601", "https://github.com/LMCache/LMCache/pull/993"),
    kills=("TIER-11", "TIER-12", "EVICT-03"),
)
class HostEvictionIgnoresPins(TierTree):
    """Host pages are evicted while a load or a put reads them, or while a prefetch hangs on them."""

    def pin(self, node: TieredNode) -> None:
        node.pins += 1

    def settle(self, node: TieredNode | None) -> None:
        super().settle(node)
        if node is not None and node.parent is not None and not node.pages and node.host and not node.children:
            self.host_leaves.add(node)


@mutant(
    "host-evictions-never-counted",
    bugs=("S03",),
    links=(SGLANG + "issues/4987", SGLANG + "pull/4989"),
    kills=("TIER-17",),
)
class HostEvictionsNeverCounted(TierTree):
    """One eviction empties the whole host tier: nobody counts what has gone."""

    def trim_host(self, leaf: TieredNode, pages: int) -> int:
        super().trim_host(leaf, pages)
        return 0


@mutant("host-eviction-loses-what-it-cuts-off", kills=("EVICT-04", "TIER-17"))
class HostEvictionLosesWhatItCutsOff(TierTree):
    """Host memory shrinks with each node that an eviction shortens: only nodes that go whole give their pages back."""

    def trim_host(self, leaf: TieredNode, pages: int) -> int:
        freed = super().trim_host(leaf, pages)
        if leaf.host:
            self.host.take(pages)
        return freed


@mutant(
    "host-parent-never-a-candidate",
    bugs=("S04",),
    links=(SGLANG + "issues/5499",),
    kills=("TIER-15",),
)
class HostParentNeverACandidate(TierTree):
    """A host eviction frees less than it was asked for: nodes whose children have just gone aren't looked at."""

    def evict_host(self, n: int) -> int:
        freed = 0
        for leaf in sorted(self.host_leaves, key=self.worth):
            if freed >= n:
                break
            freed += self.trim_host(leaf, self.host_pages_to_trim(leaf, n - freed))
        return freed


@mutant(
    "host-eviction-of-what-is-resident",
    bugs=("T06",),
    links=("https://github.com/NVIDIA/TensorRT-LLM/pull/3735",),
    kills=("EVICT-03", "TIER-13", "TREE-05", "EVICT-04", "POOL-12"),
)
class HostEvictionOfWhatIsResident(TierTree):
    """What a request has brought back to the device stays on the list of host candidates, and goes with its node."""

    def restore(self, node: TieredNode, pages: list[int]) -> None:
        """The list of candidates is not told."""
        queued = node in self.host_leaves
        super().restore(node, pages)
        if queued:
            self.host_leaves.add(node)


@mutant(
    "emptied-node-stays",
    bugs=("S47",),
    links=(SGLANG + "pull/28692",),
    kills=("TIER-04", "TREE-05"),
)
class EmptiedNodeStays(TierTree):
    """A node whose host copy is evicted stays in the tree with neither copy; matches walk through it."""

    def trim_host(self, leaf: TieredNode, pages: int) -> int:
        if pages < len(leaf.host):
            return super().trim_host(leaf, pages)
        self.tell_removed("host", leaf.names)
        self.host.give_back(leaf.host)
        leaf.host = []
        self.host_leaves.discard(leaf)
        return pages * self.page_size


@mutant(
    "demoted-parent-never-a-candidate",
    bugs=("S04",),
    links=(SGLANG + "issues/5499",),
    kills=("EVICT-01", "EVICT-05"),
)
class DemotedParentNeverACandidate(TierTree):
    """Once its child has been demoted, a node is never evicted: the set of leaves is not brought up to date."""

    def demote(self, leaf: TieredNode, pages: int) -> int:
        if pages < len(leaf.pages):
            self.split(leaf, len(leaf.pages) - pages)
        victims, leaf.pages = leaf.pages, []
        self.evictable -= len(leaf.key)
        self.settle(leaf)
        self.tell_removed("device", leaf.names)
        self.release(victims)
        return len(victims) * self.page_size


@mutant(
    "restored-counts-as-duplicate",
    bugs=("F01", "H-36"),
    links=("https://github.com/sgl-project/sglang-jax/issues/1618",),
    kills=("POOL-12", "POOL-14", "TREE-03", "REQ-01", "REQ-02"),
)
class RestoredCountsAsDuplicate(TierTree):
    """The tree points to free slots.

    An insert over a page that is on the host alone adopts the caller's slots and reports them as cached
    before, so the caller frees them.
    """

    def insert(
        self, namespace: str | None, units: tuple[Unit, ...], pages: Sequence[int], priority: int, chunked: bool
    ) -> tuple[int, TieredNode]:
        known = sum(len(node.key) for node in self.walk(self.root(namespace), units)) // self.page_size
        _, node = super().insert(namespace, units, pages, priority, chunked)
        return known, node


@mutant(
    "restored-never-counted",
    bugs=("T01",),
    links=("https://github.com/NVIDIA/TensorRT-LLM/issues/11879",),
    kills=("LOCK-02",),
)
class RestoredNeverCounted(TierTree):
    """The tree's own counters drift: what comes back to the device isn't counted as evictable, only what leaves it."""

    def restore(self, node: TieredNode, pages: list[int]) -> None:
        super().restore(node, pages)
        self.evictable -= len(node.key)


@mutant(
    "restored-is-worth-nothing",
    kills=("TREE-13",),
    links=(SGLANG + "pull/9776",),
)
class RestoredIsWorthNothing(TierTree):
    """Under LFU what was used often goes first: a page that comes back from the host has lost its hits."""

    def restore(self, node: TieredNode, pages: list[int]) -> None:
        super().restore(node, pages)
        node.hits = 0


@mutant("restored-has-no-priority", kills=("TREE-14",))
class RestoredHasNoPriority(TierTree):
    """What was inserted with a high priority is evicted first, once it was on the host alone for a while."""

    def restore(self, node: TieredNode, pages: list[int]) -> None:
        super().restore(node, pages)
        node.priority = 0


@mutant(
    "restored-counts-as-created-now",
    kills=("EVICT-05",),
    configs=tuple(replace(config, policy=policy) for config in NOT_BACK for policy in ("fifo", "filo")),
)
class RestoredCountsAsCreatedNow(TierTree):
    """First in, first out is broken by each load back: what has been there longest becomes the newest."""

    def restore(self, node: TieredNode, pages: list[int]) -> None:
        super().restore(node, pages)
        node.created = self.clock


@mutant("demoted-is-worth-nothing", kills=("TREE-13",))
class DemotedIsWorthNothing(TierTree):
    """The host keeps no count of uses: what leaves the device starts anew there, as if nobody had used it."""

    def demote(self, leaf: TieredNode, pages: int) -> int:
        freed = super().demote(leaf, pages)
        leaf.hits = 0
        return freed


@mutant("demoted-has-no-priority", kills=("TREE-14",))
class DemotedHasNoPriority(TierTree):
    """Priorities are kept on the device alone: on the host the most important page is worth as much as any other."""

    def demote(self, leaf: TieredNode, pages: int) -> int:
        freed = super().demote(leaf, pages)
        leaf.priority = 0
        return freed


@mutant("read-from-storage-counts-as-a-hit", kills=("TREE-13",))
class ReadFromStorageCountsAsAHit(TierTree):
    """What was prefetched and never used outlives what was used once: the commit counts it as a use."""

    def insert_host(self, node: TieredNode, units: tuple[Unit, ...], pages: list[int]) -> tuple[int, int]:
        known, added = super().insert_host(node, units, pages)
        if added:
            self.walk(node, units)[-1].hits += 1
        return known, added


@mutant(
    "split-loses-the-pending-half",
    bugs=("H-33", "S95"),
    links=(SGLANG + "pull/38480",),
    kills=("BACKUP-09", "EVENT-03"),
)
class SplitLosesThePendingHalf(TierTree):
    """Half a prompt never gets into storage.

    When a node is split while its backup is under way, the job knows of the lower half only.
    """

    def split_works(self, upper: TieredNode, node: TieredNode) -> None:
        for work in node.works:
            if work.kind == "backup":
                work.start += len(upper.key)


@mutant(
    "split-copies-the-pin",
    bugs=("S95",),
    links=(SGLANG + "pull/38480",),
    kills=("LIFE-08",),
)
class SplitCopiesThePin(TierTree):
    """Host pages can never be evicted again: a split copies the pin of an anchor, and the release knows one half."""

    def split_works(self, upper: TieredNode, node: TieredNode) -> None:
        super().split_works(upper, node)
        upper.pins = node.pins


@mutant(
    "split-keeps-the-host-list",
    bugs=("S47", "S28"),
    links=(SGLANG + "pull/17191",),
    kills=("POOL-12", "TREE-06"),
)
class SplitKeepsTheHostList(TierTree):
    """Two nodes own the same host pages: a split hands the upper half its part and leaves the lower half all of it."""

    def split(self, node: Node, pages: int) -> TieredNode:
        """The lower half has the first pages instead of the last."""
        assert isinstance(node, TieredNode)
        before = node.host
        upper = super().split(node, pages)
        node.host = before[: len(node.host)]
        return upper


@mutant(
    "host-hit-counts-mirrors",
    bugs=("L10",),
    links=(VLLM + "issues/52617",),
    kills=("TIER-10",),
)
class HostHitCountsMirrors(TieredSpecimen):
    """A match promises more from the host than there is to load: pages that are on the device too are counted."""

    def match(self, key: Key) -> Hit:
        """All that is known and the host has."""
        hit = super().match(key)
        at, more = hit.handle, 0
        while isinstance(at, TieredNode):
            more += len(at.host) * self.pool.page_size
            at = at.parent
        return hit._replace(host=(hit.host or 0) + more)


@mutant(
    "half-an-allocation-is-lost",
    bugs=("H-43",),
    links=(SGLANG + "pull/26945",),
    kills=("POOL-12",),
)
class HalfAnAllocationIsLost(TierTree):
    """Host memory shrinks with every allocation that fails: it is taken page by page, and not returned."""

    def host_room(self, pages: int) -> list[int] | None:
        found: list[int] = []
        for _ in range(pages):
            page = super().host_room(1)
            if page is None:
                return None
            found += page
        return found


@mutant(
    "host-eviction-stops-at-the-first-node",
    bugs=("T09",),
    links=("https://github.com/NVIDIA/TensorRT-LLM/pull/18868",),
    kills=("TIER-15",),
)
class HostEvictionStopsAtTheFirstNode(TierTree):
    """A host eviction gives up after its first victim: prefetches are refused with the host full of idle pages."""

    def evict_host(self, n: int) -> int:
        heap = [(self.worth(leaf), leaf) for leaf in self.host_leaves]
        heapq.heapify(heap)
        if not heap or n <= 0:
            return 0
        _, leaf = heap[0]
        return self.trim_host(leaf, self.host_pages_to_trim(leaf, n))


@mutant("host-eviction-takes-both-copies", kills=("FRAME-01", "FRAME-02"))
class HostEvictionTakesBothCopies(TieredSpecimen):
    """The device is emptied with the host: a page that nobody uses goes there, although nobody has asked for that."""

    def evict_host(self, n: int) -> int | None:
        freed = super().evict_host(n)
        if freed:
            self.tree.evict(self.config.page_size)
        return freed


@mutant("match-does-not-refresh-the-host", kills=("EVICT-05",))
class MatchDoesNotRefreshTheHost(TierTree):
    """What is asked for again and again is dropped first: a match uses what is on the device, and not what is below."""

    def walk(self, node: Node, units: tuple[Unit, ...]) -> list[TieredNode]:  # type: ignore[override]
        """What is on the host alone is as old as it was."""
        before = {child: child.touched for child in self.below(node)}
        found = super().walk(node, units)
        for child in found:
            if not child.pages:
                child.touched = before.get(child, child.touched)
        return found

    def below(self, node: Node) -> list[Node]:
        """Every node below this one."""
        found = list(node.children.values())
        for one in found:
            found += one.children.values()
        return found


@mutant("demotion-copies-again", kills=("TIER-41",), configs=NOT_BACK)
class DemotionCopiesAgain(TieredSpecimen):
    """What leaves the device is copied to the host once more, though it has a copy there, and the old one is freed."""

    def evict(self, n: int) -> int:
        backed = [node for node in nodes(self) if node.pages and node.host]
        freed = super().evict(n)
        for node in backed:
            idle = node.host and not (node.pages or node.pins or node.works)
            pages = self.host.take(len(node.host)) if idle else None
            if pages is not None:
                self.copier.copy(self.copier.host, node.host, self.copier.host, pages)
                self.host.give_back(node.host)
                node.host = pages
        return freed


@mutant("beginning-frees-host-copies", kills=("TIER-41",))
class BeginningFreesHostCopies(TieredSpecimen):
    """The host is kept for what is nowhere else: what a request finds on both tiers loses its host copy.

    When it leaves the device it has to be copied once more.
    """

    def begin(self, rid: int, key: Key) -> Begun | None:
        begun = super().begin(rid, key)
        for node in nodes(self) if begun is not None else ():
            below = any(child.host for child in node.children.values())
            if node.locks and node.pages and node.host and not (node.pins or node.works or below):
                pages, node.host = node.host, []
                self.tree.tell_removed("host", node.names)
                self.host.give_back(pages)
        return begun


@mutant("evictions-write-back-whatever-the-policy", kills=("TIER-42",), configs=SELECTIVE)
class EvictionsWriteBackWhateverThePolicy(TierTree):
    """The host fills with what was used once: pages that leave the device are copied there, as under write-back."""

    def trim(self, leaf: Node, pages: int) -> int:
        assert isinstance(leaf, TieredNode)
        above = leaf.parent
        assert above is not None
        if not leaf.host and (above.parent is None or above.host):
            copied = self.spill(leaf, pages)
            if copied:
                return self.demote(leaf, copied)
        return super().trim(leaf, pages)
