"""Host to device: what is cached on the host alone is brought back before it is computed with.

A **load back** is all or nothing: every page behind the resident prefix comes back, or none does.  Its pages are
resident at once, in device pages whose contents arrive layer by layer; until a tick acknowledges it the path is locked,
and the host copies that it reads from are pinned.  The host copies stay.

Room is made with both already protected: under write-back an eviction on the device may evict on the host, and would
otherwise take the very pages that are about to be read.

A load whose copy **fails** brings nothing.  One that can't be submitted is declined.  When one fails in flight, its
pages are the tree's already.  The tick that comes to it puts them back on the host alone, where they were; but if
somebody else has locked them by then, or has cached what follows them, it begins the load once more, as another job.
Until then whoever waits for a layer is told by a ``RuntimeError`` that it will not come.

Rules of upkeep: ``queue`` has the loads that are not acknowledged, in order; for each there is one lock on the place
where it ends and one pin on each of its pages.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from kvlitmus.optimized.copying import Copies
from kvlitmus.optimized.mover import Mover, PageArray, Ticket
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


class Loads(Copies):
    """All loads of one cache.  ``threshold``: fewer units than these are not worth a load."""

    def __init__(self, tree: Tree, pool: PagePool, mover: Mover, works: WorkTable, threshold: int = 0) -> None:
        super().__init__(tree, mover, works)
        self.pool = pool
        self.threshold = threshold

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
        sources: list[Run] = []
        try:
            runs = tree.runs(found.place, before)
            tree.pin(runs)
            sources = runs
            tree.lock(end)
            try:
                pages = self.room(behind)
            finally:
                tree.unlock(end)
            work = None if pages is None else self.start(found, sources, pages)
        except MemoryError:
            self.let_go(sources)
            tree.calls.changed = False
            raise
        if work is None:
            self.let_go(sources)
            return Loaded(before, None)
        return Loaded(before, work.device_pages, work)

    def let_go(self, sources: Sequence[Run]) -> None:
        """Nobody needs these host copies any more."""
        self.tree.unpin(sources)

    def cost(self, end: Place, behind: int) -> int:
        """How many pages are loaded, and newly locked on the path to ``end``."""
        return behind + self.tree.depth(end) - self.tree.locked_pages(end)

    def room(self, pages: int) -> PageArray | None:
        """Device pages; what lacks is evicted."""
        short = pages - self.pool.free_count
        if short > 0:
            self.tree.evict(short)
        return self.pool.take(pages)

    def start(self, found: Found, sources: list[Run], pages: PageArray) -> Work | None:
        """Submit the copy; then the pages are resident, and their contents are under way.

        Where it can't be submitted the pages are free again, and nothing has changed.
        """
        tree = self.tree
        ticket = None
        try:
            host_pages = tree.path_host_pages(found.place, found.resident)

            def copy() -> Ticket:
                tree.room_for_copies(found.place.branch)
                return self.mover.load(host_pages, pages)

            ticket = self.submit(LOAD, copy)
        finally:
            if ticket is None:
                self.pool.give_back(pages)
        if ticket is None:
            return None
        tree.make_resident(sources, pages)
        tree.lock(found.place)
        return self.follow(LOAD, found.place, sources, pages, host_pages, ticket)

    # -- go on and end -------------------------------------------------------------------------

    def copied(self, work: Work, layers: int) -> None:
        """So many more layers are copied and may be read; with the last it has landed."""
        work.layers = min(self.mover.layers, work.layers + layers)
        work.landed = work.layers == self.mover.layers

    def landed(self, work: Work) -> None:
        """All layers are copied."""
        self.copied(work, self.mover.layers)

    def fail(self, work: Work) -> None:
        """One that has failed: its pages leave the device, unless somebody else relies on them."""
        if self.tree.relied_on(work.runs):
            self.again(work)
            return
        self.finish(work)
        self.tree.leave_from(work.runs)

    def resubmit(self, work: Work) -> Ticket:
        """See :class:`Copies`."""
        return self.mover.load(work.host_pages, work.device_pages)

    def finish(self, work: Work) -> None:
        """One of them: unlock the path, unpin the sources."""
        self.works.remove(work)
        self.tree.unlock(work.place)
        self.let_go(work.runs)
