"""Known bugs in the optimized cache are caught by the rules that are about them; legal variations raise no alarm."""

from __future__ import annotations

import functools
import re

import pytest

from kvlitmus.conformance.adapters.optimized.flat import PROFILE
from kvlitmus.conformance.adapters.optimized.target import OptimizedTarget
from kvlitmus.conformance.generate.schedule import draw, table
from kvlitmus.conformance.litmus.registry import all_litmus
from kvlitmus.conformance.ports import Config, capabilities_of
from kvlitmus.conformance.run import plan
from kvlitmus.conformance.run.engine import Scheduled, play
from kvlitmus.conformance.run.results import Options
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.mutants.run import CRASHES
from kvlitmus.spec.rule import all_rules
from tests.optimized.mutants import Mutant, registered

TARGET = OptimizedTarget()
QUICK_STEPS = 4_000
FULL_STEPS = 20_000
NULL_STEPS = 800
FULL_NULL_STEPS = 20_000
REAL = [one for one in registered().values() if not one.null]
NULL = [one for one in registered().values() if one.null]
LONG = {
    "added-is-told-twice",
    "aborted-gets-cached",
    "attach-replaces-storage",
    "commit-below-the-unbacked",
    "commit-frees-twice",
    "commit-of-the-hit",
    "detach-leaves-puts",
    "digests-outlive-their-pages",
    "failed-page-counts",
    "host-evicts-inner-pages",
    "misuse-is-swallowed",
    "quota-widened-by-what-is-locked",
    "second-release-of-an-anchor",
    "short-hit-goes-on",
    "tenant-not-in-the-name",
    "timeout-never-fires",
    "timeout-of-another-cache",
}
"""What takes long to be caught is tried at night, as is what concerns plans and hashes alone, and is drawn rarely."""
QUICK = [one for one in REAL if one.id not in LONG and not one.id.startswith(("prefetch-", "hash-"))]


@functools.cache
def kinds_of(config: Config) -> tuple[str, ...]:
    """What can be done in a configuration."""
    return table(capabilities_of(TARGET.make(config)))


def broken_by_schedules(one: Mutant, steps: int, seed: int = 0) -> set[str]:
    """The rules that drawn schedules break, up to the first that the mutant names."""
    broken: set[str] = set()
    done = number = 0
    kinds = {config: kinds_of(config) for config in one.configs}
    with one.planted():
        while done < steps and not kills(one, broken):
            config = one.configs[number % len(one.configs)]
            checker, violation = play(TARGET, config, Options(), Scheduled(draw(seed + number, 250, kinds[config])))
            broken.update(violation.rules if violation is not None else ())
            done += checker.steps
            number += 1
            if broken and one.null:
                break
    return broken


def broken_by_litmus(one: Mutant) -> set[str]:
    """The rules that the litmus tests break."""
    broken: set[str] = set()
    with one.planted():
        for config in one.configs:
            for test in all_litmus().values():
                if plan.suits(test, config, PROFILE, force_misuse=False) and not kills(one, broken):
                    violation = play(TARGET, config, Options(), test.program)[1]
                    broken.update(violation.rules if violation is not None else ())
    return broken


def kills(one: Mutant, broken: set[str]) -> bool:
    """Whether a rule that the mutant names is among the broken ones; that a cache merely crashes is no kill."""
    return bool(broken & one.kills - CRASHES)


def assert_killed(one: Mutant, steps: int) -> None:
    """The suite catches this mutant."""
    broken = broken_by_schedules(one, steps)
    if not kills(one, broken):
        broken |= broken_by_litmus(one)
    assert kills(one, broken), f"none of {sorted(one.kills)} was broken, but {sorted(broken)}"


@pytest.mark.parametrize("one", QUICK, ids=lambda one: one.id)
def test_a_mutant_is_killed_by_a_rule_that_it_names(one: Mutant) -> None:
    assert_killed(one, QUICK_STEPS)


@pytest.mark.parametrize("one", NULL, ids=lambda one: one.id)
def test_a_null_mutant_raises_no_alarm(one: Mutant) -> None:
    assert broken_by_schedules(one, NULL_STEPS, seed=7) == set()


def test_a_mutant_is_gone_when_it_was_tried() -> None:
    one = REAL[0]
    assert kills(one, broken_by_schedules(one, QUICK_STEPS))
    same = Mutant(id="same", recipe="", like=one.like, patches={}, configs=one.configs)
    assert broken_by_schedules(same, 1_000) == set()


def test_there_are_enough_of_them() -> None:
    assert registered().keys() >= LONG
    bugs = {bug for one in REAL for bug in one.bugs if re.match(r"^([SFVLTKDNX]|H-)\d+$", bug)}
    assert len(REAL) >= 110
    assert len(bugs) >= 30
    assert len(NULL) >= 6


@pytest.mark.parametrize("one", REAL, ids=lambda one: one.id)
def test_a_mutant_says_which_known_bug_it_is(one: Mutant) -> None:
    assert one.like and all(id in all_mutants() for id in one.like)
    assert one.kills <= all_rules().keys()


@pytest.mark.nightly
@pytest.mark.parametrize("one", REAL, ids=lambda one: one.id)
def test_each_mutant_is_killed(one: Mutant) -> None:
    assert_killed(one, FULL_STEPS)


@pytest.mark.nightly
@pytest.mark.parametrize("one", NULL, ids=lambda one: one.id)
def test_a_null_mutant_raises_no_alarm_in_a_long_run(one: Mutant) -> None:
    assert broken_by_schedules(one, FULL_NULL_STEPS, seed=1) == set()
    assert broken_by_litmus(one) == set()
