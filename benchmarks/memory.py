"""Bookkeeping of the optimized cache in bytes per cached page, beyond the tokens and the slots themselves.

    .venv/bin/python benchmarks/memory.py

Trees of several shapes are grown to ten million pages, each in a process of its own.  What counts is how much
the process has really grown (its resident memory), less 4 bytes per cached token and 4 per cached page, which
any cache must keep: tokens and page numbers.  All the rest is bookkeeping: branches, dictionaries, heaps, free
lists, room that arrays keep to grow into, and what the memory allocators waste.

long prompts
    32k tokens each, in one insert.
conversations
    a shared system prompt of 1k, then twenty turns of 512 tokens, many conversations at a time; every fourth
    turn is answered a second time, so that the path forks.
forks
    prompts that share 1k and have one page of their own: a branch per page, the worst that can happen.

Results are written to ``benchmarks/results/memory-DATE.json`` and ``.png``.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import itertools
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parent.parent
sys.path[0] = str(ROOT)

from benchmarks.control.goals import BYTES_PER_PAGE, CORES  # noqa: E402
from benchmarks.control.ours import Ours, cores, running  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
PAGE = 16
TOKEN_BYTES, SLOT_BYTES = 4, 4
SAMPLES = 20
SEED = 7


def resident(*, trim: bool = False) -> int:
    """The resident memory of this process, in bytes; ``trim``: after giving back what nothing uses any more."""
    gc.collect()
    if trim:
        ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Grower:
    """A cache that grows; ``pages`` are cached so far."""

    def __init__(self, pages: int, core: str) -> None:
        self._warm(core)
        before = resident(trim=True)
        self.ours = Ours(PAGE, pages * PAGE, core=core)
        self.pool_bytes = (resident() - before) / pages
        self.before = resident(trim=True)
        self.pages = 0

    def _warm(self, core: str) -> None:
        """Compile and import whatever growing needs, so that it isn't counted."""
        one = Ours(PAGE, 64 * PAGE, core=core)
        units = np.arange(16 * PAGE, dtype=np.int32)
        one.add(units[: 8 * PAGE])
        one.add(units)
        fork = units[: 4 * PAGE].copy()
        fork[-1] = 0
        one.add(fork)
        one.evict(2 * PAGE)()

    def add(self, units: NDArray[np.int32]) -> None:
        """Cache a prompt: what isn't cached yet takes pages from the pool."""
        self.pages += self.ours.add(units)

    def per_page(self) -> float:
        """Bytes of bookkeeping per page now."""
        kept = self.pages * (PAGE * TOKEN_BYTES + SLOT_BYTES)
        return (resident() - self.before - kept) / self.pages + self.pool_bytes


def long_prompts(grower: Grower, random: Any) -> Iterator[None]:
    """32k tokens each."""
    while True:
        grower.add(random.integers(0, 1 << 30, 32_768, dtype=np.int32))
        yield


def conversations(grower: Grower, random: Any) -> Iterator[None]:
    """Many at a time, twenty turns each, some turns twice."""
    system = random.integers(0, 1 << 30, 1_024, dtype=np.int32)
    while True:
        open_ones = [system] * 64
        for turn in range(20):
            for at, before in enumerate(open_ones):
                for _ in range(2 if turn % 4 == 3 else 1):
                    turned = random.integers(0, 1 << 30, 512, dtype=np.int32)
                    open_ones[at] = np.concatenate([before, turned])
                    grower.add(open_ones[at])
                    yield


def forks(grower: Grower, random: Any) -> Iterator[None]:
    """One page of their own behind a shared 1k."""
    prompt = random.integers(0, 1 << 30, 1_024 + PAGE, dtype=np.int32)
    while True:
        prompt = prompt.copy()
        prompt[-PAGE:] = random.integers(0, 1 << 30, PAGE, dtype=np.int32)
        grower.add(prompt)
        yield


SHAPES: dict[str, tuple[Callable[[Grower, Any], Iterator[None]], int]] = {
    "long prompts": (long_prompts, 10_000_000),
    "conversations": (conversations, 10_000_000),
    "forks": (forks, 1_000_000),
}
"""Each shape and the pages that it is grown to: a branch per page is grown to a tenth, for want of memory and time."""


