"""What callers hand in is looked at before anything is done with it: settings, tokens, inserted pages."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("numba")

import numpy as np

from kvlitmus.optimized.audit import audit
from kvlitmus.optimized.cache import CacheConfig, FlatCache
from kvlitmus.optimized.hierarchy import HierarchicalCache

pytestmark = pytest.mark.usefixtures("each_core")

SETTINGS: dict[str, tuple[dict[str, Any], str]] = {
    "no page size": ({"page_size": 0}, r"page_size must be a whole number, at least 1 \(got 0\)"),
    "half a page": ({"page_size": 1.5}, r"page_size must be a whole number, at least 1 \(got 1.5\)"),
    "negative pages": ({"pages": -1}, "pages must be a whole number, from 1 to .* \\(got -1\\)"),
    "pages beyond 32 bits": ({"pages": 2**31}, "pages must be a whole number"),
    "pages in words": ({"pages": "8"}, r"pages must be a whole number, from 1 to .* \(got '8'\)"),
    "true pages": ({"pages": True}, r"\(got True\)"),
    "negative reserve": ({"reserved": -1}, r"reserved must be a whole number, at least 0 \(got -1\)"),
    "another dtype": ({"dtype": "float32"}, r"dtype must be one of int32, int64 \(got 'float32'\)"),
    "near dtype": ({"dtype": "int23"}, "did you mean 'int32'"),
    "near policy": ({"policy": "LRUU"}, r"policy must be one of lru, .* \(got 'LRUU'\); did you mean 'lru'\?"),
    "bigram in words": ({"bigram": "no"}, r"bigram must be True or False \(got 'no'\)"),
    "negative threshold": ({"threshold": -1}, "threshold must be"),
    "negative rate": ({"rate_limit": -1}, "rate_limit must be"),
    "negative host": ({"host_pages": -1}, "host_pages must be"),
    "negative load threshold": ({"load_threshold": -1}, "load_threshold must be"),
    "counts in numbers": ({"restored_counts": 1}, "restored_counts must be True or False"),
    "two times": ({"timeout": (1, 2)}, r"timeout must be 3 finite numbers of seconds, none negative \(got \(1, 2\)\)"),
    "a time beyond floats": ({"timeout": (10**400, 0, 0)}, "timeout must be 3 finite numbers"),
    "a list of policies": ({"policy": np.array(["lru", "lfu"])}, "policy must be one of lru"),
    "endless time": ({"timeout": (1.0, 2.0, float("inf"))}, "timeout must be 3 finite numbers"),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_that_can_not_be_is_refused_by_name(name: str) -> None:
    wrong, message = SETTINGS[name]
    with pytest.raises(ValueError, match=message):
        CacheConfig(**wrong)


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.array])
def test_numpys_numbers_are_numbers_and_do_not_wrap_around(kind: Any) -> None:
    """As they are, 20 pages of 16 would be 64 slots of an ``int8``, and a pool of 200 + 100 pages one of 44."""
    config = CacheConfig(page_size=kind(16), pages=kind(100), reserved=kind(100), timeout=[1, 2, 3])  # type: ignore[arg-type]
    cache = FlatCache(config)
    assert {type(one) for one in (config.page_size, config.pages, config.reserved)} == {int}
    assert config.timeout == (1.0, 2.0, 3.0)
    assert cache.available() == 1600
    running = cache.begin(1, np.arange(333))
    assert running is not None
    cache.end(1, keep=True)
    again = cache.begin(2, np.arange(333))
    assert again is not None and again.cached == 320
    audit(cache.tree)


@pytest.mark.parametrize("events", [None, "all", -1, 1.5])
def test_a_number_of_events_that_can_not_be_is_refused(events: Any) -> None:
    with pytest.raises(ValueError, match="events must be a whole number, at least 0"):
        HierarchicalCache(CacheConfig(pages=8, host_pages=8), events=events)


@pytest.mark.parametrize("priority", [1.5, np.float64(2), "3", None, True, float("nan"), 2**63, np.array([1, 2])])
def test_a_priority_that_is_none_is_refused_and_changes_nothing(priority: Any) -> None:
    cache = FlatCache(CacheConfig(page_size=1, pages=8))
    pages = cache.pool.take(6)
    assert pages is not None
    cache.insert([1, 2], pages[:2])
    before = (cache.sizes(), cache.available(), cache.tree.clock, cache.pool.state.tolist())
    for key in ([1], [1, 2, 3, 4], [5, 6]):
        with pytest.raises(ValueError, match="priority must be"):
            cache.insert(key, pages[2 : 2 + len(key)] if key[0] == 5 else pages[: len(key)], priority=priority)
    assert (cache.sizes(), cache.available(), cache.tree.clock, cache.pool.state.tolist()) == before
    audit(cache.tree)
    assert cache.insert([1], pages[:1], priority=np.int8(3)).already == 1  # type: ignore[arg-type]
    assert len(cache.evict(2)) == 2


SLOTS: dict[str, Any] = {
    "parts": [4.7, 5.7, 6.7, 7.7],
    "whole floats": np.array([4.0, 5.0, 6.0, 7.0]),
    "truths": [True] * 4,
    "objects": np.array([4, 5, 6, 7], object),
    "two dimensions": [[4, 5, 6, 7]],
    "text": "4567",
    "nothing": None,
}


@pytest.mark.parametrize("name", SLOTS)
@pytest.mark.parametrize("size", [1, 4])
def test_slots_that_are_none_are_not_freed(name: str, size: int) -> None:
    cache = FlatCache(CacheConfig(page_size=size, pages=8))
    cache.alloc(8)
    before = cache.available()
    with pytest.raises(ValueError, match="slots must be a sequence of integers"):
        cache.free(SLOTS[name])
    assert cache.available() == before


@pytest.mark.parametrize("kind", [">i4", ">i8", ">u4", "<u8", "i2", "u2", "i1"])
def test_integers_of_any_type_are_integers(kind: str) -> None:
    cache = FlatCache(CacheConfig(page_size=4, pages=8))
    slots = cache.alloc(8)
    assert slots is not None
    assert cache.insert(np.arange(4).astype(kind), (slots[:4:4] // 4).astype(kind)).already == 0
    assert len(cache.match(np.arange(4)).pages) == 1
    cache.free(slots[4:].astype(kind))
    assert (cache.available(), cache.sizes()) == (28, (4, 0))
    audit(cache.tree)


TOKENS: dict[str, Any] = {
    "in two dimensions": [[1, 2], [3, 4]],
    "an array in two dimensions": np.ones((2, 2), np.int32),
    "a number": 7,
    "floats": [1.0, 2.0],
    "an array of floats": np.ones(4, np.float32),
    "truths": [True, False],
    "text": "ab",
    "nothing in between": [1, None, 2],
    "lists of several lengths": [[1], [2, 3]],
    "beyond 32 bits": [1, 2**32 + 1],
    "beyond 64 bits": [1, 2**64 + 1],
    "an array beyond 32 bits": np.array([1, 2**32 + 1]),
    "an array without sign beyond 32 bits": np.array([2**64 - 1], np.uint64),
}


@pytest.mark.parametrize("bigram", [False, True])
@pytest.mark.parametrize("name", TOKENS)
def test_tokens_that_are_none_are_refused_and_change_nothing(name: str, bigram: bool) -> None:
    cache = FlatCache(CacheConfig(page_size=1, pages=8, bigram=bigram))
    pages = cache.pool.take(4)
    assert pages is not None
    place = cache.insert([1, 2, 3], pages[: 2 if bigram else 3]).place
    cache.begin(1, [1, 2])
    cache.lock(place)
    before = (cache.sizes(), cache.available(), cache.tree.clock)
    wrong = TOKENS[name]
    for call in (
        lambda: cache.match(wrong),
        lambda: cache.resume(place, wrong),
        lambda: cache.insert(wrong, pages[3:]),
        lambda: cache.insert_behind(place, wrong, pages[3:]),
        lambda: cache.begin(2, wrong),
        lambda: cache.grow(1, wrong),
    ):
        with pytest.raises(ValueError, match=r"token|units"):
            call()
        assert (cache.sizes(), cache.available(), cache.tree.clock) == before
    audit(cache.tree)


@pytest.mark.parametrize("bigram", [False, True])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("token", [-1, -(2**31), 2**32])
def test_a_token_without_a_name_is_not_cached(token: int, dtype: str, bigram: bool) -> None:
    cache = FlatCache(CacheConfig(page_size=1, pages=8, bigram=bigram, dtype=dtype))
    pages = cache.pool.take(4)
    assert pages is not None
    place = cache.insert([1, 2, 3], pages[: 2 if bigram else 3]).place
    cache.begin(1, [1, 2])
    before = (cache.sizes(), cache.available(), cache.tree.clock)
    for odd in ([token, 5], np.array([token, 5], np.int64)):
        for call in (
            lambda odd=odd: cache.insert(odd, pages[3:]),
            lambda odd=odd: cache.insert_behind(place, odd, pages[3:]),
            lambda odd=odd: cache.begin(2, odd),
            lambda odd=odd: cache.grow(1, odd),
        ):
            with pytest.raises(ValueError, match=r"tokens must be within \[0, 2\*\*32\)"):
                call()
            assert (cache.sizes(), cache.available(), cache.tree.clock) == before


def test_an_empty_key_is_a_key() -> None:
    cache = FlatCache(CacheConfig(page_size=2, pages=8))
    nothing: tuple[Any, ...] = ([], (), np.empty(0, np.int32), np.empty(0))
    for empty in nothing:
        assert len(cache.match(empty).pages) == 0
        assert cache.insert(empty, []).already == 0
        cache.unlock(cache.lock(cache.match(empty).place))
        running = cache.begin(1, empty)
        assert running is not None and (len(running.row), running.cached) == (0, 0)
        assert cache.publish(1, upto=0).cached == 0
        cache.end(1, keep=True)
    assert (cache.available(), cache.sizes()) == (16, (0, 0))


FREE, MINE, CACHED = 5, 1, 3
"""A page that is free, one that a caller has, one that the tree has."""

PAGES: dict[str, tuple[Any, str]] = {
    "free": ([FREE, 2], "page 5 can't be cached: it is free"),
    "named twice": ([MINE, MINE], "page 1 can't be cached: it is named twice"),
    "the tree's own": ([MINE, CACHED], "page 3 can't be cached: it is the tree's"),
    "negative": ([MINE, -1], "page -1 can't be cached: the pool has pages 1 to 8"),
    "reserved": ([0, MINE], "page 0 can't be cached: the pool has pages 1 to 8"),
    "beyond the pool": ([MINE, 10**6], "page 1000000 can't be cached"),
    "beyond 32 bits": ([MINE, 2**32 + 2], "page 4294967298 can't be cached"),
    "an array beyond 32 bits": (np.array([MINE, 2**32 + 2]), "page 4294967298 can't be cached"),
    "without sign": (np.array([MINE, 2**64 - 1], np.uint64), "page 18446744073709551615 can't be cached"),
    "parts": ([1.7, 2.0], "pages must be a sequence of integers"),
    "whole floats": (np.array([1.0, 2.0]), "pages must be a sequence of integers"),
    "truths": ([True, False], "pages must be a sequence of integers"),
    "two dimensions": ([[MINE, 2]], "pages must be a sequence of integers in one dimension"),
    "text": ("12", "pages must be a sequence of integers"),
    "given back in a group": ([MINE, 4], "page 4 can't be cached: it is given back already"),
}


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("name", PAGES)
def test_pages_that_can_not_be_cached_are_refused_and_change_nothing(name: str, behind: bool) -> None:
    cache = FlatCache(CacheConfig(page_size=1, pages=8))
    assert cache.pool.take(4) is not None
    place = cache.insert([9], [CACHED]).place
    cache.lock(place)
    cache.pool.group_begin()
    cache.pool.give_back([4])
    before = (cache.sizes(), cache.available(), cache.tree.clock, cache.pool.state.tolist())
    wrong, message = PAGES[name]
    start = place if behind else cache.tree.ascend(place, 0)
    with pytest.raises(ValueError, match=message):
        cache.insert_behind(start, [1, 2], wrong)
    if not behind:
        with pytest.raises(ValueError, match=message):
            cache.insert([1, 2], wrong)
    assert (cache.sizes(), cache.available(), cache.tree.clock, cache.pool.state.tolist()) == before
    cache.pool.group_end()
    assert len(cache.match([9, 1, 2]).pages) == 1 and len(cache.match([1, 2]).pages) == 0
    audit(cache.tree)
    assert cache.insert([1, 2], [1, 2]).already == 0
    assert len(cache.evict(8)) == 2


def test_pages_of_what_is_cached_already_are_not_looked_at() -> None:
    cache = FlatCache(CacheConfig(page_size=1, pages=8))
    pages = cache.pool.take(4)
    assert pages is not None
    cache.insert([1, 2], pages[:2])
    assert cache.insert([1, 2, 3], [*pages[:2], pages[2]]).already == 2
    assert cache.insert([1, 2, 3], [pages[3], 0, -1]).already == 3
    cache.pool.give_back(pages[3:])
    audit(cache.tree)


def test_a_caller_can_not_free_what_the_tree_has() -> None:
    cache = FlatCache(CacheConfig(page_size=2, pages=8))
    pages = cache.pool.take(2)
    assert pages is not None
    cache.insert([1, 2, 3, 4], pages)
    with pytest.raises(ValueError, match="can't be freed: it is the tree's"):
        cache.free(cache.pool.slots(pages[:1]))
    with pytest.raises(ValueError, match="can't be freed: it is in use"):
        cache.pool.release(cache.pool.take(1))  # type: ignore[arg-type]
    audit(cache.tree)
    assert len(cache.evict(4)) == 2 and cache.available() == 14
