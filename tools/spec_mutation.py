#!/usr/bin/env python3
"""Is every operator of the specification there for a reason?  One-operator changes, and what tells them apart.

    .venv/bin/python tools/spec_mutation.py                    changes predicates and facts; a minute or two
    .venv/bin/python tools/spec_mutation.py --rules EVICT-05   of these rules alone, and of the facts they speak of
    .venv/bin/python tools/spec_mutation.py --report FILE      writes what came of it as JSON as well

A change is **told apart** by a recorded step (tests/corpus) on which some rule has another verdict with it.
The steps are those of correct caches, of mutants and of SGLang, at every depth; a change that they don't tell apart
would not be noticed by anybody who reads verdicts.  It is a gap in the tests, or the change is equivalent: those are
listed in tests/corpus/equivalent.toml, each with the reason.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), *(str(ROOT / room) for room in ("spec", "reference", "optimized", "conformance"))]

from kvlitmus.conformance.checker.checker import Checker  # noqa: E402
from kvlitmus.conformance.checker.guard import Violation  # noqa: E402
from kvlitmus.conformance.isolation.current_run import CurrentRun  # noqa: E402
from kvlitmus.conformance.run import engine  # noqa: E402
from kvlitmus.conformance.run.results import Options, item_from_json  # noqa: E402
from kvlitmus.spec.facts import FACTS, INPUTS, UNKNOWN, Facts  # noqa: E402
from kvlitmus.spec.plan import value_of  # noqa: E402
from kvlitmus.spec.rule import Kind, Rule, all_rules  # noqa: E402
from tools import corpus, corpus_items, corpus_verdicts  # noqa: E402
from tools.mutations import Change, changes  # noqa: E402

EQUIVALENT = ROOT / "tests" / "corpus" / "equivalent.toml"
GOAL = 0.95
TRIES = 4_000
"""At so many steps a change to a fact is tried that makes no difference to the fact; later ones bring little."""


@dataclass(slots=True)
class Subject:
    """A rule's predicate or a fact, with its changes that nothing has told apart yet."""

    name: str
    function: Callable[..., Any]
    alive: list[Change] = field(default_factory=list)
    tried: Counter[str] = field(default_factory=Counter)


class Trial:
    """All changes, tried on one step after the other."""

    def __init__(self, rules: Mapping[str, Rule]) -> None:
        self.rules = rules
        facts = {name for one in rules.values() for name in closure(one.facts)}
        self.predicates = {id: Subject(id, one.predicate, list(changes(one.predicate))) for id, one in rules.items()}
        self.facts = {name: Subject(name, FACTS[name].compute, list(changes(FACTS[name].compute))) for name in facts}
        self.above = {name: {one for one in facts if name in closure((one,))} for name in facts}
        self.speaking: dict[str, list[str]] = defaultdict(list)
        for id, one in rules.items():
            for name in closure(one.facts):
                self.speaking[name].append(id)
        self.total = sum(len(one.alive) for one in self.subjects())
        self.steps = 0

    def subjects(self) -> Iterable[Subject]:
        """Everything that is changed."""
        yield from self.predicates.values()
        yield from self.facts.values()

    def step(
        self, judged: Sequence[str], unknown: Sequence[str], broken: Sequence[str], inputs: Facts, known: Facts
    ) -> None:
        """Try every change that is alive on a step, and drop those that it tells apart."""
        self.steps += 1
        verdicts = {id: id not in broken for id in judged if id not in unknown and id in self.rules}
        for id, verdict in verdicts.items():
            subject = self.predicates[id]
            if subject.alive:
                values = [known[name] for name in self.rules[id].facts]
                subject.alive = [one for one in subject.alive if not differs(one, values, verdict)]
        for name in {name for id in verdicts for name in closure(self.rules[id].facts)}:
            fact = self.facts[name]
            if fact.alive:
                fact.alive = [one for one in fact.alive if not self.shows(one, fact, inputs, known, verdicts)]

    def shows(self, change: Change, fact: Subject, inputs: Facts, known: Facts, verdicts: Mapping[str, bool]) -> bool:
        """Whether a rule has another verdict with this change to a fact."""
        if fact.tried[change.id] > TRIES:
            return False
        values = [value_of(need, inputs, known) for need in FACTS[fact.name].needs]
        if any(value is UNKNOWN for value in values):
            return False
        fact.tried[change.id] += 1
        try:
            changed = change.made(*values)
        except Exception:  # noqa: BLE001  # a change that makes a fact raise is noticed
            return True
        try:
            if changed == known.get(fact.name) and type(changed) is type(known.get(fact.name)):
                return False
        except Exception:  # noqa: BLE001
            return True
        again = {name: value for name, value in known.items() if name not in self.above[fact.name]}
        again[fact.name] = changed
        for id in self.speaking[fact.name]:
            if id in verdicts:
                try:
                    facts = [value_of(name, inputs, again) for name in self.rules[id].facts]
                    if any(one is UNKNOWN for one in facts) or self.rules[id].predicate(*facts) != verdicts[id]:
                        return True
                except Exception:  # noqa: BLE001
                    return True
        return False


CLOSURES: dict[tuple[str, ...], frozenset[str]] = {}


