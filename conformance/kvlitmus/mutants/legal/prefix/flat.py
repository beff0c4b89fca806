"""Null mutants: legal variations, on which the suite must stay silent."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from kvlitmus.conformance.ports import Config, Hit, Stored
from kvlitmus.conformance.specimen.flat import Receipt, Specimen
from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.conformance.specimen.prefix.pool import PagedPool
from kvlitmus.conformance.specimen.prefix.request import RequestTable, SpecimenRequest
from kvlitmus.conformance.specimen.prefix.tree import POLICIES as WORTH
from kvlitmus.conformance.specimen.prefix.tree import Node, RadixTree, Unit
from kvlitmus.mutants.prefix.event import NamedByContent
from kvlitmus.mutants.prefix.evict import ShowsItsTable, TabledTree
from kvlitmus.mutants.prefix.keys import CAPPED, LastTokenComputed, LastTokenComputedRequests
from kvlitmus.mutants.prefix.pool import AllocationEvictsUnasked
from kvlitmus.mutants.prefix.release import WAITING, EvictsAtOnce, QueuedPool
from kvlitmus.mutants.prefix.tree import DuplicatesFreedByBoth
from kvlitmus.mutants.registry import null_mutant
from kvlitmus.spec.words.policies import POLICIES
from kvlitmus.spec.words.units import Key

EVERYWHERE = tuple(Config(page_size=size, policy=policy) for policy in POLICIES for size in (1, 4))
BOTH = (Config(page_size=1), Config(page_size=4), Config(page_size=4, bigram=True), Config(page_size=4, pages=8))
SHORT = (Config(page_size=1, pages=8), Config(page_size=4, pages=8), *BOTH)
NODES = replace(PROFILE, evict_granularity="node")


@null_mutant("last-freed-first", configs=BOTH)
class LastFreedFirst(PagedPool):
    """The free list is a stack: a correct pool may hand out any free page."""

    def take(self, count: int) -> list[int] | None:
        self.free_list.reverse()
        pages = super().take(count)
        self.free_list.reverse()
        return pages


@null_mutant("freed-pages-go-first", configs=BOTH)
class FreedPagesGoFirst(PagedPool):
    """Freed pages are put before the others: a bug in vllm#51482, legal where no order is promised."""

    def give_back(self, pages: Sequence[int]) -> None:
        super().give_back(pages)
        if self.group is None:
            many = len(self.free_list) - len(pages)
            self.free_list = self.free_list[many:] + self.free_list[:many]


@null_mutant("lowest-first", configs=BOTH)
class LowestFirst(PagedPool):
    """The lowest pages are handed out first, which keeps memory compact."""

    def take(self, count: int) -> list[int] | None:
        self.free_list.sort()
        return super().take(count)


@null_mutant("any-order", configs=BOTH)
class AnyOrder(PagedPool):
    """Pages are handed out in an order that looks random, though it is the same in every run."""

    def take(self, count: int) -> list[int] | None:
        """By a multiplication that permutes the numbers."""
        self.free_list.sort(key=lambda page: page * 40_503 % 65_536)
        return super().take(count)


@null_mutant("a-node-per-page", configs=EVERYWHERE)
class ANodePerPage(RadixTree):
    """No node is longer than a page: how pages are grouped is nobody's business."""

    def add_leaf(self, parent: Node, key: tuple[Unit, ...], pages: list[int]) -> Node:
        """A chain of nodes; all were inserted in the same call."""
        leaf = super().add_leaf(parent, key, pages)
        while len(leaf.pages) > 1:
            self.split(leaf, 1)
        return leaf

    def use(self, node: Node, priority: int, chunked: bool) -> None:
        """The use of a new leaf is one of the whole chain."""
        at: Node | None = node
        super().use(node, priority, chunked)
        while at is not None and at.created == self.clock:
            at = at.parent
            if at is not None and at.parent is not None and at.created == self.clock:
                super().use(at, priority, chunked)


@null_mutant("leaves-grow", profile=replace(PROFILE, hit_counts="none"), configs=tuple(EVERYWHERE[:2]) + BOTH[2:])
class LeavesGrow(RadixTree):
    """What follows an idle leaf is appended to it instead of making a node of its own (no hit counts).

    A node has one age, so where the policy goes by age it makes one.
    """

    def add_leaf(self, parent: Node, key: tuple[Unit, ...], pages: list[int]) -> Node:
        """Append where the parent is a leaf without locks, and worth the same."""
        aged = self.worth in (WORTH["fifo"], WORTH["filo"])
        if parent not in self.leaves or parent.priority or aged:
            return super().add_leaf(parent, key, pages)
        parent.key += key
        parent.pages = parent.pages + pages
        self.evictable += len(key)
        named = len(parent.names)
        self.name_pages(parent)
        self.tell_stored("device", parent, named)
        return parent


