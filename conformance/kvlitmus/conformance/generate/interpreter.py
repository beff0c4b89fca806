"""The player: plays the operations of a schedule as a lawful caller would.

It keeps the caller's side of the contract: what it allocates it frees, what it locks it
unlocks, a handle is used at once, and a request that runs is ended once.  The operations themselves
are in :mod:`kvlitmus.conformance.generate.actions`.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.conformance.checker.calls import pool, request, tiers, tree
from kvlitmus.conformance.checker.checker import Judge
from kvlitmus.conformance.generate.actions import MOVES
from kvlitmus.conformance.generate.schedule import Op
from kvlitmus.spec.units import Key

PAST = 24
"""So many keys are remembered that were computed before."""


class Player:
    """Plays schedules against one judge; remembers what the judge has no need to know."""

    moves = MOVES

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self.config = judge.config
        self.waiting: dict[int, Key] = {}
        self.waits: dict[int, Key] = {}
        self.waited: list[int] = []
        self.past: list[Key] = []
        self.serial = 0
        self.begun = 0

    def play(self, ops: Sequence[Op]) -> None:
        """Play all operations, then settle: give back what is held and empty the cache."""
        moves = self.moves
        for kind, a, b, c in ops:
            moves[kind](self, a, b, c)
        self.settle()

    def do(self, kind: str, a: int = 0, b: int = 0, c: int = 0) -> None:
        """Play one operation."""
        self.moves[kind](self, a, b, c)

    def computed(self, key: Key) -> None:
        """Somebody has computed this key, and may want it again."""
        if key.tokens and (not self.past or self.past[-1] != key):
            self.past.append(key)
            del self.past[:-PAST]

    def settle(self) -> None:
        """End everything that is still going on, and evict everything: nothing may be left."""
        judge = self.judge
        self.give_back()
        if judge.tiers is not None and judge.tiers.steps:
            tiers.settle(judge)
            self.waits.clear()
        if "evict" in judge.capabilities:
            tree.evict(judge, judge.capacity)
        if judge.tiers is not None and judge.tiers.steps:
            tiers.settle(judge)
            tiers.evict_host(judge, judge.config.host_pages * judge.size)

    def give_back(self) -> None:
        """End requests, give back receipts, free loans."""
        judge = self.judge
        for at, rid in enumerate(list(judge.requests)):
            request.end(judge, rid, keep=at % 2 == 0, upto=judge.requests[rid].upto)
        for receipt in list(judge.receipts):
            tree.unlock(judge, receipt)
        for loan in list(judge.loans):
            pool.free(judge, judge.loans.pop(loan).slots)
