"""The self-test of the table of actions: a specimen is disturbed behind its calls, and the frame notices."""

from __future__ import annotations

import json
from types import ModuleType
from typing import NamedTuple, get_args

import pytest

from kvlitmus.conformance.run import plan
from kvlitmus.mutants import component_disturbances, disturb_kinds, rank_disturbances, sparse_disturbances
from kvlitmus.mutants.disturb import UNCHANGED, UNREACHED, Findings, guarded
from kvlitmus.mutants.disturb_kinds import Cell, excuse_of
from kvlitmus.mutants.disturbances import DISTURBANCES, LEFT_OUT, WRONG_SUBJECTS
from kvlitmus.spec.actions import ACTIONS, ELSEWHERE, What
from kvlitmus.spec.component_shapes import Shape
from kvlitmus.spec.component_state import ComponentState
from kvlitmus.spec.config import Config
from kvlitmus.spec.interface.ranks import RankView
from kvlitmus.spec.on import On
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.sparse_state import SparseState
from tools import frame, frame_kinds, frame_page

CONFIGS = (Config(page_size=4, pages=8), *plan.TIER_CONFIGS[:2], plan.TIER_CONFIGS[-1])


@pytest.fixture(scope="module")
def findings() -> Findings:
    """What came of disturbing the specimen, each way once behind each kind of call; undisturbed it keeps all rules."""
    return frame.disturbed(seeds=1, most=1, configs=CONFIGS)


def test_what_a_call_must_not_change_is_noticed_by_the_frame(findings: Findings) -> None:
    unchanged = [trial for trial in findings.made if trial.case == UNCHANGED]
    unnoticed = [trial for trial in unchanged if not any(guarded(id, trial.what) for id in findings.noticed[trial])]

    assert len(unchanged) >= 800
    assert unnoticed == []


def test_in_governed_cells_each_disturbance_is_noticed_or_legal_for_a_reason(findings: Findings) -> None:
    found = frame.document(findings)
    missed = [one for one in found["trials"] if one["outcome"] == frame.MISSED]

    assert missed == []
    for case, counts in found["counts"].items():
        assert case == UNCHANGED or counts[frame.BY_LAW] >= 40, case


def test_where_no_law_but_the_frame_notices_it_a_reason_is_given(findings: Findings) -> None:
    rows = frame.document(findings)["trials"]
    alone = [one for one in rows if one["outcome"] == frame.BY_FRAME and one["case"] != UNCHANGED]

    assert alone
    assert [one for one in alone if not one["because"]] == []


def test_host_copies_that_move_vanish_or_come_from_nowhere_break_a_law(findings: Findings) -> None:
    of_copies = {What.BACK: "TIER-42", What.MOVE_COPY: "TIER-41"}
    governed = [one for one in findings.made if one.what in of_copies and one.case != UNCHANGED]

    assert len(governed) >= 20
    assert [one for one in governed if of_copies[one.what] not in findings.noticed[one]] == []


def test_every_effect_is_brought_about_or_says_why_not() -> None:
    assert DISTURBANCES.keys() | WRONG_SUBJECTS.keys() | LEFT_OUT.keys() == set(What)
    assert not (DISTURBANCES.keys() | WRONG_SUBJECTS.keys()) & LEFT_OUT.keys()
    assert UNREACHED.keys() <= ACTIONS.keys()


def test_an_effect_without_its_cause_is_noticed(findings: Findings) -> None:
    """What may only happen to pages of the key, or of what failed, or for want of room, must not happen to others."""
    how = {(trial.on.value, trial.what): findings.noticed[trial] for trial in findings.made if trial.case != UNCHANGED}

    assert any(id.startswith("FRAME-") for id in how["insert", What.PLACE])
    assert any(id.startswith("FRAME-") for id in how["tick", What.DEMOTE])


@pytest.mark.parametrize("kind", frame_kinds.KINDS, ids=lambda kind: kind.name)
def test_what_calls_on_other_caches_must_not_change_is_noticed(kind: frame_kinds.Kind) -> None:
    """A sample: what shows at once, in one configuration; what is known to show later, or not, is left out."""
    target, configs = kind.plays[0]
    cells = frame_kinds.shown(kind._replace(plays=((target, configs[:1]),)), seeds=1, most=1)
    kept = json.loads(frame_page.KINDS_KEPT.read_text())[kind.name]
    silent = [cell for cell in cells.silent if cell.on not in kept[cell.how].get(disturb_kinds.LATER, {})]

    assert len(cells.made) - len(cells.silent) >= 100
    assert [cell for cell in silent if not excuse_of(cell, kind.excuses)] == []


@pytest.mark.parametrize("kind", frame_kinds.KINDS, ids=lambda kind: kind.name)
def test_each_cell_of_other_caches_is_kept_and_none_is_missed(kind: frame_kinds.Kind) -> None:
    kept = json.loads(frame_page.KINDS_KEPT.read_text())[kind.name]
    calls = {on for on in ELSEWHERE if on.removeprefix("refused_").startswith(f"{kind.name}_")}
    reached = calls - frame_kinds.UNREACHED.keys()

    assert list(kept) == [way.how for way in kind.ways]
    for how, outcomes in kept.items():
        named = [On(call) for cells in outcomes.values() for call in cells]
        assert disturb_kinds.MISSED not in outcomes, how
        assert sorted(named) == sorted(reached), how


@pytest.mark.parametrize(
    ("module", "state"),
    [(component_disturbances, ComponentState), (sparse_disturbances, SparseState), (rank_disturbances, RankView)],
)
def test_each_part_of_a_state_is_disturbed_or_it_is_said_why_not(module: ModuleType, state: type[NamedTuple]) -> None:
    ways = [way.how for way in module.WAYS]

    assert set(state._fields) == module.GROUPS.keys() | module.NOT_DISTURBED.keys()
    assert not module.GROUPS.keys() & module.NOT_DISTURBED.keys()
    assert [start for start in module.GROUPS.values() if not any(how.startswith(start) for how in ways)] == []
    assert all(module.NOT_DISTURBED.values())


def test_components_of_every_shape_are_disturbed() -> None:
    assert {shape for _, shape in component_disturbances.SHAPES} == set(get_args(Shape))


def test_what_notices_a_cell_of_other_caches_is_a_rule() -> None:
    rules = all_rules()

    for kind in frame_kinds.KINDS:
        for how, outcomes in json.loads(frame_page.KINDS_KEPT.read_text())[kind.name].items():
            for outcome in (disturb_kinds.NOTICED, disturb_kinds.LATER):
                for call, named in outcomes.get(outcome, {}).items():
                    assert named, (how, call)
                    assert set(named) <= rules.keys(), (how, call)


def test_every_excuse_is_needed() -> None:
    for kind in frame_kinds.KINDS:
        kept = json.loads(frame_page.KINDS_KEPT.read_text())[kind.name]
        used = {
            excuse_of(Cell(On(call), how), kind.excuses)
            for how, outcomes in kept.items()
            for outcome in (disturb_kinds.LEGAL, disturb_kinds.OPEN)
            for call in outcomes.get(outcome, {})
        }
        assert used == {one.why for one in kind.excuses}, kind.name
