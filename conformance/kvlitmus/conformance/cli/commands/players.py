"""Who plays the items of a run: worker processes of this command, an executor with shards, or others, before it."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from kvlitmus.conformance.checker.explain import harmless
from kvlitmus.conformance.cli.commands import session
from kvlitmus.conformance.cli.commands.common import TargetFailed, UsageError
from kvlitmus.conformance.isolation.supervisor import TargetError
from kvlitmus.conformance.report import document
from kvlitmus.conformance.report.progress import Progress
from kvlitmus.conformance.report.style import Style
from kvlitmus.conformance.run.results import Item, ItemResult, Options
from kvlitmus.conformance.shards import Summary, folder, merge, shard
from kvlitmus.conformance.shards.executors import Executor, ExecutorError, executor_of
from kvlitmus.conformance.shards.folder import Plan, ShardError
from kvlitmus.conformance.shards.shard import play_into
from kvlitmus.conformance.shards.spread import Done, spread
from kvlitmus.conformance.support import ending, files

SHARDS_A_CORE = 4
"""So many shards for each core, if nobody says: those that are done early leave room for the others."""


class Player(Protocol):
    """Who plays the items of a run.  jobs: how many it plays at the same time."""

    jobs: int

    def collect(self, run: document.Run, items: Sequence[Item], options: Options, progress: Progress) -> None:
        """Play all items; the run has what was played, too, where it ends early (``KeyboardInterrupt``)."""

    def again(self, items: Sequence[Item], options: Options, progress: Progress) -> Iterable[ItemResult]:
        """Play some more, one result for each, in their order."""


class Here:
    """Worker processes of this command.  first: it ends with the first item in which a rule is broken."""

    def __init__(self, found: session.Session, jobs: int, *, first: bool = False) -> None:
        self.found = found
        self.jobs = jobs
        self.first = first

    def collect(self, run: document.Run, items: Sequence[Item], options: Options, progress: Progress) -> None:
        """Play all items."""
        with contextlib.closing(self.again(items, options, progress)) as results:
            for result in results:
                run.results.append(result)
                progress.add(result)
                if self.first and result.findings:
                    run.scope = replace(run.scope, stopped=True, full=False)
                    return

    def again(self, items: Sequence[Item], options: Options, progress: Progress) -> Generator[ItemResult]:
        """Play some items."""
        return self.found.run(items, options, jobs=self.jobs, on_event=lambda _: progress.tick())


class Spread:
    """Workers of an executor.  out: where each shard is kept as soon as it is played; what is there isn't played."""

    def __init__(self, found: session.Session, executor: Executor, shards: int | None, out: Path | None) -> None:
        self.found = found
        self.executor = executor
        self.jobs = executor.cores
        self.shards = shards or SHARDS_A_CORE * executor.cores
        self.out = out

    def collect(self, run: document.Run, items: Sequence[Item], options: Options, progress: Progress) -> None:
        """Play all items that no file of the folder has."""
        whole, plan = Summary(), Plan.of(merge.head_of(run), items)
        dealt = [items[plan.place(at)] for at in range(len(items))]

        def take(part: range, summary: Summary) -> None:
            merge.include(whole, plan, part, summary)
            progress.add_sum(summary.items - len(summary.results), sum(one.steps for one in summary.sums.values()))
            for result in summary.results.values():
                progress.add(result)

        try:
            parts = folder.parts_of(len(items), self.shards)
            if self.out is None:
                for done in self.play(parts, dealt, options, progress):
                    take(done.part, summary_of(done, dealt))
                return
            there = kept(self.out, plan)
            for path in there:
                take(*folder.read(path))
            parts = [part for one in parts for part in folder.missing(one, list(there.values()))]
            for done in self.play(parts, dealt, options, progress):
                summary = summary_of(done, dealt)
                folder.write(self.out, plan, done.part, summary)
                take(done.part, summary)
        except ShardError as error:
            raise UsageError(str(error)) from None
        except OSError as error:
            raise UsageError(f"--out {self.out}: can't be written: {files.reason(error)}") from None
        finally:
            merge.fill(run, whole)

    def again(self, items: Sequence[Item], options: Options, progress: Progress) -> Iterator[ItemResult]:
        """Play some items."""
        whole = Summary()
        for done in self.play(folder.parts_of(len(items), self.jobs), items, options, progress):
            whole.include(summary_of(done, items), done.part.__getitem__)
        for at, item in enumerate(items):
            yield whole.results.get(at) or ItemResult(item=item.id, config=item.config.label)

    def play(
        self, parts: Sequence[range], items: Sequence[Item], options: Options, progress: Progress
    ) -> Iterator[Done]:
        """Have the items of all parts played; raises :class:`TargetFailed`."""
        limits = replace(self.found.limits, on_wait=None)  # nobody sees there what it says

        def submit(part: range) -> Future[Summary]:
            chosen = [items[at] for at in part]
            return self.executor.submit(shard, self.found.ref, chosen, options, limits=limits)

        try:
            yield from spread(self.executor, parts, submit, beat=progress.tick)
        except TargetError as error:
            raise TargetFailed(str(error)) from error


