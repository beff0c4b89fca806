"""The optimized cache's control plane beside SGLang's caches, on the CPU: every goal, measured in one run.

    .venv/bin/python benchmarks/control.py --trace conversation_trace.jsonl

The optimized cache and the caches of a release are measured in one process, in turn, the garbage collector
off; what counts is the least of many rounds, and a series whose median is more than twice its least is tried
again and marked noisy in the end.  SGLang's two releases can't share a process, so there is one for each, and
ratios are only taken within a process.  Tokens are the same for all, in the kind of array that each prefers.

The environments of the releases come from ``tools/peers --benchmarks``; without one, what needs it is not run.
The trace is Mooncake's conversation trace (``FAST25-release/traces/conversation_trace.jsonl`` of
``kvcache-ai/Mooncake``, Apache-2.0); without it that row is not run.  Results are written to
``benchmarks/results/control-DATE.json`` and ``.svg``; with ``--update``, into one that is there, where each row says
when it was measured.  Exit codes: 0 every goal is met, 1 one is missed or not
run, 2 a usage error, 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.control import page
from benchmarks.control.goals import NEW, OLD, WITH_COMPONENTS, goals
from benchmarks.control.report import TITLES, picture, table
from benchmarks.record import ROOT, Goal, machine, parser, path_of, say, stamp, started, verdicts, write
from benchmarks.trace.mooncake import TraceError, load_trace

PEERS = ROOT / ".peers"
ALONE = "alone"
NOT_WITH_OLD = ("order", "memory", "sha", "cold", "pair")
"""Rows in which no release takes part: measured once."""
NOT_WITH_OLD_TREES = ("tiers", "trace-tiers", *WITH_COMPONENTS)
"""Rows against a release's own hierarchy or components, which only the newer one has compiled."""
WITH_TRACE = ("trace", "trace-tiers", "pair")
PASSES = {
    NEW: {"3000000": 3, "50000000": 2, "tiers": 2},
    OLD: {"3000000": 2, "50000000": 1},
    ALONE: {"3000000": 3, "50000000": 2, "tiers": 2},
}
"""How often the trace is played, by the room that caches have."""


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
        say(f"the suite's own cache replays the trace with {capacity:,} tokens …")
        answer[str(capacity)] = count(trace, capacity)
    return answer


def run_worker(python: str, wanted: dict[str, Any]) -> dict[str, Any]:
    """Measure in another process; what it had finished counts even if it dies."""
    with tempfile.TemporaryDirectory(prefix="kvlitmus-") as folder:
        asked, result = Path(folder) / "wanted.json", Path(folder) / "result.json"
        write(asked, wanted)
        code = started("benchmarks.control.worker", str(asked), str(result), python=python).wait()
        found: dict[str, Any] = {"versions": {}, "rows": {}}
        if result.exists():
            found = json.loads(result.read_text(encoding="utf-8"))
        for row in wanted["rows"]:
            found["rows"].setdefault(row, {"failed": f"the process ended with exit code {code}"})
        return found


def arguments() -> argparse.Namespace:
    """The command line."""
    made = parser("control.py", __doc__, "small and few: whether it runs, not how fast it is")
    made.add_argument("--rows", default=",".join(TITLES), help=f"which rows, with commas: {', '.join(TITLES)}")
    made.add_argument("--trace", metavar="FILE", help="the conversation trace")
    made.add_argument("--page", action="store_true", help="write the figures into docs/speed.md too")
    made.add_argument("--update", type=Path, metavar="FILE", help="put the rows into this result, beside its others")
    made.add_argument("--peers", type=Path, default=PEERS, help="where the releases are (default: .peers)")
    given = made.parse_args()
    if given.update is not None and (reason := not_renewable(given.update)):
        made.error(f"{given.update} can't be updated: {reason}")
    given.path = given.update or path_of(given, "control")
    if given.page and given.path is None:
        made.error("--page shows results that are written: it goes with a whole run, or with --into")
    given.rows = [row.strip() for row in given.rows.split(",") if row.strip()]
    unknown = [row for row in given.rows if row not in TITLES]
    if unknown or not given.rows:
        made.error(f"no such row: {', '.join(unknown) or '(none)'}; there are {', '.join(TITLES)}")
    if given.trace is not None and set(WITH_TRACE).intersection(given.rows):
        try:
            load_trace(given.trace)
        except TraceError as error:
            made.error(str(error))
    return given


