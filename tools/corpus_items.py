"""What the corpus is made of: which items are recorded of which cache, and how.

Caches of the tree are recorded here, as by ``kvlitmus run --record``; of SGLang there are recorded steps already
(``docs/results/recorded``).  A drawn schedule is kept as it was drawn, so that it is the same whatever
becomes of the tables it was drawn from.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple, cast

from kvlitmus.conformance.generate.schedule import draw, table
from kvlitmus.conformance.history.again import Again, Moment, moments
from kvlitmus.conformance.history.steps import Record, Recording, Step
from kvlitmus.conformance.ports import Config, Unsupported
from kvlitmus.conformance.run import engine, plan
from kvlitmus.conformance.run.plan import CONFIGS, OPS, STORE_CONFIGS, TIER_CONFIGS
from kvlitmus.conformance.run.results import Item, Options, to_json
from kvlitmus.conformance.run.targets import load_target, resolve_target
from kvlitmus.mutants.mutant import Mutant
from kvlitmus.mutants.registry import all_mutants
from tests.support.configs import TIER_POLICY_CONFIGS, TIGHT_CONFIGS
from tools.corpus_verdicts import Notes, Verdicts, judged

CACHES = ("specimen", "reference", "optimized")
"""The caches of this tree that keep all rules."""

STORES = ("specimen", "reference-store", "file-store")
"""The page stores of this tree that keep all rules."""

GROUPS = (*CACHES, "nulls", "mutants", "live")
"""The targets of the tree: caches, legal variations, mutants, and what is not recorded but played each time."""

DEPTHS = (3, 2, 1, 0)
"""The depths of observation, the deepest first: what was looked at there holds all that is looked at elsewhere."""

MUTANT_OPS = 120
"""Operations of the schedule that a mutant plays beside the litmus test that kills it."""

MUTANT_RERUNS = 4
"""So many times what kills a mutant is played again, each time with the broken rules muted: to see which others are."""

MUTANT_SEEDS = 40
"""So many schedules are tried where no litmus test kills a mutant."""

CACHE_SHARE, NULL_SHARE = 3, 12
"""Of the litmus tests every so manieth is played on the other caches, and on a legal variation."""

_LATE = "it changes a sequence after it has returned it, which a record of answers can't do"
_REACHES_AROUND = "it reaches around the port to the suite's storage, which a record of answers can't do"
NOT_RECORDED = {
    "reset-clears-storage": _REACHES_AROUND,
    "staging-buffer-reused": _LATE,
    "answer-is-the-free-list": _LATE,
    "lent-by-handle": _LATE,
}
"""Mutants that are played each time, each with the reason; page stores are, as answers don't tell what they did;
ranks are not recorded at all.
"""


LEFT_OUT = {"ties-by-address": "what it evicts depends on where objects lie in memory, so no two plays are alike"}
"""Mutants that are not in the corpus, each with the reason."""


class Part(NamedTuple):
    """A target of a group; ``number``: its place among the mutants."""

    group: str
    target: str
    number: int = 0


class Work(NamedTuple):
    """One item that is to be recorded, or played each time (``live``), and the depths at which it is judged."""

    target: str
    item: Item
    depths: tuple[int, ...]
    reruns: int = 0
    live: bool = False


def target_of(name: str) -> Any:
    """The target of this name: a cache or a store of the tree, or ``mutant`` and the id of one."""
    kind, _, id = name.partition(" ")
    return all_mutants()[id].target if kind == "mutant" else load_target(resolve_target(name))


def depths_of(config: Config) -> tuple[int, ...]:
    """The depths at which a configuration is judged: a hierarchy and a page store at the deepest alone."""
    return DEPTHS[:1] if config.tiered or config.apart else DEPTHS


def drawn(target: Any, config: Config, seed: int, ops: int = OPS) -> Iterator[Item]:
    """The schedule of a seed, as an item that does not depend on how it was drawn; none where nothing can be drawn."""
    try:
        kinds = table(engine.make_checker(target, config, Options()).capabilities)
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


def of_store(name: str) -> Iterator[Work]:
    """Litmus tests, of the first page size all, and drawn schedules."""
    target = target_of(name)
    for item in plan.items(STORE_CONFIGS[: 2 if name == "reference-store" else 1], target.profile, steps=0):
        yield Work(name, item, DEPTHS[:1])
    for config in STORE_CONFIGS:
        yield from (Work(name, item, DEPTHS[:1]) for item in drawn(target, config, 0))


def of_null(number: int, mutant: Mutant, configs: Sequence[Config]) -> Iterator[Work]:
    """A share of the litmus tests, and a few schedules; ``number`` says which."""
    name, target = f"mutant {mutant.id}", mutant.target
    tests = plan.items(configs[:1], mutant.profile, steps=0)
    for item in tests[number % NULL_SHARE :: NULL_SHARE]:
        yield Work(name, item, depths_of(item.config))
    for config in (*configs, *configs)[number % len(configs) :][: min(2, len(configs))]:
        for item in drawn(target, config, number):
            yield Work(name, item, depths_of(config))


def of_mutant(mutant: Mutant, configs: Sequence[Config]) -> Iterator[Work]:
    """What kills it first, and a schedule."""
    name, target = f"mutant {mutant.id}", mutant.target
    options = Options(reruns=MUTANT_RERUNS, shrink_trials=0)
    seeds = (item for seed in range(MUTANT_SEEDS) for config in configs for item in drawn(target, config, seed))
    killer = None
    for item in chain(plan.items(configs, mutant.profile, steps=0), seeds):
        result = engine.run_item(target, item, options)
        if any(mutant.killed_by(finding.rules) for finding in result.findings):
            killer = item
            yield Work(name, item, depths_of(item.config), MUTANT_RERUNS)
            break
    for item in drawn(target, configs[0], 0, MUTANT_OPS):
        if killer is None or item.id != killer.id:
            yield Work(name, item, DEPTHS[:1])


def configs_in(group: str, mutant: Mutant) -> tuple[Config, ...]:
    """The configurations in which a mutant is part of a group; none where it is not."""
    if group not in ("live", "nulls" if mutant.null else "mutants") or mutant.id in LEFT_OUT:
        return ()
    live = mutant.id in NOT_RECORDED
    # Sparse pools, ranks and components are played by the tests alone.
    played = [one for one in mutant.configs if one.pool == "store" or not one.apart]
    return tuple([one for one in played if (group == "live") == (live or one.pool == "store")])


def parts(group: str) -> list[Part]:
    """The targets of a group."""
    if group in CACHES:
        return [Part(group, group)]
    stores = [Part(group, name) for name in STORES if group == "live"]
    mutants = enumerate(all_mutants().values())
    return stores + [Part(group, f"mutant {one.id}", at) for at, one in mutants if configs_in(group, one)]


def works(part: Part) -> list[Work]:
    """What is recorded of a target, or played each time."""
    group, name, number = part
    if group in CACHES:
        return list(of_cache(name))
    if name in STORES:
        return [work._replace(live=True) for work in of_store(name)]
    mutant = all_mutants()[name.removeprefix("mutant ")]
    configs = configs_in(group, mutant)
    found = of_null(number, mutant, configs) if mutant.null else of_mutant(mutant, configs)
    return [work._replace(live=group == "live") for work in found]


class Recorded(NamedTuple):
    """The record of an item as a line, and the verdicts at each depth; no line where the cache declined it."""

    target: str
    item: str
    line: str
    verdicts: dict[int, Verdicts]


def record(work: Work) -> Recorded:
    """Play an item at all its depths; raises ``ValueError`` where its record does not give the same verdicts again."""
    target = target_of(work.target)
    recording = Recording(target)
    verdicts: dict[int, Verdicts] = {}
    for depth in work.depths:
        notes = Notes()
        if judged(target if work.live else recording, work.item, depth, notes, misuse=True, reruns=work.reruns):
            verdicts[depth] = notes.now
    if not any(one.steps for one in verdicts.values()):
        return Recorded(work.target, work.item.id, "", {})
    data = {"target": work.target, "item": to_json(work.item)}
    if work.reruns:
        data["reruns"] = work.reruns
    if not work.live:
        data["profile"], data["methods"], _ = recording.plays[0]
        data["table"], data["plays"] = (
            recording.table.rows,
            longest([steps for *_, steps in recording.plays], data["methods"]),
        )
    line = json.dumps(data, separators=(",", ":"))
    again = cache_of(json.loads(line))
    for depth, then in verdicts.items():
        notes = Notes(then)
        judged(again, work.item, depth, notes, misuse=True, reruns=work.reruns)
        if notes.changes:
            raise ValueError(f"{work.target}, depth {depth}: {work.item.id}: the record differs: {notes.changes[0]}")
    return Recorded(work.target, work.item.id, line, verdicts)


def cache_of(data: dict[str, Any]) -> Any:
    """What plays a recorded item: what was recorded, or the target itself where nothing was."""
    return Again(cast("Record", data)) if "plays" in data else target_of(data["target"])


def longest(plays: Sequence[list[Step]], methods: Sequence[str]) -> list[list[Step]]:
    """The plays that no other one holds."""
    found: list[tuple[list[Moment], list[Step]]] = []
    for steps in sorted(plays, key=len, reverse=True):
        play = moments(steps, methods)
        if not any(holds(other, play) for other, _ in found):
            found.append((play, steps))
    return [steps for _, steps in found]


def holds(play: Sequence[Moment], other: Sequence[Moment]) -> bool:
    """Whether a play begins with all calls of another, and saw all that was seen there."""
    return len(play) >= len(other) and all(one.covers(two) for one, two in zip(play, other, strict=False))
