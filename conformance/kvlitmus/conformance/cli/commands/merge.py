"""``kvlitmus merge``: one report of what many machines have played."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kvlitmus.conformance.checker.explain import harmless
from kvlitmus.conformance.cli.commands import fuzz, session
from kvlitmus.conformance.cli.commands.common import UsageError
from kvlitmus.conformance.cli.commands.players import Merged
from kvlitmus.conformance.cli.commands.run import (
    baselines_of,
    check_issue,
    check_outputs,
    check_report,
    conclude_and_report,
    now,
    play,
)
from kvlitmus.conformance.fuzz import merge as merging
from kvlitmus.conformance.fuzz import summary
from kvlitmus.conformance.fuzz.canary import Canary
from kvlitmus.conformance.fuzz.store import Store, StoreError
from kvlitmus.conformance.report import document
from kvlitmus.conformance.report.style import style_of
from kvlitmus.conformance.run.failures import FailureError, quoted
from kvlitmus.conformance.shards import folder, merge
from kvlitmus.conformance.support import ending, files

SHOWN = 8
"""So many missing shards are named."""


def main(args: argparse.Namespace) -> int:
    """Merge shards and report; returns the exit code."""
    started = time.monotonic()
    folders = folders_of(args.folders)
    try:
        campaigns = merging.campaigns_in(folders)
    except OSError as error:
        why = files.unreadable(error, "a folder that can be read")
        raise UsageError(f"{harmless(error.filename)}: {why}") from None
    if campaigns:
        return merge_campaigns(campaigns, args)
    if args.into or args.issue:
        raise UsageError("--into and --issue are for shards of 'kvlitmus fuzz', and none are there")
    known = baselines_of(args.baseline)
    check_outputs(args)
    try:
        there = folder.played(folders)
        if there.plan is None:
            raise UsageError(f"{', '.join(args.folders)}: no shards there, which are called {folder.PATTERN}")
        run = merge.run_of(there.plan.head, there.plan.items, now())
    except folder.ShardError as error:
        raise UsageError(str(error)) from None
    found = None if args.target is None else same_target(args, run)
    style = style_of(sys.stdout, args.color, verbose=args.verbose, every=args.all)
    minimal = play(run, Merged(there, found, args.jobs), (), merge.options_of(run), False, style)
    if lacking := there.missing:
        run.scope = replace(run.scope, lacking=lacking_text(lacking))
    code = conclude_and_report(run, minimal, known, args, style, started)
    if lacking:
        out = args.folders[0] if len(args.folders) == 1 else "DIR"
        print(f"kvlitmus: {run.scope.lacking}; {what_to_play('run', lacking[0], run.target, out)}", file=sys.stderr)
    return code


def lacking_text(shards: Sequence[str]) -> str:
    """Which shards there are not, in words."""
    if len(shards) == 1:
        return f"shard {shards[0]} is missing, or was not played to its end"
    return f"shards {some_of(shards)} are missing, or were not played to their end"


def some_of(shards: Sequence[str]) -> str:
    """The first of these shards, and how many more there are."""
    more = f" and {len(shards) - SHOWN} more" if len(shards) > SHOWN else ""
    return harmless(", ".join(shards[:SHOWN])) + more


def what_to_play(command: str, shard: str, target: str, out: str) -> str:
    """What to do about missing shards: the command that plays the first."""
    line = f"kvlitmus {command} {quoted(target)} --shard {shard} --out {quoted(out)}"
    return f"with the options of the others: {line}; then merge again"


def folders_of(words: Sequence[str]) -> list[Path]:
    """The folders that were named, each once; raises :class:`UsageError` for what is none."""
    for word in words:
        try:
            files.listed(Path(word))
        except (OSError, ValueError) as error:
            raise UsageError(f"{harmless(word)}: {files.unreadable(error, 'a folder with shards')}") from None
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


# -- shards of a campaign --------------------------------------------------------------------------------------------


def merge_campaigns(folders: Sequence[Path], args: argparse.Namespace) -> int:
    """Merge shards of 'kvlitmus fuzz' into the folder of one campaign and report; returns the exit code."""
    if not args.into:
        raise UsageError("shards of 'kvlitmus fuzz' need --into: the folder of the campaign that they become")
    if args.target or args.junit or args.markdown or args.write_baseline:
        raise UsageError("of shards of 'kvlitmus fuzz', --report and --issue tell; nothing is played again")
    known = baselines_of(args.baseline)
    check_report(args.report)
    check_issue(args.issue)
    style = style_of(sys.stdout, args.color)
    try:
        with Store(Path(args.into), lambda text: print(text, file=sys.stderr)) as store:
            begun = fuzz.begin(target_of(folders), store, known, {}, canary=True)
            store.note("began", target=begun.target)
            merged = merging.merge(folders, store)
            outcome = outcome_of(begun, merged, folders)
            with ending.reporting():
                store.note("ended", **standing(merged))
                told = fuzz.write(args, outcome)
                for line in [*summary.lines(outcome, every=args.all), *told]:
                    print(style.cut(line))
            return outcome.exit_code
    except (StoreError, FailureError) as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"--into {args.into}: can't be written: {files.reason(error)}") from None


def target_of(folders: Sequence[Path]) -> str:
    """The one target that all shards were played on; raises :class:`UsageError` where there are several."""
    named = {folder: merging.target_in(folder) for folder in folders}
    names = {name: folder for folder, name in named.items() if name}
    if len(names) > 1:
        told = ", ".join(f"{harmless(name, 80)} in {harmless(folder)}" for name, folder in names.items())
        raise UsageError(f"expected shards of one target (got {told})")
    if not names:
        raise UsageError(f"{harmless(folders[0])}: nothing was begun there")
    return next(iter(names))


def outcome_of(
    begun: summary.CampaignSession, merged: merging.Merged, folders: Sequence[Path]
) -> summary.CampaignSession:
    """What there is to say of shards that were merged."""
    said = [about for about in merged.abouts if about]
    first = next(iter(said), {})
    bird = next((about["canary"] for about in said if about.get("canary")), None)
    begun.campaign = merged
    begun.target_version, begun.python = str(first.get("target_version", "")), str(first.get("python", ""))
    begun.settings = dict(first.get("settings", begun.settings))
    begun.canary = None if bird is None else Canary(**{**bird, "rules": tuple(bird["rules"])})
    begun.canary_wanted = any(about.get("canary_wanted") for about in said) or len(said) < len(folders)
    begun.changed = any(about.get("changed") for about in said)
    broken = [str(about["broken_off"]) for about in said if about.get("broken_off")]
    if lacking := [*map(str, merged.unfinished), *merging.absent(folders)]:
        broken.append(f"not the whole campaign: missing, or not played to the end: {some_of(lacking)}")
        named = merging.NAME.fullmatch(Path(lacking[0]).name)
        play = what_to_play("fuzz", f"{named[1]}/{named[2]}" if named else "I/N", begun.target, "DIR")
        print(f"kvlitmus: {broken[-1]}; {play}", file=sys.stderr)
    begun.broken_off = "; ".join(broken)
    return begun


def standing(merged: merging.Merged) -> dict[str, float]:
    """What was played, for the journal of the campaign."""
    came = merged.came()
    return {"steps": came.tally.steps, "plays": came.tally.plays, "elapsed": round(came.seconds, 3)}
