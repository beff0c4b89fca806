"""Paths: finding a prefix, and reading what is along it.

Nothing here has an effect.  A path is walked branch by
branch: within a branch the tokens are compared as one array with another, from one branch to the next a page is looked
up by its tokens.  So a prefix is found only where every token of it is equal, and in as many steps as it has branches.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterator
from itertools import pairwise, takewhile
from typing import Any, Self, TypeGuard

import numpy as np
from numpy.typing import NDArray

from kvlitmus.optimized import inputs
from kvlitmus.optimized.arrays import IntArray, PageArray
from kvlitmus.optimized.branch import NO_PAGES, NOWHERE, Branch, Found, Place, Run
from kvlitmus.optimized.inputs import StaleHandle
from kvlitmus.optimized.kernels import common
from kvlitmus.optimized.levels import value_at


class Paths:
    """The branches of all namespaces, for pages of ``page_size`` units of type ``dtype``."""

    def __init__(self, page_size: int, dtype: Any) -> None:
        self.page_size = page_size
        self.dtype = np.dtype(dtype)
        self.no_units: IntArray = np.empty(0, self.dtype)
        self.clock = 0
        self.roots: dict[Hashable, Branch] = {}
        self.by_uid: dict[int, Branch] = {}

    def root(self, namespace: Hashable) -> Branch:
        """The root of a namespace: a branch that never has pages.

        The tree keeps it as long as there is something below it; else this is one that only the caller knows.
        """
        return self.roots.get(namespace) or Branch(namespace, None, 0, -1, 0, self.no_units)

    def branches(self) -> Iterator[Branch]:
        """All branches that have pages, each after its parent."""
        waiting = list(self.roots.values())
        while waiting:
            branch = waiting.pop()
            if branch.parent is not None:
                yield branch
            if branch.children:
                waiting += branch.children.values()

    def takes(self, units: Any) -> TypeGuard[IntArray]:
        """Whether this is an array of the tree's own type, without gaps."""
        return (
            units.__class__ is np.ndarray and units.dtype is self.dtype and units.ndim == 1 and units.flags.c_contiguous
        )

    def takes_tokens(self, tokens: Any) -> TypeGuard[IntArray]:
        """Whether it is seen at once that these may be cached as they are; here it takes a longer look."""
        return False

    def units_of(self, units: IntArray) -> IntArray:
        """These units in the tree's own type.

        Raises ``ValueError`` for one that doesn't fit and would be another, and for what is no sequence of integers.
        """
        return units if self.takes(units) else inputs.units(units, self.dtype)

    def opened(self) -> Self:
        """The tree as one that can be looked into: itself."""
        return self

    # -- finding -------------------------------------------------------------------------------

    def find(self, namespace: Hashable, units: IntArray) -> Found:
        """The longest known prefix of a key, on either tier."""
        return self.found(*self.walk(self.root(namespace), 0, self.units_of(units)))

    def walk(self, branch: Branch, end: int, units: IntArray) -> tuple[Branch, int]:
        """From the place ``(branch, end)`` on along ``units``, as far as whole pages of them are known."""
        size = self.page_size
        at, total = 0, len(units)
        while True:
            if end < branch.n:
                pages = common(branch.units, end * size, branch.n * size, units, at) // size
                end += pages
                at += pages * size
            if branch.children is None or total - at < size:
                return branch, end
            child = branch.children.get((end, units[at : at + size].tobytes()))
            if child is None:
                return branch, end
            branch, end = child, 1
            at += size

    def found(self, branch: Branch, end: int) -> Found:
        """What there is to say of a place."""
        return Found(Place(branch, end, self.clock), self.resident(branch, end), branch.base + end)

    def resident(self, branch: Branch, end: int) -> int:
        """How many of the first pages of this path are resident."""
        while not branch.dev and branch.parent is not None:
            end = branch.at
            branch = branch.parent
        return branch.base + min(end, branch.dev)

    def below(self, branch: Branch, lo: int) -> Iterator[Branch]:
        """The branches that hang behind page ``lo`` of this one, each after its parent."""
        waiting = [child for child in (branch.children or {}).values() if child.at > lo]
        while waiting:
            one = waiting.pop()
            yield one
            waiting += (one.children or {}).values()

    # -- places --------------------------------------------------------------------------------

    def depth(self, place: Place) -> int:
        """How many pages a prefix has."""
        return place.branch.base + place.end

    def check(self, place: Place) -> tuple[Branch, int]:
        """Branch and end of this place; raises :class:`StaleHandle` where it is gone, or of another tree.

        It is gone when its last page has left the tree, whatever has been cached there since.  A root is never gone,
        but another branch may be the root of its namespace by now.
        """
        branch, end, tick = place
        if branch.parent is None:
            if branch.units is not self.no_units:
                raise StaleHandle("this place is of another cache, or from before a reset")
            return self.root(branch.namespace), 0
        if self.by_uid.get(branch.uid) is not branch and branch.n:
            raise StaleHandle("this place is of another cache, or from before a reset")
        if not 0 < end <= branch.n:
            raise StaleHandle(f"this place is gone: its branch has {branch.n} pages, not {end}")
        created = branch.created
        if (created if created.__class__ is int else value_at(created, end - 1)) > tick:
            raise StaleHandle("this place is gone: other pages have been cached where it was")
        return branch, end

    def ascend(self, place: Place, depth: int) -> Place:
        """The place ``depth`` pages below the root on the path to this one; raises ``ValueError`` if that is deeper."""
        branch, end, tick = place
        if depth > branch.base + end:
            raise ValueError(f"the path has {branch.base + end} pages (asked for {depth})")
        while depth <= branch.base and branch.parent is not None:
            branch = branch.parent
        return Place(branch, depth - branch.base, tick)

    def resident_place(self, found: Found) -> Place:
        """Where the resident part of what was found ends: what a caller locks."""
        return found.place if found.resident == found.known else self.ascend(found.place, found.resident)

    def place(self, branch: Branch, end: int) -> Place:
        """The prefix that ends there; whoever asks knows that it is not another one's by now."""
        return Place(branch, end)

    # -- what is along a path ------------------------------------------------------------------

    def runs(self, place: Place, lo: int = 0) -> list[Run]:
        """The pages ``lo .. depth-1`` of a path, branch by branch, from the root on."""
        branch, end, _ = place
        runs: list[Run] = []
        while branch.base + end > lo:
            start = max(0, lo - branch.base)
            runs.append(Run(branch, start, end))
            if branch.parent is None:
                break
            branch, end = branch.parent, branch.at
        runs.reverse()
        return runs

    def nodes(self, place: Place, lo: int = 0) -> list[Run]:
        """The pages ``lo .. depth-1`` of a path, node by node, from the root on."""
        nodes: list[Run] = []
        for branch, start, end in self.runs(place, lo):
            starts = branch.node_starts()
            inner = starts[bisect_right(starts, start) : bisect_left(starts, end)]
            nodes += [Run(branch, at, to) for at, to in pairwise((start, *inner, end))]
        return nodes

    def path_pages(self, place: Place, lo: int = 0) -> PageArray:
        """The device pages of the pages ``lo .. depth-1`` of a path; raises ``ValueError`` if one isn't resident."""
        branch, end, _ = place
        if end > branch.dev:
            raise ValueError(f"of this path only {self.resident(branch, end)} pages are resident")
        parts = []
        while branch.base + end > lo:
            parts.append(branch.dev_pages[max(0, lo - branch.base) : end])
            if branch.parent is None:
                break
            branch, end = branch.parent, branch.at
        if len(parts) < 2:
            return parts[0].copy() if parts else NO_PAGES
        parts.reverse()
        return np.concatenate(parts)

    def path_host_pages(self, place: Place, lo: int = 0) -> PageArray:
        """The host pages of the pages ``lo .. depth-1`` of a path; -1 for those without a host copy."""
        runs = self.runs(place, lo)
        return np.concatenate([self.host_run(run) for run in runs]) if runs else NO_PAGES

    def path_units(self, place: Place, lo: int = 0) -> IntArray:
        """The units of the pages ``lo .. depth-1`` of a path."""
        size = self.page_size
        parts = [run.branch.units[run.lo * size : run.hi * size] for run in self.runs(place, lo)]
        return np.concatenate(parts) if parts else self.no_units

    def device_run(self, run: Run) -> PageArray:
        """The device pages of a run."""
        return run.branch.dev_pages[run.lo : run.hi].copy()

    def host_run(self, run: Run) -> PageArray:
        """The host pages of a run; -1 for those without a host copy."""
        if run.branch.host_pages is None:
            return np.full(run.hi - run.lo, NOWHERE, np.int32)
        return run.branch.host_pages[run.lo : run.hi].copy()

    def flags(self, run: Run) -> NDArray[np.uint8]:
        """The flags of a run's host copies."""
        if run.branch.flags is None:
            return np.zeros(run.hi - run.lo, np.uint8)
        return run.branch.flags[run.lo : run.hi].copy()

    def backed(self, place: Place, closed: bool) -> int:
        """How many pages of a path have host copies, from its first one on.

        ``closed``: where one has a copy, all before it have; then the last page of a branch tells for all of them.
        """
        backed = 0
        for branch, lo, hi in self.runs(place):
            host = branch.host_pages
            if host is None:
                return backed
            if not (closed and host[hi - 1] >= 0):
                bare = host[lo:hi] < 0
                first = int(np.argmax(bare))
                if bare[first]:
                    return backed + first
            backed += hi - lo
        return backed

    def due(self, place: Place, lo: int, uses: int) -> list[Run]:
        """The pages ``lo .. depth-1`` of a path, node by node, up to the first node without so many hits."""
        nodes = self.nodes(place, lo)
        return list(takewhile(lambda node: node.branch.hits_at(node.lo) >= uses, nodes))

    def hits(self, place: Place) -> int:
        """How many hits the last page of a prefix has; 0 for a root."""
        return place.branch.hits_at(place.end - 1) if place.end else 0

    def has_host_copy(self, place: Place) -> bool:
        """Whether the last page of a prefix has a host copy; a root needs none."""
        return not place.end or place.branch.has_copy(place.end - 1)

    def locked_pages(self, place: Place) -> int:
        """How many of the resident pages of a path are protected."""
        return sum([max(0, min(run.hi, run.branch.protected()) - run.lo) for run in self.runs(place)])