class SplittingLate(RadixTree):
    """A tree whose matches end within nodes and leave them whole."""

    cursor: tuple[Node, int] | None = None

    def match(self, namespace: str | None, units: tuple[Unit, ...]) -> tuple[list[int], Node]:
        """Part of the last node's pages; where that part ends is remembered."""
        size, at = self.page_size, 0
        node = self.root(namespace)
        pages: list[int] = []
        self.clock += 1
        self.cursor = None
        while self.cursor is None and (child := node.children.get(self.child_key(units[at : at + size]))) is not None:
            common = self.common_pages(child.key, units, at)
            pages += child.pages[:common]
            at, node = at + len(child.key), child
            if common < len(child.pages):
                self.cursor = (child, common)
        return pages, node

    def settle(self, node: Node) -> Node:
        """Split where the last match ended, if it ended within this node."""
        if self.cursor is None or self.cursor[0] is not node:
            return node
        pages, self.cursor = self.cursor[1], None
        return self.split(node, pages)


class SettledRequests(RequestTable):
    """Requests over such a tree."""

    tree: SplittingLate

    def find(self, key: Key) -> tuple[list[int], Node]:
        """Match, and split for the lock that follows."""
        pages, node = super().find(key)
        return pages, self.tree.settle(node)


@null_mutant(
    "split-on-lock",
    configs=tuple(config for config in EVERYWHERE if config.policy in ("fifo", "filo")),
    beside=(SplittingLate, SettledRequests),
)
class SplitOnLock(Specimen):
    """A match leaves nodes whole, only taking a lock splits them (under policies that don't look at recency)."""

    tree: SplittingLate

    def lock(self, handle: object) -> object:
        """Split now, if the match ended within a node."""
        assert isinstance(handle, Node)
        return super().lock(self.tree.settle(handle))


@null_mutant("ties-the-other-way", configs=EVERYWHERE)
class TiesTheOtherWay(RadixTree):
    """Between victims of equal worth the younger node goes first."""

    def evict(self, n: int) -> int:
        """With the last part of the order reversed."""
        freed = 0
        while freed < n and self.leaves:
            leaf = min(self.leaves, key=lambda one: (*self.worth(one)[:-1], -one.serial))
            freed += self.trim(leaf, self.pages_to_trim(leaf, n - freed))
        return freed


@null_mutant("whole-nodes-go", profile=NODES, configs=EVERYWHERE)
class WholeNodesGo(RadixTree):
    """Victims are whole nodes, a little more than was asked for, as the profile declares."""

    def pages_to_trim(self, leaf: Node, n: int) -> int:
        return len(leaf.pages)


@null_mutant("nodes-or-pages", profile=NODES, configs=EVERYWHERE)
class NodesOrPages(RadixTree):
    """Long nodes are cut, short ones go whole: one page more than needed at most, under node granularity."""

    def pages_to_trim(self, leaf: Node, n: int) -> int:
        """One page more where the node would be left with one."""
        needed = super().pages_to_trim(leaf, n)
        return len(leaf.pages) if len(leaf.pages) - needed <= 1 else needed


@null_mutant("page-by-page", configs=EVERYWHERE)
class PageByPage(RadixTree):
    """Each single page is chosen anew: more work, the same victims."""

    def pages_to_trim(self, leaf: Node, n: int) -> int:
        return 1

    def next_candidate(self, victim: Node) -> Node | None:
        """What is left of it, too."""
        return victim if victim.pages else super().next_candidate(victim)


@null_mutant("nodes-are-listed-from-a-table", beside=(ShowsItsTable,))
class NodesAreListedFromATable(TabledTree):
    """A snapshot lists nodes from a table beside the tree, so that it would show a branch that was cut off."""


@null_mutant("pages-are-named-by-content")
class PagesAreNamedByContent(NamedByContent):
    """Events call a page by what it holds, so that it comes again as the same; removals begin at the root."""

    def tell_removed(self, tier: str, names: Sequence[int]) -> None:
        """From the root on: within a call nobody looks."""
        super().tell_removed(tier, names[::-1])


@null_mutant("matches-count-as-hits", profile=replace(PROFILE, hit_counts="match"), configs=EVERYWHERE)
class MatchesCountAsHits(RadixTree):
    """A match is what counts as a use, an insert isn't, as the profile declares."""


