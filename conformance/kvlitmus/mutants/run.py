"""Running the mutants: which known bugs the suite catches, by which rules, and how soon.

A mutant counts as killed only if a rule is broken that the mutant itself names.  That it breaks
some other rule, or that the cache merely crashes, is no kill: it would say nothing about whether
the rule works that was written against this bug.  On a null mutant any finding is a false alarm.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from kvlitmus.conformance.generate.shrink import SAFETY, TRIALS, small
from kvlitmus.conformance.isolation.current_run import CurrentRun
from kvlitmus.conformance.isolation.process import Process, wait
from kvlitmus.conformance.isolation.worker_pool import Limits, WorkerPool
from kvlitmus.conformance.run import engine, plan
from kvlitmus.conformance.run.results import Finding, Item, Options
from kvlitmus.conformance.run.targets import resolve_target
from kvlitmus.conformance.support.text import raised_text
from kvlitmus.mutants.mutant import Mutant
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.spec.parts import all_rules

STEPS = 20_000
"""Random steps per mutant."""

FORMAT = 1

SHORT, LONG = 8, 15
"""Calls of a counterexample that is short enough, and of one that is worth some more tries."""

SEARCH = 2_000
"""Operations that are drawn, at least, to say what a long litmus test says."""

FURTHER = 1_000
"""Where the seeds of further schedules begin."""

BRIEF = 60
"""Operations of a short schedule."""

FEW = 3
"""So many schedules are shrunk, until one is short; as many more, as long as none is shorter than long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How hard to try: random steps per mutant, where the seeds begin, with litmus tests or without."""

    steps: int = STEPS
    seed: int = 0
    litmus: bool = True
    shrink_trials: int = TRIALS
    shrink_seconds: float = SAFETY


@dataclass(slots=True, kw_only=True)
class Fate:
    """What became of one mutant.

    killed_by: the named rule that caught it first; ``item``: where; ``steps``, ``seconds``: how much
    was played up to then; ``length``: calls of the shortest counterexample.  ``broken``: all rules
    that were seen broken.  ``alarms``: for a null mutant, what was wrongly found.
    """

    id: str
    null: bool
    bugs: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    kills: tuple[str, ...] = ()
    long_because: str = ""
    killed_by: str = ""
    item: str = ""
    steps: int = 0
    seconds: float = 0.0
    length: int = 0
    calls: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    alarms: list[str] = field(default_factory=list)
    error: str = ""

    @classmethod
    def of(cls, mutant: Mutant, error: str = "") -> Fate:
        """The fate of a mutant that has not been played, or could not be."""
        return cls(
            id=mutant.id,
            null=mutant.null,
            bugs=mutant.bugs,
            links=mutant.links,
            kills=mutant.kills,
            long_because=mutant.long_because,
            error=error,
        )

    @property
    def well(self) -> bool:
        """Whether it went as it should."""
        return not self.error and (not self.alarms if self.null else bool(self.killed_by))


TUPLES = ("bugs", "links", "kills")


class Names:
    """The mutants as targets: ``kvlitmus run kvlitmus.mutants.run:by_name.split_forgets_locks``."""

    def __getattr__(self, name: str) -> Any:
        mutant = all_mutants().get(name.replace("_", "-"))
        if mutant is None:
            raise AttributeError(f"there is no mutant {name.replace('_', '-')!r}")
        return mutant.target


by_name = Names()
"""Each mutant under its id, with ``_`` for ``-``."""


def items_of(mutant: Mutant, effort: Effort) -> Iterator[Item]:
    """What is played on a mutant: litmus tests first, then schedules, configuration by configuration, without end."""
    if effort.litmus:
        yield from plan.items(mutant.configs, mutant.profile, steps=0)
    seed = effort.seed
    while True:
        for config in mutant.configs:
            yield Item(kind="random", config=config, seed=seed, ops=plan.OPS)
        seed += 1


def run_mutant(id: str, effort: Effort, current: CurrentRun | None = None) -> Fate:
    """Play one mutant until a rule that it names is broken, or the steps are spent.

    ``current``: where a watcher sees that it goes on.
    """
    mutant = all_mutants()[id]
    fate = Fate.of(mutant)
    options = Options(shrink_trials=0, reruns=0 if mutant.null else 4)
    broken: dict[str, None] = {}
    drawn = 0
    started = time.monotonic()
    killer: Finding | None = None
    for item in items_of(mutant, effort):
        if item.kind == "random" and (killer or drawn >= effort.steps):
            break
        try:
            result = engine.run_item(mutant.target, item, options, current)
        except Exception as error:  # noqa: BLE001  # one mutant that upsets the judge must not cost the others
            fate.error = f"{item.id}: the judge failed: {raised_text(error)}"
            break
        drawn += result.steps if item.kind == "random" else 0
        if not killer:
            fate.steps += result.steps
        if result.error:
            fate.error = f"{item.id}: {result.error}"
            break
        for finding in result.findings:
            broken.update(dict.fromkeys(finding.rules))
            if mutant.null:
                fate.alarms.append(f"{'+'.join(finding.rules)} in {item.id}: {finding.call}")
            elif not killer and (by := mutant.killed_by(finding.rules)):
                killer, fate.killed_by, fate.item = finding, by, item.id
                fate.seconds = time.monotonic() - started
    fate.broken = [rule for rule in all_rules() if rule in broken]
    if killer:
        shortest = shortest_of(mutant, killer, effort, current)
        fate.length, fate.calls = len(shortest.calls), shortest.calls
    else:
        fate.seconds = time.monotonic() - started
    return fate


def shortest_of(mutant: Mutant, finding: Finding, effort: Effort, current: CurrentRun | None = None) -> Finding:
    """The shortest counterexample for a rule that the mutant names.

    A litmus test is written down as a schedule, which may break such a rule, too; other schedules may say it in fewer
    calls.
    """
    if finding.litmus and len(finding.calls) <= SHORT:
        return finding
    plain = Options(muted=frozenset(all_rules().keys() - set(mutant.kills)), reruns=0, shrink_trials=0)

    def played(item: Item, trials: int) -> Finding | None:
        options = replace(plain, shrink_trials=trials, shrink_seconds=effort.shrink_seconds)
        return next(iter(engine.run_item(mutant.target, item, options, current).findings), None)

    best, raw = finding, [finding]
    if finding.litmus:
        written = Item(kind="transcript", config=finding.config, name=finding.litmus)
        best = min(best, played(written, effort.shrink_trials) or best, key=lambda one: len(one.calls))
        raw = drawn(mutant, effort, played) if len(best.calls) > SHORT else []
    for at, one in enumerate(sorted(raw, key=lambda one: len(one.calls))):
        trials = effort.shrink_trials if len(raw) == 1 else effort.shrink_trials // (2 if at == 0 else 4)
        item = Item(kind="schedule", config=one.config, schedule=tuple(one.schedule))
        best = min(best, played(item, trials) or best, key=lambda one: len(one.calls))
        if len(best.calls) <= (SHORT if at + 1 < FEW else LONG):
            break
    return best


def drawn(mutant: Mutant, effort: Effort, played: Callable[[Item, int], Finding | None]) -> list[Finding]:
    """What drawn schedules find: short ones first, as they are shrunk sooner, in little memory too, then long ones.

    Where that is nothing at all, further long ones are drawn.
    """
    own, little = mutant.configs, tuple(one for config in mutant.configs for one in small(config))
    found: list[Finding] = []
    stages = ((own, BRIEF, 0, 1), (little, BRIEF, 0, 1), (own, plan.OPS, 0, 3), (own, plan.OPS, FURTHER, 10))
    for configs, ops, start, times in stages:
        if start and found:
            break
        for seed in range(max(1, times * SEARCH // (ops * len(configs)))):
            for config in configs:
                one = played(Item(kind="random", config=config, seed=effort.seed + start + seed, ops=ops), 0)
                found += [] if one is None else [one]
            if len(found) >= 2 * FEW:
                return found
    return found


def run_all(ids: Sequence[str], effort: Effort, *, jobs: int = 1) -> Iterator[Fate]:
    """The fates of these mutants, as they become known; each is played in a worker, as any target is.

    A mutant of which the worker dies, or makes no call for too long, has failed; the others go on.
    """
    waiting = deque(ids)
    working: dict[Process, str] = {}
    with WorkerPool(resolve_target("specimen"), Limits(), None) as pool:
        while waiting or any(working.values()):
            while len(working) < min(jobs, len(waiting) + sum(map(bool, working.values()))):
                working[pool.launch()] = ""
            wait(list(working), 0.1)
            for worker, id in list(working.items()):
                fate = fate_of(worker, id, pool.limits.call_seconds) if id else None
                if not id and (failed := pool.loading_failed(worker)) is not None:
                    raise failed
                if worker.answer is None and fate is None:
                    continue
                if waiting and worker.status is None:
                    working[worker] = waiting.popleft()
                    worker.send(do="mutant", id=working[worker], effort=asdict(effort))
                else:
                    del working[worker]
                    worker.stop(0)
                if fate is not None:
                    yield fate


def fate_of(worker: Process, id: str, seconds: float) -> Fate | None:
    """What became of the mutant that a worker plays; ``None`` as long as it isn't known."""
    if worker.answer is not None and "fate" in worker.answer:
        plain: dict[str, Any] = worker.answer["fate"]
        return Fate(**(plain | {name: tuple(plain[name]) for name in TUPLES}))
    death = None if worker.answer is not None else worker.death(seconds)
    if worker.answer is None and death is None:
        return None
    error = f"playing it {death.text}" if death is not None else str((worker.answer or {}).get("failed"))
    return Fate.of(all_mutants()[id], error)


