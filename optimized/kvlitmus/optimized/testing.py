"""For tests: parts that fail when they are told to, and a clock that stands still.

No part of the cache imports this.  Whoever tests it hands these in where the real parts go: :class:`FaultyMover` around
a mover, :func:`faulty_parts` for what takes memory, :class:`SetClock` for the time.  All of them ask one
:class:`Faults`, which counts the operations that can fail and says which one does; so a test may let the first fail,
then the second, and so on until there is none left.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvlitmus.optimized.arrays import IntArray, PageArray
from kvlitmus.optimized.backup import Backups
from kvlitmus.optimized.branch import Branch, Inserted, Place, Run, Units
from kvlitmus.optimized.cores import AUTO, PYTHON, core_of
from kvlitmus.optimized.life import TierParts, tier_parts_of
from kvlitmus.optimized.load import Loaded, Loads
from kvlitmus.optimized.mover import Mover, Ticket
from kvlitmus.optimized.pool import Numbers
from kvlitmus.optimized.request import RequestTable, Running
from kvlitmus.optimized.storage.base import Buffer

BACKUP, LOAD, SPILL = "backup", "load", "spill"
"""A copy that can't be submitted: to the host, to the device, within an eviction under write-back."""

BACKUP_LATE, LOAD_LATE, SPILLED = "backup_late", "load_late", "spilled"
"""The same copies, which fail when they are under way."""

DEVICE_PAGES, HOST_PAGES = "device_pages", "host_pages"
"""An allocation from a pool that finds nothing, whatever is free."""

BRANCH, COPIES, SLOTS = "branch", "copies", "slots"
"""Memory for the pages of a branch, for what is known of its host copies, or for the slots of a request runs out."""

COPY, SAVE, RESTORE = "copy", "save", "restore"
"""A copy from page to page of the device, or of a row that is kept on the host and comes back."""

READ, WRITE = "read", "write"
"""The mover can't read, or write, a host page for storage."""

KINDS = (
    *(BACKUP, LOAD, SPILL, BACKUP_LATE, LOAD_LATE, SPILLED),
    *(DEVICE_PAGES, HOST_PAGES, BRANCH, COPIES, SLOTS, COPY, SAVE, RESTORE, READ, WRITE),
)
"""All operations that can be made to fail."""

LATE = {BACKUP: BACKUP_LATE, LOAD: LOAD_LATE, SPILL: SPILLED}


class FaultError(RuntimeError):
    """A planted failure."""


class Faults:
    """Which operations fail.

    ``count``: how many there were; ``struck``: the kinds of those that failed, in order.  ``by_steps``: whether the
    compiled core makes calls step by step while one may fail by its number; in a whole call no step of it can fail.
    """

    by_steps = True

    def __init__(self) -> None:
        self.count = 0
        self.counts: Counter[str] = Counter()
        self.struck: list[str] = []
        self.number: int | None = None
        self.left: dict[str, int] = {}
        self.turn = threading.Lock()

    def fail(self, kind: str, after: int = 0) -> None:
        """Of the operations of this kind to come, the one after the next ``after`` fails."""
        if kind not in KINDS:
            raise ValueError(f"a fault must be one of {', '.join(KINDS)} (got {kind!r})", kind)
        self.left[kind] = after

    def fail_number(self, number: int) -> None:
        """Of all operations, counted from now on and from 0, this one fails."""
        self.count, self.number = 0, number

    def pending(self) -> list[str]:
        """The kinds of which an operation is still to fail."""
        return sorted(self.left)

    def clear(self) -> None:
        """Nothing fails any more."""
        self.left.clear()
        self.number = None

    def strikes(self, kind: str) -> bool:
        """One operation more; whether it fails."""
        with self.turn:
            strikes = self.count == self.number
            self.count += 1
            self.counts[kind] += 1
            left = self.left.pop(kind, None)
            if left:
                self.left[kind] = left - 1
            strikes |= left == 0
            if strikes:
                self.struck.append(kind)
            return strikes

    def raises(self, kind: str, error: Callable[[str], BaseException] = FaultError) -> None:
        """One operation more, which raises if it fails."""
        if self.strikes(kind):
            raise error(f"planted: {kind}")