def measure(name: str, pages: int, core: str) -> dict[str, Any]:
    """Grow one shape in this process."""
    make, _ = SHAPES[name]
    grower = Grower(pages + 4_096, core)
    random = np.random.default_rng(SEED)
    step, started = max(1, pages // SAMPLES), time.monotonic()
    curve: list[tuple[int, float]] = []
    for _ in make(grower, random):
        if grower.pages >= (len(curve) + 1) * step:
            curve.append((grower.pages, round(grower.per_page(), 2)))
        if grower.pages >= pages:
            break
    last = curve[-1][1]
    return {
        "name": name,
        "core": core,
        "goal": BYTES_PER_PAGE[name],
        "pages": grower.pages,
        "bytes_per_page": last,
        "of_which_pool": round(grower.pool_bytes, 2),
        "met": last <= BYTES_PER_PAGE[name],
        "seconds": round(time.monotonic() - started, 1),
        "curve": curve,
    }


def measured_apart(name: str, pages: int, core: str) -> dict[str, Any]:
    """Grow one shape in a process of its own."""
    command = [sys.executable, __file__, "--shape", name, "--pages", str(pages), "--core", core]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"memory.py: the process that grows {name!r} ended with exit code {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def draw(path: Path, shapes: list[dict[str, Any]]) -> str | None:
    """The curves; returns why they can't be drawn, or ``None``."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return "matplotlib is not installed (the extra 'plot')"
    picture = Figure(figsize=(7, 4), layout="constrained")
    FigureCanvasAgg(picture)
    axes = picture.add_subplot()
    colors = dict(zip(BYTES_PER_PAGE, ("#1b6ca8", "#2a7f62", "#b4413c"), strict=True))
    for one in shapes:
        label = one["name"] + CORES[one["core"]]
        pages, values = zip(*one["curve"], strict=True)
        style = "-" if one["core"] == "auto" else ":"
        axes.plot(pages, values, style, marker=".", color=colors[one["name"]], label=label)
    for name, goal in BYTES_PER_PAGE.items():
        axes.axhline(goal, color=colors[name], linewidth=0.7, linestyle="--")
    axes.set_title("dashed: the goals", fontsize=9)
    axes.set(xlabel="cached pages", ylabel="bytes per page beyond tokens and slots", xscale="log", yscale="log")
    axes.legend()
    picture.savefig(path, dpi=130)
    return None


def main() -> int:
    """Measure, print, write; 1 when a shape takes more than the goal."""
    summary, _, rest = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="memory.py", description=summary, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a hundredth of the pages")
    parser.add_argument("--date", default=datetime.now(UTC).strftime("%Y-%m-%d"), help="the date in the files' names")
    parser.add_argument("--into", type=Path, help="write results here (default: benchmarks/results; --quick: nowhere)")
    parser.add_argument("--shape", choices=tuple(SHAPES), help=argparse.SUPPRESS)
    parser.add_argument("--core", choices=tuple(CORES), help=argparse.SUPPRESS)
    parser.add_argument("--pages", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.shape:
        print(json.dumps(measure(given.shape, given.pages, given.core)))
        return 0
    shapes = []
    for core, (name, (_, pages)) in itertools.product(cores(), SHAPES.items()):
        print(f"growing {name}{CORES[core]} …", file=sys.stderr, flush=True)
        shapes.append(measured_apart(name, pages // 100 if given.quick else pages, core))
        one = shapes[-1]
        verdict = "met" if one["met"] else "MISSED" if core == "auto" else ""
        figures = f"{one['pages']:>11,} pages  {one['bytes_per_page']:>9.2f} bytes per page (≤ {one['goal']})"
        print(f"{verdict:7} {name + CORES[core]:34} {figures}")
    into = given.into or (None if given.quick else RESULTS)
    if into is not None:
        into.mkdir(parents=True, exist_ok=True)
        data = {
            "date": given.date,
            "python": platform.python_version(),
            "machine": platform.machine(),
            "page": PAGE,
            "core": running(),
            "shapes": shapes,
        }
        path = into / f"memory-{given.date}.json"
        path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        reason = draw(path.with_suffix(".png"), shapes)
        print(f"results in {path}" + (f"; no picture: {reason}" if reason else " and .png"), file=sys.stderr)
    return 0 if all(one["met"] for one in shapes if one["core"] == "auto") else 1


if __name__ == "__main__":
    raise SystemExit(main())
