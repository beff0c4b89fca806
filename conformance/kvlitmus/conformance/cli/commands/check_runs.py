"""``kvlitmus check`` of what a run has recorded: the items are played again, and the cache answers as it did then.

So every kind of cache is judged: with a host tier, storage, jobs, components, ranks, sparse rows.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator

from kvlitmus.conformance.cli.commands.located import window
from kvlitmus.conformance.history import again
from kvlitmus.conformance.history.again import JudgedSteps
from kvlitmus.conformance.report import terminal
from kvlitmus.conformance.report.style import Style, style_of
from kvlitmus.conformance.support.text import harmless
from kvlitmus.conformance.tape.lines import TapeReader
from kvlitmus.spec.law.rule import Rule

MOST = 20
"""Maximum number of items that are named which could not be judged to their end."""

HOLDS, BROKEN, INCOMPLETE = 0, 1, 4


def main(tape: TapeReader, args: argparse.Namespace, rules: dict[str, Rule]) -> int:
    """Judge the tape, and report; returns the exit code.  Raises :class:`TapeError`."""
    style, started = style_of(sys.stdout, args.color), time.monotonic()
    outcome = again.judged(tape, depth=args.depth, keep_going=args.keep_going)
    broken = {rule: item for rule, item in sorted(outcome.broken.items()) if rule in rules}
    whole = outcome.judged == outcome.total > 0 and not outcome.torn
    code = BROKEN if broken else HOLDS if whole else INCOMPLETE
    if args.json:
        told = {
            "items": outcome.items,
            "judged": outcome.judged,
            "total": outcome.total,
            "ended": outcome.ended,
            "torn": outcome.torn,
        }
        print(json.dumps({**told, "broken": broken, "exit_code": code}, indent=1))
        return code
    for line in render(outcome, broken, rules, args, style):
        print(line)
    print(style.paint(f"{time.monotonic() - started:.1f} s", "dim"))
    print(f"exit {code}: {MEANING[code]}")
    return code


MEANING = {
    HOLDS: "every rule that was evaluated holds, on all steps",
    BROKEN: "a rule is violated",
    INCOMPLETE: "what was judged holds, but not every step was judged",
}


def render(
    outcome: JudgedSteps, broken: dict[str, str], rules: dict[str, Rule], args: argparse.Namespace, style: Style
) -> Iterator[str]:
    """All lines of the report but the last."""
    header = outcome.header
    cache = style.paint(harmless(header.target or header.cache or "a recorded cache", 100), "bold")
    yield f"judging {harmless(args.file)} of {cache}: a run of {outcome.items} item{'s' * (outcome.items != 1)}"
    for finding in outcome.findings:
        about = [rule for rule in finding.rules if rule in broken]
        for rule in about:
            yield ""
            yield style.paint(f"{rule} {rules[rule].title}", "bold", "red")
            yield from style.wrap(rules[rule].text, "  ")
        if about:
            yield ""
            yield from terminal.explained(finding, about, rules, style)
            yield ""
            calls = finding.calls[-args.window :]
            before = len(finding.calls) - len(calls)
            yield from window([before + at for at in range(1, len(calls) + 1)], calls, before, style, "call")
            yield ""
            yield from terminal.labelled("found in", harmless(finding.item, 200), style)
    yield ""
    for item, why in list(outcome.ended.items())[:MOST]:
        yield from (style.paint(line, "yellow") for line in style.wrap(f"{harmless(item, 200)}: {harmless(why)}", "  "))
    if outcome.torn:
        yield style.paint(f"the tape is torn: {outcome.torn}; what stands before was judged", "yellow")
    evaluated = sum(1 for rule in rules if outcome.evaluated[rule])
    yield f"rules: {len(broken)} violated, {evaluated} of {len(rules)} evaluated"
    yield f"steps: {outcome.judged:,} of {outcome.total:,} judged"
