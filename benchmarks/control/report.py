"""The figures, for the terminal and for the page, and the picture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from benchmarks.bars import GREEN, RED, Bar, Panel, svg
from benchmarks.control.goals import Runs
from benchmarks.record import Goal
from benchmarks.timing import NOISY

TITLES = {
    "match-32k": "match 32k cached tokens, page 64",
    "match-chain": "match a chain of 64-token nodes",
    "match-kept": "match when the caller kept the place",
    "comb": "comb: a dead end before each page",
    "stripped": "chat whose thinking is stripped",
    "small": "small prompts",
    "tiers": "hierarchies, and caches without tiers beside them",
    "window": "KV and a sliding window",
    "states": "KV and states of Mamba",
    "evict": "evict one page",
    "order": "victims beside the reference's",
    "lock": "lock and unlock",
    "free": "free 64 tokens (host time)",
    "insert": "insert 4k under 4k shared",
    "trace": "conversation trace, CPU per request",
    "trace-tiers": "conversation trace with tiers, CPU per request",
    "pair": "two processes on the trace",
    "sha": "SHA-256 page chain, 32k tokens",
    "memory": "bookkeeping per cached page",
    "cold": "import and first request, cold",
}
"""The rows, in the order of the table."""


NAMES = {
    "ours": "kvlitmus",
    "ours, in Python": "kvlitmus, in Python",
    "ours, with tiers": "kvlitmus, with tiers",
    "ours, with tiers, over tensors": "kvlitmus, with tiers, over tensors",
    "ours, with tiers, begin and end": "kvlitmus, with tiers, begin and end",
    "ours, begin and end": "kvlitmus, begin and end",
    "ours, in Python, begin and end": "kvlitmus, in Python, begin and end",
    "rust": "Rust core",
    "rust, with tiers": "Rust core, with tiers",
    "python": "Python core",
    "radix": "RadixCache",
    "peer": "SGLang's allocator",
    "floor": "memcmp",
    "hashlib": "hashlib, page by page",
    "per token": "hashlib, token by token",
}


def figure(value: float) -> str:
    """A time in microseconds, three digits that count."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def figures(runs: Runs, rows: Iterable[str] = TITLES) -> Iterator[tuple[str, str, str]]:
    """Every series: what was done, in the process with which release, and the figures."""
    for row in rows:
        for release, run in runs.items():
            found = run.get(row, {})
            if found.get("failed"):
                yield TITLES[row], release, f"not run: {found['failed']}"
            for variant, series in found.get("cells", {}).items():
                shown = " · ".join(f"{NAMES.get(name, name)} {_times(stat)}" for name, stat in series.items())
                yield f"{TITLES[row]}: {variant}", release, shown
            for name, fact in found.get("facts", {}).items():
                if isinstance(fact, Mapping) and any(isinstance(one, Mapping) for one in fact.values()):
                    room = f"{int(name):,} tokens" if name.isdigit() else name
                    yield f"{TITLES[row]}: {room}", release, _served(fact)
                else:
                    yield f"{TITLES[row]}: {name.replace('_', ' ')}", release, _fact(fact)
        if not any(row in run for run in runs.values()):
            yield TITLES[row], "none", "not run"


def _fact(fact: Any) -> str:
    return ", ".join(f"{key} {value:,}" for key, value in fact.items()) if isinstance(fact, Mapping) else str(fact)


def _times(stat: Mapping[str, Any]) -> str:
    noisy = ", *noisy*" if stat["median"] > NOISY * stat["least"] else ""
    return f"{figure(stat['least'])} ({figure(stat['median'])}{noisy})"


def _served(fact: Mapping[str, Any]) -> str:
    shown = " · ".join(
        f"{NAMES[name]} {figure(seen['mean'])} (p50 {figure(seen['p50'])}, p99 {figure(seen['p99'])})"
        f" with {seen['hit_tokens']:,} hit tokens"
        for name, seen in fact.items()
        if isinstance(seen, Mapping)
    )
    return f"{shown}; the reference {fact['expected']:,}" if "expected" in fact else shown


def table(runs: Runs, rows: Iterable[str]) -> str:
    """The figures on the terminal."""
    lines = [f"{work}  (process with {release})\n    {shown}" for work, release, shown in figures(runs, rows)]
    return "\n".join(["µs per call, the least of all rounds (the median in brackets)", *lines])


def picture(goals: Iterable[Goal], title: str) -> str:
    """How far each goal is passed or missed, as SVG; empty where nothing was measured that has a goal."""
    bars = [
        Bar(f"{goal.row}: {goal.what}", factor, GREEN if goal.met else RED, 1.0, f"{goal.measured:,g} ({goal.wanted})")
        for goal in goals
        if (factor := _factor(goal)) is not None
    ]
    heading = "times better than the goal asks for; the mark is the goal"
    return svg(title, [Panel(heading, bars, log=True)]) if bars else ""


def _factor(goal: Goal) -> float | None:
    """How many times better than asked for; ``None`` where a figure is exact and not a distance."""
    if goal.measured is None or goal.met is None:
        return None
    wanted = float(goal.wanted.split()[1])
    if not wanted or goal.measured <= 0:
        return None
    return goal.measured / wanted if goal.wanted.startswith("≥") else wanted / goal.measured
