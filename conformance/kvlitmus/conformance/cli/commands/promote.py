"""``kvlitmus promote``: makes a finding a vector of the deterministic set.

A vector is held against everybody, so it must be beyond doubt: the reference and the specimen pass it,
and on both it leads to the rule that it is about.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kvlitmus.conformance.cli.commands import session
from kvlitmus.conformance.cli.commands.common import UsageError
from kvlitmus.conformance.cli.commands.replay import read
from kvlitmus.conformance.report.style import style_of
from kvlitmus.conformance.run.failures import SUFFIX, Failure
from kvlitmus.conformance.run.results import Item, Options
from kvlitmus.conformance.support import files
from kvlitmus.conformance.support.text import harmless
from kvlitmus.conformance.vectors import FOLDER, Vector, VectorError, id_of, line_of, load_all

MUST_PASS = ("reference", "specimen")
"""The caches that must pass a vector."""

LONGEST = 100
"""Operations of the longest schedule that becomes a vector: a longer one has not been shrunk."""


def main(args: argparse.Namespace) -> int:
    """Check a finding and save it as a vector; returns the exit code."""
    failure, rules = read(args.file)
    style = style_of(sys.stdout, args.color)
    vector = vector_of(args, failure)
    folder = Path(args.into) if args.into else FOLDER
    try:
        known = load_all(folder) if files.is_folder(folder) else {}
    except VectorError as error:
        raise UsageError(str(error)) from None
    except (OSError, ValueError) as error:
        raise UsageError(f"--into {folder}: {files.unreadable(error, 'a folder for vectors')}") from None
    same = next((one for one in known.values() if (one.config, one.schedule) == (vector.config, vector.schedule)), None)
    if same is not None:
        print(f"{harmless(args.file)} is a vector already: {harmless(folder / same.id)}{SUFFIX}")
        return 0
    for cache in MUST_PASS:
        why_not = refused(cache, vector, failure)
        if why_not:
            print(style.paint(f"refused: {why_not}", "red"))
            return 1
    path = folder / f"{vector.id}{SUFFIX}"
    try:
        files.write(path, line_of(vector), lasting=True)
    except OSError as error:
        raise UsageError(f"{path}: can't be written: {files.reason(error)}") from None
    many = len(vector.schedule)
    print(f"{', '.join(rules)}: {many} operations in {vector.config.label} are a vector now: {harmless(path)}")
    return 0


def vector_of(args: argparse.Namespace, failure: Failure) -> Vector:
    """The vector that a failure would make; what can't be one is the user's to see."""
    if failure.litmus:
        raise UsageError(f"{args.file}: it comes from the litmus test {failure.litmus}, which every run plays already")
    if failure.force_misuse:
        raise UsageError(f"{args.file}: it needs --force-misuse, and a vector is played under every profile")
    if len(failure.schedule) > LONGEST:
        many = len(failure.schedule)
        raise UsageError(f"{args.file}: {many} operations are more than {LONGEST}: it has not been shrunk")
    if args.link and not args.link.startswith(("https://", "http://")):
        raise UsageError(f"--link must begin with https:// or http:// (got {harmless(args.link, 80)!r})")
    call = failure.calls[-1] if failure.calls else ""
    origin = {"target": failure.target, "kvlitmus": failure.kvlitmus, "call": harmless(call), "link": args.link}
    return Vector(
        id=id_of(failure.rules, failure.config, failure.schedule),
        rules=failure.rules,
        config=failure.config,
        schedule=failure.schedule,
        sentence=harmless(args.why.strip()) or f"A schedule on which {harmless(failure.target, 100)} broke its rules.",
        origin=tuple((name, text) for name, text in origin.items() if text),
    )


def refused(cache: str, vector: Vector, failure: Failure) -> str:
    """Why a vector is refused, as this cache sees it; empty if it passes."""
    item = Item(kind="vector", config=vector.config, name=vector.id, schedule=vector.schedule)
    with session.workers(session.find(cache, None)) as pool:
        (result,) = session.play(pool, [item], Options(reruns=0, shrink_trials=0))
    if result.findings:
        broken = result.findings[0]
        return (
            f"the {cache} breaks {', '.join(broken.rules)} on it, by {broken.call}; either a rule is wrong or the "
            f"{cache} is, and that is to be settled first"
        )
    if result.error or result.unsupported:
        return f"the {cache} could not play it: {result.error or result.unsupported}"
    never = [rule for rule in failure.rules if not result.evaluated[rule]]
    if never:
        return f"on the {cache} it never leads to {', '.join(never)}, so it would say nothing"
    return ""
