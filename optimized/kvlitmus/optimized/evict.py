"""Victims: which branch gives the next page.

Each branch has at most one page that could go: the one at its tip.  A heap has the branches in the order in which their
tips go, and each branch knows where in the heap it is.  So a use moves one entry, an eviction takes the first one, and
both cost the logarithm of the number of branches, in compiled code: nothing piles up that a later call has to pay for.

Rules of upkeep:

- A branch whose tip could go is in the heap, at exactly what the tip is worth.  So whoever makes a tip evictable, or
  worth something else, calls :meth:`Victims.offer`.
- A branch whose tip can't go, because it was locked or something hangs behind it, may be in the heap at any worth; it
  is dropped when it comes up.  So locks cost nothing here.
- ``keys[uid]`` is the worth of a branch.  ``places[HEAP, :size]`` are the numbers of the branches in the order of a
  heap, and ``places[WHERE, uid]`` is where a branch is among them, -1 if it isn't.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from kvlitmus.optimized.branch import Branch
from kvlitmus.optimized.kernels import WHERE, heap_drop, heap_put
from kvlitmus.optimized.policy import Worth


class Victims:
    """The victims of one tier, among ``branches`` by number; ``tip`` says where the page is that could go, or -1."""

    def __init__(self, worth: Worth, tip: Callable[[Branch], int], branches: Mapping[int, Branch]) -> None:
        self.worth = worth
        self.tip = tip
        self.branches = branches
        self.size = 0
        self.keys: NDArray[np.int64] = np.zeros((0, 2), np.int64)
        self.places: NDArray[np.int32] = np.full((2, 0), -1, np.int32)

    def offer(self, branch: Branch) -> None:
        """The tip of this branch may be evictable now, or worth something else than before."""
        position = self.tip(branch)
        if position < 0:
            return
        if branch.uid >= len(self.keys):
            self.room(branch.uid)
        first, second = self.worth(branch, position)
        self.size = heap_put(self.keys, self.places, self.size, branch.uid, first, second)

    def best(self) -> Branch | None:
        """The branch whose tip goes first; ``None`` where nothing can."""
        while self.size:
            branch = self.branches[self.places.item(0)]
            if self.tip(branch) >= 0:
                return branch
            self.drop(branch)
        return None

    def drop(self, branch: Branch) -> None:
        """This branch gives nothing until it is offered again."""
        if branch.uid < len(self.keys):
            self.size = heap_drop(self.keys, self.places, self.size, branch.uid)

    def holds(self, branch: Branch) -> bool:
        """Whether a branch is in the heap."""
        return branch.uid < len(self.keys) and bool(self.places[WHERE, branch.uid] >= 0)

    def room(self, uid: int) -> None:
        """Have room for the branch with this number."""
        old, wanted = len(self.keys), uid + 1
        if wanted <= old:
            return
        new = wanted + (wanted >> 1) + 8
        keys, places = np.zeros((new, 2), np.int64), np.full((2, new), -1, np.int32)
        keys[:old], places[:, :old] = self.keys, self.places[:, :old]
        self.places = places  # first, so that there is never a key without one
        self.keys = keys
