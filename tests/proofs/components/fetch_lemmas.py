"""What is proven of prefetches of components, as functions that CrossHair reads.

They are about the functions that judge and reference call.  Lengths, how far a window reaches, and what pools have, are
any integers; prefetches of which all that may come is tried have at most :data:`PAGES` pages, and begin at few places.
Each ``planted`` function puts a slip into one of those functions, and what was proven of it must fail.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from kvlitmus.spec.prefix.components import fetch as component_fetch
from kvlitmus.spec.prefix.components.fetch import Origin, agreed, window_pages
from kvlitmus.spec.words import shapes as component_shapes
from kvlitmus.spec.words.layouts import Layout
from kvlitmus.spec.words.shapes import Component, Derived, Need, Point, Run, Window
from tests.proofs.components.boundaries import least_of_the_largest, without_holes
from tests.proofs.components.lemmas import SIZES, sized

PAGES = 3
"""How many pages a prefetch has at most, where all that may come of them is tried."""

STARTS = (0, 3)
"""Where such a prefetch starts, in pages: sets of symbols are slow to compare."""

ROOT = Origin(0)
"""A prefetch of a whole key, of windows as a whole."""


def layout(size: int, *shapes: component_shapes.Shape, pool: str = "") -> Layout:
    """KV and components of these shapes, with entries of a page each, in pools of their own or in one."""
    names = [type(shape).__name__.lower() for shape in shapes]
    made = [Component(name, shape, pool or name, size, size) for name, shape in zip(names, shapes, strict=True)]
    return Layout((Component("kv", Run(), pool or "kv", size, size), *made), {})


def among(start: int, size: int, there: Sequence[bool]) -> tuple[int, ...]:
    """Where the entries behind a start end that are there."""
    return tuple([start + number * size for number, one in enumerate(there, 1) if one])


@contextmanager
def slip(module: object, name: str, wrong: Callable[..., object]) -> Iterator[None]:
    """A function is wrong for a while."""
    right = getattr(module, name)
    setattr(module, name, wrong)
    try:
        yield
    finally:
        setattr(module, name, right)


def plain(number: int) -> int:
    """A number of a few pages, or a start, as a plain number."""
    for one in range(PAGES + 1):
        if number == one:
            return one
    raise ValueError(number)


# What is needed and read


def what_is_needed_covers_the_window(pages: int, reach: int, page_size: int) -> None:
    """The entries that a boundary needs hold every token of its window, and none of them holds no such token."""
    assert page_size in SIZES and pages >= 0 and reach >= 1
    size = sized(page_size)
    boundary = pages * size
    ends = component_shapes.needed(Component("swa", Window(reach), "swa", size, size), boundary)
    first = max(0, boundary - reach)
    assert ends is not None
    assert len(ends) * size == boundary - first + first % size
    assert not ends or (ends[-1] == boundary and ends[0] - size <= first < ends[0])


def one_hole_and_a_boundary_is_not_valid(pages: int, reach: int, hole: int, page_size: int) -> None:
    """A boundary is valid as long as what is missing is none of the entries that hold its window."""
    assert page_size in SIZES and pages >= 0 and 1 <= reach <= 2 * page_size and hole >= 1
    size = sized(page_size)
    boundary = pages * size
    there = tuple([end for end in range(boundary - 2 * size, boundary + 1, size) if end != hole * size])
    found = component_shapes.valid(Component("swa", Window(reach), "swa", size, size), boundary, there)
    assert found == (not max(0, boundary - reach) - size < (hole - 1) * size < boundary)


def a_window_is_read_whole_or_not(start: int, pages: int, reach: int, page_size: int) -> None:
    """Of a window the last entries before the boundary are read, or none where it begins before the anchor."""
    assert page_size in SIZES and start >= 0 and pages >= 0 and reach >= 1
    size = sized(page_size)
    anchor, whole = start * size, window_pages(reach, size)
    boundary = anchor + pages * size
    ends = component_fetch.fetched(Component("swa", Window(reach), "swa", size, size), Origin(anchor), boundary)
    assert len(ends) == (whole if pages >= whole else 0)
    assert not ends or (ends[-1] == boundary and ends[0] > anchor)


def a_run_is_read_from_its_anchor(start: int, pages: int, page_size: int) -> None:
    """Of the KV every page behind the anchor is read, and of a state that of the boundary."""
    assert page_size in SIZES and start >= 0 and pages >= 0
    size = sized(page_size)
    anchor = start * size
    ends = component_fetch.fetched(Component("kv", Run(), "kv", size, size), Origin(anchor), anchor + pages * size)
    states = component_fetch.fetched(
        Component("state", Point(), "state", size, size), Origin(anchor), anchor + pages * size
    )
    assert len(ends) == pages and (not ends or ends[0] == anchor + size)
    assert len(states) == (pages > 0) and (not states or states[0] == anchor + pages * size)


# What is reserved


def only_the_kv_is_cut_short(pages: int, least: int, free: int, windows: int, states: int, page_size: int) -> None:
    """The KV is cut no more than its pool makes necessary; all of the window and the state are granted, or nothing."""
    assert page_size in SIZES and 0 <= pages <= PAGES and least >= 1
    assert free >= 0 and windows >= 0 and states >= 0
    size = sized(page_size)
    available = {"kv": free, "window": windows, "point": states}
    got = component_fetch.reserved_length(layout(size, Window(2 * size), Point()), ROOT, pages * size, least, available)
    cut = min(pages, free)
    enough = cut * size >= least and states >= 1 and (cut < 2 or windows >= 2)
    assert got == (cut * size if enough else 0)


def one_pool_grants_the_sum(pages: int, least: int, free: int, page_size: int) -> None:
    """Where KV and state are of one pool, a prefetch gets as much KV as leaves room for the state."""
    assert page_size in SIZES and 0 <= pages <= PAGES and least >= 1 and free >= 0
    size = sized(page_size)
    got = component_fetch.reserved_length(layout(size, Point(), pool="one"), ROOT, pages * size, least, {"one": free})
    cut = max(0, min(pages, free - 1))
    assert got == (cut * size if cut * size >= least else 0)


# What all can restore


def what_is_read_all_can_restore(
    start: int, least: int, kv: tuple[bool, bool, bool], states: tuple[bool, bool, bool]
) -> None:
    """What is read ends at the largest boundary that all can restore, if that is worth it."""
    assert start in STARTS and least >= 1
    size = SIZES[-1]
    anchor = plain(start) * size
    stored = {"kv": among(anchor, size, kv), "point": among(anchor, size, states)}
    got = component_fetch.restored(layout(size, Point()), Origin(anchor), PAGES * size, least, ("kv", "point"), stored)
    good = [number for number in range(1, PAGES + 1) if all(kv[:number]) and states[number - 1]]
    due = max(good, default=0)
    assert got == anchor + (due * size if due * size >= least else 0)


def a_window_with_a_hole_restores_what_is_around_it(
    start: int, windows: tuple[bool, bool, bool], page_size: int
) -> None:
    """A window of two pages is restorable where both are there, and nowhere else but at the anchor."""
    assert page_size in SIZES and start in STARTS
    size = sized(page_size)
    anchor = plain(start) * size
    candidates = among(anchor, size, (True, True, True))
    component = layout(size, Window(2 * size)).components[1]
    found = component_fetch.boundaries(component, Origin(anchor), candidates, among(anchor, size, windows))
    due = (True, False, windows[0] and windows[1], windows[1] and windows[2])
    assert all((anchor + number * size in found) == one for number, one in enumerate(due))


def min_says_no_less_than_all_can_restore(left: tuple[bool, bool, bool], right: tuple[bool, bool, bool]) -> None:
    """The least of the largest boundaries is never below the intersection, and the same where nobody has holes."""
    assert len(left) == len(right)
    sets = [{0, *among(0, 1, one)} for one in (left, right)]
    common, least = agreed(sets), least_of_the_largest(sets)
    assert all(common in one for one in sets) and common <= least
    assert common == least or not all(map(without_holes, sets))
    assert common == max(number for number in range(4) if all(number in one for one in sets))


# What is committed


def a_commit_ends_before_what_is_missing(
    start: int, pages: int, kv: tuple[bool, bool], index: tuple[bool, bool]
) -> None:
    """The KV ends before the first page that didn't come, of it or of what is derived from it."""
    assert start in STARTS and 0 <= pages <= 2
    size = SIZES[-1]
    anchor = plain(start) * size
    came = {"kv": among(anchor, size, kv), "derived": among(anchor, size, index)}
    end = component_fetch.committed(layout(size, Derived("kv")), anchor, anchor + plain(pages) * size, came)
    lost = [number for number in range(plain(pages)) if anchor + (number + 1) * size not in came["kv"]]
    lost += [number for number in range(plain(pages)) if anchor + (number + 1) * size not in came["derived"]]
    assert end == anchor + min(lost, default=plain(pages)) * size


