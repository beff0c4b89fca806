"""The record of a run: what passed, failed and was skipped, of which commit, and that it says when it was cut short."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, cast

import pytest

from tests.support import record
from tests.test_layout import ROOT

Ended = Literal["passed", "failed", "skipped"]


def report(test: str, outcome: Ended, when: Literal["setup", "call", "teardown"] = "call") -> pytest.TestReport:
    reason: Any = ("file", 1, "Skipped: no GPU") if outcome == "skipped" else None
    return pytest.TestReport(test, ("file", 1, test), {}, outcome, reason, when, duration=2.0)


def session() -> pytest.Session:
    return cast(pytest.Session, SimpleNamespace(exitstatus=None))


def at(commit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.record.stamp", lambda date: {"date": date, "commit": commit})


def cut_short(folder: Path, *, failed: bool = False) -> None:
    """A run that ended between two tests and amid a third one."""
    one = record.Record(folder / "record.json", ("-m", "nightly"))
    for test in ("a", "b"):
        one.pytest_runtest_logreport(report(test, "failed" if failed and test == "b" else "passed"))
        one.pytest_runtest_logreport(report(test, "passed", "teardown"))
    one.pytest_runtest_logreport(report("c", "passed", "setup"))
    one.pytest_sessionfinish(session(), pytest.ExitCode.INTERRUPTED)


def test_the_same_command_goes_on_where_it_was_cut_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at("abc", monkeypatch)
    cut_short(tmp_path)
    assert json.loads((tmp_path / "record.json").read_text())["exit"] == 2
    again = record.Record(tmp_path / "record.json", ("-m", "nightly"))
    assert again.done == {"a", "b"}
    again.pytest_runtest_logreport(report("c", "passed"))
    again.pytest_sessionfinish(session(), pytest.ExitCode.OK)
    found = json.loads(again.file.read_text())
    assert (found["exit"], found["passed"], found["sittings"]) == (0, 3, 2)
    assert not again.kept.exists(), "the next run begins anew"
    assert not record.Record(tmp_path / "record.json", ("-m", "nightly")).done


@pytest.mark.parametrize("left", [("c",), ()], ids=["something is left", "nothing is left"])
def test_what_has_failed_before_the_run_was_cut_short_has_failed(
    left: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at("abc", monkeypatch)
    cut_short(tmp_path, failed=True)
    again, ends = record.Record(tmp_path / "record.json", ("-m", "nightly")), session()
    for test in left:
        again.pytest_runtest_logreport(report(test, "passed"))
    again.pytest_sessionfinish(ends, pytest.ExitCode.OK if left else pytest.ExitCode.NO_TESTS_COLLECTED)
    found = json.loads(again.file.read_text())
    assert (found["exit"], found["failures"], ends.exitstatus) == (1, ["b (call)"], 1)


@pytest.mark.parametrize(
    ("commit", "arguments"), [("abd", ("-m", "nightly")), ("abc", ("-m", "nightly", "-x")), ("abc+", ("-m", "nightly"))]
)
def test_another_run_begins_anew(
    commit: str, arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at(commit if commit.endswith("+") else "abc", monkeypatch)
    cut_short(tmp_path)
    at(commit, monkeypatch)
    assert not record.Record(tmp_path / "record.json", arguments).done
    assert '["b", "teardown"' in (tmp_path / "record.json.tests.earlier").read_text(), "hours of work are kept"


def test_a_line_that_was_cut_short_is_a_test_that_has_not_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at("abc", monkeypatch)
    cut_short(tmp_path)
    kept = tmp_path / "record.json.tests"
    kept.write_text("\n".join(kept.read_text().splitlines()[:5])[:-3])
    assert record.Record(tmp_path / "record.json", ("-m", "nightly")).done == {"a"}


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
    one.pytest_sessionfinish(session(), 1)
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


def test_the_command_is_the_same_where_the_record_is_there(tmp_path: Path) -> None:
    (tmp_path / "record.json").write_text("{}")
    asked = [sys.executable, "-m", "pytest", "-m", "nightly", f"--record={tmp_path}/record.json", "--help"]
    done = subprocess.run(asked, cwd=ROOT, check=False, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
