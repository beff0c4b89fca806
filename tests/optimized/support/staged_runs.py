"""Runs of benchmarks/gpu.py whose stages go wrong, each in a process of its own: see ``test_gpu_parent.py``.

    python -m tests.optimized.support.staged_runs works FOLDER NAME,NAME,...
    python -m tests.optimized.support.staged_runs faults {hang,fail,poison}

A program, because the parent forks: no process that has threads of its own should.  ``works`` runs the functions below
as stages; ``faults`` takes every stage of the real run through the fault, on a machine that takes itself for a device,
and says of each what became of it, and of the stage after it.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.gpu import command as gpu
from benchmarks.gpu import parent, report
from benchmarks.gpu.stage import Bench, Record, Skip, Stage
from tests.support.processes import LIMIT

SOON = 2.0
"""Seconds of a stage that hangs: however slow a machine is, it hangs until it is killed."""


def right(bench: Bench) -> None:
    bench.record.check("something", 5, [])
    bench.record.head["programs"] = {"one": 1}


def wrong(bench: Bench) -> None:
    bench.record.check("something else", 3, ["the second"])


def fails(bench: Bench) -> None:
    bench.record.row("ceilings", name="h2d", moment="before", gb_s=1.0, best_gb_s=1.0, worst_gb_s=1.0)
    raise RuntimeError("it broke")


def skips(bench: Bench) -> None:
    raise Skip("not possible here")


def crashes(bench: Bench) -> None:
    print("about to crash", flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)


def exits(bench: Bench) -> None:
    print("as CUDA's own abort does", flush=True)
    os._exit(134)


def hangs(bench: Bench) -> None:
    """With two programs that it started, one of which has left its group."""
    for apart in (False, True):
        with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1e6)"], start_new_session=apart) as one:
            bench.record.row("ceilings", name="h2d", moment="before", gb_s=1.0, best_gb_s=1.0, worst_gb_s=1.0)
            print(f"started {one.pid}", flush=True)
            if apart:
                time.sleep(1e6)
            one.returncode = 0  # it is not waited for here


def interrupts(bench: Bench) -> None:
    os.kill(os.getppid(), signal.SIGTERM)
    time.sleep(1e6)


WORKS: dict[str, Callable[[Bench], None]] = {
    work.__name__: work for work in (right, wrong, fails, skips, crashes, exits, hangs, interrupts)
}


def works(folder: str, names: str) -> dict[str, Any]:
    """Run these; what the record says."""
    record = Record(Path(folder) / "record.json", {"dry": False})
    bench = Bench("cpu", True, record, Path())
    stages = [
        Stage(f"{at} {name}", SOON if name == "hangs" else LIMIT, WORKS[name], needs=(), machine=False)
        for at, name in enumerate(names.split(","))
    ]
    with contextlib.suppress(KeyboardInterrupt), parent.interruptible():
        parent.run(bench, stages, 4 * LIMIT, print)
    return {**record.data(), "code": record.code(), "report": report.report(record)}


def faults(kind: str) -> list[dict[str, Any]]:
    """Each stage with this fault at its fifth call of the device, or where it begins if it makes none."""
    from benchmarks.gpu import ceilings
    from tests.optimized.support.device import pretend  # torch is needed here alone

    found = []
    with pretend() as (bench, world):

        def struck() -> int:
            if kind == "hang":
                print("it hangs", flush=True)
                time.sleep(1e6)
            if kind == "poison":
                world.cuda.poisoned = 700
            return 719 if kind == "fail" else 700

        def faulty(work: Callable[[Bench], None]) -> Callable[[Bench], None]:
            def working(inner: Bench) -> None:
                calls = itertools.count(1)
                once = iter([True])

                def before(name: str) -> int:
                    # Values in streams may be missing: that one such call fails is no failure.
                    if next(calls) < 5 or "Value32" in name or not next(once, False):
                        return 0
                    return struck()

                world.cuda.before = before
                work(inner)
                for _ in range(5):
                    world.cuda.runtime("at the end")

            return working

        after = Stage("after it", LIMIT, ceilings.ceilings, needs=())
        for stage in gpu.stages(dry=True):
            bench.record = Record(None, {"dry": False})
            bench.kept["ceiling"] = {}
            seconds = SOON if kind == "hang" else LIMIT
            first = replace(stage, work=faulty(stage.work), seconds=seconds, needs=(), group="")
            parent.run(bench, [first, after], 4 * LIMIT, lambda line: None)
            said = report.report(bench.record)
            entry, other = bench.record.stages
            rows = [row["name"] for row in bench.record.of("ceilings") if row["moment"] == "before"]
            found.append({**entry, "other": other["outcome"], "rows": len(rows), "code": bench.record.code()})
            assert f"  {stage.name}" in said and "after it" in said
    return found


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    answer: Any = works(*rest) if what == "works" else faults(*rest)
    print("\n" + json.dumps(answer, default=str))
