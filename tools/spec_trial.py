"""Changes to the specification, tried on steps: which of them has a rule say something else.

A rule says one of four things of a step (:class:`Says`).  A change is **told apart** by a step of which some rule says
something else with it, or of which it can't say anything any more because the changed function raises.
"""

from __future__ import annotations

import enum
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.checker.guard import Violation
from kvlitmus.spec.facts import FACTS, INPUTS, UNKNOWN, Facts
from kvlitmus.spec.plan import value_of
from kvlitmus.spec.rule import NOT, Rule
from tools.mutations import Change, changes

TRIES = 4_000
"""On so many steps of a stage a change to a fact is tried that makes no difference to the fact."""


class Says(enum.Enum):
    """What a rule says of a step."""

    KEPT = "kept"
    BROKEN = "broken"
    UNKNOWN = "unknown"
    IDLE = "idle"
    """Kept, but its premise wasn't true: it has nothing to say."""


@dataclass(slots=True)
class Subject:
    """A rule's predicate or a fact, with its changes that nothing has told apart yet."""

    name: str
    function: Callable[..., Any]
    alive: list[Change] = field(default_factory=list)
    tried: Counter[str] = field(default_factory=Counter)


class Trial:
    """All changes, tried on one step after the other; ``only``: the ids of those that are tried, all if ``None``."""

    def __init__(self, rules: Mapping[str, Rule], only: frozenset[str] | None = None) -> None:
        self.rules = rules
        self.total = 0

        def subject(name: str, function: Callable[..., Any]) -> Subject:
            found = list(changes(function))
            self.total += len(found)
            return Subject(name, function, [one for one in found if only is None or one.id in only])

        facts = {name for one in rules.values() for name in spoken_of(one)}
        self.predicates = {id: subject(id, one.predicate) for id, one in rules.items()}
        self.facts = {name: subject(name, FACTS[name].compute) for name in sorted(facts)}
        self.above = {name: {one for one in facts if name in closure((one,))} for name in facts}
        self.speaking: dict[str, list[str]] = defaultdict(list)
        for id, one in rules.items():
            for name in spoken_of(one):
                self.speaking[name].append(id)
        self.relevant: dict[frozenset[str], list[Subject]] = {}
        self.steps = 0
        self.premised: Collection[str] = ()

    def subjects(self) -> Iterable[Subject]:
        """Everything that is changed."""
        yield from self.predicates.values()
        yield from self.facts.values()

    def alive(self) -> list[Change]:
        """What nothing has told apart yet."""
        return [one for subject in self.subjects() for one in subject.alive]

    def next_stage(self) -> None:
        """Other steps come now: every change is tried again."""
        self.relevant.clear()
        for subject in self.subjects():
            subject.tried.clear()

    def step(self, said: Mapping[str, Says], premised: Collection[str], inputs: Facts, known: Facts) -> None:
        """Try every change that is alive on a step, of which rules say this, and drop those that it tells apart.

        ``premised``: the rules that were judged with their premises.
        """
        self.steps += 1
        self.premised = premised
        for id, says in said.items():
            subject = self.predicates[id]
            if subject.alive and says is not Says.UNKNOWN:
                values = [known[name] for name in self.rules[id].facts]
                kept = says is not Says.BROKEN
                subject.alive = [one for one in subject.alive if not differs(one, values, kept)]
        for fact in self.facts_of(frozenset(said)):
            if fact.alive:
                fact.alive = [one for one in fact.alive if not self.shows(one, fact, inputs, known, said)]

    def row(self, name: str, values: Mapping[str, Any], says: Any) -> None:
        """Try what is alive of one fact or predicate on values made by hand, of which it must say this."""
        self.steps += 1
        subject = self.facts.get(name) or self.predicates.get(name)
        if subject is not None:
            subject.alive = [one for one in subject.alive if same(one, values, says)]

    def facts_of(self, ids: frozenset[str]) -> list[Subject]:
        """The facts that these rules speak of, and that have changes left."""
        if ids not in self.relevant:
            names = {name for id in ids for name in spoken_of(self.rules[id])}
            self.relevant[ids] = [self.facts[name] for name in sorted(names) if self.facts[name].alive]
        return self.relevant[ids]

    def shows(self, change: Change, fact: Subject, inputs: Facts, known: Facts, said: Mapping[str, Says]) -> bool:
        """Whether a rule says something else with this change to a fact."""
        if fact.tried[change.id] > TRIES:
            return False
        values = [value_of(need, inputs, known) for need in FACTS[fact.name].needs]
        if any(value is UNKNOWN for value in values):
            return False
        fact.tried[change.id] += 1
        try:
            changed, now = change.made(*values), value_of(fact.name, inputs, known)
            if changed is now or (changed == now and type(changed) is type(now)):
                return False
            again = {name: value for name, value in known.items() if name not in self.above[fact.name]}
            again[fact.name] = changed
            ids = [id for id in self.speaking[fact.name] if id in said]
            return any(self.says(id, inputs, again) is not said[id] for id in ids)
        except Exception:  # noqa: BLE001  # a change by which something raises is noticed
            return True

    def says(self, id: str, inputs: Facts, known: Facts) -> Says:
        """What a rule says of a step with these facts."""
        one = self.rules[id]
        facts = [value_of(name, inputs, known) for name in one.facts]
        if any(fact is UNKNOWN for fact in facts):
            return Says.UNKNOWN
        if not one.predicate(*facts):
            return Says.BROKEN
        return Says.IDLE if id in self.premised and idle(one, inputs, known) else Says.KEPT


