"""``kvlitmus check``: judges a recorded trace; nothing is driven."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TextIO

from kvlitmus.conformance.cli.commands import common
from kvlitmus.conformance.cli.commands.common import UsageError
from kvlitmus.conformance.cli.commands.run import now
from kvlitmus.conformance.history import verdict
from kvlitmus.conformance.history.checker import TraceChecker
from kvlitmus.conformance.history.lines import Header, Reader, TraceError
from kvlitmus.conformance.history.state import JudgedTrace, Located, Misuse
from kvlitmus.conformance.report import document, terminal
from kvlitmus.conformance.report.style import Style, style_of
from kvlitmus.conformance.run.cause import cause_of
from kvlitmus.conformance.support.brief import brief
from kvlitmus.conformance.support.text import harmless
from kvlitmus.conformance.support.version import version
from kvlitmus.spec.parts import all_rules

MOST = 20
"""Maximum number of findings, and of breaches of the contract, that are shown in full."""

STEP = 256
"""Maximum number of lines that are judged between two looks at the clock."""


def main(args: argparse.Namespace) -> int:
    """Judge the trace and report; returns the exit code."""
    started = time.monotonic()
    chosen = common.pick_rules(args.rule, args.pack)
    style = style_of(sys.stdout, args.color, verbose=args.verbose)
    try:
        with Reader(args.file, ignore_unknown=args.ignore_unknown) as reader:
            trace_checker = judged(reader, args, len(chosen), frozenset(all_rules().keys() - chosen.keys()), style)
    except TraceError as error:
        raise UsageError(str(error)) from None
    outcome = trace_checker.outcome
    run = verdict.report(
        trace_checker,
        chosen,
        file=harmless(args.file),
        version=version(),
        date=now(),
        seconds=time.monotonic() - started,
    )
    if args.json:
        print(document.dump(verdict.as_data(run, outcome)), end="")
    else:
        for text in render(run, outcome, reader.header, style):
            print(text)
    return run.exit_code


def judged(reader: Reader, args: argparse.Namespace, rules: int, muted: frozenset[str], style: Style) -> TraceChecker:
    """The checker after the trace, as far as it goes; raises :class:`TraceError`."""
    trace_checker = TraceChecker(
        args.file,
        reader.header,
        depth=args.depth,
        muted=muted,
        keep_going=args.keep_going,
        window=args.window,
    )
    progress = Progress(sys.stderr, reader)
    try:
        if not args.json:
            print(heading(reader.header, trace_checker, args.file, rules, style), flush=True)
        for line in trace_checker.run(reader):
            if line % STEP == 0:
                progress.show(line)
    except KeyboardInterrupt:
        trace_checker.outcome.interrupted = True
    finally:
        progress.clear()
    if reader.torn is not None:
        trace_checker.outcome.torn = f"line {reader.torn[0]}: {reader.torn[1]}"
    return trace_checker


def heading(header: Header, trace_checker: TraceChecker, file: str, rules: int, style: Style) -> str:
    """The first line."""
    cache = style.paint(header.cache or "a recorded cache", "bold")
    return (
        f"judging {harmless(file)} of {cache}: {header.config.label}, {rules} rule{'s' * (rules != 1)}, "
        f"depth {trace_checker.checker.depth}"
    )


class Progress:
    """How far a long trace is judged, on stderr: a moving line on a terminal, a line now and then elsewhere."""

    def __init__(self, stream: TextIO, reader: Reader) -> None:
        self.stream = stream
        self.reader = reader
        self.live = stream.isatty()
        self.began = self.shown = time.monotonic()

    def show(self, line: int) -> None:
        """So many lines are judged."""
        moment = time.monotonic()
        if moment - self.shown < (0.2 if self.live else 5.0):
            return
        self.shown = moment
        part = f" ({self.reader.done / self.reader.size:.0%})" if self.reader.size else ""
        text = f"{line:,} lines{part}, {line / (moment - self.began):,.0f} lines/s"
        print(f"\r\x1b[K{text}" if self.live else text, end="" if self.live else "\n", file=self.stream, flush=True)

    def clear(self) -> None:
        """Nothing more to show."""
        if self.live:
            print("\r\x1b[K", end="", file=self.stream, flush=True)


def render(run: document.Run, outcome: JudgedTrace, header: Header, style: Style) -> Iterator[str]:
    """All lines of the report, after the heading."""
    for at, one in enumerate(outcome.findings[:MOST]):
        yield ""
        yield from explained(run, one, style, leads=at == 0)
    for breach in [one for one in outcome.misuse if not one.harmless][:MOST]:
        yield ""
        yield from misuse(breach, style)
    yield ""
    yield from terminal.packs(run, style)
    yield ""
    for text, color in notes(outcome, header):
        yield from (style.paint(line, color) for line in style.wrap(text, "    ", "  "))
    yield from summary(run, outcome, style)


def explained(run: document.Run, one: Located, style: Style, *, leads: bool) -> Iterator[str]:
    """A finding: the rules, what was allowed and seen, and the calls up to it with their lines."""
    finding = one.finding
    yield terminal.caused(cause_of(finding), style)
    for id in finding.rules:
        yield from terminal.stated(run.rules[id], style, "red" if run.rules[id].strength.value == "MUST" else "yellow")
    yield ""
    yield from terminal.explained(finding, finding.rules, run.rules, style)
    yield ""
    yield from window(one.lines, finding.calls, one.before, style)
    yield ""
    yield from terminal.labelled("found in", f"line {one.line}", style)
    if not leads:
        text = "only seen after other broken rules had been muted; it may follow from them"
        yield from terminal.labelled("note", text, style)


def misuse(one: Misuse, style: Style) -> Iterator[str]:
    """A breach of the contract by the engine, and the calls before it."""
    yield style.paint(f"the engine broke the contract: {one.kind}", "bold", "red")
    yield from style.wrap("This is no fault of the cache: the call must not be made.", "  ")
    yield ""
    yield from terminal.labelled("seen", brief(one.text), style)
    yield ""
    yield from window([*one.lines, one.line], [*one.calls, one.call], 0, style)
    yield ""
    yield from terminal.labelled("found in", f"line {one.line}", style)


def window(lines: list[int], calls: list[str], before: int, style: Style) -> Iterator[str]:
    """The last calls, each with its line; the last one is the one that matters."""
    if before > 0:
        yield style.paint(f"  {style.symbol('ellipsis')} {before:,} call{'s' * (before != 1)} before", "dim")
    digits = len(str(max(lines, default=0)))
    for at, (line, call) in enumerate(zip(lines, calls, strict=True), 1):
        here = at == len(calls)
        head = f"  {style.symbol('here') if here else ' '} line {line:>{digits}}: "
        rows = style.wrap(brief(call), " " * (len(head) + 2), head)
        yield from (style.paint(row, "bold") if here else row for row in rows)


def notes(outcome: JudgedTrace, header: Header) -> Iterator[tuple[str, str]]:
    """What else there is to say, with a colour."""
    if outcome.error:
        yield f"judging failed: {outcome.error}", "red"
    if outcome.stopped:
        yield f"judged up to here: {outcome.stopped}", "yellow"
    if outcome.torn:
        yield f"the trace is torn: {outcome.torn}; judged up to line {outcome.last}", "yellow"
    if outcome.interrupted:
        yield f"interrupted after line {outcome.last}", "yellow"
    mild = outcome.misuses - sum(not one.harmless for one in outcome.misuse)
    if mild:
        first = next(one for one in outcome.misuse if one.harmless)
        many = f"{mild} breach{'es' * (mild != 1)} of the contract after which judging went on"
        yield f"{many}, the first of them in line {first.line}: {first.kind}: {first.text}", "yellow"
    for method, times in sorted(outcome.ignored.items()):
        yield f"{times:,} call{'s' * (times != 1)} of {harmless(method)!r} not judged, as --ignore-unknown asks", "dim"
    if header.unjudged:
        yield f"no trace can be judged for the ports {', '.join(sorted(header.unjudged))} yet", "dim"


def summary(run: document.Run, outcome: JudgedTrace, style: Style) -> Iterator[str]:
    """The last lines."""
    *first, last = terminal.summary(replace(run), style)
    yield first[0]
    yield style.paint(f"{run.steps:,} calls judged, up to line {outcome.last:,}, {run.seconds:.1f} s", "dim")
    color = "green" if run.exit_code == 0 else "red" if run.exit_code in (1, 3) else "yellow"
    text = f"exit {run.exit_code}: {verdict.meaning(run, outcome)}"
    yield style.paint(text, color) if run.exit_code else last
