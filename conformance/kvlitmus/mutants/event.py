"""Mutants of commits into the tree, and of what the world is told."""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.conformance.specimen.flat import Specimen
from kvlitmus.conformance.specimen.tiers import TierTree
from kvlitmus.conformance.specimen.tree import Node, RadixTree, Unit
from kvlitmus.conformance.specimen.works import TieredNode
from kvlitmus.mutants.hosted import NOT_BACK, SGLANG, THROUGH, VLLM
from kvlitmus.mutants.registry import mutant


@mutant(
    "commit-below-the-unbacked",
    bugs=("H-28", "S39"),
    links=(SGLANG + "pull/30106",),
    kills=("TIER-06", "TIER-04", "TIER-02"),
    configs=NOT_BACK,
)
class CommitBelowTheUnbacked(TierTree):
    """Pages from storage hang below a page that the host doesn't have; with that page they become unreachable."""

    def may_carry(self, node: TieredNode) -> bool:
        return True


@mutant(
    "commit-replaces-the-branch",
    bugs=("T05",),
    links=("https://github.com/NVIDIA/TensorRT-LLM/issues/12933",),
    kills=("TIER-02", "TIER-01", "FETCH-14", "POOL-12"),
)
class CommitReplacesTheBranch(TierTree):
    """What another request has computed meanwhile is orphaned.

    A commit doesn't look for what is there already, and its node takes the place of the other one.
    """

    def insert_host(self, node: TieredNode, units: tuple[Unit, ...], pages: list[int]) -> tuple[int, int]:
        """Hang it below the anchor, whatever hung there."""
        if node.children and units:
            node.children.pop(self.child_key(units), None)
        return super().insert_host(node, units, pages)


@mutant(
    "commit-is-not-told",
    bugs=("H-34",),
    kills=("EVENT-01", "EVENT-03"),
)
class CommitIsNotTold(TierTree):
    """Routers never learn of what was read from storage, and then of its removal."""

    def insert_host(self, node: TieredNode, units: tuple[Unit, ...], pages: list[int]) -> tuple[int, int]:
        told = len(self.told)
        answer = super().insert_host(node, units, pages)
        del self.told[told:]
        return answer


@mutant(
    "removed-with-the-first-copy",
    bugs=("V22",),
    links=(VLLM + "pull/55092",),
    kills=("EVENT-01", "EVENT-03"),
)
class RemovedWithTheFirstCopy(TierTree):
    """Routers under-score a cache: the removal of one copy is told as if the other had gone too."""

    def demote(self, leaf: TieredNode, pages: int) -> int:
        freed = super().demote(leaf, pages)
        self.tell_removed("host", leaf.names)
        return freed


@mutant(
    "parent-of-an-event-is-the-last-one-told",
    bugs=("V23",),
    links=(VLLM + "issues/58119",),
    kills=("EVENT-01", "EVENT-02", "EVENT-03"),
    configs=THROUGH,
)
class ParentOfAnEventIsTheLastOneTold(TierTree):
    """Routers can't link pages: the parent in an event is the page that was told before, in whatever branch."""

    def tell_stored(self, tier: str, node: Node, start: int = 0) -> None:
        """From the log instead of the tree."""
        before = next((entry[2] for entry in reversed(self.told) if entry[0] == "stored"), None)
        first = len(self.told)
        super().tell_stored(tier, node, start)
        if before is not None:
            what, where, page, _, units, namespace = self.told[first]
            self.told[first] = (what, where, page, before, units, namespace)


@mutant(
    "pages-of-a-call-are-told-below-one-parent",
    bugs=("V23",),
    links=(VLLM + "issues/58119",),
    kills=("EVENT-01", "EVENT-02"),
)
class PagesOfACallAreToldBelowOneParent(RadixTree):
    """Routers can't link the pages of a flat cache: all that one call stores hang below the page where it began."""

    def tell_stored(self, tier: str, node: Node, start: int = 0) -> None:
        """The parent of the first, for each."""
        first = len(self.told)
        super().tell_stored(tier, node, start)
        self.told[first:] = [
            (what, where, page, self.told[first][3], units, namespace)
            for what, where, page, _, units, namespace in self.told[first:]
        ]


@mutant(
    "eviction-is-not-told",
    links=(SGLANG + "pull/29750",),
    kills=("EVENT-02",),
)
class EvictionIsNotTold(RadixTree):
    """Routers send requests to where nothing is cached any more: one of the paths that free pages tells nobody."""

    def tell_removed(self, tier: str, names: Sequence[int]) -> None:
        """Nobody."""


@mutant(
    "reset-of-a-flat-cache-is-not-told",
    links=(SGLANG + "pull/29750",),
    kills=("EVENT-02",),
)
class ResetOfAFlatCacheIsNotTold(Specimen):
    """Routers believe in everything that was cached before a reset: the log of events begins anew with the tree."""

    def reset(self) -> None:
        super().reset()
        self.tree.told.clear()
