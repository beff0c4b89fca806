"""The self-test of the table of actions: a specimen is disturbed behind its calls, and the frame notices."""

from __future__ import annotations

import pytest

from kvlitmus.conformance.isolation.current_run import CurrentRun
from kvlitmus.conformance.run import engine, plan
from kvlitmus.conformance.run.results import Item, Options
from kvlitmus.conformance.specimen.cache import target
from kvlitmus.mutants.disturb import (
    DISTURBANCES,
    LEFT_OUT,
    UNCHANGED,
    UNREACHED,
    Findings,
    disturbing,
)
from kvlitmus.spec.actions import ACTIONS, What
from kvlitmus.spec.config import Config

CONFIGS = (Config(page_size=4, pages=8), *plan.TIER_CONFIGS[:2], plan.TIER_CONFIGS[-1])


@pytest.fixture(scope="module")
def findings() -> Findings:
    """What came of disturbing the specimen, each way twice behind each kind of call."""
    found = Findings()
    checker = disturbing(found, most=1)
    options = Options(shrink_trials=0, reruns=0)
    for config in CONFIGS:
        item = Item(kind="random", config=config, seed=0, ops=plan.OPS)
        result = engine.run_item(target, item, options, CurrentRun(checker))
        assert not result.error and not result.findings, "undisturbed, the specimen keeps all rules"
    return found


def test_what_a_call_must_not_change_is_noticed_by_the_frame(findings: Findings) -> None:
    unchanged = [trial for trial in findings.made if trial.case == UNCHANGED]
    unnoticed = [trial for trial in unchanged if not any(id.startswith("FRAME-") for id in findings.noticed[trial])]

    assert len(unchanged) >= 400
    assert unnoticed == []


def test_every_effect_is_brought_about_or_says_why_not() -> None:
    assert DISTURBANCES.keys() | LEFT_OUT.keys() == set(What)
    assert not DISTURBANCES.keys() & LEFT_OUT.keys()
    assert UNREACHED.keys() <= ACTIONS.keys()


def test_an_effect_without_its_cause_is_noticed(findings: Findings) -> None:
    """What may only happen to pages of the key, or of what failed, or for want of room, must not happen to others."""
    how = {(trial.on.value, trial.what): findings.noticed[trial] for trial in findings.made if trial.case != UNCHANGED}

    assert any(id.startswith("FRAME-") for id in how["insert", What.PLACE])
    assert any(id.startswith("FRAME-") for id in how["tick", What.DEMOTE])
