"""The table of actions says something of every occasion, effect and cause."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvlitmus.spec.law import facts
from kvlitmus.spec.law import rule as register
from kvlitmus.spec.law.actions import (
    ACTIONS,
    ELSEWHERE,
    FACETS,
    Because,
    Cause,
    Group,
    What,
    joined,
    limited,
    occasions_of_rule,
    occasions_with,
    row,
)
from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import rule
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.prefix.rules import observed as _observed  # noqa: F401 - its facts
from kvlitmus.spec.words.profile import Profile
from tools.site import GOVERNED, frame_page


def test_every_occasion_has_a_row_or_says_why_not() -> None:
    tables = [ACTIONS.keys(), FACETS.keys(), ELSEWHERE.keys()]

    assert {one for table in tables for one in table} == set(On)
    assert sum(map(len, tables)) == len(On)
    assert {row for rows in FACETS.values() for row in rows} <= ACTIONS.keys()
    assert all(FACETS.values()) and all(ELSEWHERE.values())


def test_every_effect_and_cause_has_a_meaning_and_a_use() -> None:
    assert {one.group for one in What} == set(Group)
    assert all(one.meaning for one in (*What, *Cause))
    causes = {one.cause for row in ACTIONS.values() for cell in row.values() for one in cell}
    assert causes == set(Cause)
    # No call may move what is cached on the device.
    assert {what for row in ACTIONS.values() for what in row} == set(What) - {What.MOVE}


def test_the_page_of_the_frame_has_no_empty_cell() -> None:
    assert GOVERNED.keys() == set(What)
    assert {id for ids in GOVERNED.values() for id in ids} <= all_rules().keys()
    rows = [line for line in frame_page().splitlines() if line.startswith("| `")]
    assert len(rows) == len(Group) * len(ACTIONS) + len(FACETS) + len(ELSEWHERE)
    assert not [row for row in rows if "|  |" in row]


def test_no_cell_is_there_without_a_cause() -> None:
    assert [(on, what) for on, row in ACTIONS.items() for what, causes in row.items() if not causes] == []


def test_causes_are_limited_to_profiles_that_there_are() -> None:
    limits = {(one.field, one.value) for row in ACTIONS.values() for cell in row.values() for one in cell if one.field}

    assert limits
    for field, value in limits:
        assert getattr(replace(Profile(), **{field: value}), field) == value  # type: ignore[arg-type]


def test_rows_that_are_joined_have_the_causes_of_all() -> None:
    both = joined(
        row(Cause.NEED, What.EVICT), row(Cause.NEED, What.EVICT), row(Cause.ASKED, What.EVICT), {What.USE: ()}
    )

    assert both == {What.EVICT: (Because(Cause.NEED), Because(Cause.ASKED)), What.USE: ()}
    late = row(Cause.NEED, What.EVICT, reserve="hit")
    assert (
        late
        == limited(row(Cause.NEED, What.EVICT), "reserve", "hit")
        == {What.EVICT: (Because(Cause.NEED, "reserve", "hit"),)}
    )


def test_an_effect_stands_for_every_occasion_that_may_have_it() -> None:
    evicting = occasions_with(What.EVICT)

    assert {On.EVICT, On.BEGIN, On.GROW, On.LOAD_BACK, On.RESET} <= set(evicting)
    assert not {On.MATCH, On.LOCK, On.PUBLISH, On.TICK} & set(evicting)
    assert occasions_of_rule(On.MATCH) == (On.MATCH,)
    assert occasions_of_rule(()) == ()
    assert occasions_of_rule((On.MATCH, What.EVICT, On.EVICT)) == (On.MATCH, *evicting)


def test_a_rule_attaches_to_an_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(register, "RULES", {})
    assert facts.FACTS.keys() >= {"page_size"}

    @rule("EVICT-99", on=What.DROP, source="test")
    def nothing_is_dropped(page_size: int) -> bool:
        """A page MUST stay."""
        return page_size > 0

    assert register.RULES["EVICT-99"].on == occasions_with(What.DROP)
