#!/usr/bin/env python3
"""Is every operator of the specification there for a reason?  One-operator changes, and what tells them apart.

    .venv/bin/python tools/spec_mutation.py                    changes predicates and facts, all stages
    .venv/bin/python tools/spec_mutation.py --stages corpus  the first stage alone: a minute
    .venv/bin/python tools/spec_mutation.py --rules EVICT-05   of these rules alone, and of the facts they speak of
    .venv/bin/python tools/spec_mutation.py --report FILE      writes what came of it as JSON as well
    .venv/bin/python tools/spec_mutation.py --left FILE        only what was left in such a report

A change is **told apart** by a step of which some rule says something else with it (tools/spec_trial.py).  Steps come
in stages, and each stage is tried on what the ones before it have left:

- ``corpus``: what the corpus plays, hierarchies at all depths of observation;
- ``wrong``: litmus tests and schedules, played by the caches of the tree, the zoo and the legal variations at all
  depths; of each step also some that are wrong in one value (tools/spec_wrong.py);
- ``mutants``: the same, played by mutants;
- ``rows``: values made by hand, for places that no step has met (tests/spec/support/boundaries.py, edges.py).

A change that no step tells apart would not be noticed by anybody who reads verdicts.  It is a gap in the tests, or the
change is equivalent: those are listed in tests/corpus/equivalent.toml, each with the reason.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), *(str(ROOT / room) for room in ("spec", "reference", "optimized", "conformance"))]

from kvlitmus.conformance.isolation.current_run import CurrentRun  # noqa: E402
from kvlitmus.conformance.run import engine, plan  # noqa: E402
from kvlitmus.conformance.run.results import Item, Options  # noqa: E402
from kvlitmus.mutants.registry import all_mutants  # noqa: E402
from kvlitmus.spec.parts import all_rules  # noqa: E402
from kvlitmus.spec.rule import Kind  # noqa: E402
from tests.spec.support.edges import ALL_ROWS  # noqa: E402
from tools import corpus_items, night  # noqa: E402
from tools.spec_trial import Trial, TryingChecker, trying  # noqa: E402
from tools.spec_wrong import Wrong, WrongChecker  # noqa: E402

EQUIVALENT = ROOT / "tests" / "corpus" / "equivalent.toml"
GOAL = 0.95
SECONDS = {"corpus": 600, "wrong": 420, "mutants": 60, "rows": 60}
"""The stages in their order, and after how long each is ended."""
ROUNDS = 6
"""So many schedules are drawn for each cache, configuration and depth of the later stages."""
OPS = 80
"""Operations of each of them."""


STORES = ("specimen", "reference-store", "file-store")
"""The page stores of this tree."""

WHOLE = ("other:specimen", *STORES)
"""Of these caches, and of the zoo, all litmus tests are played, of others a share."""


class Play(NamedTuple):
    """One item that is to be played, and how."""

    target: Any
    item: Item
    options: Options
    kind: type[TryingChecker]


def corpus(trial: Trial, *, whole: bool) -> Iterator[Play]:
    """The items of the corpus, hierarchies at the depths too at which they aren't judged there."""
    for name in corpus_items.targets(quick=not whole):
        for work in corpus_items.works(name, quick=not whole):
            for depth in corpus_items.DEPTHS if work.item.config.tiered else work.depths:
                options = Options(depth=depth, force_misuse=True, reruns=corpus_items.RERUNS, shrink_trials=0)
                yield Play(corpus_items.target_of(name), work.item, options, trying(trial))


def wrong(trial: Trial, seed: int) -> Iterator[Play]:
    """Litmus tests, vectors and schedules of legal caches, each step a few times wrong in one value."""
    plays = []
    values = Wrong(seed)
    caches = [(name, *night.cache_of(name)) for name in night.names()]
    caches += [(name, corpus_items.target_of(name), plan.STORE_CONFIGS) for name in STORES]
    for number, (name, target, configs) in enumerate(caches):
        items = plan.items(configs, target.profile, steps=0, force_misuse=True)
        items = items if name in WHOLE or name.startswith("zoo:") else items[number % 5 :: 5]
        plays += [(target, item, depth) for item in items for depth in corpus_items.DEPTHS]
        plays += drawn(target, configs)
    random.Random(seed).shuffle(plays)
    kind = trying(trial, WrongChecker)
    setattr(kind, "wrong", values)  # noqa: B010 - which kinds have, the type checker can't tell
    for target, item, depth in plays:
        yield Play(target, item, Options(depth=depth, force_misuse=True, reruns=0, shrink_trials=0), kind)


def mutants(trial: Trial, seed: int) -> Iterator[Play]:
    """Litmus tests and schedules of mutants."""
    plays = []
    for number, one in enumerate(one for one in all_mutants().values() if not one.null):
        items = plan.items(one.configs, one.profile, steps=0, force_misuse=True)
        plays += [(one.target, item, depth) for item in items[number % 5 :: 5] for depth in corpus_items.DEPTHS]
        plays += drawn(one.target, one.configs)
    random.Random(seed).shuffle(plays)
    for target, item, depth in plays:
        yield Play(target, item, Options(depth=depth, force_misuse=True, reruns=4, shrink_trials=0), trying(trial))


