"""A rank's share of memory: as much of its pool as every rank can give.

Ranks may have unequal memory: another size of a pool, pages that work of before a reset still holds, pages lent to
others.  Each tells what it can give its cache, and what is more than the least of all is **withheld**.  So as
many pages are free on every rank, and what is granted or evicted for lack of memory is equal without a word.

Whatever changes how much a rank can give takes effect at a settle: on all ranks at the same point.  Before the first
one everything is withheld.
"""

from __future__ import annotations

import numpy as np

from kvlitmus.optimized.arrays import PageArray
from kvlitmus.optimized.pool import PagePool

NONE: PageArray = np.empty(0, np.int32)


class Share:
    """What one rank's cache has of one pool.

    ``late``: pages that nobody may have until work of before a reset is over.  ``lent``: those that others have, also
    after a reset; ``wanted``: how many these want.
    """

    def __init__(self, pool: PagePool, before: Share | None = None) -> None:
        self.pool = pool
        self.lent: PageArray = NONE if before is None else before.lent
        self.wanted: int = 0 if before is None else before.wanted
        self.asked = len(self.lent)
        pool.withhold(np.arange(pool.reserved, pool.reserved + pool.pages, dtype=np.int32))

    def lend(self, pages: int) -> None:
        """Others want so many pages, or no more than these any longer."""
        self.wanted = pages
        self.lent = self.lent[:pages]

    def offer(self, late: PageArray) -> int:
        """How many pages this rank can give its cache."""
        self.asked = min(self.wanted, self.pool.pages - len(late))
        return self.pool.pages - len(late) - max(self.asked, len(self.lent))

    def short(self, pages: int) -> int:
        """How many pages the cache has more than these: it is as many on every rank."""
        return self.pool.pages - len(self.pool.withheld) - self.pool.free_count - pages

    def fit(self, pages: int, late: PageArray) -> None:
        """The cache has so many pages from now on; what is in use beyond that is withheld when it is free."""
        pool, had = self.pool, self.pool.withheld
        asked = min(self.asked, self.wanted)
        if len(had) == pool.pages - pages and len(self.lent) >= asked:
            return
        kept = np.union1d(late, self.lent).astype(np.int32)
        spare = np.setdiff1d(had, kept)
        most = max(0, pool.pages - pages - len(kept))
        if len(spare) < most:
            spare = np.concatenate([spare, pool.free_pages()[: most - len(spare)]])
        spare = spare[:most]
        pool.withhold(np.concatenate([kept, spare]))
        self.lent = np.concatenate([self.lent, spare[: max(0, asked - len(self.lent))]])
