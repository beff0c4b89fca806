"""``kvlitmus check``: judges a recorded trace, or a stream of KV events; nothing is driven."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import IO

from kvlitmus.conformance.cli.commands import check_events, check_runs, common
from kvlitmus.conformance.cli.commands.common import UsageError
from kvlitmus.conformance.cli.commands.located import Progress, explained, window
from kvlitmus.conformance.cli.commands.run import now
from kvlitmus.conformance.history import verdict
from kvlitmus.conformance.history.checker import TraceChecker
from kvlitmus.conformance.history.reader import Header, Reader
from kvlitmus.conformance.history.state import JudgedTrace, Misuse
from kvlitmus.conformance.history.streams.capture import is_stream, peeked
from kvlitmus.conformance.report import document, terminal
from kvlitmus.conformance.report.style import Style, style_of
from kvlitmus.conformance.support import files
from kvlitmus.conformance.support.brief import brief
from kvlitmus.conformance.support.text import harmless
from kvlitmus.conformance.support.version import version
from kvlitmus.conformance.tape.lines import TapeError, TapeReader, opened
from kvlitmus.spec.parts import all_rules

MOST = 20
"""Maximum number of findings, and of breaches of the contract, that are shown in full."""


def main(args: argparse.Namespace) -> int:
    """Judge the trace, or the stream of events, and report; returns the exit code."""
    try:
        stream, _ = opened(args.file)
        try:
            if args.events or is_stream(peeked(stream)):
                return check_events.main(stream, args)
            return check_tape(stream, args)
        finally:
            if args.file != "-":
                stream.close()
    except TapeError as error:
        raise UsageError(str(error)) from None
    except (OSError, ValueError) as error:  # a name with a null character is a ValueError
        raise UsageError(f"{harmless(args.file)}: {files.unreadable(error)}") from None


def check_tape(stream: IO[bytes], args: argparse.Namespace) -> int:
    """Judge a tape; raises :class:`TapeError`."""
    started = time.monotonic()
    chosen = common.pick_rules(args.rule, args.pack)
    style = style_of(sys.stdout, args.color, verbose=args.verbose)
    tape = TapeReader(args.file, stream=stream, ignore_unknown=args.ignore_unknown)
    if tape.header.item is not None:
        return check_runs.main(tape, args, chosen)
    reader = Reader(tape)
    trace_checker = judged(reader, args, len(chosen), frozenset(all_rules().keys() - chosen.keys()), style)
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
    """The checker after the trace, as far as it goes; raises :class:`TapeError`."""
    trace_checker = TraceChecker(
        reader,
        depth=args.depth,
        muted=muted,
        keep_going=args.keep_going,
        window=args.window,
    )
    progress = Progress(sys.stderr, reader, "lines")
    try:
        if not args.json:
            print(heading(reader.header, trace_checker, args.file, rules, style), flush=True)
        progress.follow(trace_checker.run(reader))
    except KeyboardInterrupt:
        trace_checker.outcome.interrupted = True
    trace_checker.outcome.torn = reader.tape.breaks_off
    return trace_checker


def heading(header: Header, trace_checker: TraceChecker, file: str, rules: int, style: Style) -> str:
    """The first line."""
    cache = style.paint(header.cache or "a recorded cache", "bold")
    return (
        f"judging {harmless(file)} of {cache}: {header.config.label}, {rules} rule{'s' * (rules != 1)}, "
        f"depth {trace_checker.checker.depth}"
    )


def render(run: document.Run, outcome: JudgedTrace, header: Header, style: Style) -> Iterator[str]:
    """All lines of the report, after the heading."""
    for at, one in enumerate(outcome.findings[:MOST]):
        yield ""
        yield from explained(run, one, style, leads=at == 0)
    for breach in [one for one in outcome.misuse if not one.harmless][:MOST]:
        yield ""
        yield from misuse(breach, run.target, style)
    yield ""
    yield from terminal.packs(run, style)
    yield ""
    for text, color in notes(outcome, header):
        yield from (style.paint(line, color) for line in style.wrap(text, "    ", "  "))
    yield from summary(run, outcome, style)


def misuse(one: Misuse, file: str, style: Style) -> Iterator[str]:
    """A breach of the contract by the engine in a file, and the calls before it."""
    yield style.paint(f"the engine broke the contract: {one.kind}", "bold", "red")
    yield from style.wrap("This is no fault of the cache: the call must not be made.", "  ")
    yield ""
    yield from terminal.labelled("seen", brief(one.text), style)
    yield ""
    yield from window([*one.lines, one.line], [*one.calls, one.call], 0, style)
    yield ""
    yield from terminal.labelled("found in", f"{file}:{one.line}", style)


def notes(outcome: JudgedTrace, header: Header) -> Iterator[tuple[str, str]]:
    """What else there is to say, with a colour."""
    if outcome.error:
        yield f"judging failed: {outcome.error}", "red"
    if outcome.stopped:
        yield f"judged up to here: {outcome.stopped}", "yellow"
    if outcome.lacking:
        yield f"not all is known: {outcome.lacking}; judged is what is certain all the same", "yellow"
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
        yield (
            f"{times:,} call{'s' * (times != 1)} of {harmless(method)!r} not judged: unknown, or not told in full",
            "dim",
        )
    if header.unjudged:
        yield f"of the ports {', '.join(sorted(header.unjudged))} no trace can be judged", "dim"


def summary(run: document.Run, outcome: JudgedTrace, style: Style) -> Iterator[str]:
    """The last lines."""
    *first, last = terminal.summary(replace(run), style)
    yield first[0]
    judged = f"{run.steps:,} calls judged"
    if outcome.judged < outcome.total or outcome.partly:
        judged = f"{outcome.judged:,} of {outcome.total:,} calls judged"
        judged += f", {outcome.partly:,} of them by what is certain" if outcome.partly else ""
    yield style.paint(f"{judged}, up to line {outcome.last:,}, {run.seconds:.1f} s", "dim")
    color = "green" if run.exit_code == 0 else "red" if run.exit_code in (1, 3) else "yellow"
    text = f"exit {run.exit_code}: {verdict.meaning(run, outcome)}"
    yield style.paint(text, color) if run.exit_code else last
