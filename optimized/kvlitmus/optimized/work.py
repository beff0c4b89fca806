"""Work in the background: what is under way, and the input and output that it does.

A :class:`Work` is begun and ended by a state machine, on the scheduler's thread.  What happens in between is of two
kinds:

- a **transfer** (backup, load) is a copy between device and host; its :class:`~kvlitmus.optimized.mover.Ticket` tells
  how far it is;
- a **storage job** (query, fetch, put) asks, reads or writes a store: :func:`ask`, :func:`read_pages` and
  :func:`write_pages`, which know nothing of the cache's state and contain whatever the store raises.

In *stepped* mode nothing goes on by itself: the cache does a job's input and output when it is told to, page by page.
In *free-running* mode a :class:`Runner` has threads that do the storage jobs, each by :func:`carry_out`.  What they
report is handed to the state machines by the scheduler's thread, when it ticks or polls.

**Whose is a page that a thread works on?**  From ``submit`` to the :class:`Progress` that is ``over``, a work's host
pages may be read or written by a thread, even when nobody wants the result any more.  So a state machine that gives a
work up sets ``cancelled`` and lets go of its pages only when that last report has come.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from kvlitmus.optimized.calls import TornCache
from kvlitmus.optimized.counters import WorkCount
from kvlitmus.optimized.mover import Mover, PageArray, Ticket
from kvlitmus.optimized.storage.base import PageStore
from kvlitmus.optimized.tree import Place, Run, Units

BACKUP, LOAD, QUERY, FETCH, PUT = "backup", "load", "query", "fetch", "put"
"""The kinds of work."""
KINDS = (BACKUP, LOAD, QUERY, FETCH, PUT)

QUERYING, FETCHING, ENDED, REVOKED = "query", "fetch", "ended", "revoked"
"""The stages."""

NO_PAGES: PageArray = np.empty(0, np.int32)


def no_pages() -> PageArray:
    """None: what work begins with."""
    return NO_PAGES


_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False, repr=False)
class Work:
    """One job.

    ``id``: never used twice by one cache.  ``runs``: the pages of the tree that a transfer or a put is about, in the
    order of the path; ``place``: where they end, or for a query or fetch the anchor.  ``device_pages``, ``host_pages``:
    what it copies, reads or writes, in the same order.  ``names``: of these pages in the ``store``.  ``done``: how many
    pages a fetch or put has behind it; ``layers``: how many layers of a load are copied.  ``landed``: the work itself
    is over, and only the notice of the next tick is missing.  ``error``: why a copy has failed; it has landed then,
    too.  ``instead_of``: the numbers of the copies that failed before it.  ``cancelled``: nobody wants the result any
    more; the one field that threads look at while it may change.  ``begun``: when, by :func:`time.monotonic`.
    """

    id: int
    kind: str
    place: Place
    runs: Sequence[Run] = ()
    device_pages: PageArray = field(default_factory=no_pages)
    host_pages: PageArray = field(default_factory=no_pages)
    ticket: Ticket | None = None
    names: Sequence[str] = ()
    store: PageStore | None = None
    operation: Operation | None = None
    rid: Any = -1
    instead_of: Sequence[int] = ()
    done: int = 0
    layers: int = 0
    error: BaseException | None = None
    landed: bool = False
    cancelled: bool = False
    begun: float = field(default_factory=time.monotonic)


@dataclass(slots=True, eq=False, repr=False)
class Operation:
    """One prefetch.

    ``namespace``: of the key, also when what is cached of it is gone.  ``units``: of the key, up to the last page to
    read; ``start``: how many of them come before those to read.
    ``anchor``: the place below which these will be attached.  ``names``: of the pages to read.  ``asked``: units to
    read, ``accounted``: what counts against the quota.  ``held``: host pages, for the first of ``names`` (for those
    behind the committed ones, once it has been left).  ``hit``: how many pages storage has, ``completed``: how many
    were read.  ``live``: whether a request waits for it.  ``since``: when its time began, ``None`` for not yet.
    """

    rid: Hashable
    namespace: Hashable
    anchor: Place
    units: Units
    start: int
    names: Sequence[str] = ()
    asked: int = 0
    accounted: int = 0
    held: PageArray = field(default_factory=no_pages)
    hit: int = 0
    completed: int = 0
    live: bool = True
    stage: str = QUERYING
    since: float | None = None
    work: Work | None = None


class WorkTable:
    """All work under way, by number, in the order in which it was begun.

    ``again``: by the number of a copy that has failed, the work that makes it once more, while that is under way.
    ``faults``: the last errors of copies, which were contained.  ``counts``: what was done, by kind.
    """

    def __init__(self) -> None:
        self.last = 0
        self.unlisted = 0
        self.works: dict[int, Work] = {}
        self.again: dict[int, Work] = {}
        self.faults: deque[BaseException] = deque(maxlen=16)
        self.counts = {kind: WorkCount() for kind in KINDS}

    def add(
        self,
        kind: str,
        place: Place,
        runs: Sequence[Run] = (),
        device_pages: PageArray = NO_PAGES,
        host_pages: PageArray = NO_PAGES,
        ticket: Ticket | None = None,
    ) -> Work:
        """New work; its number is never used again."""
        self.last += 1
        try:
            work = self.works[self.last] = Work(self.last, kind, place, runs, device_pages, host_pages, ticket)
        except MemoryError as error:  # whoever went on without it would leave its pages busy for ever
            raise TornCache("no memory to follow what has begun: reset(abort=True) the cache") from error
        self.counts[kind].begun += 1
        return work

    def aside(self, kind: str, place: Place) -> Work:
        """Work that is over before its call is, so that nobody looks for it: its number is negative."""
        self.unlisted -= 1
        self.counts[kind].begun += 1
        return Work(self.unlisted, kind, place)

    def count(self, work: Work, pages: int) -> None:
        """It is over, and has moved so many pages."""
        one = self.counts[work.kind]
        one.over += 1
        one.failed += work.error is not None
        one.pages += pages
        one.seconds += time.monotonic() - work.begun

    def remove(self, work: Work) -> None:
        """It is over, and was taken note of."""
        del self.works[work.id]
        copied = work.ticket is not None and work.error is None
        self.count(work, len(work.host_pages) if copied else work.done)
        for number in work.instead_of:
            del self.again[number]

    def replace(self, work: Work, fresh: Work) -> None:
        """This work is over, and what it was to do the fresh one does: whoever waits for the one waits for the other.

        Threads look up numbers meanwhile, so at no moment there is neither.
        """
        for number in (*work.instead_of, work.id):
            self.again[number] = fresh
        fresh.instead_of, work.instead_of = (*work.instead_of, work.id), ()
        del self.works[work.id]
        self.count(work, 0)

    def under_way(self, number: int) -> Work | None:
        """The work with this number, or the one that does it once more; ``None`` where it is over."""
        return self.works.get(number) or self.again.get(number)

    def clear(self) -> None:
        """Nothing is under way any more."""
        self.works.clear()
        self.again.clear()

    def fault(self, kind: str, error: BaseException) -> None:
        """A copy has failed."""
        _log.warning("a %s failed: %s", kind, error)
        self.faults.append(error)

    def of(self, kind: str) -> list[Work]:
        """The work of one kind, in order."""
        return [work for work in self.works.values() if work.kind == kind]

    def __iter__(self) -> Iterator[Work]:
        return iter(self.works.values())


# -- who does it ------------------------------------------------------------------------------------------


class Progress(NamedTuple):
    """What a storage job has achieved since its last report.

    ``pages``: how many more pages were read or taken; of a query, how many were found.  ``over``: this is the last
    report, and no thread touches the work's pages any more.
    """

    work: Work
    pages: int
    over: bool


class Runner(Protocol):
    """Who does the storage jobs of a free-running cache.  All three methods are called by the scheduler's thread."""

    def submit(self, work: Work) -> None:
        """Begin to :func:`carry_out` a query, fetch or put, in the background."""

    def drain(self, timeout: float = 0.0) -> list[Progress]:
        """What was reported since the last call, in the order of reporting; waits so many seconds for something.

        For each work submitted exactly one report comes that is ``over``, and none after it; cancelled or not.
        """

    def close(self, timeout: float = 30.0) -> list[str]:
        """End all threads: reads are given up, puts are carried out, for at most so many seconds.

        Returns the names of the pages that were to be put and are not.  What is drained afterwards has the last report
        of every work but those that a store has not answered.
        """


