"""``kvlitmus run``: a verdict per rule."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kvlitmus.conformance.beside.moments import filled
from kvlitmus.conformance.checker.explain import harmless
from kvlitmus.conformance.cli.commands import common, players, session
from kvlitmus.conformance.cli.commands import report as forms
from kvlitmus.conformance.cli.commands.common import TargetFailed, UsageError
from kvlitmus.conformance.cli.commands.reports import Reports
from kvlitmus.conformance.isolation.integrity import JudgeChanged
from kvlitmus.conformance.litmus.registry import Litmus, all_litmus
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.report import build, document, terminal
from kvlitmus.conformance.report.progress import LITMUS, Progress
from kvlitmus.conformance.report.stamps import stamps_of
from kvlitmus.conformance.report.style import Style, style_of
from kvlitmus.conformance.run import baseline as baselines
from kvlitmus.conformance.run import failures, plan
from kvlitmus.conformance.run.minimise import TOTAL, Short, minimise
from kvlitmus.conformance.run.results import Item, Options, RuleVerdict, Verdict
from kvlitmus.conformance.run.verdicts import conclude, exit_code, group
from kvlitmus.conformance.shards import merge
from kvlitmus.conformance.support import ending, files
from kvlitmus.conformance.support.version import version
from kvlitmus.conformance.tape import recorder
from kvlitmus.conformance.tape.forms import Json
from kvlitmus.conformance.vectors import Vector, VectorError, all_vectors, load_all
from kvlitmus.spec.law.rule import Rule
from kvlitmus.spec.parts import all_rules

FIRST_SECONDS = 10.0
"""How long the first cause may be shrunk, where the run stops there."""

MAX_SAVED = 200
"""How many failures one run saves at most."""


def main(args: argparse.Namespace) -> int:
    """Judge a target and report; returns the exit code."""
    started = time.monotonic()
    players.check(args)
    chosen = common.pick_rules(args.rule, args.pack, args.strength)
    known = baselines_of(args.baseline)
    if args.first and known is not None:
        raise UsageError("-x stops at the first cause, known or not: leave --baseline out")
    vectors = vectors_of(args.vectors)
    check_outputs(args)
    style = style_of(sys.stdout, args.color, verbose=args.verbose, every=args.all)
    ref = session.find(args.target, args.python)
    print(f"{style.paint(f'kvlitmus {version()}', 'bold')}: starting {harmless(ref.name, 100)}", flush=True)
    with session.asked(ref, session.limits_of(args)) as found:
        return judged(args, found, chosen, known, vectors, style, started)


def judged(
    args: argparse.Namespace,
    found: session.Session,
    chosen: dict[str, Rule],
    known: tuple[baselines.Entry, ...] | None,
    vectors: dict[str, Vector],
    style: Style,
    started: float,
) -> int:
    """Judge a target that has said what it is, and report; returns the exit code."""
    configs = common.pick_configs(found.configs, args.page_size, args.config)
    items = narrowed(
        plan.items(
            configs,
            found.profile,
            seed=args.seed,
            steps=args.steps,
            litmus=not args.no_litmus,
            force_misuse=args.force_misuse,
            vectors=vectors.values(),
        ),
        chosen,
        vectors,
    )
    if args.list:
        return list_items(players.part_of(items, args.shard), chosen, vectors)
    run = prepare(args, found, configs, chosen, len(items))
    if all(one.verdict is Verdict.NOT_APPLICABLE for one in conclude(chosen, [], [], run.scope)):
        items, run.planned = [], 0  # the target offers nothing that the chosen rules speak of
    if args.shard or args.out or any(name.endswith(".json") for name in args.report):
        run.build, run.items = stamps_of(found.ref.module, found.ref.attribute, items, build.kinds_of(configs))
    if args.shard:
        return players.one_shard(args, found, run, items, style)
    with recording(args.record, run, items) as folder, players.player_for(args, found) as player:
        minimal = play(run, player, items, replace(merge.options_of(run), record=folder), args.first, style)
    return conclude_and_report(run, minimal, known, args, style, started)


def conclude_and_report(
    run: document.Run,
    minimal: Sequence[Short],
    known: tuple[baselines.Entry, ...] | None,
    args: argparse.Namespace,
    style: Style,
    started: float,
) -> int:
    """Say what came of a run that was played; returns the exit code."""
    with ending.reporting():
        finish(run, minimal, known, args)
        run.seconds += time.monotonic() - started
        told = Reports(run, args).write()
        for line in [*terminal.render(run, style), *told]:
            print(line)
    return run.exit_code


def baselines_of(path: str | None) -> tuple[baselines.Entry, ...] | None:
    """The baseline that was named; a mistake in it is the user's."""
    if path is None:
        return None
    try:
        return baselines.load(Path(path), all_rules())
    except baselines.BaselineError as error:
        raise UsageError(str(error)) from None


