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
NULL_STEPS = 500
FULL_NULL_STEPS = 20_000
REAL = [one for one in registered().values() if not one.null]
NULL = [one for one in registered().values() if one.null]
KNOWN = {
    "group-does-not-wait": (1, 2),
    "child-by-its-first-token": (0, 1),
    "memo-of-matches": (1, 1),
    "match-touches-the-rest": (1, 2),
    "lock-stays-in-its-branch": (0, 2),
    "unlock-does-not-offer": (1, 1),
    "digests-outlive-their-pages": (1, 0),
    "growing-drops-the-namespace": (1, 1),
    "pins-are-ignored": (2, 1),
    "host-parent-never-a-candidate": (2, 1),
    "restored-counts-as-duplicate": (2, 0),
    "restored-never-counted": (2, 3),
    "ack-before-the-copy": (1, 2),
    "chunks-count-as-uses": (2, 0),
    "child-before-its-parent": (1, 1),
    "backup-makes-no-room": (1, 3),
    "load-unlocks-early": (2, 3),
    "failed-load-keeps-its-lock": (0, 3),
    "load-evicts-its-own-path": (0, 3),
    "put-begins-before-the-copy": (0, 1),
    "put-names-shifted": (0, 1),
    "hit-tail-never-returned": (1, 0),
    "miss-leaks-the-rest": (1, 1),
    "abort-of-a-finished-read-leaks": (0, 1),
    "commit-of-the-hit": (0, 3),
    "commit-frees-twice": (0, 3),
    "second-release-of-an-anchor": (1, 1),
    "commit-below-the-unbacked": (1, 1),
    "fetch-threshold-exceeded": (1, 1),
    "reset-is-not-told": (1, 1),
    "copies-forget-a-page": (2, 3),
    "host-evicts-inner-pages": (2, 10),
}
"""By which configuration and seed one schedule kills a mutant: what aims at it takes five times as long."""


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
@pytest.mark.parametrize("id", KNOWN)
def test_the_schedule_that_is_known_to_kill_a_mutant_still_does(id: str) -> None:
    """Where it doesn't, the test by day finds another one, and takes longer."""
    assert_killed(registered()[id], lambda one: quickly(one, KNOWN))


@pytest.mark.nightly
@pytest.mark.parametrize("one", REAL, ids=lambda one: one.id)
def test_each_mutant_is_killed(one: Mutant) -> None:
    assert_killed(one, schedules(FULL_STEPS), litmus)


@pytest.mark.nightly
@pytest.mark.parametrize("one", NULL, ids=lambda one: one.id)
def test_a_null_mutant_raises_no_alarm_in_a_long_run(one: Mutant) -> None:
    assert noticed(one, schedules(FULL_NULL_STEPS, seed=1), litmus) == set()
