"""The verdict of every rule on every step of a recorded play: noted, and compared.

A step is one evaluation: the kinds of its call, the rules that were judged there, and those of them that were broken.
A rule that was not judged is neither true nor false.  :class:`Notes` is where a judge hands in its steps; with the
steps of an earlier version beside it, it compares, and has the judge go on as it went on then: past a rule that was
kept then, and not past one that was broken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.checker.guard import Violation
from kvlitmus.conformance.isolation.current_run import CurrentRun
from kvlitmus.conformance.run import engine
from kvlitmus.conformance.run.results import Item, Options
from kvlitmus.conformance.support.text import raised_text
from kvlitmus.spec.law.rule import SUCCESSORS

NOT_JUDGED, TRUE, FALSE = "not judged", "true", "false"
END = "the end of the play"
"""What can differ beside rules."""

Signature = tuple[str, tuple[str, ...]]
"""The kinds of a call, sorted and joined by ``+``, and the ids of the rules that were judged after it."""


def now_called(rules: Sequence[str]) -> tuple[str, ...]:
    """These rules by the ids that they have in this tree, where others have taken their place."""
    return tuple(sorted({SUCCESSORS.get(rule, rule) for rule in rules}))


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
            tally = self.tally
            known = (id(tally), self.not_judged)
            signature = signatures.get(known)
            if signature is None:
                rules = sorted(set(tally.plan.rules) - self.muted - set(self.not_judged))
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
