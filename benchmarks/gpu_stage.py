"""Stages, their budgets, and the record that is written after each of them.

A run is a list of stages.  Each has a budget in seconds, which its loops ask for by :meth:`Bench.left`, and the whole
has a limit that a watchdog enforces: what a hanging kernel or a lost machine cuts off, is what had not been measured
yet.  The record is written, whole and atomically, after every stage.
"""

from __future__ import annotations

import json
import math
import os
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

CORRECT, INCORRECT, HARNESS, NO_DEVICE, INTERRUPTED = 0, 1, 3, 4, 130
"""Exit codes.  A goal that is missed is a result, not an error."""


class Skip(Exception):
    """A stage can't be done here; says why, and the record repeats it."""


@dataclass(frozen=True)
class Goal:
    """What is wanted of one row of the table, what was measured, and whether that is enough."""

    row: str
    wanted: str
    measured: float
    unit: str
    met: bool


def at_least(row: str, wanted: float, measured: float, unit: str) -> Goal:
    """A goal that more is better of."""
    return Goal(row, f">= {wanted:g}", round(measured, 4), unit, measured >= wanted)


def at_most(row: str, wanted: float, measured: float, unit: str) -> Goal:
    """A goal that less is better of."""
    return Goal(row, f"<= {wanted:g}", round(measured, 4), unit, measured <= wanted)


