"""Black boxes take part: with less to see there is less to judge, and never a false alarm."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import pytest

from kvlitmus.conformance.litmus.registry import all_litmus
from kvlitmus.conformance.ports import PORTS, Config
from kvlitmus.conformance.run.engine import run_item
from kvlitmus.conformance.run.plan import CONFIGS, TIER_CONFIGS, items
from kvlitmus.conformance.run.results import Item, Options, Verdict
from kvlitmus.conformance.run.verdicts import Scope, conclude, missing
from kvlitmus.conformance.specimen.cache import SpecimenTarget, target
from kvlitmus.conformance.specimen.flat import Specimen
from kvlitmus.conformance.specimen.parts import PROFILE, Parts
from kvlitmus.conformance.specimen.prefix.request import RequestTable, SpecimenRequest
from kvlitmus.conformance.specimen.prefix.tier import TierTree
from kvlitmus.conformance.specimen.prefix.tree import Node, RadixTree
from kvlitmus.mutants.prefix.evict import childless
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.spec.parts import all_rules


class KeepsEvicted(RadixTree):
    """An evicted leaf stays in its parent's children: its pages are matched after they were used again."""

    def trim(self, leaf: Node, pages: int) -> int:
        """Evict, and hang the leaf back where it was."""
        key, held, parent = leaf.key, list(leaf.pages), leaf.parent
        freed = super().trim(leaf, pages)
        if not leaf.pages and parent is not None:
            leaf.key, leaf.pages = key, held
            parent.children[key[: self.page_size]] = leaf
        return freed


class TakesHeld(TierTree):
    """Whether somebody holds a page of the device isn't looked at when it is evicted."""

    def candidates(self, n: int) -> Collection[Node]:
        """All ends of branches on the device."""
        return [node for node in childless(self) if node.pages]


class LeaksTail(RequestTable):
    """The pages that an ended request did not publish are never freed."""

    def free_tail(self, request: SpecimenRequest, start: int) -> None:
        """Free nothing."""


ELSEWHERE = ("tier", "backup", "load", "fetch", "life", "store", "sparse", "ranks", "comp", "creq")
"""Rules of hierarchies are judged by their full snapshot, those of page stores without any; the others are apart."""


def findings(parts: Parts, depth: int) -> set[str]:
    """The rules that a few schedules find broken at this depth."""
    options = Options(depth=depth, reruns=0, shrink_trials=0)
    broken: set[str] = set()
    for seed in range(6):
        item = Item(kind="random", config=Config(page_size=4), seed=seed, ops=300)
        for finding in run_item(SpecimenTarget(parts), item, options).findings:
            broken.update(finding.rules)
    return broken


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_correct_cache_raises_no_alarm_however_little_is_seen(depth: int, every: int) -> None:
    """By day in every third configuration, at each depth in others."""
    evaluated: set[str] = set()
    for item in items(CONFIGS[depth % every :: every], PROFILE, steps=500):
        result = run_item(target, item, Options(depth=depth))

        assert not result.findings, (item.id, result.findings)
        assert not result.error
        evaluated |= {rule for rule, times in result.evaluated.items() if times}

    rules = [one for one in all_rules().values() if one.pack not in ELSEWHERE]
    seen = frozenset(PORTS) - {"inspect", "tiers", "batches"}
    judged_here = {one.id for one in rules if one.depth <= depth and not missing(one, seen)}
    assert judged_here - evaluated == set()


class DropsEverything(RadixTree):
    """An eviction empties the tree, and says that it did as asked."""

    def evict(self, n: int) -> int:
        return min(super().evict(1 << 20), n + -n % self.page_size)


class DropsNothing(RadixTree):
    """An eviction leaves all as it is."""

    def evict(self, n: int) -> int:
        return 0


class NewestFirst(RadixTree):
    """The most recently used goes first."""

    def __init__(self, page_size: int, policy: str, release: Callable[[Sequence[int]], None]) -> None:
        super().__init__(page_size, policy, release)
        self.worth = lambda node: (-node.touched, node.serial)


