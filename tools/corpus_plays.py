"""What the corpus is made of: which items are played of which target, what is recorded of them, and the verdicts.

Targets are the caches of this tree that keep all rules, those of the zoo, mutants and legal variations, of every kind
of cache.  A drawn schedule is kept as it was drawn, so that it is the same whatever becomes of the tables it was
drawn from.

The verdict of every rule on every step is noted, and compared.  A step is one evaluation: the kinds of its call, the
rules that were judged there, and those of them that were broken.  A rule that was not judged is neither true nor
false.  :class:`Notes` is where a judge hands in its steps; with the steps of an earlier version beside it, it compares,
and has the judge go on as it went on then: past a rule that was kept then, and not past one that was broken.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.checker.guard import Violation
from kvlitmus.conformance.generate.schedule import GENERATION, draw, may_misuse, table
from kvlitmus.conformance.isolation.current_run import CurrentRun
from kvlitmus.conformance.litmus.registry import litmus_of
from kvlitmus.conformance.ports import Config, Unsupported
from kvlitmus.conformance.run import engine, plan
from kvlitmus.conformance.run.results import Item, Options, to_json
from kvlitmus.conformance.run.targets import KNOWN, load_target, resolve_target
from kvlitmus.conformance.support.text import raised_text
from kvlitmus.conformance.tape.lines import TapeReader
from kvlitmus.conformance.tape.played import Again, Record, records
from kvlitmus.conformance.tape.recorder import Recording
from kvlitmus.mutants.mutant import Mutant
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.spec.law.rule import in_force
from kvlitmus.zoo import ZOO
from kvlitmus.zoo import target_of as of_zoo
from tests.support.configs import TIER_POLICY_CONFIGS, TIGHT_CONFIGS

# -- verdicts ------------------------------------------------------------------------------------------------------

NOT_JUDGED, TRUE, FALSE = "not judged", "true", "false"
END = "the end of the play"
"""What can differ beside rules."""

Signature = tuple[str, tuple[str, ...]]
"""The kinds of a call, sorted and joined by ``+``, and the ids of the rules that were judged after it."""


def now_called(rules: Sequence[str]) -> tuple[str, ...]:
    """These rules by the ids that they have in this tree, where others have taken their place."""
    return tuple(sorted({in_force(rule) for rule in rules}))


class Broken(NamedTuple):
    """A step at which rules were broken: its number, from 0 on, and the rules."""

    step: int
    rules: tuple[str, ...]


@dataclass(slots=True)
class Verdicts:
    """The verdicts on one item, judged at one depth: the signature of each step, and where rules were broken."""

    steps: list[Signature] = field(default_factory=list)
    broken: list[Broken] = field(default_factory=list)

    def broken_at(self, step: int) -> tuple[str, ...]:
        """The rules that were broken at a step."""
        return next((one.rules for one in self.broken if one.step == step), ())

    def plain(self) -> dict[str, Any]:
        """The same as plain data."""
        order = list(dict.fromkeys(self.steps))
        place = {one: at for at, one in enumerate(order)}
        return {"signatures": order, "steps": [place[one] for one in self.steps], "broken": self.broken}


def verdicts_from(data: dict[str, Any]) -> Verdicts:
    """Verdicts from plain data, by the ids that rules have in this tree."""
    order = [(kinds, now_called(rules)) for kinds, rules in data["signatures"]]
    return Verdicts(
        [order[at] for at in data["steps"]], [Broken(step, now_called(rules)) for step, rules in data["broken"]]
    )


class Difference(NamedTuple):
    """A verdict that is not what it was: where, after which call, of which rule."""

    target: str
    depth: int
    item: str
    step: int
    call: str
    rule: str
    then: str
    now: str

    @property
    def text(self) -> str:
        """One line."""
        where = f"{self.target}, depth {self.depth}: {self.item}, step {self.step}: {self.call}"
        return f"{where}: {self.rule}: {self.then} → {self.now}"


class Change(NamedTuple):
    """What differences have in common: the rule, and its verdict then and now."""

    rule: str
    then: str
    now: str


class Notes:
    """The steps of one item; ``then``: its steps as they were, ``None`` where they are noted for the first time."""

    def __init__(self, then: Verdicts | None = None) -> None:
        self.then = then
        self.now = Verdicts()
        self.changes: list[tuple[int, str, Change]] = []
        self.raised = -1
        """The step that ended the play last."""
        self.lost = False
        """Whether the play went another way, so that steps can't be compared any more."""

    def step(self, call: str, signature: Signature, broken: Sequence[str]) -> tuple[str, ...]:
        """Note a step; the rules for which the play ends here, if any: as it did then, where that is known."""
        at = len(self.now.steps)
        ends = broken = tuple(sorted(broken))
        self.now.steps.append(signature)
        if broken:
            self.now.broken.append(Broken(at, broken))
        if self.then is not None:
            if self.lost or at >= len(self.then.steps):
                self.lose(at, call, END, "ended", "goes on")
            else:
                ends = self.then.broken_at(at)
                if signature != self.then.steps[at] or broken != ends:
                    self.compare(at, call, signature, broken)
        if ends:
            self.raised = at
        return ends

    def lose(self, at: int, call: str, what: str, then: str, now: str) -> None:
        """From here on nothing can be compared."""
        if not self.lost:
            self.changes.append((at, call, Change(what, then, now)))
        self.lost = True

    def compare(self, at: int, call: str, signature: Signature, broken: Sequence[str]) -> None:
        """What differs at a step."""
        assert self.then is not None
        _, judged = signature  # what the occasions of a call are called is no verdict
        _, judged_then = self.then.steps[at]
        before = self.then.broken_at(at)
        for rule in sorted({*judged, *judged_then, *broken, *before}):
            change = Change(rule, verdict(rule, judged_then, before), verdict(rule, judged, broken))
            if change.then != change.now:
                self.changes.append((at, call, change))

    def end(self, call: str, rules: Sequence[str], error: str) -> None:
        """The play is over: by a rule without facts (PORT-01 …), by an error, or by itself."""
        if rules and self.raised != len(self.now.steps) - 1:
            self.step(call, ("", tuple(sorted(rules))), rules)
        at = len(self.now.steps)
        if error:
            self.lose(at, call, END, "judged to its end", error)
        elif self.then is not None and at < len(self.then.steps):
            self.lose(at, call, END, f"{len(self.then.steps)} steps", f"{at} steps")


