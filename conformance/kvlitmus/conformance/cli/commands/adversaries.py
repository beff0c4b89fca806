"""``kvlitmus mutants --adversaries``: plays caches that are wrong in one cell of the ledger, and prints the score."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict

from kvlitmus.conformance.cli.commands.common import UsageError, split
from kvlitmus.conformance.report import document
from kvlitmus.conformance.support.text import closest
from kvlitmus.conformance.support.version import version
from kvlitmus.mutants.adversaries.made import BESIDE, adversaries
from kvlitmus.mutants.adversaries.score import BAD, FORMAT, SCHEDULES, Fate, Outcome, play_by_id, table
from kvlitmus.spec.ledger.cells import Family


def main(args: argparse.Namespace) -> int:
    """Play those that were asked for; 1 if one is left, or is noticed by rules that its cell doesn't name."""
    ids = pick(split(args.names), effects=args.effects)
    depths = args.depth or [3]
    if not args.json:
        print(f"{len(ids)} adversaries at depth {', '.join(map(str, depths))}", flush=True)
    outcomes: list[Outcome] = []
    for one in played([(id, depth, SCHEDULES, args.seed) for depth in depths for id in ids], args.jobs):
        outcomes.append(one)
        if one.fate is not Fate.NAMED and not args.json:
            print(told(one), flush=True)
    if args.json:
        print(document.dump(plain(outcomes)), end="")
    print("\n".join(table(outcomes)), file=sys.stderr if args.json else sys.stdout)
    return int(any(one.fate in BAD for one in outcomes))


def pick(words: Sequence[str], *, effects: bool) -> list[str]:
    """The adversaries of these families and calls, or all; those with a foreign effect where they are asked for."""
    known = adversaries()
    names = {family.name.lower() for family in Family} | {one.line.call for one in known.values()}
    for word in words:
        if word not in names:
            raise UsageError(f"there is no family or call {word!r}{closest(word, sorted(names))}")
    return [
        id
        for id, one in known.items()
        if (effects or not one.how.startswith(BESIDE))
        and (not words or one.line.family.name.lower() in words or one.line.call in words)
    ]


def played(work: Sequence[tuple[str, int, int, int]], jobs: int) -> Iterator[Outcome]:
    """What becomes of each, in order; in so many processes."""
    if jobs == 1:
        yield from map(play_by_id, work)
        return
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(play_by_id, work)


def told(one: Outcome) -> str:
    """One that its cell doesn't name, in a line."""
    others = f", noticed by {', '.join(one.broken)}" if one.broken else ""
    return f"  {one.fate.value:<12} {one.id} (depth {one.depth}, made {one.made} times in {one.steps:,} steps{others})"


def plain(outcomes: Sequence[Outcome]) -> dict[str, object]:
    """All of it as plain data."""
    return {
        "kind": "kvlitmus adversaries",
        "format": FORMAT,
        "kvlitmus": version(),
        "outcomes": [{**asdict(one), "family": one.family.value, "fate": one.fate.value} for one in outcomes],
        "summary": list(table(outcomes)),
    }
