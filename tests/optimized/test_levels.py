"""Levels and nodes against plain lists with one entry per position."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("numba")

from kvlitmus.optimized import levels
from kvlitmus.optimized.branch import Branch

NUMBERS = st.integers(0, 12)
CALLS = st.lists(st.tuples(st.sampled_from(("prefix", "range", "grow", "trim")), NUMBERS, NUMBERS), max_size=25)


def values(level: levels.Level, n: int) -> list[int]:
    return [levels.value_at(level, position) for position in range(n)]


@given(calls=CALLS)
def test_a_level_is_what_was_assigned_last(calls: list[tuple[str, int, int]]) -> None:
    level: levels.Level = 0
    plain = [0] * 4
    for tick, (what, a, b) in enumerate(calls, 1):
        n = len(plain)
        if what == "prefix":
            end = 1 + a % n
            level = levels.set_prefix(level, end, tick, n)
            plain[:end] = [tick] * end
        elif what == "range":
            start, end = sorted((a % (n + 1), b % (n + 1)))
            if start < end:
                level = levels.set_range(level, start, end, tick, n)
                plain[start:end] = [tick] * (end - start)
        elif what == "grow":
            level = levels.grow(level, n, n + 1 + a % 3, tick)
            plain += [tick] * (1 + a % 3)
        else:
            plain = plain[: 1 + a % n]
            level = levels.trim(level, len(plain))
        assert values(level, len(plain)) == plain


@given(calls=st.lists(st.tuples(st.sampled_from(("raise", "grow", "trim")), NUMBERS, st.integers(-2, 6)), max_size=25))
def test_a_raise_is_the_larger_of_both(calls: list[tuple[str, int, int]]) -> None:
    level: levels.Level = 0
    plain = [0] * 4
    for what, a, value in calls:
        n = len(plain)
        if what == "raise":
            end = 1 + a % n
            level = levels.raise_prefix(level, end, value, n)
            plain[:end] = [max(value, old) for old in plain[:end]]
        elif what == "grow":  # as an insert does: the whole path is raised, and then goes on with this value
            level = levels.raise_prefix(level, n, value, n)
            level = levels.grow(level, n, n + 2, value)
            plain = [max(value, old) for old in plain] + [value] * 2
        else:
            plain = plain[: 1 + a % n]
            level = levels.trim(level, len(plain))
        assert values(level, len(plain)) == plain


def test_one_value_is_one_number() -> None:
    level = levels.set_prefix(3, 2, 5, 4)
    assert not isinstance(level, int)
    assert levels.set_prefix(level, 4, 9, 4) == 9
    assert levels.trim(levels.set_prefix(3, 2, 5, 4), 2) == 5
    assert levels.grow(7, 4, 8, 7) == 7


def test_equal_neighbours_are_one_piece() -> None:
    level = levels.set_prefix(3, 2, 5, 4)
    for n in range(4, 40):
        level = levels.grow(levels.raise_prefix(level, n, 3, n), n, n + 1, 3)
    for end in range(3, 30):
        level = levels.raise_prefix(level, end, 4, 40)
    assert not isinstance(level, int) and list(level) == [40, 3, 29, 4, 2, 5]


@given(calls=st.lists(st.tuples(st.sampled_from(("cut", "count", "add", "trim")), NUMBERS, NUMBERS), max_size=30))
def test_nodes_and_their_hits(calls: list[tuple[str, int, int]]) -> None:
    branch = branch_of(4)
    hits, begins = [0] * 4, {0}
    for what, a, b in calls:
        n = len(hits)
        if what == "cut":
            branch.cut(a % (n + 1))
            begins |= {a % (n + 1)} - {n}
        elif what == "count":
            ends = sorted(begins | {n})
            start, end = sorted((ends[a % len(ends)], ends[b % len(ends)]))
            branch.count(start, end)
            hits[start:end] = [old + 1 for old in hits[start:end]]
        elif what == "add":
            grow(branch, 1 + a % 3)
            begins.add(n)
            hits += [0] * (1 + a % 3)
        else:
            hits = hits[: 1 + a % n]
            branch.truncate(len(hits), 1)
            begins = {start for start in begins if start < len(hits)}
        assert [branch.hits_at(position) for position in range(len(hits))] == hits
        assert set(branch.node_starts()) == begins
        starts = [max(start for start in begins if start <= position) for position in range(len(hits))]
        assert [branch.node_start(position) for position in range(len(hits))] == starts


def branch_of(pages: int) -> Branch:
    import numpy as np

    branch = Branch(None, None, 0, 1, 0, np.empty(0, np.int32))
    grow(branch, pages)
    return branch


def grow(branch: Branch, pages: int) -> None:
    import numpy as np

    numbers = np.arange(pages, dtype=np.int32)
    branch.room(pages, 1)
    branch.append(numbers, numbers, 1, 0, 0)