def verdict(rule: str, judged: Sequence[str], broken: Sequence[str]) -> str:
    """What is said of a rule at a step."""
    return FALSE if rule in broken else TRUE if rule in judged else NOT_JUDGED


def noting(notes: Notes) -> type[Checker]:
    """A checker that hands in its steps.  This is the one place that knows how a judge is asked for them."""
    signatures: dict[tuple[int, tuple[str, ...]], Signature] = {}

    class NotingChecker(Checker):
        def judge(self, occasions: tuple[str, ...], inputs: tuple[Any, ...], unknown: frozenset[str]) -> None:
            broken: tuple[str, ...] = ()
            violation = None
            try:
                super().judge(occasions, inputs, unknown)
            except Violation as found:
                violation, broken = found, found.rules
            judge = self.own_judge
            tally = judge.tally
            known = (id(tally), judge.not_judged)
            signature = signatures.get(known)
            if signature is None:
                rules = sorted(set(tally.plan.rules) - self.muted - set(judge.not_judged))
                signature = ("+".join(sorted(occasions)), tuple(rules))
                signature = signatures[known] = SIGNATURES.setdefault(signature, signature)
                alive.append(tally)
            call = self.history[-1] if self.history else ""
            ends = notes.step(call, signature, broken)
            if ends:
                if violation is None or {*violation.rules} != {*ends}:  # what is muted next is what was muted then
                    violation = Violation(ends, call, {})
                raise violation

    alive: list[Any] = []  # a tally keeps its number as long as it lives
    return NotingChecker


SIGNATURES: dict[Signature, Signature] = {}
"""Each signature once, so that those that are equal are the same object."""


def judged(target: Any, item: Item, depth: int, notes: Notes, *, misuse: bool, reruns: int) -> bool:
    """Judge an item, its steps handed in; whether the target took it at all."""
    options = Options(depth=depth, force_misuse=misuse, reruns=reruns, shrink_trials=0)
    try:
        result = engine.run_item(target, item, options, CurrentRun(noting(notes)))
    except Exception as error:  # noqa: BLE001  a judge that fails has changed, whatever it is that it does
        notes.end("", (), f"the judge raised {raised_text(error)}")
        return True
    last = result.findings[-1] if result.findings else None
    ends = last is not None and (reruns == 0 or any(rule.startswith("PORT-") for rule in last.rules))
    notes.end(last.call if last else "", last.rules if last and ends else (), result.error)
    return not result.unsupported


