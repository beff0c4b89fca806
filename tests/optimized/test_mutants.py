"""Known bugs in the optimized cache are caught by the rules that are about them; legal variations raise no alarm."""

from __future__ import annotations

import re

import pytest

from kvlitmus.mutants.mutant import Mutant
from kvlitmus.optimized.tree import Tree
from kvlitmus.spec.parts import all_rules
from tests.optimized.support.mutants import registered
from tests.support.mutants import Patched, aimed, assert_killed, litmus, noticed, quickly, schedules

QUICK_STEPS = 4_000
FULL_STEPS = 20_000
NULL_STEPS = 800
FULL_NULL_STEPS = 20_000
REAL = [one for one in registered().values() if not one.null]
NULL = [one for one in registered().values() if one.null]
KNOWN = {"host-evicts-inner-pages": (2, 10)}
"""What hides: by which of its configurations and which seed one schedule kills it."""


@pytest.mark.parametrize("one", REAL, ids=lambda one: one.id)
def test_a_mutant_is_killed_by_a_rule_that_it_names(one: Mutant) -> None:
    assert_killed(one, lambda one: quickly(one, KNOWN), aimed, schedules(QUICK_STEPS), litmus)


@pytest.mark.parametrize("one", NULL, ids=lambda one: one.id)
def test_a_null_mutant_raises_no_alarm(one: Mutant) -> None:
    assert noticed(one, schedules(NULL_STEPS, seed=7)) == set()


def test_what_is_of_no_part_is_patched_and_gone_when_it_was_tried() -> None:
    one = registered()["bigrams-of-single-tokens"]
    assert isinstance(one, Patched) and one.target.parts is None
    assert_killed(one, schedules(QUICK_STEPS))
    assert schedules(1_000)(one) == set()


def test_what_is_of_a_part_is_a_part() -> None:
    one = registered()["lock-moves-no-counters"]
    assert not isinstance(one, Patched) and one.target.parts.tree is not Tree


def test_there_are_enough_of_them() -> None:
    bugs = {bug for one in REAL for bug in one.bugs if re.match(r"^([SFVLTKDNX]|H-)\d+$", bug)}
    assert len(REAL) >= 110
    assert len(bugs) >= 30
    assert len(NULL) >= 6


@pytest.mark.parametrize("one", REAL, ids=lambda one: one.id)
def test_a_mutant_names_rules(one: Mutant) -> None:
    assert set(one.kills) <= all_rules().keys()


@pytest.mark.nightly
@pytest.mark.parametrize("one", REAL, ids=lambda one: one.id)
def test_each_mutant_is_killed(one: Mutant) -> None:
    assert_killed(one, schedules(FULL_STEPS), litmus)


@pytest.mark.nightly
@pytest.mark.parametrize("one", NULL, ids=lambda one: one.id)
def test_a_null_mutant_raises_no_alarm_in_a_long_run(one: Mutant) -> None:
    assert noticed(one, schedules(FULL_NULL_STEPS, seed=1), litmus) == set()
