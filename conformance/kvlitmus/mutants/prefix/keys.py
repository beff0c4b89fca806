"""Key mutants: units, page alignment and namespaces mixed up."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from kvlitmus.conformance.ports import Hit
from kvlitmus.conformance.specimen.flat import Specimen
from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.conformance.specimen.prefix.request import RequestTable, SpecimenRequest
from kvlitmus.conformance.specimen.prefix.tree import Node, RadixTree, Unit
from kvlitmus.mutants.registry import PAGED, PLAIN, mutant
from kvlitmus.spec.words.units import Key

BIGRAM = (replace(PAGED, bigram=True), replace(PLAIN, bigram=True))
CAPPED = replace(PROFILE, match_cap="len-1")


@mutant(
    "empty-key-makes-a-leaf",
    bugs=("S16",),
    links=("https://github.com/sgl-project/sglang/pull/10637",),
    kills=("TREE-06",),
)
class EmptyKeyMakesALeaf(RadixTree):
    """A key shorter than a page leaves a node for nothing in the tree, and later walks end there.

    After truncation to whole pages the key is empty, and there is no early return for that.
    """

    def insert(
        self, namespace: str | None, units: tuple[Unit, ...], pages: Sequence[int], priority: int, chunked: bool
    ) -> tuple[int, Node]:
        already, node = super().insert(namespace, units, pages, priority, chunked)
        if not units:
            node = self.add_leaf(self.root(namespace), units, [])
        return already, node


@mutant(
    "match-within-a-page",
    bugs=("S46",),
    links=("https://github.com/sgl-project/sglang/pull/24371",),
    kills=("TREE-01", "TREE-02", "TREE-10"),
    configs=(PAGED,),
)
class MatchWithinAPage(Specimen):
    """A request shares part of a page, and then writes its own tokens into the rest of it.

    The walk goes on while any units are left, not while a whole page is left.
    """

    def match(self, key: Key) -> Hit:
        """Take the equal part of one more page."""
        length, slots, node, _ = super().match(key)
        assert isinstance(node, Node) and slots is not None
        rest = key.units[length:]
        for child in node.children.values():
            equal = 0
            while equal < min(len(rest), self.pool.page_size - 1) and rest[equal] == child.key[equal]:
                equal += 1
            if equal:
                return Hit(length + equal, [*slots, *self.pool.slots(child.pages)[:equal]], node)
        return Hit(length, slots, node)


@mutant(
    "split-after-nothing",
    bugs=("S47",),
    links=("https://github.com/sgl-project/sglang/pull/28692", "https://github.com/sgl-project/sglang/pull/36696"),
    kills=("TREE-06",),
    configs=(PAGED,),
)
class SplitAfterNothing(RadixTree):
    """An empty node appears in the tree, and the failure shows much later, when its parent looks for it.

    Children are found by a key that isn't aligned to pages, so a child can differ within its first
    page; the common part rounds to no page at all, and the split goes ahead.
    """

    def child_key(self, units: tuple[Unit, ...]) -> Hashable:
        """The first unit instead of the first page."""
        return units[:1]

    def walk(self, node: Node, units: tuple[Unit, ...]) -> list[Node]:
        """As always, but a child that begins alike is split even where no page is common."""
        found = super().walk(node, units[: self.reach(node, units)])
        end = found[-1] if found else node
        rest = units[sum(len(child.key) for child in found) :]
        if len(rest) >= self.page_size and self.child_key(rest) in end.children:
            self.split(end.children[self.child_key(rest)], 0)
        return found

    def reach(self, node: Node, units: tuple[Unit, ...]) -> int:
        """How far the walk gets before a first page differs."""
        at = 0
        while at < len(units):
            child = node.children.get(self.child_key(units[at:]))
            common = self.common_pages(child.key, units, at) * self.page_size if child is not None else 0
            at += common
            if child is None or common < len(child.key):
                break
            node = child
        return at


@mutant(
    "weak-hash-without-comparison",
    bugs=("V04",),
    links=("https://github.com/vllm-project/vllm/pull/12621",),
    kills=("TREE-03", "TREE-02", "REQ-03", "TREE-08"),
)
class WeakHashWithoutComparison(RadixTree):
    """A user is served the KV of another user's prompt.

    Pages are found by a short hash, and nobody looks whether the page that was found is the one.
    """

    def child_key(self, units: tuple[Unit, ...]) -> Hashable:
        return hash(units[: self.page_size]) & 7

    def common_pages(self, key: tuple[Unit, ...], units: tuple[Unit, ...], at: int) -> int:
        """The first page counts as equal: its hash was."""
        return max(1, super().common_pages(key, units, at))


@mutant(
    "salt-cut-short",
    bugs=("L07",),
    links=("https://github.com/LMCache/LMCache/issues/3301", "https://github.com/LMCache/LMCache/pull/4783"),
    kills=("TREE-02", "TREE-03", "TREE-08", "REQ-03"),
)
class SaltCutShort(RadixTree):
    """Two tenants (upstream: two images) meet in one cache entry.

    The identifier that separates them is cut to a few bits before it becomes part of the key.
    """

    def root(self, namespace: str | None) -> Node:
        alike = (known for known in self.roots if namespace and known and known[:6] == namespace[:6])
        return super().root(next(alike, namespace))


@mutant(
    "keys-from-tokens-only",
    bugs=("V25",),
    links=("https://github.com/vllm-project/vllm/pull/54342", "https://github.com/vllm-project/vllm/issues/53194"),
    kills=("TREE-02", "TREE-03", "TREE-08", "REQ-03"),
)
class KeysFromTokensOnly(RadixTree):
    """Every tenant reads every other tenant's KV.

    The key is made of the tokens alone; LoRA and salt are ignored.
    """

    def root(self, namespace: str | None) -> Node:
        return super().root(None)


@mutant(
    "base-model-is-a-salt",
    bugs=("V10",),
    links=("https://github.com/vllm-project/vllm/issues/44701", "https://github.com/vllm-project/vllm/pull/44706"),
    kills=("TREE-02", "TREE-03", "TREE-08", "REQ-03"),
)
class BaseModelIsASalt(RadixTree):
    """A request to the base model is served an adapter's KV.

    Names of different kinds go untagged into one field of the key: what stands there for "no
    adapter" is also a salt that a tenant may choose.
    """

    def root(self, namespace: str | None) -> Node:
        """No namespace, or the name that happens to look like it."""
        return super().root(None if namespace == "tenant-a" else namespace)


@mutant(
    "growing-drops-the-namespace",
    bugs=("F04",),
    links=("https://github.com/kvcache-ai/ktransformers/issues/2184", "https://github.com/kvcache-ai/sglang/pull/89"),
    kills=("REQ-03", "TREE-08", "LOCK-04", "POOL-12"),
)
class GrowingDropsTheNamespace(RequestTable):
    """A tenant's answer is cached for everybody.

    The key carries its namespace, but one of the paths that build a new key forgets to pass it on.
    """

    def grow(self, rid: int, tokens: Sequence[int]) -> list[int] | None:
        new = super().grow(rid, tokens)
        request = self.running[rid]
        request.key = Key(None, request.key.tokens, request.key.bigram)
        return new


@mutant(
    "single-tokens-in-speculative-mode",
    bugs=("S18",),
    links=("https://github.com/sgl-project/sglang/pull/10846", "https://github.com/sgl-project/sglang/pull/11231"),
    kills=("TREE-02", "TREE-03", "TREE-08", "REQ-03"),
    configs=BIGRAM,
)
class SingleTokensInSpeculativeMode(RadixTree):
    """The draft model accepts fewer tokens, since its KV at the end of a hit belongs to another continuation.

    Pages are compared by their tokens, although the KV of each depends on the next token too.
    """

    def child_key(self, units: tuple[Unit, ...]) -> Hashable:
        return tuple(unit[0] if isinstance(unit, tuple) else unit for unit in units[: self.page_size])

    def common_pages(self, key: tuple[Unit, ...], units: tuple[Unit, ...], at: int) -> int:
        size, common = self.page_size, 0
        for start in range(0, min(len(key), len(units) - at) // size * size, size):
            if self.child_key(key[start:]) != self.child_key(units[at + start :]):
                break
            common += 1
        return common


@mutant(
    "one-path-keeps-raw-tokens",
    bugs=("S105",),
    links=("https://github.com/sgl-project/sglang/pull/40733",),
    kills=("POOL-12", "TREE-07", "REQ-03"),
    configs=BIGRAM,
)
class OnePathKeepsRawTokens(RequestTable):
    """What one path stores, no other path finds.

    One subclass truncates the raw tokens to pages by itself instead of taking the bigram view.
    """

    def store(self, request: SpecimenRequest, chunked: bool) -> tuple[int, Node]:
        """Chunks go through the path that was forgotten."""
        if not chunked:
            return super().store(request, chunked)
        size = self.pool.page_size
        end = self.cacheable(request)
        pages = [slot // size for slot in request.row[:end:size]]
        return self.tree.insert(request.key.namespace, request.key.tokens[:end], pages, 0, chunked)


@mutant(
    "frontier-of-raw-tokens",
    bugs=("S42",),
    links=("https://github.com/sgl-project/sglang/pull/34870", "https://github.com/sgl-project/sglang/pull/40681"),
    kills=("POOL-12", "REQ-07"),
    configs=BIGRAM,
)
class FrontierOfRawTokens(RequestTable):
    """One page is lost whenever a request of whole pages ends.

    A bigram key over n tokens ends at the page below n - 1; what lies beyond is freed from the page
    below n on.
    """

    def free_tail(self, request: SpecimenRequest, start: int) -> None:
        """From the page floor of the tokens on."""
        if start:
            start = len(request.row) - len(request.row) % self.pool.page_size
        super().free_tail(request, start)


@mutant(
    "evictable-by-raw-length",
    bugs=("S17",),
    links=("https://github.com/sgl-project/sglang/pull/10637",),
    kills=("LOCK-02", "POOL-14"),
    configs=BIGRAM,
)
class EvictableByRawLength(RadixTree):
    """The tree's counter of evictable units drifts away.

    One place counts the units of a node, another the raw tokens of its key, one more for bigrams.
    """

    def trim(self, leaf: Node, pages: int) -> int:
        """Subtract the length of the raw key when the node goes."""
        freed = super().trim(leaf, pages)
        if not leaf.pages:
            self.evictable -= 1
        return freed


@mutant(
    "pages-reported-as-units",
    bugs=("V27",),
    links=("https://github.com/vllm-project/vllm-ascend/pull/13330",),
    kills=("TREE-01", "TREE-02", "TREE-03"),
    configs=(PAGED,),
)
class PagesReportedAsUnits(Specimen):
    """Hits collapse to a fraction.

    The length of a match is converted from pages with a factor left out.
    """

    def match(self, key: Key) -> Hit:
        """As many units as there are pages."""
        length, slots, node, _ = super().match(key)
        return Hit(length // self.pool.page_size, slots, node)


@mutant(
    "one-less-reported-than-loaded",
    bugs=("L10",),
    links=("https://github.com/vllm-project/vllm/issues/52617",),
    kills=("TREE-02", "TREE-03"),
)
class OneLessReportedThanLoaded(Specimen):
    """The output differs from the first token on.

    Where the whole prompt is cached, one page less is reported than its slots are handed over.
    """

    def match(self, key: Key) -> Hit:
        """Leave something to compute, in the length only."""
        length, slots, node, _ = super().match(key)
        return Hit(length - self.pool.page_size if length and length == key.length else length, slots, node)


class LastTokenComputed(Specimen):
    """A cache that leaves at least one unit of every prompt to compute, as its profile says (``match_cap="len-1"``)."""

    def capped(self, key: Key) -> Key:
        return key._replace(tokens=key.tokens[:-1])

    def match(self, key: Key) -> Hit:
        return super().match(self.capped(key))


class LastTokenComputedRequests(RequestTable):
    """Requests of such a cache."""

    def find(self, key: Key) -> tuple[list[int], Node]:
        return self.tree.match(key.namespace, key.units[:-1])


@mutant(
    "whole-prompt-hit",
    bugs=("N07",),
    links=("https://github.com/GeeeekExplorer/nano-vllm/issues/144",),
    kills=("TREE-10", "TREE-02"),
    profile=CAPPED,
)
class WholePromptHit(LastTokenComputed):
    """A request starts with nothing left to compute, and the kernel fails on a length of zero.

    The cap that leaves one token is applied to look-ups, and forgotten where a request begins.
    """


@mutant(
    "cap-applied-again",
    bugs=("V07",),
    links=("https://github.com/vllm-project/vllm/pull/33270", "https://github.com/vllm-project/vllm/issues/32802"),
    kills=("TREE-02",),
    profile=CAPPED,
    beside=(LastTokenComputedRequests,),
)
class CapAppliedAgain(LastTokenComputed):
    """Hits shrink to nothing.

    The unit that is left to compute is subtracted in every round of a loop instead of once.
    """

    def capped(self, key: Key) -> Key:
        """Once for the call, and once for its retry."""
        return super().capped(super().capped(key))
