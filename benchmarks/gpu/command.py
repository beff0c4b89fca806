"""The optimized cache on a GPU: is it correct, and how fast does it copy, in one command of at most eleven minutes.

    PYTHONPATH=spec:reference:optimized:conformance python benchmarks/gpu.py [--out DIR] [--only STAGE,...] [--dry-run]

It needs a checkout, Python 3.11 or later, torch with CUDA, Triton, numba, hypothesis and pytest; no installation, no
network and no C compiler.  What is missing is said first, in one line each (``preflight``).  Then each engine has
twenty seconds to show that it can copy some pages (``smoke``), then come the ceilings of this machine and the table of
goals, then what other ways of moving the same bytes achieve, and last correctness at length: every pair of layouts byte
by byte with sentinels, layer-wise readiness, cancelled transfers and delayed streams, the suite, the end-to-end
example, stress, and the tests marked ``gpu``.

Each stage is a process group of its own with a limit; the limits add up to less than the whole.  Whatever fails, hangs
or loses the device's context, there is a table: each stage ends as ``ok``, ``failed``, ``hung`` or ``not run``, with
its reason, and its rows so far are in it.  After every stage ``gpu-DATE.json`` is written anew, at the end also
``gpu-DATE.svg``.  A goal that is missed is reported and is no error.

Exit codes: 0 every stage ran and all that was checked is correct, 1 incorrect data, 2 no such stage, 3 a stage failed,
hung or was not run, 4 no CUDA device (and nothing is written), 130 interrupted.  ``--dry-run`` takes the stages through
CPU tensors of tiny sizes, with Triton's interpreter, and writes only if ``--out`` says where: it tests this script, its
figures mean nothing.
"""

from __future__ import annotations

import argparse
import os
import time
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvlitmus.optimized.data.copies import Engine

from benchmarks.gpu.stage import HARNESS, INTERRUPTED, NO_DEVICE, Bench, Record, Stage, budget
from benchmarks.record import RESULTS, ROOT, stamp, today

LIMIT = 670.0
"""Seconds of a whole run."""
ALWAYS = ("preflight", "ceilings")
"""Stages that the others need."""
NOT_RUN = "not run: no CUDA device"
LAST = "correctness at length"
"""The group of what takes long and measures nothing: it comes when the table is there."""


def stages(*, dry: bool) -> list[Stage]:
    """What is run, in this order, with the seconds that each may take."""
    from benchmarks.gpu import ahead, baselines, ceilings, choice, copies, correct, overlap, preflight, programs, smoke

    # In a dry run there is no copy engine.
    engines: tuple[Engine, ...] = ("torch", "kernel") if dry else ("kernel", "dma", "staged", "torch")
    timed: tuple[Engine, ...] = engines[:3]
    chosen = [
        Stage("preflight", 20, preflight.preflight, needs=(), machine=False),
        *[Stage(f"smoke {engine}", 20, partial(smoke.smoke, engine), group="smoke") for engine in engines],
        Stage("kernels", 40, ahead.compile_ahead, group="smoke", machine=False),
        Stage("ceilings", 20, ceilings.ceilings),
    ]
    chosen += [
        Stage(f"transfers {way}", 28, partial(copies.transfers, way), needs=("preflight", f"smoke {way}"))
        for way in timed
    ]
    chosen += [
        Stage("both ways", 20, copies.both_ways),
        Stage("small loads", 20, overlap.small_loads),
        Stage("submission", 15, overlap.submission),
        Stage("layers", 20, overlap.layers),
        Stage("on device", 20, copies.on_device),
        Stage("interference", 30, overlap.interference),
        Stage("choice", 30, choice.choice),
        Stage("baselines", 35, baselines.baselines),
        Stage("quota", 35, overlap.quota),
        Stage("ceilings after", 15, ceilings.ceilings_after),
        Stage("layout pairs", 60, correct.pairs, group=LAST),
        Stage("movers", 60, correct.movers, group=LAST),
        Stage("streams", 60, correct.streams, group=LAST),
    ]
    if not dry:  # they are exercised on CUDA only
        chosen += [
            Stage(name, 85, partial(programs.program, name=name), group=LAST, machine=False) for name in programs.BESIDE
        ]
        # A process for each processor, and a context for each process: beside others they take longer than they may.
        tests = partial(programs.program, name=programs.TESTS)
        chosen.append(Stage(programs.TESTS, 170, tests, machine=False))
    return chosen


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(description="The optimized cache on a GPU: correctness, then speed.")
    made.add_argument("--out", type=Path, help="where the JSON and the plot go (benchmarks/results)")
    made.add_argument("--only", default="", help="comma-separated stages; preflight and ceilings are always among them")
    made.add_argument("--date", default=today(), help="the date in the files' names")
    made.add_argument("--limit", type=float, default=LIMIT, help="seconds for the whole run")
    made.add_argument("--seed", type=int, default=20260101, help="of the page orders and the random contents")
    made.add_argument("--dry-run", action="store_true", help="CPU tensors and tiny sizes: tests this script")
    return made