def drawn(target: Any, configs: Sequence[Any]) -> list[tuple[Any, Item, int]]:
    """Schedules for a cache, at all depths."""
    return [
        (target, Item(kind="random", config=config, seed=seed, ops=OPS), depth)
        for config in configs
        for depth in corpus_items.DEPTHS
        for seed in range(ROUNDS)
    ]


def play(trial: Trial, plays: Iterable[Play], seconds: float) -> tuple[int, bool]:
    """Play items, every step of which is handed to the trial; how many were played, and whether these were all."""
    started = told = time.monotonic()
    number = 0
    for number, (target, item, options, kind) in enumerate(plays, 1):
        now = time.monotonic()
        if now - started > seconds:
            return number - 1, False
        if now - told > 5:
            told = now
            alive = len(trial.alive())
            print(
                f"{number:,} items, {trial.steps:,} steps, {alive:,} of {trial.total:,} not told apart", file=sys.stderr
            )
        engine.run_item(target, item, options, CurrentRun(kind))
    return number, True


def equivalents(kind: str = "equivalent") -> dict[str, str]:
    """The changes to facts and predicates that make no difference, or to what they call (``function``), and why."""
    rows = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8")).get(kind, ())
    return {str(row["change"]): " ".join(str(row["reason"]).split()) for row in rows}


def stage(trial: Trial, name: str, asked: argparse.Namespace) -> dict[str, Any]:
    """Try what is left on the steps of one stage; what came of it, which is printed, too."""
    trial.next_stage()
    before, steps, started = len(trial.alive()), trial.steps, time.monotonic()
    played, ended = 0, True
    if name == "rows":
        for row in ALL_ROWS:
            trial.row(row.name, row.values, row.says)
    else:
        plays = {
            "corpus": lambda: corpus(trial, whole=asked.whole),
            "wrong": lambda: wrong(trial, asked.seed),
            "mutants": lambda: mutants(trial, asked.seed),
        }[name]()
        played, ended = play(trial, plays, asked.seconds or SECONDS[name])
    found = {
        "told_apart": before - len(trial.alive()),
        "items": played,
        "all": ended,
        "steps": trial.steps - steps,
        "seconds": round(time.monotonic() - started),
    }
    print(f"{name}: {', '.join(f'{value:,} {key}' for key, value in found.items())}", flush=True)
    return found


def main(arguments: Sequence[str]) -> int:
    """The command line; returns the exit code."""
    about, _, rest = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="spec_mutation.py", description=about, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rules", nargs="*", metavar="RULE", help="these rules alone")
    parser.add_argument("--stages", nargs="*", choices=list(SECONDS), default=list(SECONDS), help="these stages alone")
    parser.add_argument("--whole", action="store_true", help="all of the corpus, not the quick share alone")
    parser.add_argument("--seconds", type=float, help="end each stage after so long")
    parser.add_argument("--seed", type=int, default=0, help="by which the later stages draw their steps")
    parser.add_argument("--left", type=Path, metavar="FILE", help="only changes that an earlier report has left")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write what came of it as JSON")
    asked = parser.parse_args(arguments)
    rules = {id: one for id, one in all_rules().items() if one.kind is not Kind.PROCEDURE and one.facts}
    if strange := sorted(set(asked.rules or ()) - rules.keys()):
        parser.error(f"there is no rule with a predicate called {', '.join(strange)}")
    if asked.rules:
        rules = {id: rules[id] for id in asked.rules}
    only = None
    if asked.left:
        old = json.loads(asked.left.read_text(encoding="utf-8"))
        only = frozenset((*old["not_told_apart"], *old["equivalent"]))
    trial = Trial(rules, only)
    stages = {name: stage(trial, name, asked) for name in asked.stages}
    known = equivalents()
    alive = trial.alive()
    listed = [one for one in alive if one.id in known]
    stale = sorted(known.keys() - {one.id for one in alive}) if asked.stages == list(SECONDS) and not only else []
    stale = [] if asked.rules else stale
    left = [one for one in alive if one.id not in known]
    for one in sorted(left, key=lambda one: (one.module, one.line)):
        print(f"{one.module}:{one.line} {one.function}: {one.before} → {one.after}")
    for text in stale:
        print(f"{EQUIVALENT.name} lists what is told apart, or is no change: {text}")
    told, counted = trial.total - len(alive), trial.total - len(listed)
    print(
        f"{trial.total:,} changes, {told:,} told apart, {len(listed):,} equivalent, {len(left):,} not told apart: "
        f"{told / max(1, counted):.1%} of {counted:,}"
    )
    if asked.report:
        found = {
            "kind": "kvlitmus spec mutation",
            "changes": trial.total,
            "told_apart": told,
            "equivalent": [one.id for one in listed],
            "not_told_apart": [one.id for one in left],
            "stages": stages,
        }
        asked.report.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return int(told < GOAL * counted or bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
