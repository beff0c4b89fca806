"""What every measurement does: options, goals, what it ran on, and the file that it leaves.

A record is a JSON file, ``benchmarks/results/KIND-DATE.json``, with an SVG beside it where there is something to draw.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, is_dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
"""The checkout."""
RESULTS = ROOT / "benchmarks" / "results"


@dataclass(frozen=True)
class Goal:
    """What is wanted of one row, what was measured, and whether that is enough: ``None`` where it was not run.

    what: what of the row is meant; empty where that is all of it.  wanted: ``≥ 3`` or ``≤ 20 us``.
    """

    row: str
    what: str
    wanted: str
    measured: float | None
    met: bool | None


def at_least(row: str, what: str, wanted: float, measured: float | None, unit: str = "") -> Goal:
    """A goal that more is better of."""
    return _goal(row, what, f"≥ {wanted:g}{unit}", measured, measured is not None and measured >= wanted)


def at_most(row: str, what: str, wanted: float, measured: float | None, unit: str = "") -> Goal:
    """A goal that less is better of."""
    return _goal(row, what, f"≤ {wanted:g}{unit}", measured, measured is not None and measured <= wanted)


def _goal(row: str, what: str, wanted: str, measured: float | None, met: bool) -> Goal:
    return Goal(row, what, wanted, *((None, None) if measured is None else (round(measured, 4), met)))


def verdicts(goals: Iterable[Goal], titles: Mapping[str, str] | None = None) -> str:
    """One line per goal."""
    lines = []
    for goal in goals:
        mark = {True: "met", False: "MISSED", None: "not run"}[goal.met]
        measured = "" if goal.measured is None else f"{goal.measured:,g}"
        row = (titles or {}).get(goal.row, goal.row)
        lines.append(f"{mark:6} {row:40} {goal.what:48} {goal.wanted:>8}  {measured}")
    return "\n".join(lines)


def say(line: str) -> None:
    """Progress, on stderr, at once."""
    print(line, file=sys.stderr, flush=True)


def today() -> str:
    """The date in the files' names."""
    return datetime.now(UTC).strftime("%Y-%m-%d")


def parser(name: str, said: str | None, quick: str) -> argparse.ArgumentParser:
    """The options that measurements have in common; said: the docstring of the script; quick: what ``--quick`` does."""
    summary, _, rest = (said or "").partition("\n\n")
    made = argparse.ArgumentParser(
        prog=name, description=summary, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--quick", action="store_true", help=f"{quick}; nothing is written unless --into says where")
    made.add_argument("--date", default=today(), help="the date in the files' names (today)")
    made.add_argument("--into", type=Path, help="write results here (default: benchmarks/results)")
    return made


def path_of(given: argparse.Namespace, kind: str) -> Path | None:
    """Where a record of this kind goes; ``None`` where nothing is to be written."""
    into = given.into or (None if given.quick else RESULTS)
    return None if into is None else into / f"{kind}-{given.date}.json"


def write(path: Path, data: Mapping[str, Any], picture: str = "") -> None:
    """Replace a record, and the picture beside it, by a whole new one: a reader never sees half of it."""
    from kvlitmus.conformance.report.document import dump_report  # slow to import; what is timed here is without it

    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".json.part")
    plain = json.loads(json.dumps(_plain(data), default=str, allow_nan=False))
    beside.write_text(dump_report(plain), encoding="utf-8")
    beside.replace(path)
    if picture:
        path.with_suffix(".svg").write_text(picture, encoding="utf-8")


def _plain(value: Any) -> Any:
    """The same as JSON has it: dataclasses as tables, and no number that it hasn't got."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def commit() -> str:
    """The commit that was measured, with a plus where the checkout differs from it; empty outside of git."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+", "--exclude=*"]
    try:
        return subprocess.run(command, check=False, capture_output=True, text=True).stdout.strip()
    except OSError:
        return ""


def machine() -> dict[str, Any]:
    """What this runs on."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    model = next((line.partition(":")[2].strip() for line in lines if "model name" in line), "")
    return {"machine": platform.machine(), "cpu": model, "cores": os.cpu_count(), "system": platform.system()}


def versions(*packages: str) -> dict[str, str]:
    """Python and those of the packages that are installed."""
    found = {"python": platform.python_version()}
    for name in packages:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def stamp(date: str) -> dict[str, Any]:
    """When, of which commit, and on what something is measured: what every record begins with."""
    return {
        "date": date,
        "commit": commit(),
        "load_before": os.getloadavg(),
        "machine": machine(),
        "versions": versions(),
    }


def started(module: str, *arguments: str, python: str = sys.executable, **options: Any) -> subprocess.Popen[str]:
    """A process that runs a module of this folder, with one thread for arithmetic; see ``subprocess.Popen``."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    return subprocess.Popen([python, "-m", module, *arguments], env=environment, text=True, **options)