class FaultyTicket:
    """A copy that fails under way, after some of it, if it ``fails``, or is told to by :meth:`fail` before it is over.

    ``spoil`` is called once it is over and has failed, before anybody hears of it.
    """

    def __init__(self, inner: Ticket, spoil: Callable[[], None], *, fails: bool, stepped: bool) -> None:
        self.inner = inner
        self.spoil = spoil
        self.fails = fails
        self.stepped = stepped
        self.failed = False

    def fail(self) -> None:
        """It fails when it goes on."""
        self.fails = True

    def check(self) -> None:
        """It is over: raise if it has failed."""
        if self.fails:
            if not self.failed:
                self.failed = True
                self.spoil()
            raise FaultError("planted: a copy under way")

    def advance(self, layers: int | None = None) -> None:
        """See :class:`Ticket`."""
        if self.fails and self.stepped:
            if not self.failed:
                self.inner.advance(1)
            self.check()
        self.inner.advance(layers)

    def layers_ready(self) -> int:
        """See :class:`Ticket`."""
        return 0 if self.fails else self.inner.layers_ready()

    def wait_layer(self, layer: int) -> None:
        """See :class:`Ticket`."""
        if self.fails:
            raise FaultError(f"planted: layer {layer} will not come")
        self.inner.wait_layer(layer)

    def done(self) -> bool:
        """See :class:`Ticket`."""
        over = self.failed or self.inner.done()
        if over:
            self.check()
        return over

    def wait(self, timeout: float | None = None) -> bool:
        """See :class:`Ticket`."""
        if self.fails and self.stepped:
            self.advance()
        over = self.inner.wait(timeout)
        if over:
            self.check()
        return over


class FaultyMover:
    """A mover whose copies can fail, where they are submitted and under way.

    ``spoil(tier, pages)`` is called with the target of a copy that has failed: nothing good may be left there.
    """

    def __init__(self, inner: Mover, faults: Faults, spoil: Callable[[str, PageArray], None]) -> None:
        self.inner = inner
        self.faults = faults
        self.spoil = spoil
        self.stepped = bool(getattr(inner, "stepped", True))
        self.spilling = False

    @property
    def layers(self) -> int:
        """See :class:`Mover`."""
        return self.inner.layers

    @property
    def page_bytes(self) -> int:
        """See :class:`Mover`."""
        return self.inner.page_bytes

    def backup(self, device_pages: PageArray, host_pages: PageArray) -> Ticket:
        """See :class:`Mover`."""
        kind = SPILL if self.spilling else BACKUP
        self.faults.raises(kind)
        return self.ticket(kind, self.inner.backup(device_pages, host_pages), "host", host_pages)

    def load(self, host_pages: PageArray, device_pages: PageArray) -> Ticket:
        """See :class:`Mover`."""
        self.faults.raises(LOAD)
        return self.ticket(LOAD, self.inner.load(host_pages, device_pages), "device", device_pages)

    def copy(self, device_pages: PageArray, to: PageArray) -> None:
        """See :class:`Mover`."""
        self.faults.raises(COPY)
        self.inner.copy(device_pages, to)

    def save(self, device_pages: PageArray, host_pages: PageArray) -> object:
        """See :class:`Mover`."""
        self.faults.raises(SAVE)
        return self.inner.save(device_pages, host_pages)

    def restore(self, kept: object, device_pages: PageArray) -> None:
        """See :class:`Mover`."""
        self.faults.raises(RESTORE)
        self.inner.restore(kept, device_pages)

    def ticket(self, kind: str, inner: Ticket, tier: str, pages: PageArray) -> FaultyTicket:
        """The ticket of a copy that was submitted."""
        fails = self.faults.strikes(LATE[kind])
        return FaultyTicket(inner, lambda: self.spoil(tier, pages), fails=fails, stepped=self.stepped)

    def read_page(self, host_page: int) -> Buffer:
        """See :class:`Mover`."""
        self.faults.raises(READ)
        return self.inner.read_page(host_page)

    def write_page(self, host_page: int, contents: Buffer) -> None:
        """See :class:`Mover`."""
        self.faults.raises(WRITE)
        self.inner.write_page(host_page, contents)

    @contextmanager
    def spill(self) -> Iterator[None]:
        """The copies within are spills."""
        self.spilling = True
        try:
            yield
        finally:
            self.spilling = False


def faulty_parts(faults: Faults, parts: TierParts | None = None) -> TierParts:
    """These parts, but that what takes memory may find none."""
    parts = parts or tier_parts_of(core_of(AUTO))
    faulty_tree, requests = faulty_trees(faults, parts)
    backups, loads = faulty_copies(faults, parts)

    class FaultyPool(parts.pool):  # type: ignore[name-defined, misc]
        """A pool that may have nothing to hand out."""

        kind = DEVICE_PAGES

        def take(self, count: int) -> PageArray | None:
            """See :class:`PagePool`."""
            return None if faults.strikes(self.kind) else super().take(count)

        def slots(self, pages: Numbers) -> NDArray[np.int64]:
            """See :class:`PagePool`."""
            faults.raises(SLOTS, MemoryError)
            found: NDArray[np.int64] = super().slots(pages)
            return found

    class FaultyHostPool(FaultyPool):
        """The same for the host."""

        kind = HOST_PAGES

    return replace(
        parts,
        pool=FaultyPool,
        host_pool=FaultyHostPool,
        tree=faulty_tree,
        requests=requests,
        backups=backups,
        loads=loads,
    )