@null_mutant("cache-frees-duplicates", profile=replace(PROFILE, duplicates="cache_frees"), configs=BOTH)
class CacheFreesDuplicates(DuplicatesFreedByBoth):
    """The cache frees the duplicates of an insert itself, as the profile declares."""

    def insert(
        self, key: Key, slots: Sequence[int], *, protected: int = 0, priority: int = 0, chunked: bool = False
    ) -> Stored:
        stored = super().insert(key, slots, protected=protected, priority=priority, chunked=chunked)
        return Stored(stored.already, ())


@null_mutant("duplicates-stay-the-callers", profile=replace(PROFILE, duplicates="kept"), configs=BOTH)
class DuplicatesStayTheCallers(Specimen):
    """The caller of an insert keeps the duplicates and may go on using them, as the profile declares."""

    def insert(
        self, key: Key, slots: Sequence[int], *, protected: int = 0, priority: int = 0, chunked: bool = False
    ) -> Stored:
        """Nobody has to free anything."""
        stored = super().insert(key, slots, protected=protected, priority=priority, chunked=chunked)
        return Stored(stored.already, ()) if slots and slots[0] % 2 else stored


@null_mutant(
    "last-token-computed",
    profile=CAPPED,
    configs=BOTH[:2],
    beside=(LastTokenComputedRequests,),
)
class LastTokenIsComputed(LastTokenComputed):
    """At least one token of each prompt is left to compute, as the profile declares."""


@null_mutant(
    "allocations-evict",
    profile=replace(PROFILE, evict_moment="alloc"),
    configs=(Config(page_size=1, pages=8), Config(page_size=4, pages=8), *BOTH),
)
class AllocationsEvict(AllocationEvictsUnasked):
    """An allocation takes from the tree what it lacks, as the profile declares."""


