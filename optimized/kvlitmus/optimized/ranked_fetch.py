"""Prefetches on one rank of several: what this rank has seen of them is told, and what all have seen ends them.

An answer of storage and pages that were read are noted in the job alone (``done``, ``landed``) until all ranks have
agreed on them.  Then storage has as many pages as it has on every rank, and as many are read as on every rank.  A
prefetch may end where every rank lets it, or where the reading of one has ended early: nothing more can come of it for
all.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from kvlitmus.optimized.fetch import BEST_EFFORT, REFUSED, Fetches, Prefetched
from kvlitmus.optimized.mover import PageArray
from kvlitmus.optimized.tree import Found, Place, Run, Units
from kvlitmus.optimized.work import ENDED, FETCHING, QUERYING, Operation


class RankedFetches(Fetches):
    """The prefetches of one rank.

    ``most``: so many may be under way, those included that only their jobs keep.  ``ending``: those that all ranks let
    end. ``backed`` is called with pages that have a host copy now.
    """

    most = 1

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.ending: set[Operation] = set()
        self.backed: Callable[[Sequence[Run]], None] = lambda _: None

    def under_way(self) -> list[Operation]:
        """All of them, in an order that is the same on every rank."""
        return [*self.ongoing.values(), *self.zombies]

    def submit(self, rid: Hashable, namespace: Hashable, units: Units, now: float) -> Prefetched:
        """See :class:`Fetches`; refused where too many are under way."""
        if len(self.ongoing) + len(self.zombies) >= self.most:
            return REFUSED
        return super().submit(rid, namespace, units, now)

    def look_up(self, namespace: Hashable, units: Units) -> Found:
        """What is cached of a key; that is no use."""
        return self.tree.find(namespace, units)

    def anchor(self, found: Found) -> Place:
        """Where the pages with host copies end: what follows on the device alone is read, too, and gets copies so."""
        return self.tree.ascend(found.place, self.tree.backed(found.place, True))

    # -- what this rank has seen ---------------------------------------------------------------

    def seen(self, operation: Operation, now: float) -> tuple[int, int, int, int]:
        """What this rank has to tell of one; see :data:`~kvlitmus.optimized.agreement.OF_A_PREFETCH`."""
        work, stage = operation.work, operation.stage
        assert work is not None
        reading = stage == FETCHING
        unbroken = not (reading and work.landed and work.done < len(work.names))
        told = work.done if reading or (stage == QUERYING and work.landed) else 0
        return told, int(work.landed), int(self.lets_end(operation, now)), int(unbroken)

    def lets_end(self, operation: Operation, now: float) -> bool:
        """Whether, to this rank alone, the request need not wait any more."""
        if operation.stage == FETCHING and operation.work is not None and operation.work.landed:
            return True
        return super().may_stop(operation, 0.0 if operation.since is None else now - operation.since)

    # -- what all have seen --------------------------------------------------------------------

    def agreed(self, operation: Operation, pages: int, over: int, may_end: int, unbroken: int) -> None:
        """Take note of what all ranks have seen of one."""
        work = operation.work
        assert work is not None
        if operation.live and (may_end or not unbroken):
            self.ending.add(operation)
        if operation.stage == QUERYING:
            if over:
                self.answered(work, pages)
        elif operation.stage == FETCHING and not operation.live:
            if over:
                self.bury(operation)
        elif operation.stage == FETCHING:
            operation.completed = pages
            if over:
                self.host.release(operation.held[pages:])
                operation.held = operation.held[:pages]
                operation.stage = ENDED
                self.works.remove(work)

    def may_stop(self, operation: Operation, elapsed: float) -> bool:
        """Whether the request need not wait any more, as all have agreed."""
        return self.settings.stop == BEST_EFFORT or operation.stage == ENDED or operation in self.ending

    def quit(self, operation: Operation) -> None:
        """See :class:`Fetches`."""
        super().quit(operation)
        self.ending.discard(operation)

    def commit(self, operation: Operation) -> None:
        """Cache all pages that every rank has read; the operation is over for its request.

        Where something follows a page that was cached already, and has no host copy, that is given the one that was
        read: so what follows can hang from it.  Other duplicates are freed.  What was cached is not used by this.
        """
        done, start = operation.completed, operation.start // self.size
        self.loaded.pop(operation.rid, None)
        if done:
            pages = operation.held[:done]
            units = operation.units[: (start + done) * self.size]
            found = self.tree.find(operation.namespace, units)
            known = found.known - start
            twice = self.give_copies(found, start, pages) if known < done else pages
            _, added = self.tree.insert_host(found.place, units[found.known * self.size :], pages[known:])
            if len(twice):
                self.host.pool.give_back(twice)
            if added:
                self.loaded[operation.rid] = added * self.size
            self.host.release(pages[known + added :])
        self.leave(operation)

    def give_copies(self, found: Found, start: int, pages: PageArray) -> PageArray:
        """Give what was found from page ``start`` on these host pages as copies, as far as it has none; the others.

        A node begins where this ends, when something hangs there: the pages of a node have copies, all or none.
        """
        tree, known = self.tree, found.known - start
        first = min(known, max(0, tree.backed(found.place, True) - start))
        if first < known:
            runs, at = tree.runs(found.place, start + first), first
            for run in runs:
                tree.room_for_copies(run.branch)
            for run in runs:
                tree.give_host(run, pages[at : at + run.hi - run.lo], True, True)
                at += run.hi - run.lo
            self.backed(runs)
        return pages[:first]
