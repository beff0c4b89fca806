"""Shrinking: the shortest schedule that still breaks the rule.

Works on the schedule itself, with nothing but a question "does this one still fail?", so it
serves caches in other processes and other languages too.  First chunks of operations are
dropped, ever smaller ones; then pairs, since what begins something and what ends it can only go
together; then the numbers of each operation are lowered; then all again, until nothing helps or the
budget is spent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic

from kvlitmus.conformance.schedule import Op

Fails = Callable[[Sequence[Op]], bool]
"""Whether a schedule still fails."""

PAIRS_UP_TO = 40
"""The longest schedule in which pairs are tried: their number grows with the square."""

FIELDS = range(3)
"""The numbers of an operation."""


class Budget:
    """How many trials and seconds may still be spent."""

    def __init__(self, trials: int, seconds: float) -> None:
        self.trials = trials
        self.until = monotonic() + seconds

    def spend(self) -> bool:
        """Take one trial, if there is one left."""
        self.trials -= 1
        return self.trials >= 0 and monotonic() < self.until


def shrink(ops: Sequence[Op], fails: Fails, *, trials: int = 2_000, seconds: float = 10.0) -> list[Op]:
    """A shorter and simpler schedule that still fails; ``ops`` itself if none is found."""
    budget = Budget(trials, seconds)
    best = list(ops)
    while True:
        before = list(best)
        best = drop_chunks(best, fails, budget)
        best = drop_pairs(best, fails, budget)
        best = lower_numbers(best, fails, budget)
        if best == before or budget.trials <= 0:
            return best


def drop_chunks(ops: list[Op], fails: Fails, budget: Budget) -> list[Op]:
    """Drop runs of operations, from long ones to single ones, later ones first."""
    length = max(1, len(ops) // 2)
    while length:
        for at in range(max(0, len(ops) - length), -length, -length):
            start = max(0, at)
            shorter = ops[:start] + ops[start + length :]
            if len(shorter) < len(ops) and budget.spend() and fails(shorter):
                ops = shorter
        length //= 2
    return ops


def drop_pairs(ops: list[Op], fails: Fails, budget: Budget) -> list[Op]:
    """Drop two operations at once that may stand apart."""
    if len(ops) > PAIRS_UP_TO:
        return ops
    first = 0
    while first < len(ops):
        for second in range(first + 1, len(ops)):
            shorter = ops[:first] + ops[first + 1 : second] + ops[second + 1 :]
            if budget.spend() and fails(shorter):
                ops = shorter
                break
        else:
            first += 1
    return ops


def lower_numbers(ops: list[Op], fails: Fails, budget: Budget) -> list[Op]:
    """Lower each number of each operation: to nothing, else bit by bit."""
    for at in range(len(ops)):
        for field in FIELDS:
            ops = lower_one(ops, at, field, fails, budget)
    return ops


def lower_one(ops: list[Op], at: int, field: int, fails: Fails, budget: Budget) -> list[Op]:
    """Lower one of the three numbers."""
    value = ops[at][1:][field]
    for smaller in (0, 1, *(value & ~(1 << bit) for bit in range(7, -1, -1) if value & (1 << bit)), value - 1):
        if 0 <= smaller < ops[at][1:][field]:
            numbers = list(ops[at][1:])
            numbers[field] = smaller
            trial = [*ops[:at], Op(ops[at].kind, *numbers), *ops[at + 1 :]]
            if budget.spend() and fails(trial):
                ops = trial
    return ops