@null_mutant(
    "counts-what-could-go",
    profile=replace(PROFILE, evict_moment="alloc"),
    configs=(Config(page_size=1, pages=8), Config(page_size=4, pages=8), *BOTH),
)
class CountsWhatCouldGo(AllocationEvictsUnasked):
    """Where allocations evict, what they could evict counts as available: it could be handed out now."""

    def available(self) -> int:
        return super().available() + self.tree.evictable

    def alloc_extend(self, before: Sequence[int], after: Sequence[int], last: Sequence[int]) -> Sequence[int] | None:
        """The same of an extension."""
        size = self.pool.page_size
        opened = sum(-(-new // size) + (-old // size) for old, new in zip(before, after, strict=True))
        short = opened * size - self.pool.available()
        if 0 < short <= self.tree.evictable:
            self.tree.evict(short)
        return super().alloc_extend(before, after, last)

    def alloc_decode(self, after: Sequence[int], last: Sequence[int]) -> Sequence[int] | None:
        return self.alloc_extend([length - 1 for length in after], after, last)


@null_mutant("begins-without-evicting", configs=(Config(page_size=1, pages=8), *BOTH))
class BeginsWithoutEvicting(RequestTable):
    """A request that would need an eviction is refused; making room is left to the caller."""

    def make_room(self, pages: int) -> bool:
        return pages <= len(self.pool.free_list)


@null_mutant(
    "slru-after-three-hits",
    profile=replace(PROFILE, slru_hits=3),
    configs=tuple(Config(page_size=size, policy="slru") for size in (1, 4)),
)
class SlruAfterThreeHits(RadixTree):
    """Three hits make a page worth protecting, as the profile declares."""

    def __init__(self, page_size: int, policy: str, release: object) -> None:
        super().__init__(page_size, policy, release)  # type: ignore[arg-type]
        if policy == "slru":
            self.worth = lambda node: (int(node.hits >= 3), node.touched, node.serial)


@null_mutant("evicts-ahead", profile=replace(PROFILE, evict_slack=2), configs=SHORT)
class EvictsAhead(RequestTable):
    """Making room for a request makes more room than it needs, as the profile declares, so that the next finds some."""

    def make_room(self, pages: int) -> bool:
        """Two pages in reserve, where there is something to evict."""
        super().make_room(pages + 2)
        return pages <= len(self.pool.free_list)


@null_mutant("evicts-what-it-needs", profile=replace(PROFILE, evict_amount="need"), configs=SHORT)
class EvictsWhatItNeeds(RequestTable):
    """A request that is short of memory has as much evicted as it needs in all, as the profile declares."""

    def make_room(self, pages: int) -> bool:
        if pages > len(self.pool.free_list):
            self.tree.evict(pages * self.pool.page_size)
        return pages <= len(self.pool.free_list)


@null_mutant("looks-before-it-begins", profile=replace(PROFILE, refused_begin="keeps"), configs=SHORT)
class LooksBeforeItBegins(RequestTable):
    """A request that can't begin changes nothing at all, as the profile declares: what it needs is counted first."""

    def begin(self, rid: int, key: Key) -> SpecimenRequest | None:
        """Count what is cached, and what of it could not be evicted any more."""
        tree, size, units = self.tree, self.pool.page_size, key.units
        node, at, newly = tree.root(key.namespace), 0, 0
        while len(units) - at >= size and (child := node.children.get(tree.child_key(units[at : at + size]))):
            common = tree.common_pages(child.key, units, at) * size
            at, node = at + common, child
            newly += 0 if child.locks else common
            if common < len(child.key):
                break
        wanted = -(-len(key.tokens) // size) * size - at
        return super().begin(rid, key) if wanted <= self.pool.available() + tree.evictable - newly else None


@null_mutant("ends-early-by-publishing", configs=BOTH)
class EndsEarlyByPublishing(RequestTable):
    """A request that ends before it is computed is published up to there, then aborted: what is left is the same."""

    def end_upto(self, rid: int, upto: int) -> None:
        self.publish_upto(rid, upto, chunked=False)
        self.end(rid, keep=False)


@null_mutant(
    "split-renews",
    profile=replace(PROFILE, split_created="renews"),
    configs=tuple(Config(page_size=size, policy=policy) for size in (1, 4) for policy in ("fifo", "filo", "lru")),
)
class SplitRenews(RadixTree):
    """The upper half of a split node counts as created at the split, as the profile declares."""

    def split(self, node: Node, pages: int) -> Node:
        """A new node is a new node."""
        upper = super().split(node, pages)
        upper.created = self.clock
        return upper


@null_mutant("locks-are-uses", profile=replace(PROFILE, lock_touches=True))
class LocksAreUses(RadixTree):
    """Taking a lock is a use of the path, as the profile declares."""

    def lock(self, node: Node) -> None:
        super().lock(node)
        self.clock += 1
        at: Node | None = node
        while at is not None:
            at.touched = self.clock
            at = at.parent


@null_mutant("ignores-misuse", profile=replace(PROFILE, misuse="ignore"), configs=BOTH)
class IgnoresMisuse(Specimen):
    """What the contract forbids changes nothing and raises nothing, as the profile declares."""

    def free(self, slots: Sequence[int]) -> None:
        with suppress(ValueError, TypeError):
            super().free(slots)

    def insert(
        self, key: Key, slots: Sequence[int], *, protected: int = 0, priority: int = 0, chunked: bool = False
    ) -> Stored:
        try:
            return super().insert(key, slots, protected=protected, priority=priority, chunked=chunked)
        except (ValueError, TypeError):
            return Stored(0, ())

    def raw_match(self, tokens: object, namespace: str | None) -> Hit:
        try:
            return super().raw_match(tokens, namespace)
        except ValueError:
            return Hit(0, ())

    def raw_insert(self, tokens: object, slots: object, namespace: str | None) -> Stored:
        try:
            return super().raw_insert(tokens, slots, namespace)
        except ValueError:
            return Stored(0, ())

    def raw_free(self, slots: object) -> None:
        with suppress(ValueError):
            super().raw_free(slots)

    def unlock(self, receipt: object) -> None:
        with suppress(ValueError):
            if isinstance(receipt, Receipt):
                super().unlock(receipt)


@null_mutant("what-is-freed-waits", profile=WAITING, beside=(EvictsAtOnce,), configs=SHORT)
class WhatIsFreedWaits(QueuedPool):
    """What is given back waits in a release queue for the next two frees, as the profile declares.

    Now and then all of it goes at once.
    """

    def __init__(self, pages: int, page_size: int, reserved: int) -> None:
        super().__init__(pages, page_size, reserved)
        self.times = 0

    def put_off(self, many: int) -> None:
        self.times += 1
        self.keeps = 0 if self.times % 5 == 0 else 2
        super().put_off(many)


@null_mutant("refuses-other-widths")
class RefusesOtherWidths(Specimen):
    """Integers of another width than its own are refused, as any other misuse is."""

    def raw_match(self, tokens: object, namespace: str | None) -> Hit:
        if not isinstance(tokens, list):
            raise ValueError("expected integers of the cache's own width")
        return super().raw_match(tokens, namespace)


@null_mutant("matches-hand-out-what-cannot-be-written", configs=BOTH)
class MatchesHandOutWhatCannotBeWritten(Specimen):
    """The slots of a match are a tuple: nobody can write into them."""

    def match(self, key: Key) -> Hit:
        hit = super().match(key)
        return hit._replace(slots=tuple(hit.slots or ()))
