"""The cause of a finding is the same whichever schedule shows it, and a baseline that knows one hides no other."""

from __future__ import annotations

import random
import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pytest

from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run import baseline, plan
from kvlitmus.conformance.run.cause import answer_of, cause_of, method_of, parting
from kvlitmus.conformance.run.engine import run_item
from kvlitmus.conformance.run.minimise import minimise
from kvlitmus.conformance.run.results import Finding, Item, ItemResult, Options, RuleVerdict
from kvlitmus.conformance.run.verdicts import Group, Scope, conclude, group
from kvlitmus.conformance.specimen.cache import SpecimenTarget
from kvlitmus.conformance.specimen.parts import PROFILE, Parts
from kvlitmus.conformance.specimen.prefix.pool import PagedPool
from kvlitmus.conformance.specimen.prefix.tree import Node, RadixTree
from kvlitmus.mutants.mutant import Mutant
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.spec.parts import all_rules
from tests.conformance.test_verdicts import finding


@pytest.mark.parametrize(
    ("call", "method", "answer"),
    [
        ("alloc(4) → [4…7]", "alloc", "list"),
        ("alloc(4) → None", "alloc", "None"),
        ("evict(2) → 2", "evict", "number"),
        ("insert([1], [3], protected=0, priority=0, chunked=False) → already 0", "insert", "already"),
        ("match([1 ×4]) → [0…3]", "match", "list"),
        ("unlock(receipt 1)", "unlock", ""),
        ("begin(1, [1]) (match, lock, alloc(1)) → [0], 0 cached", "alloc", ""),
        ("end(1, keep=True) (insert of 4, protected=0, free([0…3]), unlock)", "unlock", ""),
        ("end(1, keep=False) (free([0…3]), unlock)", "unlock", ""),
        ("end(1, keep=True) (insert of 4, protected=0, unlock), begins backup 1", "unlock", ""),
        ("copy 0: back up [1, 1] up to 4 units → kv {4: 15} for 4 units", "copy back up", "kv"),
        ("copy 12 has failed → gave back nothing", "copy has failed", "gave"),
        ("tick()", "tick", ""),
        ("", "the fresh cache", ""),
    ],
)
def test_a_call_is_known_by_its_method_and_the_kind_of_its_answer(call: str, method: str, answer: str) -> None:
    assert (method_of(call), answer_of(call)) == (method, answer)


def test_values_lengths_and_sizes_are_no_part_of_a_cause() -> None:
    one = finding("EVICT-05", call="evict(1) → 1")
    same = (
        finding("EVICT-06", "TREE-05", call="evict(7) → 3", calls=9),
        finding("EVICT-05", call="begin(1, [1]) → None"),
        replace(one, config=Config(page_size=16, pages=99)),
        replace(one, detail="something", seen={"passed_over": "[9]"}, allowed="nothing"),
        replace(one, parted=["call 3: what is cached, and where"]),
    )
    other = (
        finding("TREE-05", call="evict(1) → 1"),
        finding("POOL-12", call="evict(1) → 1"),
        finding("POOL-12", call="alloc(1) → [1]"),
        finding("POOL-12", call="alloc(1) → None"),
        replace(one, config=Config(policy="lfu")),
        replace(one, parted=["call 1: what is locked"]),
    )
    assert {cause_of(each).id for each in same} == {cause_of(one).id}
    assert len({cause_of(each).id for each in (one, *other)}) == 1 + len(other)
    assert parting(other[-1]) == "alloc"
    assert cause_of(replace(one, rules=["GONE-07"])).id.startswith("gone-"), "a rule that this version doesn't have"


def test_each_kind_of_misuse_is_a_cause_of_its_own() -> None:
    """Its rules are of one family, and most of them end with an allocation that shows what became of the cache."""
    ids = {cause_of(finding(rule, call="alloc(1) → [1]")).id for rule in ("MISUSE-01", "MISUSE-03", "MISUSE-05")}
    assert len(ids) == 3


Release = Callable[[Sequence[int]], None]


class NewestFirst(RadixTree):
    """Under LRU what was used last goes first: the fault that is known."""

    def __init__(self, page_size: int, policy: str, release: Release) -> None:
        super().__init__(page_size, "mru" if policy == "lru" else policy, release)


class NeverCounts(NewestFirst):
    """And uses are not counted, so that LFU is another policy: a new fault of the same rule."""

    def use(self, node: Node, priority: int, chunked: bool) -> None:
        node.priority = max(node.priority, priority)


class FreeLoses(PagedPool):
    """What is freed after the first page is lost: the fault that is known."""

    def free(self, slots: Sequence[int]) -> None:
        super().free(slots[: self.page_size])


