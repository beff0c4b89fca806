"""How fast the engine judges and finds bugs, beside a Hypothesis state machine with the same rules.

    .venv/bin/python benchmarks/engine.py [--quick] [--date YYYY-MM-DD]

Part one: fully checked steps per second.  A step is one port call, after which the cache is
observed in full and every rule that applies is evaluated.  Caches of 32 pages, page sizes 1 and
4.  What the schedules are like is measured, not assumed: how many requests run, and how often a
call changes the tree (cached pages, node boundaries, locks, hit counts or priorities).

Part two: the time to find and shrink ten planted bugs, taken evenly from the mutants.

Both drivers run in this one process, in turn; times are CPU seconds, of several rounds the
least.  What comes out is written to ``benchmarks/results/engine-DATE.json``.
"""

from __future__ import annotations

import contextlib
import io
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.record import Goal, at_least, at_most, parser, path_of, stamp, verdicts, write
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.checker.guard import Violation
from kvlitmus.conformance.generate.interpreter import Interpreter
from kvlitmus.conformance.generate.machine import Driver, machine
from kvlitmus.conformance.generate.schedule import draw, table
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.engine import run_item
from kvlitmus.conformance.run.results import Item, Options
from kvlitmus.conformance.specimen.cache import target as specimen
from kvlitmus.mutants.mutant import Mutant
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.spec.law.facts import INPUTS
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.prefix.seen import Seen

BEFORE, AFTER = (list(INPUTS).index(name) for name in ("before", "after"))
"""Where the inputs of facts have what was seen."""
PAGE_SIZES = (1, 4)
OPS = 250
BUGS = 10
SEEDS = 200
"""Schedules that the engine tries before it gives a bug up."""
EXAMPLES = 2_000
"""Runs that the machine tries before it gives a bug up."""
MACHINE_STEPS = 50
"""The length of the machine's runs when it looks for bugs: Hypothesis's own default."""

STEP_GOAL = 8_000
SPEED_GOAL = 2.5
BUG_GOAL = 0.1
LIVE_GOAL = 4.0
CHANGE_GOAL = 0.5
STATELESS = ("hash", "prefetch", "port", "misuse")
"""Packs whose bugs show in one call: they say nothing about a driver."""


def play(target: Any, config: Config, seed: int, make: type[Checker] = Checker) -> Checker:
    """Play the engine's schedule of a seed."""
    checker = make(target.make(config), config, target.profile)
    Interpreter(checker).play(draw(seed, OPS, table(checker.capabilities)))
    return checker


@dataclass
class Tally:
    """What a number of runs added up to; the judges themselves are let go, so that no driver pays for the other's."""

    steps: int = 0
    evaluated: set[str] = field(default_factory=set)

    def add(self, checker: Checker) -> None:
        """Count one run."""
        self.steps += checker.steps
        self.evaluated.update(id for id, times in checker.counted().items() if times)


def drive(target: Any, config: Config, *, examples: int, steps: int, shrink: bool) -> tuple[Tally, Violation | None]:
    """Run the state machine: what its runs added up to, and the violation that it ended with, shrunk if so wanted."""
    tally = Tally()

    def note_run(driver: Driver) -> None:
        tally.add(driver.checker)

    how = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        derandomize=True,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
    )
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            run_state_machine_as_test(machine(target, config, note_run), settings=how)
    except Violation as violation:
        return tally, violation
    return tally, None


class Watching(Checker):
    """A judge that also notes what the schedule is like; used for that alone, never while time is taken."""

    live: list[int]
    changed: int

    def judge(self, occasions: tuple[str, ...], inputs: Any, unknown: frozenset[str]) -> None:
        """Count the running requests, and whether the tree differs from what it was."""
        super().judge(occasions, inputs, unknown)
        before, after = inputs[BEFORE], inputs[AFTER]
        if before is None or after is None:  # what is judged without a look
            return
        self.live.append(len(self.requests))
        self.changed += tree_of(before) != tree_of(after)

    def forget(self) -> None:
        """Start counting with the first cache."""
        if not hasattr(self, "live"):
            self.live, self.changed = [], 0
        super().forget()


