"""Host to storage: pages that were backed up are put, so that others can find them and a restart doesn't lose them.

A put begins when a backup has been acknowledged, if storage is attached then.  Its pages go one by one in the order of
the prefix, each under the name that its hash chain gives it; where the store refuses or raises, the put ends, for what
would follow is of no use without what precedes it.  Pages that are not stored yet are tried again when an insert uses
them: those that were refused, and those that are older than the storage.

Rules of upkeep: the pages of a put are flagged busy and pinned once from its beginning to the tick that notices its
end, or, when storage is detached, until no thread reads them any more.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from kvlitmus.optimized.mover import PageArray
from kvlitmus.optimized.storage.base import PageStore
from kvlitmus.optimized.tree import BUSY, SETTLED, STORED, Place, Run, Tree
from kvlitmus.optimized.work import NO_PAGES, PUT, Runner, Work, WorkTable


class Puts:
    """All puts of one cache.

    ``names``: what the pages of a path from a depth on are called in storage.  ``threads``: whether works are in the
    hands of threads, which read their pages until they have told that they are over.
    """

    def __init__(
        self,
        tree: Tree,
        works: WorkTable,
        names: Callable[[Place, int], Sequence[str]],
        runner: Runner,
        *,
        threads: bool,
    ) -> None:
        self.tree = tree
        self.works = works
        self.names = names
        self.runner = runner
        self.threads = threads
        self.store: PageStore | None = None
        self.over: list[Work] = []

    # -- begin ---------------------------------------------------------------------------------

    def outstanding(self, runs: Sequence[Run]) -> None:
        """Begin to put those pages of a path that can be and need be put, one job for each contiguous run of them.

        ``runs``: backed pages that follow one another.
        """
        if self.store is None:
            return
        with contextlib.suppress(MemoryError):  # what could not begin waits for its next use
            self.start_waiting(runs)

    def start_waiting(self, runs: Sequence[Run]) -> None:
        """The same, as far as there is memory for it."""
        job: list[Run] = []
        for branch, lo, hi in runs:
            for start, end in self.waiting(Run(branch, lo, hi)):
                if job and (start > lo or job[-1].branch is branch):
                    self.start(job)
                    job = []
                job.append(Run(branch, start, end))
            if job and not (job[-1].branch is branch and job[-1].hi == hi):
                self.start(job)
                job = []
        if job:
            self.start(job)

    def waiting(self, run: Run) -> list[tuple[int, int]]:
        """The ranges of a run whose contents are on the host, neither stored nor on their way."""
        todo = self.tree.flags(run) == SETTLED
        if not todo.any():
            return []
        edges = np.flatnonzero(np.diff(np.concatenate(([False], todo, [False]))))
        return [(run.lo + int(start), run.lo + int(end)) for start, end in edges.reshape(-1, 2)]

    def start(self, runs: Sequence[Run]) -> None:
        """Begin to put these pages, which follow one another on one path.

        A path that has no names in storage (its namespace is no text) stays out of it.
        """
        first, last = runs[0], runs[-1]
        end = self.tree.place(last.branch, last.hi)
        try:
            names = self.names(end, first.branch.base + first.lo)
            host_pages = np.concatenate([self.tree.host_run(run) for run in runs])
        except TypeError:
            return
        self.tree.set_flags(runs, BUSY)
        self.tree.pin(runs)
        self.follow(end, runs, host_pages, names)

    def follow(self, end: Place, runs: Sequence[Run], host_pages: PageArray, names: Sequence[str]) -> None:
        """This put, of pages up to this end, is under way."""
        work = self.works.add(PUT, end, runs, NO_PAGES, host_pages)
        work.names, work.store = names, self.store
        self.runner.submit(work)

    # -- all at once ---------------------------------------------------------------------------

    def findable(self) -> Iterator[Run]:
        """All pages that storage could be asked for: those with host copies, for all before them have some as well.

        A host copy that another one stands behind is copied again where its backup failed (:mod:`.backup`).
        """
        for branch in self.tree.branches():
            bare = self.tree.host_run(Run(branch, 0, branch.n)) < 0
            if backed := int(np.argmax(bare)) if bare.any() else branch.n:
                yield Run(branch, 0, backed)

    def start_all(self) -> None:
        """Begin to put everything that can be and need be put."""
        for run in list(self.findable()):
            self.outstanding((run,))

    def missing(self) -> int:
        """How many pages storage should have and is not known to have."""
        if self.store is None:
            return 0
        return sum([int((self.tree.flags(run) & STORED == 0).sum()) for run in self.findable()])

    def lacking(self) -> list[str]:
        """The names of these pages, as far as they have one."""
        names: list[str] = []
        for branch, lo, hi in self.findable() if self.store is not None else ():
            missing = np.flatnonzero(self.tree.flags(Run(branch, lo, hi)) & STORED == 0)
            if len(missing):
                try:
                    path = self.names(self.tree.place(branch, hi), branch.base)
                except (TypeError, ValueError):
                    continue
                names += [path[at] for at in missing.tolist()]
        return names

    # -- go on and end -------------------------------------------------------------------------

    def accepted(self, work: Work, pages: int, *, over: bool) -> None:
        """The store has taken ``pages`` more pages of a put, which is ``over`` if it takes no more or has all."""
        if work.cancelled:
            if over:
                self.let_go(work)
            return
        done = work.done + pages
        self.mark(work, work.done, done)
        work.done = done
        if over or done == len(work.host_pages):
            work.landed = True
            self.over.append(work)

    def mark(self, work: Work, lo: int, hi: int) -> None:
        """These pages of a put are stored."""
        at, stored = 0, []
        for run in work.runs:
            start, end = max(lo, at) - at, min(hi - at, run.hi - run.lo)
            if start < end:
                stored.append(Run(run.branch, run.lo + start, run.lo + end))
            at += run.hi - run.lo
        self.tree.set_flags(stored, STORED)

    def acks(self) -> None:
        """Take note of the puts that are over."""
        over, self.over = self.over, []
        for work in over:
            self.end(work)

    def end(self, work: Work) -> None:
        """Take note of one that is over."""
        self.tree.clear_flags(work.runs, BUSY)
        self.let_go(work)

    def let_go(self, work: Work) -> None:
        """Nobody reads the pages of a put any more."""
        self.works.remove(work)
        self.tree.unpin(work.runs)

    def detach(self) -> None:
        """The storage is gone: every put ends where it is, and nothing counts as stored any more."""
        self.store = None
        self.over = []
        for work in self.works.of(PUT):
            if not work.cancelled:
                self.tree.clear_flags(work.runs, BUSY)
                work.cancelled = True
                if work.landed or not self.threads:
                    self.let_go(work)
        self.tree.clear_all_flags(STORED)
