"""Host to device: what is cached on the host alone is brought back before it is computed with.

A **load back** is all or nothing: every page behind the resident prefix comes back, or none does.  Its pages are
resident at once, in device pages whose contents arrive layer by layer; until a tick acknowledges it the path is locked,
and the host copies that it reads from are pinned.  The host copies stay.

Room is made with both already protected: under write-back an eviction on the device may evict on the host, and would
otherwise take the very pages that are about to be read.

Rules of upkeep: ``queue`` has the loads that are not acknowledged, in order; for each there is one lock on the place
where it ends and one pin on each of its pages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import NamedTuple

from kvlitmus.optimized.mover import Mover, PageArray
from kvlitmus.optimized.pool import PagePool
from kvlitmus.optimized.tree import Found, Place, Run, Tree, Units
from kvlitmus.optimized.work import LOAD, NO_PAGES, Work, WorkTable


class Loaded(NamedTuple):
    """What came of a load back.

    ``before``: how many pages were resident.  ``pages``: the device pages of those that follow, in order; ``None``
    where it was declined or memory is short.  ``work``: the load under way, if there is one; whoever computes with its
    pages waits for its layers first.
    """

    before: int
    pages: PageArray | None
    work: Work | None = None


class Loads:
    """All loads of one cache.  ``threshold``: fewer units than these are not worth a load."""

    def __init__(self, tree: Tree, pool: PagePool, mover: Mover, works: WorkTable, threshold: int = 0) -> None:
        self.tree = tree
        self.pool = pool
        self.mover = mover
        self.works = works
        self.threshold = threshold
        self.queue: deque[Work] = deque()

    # -- begin ---------------------------------------------------------------------------------

    def load_back(self, namespace: Hashable, units: Units, quota: int | None = None) -> Loaded:
        """Bring what a key has on the host alone to the device.

        A ``quota`` limits how many units are loaded and newly locked together.
        """
        tree, size = self.tree, self.tree.page_size
        found = tree.match(namespace, units)
        before, behind = found.resident, found.known - found.resident
        end = tree.resident_place(found)
        if behind * size < self.threshold or (quota is not None and self.cost(end, behind) * size > quota):
            return Loaded(before, None)
        if not behind:
            return Loaded(before, NO_PAGES)
        sources = tree.runs(found.place, before)
        for run in sources:
            tree.pin(run)
        tree.lock(end)
        pages = self.room(behind)
        tree.unlock(end)
        if pages is None:
            for run in sources:
                tree.unpin(run)
            return Loaded(before, None)
        return Loaded(before, pages, self.start(found, sources, pages))

    def cost(self, end: Place, behind: int) -> int:
        """How many pages are loaded, and newly locked on the path to ``end``."""
        return behind + self.tree.depth(end) - self.tree.locked_pages(end)

    def room(self, pages: int) -> PageArray | None:
        """Device pages; what lacks is evicted."""
        short = pages - self.pool.free_count
        if short > 0:
            self.tree.evict(short)
        return self.pool.take(pages)

    def start(self, found: Found, sources: list[Run], pages: PageArray) -> Work:
        """The pages are resident, and their contents are under way."""
        tree = self.tree
        tree.make_resident(sources, pages)
        tree.lock(found.place)
        work = self.works.add(LOAD, found.place)
        work.runs, work.device_pages = sources, pages
        work.host_pages = tree.path_host_pages(found.place, found.resident)
        work.ticket = self.mover.load(work.host_pages, pages)
        self.queue.append(work)
        return work

    # -- go on and end -------------------------------------------------------------------------

    def copied(self, work: Work, layers: int) -> None:
        """So many more layers are copied and may be read; with the last it has landed."""
        work.layers = min(self.mover.layers, work.layers + layers)
        work.landed = work.layers == self.mover.layers

    def landed(self, work: Work) -> None:
        """All layers are copied."""
        self.copied(work, self.mover.layers)

    def acks(self) -> None:
        """Take note of the loads that have landed, up to the first that has not."""
        while self.queue and self.queue[0].landed:
            self.finish(self.queue.popleft())

    def finish(self, work: Work) -> None:
        """One of them: unlock the path, unpin the sources."""
        self.works.remove(work)
        self.tree.unlock(work.place)
        for run in work.runs:
            self.tree.unpin(run)
