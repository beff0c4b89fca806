"""What a run of the tests leaves behind, for whoever asks later whether it was made: ``--record FILE``.

    .venv/bin/python -m pytest -m nightly --record .kvlitmus/nightly.json

The file says when, of which commit (``+``: with changes), with which versions, how many tests passed, failed and were
skipped, and why, and what took longest.  It is saved as it grows: of a run that was cut short ``exit`` is ``null``.
"""

from __future__ import annotations

import os
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from benchmarks import record

PACKAGES = ("pytest", "hypothesis", "crosshair-tool", "z3-solver", "numpy", "numba", "torch", "triton", "redis")
"""What the tests rest on: what is missing is left out, and its tests are among those that were skipped."""
SLOWEST = 20
EVERY = 30.0
"""Seconds between two times that the record is saved."""


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

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count what passed, failed (in whichever phase) and was skipped."""
        self.seconds[report.nodeid] += report.duration
        if report.failed:
            self.outcomes["failed"] += 1
            self.failed.append(f"{report.nodeid} ({report.when})")
        elif report.skipped:
            self.outcomes["skipped"] += 1
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self.skipped[reason.removeprefix("Skipped: ")] += 1
        elif report.when == "call":
            self.outcomes["passed"] += 1
        if time.monotonic() - self.saved > EVERY:
            self.save(None)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Write down how it ended; the processes that ran tests have ended by then, and their time is counted."""
        self.save(int(exitstatus))

    def save(self, code: int | None) -> None:
        """Write the file; ``code``: with which the run ends, if it does."""
        self.saved = time.monotonic()
        used = os.times()
        slowest = sorted(self.seconds, key=lambda test: -self.seconds[test])
        found: dict[str, Any] = {
            **self.stamp,
            "exit": code,
            "seconds": round(self.saved - self.began),
            "processor_seconds": round(sum(used[:4])),
            **{name: self.outcomes[name] for name in ("passed", "failed", "skipped")},
            "failures": self.failed,
            "reasons": dict(self.skipped.most_common()),
            "slowest": {test: round(self.seconds[test], 1) for test in slowest[:SLOWEST]},
        }
        record.write(self.file, found)
