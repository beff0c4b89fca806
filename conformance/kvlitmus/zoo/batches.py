"""Room in batches: whoever begins to evict goes on until three pages have gone, on the device and on the host.

An eviction costs a walk through all pages, so it is worth more than one of them.  What it takes beyond what was lacking
is found free by the next one who lacks something.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kvlitmus.conformance.ports import Config
from kvlitmus.zoo.eager_host import EagerHost, EagerHostTarget, PageObject

BATCH = 3
"""So many pages go together."""


class Batches(EagerHost):
    """An eager host that rounds up."""

    def leave(self, count: int, spared: Sequence[PageObject]) -> int:
        """Whole batches leave the device."""
        return super().leave(-(-count // BATCH) * BATCH, spared)

    def drop(self, count: int) -> int:
        """Whole batches leave the host."""
        return super().drop(-(-count // BATCH) * BATCH)


class BatchesTarget(EagerHostTarget):
    """Makes them, with a host, without storage."""

    profile = replace(EagerHostTarget.profile, evict_batch=BATCH)

    def make(self, config: Config) -> Batches:
        """A fresh one."""
        super().make(config)
        return Batches(config)


target = BatchesTarget()
