"""The host's memory as the state machines use it: pages taken, pages made room for, pages that wait to be freed.

What work in the background lets go of is *released*: put into a queue that the next tick frees, so that between two
ticks nothing changes behind the scheduler's back.
"""

from __future__ import annotations

import numpy as np

from kvlitmus.optimized.mover import PageArray
from kvlitmus.optimized.pool import PagePool
from kvlitmus.optimized.tree import Tree


class HostTier:
    """The host pool, the tree that caches in it, and the release queue.

    Rules of upkeep: a page of the pool is free, or the host copy of a page of the tree, or held by a prefetch, or in
    ``releasing``; exactly one of these.
    """

    def __init__(self, pool: PagePool, tree: Tree) -> None:
        self.pool = pool
        self.tree = tree
        self.releasing: list[PageArray] = []

    def take(self, pages: int) -> PageArray | None:
        """Free pages, or ``None`` when there are too few or when a fault says so."""
        return self.pool.take(pages)

    def take_or_evict(self, pages: int) -> PageArray | None:
        """Free pages; where there are too few, what lacks is evicted, once, and it is tried again."""
        taken = self.pool.take(pages)
        if taken is None:
            self.tree.evict_host(pages - self.pool.free_count)
            taken = self.pool.take(pages)
        return taken

    def release(self, pages: PageArray) -> None:
        """Have these pages freed by the next tick."""
        if len(pages):
            self.releasing.append(pages)

    def free_released(self) -> None:
        """Free what was released."""
        if self.releasing:
            pages, self.releasing = np.concatenate(self.releasing), []
            self.pool.give_back(pages)
