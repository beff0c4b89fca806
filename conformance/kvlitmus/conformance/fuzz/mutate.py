"""Mutation: new schedules from kept ones.

Every part of a schedule is a schedule, so nothing can be cut wrongly.  Kept schedules are stored as
operations and not as bytes: what bytes mean depends on what the target can do, and changes whenever
an operation is added.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from kvlitmus.conformance.generate.schedule import OP_BYTES, Op, decode
from kvlitmus.conformance.run.plan import OPS

LONGEST = 2 * OPS
"""Operations of the longest schedule that is made."""

ROUNDS = (1, 1, 2, 4, 8)
"""How many changes are made to one schedule, drawn from these."""

BOUNDS = (0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 63, 64, 127, 128, 224, 254, 255)
"""Numbers at which the meaning of an operation tends to change."""

Ops = list[Op]
Change = Callable[[Ops, "Source"], Ops]


class Source:
    """What mutations draw from: random numbers, the kinds that the target can do, another kept schedule."""

    def __init__(self, rng: random.Random, kinds: Sequence[str], other: Sequence[Op] = ()) -> None:
        self.rng = rng
        self.kinds = kinds
        self.other = other

    def fresh(self, many: int) -> Ops:
        """Operations as plain seeds have them."""
        return decode(self.rng.randbytes(many * OP_BYTES), self.kinds)

    def span(self, length: int, most: int = 32) -> tuple[int, int]:
        """A stretch of a schedule of this length: short ones more often than long ones."""
        many = min(length, 1 + int(most ** self.rng.random() - 1))
        start = self.rng.randrange(length - many + 1)
        return start, start + many


def mutated(ops: Sequence[Op], source: Source) -> Ops:
    """A schedule made from another one; never empty, never longer than :data:`LONGEST`, of known kinds only."""
    made = [op for op in ops if op.kind in source.kinds] or source.fresh(1)
    for _ in range(source.rng.choice(ROUNDS)):
        made = source.rng.choice(CHANGES)(made, source) or made
    if source.rng.random() < GROWN and len(made) < OPS:
        made = made + source.fresh(OPS - len(made))
    return made[:LONGEST]


GROWN = 0.8
"""How many of the schedules get a fresh end: what a kept schedule reached is where the search goes on."""


def drop(ops: Ops, source: Source) -> Ops:
    """Without a stretch."""
    start, end = source.span(len(ops))
    return ops[:start] + ops[end:]


def repeat(ops: Ops, source: Source) -> Ops:
    """A stretch again, at once or elsewhere."""
    start, end = source.span(len(ops))
    at = end if source.rng.random() < 0.5 else source.rng.randrange(len(ops) + 1)
    return ops[:at] + ops[start:end] * source.rng.choice((1, 1, 1, 2, 4)) + ops[at:]


def move(ops: Ops, source: Source) -> Ops:
    """A stretch elsewhere."""
    start, end = source.span(len(ops))
    rest = ops[:start] + ops[end:]
    at = source.rng.randrange(len(rest) + 1)
    return rest[:at] + ops[start:end] + rest[at:]


def tweak(ops: Ops, source: Source) -> Ops:
    """Another number in some operations."""
    made = list(ops)
    for _ in range(source.rng.choice((1, 1, 2, 4))):
        at = source.rng.randrange(len(made))
        place = source.rng.randrange(3)
        value = (made[at].a, made[at].b, made[at].c)[place]
        made[at] = made[at].with_number(place, number(value, source.rng))
    return made


def number(value: int, rng: random.Random) -> int:
    """Another number from 0 to 255: one bit away, near, at a bound, or any."""
    way = rng.randrange(4)
    if way == 0:
        return value ^ 1 << rng.randrange(8)
    if way == 1:
        return (value + rng.choice((-2, -1, 1, 2))) % 256
    return rng.choice(BOUNDS) if way == 2 else rng.randrange(256)


def rename(ops: Ops, source: Source) -> Ops:
    """Another kind with the same numbers."""
    made = list(ops)
    at = source.rng.randrange(len(made))
    made[at] = made[at]._replace(kind=source.rng.choice(source.kinds))
    return made


def redraw(ops: Ops, source: Source) -> Ops:
    """The same calls in a stretch, all with other numbers."""
    start, end = source.span(len(ops), len(ops))
    again = [Op(op.kind, *source.rng.randbytes(3)) for op in ops[start:end]]
    return ops[:start] + again + ops[end:]


def align(ops: Ops, source: Source) -> Ops:
    """An operation gets the numbers of another one: the same key, the same request."""
    made = list(ops)
    here, there = source.rng.randrange(len(made)), source.rng.randrange(len(made))
    made[here] = made[there]._replace(kind=made[here].kind)
    return made


def insert(ops: Ops, source: Source) -> Ops:
    """Fresh operations in between."""
    at = source.rng.randrange(len(ops) + 1)
    return ops[:at] + source.fresh(source.rng.choice((1, 1, 2, 4, 16))) + ops[at:]


def splice(ops: Ops, source: Source) -> Ops:
    """A stretch of another kept schedule in between."""
    other = usable(source)
    if not other:
        return insert(ops, source)
    start, end = source.span(len(other), 64)
    at = source.rng.randrange(len(ops) + 1)
    return ops[:at] + other[start:end] + ops[at:]


def cross(ops: Ops, source: Source) -> Ops:
    """The beginning of one and the end of another."""
    other = usable(source)
    if not other:
        return drop(ops, source)
    return ops[: source.rng.randrange(1, len(ops) + 1)] + other[source.rng.randrange(len(other)) :]


def usable(source: Source) -> Ops:
    """The other schedule, as far as the target can do it."""
    return [op for op in source.other if op.kind in source.kinds]


CHANGES: tuple[Change, ...] = (drop, repeat, move, tweak, redraw, redraw, rename, align, insert, splice, splice, cross)
"""All changes; one that is named twice is made twice as often."""
