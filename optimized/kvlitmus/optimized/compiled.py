"""The compiled core: pool, tree and victims of a cache, in C++ (``native/``).

It does what the Python tree does, to the last victim, page number and error; who wants to know what that is reads
:mod:`kvlitmus.optimized.tree` and the modules below it.  What stands here is what is handed in and is no array yet, and
the whole steps of requests, each of which is one call.

:meth:`CompiledTree.opened` makes a Python tree in the same state: for audits, views, and for comparing both cores.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvlitmus.optimized import _core, inputs
from kvlitmus.optimized.arrays import IntArray, PageArray
from kvlitmus.optimized.branch import Found, Place, Units
from kvlitmus.optimized.calls import Calls
from kvlitmus.optimized.policy import POLICIES
from kvlitmus.optimized.request import RequestTable, Running
from kvlitmus.optimized.slots import Numbers, SlotCalls, as_array, offsets_in


class CompiledPool(_core.Pool, SlotCalls):
    """:class:`~kvlitmus.optimized.pool.PagePool`, compiled."""

    def __init__(self, pages: int, page_size: int, reserved: int) -> None:
        del pages, reserved
        self.calls = Calls()
        self.watch(self.calls)
        self.offsets = offsets_in(page_size)
        self.withheld: PageArray = np.empty(0, np.int32)

    @property
    def state(self) -> NDArray[np.uint8]:
        """The states of all pages: a copy."""
        return np.frombuffer(self.states(), np.uint8)

    def brought(self, numbers: Numbers) -> IntArray:
        """These integers as an array that the core takes."""
        return np.array(as_array(numbers), dtype=np.int64)

    def free_pages(self) -> PageArray:
        """The free pages, in ascending order."""
        return np.sort(self.stacked())

    def withhold(self, pages: PageArray) -> None:
        """Hand these pages out no more, which are free or withheld already; of those, the others become free."""
        back = np.setdiff1d(self.withheld, pages)
        more = np.setdiff1d(pages, self.withheld)
        self.withheld = np.setdiff1d(self.withheld, back)
        if len(back):
            self.give_back(back)
        if len(more):
            free = self.stacked()
            held = np.isin(free, more)  # the others are in use, in a pool that is given up
            self.keep_free(free[~held], free[held])
            self.withheld = np.union1d(self.withheld, free[held])

    def opened(self) -> Any:
        """A Python pool in the same state, but for what waits in a group."""
        from kvlitmus.optimized.pool import PagePool

        pool = PagePool(self.pages, self.page_size, self.reserved)
        free = self.stacked()
        pool.free_count = len(free)
        pool.stack[: len(free)] = free
        pool.state[:] = self.state
        pool.withheld = self.withheld
        return pool


class CompiledTree(_core.Tree):
    """:class:`~kvlitmus.optimized.tree.Tree`, compiled."""

    def __new__(
        cls,
        page_size: int,
        policy: str,
        pool: CompiledPool,
        *,
        host: CompiledPool | None = None,
        write_back: bool = False,
        restored_counts: bool = False,
        dtype: Any = np.int32,
    ) -> CompiledTree:
        """See :class:`~kvlitmus.optimized.residency.Residency`."""
        number, width = list(POLICIES).index(policy), np.dtype(dtype).itemsize
        made: CompiledTree = super().__new__(cls, page_size, number, pool, width, host, write_back, restored_counts)
        made.calls = pool.calls
        if host is not None:
            host.calls = pool.calls
            host.watch(host.calls)
        made.dtype = np.dtype(dtype)
        made.no_units = np.empty(0, made.dtype)
        made.policy = policy
        return made

    calls: Calls
    dtype: np.dtype[Any]
    no_units: IntArray
    policy: str

    def units_of(self, units: IntArray) -> Units:
        """See :meth:`~kvlitmus.optimized.paths.Paths.units_of`; the core takes no array at an odd address."""
        if self.takes(units):
            return units
        own = inputs.units(units, self.dtype)
        return own if own.flags.aligned else own.copy()

    def priority_of(self, priority: object) -> int:
        """A priority that is no plain integer."""
        return inputs.priority(priority)

    def resident_place(self, found: Found) -> Place:
        """Where the resident part of what was found ends: what a caller locks."""
        place: Place = found.place if found.resident == found.known else self.ascend(found.place, found.resident)
        return place

    def opened(self) -> Any:
        """A Python tree in the same state."""
        from kvlitmus.optimized.opened import python_tree

        return python_tree(self)


class CompiledRequests(RequestTable):
    """:class:`~kvlitmus.optimized.request.RequestTable`, each step of a request in one call of the core."""

    tree: Any

    def begin(self, rid: Hashable, namespace: Hashable, tokens: IntArray, priority: int = 0) -> Running | None:
        """See :class:`~kvlitmus.optimized.request.RequestTable`."""
        self.unknown(rid)
        tokens = self.own(tokens).copy()
        begun = self.tree.begin(namespace, self.units(tokens), len(tokens))
        if begun is None:
            return None
        place, row, cached = begun
        return self.counted(self.started(rid, Running(namespace, tokens, row, cached, place, priority)))

    def store(self, request: Running, computed: int, *, counts: bool, lock: bool) -> tuple[Place, int]:
        """See :class:`~kvlitmus.optimized.request.RequestTable`."""
        start, place = request.cached, request.place
        units = self.units(request.tokens[start:])[: computed - start]
        end = start + len(units) - len(units) % self.size
        if end:
            place = self.tree.store(place, units, request.row, start, counts, lock, request.priority)
        elif lock:
            self.tree.lock(place)
        return place, end

    def fill(self, place: Place, before: int, row: NDArray[np.int64]) -> None:
        """See :class:`~kvlitmus.optimized.request.RequestTable`."""
        self.tree.fill(place, before // self.size, row)

    def leave(self, request: Running, kept: int) -> None:
        """See :class:`~kvlitmus.optimized.request.RequestTable`."""
        self.tree.leave(request.place, request.row, kept, request.length)
