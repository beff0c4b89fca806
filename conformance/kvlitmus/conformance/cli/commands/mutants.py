"""``kvlitmus mutants``: puts known bugs into the built-in cache and sees which rules catch them."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator, Sequence

from kvlitmus.conformance.cli.commands import adversaries
from kvlitmus.conformance.cli.commands.common import TargetFailed, UsageError, pick_rules, split
from kvlitmus.conformance.report import document
from kvlitmus.conformance.report.progress import left
from kvlitmus.conformance.report.style import Style, style_of
from kvlitmus.conformance.run.targets import TargetError
from kvlitmus.conformance.support import ending
from kvlitmus.conformance.support.text import closest
from kvlitmus.conformance.support.version import version
from kvlitmus.mutants import run as mutants_run
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.mutants.run import Effort, Fate
from kvlitmus.spec.parts import all_rules

PAUSE = 15.0
"""Seconds between two lines that say how far it is."""


def main(args: argparse.Namespace) -> int:
    """Run the mutants; 0 if all were killed and no null mutant raised an alarm, else 1."""
    if args.adversaries:
        return adversaries.main(args)
    ids = pick(args.names, args.rule)
    effort = Effort(steps=args.steps or mutants_run.STEPS, seed=args.seed, litmus=not args.random_only)
    style = style_of(sys.stdout, args.color)
    if not args.json:
        how = "random schedules only" if args.random_only else "litmus tests, then random schedules"
        print(f"{len(ids)} mutants, {how}, at most {effort.steps:,} random steps each", flush=True)
    fates: list[Fate] = []
    stopped = False
    began = told_left = time.monotonic()
    try:
        for fate in mutants_run.run_all(ids, effort, jobs=args.jobs):
            fates.append(fate)
            if not args.json:
                print("\n".join(told(fate, style)), flush=True)
            now = time.monotonic()
            if now - told_left >= PAUSE and not args.json:
                told_left = now
                parts = [f"{len(fates)} of {len(ids)} mutants", left(now - began, len(fates), len(ids))]
                print(style.paint(f"  {', '.join(filter(None, parts))}", "dim"), flush=True)
    except KeyboardInterrupt:
        stopped = True
    except TargetError as error:
        raise TargetFailed(str(error)) from None
    fates.sort(key=lambda fate: ids.index(fate.id))
    if args.json:
        print(document.dump(mutants_run.document(fates, effort, version())), end="")
        print(mutants_run.summary(fates), file=sys.stderr)
    else:
        for line in [*matrix(fates, style), *figures(fates, style)]:
            print(line)
        if stopped:
            print(f"interrupted after {len(fates)} of {len(ids)} mutants")
        print(mutants_run.summary(fates))
    return ending.exit_code() if stopped else 0 if all(fate.well for fate in fates) else 1


def pick(names: Sequence[str], rules: Sequence[str]) -> list[str]:
    """The mutants that were asked for, in their order; unknown names get a hint."""
    mutants = all_mutants()
    wanted = split(names)
    for word in wanted:
        if word not in mutants:
            raise UsageError(f"there is no mutant {word!r}{closest(word, mutants)} (there are {len(mutants)})")
    ids = [id for id in mutants if not wanted or id in wanted]
    if rules:
        chosen = pick_rules(rules, [])
        ids = [id for id in ids if not chosen.keys().isdisjoint(mutants[id].kills)]
        if not ids:
            raise UsageError(f"no mutant names {', '.join(chosen)} as the rule that must kill it")
    return ids


def told(fate: Fate, style: Style) -> Iterator[str]:
    """One mutant in one line, or two."""
    mark = style.paint(style.symbol("good" if fate.well else "bad"), "green" if fate.well else "red")
    name = f"{fate.id:<44}"
    if fate.error:
        yield f"  {mark} {name} failed: {fate.error}"
    elif fate.null:
        what = "no alarm" if fate.well else f"{len(fate.alarms)} false alarms"
        yield f"  {mark} {name} {what} in {fate.steps:,} steps"
        yield from (f"      {alarm}" for alarm in fate.alarms[:3])
    elif fate.killed_by:
        calls = f"{fate.length} call{'s' * (fate.length != 1)}"
        long = f"  (long: {fate.long_because})" if fate.length > 15 and fate.long_because else ""
        spent = f"{fate.steps:>7,} steps {fate.seconds:>6.2f} s"
        yield f"  {mark} {name} {fate.killed_by:<12} {calls:<9} {spent}  {where(fate)}{long}"
    else:
        broke = f"only {', '.join(fate.broken)} broke" if fate.broken else "nothing broke"
        yield f"  {mark} {name} survived {fate.steps:,} steps; {broke}, must be one of {', '.join(fate.kills)}"


def where(fate: Fate) -> str:
    """What caught it, short."""
    return fate.item.partition(" [")[0].removeprefix("litmus:")


def matrix(fates: Sequence[Fate], style: Style) -> Iterator[str]:
    """The kill matrix: a row per rule, a column per mutant."""
    real = [fate for fate in fates if not fate.null]
    broken = mutants_run.matrix(fates)
    if not broken:
        return
    yield ""
    caught = style.paint("#", "green")
    yield f"kill matrix, a column per mutant: {caught} broken and named by the mutant, + broken as well"
    for rule, ids in broken.items():
        cells = "".join("." if fate.id not in ids else "#" if rule in fate.kills else "+" for fate in real)
        yield f"  {rule:<12} {cells.replace('#', style.paint('#', 'green'))} {len(ids):>3}"
    named = {rule for fate in real for rule in fate.kills}
    idle = [rule for rule in all_rules() if rule in named and rule not in broken]
    if idle:
        yield from style.wrap(f"named by a mutant and broken by none: {', '.join(idle)}", "  ")


def figures(fates: Sequence[Fate], style: Style) -> Iterator[str]:
    """Medians over the mutants that were killed."""
    killed = [fate for fate in fates if fate.killed_by]
    if not killed:
        return
    yield ""
    for what, tiered in (("targets without tiers", False), ("hierarchies", True)):
        if lengths := mutants_run.lengths(killed, tiered=tiered):
            yield style.paint(
                f"counterexamples of {len(lengths)} {what}: median {statistics.median(lengths):g} calls, "
                f"nine of ten at most {mutants_run.most_of(lengths)}, longest {lengths[-1]}",
                "dim",
            )
    seconds = [fate.seconds for fate in killed]
    yield style.paint(f"time to kill: median {statistics.median(seconds):.2f} s, longest {max(seconds):.2f} s", "dim")