class Stepped:
    """The runner of stepped mode, which does nothing: jobs go on when the cache is told to advance them."""

    def submit(self, work: Work) -> None:
        """See :class:`Runner`."""

    def drain(self, timeout: float = 0.0) -> list[Progress]:
        """See :class:`Runner`."""
        return []

    def close(self, timeout: float = 30.0) -> list[str]:
        """See :class:`Runner`."""
        return []


# -- what is done -----------------------------------------------------------------------------------------


def ask(store: PageStore | None, names: Sequence[str]) -> int:
    """How many of these pages a store has, from the first one on; none when it raises."""
    if store is None:
        return 0
    try:
        return max(0, min(int(store.exists(names)), len(names)))
    except Exception:  # noqa: BLE001  whatever storage raises, it told nothing
        return 0


def read_pages(
    store: PageStore | None,
    mover: Mover,
    names: Sequence[str],
    host_pages: npt.NDArray[np.int32],
    limit: int | None = None,
    *,
    batch: int = 1,
) -> tuple[int, bool]:
    """Read pages into host pages, in order, at most ``limit`` of them, ``batch`` at a time.

    Returns how many were read, and whether it ended there because one is missing, has another size, or because the
    store raised.  What is beyond the pages that count may have been written, too.
    """
    wanted = len(names) if limit is None else min(limit, len(names))
    done = 0
    while done < wanted:
        some = names[done : min(done + batch, wanted)]
        good = 0
        found = _got(store, some, mover.page_bytes)
        for page, contents in zip(host_pages[done : done + len(some)], found, strict=False):
            if contents is None:
                break
            mover.write_page(int(page), contents)
            good += 1
        done += good
        if good < len(some):
            return done, True
    return done, False


