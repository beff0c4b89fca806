"""Levels: numbers that differ along a branch, in a few pieces.

Recency, creation, hits and priority belong to pages, but whole stretches of a branch share them: what a call does, it
does to a prefix.  So each is kept as a function of the position that is constant in pieces, and a call costs a few
steps, however long the prefix is.  There are three kinds.

**Ends** (recency, priority): a flat array ``end, value, end, value, ...``, the piece at the tip first and the piece at
the root last, so that what covers a prefix is at the end of the array and is replaced there.  Each piece reaches down
to the end of the next; the first one may claim to end beyond the branch.

**Nodes** (``starts`` and beside it ``created``): where the nodes of the branch begin, and when each was created.

**Counts** (hits), beside the nodes: the hits of node ``i`` are ``sum(counts[i:])``.  One more hit of a whole prefix is
thus one more in the last node of the prefix.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

# -- ends: recency and priority ---------------------------------------------------------------------------


def ends(end: int, value: int) -> array[int]:
    """The level that has one value up to ``end``."""
    return array("q", (end, value))


def value_at(level: array[int], position: int) -> int:
    """The value at a position; found from the tip on, so that the tip itself costs nothing."""
    at, size = 2, len(level)
    while at < size and level[at] > position:
        at += 2
    return level[at - 1]


def set_prefix(level: array[int], end: int, value: int) -> None:
    """Positions before ``end`` have this value now."""
    while level and level[-2] <= end:
        del level[-2:]
    level.append(end)
    level.append(value)


def set_range(level: array[int], start: int, end: int, value: int) -> None:
    """Positions from ``start`` on and before ``end`` have this value now."""
    pieces = [(level[at], level[at + 1]) for at in range(0, len(level), 2)]
    tipwards = [piece for piece in pieces if piece[0] > end]
    rootwards = [piece for piece in pieces if piece[0] < start]
    if start > 0:
        rootwards.insert(0, (start, value_at(level, start - 1)))
    level[:] = array("q", [number for piece in (*tipwards, (end, value), *rootwards) for number in piece])


def raise_prefix(level: array[int], end: int, value: int) -> None:
    """Positions before ``end`` have at least this value now; values never rise from the root to the tip."""
    high: list[tuple[int, int]] = []
    while level and level[-1] >= value:
        high.append((level[-2], level[-1]))
        del level[-2:]
    if not high or high[-1][0] < end:
        while level and level[-2] <= end:
            del level[-2:]
        level.extend((end, value))
    for piece in reversed(high):
        level.extend(piece)


def grow(level: array[int], end: int, value: int) -> None:
    """The branch goes on to ``end``, with this value."""
    level[:0] = array("q", (end, value))


def trim(level: array[int], end: int) -> None:
    """The branch ends here now: pieces that begin behind are no more."""
    while len(level) > 2 and level[2] >= end:
        del level[:2]
    level[0] = end


# -- nodes: boundaries, creation, hits --------------------------------------------------------------------


class Nodes:
    """Where the nodes of a branch begin, when each was created, and the counts that its hits are made of."""

    __slots__ = ("counts", "created", "starts")

    def __init__(self, tick: int) -> None:
        self.starts = array("i", (0,))
        self.created = array("q", (tick,))
        self.counts = array("i", (0,))

    def at(self, position: int) -> int:
        """The node that a position is in."""
        return bisect_right(self.starts, position) - 1

    def start(self, position: int) -> int:
        """Where the node begins that a position is in."""
        return self.starts[bisect_right(self.starts, position) - 1]

    def cut(self, position: int) -> None:
        """A node begins here, if none does: both halves are worth what the whole was."""
        starts = self.starts
        at = bisect_left(starts, position)
        if at < len(starts) and starts[at] == position:
            return
        starts.insert(at, position)
        self.created.insert(at, self.created[at - 1])
        self.counts.insert(at - 1, 0)

    def add(self, start: int, tick: int) -> None:
        """The branch goes on from ``start`` with a new node."""
        self.starts.append(start)
        self.created.append(tick)
        self.counts.append(0)

    def trim(self, end: int) -> None:
        """The branch ends here now: nodes that begin behind are no more."""
        starts, counts = self.starts, self.counts
        while len(starts) > 1 and starts[-1] >= end:
            starts.pop()
            self.created.pop()
            last = counts.pop()
            counts[-1] += last

    def created_at(self, position: int) -> int:
        """When the page here was created."""
        return self.created[bisect_right(self.starts, position) - 1]

    def hits_at(self, position: int) -> int:
        """How many hits the page here has."""
        at = bisect_right(self.starts, position) - 1
        counts = self.counts
        return counts[-1] if at == len(counts) - 1 else sum(counts[at:])

    def count(self, start: int, end: int) -> None:
        """One hit more from ``start`` on and before ``end``; a node begins, or the branch ends, at both."""
        if start < end:
            self.counts[bisect_left(self.starts, end) - 1] += 1
            if start:
                self.counts[bisect_left(self.starts, start) - 1] -= 1
