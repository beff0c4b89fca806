"""Shrinking: the shortest schedule that still breaks the rule.

Works on the schedule itself, with nothing but a question "does this one still fail, and after how many calls?", so it
serves caches in other processes and other languages too.  First chunks of operations are
dropped, ever smaller ones; then pairs, since what begins something and what ends it can only go
together; then the numbers of each operation are lowered, where that makes no further calls, or raised, where it saves
some; then all again, until nothing helps or the budget is spent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import NamedTuple

from kvlitmus.conformance.generate.schedule import Op

Fails = Callable[[Sequence[Op]], int | None]
"""After how many calls a schedule fails; ``None`` for one that doesn't."""

PAIRS_UP_TO = 40
"""The longest schedule in which pairs are tried: their number grows with the square."""

FIELDS = range(3)
"""The numbers of an operation."""

HIGHEST = 255
"""The largest number of an operation."""


class Shrunk(NamedTuple):
    """What shrinking came to.  ``stopped``: why there may be a shorter one; empty where nothing helped any more."""

    ops: list[Op]
    stopped: str


class Shrinker:
    """The best schedule so far, the calls that it makes (``None``: not known yet), and what may still be spent."""

    def __init__(self, ops: Sequence[Op], fails: Fails, trials: int, seconds: float) -> None:
        self.ops = list(ops)
        self.calls: int | None = None
        self.fails = fails
        self.trials = self.left = trials
        self.seconds = seconds
        self.until = monotonic() + seconds
        self.stopped = ""

    def spend(self) -> bool:
        """Take one trial, if there is one left."""
        if self.left <= 0:
            self.stopped = f"shrinking stopped after {self.trials:,} tr{'y' if self.trials == 1 else 'ies'}"
        elif monotonic() >= self.until:
            self.stopped = f"shrinking stopped after {self.seconds:.0f} s"
        else:
            self.left -= 1
            return True
        return False

    def take(self, trial: list[Op], *, saves: bool = False) -> bool:
        """Go on with this one if it fails, with no more calls than the best so far; ``saves``: with fewer."""
        if not self.spend():
            return False
        calls = self.fails(trial)
        if calls is None or (self.calls is None and saves) or (self.calls is not None and calls + saves > self.calls):
            return False
        self.ops, self.calls = trial, calls
        return True

    def drop_chunks(self) -> None:
        """Drop runs of operations, from long ones to single ones, later ones first."""
        length = max(1, len(self.ops) // 2)
        while length:
            for at in range(max(0, len(self.ops) - length), -length, -length):
                start = max(0, at)
                shorter = self.ops[:start] + self.ops[start + length :]
                if len(shorter) < len(self.ops):
                    self.take(shorter)
            length //= 2

    def drop_pairs(self) -> None:
        """Drop two operations at once that may stand apart."""
        if len(self.ops) > PAIRS_UP_TO:
            return
        first = 0
        while first < len(self.ops):
            for second in range(first + 1, len(self.ops)):
                if self.take(self.ops[:first] + self.ops[first + 1 : second] + self.ops[second + 1 :]):
                    break
            else:
                first += 1

    def change_numbers(self) -> None:
        """Lower each number of each operation: to nothing, else bit by bit; or raise it, where that saves calls.

        First those of all operations at once: keys that must be equal can only be made simpler together.
        """
        for field in FIELDS:
            if any(op[1:][field] for op in self.ops):
                self.take([Op(op.kind, *[0 if at == field else op[1:][at] for at in FIELDS]) for op in self.ops])
        for at in range(len(self.ops)):
            for field in FIELDS:
                value = self.ops[at][1:][field]
                bits = [value & ~(1 << bit) for bit in range(7, -1, -1) if value & (1 << bit)]
                for smaller in (0, 1, *bits, value - 1):
                    if 0 <= smaller < self.ops[at][1:][field]:
                        self.take(self.with_number(at, field, smaller))
                if self.calls is not None and value < HIGHEST:
                    self.take(self.with_number(at, field, HIGHEST), saves=True)

    def with_number(self, at: int, field: int, value: int) -> list[Op]:
        """The schedule with one number changed."""
        numbers = list(self.ops[at][1:])
        numbers[field] = value
        return [*self.ops[:at], Op(self.ops[at].kind, *numbers), *self.ops[at + 1 :]]


def shrink(ops: Sequence[Op], fails: Fails, *, trials: int = 2_000, seconds: float = 10.0) -> Shrunk:
    """A shorter and simpler schedule that still fails; ``ops`` itself if none is found."""
    shrinker = Shrinker(ops, fails, trials, seconds)
    while True:
        before = shrinker.ops
        shrinker.drop_chunks()
        shrinker.drop_pairs()
        shrinker.change_numbers()
        if shrinker.stopped or shrinker.ops == before:
            break
    if not shrinker.stopped and len(shrinker.ops) > PAIRS_UP_TO:
        shrinker.stopped = "too long for trying pairs of operations"
    return Shrunk(shrinker.ops, shrinker.stopped)