class EvictLoses(RadixTree):
    """And so is a page of each eviction: a new fault of the same rule."""

    def __init__(self, page_size: int, policy: str, release: Release) -> None:
        super().__init__(page_size, policy, lambda pages: release(pages[1:]))


@dataclass(frozen=True)
class Judged:
    """What came of judging a target by some rules."""

    groups: list[Group]
    verdicts: list[RuleVerdict]


def judged(target: SpecimenTarget, configs: Sequence[Config], rules: Sequence[str], schedules: int = 4) -> Judged:
    """A small run, without other processes."""
    chosen = {id: all_rules()[id] for id in rules}
    options = Options(muted=frozenset(all_rules().keys() - chosen.keys()), shrink_trials=300)

    def play(items: Sequence[Item], how: Options) -> list[ItemResult]:
        return [run_item(target, item, how) for item in items]

    drawn = [Item(kind="random", config=one, seed=seed, ops=120) for seed in range(schedules) for one in configs]
    results = play(drawn, replace(options, shrink_trials=0))
    groups = group(results, minimise(results, play, options))
    return Judged(groups, conclude(chosen, results, groups, Scope()))


def known_by(entries: str, found: Judged) -> baseline.BaselineMatch:
    """What a baseline, as it was written and filled in, says of a run."""
    filled = entries.replace('reason = ""', 'reason = "r"').replace('link = ""', 'link = "https://x"')
    known = baseline.parse(tomllib.loads(filled), all_rules())
    return baseline.compare(known, found.verdicts, found.groups, "0.1.0")


LRU, LFU = Config(), Config(policy="lfu")


@pytest.mark.parametrize(
    ("rule", "before", "after", "configs"),
    [
        ("EVICT-05", Parts(tree=NewestFirst), Parts(tree=NeverCounts), (LRU, LFU)),
        pytest.param(
            *("POOL-12", Parts(pool=FreeLoses), Parts(pool=FreeLoses, tree=EvictLoses), (LRU,)),
            marks=pytest.mark.nightly,
        ),
    ],
    ids=["uses-never-counted", "evictions-lose-pages"],
)
def test_a_new_fault_of_a_known_rule_is_news(
    rule: str, before: Parts, after: Parts, configs: tuple[Config, ...]
) -> None:
    first, second = (judged(SpecimenTarget(parts, PROFILE), configs, [rule]) for parts in (before, after))
    entries = baseline.text_of(first.groups, [])
    again = known_by(entries, first)
    assert again.accepted == {rule} and not again.stale
    assert {one.cause for one in second.groups} - {one.cause for one in first.groups}
    assert known_by(entries, second).accepted == frozenset()
    fresh = known_by(baseline.text_of(second.groups, []), second)
    assert fresh.accepted == {rule}


@pytest.mark.nightly
def test_a_bug_has_mostly_one_cause_whatever_the_seed() -> None:
    """Forty mutants, each found by five seeds: of most of them the shortest counterexample always has one cause."""
    mutants = random.Random(31).sample([one for one in all_mutants().values() if not one.null], 40)
    causes = {one.id: [found for seed in range(5) if (found := shortest(one, seed))] for one in mutants}
    seen = {id: {cause_of(one).id for one in found} for id, found in causes.items() if found}
    alike = Counter(cause for own in seen.values() for cause in own)
    shared = sum(any(alike[cause] > 1 for cause in own) for own in seen.values())
    once = sum(len(own) == 1 for own in seen.values())
    each = sum(map(len, seen.values())) / len(seen)
    print(f"{len(seen)} mutants: {once} with one cause, {each:.2f} each; {shared} share one with another")
    assert len(seen) >= 30
    assert once >= 0.7 * len(seen)
    assert shared <= len(seen) / 2


def shortest(one: Mutant, seed: int) -> Finding | None:
    """The shortest counterexample of those that a few schedules lead to."""
    plain = Options(reruns=0, shrink_trials=0)
    raw: list[Finding] = []
    for at in range(10):
        for config in one.configs if len(raw) < 6 else ():
            raw += run_item(
                one.target, Item(kind="random", config=config, seed=1_000 * seed + at, ops=plan.OPS), plain
            ).findings
    raw.sort(key=lambda found: len(found.calls))
    tried = {(found.config.label, found.rules[0]): found for found in reversed(raw)}
    how = replace(plain, shrink_trials=400, shrink_seconds=10.0)
    shrunk = [
        found
        for first in sorted(tried.values(), key=lambda found: len(found.calls))[:2]
        for found in run_item(
            one.target, Item(kind="schedule", config=first.config, schedule=tuple(first.schedule)), how
        ).findings
    ]
    return min(shrunk, key=lambda found: len(found.calls), default=None)