class FlushesForRequests(RequestTable):
    """Room for a request is made by evicting all that may go."""

    def make_room(self, pages: int) -> bool:
        if pages > len(self.pool.free_list):
            self.tree.evict(1 << 20)
        return pages <= len(self.pool.free_list)


@pytest.mark.parametrize(
    ("parts", "at_0", "at_1"),
    [
        (Parts(tree=DropsEverything), {"EVICT-20"}, {"EVICT-02"}),
        (Parts(tree=DropsNothing), {"EVICT-21"}, {"EVICT-21"}),
        (Parts(tree=NewestFirst), {"EVICT-20"}, {"EVICT-20"}),
        (Parts(requests=FlushesForRequests), {"EVICT-20"}, {"EVICT-23"}),
    ],
    ids=["drops everything", "drops nothing", "newest first", "flushes for requests"],
)
def test_what_an_eviction_should_have_done_shows_without_a_snapshot(
    parts: Parts, at_0: set[str], at_1: set[str]
) -> None:
    assert at_0 <= findings(parts, 0)
    assert at_1 <= findings(parts, 1)


@pytest.mark.parametrize(
    ("id", "depth", "rule"),
    [
        ("allocation-evicts-unasked", 1, "EVICT-24"),
        ("tail-page-stranded", 1, "TREE-19"),
        ("two-ideas-of-evictable", 0, "TREE-20"),
        ("slot-forked-in-match", 1, "TREE-22"),
        ("refused-keeps-its-slot", 1, "TREE-23"),
        ("lookup-pins", 1, "TREE-24"),
    ],
)
def test_counters_and_answers_say_what_a_snapshot_would(id: str, depth: int, rule: str) -> None:
    one = all_mutants()[id]
    broken: set[str] = set()
    for seed in range(8):
        for config in one.configs:
            item = Item(kind="random", config=config, seed=seed, ops=250)
            for finding in run_item(one.target, item, Options(depth=depth, reruns=4, shrink_trials=0)).findings:
                broken.update(finding.rules)
        if rule in broken:
            return

    assert rule in broken


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_the_device_of_a_hierarchy_is_judged_without_a_snapshot(depth: int) -> None:
    evaluated: set[str] = set()
    for config in TIER_CONFIGS:
        result = run_item(target, Item(kind="random", config=config, seed=depth, ops=200), Options(depth=depth))

        assert not result.findings, (config.label, result.findings)
        assert not result.error
        assert not result.unsupported
        evaluated |= {rule for rule, times in result.evaluated.items() if times}
    assert {"TREE-02", "TREE-03", "TREE-09", "REQ-02", "POOL-04", "POOL-15"} <= evaluated
    assert ("POOL-14" in evaluated) == (depth > 0)


@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize(("parts", "rule"), [(Parts(tiers=TakesHeld), "POOL-04")], ids=["locked pages go"])
def test_a_bug_of_the_device_of_a_hierarchy_shows_without_a_snapshot(parts: Parts, rule: str, depth: int) -> None:
    broken: set[str] = set()
    for seed in range(6):
        for config in TIER_CONFIGS:
            item = Item(kind="random", config=config, seed=seed, ops=250)
            result = run_item(SpecimenTarget(parts), item, Options(depth=depth, reruns=6, shrink_trials=0))
            broken.update(rule for finding in result.findings for rule in finding.rules)
            if rule in broken:
                return
    assert rule in broken


def test_stale_kv_shows_at_depth_0() -> None:
    assert "TREE-03" in findings(Parts(tree=KeepsEvicted), 0)


def test_a_leak_shows_at_depth_1_in_the_counters() -> None:
    assert findings(Parts(requests=LeaksTail), 0).isdisjoint({"POOL-12", "POOL-14"})
    assert "POOL-14" in findings(Parts(requests=LeaksTail), 1)


