"""Mutants of commits into the tree, and of what the world is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

from kvlitmus.conformance.specimen.flat import Specimen
from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.conformance.specimen.prefix.tier import TierTree
from kvlitmus.conformance.specimen.prefix.tree import Node, RadixTree, Unit
from kvlitmus.conformance.specimen.prefix.works import TieredNode
from kvlitmus.mutants.hosted import NOT_BACK, SGLANG, THROUGH, VLLM
from kvlitmus.mutants.registry import mutant
from kvlitmus.spec.interface.tiers import Event


@mutant(
    "commit-below-the-unbacked",
    bugs=("H-28", "S39"),
    links=(SGLANG + "pull/30106",),
    kills=("TREE-05", "TIER-04", "POOL-12"),
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
    kills=("POOL-12", "FETCH-14"),
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
    kills=("EVENT-02", "EVENT-09"),
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


@mutant("stored-is-told-twice", kills=("EVENT-04",))
class StoredIsToldTwice(RadixTree):
    """Routers that count copies never get rid of a page: a part of each new node is told again with the next one."""

    def tell_stored(self, tier: str, node: Node, start: int = 0) -> None:
        """The parent's last page once more, and then the node."""
        parent = node.parent
        if not start and parent is not None and parent.parent is not None:
            super().tell_stored(tier, parent, len(parent.names) - 1)
        super().tell_stored(tier, node, start)


@mutant("backed-up-is-told-as-stored-again", kills=("EVENT-04",))
class BackedUpIsToldAsStoredAgain(TierTree):
    """Routers count pages of the device twice: what gets a copy on the host is told for both tiers."""

    def tell_stored(self, tier: str, node: Node, start: int = 0) -> None:
        """The other copy, too."""
        super().tell_stored(tier, node, start)
        if tier == "host" and node.pages:
            super().tell_stored("device", node, start)


BY_NAME = replace(PROFILE, event_copies="one")
"""Listeners that keep a set of names."""


class TellsHitsAgain(RadixTree):
    """A tree that tells what was found by a match once more, as vLLM does where it is asked for a full report."""

    def match(self, namespace: str | None, units: tuple[Unit, ...]) -> tuple[list[int], Node]:
        slots, node = super().match(namespace, units)
        at: Node | None = node
        path = []
        while at is not None and at.parent is not None:
            path.append(at)
            at = at.parent
        for one in reversed(path):
            self.tell_stored("device", one)
        return slots, node


@mutant("hits-are-counted-as-copies", kills=("EVENT-04",))
class HitsAreCountedAsCopies(TellsHitsAgain):
    """Routers that count copies keep what is gone: a hit is told as one copy more, an eviction as one less."""


@mutant("what-was-told-again-is-taken-back", profile=BY_NAME, kills=("EVENT-02", "EVENT-08"))
class WhatWasToldAgainIsTakenBack(TellsHitsAgain):
    """Routers that go by names lose what is there: what a hit told again is taken back, as if it had been a copy."""

    def match(self, namespace: str | None, units: tuple[Unit, ...]) -> tuple[list[int], Node]:
        slots, node = super().match(namespace, units)
        self.tell_removed("device", node.names)
        return slots, node


@mutant("removed-with-the-first-copy-of-a-name", profile=BY_NAME, kills=("EVENT-01", "EVENT-03"))
class RemovedWithTheFirstCopyOfAName(RemovedWithTheFirstCopy):
    """The same with listeners who go by names: of two tiers each has a name of its own."""


@mutant("ids-of-events-wrap", kills=("EVENT-05",))
class IdsOfEventsWrap(RadixTree):
    """Routers take one page for another: the ids of pages are short, and come again while the first is there still."""

    def name_pages(self, node: Node) -> None:
        """Two bits are enough."""
        super().name_pages(node)
        node.names = [name % 4 for name in node.names]


