"""The optimized pool against the reference's, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("numba")

import numpy as np

from kvlitmus.conformance.adapters.reference.flat import PROFILE, ReferenceCache
from kvlitmus.conformance.ports import Config
from kvlitmus.optimized import kernels
from kvlitmus.optimized.pool import PagePool
from kvlitmus.reference.prefix import pool as reference
from kvlitmus.reference.prefix.perform import Choice
from kvlitmus.spec.words.units import PageNo, Slot

CALLS = st.lists(
    st.tuples(st.sampled_from(("take", "give", "twice", "foreign", "begin", "end", "extend")), st.integers(0, 9)),
    max_size=30,
)


def free_of(pool: PagePool) -> frozenset[int]:
    return frozenset(pool.free_pages().tolist())


@given(calls=CALLS, reserved=st.integers(0, 1), size=st.sampled_from((1, 2, 4)))
def test_the_pool_is_the_references(calls: list[tuple[str, int]], reserved: int, size: int) -> None:
    pool = PagePool(8, size, reserved)
    same = ReferenceCache(Config(page_size=size, pages=8), replace(PROFILE, reserved=reserved))
    mine: list[int] = []
    for what, n in calls:
        before, count = free_of(pool), pool.free_count
        if what == "take":
            pages = pool.take(n)
            same.choice = Choice(pages=None if pages is None else tuple(pages.tolist()))
            slots = same.alloc(n * size)
            assert (None if pages is None else tuple(pool.slots(pages).tolist())) == slots
            mine += [] if pages is None else pages.tolist()
        elif what == "give":
            some, mine = mine[:n], mine[n:]
            pool.give_back(np.array(some, np.int32))
            same.free(reference.slots_of([PageNo(page) for page in some], size))
        elif what in ("twice", "foreign"):
            wrong = [*mine[:2], *mine[:1]] if what == "twice" else [*mine[:2], (-1, reserved - 1, 8 + reserved)[n % 3]]
            if what == "foreign" or mine:
                with pytest.raises(ValueError, match="page"):
                    pool.give_back(wrong)
                assert (free_of(pool), pool.free_count) == (before, count)
        elif what == "begin":
            pool.group_begin()
            same.free_group_begin()
        elif what == "end":
            pool.group_end()
            same.free_group_end()
        else:
            extend(pool, same, n, mine)
        free = frozenset(same.view().free)
        assert free_of(pool) == free
        assert pool.available() == same.available()
        assert all(pool.is_free(page) == (page in free) for page in range(reserved, 8 + reserved))


def extend(pool: PagePool, same: ReferenceCache, n: int, mine: list[int]) -> None:
    """One request goes on from ``n`` tokens, in the page taken last."""
    size = pool.page_size
    if not mine:
        return
    before = 1 + n % size
    last = mine[-1] * size + before - 1
    slots = pool.alloc_extend([before], [before + n], [last])
    given = [] if slots is None else slots.tolist()
    pages = list(dict.fromkeys([slot // size for slot in given if slot // size != mine[-1]]))
    same.choice = Choice(pages=None if slots is None else tuple(pages))
    further = same.alloc_extend([before], [before + n], [last])
    assert (None if slots is None else given) == further
    mine[:0] = pages


@given(pages=st.lists(st.integers(0, 99), unique=True), size=st.sampled_from((1, 3, 16)))
def test_slots_and_pages_are_each_others_inverse(pages: list[int], size: int) -> None:
    pool = PagePool(100, size, 0)
    slots = pool.slots(pages)
    assert tuple(slots.tolist()) == reference.slots_of([PageNo(page) for page in pages], size)
    assert pool.pages_of(slots).tolist() == pages


@pytest.mark.parametrize("slots", [[8, 9, 10], [8, 9, 11, 10], [9, 10, 11, 12], [8, 9, 10, 11, 12], [-4, -3, -2, 0]])
def test_part_of_a_page_is_refused(slots: list[int]) -> None:
    pool = PagePool(8, 4, 0)
    assert pool.alloc(32) is not None
    for given_as in (slots, np.array(slots), np.array(slots, np.int32)):
        with pytest.raises(ValueError, match="whole pages"):
            pool.free(given_as)
        with pytest.raises(ValueError, match="whole pages"):
            reference.whole_pages([Slot(slot) for slot in slots], 4)
    assert pool.free_count == 0


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("turns", [-1, 1])
def test_slots_of_pages_beyond_32_bits_are_no_other_pages(size: int, turns: int) -> None:
    pool = PagePool(8, size, 1)
    taken = pool.alloc(size)
    assert taken is not None
    with pytest.raises(ValueError, match="the pool has pages 1 to 8"):
        pool.free(taken + turns * 2**32 * size)
    assert pool.free_count == 7
    pool.free(taken)


def test_sizes_that_are_no_pages_are_refused() -> None:
    pool = PagePool(8, 4, 1)
    for n in (-4, 3):
        with pytest.raises(ValueError, match="multiple of 4"):
            pool.alloc(n)
    assert pool.alloc(36) is None
    slots = pool.alloc(8)
    assert slots is not None and slots.tolist() == [4, 5, 6, 7, 8, 9, 10, 11]


def test_what_is_given_back_together_comes_again_in_order() -> None:
    pool = PagePool(100, 1, 0)
    first = pool.take(60)
    assert first is not None and first.tolist() == list(range(60))
    pool.give_back(first[10:20])
    again = pool.take(10)
    assert again is not None and again.tolist() == list(range(10, 20))


def test_pages_in_a_group_are_not_given_back_twice() -> None:
    pool = PagePool(4, 1, 0)
    pages = pool.take(4)
    assert pages is not None
    pool.group_begin()
    pool.give_back(pages[:2])
    with pytest.raises(ValueError, match="page 1 can't be freed: it is given back already"):
        pool.give_back(pages[1:])
    assert pool.take(1) is None
    pool.group_end()
    assert free_of(pool) == {0, 1}


def test_what_is_withheld_is_not_handed_out() -> None:
    pool = PagePool(8, 1, 1)
    pool.withhold(np.array([2, 5], np.int32))
    assert free_of(pool) == {1, 3, 4, 6, 7, 8} and pool.take(7) is None
    with pytest.raises(ValueError, match="page 9"):
        pool.give_back([9])
    pool.withhold(np.array([5, 7], np.int32))
    assert free_of(pool) == {1, 2, 3, 4, 6, 8}
    pool.withhold(np.empty(0, np.int32))
    taken = pool.take(8)
    assert taken is not None and set(taken.tolist()) == set(range(1, 9))


def test_decoding_opens_a_page_where_the_last_one_is_full() -> None:
    pool = PagePool(8, 4, 0)
    first, second = pool.take(1), pool.take(1)
    assert first is not None and second is not None
    slots = pool.alloc_decode([5, 3], [int(first[0]) * 4 + 3, int(second[0]) * 4 + 1])
    assert slots is not None and slots.tolist() == [8, int(second[0]) * 4 + 2]
    with pytest.raises(ValueError, match="one entry per request"):
        pool.alloc_extend([1], [2, 3], [0])


@given(
    length=st.integers(0, 3000),
    differ=st.integers(0, 3000),
    shift=st.integers(0, 70),
    kinds=st.sampled_from([(np.int32, np.int32), (np.int64, np.int64), (np.int32, np.int64)]),
)
def test_common_is_the_first_difference(length: int, differ: int, shift: int, kinds: tuple[Any, Any]) -> None:
    mine = np.arange(shift + length, dtype=kinds[0])
    other = np.arange(shift, shift + length, dtype=kinds[1])
    if differ < length:
        other[differ] += 1
    assert kernels.common(mine, shift, shift + length, other, 0) == min(length, differ)
    assert kernels.common(mine, shift, shift + length // 2, other, 0) == min(length // 2, differ)


def test_everything_compiles_ahead() -> None:
    kernels.compile_all()