# -- items ---------------------------------------------------------------------------------------------------------

ELSEWHERE = frozenset(f"optimized-{one}" for one in ("cuda", "components", "ranks", "sparse"))
ELSEWHERE |= {"file-store-durable", "network-store", "redis", "valkey", "mooncake-store"}
"""Targets of this tree that need a machine, a compiler, a server or patience; their twins are played."""

CACHES = tuple(name for name, known in KNOWN.items() if not known.release and name not in ELSEWHERE)
"""The caches and stores of this tree that keep all rules."""

LEFT_OUT = {
    "ties-by-address": "what it evicts depends on where objects lie in memory, so no two plays are alike",
    "component-ties-by-address": "what it evicts depends on how many caches were made before, so no two plays agree",
    "reset-clears-storage": "it reaches around the port to the suite's storage, which a record of answers can't do",
}
"""Mutants that are not in the corpus, each with the reason."""

DEPTHS = (3, 2, 1, 0)
"""The depths of observation, the deepest first: what was looked at there holds all that is looked at elsewhere."""

RERUNS = 4
"""So many times what breaks a rule is played again, each time with the broken rules muted: to see which others are."""

SEEDS = 40
"""So many schedules are tried where no litmus test kills a mutant."""

OPS = 120
"""Operations of a schedule in the quick share, and of the one that a mutant plays beside what kills it."""

SHARE = 3
"""Of the litmus tests in one more configuration every so manieth is played on all caches but the specimen."""

NULLS, MUTANTS = 2, 2
"""Every so manieth legal variation and mutant is played in the quick share."""


class Work(NamedTuple):
    """One item that is to be recorded, and the depths at which it is judged."""

    target: str
    item: Item
    depths: tuple[int, ...] = DEPTHS


def targets(*, quick: bool) -> list[str]:
    """The names of all targets, or of those in the quick share."""
    mutants = [one for one in all_mutants().values() if one.id not in LEFT_OUT]
    if quick:
        nulls, bugs = ([one for one in mutants if one.null == null] for null in (True, False))
        mutants = nulls[::NULLS] + bugs[::MUTANTS]
    return [*CACHES, *(f"zoo {name}" for name in ZOO), *(f"mutant {one.id}" for one in mutants)]


def target_of(name: str) -> Any:
    """The target of this name: a cache or a store of the tree, ``zoo`` and a name, or ``mutant`` and an id."""
    kind, _, id = name.partition(" ")
    if kind == "mutant":
        return all_mutants()[id].target
    return of_zoo(id) if kind == "zoo" else load_target(resolve_target(name))


def works(name: str, *, quick: bool) -> list[Work]:
    """What is recorded of a target."""
    target = target_of(name)
    if not name.startswith("mutant "):
        return list(of_cache(name, target, quick=quick))
    mutant = all_mutants()[name.removeprefix("mutant ")]
    return list(of_null(name, mutant, quick=quick) if mutant.null else of_mutant(name, mutant, quick=quick))


def of_cache(name: str, target: Any, *, quick: bool) -> Iterator[Work]:
    """Each litmus test in one configuration, or in all of them; and drawn schedules."""
    configs = plan.configs_of(target)
    if name in ("specimen", "reference", "optimized"):
        configs += TIGHT_CONFIGS + TIER_POLICY_CONFIGS
    tests: dict[str, list[Item]] = {}
    for item in plan.items(configs, target.profile, steps=0, force_misuse=True):
        tests.setdefault(item.name, []).append(item)
    for at, many in enumerate(tests.values()):
        first = many[at % len(many)]
        yield Work(name, first, DEPTHS if not quick or at % 4 == 0 else DEPTHS[:1])
        if not quick:
            rest = [one for one in many if one is not first]
            yield from (Work(name, one, DEPTHS[:1]) for one in rest[:: 1 if name == "specimen" else SHARE])
    for config in one_of_a_kind(configs) if quick else configs:
        for item in drawn(target, config, 0, OPS if quick else plan.OPS):
            yield Work(
                name,
                item,
                DEPTHS[:1] if quick and kind_of(config) not in ("device  none", "components  none") else DEPTHS,
            )


def kind_of(config: Config) -> str:
    """What a configuration is about."""
    components = "components" if config.components else config.pool
    return (
        f"{components}{' host' if config.host_pages else ''}{f' {config.storage}' if config.storage != 'none' else ''}"
    )


