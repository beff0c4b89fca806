"""Branches: what the tree is made of.

A **branch** is a run of pages that follow one another in some prompt, kept in contiguous arrays.  It grows at its tip,
shrinks at its tip, and is never split: another branch may hang off the middle of it.  So a conversation of thousands
of turns is one branch, and what is done along its path costs per branch, not per page and not per turn.

Positions in a branch are local, in pages, ``0 .. n``.  A **place** is a position of some branch: the prefix that ends
there.  It stays what it is for as long as its last page is cached: it carries the **tick** at which it was named, and a
page that was cached later, where that one was, is not what it names.  A **run** is a range of pages of one branch.

Rules of upkeep, for a branch ``b`` with parent ``p``:

- ``b.units`` holds ``n * page_size`` units, ``b.dev_pages[:dev]`` the device pages of the pages that are **resident**;
  pages ``dev .. n-1`` are on the host alone.  ``b.host_pages`` (where there is a host tier, and a page of the branch
  ever had a copy) is -1 for pages without a host copy.
- ``b`` hangs off ``p`` at ``b.at``: ``0 < b.at <= p.n`` (or ``p`` is the root of a namespace, which has no pages, and
  ``b.at`` is 0), and if ``b`` has resident pages then ``b.at <= p.dev``.
- ``p.children`` has ``b`` under ``(b.at, the bytes of its first page)``, so a page is looked up by its very tokens.
- The nodes that a radix tree would have are kept as positions: a node begins at 0, where a match or an insert ended,
  where another branch hangs, and where residency changed.  ``b.nodes`` has them, and of each how often it was used;
  it is a number of hits where there is one node only (see :mod:`kvlitmus.optimized.levels`).
- ``b.touched``, ``b.created`` and ``b.priority`` say of each page when it was used last, when it was cached, and how
  much it is to be kept.
- ``p.all_at[x]`` counts the branches that hang at ``x``, ``p.resident_at[x]`` those of them with resident pages.
- ``b.locks`` is ``None`` or a sorted list with ``2 * end + 1`` for each lock of a place ``end`` of ``b``, and
  ``2 * child.at`` for each branch below it that has locks.  Pages before the largest end are protected.
- A branch without pages has been taken out of the tree; nothing refers to it but places that are gone.  A root is known
  to the tree while something hangs at it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvlitmus.optimized import levels
from kvlitmus.optimized.arrays import IntArray, PageArray
from kvlitmus.optimized.levels import Level, Nodes

Units = IntArray
"""Tokens, or bigrams packed into 64 bits each, of the type that the tree was made for."""

SETTLED, STORED, BUSY = 1, 2, 4
"""Flags of a page's host copy: its contents are there; storage is known to have it; a put of it is under way."""

NOWHERE = -1
"""The host page of a page without a host copy."""

DIGEST_BYTES = 32
"""The length of a page's digest."""


