"""What a Triton kernel calculates with: one lane of a tile, numbers of 32 and 64 bits, and memory that is looked at.

The kernel's own source runs here, for one program, one turn of each loop and one lane, all of them unknown: what holds
for this lane holds for every lane.  Numbers are signed, have the width that Triton gives them (a plain number takes
that of the tile beside it) and divide as C does.  It is owed that nothing overflows, and that only such numbers are
divided as round alike in C and in Python.  Two kinds of numbers can stand for a lane's:

- :class:`Bits`: bit-vectors of exactly this width;
- :class:`Wholes`: whole numbers, each held to its width, for claims that bit-vectors are slow at.

Anything of Triton that is not here is an ``AttributeError`` or a ``TypeError``: no proof, and no counterexample.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import z3

from tests.proofs.support.search import Run
from tests.proofs.support.terms import Comparison, Term, plain


class Wholes:
    """Whole numbers that are held to a width."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def unknown(self, name: str, width: int) -> Any:
        """A number of which nothing but its width is known."""
        value = plain(self.run.number(name))
        value = z3.IntVal(value) if isinstance(value, int) else value
        self.run.assume(self.fits(value, width))
        return value

    def known(self, number: Any, width: int) -> Any:
        """A plain number, or one that the host has calculated."""
        value = plain(number)
        value = z3.IntVal(value) if isinstance(value, int) else value
        self.run.owe(self.fits(value, width), lambda: f"{number} does not fit {width} bits")
        return value

    @staticmethod
    def fits(value: Any, width: int) -> Any:
        return z3.And(value >= -(1 << width - 1), value < 1 << width - 1)

    def held(self, value: Any, width: int) -> Any:
        self.run.owe(self.fits(value, width), lambda: f"this does not fit {width} bits: {value}")
        return value

    def add(self, a: Any, b: Any, width: int) -> Any:
        return self.held(a + b, width)

    def subtract(self, a: Any, b: Any, width: int) -> Any:
        return self.held(a - b, width)

    def multiply(self, a: Any, b: Any, width: int) -> Any:
        return self.held(a * b, width)

    def divide(self, a: Any, b: Any) -> Any:
        found = split(self.run, a, b)
        return found[0] if found else a / b

    def rest(self, a: Any, b: Any) -> Any:
        found = split(self.run, a, b)
        return found[1] if found else a % b

    def widen(self, a: Any, more: int) -> Any:
        return a


