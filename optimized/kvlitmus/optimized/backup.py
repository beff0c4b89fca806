"""Device to host: which pages are backed up, when, and what protects them meanwhile.

Under **write-through** a node is due when an insert uses it for the first time, under **selective write-through** for
the second time; under **write-back** nothing is due, and what is to leave the device is *spilled*: copied within the
eviction.  Backed pages are prefix-closed: a page waits until the one before it is backed.

A node gets its host pages when its backup is begun, and counts as backed from then on; the contents are there when the
copy has *landed*.  In between the device pages must stay what they are, so the path to the end of the node is locked
until a tick *acknowledges* the copy.  Acknowledgements come in the order of submission.

A backup whose copy **fails** has never been: one that can't be submitted waits for the node's next use, as if memory
were short, and when one fails in flight the tick that comes to it takes the host copies back and unlocks the path.  But
where something depends on these copies by then (a copy below them, or a prefetch that is to be attached there), the
tick begins the backup once more, as another job.  A spill whose copy fails leaves its pages on the device; after
:data:`GIVE_UP` failures in a row, pages that can't be copied go without, for a device that is never free again would be
worse.

Rules of upkeep: ``queue`` has the backups that are not acknowledged, in order; the pages of each are flagged busy
(nothing else begins with their host copies), and there is one lock on the place where they end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kvlitmus.optimized.copying import Copies
from kvlitmus.optimized.host import HostTier
from kvlitmus.optimized.mover import Mover, PageArray, Ticket
from kvlitmus.optimized.tree import BUSY, SETTLED, Place, Run, Tree
from kvlitmus.optimized.work import BACKUP, Work, WorkTable

WRITE_THROUGH, SELECTIVE, WRITE_BACK = "write_through", "write_through_selective", "write_back"
"""When a page is backed up: at its first use, at its second, or when it is evicted."""

USES = {WRITE_THROUGH: 1, SELECTIVE: 2, WRITE_BACK: 0}
"""After how many uses a node is due; 0: never."""

GIVE_UP = 8
"""After so many spills in a row that failed, pages leave the device without a host copy."""

NONE, WITHOUT = 0, -1
"""Nothing of a run was spilled, and it stays; or it is to go without."""


class Backups(Copies):
    """All backups of one cache.

    ``closed``: whether backed pages are prefix-closed.  ``backed`` is called with runs of pages whose contents are on
    the host now.  ``spilling``: the copy that an eviction waits for.
    """

    def __init__(self, tree: Tree, host: HostTier, mover: Mover, works: WorkTable, write: str) -> None:
        super().__init__(tree, mover, works)
        self.host = host
        self.uses = USES[write]
        self.closed = write != WRITE_BACK
        self.failures = 0
        self.spilling: list[Work] = []
        self.backed: Callable[[Sequence[Run]], None] = lambda _: None

    # -- begin ---------------------------------------------------------------------------------

    def used(self, place: Place) -> int:
        """Begin the backups that are due when an insert has used the path to ``place``.

        Returns how many of its pages are backed then, from the root on.  A node for which there isn't enough host
        memory waits for its next use, and so does what is below it.
        """
        backed = self.tree.backed(place, self.closed)
        if not self.uses or backed == self.tree.depth(place):
            return backed
        for node in self.tree.due(place, backed, self.uses):
            if not self.start(node):
                break
            backed += node.hi - node.lo
        return backed

    def start(self, node: Run) -> bool:
        """Begin to back up a node; ``False``, and nothing changed, where there is no memory or the mover raises."""
        pages = self.host.take_or_evict(node.hi - node.lo)
        if pages is None:
            return False
        device_pages = self.tree.device_run(node)

        def copy() -> Ticket:
            self.tree.room_for_copies(node.branch)
            return self.mover.backup(device_pages, pages)

        ticket = self.submit(BACKUP, copy)
        if ticket is None:
            self.host.pool.give_back(pages)
            return False
        end = self.tree.place(node.branch, node.hi)
        self.tree.give_host(node, pages, False, False)
        self.tree.set_flags((node,), BUSY)
        self.tree.lock(end)
        self.follow(BACKUP, end, (node,), device_pages, pages, ticket)
        return True

    # -- go on and end -------------------------------------------------------------------------

    def landed(self, work: Work) -> None:
        """The contents are on the host."""
        self.tree.set_flags(work.runs, SETTLED)
        work.landed = True

    def finish(self, work: Work) -> None:
        """One that has landed: unlock the path, let storage have the pages."""
        self.works.remove(work)
        self.tree.clear_flags(work.runs, BUSY)
        self.tree.unlock(work.place)
        self.backed(work.runs)

    def fail(self, work: Work) -> None:
        """One that has failed: its pages have no host copies, unless something depends on them."""
        if self.tree.depended_on(work.runs):
            self.again(work)
            return
        self.works.remove(work)
        self.tree.take_host(work.runs)
        self.host.pool.give_back(work.host_pages)
        self.tree.unlock(work.place)

    def resubmit(self, work: Work) -> Ticket:
        """See :class:`Copies`; the device pages are locked, and still what they were."""
        return self.mover.backup(work.device_pages, work.host_pages)

    # -- write-back ----------------------------------------------------------------------------

    def spill(self, run: Run) -> int:
        """Copy the last pages of a run to the host, as many as there is room for, and wait for it; returns how many.

        Where the copy fails there is nothing on the host: :data:`NONE`, or at last :data:`WITHOUT`.
        """
        wanted = run.hi - run.lo
        pages = self.host.take_or_evict(wanted)
        if pages is None:
            pages = self.host.take(min(wanted, self.host.pool.free_count))
        if pages is None or not len(pages):
            return NONE
        kept = Run(run.branch, run.hi - len(pages), run.hi)
        if not self.copied(kept, pages):
            self.host.pool.give_back(pages)
            self.failures += 1
            return WITHOUT if self.failures >= GIVE_UP else NONE
        self.failures = 0
        self.tree.give_host(kept, pages, True, False)
        self.backed((kept,))
        return len(pages)

    def copied(self, run: Run, pages: PageArray) -> bool:
        """Copy a run to these host pages now; whether that went well.

        Where an interrupt ends the wait the copy stays among those that are ``spilling``, for a reset to wait for.
        """
        work = self.works.aside(BACKUP, self.tree.place(run.branch, run.hi))
        try:
            self.tree.room_for_copies(run.branch)
            work.device_pages, work.host_pages = self.tree.device_run(run), pages
            work.ticket = self.mover.backup(work.device_pages, pages)
            self.spilling.append(work)
            work.ticket.wait()
        except Exception as error:  # noqa: BLE001  whatever is raised, the contents are not there
            self.works.fault(BACKUP, error)
            self.spilling.clear()
            work.error = error
            self.works.count(work, 0)
            return False
        self.spilling.clear()
        self.works.count(work, len(pages))
        return True
