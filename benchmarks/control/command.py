"""The optimized cache's control plane beside SGLang's caches, on the CPU: every goal, measured in one run.

    .venv/bin/python benchmarks/control.py --trace conversation_trace.jsonl

The optimized cache and the caches of a release are measured in one process, in turn, the garbage collector
off; what counts is the least of many rounds, and a series whose median is more than twice its least is tried
again and marked noisy in the end.  SGLang's two releases can't share a process, so there is one for each, and
ratios are only taken within a process.  Tokens are the same for all, in the kind of array that each prefers.

The environments of the releases come from ``tools/peers --benchmarks``; without one, what needs it is not run.
The trace is Mooncake's conversation trace (``FAST25-release/traces/conversation_trace.jsonl`` of
``kvcache-ai/Mooncake``, Apache-2.0); without it that row is not run.  Results are written to
``benchmarks/results/control-DATE.json`` and ``.png``; with ``--update``, into one that is there, where each row says
when it was measured.  Exit codes: 0 every goal is met, 1 one is missed or not
run, 2 a usage error, 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.control import page
from benchmarks.control.goals import CORES, NEW, OLD, Goal, goals
from benchmarks.control.report import TITLES, draw, table, verdicts
from benchmarks.trace.mooncake import TraceError, load_trace

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
PEERS = ROOT / ".peers"
ALONE = "alone"
NOT_WITH_OLD = ("order", "memory", "sha", "cold", "pair")
WITH_TRACE = ("trace", "pair")
"""Rows in which no release takes part: measured once."""
PASSES = {NEW: {"3000000": 3, "50000000": 2}, OLD: {"3000000": 2, "50000000": 1}, ALONE: {"3000000": 3, "50000000": 2}}


def tell(what: str) -> None:
    """Progress, on stderr."""
    print(what, file=sys.stderr, flush=True)


def has_numba(python: str) -> bool:
    """Whether an interpreter can run the optimized cache."""
    code = "import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, ('numpy', 'numba'))))"
    try:
        return subprocess.run([python, "-c", code], check=False, capture_output=True).returncode == 0
    except OSError:
        return False


def interpreters(home: Path) -> tuple[dict[str, str], list[str]]:
    """Which interpreter measures which release, and why a release can't be measured."""
    found, missing = {}, []
    for release in (NEW, OLD):
        python = str(home / f"sglang-{release}" / "bin" / "python")
        if has_numba(python):
            found[release] = python
        else:
            missing.append(f"SGLang {release}: no usable {python} (tools/peers --benchmarks {release} makes it)")
    if not found and has_numba(sys.executable):
        found[ALONE] = sys.executable
    return found, missing


def expected(path: str, capacities: list[int], limit: int | None) -> dict[str, int]:
    """The reference's hit tokens."""
    from benchmarks.control.trace import expected as count
    from benchmarks.control.trace import requests

    trace = requests(path, limit)
    answer = {}
    for capacity in capacities:
        tell(f"the suite's own cache replays the trace with {capacity:,} tokens …")
        answer[str(capacity)] = count(trace, capacity)
    return answer


def run_worker(python: str, wanted: dict[str, Any]) -> dict[str, Any]:
    """Measure in another process; what it had finished counts even if it dies."""
    with tempfile.TemporaryDirectory(prefix="kvlitmus-") as folder:
        asked, result = Path(folder) / "wanted.json", Path(folder) / "result.json"
        asked.write_text(json.dumps(wanted), encoding="utf-8")
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        command = [python, "-m", "benchmarks.control.worker", str(asked), str(result)]
        done = subprocess.run(command, check=False, env=environment)
        found: dict[str, Any] = (
            json.loads(result.read_text(encoding="utf-8")) if result.exists() else {"versions": {}, "rows": {}}
        )
        for row in wanted["rows"]:
            found["rows"].setdefault(row, {"failed": f"the process ended with exit code {done.returncode}"})
        return found


def run_memory(python: str, quick: bool, into: Path | None, date: str) -> dict[str, Any]:
    """The row of memory, by its own script, which leaves its own results beside the others."""
    with tempfile.TemporaryDirectory(prefix="kvlitmus-") as folder:
        kept = Path(folder) if into is None else into
        command = [python, str(ROOT / "benchmarks" / "memory.py"), "--into", str(kept), "--date", date]
        done = subprocess.run([*command, *(["--quick"] if quick else [])], check=False, stdout=subprocess.DEVNULL)
        result = kept / f"memory-{date}.json"
        if done.returncode not in (0, 1) or not result.exists():
            return {"failed": f"benchmarks/memory.py ended with exit code {done.returncode}"}
        facts: dict[str, dict[str, float]] = {}
        for one in json.loads(result.read_text(encoding="utf-8"))["shapes"]:
            for what in ("bytes_per_page", "pages"):
                facts.setdefault(what + CORES[one["core"]], {})[one["name"]] = one[what]
        return {"cells": {}, "facts": facts}


