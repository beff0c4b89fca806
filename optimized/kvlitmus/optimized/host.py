"""The host's memory as the state machines use it: pages taken, pages made room for, pages that wait to be freed.

What work in the background lets go of is *released*: put into a queue that the next tick frees, so that between two
ticks nothing changes behind the scheduler's back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np

from kvlitmus.optimized.mover import PageArray
from kvlitmus.optimized.pool import PagePool
from kvlitmus.optimized.tree import Place, Tree
from kvlitmus.optimized.work import NO_PAGES


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
        """Free what was released, which must be something."""
        pages, self.releasing = np.concatenate(self.releasing), []
        self.pool.give_back(pages)


class PageSlots(Sequence[int]):
    """The slots of some pages, spelled out where somebody looks at them."""

    def __init__(self, pages: PageArray, size: int) -> None:
        self.pages = pages
        self.size = size

    def __len__(self) -> int:
        return len(self.pages) * self.size

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[int]: ...
    def __getitem__(self, at: int | slice) -> int | Sequence[int]:
        spelled = self.pages[:, None].astype(np.int64) * self.size + np.arange(self.size)
        found: int | Sequence[int] = spelled.reshape(-1)[at].tolist()
        return found


class HostSide:
    """The host memory as a prefetch plan sees it (:class:`kvlitmus.spec.interface.plans.HostPool`)."""

    def __init__(self, host: HostTier, anchor: Place) -> None:
        self.host = host
        self.anchor = anchor
        self.size = host.tree.page_size
        self.taken = NO_PAGES

    def alloc(self, n: int) -> Sequence[int] | None:
        """``n`` slots, or ``None``."""
        pages = self.host.take(n // self.size)
        if pages is None:
            return None
        self.taken = pages
        return PageSlots(pages, self.size)

    def free(self, slots: Sequence[int]) -> None:
        """Take slots back."""
        self.host.pool.give_back(np.asarray(slots[:: self.size], np.int64) // self.size)

    def available(self) -> int:
        """How many slots could be handed out now."""
        return self.host.pool.free_count * self.size

    def evict(self, n: int) -> int:
        """Make ``n`` more slots available, or as many as can be; returns how many."""
        return self.host.tree.evict_host(n // self.size) * self.size

    def protect(self) -> None:
        """Pin the anchor."""
        self.host.tree.pin_place(self.anchor)

    def release(self) -> None:
        """Unpin the anchor."""
        self.host.tree.unpin_place(self.anchor)
