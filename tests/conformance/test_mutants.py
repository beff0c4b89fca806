"""The judge is judged: each known bug is caught by a rule that it names, and no legal variation raises an alarm."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from kvlitmus.conformance.litmus.registry import all_litmus
from kvlitmus.conformance.run.plan import OPS
from kvlitmus.conformance.specimen.cache import SpecimenTarget
from kvlitmus.conformance.specimen.prefix.pool import PagedPool
from kvlitmus.mutants import registry
from kvlitmus.mutants.mutant import CRASHES, Mutant
from kvlitmus.mutants.registry import MODULES, MUTANTS, PAGED, all_mutants, mutant, null_mutant
from kvlitmus.mutants.run import Effort, run_mutant
from kvlitmus.spec.law.rule import Rule
from kvlitmus.spec.parts import all_rules
from tests.support.mutants import QUICKLY, Look, aimed, assert_killed, litmus, noticed, quickly, schedules, shared

QUICK_SEEDS = (0, 1)
QUICK_STEPS = 5_000
NULL_STEPS, NULL_OPS = 60, 50
"""Of components an operation takes several steps: a whole schedule would be ten times as many as are wanted."""
EVERY = 96
"""By day a null mutant plays one litmus test in 96: of 239 mutants two or three play each."""
FULL_SEEDS = 5
FULL_STEPS = 50_000
FULL_NULL_STEPS = 5_000
"""``tools/night.py`` plays more of each, at every depth."""

BY_LITMUS_ONLY = 0.1
"""At most this part of the mutants may need litmus tests."""

REAL = [one for one in all_mutants().values() if not one.null]
NULL = [one for one in all_mutants().values() if one.null]
MISUSE = {one.id for one in REAL if all(rule.startswith("MISUSE-") for rule in one.kills)}
"""Forbidden calls are no part of schedules."""


def run(steps: int, seed: int) -> Look:
    """The random part of a run, in which the rules that others broke first are muted: what kills the mutant there."""
    return lambda one: (run_mutant(one.id, Effort(steps=steps, seed=seed, litmus=False, shrink_trials=0)).killed_by,)


def drawn(steps: int, seed: int, ops: int = OPS) -> Look:
    """Schedules that no other seed draws."""
    return schedules(steps, seed * 100_003, ops)


@pytest.mark.parametrize("one", REAL, ids=lambda one: one.id)
def test_a_mutant_is_killed_by_a_rule_that_it_names(one: Mutant) -> None:
    """What aims at it comes first, nearly always enough, then what is quick; schedules alone are the nightly test's."""
    looks = [*(drawn(QUICK_STEPS, seed) for seed in QUICK_SEEDS), run(FULL_STEPS, 0)]
    assert_killed(one, quickly, aimed, shared, *([] if one.id in MISUSE else looks), litmus)


@pytest.mark.nightly
@pytest.mark.parametrize("id", QUICKLY)
def test_what_is_known_to_kill_a_mutant_still_does(id: str) -> None:
    """Where it doesn't, the test by day finds another one, and takes a hundred times as long."""
    assert_killed(all_mutants()[id], quickly)


def test_what_is_known_to_kill_a_mutant_is_there() -> None:
    for id, (place, what) in QUICKLY.items():
        assert place < len(all_mutants()[id].configs), id
        assert isinstance(what, int) or what in all_litmus(), id


@pytest.mark.parametrize("one", NULL, ids=lambda one: one.id)
def test_a_null_mutant_raises_no_alarm(one: Mutant) -> None:
    """The nightly test plays every litmus test in every configuration."""
    assert noticed(one, drawn(NULL_STEPS, 7, NULL_OPS), lambda one: shared(one, EVERY)) == set()


def test_mutants_are_listed_module_by_module_whoever_imports_them(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = list(all_mutants())
    last = [id for id in expected if MUTANTS[id].module == f"kvlitmus.mutants.{MODULES[-1]}"]
    assert last and expected[-len(last) :] == last
    monkeypatch.setattr(registry, "MUTANTS", {id: MUTANTS[id] for id in [*last, *expected]})
    assert list(all_mutants()) == expected


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


def without_a_snapshot(rule: Rule) -> bool:
    """Whether a rule is judged only where there is no snapshot: tests/conformance/test_depths.py breaks each one."""
    return rule.predicate.__module__ == "kvlitmus.spec.prefix.rules.unseen"


def test_every_rule_of_these_packs_is_named_by_a_mutant() -> None:
    named = Counter(rule for one in REAL for rule in one.kills)
    packs = {"pool", "tree", "lock", "evict", "req", "misuse"}
    idle = [rule for rule in all_rules().values() if rule.pack in packs and not named[rule.id]]
    assert [rule.id for rule in idle if not without_a_snapshot(rule)] == []


def test_an_id_is_taken_once_and_a_recipe_is_required() -> None:
    def register(id: str, part: type) -> None:
        mutant(id, bugs=("S01",), kills=("POOL-01",))(part)

    class Silent(PagedPool):
        pass

    class TellingPool(PagedPool):
        """Nothing is different."""

    with pytest.raises(ValueError, match="no recipe"):
        register("never-registered", Silent)
    with pytest.raises(ValueError, match="registered twice"):
        register(REAL[0].id, TellingPool)
    with pytest.raises(ValueError, match="registered twice"):
        null_mutant(REAL[0].id)(TellingPool)
    with pytest.raises(ValueError, match="derived from a part of the specimen"):
        register("never-registered", type("NoPart", (), {"__doc__": "Of no part."}))
    assert "never-registered" not in MUTANTS
    assert len(MODULES) == len(set(MODULES))


def test_a_correct_cache_under_another_name_is_no_kill() -> None:
    same = Mutant(id="same", recipe="nothing", kills=("POOL-12",), target=SpecimenTarget(), configs=(PAGED,))
    assert noticed(same, drawn(3_000, 0)) == set()


@pytest.mark.nightly
def test_nine_in_ten_mutants_fall_to_random_schedules_alone() -> None:
    looks = [look(FULL_STEPS, seed) for seed in range(FULL_SEEDS) for look in (drawn, lambda s, n: run(s, n * 1_000))]
    survivors = [one.id for one in REAL if one.id in MISUSE or not one.killed_by(noticed(one, *looks))]
    assert len(survivors) <= BY_LITMUS_ONLY * len(REAL), survivors


@pytest.mark.nightly
@pytest.mark.parametrize("one", NULL, ids=lambda one: one.id)
def test_a_null_mutant_raises_no_alarm_in_a_long_run(one: Mutant) -> None:
    assert noticed(one, drawn(FULL_NULL_STEPS, 1), litmus) == set()