def split(run: Run, value: Any, by: Any) -> tuple[Any, Any] | None:
    """Quotient and rest of a sum, where they can be read off it: its multiples of ``by``, and what lies below ``by``.

    That the rest lies there follows from what is assumed, or nothing is read off.  So z3 need not take numbers apart
    that were put together of digits.
    """
    by = z3.simplify(by)
    parts = linear(z3.simplify(value, som=True)) if z3.is_int_value(by) else None
    if parts is None:
        return None
    step = by.as_long()
    quotient = z3.Sum([z3.IntVal(0)] + [z3.IntVal(factor // step) * one for one, factor in parts if factor % step == 0])
    rest = z3.Sum([z3.IntVal(0)] + [z3.IntVal(factor) * one for one, factor in parts if factor % step])
    quotient, rest = z3.simplify(quotient), z3.simplify(rest)
    if run.numbers is None and run.possible(z3.Not(z3.And(rest >= 0, rest < by))):
        return None
    return (quotient, rest) if run.numbers is None else None


def linear(value: Any) -> list[tuple[Any, int]] | None:
    """A sum as its unknown numbers, each with its factor; ``None`` for what is no such sum."""
    if z3.is_int_value(value):
        return [(z3.IntVal(1), value.as_long())]
    if z3.is_add(value):
        parts = [linear(one) for one in value.children()]
        return None if any(part is None for part in parts) else [one for part in parts for one in part or ()]
    if z3.is_mul(value) and value.num_args() == 2 and z3.is_int_value(value.arg(0)):
        inner = linear(value.arg(1))
        return None if inner is None else [(one, factor * value.arg(0).as_long()) for one, factor in inner]
    return [(value, 1)] if z3.is_const(value) else None


class Bits:
    """Bit-vectors."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def unknown(self, name: str, width: int) -> Any:
        return self.run.bits(name, width).formula

    def known(self, number: Any, width: int) -> Any:
        """A plain number; one that the host has calculated is not known to bit-vectors."""
        if not isinstance(number, int) or not -(1 << width - 1) <= number < 1 << width - 1:
            raise OverflowError(f"{number} does not fit {width} bits")
        return z3.BitVecVal(number, width)

    def held(self, fits: list[Any], value: Any) -> Any:
        self.run.owe(z3.And(*fits), lambda: f"this overflows: {value}")
        return value

    def add(self, a: Any, b: Any, width: int) -> Any:
        return self.held([z3.BVAddNoOverflow(a, b, True), z3.BVAddNoUnderflow(a, b)], a + b)

    def subtract(self, a: Any, b: Any, width: int) -> Any:
        return self.held([z3.BVSubNoOverflow(a, b), z3.BVSubNoUnderflow(a, b, True)], a - b)

    def multiply(self, a: Any, b: Any, width: int) -> Any:
        return self.held([z3.BVMulNoOverflow(a, b, True), z3.BVMulNoUnderflow(a, b)], a * b)

    def divide(self, a: Any, b: Any) -> Any:
        return a / b

    def rest(self, a: Any, b: Any) -> Any:
        return z3.SRem(a, b)

    def widen(self, a: Any, more: int) -> Any:
        return z3.SignExt(more, a)


class Lane:
    """A number of one lane."""

    def __init__(self, kind: Any, value: Any, width: int) -> None:
        self.kind = kind
        self.value = value
        self.width = width

    def beside(self, other: Any) -> tuple[Any, Any, int]:
        """Both numbers in one width, the larger one; a plain number takes this one's."""
        if isinstance(other, int):
            return self.value, self.kind.known(other, self.width), self.width
        if not isinstance(other, Lane):
            raise TypeError(f"{type(other).__name__} is no number of a kernel")
        width = max(self.width, other.width)
        a, b = (
            self.kind.widen(one.value, width - one.width) if one.width < width else one.value for one in (self, other)
        )
        return a, b, width

    def made(self, value: Any, width: int) -> Lane:
        return Lane(self.kind, value, width)

    def __add__(self, other: Any) -> Any:
        if isinstance(other, Pointer | Address):
            return other + self
        a, b, width = self.beside(other)
        return self.made(self.kind.add(a, b, width), width)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Lane:
        a, b, width = self.beside(other)
        return self.made(self.kind.subtract(a, b, width), width)

    def __mul__(self, other: Any) -> Lane:
        a, b, width = self.beside(other)
        return self.made(self.kind.multiply(a, b, width), width)

    __rmul__ = __mul__

    def divided(self, other: Any) -> tuple[Any, Any, int]:
        """Both numbers of a division."""
        a, b, width = self.beside(other)
        self.kind.run.owe(z3.And(a >= 0, b > 0), "C and Python round this division differently")
        return a, b, width

    def __floordiv__(self, other: Any) -> Lane:
        a, b, width = self.divided(other)
        return self.made(self.kind.divide(a, b), width)

    def __mod__(self, other: Any) -> Lane:
        a, b, width = self.divided(other)
        return self.made(self.kind.rest(a, b), width)

    def __lt__(self, other: Any) -> Mask:
        a, b, _ = self.beside(other)
        return Mask(a < b)

    def __eq__(self, other: object) -> Any:
        a, b, _ = self.beside(other)
        return Comparison(a == b, self.kind.run)

    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, index: tuple[Any, Any]) -> Lane:
        """``[:, None]``: a lane has its own row, or its own column."""
        assert slice(None) in index and None in index
        return self

    def to(self, kind: Any) -> Lane:
        """In another width."""
        if kind.width < self.width:
            raise NotImplementedError("numbers that are made narrower are not supported")
        return self.made(self.kind.widen(self.value, kind.width - self.width), kind.width)


class Mask(NamedTuple):
    """Whether a lane takes part."""

    condition: Any

    def __getitem__(self, index: Any) -> Mask:
        return self


class Address:
    """An address that a kernel was given: somewhere in a region of memory, in bytes from its beginning."""

    def __init__(self, region: str, offset: Lane) -> None:
        self.region = region
        self.offset = offset

    def __add__(self, other: Any) -> Address:
        return Address(self.region, self.offset + other)

    def to(self, kind: Any) -> Pointer:
        """As a pointer to numbers of this type."""
        return Pointer(self.region, self.offset, kind.element)


class Pointer(NamedTuple):
    """An address, as a pointer to elements of so many bytes."""

    region: str
    offset: Lane
    size: int

    def __add__(self, other: Any) -> Pointer:
        return Pointer(self.region, self.offset + other.to(INT64) * self.size, self.size)


class Access(NamedTuple):
    """A load or a store: of which region, where, how many bytes, and where the lane takes part; what is stored."""

    kind: str
    region: str
    offset: Any
    size: int
    mask: Any
    value: Any


INT8, INT16, INT32, INT64 = (SimpleNamespace(width=bits) for bits in (8, 16, 32, 64))


class Triton:
    """``tl``: one program of so many, and what it reads and writes.

    ``tables``: what is in a region of page numbers, at the place of an entry.  ``mark``: what the names of this lane's
    numbers end with, so that there can be another.
    """

    int8, int16, int32, int64 = INT8, INT16, INT32, INT64
    constexpr = object()

    def __init__(self, kind: Any, programs: int, tables: dict[str, Any], mark: str = "") -> None:
        self.kind = kind
        self.programs = programs
        self.tables = tables
        self.mark = mark
        self.unit: Any = None
        self.fixed: dict[str, Any] = {}
        self.at: Any = None
        """Where the turn of the last loop begins."""
        self.accesses: list[Access] = []
        self.lanes: list[Any] = []
        """The unknown numbers that make a lane of a program: no two lanes have all of them alike."""

    def lane(self, name: str, width: int, below: Any) -> Lane:
        """An unknown number from 0 on, one of those that make the lane."""
        value = self.part(name, width)
        self.limited(name, z3.And(value >= 0, value < below))
        self.lanes.append(value)
        return Lane(self.kind, value, width)

    def part(self, name: str, width: int) -> Any:
        """A part of a lane: unknown, unless it is ``fixed``."""
        return self.fixed[name] if name in self.fixed else self.kind.unknown(name + self.mark, width)

    def limited(self, name: str, condition: Any) -> None:
        """What is so of an unknown part of a lane; it is owed of one that is fixed."""
        if name in self.fixed:
            self.kind.run.owe(condition, f"there is no such lane: {name}")
        else:
            self.kind.run.assume(condition)

    def program_id(self, axis: int) -> Lane:
        assert axis == 0
        return self.lane("program", 32, self.programs)

    def num_programs(self, axis: int) -> Lane:
        assert axis == 0
        return Lane(self.kind, self.kind.known(self.programs, 32), 32)

    def arange(self, start: int, end: int) -> Lane:
        """The first one is the lane of a tile; with ``unit``, that one whose unit this is."""
        assert start == 0
        if self.unit is None or self.at is None:
            return self.lane(f"lane{len(self.lanes)}", 32, end)
        value = self.unit - self.at
        self.unit = None
        self.kind.run.assume(z3.And(value >= 0, value < end))
        self.lanes.append(value)
        return Lane(self.kind, value, 32)

    @staticmethod
    def pointer_type(element: Any) -> Any:
        return SimpleNamespace(element=element.width // 8)

    @staticmethod
    def cast(number: Lane, kind: Any) -> Lane:
        return number.to(kind)

    def multiple_of(self, pointer: Pointer, by: tuple[int, int]) -> Pointer:
        """The hint is owed: the first word of a unit is aligned to so many bytes, as pools are."""
        # the word's number was the last part of the lane to be asked for
        word = self.kind.widen(self.lanes[-1], 32)
        self.kind.run.owe((pointer.offset.value - word * pointer.size) % by[1] == 0, "this is not aligned as is said")
        return pointer

    @staticmethod
    def max_contiguous(pointer: Pointer, run: tuple[int, int]) -> Pointer:
        """Neighbouring words are neighbours in memory: their pointers are made by adding their number."""
        return pointer

    def load(self, pointer: Pointer, mask: Mask, other: int, cache_modifier: str = "") -> Lane:
        assert other == 0 and cache_modifier in ("", ".cg")
        offset, condition = pointer.offset.value, mask.condition
        table = self.tables.get(pointer.region)
        value = None
        if table is not None:
            value = z3.If(condition, table(offset, condition), self.kind.known(0, 32))
        self.accesses.append(Access("load", pointer.region, offset, pointer.size, condition, value))
        return Lane(self.kind, value, 32) if table is not None else self.moved(pointer)

    @staticmethod
    def moved(pointer: Pointer) -> Any:
        """What was read of a pool: nothing can be done with it but to store it."""
        return SimpleNamespace(read=pointer)

    def store(self, pointer: Pointer, value: Any, mask: Mask | None = None, cache_modifier: str = "") -> None:
        assert cache_modifier in ("", ".cs", ".wt")
        taken = z3.BoolVal(True) if mask is None else mask.condition
        stored = value.value if isinstance(value, Lane) else value.read
        self.accesses.append(Access("store", pointer.region, pointer.offset.value, pointer.size, taken, stored))

    def debug_barrier(self) -> None:
        """All threads of the program have come here."""
        self.accesses.append(Access("barrier", "", None, 0, z3.BoolVal(True), None))

    def atomic_add(self, pointer: Pointer, by: int, sem: str, scope: str) -> Lane:
        """What was there: below the number of programs, for each of them adds one and the last sets it back."""
        assert by == 1 and sem == "acq_rel" and scope in ("gpu", "sys")
        self.accesses.append(Access("add", pointer.region, pointer.offset.value, pointer.size, z3.BoolVal(True), by))
        before = self.kind.unknown("before" + self.mark, 32)
        self.kind.run.assume(z3.And(before >= 0, before < self.programs))
        return Lane(self.kind, before, 32)

    def atomic_xchg(self, pointer: Pointer, value: int, sem: str, scope: str) -> None:
        assert sem in ("acq_rel", "release") and scope == "sys"
        self.accesses.append(Access("set", pointer.region, pointer.offset.value, pointer.size, z3.BoolVal(True), value))

    def range(self, *limits: Any) -> Iterator[Lane]:
        """One turn of a loop, any; that the step behind it does not overflow is owed."""
        kind, run = self.kind, self.kind.run
        start, stop, step = (0, limits[0], 1) if len(limits) == 1 else (*limits, 1)[:3]
        first = start if isinstance(start, Lane) else Lane(kind, kind.known(start, stop.width), stop.width)
        by = step if isinstance(step, Lane) else Lane(kind, kind.known(step, stop.width), stop.width)
        name = f"turn{len(self.lanes)}"
        if isinstance(kind, Wholes) and (self.unit is None or not isinstance(step, Lane)):
            self.lanes.append(self.part(name, stop.width))
            self.limited(name, self.lanes[-1] >= 0)
            at = first.value + self.lanes[-1] * by.value
        else:
            at = kind.unknown(name + self.mark, stop.width)
            run.assume(at >= first.value)
        self.limited(name, at < stop.value)
        self.at = at
        current = Lane(kind, at, stop.width)
        _ = current + by
        yield current


def word_of(kind: Any, number: Any, width: int) -> Lane:
    """An argument of a kernel, made by the host."""
    value = number.formula if isinstance(number, Term) else number
    return Lane(kind, kind.known(value if isinstance(value, int) else Term(value, kind.run), width), width)
