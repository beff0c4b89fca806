"""Victims: which branch gives the next page.

Each branch has at most one page that could go: the one at its tip.  A heap holds **offers**, each a number: what the
page is worth, and below it, in :data:`UID_BITS` bits, whose it is.  What an offer says is looked at only when it comes
up: one that another has replaced is dropped, one whose page can't go any more as well, and one whose page is worth
more by now goes back down.  So using, locking and unlocking cost an eviction nothing before it happens, and evicting
costs what is evicted.

Rules of upkeep:

- A branch keeps its offer in the attribute ``slot``, ``None`` for none.  A branch whose tip could go has one, which is
  in the heap, too, and says no more than the tip is worth.  So whoever makes a tip evictable, or worth less, calls
  :meth:`Victims.offer`.
- The heap is at most twice as large as there are branches (and :data:`SLACK`): else it is made again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import heapify, heappop, heappush, heapreplace

from kvlitmus.optimized.branch import Branch
from kvlitmus.optimized.policy import Worth

UID_BITS = 40
"""How many bits the number of a branch has."""

UID_MASK = (1 << UID_BITS) - 1

SLACK = 64
"""How many dead offers a heap may have besides as many as there are branches."""


class Victims:
    """The victims of one tier, among ``branches`` by number; ``tip`` says where the page is that could go, or -1."""

    def __init__(self, worth: Worth, tip: Callable[[Branch], int], branches: Mapping[int, Branch], slot: str) -> None:
        self.worth = worth
        self.tip = tip
        self.branches = branches
        self.slot = slot
        self.heap: list[int] = []

    def offer(self, branch: Branch) -> None:
        """The tip of this branch may be evictable now, or worth less than before."""
        position = self.tip(branch)
        if position < 0:
            return
        offer = (self.worth(branch, position) << UID_BITS) | branch.uid
        old = getattr(branch, self.slot)
        if old is not None and old <= offer:
            return
        setattr(branch, self.slot, offer)
        heappush(self.heap, offer)
        if len(self.heap) > 2 * len(self.branches) + SLACK:
            self.heap = [kept for one in self.branches.values() if (kept := getattr(one, self.slot)) is not None]
            heapify(self.heap)

    def best(self) -> Branch | None:
        """The branch whose tip goes first; ``None`` where nothing can."""
        heap, slot = self.heap, self.slot
        while heap:
            offer = heap[0]
            branch = self.branches.get(offer & UID_MASK)
            if branch is None or getattr(branch, slot) != offer:
                heappop(heap)
                continue
            position = self.tip(branch)
            if position < 0:
                heappop(heap)
                setattr(branch, slot, None)
                continue
            now = (self.worth(branch, position) << UID_BITS) | branch.uid
            if now == offer:
                return branch
            setattr(branch, slot, now)
            heapreplace(heap, now)
        return None

    def drop(self, branch: Branch) -> None:
        """This branch offers nothing until it is offered again."""
        setattr(branch, self.slot, None)
