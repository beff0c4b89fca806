"""Black boxes take part: with less to see there is less to judge, and never a false alarm."""

from __future__ import annotations

import pytest

from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.engine import run_item
from kvlitmus.conformance.run.plan import CONFIGS, items
from kvlitmus.conformance.run.results import Item, Options, Verdict
from kvlitmus.conformance.run.verdicts import Scope, conclude
from kvlitmus.conformance.specimen.cache import SpecimenTarget, target
from kvlitmus.conformance.specimen.flat import Specimen
from kvlitmus.conformance.specimen.parts import PROFILE, Parts
from kvlitmus.conformance.specimen.requests import RequestTable, Running
from kvlitmus.conformance.specimen.tree import Node, RadixTree
from kvlitmus.spec.rule import all_rules


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


class LeaksTail(RequestTable):
    """The pages that an ended request did not publish are never freed."""

    def free_tail(self, request: Running, start: int) -> None:
        """Free nothing."""


ELSEWHERE = ("tier", "backup", "load", "fetch", "life", "store")
"""Hierarchies are judged by their full snapshot, page stores without any."""


def findings(parts: Parts, depth: int) -> set[str]:
    """The rules that a few schedules find broken at this depth."""
    options = Options(depth=depth, reruns=0, shrink_trials=0)
    broken: set[str] = set()
    for seed in range(6):
        item = Item(kind="random", config=Config(page_size=4), seed=seed, ops=300)
        for finding in run_item(SpecimenTarget(parts), item, options).findings:
            broken.update(finding.rules)
    return broken


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_correct_cache_raises_no_alarm_however_little_is_seen(depth: int) -> None:
    evaluated: set[str] = set()
    for item in items(CONFIGS, PROFILE, steps=500):
        result = run_item(target, item, Options(depth=depth))

        assert not result.findings, (item.id, result.findings)
        assert not result.error
        evaluated |= {rule for rule, times in result.evaluated.items() if times}

    rules = [one for one in all_rules().values() if one.pack not in ELSEWHERE]
    judged_here = {one.id for one in rules if one.depth <= depth and "inspect" not in one.needs}
    assert judged_here - evaluated == set()


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
    assert findings(Parts(cache=Listening, tree=NamesNoParent), 3) == {"EVENT-01"}
    assert findings(Parts(cache=Listening, tree=NamesNoParent), 1) == set()


def test_events_of_a_flat_cache_leave_nothing_unexercised() -> None:
    results = [run_item(target, item, Options(shrink_trials=0)) for item in items(CONFIGS[:2], PROFILE, steps=200)]
    capabilities = frozenset().union(*(result.capabilities for result in results)) - {"tiers"}
    rules = {id: one for id, one in all_rules().items() if one.pack == "event"}

    verdicts = conclude(rules, results, [], Scope(capabilities=capabilities))

    said = {one.rule: (one.verdict, one.reason) for one in verdicts}
    assert said["EVENT-01"][0] is said["EVENT-02"][0] is Verdict.PASSED
    assert said["EVENT-03"] == (Verdict.NOT_APPLICABLE, "the target offers no steps and no tiers")
