"""The self-test of the table of actions: a specimen is disturbed behind its calls, and the frame notices.

It plays at random.  Behind each call copies of it are changed, each in one way
(:mod:`kvlitmus.mutants.prefix.disturb`), and the step is judged as if the call had done that.  In cells that are
*unchanged* the frame notices every change.  In *governed* cells it is an effect without its cause, too much of it, or
on the wrong subject: a law notices it, as that of the order of evictions, or the frame alone, or it is legal there; the
last two have reasons.
"""

from __future__ import annotations

from collections import Counter
from types import ModuleType
from typing import NamedTuple, get_args

import pytest

from kvlitmus.conformance.isolation.current_run import CurrentRun
from kvlitmus.conformance.run import engine, plan
from kvlitmus.conformance.run.results import Item, Options
from kvlitmus.conformance.specimen.cache import target
from kvlitmus.mutants import disturb_kinds
from kvlitmus.mutants.components import disturbances as component_disturbances
from kvlitmus.mutants.disturb_kinds import Cell
from kvlitmus.mutants.prefix.disturb import (
    CASES,
    UNCHANGED,
    UNREACHED,
    Findings,
    Trial,
    alone_because,
    disturbing,
    guarded,
    legal_because,
)
from kvlitmus.mutants.prefix.disturbances import DISTURBANCES, LEFT_OUT, WRONG_SUBJECTS
from kvlitmus.mutants.ranks import disturbances as rank_disturbances
from kvlitmus.mutants.sparse import disturbances as sparse_disturbances
from kvlitmus.spec.interface.ranks import RankView
from kvlitmus.spec.law.actions import ACTIONS, ELSEWHERE, What
from kvlitmus.spec.law.on import On
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.prefix.page import Tier
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.sparse.state import SparseState
from kvlitmus.spec.words.config import Config
from kvlitmus.spec.words.shapes import Shape
from tests.conformance import frame

CONFIGS = (Config(page_size=4, pages=8), plan.TIER_CONFIGS[0], plan.TIER_CONFIGS[-1])
ALL = (Config(page_size=4, pages=8), Config(page_size=1), *plan.TIER_CONFIGS)


@pytest.fixture(
    scope="module",
    params=[(1, 1, CONFIGS), pytest.param((3, 2, ALL), marks=pytest.mark.nightly)],
    ids=["quick", "whole"],
)
def findings(request: pytest.FixtureRequest) -> Findings:
    """What came of disturbing the specimen, each way so often behind each kind of call."""
    seeds, most, configs = request.param
    found = Findings()
    checker = disturbing(found, most=most)
    for seed in range(seeds):
        for config in configs:
            item = Item(kind="random", config=config, seed=seed, ops=plan.OPS)
            result = engine.run_item(target, item, Options(shrink_trials=0, reruns=0), CurrentRun(checker))
            assert not result.error and not result.findings, item.id
    return found


def governed(findings: Findings) -> list[Trial]:
    """The trials in governed cells."""
    return [trial for trial in findings.made if trial.case != UNCHANGED]


def by_law(findings: Findings, trial: Trial) -> bool:
    """Whether a law notices it, and not the frame alone."""
    return trial not in findings.silent and any(not id.startswith("FRAME-") for id in findings.noticed[trial])


def test_what_a_call_must_not_change_is_noticed_by_the_frame(findings: Findings) -> None:
    unchanged = [trial for trial in findings.made if trial.case == UNCHANGED]
    unnoticed = [trial for trial in unchanged if not any(guarded(id, trial.what) for id in findings.noticed[trial])]

    assert len(unchanged) >= 800
    assert unnoticed == []


def test_in_governed_cells_each_disturbance_is_noticed_or_legal_for_a_reason(findings: Findings) -> None:
    missed = [trial for trial in governed(findings) if trial in findings.silent and not legal_because(trial)]
    counts = Counter(trial.case for trial in governed(findings) if by_law(findings, trial))

    assert missed == []
    assert [case for case in CASES if case != UNCHANGED and counts[case] < 40] == []


def test_where_no_law_but_the_frame_notices_it_a_reason_is_given(findings: Findings) -> None:
    noticed = [trial for trial in governed(findings) if trial not in findings.silent]
    alone = [trial for trial in noticed if not by_law(findings, trial)]

    assert alone
    assert [trial for trial in alone if not alone_because(trial)] == []


def test_host_copies_that_move_vanish_or_come_from_nowhere_break_a_law(findings: Findings) -> None:
    of_copies = {What.BACK: "TIER-42", What.MOVE_COPY: "TIER-41"}
    copies = [one for one in governed(findings) if one.what in of_copies]

    assert len(copies) >= 20
    assert [one for one in copies if of_copies[one.what] not in findings.noticed[one]] == []


