"""The whole cache: device and host, storage below, and everything under way between them.

:class:`HierarchicalCache` owns no rule of its own: the tree knows which page is on which tier, and each kind of work
has a state machine (:mod:`~kvlitmus.optimized.backup`, :mod:`~kvlitmus.optimized.load`, :mod:`~kvlitmus.optimized.put`,
:mod:`~kvlitmus.optimized.fetch`).  What follows from the calls of a flat cache is in :mod:`~kvlitmus.optimized.life`;
here is what a scheduler calls besides: prefetches, work in the background, storage that comes and goes.

**Two modes, one code.**  *Stepped*: a job goes on when :meth:`HierarchicalCache.advance` says so.
*Free-running* (a ``runner`` is given): copies are submitted to the mover's streams and storage jobs to the runner's
threads when they are begun; what they report is taken note of by :meth:`HierarchicalCache.tick`,
:meth:`HierarchicalCache.poll` and nothing else.

**Threads.**  A cache is one thread's, the scheduler's: the first one that calls it.  In a free-running cache what
another thread calls is refused with a ``RuntimeError`` (all that changes something but ``match``, ``resume``, ``lock``,
``unlock``, ``alloc`` and ``free``, where a look at the thread would cost as much as the call), until the scheduler's
has ended or said :meth:`~kvlitmus.optimized.life.TieredCache.hand_over`.  From **any** thread may be called:
:meth:`~kvlitmus.optimized.life.TieredCache.layers`, ``layers_ready`` and ``wait_layer`` with the number of a load, for
a model computes in a thread of its own; :meth:`faults`; all of :class:`~kvlitmus.optimized.runner.Threads`; and
``read_page`` and ``write_page`` of a mover, whose other methods are the scheduler's, too.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from kvlitmus.optimized.copying import wait_over
from kvlitmus.optimized.counters import Stats
from kvlitmus.optimized.fetch import Prefetched
from kvlitmus.optimized.late import PATIENCE
from kvlitmus.optimized.life import TieredCache, TierParts, scheduled
from kvlitmus.optimized.mover import PageArray
from kvlitmus.optimized.pool import Numbers
from kvlitmus.optimized.storage.base import PageStore
from kvlitmus.optimized.tree import Place, Units
from kvlitmus.optimized.work import BACKUP, FETCH, LOAD, QUERY, Progress, Work, ask, read_pages, write_pages

__all__ = ["HierarchicalCache", "Span", "TierParts"]


class Span(NamedTuple):
    """Which pages a job is about: those of the key ``units`` in ``namespace`` from unit ``start`` on."""

    namespace: Hashable
    units: Units
    start: int


class HierarchicalCache(TieredCache):
    """A cache over device, host and storage."""

    # -- loads ---------------------------------------------------------------------------------

    def loads_on(self, place: Place) -> list[Work]:
        """The loads under way that bring pages of the path to this place, somebody else's loads included.

        Whoever computes with the path waits for each layer of these: :meth:`wait_layer`.
        """
        if self.calls.torn:
            self.calls.refuse()
        self.tree.check(place)
        ends = {run.branch: run.hi for run in self.tree.runs(place)}
        return [
            work
            for work in self.loads.queue
            if (work.error is not None or not work.landed)
            and any(run.lo < ends.get(run.branch, 0) for run in work.runs)
        ]

    # -- prefetches ----------------------------------------------------------------------------

    @scheduled
    def prefetch(self, rid: Hashable, tokens: Numbers, namespace: Hashable = None) -> Prefetched:
        """Match a key, and begin to read what follows from storage; or refuse."""
        return self.fetches.submit(rid, namespace, self.units(tokens), self.now())

    @scheduled
    def poll(self, rid: Hashable) -> bool:
        """Whether a request need not wait any more; if so what was read for it is cached.  ``True`` if unknown."""
        self.fetches.ongoing.get(rid)  # an id that can't be looked up is refused before anything is done
        self.drain()
        return self.fetches.poll(rid, self.now())

    @scheduled
    def loaded(self, rid: Hashable) -> int:
        """How many units the prefetch of a request has added to the cache; told once, then 0."""
        return self.fetches.told(rid)

    @scheduled
    def abandon(self, rid: Hashable) -> None:
        """A waiting request is aborted: its prefetch ends, and nothing of it is cached."""
        self.fetches.abandon(rid)

    def occupied(self) -> int:
        """How many units the prefetches that requests wait for count against the rate limit."""
        return self.fetches.occupied

    # -- work in the background ----------------------------------------------------------------

    def jobs(self) -> Sequence[Work]:
        """All work under way, in the order in which it was begun."""
        return list(self.works)

    def span(self, work: Work) -> Span:
        """Which pages a job is about."""
        size = self.tree.page_size
        operation = work.operation
        if operation is not None:
            end = operation.start + len(work.names) * size
            return Span(operation.namespace, operation.units[:end], operation.start)
        units = self.tree.path_units(work.place)
        return Span(work.place.branch.namespace, units, len(units) - sum(hi - lo for _, lo, hi in work.runs) * size)

    @scheduled
    def advance(self, job: int, pages: int | None = None) -> None:
        """Stepped: let one job go on, a fetch or put for so many pages, a load for so many layers; or to its end.

        Raises ``ValueError`` for a job that is over or unknown, ``RuntimeError`` where jobs go on by themselves.
        """
        if not self.stepped:
            raise RuntimeError("this cache is free-running: its jobs go on by themselves")
        work = self.works.works.get(job)
        if work is None or work.landed:
            raise ValueError(f"job {job} can't go on: it is over, or there is none", job)
        if work.kind == BACKUP:
            if self.backups.advance(work, None):
                self.backups.landed(work)
        elif work.kind == LOAD:
            if self.loads.advance(work, pages):
                self.loads.copied(work, self.mover.layers if pages is None else pages)
        else:
            self.advance_storage(work, pages)

    def advance_storage(self, work: Work, pages: int | None) -> None:
        """Do a storage job's input or output now, page by page; of one that nobody waits for there is none."""
        store, at = work.store, work.done
        if work.kind == QUERY:
            self.report(Progress(work, 0 if work.cancelled else ask(store, work.names), True))
        elif work.cancelled:
            self.report(Progress(work, 0, True))
        else:
            step = read_pages if work.kind == FETCH else write_pages
            try:
                progress = Progress(work, *step(store, self.mover, work.names[at:], work.host_pages[at:], pages))
            except Exception as error:  # noqa: BLE001  it is the mover's, and it ends this job alone
                self.works.fault(work.kind, error)
                progress = Progress(work, 0, True)
            self.report(progress)

    def report(self, progress: Progress) -> None:
        """Hand what a storage job has achieved to its state machine."""
        self.calls.changed = True
        work, pages, over = progress
        if work.kind == QUERY:
            self.fetches.answered(work, pages)
        elif work.kind == FETCH:
            self.fetches.arrived(work, pages, over=over)
        else:
            self.puts.accepted(work, pages, over=over)

    def drain(self, timeout: float = 0.0) -> None:
        """Free-running: hand on what threads and copies have achieved; waits so long for a thread to tell something."""
        if self.stepped:
            return
        self.calls.changed = True
        reports = self.runner.drain(timeout)
        if self.late.works:
            self.late.look()
            reports = self.late.others(reports)
        for progress in reports:
            self.report(progress)
        self.backups.look()
        self.loads.look()

    @scheduled
    def tick(self) -> None:
        """What a scheduler calls once per step: take note of what has landed, and let go of what is over."""
        self.calls.changed = True
        if not self.stepped:
            self.drain()
        # At most ticks most of these have nothing to do, and a call costs more than a look.
        if self.backups.queue:
            self.backups.acks()
        if self.loads.queue:
            self.loads.acks()
        if self.host.releasing:
            self.host.free_released()
        if self.fetches.revoked:
            self.fetches.settle()
        if self.puts.over:
            self.puts.acks()

    # -- storage ----------------------------------------------------------------------

    @scheduled
    def attach(self, store: PageStore) -> bool:
        """Use this storage from now on; refused while there is one."""
        if self.store is not None:
            return False
        self.calls.changed = True
        self.store = self.fetches.store = self.puts.store = store
        return True

    @scheduled
    def detach(self) -> bool:
        """Use no storage any more: prefetches and puts end here; what is cached on device and host stays.

        It does not wait for threads that use the storage: what they work on stays held until they are done.
        """
        if self.store is None:
            return False
        self.calls.changed = True
        self.store = None
        self.fetches.detach()
        self.puts.detach()
        return True

    # -- observation ---------------------------------------------------------------------------

    def moving(self) -> PageArray:
        """The host pages in the hands of work under way: held by prefetches, waiting to be freed, or abandoned."""
        return np.concatenate([self.fetches.holding(), *self.host.releasing, self.host.pool.withheld])

    def stats(self) -> Stats:
        """See :meth:`FlatCache.stats`."""
        counts, waiting = self.works.counts, Counter([work.kind for work in self.jobs()])
        free_host, size = self.host.pool.free_count, self.mover.page_bytes
        return super().stats()._replace(free_host=free_host, work=counts, waiting=waiting, page_bytes=size)

    def faults(self) -> Sequence[BaseException]:
        """The last errors of copies, at most 16: all were contained."""
        return list(self.works.faults)

    # -- the end -------------------------------------------------------------------------------

    def close(self, timeout: float = 30.0) -> list[str]:
        """End all work, losing nothing that is on the host: where storage is attached, it gets what it lacks.

        That is what is being backed up and put, and what storage refused, or had no time for, when it was to be put.
        Prefetches are given up; pages that are on the device alone are nobody's loss.  Takes at most ``timeout``
        seconds, and returns the names of the pages that storage has not got.  Nothing may be
        asked of the cache afterwards.
        """
        self.own()
        if self.calls.torn:
            self.calls.refuse()
        until = time.monotonic() + timeout
        for operation in list(self.fetches.ongoing.values()):
            self.fetches.abandon(operation.rid)
        self.finish(until)
        before, missing = -1, self.puts.missing()
        while missing and missing != before:
            self.puts.start_all()
            self.finish(until)
            before, missing = missing, self.puts.missing()
        self.runner.close(max(0.0, until - time.monotonic()))
        self.tick()
        return self.puts.lacking()

    def finish(self, until: float) -> None:
        """Let all work go to its end; at most until a moment of :func:`time.monotonic`."""
        while self.works.works:
            for work in self.jobs():
                if self.stepped and not work.landed:
                    self.advance(work.id)
                elif work.ticket is not None and not work.landed:
                    wait_over(work.ticket, until - time.monotonic())
            self.drain(PATIENCE)
            self.tick()
            if time.monotonic() > until:
                return
