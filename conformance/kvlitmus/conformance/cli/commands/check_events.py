"""``kvlitmus check`` on a stream of KV events: judges what an engine told routers; nothing is driven."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from typing import IO

from kvlitmus.conformance.cli.commands import common
from kvlitmus.conformance.cli.commands.common import UsageError
from kvlitmus.conformance.cli.commands.located import BATCHES, Progress, explained
from kvlitmus.conformance.cli.commands.run import now
from kvlitmus.conformance.history.streams import verdict
from kvlitmus.conformance.history.streams.capture import Capture, StreamError
from kvlitmus.conformance.history.streams.judge import StreamJudge
from kvlitmus.conformance.ports import Profile
from kvlitmus.conformance.report import document, terminal
from kvlitmus.conformance.report.style import Style, style_of
from kvlitmus.conformance.support.text import harmless
from kvlitmus.conformance.support.version import version

COPIES = {"one": "a name stands for all copies", "each": "each copy counts"}
"""How events are read (``event_copies`` of the profile), in words."""


def main(stream: IO[bytes], args: argparse.Namespace) -> int:
    """Judge the stream and report; returns the exit code."""
    started = time.monotonic()
    chosen = {id: one for id, one in common.pick_rules(args.rule, args.pack).items() if verdict.of_events(one)}
    if not chosen:
        raise UsageError("a stream of events tells nothing of the rules that were named ('kvlitmus rules event')")
    style = style_of(sys.stdout, args.color, verbose=args.verbose)
    judge = StreamJudge(
        args.file,
        chosen,
        Profile(event_copies=args.copies),
        complete=not args.late,
        keep_going=args.keep_going,
        window=args.window,
    )
    try:
        with Capture(args.file, stream=stream, ignore_unknown=args.ignore_unknown) as capture:
            read(capture, judge, args)
    except StreamError as error:
        raise UsageError(str(error)) from None
    run = verdict.report(
        judge, chosen, file=harmless(args.file), version=version(), date=now(), seconds=time.monotonic() - started
    )
    if args.json:
        print(document.dump(verdict.as_data(run, judge)), end="")
    else:
        for text in render(run, judge, capture, style):
            print(text)
    return run.exit_code


def read(capture: Capture, judge: StreamJudge, args: argparse.Namespace) -> None:
    """Judge the stream, as far as it goes; raises :class:`StreamError`."""
    progress = Progress(sys.stderr, capture, "batches")
    try:
        if not args.json:
            print(f"judging the events in {harmless(args.file)}, read so that {COPIES[args.copies]}", flush=True)
        progress.follow(judge.run(capture))
    except KeyboardInterrupt:
        judge.outcome.interrupted = True
    judge.outcome.torn = capture.torn


def render(run: document.Run, judge: StreamJudge, capture: Capture, style: Style) -> Iterator[str]:
    """All lines of the report, after the heading."""
    for at, one in enumerate(judge.outcome.findings):
        yield ""
        yield from explained(run, one, style, leads=at == 0, unit=capture.unit, steps=BATCHES)
    yield ""
    yield from terminal.packs(run, style)
    yield ""
    for text, color in notes(judge, capture):
        yield from (style.paint(line, color) for line in style.wrap(text, "    ", "  "))
    yield from mirrored(judge, style)
    outcome = judge.outcome
    yield next(terminal.summary(run, style))
    told = f"{outcome.events:,} events in {outcome.batches:,} batches judged, up to {capture.unit} {outcome.last:,}"
    yield style.paint(f"{told}, {run.seconds:.1f} s", "dim")
    color = "green" if run.exit_code == 0 else "red" if run.exit_code == 1 else "yellow"
    yield style.paint(f"exit {run.exit_code}: {verdict.meaning(run, judge)}", color)


def notes(judge: StreamJudge, capture: Capture) -> Iterator[tuple[str, str]]:
    """What else there is to say, with a colour."""
    outcome = judge.outcome
    if outcome.stopped:
        yield f"judged up to here: {capture.unit} {outcome.stopped}", "yellow"
    if outcome.torn:
        yield f"the stream is torn: {outcome.torn}; judged up to {capture.unit} {outcome.last}", "yellow"
    if outcome.interrupted:
        yield f"interrupted after {capture.unit} {outcome.last}", "yellow"
    for text in verdict.notes(judge, capture.unit):
        yield text, "yellow"
    for kind, times in sorted(capture.ignored.items()):
        yield f"{times:,} event{'s' * (times != 1)} of the kind {harmless(kind)!r} not judged, as asked", "dim"


def mirrored(judge: StreamJudge, style: Style) -> Iterator[str]:
    """What a mirror holds at the end."""
    for name, publisher in judge.publishers.items():
        groups = len(publisher.groups) > 1
        parts = [
            f"{blocks:,} block{'s' * (blocks != 1)} on the {tier}{f' (group {group})' if groups else ''}"
            for group, tier, blocks in publisher.holds()
        ]
        since = "" if publisher.complete else " by what was told since the gap"
        whose = f" of {name}" if name else ""
        yield from style.wrap(f"a mirror{whose} holds{since}: {', '.join(parts) or 'nothing'}", "    ", "  ")
