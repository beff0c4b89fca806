"""Tree mutants: what is found, what is added, and what splits and uses leave behind."""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.conformance.ports import Config, Hit, Stored
from kvlitmus.conformance.specimen.flat import Specimen
from kvlitmus.conformance.specimen.prefix.tree import Node, RadixTree, Unit
from kvlitmus.mutants.prefix.pool import BelievingPool
from kvlitmus.mutants.registry import PAGED, mutant
from kvlitmus.spec.words.units import Key

BY_HITS = (Config(page_size=4, policy="lfu"), Config(page_size=1, policy="slru"))


@mutant(
    "weights-change-cache-stays",
    bugs=("X01", "V11"),
    links=("https://github.com/InternLM/lmdeploy/issues/4917", "https://github.com/vllm-project/vllm/issues/42125"),
    kills=("POOL-16", "POOL-12"),
)
class WeightsChangeCacheStays(Specimen):
    """After new weights (or another adapter of the same name) the KV of the old ones is served.

    The reset renews the pool and forgets the tree.
    """

    tree: RadixTree

    def reset(self) -> None:
        """A new pool beside the old prefixes."""
        old = getattr(self, "tree", None)
        super().reset()
        if old is not None:
            self.tree.roots, self.tree.leaves = old.roots, old.leaves


@mutant("reset-loses-a-page", bugs=("H-04",), kills=("POOL-16", "POOL-22"))
class ResetLosesAPage(Specimen):
    """Every reset costs a page for good: one that was handed out before isn't free after it."""

    tree: RadixTree

    def reset(self) -> None:
        """All but the last page are free."""
        old = getattr(self, "tree", None)
        super().reset()
        if old is not None:
            self.pool.is_free[self.pool.free_list.pop()] = False


@mutant(
    "slot-forked-in-match",
    bugs=("S20",),
    links=("https://github.com/sgl-project/sglang/pull/12693",),
    kills=("TREE-04", "POOL-12"),
)
class SlotForkedInMatch(Specimen):
    """The pool shrinks with every look-up that no request follows.

    A match takes a page for the copy that the request will write to; when nobody begins, nobody gives
    it back.  Upstream: the slot of a Mamba state; here: a page, where the match ends within a leaf.
    """

    def match(self, key: Key) -> Hit:
        """Fork where the cached branch goes on."""
        hit = super().match(key)
        assert isinstance(hit.handle, Node)
        if hit.length and hit.handle.children:
            self.pool.take(1)
        return hit


@mutant(
    "memo-of-matches",
    bugs=("N05",),
    links=("https://github.com/GeeeekExplorer/nano-vllm/issues/163",),
    kills=("TREE-02", "TREE-03"),
    long_because="a match has to be remembered, its pages to go, and the same key to be asked for again",
)
class MemoOfMatches(Specimen):
    """A prompt is served what has been written over it in the meantime.

    An index beside the tree, from keys to what was found for them, isn't told when pages go.
    """

    def reset(self) -> None:
        super().reset()
        self.memo: dict[Key, Hit] = {}

    def match(self, key: Key) -> Hit:
        """From the index, if the answer there is longer."""
        hit = super().match(key)
        old = self.memo.get(key)
        if old is not None and old.length > hit.length:
            return Hit(old.length, old.slots, hit.handle)
        self.memo[key] = hit
        return hit


@mutant(
    "page-under-parent-and-child",
    bugs=("S86",),
    links=("https://github.com/sgl-project/sglang/issues/35270",),
    kills=("TREE-07", "TREE-08", "POOL-12"),
)
class PageUnderParentAndChild(RadixTree):
    """More is available and evictable than there is.

    The leaf that an insert adds begins with the parent's last page instead of the one after it.
    """

    def insert(
        self, namespace: str | None, units: tuple[Unit, ...], pages: Sequence[int], priority: int, chunked: bool
    ) -> tuple[int, Node]:
        """Shift the pages of the new leaf by one."""
        already, node = super().insert(namespace, units, pages, priority, chunked)
        if already and already < len(pages):
            node.pages = list(pages[already - 1 : -1])
        return already, node


@mutant(
    "revived-counts-as-duplicate",
    bugs=("F01",),
    links=("https://github.com/sgl-project/sglang-jax/issues/1618",),
    kills=("TREE-09", "TREE-11", "POOL-12", "REQ-07"),
    beside=(BelievingPool,),
)
class RevivedCountsAsDuplicate(RadixTree):
    """The tree points to slots that are free.

    Where an insert revives what was evicted, it takes over the request's slots but reports them as cached
    already, and the caller frees them.
    """

    def __init__(self, page_size: int, policy: str, release: object) -> None:
        super().__init__(page_size, policy, release)  # type: ignore[arg-type]
        self.gone: set[tuple[Unit, ...]] = set()

    def trim(self, leaf: Node, pages: int) -> int:
        size = self.page_size
        kept = (len(leaf.pages) - pages) * size
        self.gone.add(leaf.key[kept : kept + size])
        return super().trim(leaf, pages)

    def insert(
        self, namespace: str | None, units: tuple[Unit, ...], pages: Sequence[int], priority: int, chunked: bool
    ) -> tuple[int, Node]:
        """Count the first page of a revived span twice: as adopted, and as cached before."""
        already, node = super().insert(namespace, units, pages, priority, chunked)
        size = self.page_size
        if already < len(pages) and units[already * size : already * size + size] in self.gone:
            return already + 1, node
        return already, node


