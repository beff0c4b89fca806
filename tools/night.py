#!/usr/bin/env python3
"""Correct caches for a long time: how many steps each was played at each depth of observation, and every alarm.

    python tools/night.py                                  100,000 steps per legal cache and depth, 1,000,000 per other
    python tools/night.py --minutes 20 --jobs 2            for so long; the same command again goes on from there
    python tools/night.py --steps 2000 --long 2000         what CI could play
    python tools/night.py --only evicts-ahead batch        some of them
    python tools/night.py --depths 3                       at one depth, as after a change that shows at no other

Legal caches are those of the zoo and the null mutants; the others are the specimen, the reference and the optimized
cache, whose steps are spread over the depths.  Each is played in its own configurations, from consecutive seeds; the
one that is furthest behind comes next, so that any budget looks at all of them.  No alarm may come of it.

The result (``--json``, by default ``.kvlitmus/night.json``) says which commit and which rules it is of; it is saved as
it grows, and another run continues it if these are still the same.  Ctrl-C, or SIGTERM, keeps what was played and ends
the processes that play; it exits with 130, or 143.  1 says that there was an alarm, 3 that a cache failed, 4 that not
all steps were played.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
if __name__ in ("__main__", "__mp_main__"):
    sys.path[:0] = [str(ROOT / room) for room in ("spec", "reference", "conformance", "optimized")]
    os.environ.setdefault("OMP_NUM_THREADS", "1")

from kvlitmus import zoo  # noqa: E402
from kvlitmus.conformance.ports import Config  # noqa: E402
from kvlitmus.conformance.report.document import dump_report  # noqa: E402
from kvlitmus.conformance.run.engine import run_item  # noqa: E402
from kvlitmus.conformance.run.plan import OPS, configs_of  # noqa: E402
from kvlitmus.conformance.run.results import Item, Options  # noqa: E402
from kvlitmus.conformance.run.targets import load_target, resolve_target  # noqa: E402
from kvlitmus.conformance.support import ending  # noqa: E402
from kvlitmus.conformance.support.version import version  # noqa: E402
from kvlitmus.mutants.registry import all_mutants  # noqa: E402
from kvlitmus.spec.parts import all_rules  # noqa: E402

DEPTHS = (0, 1, 2, 3)
OTHERS = (
    *("specimen", "reference", "optimized", "components", "reference-components"),
    *("reference-sparse", "optimized-sparse", "specimen/sparse", "optimized-components"),
    *("specimen/ranks", "reference/ranks", "optimized-ranks"),
    *("component-requests", "reference-component-requests"),
)
"""The other caches; with a pool behind a stroke only where that is what is judged."""
CHUNK = 8
"""So many schedules are played in one go."""
KEPT = 5
"""So many alarms of a cache are told; the others are counted."""
EVERY = 20.0
"""Seconds between two times that the result is saved."""


class Played(NamedTuple):
    """What came of some schedules of one cache."""

    steps: int
    seconds: float
    alarms: list[dict[str, Any]]
    error: str
    unsupported: str


@cache
def cache_of(name: str) -> tuple[Any, tuple[Config, ...]]:
    """A cache by name, and the configurations in which it is played."""
    kind, _, own = name.partition(":")
    if kind == "null":
        one = all_mutants()[own]
        return one.target, one.configs
    own, _, pool = own.partition("/")
    target = zoo.target_of(own) if kind == "zoo" else load_target(resolve_target(own))
    return target, tuple(config for config in configs_of(target) if pool in ("", config.pool))


def names() -> list[str]:
    """All caches that are played."""
    nulls = [f"null:{one.id}" for one in all_mutants().values() if one.null]
    return [*(f"zoo:{name}" for name in zoo.ZOO), *nulls, *(f"other:{name}" for name in OTHERS)]


def play(name: str, depth: int, first: int) -> Played:
    """Play schedules ``first``, ``first + 1``, … of a cache, configuration after configuration."""
    target, configs = cache_of(name)
    alarms: list[dict[str, Any]] = []
    started, steps, unsupported = time.perf_counter(), 0, ""
    for number in range(first, first + CHUNK):
        config, seed = configs[number % len(configs)], number // len(configs)
        item = Item(kind="random", config=config, seed=seed, ops=OPS)
        result = run_item(target, item, Options(depth=depth, reruns=0, shrink_trials=0))
        if result.error:
            return Played(steps, time.perf_counter() - started, alarms, f"{item.id}: {result.error}", "")
        steps += result.steps
        unsupported = result.unsupported or unsupported
        for one in result.findings:
            found = {"rules": one.rules, "item": item.id, "call": one.call, "steps": one.steps}
            alarms.append(found | {"calls": one.calls[-8:]})
    return Played(steps, time.perf_counter() - started, alarms, "", unsupported)


def stamp() -> dict[str, str]:
    """What the figures are of: they are continued under the same stamp only."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()

    rules = hashlib.sha256(" ".join(one.digest for one in all_rules().values()).encode()).hexdigest()[:12]
    dirty = "+" if git("status", "--porcelain", "--untracked-files=no") else ""
    return {"version": version(), "commit": git("rev-parse", "HEAD") + dirty, "rules": rules}