class Branch:
    """One branch; see the rules of upkeep above.

    ``uid``: its number, used again when it is gone; -1 for a root.
    ``namespace``: whose prompts these are.  ``base``: its depth, in pages from the root of the namespace.  ``pins`` and
    ``flags`` go with ``host_pages``.  ``digests``: the raw storage hashes of its first pages, as far as somebody asked;
    a root has its seed there.
    """

    __slots__ = (
        "all_at",
        "at",
        "base",
        "children",
        "created",
        "dev",
        "dev_pages",
        "digests",
        "flags",
        "host_pages",
        "locks",
        "n",
        "namespace",
        "nodes",
        "parent",
        "pins",
        "priority",
        "resident_at",
        "touched",
        "uid",
        "units",
    )

    def __init__(
        self, namespace: Hashable, parent: Branch | None, at: int, uid: int, tick: int, units: IntArray
    ) -> None:
        self.namespace = namespace
        self.parent = parent
        self.at = at
        self.base: int = 0 if parent is None else parent.base + at
        self.uid = uid
        self.n = 0
        self.dev = 0
        self.units = units
        self.dev_pages: PageArray = NO_PAGES
        self.host_pages: PageArray | None = None
        self.pins: NDArray[np.int32] | None = None
        self.flags: NDArray[np.uint8] | None = None
        self.touched: Level = tick
        self.created: Level = tick
        self.priority: Level = 0
        self.nodes: Nodes | int = 0
        self.locks: list[int] | None = None
        self.children: dict[tuple[int, bytes], Branch] | None = None
        self.all_at: dict[int, int] | None = None
        self.resident_at: dict[int, int] | None = None
        self.digests: bytearray | None = None

    def protected(self) -> int:
        """How many of its first pages are locked."""
        locks = self.locks
        return locks[-1] >> 1 if locks else 0

    def key(self, page_size: int) -> tuple[int, bytes]:
        """Under what the parent has it."""
        return self.at, self.units[:page_size].tobytes()

    def room(self, pages: int, page_size: int) -> None:
        """Have arrays with room for so many pages more."""
        old, new = self.n, self.n + pages
        if not old:
            units = np.empty(new * page_size, self.units.dtype)
            self.dev_pages = np.empty(new, np.int32)
            self.units = units
        elif new > len(self.dev_pages):
            self._resize(old, max(new, old + (old >> 2)), page_size)

    def append(self, units: IntArray, pages: IntArray | None, page_size: int, tick: int, priority: int) -> None:
        """Go on with these units: resident in these device pages, or, without, on the host alone (see :meth:`back`).

        The new pages are a node of their own, created and used now, without a hit.  :meth:`room` has been called.
        """
        old = self.n
        new = old + len(units) // page_size
        self.units[old * page_size : new * page_size] = units
        if pages is not None:
            self.dev_pages[old:new] = pages
            self.dev = new
        self.n = new
        if not old:
            self.touched = self.created = tick
            self.priority = priority
            return
        self._nodes().add(old)
        self.touched = levels.grow(self.touched, old, new, tick)
        self.created = levels.grow(self.created, old, new, tick)
        self.priority = levels.grow(self.priority, old, new, priority)

    def truncate(self, end: int, page_size: int) -> None:
        """End here from now on; memory that it doesn't need any more is given up once that is three quarters of it."""
        self.n = end
        self.dev = min(self.dev, end)
        if not isinstance(self.nodes, int):
            self.nodes.trim(end)
        self.touched = levels.trim(self.touched, end)
        self.created = levels.trim(self.created, end)
        self.priority = levels.trim(self.priority, end)
        if self.digests is not None:
            del self.digests[end * DIGEST_BYTES :]
        if self.host_pages is not None and self.flags is not None:
            self.host_pages[end:] = NOWHERE
            self.flags[end:] = 0
        if 4 * end + 8 < len(self.dev_pages):
            try:  # noqa: SIM105  a context manager costs more than the rest
                self._resize(end, end, page_size)
            except MemoryError:
                pass  # it stays as large as it is

    def room_for_copies(self) -> None:
        """Have the arrays for host copies."""
        if self.host_pages is None:
            capacity = len(self.dev_pages)
            host_pages = np.full(capacity, NOWHERE, np.int32)
            pins, flags = np.zeros(capacity, np.int32), np.zeros(capacity, np.uint8)
            self.host_pages, self.pins, self.flags = host_pages, pins, flags

    def back(self, lo: int, hi: int, pages: IntArray, flags: int) -> None:
        """Pages ``lo .. hi-1`` have host copies in these host pages."""
        self.room_for_copies()
        assert self.host_pages is not None and self.pins is not None and self.flags is not None
        self.host_pages[lo:hi] = pages
        self.pins[lo:hi] = 0
        self.flags[lo:hi] = flags

    def unback(self, lo: int, hi: int) -> None:
        """Pages ``lo .. hi-1`` have no host copies."""
        if self.host_pages is not None and self.pins is not None and self.flags is not None:
            self.host_pages[lo:hi] = NOWHERE
            self.pins[lo:hi] = 0
            self.flags[lo:hi] = 0

    def has_any_copy(self) -> bool:
        """Whether any of its pages has a host copy."""
        return self.host_pages is not None and bool((self.host_pages[: self.n] >= 0).any())

    def has_copy(self, position: int) -> bool:
        """Whether the page here has a host copy."""
        return self.host_pages is not None and bool(self.host_pages[position] >= 0)

    # -- nodes and their hits ------------------------------------------------------------------

    def cut(self, position: int) -> None:
        """A node begins here now, unless the branch begins or ends here."""
        if 0 < position < self.n:
            self._nodes().cut(position)

    def node_start(self, position: int) -> int:
        """Where the node begins that a page is in."""
        nodes = self.nodes
        return 0 if isinstance(nodes, int) else nodes.starts[nodes.at(position)]

    def node_starts(self) -> Sequence[int]:
        """Where all its nodes begin."""
        return (0,) if isinstance(self.nodes, int) else self.nodes.starts

    def hits_at(self, position: int) -> int:
        """How many hits the page here has."""
        return self.nodes if isinstance(self.nodes, int) else self.nodes.hits(position)

    def count(self, start: int, end: int) -> None:
        """One hit more from ``start`` on and before ``end``; a node begins, or the branch ends, at both."""
        if start >= end:
            return
        if isinstance(self.nodes, int):
            self.nodes += 1
        else:
            self.nodes.count(start, end)

    def _nodes(self) -> Nodes:
        if isinstance(self.nodes, int):
            self.nodes = Nodes(self.nodes)
        return self.nodes

    # -- arrays --------------------------------------------------------------------------------

    def _resize(self, used: int, capacity: int, page_size: int) -> None:
        """Move the first ``used`` pages into arrays of this capacity; all of them, or none where memory is short."""
        units = _moved(self.units, used * page_size, capacity * page_size)
        dev_pages = _moved(self.dev_pages, used, capacity)
        if self.host_pages is not None and self.pins is not None and self.flags is not None:
            host_pages = _moved(self.host_pages, used, capacity, NOWHERE)
            pins, flags = _moved(self.pins, used, capacity, 0), _moved(self.flags, used, capacity, 0)
            self.host_pages, self.pins, self.flags = host_pages, pins, flags
        self.units, self.dev_pages = units, dev_pages


