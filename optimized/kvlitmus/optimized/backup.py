"""Device to host: which pages are backed up, when, and what protects them meanwhile.

Under **write-through** a node is due when an insert uses it for the first time, under **selective write-through** for
the second time; under **write-back** nothing is due, and what is to leave the device is *spilled*: copied within the
eviction.  Backed pages are prefix-closed: a page waits until the one before it is backed.

A node gets its host pages when its backup is begun, and counts as backed from then on; the contents are there when the
copy has *landed*.  In between the device pages must stay what they are, so the path to the end of the node is locked
until a tick *acknowledges* the copy.  Acknowledgements come in the order of submission.

Rules of upkeep: ``queue`` has the backups that are not acknowledged, in order; the pages of each are flagged busy
(nothing else begins with their host copies), and there is one lock on the place where they end.  ``spilling`` has the
copies of the eviction under way; between two calls there are none.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from kvlitmus.optimized.host import HostTier
from kvlitmus.optimized.mover import Mover, Ticket
from kvlitmus.optimized.tree import BUSY, SETTLED, Place, Run, Tree
from kvlitmus.optimized.work import BACKUP, Work, WorkTable

WRITE_THROUGH, SELECTIVE, WRITE_BACK = "write_through", "write_through_selective", "write_back"
"""When a page is backed up: at its first use, at its second, or when it is evicted."""

USES = {WRITE_THROUGH: 1, SELECTIVE: 2, WRITE_BACK: 0}
"""After how many uses a node is due; 0: never."""


class Backups:
    """All backups of one cache.

    ``backed`` is called with runs of pages whose contents are on the host now.
    """

    def __init__(self, tree: Tree, host: HostTier, mover: Mover, works: WorkTable, write: str) -> None:
        self.tree = tree
        self.host = host
        self.mover = mover
        self.works = works
        self.uses = USES[write]
        self.queue: deque[Work] = deque()
        self.spilling: list[Ticket] = []
        self.backed: Callable[[Sequence[Run]], None] = lambda _: None

    # -- begin ---------------------------------------------------------------------------------

    def used(self, place: Place, backed: int) -> int:
        """Begin the backups that are due when an insert has used the path to ``place``.

        ``backed``: how many of its pages are backed, from the root on; returns how many are then.  A node for which
        there isn't enough host memory waits for its next use, and so does what is below it.
        """
        if not self.uses or backed == self.tree.depth(place):
            return backed
        for node in nodes_behind(self.tree, place, backed):
            if not self.due(node) or not self.start(node):
                break
            backed += node.hi - node.lo
        return backed

    def due(self, node: Run) -> bool:
        """Whether a node was used often enough."""
        return self.tree.hits(Place(node.branch, node.lo + 1)) >= self.uses

    def start(self, node: Run) -> bool:
        """Begin to back up a node; whether there was memory for it."""
        pages = self.host.take_or_evict(node.hi - node.lo)
        if pages is None:
            return False
        end = Place(node.branch, node.hi)
        self.tree.give_host(node, pages, settled=False, stored=False)
        self.tree.set_flags(node, BUSY)
        self.tree.lock(end)
        work = self.works.add(BACKUP, end)
        work.runs, work.host_pages, work.device_pages = (node,), pages, self.tree.device_run(node)
        work.ticket = self.mover.backup(work.device_pages, pages)
        self.queue.append(work)
        return True

    # -- go on and end -------------------------------------------------------------------------

    def landed(self, work: Work) -> None:
        """The contents are on the host."""
        for run in work.runs:
            self.tree.set_flags(run, SETTLED)
        work.landed = True

    def acks(self) -> None:
        """Take note of the backups that have landed, up to the first that has not."""
        while self.queue and self.queue[0].landed:
            self.finish(self.queue.popleft())

    def finish(self, work: Work) -> None:
        """One of them: unlock the path, let storage have the pages."""
        self.works.remove(work)
        for run in work.runs:
            self.tree.clear_flags(run, BUSY)
        self.tree.unlock(work.place)
        self.backed(work.runs)

    # -- write-back ----------------------------------------------------------------------------

    def spill(self, run: Run) -> int:
        """Copy the last pages of a run to the host, as many as there is room for; returns how many.

        All that one eviction spills is copied one after the other and waited for once, by :meth:`spilled`.
        """
        wanted = run.hi - run.lo
        pages = self.host.take_or_evict(wanted)
        if pages is None:
            pages = self.host.take(min(wanted, self.host.pool.free_count))
        if pages is None or not len(pages):
            return 0
        kept = Run(run.branch, run.hi - len(pages), run.hi)
        self.tree.give_host(kept, pages, settled=True, stored=False)
        self.spilling.append(self.mover.backup(self.tree.device_run(kept), pages))
        self.backed((kept,))
        return len(pages)

    def spilled(self) -> None:
        """An eviction is over: its device pages are somebody else's next, so what they held is on the host before."""
        for ticket in self.spilling:
            ticket.wait()
        self.spilling.clear()


def nodes_behind(tree: Tree, place: Place, lo: int) -> Iterator[Run]:
    """The pages ``lo .. depth-1`` of a path, node by node; costs as many nodes as are looked at."""
    for branch, start, end in tree.runs(place, lo):
        starts = branch.node_starts()
        while start < end:
            at = bisect_right(starts, start)
            stop = min(end, starts[at]) if at < len(starts) else end
            yield Run(branch, start, stop)
            start = stop


def backed_pages(runs: Sequence[Run], *, closed: bool) -> int:
    """How many pages of a path have host copies, from its first one on.

    ``closed``: where one has a copy, all before it have; then the last page of a branch tells for all of them.
    """
    backed = 0
    for branch, lo, hi in runs:
        host = branch.host_pages
        if host is None:
            return backed
        if not (closed and host[hi - 1] >= 0):
            bare = host[lo:hi] < 0
            first = int(np.argmax(bare))
            if bare[first]:
                return backed + first
        backed += hi - lo
    return backed
