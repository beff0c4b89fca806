"""Work that a reset could not wait for, and the pages that nobody may have until it is over.

A copy or a thread that hangs can't be stopped, and when it goes on it reads and writes the pages that it was given.  So
a reset that has waited long enough **abandons** such work: the fresh pools withhold its pages, and hand them out again
when the work turns out to be over after all.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable

import numpy as np

from kvlitmus.optimized.copying import wait_over
from kvlitmus.optimized.mover import PageArray
from kvlitmus.optimized.pool import PagePool
from kvlitmus.optimized.work import NO_PAGES, QUERY, Progress, Runner, Work

PATIENCE = 0.05
"""How long a wait for reports lasts before it looks again, in seconds."""

_log = logging.getLogger(__name__)


class LateWork:
    """The abandoned work of one cache, by number; ``pools`` are those of device and host that withhold its pages."""

    def __init__(self) -> None:
        self.works: dict[int, Work] = {}
        self.pools: tuple[PagePool, PagePool] | None = None

    def give_up(self, works: Iterable[Work], runner: Runner, until: float) -> None:
        """Tell all of these to end, and wait until they have; what has not at ``until`` is abandoned."""
        for work in works:
            work.cancelled = True
            if not work.landed:
                self.works[work.id] = work
        for work in list(self.works.values()):
            if work.ticket is not None and wait_over(work.ticket, until - time.monotonic()):
                self.let_go(work)
        left = until - time.monotonic()
        while left > 0 and any(work.ticket is None for work in self.works.values()):
            self.others(runner.drain(min(PATIENCE, left)))
            left = until - time.monotonic()
        if self.works:
            kinds = Counter([work.kind for work in self.works.values()])
            _log.warning("a reset has abandoned work that does not end: %s", dict(kinds))

    def withhold(self, device: PagePool, host: PagePool) -> None:
        """From now on these are the pools."""
        self.pools = device, host
        self.tell_pools()

    def look(self) -> None:
        """See which copies are over."""
        for work in list(self.works.values()):
            if work.ticket is not None and wait_over(work.ticket, 0.0):
                self.let_go(work)

    def others(self, reports: Iterable[Progress]) -> list[Progress]:
        """The reports that are not of abandoned work; of this it counts only that it is over."""
        others: list[Progress] = []
        for report in reports:
            if report.work.id not in self.works:
                others.append(report)
            elif report.over:
                self.let_go(report.work)
        return others

    def let_go(self, work: Work) -> None:
        """Nothing uses the pages of this work any more."""
        del self.works[work.id]
        self.tell_pools()

    def held(self) -> tuple[PageArray, PageArray]:
        """The pages of abandoned work, on device and host."""
        works = self.works.values()
        host = [work.host_pages for work in works if work.kind != QUERY]
        return self.pages([work.device_pages for work in works]), self.pages(host)

    def tell_pools(self) -> None:
        """The pools withhold the pages of abandoned work, and no others."""
        for pool, pages in zip(self.pools or (), self.held(), strict=False):
            pool.withhold(pages)

    @staticmethod
    def pages(parts: list[PageArray]) -> PageArray:
        """All of these pages, once."""
        return np.unique(np.concatenate(parts)) if parts else NO_PAGES
