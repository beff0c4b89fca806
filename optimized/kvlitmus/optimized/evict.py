"""Victims: which branch gives the next page.

Each branch has at most one page that could go: the one at its tip.  A heap holds **offers** ``(worth, uid, branch)``,
and looks at what they say only when they come up: an offer that another one has replaced is dropped, one whose page
can't go any more as well, and one whose page is worth more by now goes back down.  So using, locking and unlocking
costs an eviction nothing before it happens, and evicting costs what is evicted.

Rules of upkeep:

- A branch whose tip could go has an offer in ``offers`` and in the heap, worth no more than the tip is.  So whoever
  makes a tip evictable, or worth less, calls :meth:`Victims.offer`.
- The heap is at most twice as large as ``offers`` (and :data:`SLACK`): else it is made again.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush, heapreplace

from kvlitmus.optimized.branch import Branch
from kvlitmus.optimized.policy import Worth

Offer = tuple[int, int, Branch]

SLACK = 64
"""How many dead offers a heap may have besides as many as there are live ones."""


class Victims:
    """The victims of one tier; ``tip`` says where the page of a branch is that could go now, or -1."""

    def __init__(self, worth: Worth, tip: Callable[[Branch], int]) -> None:
        self.worth = worth
        self.tip = tip
        self.heap: list[Offer] = []
        self.offers: dict[Branch, Offer] = {}

    def offer(self, branch: Branch) -> None:
        """The tip of this branch may be evictable now, or worth less than before."""
        position = self.tip(branch)
        if position < 0:
            return
        worth = self.worth(branch, position)
        old = self.offers.get(branch)
        if old is not None and old[0] <= worth:
            return
        offer = (worth, branch.uid, branch)
        self.offers[branch] = offer
        heappush(self.heap, offer)
        if len(self.heap) > 2 * len(self.offers) + SLACK:
            self.heap = list(self.offers.values())
            heapify(self.heap)

    def best(self) -> Branch | None:
        """The branch whose tip goes first; ``None`` where nothing can."""
        heap, offers = self.heap, self.offers
        while heap:
            offer = heap[0]
            branch = offer[2]
            if offers.get(branch) is not offer:
                heappop(heap)
                continue
            position = self.tip(branch)
            if position < 0:
                heappop(heap)
                del offers[branch]
                continue
            worth = self.worth(branch, position)
            if worth == offer[0]:
                return branch
            offers[branch] = offer = (worth, branch.uid, branch)
            heapreplace(heap, offer)
        return None

    def drop(self, branch: Branch) -> None:
        """This branch offers nothing until it is offered again."""
        self.offers.pop(branch, None)