def closure(names: tuple[str, ...]) -> frozenset[str]:
    """These facts and all that they are worked out from, inputs left out."""
    if names not in CLOSURES:
        found: set[str] = set()
        left = list(names)
        while left:
            name = left.pop()
            if name in FACTS and name not in found:
                found.add(name)
                left += FACTS[name].needs
        CLOSURES[names] = frozenset(found)
    return CLOSURES[names]


def differs(change: Change, values: Sequence[Any], verdict: bool) -> bool:
    """Whether a changed predicate says something else of these facts."""
    try:
        return bool(change.made(*values)) != verdict
    except Exception:  # noqa: BLE001  # a predicate that raises is noticed
        return True


def trying(trial: Trial) -> type[Checker]:
    """A checker that hands each of its steps to the trial."""

    class TryingChecker(Checker):
        wants_facts = True
        handed: Facts | None = None

        def note_facts(self, occasions: tuple[str, ...], facts: Facts) -> None:
            self.handed = facts

        def judge(self, occasions: tuple[str, ...], inputs: tuple[Any, ...], unknown: frozenset[str]) -> None:
            broken: tuple[str, ...] = ()
            self.handed = None
            try:
                super().judge(occasions, inputs, unknown)
            except Violation as violation:
                broken = tuple(violation.rules)
                raise
            finally:
                if self.handed is not None:
                    named = {name: value for name, value in zip(INPUTS, inputs, strict=True) if name not in unknown}
                    judged = [id for id in self.tally.plan.rules if id not in self.muted]
                    trial.step(judged, self.not_judged, broken, named, dict(self.handed))

    return TryingChecker


def play(trial: Trial, records: Sequence[tuple[Any, Sequence[Any]]], seconds: float) -> int:
    """Judge recorded items again, every step of which is handed to the trial; how many were played."""
    started = told = time.monotonic()
    for number, (record, kept) in enumerate(records):
        now = time.monotonic()
        if now - started > seconds:
            return number
        if now - told > 5:
            told = now
            alive = sum(len(one.alive) for one in trial.subjects())
            print(f"{number:,} of {len(records):,} items, {alive:,} of {trial.total:,} not told apart", file=sys.stderr)
        data = json.loads(record.text)
        item, cache = item_from_json(data["item"]), corpus_items.cache_of(data)
        for one in kept:
            options = Options(
                depth=one.depth,
                force_misuse=record.misuse,
                reruns=data.get("reruns", record.reruns),
                shrink_trials=0,
            )
            engine.run_item(cache, item, options, CurrentRun(trying(trial)))
    return len(records)


def equivalents(path: Path = EQUIVALENT) -> dict[str, str]:
    """The changes that make no difference, each with the reason."""
    if not path.is_file():
        return {}
    rows = tomllib.loads(path.read_text(encoding="utf-8")).get("equivalent", ())
    return {str(row["change"]): " ".join(str(row["reason"]).split()) for row in rows}


def main(arguments: Sequence[str]) -> int:
    """The command line; returns the exit code."""
    about, _, rest = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="spec_mutation.py", description=about, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rules", nargs="*", metavar="RULE", help="these rules alone")
    parser.add_argument("--whole", action="store_true", help="all recorded steps, not the quick share alone")
    parser.add_argument("--seconds", type=float, default=3600, help="stop after so long (default: 3600)")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write what came of it as JSON")
    asked = parser.parse_args(arguments)
    rules = {id: one for id, one in all_rules().items() if one.kind is not Kind.PROCEDURE and one.facts}
    if strange := sorted(set(asked.rules or ()) - rules.keys()):
        parser.error(f"there is no rule with a predicate called {', '.join(strange)}")
    if asked.rules:
        rules = {id: rules[id] for id in asked.rules}
    trial = Trial(rules)
    outcome = corpus.Outcome()
    digests, kept = corpus_verdicts.load(corpus.VERDICTS)
    records = corpus.tasks_of(kept, digests, outcome, quick=not asked.whole, names=())
    started = time.monotonic()
    played = play(trial, records, asked.seconds)
    known = equivalents()
    alive = [one for subject in trial.subjects() for one in subject.alive]
    listed = [one for one in alive if one.id in known]
    stale = sorted(known.keys() - {one.id for one in alive}) if not asked.rules else []
    left = [one for one in alive if one.id not in known]
    for one in sorted(left, key=lambda one: (one.module, one.line)):
        print(f"{one.module}:{one.line} {one.function}: {one.before} → {one.after}")
    for text in stale:
        print(f"{EQUIVALENT.name} lists what is told apart, or is no change: {text}")
    told = trial.total - len(alive)
    counted = trial.total - len(listed)
    print(
        f"{trial.total:,} changes, {told:,} told apart, {len(listed):,} equivalent, {len(left):,} not told apart: "
        f"{told / max(1, counted):.1%} of {counted:,}; {trial.steps:,} steps of {played:,} of {len(records):,} items, "
        f"{time.monotonic() - started:.0f} s"
    )
    if asked.report:
        asked.report.write_text(
            json.dumps(
                {
                    "kind": "kvlitmus spec mutation",
                    "changes": trial.total,
                    "told_apart": told,
                    "equivalent": [one.id for one in listed],
                    "not_told_apart": [one.id for one in left],
                    "steps": trial.steps,
                    "items": [played, len(records)],
                },
                indent=1,
            )
            + "\n",
            encoding="utf-8",
        )
    return int(told < GOAL * counted or bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