def arguments() -> argparse.Namespace:
    """The command line."""
    summary, _, rest = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="control.py", description=summary, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", default=",".join(TITLES), help=f"which rows, with commas: {', '.join(TITLES)}")
    parser.add_argument("--trace", metavar="FILE", help="the conversation trace")
    parser.add_argument("--page", action="store_true", help="write the figures into docs/speed.md too")
    parser.add_argument("--quick", action="store_true", help="small and few: whether it runs, not how fast it is")
    parser.add_argument("--date", default=datetime.now(UTC).strftime("%Y-%m-%d"), help="the date in the files' names")
    parser.add_argument("--update", type=Path, metavar="FILE", help="put the rows into this result, beside its others")
    parser.add_argument("--into", type=Path, help="write results here (default: benchmarks/results; --quick: nowhere)")
    parser.add_argument("--peers", type=Path, default=PEERS, help="where the releases are (default: .peers)")
    given = parser.parse_args()
    if given.update is not None:
        given.into = given.update.parent
        reason = not_renewable(given.update)
        if reason:
            parser.error(f"{given.update} can't be updated: {reason}")
    given.into = given.into or (None if given.quick else RESULTS)
    if given.page and given.into is None:
        parser.error("--page shows results that are written: it goes with a whole run, or with --into")
    given.rows = [row.strip() for row in given.rows.split(",") if row.strip()]
    unknown = [row for row in given.rows if row not in TITLES]
    if unknown or not given.rows:
        parser.error(f"no such row: {', '.join(unknown) or '(none)'}; there are {', '.join(TITLES)}")
    if given.trace is not None and set(WITH_TRACE).intersection(given.rows):
        try:
            load_trace(given.trace)
        except TraceError as error:
            parser.error(str(error))
    return given


def not_renewable(path: Path) -> str:
    """Why rows can't be put into a result; empty where they can."""
    try:
        before = json.loads(path.read_text(encoding="utf-8"))["machine"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"it is no result of this script ({error!r})"
    return "" if before == machine() else f"it was measured on another machine ({before}, this is {machine()})"


def renewed(data: dict[str, Any], runs: dict[str, dict[str, Any]], stamp: dict[str, Any]) -> dict[str, Any]:
    """A result with these rows in it, which say when they were measured; a row that failed replaces none."""
    for release, run in runs.items():
        into = data["runs"].setdefault(release, {**run, "rows": {}})
        for row, found in run["rows"].items():
            if "failed" not in found:
                into["rows"][row] = {**found, "anew": {**stamp, "versions": run["versions"]}}
    found = goals({release: run["rows"] for release, run in data["runs"].items()})
    measured = {row for run in data["runs"].values() for row in run["rows"]} | {goal["row"] for goal in data["goals"]}
    return {**data, "goals": [asdict(goal) for goal in found if goal.row in measured]}


def measure(given: argparse.Namespace, found: dict[str, str]) -> dict[str, dict[str, Any]]:
    """All processes, one after the other."""
    rows = [row for row in given.rows if row != "memory" and (row not in WITH_TRACE or given.trace)]
    quick = 300 if given.quick else None
    counts = expected(given.trace, [3_000_000, 50_000_000], quick) if "trace" in rows else {}
    runs: dict[str, dict[str, Any]] = {}
    for number, (release, python) in enumerate(found.items()):
        mine = [row for row in rows if number == 0 or row not in NOT_WITH_OLD]
        if not mine and number:
            continue
        wanted = {
            "release": None if release == ALONE else release,
            "rows": mine,
            "quick": given.quick,
            "trace": given.trace,
            "passes": dict.fromkeys(PASSES[release], 1) if given.quick else PASSES[release],
            "expected": counts,
        }
        tell(f"process with {release}")
        runs[release] = run_worker(python, wanted)
        runs[release]["load"] = os.getloadavg()
    if "memory" in given.rows:
        tell("memory")
        first = next(iter(found))
        python = sys.executable if has_numba(sys.executable) else found[first]
        runs[first]["rows"]["memory"] = run_memory(python, given.quick, given.into, given.date)
    return runs


def commit() -> str:
    """The commit that was measured, with a plus where the checkout differs from it; empty outside of git."""
    done = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+", "--exclude=*"],
        check=False,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def machine() -> dict[str, Any]:
    """What this ran on."""
    model = ""
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line]
        model = lines[0] if lines else ""
    return {"machine": platform.machine(), "cpu": model, "cores": os.cpu_count(), "system": platform.system()}


def main() -> int:
    """The command; its exit code."""
    try:
        return run()
    except KeyboardInterrupt:
        tell("control.py: interrupted")
        return 130


def run() -> int:
    """Measure, print, write."""
    given = arguments()
    found, missing = interpreters(given.peers)
    for line in missing:
        tell(f"not run: {line}")
    if not found:
        tell("control.py: nothing can be measured: numpy and numba are needed (pip install numpy numba)")
        return 2
    if given.into is not None:
        given.into.mkdir(parents=True, exist_ok=True)
    before, measured = os.getloadavg(), commit()
    runs = measure(given, found)
    rows = {release: run["rows"] for release, run in runs.items()}
    wanted = [goal for goal in goals(rows) if goal.row in given.rows]
    print(table(rows, given.rows))
    print()
    print(verdicts(wanted))
    if given.into is not None:
        stamp = {
            "date": given.date,
            "command": f"benchmarks/control.py {'--quick ' if given.quick else ''}"
            f"{'--trace conversation_trace.jsonl ' if given.trace else ''}--rows {','.join(given.rows)}",
            "commit": measured,
            "load_before": before,
        }
        path = given.update or given.into / f"control-{given.date}.json"
        if given.update is not None:
            data = renewed(json.loads(path.read_text(encoding="utf-8")), runs, stamp)
        else:
            judged = [asdict(goal) for goal in wanted]
            data = {**stamp, "machine": machine(), "not_run": missing, "goals": judged, "runs": runs}
        path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        title = f"kvlitmus.optimized against its goals, {data['date']}, {data['machine']['cpu']}"
        reason = draw(path.with_suffix(".png"), [Goal(**goal) for goal in data["goals"]], title)
        if given.page:
            page.write(path)
        tell(f"results in {path}" + (f"; no picture: {reason}" if reason else " and .png"))
    return 0 if all(goal.met for goal in wanted) else 1
