"""The optimized cache on a GPU: is it correct, and how fast does it copy, in one command of at most nine minutes.

    PYTHONPATH=spec:reference:optimized:conformance python benchmarks/gpu.py [--out DIR] [--only STAGE,...] [--dry-run]

It needs a checkout, Python 3.11 or later, torch with CUDA, Triton, numba, hypothesis and pytest; no installation and no
network.  Correctness comes first: every pair of layouts byte by byte with sentinels, layer-wise readiness, cancelled
transfers and delayed streams, the suite and the end-to-end example on CUDA, and the tests marked ``gpu``.  Then the
ceilings of this machine, then the table of goals, then what other ways of moving the same bytes achieve.

After every stage ``gpu-DATE.json`` is written anew, at the end also ``gpu-DATE.svg``: what an interruption or a time
limit cuts off is only what had not been measured.  A goal that is missed is reported and is no error.

Exit codes: 0 all that was checked is correct, 1 incorrect data, 3 a stage of this script failed, 4 no CUDA device (and
nothing is written), 130 interrupted.  ``--dry-run`` takes every stage through CPU tensors of tiny sizes, with Triton's
interpreter, and writes only if ``--out`` says where: it tests this script, its figures mean nothing.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
import types
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("spec", "reference", "optimized", "conformance")
sys.path[:0] = [str(ROOT / room) for room in ROOMS if str(ROOT / room) not in sys.path]
if "benchmarks" not in sys.modules:
    # Folders without an __init__.py give way to any installed package of that name, wherever it is on the path.
    _here = types.ModuleType("benchmarks")
    _here.__path__ = [str(ROOT / "benchmarks")]
    sys.modules["benchmarks"] = _here

from benchmarks.gpu_stage import HARNESS, INTERRUPTED, NO_DEVICE, Bench, Record, Stage, run  # noqa: E402

LIMIT = 520.0
"""Seconds of a whole run; a stage that is running then gives up, and a watchdog ends what does not."""
ALWAYS = ("environment", "ceilings")
"""Stages that the others need."""
NOT_RUN = "not run: no CUDA device"


def stages() -> list[Stage]:
    """What is run, in this order, with the seconds that each may take."""
    from benchmarks import (
        gpu_ahead,
        gpu_baselines,
        gpu_ceilings,
        gpu_choice,
        gpu_copies,
        gpu_correct,
        gpu_overlap,
        gpu_programs,
    )

    return [
        Stage("environment", 30, gpu_programs.start),
        Stage("kernels", 60, gpu_ahead.compile_ahead),
        Stage("layout pairs", 40, gpu_correct.pairs),
        Stage("movers", 30, gpu_correct.movers),
        Stage("streams", 30, gpu_correct.streams),
        Stage("suite, example, stress, tests", 100, gpu_programs.collect),
        Stage("ceilings", 20, gpu_ceilings.ceilings),
        Stage("transfers", 70, gpu_copies.transfers),
        Stage("both ways", 10, gpu_copies.both_ways),
        Stage("on device", 15, gpu_copies.on_device),
        Stage("submission", 10, gpu_overlap.submission),
        Stage("layers", 15, gpu_overlap.layers),
        Stage("interference", 30, gpu_overlap.interference),
        Stage("quota", 50, gpu_overlap.quota),
        Stage("choice", 25, gpu_choice.choice),
        Stage("baselines", 40, gpu_baselines.baselines),
        Stage("ceilings after", 15, gpu_ceilings.ceilings_after),
    ]


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(description="The optimized cache on a GPU: correctness, then speed.")
    made.add_argument("--out", type=Path, help="where the JSON and the plot go (benchmarks/results)")
    made.add_argument(
        "--only", default="", help="comma-separated stages; environment and ceilings are always among them"
    )
    made.add_argument("--date", default=datetime.now(UTC).strftime("%Y-%m-%d"), help="the date in the files' names")
    made.add_argument("--limit", type=float, default=LIMIT, help="seconds for the whole run")
    made.add_argument("--seed", type=int, default=20260101, help="of the page orders and the random contents")
    made.add_argument("--dry-run", action="store_true", help="CPU tensors and tiny sizes: tests this script")
    return made


DRY_SLACK = 30
"""How much longer a dry run may take: it measures nothing, and may be on a busy machine."""


def _interrupted(number: int, _frame: object) -> None:
    raise KeyboardInterrupt(number)


def say(line: str) -> None:
    """Print at once: what a killed run has printed is all that is known of it."""
    print(line, flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Run, print, write; the exit code."""
    given = parser().parse_args(arguments)
    if given.dry_run:
        os.environ["TRITON_INTERPRET"] = "1"
    try:
        import torch
    except ImportError as error:
        say(f"{NOT_RUN} (torch can't be imported: {error})")
        return NO_DEVICE
    if not given.dry_run and not torch.cuda.is_available():
        say(NOT_RUN)
        return NO_DEVICE
    signal.signal(signal.SIGTERM, _interrupted)
    out = given.out or (None if given.dry_run else ROOT / "benchmarks" / "results")
    name = f"gpu-{given.date}{'-dry' if given.dry_run else ''}"
    record = Record(
        out / f"{name}.json" if out else None, {"date": given.date, "dry": given.dry_run, "seed": given.seed}
    )
    bench = Bench("cpu" if given.dry_run else "cuda", given.dry_run, record, ROOT, given.seed)
    try:
        return _measure(bench, given, name)
    except KeyboardInterrupt:
        record.write()
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 (what has been measured is written first)
        record.head["failure"] = f"{type(error).__name__}: {error}"
        record.write()
        say(f"the harness failed: {record.head['failure']}")
        return HARNESS


def _measure(bench: Bench, given: argparse.Namespace, name: str) -> int:
    from benchmarks import gpu_plot, gpu_programs, gpu_report

    record = bench.record
    chosen = stages()
    if given.only:
        wanted = {*ALWAYS, *given.only.split(",")}
        if unknown := wanted - {stage.name for stage in chosen}:
            say(f"no such stage: {', '.join(sorted(unknown))}; there are {', '.join(stage.name for stage in chosen)}")
            return 2
        chosen = [stage for stage in chosen if stage.name in wanted]
    slack = DRY_SLACK if given.dry_run else 1
    chosen = [replace(stage, seconds=slack * stage.seconds) for stage in chosen]
    started = time.monotonic()
    try:
        run(bench, chosen, slack * given.limit, say)
    finally:
        gpu_programs.end_all(bench)
    record.head["seconds"] = round(time.monotonic() - started, 1)
    record.head["goals_met"] = sum(goal.met for goal in record.goals)
    record.head["goals_measured"] = len(record.goals)
    record.head["exit_code"] = record.code()
    record.write()
    say(gpu_report.report(record))
    if record.path:
        record.path.with_suffix(".svg").write_text(gpu_plot.plot(record))
        say(f"\nwritten: {record.path} and {name}.svg")
    return record.code()


if __name__ == "__main__":
    sys.exit(main())
