"""Storage to host: reading ahead while a request waits.

A prefetch is an :class:`Operation` that goes through these stages:

``query``     storage is being asked how many of the pages it has;
``revoked``   it has too few; the next tick takes note of that and ends the operation;
``fetch``     the pages are being read, in order;
``ended``     the read is over: complete, or cut short by a page that is missing, too short, or raises.

In every stage a poll may find that the request need not wait any more, or the request may be aborted.  Either ends the
operation for the request at once: pin and quota are given back, what was read is committed or not.  A job still under
way then is nobody's any more; it ends at its next step, and returns what it holds.  Where threads read, that step is
their last report: until then the pages that they may write to stay held.

**Who has the n reserved pages**, when hit of them are in storage, c of these were read, m of those committed, and the
first x were cached already (n ≥ hit ≥ c ≥ m ≥ x ≥ 0): [0, x) are freed at the commit, [x, m) are the tree's, [m, c) are
released at the commit, [c, hit) when the read ends, [hit, n) when the query is answered.

Rules of upkeep: ``ongoing`` has the operation that each request waits for, and for each there is one pin on its anchor;
``occupied`` is the sum of what they account for.  ``zombies`` are the operations that nobody waits for while a job of
theirs is under way.  ``held``: the host pages that are an operation's own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import numpy as np

from kvlitmus.optimized.host import HostSide, HostTier
from kvlitmus.optimized.mover import PageArray
from kvlitmus.optimized.prefetch import PrefetchPlanner
from kvlitmus.optimized.storage.base import PageStore
from kvlitmus.optimized.tree import Found, Place, Tree, Units
from kvlitmus.optimized.work import (
    ENDED,
    FETCH,
    FETCHING,
    NO_PAGES,
    QUERY,
    QUERYING,
    REVOKED,
    Operation,
    Runner,
    Work,
    WorkTable,
)
from kvlitmus.spec.interface.plans import PrefetchAsk

BEST_EFFORT, WAIT_COMPLETE, TIMEOUT = STOPS = "best_effort", "wait_complete", "timeout"
"""How long a request waits for its prefetch: not at all, to the end, or to the end but not longer than a limit."""


class FetchSettings(NamedTuple):
    """What decides whether a prefetch starts, and when it need not be waited for.

    ``threshold``, ``rate_limit`` in units.  ``timeout``: base, seconds per 1024 units, and at most so many seconds (0:
    no limit).  ``timeout_basis``: the units that count are those found in storage (``hit``) or those ``requested``.
    ``timeout_from``: time runs from the ``submit`` or from the ``first_poll``.
    """

    threshold: int = 0
    rate_limit: int = 0
    stop: str = BEST_EFFORT
    timeout: tuple[float, float, float] = (2.0, 0.1, 30.0)
    timeout_basis: str = "hit"
    timeout_from: str = "submit"


class Prefetched(NamedTuple):
    """What came of asking: whether a prefetch ``started``, the pages ``matched``, the units that it is to read."""

    started: bool
    matched: int
    asked: int


REFUSED = Prefetched(False, 0, 0)


class Fetches:
    """All prefetches of one cache.

    ``names``: what the pages of ``units`` behind a place are called in storage.  ``threads``: whether works are in the
    hands of threads, which use their pages until they have told that they are over.
    """

    def __init__(
        self,
        host: HostTier,
        works: WorkTable,
        planner: PrefetchPlanner,
        names: Callable[[Place, Units], Sequence[str]],
        runner: Runner,
        settings: FetchSettings,
        *,
        threads: bool,
    ) -> None:
        self.host = host
        self.tree: Tree = host.tree
        self.works = works
        self.planner = planner
        self.names = names
        self.runner = runner
        self.settings = settings
        self.threads = threads
        self.size = host.tree.page_size
        self.store: PageStore | None = None
        self.ongoing: dict[Hashable, Operation] = {}
        self.zombies: list[Operation] = []
        self.revoked: list[Operation] = []
        self.loaded: dict[Hashable, int] = {}
        self.occupied = 0

    # -- the request's side --------------------------------------------------------------------

    def submit(self, rid: Hashable, namespace: Hashable, units: Units, now: float) -> Prefetched:
        """Match a key, and begin to read what follows; or refuse, and have changed nothing but recency.

        Refused is a second prefetch of one request, one without storage, and one whose last known page has no host
        copy: what would be read could not be attached below it.  Then the gates and the memory, as planned.  Raises
        ``ValueError`` or ``TypeError`` for a key that has no names in storage.
        """
        if self.store is None or rid in self.ongoing:
            return REFUSED
        found = self.look_up(namespace, units)
        matched = found.known
        anchor = self.anchor(found)
        if anchor is None:
            return Prefetched(False, matched, 0)
        operation = Operation(rid, namespace, anchor, units, self.tree.depth(anchor) * self.size)
        if not self.reserve(operation, len(units) - operation.start):
            return Prefetched(False, matched, 0)
        try:
            operation.units = units[: operation.start + operation.asked].copy()
            operation.names = self.names(anchor, operation.units[operation.start :])
            operation.since = now if self.settings.timeout_from == "submit" else None
            self.ongoing[rid] = operation
        except BaseException:  # of the key, which has no names, or of the id, which can't be looked up any more
            if not any(one is operation for one in self.ongoing.values()):
                self.host.pool.give_back(operation.held)
                self.tree.unpin_place(anchor)
                self.tree.calls.changed = False
            raise
        self.occupied += operation.accounted
        self.begin(QUERY, operation)
        return Prefetched(True, matched, operation.asked)

    def look_up(self, namespace: Hashable, units: Units) -> Found:
        """What is cached of a key; it is used now."""
        return self.tree.match(namespace, units)

    def anchor(self, found: Found) -> Place | None:
        """The place below which what is read will be attached; ``None`` where nothing could be."""
        return found.place if self.tree.has_host_copy(found.place) else None

    def reserve(self, operation: Operation, length: int) -> bool:
        """Plan, and take memory; or leave nothing behind."""
        settings = self.settings
        ask = PrefetchAsk(length, self.size, settings.threshold, True, self.occupied, settings.rate_limit)
        side = HostSide(self.host, operation.anchor)
        plan = self.planner.plan_prefetch(ask, side)
        if plan.refusal is not None:
            return False
        operation.held = side.taken  # the pages of the plan's slots, which needn't be spelled out
        operation.start += plan.key_start
        operation.asked, operation.accounted = plan.key_length, plan.accounted
        return True

    def begin(self, kind: str, operation: Operation) -> None:
        """Begin the next job of an operation, with the storage that was asked first."""
        before = operation.work
        work = operation.work = self.works.add(kind, operation.anchor)
        work.rid, work.operation, work.store = operation.rid, operation, before.store if before else self.store
        work.names, work.host_pages = operation.names, operation.held
        self.runner.submit(work)

    def poll(self, rid: Hashable, now: float) -> bool:
        """Whether the request need not wait any more; if so, what was read is cached."""
        operation = self.ongoing.get(rid)
        if operation is None:
            return True
        if operation.since is None:
            operation.since = now
        if not self.may_stop(operation, now - operation.since):
            return False
        self.commit(operation)
        return True

    def may_stop(self, operation: Operation, elapsed: float) -> bool:
        """Whether the request need not wait any more, after so much time.

        A revoked prefetch waits for the tick that takes note of it; *over* the limit is longer than the limit.
        """
        stop = self.settings.stop
        if stop == BEST_EFFORT or operation.stage == ENDED:
            return True
        return stop == TIMEOUT and operation.stage != REVOKED and elapsed > self.limit(operation)

    def limit(self, operation: Operation) -> float:
        """How many seconds a prefetch may take: a base, more for more units, at most a maximum if any."""
        base, per_1024, most = self.settings.timeout
        requested = self.settings.timeout_basis == "requested"
        units = operation.asked if requested else operation.hit * self.size
        limit = base + per_1024 * units / 1024
        return min(most, limit) if most else limit

    def commit(self, operation: Operation) -> None:
        """Cache the pages that were read, below the anchor; the operation is over for its request.

        Pages that were cached meanwhile stay as they are, and duplicates are freed.  Below a page without a
        host copy nothing can be attached, except under write-back: what was read for there is released, and so is
        everything where memory is short.
        """
        done = operation.completed
        self.loaded.pop(operation.rid, None)
        if done:
            pages = operation.held[:done]
            units = operation.units[operation.start : operation.start + done * self.size]
            try:
                known, added = self.tree.insert_host(operation.anchor, units, pages)
            except MemoryError:
                known = added = 0
            if known:
                self.host.pool.give_back(pages[:known])
            if added:
                self.loaded[operation.rid] = added * self.size
            self.host.release(pages[known + added :])
        self.leave(operation)

    def abandon(self, rid: Hashable) -> None:
        """The request is aborted: nothing of its prefetch is cached, and nothing is told of it."""
        operation = self.ongoing.get(rid)
        self.tree.calls.changed = True
        self.loaded.pop(rid, None)
        if operation is not None:
            self.host.release(operation.held[: operation.completed])
            self.leave(operation)

    def told(self, rid: Hashable) -> int:
        """How many units a request's prefetch has added to the cache; told once, then 0."""
        return self.loaded.pop(rid, 0)

    def leave(self, operation: Operation) -> None:
        """No request waits for the operation any more; its completed pages are at home elsewhere.

        Anchor and quota are free at once.  What storage or a thread still works on stays held until that work ends.
        """
        self.quit(operation)
        operation.held = operation.held[operation.completed :]
        if operation.stage in (QUERYING, FETCHING):
            self.orphan(operation)

    def quit(self, operation: Operation) -> None:
        """The request's side of the end."""
        operation.live = False
        del self.ongoing[operation.rid]
        self.occupied -= operation.accounted
        self.tree.unpin_place(operation.anchor)

    def orphan(self, operation: Operation) -> None:
        """The operation goes on for its job alone, which is told to end."""
        assert operation.work is not None
        operation.work.cancelled = True
        self.zombies.append(operation)

    # -- storage's side ------------------------------------------------------------------------

    def answered(self, work: Work, hit: int) -> None:
        """Storage has told how many of the first pages of a query it has: read them, or give up."""
        operation = work.operation
        assert operation is not None
        if not operation.live:
            self.bury(operation)
            return
        hit = operation.hit = min(hit, len(operation.names))
        if hit * self.size < max(self.settings.threshold, self.size):
            self.revoke(operation)
            return
        self.host.release(operation.held[hit:])
        operation.held, operation.names = operation.held[:hit], operation.names[:hit]
        operation.stage = FETCHING
        self.works.remove(work)
        self.begin(FETCH, operation)

    def revoke(self, operation: Operation) -> None:
        """There is too little; the memory goes back, and the next tick does the rest."""
        assert operation.work is not None
        operation.stage = REVOKED
        operation.work.landed = True
        self.host.release(operation.held)
        operation.held = NO_PAGES
        self.revoked.append(operation)

    def arrived(self, work: Work, pages: int, *, over: bool) -> None:
        """The contents of ``pages`` more pages of a fetch are on the host; ``over``: nothing more will come."""
        operation = work.operation
        assert operation is not None
        if not operation.live:
            if over:
                self.bury(operation)
            return
        work.done += pages
        operation.completed += pages
        if over or operation.completed == operation.hit:
            self.host.release(operation.held[operation.completed :])
            operation.held = operation.held[: operation.completed]
            operation.stage = ENDED
            self.works.remove(work)

    def bury(self, operation: Operation) -> None:
        """The last job of an operation that nobody waits for is over: what it held goes back."""
        assert operation.work is not None
        self.host.release(operation.held)
        operation.held = NO_PAGES
        self.zombies.remove(operation)
        self.works.remove(operation.work)

    def settle(self) -> None:
        """What a tick does for prefetches: it ends the revoked ones."""
        revoked, self.revoked = self.revoked, []
        for operation in revoked:
            assert operation.work is not None
            if operation.live:
                self.quit(operation)
            self.works.remove(operation.work)

    def detach(self) -> None:
        """Storage is gone: every prefetch ends, and what it held is released."""
        self.store = None
        self.settle()
        for operation in list(self.ongoing.values()):
            self.quit(operation)
            if operation.stage == ENDED:
                self.host.release(operation.held)
                operation.held = NO_PAGES
            else:
                self.orphan(operation)
        if not self.threads:
            for operation in list(self.zombies):
                self.bury(operation)

    def holding(self) -> PageArray:
        """The host pages that prefetches hold."""
        held = [operation.held for operation in (*self.ongoing.values(), *self.zombies)]
        return np.concatenate(held) if held else NO_PAGES
