"""How fast hierarchies are judged, beside flat caches in the same process, and what the schedules are like.

    .venv/bin/python benchmarks/hierarchy.py [--quick] [--date YYYY-MM-DD]

A step is one port call, after which both tiers, all jobs and all contents are observed, and every rule
that applies is evaluated.  Specimen and reference are played in each configuration of a hierarchy
(``plan.TIER_CONFIGS``), and the specimen as a flat cache with the same pages.  All three take turns, round by
round; times are CPU seconds, of several rounds the least.

What the schedules are like is measured, not assumed: how many jobs are alive after a step, how often any work
is in flight, and how many prefetches, commits and loads there are.  What comes out is written to
``benchmarks/results/hierarchy-DATE.json``.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.engine import AFTER, BEFORE, play
from benchmarks.record import Goal, at_least, parser, path_of, stamp, verdicts, write
from kvlitmus.conformance.adapters.reference.target import target as reference
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.plan import TIER_CONFIGS
from kvlitmus.conformance.specimen.cache import target as specimen
from kvlitmus.spec.interface.tiers import LOAD
from kvlitmus.spec.law.on import On
from kvlitmus.spec.prefix.seen import TierSeen

STEP_GOAL = 3_000
"""Fully checked steps per second of the specimen with the whole hierarchy in play, in the slowest configuration."""
PER = 1_000
"""Events are counted per so many steps."""


class Watching(Checker):
    """A judge that also notes what the schedule is like; used for that alone, never while time is taken."""

    alive: list[int]
    happened: Counter[str]

    def judge(self, occasions: tuple[str, ...], inputs: Any, unknown: frozenset[str]) -> None:
        """Count the jobs, and what happened to prefetches and loads."""
        super().judge(occasions, inputs, unknown)
        before, after = inputs[BEFORE], inputs[AFTER]
        if not isinstance(before, TierSeen) or not isinstance(after, TierSeen):
            return
        self.alive.append(len(after.jobs))
        if On.PREFETCH in occasions:
            self.happened["begun"] += 1
        if {On.POLL, On.COMMIT} & set(occasions) and after.hosted.keys() - before.hosted.keys():
            self.happened["committed"] += 1
        self.happened["loads"] += sum(
            job.kind == LOAD and number not in before.jobs for number, job in after.jobs.items()
        )

    def forget(self) -> None:
        """Start counting with the first cache."""
        if not hasattr(self, "alive"):
            self.alive, self.happened = [], Counter()
        super().forget()


def flat(config: Config) -> Config:
    """The same cache without anything below the device."""
    return Config(page_size=config.page_size, pages=config.pages, policy=config.policy, bigram=config.bigram)


@dataclass(frozen=True)
class Speed:
    """Fully checked steps per second in one configuration; ``ratio``: the specimen's, of those of the flat cache."""

    config: str
    specimen: float
    reference: float
    flat: float
    ratio: float
    rules: int


@dataclass(frozen=True)
class Character:
    """What the schedules of one configuration are like.

    ``alive``: jobs after a step, mean; ``in_flight``: share of steps after which there is any; ``begun``,
    ``committed``, ``loads``: prefetches that began, commits that added pages, and load backs, per 1,000 steps.
    """

    config: str
    steps: int
    alive: float
    in_flight: float
    begun: float
    committed: float
    loads: float


def timed(target: Any, config: Config, seeds: int) -> tuple[float, Counter[str]]:
    """Fully checked steps per CPU second over so many schedules, and how often each rule was evaluated."""
    started, steps, evaluated = time.process_time(), 0, Counter[str]()
    for seed in range(seeds):
        checker = play(target, config, seed)
        steps += checker.steps
        evaluated.update(checker.counted())
    return steps / (time.process_time() - started), evaluated


def measure_speed(config: Config, rounds: int, seeds: int) -> Speed:
    """Specimen, reference and flat cache in turn, the best of several rounds each."""
    ours = theirs = plain = 0.0
    evaluated = Counter[str]()
    for _ in range(rounds):
        speed, evaluated = timed(specimen, config, seeds)
        ours = max(ours, speed)
        theirs = max(theirs, timed(reference, config, seeds)[0])
        plain = max(plain, timed(specimen, flat(config), seeds)[0])
    rules = sum(1 for times in evaluated.values() if times)
    return Speed(config.label, round(ours, 1), round(theirs, 1), round(plain, 1), round(ours / plain, 3), rules)


def measure_character(config: Config, seeds: int) -> Character:
    """Play the same schedules again and look at them."""
    alive: list[int] = []
    happened = Counter[str]()
    for seed in range(seeds):
        checker = play(specimen, config, seed, Watching)
        assert isinstance(checker, Watching)
        alive += checker.alive
        happened += checker.happened
    per = {name: round(happened[name] * PER / len(alive), 2) for name in ("begun", "committed", "loads")}
    share = sum(map(bool, alive)) / len(alive)
    return Character(config.label, len(alive), round(statistics.mean(alive), 2), round(share, 3), **per)


def goals(speeds: Sequence[Speed]) -> list[Goal]:
    """The figure that the project promises."""
    slowest = min(one.specimen for one in speeds)
    return [at_least("fully checked steps", "a second and core, the slowest hierarchy", STEP_GOAL, slowest)]


def report(speeds: Sequence[Speed], characters: Sequence[Character], wanted: Sequence[Goal]) -> str:
    """The tables that are printed."""
    width = max(len(one.config) for one in speeds)
    lines = [f"{'steps per CPU second':{width}}  specimen  reference    flat  of flat  rules"]
    lines += [
        f"{one.config:{width}} {one.specimen:9,.0f} {one.reference:10,.0f} {one.flat:7,.0f} "
        f"{one.ratio:8.2f} {one.rules:6}"
        for one in speeds
    ]
    lines += ["", f"{'schedules, per 1,000 steps':{width}}   steps  jobs alive  in flight  begun  committed  loads"]
    lines += [
        f"{one.config:{width}} {one.steps:7,} {one.alive:11.2f} {one.in_flight:10.0%} {one.begun:6.1f} "
        f"{one.committed:10.1f} {one.loads:6.1f}"
        for one in characters
    ]
    return "\n".join([*lines, "", verdicts(wanted)])


def main() -> int:
    """Measure, print, write; 1 when a goal is missed."""
    given = parser("hierarchy.py", __doc__, "fewer rounds and schedules").parse_args()
    begun = stamp(given.date)
    rounds, seeds = (1, 4) if given.quick else (5, 20)
    speeds = [measure_speed(config, rounds, seeds) for config in TIER_CONFIGS]
    characters = [measure_character(config, seeds) for config in TIER_CONFIGS]
    wanted = goals(speeds)
    print(report(speeds, characters, wanted))
    if (path := path_of(given, "hierarchy")) is not None:
        write(path, {**begun, "speed": speeds, "schedules": characters, "goals": wanted})
    return 0 if all(one.met for one in wanted) else 1


if __name__ == "__main__":
    raise SystemExit(main())
