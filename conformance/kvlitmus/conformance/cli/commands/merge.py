"""``kvlitmus merge``: one report of what many machines have played."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from kvlitmus.conformance.checker.explain import harmless
from kvlitmus.conformance.cli.commands import common, session
from kvlitmus.conformance.cli.commands import report as forms
from kvlitmus.conformance.cli.commands.common import UsageError
from kvlitmus.conformance.cli.commands.players import Merged
from kvlitmus.conformance.cli.commands.run import baselines_of, check_report, conclude_and_report, now, play
from kvlitmus.conformance.report import document
from kvlitmus.conformance.report.style import style_of
from kvlitmus.conformance.shards import folder, merge

SHOWN = 8
"""So many missing shards are named."""


def main(args: argparse.Namespace) -> int:
    """Merge shards and report; returns the exit code."""
    started = time.monotonic()
    known = baselines_of(args.baseline)
    check_report(args.report)
    if args.write_baseline is not None:
        common.check_writable("--write-baseline", args.write_baseline)
    forms.check_writable(args.junit, args.markdown)
    try:
        there = folder.played(folders_of(args.folders))
        if there.plan is None:
            raise UsageError(f"{', '.join(args.folders)}: no shards there, which are called {folder.PATTERN}")
        run = merge.run_of(there.plan.head, there.plan.items, now())
    except folder.ShardError as error:
        raise UsageError(str(error)) from None
    found = None if args.target is None else same_target(args, run)
    style = style_of(sys.stdout, args.color, verbose=args.verbose, every=args.all)
    minimal = play(run, Merged(there, found, args.jobs), (), merge.options_of(run), False, style)
    if lacking := there.missing:
        told = ", ".join(lacking[:SHOWN]) + (f" and {len(lacking) - SHOWN} more" if len(lacking) > SHOWN else "")
        print(f"kvlitmus: shards are missing, or not played to their end: {told}", file=sys.stderr)
    return conclude_and_report(run, minimal, known, args, style, started)


def folders_of(words: Sequence[str]) -> list[Path]:
    """The folders that were named, each once; raises :class:`UsageError` for what is none."""
    for word in words:
        if not Path(word).is_dir():
            raise UsageError(f"{harmless(word)}: expected a folder with shards")
    return list({path.resolve(): path for path in map(Path, words)}.values())


def same_target(args: argparse.Namespace, run: document.Run) -> session.Session:
    """The target that the shards were played on; raises :class:`UsageError` for another version of it."""
    found = session.ask(session.find(args.target, args.python), session.limits_of(args))
    if found.version != run.target_version:
        raise UsageError(
            f"--target {harmless(args.target)}: expected {run.target_version or 'a target without a version'}, which "
            f"the shards were played on (got {found.version or 'one without a version'})"
        )
    return found