def test_every_effect_is_brought_about_or_says_why_not() -> None:
    assert DISTURBANCES.keys() | WRONG_SUBJECTS.keys() | LEFT_OUT.keys() == set(What)
    assert not (DISTURBANCES.keys() | WRONG_SUBJECTS.keys()) & LEFT_OUT.keys()
    assert UNREACHED.keys() <= ACTIONS.keys()


def test_an_effect_without_its_cause_is_noticed(findings: Findings) -> None:
    """What may only happen to pages of the key, or of what failed, or for want of room, must not happen to others."""
    how = {(trial.on.value, trial.what): findings.noticed[trial] for trial in governed(findings)}

    assert any(id.startswith("FRAME-") for id in how["insert", What.PLACE])
    assert any(id.startswith("FRAME-") for id in how["tick", What.DEMOTE])


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, id=kind.name, marks=[pytest.mark.nightly] * (kind.name in ("ranks", "component")))
        for kind in frame.KINDS
    ],
)
def test_what_calls_on_other_caches_must_not_change_is_noticed(kind: frame.Kind) -> None:
    """A sample: what shows at once, in one configuration; what is known to show later, or not, is left out."""
    target, configs = kind.plays[0]
    cells = frame.shown(kind._replace(plays=((target, configs[:1]),)), seeds=1, most=1)
    kept = frame.kept(kind)
    silent = [cell for cell in cells.silent if cell.on not in frame.cells_of(kept[cell.how], disturb_kinds.LATER)]

    assert len(cells.made) - len(cells.silent) >= 100
    assert [cell for cell in silent if not kind.excuse(cell)] == []


@pytest.mark.parametrize("kind", frame.KINDS, ids=lambda kind: kind.name)
def test_each_cell_of_other_caches_is_kept_and_none_is_missed(kind: frame.Kind) -> None:
    kept = frame.kept(kind)
    reached = {on for on in ELSEWHERE if on.removeprefix("refused_").startswith(f"{kind.name}_")}

    assert list(kept) == [way.how for way in kind.ways]
    for how, outcomes in kept.items():
        named = [On(call) for outcome in outcomes for call in frame.cells_of(outcomes, outcome)]
        assert disturb_kinds.MISSED not in outcomes, how
        assert sorted(named) == sorted(reached), how


@pytest.mark.parametrize(
    ("module", "state"),
    [(component_disturbances, State), (sparse_disturbances, SparseState), (rank_disturbances, RankView)],
)
def test_each_part_of_a_state_is_disturbed_or_it_is_said_why_not(module: ModuleType, state: type[NamedTuple]) -> None:
    ways = [way.how for way in module.WAYS]

    assert set(state._fields) == module.GROUPS.keys() | module.NOT_DISTURBED.keys()
    assert not module.GROUPS.keys() & module.NOT_DISTURBED.keys()
    assert [start for start in module.GROUPS.values() if not any(how.startswith(start) for how in ways)] == []
    assert all(module.NOT_DISTURBED.values())


@pytest.mark.parametrize("tier", ["device", "host"])
def test_each_part_of_a_tier_is_disturbed(tier: str) -> None:
    ways, parts = [way.how for way in component_disturbances.WAYS], component_disturbances.OF_A_TIER

    assert set(Tier._fields) == parts.keys()
    assert [part for part in parts.values() if not any(how.startswith(f"{tier}: {part}") for how in ways)] == []


def test_components_of_every_shape_are_disturbed() -> None:
    assert {shape for _, shape in component_disturbances.SHAPES} == set(get_args(Shape))


def test_what_notices_a_cell_of_other_caches_is_a_rule() -> None:
    rules = all_rules()

    for kind in frame.KINDS:
        for how, outcomes in frame.kept(kind).items():
            for outcome in (disturb_kinds.NOTICED, disturb_kinds.LATER):
                for call, named in frame.cells_of(outcomes, outcome).items():
                    assert named, (how, call)
                    assert set(named) <= rules.keys(), (how, call)


def test_every_excuse_is_needed() -> None:
    for kind in frame.KINDS:
        used = {
            kind.excuse(Cell(On(call), how))
            for how, outcomes in frame.kept(kind).items()
            for outcome in (disturb_kinds.LEGAL, disturb_kinds.OPEN)
            for call in frame.cells_of(outcomes, outcome)
        }
        assert used == {one.why for one in kind.changes.EXCUSES}, kind.name
