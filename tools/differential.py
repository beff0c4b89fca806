#!/usr/bin/env python3
"""Two caches in lock step, for as many steps as wanted: the optimized cache and the reference.

    python tools/differential.py                                     100,000 steps from seed 0, by one process
    python tools/differential.py --steps 1000000 --seed 7 --workers 2 --json differential.json
    python tools/differential.py --config 'host=6' --steps 20000     only configurations whose label has this in it
    python tools/differential.py --core native --steps 20000         only those in which the first one runs this core
    python tools/differential.py --replay 'page=4 lru pages=8' 1234  one schedule again, shrunk

Schedules are drawn from consecutive seeds with the suite's own weights, configuration after configuration: those in
which every cache is judged, and further ones.  After every call both caches are compared (see
``tests.support.differential``), and the first one is held against all rules.  A step is one call.

The first difference is shrunk and shown, and the exit code is 1; after Ctrl-C it says how far it came, and exits with
130.  The summary (``--json``) has steps per configuration and per core of the first one, what was run and of which
commit, so that a run of several hours can be told from a short one.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
ROOMS = [str(ROOT / room) for room in ("spec", "reference", "conformance", "optimized")]
if __name__ in ("__main__", "__mp_main__"):
    sys.path[:0] = [str(ROOT), *ROOMS]
    os.environ.setdefault("OMP_NUM_THREADS", "1")

from kvlitmus.conformance.generate.schedule import draw  # noqa: E402
from kvlitmus.conformance.ports import Config, Unsupported  # noqa: E402
from kvlitmus.conformance.run.plan import CONFIGS, OPS, TIER_CONFIGS  # noqa: E402
from kvlitmus.conformance.run.targets import load_target, resolve_target  # noqa: E402
from tests.support.configs import TIER_POLICY_CONFIGS, TIGHT_CONFIGS  # noqa: E402
from tests.support.lockstep import Found, kinds_of, lockstep, shortest  # noqa: E402

ALL: tuple[Config, ...] = (
    *CONFIGS,
    *TIER_CONFIGS,
    *TIER_POLICY_CONFIGS,
    *TIGHT_CONFIGS,
)
"""The configurations that are played, one after the other."""

ROUND = 4
"""So many schedules are played in one go."""


class Played(NamedTuple):
    """What came of some schedules: the configuration, how many steps and schedules, and what was found, if anything."""

    label: str
    steps: int
    schedules: int
    seed: int = 0
    found: str = ""


def play(names: tuple[str, str], config: Config, seed: int, schedules: int, seconds: float) -> Played:
    """Play schedules of consecutive seeds until the first difference, which is shrunk for so many seconds."""
    first, second = (load_target(resolve_target(name)) for name in names)
    if hasattr(first, "shifted"):
        first = first.shifted(seed)  # other kinds of pools with other seeds
    kinds = kinds_of(first, second, config)
    steps = 0
    for at in range(schedules):
        ops = draw(seed + at, OPS, kinds)
        try:
            steps += lockstep(first, second, config, ops)
        except Found as found:
            fewer = shortest(first, second, config, ops, seconds) or found
            return Played(config.label, steps, at + 1, seed + at, f"{fewer}\n{found.why}")
    return Played(config.label, steps, schedules)


def tasks(configs: Sequence[Config], seed: int) -> Iterator[tuple[Config, int]]:
    """Configurations and seeds, without end."""
    for number in count():
        for config in configs:
            yield config, seed + number * ROUND


def run(options: argparse.Namespace, configs: Sequence[Config]) -> dict[str, Any]:
    """Play until there are enough steps, something is found, or somebody presses Ctrl-C; returns the summary."""
    steps: Counter[str] = Counter()
    schedules: Counter[str] = Counter()
    found: list[Played] = []
    started, shown, stopped = time.monotonic(), 0.0, False
    todo = tasks(configs, options.seed)
    names = (options.first, options.second)
    context = get_context("spawn")
    with ProcessPoolExecutor(options.workers, mp_context=context, initializer=deaf) as crew:

        def submit() -> Future[Played]:
            config, seed = next(todo)
            return crew.submit(play, names, config, seed, ROUND, options.shrink)

        running = {submit() for _ in range(options.workers * 2)}
        try:
            while running:
                done, running = wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
                for one in done:
                    played = one.result()
                    steps[played.label] += played.steps
                    schedules[played.label] += played.schedules
                    if played.found:
                        found.append(played)
                enough = steps.total() >= options.steps or found
                running |= {submit() for _ in done if not enough}
                if time.monotonic() - shown > options.every:
                    shown = time.monotonic()
                    print(
                        f"{steps.total():,} steps, {schedules.total():,} schedules, {shown - started:.0f} s", flush=True
                    )
        except KeyboardInterrupt:
            stopped = True
            crew.shutdown(wait=False, cancel_futures=True)
    return {
        "kind": "kvlitmus differential run",
        "format": 1,
        "command": " ".join(["python tools/differential.py", *options.given]),
        "commit": commit(),
        "machine": f"{os.cpu_count()} CPU cores, {platform.machine()}, Python {platform.python_version()}",
        "first": options.first,
        "second": options.second,
        "seed": options.seed,
        "wanted": options.steps,
        "steps": steps.total(),
        "schedules": schedules.total(),
        "seconds": round(time.monotonic() - started, 1),
        "stopped": stopped,
        "differences": [played._asdict() for played in found],
        "steps_by_core": by_core(options.first, configs, steps),
        "by_config": {label: {"steps": steps[label], "schedules": schedules[label]} for label in sorted(steps)},
    }


def commit() -> str:
    """What is played, with a plus where the checkout differs from its commit; empty outside of git."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=+", "--exclude=*"]
    try:
        return subprocess.run(command, check=False, capture_output=True, text=True).stdout.strip()
    except OSError:
        return ""