DRY_SLACK = 30
"""How much longer a dry run may take: it measures nothing, and may be on a busy machine."""


def say(line: str) -> None:
    """Print at once: what a killed run has printed is all that is known of it."""
    print(line, flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Run, print, write; the exit code."""
    given = parser().parse_args(arguments)
    if given.dry_run:
        os.environ["TRITON_INTERPRET"] = "1"
    try:
        chosen = stages(dry=given.dry_run)
    except ImportError as error:
        say(f"{NOT_RUN} (what the stages need can't be imported: {error})")
        return NO_DEVICE
    if given.only:
        wanted = {*ALWAYS, *given.only.split(",")}
        if unknown := wanted - {stage.name for stage in chosen}:
            say(f"no such stage: {', '.join(sorted(unknown))}; there are {', '.join(stage.name for stage in chosen)}")
            return 2
        chosen = [stage for stage in chosen if stage.name in wanted]
        chosen = [replace(stage, needs=tuple(wanted.intersection(stage.needs))) for stage in chosen]
    slack = DRY_SLACK if given.dry_run else 1
    chosen = [replace(stage, seconds=slack * stage.seconds) for stage in chosen]
    return measure(given, chosen, slack * given.limit)


def measure(given: argparse.Namespace, chosen: list[Stage], limit: float) -> int:
    """Run these stages and tell what came of them, whatever came of them; the exit code."""
    from benchmarks.gpu import parent

    out = given.out or (None if given.dry_run else RESULTS)
    name = f"gpu-{given.date}{'-dry' if given.dry_run else ''}"
    head = {**stamp(given.date), "began": datetime.now(UTC).isoformat(timespec="seconds"), "dry": given.dry_run}
    record = Record(out / f"{name}.json" if out else None, {**head, "seed": given.seed, "budget": budget(chosen)})
    bench = Bench("cpu" if given.dry_run else "cuda", given.dry_run, record, ROOT, given.seed)
    started = time.monotonic()
    interrupted = False
    try:
        with parent.interruptible():
            parent.run(bench, chosen, limit, say)
    except KeyboardInterrupt:
        interrupted = True
    except Exception as error:  # noqa: BLE001 (what has been measured is told all the same)
        record.head["failure"] = f"{type(error).__name__}: {error}"
        say(f"the harness failed: {record.head['failure']}")
    if record.head.get("no_device"):
        say(NOT_RUN)
        if record.path:
            record.path.unlink(missing_ok=True)
            with suppress(OSError):  # it was there before, with somebody else's files
                record.path.parent.rmdir()
        return NO_DEVICE
    record.head["seconds"] = round(time.monotonic() - started, 1)
    record.head["goals_met"] = sum(goal.met for goal in record.goals)
    record.head["goals_measured"] = len(record.goals)
    code = HARNESS if "failure" in record.head else record.code()
    record.head["exit_code"] = INTERRUPTED if interrupted and code != 1 else code
    record.write()
    _tell(record, name)
    return int(record.head["exit_code"])


def _tell(record: Record, name: str) -> None:
    from benchmarks.gpu import plot, report

    say(report.report(record))
    if record.path:
        record.path.with_suffix(".svg").write_text(plot.plot(record))
        say(f"\nwritten: {record.path} and {name}.svg")
