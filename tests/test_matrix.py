"""The traceability matrix has no unexplained hole, and its checks find what they are for."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path

import pytest

from tools import matrix

pytestmark = pytest.mark.timeout(900)  # whichever test comes first collects the evidence: half a minute of computing

RULES = matrix.ordered_rules()


@pytest.fixture(scope="module")
def found() -> matrix.Evidence:
    return matrix.collect(RULES)


@pytest.fixture(scope="module")
def reasons() -> list[matrix.Reason]:
    reasons, complaints = matrix.read_reasons(matrix.REASONS.read_text(encoding="utf-8"))
    assert complaints == []
    return reasons


@pytest.mark.nightly
def test_every_cell_is_filled_or_excused(found: matrix.Evidence, reasons: list[matrix.Reason]) -> None:
    assert matrix.check(RULES, found, reasons) == []


def test_the_proofs_need_z3() -> None:
    """Without it the matrix would lack lemmas, and this test says so before the one above does."""
    pytest.importorskip("z3", reason="the matrix is made where the extra 'proof' is installed")


@pytest.mark.nightly
@pytest.mark.parametrize("column", matrix.COLUMNS)
def test_an_empty_cell_is_found(found: matrix.Evidence, reasons: list[matrix.Reason], column: str) -> None:
    hole = copy.deepcopy(found)
    del hole.cells[column]["EVICT-05"]
    (complaint,) = matrix.check(RULES, hole, reasons)
    assert complaint.startswith(f"EVICT-05: nothing under '{matrix.TITLES[column]}'")
    assert matrix.check(RULES, hole, [*reasons, matrix.Reason("EVICT-05", column, "planted")]) == []
    assert "**missing**" in matrix.render(RULES, hole, reasons)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (matrix.Reason("EVICT-05", "litmus", "stale"), "matrix_reasons.toml excuses EVICT-05 for 'litmus'"),
        (matrix.Reason("EVICT-99", "litmus", "unknown"), "matrix_reasons.toml names EVICT-99"),
        (matrix.Reason("PORT-01", "litmus", "again"), "matrix_reasons.toml excuses the same cell twice"),
    ],
)
def test_a_wrong_reason_is_found(
    found: matrix.Evidence, reasons: list[matrix.Reason], reason: matrix.Reason, expected: str
) -> None:
    (complaint,) = matrix.check(RULES, found, [*reasons, reason])
    assert complaint.startswith(expected)


@pytest.mark.parametrize(
    "text",
    [
        '[[reason]]\nrules = ["POOL-01"]\ncell = "litmus"',
        '[[reason]]\nrules = ["POOL-01"]\ncell = "litmus"\nreason = " "',
        '[[reason]]\nrules = []\ncell = "litmus"\nreason = "why"',
        '[[reason]]\nrules = "POOL-01"\ncell = "litmus"\nreason = "why"',
        '[[reason]]\nrules = ["POOL-01"]\ncell = "fuzz"\nreason = "why"',
        '[[reason]]\nrules = ["POOL-01"]\ncell = "litmus"\nreason = "why"\nuntil = "1.0"',
    ],
)
def test_a_malformed_reason_is_found(text: str) -> None:
    reasons, complaints = matrix.read_reasons(text)
    assert reasons == []
    assert len(complaints) == 1


def test_evidence_about_what_is_no_rule_is_found() -> None:
    none = matrix.Evidence()
    none.add("litmus", RULES, "POOL-99", "pool/planted", "litmus test pool/planted")
    assert none.complaints == ["litmus test pool/planted names POOL-99, which is no rule"]


@pytest.mark.parametrize("name", ["pool.nowhere", "nowhere.allocate", "allocate"])
def test_a_function_that_the_reference_lacks_is_found(name: str) -> None:
    none = matrix.Evidence()
    matrix.find_references({"POOL-01": replace(RULES["POOL-01"], reference=name)}, none)
    assert none.complaints == [f"POOL-01 names the reference's {name}, which isn't there"]


def test_reports_are_read(tmp_path: Path) -> None:
    rows = [{"id": "POOL-01", "verdict": "passed"}, {"id": "POOL-02", "verdict": "not_applicable"}]
    report = {"kind": "kvlitmus report", "stamps": {"target": {"name": "planted"}}, "rules": rows}
    (tmp_path / "planted.json").write_text(json.dumps(report), encoding="utf-8")
    (tmp_path / "other.json").write_text("[]", encoding="utf-8")
    none = matrix.Evidence()
    matrix.read_reports(RULES, none, tmp_path)
    assert none.targets == {"POOL-01": ["planted: passed"]}
