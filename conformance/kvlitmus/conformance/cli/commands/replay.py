"""``kvlitmus replay``: plays saved failures again, step by step."""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from kvlitmus.conformance.beside.moments import filled
from kvlitmus.conformance.cli.commands import session
from kvlitmus.conformance.cli.commands.common import TargetFailed, UsageError, check_writable
from kvlitmus.conformance.isolation.worker_pool import WorkerPool
from kvlitmus.conformance.litmus.registry import all_litmus
from kvlitmus.conformance.report import terminal
from kvlitmus.conformance.report.style import Style, style_of
from kvlitmus.conformance.run import targets
from kvlitmus.conformance.run.cause import cause_of
from kvlitmus.conformance.run.failures import SUFFIX, Failure, FailureError, load, replay_line, tape_of
from kvlitmus.conformance.run.results import Finding, Item, ItemResult, Options
from kvlitmus.conformance.support import files
from kvlitmus.conformance.support.brief import brief
from kvlitmus.conformance.support.text import closest, harmless
from kvlitmus.conformance.support.version import version
from kvlitmus.conformance.viewer.beside import shown
from kvlitmus.conformance.viewer.page import Play, write
from kvlitmus.spec.law.rule import Rule
from kvlitmus.spec.parts import all_rules

STILL, GONE = 1, 0


def main(args: argparse.Namespace) -> int:
    """Play failures again; 1 if one still occurs, 0 if none does."""
    style = style_of(sys.stdout, args.color)
    if args.html is not None:
        check_writable("--html", args.html)
    paths = files_of(args.files)
    found = [read(str(path)) for path in paths]
    still = 0
    plays: list[Play] = []
    with contextlib.ExitStack() as stack:
        pools: dict[targets.TargetRef, WorkerPool] = {}
        for at, (failure, rules) in enumerate(found):
            if at:
                print()
            ref = session.find(args.target or named(failure, paths[at]), args.python)
            if ref not in pools:
                pools[ref] = stack.enter_context(session.workers(ref, keeps=True))
            result = played(failure, rules, pools[ref], style)
            still += occurs(result, rules) is not None
            if args.html is not None:
                plays.append(
                    drawn(failure, rules, result, args, replay_line(paths[at], args.python or "", args.target or ""))
                )
    if len(found) > 1:
        print()
        print(style.paint(f"{still} of {len(found)} failures still occur", "red" if still else "green"))
    if args.html is not None:
        draw(plays, Path(args.html))
    return STILL if still else GONE


def named(failure: Failure, path: Path) -> str:
    """The target that a file names; raises :class:`UsageError` where that is a program."""
    if failure.target.startswith(targets.EXEC):
        line = replay_line(path, target=failure.target)
        raise UsageError(f"{harmless(path, 200)} is of a program, which a file doesn't start; if you know it: {line}")
    return failure.target


def drawn(failure: Failure, rules: dict[str, Rule], result: ItemResult, args: argparse.Namespace, line: str) -> Play:
    """What happened, to be drawn; what is on file, if nothing happened."""
    finding = occurs(result, rules) or next(iter(result.findings), None)
    if finding is None:
        return shown(failure.header.data, [step.data for step in failure.steps], line)
    header, steps = tape_of(
        as_shrunk(finding, failure) if occurs(result, rules) else finding,
        target=args.target or failure.target,
        depth=failure.depth,
        force_misuse=failure.force_misuse,
        version=version(),
        fill=filled,
    )
    return shown(header, steps, line)


def as_shrunk(finding: Finding, failure: Failure) -> Finding:
    """A finding that occurs again, with what the file says of its length: it was shrunk before it was saved."""
    minimal, stopped = (str(failure.finding.get(name) or "") for name in ("minimal", "not_minimal"))
    return replace(finding, minimal=minimal, not_minimal=stopped)


def draw(plays: Sequence[Play], path: Path) -> None:
    """Write the page; that it can't be written is the user's to see."""
    stream = io.StringIO()
    write(stream, plays)
    try:
        files.write(path, stream.getvalue())
    except OSError as error:
        raise UsageError(f"--html {path}: can't be written: {files.reason(error)}") from None
    print(f"drawn in {harmless(path)}")


def files_of(names: Sequence[str]) -> list[Path]:
    """The files that were named; of a folder all its saved failures."""
    found: list[Path] = []
    for name in names:
        path = Path(name)
        try:
            inside = files.listed(path, f"*{SUFFIX}") if files.is_folder(path) else [path]
        except (OSError, ValueError) as error:
            raise UsageError(f"{name}: {files.unreadable(error, 'a saved failure, or a folder of them')}") from None
        if not inside:
            raise UsageError(f"{name}: no saved failure is in this folder")
        found += inside
    return list(dict.fromkeys(found))