def write_pages(
    store: PageStore | None,
    mover: Mover,
    names: Sequence[str],
    host_pages: npt.NDArray[np.int32],
    limit: int | None = None,
    *,
    batch: int = 1,
) -> tuple[int, bool]:
    """Write host pages to a store, in order, at most ``limit`` of them, ``batch`` at a time.

    Returns how many the store took before the first that it didn't, and whether there was such a one.
    """
    wanted = len(names) if limit is None else min(limit, len(names))
    done = 0
    while done < wanted:
        some = names[done : min(done + batch, wanted)]
        contents = [mover.read_page(int(page)) for page in host_pages[done : done + len(some)]]
        good = _taken(store, some, contents)
        done += good
        if good < len(some):
            return done, True
    return done, False


def carry_out(work: Work, mover: Mover, report: Callable[[Progress], None], *, batch: int = 32) -> None:
    """Do all of a storage job, from any thread; ``report`` is called after each batch, at last with ``over``.

    Between two batches a cancelled work ends.  An error that is not the store's (the mover's, say) ends the work, too,
    and is raised after the last report.
    """
    if work.kind == QUERY:
        report(Progress(work, 0 if work.cancelled else ask(work.store, work.names), True))
        return
    step = read_pages if work.kind == FETCH else write_pages
    names, pages = work.names, work.host_pages
    at, done, over = 0, 0, False
    try:
        while not over and not work.cancelled and at < len(names):
            done, over = step(work.store, mover, names[at : at + batch], pages[at : at + batch], batch=batch)
            at += done
            if not over and at < len(names):
                report(Progress(work, done, False))
                done = 0
    finally:
        report(Progress(work, done, True))


def _got(store: PageStore | None, names: Sequence[str], size: int) -> Sequence[bytes | None]:
    """What a store answers to a read; nothing when it raises."""
    if store is None:
        return ()
    try:
        return store.get(names, size)
    except Exception:  # noqa: BLE001  whatever storage raises, the pages didn't come
        return ()


def _taken(store: PageStore | None, names: Sequence[str], contents: Sequence[Any]) -> int:
    """How many pages a store took, from the first on; none of a batch in which it raised."""
    if store is None:
        return 0
    try:
        taken = store.put(names, contents)
    except Exception:  # noqa: BLE001  whatever storage raises is a refusal
        return 0
    good = 0
    for one in taken:
        if not one:
            break
        good += 1
    return min(good, len(names))
