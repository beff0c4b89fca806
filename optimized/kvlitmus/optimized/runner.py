"""Threads that read and write storage, for a cache that runs freely.

A scheduler hands a query, fetch or put to :meth:`Threads.submit` and goes on; threads carry it out, and what they
report is collected by :meth:`Threads.drain`.  Rules of the house:

* **The scheduler never waits.**  Queues are bounded, and where one is full a job is refused: at once, by a last report
  of no pages, as if storage had refused it.  A refused fetch costs a hit; the pages of a refused put are tried again
  when they are used again.
* **Requests wait for fetches, nobody waits for puts.**  So queries and fetches go first, and one thread of several does
  nothing else.  A put that was passed over :data:`PATIENCE` times goes next: pages that wait to be written are pinned.
* **A thread outlives whatever happens in it.**  Whatever a store or a mover raises ends that job alone, with the one
  last report that was promised, and is kept in :attr:`Threads.faults`.
* **An end loses nothing.**  :meth:`Threads.close` gives up reads, writes what was submitted to be written, and returns
  the names of the pages that could not be.  Where nobody calls it, the threads write what they have and end when the
  cache is forgotten, and an interpreter that ends waits for that.  A store that never answers is left behind when
  time is up: the threads don't keep a process alive.
"""

from __future__ import annotations

import atexit
import logging
import queue
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Mapping

from kvlitmus.optimized.mover import Mover
from kvlitmus.optimized.work import FETCH, PUT, QUERY, Progress, Work, carry_out

PATIENCE = 8
"""How many reads may overtake a put."""

SECONDS = 30.0
"""How long a close waits for what is being written, if it isn't told."""

BATCH_BYTES, MOST_PAGES, FEW_PAGES = 8 << 20, 256, 32
"""A batch is this many bytes, at most so many pages; so many where pages have no bytes."""

_log = logging.getLogger(__name__)


