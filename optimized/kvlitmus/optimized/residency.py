"""Residency: which pages are on the device, which on the host, and how they come and go.

Of a branch the first ``dev`` pages are resident; the rest are on the host alone.  **Evicting from the device** takes
pages from where the resident part of some branch ends: with host copies they are *demoted* and everything else about
them lives on, without they are gone.  Under write-back they are written to the host first, by :attr:`Residency.spill`.
**Evicting from the host** takes pages from the tip of a branch that are on the host alone and not pinned.

Rules of upkeep:

- ``evictable`` and ``protected`` count the resident pages without and with a lock.
- ``free_uids`` has the numbers of branches that are gone, ``by_uid`` those in use: together all from 0 on.
- Whoever moves a tip, or makes it evictable, offers its branch (see :mod:`kvlitmus.optimized.evict`); whoever takes the
  last page, or the last resident one, of a branch offers its parent.
- Pages are taken node by node, as a radix tree would: at most to where the node of the tip begins.
- ``tell`` hears ``removed`` while the pages can still be named, and ``stored`` once they are there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kvlitmus.optimized.arrays import IntArray, PageArray
from kvlitmus.optimized.branch import SETTLED, STORED, Branch, Place, Run
from kvlitmus.optimized.calls import whole
from kvlitmus.optimized.evict import Victims
from kvlitmus.optimized.paths import Paths
from kvlitmus.optimized.policy import POLICIES
from kvlitmus.optimized.pool import PagePool

DEVICE, HOST = "device", "host"
"""The tiers that have pages."""

ADDED, REMOVED = "stored", "removed"
"""What is told of pages: they are on a tier now, or not any more."""


class Residency(Paths):
    """Branches with pages of a device pool and, where there is one, of a host pool.

    ``spill(run)`` is called under write-back for the run of pages without host copies that is to leave the device: it
    gives the last ``k`` of them host copies (:meth:`give_host`), with their contents, and returns ``k``; 0 where the
    host has no room or the copy failed, and the run is then passed over for the rest of the call; less where it is to
    go without, which it does unless something on the host follows it.  ``tell(what, tier, run)`` hears of every change
    of residency but the host copies that :meth:`give_host` makes; it doesn't raise.
    """

    def __init__(
        self,
        page_size: int,
        policy: str,
        pool: PagePool,
        *,
        host: PagePool | None = None,
        write_back: bool = False,
        restored_counts: bool = False,
        dtype: Any = np.int32,
    ) -> None:
        super().__init__(page_size, dtype)
        self.pool = pool
        self.calls = pool.calls
        self.host = host
        if host is not None:
            host.calls = pool.calls
        self.write_back = write_back
        self.restored_counts = restored_counts
        self.free_uids: list[int] = []
        self.evictable = 0
        self.protected = 0
        self.evicted = self.evicted_host = 0
        self.leaving: PageArray | None = None
        self.left = 0
        self.victims = Victims(POLICIES[policy], device_tip, self.by_uid)
        self.host_victims = Victims(POLICIES[policy], host_tip, self.by_uid)
        self.spill: Callable[[Run], int] | None = None
        self.tell: Callable[[str, str, Run], None] | None = None

    # -- from the device -----------------------------------------------------------------------

    @whole
    def evict(self, pages: int) -> int:
        """Free ``pages`` device pages, the least valuable first, or as many as are not locked; returns how many."""
        self.calls.changed = True
        freed = 0
        passed: set[Branch] = set()
        try:
            while freed < pages:
                branch = self.victims.best()
                if branch is None:
                    break
                gone = 0 if branch in passed else self.leave_device(branch, pages - freed)
                if not gone:
                    passed.add(branch)
                    self.victims.drop(branch)
                freed += gone
                self.evicted += gone
        finally:
            for branch in passed:
                self.victims.offer(branch)
        return freed

    def evict_pages(self, pages: int) -> PageArray:
        """The same; returns which they are, in ascending order."""
        outer = self.leaving, self.left
        self.leaving, self.left = np.empty(max(0, min(pages, self.evictable)), np.int32), 0
        try:
            gone = self.leaving[: self.evict(pages)]
            gone.sort()
            return gone
        finally:
            self.leaving, self.left = outer

    def leave_device(self, branch: Branch, most: int) -> int:
        """Take pages of the last resident node of a branch off the device, at most so many; returns how many."""
        hi = branch.dev
        lo = max(branch.node_start(hi - 1), hi - most, branch.protected())
        backed = branch.has_copy(hi - 1)
        if self.write_back and not backed:
            written = self.spill(Run(branch, lo, hi)) if self.spill is not None else 0
            if written > 0:
                lo, backed = hi - written, True
            elif not written or branch.n > hi or (branch.all_at is not None and hi in branch.all_at):
                return 0
        if self.tell is not None:
            self.tell(REMOVED, DEVICE, Run(branch, lo, hi))
        self.pool.release(branch.dev_pages[lo:hi])
        if self.leaving is not None:
            self.leaving[self.left : self.left + hi - lo] = branch.dev_pages[lo:hi]
            self.left += hi - lo
        self.evictable -= hi - lo
        if backed:
            branch.dev = lo
            branch.cut(lo)
            self.host_victims.offer(branch)
        else:
            assert branch.n == hi, "pages on the host alone behind one that has no host copy"
            self.shorten(branch, lo)
        if lo:
            self.victims.offer(branch)
        else:
            self.not_resident(branch)
        return hi - lo

    def leave_from(self, runs: Sequence[Run]) -> None:
        """These runs, the last resident pages of their branches, leave the device; with host copies and no locks."""
        for branch, lo, _ in reversed(runs):
            while branch.dev > lo and self.leave_device(branch, branch.dev - lo):
                pass

    def not_resident(self, branch: Branch) -> None:
        """The last resident page of a branch has left."""
        parent = branch.parent
        assert parent is not None
        uncount(parent.resident_at, branch.at)
        self.victims.offer(parent)

    def shorten(self, branch: Branch, end: int) -> None:
        """The pages from ``end`` on are gone; a branch without pages leaves the tree."""
        if end:
            branch.truncate(end, self.page_size)
            return
        parent = branch.parent
        assert parent is not None and parent.children is not None
        del parent.children[branch.key(self.page_size)]
        branch.n = branch.dev = 0
        self.victims.drop(branch)
        if self.host is not None:
            self.host_victims.drop(branch)
        del self.by_uid[branch.uid]
        self.free_uids.append(branch.uid)
        if parent.parent is None and not parent.children:
            del self.roots[parent.namespace]
        uncount(parent.all_at, branch.at)
        if self.host is not None:
            self.host_victims.offer(parent)

    # -- from the host -------------------------------------------------------------------------

    @whole
    def evict_host(self, pages: int) -> int:
        """Free ``pages`` host pages of what is on the host alone, or as many as can be; returns how many."""
        assert self.host is not None
        self.calls.changed = True
        freed = 0
        while freed < pages:
            branch = self.host_victims.best()
            if branch is None:
                break
            gone = self.leave_host(branch, pages - freed)
            freed += gone
            self.evicted_host += gone
        return freed

    def leave_host(self, branch: Branch, most: int) -> int:
        """Delete pages of the last node of a branch, down to the first that is pinned, at most so many."""
        assert self.host is not None and branch.host_pages is not None and branch.pins is not None
        hi = branch.n
        lo = max(branch.node_start(hi - 1), hi - most, branch.dev)
        pinned = np.flatnonzero(branch.pins[lo:hi])
        if len(pinned):
            lo += int(pinned[-1]) + 1
        if self.tell is not None:
            self.tell(REMOVED, HOST, Run(branch, lo, hi))
        self.host.give_back(branch.host_pages[lo:hi])
        self.shorten(branch, lo)
        self.host_victims.offer(branch)
        return hi - lo

    # -- to the host and back ------------------------------------------------------------------

    def room_for_copies(self, branch: Branch) -> None:
        """Have the memory that a copy of pages of this branch takes: the arrays that :meth:`give_host` fills in."""
        branch.room_for_copies()

    def give_host(self, run: Run, pages: IntArray, settled: bool, stored: bool) -> None:
        """Give the pages of a run host copies in these host pages.

        ``settled``: the contents are there; ``stored``: storage has them, too.
        """
        self.calls.changed = True
        run.branch.back(run.lo, run.hi, pages, (SETTLED if settled else 0) | (STORED if stored else 0))

    def take_host(self, runs: Sequence[Run]) -> None:
        """The resident pages of some runs have no host copies any more; whose host pages these are is the caller's."""
        self.calls.changed = True
        for branch, lo, hi in runs:
            branch.unback(lo, hi)

    def make_resident(self, runs: Sequence[Run], pages: IntArray) -> None:
        """Runs on the host alone, from the end of the resident part on, are resident in these device pages, too.

        It is no use: neither recency nor hits change.  Raises ``ValueError``, and changes nothing, where something
        between is not resident, and for pages that can't be the tree's.
        """
        for branch, lo, _ in runs:
            if lo != branch.dev:
                raise ValueError(f"what comes back follows the resident part (which ends at {branch.dev}, not {lo})")
        self.pool.adopt(pages)
        self.come_back(runs, pages)

    def come_back(self, runs: Sequence[Run], pages: IntArray) -> None:
        """The same, for pages that have been adopted already."""
        self.calls.changed = True
        at = 0
        for branch, lo, hi in runs:
            branch.dev_pages[lo:hi] = pages[at : at + hi - lo]
            at += hi - lo
            branch.dev = hi
            self.evictable += hi - lo
            if not lo and branch.parent is not None:
                branch.parent.resident_at = count(branch.parent.resident_at, branch.at)
            self.victims.offer(branch)
            if self.tell is not None:
                self.tell(ADDED, DEVICE, Run(branch, lo, hi))

    # -- what keeps host copies, and what is known of them -----------------------------------------

    def pin(self, runs: Sequence[Run]) -> None:
        """Keep the host copies of some runs once more; pages without one need nothing."""
        for run in runs:
            self._pin(run, 1)

    def unpin(self, runs: Sequence[Run]) -> None:
        """Give one pin of each back; raises ``ValueError`` where there is none."""
        for run in runs:
            self._pin(run, -1)
            self.host_victims.offer(run.branch)

    def pin_place(self, place: Place) -> None:
        """Keep the host copy of the last page of a prefix; a root needs nothing."""
        if place.end:
            self.pin((Run(place.branch, place.end - 1, place.end),))

    def unpin_place(self, place: Place) -> None:
        """Give that back."""
        if place.end:
            self.unpin((Run(place.branch, place.end - 1, place.end),))

    def set_flags(self, runs: Sequence[Run], flags: int) -> None:
        """Add flags to the host copies of some runs."""
        for branch, lo, hi in runs:
            if branch.flags is not None:
                self.calls.changed = True
                branch.flags[lo:hi] |= np.uint8(flags)

    def clear_flags(self, runs: Sequence[Run], flags: int) -> None:
        """Take flags from the host copies of some runs."""
        for branch, lo, hi in runs:
            if branch.flags is not None:
                self.calls.changed = True
                branch.flags[lo:hi] &= np.uint8(~flags & 255)

    def clear_all_flags(self, flags: int) -> None:
        """Take flags from all host copies."""
        self.clear_flags([Run(branch, 0, branch.n) for branch in self.branches()], flags)

    # -- what depends on copies that have failed -----------------------------------------------

    def relied_on(self, runs: Sequence[Run]) -> bool:
        """Whether somebody but the load of these runs has a lock on their pages, or something resident follows them.

        It may follow on any branch of theirs, also on one that the path has left, or on a branch of its own.
        """
        own = {run.branch for run in runs}
        for branch, lo, hi in runs:
            if branch.dev > hi or len([entry for entry in branch.locks or () if entry >> 1 > lo]) > 1:
                return True
            if any(child.dev and child.at > lo and child not in own for child in (branch.children or {}).values()):
                return True
        return False

    def depended_on(self, runs: Sequence[Run]) -> bool:
        """Whether somebody needs the host copies of these runs, or there are some below them."""
        for branch, lo, hi in runs:
            assert branch.pins is not None and branch.host_pages is not None
            if branch.pins[lo:hi].any() or (branch.host_pages[hi : branch.n] >= 0).any():
                return True
            if any(below.has_any_copy() for below in self.below(branch, lo)):
                return True
        return False

    def _pin(self, run: Run, by: int) -> None:
        branch, lo, hi = run
        if branch.host_pages is None or branch.pins is None:
            return
        copies = branch.host_pages[lo:hi] >= 0
        pins = branch.pins[lo:hi]
        if by < 0 and bool((pins[copies] < 1).any()):
            raise ValueError(f"pages {lo} to {hi} of this branch are not all pinned")
        self.calls.changed = True
        pins[copies] += by


def device_tip(branch: Branch) -> int:
    """Where the page of a branch is that could leave the device, or -1: resident, unlocked, nothing resident behind."""
    end = branch.dev
    if not end or (branch.locks is not None and branch.locks[-1] >> 1 >= end):
        return -1
    if branch.resident_at is not None and end in branch.resident_at:
        return -1
    return end - 1


def host_tip(branch: Branch) -> int:
    """Where the page of a branch is that could leave the host, or -1: on the host alone, unpinned, nothing behind."""
    end = branch.n
    if end == branch.dev or branch.pins is None or branch.pins[end - 1]:
        return -1
    if branch.all_at is not None and end in branch.all_at:
        return -1
    return end - 1


def count(counts: dict[int, int] | None, at: int) -> dict[int, int]:
    """One branch more hangs here."""
    if counts is None:
        return {at: 1}
    counts[at] = counts.get(at, 0) + 1
    return counts


def uncount(counts: dict[int, int] | None, at: int) -> None:
    """One branch less hangs here."""
    if counts is not None and at in counts:
        counts[at] -= 1
        if not counts[at]:
            del counts[at]
