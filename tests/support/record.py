"""What a run of the tests leaves behind, for whoever asks later whether it was made: ``--record=FILE``.

    .venv/bin/python -m pytest -m nightly --record=.kvlitmus/nightly.json

(Without ``=``, a FILE that is there already is taken for the tests to run, before pytest knows the option.)

The file says when, of which commit (``+``: with changes), with which versions, how many tests passed, failed and were
skipped, and why, and what took longest.  It is saved as it grows: of a run that was cut short ``exit`` is ``null``, or
2 after Ctrl-C.

What became of each test stands in ``FILE.tests`` until the run has come to its end.  The same command on the same
commit, without changes to it, goes on from there: a test that has ended isn't run again, whether it passed or failed.
Where FILE isn't there, or the command or the commit is another one, the run begins anew, and what an unfinished one has
left is kept as ``FILE.tests.earlier``.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from benchmarks import record

PACKAGES = ("pytest", "hypothesis", "crosshair-tool", "z3-solver", "numpy", "numba", "torch", "triton", "redis")
"""What the tests rest on: what is missing is left out, and its tests are among those that were skipped."""
SLOWEST = 10
EVERY = 30.0
"""Seconds between two times that the record is saved."""


DONE = "kvlitmus_done"
"""What a process that runs tests is told: the tests that need not run."""


class Ended(NamedTuple):
    """One phase of a test, as it is kept; ``reason``: why it was skipped."""

    test: str
    when: str
    outcome: str
    seconds: float
    reason: str = ""


def deselect(config: pytest.Config, items: list[pytest.Item], done: set[str]) -> None:
    """Leave out the tests that have ended."""
    gone = [item for item in items if item.nodeid in done]
    if gone:
        items[:] = [item for item in items if item.nodeid not in done]
        config.hook.pytest_deselected(items=gone)


class Record:
    """A plugin that counts what becomes of each test, and writes it down."""

    def __init__(self, file: Path, arguments: tuple[str, ...]) -> None:
        self.file = file
        self.began = self.saved = time.monotonic()
        self.outcomes: Counter[str] = Counter()
        self.failed: list[str] = []
        self.skipped: Counter[str] = Counter()
        self.seconds: dict[str, float] = defaultdict(float)
        self.stamp = {
            "kind": "kvlitmus tests",
            **record.stamp(record.today()),
            "versions": record.versions(*PACKAGES),
            "arguments": list(arguments),
        }
        self.before = {"seconds": 0, "processor_seconds": 0, "sittings": 0}
        self.done: set[str] = set()
        self.begin_or_go_on()

    # -- runs that were cut short --------------------------------------------------------------

    @property
    def kept(self) -> Path:
        """Where each test's end stands until the run's."""
        return self.file.with_name(self.file.name + ".tests")

    def begin_or_go_on(self) -> None:
        """Take over what an earlier run of the same command has come to, or begin anew."""
        same = {name: self.stamp[name] for name in ("commit", "versions", "arguments")}
        lines = self.kept.read_text(encoding="utf-8").splitlines() if self.kept.exists() else []
        told = [json.loads(line) for line in lines if line.endswith(("]", "}"))]  # the last one may be cut short
        if told and told[0] == same and self.file.exists() and not str(self.stamp["commit"]).endswith("+"):
            ended = [Ended(*line) for line in told[1:]]
            self.done = {one.test for one in ended if one.when == "teardown"}
            told[1:] = [one for one in ended if one.test in self.done]
            for one in told[1:]:
                self.count(one)
            earlier = json.loads(self.file.read_text(encoding="utf-8"))
            self.before = {name: earlier[name] for name in self.before}
        else:
            if len(told) > 1:
                self.kept.replace(self.kept.with_name(self.kept.name + ".earlier"))
            told = [same]
        self.kept.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.kept.with_name(self.kept.name + ".new")
        fresh.write_text("".join(json.dumps(line) + "\n" for line in told), encoding="utf-8")
        fresh.replace(self.kept)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a process what has ended: the same to each, also to one that replaces another."""
        node.workerinput[DONE] = sorted(self.done)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Where this process runs the tests itself."""
        deselect(config, items, self.done)

    # -- one run -------------------------------------------------------------------------------

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count what passed, failed (in whichever phase) and was skipped."""
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        skipped = reason.removeprefix("Skipped: ") if report.skipped else ""
        one = Ended(report.nodeid, str(report.when), report.outcome, round(report.duration, 3), skipped)
        self.count(one)
        with self.kept.open("a", encoding="utf-8") as file:
            file.write(json.dumps(one) + "\n")
        if time.monotonic() - self.saved > EVERY:
            self.save(None)

    def count(self, one: Ended) -> None:
        """Count one phase of a test."""
        self.seconds[one.test] += one.seconds
        if one.outcome == "failed":
            self.outcomes["failed"] += 1
            self.failed.append(f"{one.test} ({one.when})")
        elif one.outcome == "skipped":
            self.outcomes["skipped"] += 1
            self.skipped[one.reason] += 1
        elif one.when == "call":
            self.outcomes["passed"] += 1

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Write down how it ended; the processes that ran tests have ended by then, and their time is counted.

        Where all that was left passed, or nothing was, what an earlier run has found decides.
        """
        ended = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) or (
            exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and bool(self.done)
        )
        if ended:
            session.exitstatus = exitstatus = int(bool(self.failed))
        self.save(int(exitstatus))
        if ended:
            self.kept.unlink()

    def save(self, code: int | None) -> None:
        """Write the file; ``code``: with which the run ends, if it does."""
        self.saved = time.monotonic()
        used = os.times()
        slowest = sorted(self.seconds, key=lambda test: -self.seconds[test])
        found: dict[str, Any] = {
            **self.stamp,
            "exit": code,
            "seconds": self.before["seconds"] + round(self.saved - self.began),
            "processor_seconds": self.before["processor_seconds"] + round(sum(used[:4])),
            "sittings": self.before["sittings"] + 1,
            **{name: self.outcomes[name] for name in ("passed", "failed", "skipped")},
            "failures": self.failed,
            "reasons": dict(self.skipped.most_common()),
            "slowest": {test: round(self.seconds[test], 1) for test in slowest[:SLOWEST]},
        }
        record.write(self.file, found)