class Listening(Specimen):
    """A flat cache whose events are told, and that can't be looked into."""

    view = None  # type: ignore[assignment]


class NamesNoParent(RadixTree):
    """Every page but the first of a prompt is stored below a page that nobody was told of."""

    def tell_stored(self, tier: str, node: Node, start: int = 0) -> None:
        """Another parent."""
        first = len(self.told)
        super().tell_stored(tier, node, start)
        self.told[first:] = [
            (what, where, page, None if above is None else "lost", units, namespace)
            for what, where, page, above, units, namespace in self.told[first:]
        ]


def test_events_of_a_flat_cache_are_judged_without_a_snapshot() -> None:
    assert findings(Parts(cache=Listening), 3) == set()
    assert findings(Parts(cache=Listening, tree=NamesNoParent), 3) == {"EVENT-01", "EVENT-02"}
    assert findings(Parts(cache=Listening, tree=NamesNoParent), 1) == set()


def test_events_of_a_flat_cache_leave_nothing_unexercised() -> None:
    results = [run_item(target, item, Options(shrink_trials=0)) for item in items(CONFIGS[:2], PROFILE, steps=200)]
    capabilities = frozenset().union(*(result.capabilities for result in results)) - {"tiers"}
    rules = {id: one for id, one in all_rules().items() if one.pack == "event"}

    verdicts = conclude(rules, results, [], Scope(capabilities=capabilities))

    said = {one.rule: (one.verdict, one.reason) for one in verdicts}
    assert said["EVENT-01"][0] is said["EVENT-02"][0] is Verdict.PASSED
    assert said["EVENT-03"] == (Verdict.NOT_APPLICABLE, "the target offers no steps and no tiers")


@pytest.mark.parametrize(
    ("id", "depth", "rule"),
    [
        ("copy-forgets-the-last-slot", 0, "BACKUP-06"),
        ("ack-before-the-copy", 0, "BACKUP-03"),
        ("load-copies-the-first-page-only", 0, "TIER-08"),
        ("query-of-raw-tokens", 0, "BACKUP-04"),
        ("stranger-has-to-wait", 0, "FETCH-11"),
        ("prefetch-behind-a-gap", 0, "FETCH-05"),
        ("host-hit-counts-mirrors", 0, "TIER-10"),
        ("half-a-load", 0, "LOAD-01"),
        ("detach-leaves-puts", 0, "LIFE-05"),
        ("matching-asks-storage", 0, "FETCH-19"),
        ("host-evictions-never-counted", 1, "TIER-17"),
        ("host-parent-never-a-candidate", 1, "TIER-15"),
        ("host-gives-one-more", 1, "TIER-15"),
        ("short-loads-declined", 0, "LOAD-03"),
        ("quota-forgets-one-exit", 0, "POOL-07"),
        ("component-pool-refuses-its-last", 0, "POOL-07"),
        ("half-an-allocation-is-lost", 1, "TIER-32"),
        ("matching-reserves-host-memory", 1, "TIER-33"),
        ("ack-keeps-the-lock", 1, "LOCK-06"),
        ("quota-by-hit", 1, "FETCH-07"),
        ("commit-is-not-told", 2, "EVENT-01"),
    ],
)
def test_a_bug_of_any_cache_shows_without_a_snapshot(id: str, depth: int, rule: str) -> None:
    one = all_mutants()[id]
    leads = [test.id for test in all_litmus().values() if {rule, *one.kills}.intersection(test.rules)]
    items = [Item(kind="litmus", config=config, name=name) for name in leads for config in one.configs[:2]]
    items += [Item(kind="random", config=config, seed=seed, ops=250) for seed in range(4) for config in one.configs]
    broken: set[str] = set()
    for item in items:
        result = run_item(one.target, item, Options(depth=depth, reruns=2, shrink_trials=0))
        broken.update(rule for finding in result.findings for rule in finding.rules)
        if rule in broken:
            return
    assert rule in broken
