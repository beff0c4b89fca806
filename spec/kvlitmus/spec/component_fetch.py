"""How a prefetch of several components is reserved, read and committed: arithmetic that all of them share.

A prefetch starts at a boundary that is cached, its **anchor**, and reads what storage has of the key behind it.

* It **reserves** memory for all components at once (:func:`asked`): KV for the whole length, of a window ⌈w / unit⌉ entries,
  or none where the prefetch is shorter than that, one state, index keys as many as KV.  Only the KV may be cut short, and
  only as far as its own pool makes it necessary (:func:`reserved_length`); all else is granted as it is needed at that length, or
  the prefetch is refused as a whole.
* It **reads** up to the largest boundary that all components for which it has memory can restore: the intersection
  (:func:`restored`).  What it reads of each is what this boundary needs (:func:`fetched`).
* It **commits** the KV that came, up to the first entry that is missing of it or of what is derived from it
  (:func:`committed`).  Of the others it attaches what its boundary needs, all of it or nothing (:func:`attached`): a state or a
  window was stored for the boundary that was planned, and is of no use at another.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kvlitmus.spec.component_layouts import Layout
from kvlitmus.spec.component_shapes import (
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
from kvlitmus.spec.component_storage import agreed, window_ask, window_pages


def entries_asked(component: Component, length: int, *, short: bool = False) -> int:
    """How many entries of a component a prefetch of so many units reserves; ``short``: of a window as many as there are."""
    shape, unit = component.shape, component.unit
    if isinstance(shape, Window):
        return min(length // unit, window_pages(shape.reach, unit)) if short else window_ask(length, shape.reach, unit)
    if isinstance(shape, Point):
        return min(length, 1)
    whole = length // unit
    return min(whole, (shape.size - 1) // unit) if isinstance(shape, Chunk) else whole


def asked(layout: Layout, length: int, *, short: bool = False) -> tuple[Need, ...]:
    """What a prefetch of so many units needs of all components."""
    return tuple(
        Need(one, entries_asked(one, length, short=short), isinstance(one.shape, Run)) for one in layout.components
    )


def least_length(layout: Layout, threshold: int) -> int:
    """With how many units a prefetch is worth it: the threshold, and one step between boundaries."""
    return max(threshold, step_of(layout.components))


def cut_length(layout: Layout, length: int, available: Mapping[str, int], *, short: bool = False) -> int:
    """The largest length up to this one, in whole steps, for which the pool of the KV has room."""
    step, pool = step_of(layout.components), layout.base.pool
    room = available.get(pool, 0)
    return next((some for some in range(length, 0, -step) if summed(asked(layout, some, short=short))[pool] <= room), 0)


def reserved_length(
    layout: Layout, length: int, least: int, available: Mapping[str, int], *, short: bool = False
) -> int:
    """How many units a prefetch reserves that could have so many; 0: it is refused.

    ``length``: whole steps.  ``available``: the free places of each pool, after room was made.
    """
    cut = cut_length(layout, length, available, short=short)
    return cut if cut >= least and fits(asked(layout, cut, short=short), available) else 0


def fetched(component: Component, start: int, boundary: int, *, short: bool = False) -> range:
    """Where the entries end that a prefetch from ``start`` reads of a component for a boundary.

    Of a window all or none; or, if it may be ``short``, what there is of it behind ``start``.
    """
    if boundary <= start:
        return range(0)
    shape, unit = component.shape, component.unit
    if isinstance(shape, Window) and not short and boundary - start < window_pages(shape.reach, unit) * unit:
        return range(0)
    ends = needed(component, boundary) or range(0)
    return ends if isinstance(shape, Point) else range(max(ends.start, start + unit), ends.stop, unit)


def boundaries(
    component: Component, start: int, candidates: Collection[int], stored: Collection[int], *, short: bool = False
) -> frozenset[int]:
    """The boundaries among these that a component can restore from what storage has; nothing is always restorable.

    A window is fetched whole or not at all, so it can't restore a boundary that is nearer to the anchor than its length,
    unless it is ``short`` there.
    """
    found = {start}
    for boundary in candidates:
        ends = fetched(component, start, boundary, short=short)
        if (ends or not isinstance(component.shape, Window)) and all(end in stored for end in ends):
            found.add(boundary)
    return frozenset(found)


def restored(
    layout: Layout,
    start: int,
    length: int,
    least: int,
    taken: Collection[str],
    stored: Mapping[str, Collection[int]],
    *,
    short: bool = False,
) -> int:
    """The largest boundary that all components can restore for which a prefetch has memory (``taken``).

    It is ``start`` where that is fewer than ``least`` units: nothing is read then.  A component of which storage says nothing
    has nothing there.
    """
    step = step_of(layout.components)
    candidates = range(start + step, start + length + 1, step)
    mine = [one for one in layout.components if one.name in taken]
    found = agreed(
        [{start}.union(candidates)]
        + [boundaries(one, start, candidates, stored.get(one.name, ()), short=short) for one in mine]
    )
    return found if found - start >= least else start


def committed(layout: Layout, start: int, boundary: int, came: Mapping[str, Collection[int]]) -> int:
    """Where the KV ends that can be cached: before the first entry that didn't come, of it or of what is derived from it."""
    kept = [one for one in layout.components if isinstance(one.shape, Run | Derived)]
    unit = layout.base.unit
    end = start
    while end < boundary and all(at in came.get(one.name, ()) for one in kept for at in fetched(one, end, end + unit)):
        end += unit
    return end


def attached(
    layout: Layout, start: int, boundary: int, end: int, came: Mapping[str, Collection[int]], *, short: bool = False
) -> Mapping[str, tuple[int, ...]]:
    """Where the entries end, by component, that a commit of KV up to ``end`` attaches.

    KV, and what is derived from it, up to there; of each other component what the planned boundary needs, if the KV
    reaches it and all of that came.
    """
    found: dict[str, tuple[int, ...]] = {}
    for one in layout.components:
        if isinstance(one.shape, Run | Derived):
            found[one.name] = tuple(fetched(one, start, end))
        else:
            ends = fetched(one, start, boundary, short=short)
            whole = end == boundary and all(at in came.get(one.name, ()) for at in ends)
            found[one.name] = tuple(ends) if whole else ()
    return found
