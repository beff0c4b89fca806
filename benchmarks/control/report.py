"""The table on the terminal, and the picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.control.goals import Goal, Runs

TITLES = {
    "match-32k": "match 32k cached tokens, page 64",
    "match-chain": "match a chain of 64-token nodes",
    "match-kept": "match when the caller kept the place",
    "comb": "comb: a dead end before each page",
    "stripped": "chat whose thinking is stripped",
    "small": "small prompts",
    "tiers": "a hierarchy beside caches without tiers",
    "evict": "evict one page",
    "order": "victims beside the reference's",
    "lock": "lock and unlock",
    "free": "free 64 tokens (host time)",
    "insert": "insert 4k under 4k shared",
    "trace": "conversation trace, CPU per request",
    "pair": "two processes on the trace",
    "sha": "SHA-256 page chain, 32k tokens",
    "memory": "bookkeeping per cached page",
    "cold": "import and first request, cold",
}
"""The rows, in the order of the table."""


def figure(value: float) -> str:
    """A time in microseconds, three digits that count."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table(runs: Runs, chosen: Iterable[str]) -> str:
    """Every series: least and median of its process."""
    lines = [f"{'':44} {'least':>10} {'median':>10}  µs per call"]
    for row in chosen:
        lines.append(TITLES[row])
        for release, rows in runs.items():
            found = rows.get(row)
            if found is not None:
                lines += _row(release, found)
        if not any(row in rows for rows in runs.values()):
            lines.append("  not run")
    return "\n".join(lines)


def _row(release: str, found: Mapping[str, Any]) -> list[str]:
    lines = [f"  not run: {found['failed']}"] if found.get("failed") else []
    for variant, series in found.get("cells", {}).items():
        lines.append(f"  {variant}  (process with {release})")
        for name, stat in series.items():
            noisy = "  noisy" if stat["median"] > 2 * stat["least"] else ""
            lines.append(f"    {name:40} {figure(stat['least']):>10} {figure(stat['median']):>10}{noisy}")
    for key, fact in found.get("facts", {}).items():
        if isinstance(fact, Mapping) and "expected" in fact:
            lines += _capacity(release, key, fact)
        else:
            lines.append(f"    {key}: {fact}")
    return lines


def _capacity(release: str, key: str, fact: Mapping[str, Any]) -> list[str]:
    lines = [f"  {int(key):,} tokens  (process with {release}), hit tokens of the reference: {fact['expected']}"]
    for name, seen in fact.items():
        if isinstance(seen, Mapping):
            times = f"{figure(seen['mean'])} (p50 {figure(seen['p50'])}, p99 {figure(seen['p99'])})"
            lines.append(f"    {name:30} {times}; hit tokens {seen['hit_tokens']:,}")
    return lines


def verdicts(goals: Iterable[Goal]) -> str:
    """One line per goal."""
    lines = []
    for goal in goals:
        mark = {True: "met", False: "MISSED", None: "not run"}[goal.met]
        measured = "" if goal.measured is None else f"{goal.measured:,g}"
        lines.append(f"{mark:8} {TITLES[goal.row]:40} {goal.what:48} {goal.wanted:>8}  {measured}")
    return "\n".join(lines)


def draw(path: Path, goals: Iterable[Goal], title: str) -> str | None:
    """Draw how far each goal is passed or missed, as a factor; returns why it can't, or ``None``."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return "matplotlib is not installed (the extra 'plot')"
    bars = [(f"{TITLES[one.row]}\n{one.what} ({one.wanted})", _factor(one), one) for one in goals]
    shown = [(label, factor, one) for label, factor, one in bars if factor is not None][::-1]
    if not shown:
        return "nothing was measured that has a goal"
    picture = Figure(figsize=(10, 1.2 + 0.42 * len(shown)), layout="constrained")
    FigureCanvasAgg(picture)
    axes = picture.add_subplot()
    colors = ["#2a7f62" if one.met else "#b4413c" for _, _, one in shown]
    axes.barh(range(len(shown)), [factor - 1 for _, factor, _ in shown], left=1, color=colors)
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=1)
    axes.set_yticks(range(len(shown)), [label for label, _, _ in shown], fontsize=7)
    for at, (_, factor, one) in enumerate(shown):
        axes.text(factor, at, f" {one.measured:,g} ", va="center", ha="left" if factor >= 1 else "right", fontsize=7)
    axes.set_xlabel("times better than the goal asks for")
    axes.set_title(title, fontsize=9)
    axes.margins(x=0.15)
    picture.savefig(path, dpi=130)
    return None


def _factor(goal: Goal) -> float | None:
    """How many times better than asked for; ``None`` where a figure is exact and not a distance."""
    if goal.measured is None or goal.met is None:
        return None
    wanted = float(goal.wanted.split()[1])
    if not wanted or goal.measured <= 0:
        return None
    return goal.measured / wanted if goal.wanted.startswith("≥") else wanted / goal.measured
