"""The record of a run: what passed, failed and was skipped, of which commit, and that it says when it was cut short."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.support import record

Ended = Literal["passed", "failed", "skipped"]


def report(test: str, outcome: Ended, when: Literal["setup", "call", "teardown"] = "call") -> pytest.TestReport:
    reason: Any = ("file", 1, "Skipped: no GPU") if outcome == "skipped" else None
    return pytest.TestReport(test, ("file", 1, test), {}, outcome, reason, when, duration=2.0)


def test_a_record_counts_and_says_what_it_is_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "EVERY", 0.0)
    one = record.Record(tmp_path / "night" / "record.json", ("-m", "nightly"))
    for test in ("a", "b", "c"):
        one.pytest_runtest_logreport(report(test, "passed", "setup"))
    one.pytest_runtest_logreport(report("a", "passed"))
    one.pytest_runtest_logreport(report("a", "failed", "teardown"))
    one.pytest_runtest_logreport(report("b", "skipped"))
    one.pytest_runtest_logreport(report("c", "passed"))
    early = json.loads(one.file.read_text())
    one.pytest_sessionfinish(1)
    found = json.loads(one.file.read_text())

    assert early["exit"] is None
    assert found["exit"] == 1
    assert (found["passed"], found["failed"], found["skipped"]) == (2, 1, 1)
    assert found["failures"] == ["a (teardown)"]
    assert found["reasons"] == {"no GPU": 1}
    assert found["slowest"]["a"] == 6.0
    assert found["arguments"] == ["-m", "nightly"]
    assert {"date", "commit", "machine"} <= found.keys()
    assert {"python", "pytest", "hypothesis"} <= found["versions"].keys()
