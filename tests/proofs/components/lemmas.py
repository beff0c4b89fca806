"""What is proven of components for all numbers, as functions that CrossHair reads.

Lengths and reaches are any integers; pages of the few sizes in :data:`SIZES`.  Each ``planted`` function
has a slip, of which a counterexample must be found.
"""

from __future__ import annotations

from kvlitmus.spec.prefix.components.fetch import window_ask, window_pages
from kvlitmus.spec.words.shapes import Component, Point, Window, needed, start_of

SIZES = (1, 4)
"""The page sizes; that the arithmetic holds for all of them is what division means."""

STATE = Component("state", Point(), "state", 1, 1)


def sized(page_size: int) -> int:
    """The page size as a plain number."""
    for size in SIZES:
        if page_size == size:
            return size
    raise ValueError(page_size)


def a_window_takes_as_many_pages_as_hold_it(reach: int, page_size: int) -> None:
    """⌈w/page⌉ pages hold the window, and one less doesn't."""
    assert page_size in SIZES
    assert reach >= 0
    size = sized(page_size)
    pages = window_pages(reach, size)
    assert pages * size >= reach and (pages - 1) * size < reach


def a_prefetch_takes_a_whole_window_or_none(tokens: int, reach: int, page_size: int) -> None:
    """A prefetch takes exactly the pages of the window, or none where it has fewer pages than that."""
    assert page_size in SIZES
    assert reach >= 0 and tokens >= 0
    size = sized(page_size)
    taken, pages = window_ask(tokens, reach, size), window_pages(reach, size)
    assert taken == (pages if tokens // size >= pages else 0)
    assert taken * size <= tokens


def a_boundary_reaches_no_further_than_it_needs(boundary: int, reach: int) -> None:
    """A window needs just the tokens of its reach, clipped at the root; in full it isn't valid before its reach."""
    assert boundary >= 0 and reach >= 1
    start = start_of(Window(reach), boundary, "shorter")
    assert start == (boundary - reach if boundary > reach else 0)
    full = start_of(Window(reach), boundary, "full")
    assert (full is None) == (0 < boundary < reach)


def a_point_needs_its_own_boundary(boundary: int) -> None:
    """A state is needed at the boundary itself, and at the root none is."""
    assert boundary >= 0
    ends = needed(STATE, boundary)
    assert ends is not None
    assert len(ends) == (1 if boundary else 0)
    assert not boundary or ends[0] == boundary


def planted_a_window_is_rounded_down(tokens: int, reach: int, page_size: int) -> None:
    """A slip: a window takes the whole pages that it fills."""
    assert page_size in SIZES
    assert reach >= 0 and tokens >= 0
    size = sized(page_size)
    pages = reach // size
    assert pages * size >= reach
