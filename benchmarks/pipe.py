"""What a pipe costs: the same Python cache judged in process, and as a process of its own.

    .venv/bin/python benchmarks/pipe.py                        # five rounds of the default flat plan, both ways
    .venv/bin/python benchmarks/pipe.py --rounds 1 --target examples/flat_cache.py

Both ways are whole commands, ``kvlitmus run TARGET`` and ``kvlitmus run "exec:python piped.py TARGET"``, in turn.  What
counts is user and system time of a command and of all that it has started, workers and the cache's processes, whether
or not somebody waited for them: this process adopts what is left over.  The ratio is the median of in process through
the median over the pipe: 1 if the pipe cost nothing.  The goal is 0.6.
"""

from __future__ import annotations

import ctypes
import os
import re
import resource
import statistics
import subprocess
import sys
from argparse import ArgumentParser
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PIPED = ROOT / "tests" / "conformance" / "support" / "piped.py"

GOAL = 0.6
"""In process, in parts of what it takes over a pipe."""

PR_SET_CHILD_SUBREAPER = 36

STEPS = re.compile(r"^([\d,]+) steps in", re.MULTILINE)


def cpu() -> float:
    """Seconds that processes have taken which this one has waited for, with all of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measured(target: str, options: list[str]) -> tuple[float, int]:
    """CPU seconds of judging a target, and how many steps that took."""
    before = cpu()
    done = subprocess.run(
        [sys.executable, "-m", "kvlitmus.conformance.cli", "run", target, *options],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    with suppress(ChildProcessError):  # there is nobody left
        while True:
            os.wait()
    found = STEPS.search(done.stdout)
    assert found is not None, done.stdout
    return cpu() - before, int(found[1].replace(",", ""))


def main() -> int:
    """Measure both ways in turn, and print their ratio."""
    parser = ArgumentParser(description="What a pipe costs.", allow_abbrev=False)
    parser.add_argument("--target", default=str(ROOT / "examples" / "flat_cache.py"), help="a target in Python")
    parser.add_argument("--rounds", type=int, default=5, help="how often each way is measured (default: 5)")
    parser.add_argument("options", nargs="*", help="behind --: options of kvlitmus run, such as --steps 400 --jobs 1")
    chosen = parser.parse_args()
    if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        parser.error("this needs Linux: what processes leave behind could not be counted")
    ways = {"in process": chosen.target, "over a pipe": f"exec:{sys.executable} {PIPED} {chosen.target}"}
    taken: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(chosen.rounds):
        for way, target in ways.items():
            seconds, steps = measured(target, chosen.options)
            taken[way].append(seconds)
            print(
                f"{turn + 1} {way:11} {seconds:7.2f} s  {steps:,} steps  {seconds / steps * 1e6:5.0f} µs each",
                flush=True,
            )
    one, other = map(statistics.median, taken.values())
    print(f"median: {one:.2f} s in process, {other:.2f} s over a pipe; ratio {one / other:.2f} (goal: {GOAL})")
    return 0 if one / other >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
