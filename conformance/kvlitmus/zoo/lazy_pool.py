"""A lazy pool: what is given back lies in a heap until somebody wants memory, who sorts it into the free pages first.

Giving back is one append, which is what the end of a request should cost; allocations are rarer, and do the work.
Until then what lies in the heap is neither free nor anybody's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kvlitmus.conformance.ports import Config
from kvlitmus.zoo.page_map import PageMap, PageMapTarget


class LazyPool(PageMap):
    """A map of pages over such a pool."""

    def reset(self) -> None:
        """Nothing lies around."""
        super().reset()
        self.heap: list[int] = []

    def free(self, slots: Sequence[int]) -> None:
        """On the heap."""
        self.heap += slots[:: self.size]

    def alloc(self, n: int) -> list[int] | None:
        """Sort, then take."""
        self.unused.update(slot // self.size for slot in self.heap)
        self.heap.clear()
        return super().alloc(n)


class LazyPoolTarget(PageMapTarget):
    """Makes them for two policies."""

    profile = replace(PageMapTarget.profile, release_moment="taken")

    def make(self, config: Config) -> LazyPool:
        """A fresh one."""
        super().make(config)
        return LazyPool(config)


target = LazyPoolTarget()