@mutant("only-first-pages-have-a-namespace", kills=("EVENT-06",))
class OnlyFirstPagesHaveANamespace(RadixTree):
    """Routers put the pages of all tenants but their first ones into the default namespace, or can't place them."""

    def tell_stored(self, tier: str, node: Node, start: int = 0) -> None:
        """What has a parent is told without."""
        first = len(self.told)
        super().tell_stored(tier, node, start)
        self.told[first:] = [
            (what, where, page, before, units, None if before is not None else namespace)
            for what, where, page, before, units, namespace in self.told[first:]
        ]


@mutant("part-of-an-insert-is-not-told", kills=("EVENT-08", "EVENT-02"))
class PartOfAnInsertIsNotTold(RadixTree):
    """Routers never send a request to where its prefix is: of what continues a cached prefix they aren't told."""

    def tell_stored(self, tier: str, node: Node, start: int = 0) -> None:
        if node.parent is not None and node.parent.parent is not None:
            return
        super().tell_stored(tier, node, start)


class NamedByContent(RadixTree):
    """A tree whose pages are called by what they hold and follow: a page that comes again has its name again."""

    def __init__(self, page_size: int, policy: str, release: Callable[[Sequence[int]], None]) -> None:
        super().__init__(page_size, policy, release)
        self.known: dict[object, int] = {}

    def name_pages(self, node: Node) -> None:
        """The number of the prefix."""
        size, names = self.page_size, list(node.names)
        above = node.parent.names[-1:] if node.parent is not None else []
        for at in range(len(names), len(node.key) // size):
            before = names[at - 1 : at] or above
            page = (node.namespace, tuple(before), node.key[at * size : at * size + size])
            names.append(self.known.setdefault(page, len(self.known) + 1))
        node.names = names


@mutant("children-are-told-first", kills=("EVENT-07",))
class ChildrenAreToldFirst(NamedByContent):
    """Routers drop what they can't hang up: pages that come again are told from the last one on."""

    def __init__(self, page_size: int, policy: str, release: Callable[[Sequence[int]], None]) -> None:
        super().__init__(page_size, policy, release)
        self.seen: set[object] = set()

    def tell_stored(self, tier: str, node: Node, start: int = 0) -> None:
        """In the wrong order, where all of them were told before."""
        first = len(self.told)
        super().tell_stored(tier, node, start)
        pages = {entry[2] for entry in self.told[first:]}
        if pages <= self.seen:
            self.told[first:] = reversed(self.told[first:])
        self.seen |= pages


LAGGING = replace(PROFILE, event_delay=2)


class Lagging(Specimen):
    """A cache whose events are told two calls late, as its profile declares."""

    @cached_property
    def waiting(self) -> list[list[Event]]:
        """The events of the last calls, oldest first."""
        return [[], []]

    def events(self) -> Sequence[Event]:
        self.waiting.append(list(super().events()))
        return self.waiting.pop(0)


@mutant("a-batch-of-late-events-is-lost", profile=LAGGING, kills=("EVENT-02", "EVENT-10", "EVENT-01"))
class ABatchOfLateEventsIsLost(Lagging):
    """A router never learns of some pages: what happens while other events wait falls out of the queue."""

    def events(self) -> Sequence[Event]:
        told = list(super().events())
        if self.waiting[0] and self.waiting[1]:
            self.waiting[1].clear()
        return told


@mutant("events-lag-too-far", profile=LAGGING, kills=("EVENT-02", "EVENT-10"))
class EventsLagTooFar(Lagging):
    """A router scores yesterday's cache: events come a call later than was promised."""

    @cached_property
    def waiting(self) -> list[list[Event]]:
        return [[], [], []]


@mutant("late-events-are-told-one-by-one", profile=LAGGING, kills=("EVENT-02", "EVENT-10"))
class LateEventsAreToldOneByOne(Lagging):
    """A router knows halves of what a call stored, and ever older ones: one event is told with each call."""

    def events(self) -> Sequence[Event]:
        self.waiting[0] += Specimen.events(self)
        return [self.waiting[0].pop(0)] if self.waiting[0] else []
