"""Whoever changes one operator of the specification is noticed: the tool that asks so, and what it told apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvlitmus.spec.law.actions import ACTIONS, Cause, What
from kvlitmus.spec.law.facts import FACTS
from kvlitmus.spec.law.on import On
from kvlitmus.spec.parts import all_rules
from tests.spec import mutation as spec_mutation
from tests.spec.support.edges import ALL_ROWS

TOLD_APART = Path(__file__).resolve().parent.parent / "corpus" / "told_apart.txt"
"""Changes that were told apart, drawn at random, one a line."""


def known() -> frozenset[str]:
    """The changes that were told apart."""
    return frozenset(TOLD_APART.read_text(encoding="utf-8").splitlines())


@pytest.mark.nightly
def test_changes_to_functions_that_facts_call_are_told_apart_by_rows() -> None:
    changes = [
        *spec_mutation.helpers(
            [one for one in spec_mutation.sites(["prefix.rules.backup"]) if one.name == "prefix.rules.backup._has_room"]
        )
    ]

    assert len(changes) >= 4
    found = spec_mutation.outcomes(changes, seed=0, plays=0, seconds=60.0, jobs=1)
    assert set(found.values()) == {"row"}


def test_each_change_has_a_name_of_its_own() -> None:
    changes = [
        *spec_mutation.helpers([*spec_mutation.sites(["prefix.memory_needed", "prefix.rules.order", "prefix.work"])]),
        *spec_mutation.tables(),
    ]

    assert len({one.id for one in changes}) == len(changes)
    assert any(one.name == "prefix.work.Tiers.shelf" for one in changes)
    on, what, cause = On.TICK, What.DEMOTE, Cause.FAILED
    assert any(one.id.endswith(f"{on} {what.value}: {cause.value}  → left out") for one in changes)
    assert cause in {one.cause for one in ACTIONS[on][what]}  # nothing is put in place before it is tried


def test_functions_are_called_by_the_names_that_are_replaced() -> None:
    called: set[str] = set()
    found = [
        one
        for one in spec_mutation.sites(["prefix.rules.backup"])
        if one.name in ("prefix.rules.backup._has_room", "prefix.rules.backup.hot_among")
    ]
    before = [one.value for one in spec_mutation.sites(["prefix.rules.backup"])]

    with spec_mutation.noting(found, called):
        for row in ALL_ROWS:
            if row.name == "due_missed":
                row.function(**row.values)

    assert called == {"prefix.rules.backup._has_room"}
    assert [one.value for one in spec_mutation.sites(["prefix.rules.backup"])] == before


def sample() -> list[spec_mutation.Helper]:
    """The changes that were told apart."""
    names = {id.removeprefix(spec_mutation.SPEC).partition(": ")[0] for id in known()}
    modules = [one for one in spec_mutation.modules() if any(name.startswith(f"{one}.") for name in names)]
    named = [one for one in spec_mutation.sites(modules) if one.name in names]
    return [one for one in spec_mutation.helpers(named) if one.id in known()]


def test_all_that_was_told_apart_can_still_be_changed() -> None:
    assert {one.id for one in sample()} == known()


def of_rules() -> set[object]:
    """Predicates and facts."""
    return {one.predicate for one in all_rules().values()} | {one.compute for one in FACTS.values()}


@pytest.mark.nightly
def test_a_predicate_and_a_fact_are_told_apart_by_rows_and_plays() -> None:
    one, two = "prefix.rules.backup.a_put_stops_where_storage_refuses", "prefix.rules.fetch.reservable"
    changes = [change for change in sample() if change.name in (one, two)]
    assert {change.name for change in changes} == {one, two}
    found = spec_mutation.outcomes(changes, seed=0, plays=40, seconds=60.0, jobs=2)
    assert set(found.values()) <= {"row", "play"}


@pytest.mark.nightly
def test_what_was_told_apart_still_is() -> None:
    changes = sample()
    found = spec_mutation.outcomes(changes, seed=0, plays=600, seconds=60.0, jobs=2)

    assert len(changes) >= 70
    assert [id for id, how in found.items() if how not in ("row", "play")] == []


@pytest.mark.nightly
def test_functions_that_were_told_apart_by_rows_still_are() -> None:
    changes = [one for one in sample() if one.site is not None and one.site.function not in of_rules()]
    found = spec_mutation.outcomes(changes, seed=0, plays=0, seconds=60.0, jobs=2)

    assert len(changes) >= 12
    assert [id for id, how in found.items() if how != "row"] == []
