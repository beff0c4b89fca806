"""The suite's books about a hierarchical cache: what is in flight, what it protects, what must hold.

The model of the device is the judge's tree, as for a flat cache.  Here is the rest: the attributes of
pages that are on the host alone, the work under way with the pages that it reads from, and, in
:class:`~kvlitmus.conformance.checker.prefetch_state.PrefetchState`, prefetches and what storage was asked and given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from kvlitmus.conformance.checker.failures import Failures, Work
from kvlitmus.conformance.checker.harness_store import HarnessStore
from kvlitmus.conformance.checker.prefetch_state import PrefetchState
from kvlitmus.conformance.checker.tier_observation import TierNodeSeen, TierObservation
from kvlitmus.conformance.ports.tiers import BACKUP, FETCH, LOAD, PUT, QUERY, SPILL, SPILLED
from kvlitmus.spec import effects as trees
from kvlitmus.spec import policies
from kvlitmus.spec.names import page_names
from kvlitmus.spec.state import Page, Tree
from kvlitmus.spec.units import Name, PageNo, Slot

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker

COPIES = frozenset({BACKUP, LOAD})
WITH_STORAGE = frozenset({QUERY, FETCH, PUT})
WRONG = 4
"""How many wrong pages are shown."""


BY_AGE = ("fifo", "filo")
"""The policies that ask when a page was created."""


class TierState:
    """What the suite knows of one hierarchical cache."""

    def __init__(self, checker: Checker) -> None:
        config = checker.config
        self.checker = checker
        self.size = config.page_size
        self.usable = frozenset(map(PageNo, range(config.host_pages)))
        self.store = HarnessStore(config.page_size)
        self.attached = False
        self.clock = 0.0
        self.fault: int | None = None
        self.failures = Failures(checker)
        self.whole_time = checker.config.storage == "attached"
        self.has_data = "data" in checker.capabilities
        self.steps = "steps" in checker.capabilities
        self.forget()

    def forget(self) -> None:
        """The cache is empty; what storage has stays."""
        self.work: dict[int, Work] = {}
        self.dormant: dict[Name, Page] = {}
        self.blurred: set[Name] = set()
        self.inserted: Sequence[Name] = ()
        self.acked: set[Name] = set()
        self.failures.ended.clear()
        self.fetches = PrefetchState(self.checker, self)

    # -- the model -----------------------------------------------------------------------------

    def noted(self, tree: Tree, kinds: str, after: TierObservation, facts: dict[str, Any]) -> Tree:
        """Work that has ended protects nothing any more."""
        early: list[str] = []
        for number in [number for number in self.work if number not in after.jobs]:
            work = self.work.pop(number)
            if work.job.kind not in COPIES or not self.steps:
                continue
            before = [one for one in self.work.values() if one.job.kind == work.job.kind and one.job.id in after.jobs]
            if not work.over:
                early.append(f"{work.job.kind} {number} ended before its copy had landed")
            elif any(not one.over and one.job.id < number for one in before):
                early.append(f"{work.job.kind} {number} ended before an earlier one had landed")
            if work.failed:
                self.failures.ended.append(work)
            elif work.job.kind == BACKUP and self.attached:
                self.acked.update(work.names)
            tree = trees.lock(tree, work.end, -1)
        facts["acked_unlanded"] = early
        if kinds.startswith("reset"):
            facts["acked_unlanded"] = []
            self.failures.ended.clear()
        return tree

    def revived(self, tree: Tree, before: TierObservation, after: TierObservation) -> Tree:
        """Pages that are back on the device are worth what the cache says; when they were created is remembered."""
        back = [name for name in after.cached if name not in before.cached and name in before.hosted]
        if not back:
            return tree
        shown = {name: node for node in after.nodes for name in node.info.names}
        pages = dict(tree.pages)
        for name in back:
            old, node = pages[name], shown[name]
            record = self.dormant.get(name, old)
            if name not in self.dormant and self.checker.config.policy in BY_AGE:
                self.blurred.add(name)  # it came from storage: when it was created there is nobody's promise
            pages[name] = old._replace(
                created=record.created,
                hits=old.hits if node.hits is None else node.hits,
                priority=old.priority if node.priority is None else node.priority,
            )
        return Tree(pages, tree.clock)

    def begun(self, tree: Tree, after: TierObservation) -> tuple[Tree, list[Work]]:
        """Work that has begun protects what it copies."""
        if not after.jobs:
            return tree, []
        fresh: list[Work] = []
        for number, job in after.jobs.items():
            if number in self.work:
                continue
            names = self.checker.names_of(job.key)
            paged = page_names(names, self.size)
            own = paged[job.start // self.size :]
            end = paged[-1] if paged else self.checker.names.root(job.key.namespace)
            sources = {}
            if job.kind in (LOAD, PUT):
                sources = {name: after.hosted[name] for name in own if name in after.hosted}
            work = self.work[number] = Work(job, own, end, sources)
            work.landed = job.landed
            fresh.append(work)
            if job.kind in COPIES:
                tree = trees.lock(tree, end)
        return tree, fresh

    def remember(self, old: Tree, tree: Tree, after: TierObservation) -> None:
        """Keep the records of pages that are on the host alone now."""
        if len(after.hosted) == 0 and not self.dormant:
            return
        known = old.pages
        self.dormant = {
            name: record
            for name in after.hosted
            if name not in tree.pages and (record := known.get(name) or self.dormant.get(name)) is not None
        }
        self.blurred &= tree.pages.keys()

    def held_sources(self) -> dict[Name, PageNo]:
        """The host copies that work under way reads from, as they were when it began."""
        return {name: page for work in self.work.values() for name, page in work.sources.items()}

    def allocated(self) -> None:
        """An allocation of host memory was made at least: the fault that was asked for comes nearer."""
        if self.fault is not None:
            self.fault = self.fault - 1 if self.fault else None

    @property
    def copying(self) -> bool:
        """Whether a copy that locks the device is under way."""
        return any(work.job.kind in COPIES for work in self.work.values())

    # -- facts ---------------------------------------------------------------------------------

    def facts(
        self,
        facts: dict[str, Any],
        kinds: str,
        tree: Tree,
        before: TierObservation,
        after: TierObservation,
        fresh: list[Work],
    ) -> None:
        """Everything that the rules of tiers want to know after any call."""
        facts["host_usable"] = self.usable
        facts["host_free"] = after.host_free
        facts["host_free_before"] = frozenset(before.host_free)
        facts["host_listed"] = after.host_listed
        facts["host_moving"] = after.moving
        facts["host_broken"] = after.host_broken
        facts["hosted_before"], facts["hosted"] = before.hosted, after.hosted
        facts["homeless"], facts["gaps"] = after.homeless, after.gaps
        facts["in_tree"] = after.in_tree
        parents = after.parent_names
        if self.checker.config.write != "write_back":
            facts["unbacked_parents"] = [
                parents[name] for name in after.hosted if parents[name] in parents and parents[name] not in after.hosted
            ]
        facts["held_sources"] = self.held_sources()
        facts["anchors"] = self.fetches.anchors()
        if "host" in self.checker.capabilities:
            facts["host_available"] = self.checker.count(self.checker.look("host_available"), "what the host has free")
        self.check_contents(facts, after)
        facts["jobs_begun"] = [work.job.kind for work in fresh]
        if self.inserted or any(kind in kinds for kind in ("insert", "publish", "finish")):
            self.backup_facts(facts, tree, before, after, fresh)
        self.failures.facts(facts, self.work.values(), after)
        self.fetches.facts(facts, before, after, fresh)

    def change_facts(self, facts: dict[str, Any], before: TierObservation, after: TierObservation) -> None:
        """How the tiers changed, for the calls whose rules ask."""
        facts["host_vanished"] = before.hosted.keys() - after.hosted.keys()
        facts["host_appeared"] = after.hosted.keys() - before.hosted.keys()
        facts["appeared"] = after.cached.keys() - before.cached.keys()
        facts["tree_changed"] = (
            before.hosted != after.hosted or before.cached != after.cached or before.in_tree != after.in_tree
        )
        then = {node.named.pages: node.pins for node in before.tier_nodes}  # a node that was split is another one
        facts["pins_changed"] = [
            node.named.pages[-1]
            for node in after.tier_nodes
            if node.named.pages and then.get(node.named.pages, node.pins) != node.pins
        ]
        facts["taken"] = (len(after.moving) - len(before.moving)) * self.size

    def check_contents(self, facts: dict[str, Any], after: TierObservation) -> None:
        """Whether slots hold what belongs there, those that a copy is still filling left out."""
        if not self.has_data:
            return
        filling: dict[str, set[Name]] = {"host": set(), "device": set()}
        for work in self.work.values():
            if work.job.kind in COPIES and not work.landed:
                filling["host" if work.job.kind == BACKUP else "device"].update(work.names)
        for tier, fact in (("host", "host_wrong"), ("device", "device_wrong")):
            facts[fact] = self.wrong(after.tier_nodes, tier, filling[tier])

    def wrong(self, nodes: Sequence[TierNodeSeen], tier: str, filling: Collection[Name]) -> list[str]:
        """What slots of a tier hold instead of what belongs there."""
        slots: list[int] = []
        names: list[Name] = []
        for node in nodes:
            places = node.host if tier == "host" else node.slots
            if places:
                slots += places
                names += node.named.units
        if not slots:
            return []
        values = self.checker.peek(tier, slots)
        if values == names:
            return []
        found: list[str] = []
        for node in nodes:
            places = node.host if tier == "host" else node.slots
            if not places:
                continue
            for at, (page, units) in enumerate(node.named.of_page.items()):
                own = places[at * self.size : at * self.size + self.size]
                holds = tuple(self.checker.peek(tier, own))
                if page not in filling and holds != units:
                    found.append(f"{self.checker.names.prefix(page)} in {tier} slots {own}: {self.told(holds)}")
        return found[:WRONG]

    def told(self, holds: Sequence[int]) -> str:
        """What a page holds, in words."""
        known = self.checker.names
        last = holds[-1] if holds else 0
        return f"the KV of {known.prefix(Name(last))}" if known.knows(last) else f"{list(holds)}, nobody's KV"

    def loading(self) -> dict[Slot, Name]:
        """What slots that a load is filling will hold."""
        after = self.checker.before
        assert isinstance(after, TierObservation)
        filled = {
            name for work in self.work.values() if work.job.kind == LOAD and not work.landed for name in work.names
        }
        if not filled:
            return {}
        return {
            Slot(slot): name
            for node in after.tier_nodes
            if node.slots and not filled.isdisjoint(node.named.pages)
            for slot, name in zip(node.slots, node.named.units, strict=False)
        }

    def droppable(self, seen: TierObservation, spared: Collection[Name] = (), *, nodes: bool = True) -> set[Name]:
        """The pages that evictions of the host can drop one by one; ``spared`` ones and what is held left out.

        Work holds pages, but a cache may protect the whole node that they are in: with ``nodes`` what
        shares a node with a page that is held counts as held too, and so do anchors until the tick that
        takes note of a revocation.
        """
        held = {*self.held_sources()}
        held.update(self.fetches.anchors(revoked=nodes), spared)
        if nodes:
            for node in seen.tier_nodes:
                if not held.isdisjoint(node.named.pages):
                    held.update(node.named.pages)
        children = Counter(seen.parent_names.values())
        free = [name for name in seen.parent_names if not children[name]]
        found: set[Name] = set()
        while free:
            name = free.pop()
            if name in held or name in seen.cached or name not in seen.hosted:
                continue
            found.add(name)
            over = seen.parent_names[name]
            children[over] -= 1
            if not children[over] and over in seen.parent_names:
                free.append(over)
        return found

    def ordered(self, tree: Tree) -> bool:
        """Whether victims can be held against the policy: how recently each page was used is known, and any may go."""
        return self.checker.config.write != "write_back" and not self.blurred & tree.pages.keys()

    def evictable(self, tree: Tree, spared: Collection[Name] = ()) -> int:
        """How many pages an eviction of the device can take for certain.

        Under write-back a page without a host copy goes only if the host has room for one; when it
        may not have room for all of them, or a copy is to fail, nothing is certain.  The host copies of ``spared``
        pages stay.
        """
        seen = self.checker.before
        assert isinstance(seen, TierObservation)
        unlocked = [name for name, page in tree.pages.items() if not page.locks]
        if self.checker.config.write == "write_back":
            bare = sum(1 for name in unlocked if name not in seen.hosted)
            room = len(seen.host_free) + len(self.droppable(seen, spared))
            certain = bare <= room and self.fault is None and self.failures.coming.isdisjoint((SPILL, SPILLED))
            return len(unlocked) if certain else 0
        return len(unlocked)

    def demoted_lost(self, before: Any, after: Any) -> list[Name]:
        """Pages that an eviction of the device took from both tiers, though they were on both."""
        if self.checker.config.write == "write_back":
            return []  # making room on the host may drop what was demoted just before
        return [name for name in before.hosted if name in before.cached and name not in after.in_tree]

    def backup_facts(
        self,
        facts: dict[str, Any],
        tree: Tree,
        before: TierObservation,
        after: TierObservation,
        fresh: Sequence[Work],
    ) -> None:
        """What an insertion had to back up, and what it did."""
        config, pages = self.checker.config, tree.pages
        path, self.inserted = self.inserted, ()
        write, parent = config.write, self.checker.profile.backup_parent
        begun = [name for work in fresh if work.job.kind == BACKUP for name in work.names]
        doubtful = self.fault is not None or BACKUP in self.failures.coming or self.checker.starved
        if begun:
            self.allocated()
        facts["due_missed"] = []
        if write == policies.WRITE_BACK:
            facts["backed_early"] = begun
            return
        hot = {name: policies.hot(write, pages[name].hits) for name in path if name in pages}
        facts["backed_early"] = [] if parent == policies.CHAIN else [name for name in begun if not hot.get(name, True)]
        if doubtful or not self.steps or self.checker.profile.hit_counts != "insert":
            return
        resident = list(takewhile(after.cached.__contains__, path))
        bare = [name for name in resident if name not in after.hosted]
        due = bare[: policies.due([hot.get(name, False) for name in bare], parent)]
        if due:
            was = [name for name in path if name not in before.hosted]
            room = len(before.host_free) + len(self.droppable(before, spared=path))
            facts["due_missed"] = due if room >= len(was) else []


def rest(books: TierState) -> list[str]:
    """What is still under way, in words."""
    return [f"{work.job.kind} {number}" for number, work in books.work.items()]


def storage_rest(books: TierState) -> list[str]:
    """What is still under way to and from storage, as kinds; fetches begin and end with storage."""
    return [work.job.kind for work in books.work.values() if work.job.kind in WITH_STORAGE]
