"""What the corpus is made of: which items are recorded of which cache, and how.

Caches of the tree are recorded here, as by ``kvlitmus run --record``; of SGLang there are recorded steps already
(``docs/results/recorded``).  A drawn schedule is kept as it was drawn, so that it is the same whatever
becomes of the tables it was drawn from.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from kvlitmus.conformance.generate.schedule import draw, table
from kvlitmus.conformance.history.again import Again, Moment, moments
from kvlitmus.conformance.history.steps import Recording, Step
from kvlitmus.conformance.ports import Config, Unsupported
from kvlitmus.conformance.run import engine, plan
from kvlitmus.conformance.run.plan import CONFIGS, OPS, TIER_CONFIGS, TIER_POLICY_CONFIGS, TIGHT_CONFIGS
from kvlitmus.conformance.run.results import Item, Options, to_json
from kvlitmus.conformance.run.targets import load_target, resolve_target
from kvlitmus.mutants import run as mutants_run
from kvlitmus.mutants.registry import Mutant, all_mutants
from tools.corpus_verdicts import Notes, Verdicts, judged

CACHES = ("specimen", "reference", "optimized")
"""The caches of this tree that keep all rules."""

DEPTHS = (3, 2, 1, 0)
"""The depths of observation, the deepest first: what was looked at there holds all that is looked at elsewhere."""

MUTANT_OPS = 120
"""Operations of the schedule that a mutant plays beside the litmus test that kills it."""

CACHE_SHARE, NULL_SHARE = 3, 12
"""Of the litmus tests every so manieth is played on the other caches, and on a legal variation."""


_LATE = "it changes a sequence after it has returned it, which a record of answers can't do"
NOT_RECORDED = {"staging-buffer-reused": _LATE, "answer-is-the-free-list": _LATE, "lent-by-handle": _LATE}
"""Mutants of which there are no records, each with the reason."""


class Work(NamedTuple):
    """One item that is to be recorded, and the depths at which it is judged."""

    target: str
    item: Item
    depths: tuple[int, ...]


def target_of(name: str) -> Any:
    """The cache of this name: one of :data:`CACHES`, or a mutant."""
    return load_target(resolve_target(name)) if name in CACHES else all_mutants()[name.removeprefix("mutant ")].target


def depths_of(config: Config) -> tuple[int, ...]:
    """The depths at which a configuration is judged: a hierarchy at the deepest alone."""
    return DEPTHS[:1] if config.tiered else DEPTHS


def drawn(target: Any, config: Config, seed: int, ops: int = OPS) -> Iterator[Item]:
    """The schedule of a seed, as an item that does not depend on how it was drawn; none where nothing can be drawn."""
    try:
        kinds = table(engine.make_judge(target, config, Options()).capabilities)
    except Unsupported:
        return
    if kinds:
        yield Item(kind="schedule", config=config, name=f"seed={seed}", schedule=tuple(draw(seed, ops, kinds)))


def of_cache(name: str) -> Iterator[Work]:
    """Litmus tests and vectors, of the specimen all and of others a share, and drawn schedules under every policy."""
    target, number = target_of(name), CACHES.index(name)
    tests = plan.items((*CONFIGS, *TIER_CONFIGS), target.profile, steps=0, force_misuse=True)
    for item in tests[number :: CACHE_SHARE if number else 1]:
        yield Work(name, item, depths_of(item.config))
    for config in (*CONFIGS, *TIGHT_CONFIGS, *TIER_CONFIGS, *TIER_POLICY_CONFIGS):
        for item in drawn(target, config, number):
            yield Work(name, item, depths_of(config))


def of_null(number: int, mutant: Mutant) -> Iterator[Work]:
    """A share of the litmus tests, and a few schedules; ``number`` says which."""
    name, target = f"mutant {mutant.id}", mutant.target
    configs = [config for config in mutant.configs if config.pool != "store"]
    tests = plan.items(configs[:1], mutant.profile, steps=0)
    for item in tests[number % NULL_SHARE :: NULL_SHARE]:
        yield Work(name, item, depths_of(item.config))
    for config in (configs * 2)[number % len(configs) :][: min(2, len(configs))]:
        for item in drawn(target, config, number):
            yield Work(name, item, depths_of(config))


def of_mutant(mutant: Mutant) -> Iterator[Work]:
    """What kills it first, and a schedule."""
    name, target = f"mutant {mutant.id}", mutant.target
    configs = tuple(config for config in mutant.configs if config.pool != "store")
    options = Options(reruns=4, shrink_trials=0)
    rest, killer = 0, None
    for item in mutants_run.items_of(mutant, mutants_run.Effort()) if configs else ():
        if item.config.pool == "store" or rest > 40:
            continue
        rest += item.kind == "random"
        result = engine.run_item(target, item, options)
        if any(mutants_run.named(mutant, finding) for finding in result.findings):
            if item.kind == "random":
                item = next(drawn(target, item.config, item.seed))
            killer = item
            yield Work(name, item, depths_of(item.config))
            break
    for config in configs[:1]:
        for item in drawn(target, config, 0, MUTANT_OPS):
            if killer is None or item.id != killer.id:
                yield Work(name, item, DEPTHS[:1])


def parts(group: str) -> list[tuple[str, int]]:
    """The targets of a group, numbered: a cache, the legal variations (``nulls``), or the ``mutants``."""
    if group in CACHES:
        return [(group, 0)]
    return [
        (f"mutant {one.id}", number)
        for number, one in enumerate(all_mutants().values())
        if one.null == (group == "nulls")
        and one.id not in NOT_RECORDED
        and any(config.pool != "store" for config in one.configs)
    ]


def works(part: tuple[str, int]) -> list[Work]:
    """What is recorded of a target."""
    name, number = part
    if name in CACHES:
        return list(of_cache(name))
    mutant = all_mutants()[name.removeprefix("mutant ")]
    return list(of_null(number, mutant) if mutant.null else of_mutant(mutant))


class Recorded(NamedTuple):
    """The record of an item as a line, and the verdicts at each depth; no line where the cache declined it."""

    target: str
    item: str
    line: str
    verdicts: dict[int, Verdicts]


def record(work: Work) -> Recorded:
    """Play an item at all its depths; raises ``ValueError`` where its record does not give the same verdicts again."""
    recording = Recording(target_of(work.target))
    verdicts: dict[int, Verdicts] = {}
    for depth in work.depths:
        notes = Notes()
        if judged(recording, work.item, depth, notes, misuse=True, reruns=0):
            verdicts[depth] = notes.now
    if not any(one.steps for one in verdicts.values()):
        return Recorded(work.target, work.item.id, "", {})
    profile, methods, _ = recording.plays[0]
    record = {
        "target": work.target,
        "item": to_json(work.item),
        "profile": profile,
        "methods": methods,
        "table": recording.table.rows,
        "plays": longest([steps for *_, steps in recording.plays]),
    }
    line = json.dumps(record, separators=(",", ":"))
    again = Again(json.loads(line))
    for depth, then in verdicts.items():
        notes = Notes(then)
        judged(again, work.item, depth, notes, misuse=True, reruns=0)
        if notes.changes:
            raise ValueError(f"{work.target}, depth {depth}: {work.item.id}: the record differs: {notes.changes[0]}")
    return Recorded(work.target, work.item.id, line, verdicts)


def longest(plays: Sequence[list[Step]]) -> list[list[Step]]:
    """The plays that no other one holds."""
    found: list[tuple[list[Moment], list[Step]]] = []
    for steps in sorted(plays, key=len, reverse=True):
        play = moments(steps)
        if not any(holds(other, play) for other, _ in found):
            found.append((play, steps))
    return [steps for _, steps in found]


def holds(play: Sequence[Moment], other: Sequence[Moment]) -> bool:
    """Whether a play begins with all calls of another, and saw all that was seen there."""
    return len(play) >= len(other) and all(one.covers(two) for one, two in zip(play, other, strict=False))