PLAYED: Mapping[str, Any] = {"steps": 0, "schedules": 0, "seconds": 0.0}
"""What a cell of the file always says."""

UNTOLD: Mapping[str, Any] = {"alarms": 0, "told": [], "error": "", "unsupported": ""}
"""What a cell of the file says where it says nothing: most of a thousand cells say no more than how much was played."""


def read(file: Path) -> dict[str, Any]:
    """What is in a file: of a cache at each depth a row of numbers, and what else there is to say."""
    data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    rows = {f"{name} depth {at}": row for name, by in data["cells"].items() for at, row in by.items()}
    data["cells"] = {
        key: {**dict(zip(PLAYED, row, strict=False)), **UNTOLD, **dict(*row[3:])} for key, row in rows.items()
    }
    return data


class Night:
    """The result as it grows."""

    def __init__(self, file: Path, args: argparse.Namespace) -> None:
        self.file = file
        self.goals = {
            (name, depth): args.long // len(args.depths) if name.startswith("other:") else args.steps
            for name in names()
            for depth in args.depths
            if not args.only or name.partition(":")[2] in args.only
        }
        self.data: dict[str, Any] = {**stamp(), "python": platform.python_version(), "seconds": 0.0, "cells": {}}
        if file.exists() and not args.fresh:
            old = read(file)
            told = [f"{key} {old.get(key)}, now {value}" for key, value in stamp().items() if old.get(key) != value]
            if told:
                raise SystemExit(f"night: {file} is of {'; '.join(told)}: use --fresh, or another --json")
            self.data = old
        wanted: dict[str, dict[str, Any]] = {f"{name} depth {depth}": {} for name, depth in self.goals}
        self.data["cells"] = {key: {**PLAYED, **UNTOLD, **cell} for key, cell in (wanted | self.data["cells"]).items()}
        self.started = time.time()
        self.before = self.data["seconds"]

    def cell(self, key: tuple[str, int]) -> dict[str, Any]:
        """What came of a cache at a depth so far."""
        found: dict[str, Any] = self.data["cells"][f"{key[0]} depth {key[1]}"]
        return found

    def over(self, key: tuple[str, int]) -> bool:
        """Whether nothing is left to play there."""
        cell = self.cell(key)
        return (
            bool(cell["error"]) or cell["steps"] >= self.goals[key] or (bool(cell["unsupported"]) and not cell["steps"])
        )

    def next(self, busy: Sequence[tuple[str, int]]) -> tuple[str, int] | None:
        """The cell that is furthest behind."""
        left = [key for key in self.goals if key not in busy and not self.over(key)]
        return min(left, key=lambda key: self.cell(key)["steps"] / self.goals[key], default=None)

    def note(self, key: tuple[str, int], played: Played) -> None:
        """Add what was played."""
        cell = self.cell(key)
        configs = len(cache_of(key[0])[1])
        cell["steps"] += played.steps
        cell["schedules"] += CHUNK
        cell["seconds"] = round(cell["seconds"] + played.seconds, 2)
        cell["alarms"] += len(played.alarms)
        cell["told"] = [*cell["told"], *played.alarms][:KEPT]
        cell["error"] = played.error
        if not cell["steps"] and cell["schedules"] >= configs:
            cell["unsupported"] = played.unsupported
        for alarm in played.alarms:
            print(f"ALARM {key[0]} depth {key[1]}: {', '.join(alarm['rules'])} in {alarm['item']}", flush=True)
        if played.error:
            print(f"FAILED {key[0]} depth {key[1]}: {played.error}", flush=True)

    def save(self) -> None:
        """Write it all, whole or not at all."""
        self.data["seconds"] = round(self.before + time.time() - self.started, 1)
        cells = self.data["cells"].values()
        self.data["steps"] = sum(cell["steps"] for cell in cells)
        self.data["alarms"] = sum(cell["alarms"] for cell in cells)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        part = self.file.with_suffix(".part")
        told: dict[str, dict[str, list[Any]]] = {}
        for key, cell in sorted(self.data["cells"].items()):
            name, _, at = key.rpartition(" depth ")
            more = {one: cell[one] for one in UNTOLD if cell[one] != UNTOLD[one]}
            told.setdefault(name, {})[at] = [*(cell[one] for one in PLAYED), *([more] if more else [])]
        part.write_text(dump_report(dict(sorted((self.data | {"cells": told}).items()))), encoding="utf-8")
        part.replace(self.file)

    def exit_code(self, *, interrupted: bool) -> int:
        """What came of it."""
        cells = [self.cell(key) for key in self.goals]
        if any(cell["alarms"] for cell in cells):
            return 1
        if any(cell["error"] for cell in cells):
            return 3
        return ending.exit_code() if interrupted else 0 if all(map(self.over, self.goals)) else 4

    def text(self) -> str:
        """One line on all of it."""
        done = sum(map(self.over, self.goals))
        silent = sum(1 for key in self.goals if self.cell(key)["unsupported"] and not self.cell(key)["steps"])
        return (
            f"{self.data['steps']:,} steps in {self.data['seconds']:,.0f} s, {self.data['alarms']} alarms; {done} of "
            f"{len(self.goals)} cells are through, {silent} of them not judged; {self.file}"
        )


