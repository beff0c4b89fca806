"""The goals: what is wanted, what was measured, and whether that is enough.

``runs`` maps a release, or ``alone``, to what its process measured: row → ``{"cells": …, "facts": …}``.
Ratios are only ever taken between two series of one process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Runs = Mapping[str, Mapping[str, Any]]

NEW, OLD = "0.5.23", "0.5.13.post1"


@dataclass(frozen=True)
class Goal:
    """One goal: ``met`` is ``None`` where something that it needs was not run."""

    row: str
    what: str
    wanted: str
    measured: float | None
    met: bool | None


class Seen:
    """Looks figures up; ``None`` for what is not there."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs

    def least(self, release: str, row: str, variant: int | str, name: str) -> float | None:
        """The least time of a series, in microseconds; a variant by its number or its name."""
        cells = self.runs.get(release, {}).get(row, {}).get("cells", {})
        names = list(cells)
        if isinstance(variant, int):
            if variant >= len(names):
                return None
            variant = names[variant]
        found = cells.get(variant, {}).get(name)
        return None if found is None else float(found["least"])

    def facts(self, row: str, release: str | None = None) -> Mapping[str, Any]:
        """What else was found out for a row, in one process or the first that has it."""
        for one in [release] if release else self.runs:
            found: Mapping[str, Any] = self.runs.get(one, {}).get(row, {}).get("facts", {})
            if found:
                return found
        return {}

    def ours(self, row: str, variant: int | str, name: str = "ours") -> float | None:
        """The least time of ours in any process."""
        found = [self.least(release, row, variant, name) for release in self.runs]
        return min((one for one in found if one is not None), default=None)


def _over(mine: float | None, theirs: float | None) -> float | None:
    return None if mine is None or theirs is None else round(theirs / mine, 3)


def at_least(row: str, what: str, wanted: float, value: float | None) -> Goal:
    """A ratio that has to be reached."""
    return Goal(row, what, f"≥ {wanted:g}", value, None if value is None else value >= wanted)


def at_most(row: str, what: str, wanted: float, value: float | None, unit: str = "") -> Goal:
    """A figure that must not be exceeded."""
    value = None if value is None else round(value, 3)
    return Goal(row, what, f"≤ {wanted:g}{unit}", value, None if value is None else value <= wanted)


def matching(seen: Seen) -> Iterable[Goal]:
    """Matching."""
    row = "match-32k"
    mine = seen.least(NEW, row, 0, "ours")
    yield at_least(row, "times the Rust core", 3, _over(mine, seen.least(NEW, row, 0, "rust")))
    yield at_least(row, "times the Python core", 5, _over(mine, seen.least(NEW, row, 0, "python")))
    above = [
        mine - floor
        for release in seen.runs
        if (mine := seen.least(release, row, 0, "ours")) is not None
        and (floor := seen.least(release, row, 0, "floor")) is not None
    ]
    yield at_most(row, "above the compare floor", 15, max(above, default=None), " µs")
    row = "match-chain"
    yield at_least(
        row, "times the Rust core", 50, _over(seen.least(NEW, row, 0, "ours"), seen.least(NEW, row, 0, "rust"))
    )
    ratios = [_over(seen.least(release, row, 2, "one"), seen.least(release, row, 2, "chain")) for release in seen.runs]
    yield at_most(row, "times the one-node case", 1.5, max((one for one in ratios if one is not None), default=None))
    row = "match-kept"
    found = [
        seen.ours(row, variant, name)
        for variant in ("4k kept", "32k kept", "128k kept")
        for name in ("ours, hit", "ours, miss")
    ]
    yield at_most(row, "at the slowest length", 5, max((one for one in found if one is not None), default=None), " µs")


def evicting(seen: Seen) -> Iterable[Goal]:
    """Eviction, locks, insertion."""
    mine, few = seen.least(NEW, "evict", 1, "ours"), seen.least(NEW, "evict", 0, "ours")
    yield at_least("evict", "times the Rust core", 50, _over(mine, seen.least(NEW, "evict", 1, "rust")))
    few, mine = (few, mine) if few is not None else (seen.ours("evict", 0), seen.ours("evict", 1))
    yield at_most("evict", "times its cost with few leaves", 1.5, _over(few, mine))
    order = seen.facts("order")
    different = None if not order.get("victims") else len(order["different"])
    yield at_most("order", "policies with other victims than the reference", 0, different)
    yield at_least(
        "lock",
        "times the Rust core",
        50,
        _over(seen.least(NEW, "lock", 0, "ours"), seen.least(NEW, "lock", 0, "rust")),
    )
    yield at_least(
        "insert",
        "times the Rust core",
        2,
        _over(seen.least(NEW, "insert", 0, "ours"), seen.least(NEW, "insert", 0, "rust")),
    )


def freeing(seen: Seen) -> Iterable[Goal]:
    """Freeing, against the fastest way of the fastest release."""
    for variant, wanted in (("page 1", 100), ("page 16", 10)):
        ratios = [
            _over(seen.least(release, "free", variant, "ours"), seen.least(release, "free", variant, peer))
            for release in seen.runs
            for peer in ("peer", "peer, free_segment")
        ]
        yield at_least(
            "free",
            f"times SGLang's fastest allocator, {variant}",
            wanted,
            min((one for one in ratios if one is not None), default=None),
        )
        small = seen.ours("free", variant, "ours, small pool")
        yield at_most(
            "free", f"times its cost in a small pool, {variant}", 1.5, _over(small, seen.ours("free", variant))
        )
        yield at_most("free", f"one page, {variant}", 3, seen.ours("free", variant, "ours, one page"), " µs")


def serving(seen: Seen) -> Iterable[Goal]:
    """The trace."""
    for capacity, wanted in (("3000000", 15), ("50000000", 30)):
        facts = seen.facts("trace", NEW).get(capacity, {})
        name = f"{int(capacity) // 1_000_000}M tokens"
        mine, theirs = facts.get("ours", {}).get("mean"), facts.get("python", {}).get("mean")
        yield at_least("trace", f"times the Python core, {name}", wanted, _over(mine, theirs))
        found = {
            run["trace"]["facts"][capacity]["ours"]["hit_tokens"] - run["trace"]["facts"][capacity]["expected"]
            for run in seen.runs.values()
            if run.get("trace", {}).get("facts", {}).get(capacity, {}).get("expected") is not None
        }
        difference = max((abs(one) for one in found), default=None)
        yield at_most("trace", f"hit tokens besides the reference's, {name}", 0, difference)


def hashing(seen: Seen) -> Iterable[Goal]:
    """Hashes, and memory."""
    yield at_least(
        "sha", "times hashlib over whole pages", 0.9, _over(seen.ours("sha", 0), seen.ours("sha", 0, "hashlib"))
    )
    yield at_least("sha", "times a per-token loop", 8, _over(seen.ours("sha", 0), seen.ours("sha", 0, "per token")))
    for shape, figure in seen.facts("memory").get("bytes_per_page", {}).items():
        yield at_most("memory", f"bytes per page, {shape}", 64, figure)
    if not seen.facts("memory"):
        yield at_most("memory", "bytes per page", 64, None)


PARTS: tuple[Callable[[Seen], Iterable[Goal]], ...] = (matching, evicting, freeing, serving, hashing)


def goals(runs: Runs) -> list[Goal]:
    """All goals, in the order of the table."""
    return [goal for part in PARTS for goal in part(Seen(runs))]