def tree_of(seen: Seen) -> object:
    """All that a snapshot shows of the tree."""
    return seen.cached, [(node.info.names, node.locks, node.hits, node.priority) for node in seen.nodes]


@dataclass(frozen=True)
class Speed:
    """Fully checked steps per second of both drivers at one page size, and how many rules they evaluated."""

    page_size: int
    engine: float
    engine_rules: int
    machine: float
    machine_rules: int


@dataclass(frozen=True)
class Character:
    """What the engine's schedules are like at one page size.

    ``live``: running requests after a step, mean; ``live_4``: share of steps with four or more of
    them; ``changing``: share of steps that changed the tree.
    """

    page_size: int
    steps: int
    live: float
    live_4: float
    changing: float


@dataclass(frozen=True)
class Bug:
    """How long one planted bug took to be found and shrunk, in CPU seconds; ``engine_steps`` of the counterexample."""

    mutant: str
    page_size: int
    engine_seconds: float
    engine_steps: int
    machine_seconds: float
    machine_found: bool


def measure_speed(size: int, rounds: int, seeds: int, examples: int) -> Speed:
    """Both drivers in turn, the best of several rounds each."""
    config = Config(page_size=size)
    ours, theirs = 0.0, 0.0
    played = driven = Tally()
    for _ in range(rounds):
        started = time.process_time()
        played = Tally()
        for seed in range(seeds):
            played.add(play(specimen, config, seed))
        ours = max(ours, played.steps / (time.process_time() - started))
        started = time.process_time()
        driven, violation = drive(specimen, config, examples=examples, steps=OPS, shrink=False)
        theirs = max(theirs, driven.steps / (time.process_time() - started))
        assert violation is None
    return Speed(size, round(ours, 1), len(played.evaluated), round(theirs, 1), len(driven.evaluated))


def measure_character(size: int, seeds: int) -> Character:
    """Play the same schedules again and look at them."""
    watched = [play(specimen, Config(page_size=size), seed, Watching) for seed in range(seeds)]
    live = [count for checker in watched if isinstance(checker, Watching) for count in checker.live]
    changed = sum(checker.changed for checker in watched if isinstance(checker, Watching))
    return Character(
        size,
        sum(checker.steps for checker in watched),
        round(statistics.mean(live), 2),
        round(sum(count >= LIVE_GOAL for count in live) / len(live), 3),
        round(changed / len(live), 3),
    )


