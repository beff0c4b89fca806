"""Shrinking: the shortest schedule that still breaks the rule.

Works on the schedule itself, with nothing but a question "does this one still fail?", so it
serves caches in other processes and other languages too.  First chunks of operations are
dropped, ever smaller ones; then the numbers of each operation are lowered; then both again, until
nothing helps or the budget is spent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic

from kvlitmus.conformance.schedule import Op

Fails = Callable[[Sequence[Op]], bool]
"""Whether a schedule still fails."""

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
