"""The prefix tree: what is cached under which tokens, on device and host.

The tree maps prefixes of prompts, in whole pages and namespace by namespace, to pages of the pools.  It is made of
branches (:mod:`kvlitmus.optimized.branch`); finding a prefix is in :mod:`kvlitmus.optimized.paths`, coming and going in
:mod:`kvlitmus.optimized.residency`.  Here is what counts as a use: matching, inserting, locking.

Rules of upkeep:

- ``clock`` is raised once by every call that is a use, whether it finds anything or not.  All pages that the call uses
  get this tick.
- A call that ends within a node cuts it there: a node is what was always used alike.
- What a tip is worth may change with every use: when levels and hits are as they will be, :meth:`Tree._offer_used` says
  so to the heaps.
- A branch has at most one entry in its parent's ``locks``, and only while it has locks itself: so locking and unlocking
  go up to the first branch that stays locked, and no further.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable

from kvlitmus.optimized import inputs, levels
from kvlitmus.optimized.arrays import IntArray
from kvlitmus.optimized.branch import BUSY, SETTLED, STORED, Branch, Found, Inserted, Match, Place, Run, Units
from kvlitmus.optimized.calls import whole
from kvlitmus.optimized.residency import ADDED, DEVICE, HOST, Residency, count

__all__ = ["BUSY", "SETTLED", "STORED", "Branch", "Found", "Inserted", "Place", "Run", "Tree", "Units"]


class Tree(Residency):
    """Prefixes to pages.  Units are arrays of tokens, or of packed bigrams; what fills no page is left out."""

    # -- match ---------------------------------------------------------------------------------

    @whole
    def match(self, namespace: Hashable, units: Units) -> Found:
        """The longest known prefix of a key; all of it is used now."""
        return self._matched(*self.walk(self.root(namespace), 0, self.units_of(units)))

    @whole
    def match_pages(self, namespace: Hashable, units: Units) -> Match:
        """:meth:`match`, with the pages of what is resident."""
        found = self.match(namespace, units)
        place = self.resident_place(found)
        return Match(self.path_pages(place), place, found.known - found.resident, found.place)

    @whole
    def resume(self, place: Place, units_behind: Units) -> Found:
        """:meth:`match` for a caller that knows, and keeps locked, the place where a part of its key ends.

        Only the units behind it are compared.  Raises :class:`StaleHandle` where the place is gone, and ``ValueError``
        where it is not locked, and so may be gone at the next call.
        """
        branch, end = self.kept(place)
        return self._matched(*self.walk(branch, end, self.units_of(units_behind)))

    def _matched(self, branch: Branch, end: int) -> Found:
        self.calls.changed = True
        self.clock += 1
        self._touch(branch, end)
        self._offer_used(branch, end)
        return Found(Place(branch, end, self.clock), self.resident(branch, end), branch.base + end)

    def _touch(self, branch: Branch, end: int) -> None:
        """The path to this place is used now, and a node ends here."""
        branch.cut(end)
        tick = self.clock
        while branch.parent is not None:
            branch.touched = tick if end >= branch.n else levels.set_prefix(branch.touched, end, tick, branch.n)
            end = branch.at
            branch = branch.parent

    def _offer_used(self, branch: Branch, end: int) -> None:
        """The tips that a use of the path to this place has reached are worth something else now.

        Without a host tier that can only be the last branch's: behind the others something resident hangs.
        """
        if end >= branch.dev:
            self.victims.offer(branch)
        if self.host is None:
            return
        while branch.parent is not None:
            if end >= branch.n:
                self.host_victims.offer(branch)
            end = branch.at
            branch = branch.parent
            if end >= branch.dev:
                self.victims.offer(branch)

    # -- insert --------------------------------------------------------------------------------

    def insert(
        self, namespace: Hashable, units: Units, pages: IntArray, *, priority: int = 0, counts: bool = True
    ) -> Inserted:
        """Cache what is missing of a key on the device, in the ``pages`` offered, one for each page of the key.

        What is on the host alone becomes resident in the offered pages, too.  Pages that were resident win over
        offered ones, and these stay the caller's.  A hit is counted on the whole path where ``counts`` says so (but
        of pages that come back from the host only if ``restored_counts``); priority never falls.  Raises
        ``ValueError``, and changes nothing, for fewer units than pages, for a priority of more than 62 bits, and where
        a page that would be the tree's is free, named twice, not the pool's or the tree's already.
        """
        return self.insert_behind(Place(self.root(namespace), 0), units, pages, priority=priority, counts=counts)

    def insert_behind(
        self, place: Place, units: Units, pages: IntArray, *, priority: int = 0, counts: bool = True
    ) -> Inserted:
        """:meth:`insert` for a caller that knows, and keeps locked, the resident place where a part of its key ends.

        Units and pages are those behind it; ``already`` counts from the root all the same.
        """
        return self._insert(place, units, pages, priority, counts)

    @whole
    def _insert(self, place: Place, units: Units, pages: IntArray, priority: int, counts: bool) -> Inserted:
        size = self.page_size
        top, start = self.kept(place)
        units = self.units_of(units)
        wanted = len(pages) * size
        if len(units) < wanted:
            raise ValueError(f"{len(pages)} pages need {wanted} units (got {len(units)})")
        priority = inputs.priority(priority)
        branch, end = self.walk(top, start, units[:wanted] if len(units) > wanted else units)
        above = top.base + start
        known, already = branch.base + end - above, self.resident(branch, end)
        new = units[known * size : wanted]
        room = self.room(branch, end, new) if known < len(pages) else None
        back = self.runs(Place(branch, end), already) if already < known + above else ()
        if already - above < len(pages):
            self.pool.adopt(pages[already - above :])
        self.calls.changed = True
        self.clock += 1
        if back:
            self.come_back(back, pages[already - above : known])
        self._touch(branch, end)
        self._count(branch, end, already, priority, counts)
        if room is not None:
            branch = self._attach(room, branch, end, new, pages[known:], priority, counts=counts)
            end = branch.n
        self._offer_used(branch, end)
        return Inserted(already, Place(branch, end, self.clock))

    def _count(self, branch: Branch, end: int, already: int, priority: int, counts: bool) -> None:
        """Count a hit of what was resident already on the path to this place, and raise its priority."""
        while branch.parent is not None:
            if counts:
                branch.count(0, end if self.restored_counts else min(end, already - branch.base))
            if branch.priority != priority:
                branch.priority = levels.raise_prefix(branch.priority, end, priority, branch.n)
            end = branch.at
            branch = branch.parent

    def room(self, branch: Branch, end: int, units: Units) -> Branch:
        """Memory for these units behind this place: their branch, with room for them, and nothing else changed.

        Whatever takes much memory is taken here, before an insert has any effect.
        """
        if end == branch.n and branch.parent is not None:
            calls = self.calls
            before, calls.changed = calls.changed, True  # its arrays are moved one after the other
            try:
                branch.room(len(units) // self.page_size, self.page_size)
            except MemoryError:
                calls.changed = before
                raise
            calls.changed = before
            return branch
        uid = self.free_uids[-1] if self.free_uids else len(self.by_uid)
        self.victims.room(uid)
        if self.host is not None:
            self.host_victims.room(uid)
        new = Branch(branch.namespace, branch, end, uid, self.clock, self.no_units)
        new.room(len(units) // self.page_size, self.page_size)
        return new

    def _attach(
        self,
        room: Branch,
        branch: Branch,
        end: int,
        units: Units,
        pages: IntArray,
        priority: int,
        *,
        counts: bool = False,
        on_host: bool = False,
    ) -> Branch:
        """Cache new pages behind this place, with a hit or without; returns their branch, which ends with them.

        ``room``: what :meth:`room` has made for them.
        """
        start = end
        if room is not branch:
            self._hang(room, units, resident=not on_host)
            branch, start = room, 0
        branch.append(units, None if on_host else pages, self.page_size, self.clock, priority)
        if counts:
            branch.count(start, branch.n)
        if on_host:
            branch.back(start, branch.n, pages, SETTLED | STORED)
        else:
            self.evictable += branch.n - start
        if self.tell is not None:
            self.tell(ADDED, HOST if on_host else DEVICE, Run(branch, start, branch.n))
        return branch

    def _hang(self, branch: Branch, units: Units, *, resident: bool) -> None:
        """A new branch, still without pages, hangs where it should now, and is found by its first page."""
        parent, at, uid = branch.parent, branch.at, branch.uid
        assert parent is not None
        if self.free_uids:
            self.free_uids.pop()
        if parent.children is None:
            parent.children = {}
        if parent.parent is None:
            self.roots[parent.namespace] = parent
        parent.children[at, units[: self.page_size].tobytes()] = branch
        self.by_uid[uid] = branch
        if self.host is not None:
            parent.all_at = count(parent.all_at, at)
        if resident:
            parent.resident_at = count(parent.resident_at, at)

    @whole
    def insert_host(self, anchor: Place, units: Units, pages: IntArray) -> tuple[int, int]:
        """Cache what was read from storage below a place, on the host, in these host pages.

        Returns how many pages were known already, and how many of the rest were cached: none, where the page before
        them has no host copy and backed pages must form a prefix.  The other pages stay the caller's.  What was known
        is used now.  Raises ``ValueError`` where the anchor is gone.
        """
        size = self.page_size
        if not len(pages):
            return 0, 0
        units = self.units_of(units)[: len(pages) * size]
        top, start = self.check(anchor)
        branch, end = self.walk(top, start, units)
        known = branch.base + end - top.base - start
        new = units[known * size :]
        room: Branch | None = None
        if known < len(pages) and (self.write_back or self.has_host_copy(Place(branch, end))):
            room = self.room(branch, end, new)
            room.room_for_copies()
        self.calls.changed = True
        self.clock += 1
        self._touch_below(branch, end, top, start)
        self._offer_used(branch, end)
        if room is None:
            return known, 0
        priority = levels.value_at(branch.priority, end - 1) if end else 0
        self.host_victims.offer(self._attach(room, branch, end, new, pages[known:], priority, on_host=True))
        return known, len(pages) - known

    def _touch_below(self, branch: Branch, end: int, top: Branch, start: int) -> None:
        """The path from the place ``(top, start)`` to this one is used now, and a node ends here."""
        branch.cut(end)
        while branch is not top:
            branch.touched = levels.set_prefix(branch.touched, end, self.clock, branch.n)
            assert branch.parent is not None
            branch, end = branch.parent, branch.at
        if start < end:
            top.touched = levels.set_range(top.touched, start, end, self.clock, top.n)

    # -- locks ---------------------------------------------------------------------------------

    def kept(self, place: Place) -> tuple[Branch, int]:
        """Branch and end of this place (see :meth:`check`), which somebody keeps locked.

        Raises ``ValueError`` where no lock covers it; a root needs none.
        """
        branch, end = self.check(place)
        if end > branch.protected():
            raise ValueError(f"the prefix of {branch.base + end} pages is not locked: it may be gone any time")
        return branch, end

    def lock(self, place: Place) -> None:
        """Protect the path to a place once more; a root needs no protection.

        Raises :class:`StaleHandle` where the place is gone, and ``ValueError`` where it is not resident.
        """
        branch, end, tick = place
        created = branch.created
        if (
            created.__class__ is not int
            or created > tick
            or not 0 < end <= branch.dev
            or self.by_uid.get(branch.uid) is not branch
        ):
            branch, end = self.check(place)
            if end > branch.dev:
                raise ValueError(f"this place is not resident: {branch.dev} pages of its branch are, not {end}")
        calls = self.calls
        outer = calls.torn
        calls.changed = calls.torn = True
        entry = 2 * end + 1
        while branch.parent is not None:
            locks = branch.locks
            before = 0
            if locks is None:
                branch.locks = [entry]
            else:
                before = locks[-1] >> 1
                insort(locks, entry)
            more = (entry >> 1) - before
            if more > 0:
                self.evictable -= more
                self.protected += more
            if locks is not None:
                break
            entry = 2 * branch.at
            branch = branch.parent
        calls.torn = outer

    def unlock(self, place: Place) -> None:
        """Give one protection of the path to a place back.

        Raises ``ValueError`` where there is none, and :class:`StaleHandle` where the place is gone.
        """
        self.check(place)
        self.release(place)

    def release(self, place: Place) -> None:
        """The same for whoever holds the lock, so that the place can't be gone."""
        calls = self.calls
        outer = calls.torn
        branch, end, _ = place
        entry = 2 * end + 1
        while branch.parent is not None:
            locks = branch.locks
            found = bisect_left(locks, entry) if locks is not None else 0
            if locks is None or found == len(locks) or locks[found] != entry:
                raise ValueError(f"the prefix of {branch.base + end} pages is not locked")
            calls.changed = calls.torn = True
            del locks[found]
            after = locks[-1] >> 1 if locks else 0
            less = (entry >> 1) - after
            if less > 0:
                self.evictable += less
                self.protected -= less
            if locks:
                if less > 0:
                    self.victims.offer(branch)
                break
            branch.locks = None
            self.victims.offer(branch)
            entry = 2 * branch.at
            branch = branch.parent
        calls.torn = outer