def check_outputs(args: argparse.Namespace) -> None:
    """Raise :class:`UsageError` for a report or a baseline that can't be written, before anything is started."""
    check_report(args.report)
    if getattr(args, "record", None) is not None:
        common.check_writable("--record", args.record)
    if args.write_baseline is not None:
        common.check_writable("--write-baseline", args.write_baseline)
    forms.check_writable(args.junit, args.markdown)


def check_report(paths: Sequence[str]) -> None:
    """Refuse report files that could not be written, before anything is run."""
    for name in paths:
        path = Path(name)
        if path.suffix not in (".json", ".md", ".html"):
            raise UsageError(
                f"--report {name}: a report is written as .json, .md or .html (also: --junit FILE.xml, --markdown FILE)"
            )
        common.check_writable("--report", name)


def check_issue(name: str | None) -> None:
    """Refuse the file of an issue that could not be written."""
    if name:
        common.check_writable("--issue", name)


def vectors_of(folder: str | None) -> dict[str, Vector]:
    """The vectors of the package and of the folder that was named; a mistake in that is the user's."""
    try:
        more = load_all(Path(folder)) if folder is not None else {}
    except VectorError as error:
        raise UsageError(f"--vectors {error}") from None
    if folder is not None and not more:
        raise UsageError(f"--vectors {folder}: it contains no vectors; 'kvlitmus promote' writes them")
    return {**all_vectors(), **more}


def narrowed(items: list[Item], rules: Mapping[str, Rule], vectors: Mapping[str, Vector]) -> list[Item]:
    """The items that can say something about the chosen rules: tests and vectors by what they name, schedules all."""
    if len(rules) == len(all_rules()) or any(rule.startswith("PORT-") for rule in rules):
        return items
    named: dict[str, Litmus | Vector] = {**all_litmus(), **vectors}
    return [one for one in items if not one.name or not rules.keys().isdisjoint(named[one.name].rules)]


def list_items(items: Sequence[Item], rules: Mapping[str, Rule], vectors: Mapping[str, Vector]) -> int:
    """Show what would be run."""
    print(f"{len(rules)} rules: {' '.join(rules)}")
    named: dict[str, Litmus | Vector] = {**all_litmus(), **vectors}
    for item in items:
        about = f"  {' '.join(named[item.name].rules)}" if item.name else f"  {item.ops} operations"
        print(f"{item.id}{about}")
    print(f"{len(items)} items")
    return 0