def faulty_copies(faults: Faults, parts: TierParts) -> tuple[Any, Any]:
    """Backups and loads of these parts, but that a step with which they begin may fail."""

    def by_steps() -> bool:
        """Whether something may fail that the core does by itself where it begins a copy in one call."""
        numbered = faults.by_steps and faults.number is not None
        return numbered or not faults.left.keys().isdisjoint((HOST_PAGES, DEVICE_PAGES, COPIES))

    class FaultyBackups(parts.backups):  # type: ignore[name-defined, misc]
        """Backups that tell the mover what is a spill, and begin step by step where a step may fail."""

        def used(self, place: Place) -> int:
            """See :class:`Backups`."""
            return Backups.used(self, place) if by_steps() else int(super().used(place))

        def copied(self, run: Run, pages: PageArray) -> bool:
            """See :class:`Backups`."""
            with self.mover.spill():
                return bool(super().copied(run, pages))

    class FaultyLoads(parts.loads):  # type: ignore[name-defined, misc]
        """Loads that begin step by step where a step may fail."""

        def load_back(self, namespace: Hashable, units: Units, quota: int | None = None) -> Loaded:
            """See :class:`Loads`."""
            if by_steps():
                return Loads.load_back(self, namespace, units, quota)
            loaded: Loaded = super().load_back(namespace, units, quota)
            return loaded

    return FaultyBackups, FaultyLoads


def faulty_trees(faults: Faults, parts: TierParts) -> tuple[Any, Any]:
    """The tree of these parts, and what serves requests on it, but that either may find no memory."""

    class FaultyTree(parts.tree):  # type: ignore[name-defined, misc]
        """A tree that may find no memory for host copies."""

        def room_for_copies(self, branch: Branch) -> None:
            """See :class:`Tree`."""
            faults.raises(COPIES, MemoryError)
            super().room_for_copies(branch)

    class FaultyPythonTree(FaultyTree):
        """Nor for more pages."""

        def room(self, branch: Branch, end: int, units: IntArray) -> Branch:
            """See :class:`Tree`."""
            faults.raises(BRANCH, MemoryError)
            found: Branch = super().room(branch, end, units)
            return found

    if parts.core == PYTHON:
        return FaultyPythonTree, parts.requests
    return faulty_core(faults, FaultyTree), faulty_requests(faults, parts)


def faulty_core(faults: Faults, tree: Any) -> Any:
    """A tree of the compiled core that may find no memory for more pages."""
    from kvlitmus.optimized import _core

    @contextmanager
    def short() -> Iterator[None]:
        """What the core allocates within may not be there."""
        if not faults.strikes(BRANCH):
            yield
            return
        _core.fail_after(0)
        try:
            yield
        finally:
            _core.fail_after(-1)

    class FaultyCompiledTree(tree):  # type: ignore[misc]
        """The first allocation of the core fails in such a call."""

        def insert_behind(self, *given: Any, **named: Any) -> Inserted:
            """See :class:`Tree`."""
            with short():
                found: Inserted = super().insert_behind(*given, **named)
            return found

        def insert(self, *given: Any, **named: Any) -> Inserted:
            """See :class:`Tree`."""
            with short():
                found: Inserted = super().insert(*given, **named)
            return found

        def insert_host(self, *given: Any) -> tuple[int, int]:
            """See :class:`Tree`."""
            with short():
                found: tuple[int, int] = super().insert_host(*given)
            return found

        def store(self, *given: Any) -> Place:
            """See :class:`~kvlitmus.optimized.compiled.CompiledRequests`."""
            with short():
                found: Place = super().store(*given)
            return found

    return FaultyCompiledTree


def faulty_requests(faults: Faults, parts: TierParts) -> Any:
    """What serves requests, of these parts."""

    class FaultyRequests(parts.requests):  # type: ignore[name-defined, misc]
        """A request begins step by step where a step may fail; else the core does it in one call."""

        def begin(self, rid: Hashable, namespace: Hashable, tokens: IntArray, priority: int = 0) -> Running | None:
            """See :class:`~kvlitmus.optimized.request.RequestTable`."""
            if faults.left or faults.number is not None:
                return RequestTable.begin(self, rid, namespace, tokens, priority)
            begun: Running | None = super().begin(rid, namespace, tokens, priority)
            return begun

    return FaultyRequests


class SetClock:
    """A clock that shows what it was set to."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds

    def __call__(self) -> float:
        """What time it is."""
        return self.seconds