def chosen() -> list[Mutant]:
    """Ten mutants, evenly from all whose rules are about more than one call."""
    rules = all_rules()
    fit = [
        one
        for one in all_mutants().values()
        if not one.null and all(rules[id].pack not in STATELESS for id in one.kills) and config_of(one) is not None
    ]
    return [fit[at * len(fit) // BUGS] for at in range(min(BUGS, len(fit)))]


def config_of(mutant: Mutant) -> Config | None:
    """The larger of the two page sizes at which a mutant shows; ``None`` where it needs another configuration."""
    plain = [config for config in mutant.configs if config in [Config(page_size=size) for size in PAGE_SIZES]]
    return max(plain, key=lambda config: config.page_size, default=None)


def measure_bug(mutant: Mutant, rounds: int) -> Bug:
    """Find and shrink one bug with both drivers."""
    config = config_of(mutant)
    assert config is not None
    engine: list[tuple[float, int]] = []
    other: list[tuple[float, bool]] = []
    for _ in range(rounds):
        started = time.process_time()
        steps = find_with_engine(mutant, config)
        engine.append((time.process_time() - started, steps))
        started = time.process_time()
        _, violation = drive(mutant.target, config, examples=EXAMPLES, steps=MACHINE_STEPS, shrink=True)
        other.append((time.process_time() - started, violation is not None))
    (engine_seconds, engine_steps), (machine_seconds, found) = min(engine), min(other)
    return Bug(
        mutant.id,
        config.page_size,
        round(engine_seconds, 4),
        engine_steps,
        round(machine_seconds, 4),
        found,
    )


def find_with_engine(mutant: Mutant, config: Config) -> int:
    """Play seeds until one fails, and shrink it; returns the length of the counterexample, in steps."""
    for seed in range(SEEDS):
        item = Item(kind="random", config=config, seed=seed, ops=OPS)
        result = run_item(mutant.target, item, Options(reruns=0))
        assert not result.error, result.error
        if result.findings:
            return result.findings[0].steps
    raise AssertionError(f"{mutant.id} was not found in {SEEDS} schedules")


def goals(speeds: list[Speed], characters: list[Character], bugs: list[Bug]) -> list[Goal]:
    """The figures that the project promises."""
    slowest = min(one.engine for one in speeds)
    ratio = min(one.engine / one.machine for one in speeds)
    live = min(one.live for one in characters)
    changing = min(one.changing for one in characters)
    share = sum(one.engine_seconds for one in bugs) / sum(one.machine_seconds for one in bugs)
    return [
        at_least("fully checked steps", "a second and core", STEP_GOAL, slowest),
        at_least("fully checked steps", "times those of the state machine", SPEED_GOAL, ratio),
        at_least("running requests", "mean", LIVE_GOAL, live),
        at_least("steps", "share that changes the tree", CHANGE_GOAL, changing),
        at_most("planted bugs", "share of the machine's time to find and shrink", BUG_GOAL, share),
    ]


def report(speeds: list[Speed], characters: list[Character], bugs: list[Bug], wanted: list[Goal]) -> str:
    """The tables that are printed."""
    lines = ["page  engine steps/s (rules)  machine steps/s (rules)  times"]
    lines += [
        f"{one.page_size:4} {one.engine:15,.0f} ({one.engine_rules:5}) {one.machine:16,.0f} ({one.machine_rules:5}) "
        f"{one.engine / one.machine:6.2f}"
        for one in speeds
    ]
    lines += ["", "page   steps  running requests  four or more  tree changed"]
    lines += [
        f"{one.page_size:4} {one.steps:7,} {one.live:17.2f} {one.live_4:13.0%} {one.changing:13.1%}"
        for one in characters
    ]
    lines += ["", f"{'planted bug':40} page  engine s  steps  machine s"]
    lines += [
        f"{one.mutant:40} {one.page_size:4} {one.engine_seconds:9.3f} {one.engine_steps:6} {one.machine_seconds:10.3f}"
        f"{'' if one.machine_found else ' (not found)'}"
        for one in bugs
    ]
    total = (sum(one.engine_seconds for one in bugs), sum(one.machine_seconds for one in bugs))
    lines += [f"{'all':45} {total[0]:9.3f} {'':6} {total[1]:10.3f}", ""]
    return "\n".join([*lines, verdicts(wanted)])


def main() -> int:
    """Measure, print, write; 1 when a goal is missed."""
    given = parser("engine.py", __doc__, "fewer rounds and schedules").parse_args()
    begun = stamp(given.date)
    rounds, seeds, examples = (1, 10, 4) if given.quick else (5, 40, 20)
    speeds = [measure_speed(size, rounds, seeds, examples) for size in PAGE_SIZES]
    characters = [measure_character(size, seeds) for size in PAGE_SIZES]
    bugs = [measure_bug(mutant, 1 if given.quick else 2) for mutant in chosen()]
    wanted = goals(speeds, characters, bugs)
    print(report(speeds, characters, bugs, wanted))
    if (path := path_of(given, "engine")) is not None:
        write(path, {**begun, "speed": speeds, "schedules": characters, "bugs": bugs, "goals": wanted})
    return 0 if all(one.met for one in wanted) else 1


if __name__ == "__main__":
    raise SystemExit(main())
