"""The goals: what is wanted, what was measured, and whether that is enough.

``runs`` maps a release, or ``alone``, to what its process measured: row → ``{"cells": …, "facts": …}``.
Ratios are only ever taken between two series of one process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from benchmarks.record import Goal, at_least, at_most

Runs = Mapping[str, Mapping[str, Any]]

NEW, OLD = "0.5.23", "0.5.13.post1"
CORES = {"auto": "", "python": ", in Python"}
"""What is added to our name for a core: the one that runs where nobody chooses, or the one in Python."""
OUR_WAYS = ("ours", "ours, begin and end")
TIERS = ("ours, with tiers, over tensors", "rust, with tiers")
"""The hierarchies that are judged by one another: both write the tables of their copies."""
WITH_COMPONENTS = ("window", "states")
"""The rows of caches that keep more than KV."""
BYTES_PER_PAGE = {"long prompts": 8, "conversations": 24, "forks": 200}
"""Most bytes of bookkeeping per cached page, in each shape of ``memory.py``."""


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

    def ratio(self, row: str, variant: int | str, other: str) -> float | None:
        """How many times as long another series takes as ours, in the process with the newer release or alone."""
        for release in (NEW, *self.runs):
            found = _over(self.least(release, row, variant, "ours"), self.least(release, row, variant, other))
            if found is not None:
                return found
        return None

    def variants(self, row: str) -> Iterable[str]:
        """The variants of a row, in the process with the newer release."""
        cells: Mapping[str, Any] = self.runs.get(NEW, {}).get(row, {}).get("cells", {})
        return cells

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


def matching(seen: Seen) -> Iterable[Goal]:
    """Matching."""
    row = "match-32k"
    yield at_least(row, "times the Rust core", 3, seen.ratio(row, 0, "rust"))
    yield at_least(row, "times the Python core", 5, seen.ratio(row, 0, "python"))
    above = [
        mine - floor
        for release in seen.runs
        if (mine := seen.least(release, row, 0, "ours")) is not None
        and (floor := seen.least(release, row, 0, "floor")) is not None
    ]
    yield at_most(row, "above the compare floor", 15, max(above, default=None), " µs")
    row = "match-chain"
    yield at_least(row, "times the Rust core", 50, seen.ratio(row, 0, "rust"))
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
    few, mine = seen.least(NEW, "evict", 0, "ours"), seen.least(NEW, "evict", 1, "ours")
    yield at_least("evict", "times the Rust core", 50, seen.ratio("evict", 1, "rust"))
    few, mine = (few, mine) if few is not None else (seen.ours("evict", 0), seen.ours("evict", 1))
    yield at_most("evict", "times its cost with few leaves", 1.5, _over(few, mine))
    order = seen.facts("order")
    different = None if not order.get("victims") else len(order["different"])
    yield at_most("order", "policies with other victims than the reference", 0, different)
    yield at_least("lock", "times the Rust core", 50, seen.ratio("lock", 0, "rust"))
    yield at_least("insert", "times the Rust core", 2, seen.ratio("insert", 0, "rust"))


def forking(seen: Seen) -> Iterable[Goal]:
    """Trees that fork at every turn, and small prompts: each operation at the length where it is worst."""
    for row in ("comb", "stripped", "small"):
        for what in ("match", "lock and unlock", "insert"):
            variants = [name for name in seen.variants(row) if name.endswith(f", {what}")]
            ratios = [seen.ratio(row, name, "rust") for name in variants]
            worst = min((one for one in ratios if one is not None), default=None)
            yield at_least(row, f"{what}: times the Rust core, at the worst length", 2, worst)


def composing(seen: Seen) -> Iterable[Goal]:
    """Caches of components: each operation in the tree, at the length and for the seed where it is worst."""
    for row in WITH_COMPONENTS:
        for what in ("match", "lock and unlock", "whole request"):
            variants = [name for name in seen.variants(row) if name.endswith(f", {what}")]
            ratios = [_over(*(seen.least(NEW, row, name, one) for one in ("ours", "rust"))) for name in variants]
            worst = min((one for one in ratios if one is not None), default=None)
            yield at_least(row, f"{what}: times the Rust core, at the worst length", 5, worst)


FIRST_ROWS = (("match-32k", 0), ("match-chain", 0), ("match-chain", 1), ("evict", 1), ("lock", 0), ("insert", 0))
NOISE = 0.95
"""A ratio from here on is not told from 1."""


def compiling(seen: Seen) -> Iterable[Goal]:
    """The compiled core is nowhere slower than the one in Python."""
    for row, variant in FIRST_ROWS:
        kind = ", one node" if (row, variant) == ("match-chain", 1) else ""
        yield at_least(row, f"times our core in Python{kind}", NOISE, seen.ratio(row, variant, "ours, in Python"))


def freeing(seen: Seen) -> Iterable[Goal]:
    """Freeing, against the fastest way of the fastest release; what that costs grows with its pool."""
    for page, wanted in (("page 1", 100), ("page 16", 10)):
        for pool, enough in (("large pool", wanted), ("small pool", 1)):
            variant = f"{page}, {pool}"
            ratios = [
                _over(seen.least(release, "free", variant, "ours"), seen.least(release, "free", variant, peer))
                for release in seen.runs
                for peer in ("peer", "peer, free_segment")
            ]
            fastest = min((one for one in ratios if one is not None), default=None)
            yield at_least("free", f"times SGLang's fastest allocator, {variant}", enough, fastest)
        variant = f"{page}, large pool"
        small, large = seen.ours("free", variant, "ours, small pool"), seen.ours("free", variant)
        yield at_most("free", f"times its cost in a small pool, {page}", 1.5, _over(small, large))
        yield at_most("free", f"one page, {page}", 3, seen.ours("free", variant, "ours, one page"), " µs")


def serving(seen: Seen) -> Iterable[Goal]:
    """The trace, by the faster of our two ways to serve a request; each core of the release has one."""
    for capacity, rust, python in (("3000000", 12, 30), ("50000000", 12, 60)):
        facts = seen.facts("trace", NEW).get(capacity, {})
        name = f"{int(capacity) // 1_000_000}M tokens"
        means = {one: found["mean"] for one, found in facts.items() if isinstance(found, Mapping)}
        mine = min((means[one] for one in OUR_WAYS if one in means), default=None)
        yield at_least("trace", f"times the Rust core, {name}", rust, _over(mine, means.get("rust")))
        yield at_least("trace", f"times the Python core, {name}", python, _over(mine, means.get("python")))
        played = [seen.facts("trace", release).get(capacity, {}) for release in seen.runs]
        differences = [
            abs(found["hit_tokens"] - one["expected"])
            for one in played
            for contender, found in one.items()
            if contender.startswith("ours") and one.get("expected") is not None
        ]
        difference = max(differences, default=None)
        yield at_most("trace", f"hit tokens besides the reference's, {name}", 0, difference)
    pair = seen.facts("pair", NEW).get("ours") or seen.facts("pair").get("ours", {})
    yield at_most("pair", "times one process alone", 1.1, _over(pair.get("alone"), pair.get("pair")))


def keeping(seen: Seen) -> Iterable[Goal]:
    """Hashes, memory, and starting."""
    yield at_least(
        "sha", "times hashlib over whole pages", 0.9, _over(seen.ours("sha", 0), seen.ours("sha", 0, "hashlib"))
    )
    yield at_least("sha", "times a per-token loop", 8, _over(seen.ours("sha", 0), seen.ours("sha", 0, "per token")))
    bytes_per_page = seen.facts("memory").get("bytes_per_page", {})
    for shape, wanted in BYTES_PER_PAGE.items():
        yield at_most("memory", f"bytes per page, {shape}", wanted, bytes_per_page.get(shape))
    yield at_most("cold", "CPU time", 0.5, seen.facts("cold").get("ours", {}).get("cold"), " s")


def tiering(seen: Seen) -> Iterable[Goal]:
    """Hierarchies, ours against SGLang's on its compiled core: the worst tree and length, and the trace."""
    for what in ("match", "lock and unlock", "whole request"):
        variants = [name for name in seen.variants("tiers") if name.endswith(f", {what}")]
        pairs = [[seen.least(NEW, "tiers", name, one) for one in TIERS] for name in variants]
        ratios = [_over(mine, theirs) for mine, theirs in pairs]
        worst = min((one for one in ratios if one is not None), default=None)
        yield at_least("tiers", f"{what}: times the Rust core with its host tier, at the worst length", 5, worst)
    played: Iterable[Mapping[str, Any]] = seen.facts("trace-tiers", NEW).values() or ({},)
    for facts in played:
        means = {one: found["mean"] for one, found in facts.items()}
        mine = means.get(TIERS[0])
        flat = min((means[one] for one in OUR_WAYS if one in means), default=None)
        theirs = means.get(TIERS[1])
        yield at_least("trace-tiers", "times the Rust core with its host tier", 25, _over(mine, theirs))
        yield at_most("trace-tiers", "a request with tiers", 30, means.get("ours, with tiers"), " µs")
        yield at_most("trace-tiers", "a request without, beside it", 10, flat, " µs")


PARTS: tuple[Callable[[Seen], Iterable[Goal]], ...] = (
    matching,
    evicting,
    forking,
    compiling,
    freeing,
    serving,
    tiering,
    composing,
    keeping,
)


def goals(runs: Runs) -> list[Goal]:
    """All goals, in the order of the table."""
    return [goal for part in PARTS for goal in part(Seen(runs))]
