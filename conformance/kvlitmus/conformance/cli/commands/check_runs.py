"""``kvlitmus check`` of what a run has recorded: the items are played again, and the cache answers as it did then.

So every kind of cache is judged: with a host tier, storage, jobs, components, ranks, sparse rows.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator

from kvlitmus.conformance.cli.commands.located import window
from kvlitmus.conformance.cli.commands.run import now
from kvlitmus.conformance.history import again, verdict
from kvlitmus.conformance.history.again import JudgedSteps
from kvlitmus.conformance.history.state import Located
from kvlitmus.conformance.report import document, terminal
from kvlitmus.conformance.report.style import Style, style_of
from kvlitmus.conformance.support.text import harmless
from kvlitmus.conformance.support.version import version
from kvlitmus.conformance.tape.lines import TapeReader
from kvlitmus.spec.law.rule import Rule

MOST = 20
"""Maximum number of items that are named which could not be judged to their end."""


def main(tape: TapeReader, args: argparse.Namespace, rules: dict[str, Rule]) -> int:
    """Judge the tape, and report; returns the exit code.  Raises :class:`TapeError`."""
    style, started = style_of(sys.stdout, args.color), time.monotonic()
    outcome = again.judged(tape, depth=args.depth, keep_going=args.keep_going)
    run = verdict.record(
        outcome,
        rules,
        file=harmless(args.file),
        depth=args.depth,
        version=version(),
        date=now(),
        seconds=time.monotonic() - started,
    )
    if args.json:
        print(document.dump(verdict.record_as_data(run, outcome)), end="")
        return run.exit_code
    for line in render(run, outcome, args, style):
        print(line)
    return run.exit_code


def render(run: document.Run, outcome: JudgedSteps, args: argparse.Namespace, style: Style) -> Iterator[str]:
    """All lines of the report."""
    cache = style.paint(harmless(run.target_name, 100), "bold")
    yield f"judging {run.target} of {cache}: a run of {outcome.items} item{'s' * (outcome.items != 1)}"
    for one in outcome.findings:
        if about := [rule for rule in one.finding.rules if rule in run.rules]:
            yield from found(run, one, about, args.window, style)
    yield ""
    for item, ended in list(outcome.ended.items())[:MOST]:
        text = f"{run.target}:{ended.line}, {harmless(item, 200)}: {harmless(ended.why)}"
        yield from (style.paint(line, "yellow") for line in style.wrap(text, "    ", "  "))
    if outcome.torn:
        yield style.paint(f"the tape is torn: {outcome.torn}; what stands before was judged", "yellow")
    broken = len(run.rules.keys() & outcome.broken.keys())
    evaluated = sum(1 for rule in run.rules if outcome.evaluated[rule])
    yield f"rules: {broken} violated, {evaluated} of {len(run.rules)} evaluated"
    yield f"calls: {outcome.steps:,} judged, which 'kvlitmus run' counts as steps"
    yield f"tape: {outcome.judged:,} of {outcome.total:,} steps judged"
    yield style.paint(f"{run.seconds:.1f} s", "dim")
    yield f"exit {run.exit_code}: {verdict.RECORD_WORDS[run.exit_code]}"


def found(run: document.Run, one: Located, rules: list[str], most: int, style: Style) -> Iterator[str]:
    """What was found in an item, with the lines of its last calls; ``rules``: those that are told of."""
    for rule in rules:
        yield ""
        yield style.paint(f"{rule} {run.rules[rule].title}", "bold", "red")
        yield from style.wrap(run.rules[rule].text, "  ")
    yield ""
    yield from terminal.explained(one.finding, rules, run.rules, style)
    yield ""
    calls = one.finding.calls[-most:]
    yield from window(one.lines[-most:], calls, len(one.finding.calls) - len(calls), style)
    yield ""
    yield from terminal.labelled("found in", f"{run.target}:{one.line}, {harmless(one.finding.item, 200)}", style)
