"""The search for known hazards: a broken rule counts only if the hazard has happened, while it is shrunk, too."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest

from kvlitmus.conformance.isolation.current_run import CurrentRun
from kvlitmus.conformance.run.engine import run_item
from kvlitmus.conformance.run.plan import TIER_CONFIGS
from kvlitmus.conformance.run.results import Finding, Item, ItemResult, Options
from kvlitmus.conformance.run.targets import KNOWN
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.spec.parts import all_rules
from tests.conformance.support.hazard_hooks import MECHANISMS, NOT_YET, HazardChecker, Mechanism, around
from tools import hazards

MUTANT = all_mutants()["added-is-told-twice"]
MUTED = frozenset(all_rules()) - {"FETCH-16"}


def after_a_reset(adapter: Any, note: Callable[[], None]) -> None:
    """Notes a reset, which has nothing to do with the fault."""
    around(adapter, "reset", lambda: lambda _: note())


def when_it_is_told(adapter: Any, note: Callable[[], None]) -> None:
    """Notes the fault itself: something is told, and not forgotten."""

    def loaded(rid: int) -> Callable[[Any], None]:
        return lambda told: note() if told and adapter.loaded_by(rid) else None

    fetches = adapter.fetches
    adapter.loaded_by = fetches.loaded.get
    around(adapter, "loaded", loaded)


def hooked(target: Mechanism, item: Item, options: Options) -> ItemResult:
    """What comes of an item under the judge of hazards."""
    return run_item(target, item, options, CurrentRun(HazardChecker))


def played(hook: Callable[[Any, Callable[[], None]], None], within: int = 1_000_000, trials: int = 0) -> ItemResult:
    """The first schedule in which the plain judge finds the fault, with a hook."""
    options = Options(muted=MUTED, reruns=0, shrink_trials=trials)
    for seed in range(30):
        item = Item(kind="random", config=TIER_CONFIGS[0], seed=seed, ops=250)
        if run_item(MUTANT.target, item, Options(muted=MUTED, reruns=0, shrink_trials=0)).findings:
            return hooked(Mechanism("H-00", hook, "told", target=MUTANT.target, within=within), item, options)
    raise AssertionError("no schedule shows the mutant")


def test_a_broken_rule_counts_after_the_hazard_has_happened() -> None:
    result = played(when_it_is_told, within=1)
    assert [one.rules for one in result.findings] == [["FETCH-16"]] and not result.error


def test_a_broken_rule_without_the_hazard_is_no_find_and_its_steps_count() -> None:
    result = played(after_a_reset, within=0)
    assert result.findings == [] and NOT_YET in result.error
    assert hazards.ended(result) > 10


@pytest.mark.nightly
def test_shrinking_keeps_the_hazard() -> None:
    result = played(when_it_is_told, within=1, trials=200)
    (found,) = result.findings
    assert found.steps < found.drawn_steps
    again = Item(kind="schedule", config=found.config, schedule=tuple(found.schedule))
    target = Mechanism("H-00", when_it_is_told, "told", target=MUTANT.target, within=1)
    assert hooked(target, again, Options(muted=MUTED, reruns=0, shrink_trials=0)).findings


def test_each_hazard_has_a_mechanism_for_its_target_and_rules_that_are_judged() -> None:
    rules = all_rules()
    assert [one.id for one in hazards.HAZARDS] == list(MECHANISMS)
    for hazard in hazards.HAZARDS:
        known, mechanism = KNOWN[hazard.target], MECHANISMS[hazard.id]
        assert getattr(importlib.import_module(known.module), known.attribute) is mechanism.target
        assert set(hazard.rules) <= rules.keys() and hazards.muted(hazard).isdisjoint(hazard.rules)


def test_a_find_is_of_the_hazards_rules() -> None:
    finding = Finding(rules=["TREE-02"], item="", config=TIER_CONFIGS[0], call="", calls=[], allowed="", seen={})
    result = ItemResult(item="", config="", findings=[finding])
    assert hazards.first(result, hazards.HAZARDS[0]) is None
    finding.rules.append(hazards.HAZARDS[0].rules[0])
    assert hazards.first(result, hazards.HAZARDS[0]) is finding
