"""The prefix tree over both tiers (signatures; the bodies follow within the hour)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Units = NDArray[Any]
Pages = NDArray[np.int32]

SETTLED, STORED, BUSY = 1, 2, 4
"""Flags of a page's host copy: its contents are there; storage is known to have it; a put of it is under way."""


class Branch:
    """See :mod:`kvlitmus.optimized.branch`. Attributes of interest to callers: ``namespace``, ``base`` (its depth in
    pages), ``n``, ``dev``, ``units``, ``dev_pages``, ``host_pages`` (or None), ``pins`` (or None), ``flags`` (or None).
    """


class Place(NamedTuple):
    """The prefix that ends after the first ``end`` pages of ``branch``."""

    branch: Branch
    end: int


class Run(NamedTuple):
    """Pages ``lo .. hi-1`` of a branch."""

    branch: Branch
    lo: int
    hi: int


class Found(NamedTuple):
    """A match: the ``place`` where the known prefix ends, and how many pages of it are ``resident`` and ``known``."""

    place: Place
    resident: int
    known: int


class Inserted(NamedTuple):
    """An insert: how many pages were resident ``already``, and the ``place`` where the key ends."""

    already: int
    place: Place


class Tree:
    """Prefixes to pages, on device and host.

    ``evictable``, ``protected``: resident pages without and with a lock. ``clock``: calls that were uses.
    ``spill(run) -> int`` and ``tell(what, tier, run)`` are hooks, see the methods. ``stored`` is told after the change,
    ``removed`` right before it (so that names can still be computed), tip run first.
    """

    page_size: int
    clock: int
    evictable: int
    protected: int
    spill: Callable[[Run], int] | None
    tell: Callable[[str, str, Run], None] | None

    def __init__(
        self,
        page_size: int,
        policy: str,
        pool: Any,
        *,
        host: Any = None,
        write_back: bool = False,
        restored_counts: bool = False,
        dtype: Any = np.int32,
    ) -> None:
        raise NotImplementedError

    def root(self, namespace: Hashable) -> Branch: ...
    def find(self, namespace: Hashable, units: Units) -> Found: ...
    def match(self, namespace: Hashable, units: Units) -> Found: ...
    def resume(self, place: Place, units_behind: Units) -> Found: ...
    def depth(self, place: Place) -> int: ...
    def ascend(self, place: Place, depth: int) -> Place: ...
    def resident_place(self, found: Found) -> Place:
        """ascend(found.place, found.resident): what a caller locks."""
    def path_pages(self, place: Place, lo: int = 0) -> Pages:
        """Device pages of path positions lo .. depth-1; ValueError where one isn't resident."""
    def path_host_pages(self, place: Place, lo: int = 0) -> Pages:
        """Host pages (-1: none) of path positions lo .. depth-1."""
    def runs(self, place: Place, lo: int = 0) -> list[Run]:
        """The path positions lo .. depth-1 as runs, from the root on."""
    def nodes(self, place: Place, lo: int = 0) -> list[Run]:
        """The same, cut where nodes begin (what backups and write-backs go by)."""
    def hits(self, place: Place) -> int:
        """Hits of the last page of a place (of a node: hits(Place(run.branch, run.lo + 1)))."""
    def has_host_copy(self, place: Place) -> bool:
        """Whether the last page of a place has a host copy; True for a root."""
    def path_units(self, place: Place, lo: int = 0) -> Units: ...
    def insert(self, namespace: Hashable, units: Units, pages: Pages, *, priority: int = 0, counts: bool = True) -> Inserted: ...
    def lock(self, place: Place) -> None: ...
    def unlock(self, place: Place) -> None: ...
    def locked_pages(self, place: Place) -> int:
        """How many resident pages of the path are protected now (for quotas)."""
    def evict(self, pages: int) -> int:
        """Device pages freed. Calls spill(run) under write-back for a run without host copies: it gives its last k
        pages host copies (give_host) and returns k; 0: passed over for this call."""
    def evict_host(self, pages: int) -> int: ...
    def give_host(self, run: Run, pages: Pages, *, settled: bool, stored: bool) -> None: ...
    def host_run(self, run: Run) -> Pages:
        """The host pages of a run (a copy)."""
    def device_run(self, run: Run) -> Pages: ...
    def make_resident(self, runs: Sequence[Run], pages: Pages) -> None: ...
    def insert_host(self, anchor: Place, units: Units, pages: Pages) -> tuple[int, int]: ...
    def pin(self, run: Run) -> None: ...
    def unpin(self, run: Run) -> None: ...
    def pin_place(self, place: Place) -> None:
        """Pin the last page of a place (an anchor); nothing for a root or a page without a host copy."""
    def unpin_place(self, place: Place) -> None: ...
    def set_flags(self, run: Run, flags: int) -> None: ...
    def clear_flags(self, run: Run, flags: int) -> None: ...
    def flags(self, run: Run) -> NDArray[np.uint8]: ...
