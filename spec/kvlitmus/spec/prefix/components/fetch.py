"""How a prefetch of several components is reserved, read and committed: arithmetic that all of them share.

A prefetch starts at a boundary that is cached, its **anchor**, and reads what storage has of the key behind it.

* It **reserves** memory for all components at once (:func:`asked`): KV for the whole length, of a window ⌈w / unit⌉ entries,
  or none where the prefetch is shorter than that, one state, index keys as many as KV.  Only the KV may be cut short, and
  only as far as its own pool makes it necessary (:func:`reserved_length`); all else is granted as it is needed at that length, or
  the prefetch is refused as a whole.
* It **reads** up to the largest boundary that all components for which it has memory can restore: the intersection
  (:func:`restored`).  What one can restore is a *set*, and it has holes: a window that lacks one page is restorable before
  it and some pages behind it.  The least of the maxima may be a boundary that none of them can restore.  What it reads of each is what this boundary needs (:func:`fetched`).
* It **commits** the KV that came, up to the first entry that is missing of it or of what is derived from it
  (:func:`committed`).  Of the others it attaches what its boundary needs, all of it or nothing (:func:`attached`): a state or a
  window was stored for the boundary that was planned, and is of no use at another.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from kvlitmus.spec.words.layouts import Layout
from kvlitmus.spec.words.shapes import (
    Chunk,
    Component,
    Derived,
    Need,
    Point,
    Run,
    Window,
    fits,
    needed,
    step_of,
    summed,
)


def agreed(sets: Iterable[Collection[int]]) -> int:
    """The largest boundary that all can restore."""
    return max(frozenset.intersection(*map(frozenset, sets)), default=0)


def window_pages(reach: int, page_size: int) -> int:
    """How many pages hold a window of so many tokens: as many as it takes, the last boundary being that of a page."""
    return -(-reach // page_size)


def window_ask(tokens: int, reach: int, page_size: int) -> int:
    """How many pages of the window a prefetch of so many tokens takes: all of them, or none where it is shorter."""
    pages = window_pages(reach, page_size)
    return pages if tokens // page_size >= pages else 0


class Origin(NamedTuple):
    """Where a prefetch starts: the end of its anchor, in units; ``short``: of a window it takes what there is behind it, where that is less."""

    start: int
    short: bool = False


def entries_asked(component: Component, origin: Origin, length: int) -> int:
    """How many entries of a component a prefetch of so many units reserves."""
    shape, unit = component.shape, component.unit
    if isinstance(shape, Window) and origin.short:
        return min(length // unit, window_pages(shape.reach, unit))
    if isinstance(shape, Window):
        return window_ask(length, shape.reach, unit)
    if isinstance(shape, Point):
        return min(length, 1)
    whole = length // unit
    return min(whole, (shape.size - 1) // unit) if isinstance(shape, Chunk) else whole


def asked(layout: Layout, origin: Origin, length: int) -> tuple[Need, ...]:
    """What a prefetch of so many units needs of all components."""
    return tuple(Need(one, entries_asked(one, origin, length), isinstance(one.shape, Run)) for one in layout.components)


def least_length(layout: Layout, threshold: int) -> int:
    """With how many units a prefetch is worth it: the threshold, and one step between boundaries."""
    return max(threshold, step_of(layout.components))


def cut_length(layout: Layout, origin: Origin, length: int, available: Mapping[str, int]) -> int:
    """The largest length up to this one, in whole steps, for which the pool of what can be cut short has room: of the KV."""

    def has_room(some: int) -> bool:
        needs = asked(layout, origin, some)
        total = summed(needs)
        pools = {need.component.pool for need in needs if need.truncatable}
        return all(total[pool] <= available.get(pool, 0) for pool in pools)

    return next((some for some in range(length, 0, -step_of(layout.components)) if has_room(some)), 0)


def reserved_length(layout: Layout, origin: Origin, length: int, least: int, available: Mapping[str, int]) -> int:
    """How many units a prefetch reserves that could have so many; 0: it is refused.

    ``length``: whole steps.  ``available``: the free places of each pool, after room was made.
    """
    cut = cut_length(layout, origin, length, available)
    return cut if cut >= least and fits(asked(layout, origin, cut), available) else 0


def fetched(component: Component, origin: Origin, boundary: int) -> range:
    """Where the entries end that a prefetch reads of a component for a boundary.

    Of a window all or none; or, if it may be ``short``, what there is of it behind the start.
    """
    start = origin.start
    if boundary <= start:
        return range(0)
    shape, unit = component.shape, component.unit
    if isinstance(shape, Window) and not origin.short and boundary - start < window_pages(shape.reach, unit) * unit:
        return range(0)
    ends = needed(component, boundary) or range(0)
    return ends if isinstance(shape, Point) else range(max(ends.start, start + unit), ends.stop, unit)


def boundaries(
    component: Component, origin: Origin, candidates: Collection[int], stored: Collection[int]
) -> frozenset[int]:
    """The boundaries among these that a component can restore from what storage has; nothing is always restorable.

    A window is fetched whole or not at all, so it can't restore a boundary that is nearer to the anchor than its length,
    unless it is ``short`` there.
    """
    found = {origin.start}
    for boundary in candidates:
        ends = fetched(component, origin, boundary)
        if (ends or not isinstance(component.shape, Window)) and all(end in stored for end in ends):
            found.add(boundary)
    return frozenset(found)


def restored(
    layout: Layout,
    origin: Origin,
    length: int,
    least: int,
    taken: Collection[str],
    stored: Mapping[str, Collection[int]],
) -> int:
    """The largest boundary that all components can restore for which a prefetch has memory (``taken``).

    It is the start where that is fewer than ``least`` units: nothing is read then.  A component of which storage says nothing
    has nothing there.
    """
    step, start = step_of(layout.components), origin.start
    candidates = range(start + step, start + length + 1, step)
    mine = [one for one in layout.components if one.name in taken]
    found = agreed(
        [{start}.union(candidates)] + [boundaries(one, origin, candidates, stored.get(one.name, ())) for one in mine]
    )
    return found if found - start >= least else start


def committed(layout: Layout, start: int, boundary: int, came: Mapping[str, Collection[int]]) -> int:
    """Where the KV ends that can be cached: before the first entry that didn't come, of it or of what is derived from it."""
    kept = [one for one in layout.components if isinstance(one.shape, Run | Derived)]
    unit = layout.base.unit
    end = start
    while end < boundary and all(
        at in came.get(one.name, ()) for one in kept for at in fetched(one, Origin(end), end + unit)
    ):
        end += unit
    return end


def attached(
    layout: Layout, origin: Origin, boundary: int, end: int, came: Mapping[str, Collection[int]]
) -> Mapping[str, tuple[int, ...]]:
    """Where the entries end, by component, that a commit of KV up to ``end`` attaches.

    KV, and what is derived from it, up to there; of each other component what the planned boundary needs, if the KV
    reaches it and all of that came.
    """
    found: dict[str, tuple[int, ...]] = {}
    for one in layout.components:
        if isinstance(one.shape, Run | Derived):
            found[one.name] = tuple(fetched(one, origin, end))
        else:
            ends = fetched(one, origin, boundary)
            whole = end == boundary and all(at in came.get(one.name, ()) for at in ends)
            found[one.name] = tuple(ends) if whole else ()
    return found
