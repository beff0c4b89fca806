"""Arrays of numpy with unknown elements: what the code that packs tokens does with them, bit by bit."""

from __future__ import annotations

import sys
from typing import Any

import z3

from tests.proofs.support.machine import LIMITS
from tests.proofs.support.search import Run
from tests.proofs.support.terms import Comparison

KINDS = {"<u4": "uint32", "<i8": "int64", "<u8": "uint64", "<i4": "int32"}
"""Other names of types; all are little-endian, as the machines are on which proofs run."""


def named(kind: Any) -> str:
    """The name of a type, however it is written."""
    assert sys.byteorder == "little"
    name = KINDS.get(kind, kind) if isinstance(kind, str) else kind.name
    if name not in LIMITS:
        raise NotImplementedError(f"the type {kind!r} is not supported")
    return str(name)


def width(kind: str) -> int:
    """How many bits a type has."""
    return (LIMITS[kind][1] - LIMITS[kind][0] - 1).bit_length()


class Scalar:
    """One element; compared with plain numbers, as its type is signed or not."""

    def __init__(self, run: Run, kind: str, bits: Any) -> None:
        self.run = run
        self.kind = kind
        self.bits = bits

    def within(self, least: int, below: int) -> Any:
        """Whether its value is one of these, whatever its type can have."""
        longer = z3.ZeroExt if self.kind.startswith("u") else z3.SignExt
        wide = longer(64, self.bits)
        return z3.And(wide >= least, wide < below)

    def compared(self, other: int, signed: Any, unsigned: Any) -> Any:
        """A comparison; a number that the type can't have is beyond all that it can."""
        least, below = LIMITS[self.kind]
        if not least <= other < below:
            return signed(-1, 0) if other >= below else signed(0, -1)
        if self.kind.startswith("u"):
            return Comparison(unsigned(self.bits, z3.BitVecVal(other, self.bits.size())), self.run)
        return Comparison(signed(self.bits, z3.BitVecVal(other, self.bits.size())), self.run)

    def __lt__(self, other: int) -> Any:
        return self.compared(other, lambda a, b: a < b, z3.ULT)

    def __gt__(self, other: int) -> Any:
        return self.compared(other, lambda a, b: a > b, z3.UGT)

    def __ge__(self, other: int) -> Any:
        return self.compared(other, lambda a, b: a >= b, z3.UGE)


class Vector:
    """An array of unknown elements of one type: one dimension, or rows after ``reshape``."""

    def __init__(self, run: Run, kind: str, bits: list[Any]) -> None:
        self.run = run
        self.kind = kind
        self.bits = bits

    def __len__(self) -> int:
        return len(self.bits)

    def __getitem__(self, index: slice) -> Vector:
        return Vector(self.run, self.kind, self.bits[index])

    def astype(self, kind: Any, *, copy: bool = True) -> Vector:
        """Made longer by zeros or by the sign, as the type was, or cut off."""
        to = named(kind)
        more = width(to) - width(self.kind)
        if more > 0:
            longer = z3.ZeroExt if self.kind.startswith("u") else z3.SignExt
            return Vector(self.run, to, [longer(more, one) for one in self.bits])
        return Vector(self.run, to, [z3.Extract(width(to) - 1, 0, one) for one in self.bits])

    def view(self, kind: Any) -> Vector:
        """The same bytes as another type."""
        to = named(kind)
        step, bits = width(to), list(self.bits)
        if step < width(self.kind):
            bits = [z3.Extract(at + step - 1, at, one) for one in bits for at in range(0, width(self.kind), step)]
        elif step > width(self.kind):
            raise NotImplementedError("a view of a wider type is not supported")
        return Vector(self.run, to, bits)

    def __lshift__(self, by: Scalar) -> Vector:
        return Vector(self.run, self.kind, [one << z3.BitVecVal(by.bits, one.size()) for one in self.bits])

    def __or__(self, other: Vector) -> Vector:
        assert self.kind == other.kind and len(self) == len(other)
        return Vector(self.run, self.kind, [a | b for a, b in zip(self.bits, other.bits, strict=True)])

    def reshape(self, rows: int, columns: int) -> Rows:
        """Rows of so many."""
        assert rows == -1 and len(self) % columns == 0
        found = [self.bits[at : at + columns] for at in range(0, len(self), columns)]
        return Rows(self.run, self.kind, found)

    def tobytes(self) -> list[Any]:
        """Its bytes, of eight bits each."""
        return [z3.Extract(at + 7, at, one) for one in self.bits for at in range(0, width(self.kind), 8)]

    def min(self) -> int:
        """For messages alone."""
        return 0

    max = min


class Rows:
    """Two dimensions, of which each row can be turned round."""

    def __init__(self, run: Run, kind: str, rows: list[list[Any]]) -> None:
        self.run = run
        self.kind = kind
        self.rows = rows

    def __getitem__(self, index: tuple[slice, slice]) -> Vector:
        first, second = index
        return Vector(self.run, self.kind, [one for row in self.rows[first] for one in row[second]])


class Reducing:
    """``np.bitwise_or``."""

    def reduce(self, vector: Vector) -> Scalar:
        """All elements together."""
        found = vector.bits[0]
        for one in vector.bits[1:]:
            found = found | one
        return Scalar(vector.run, vector.kind, found)


class Numpy:
    """What the code that packs has of numpy."""

    bitwise_or = Reducing()

    def __init__(self, run: Run) -> None:
        self.run = run

    def __getattr__(self, kind: str) -> Any:
        if kind not in LIMITS:
            raise NotImplementedError(f"np.{kind} is not supported")
        return Type(self.run, kind)

    @staticmethod
    def ascontiguousarray(vector: Vector) -> Vector:
        """The same elements."""
        return vector


class Type:
    """A type, as it is called with a plain number and handed about."""

    def __init__(self, run: Run, name: str) -> None:
        self.run = run
        self.name = name

    def __call__(self, number: int) -> Scalar:
        return Scalar(self.run, self.name, number)
