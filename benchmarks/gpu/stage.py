"""Stages, and the record of what they find.

A run is a list of stages.  Each has a limit in seconds, which its loops ask for by :meth:`Bench.left` and which
:mod:`benchmarks.gpu.parent` enforces.  The record is written, whole and atomically, after every stage, and by a stage
itself after every row.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.record import Goal, write

if TYPE_CHECKING:
    from benchmarks.gpu.device import Machine

CORRECT, INCORRECT, HARNESS, NO_DEVICE, INTERRUPTED = 0, 1, 3, 4, 130
"""Exit codes.  A goal that is missed is a result, not an error."""


class Skip(Exception):
    """A stage can't be done here; says why, and the record repeats it."""


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
    live: bool = False
    troubles: list[str] = field(default_factory=list)
    """What failed of a stage that went on all the same."""
    ended: dict[str, str] = field(default_factory=dict)
    """How a stage ended; empty before that."""

    def check(self, name: str, cases: int, wrong: list[str], note: str = "") -> None:
        """One kind of correctness check: how many cases, and which of them were wrong."""
        self.checks.append(
            {"check": name, "cases": cases, "wrong": wrong[:20], "wrong_cases": len(wrong), "note": note}
        )
        self._noted()

    def row(self, table: str, **facts: Any) -> dict[str, Any]:
        """One measured row; numbers are rounded where they are printed, not here."""
        made = {"table": table, **facts}
        self.rows.append(made)
        self._noted()
        return made

    def goal(self, goal: Goal) -> None:
        """A goal of the table; what a dry run would say of it means nothing, and is counted only."""
        if self.head.get("dry"):
            self.head["goals_not_judged"] = self.head.get("goals_not_judged", 0) + 1
        else:
            self.goals.append(goal)
        self._noted()

    def _noted(self) -> None:
        """Something was added; what a stage has found must be there even if it never ends."""
        if self.live:
            self.write()

    def absorb(self, found: dict[str, Any]) -> None:
        """Add what a stage has written (:meth:`data`), whether or not it came to its end."""
        self.checks += found["checks"]
        self.rows += found["rows"]
        self.unfinished += found["unfinished"]
        self.goals += [Goal(**goal) for goal in found["goals"]]
        for name, value in found["head"].items():
            if name == "goals_not_judged":
                self.head[name] = self.head.get(name, 0) + value
            elif isinstance(value, dict):
                self.head.setdefault(name, {}).update(value)
            elif name != "dry":
                self.head[name] = value

    def tried(self, table: str, facts: dict[str, Any], measure: Callable[[], dict[str, Any] | None]) -> bool:
        """Make a row of what ``measure`` finds; if it fails, the row says why, and the rest of the table goes on."""
        try:
            found = measure()
        except (Skip, RuntimeError, ValueError, OSError, AttributeError) as trouble:
            self.failed(table, facts, trouble)
            return False
        if found is not None:
            self.row(table, **facts, **found)
        return True

    def failed(self, table: str, facts: dict[str, Any], trouble: Exception) -> None:
        """Make a row that says why there is no figure."""
        said = f"{type(trouble).__name__}: {str(trouble).partition(chr(10))[0][:200]}"
        if isinstance(trouble, Skip):
            said = str(trouble)
        else:
            self.troubles.append(f"{facts.get('name', table)}: {said}")
            said = f"failed: {said}"
        self.row(table, **facts, note=said)

    def of(self, table: str) -> list[dict[str, Any]]:
        """The rows of one table."""
        return [row for row in self.rows if row["table"] == table]

    def data(self) -> dict[str, Any]:
        """The record as it is written."""
        return {
            **({"head": self.head, "ended": self.ended} if self.live else self.head),
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
        write(self.path, self.data())

    def code(self) -> int:
        """The exit code of what has been recorded."""
        if any(check["wrong_cases"] for check in self.checks):
            return INCORRECT
        outcomes = {stage["outcome"] for stage in self.stages}
        if self.unfinished or outcomes & {"failed", "hung"}:
            return HARNESS
        if self.interrupted or "interrupted" in outcomes:
            return INTERRUPTED
        return CORRECT if outcomes <= {"ok"} else HARNESS


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

    def prepare(self) -> None:
        """What a stage that uses the device has at hand."""
        from benchmarks.gpu.device import Machine

        self.kept.setdefault("machine", Machine(self.device, self.seed))
        self.kept.setdefault("chunk_sizes", [512, 4096] if self.dry else [128 << 10, 32 << 10, 8 << 10])

    @property
    def machine(self) -> Machine:
        """The device that is measured."""
        made: Machine = self.kept["machine"]
        return made

    def ceiling(self, way: str) -> float | None:
        """GB/s of a plain copy this way; ``None`` where none was measured."""
        found: dict[str, float] = self.kept.get("ceiling", {})
        return found.get(way)

    def left(self) -> float:
        """Seconds that the running stage, and the run as a whole, still have."""
        return min(self.ends, self.overall) - time.monotonic()

    def short(self, seconds: float) -> bool:
        """Whether less than so many seconds are left; a dry run is never short of time."""
        return self.left() < seconds and not self.dry

    def repeats(self, wanted: int) -> int:
        """Repeats of a measurement: as wanted, fewer in a dry run or when time runs out, never under two."""
        return 2 if self.dry or self.left() < 3.0 else wanted


@dataclass(frozen=True)
class Stage:
    """One part of a run.

    seconds: after which it is killed.  group: stages of one group run at once.  needs: stages without which it is not
    run.  machine: whether it uses the device itself.
    """

    name: str
    seconds: float
    work: Callable[[Bench], None]
    group: str = ""
    needs: tuple[str, ...] = ("preflight",)
    machine: bool = True


def budget(stages: list[Stage]) -> float:
    """Seconds that a run takes at most: of a group its longest stage."""
    groups = groupby(stages, key=lambda stage: stage.group or stage.name)
    return sum(max(stage.seconds for stage in group) for _, group in groups)