def one_of_a_kind(configs: Sequence[Config]) -> list[Config]:
    """The first configuration of each kind."""
    return list({kind_of(one): one for one in reversed(configs)}.values())


def drawn(target: Any, config: Config, seed: int, ops: int) -> Iterator[Item]:
    """The schedule of a seed, as an item that does not depend on how it was drawn; none where nothing can be drawn."""
    try:
        checker = engine.make_checker(target, config, Options())
    except Unsupported:
        return
    if kinds := table(checker.capabilities):
        misuse = may_misuse(checker.profile, checker.capabilities, GENERATION)
        schedule = tuple(draw(seed, ops, kinds, misuse=misuse))
        yield Item(kind="schedule", config=config, name=f"seed={seed}", schedule=schedule)


def of_null(name: str, mutant: Mutant, *, quick: bool) -> Iterator[Work]:
    """A share of the litmus tests, and a schedule in each configuration or in one."""
    number = list(all_mutants()).index(mutant.id)
    share = 40 if quick else 12
    tests = plan.items(mutant.configs, mutant.profile, steps=0)
    yield from (Work(name, item, DEPTHS[:1] if quick else DEPTHS) for item in tests[number % share :: share])
    for config in mutant.configs[number % len(mutant.configs) :][:1] if quick else mutant.configs:
        for item in drawn(mutant.target, config, number, OPS if quick else plan.OPS):
            yield Work(name, item, DEPTHS[:1] if quick else DEPTHS)


def of_mutant(name: str, mutant: Mutant, *, quick: bool) -> Iterator[Work]:
    """What kills it first, of what is about its rules at first; and a schedule."""
    options = Options(reruns=RERUNS, shrink_trials=0)
    tests = plan.items(mutant.configs, mutant.profile, steps=0)
    about = [one for one in tests if one.kind == "litmus" and not {*mutant.kills}.isdisjoint(litmus_of(one.name).rules)]
    others = (one for one in tests if one not in about)
    ops = OPS if quick else plan.OPS
    seeds = (
        item
        for seed in range(SEEDS)
        for config in mutant.configs
        for item in drawn(mutant.target, config, seed, plan.OPS)
    )
    killer = None
    for item in chain(about, others, seeds):
        result = engine.run_item(mutant.target, item, options)
        if any(mutant.killed_by(finding.rules) for finding in result.findings):
            killer = item
            yield Work(name, item, DEPTHS[:1] if quick else DEPTHS)
            break
    if not quick:
        for item in drawn(mutant.target, mutant.configs[0], 0, ops):
            if killer is None or item.id != killer.id:
                yield Work(name, item, DEPTHS[:1])


def line_of(target: str, item: Item, tape: bytes, verdicts: Mapping[int, Verdicts], *, misuse: bool) -> str:
    """An item that was played: its tape, with its verdicts at each depth."""
    found = {
        "target": target,
        "item": to_json(item),
        "misuse": misuse,
        "tape": tape.decode(),
        "verdicts": {depth: one.plain() for depth, one in verdicts.items()},
    }
    return json.dumps(found, separators=(",", ":"))


def record_in(data: Mapping[str, Any]) -> Record:
    """What was recorded of such an item; raises ``ValueError`` for one of a revision before records were tapes."""
    if "tape" not in data:
        raise ValueError(f"{data['target']}: expected a tape, got a record of an earlier form: take a later base")
    return next(records(TapeReader(f"the record of {data['target']}", data=data["tape"].encode())))


def record(work: Work) -> str:
    """Play an item at all its depths: its record with its verdicts, as a line; empty where the cache declined it.

    Raises ``ValueError`` where the record does not give the same verdicts again.
    """
    target = target_of(work.target)
    recording = Recording(target)
    verdicts = {}
    for depth in work.depths:
        notes = Notes()
        if judged(recording, work.item, depth, notes, misuse=True, reruns=RERUNS):
            verdicts[depth] = notes.now
    tape = recording.record(work.item)
    if tape is None or not any(one.steps for one in verdicts.values()):
        return ""
    line = line_of(work.target, work.item, tape, verdicts, misuse=True)
    again = Again(record_in(json.loads(line)))
    for depth, then in verdicts.items():
        notes = Notes(then)
        judged(again, work.item, depth, notes, misuse=True, reruns=RERUNS)
        if notes.changes:
            raise ValueError(f"{work.target}, depth {depth}: {work.item.id}: the record differs: {notes.changes[0]}")
    return line