def lengths(fates: Sequence[Fate], *, tiered: bool) -> list[int]:
    """How long the counterexamples are, shortest first: of hierarchies, or of all else."""
    mutants = all_mutants()
    return sorted(
        fate.length
        for fate in fates
        if fate.killed_by and any(config.tiered and not config.apart for config in mutants[fate.id].configs) == tiered
    )


def most_of(lengths: Sequence[int]) -> int:
    """The length that nine of ten don't exceed."""
    return lengths[-(-9 * len(lengths) // 10) - 1]


def summary(fates: Sequence[Fate]) -> str:
    """The last line."""
    real = [fate for fate in fates if not fate.null]
    nulls = [fate for fate in fates if fate.null]
    killed = sum(fate.well for fate in real)
    alarms = sum(not fate.well for fate in nulls)
    return f"mutants: {killed}/{len(real)} killed, null: {alarms}/{len(nulls)} alarms"


def matrix(fates: Sequence[Fate]) -> dict[str, list[str]]:
    """Rule → the mutants that were seen to break it."""
    return {
        rule: broken
        for rule in all_rules()
        if (broken := [fate.id for fate in fates if not fate.null and rule in fate.broken])
    }


def document(fates: Sequence[Fate], effort: Effort, version: str) -> dict[str, Any]:
    """All of it as plain data."""
    return {
        "kind": "kvlitmus mutants",
        "format": FORMAT,
        "kvlitmus": version,
        "effort": asdict(effort),
        "mutants": [{**asdict(fate), "well": fate.well} for fate in fates],
        "matrix": matrix(fates),
        "summary": summary(fates),
    }
