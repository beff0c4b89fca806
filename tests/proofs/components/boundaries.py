"""Boundaries that can be restored from storage, as sets: why the least of the largest is not enough."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import combinations


def restorable(pages: int, there: Collection[int], run: int, root: str = "shorter") -> frozenset[int]:
    """The boundaries, in pages, at which a window of so many pages can be restored, up to a run of KV.

    ``there``: the pages, counted from 1, that storage has of it.  Near the root a window is what there is, or it must
    be there in full (``root``).  Nothing is always restorable.
    """
    found = {0}
    for boundary in range(1, run + 1):
        first = boundary - pages
        if (first >= 0 or root == "shorter") and all(at in there for at in range(max(0, first) + 1, boundary + 1)):
            found.add(boundary)
    return frozenset(found)


def least_of_the_largest(sets: Iterable[Collection[int]]) -> int:
    """The least of the largest boundaries: what one reduction by MIN of numbers says."""
    return min((max(one, default=0) for one in sets), default=0)


def without_holes(boundaries: Collection[int]) -> bool:
    """Whether everything up to the largest boundary can be restored."""
    return len(set(boundaries)) == max(boundaries, default=-1) + 1


def all_or_nothing(sets: Collection[Collection[int]]) -> bool:
    """Whether each can restore nothing but the root, or the root and the one boundary that all others can."""
    more = {boundary for one in sets for boundary in one if boundary}
    return len(more) <= 1


def counterexamples(most: int) -> Iterator[tuple[frozenset[int], frozenset[int]]]:
    """Pairs of sets of boundaries up to ``most`` of which MIN says one that is not in both; the smallest first."""
    every = [frozenset((0, *chosen)) for many in range(most + 1) for chosen in combinations(range(1, most + 1), many)]
    pairs = sorted(
        ((left, right) for left in every for right in every),
        key=lambda pair: (max(pair[0] | pair[1]), len(pair[0]) + len(pair[1]), sorted(pair[0]), sorted(pair[1])),
    )
    return (pair for pair in pairs if least_of_the_largest(pair) not in pair[0] & pair[1])
