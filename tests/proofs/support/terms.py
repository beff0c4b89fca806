"""A function as a z3 formula: it is run on terms, and wherever it compares, both ways.

So a lemma is about the function itself, and not about a formula that somebody has written beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import z3

Formula = Any


class Paths:
    """One run of a function: how its comparisons came out.  Those that are given are followed, all others are true."""

    def __init__(self, given: list[bool]) -> None:
        self.decisions = list(given)
        self.conditions: list[Formula] = []

    def decide(self, condition: Formula) -> bool:
        """How this comparison comes out on this path."""
        at = len(self.conditions)
        if at == len(self.decisions):
            self.decisions.append(True)
        taken = self.decisions[at]
        self.conditions.append(condition if taken else z3.Not(condition))
        return taken


class Comparison:
    """A comparison of terms: it is decided when somebody asks for its truth."""

    def __init__(self, condition: Formula, paths: Paths) -> None:
        self.condition = condition
        self.paths = paths

    def __bool__(self) -> bool:
        return self.paths.decide(self.condition)

    def __int__(self) -> int:
        return int(bool(self))

    def __or__(self, other: Comparison) -> Comparison:
        return Comparison(z3.Or(self.condition, other.condition), self.paths)


def plain(value: object) -> Formula:
    """The formula of a term, or the number itself."""
    return value.formula if isinstance(value, Term) else value


class Term:
    """A number that is not known, for functions that calculate with it as with any other."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, formula: Formula, paths: Paths) -> None:
        self.formula = formula
        self.paths = paths

    def made(self, formula: Formula) -> Term:
        """Another one of the same run."""
        return Term(formula, self.paths)

    def __bool__(self) -> bool:
        return self.paths.decide(self.formula != 0)

    def __neg__(self) -> Term:
        return self.made(-self.formula)

    def __add__(self, other: object) -> Term:
        """An array of numpy adds it to each of its elements."""
        if hasattr(other, "__array_interface__"):
            return NotImplemented
        return self.made(self.formula + plain(other))

    __radd__ = __add__

    def __sub__(self, other: object) -> Term:
        return self.made(self.formula - plain(other))

    def __rsub__(self, other: object) -> Term:
        return self.made(plain(other) - self.formula)

    def __mul__(self, other: object) -> Term:
        return self.made(self.formula * plain(other))

    __rmul__ = __mul__

    def __truediv__(self, other: object) -> Term:
        return self.made(self.formula / plain(other))

    def __mod__(self, other: object) -> Term:
        """As Python's where the divisor is positive, as z3 rounds then."""
        return self.made(self.formula % plain(other))

    def __floordiv__(self, other: object) -> Term:
        """As Python's where the divisor is positive, as z3 rounds then."""
        return self.made(self.formula / plain(other))

    def __xor__(self, other: object) -> Term:
        """Of numbers with so many bits."""
        return self.made(self.formula ^ plain(other))

    def __or__(self, other: object) -> Term:
        """Of numbers with so many bits."""
        return self.made(self.formula | plain(other))

    __ror__ = __or__

    def __lt__(self, other: object) -> Comparison:
        return Comparison(self.formula < plain(other), self.paths)

    def __le__(self, other: object) -> Comparison:
        return Comparison(self.formula <= plain(other), self.paths)

    def __gt__(self, other: object) -> Comparison:
        return Comparison(self.formula > plain(other), self.paths)

    def __ge__(self, other: object) -> Comparison:
        return Comparison(self.formula >= plain(other), self.paths)

    def __eq__(self, other: object) -> Comparison:  # type: ignore[override]
        return Comparison(self.formula == plain(other), self.paths)

    def __ne__(self, other: object) -> Comparison:  # type: ignore[override]
        return Comparison(self.formula != plain(other), self.paths)


class _WholeType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, int | Term)


class Whole(int, metaclass=_WholeType):
    """Stands in for ``int`` where code asks what is one: a term is."""


def formula_of(function: Callable[..., Any], *arguments: Formula) -> Formula:
    """What a function returns, as a formula over its arguments; its comparisons must be finitely many."""
    open_: list[list[bool]] = [[]]
    results: list[tuple[Formula, Formula]] = []
    while open_:
        given = open_.pop()
        paths = Paths(given)
        result = function(*[Term(argument, paths) for argument in arguments])
        results.append((z3.And(*paths.conditions), plain(bool(result) if isinstance(result, Comparison) else result)))
        open_ += [[*paths.decisions[:at], False] for at in range(len(given), len(paths.decisions))]
    formula = results[-1][1]
    for condition, value in reversed(results[:-1]):
        formula = z3.If(condition, value, formula)
    return formula