def _plain(value: Any) -> Any:
    """The same without numbers that JSON hasn't got."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@dataclass
class Record:
    """Everything a run has found out so far; ``path`` is ``None`` where nothing may be written."""

    path: Path | None
    head: dict[str, Any] = field(default_factory=dict)
    stages: list[dict[str, Any]] = field(default_factory=list)
    checks: list[dict[str, Any]] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    goals: list[Goal] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)
    interrupted: bool = False

    def check(self, name: str, cases: int, wrong: list[str], note: str = "") -> None:
        """One kind of correctness check: how many cases, and which of them were wrong."""
        self.checks.append(
            {"check": name, "cases": cases, "wrong": wrong[:20], "wrong_cases": len(wrong), "note": note}
        )

    def row(self, table: str, **facts: Any) -> dict[str, Any]:
        """One measured row; numbers are rounded where they are printed, not here."""
        made = {"table": table, **facts}
        self.rows.append(made)
        return made

    def goal(self, goal: Goal) -> None:
        """A goal of the table; what a dry run would say of it means nothing, and is counted only."""
        if self.head.get("dry"):
            self.head["goals_not_judged"] = self.head.get("goals_not_judged", 0) + 1
        else:
            self.goals.append(goal)

    def tried(self, table: str, facts: dict[str, Any], measure: Callable[[], dict[str, Any] | None]) -> bool:
        """Make a row of what ``measure`` finds; if it fails, the row says why, and the rest of the table goes on."""
        try:
            found = measure()
        except (RuntimeError, ValueError, OSError) as trouble:
            self.row(
                table, **facts, note=f"failed: {type(trouble).__name__}: {str(trouble).partition(chr(10))[0][:200]}"
            )
            return False
        if found is not None:
            self.row(table, **facts, **found)
        return True

    def of(self, table: str) -> list[dict[str, Any]]:
        """The rows of one table."""
        return [row for row in self.rows if row["table"] == table]

    def data(self) -> dict[str, Any]:
        """The record as it is written."""
        return {
            **self.head,
            "stages": self.stages,
            "checks": self.checks,
            "unfinished": self.unfinished,
            "goals": [asdict(goal) for goal in self.goals],
            "rows": self.rows,
        }

    def write(self) -> None:
        """Replace the file by a whole new one: a reader never sees half a record."""
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_suffix(".json.part")
        beside.write_text(json.dumps(_plain(self.data()), indent=1, default=str, allow_nan=False) + "\n")
        beside.replace(self.path)

    def code(self) -> int:
        """The exit code of what has been recorded."""
        if any(check["wrong_cases"] for check in self.checks):
            return INCORRECT
        if self.unfinished or any(stage["outcome"] in ("failed", "cut off") for stage in self.stages):
            return HARNESS
        if self.interrupted or any(stage["outcome"] == "interrupted" for stage in self.stages):
            return INTERRUPTED
        return CORRECT


@dataclass
class Bench:
    """What every stage works with.

    ``dry``: CPU tensors of tiny sizes, so that the script itself can be tested; its figures mean nothing.
    """

    device: str
    dry: bool
    record: Record
    root: Path
    seed: int = 0
    ends: float = 0.0
    overall: float = 0.0
    kept: dict[str, Any] = field(default_factory=dict)

    def left(self) -> float:
        """Seconds that the running stage, and the run as a whole, still have."""
        return min(self.ends, self.overall) - time.monotonic()

    def repeats(self, wanted: int) -> int:
        """Repeats of a measurement: as wanted, fewer in a dry run or when time runs out, never under two."""
        return 2 if self.dry or self.left() < 3.0 else wanted


@dataclass(frozen=True)
class Stage:
    """One part of a run, with the seconds it may take."""

    name: str
    seconds: float
    work: Callable[[Bench], None]


GRACE = 5.0
"""Seconds after the limit in which a stage may still return by itself."""


def run(bench: Bench, stages: list[Stage], limit: float, say: Callable[[str], None], grace: float = GRACE) -> None:
    """Run the stages one after another; whatever happens in one, the record is written and the next begins.

    limit: seconds for all of them; stages that would begin later are not run, and one that has not returned ``grace``
    later ends the process.
    """
    bench.overall = time.monotonic() + limit
    with_watchdog = _Watchdog(bench.record, limit + grace, say)
    try:
        for stage in stages:
            outcome = _one(bench, stage, say)
            bench.record.write()
            if outcome == "interrupted":
                return
    except KeyboardInterrupt:  # between two stages, or where one begins or ends
        for entry in bench.record.stages[-1:]:
            if entry["outcome"] == "running":
                entry.update(outcome="interrupted", note="interrupted")
        bench.record.interrupted = True
        bench.record.write()
    finally:
        with_watchdog.cancel()


def _one(bench: Bench, stage: Stage, say: Callable[[str], None]) -> str:
    begun = time.monotonic()
    entry: dict[str, Any] = {"stage": stage.name, "outcome": "running", "seconds": 0.0, "note": ""}
    bench.record.stages.append(entry)
    if begun >= bench.overall:
        entry.update(outcome="not run", note="the run's time was used up")
        say(f"-- {stage.name}: not run, the run's time was used up")
        return "not run"
    bench.ends = begun + stage.seconds
    say(f"-- {stage.name} (at most {stage.seconds:.0f} s)")
    try:
        stage.work(bench)
        entry["outcome"] = "done"
    except Skip as skip:
        entry.update(outcome="skipped", note=str(skip))
    except KeyboardInterrupt:
        entry.update(outcome="interrupted", note="interrupted")
    except Exception as error:  # noqa: BLE001 (one stage's failure must not cost the others)
        entry.update(outcome="failed", note=f"{type(error).__name__}: {error}", trace=traceback.format_exc()[-4_000:])
    entry["seconds"] = round(time.monotonic() - begun, 2)
    say(f"   {entry['outcome']} in {entry['seconds']:.1f} s{': ' + entry['note'] if entry['note'] else ''}")
    return str(entry["outcome"])


class _Watchdog:
    """Ends the process when the whole run is over its limit: a call that never returns can't be interrupted."""

    def __init__(self, record: Record, seconds: float, say: Callable[[str], None]) -> None:
        self._record = record
        self._say = say
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True
        self._timer.start()

    def cancel(self) -> None:
        self._timer.cancel()

    def _end(self) -> None:
        for stage in self._record.stages:
            if stage["outcome"] == "running":
                stage.update(outcome="cut off", note="the run was over its limit and this stage did not return")
        self._record.write()
        self._say("cut off: the run was over its limit and a stage did not return")
        os._exit(INCORRECT if self._record.code() == INCORRECT else HARNESS)
