"""Levels: numbers that differ along a branch, in a few pieces.

Recency, creation, hits and priority belong to pages, but whole stretches of a branch share them: what a call does, it
does to a prefix.  So each is kept as a function of the position that is constant in pieces, and a call costs a few
steps, however long the prefix is.

A **level** (recency, creation, priority) is one number, where it is the same along the whole branch; else a flat array
``end, value, end, value, ...``, the piece at the tip first and the piece at the root last, so that what covers a prefix
is at the end of the array and is replaced there.  The first end is where the branch ends; each piece reaches down to
the end of the next.  Functions that change a level return it, for it may have become the other kind.

**Nodes** are where the nodes of the branch begin, and beside it the **counts** that make hits: the hits of node ``i``
are ``sum(counts[i:])``.  One more hit of a whole prefix is thus one more in the last node of the prefix.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

Level = int | array  # type: ignore[type-arg]
"""One number, or pieces."""


def value_at(level: Level, position: int) -> int:
    """The value at a position."""
    if isinstance(level, int):
        return level
    low, high = 0, len(level) // 2 - 1
    if level[2] <= position:  # in the piece at the tip, as it mostly is
        high = 0
    while low < high:
        middle = (low + high + 1) // 2
        if level[2 * middle] > position:
            low = middle
        else:
            high = middle - 1
    value: int = level[2 * low + 1]
    return value


def set_prefix(level: Level, end: int, value: int, n: int) -> Level:
    """Of ``n`` positions those before ``end`` have this value now."""
    if end >= n:
        return value
    if isinstance(level, int):
        return array("q", (n, level, end, value))
    while level[-2] <= end:
        del level[-2:]
    level.append(end)
    level.append(value)
    return level


def set_range(level: Level, start: int, end: int, value: int, n: int) -> Level:
    """Of ``n`` positions those from ``start`` on and before ``end`` have this value now."""
    if not start:
        return set_prefix(level, end, value, n)
    pieces = _pieces(level, n)
    tipwards = [piece for piece in pieces if piece[0] > end]
    rootwards = [piece for piece in pieces if piece[0] < start]
    return _level([*tipwards, (end, value), (start, value_at(level, start - 1)), *rootwards])


def raise_prefix(level: Level, end: int, value: int, n: int) -> Level:
    """Of ``n`` positions those before ``end`` have at least this value now; from root to tip values never rise."""
    if isinstance(level, int) and level >= value:
        return level
    pieces = _pieces(level, n)
    high = [piece for piece in pieces if piece[1] >= value]
    if high and high[0][0] >= end:
        return level
    if high and high[0][1] == value:
        del high[0]
    low = [piece for piece in pieces if piece[1] < value and piece[0] > end]
    return _level([*low, (end, value), *high])


def grow(level: Level, old: int, n: int, value: int) -> Level:
    """The branch goes on from ``old`` to ``n``, with this value."""
    if isinstance(level, int):
        return value if not old or level == value else array("q", (n, value, old, level))
    if level[1] == value:
        level[0] = n
        return level
    level[:0] = array("q", (n, value))
    return level


def trim(level: Level, n: int) -> Level:
    """The branch ends at ``n`` now: pieces that begin behind are no more."""
    if isinstance(level, int):
        return level
    while len(level) > 2 and level[2] >= n:
        del level[:2]
    level[0] = n
    value: int = level[1]
    return level if len(level) > 2 else value


def _pieces(level: Level, n: int) -> list[tuple[int, int]]:
    if isinstance(level, int):
        return [(n, level)]
    return [(level[at], level[at + 1]) for at in range(0, len(level), 2)]


def _level(pieces: list[tuple[int, int]]) -> Level:
    if len(pieces) == 1:
        return pieces[0][1]
    return array("q", [number for piece in pieces for number in piece])


class Nodes:
    """Where the nodes of a branch begin, and the counts that its hits are made of."""

    __slots__ = ("counts", "starts")

    def __init__(self, hits: int) -> None:
        self.starts = array("i", (0,))
        self.counts = array("i", (hits,))

    def at(self, position: int) -> int:
        """The node that a position is in."""
        return bisect_right(self.starts, position) - 1

    def cut(self, position: int) -> None:
        """A node begins here, if none does: both halves have the hits that the whole had."""
        starts = self.starts
        at = bisect_left(starts, position)
        if at == len(starts) or starts[at] != position:
            starts.insert(at, position)
            self.counts.insert(at - 1, 0)

    def add(self, start: int) -> None:
        """The branch goes on from ``start`` with a new node, without hits."""
        self.starts.append(start)
        self.counts.append(0)

    def trim(self, n: int) -> None:
        """The branch ends at ``n`` now: nodes that begin behind are no more."""
        starts, counts = self.starts, self.counts
        while len(starts) > 1 and starts[-1] >= n:
            starts.pop()
            last = counts.pop()
            counts[-1] += last

    def hits(self, position: int) -> int:
        """How many hits the page here has."""
        at = bisect_right(self.starts, position) - 1
        counts = self.counts
        return counts[-1] if at == len(counts) - 1 else sum(counts[at:])

    def count(self, start: int, end: int) -> None:
        """One hit more from ``start`` on and before ``end``; a node begins, or the branch ends, at both."""
        self.counts[bisect_left(self.starts, end) - 1] += 1
        if start:
            self.counts[bisect_left(self.starts, start) - 1] -= 1
