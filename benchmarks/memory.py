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

Results are written to ``benchmarks/results/memory-DATE.json`` and ``.svg``.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.bars import BLUE, GREY, Bar, Panel, svg
from benchmarks.control.goals import BYTES_PER_PAGE, CORES
from benchmarks.control.ours import Ours, cores, running
from benchmarks.record import at_most, parser, path_of, say, stamp, started, verdicts, write

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
    return {
        "name": name,
        "core": core,
        "pages": grower.pages,
        "bytes_per_page": curve[-1][1],
        "of_which_pool": round(grower.pool_bytes, 2),
        "seconds": round(time.monotonic() - started, 1),
        "curve": curve,
    }


def measured(*, quick: bool) -> Iterator[dict[str, Any]]:
    """Each shape over each core, in a process of its own; raises ``RuntimeError`` where one fails."""
    for core, (name, (_, pages)) in itertools.product(cores(), SHAPES.items()):
        say(f"growing {name}{CORES[core]} …")
        given = (name, str(pages // 100 if quick else pages), core)
        child = started("benchmarks.memory", *given, stdout=subprocess.PIPE)
        said, _ = child.communicate()
        if child.returncode:
            raise RuntimeError(f"the process that grows {name!r} ended with exit code {child.returncode}")
        found: dict[str, Any] = json.loads(said)
        yield found


def facts(*, quick: bool) -> dict[str, dict[str, float]]:
    """Bytes per page, and pages, of each shape: what ``control.py`` judges and shows."""
    found: dict[str, dict[str, float]] = {}
    for one in measured(quick=quick):
        for what in ("bytes_per_page", "pages"):
            found.setdefault(what + CORES[one["core"]], {})[one["name"]] = one[what]
    return found


def picture(shapes: Iterable[dict[str, Any]]) -> str:
    """What each shape takes, beside its goal."""
    colours = {"auto": BLUE, "python": GREY}
    bars = [
        Bar(one["name"] + CORES[one["core"]], one["bytes_per_page"], colours[one["core"]], BYTES_PER_PAGE[one["name"]])
        for one in shapes
    ]
    heading = "bytes per cached page beyond tokens and slots; the marks are the goals"
    return svg("bookkeeping of the optimized cache", [Panel(heading, bars, log=True)])


def main() -> int:
    """Measure, print, write; 1 when a shape takes more than the goal."""
    given = parser("memory.py", __doc__, "a hundredth of the pages").parse_args()
    begun = stamp(given.date)
    shapes = list(measured(quick=given.quick))
    for one in shapes:
        name, pages = one["name"] + CORES[one["core"]], f"{one['pages']:>11,} pages"
        print(f"{name:34} {pages}  {one['bytes_per_page']:>9.2f} bytes per page")
    wanted = [
        at_most("bytes per page", one["name"], BYTES_PER_PAGE[one["name"]], one["bytes_per_page"])
        for one in shapes
        if one["core"] == "auto"
    ]
    print(verdicts(wanted))
    if (path := path_of(given, "memory")) is not None:
        write(path, {**begun, "page": PAGE, "core": running(), "shapes": shapes}, picture(shapes))
        say(f"results in {path}")
    return 0 if all(goal.met for goal in wanted) else 1


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in SHAPES:  # a process of ``measured``
        print(json.dumps(measure(sys.argv[1], int(sys.argv[2]), sys.argv[3])))
        sys.exit(0)
    sys.exit(main())