def not_renewable(path: Path) -> str:
    """Why rows can't be put into a result; empty where they can."""
    try:
        before = json.loads(path.read_text(encoding="utf-8"))["machine"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"it is no result of this script ({error!r})"
    return "" if before == machine() else f"it was measured on another machine ({before}, this is {machine()})"


def renewed(data: dict[str, Any], runs: dict[str, dict[str, Any]], begun: dict[str, Any]) -> dict[str, Any]:
    """A result with these rows in it, which say when they were measured; a row that failed replaces none."""
    for release, run in runs.items():
        into = data["runs"].setdefault(release, {**run, "rows": {}})
        for row, found in run["rows"].items():
            if "failed" not in found:
                into["rows"][row] = {**found, "anew": {**begun, "versions": run["versions"]}}
    found = goals({release: run["rows"] for release, run in data["runs"].items()})
    measured = {row for run in data["runs"].values() for row in run["rows"]} | {goal["row"] for goal in data["goals"]}
    return {**data, "goals": [asdict(goal) for goal in found if goal.row in measured]}


def measure(given: argparse.Namespace, found: dict[str, str]) -> dict[str, dict[str, Any]]:
    """All processes, one after the other."""
    rows = [row for row in given.rows if row not in WITH_TRACE or given.trace]
    quick = 300 if given.quick else None
    counts = expected(given.trace, [3_000_000, 50_000_000], quick) if "trace" in rows else {}
    runs: dict[str, dict[str, Any]] = {}
    for number, (release, python) in enumerate(found.items()):
        mine = [row for row in rows if number == 0 or row not in (*NOT_WITH_OLD, *NOT_WITH_OLD_TREES)]
        if not mine:
            continue
        wanted = {
            "release": None if release == ALONE else release,
            "quick": given.quick,
            "trace": given.trace,
            "passes": dict.fromkeys(PASSES[release], 1) if given.quick else PASSES[release],
            "expected": counts,
        }
        # What stands in for the rest of SGLang is another where a tree has components: a process of its own.
        apart = [row for row in mine if row in WITH_COMPONENTS]
        for some in ([row for row in mine if row not in apart], apart):
            if not some:
                continue
            say(f"process with {release}")
            run = run_worker(python, {**wanted, "rows": some})
            runs[release] = {**run, "rows": {**runs.get(release, run)["rows"], **run["rows"]}}
        runs[release]["load"] = os.getloadavg()
    return runs


def main() -> int:
    """The command; its exit code."""
    try:
        return run(arguments())
    except KeyboardInterrupt:
        say("control.py: interrupted")
        return 130


def run(given: argparse.Namespace) -> int:
    """Measure, print, write."""
    found, missing = interpreters(given.peers)
    for line in missing:
        say(f"not run: {line}")
    if not found:
        say("control.py: nothing can be measured: numpy and numba are needed (pip install numpy numba)")
        return 2
    rows = f"{'--trace conversation_trace.jsonl ' if given.trace else ''}--rows {','.join(given.rows)}"
    command = f"benchmarks/control.py {'--quick ' if given.quick else ''}{rows}"
    begun = {**stamp(given.date), "command": command}
    runs = measure(given, found)
    seen = {release: run["rows"] for release, run in runs.items()}
    wanted = [goal for goal in goals(seen) if goal.row in given.rows]
    print(table(seen, given.rows))
    print()
    print(verdicts(wanted, TITLES))
    if given.path is not None:
        data = {**begun, "not_run": missing, "goals": [asdict(goal) for goal in wanted], "runs": runs}
        if given.update is not None:
            data = renewed(json.loads(given.path.read_text(encoding="utf-8")), runs, begun)
        title = f"kvlitmus.optimized against its goals, {data['date']}, {data['machine']['cpu']}"
        write(given.path, data, picture([Goal(**goal) for goal in data["goals"]], title))
        if given.page:
            page.write(given.path)
        say(f"results in {given.path}")
    return 0 if all(goal.met for goal in wanted) else 1
