"""The interpreter: plays the operations of a schedule as a lawful caller would.

It keeps the caller's side of the contract: what it allocates it frees, what it locks it
unlocks, a handle is used at once, and a request that runs is ended once.  The operations themselves
are in :mod:`kvlitmus.conformance.generate.actions`.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.conformance.checker.calls import pool, request, tiers, tree
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.generate.actions import ACTIONS
from kvlitmus.conformance.generate.schedule import Op
from kvlitmus.spec.units import Key

PAST = 24
"""So many keys are remembered that were computed before."""


class Interpreter:
    """Plays schedules against one judge; remembers what the judge has no need to know."""

    actions = ACTIONS

    def __init__(self, checker: Checker) -> None:
        self.checker = checker
        self.config = checker.config
        self.waiting: dict[int, Key] = {}
        self.waits: dict[int, Key] = {}
        self.waited: list[int] = []
        self.past: list[Key] = []
        self.serial = 0
        self.begun = 0

    def play(self, ops: Sequence[Op]) -> None:
        """Play all operations, then settle: give back what is held and empty the cache."""
        actions = self.actions
        for kind, a, b, c in ops:
            actions[kind](self, a, b, c)
        self.settle()

    def do(self, kind: str, a: int = 0, b: int = 0, c: int = 0) -> None:
        """Play one operation."""
        self.actions[kind](self, a, b, c)

    def computed(self, key: Key) -> None:
        """Somebody has computed this key, and may want it again."""
        if key.tokens and (not self.past or self.past[-1] != key):
            self.past.append(key)
            del self.past[:-PAST]

    def settle(self) -> None:
        """End everything that is still going on, and evict everything: nothing may be left."""
        checker = self.checker
        self.give_back()
        if checker.tiers is not None and checker.tiers.steps:
            tiers.settle(checker)
            self.waits.clear()
        if "evict" in checker.capabilities:
            tree.evict(checker, checker.capacity)
        if checker.tiers is not None and checker.tiers.steps:
            tiers.settle(checker)
            tiers.evict_host(checker, checker.config.host_pages * checker.size)

    def give_back(self) -> None:
        """End requests, give back receipts, free loans."""
        checker = self.checker
        for at, rid in enumerate(list(checker.requests)):
            request.end(checker, rid, keep=at % 2 == 0, upto=checker.requests[rid].upto)
        for receipt in list(checker.receipts):
            tree.unlock(checker, receipt)
        for loan in list(checker.loans):
            pool.free(checker, checker.loans.pop(loan).slots)
