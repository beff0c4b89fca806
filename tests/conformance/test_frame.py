"""The self-test of the table of actions: a specimen is disturbed behind its calls, and the frame notices."""

from __future__ import annotations

import pytest

from kvlitmus.conformance.run import plan
from kvlitmus.mutants.disturb import UNCHANGED, UNREACHED, Findings, guarded
from kvlitmus.mutants.disturbances import DISTURBANCES, LEFT_OUT, WRONG_SUBJECTS
from kvlitmus.spec.actions import ACTIONS, What
from kvlitmus.spec.config import Config
from tools import frame

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