def a_commit_attaches_all_or_nothing(
    start: int, pages: int, reached: int, windows: tuple[bool, bool, bool], state: bool
) -> None:
    """KV up to its end; the window and the state of the planned boundary, if the KV reaches it and all of them came."""
    assert start in STARTS and 0 <= reached <= pages <= PAGES
    size = SIZES[-1]
    anchor = plain(start) * size
    planned, cached = plain(pages), plain(reached)
    boundary, end = anchor + planned * size, anchor + cached * size
    came = {"window": among(anchor, size, windows), "point": (boundary,) if state else ()}
    got = component_fetch.attached(layout(size, Window(2 * size), Point()), Origin(anchor), boundary, end, came)
    last = (boundary - size, boundary)
    whole = planned >= 2 and cached == planned and all(at in came["window"] for at in last)
    assert got["kv"] == tuple(range(anchor + size, end + 1, size))
    assert got["point"] == (came["point"] if 0 < cached == planned else ())
    assert got["window"] == (last if whole else ())


# Slips


def planted_a_window_starts_a_token_late(pages: int, reach: int, page_size: int) -> None:
    """A slip: the first token of a window is not needed."""
    assert page_size in SIZES and pages >= 0 and reach >= 1
    with slip(component_shapes, "start_of", lambda shape, boundary, _: max(0, boundary - shape.reach + 1)):
        what_is_needed_covers_the_window(pages, reach, page_size)


