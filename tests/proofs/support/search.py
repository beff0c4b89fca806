"""A claim about code that runs on unknown numbers, decided on all of its paths.

The code is run again and again, each time along another path: wherever it asks how a comparison comes out, z3 says
which ways are possible, and all of them are taken.  On each path what is claimed, and what was owed on the way, must
follow from how the comparisons came out.  Loops must end for every number that is assumed; those that don't make the
search endless, not wrong.

A counterexample is run again with its numbers in the place of the unknown ones, as plain Python, and must fail again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import z3

from tests.proofs.support.solving import Unsettled, possible
from tests.proofs.support.terms import Comparison, Formula, Paths, Term

REFUTES = (IndexError, KeyError, ValueError, AssertionError, ZeroDivisionError, OverflowError)
"""What code may raise that has gone wrong; anything else is a defect of the proof: a stand-in that lacks something."""


Why = str | Callable[[], str]
"""What is wrong; a function where that shows a formula, which z3 takes longer to write out than to solve."""


def said(why: Why) -> str:
    """The text, once somebody reads it."""
    return why if isinstance(why, str) else why()


class Refuted(NamedTuple):
    """Numbers for which a claim does not hold, and what is wrong with it."""

    numbers: dict[str, Any]
    why: str


class Run(Paths):
    """One run along one path.  ``numbers``: where it is run again, what the unknown numbers are."""

    plays = True
    """Whether a counterexample has numbers with which it can be run again."""

    def __init__(self, given: list[bool], numbers: dict[str, Any] | None = None) -> None:
        super().__init__(given)
        self.numbers = numbers
        self.others: list[list[bool]] = []
        """The beginnings of further paths, found on this one."""
        self.owed: list[tuple[Formula, Why]] = []
        self.solver = z3.Solver()
        self.names: dict[str, Formula] = {}

    def number(self, name: str, least: Any = None, below: Any = None) -> Any:
        """An unknown whole number of this name, within these limits."""
        if self.numbers is not None:
            return self.numbers.get(name, 0)
        unknown = self.names.setdefault(name, z3.Int(name))
        made = Term(unknown, self)
        if least is not None:
            self.assume(made >= least)
        if below is not None:
            self.assume(made < below)
        return made

    def bits(self, name: str, width: int = 64) -> Any:
        """An unknown number of so many bits, signed."""
        unknown = self.names.setdefault(name, z3.BitVec(name, width))
        return Term(unknown if self.numbers is None else z3.BitVecVal(self.numbers.get(name, 0), width), self)

    def real(self, name: str) -> Any:
        """An unknown number that need not be whole, and is not negative: code calculates with it without rounding."""
        if self.numbers is not None:
            return self.numbers.get(name, 0.0)
        unknown = self.names.setdefault(name, z3.Real(name))
        self.solver.add(unknown >= 0)
        return Term(unknown, self)

    def numbers_named(self, name: str, count: int, least: Any = None, below: Any = None) -> list[Any]:
        """So many of them."""
        return [self.number(f"{name}{at}", least, below) for at in range(count)]

    def whether(self, name: str) -> bool:
        """Something that may be so or not: both ways are taken."""
        return bool(self.number(name, 0, 2) == 1)

    def assume(self, condition: object) -> None:
        """Only numbers for which this is so are looked at."""
        if self.numbers is None:
            self.solver.add(formula(condition))
        else:
            assert truth(condition), "a counterexample breaks what is assumed"

    def owe(self, condition: object, why: Why) -> None:
        """This must be so here."""
        if self.numbers is None:
            self.owed.append((z3.Implies(z3.And(*self.conditions), formula(condition)), why))
        else:
            assert truth(condition), said(why)

    def choose(self, number: Any, count: int) -> int:
        """Which of ``0 .. count-1`` a number is: all ways are taken; raises ``IndexError`` where it is none."""
        for one in range(count):
            if number == one:
                return one
        raise IndexError(number)

    def decide(self, condition: Formula) -> bool:
        """How this comparison comes out on this path: only ways that are possible are taken."""
        condition = z3.simplify(condition)
        if z3.is_true(condition) or z3.is_false(condition):
            return bool(z3.is_true(condition))
        at = len(self.conditions)
        if at == len(self.decisions):
            if not self.possible(condition):
                self.decisions.append(False)
            else:
                if self.possible(z3.Not(condition)):
                    self.others.append([*self.decisions, False])
                self.decisions.append(True)
        taken = self.decisions[at]
        self.conditions.append(condition if taken else z3.Not(condition))
        self.solver.add(self.conditions[-1])
        return taken

    def possible(self, *conditions: Formula) -> bool:
        """Whether there are such numbers on this path."""
        return possible(self.solver, *conditions)

    def met(self) -> bool:
        """Whether there are any numbers on this path at all."""
        return self.possible()

    def broken(self, debts: list[tuple[Formula, Why]]) -> str | None:
        """What is wrong where there are numbers on this path for which not all of these hold."""
        if not self.possible(z3.Not(z3.And(*[one for one, _ in debts]))):
            return None
        model = self.solver.model()
        why = [text for one, text in debts if not z3.is_true(model.eval(one, model_completion=True))]
        return said(why[0]) if why else "what is claimed is not so"

    def example(self) -> dict[str, Any]:
        """The numbers that were found last."""
        model = self.solver.model()
        return {name: plain_number(model.eval(one, model_completion=True)) for name, one in self.names.items()}


def plain_number(value: Formula) -> int | float:
    """A number of a model as Python has it."""
    if isinstance(value, z3.RatNumRef):
        return float(value.as_fraction())
    whole: int = value.as_signed_long() if isinstance(value, z3.BitVecNumRef) else value.as_long()
    return whole


def formula(condition: object) -> Formula:
    """A condition as a formula."""
    if isinstance(condition, Comparison):
        return condition.condition
    return z3.BoolVal(condition) if isinstance(condition, bool) else condition


def truth(condition: object) -> bool:
    """Whether a condition about plain numbers holds."""
    if isinstance(condition, z3.ExprRef):
        found = z3.simplify(condition)
        if not (z3.is_true(found) or z3.is_false(found)):
            raise Unsettled(f"this is about no plain numbers: {found}")
        return bool(z3.is_true(found))
    return bool(condition)


def every(conditions: Iterable[object]) -> Formula:
    """All of these."""
    return z3.And(*[formula(one) for one in conditions])


def some(conditions: Iterable[object]) -> Formula:
    """One of these."""
    return z3.Or(*[formula(one) for one in conditions])


def implies(one: object, other: object) -> Formula:
    """The other where the one is so."""
    return z3.Implies(formula(one), formula(other))


def alike(one: object, other: object) -> Formula:
    """Both are so, or neither."""
    return formula(one) == formula(other)


Claim = Callable[[Any], object]
"""Runs the code on the numbers of a run, and says what is to hold of what came out."""


def refute(claim: Claim) -> Refuted | None:
    """Numbers for which a claim does not hold, ``None`` if there are none.

    Raises :class:`Unsettled` where z3 doesn't know, or where a counterexample holds when it is run again.
    """
    return explore(claim)[0]


def explore(claim: Claim, start: Callable[..., Any] = Run) -> tuple[Refuted | None, int]:
    """The same, with the number of paths that were taken; ``start``: makes a run of decisions, and of numbers."""
    open_: list[list[bool]] = [[]]
    paths = possible_paths = 0
    while open_:
        run = start(open_.pop())
        paths += 1
        found = failing(run, claim)
        if found is not None:
            return again(claim, found, start) if run.plays else found, paths
        open_ += run.others
        possible_paths += run.met()
    if not possible_paths:
        raise Unsettled("no numbers are as it is assumed: anything would hold of them")
    return None, paths


def failing(run: Run, claim: Claim) -> Refuted | None:
    """What is wrong on this path, if anything."""
    try:
        claimed = formula(claim(run))
    except REFUTES as error:
        claimed, run.owed = z3.BoolVal(False), []
        wrong = f"{type(error).__name__}: {error}"
    else:
        wrong = "what is claimed is not so"
    why = run.broken([*run.owed, (claimed, wrong)])
    return None if why is None else Refuted(run.example(), why)


def again(claim: Claim, found: Refuted, start: Callable[..., Any]) -> Refuted:
    """The same counterexample, once it has failed with plain numbers, too."""
    try:
        good = truth(claim(start([], found.numbers)))
    except REFUTES:
        good = False
    if good:
        raise Unsettled(f"this holds when it is run again: {found}")
    return found
