"""The judge is judged: each known bug is caught by a rule that it names, and no legal variation raises an alarm."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from kvlitmus.conformance.generate.schedule import draw, table
from kvlitmus.conformance.ports import Config, capabilities_of
from kvlitmus.conformance.run import plan
from kvlitmus.conformance.run.engine import Scheduled, play, run_item
from kvlitmus.conformance.run.results import Options
from kvlitmus.conformance.specimen.pool import PagedPool
from kvlitmus.mutants.registry import MODULES, MUTANTS, Mutant, all_mutants, mutant, null_mutant
from kvlitmus.mutants.run import CRASHES, Effort, run_mutant
from kvlitmus.spec.rule import all_rules

QUICK_SEEDS = (0, 1)
QUICK_STEPS = 5_000
NULL_STEPS = 2_500
FULL_SEEDS = 5
FULL_STEPS = 50_000
FULL_NULL_STEPS = 100_000

BY_LITMUS_ONLY = 0.1
"""At most this part of the mutants may need litmus tests."""

REAL = [one for one in all_mutants().values() if not one.null]
NULL = [one for one in all_mutants().values() if one.null]
MISUSE = {one.id for one in REAL if all(rule.startswith("MISUSE-") for rule in one.kills)}
"""Forbidden calls are no part of schedules."""


def first_broken(one: Mutant, seed: int, steps: int) -> tuple[str, ...]:
    """The rules that the first violation of random schedules breaks; empty when there is none within so many steps."""
    done = number = 0
    options = Options()
    kinds = {config: table(capabilities_of(one.target.make(config))) for config in one.configs}
    while done < steps:
        config = one.configs[number % len(one.configs)]
        ops = draw(seed * 100_003 + number, plan.OPS, kinds[config])
        checker, violation = play(one.target, config, options, Scheduled(ops))
        if violation is not None:
            return violation.rules
        done += checker.steps
        number += 1
    return ()


def broken_by_litmus(one: Mutant) -> set[str]:
    """The rules that the litmus tests break, played as in a run: what is broken is muted, and the test played again."""
    options = Options(reruns=4, shrink_trials=0)
    played = [item for item in plan.items(one.configs, one.profile, steps=0) if item.kind == "litmus"]
    found = [finding for item in played for finding in run_item(one.target, item, options).findings]
    return {rule for finding in found for rule in finding.rules}


def kills(one: Mutant, broken: set[str] | tuple[str, ...]) -> bool:
    """Whether a rule that the mutant names is among the broken ones, and isn't just a crash."""
    return bool(set(broken) & set(one.kills) - CRASHES)


def killed_in_a_run(one: Mutant, seed: int, steps: int) -> bool:
    """Whether a named rule catches the mutant when rules that others broke first are muted, as in a run."""
    return bool(run_mutant(one.id, Effort(steps=steps, seed=seed, litmus=False, shrink_trials=0)).killed_by)


@pytest.mark.parametrize("one", REAL, ids=lambda one: one.id)
def test_a_mutant_is_killed_by_a_rule_that_it_names(one: Mutant) -> None:
    if one.id in MISUSE:
        assert kills(one, broken_by_litmus(one))
        return
    for seed in QUICK_SEEDS:
        broken = first_broken(one, seed, QUICK_STEPS)
        if kills(one, broken):
            return
    assert kills(one, broken_by_litmus(one)) or killed_in_a_run(one, 0, QUICK_STEPS), (
        f"not one of {one.kills} was broken"
    )


@pytest.mark.parametrize("one", NULL, ids=lambda one: one.id)
def test_a_null_mutant_raises_no_alarm(one: Mutant) -> None:
    assert first_broken(one, 7, NULL_STEPS) == ()
    assert broken_by_litmus(one) == set()


def test_there_are_enough_of_them() -> None:
    bugs = {bug for one in REAL for bug in one.bugs if re.match(r"^[SFVLTKDNX]\d+$", bug)}
    assert len(bugs) >= 30
    assert len(NULL) >= 10


@pytest.mark.parametrize("one", REAL, ids=lambda one: one.id)
def test_a_mutant_says_where_it_comes_from(one: Mutant) -> None:
    rules = all_rules()
    assert one.kills and set(one.kills) <= rules.keys()
    assert not set(one.kills) & CRASHES, "a crash is no kill"
    assert all(link.startswith("https://github.com/") for link in one.links)
    assert one.links or all(bug.startswith("H-") for bug in one.bugs), "a known bug is linked"


def test_every_rule_of_these_packs_is_named_by_a_mutant() -> None:
    named = Counter(rule for one in REAL for rule in one.kills)
    packs = {"pool", "tree", "lock", "evict", "req", "misuse"}
    idle = [rule.id for rule in all_rules().values() if rule.pack in packs and not named[rule.id]]
    assert idle == []


def test_an_id_is_taken_once_and_a_recipe_is_required() -> None:
    def register(id: str, part: type) -> None:
        mutant(id, bugs=("S01",), links=(), kills=("POOL-01",), slot="pool")(part)

    class Silent(PagedPool):
        pass

    class Told(PagedPool):
        """Nothing is different."""

    with pytest.raises(ValueError, match="no recipe"):
        register("never-registered", Silent)
    with pytest.raises(ValueError, match="registered twice"):
        register(REAL[0].id, Told)
    with pytest.raises(ValueError, match="registered twice"):
        null_mutant(REAL[0].id, slot="pool")(Told)
    assert "never-registered" not in MUTANTS
    assert len(MODULES) == len(set(MODULES))


def test_a_correct_cache_under_another_name_is_no_kill() -> None:
    same = Mutant(
        id="same",
        bugs=(),
        links=(),
        recipe="nothing is wrong",
        kills=("POOL-12",),
        parts=REAL[0].parts.__class__(),
        configs=(Config(page_size=4),),
    )
    assert first_broken(same, 0, 3_000) == ()


@pytest.mark.nightly
@pytest.mark.timeout(1_800)
def test_nine_in_ten_mutants_fall_to_random_schedules_alone() -> None:
    survivors = [
        one.id
        for one in REAL
        if one.id in MISUSE
        or not any(
            kills(one, first_broken(one, seed, FULL_STEPS)) or killed_in_a_run(one, seed * 1_000, FULL_STEPS)
            for seed in range(FULL_SEEDS)
        )
    ]
    assert len(survivors) <= BY_LITMUS_ONLY * len(REAL), survivors


@pytest.mark.nightly
@pytest.mark.parametrize("one", NULL, ids=lambda one: one.id)
def test_a_null_mutant_raises_no_alarm_in_a_long_run(one: Mutant) -> None:
    assert first_broken(one, 1, FULL_NULL_STEPS) == ()