def planted_a_window_is_valid_by_its_last_entry(pages: int, reach: int, hole: int, page_size: int) -> None:
    """A slip: of what a boundary needs the last entry is looked at."""
    assert page_size in SIZES and pages >= 0 and 1 <= reach <= 2 * page_size and hole >= 1
    with slip(component_shapes, "valid", lambda _, boundary, held: not boundary or boundary in held):
        one_hole_and_a_boundary_is_not_valid(pages, reach, hole, page_size)


def planted_a_window_is_rounded_down(start: int, pages: int, reach: int, page_size: int) -> None:
    """A slip: a window is as many pages as it fills."""
    assert page_size in SIZES and start >= 0 and pages >= 0 and reach >= 1
    with slip(component_fetch, "window_pages", lambda reach, unit: reach // unit):
        a_window_is_read_whole_or_not(start, pages, reach, page_size)


def planted_the_anchor_is_read_again(start: int, pages: int, page_size: int) -> None:
    """A slip: all of the KV of a boundary is read, from the root on."""
    assert page_size in SIZES and start >= 0 and pages >= 0
    with slip(component_fetch, "fetched", lambda one, _, boundary: component_shapes.needed(one, boundary)):
        a_run_is_read_from_its_anchor(start, pages, page_size)


def planted_a_window_is_cut_short(pages: int, least: int, free: int, windows: int, states: int, page_size: int) -> None:
    """A slip: only the pool of the KV is asked."""
    assert page_size in SIZES and 0 <= pages <= PAGES and least >= 1
    assert free >= 0 and windows >= 0 and states >= 0

    def fits(needs: Iterable[Need], available: Mapping[str, int]) -> bool:
        return component_shapes.fits([need for need in needs if need.component.name == "kv"], available)

    with slip(component_fetch, "fits", fits):
        only_the_kv_is_cut_short(pages, least, free, windows, states, page_size)


def planted_each_component_has_the_pool_alone(pages: int, least: int, free: int, page_size: int) -> None:
    """A slip: of one pool the most that one component asks for is asked, and not the sum."""
    assert page_size in SIZES and 0 <= pages <= PAGES and least >= 1 and free >= 0

    def summed(needs: Iterable[Need]) -> Mapping[str, int]:
        return {"one": max(need.entries for need in needs)}

    with slip(component_fetch, "summed", summed), slip(component_shapes, "summed", summed):
        one_pool_grants_the_sum(pages, least, free, page_size)


def planted_min_is_taken(start: int, least: int, kv: tuple[bool, bool, bool], states: tuple[bool, bool, bool]) -> None:
    """A slip: what is read ends at the least of the largest boundaries."""
    assert start in STARTS and least >= 1
    with slip(component_fetch, "agreed", least_of_the_largest):
        what_is_read_all_can_restore(start, least, kv, states)


def planted_a_window_near_the_anchor_counts(start: int, windows: tuple[bool, bool, bool], page_size: int) -> None:
    """A slip: a window that begins before the anchor is restorable without it."""
    assert page_size in SIZES and start in STARTS

    def boundaries(_: Component, of: Origin, candidates: Collection[int], stored: Collection[int]) -> frozenset[int]:
        return frozenset({of.start, *[boundary for boundary in candidates if boundary in stored]})

    with slip(component_fetch, "boundaries", boundaries):
        a_window_with_a_hole_restores_what_is_around_it(start, windows, page_size)


def planted_min_is_the_intersection(left: tuple[bool, bool, bool], right: tuple[bool, bool, bool]) -> None:
    """A slip: the least of the largest boundaries is what all can restore."""
    assert len(left) == len(right)
    sets = [{0, *among(0, 1, one)} for one in (left, right)]
    assert all(least_of_the_largest(sets) in one for one in sets)


def planted_a_commit_looks_at_the_kv_alone(
    start: int, pages: int, kv: tuple[bool, bool], index: tuple[bool, bool]
) -> None:
    """A slip: what is derived from the KV is not looked at."""
    assert start in STARTS and 0 <= pages <= 2
    right = component_fetch.committed

    def committed(of: Layout, start: int, boundary: int, came: Mapping[str, Collection[int]]) -> int:
        return right(of._replace(components=of.components[:1]), start, boundary, came)

    with slip(component_fetch, "committed", committed):
        a_commit_ends_before_what_is_missing(start, pages, kv, index)


def planted_a_state_is_attached_where_the_kv_ends(
    start: int, pages: int, reached: int, windows: tuple[bool, bool, bool], state: bool
) -> None:
    """A slip: a state is attached though the KV ends before its boundary."""
    assert start in STARTS and 0 <= reached <= pages <= PAGES
    right = component_fetch.attached

    def attached(
        of: Layout, origin: Origin, boundary: int, end: int, came: Mapping[str, Collection[int]]
    ) -> Mapping[str, tuple[int, ...]]:
        return {**right(of, origin, boundary, end, came), "point": tuple(came["point"])}

    with slip(component_fetch, "attached", attached):
        a_commit_attaches_all_or_nothing(start, pages, reached, windows, state)