@mutant(
    "duplicates-freed-by-both",
    bugs=("S88",),
    links=("https://github.com/sgl-project/sglang/pull/35769",),
    kills=("TREE-12",),
    beside=(BelievingPool,),
)
class DuplicatesFreedByBoth(Specimen):
    """The KV of a request is overwritten while it is being written.

    What an insert finds to be duplicates is freed at once, by the cache, while it is still the caller's.
    """

    def insert(
        self, key: Key, slots: Sequence[int], *, protected: int = 0, priority: int = 0, chunked: bool = False
    ) -> Stored:
        stored = super().insert(key, slots, protected=protected, priority=priority, chunked=chunked)
        size = self.pool.page_size
        self.pool.give_back([slot // size for slot in slots[protected : stored.already : size]])
        return stored


@mutant(
    "hits-never-counted",
    bugs=("S32",),
    links=("https://github.com/sgl-project/sglang/pull/18843",),
    kills=("TREE-13", "EVICT-05"),
    configs=BY_HITS,
)
class HitsNeverCounted(RadixTree):
    """LFU and SLRU behave like something else.

    Nothing raises the hit count.
    """

    def use(self, node: Node, priority: int, chunked: bool) -> None:
        node.priority = max(node.priority, priority)


@mutant(
    "chunks-count-as-hits",
    bugs=("S14",),
    links=("https://github.com/sgl-project/sglang/pull/9776",),
    kills=("TREE-13", "EVICT-05"),
    configs=(PAGED, *BY_HITS),
)
class ChunksCountAsHits(RadixTree):
    """What one long prompt used once looks popular.

    Each chunk of a request walks over the prefix that the request stored itself, and counts it.
    """

    def use(self, node: Node, priority: int, chunked: bool) -> None:
        super().use(node, priority, chunked=False)


@mutant(
    "split-forgets-priority",
    bugs=("S95",),
    links=("https://github.com/sgl-project/sglang/pull/38480",),
    kills=("TREE-14", "EVICT-05"),
    configs=(PAGED, Config(page_size=1, policy="priority")),
)
class SplitForgetsPriority(RadixTree):
    """What was marked as important is evicted first.

    A split sets the upper half up anew and forgets one of the fields.  Upstream: the host's lock count
    (see ``split-forgets-locks``); here: the priority.
    """

    def split(self, node: Node, pages: int) -> Node:
        """The upper half begins without a priority."""
        upper = super().split(node, pages)
        upper.priority = 0
        return upper


@mutant(
    "split-renews-the-rest",
    bugs=("N04",),
    links=("https://github.com/sgl-project/mini-sglang/pull/124", "https://github.com/sgl-project/sglang/pull/24892"),
    kills=("EVICT-05",),
)
class SplitRenewsTheRest(RadixTree):
    """LRU keeps what nobody asked for.

    A match that ends within a node splits it, and the half that was *not* matched counts as used now.
    """

    def split(self, node: Node, pages: int) -> Node:
        upper = super().split(node, pages)
        node.touched = self.clock
        return upper


@mutant(
    "parent-leaves-the-counter",
    bugs=("F05",),
    links=("https://github.com/UbiquitousLearning/mllm/pull/656",),
    kills=("LOCK-02", "POOL-14"),
)
class ParentLeavesTheCounter(RadixTree):
    """The evictable size becomes negative.

    A leaf that gets its first child is subtracted from what is evictable; nothing adds it again.
    """

    def add_leaf(self, parent: Node, key: tuple[Unit, ...], pages: list[int]) -> Node:
        """Subtract the parent when it stops being a leaf."""
        if not parent.children and not parent.locks:
            self.evictable -= len(parent.key)
        return super().add_leaf(parent, key, pages)


@mutant(
    "branch-vetoed",
    bugs=("S73",),
    links=("https://github.com/sgl-project/sglang/pull/29351",),
    kills=("TREE-08", "REQ-03", "REQ-04"),
)
class BranchVetoed(RadixTree):
    """Valid KV isn't cached.

    A condition that concerns one component vetoes the new leaf of all.  Upstream: a sliding window without
    data; here: a branch below a node that is locked.
    """

    def insert(
        self, namespace: str | None, units: tuple[Unit, ...], pages: Sequence[int], priority: int, chunked: bool
    ) -> tuple[int, Node]:
        found = self.walk(self.root(namespace), units)
        if found and found[-1].locks > 1 and found[-1].children:
            known = sum(len(child.pages) for child in found)
            units, pages = units[: known * self.page_size], pages[:known]
        return super().insert(namespace, units, pages, priority, chunked)