def _moved(old: NDArray[Any], used: int, capacity: int, fill: int | None = None) -> NDArray[Any]:
    new = np.empty(capacity, old.dtype)
    new[:used] = old[:used]
    if fill is not None:
        new[used:] = fill
    return new


NO_PAGES: PageArray = np.empty(0, np.int32)
"""No pages."""


ALWAYS = 2**62
"""The tick of a place that is used up before anything changes."""


class Place(NamedTuple):
    """The prefix that ends after the first ``end`` pages of ``branch``; a root's place has ``end`` 0.

    ``tick``: the tree's clock when it was named.
    """

    branch: Branch
    end: int
    tick: int = ALWAYS


class Run(NamedTuple):
    """Pages ``lo .. hi-1`` of a branch."""

    branch: Branch
    lo: int
    hi: int


class Found(NamedTuple):
    """A match: the ``place`` where the known prefix ends, and how many pages of it are ``resident``, and ``known``."""

    place: Place
    resident: int
    known: int


class Match(NamedTuple):
    """What is cached of a key.

    ``pages``: its resident pages, in order; ``place``: where they end, to be locked; ``behind``: how many pages follow
    on the host alone; ``known``: where these end.
    """

    pages: PageArray
    place: Place
    behind: int
    known: Place


class Inserted(NamedTuple):
    """An insert: how many pages of the key were resident ``already``, and the ``place`` where it ends."""

    already: int
    place: Place