def played(failure: Failure, rules: dict[str, Rule], pool: WorkerPool, style: Style) -> ItemResult:
    """Play one failure again, and tell; what came of it."""
    target = harmless(pool.ref.name, 100)
    print(
        f"replaying {style.paint(', '.join(rules), 'bold')} on {target}, {failure.config.label}, "
        f"depth {failure.depth}{note(failure)}",
        flush=True,
    )
    try:
        (result,) = session.play(pool, [item_of(failure)], options_of(failure, rules))
    except UsageError as error:
        raise UsageError(f"{error}; replay it in the folder in which it was found, or say --target") from None
    for line in told(failure, rules, result, style):
        print(line)
    if result.error:
        raise TargetFailed(result.error)
    return result


def read(name: str) -> tuple[Failure, dict[str, Rule]]:
    """A saved failure, and its rules; names that this version does not know are the user's to see."""
    try:
        failure = load(Path(name))
    except FailureError as error:
        raise UsageError(str(error)) from None
    known = all_rules()
    for id in failure.rules:
        if id not in known:
            raise UsageError(f"{name}: 'rules': there is no rule {harmless(id, 40)!r}{closest(id, known)}")
    if failure.litmus and failure.litmus not in all_litmus():
        near = closest(failure.litmus, all_litmus())
        raise UsageError(f"{name}: 'litmus': there is no litmus test {harmless(failure.litmus, 100)!r}{near}")
    return failure, {id: known[id] for id in failure.rules}


def note(failure: Failure) -> str:
    """That the file comes from another version, or names a litmus test, if it does: its calls aren't what is played."""
    test = f", by the litmus test {failure.litmus} as it is written, not as the file" if failure.litmus else ""
    return test + (f" (saved by kvlitmus {harmless(failure.kvlitmus, 40)})" if failure.kvlitmus != version() else "")


def item_of(failure: Failure) -> Item:
    """What to play."""
    kind = "litmus" if failure.litmus else "schedule"
    return Item(kind=kind, config=failure.config, name=failure.litmus, schedule=failure.schedule)


def options_of(failure: Failure, rules: dict[str, Rule]) -> Options:
    """How to play it: nothing shrunk, all other rules muted, because an earlier call may break them first."""
    return Options(
        depth=failure.depth,
        muted=frozenset(all_rules().keys() - rules.keys()),
        force_misuse=failure.force_misuse,
        reruns=0,
        shrink_trials=0,
    )


def occurs(result: ItemResult, rules: dict[str, Rule]) -> Finding | None:
    """The finding that breaks one of the rules, if there is one."""
    return next((one for one in result.findings if not rules.keys().isdisjoint(one.rules)), None)


def told(failure: Failure, rules: dict[str, Rule], result: ItemResult, style: Style) -> Iterator[str]:
    """What happened, step by step."""
    finding = occurs(result, rules) or next(iter(result.findings), None)
    yield ""
    if finding is not None:
        yield terminal.caused(cause_of(finding), style)
        yield ""
    if finding is None:
        for number, call in enumerate(failure.calls, 1):
            yield from style.wrap(brief(harmless(call)), " " * 8, f"    {number:>3} ")
        if result.unsupported:
            yield style.paint(
                f"{'not asked for' if result.left_out else 'declined by the target'}: {result.unsupported}", "yellow"
            )
        elif not result.error:
            yield ""
            many = f"{result.steps} call{'s' * (result.steps != 1)}"
            yield style.paint(f"it no longer occurs: {many} played, none of them broke {' or '.join(rules)}", "green")
        return
    yield from terminal.sequence(finding, style)
    yield ""
    known = {id: terminal.Stated.of(rule) for id, rule in all_rules().items()}
    for id in finding.rules:
        yield from terminal.stated(known[id], style)
    yield ""
    yield from terminal.explained(finding, finding.rules, known, style)
    yield from terminal.parted(finding, style)
    yield ""
    if occurs(result, rules):
        at = f"call {len(finding.calls)} breaks {', '.join(finding.rules)}{in_steps(finding)}"
        yield style.paint(f"it still occurs: {at}", "red")
    else:
        yield style.paint(f"another rule is broken now: {', '.join(finding.rules)}, not {' or '.join(rules)}", "yellow")


def in_steps(finding: Finding) -> str:
    """Which step the last call ends with, as its page counts: some calls are several steps."""
    _, *steps = finding.tape or [{}]
    last = len(steps) - (bool(steps) and "call" not in steps[0])
    return f" (step {last} of its page)" if steps and last != len(finding.calls) else ""
