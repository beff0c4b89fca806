"""Requests: rows of slots, and whose they are.

A request has a **row**: the slot of each of its tokens.  The first ``cached`` of them, whole pages, are the tree's,
shared and locked; the rest are the request's alone.  Beginning, growing, publishing and ending move that border and
free what is left over.

Rules of upkeep:

- ``row[:cached]`` are the slots of the path to ``place``, on which the request holds one lock.
- Each page of ``row[cached:]`` belongs to this request and nobody else.
- ``tokens`` and ``row`` are kept in arrays with room to grow; what a request does costs what is new about it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvlitmus.optimized.arrays import IntArray, PageArray
from kvlitmus.optimized.branch import Place, Units
from kvlitmus.optimized.hashing import pack_bigrams

Copy = Callable[[PageArray, PageArray], bool]
"""Copies what is in these device pages into those, or says that it could not."""

Save = Callable[[PageArray], object]
"""Keeps what is in these device pages; ``None`` where it could not."""

Restore = Callable[[object, PageArray], bool]
"""Brings what was kept into these device pages, or says that it could not."""

if TYPE_CHECKING:
    from kvlitmus.optimized.pool import PagePool
    from kvlitmus.optimized.tree import Tree


class Running:
    """A running request.

    ``length``: its tokens; ``cached``: how many of its slots are the tree's; ``priority``: of what it caches.
    """

    __slots__ = ("_row", "_tokens", "cached", "length", "namespace", "place", "priority")

    def __init__(
        self,
        namespace: Hashable,
        tokens: IntArray,
        row: NDArray[np.int64],
        cached: int,
        place: Place,
        priority: int = 0,
    ) -> None:
        self.namespace = namespace
        self._tokens = tokens
        self._row = row
        self.length = len(tokens)
        self.cached = cached
        self.place = place
        self.priority = priority

    @property
    def tokens(self) -> IntArray:
        """All its tokens so far: a view."""
        return self._tokens[: self.length]

    @property
    def row(self) -> NDArray[np.int64]:
        """The slot of each of its tokens: a view."""
        return self._row[: self.length]

    def reserve(self, length: int) -> None:
        """Have room for so many tokens in all."""
        old = self.length
        if length > len(self._row):
            room = max(length, old + (old >> 2) + 16)
            tokens = np.resize(self._tokens[:old], room) if old else np.empty(room, self._tokens.dtype)
            row = np.resize(self._row[:old], room) if old else np.empty(room, np.int64)
            self._tokens, self._row = tokens, row

    def extend(self, tokens: IntArray, slots: NDArray[np.int64]) -> None:
        """Go on with these tokens in these slots; :meth:`reserve` has been called."""
        old, new = self.length, self.length + len(tokens)
        self._tokens[old:new] = tokens
        self._row[old:new] = slots
        self.length = new


class Retracted(NamedTuple):
    """A request that has given up the device for a while; ``contents``: what was in its row, whoever keeps that."""

    namespace: Hashable
    tokens: IntArray
    contents: object
    priority: int


class RequestTable:
    """All running requests of one pool and one tree; tokens are of the tree's type, or of 64 bits for bigrams.

    Who calls it says where the call begins and ends (:mod:`kvlitmus.optimized.calls`).  ``begun``: how many requests;
    ``tokens``: with how many, in all, and ``hits``: how many of these were cached.
    """

    def __init__(self, pool: PagePool, tree: Tree, *, bigram: bool = False) -> None:
        self.calls = pool.calls
        self.pool = pool
        self.tree = tree
        self.bigram = bigram
        self.size = tree.page_size
        self.running: dict[Hashable, Running] = {}
        self.retracted: dict[Hashable, Retracted] = {}
        self.begun = self.tokens = self.hits = 0

    def own(self, tokens: IntArray) -> IntArray:
        """These tokens in the type of the table; raises ``ValueError`` for one that doesn't fit."""
        if not self.bigram:
            return self.tree.units_of(tokens)
        wide = tokens.astype(np.int64, copy=False)
        if len(wide) and not 0 <= int(wide.min()) <= int(wide.max()) < 2**32:
            raise ValueError(f"tokens must be within [0, 2**32) (got {tokens.min()} to {tokens.max()})")
        return wide

    def units(self, tokens: IntArray) -> Units:
        """The units of some tokens: the tokens, or their bigrams."""
        return pack_bigrams(tokens) if self.bigram else tokens

    def unknown(self, rid: Hashable) -> None:
        """Raise ``ValueError`` for the id of a request that runs."""
        if rid in self.running:
            raise ValueError(f"request {rid} is running already", rid)

    def room(self, pages: int) -> PageArray | None:
        """Free pages, after evicting what is missing; ``None`` where even that isn't enough."""
        short = pages - self.pool.free_count
        if short > 0:
            self.tree.evict(short)
        return self.pool.take(pages)

    def begin(self, rid: Hashable, namespace: Hashable, tokens: IntArray, priority: int = 0) -> Running | None:
        """Match, lock, and only then make room; without enough memory nothing but recency has changed.

        What could be evicted is gone even so.  Raises ``ValueError`` when the id is in use.
        """
        self.unknown(rid)
        tree, tokens = self.tree, self.own(tokens).copy()
        place = tree.resident_place(tree.match(namespace, self.units(tokens)))
        tree.lock(place)
        own: PageArray | None = None
        try:
            shared = tree.path_pages(place)
            own = self.room(-(-len(tokens) // self.size) - len(shared))
            if own is None:
                tree.unlock(place)
                return None
            row = self.pool.slots(np.concatenate((shared, own)))[: len(tokens)]
            running = Running(namespace, tokens, row, len(shared) * self.size, place, priority)
        except MemoryError:
            tree.unlock(place)
            if own is not None:
                self.pool.give_back(own)
            self.calls.changed = False
            raise
        return self.counted(self.started(rid, running))

    def counted(self, running: Running) -> Running:
        """This request has begun, with so much of it cached."""
        self.begun += 1
        self.tokens += running.length
        self.hits += running.cached
        return running

    def started(self, rid: Hashable, running: Running) -> Running:
        """This request runs; where its id can't be looked up any more, it has not begun."""
        try:
            self.running[rid] = running
        except BaseException:
            if not any(one is running for one in self.running.values()):
                self.leave(running, running.cached)
                self.calls.changed = False
            raise
        return running

    def fork(self, rid: Hashable, of: Hashable, copy: Copy | None = None) -> Running | None:
        """A second request over the row of another one, which has locked what both share.

        ``copy``: what copies the other's own pages into its own, and says whether that went well.  ``None``, and
        nothing but evictions done, without room or a copy.  Raises ``ValueError`` when the id is in use, and
        ``KeyError`` where the other one doesn't run.
        """
        self.unknown(rid)
        request = self.running[of]
        cached, length = request.cached, request.length
        theirs = request.row[cached :: self.size] // self.size
        own = self.room(len(theirs))
        if own is None:
            return None

        def make() -> Running | None:
            if copy is not None and not copy(theirs.astype(np.int32), own):
                return None
            row = np.concatenate((request.row[:cached], self.pool.slots(own)))[:length]
            tokens = request.tokens.copy()
            self.tree.lock(request.place)
            return Running(request.namespace, tokens, row, cached, request.place, request.priority)

        return self.started_in(rid, own, make)

    def started_in(self, rid: Hashable, own: PageArray, make: Callable[[], Running | None]) -> Running | None:
        """The request that ``make`` makes runs in these pages, just taken; they are free again where it makes none."""
        try:
            running = make()
        except MemoryError:
            self.pool.give_back(own)
            self.calls.changed = False
            raise
        if running is None:
            self.pool.give_back(own)
            return None
        return self.started(rid, running)

    def retract(self, rid: Hashable, save: Save | None = None) -> bool:
        """End a request as an abort does, so that it can be resumed: its tokens are kept, and what ``save`` keeps.

        ``False``, and nothing has changed, where that keeps nothing.  Raises ``KeyError`` for a request that doesn't
        run, and ``ValueError`` where another one of this id is retracted.
        """
        request = self.running[rid]
        if rid in self.retracted:
            raise ValueError(f"request {rid} is retracted already", rid)
        pages = (request.row[:: self.size] // self.size).astype(np.int32)
        contents = () if save is None else save(pages)
        if contents is None:
            return False
        waits = Retracted(request.namespace, request.tokens.copy(), contents, request.priority)
        self.leave(request, request.cached)
        self.calls.changed = True
        del self.running[rid]
        self.retracted[rid] = waits
        return True

    def resume(self, rid: Hashable, restore: Restore | None = None) -> Running | None:
        """A retracted request runs again, in pages of its own alone, into which ``restore`` brings what was kept.

        ``None``, and nothing but evictions done, without room or where it can't be brought.  Raises ``ValueError`` when
        the id is in use, and ``KeyError`` where no request of it is retracted.
        """
        self.unknown(rid)
        waits = self.retracted[rid]
        length = len(waits.tokens)
        own = self.room(-(-length // self.size))
        if own is None:
            return None

        def make() -> Running | None:
            if restore is not None and not restore(waits.contents, own):
                return None
            root = self.tree.find(waits.namespace, self.tree.no_units).place
            row = self.pool.slots(own)[:length]
            return Running(waits.namespace, waits.tokens.copy(), row, 0, root, waits.priority)

        running = self.started_in(rid, own, make)
        if running is not None:
            del self.retracted[rid]
        return running

    def grow(self, rid: Hashable, tokens: IntArray) -> NDArray[np.int64] | None:
        """Slots for further tokens, the last page filled first; ``None``, and nothing but evictions done, without room.

        Raises ``KeyError`` for a request that doesn't run.
        """
        request = self.running[rid]
        tokens = self.own(tokens)
        size, before = self.size, request.length
        after = before + len(tokens)
        slots = np.empty(len(tokens), np.int64)
        rest = min(after, -(-before // size) * size) - before
        if rest:
            last = request.row[-1]
            slots[:rest] = np.arange(last + 1, last + 1 + rest)
        request.reserve(after)
        opened = self.room(-(-after // size) + (-before // size))
        if opened is None:
            return None
        if len(opened):
            try:
                slots[rest:] = self.pool.opened_slots(opened)[: len(slots) - rest]
            except MemoryError:  # they are free again
                self.calls.changed = False
                raise
        request.extend(tokens, slots)
        return slots

    def take_back(self, rid: Hashable, n: int) -> int:
        """Forget the last ``n`` tokens of a request, and free the pages behind what is left: how many slots that is.

        Raises ``KeyError`` for a request that doesn't run, and ``ValueError``, with nothing changed, where that is
        more than it has of its own.
        """
        request, many = self.running[rid], operator.index(n)
        length, left = request.length, request.length - many
        if many < 0 or left < request.cached:
            own = length - request.cached
            raise ValueError(f"of {length} tokens {own} are the request's own (got {many} to take back)", many)
        start = -(-left // self.size) * self.size
        self.calls.changed = True
        self.give_back(request, start, length)
        request.length = left
        return max(0, -(-(length - start) // self.size)) * self.size

    def publish(self, rid: Hashable, *, chunked: bool, upto: int | None = None) -> Running:
        """Cache the whole pages computed so far; the request goes on with the tree's slots.

        Computed are the first ``upto`` units, or all of the request; what is behind stays its own.  Pages that another
        request cached first were computed twice and are freed.  A ``chunked`` publication is no hit.  Raises
        ``KeyError`` for a request that doesn't run, and ``ValueError``, with nothing changed, where ``upto`` is less
        than what is cached or more than there is.
        """
        request = self.running[rid]
        computed = request.length if upto is None else self.computed(request, upto)
        before = request.cached
        place, cached = self.store(request, computed, counts=not chunked, lock=True)
        self.calls.changed = True
        self.tree.unlock(request.place)
        request.place, request.cached = place, cached
        if request.cached > before:
            self.fill(place, before, request.row)
        return request

    def end(self, rid: Hashable, *, keep: bool | int) -> Place:
        """Finish a request (``keep``) or abort or retract it: it owns nothing afterwards.

        Finishing caches its whole pages, or those of the first ``keep`` units, where no more was computed; all else
        that is its own is freed, and so is everything when it is aborted.  Returns where what is cached of it ends.
        Raises ``KeyError`` for a request that doesn't run, and ``ValueError``, with nothing changed, where ``keep`` is
        less than what is cached or more than there is.
        """
        request = self.running[rid]
        computed = request.length if isinstance(keep, bool) else self.computed(request, keep)
        place, kept = request.place, request.cached
        if keep is not False:
            place, kept = self.store(request, computed, counts=True, lock=False)
        self.leave(request, kept)
        self.calls.changed = True
        del self.running[rid]
        return place

    @staticmethod
    def computed(request: Running, upto: int) -> int:
        """So many units of a request are computed; raises ``ValueError`` for what can't be."""
        many = operator.index(upto)
        if not request.cached <= many <= request.length:
            raise ValueError(f"computed are between {request.cached} and {request.length} units (got {upto})", upto)
        return many

    def store(self, request: Running, computed: int, *, counts: bool, lock: bool) -> tuple[Place, int]:
        """Insert the whole pages among the first ``computed`` units that are the request's own.

        Returns where what is cached of it ends: a place, and how many units come before that.  Pages that
        others had cached first are freed.  Where there is no whole page, nothing is used.  With ``lock`` the place is
        locked once more, before anything can be evicted.
        """
        size, start = self.size, request.cached
        units = self.units(request.tokens[start:])[: computed - start]
        end, place = start + len(units) - len(units) % size, request.place
        if end:
            pages = request.row[start:end:size] // size
            stored = self.tree.insert_behind(place, units, pages, priority=request.priority, counts=counts)
            self.give_back(request, start, stored.already * size)
            place = stored.place
        if lock:
            self.tree.lock(place)
        return place, end

    def fill(self, place: Place, before: int, row: NDArray[np.int64]) -> None:
        """Write the slots of a path, from the unit ``before`` on, into a row; it takes no memory."""
        for branch, lo, hi in self.tree.runs(place, before // self.size):
            start, stop = (branch.base + lo) * self.size, (branch.base + hi) * self.size
            self.pool.put_slots(branch.dev_pages[lo:hi], row[start:stop])

    def leave(self, request: Running, kept: int) -> None:
        """Free what a request has behind its first ``kept`` units, and give its lock back."""
        self.give_back(request, kept, request.length)
        self.tree.unlock(request.place)

    def give_back(self, request: Running, start: int, end: int) -> None:
        """Free the pages of these positions of a row."""
        if start < end:
            self.pool.give_back(request.row[start : end : self.size] // self.size)