def run(night: Night, jobs: int, seconds: float) -> bool:
    """Play until everything is through or the time is up; whether somebody interrupted."""
    ends, saved, interrupted = time.monotonic() + seconds, time.monotonic(), False
    with ProcessPoolExecutor(jobs, get_context("spawn"), signal.signal, (signal.SIGINT, signal.SIG_IGN)) as pool:
        going: dict[Future[Played], tuple[str, int]] = {}
        while True:
            try:
                while len(going) < jobs and not interrupted and time.monotonic() < ends:
                    key = night.next(list(going.values()))
                    if key is None:
                        break
                    going[pool.submit(play, *key, night.cell(key)["schedules"])] = key
                if not going:
                    return interrupted
                for one in wait(going, return_when=FIRST_COMPLETED).done:
                    night.note(going.pop(one), one.result())
                if time.monotonic() - saved > EVERY:
                    saved = time.monotonic()
                    night.save()
            except KeyboardInterrupt:
                interrupted = True


def main(arguments: Sequence[str] | None = None) -> int:
    """Play, save, say."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--steps", type=int, default=100_000, help="per legal cache and depth")
    parser.add_argument("--long", type=int, default=1_000_000, help="of each other cache, over all depths")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), help="stop after so long, and keep what there is"
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="only these caches")
    parser.add_argument("--json", type=Path, default=ROOT / ".kvlitmus" / "night.json", help="where the result is kept")
    parser.add_argument(
        "--depths", nargs="+", type=int, choices=DEPTHS, default=DEPTHS, help="of observation (default: all)"
    )
    parser.add_argument("--fresh", action="store_true", help="begin anew, whatever is there")
    args = parser.parse_args(arguments)
    unknown = set(args.only) - {name.partition(":")[2] for name in names()}
    if unknown:
        parser.error(f"no such cache: {', '.join(sorted(unknown))}")
    night = Night(args.json, args)
    with ending.kindly():
        interrupted = run(night, args.jobs, args.minutes * 60)
        night.save()
        print(night.text())
        return night.exit_code(interrupted=interrupted)


if __name__ == "__main__":
    sys.exit(main())