def idle(one: Rule, inputs: Facts, known: Facts) -> bool:
    """Whether the premise of a rule is not true; where it can't be known, the rule has something to say."""
    value = value_of(one.premise_fact, inputs, known)
    return value is not UNKNOWN and bool(value) == one.premise.startswith(NOT)


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


def spoken_of(one: Rule) -> frozenset[str]:
    """All facts by which a rule says what it says, its premise included."""
    return closure((*one.facts, one.premise_fact))


def differs(change: Change, values: Sequence[Any], kept: bool) -> bool:
    """Whether a changed predicate says something else of these facts."""
    try:
        return bool(change.made(*values)) != kept
    except Exception:  # noqa: BLE001  # a predicate that raises is noticed
        return True


def same(change: Change, values: Mapping[str, Any], says: Any) -> bool:
    """Whether a changed function says of these values what it must."""
    try:
        said = change.made(**values)
        return said is says or bool(said == says)
    except Exception:  # noqa: BLE001  # one that raises is noticed
        return False


class TryingChecker(Checker):
    """A checker that hands each of its steps to a trial."""

    trial: Trial
    wants_facts = True
    handed: Facts | None = None

    def note_facts(self, occasions: tuple[str, ...], facts: Facts) -> None:
        """Keep the facts until it is known what was broken."""
        self.handed = facts

    def judge(self, occasions: tuple[str, ...], inputs: tuple[Any, ...], unknown: frozenset[str]) -> None:
        """Judge a step, and hand on what was said of it."""
        broken: tuple[str, ...] = ()
        self.handed = None
        try:
            super().judge(occasions, inputs, unknown)
        except Violation as violation:
            broken = tuple(violation.rules)
            raise
        finally:
            handed: Facts | None = getattr(self, "handed", None)  # by note_facts(), meanwhile
            if handed is not None:
                named = {name: value for name, value in zip(INPUTS, inputs, strict=True) if name not in unknown}
                known = dict(handed)
                premised = self.tally.plan.premised
                self.trial.step(self.said(broken, named, known), premised, named, known)

    def said(self, broken: Sequence[str], inputs: Facts, known: Facts) -> dict[str, Says]:
        """What each rule said of the step that was just judged; those left out that were muted or passed over."""
        found = {}
        for id in self.tally.plan.rules:
            if id in self.muted or id not in self.trial.rules:
                continue
            if id in self.not_judged:
                if not self.distrusted:  # else it may have been passed over, whatever it would have said
                    found[id] = Says.UNKNOWN
            elif id in broken:
                found[id] = Says.BROKEN
            else:
                silent = id in self.tally.plan.premised and idle(self.trial.rules[id], inputs, known)
                found[id] = Says.IDLE if silent else Says.KEPT
        return found


def trying(trial: Trial, kind: type[TryingChecker] = TryingChecker) -> type[TryingChecker]:
    """Checkers that hand their steps to this trial."""

    class Trying(kind):  # type: ignore[misc, valid-type]
        pass

    Trying.trial = trial
    return Trying