class Threads:
    """Carries out queries, fetches and puts in ``threads`` threads; a :class:`~kvlitmus.optimized.work.Runner`.

    mover: reads and writes the host's pages.  batch: how many pages are read or written between two reports; by
    default what makes some MiB.  limit: how many jobs of a kind (reads; puts) may wait.  Raises ``ValueError`` for
    numbers below 1.  All methods may be called from any thread; ``submit`` and ``drain`` are meant for the scheduler's.
    """

    def __init__(self, mover: Mover, *, threads: int = 4, batch: int | None = None, limit: int = 1024) -> None:
        if batch is None:
            batch = max(1, min(BATCH_BYTES // mover.page_bytes, MOST_PAGES)) if mover.page_bytes else FEW_PAGES
        if min(threads, batch, limit) < 1:
            raise ValueError(f"threads, batch and limit must be at least 1 (got {threads}, {batch} and {limit})")
        self.batch = batch
        self._desk = _Desk(mover, batch, limit)
        # Threads hold the desk and not this object, so that they end when it is forgotten.
        weakref.finalize(self, self._desk.let_go).atexit = False
        self._desk.start(threads)

    def submit(self, work: Work) -> None:
        """Begin a query, fetch or put in the background; refused where too many wait, or after a close."""
        self._desk.submit(work)

    def drain(self, timeout: float = 0.0) -> list[Progress]:
        """What was reported since the last call, in order; waits at most so many seconds until there is something.

        For each work submitted exactly one report comes that is ``over``, and none after it.
        """
        reports = self._desk.reports
        found: list[Progress] = []
        try:
            if timeout > 0:
                found.append(reports.get(timeout=timeout))
            while True:
                found.append(reports.get_nowait())
        except queue.Empty:
            return found

    def close(self, timeout: float = SECONDS) -> list[str]:
        """End: reads that have not begun are given up, writes are carried out; waits at most so many seconds.

        Returns the names of pages that were submitted to be written since the last close began and are not: the store
        refused them, or time was up.  What is drained afterwards has the last report of every work but those that a
        store still keeps a thread in.
        """
        return self._desk.close(timeout)

    # -- looking at it -------------------------------------------------------------------------

    @property
    def waiting(self) -> tuple[int, int]:
        """How many reads and how many puts wait for a thread."""
        return len(self._desk.reads), len(self._desk.puts)

    @property
    def faults(self) -> tuple[BaseException, ...]:
        """The last errors that were not the store's to report as a miss: at most 16."""
        return tuple(self._desk.faults)

    def counts(self) -> Mapping[str, int]:
        """What happened so far: works ``begun``, ``refused`` and ``faulty``, pages ``read`` and ``written``."""
        with self._desk.change:
            return dict(self._desk.counts)


class _Desk:
    """What the threads share: two queues, the reports, and whether it is the end."""

    def __init__(self, mover: Mover, batch: int, limit: int) -> None:
        self.mover = mover
        self.batch = batch
        self.limit = limit
        self.reads: deque[Work] = deque()
        self.puts: deque[Work] = deque()
        self.passed_over = 0
        self.under_way: dict[int, Work] = {}
        self.written: dict[int, int] = {}
        self.unwritten: list[str] = []
        self.reports: queue.SimpleQueue[Progress] = queue.SimpleQueue()
        self.faults: deque[BaseException] = deque(maxlen=16)
        self.counts: Counter[str] = Counter()
        self.closing = False
        self.change = threading.Condition()
        self.threads: list[threading.Thread] = []

    def start(self, threads: int) -> None:
        for at in range(threads):
            arguments = (threads > 1 and not at,)
            name = f"kvlitmus-storage-{at}"
            self.threads.append(threading.Thread(target=self.serve, args=arguments, name=name, daemon=True))
        _open.add(self)
        for thread in self.threads:
            thread.start()

    # -- the scheduler's side ------------------------------------------------------------------

    def submit(self, work: Work) -> None:
        if work.kind not in (QUERY, FETCH, PUT):
            raise ValueError(f"a {work.kind} is no job of storage", work.kind)
        line = self.puts if work.kind == PUT else self.reads
        with self.change:
            if self.closing or len(line) >= self.limit:
                self.counts["refused"] += 1
                self.give_up(work)
                return
            line.append(work)
            # Not each thread may take each work, so all are woken.
            self.change.notify_all()

    def give_up(self, work: Work) -> None:
        """The work is over before it has begun."""
        if work.kind == PUT and self.closing and not work.cancelled:
            self.unwritten += work.names
        self.reports.put(Progress(work, 0, True))

    def let_go(self) -> None:
        """Nothing will be submitted any more.  It is called when garbage is collected, so it does no more than this."""
        with self.change:
            self.closing = True
            self.change.notify_all()

    def close(self, timeout: float) -> list[str]:
        until = time.monotonic() + timeout
        with self.change:
            self.closing = True
            for work in self.under_way.values():
                work.cancelled |= work.kind != PUT
            self.change.notify_all()
        for thread in self.threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, until - time.monotonic()))
        with self.change:
            while self.reads or self.puts:
                self.give_up((self.reads or self.puts).popleft())
            for at, work in self.under_way.items():
                if work.kind == PUT and not work.cancelled:
                    self.unwritten += work.names[self.written[at] :]
            unwritten, self.unwritten = self.unwritten, []
        if unwritten:
            _log.warning("%d pages could not be written to storage at the end", len(unwritten))
        return unwritten

    # -- the threads' side ---------------------------------------------------------------------

    def serve(self, reads_only: bool) -> None:
        """What a thread does all its life."""
        while (work := self.next(reads_only)) is not None:
            self.carry_out(work)
            del work  # a work that waits for its successor would keep its cache alive

    def next(self, reads_only: bool) -> Work | None:
        """The next work for this thread; waits for one, and returns ``None`` when none will come."""
        with self.change:
            while True:
                while self.closing and self.reads:
                    self.give_up(self.reads.popleft())
                put_is_due = self.puts and not reads_only and self.passed_over >= PATIENCE
                if self.reads and not put_is_due:
                    work = self.reads.popleft()
                    self.passed_over += bool(self.puts)
                elif self.puts and not reads_only:
                    work = self.puts.popleft()
                    self.passed_over = 0
                elif self.closing:
                    return None
                else:
                    self.change.wait()
                    continue
                self.counts["begun"] += 1
                self.under_way[threading.get_ident()] = work
                self.written[threading.get_ident()] = 0
                return work

    def carry_out(self, work: Work) -> None:
        """Do all of a work; whatever is raised, one last report comes of it."""
        me = threading.get_ident()
        over = False

        def report(progress: Progress) -> None:
            nonlocal over
            over = progress.over
            if work.kind != QUERY:
                with self.change:
                    self.written[me] += progress.pages
                    self.counts["written" if work.kind == PUT else "read"] += progress.pages
            if not over:
                self.reports.put(progress)
            else:
                self.last(work, progress.pages)

        try:
            carry_out(work, self.mover, report, batch=self.batch)
        except BaseException as error:  # noqa: BLE001  a thread outlives whatever a store or a mover raises
            _log.warning("a %s ended by an error", work.kind, exc_info=error)
            with self.change:
                self.faults.append(error)
                self.counts["faulty"] += 1
        finally:
            if not over:
                self.last(work, 0)

    def last(self, work: Work, pages: int) -> None:
        """The last report of a work; from here on this thread doesn't touch its pages."""
        me = threading.get_ident()
        with self.change:
            del self.under_way[me]
            if work.kind == PUT and self.closing and not work.cancelled:
                self.unwritten += work.names[self.written[me] :]
        self.reports.put(Progress(work, pages, True))


_open: weakref.WeakSet[_Desk] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """The interpreter ends: what was submitted to be written is written."""
    for desk in list(_open):
        desk.close(SECONDS)
