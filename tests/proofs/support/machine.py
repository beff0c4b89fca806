"""Numbers as compiled code has them: so many bits, and an operation whose result does not fit is a debt.

Where nothing overflows, the arithmetic of a machine is that of whole numbers, so a number here is a whole number that
is held to its width: whoever makes one owes that it fits (:meth:`tests.proofs.support.search.Run.owe`).  Numba
calculates with signed numbers of 64 bits, whatever the arrays have, and rounds as Python does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import z3

from tests.proofs.support.search import Run
from tests.proofs.support.terms import Term, plain

WIDTHS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
SIGNED = {name: (-(1 << bits - 1), 1 << bits - 1) for name, bits in WIDTHS.items()}
LIMITS = {**SIGNED, "uint8": (0, 1 << 8), "uint32": (0, 1 << 32), "uint64": (0, 1 << 64)}
"""The numbers of each type: from the first on, below the second."""


def fits(number: Any, kind: str) -> Any:
    """Whether a number is one of this type."""
    least, below = LIMITS[kind]
    value = plain(number)
    if isinstance(value, int):
        return least <= value < below
    return z3.And(value >= least, value < below)


class Word(Term):
    """A number of 64 bits, as compiled Python calculates with it."""

    def made(self, formula: Any) -> Word:
        """The result of an operation; it has to fit."""
        run = self.paths
        assert isinstance(run, Run)
        run.owe(fits(Term(formula, run), "int64"), lambda: f"this does not fit 64 bits: {z3.simplify(formula)}")
        return Word(formula, run)


def word(run: Run, name: str, kind: str = "int64", *, spare: int = 0) -> Any:
    """An unknown number of this type, that leaves so many of its bits unused.

    Where a counterexample is run again it is held to its width, too.
    """
    least, below = LIMITS[kind]
    made = run.number(name, least >> spare, below >> spare)
    return Word(made.formula if isinstance(made, Term) else z3.IntVal(made), run)


class Cells:
    """An array of a type, as compiled code has it: what is written must fit, and an index must be one of its own.

    Which element an unknown index means is decided by taking all ways.  Indices below 0 are refused here: they count
    from the end in some places, which no code of ours relies on.
    """

    def __init__(self, run: Run, kind: str, cells: Iterable[Any]) -> None:
        self.run = run
        self.kind = kind
        self.cells = list(cells)

    def __len__(self) -> int:
        return len(self.cells)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.cells)

    def place(self, index: Any) -> int:
        """Which element is meant."""
        return self.run.choose(index, len(self.cells))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return Cells(self.run, self.kind, self.cells[index])
        return self.cells[self.place(index)]

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(index, slice):
            self.cells[index] = value
            return
        self.run.owe(fits(value, self.kind), f"this is written to an array of {self.kind}, and does not fit")
        self.cells[self.place(index)] = value


class Numpy:
    """What compiled code has of numpy: conversions, which owe that the number fits, and fresh arrays."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def __getattr__(self, kind: str) -> Any:
        if kind not in LIMITS:
            raise AttributeError(kind)
        return Type(self.run, kind)

    def empty(self, count: Any, kind: Type) -> Cells:
        """An array of so many elements, of which nothing is known."""
        if isinstance(count, Term):
            count = self.run.choose(count, MOST)
        return Cells(self.run, kind.name, [None] * count)


MOST = 1 << 10
"""Arrays of proofs are shorter."""


class Type:
    """A type of numpy, as it is called and handed about."""

    def __init__(self, run: Run, name: str) -> None:
        self.run = run
        self.name = name

    def __call__(self, number: Any) -> Any:
        self.run.owe(fits(number, self.name), f"this is made {self.name}, and does not fit")
        return number


def counting(run: Run) -> Any:
    """``range`` for limits that are not known: it goes on as long as that is possible."""

    def numbers(*limits: Any) -> Iterator[Any]:
        if not any(isinstance(one, Term) for one in limits):
            yield from range(*limits)
            return
        start, stop, step = (0, limits[0], 1) if len(limits) == 1 else (*limits, 1)[:3]
        at = start
        while at < stop:
            yield at
            at = at + step

    return numbers


def numbered(items: Iterable[Any], start: Any = 0) -> Iterator[tuple[Any, Any]]:
    """``enumerate`` from a number that is not known."""
    for at, item in enumerate(items):
        yield start + at, item