def summary_of(done: Done, items: Sequence[Item]) -> Summary:
    """What came of a part; of an item that ends every process that plays it, that it failed."""
    if done.summary is not None:
        return done.summary
    found, item = Summary(), items[done.part[0]]
    found.add(ItemResult(item=item.id, config=item.config.label, error=f"nobody survived playing it: {done.lost}"))
    return found


def kept(out: Path, plan: Plan) -> dict[Path, range]:
    """The shards in a folder, which must be of this run; raises :class:`ShardError`."""
    there = folder.played([out])
    if there.plan is not None and (differs := there.plan.differs(plan)):
        raise ShardError(f"{out}: it has shards of another run: this one has {differs} there; choose another folder")
    return there.parts


def check(args: argparse.Namespace) -> None:
    """Refuse what makes no sense together, before anything is started."""
    if args.shard and not args.out:
        raise UsageError("--shard needs --out, the folder in which what was played is kept for 'kvlitmus merge'")
    if args.shard and (args.on or args.shards):
        raise UsageError("--shard is one of several commands, --on has all shards played by this one: choose one")
    if (args.shards or args.out) and not (args.on or args.shard):
        raise UsageError("--shards and --out are for --on EXECUTOR, --out for --shard I/N as well")
    if (args.on or args.shard) and (args.first or args.record):
        raise UsageError("-x and --record are for a run in one piece: leave out --on and --shard")
    if args.shard and (args.report or args.junit or args.markdown or args.baseline or args.write_baseline):
        raise UsageError("a shard has no verdicts: give reports and baselines to 'kvlitmus merge'")


def part_of(items: list[Item], shard_of: tuple[int, int] | None) -> list[Item]:
    """The items of a shard, all if none is named."""
    if shard_of is None:
        return items
    plan = Plan.of({}, items)
    return [items[plan.place(at)] for at in range(shard_of[0] - 1, len(items), shard_of[1])]


def one_shard(
    args: argparse.Namespace, found: session.Session, run: document.Run, items: Sequence[Item], style: Style
) -> int:
    """Play what is missing of one shard and keep it; returns the exit code, which says nothing of verdicts."""
    which, many = args.shard
    out, plan = Path(args.out), Plan.of(merge.head_of(run), items)
    name, code = f"shard {which}/{many}", 0
    try:
        todo = list(folder.missing(range(which - 1, len(items), many), list(kept(out, plan).values())))
        for part in todo:
            summary = Summary()
            try:
                play_part(
                    summary, found, [items[plan.place(at)] for at in part], merge.options_of(run), args.jobs, style
                )
            except KeyboardInterrupt:
                code = ending.exit_code()
            if summary.items:
                path = folder.write(out, plan, part[: summary.items], summary)
                broken = sum(bool(one.findings) for one in summary.results.values())
                told = f"{summary.items:,} items, {summary.steps:,} steps, {summary.seconds:.1f} s"
                print(f"{name}: {told}; a rule is broken in {broken:,} items; in {harmless(path)}")
            if code:
                print(f"{name}: interrupted; the same command plays what is missing", file=sys.stderr)
                return code
        if not todo:
            print(f"{name}: nothing is missing in {harmless(out)}")
    except ShardError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"--out {out}: can't be written: {files.reason(error)}") from None
    return code


def play_part(
    summary: Summary, found: session.Session, items: Sequence[Item], options: Options, jobs: int, style: Style
) -> None:
    """Play items with worker processes of this command; what was played is in the summary, however it ends."""
    progress = Progress(sys.stdout, style, len(items))
    plain = replace(options, shrink_trials=0)
    try:
        pool = found.take_pool()
        play_into(summary, found.ref, items, plain, limits=found.limits, jobs=jobs, tell=progress.add, pool=pool)
    except TargetError as error:
        raise TargetFailed(str(error)) from error
    finally:
        progress.clear()


@contextlib.contextmanager
def player_for(args: argparse.Namespace, found: session.Session) -> Iterator[Player]:
    """Who plays the items, by the command line."""
    if args.on is None:
        yield Here(found, args.jobs, first=args.first)
        return
    try:
        executor = executor_of(args.on, args.jobs)
    except ExecutorError as error:
        raise UsageError(str(error)) from None
    found.let_go()
    with contextlib.closing(executor):
        yield Spread(found, executor, args.shards, Path(args.out) if args.out else None)


class Merged:
    """Others, before this command: what they played is in the files of a folder.

    found: the target, where counterexamples are to be shrunk on it.
    """

    def __init__(self, there: folder.Played, found: session.Session | None, jobs: int) -> None:
        self.there = there
        self.found = found
        self.jobs = jobs

    def collect(self, run: document.Run, items: Sequence[Item], options: Options, progress: Progress) -> None:
        """Read all that was played."""
        try:
            whole = merge.summed(self.there.plan or Plan.of({}, items), self.there.parts)
            merge.fill(run, whole)
            run.seconds = whole.seconds
        except ShardError as error:
            raise UsageError(str(error)) from None

    def again(self, items: Sequence[Item], options: Options, progress: Progress) -> Iterable[ItemResult]:
        """Play some items, where there is a target; nothing else."""
        return [] if self.found is None else Here(self.found, self.jobs).again(items, options, progress)