def core_of(name: str, config: Config) -> str:
    """Which core of the optimized cache a target has in a configuration; empty where it is another cache."""
    made = load_target(resolve_target(name)).make(config)
    return str(getattr(getattr(made, "cache", None), "core", ""))


def by_core(name: str, configs: Sequence[Config], steps: Counter[str]) -> dict[str, int]:
    """How many of these steps were of which core."""
    found: Counter[str] = Counter()
    for config in configs:
        if core := core_of(name, config):
            found[core] += steps[config.label]
    return dict(found)


def deaf() -> None:
    """Ctrl-C is the business of the main process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def ears() -> None:
    """Ctrl-C and a polite end mean the same, also for a run that was started in the background."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--steps", type=int, default=100_000, help="how many steps to compare (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="where the seeds begin (%(default)s)")
    parser.add_argument("--workers", type=int, default=1, help="how many processes (%(default)s)")
    parser.add_argument("--first", default="optimized", help="the target that is judged (%(default)s)")
    parser.add_argument("--second", default="reference", help="the target that it is compared with (%(default)s)")
    parser.add_argument("--config", default="", help="only configurations whose label has this in it")
    parser.add_argument("--core", default="", help="only configurations in which the first one runs this core")
    parser.add_argument("--json", type=Path, help="write the summary to this file")
    parser.add_argument("--every", type=float, default=10.0, help="seconds between lines of progress (%(default)s)")
    parser.add_argument("--shrink", type=float, default=20.0, help="seconds to shrink a difference (%(default)s)")
    parser.add_argument("--replay", nargs=2, metavar=("LABEL", "SEED"), help="play one schedule again")
    options = parser.parse_args(given)
    options.given = sys.argv[1:] if given is None else given
    return options


def has_not(options: argparse.Namespace, config: Config) -> bool:
    """Whether one of both targets can't be made in this configuration, which is then left out, and said."""
    for name in (options.first, options.second):
        try:
            load_target(resolve_target(name)).make(config)
        except Unsupported as why:
            print(f"left out: [{config.label}] {name}: {why}")
            return True
    return False


def main(given: Sequence[str] | None = None) -> int:
    """Run it; returns the exit code."""
    options = arguments(given)
    configs = [config for config in ALL if options.config in config.label]
    if options.replay:
        configs = [config for config in ALL if config.label == options.replay[0]]
    if not configs:
        print("no configuration has such a label; there are:", *[config.label for config in ALL], sep="\n  ")
        return 2
    if options.replay:
        played = play((options.first, options.second), configs[0], int(options.replay[1]), 1, options.shrink)
        print(played.found or f"{played.steps} steps, no difference")
        return 1 if played.found else 0
    configs = [config for config in configs if not has_not(options, config)]
    configs = [config for config in configs if not options.core or core_of(options.first, config) == options.core]
    if not configs:
        core = f" with {options.first} on its core {options.core}" if options.core else ""
        print(f"there is nothing that both {options.first} and {options.second} can be{core}")
        return 2
    ears()
    summary = run(options, configs)
    if options.json:
        options.json.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    for played in summary["differences"]:
        print(f"\nseed {played['seed']} in [{played['label']}]:\n{played['found']}")
    print(
        f"{summary['first']} and {summary['second']}: {summary['steps']:,} steps in {summary['schedules']:,} schedules"
        f" of {len(summary['by_config'])} configurations, {len(summary['differences'])} differences"
        f" ({summary['seconds']:.0f} s{', stopped' if summary['stopped'] else ''})"
    )
    return 130 if summary["stopped"] else 1 if summary["differences"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
