"""Writes the figures of one measurement into ``docs/speed.md``.

    .venv/bin/python -m benchmarks.control.page [benchmarks/results/control-DATE.json]

Without an argument it takes the newest one.  The tests hold page and file together.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.control.report import TITLES, figures
from benchmarks.record import RESULTS, ROOT

PAGE = ROOT / "docs" / "speed.md"
START, END = "<!-- figures: benchmarks/control/page.py -->\n", "<!-- end of figures -->\n"


def newest() -> Path:
    """The newest result that is there; raises ``SystemExit`` without one."""
    found = sorted(RESULTS.glob("control-*.json"))
    if not found:
        raise SystemExit("benchmarks.control.page: no benchmarks/results/control-*.json yet")
    return found[-1]


def rendered(data: Mapping[str, Any], name: str) -> str:
    """Everything between the two marks."""
    machine = data["machine"]
    cores = {run["versions"].get("core") for run in data["runs"].values()} - {None}
    met = sum(goal["met"] is True for goal in data["goals"])
    lines = [
        f"`benchmarks/results/{name}`: {data['date']}, commit `{data['commit']}`,",
        f"{machine['cpu']}, {machine['cores']} cores,",
        f"load average {data['load_before'][0]:.1f} when it began. {met} of {len(data['goals'])} goals are met.",
        f"*kvlitmus* runs on its core `{'` or `'.join(sorted(cores)) or 'python'}`.",
        *lacking(data),
        *anew(data["runs"]),
        "",
        *goal_table(data["goals"]),
        "",
        "Microseconds per call, the least of all rounds (the median in brackets); *noisy*: the median is more than",
        "twice the least.",
        "",
        *figure_table(data["runs"]),
    ]
    return "\n".join(lines) + "\n"


def lacking(data: Mapping[str, Any]) -> Iterator[str]:
    """Which rows are not among these figures: some results are older than some rows."""
    measured = {row for run in data["runs"].values() for row, found in run["rows"].items() if "failed" not in found}
    titles = [title for row, title in TITLES.items() if row not in measured]
    if titles:
        yield f"Not run: {'; '.join(titles)}."


def anew(runs: Mapping[str, Any]) -> Iterator[str]:
    """Which rows were measured after the others, when, and on how busy a machine."""
    found: dict[str, dict[str, None]] = {}
    for run in runs.values():
        for row, seen in run["rows"].items():
            if "anew" in seen:
                stamp = seen["anew"]
                when = f"{stamp['date']}, commit `{stamp['commit']}`, load average {stamp['load_before'][0]:.1f}"
                found.setdefault(when, {})[TITLES[row]] = None
    for when, titles in found.items():
        yield f"Measured after the others ({when}): {'; '.join(titles)}."


def goal_table(goals: list[Mapping[str, Any]]) -> Iterator[str]:
    """One line per goal."""
    yield "| work | what | goal | measured | |"
    yield "|---|---|---|---|---|"
    for goal in goals:
        mark = {True: "✓", False: "✗", None: "not run"}[goal["met"]]
        measured = "–" if goal["measured"] is None else f"{goal['measured']:,g}"
        yield f"| {TITLES[goal['row']]} | {goal['what']} | {goal['wanted']} | {measured} | {mark} |"


def figure_table(runs: Mapping[str, Any]) -> Iterator[str]:
    """One line per variant and process; what was not run is said above the tables."""
    yield "| work | process with | figures |"
    yield "|---|---|---|"
    for work, release, shown in figures({release: run["rows"] for release, run in runs.items()}):
        if not shown.startswith("not run"):
            yield f"| {work} | {release} | {shown} |"


def replaced(page: str, figures: str) -> str:
    """The page with these figures between its marks."""
    before, _, rest = page.partition(START)
    _, _, after = rest.partition(END)
    return before + START + figures + END + after


def write(path: Path) -> None:
    """Write the page; raises ``OSError`` or ``ValueError`` where the file holds no results."""
    data = json.loads(path.read_text(encoding="utf-8"))
    PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8"), rendered(data, path.name)), encoding="utf-8")


def main() -> int:
    """Write the page."""
    parser = argparse.ArgumentParser(description="Write the figures of one measurement into docs/speed.md.")
    parser.add_argument("file", type=Path, nargs="?", help="a result of benchmarks/control.py (the newest one)")
    path = parser.parse_args().file or newest()
    try:
        write(path)
    except (OSError, ValueError, KeyError) as error:
        parser.error(f"{path} is no result of benchmarks/control.py: {error!r}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
