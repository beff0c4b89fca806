"""Whoever changes one operator of the specification is noticed: the tools that ask so, and what they told apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvlitmus.spec.actions import ACTIONS, Cause, What
from kvlitmus.spec.on import On
from tests.spec.support.edges import ALL_ROWS
from tools import spec_helpers, spec_mutation
from tools.spec_trial import Trial

TOLD_APART = Path(__file__).resolve().parent.parent / "corpus" / "told_apart.txt"
"""Changes that were told apart, drawn at random, one a line."""


def known() -> frozenset[str]:
    """The changes that were told apart."""
    return frozenset(TOLD_APART.read_text(encoding="utf-8").splitlines())


def test_changes_to_functions_that_facts_call_are_told_apart_by_rows() -> None:
    changes = [*spec_helpers.helpers([one for one in spec_helpers.sites(["backup"]) if one.name == "backup._has_room"])]

    assert len(changes) >= 4
    found = spec_helpers.outcomes(changes, seed=0, recorded=0, wrong=0, seconds=60.0, jobs=1)
    assert set(found.values()) == {"row"}


def test_each_change_has_a_name_of_its_own() -> None:
    changes = [*spec_helpers.helpers([*spec_helpers.sites(["room", "order", "tier_state"])]), *spec_helpers.tables()]

    assert len({one.id for one in changes}) == len(changes)
    assert any(one.name == "tier_state.Tiers.shelf" for one in changes)
    on, what, cause = On.TICK, What.DEMOTE, Cause.FAILED
    assert any(one.id.endswith(f"{on} {what.value}: {cause.value}  → left out") for one in changes)
    assert cause in {one.cause for one in ACTIONS[on][what]}  # nothing is put in place before it is tried


def test_functions_are_called_by_the_names_that_are_replaced() -> None:
    called: set[str] = set()
    found = [one for one in spec_helpers.sites(["backup"]) if one.name in ("backup._has_room", "backup.hot_among")]
    before = [one.value for one in spec_helpers.sites(["backup"])]

    with spec_helpers.noting(found, called):
        for row in ALL_ROWS:
            if row.name == "due_missed":
                row.function(**row.values)

    assert called == {"backup._has_room"}
    assert [one.value for one in spec_helpers.sites(["backup"])] == before


@pytest.mark.nightly
def test_facts_and_predicates_that_were_told_apart_still_are() -> None:
    trial = Trial(spec_helpers.judging_rules(), known())
    sample = len(trial.alive())
    for row in ALL_ROWS:
        trial.row(row.name, row.values, row.says)
    spec_mutation.play(trial, spec_mutation.corpus(trial, whole=False), float("inf"))

    assert sample >= 40  # of those that are drawn, some may be gone with the operator that they change
    assert [one.id for one in trial.alive()] == []


def test_functions_that_were_told_apart_by_rows_still_are() -> None:
    modules = {id.removeprefix(spec_helpers.SPEC).split(".")[0] for id in known()}
    sites = spec_helpers.sites(sorted(modules & {*spec_helpers.modules()}))
    named = [one for one in sites if any(id.startswith(f"{spec_helpers.SPEC}{one.name}: ") for id in known())]
    sample = [one for one in spec_helpers.helpers(named) if one.id in known()]
    found = spec_helpers.outcomes(sample, seed=0, recorded=0, wrong=0, seconds=60.0, jobs=2)

    assert len(sample) >= 12  # of those that were drawn, some may be gone with the operator that they change
    assert [id for id, how in found.items() if how != "row"] == []