def now() -> str:
    """The date of the report; ``SOURCE_DATE_EPOCH`` makes it reproducible."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    moment = datetime.fromtimestamp(int(epoch), UTC) if epoch.isdigit() and len(epoch) < 12 else datetime.now(UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def prepare(
    args: argparse.Namespace, found: session.Session, configs: tuple[Config, ...], rules: dict[str, Rule], planned: int
) -> document.Run:
    """The run before anything was played."""
    options: dict[str, Any] = {
        name: getattr(args, name) for name in ("seed", "steps", "depth", "force_misuse", "rule", "pack", "strength")
    }
    options["litmus"], options["first"] = not args.no_litmus, args.first
    options["full"] = args.steps >= plan.STEPS and not args.no_litmus and set(configs) >= set(found.configs)
    return document.Run(
        target=found.ref.name,
        target_name=found.name,
        target_version=found.version,
        python=found.info.versions.get("python", ""),
        profile=found.profile,
        capabilities=found.capabilities,
        configs=configs,
        rules=rules,
        options=options,
        scope=document.scope_of(options, found.profile, found.capabilities),
        version=version(),
        date=now(),
        planned=planned,
        unasked=found.info.left_out,
    )


@contextlib.contextmanager
def recording(file: str | None, run: document.Run, items: Sequence[Item]) -> Iterator[str]:
    """A folder for recorded steps, which become one file at the end; nothing, if no file was named."""
    if file is None:
        yield ""
        return
    header: dict[str, Json] = {
        "target": run.target_name,
        "version": run.target_version,
        "build": run.build,
        "force_misuse": run.scope.force_misuse,
        "kvlitmus": run.version,
        "date": run.date,
    }
    with tempfile.TemporaryDirectory(prefix="kvlitmus-steps-") as folder:
        yield folder
        try:
            recorder.pack(Path(folder), Path(file), header, [item.id for item in items])
        except OSError as error:
            raise UsageError(f"--record {file}: can't be written: {files.reason(error)}") from None


def play(
    run: document.Run, player: players.Player, items: Sequence[Item], options: Options, first: bool, style: Style
) -> list[Short]:
    """Have all items played and the results collected, then shrink; returns the shrunk counterexamples.

    first: it stops at the first result that breaks a rule, and what broke there first is shrunk (``-x``).
    Ctrl-C ends it early and marks the run as partial; that the judge was changed is part of the scope.
    """
    work = {one.id: one.ops or len(one.schedule) or LITMUS for one in items}
    progress = Progress(sys.stdout, style, run.planned, work=work)
    try:
        print(terminal.heading(run, style), flush=True)
        # Nothing is shrunk on the way: a broken cache breaks the same rule again and again.
        plain = replace(options, shrink_trials=0, reruns=0 if first else options.reruns)
        player.collect(run, items, plain, progress)
        if any(result.findings for result in run.results) and not run.scope.changed:
            total = FIRST_SECONDS if first else TOTAL
            progress.stage("shrinking", total)
            return minimise(
                run.results,
                lambda again, how: map(progress.part, player.again(again, how, progress)),
                options,
                jobs=player.jobs,
                total=total,
            )
    except KeyboardInterrupt:
        run.scope = replace(run.scope, partial=True)
    except TargetFailed as error:
        if not isinstance(error.__cause__, JudgeChanged):
            raise
        run.scope = replace(run.scope, changed=str(error))
    finally:
        progress.clear()
    return []


def finish(
    run: document.Run,
    minimal: Sequence[Short],
    known: tuple[baselines.Entry, ...] | None,
    args: argparse.Namespace,
) -> None:
    """Conclude: verdicts, baseline, saved failures, exit code."""
    run.groups = [] if run.scope.changed else group(run.results, minimal)
    for one in run.groups if run.scope.stopped else ():
        one.only = ""  # under the other policies it may not have been played yet
    run.verdicts = conclude(run.rules, run.results, run.groups, run.scope)
    if known is not None:
        run.baseline = baselines.compare(known, run.verdicts, run.groups, run.version, partial=run.scope.partial)
    run.exit_code = exit_code(
        run.verdicts,
        run.results,
        run.scope,
        accepted=run.baseline.accepted if run.baseline else frozenset(),
        baseline_fails=bool(run.baseline and run.baseline.fails),
    )
    if run.exit_code == 0 and blocked_out_of_sight(run.verdicts):
        run.exit_code = 4
    save_failures(run, Path(args.failures), args.python or "")
    if args.write_baseline is not None:
        write_baseline(run, Path(args.write_baseline))


def write_baseline(run: document.Run, path: Path) -> None:
    """Write what would make all violations of this run known, beside the entries that still hold."""
    kept = run.baseline.known if run.baseline else []
    failing = {one.rule for one in run.verdicts if one.verdict is Verdict.VIOLATED}
    new = [
        one
        for one, accepted in zip(run.groups, run.accepted, strict=True)
        if not accepted and not failing.isdisjoint(one.finding.rules)
    ]
    try:
        files.write(path, baselines.text_of(new, kept))
    except OSError as error:
        print(f"kvlitmus: --write-baseline {harmless(path)}: can't be written: {files.reason(error)}", file=sys.stderr)
        return
    print(f"{harmless(path)}: fill in reason and link of each entry, then --baseline {harmless(path)} accepts them")


def blocked_out_of_sight(verdicts: Sequence[RuleVerdict]) -> bool:
    """Whether rules are blocked by one that was not chosen: nothing that was judged says that something is broken."""
    found = {one.verdict for one in verdicts}
    return Verdict.BLOCKED in found and found.isdisjoint({Verdict.VIOLATED, Verdict.WARNED})


def save_failures(run: document.Run, folder: Path, python: str) -> None:
    """Save each finding in a file of its own; that it can't be saved is said and loses nothing else."""
    for at, one in enumerate(run.groups[:MAX_SAVED]):
        try:
            run.saved[at] = path = failures.save(
                folder,
                one.finding,
                target=run.target,
                depth=run.scope.depth,
                force_misuse=run.scope.force_misuse,
                version=run.version,
                fill=filled,
            )
        except OSError as error:
            print(f"kvlitmus: failures can't be saved in {harmless(folder)}: {files.reason(error)}", file=sys.stderr)
            return
        run.replay[at] = failures.replay_line(path, python, run.target)
