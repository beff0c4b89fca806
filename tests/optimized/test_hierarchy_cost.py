"""What the calls of a hierarchy cost, in calls of functions: no step per page, per turn or per page stored.

Counted, not timed, so the verdict is the same on a busy machine: Python's own profiler hook hears of each call of a
function, whether written in Python or in C.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kvlitmus.optimized.cache import CacheConfig
from kvlitmus.optimized.hierarchy import HierarchicalCache

FEW, MANY = 8, 3000
"""Pages of a short path and of a long one."""

SLACK = 12
"""How many calls more a long path may cost: arrays that grow or shrink."""


class Shelf:
    """A store that has everything and takes everything."""

    def exists(self, keys: Any) -> int:
        return len(keys)

    def get(self, keys: Any, size: int | None = None) -> list[bytes | None]:
        return [b""] * len(keys)

    def get_into(self, keys: Any, buffers: Any) -> list[bool]:
        return [True] * len(keys)

    def put(self, keys: Any, values: Any) -> list[bool]:
        return [True] * len(keys)

    def clear(self) -> None:
        """Nothing to forget."""


def calls(function: Callable[[], object]) -> int:
    """How many functions are called in this one."""
    count = 0

    def hear(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    gc.disable()  # what is collected meanwhile is another test's, and would be counted
    sys.setprofile(hear)
    try:
        function()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


def cache_of(pages: int, *, turns: int = 1, others: int = 0, write: str = "write_through") -> HierarchicalCache:
    """A cache that has a prompt of so many pages, in so many turns, backed up and stored; and ``others`` besides."""
    config = CacheConfig(page_size=4, pages=8192, host_pages=8192, write=write, rate_limit=1 << 30)
    cache = HierarchicalCache(config)
    cache.attach(Shelf())
    for turn in range(1, turns + 1):
        put_in(cache, prompt(pages * turn // turns))
    for other in range(others):
        put_in(cache, prompt(2, other + 1))
    settle(cache)
    return cache


def prompt(pages: int, which: int = 0) -> np.ndarray[Any, np.dtype[np.int32]]:
    return np.arange(pages * 4, dtype=np.int32) + which * 100_000


def put_in(cache: HierarchicalCache, tokens: np.ndarray[Any, np.dtype[np.int32]]) -> None:
    pages = cache.pool.take(len(tokens) // 4)
    assert pages is not None
    cache.pool.give_back(pages[: cache.insert(tokens, pages).already])


def settle(cache: HierarchicalCache) -> None:
    while cache.jobs():
        for work in cache.jobs():
            cache.advance(work.id)
        cache.tick()


def insert(cache: HierarchicalCache, pages: int) -> int:
    tokens, offered = prompt(pages), np.zeros(pages, np.int32)
    return calls(lambda: cache.insert(tokens, offered))


def turn(cache: HierarchicalCache, pages: int) -> int:
    cache.begin(1, prompt(pages))
    cache.grow(1, np.arange(8))
    return calls(lambda: cache.publish(1))


def evict(cache: HierarchicalCache, pages: int) -> int:
    return calls(lambda: cache.evict(4 * (pages - 2)))


def load_back(cache: HierarchicalCache, pages: int) -> int:
    cache.evict(4 * pages)
    tokens = prompt(pages)
    return calls(lambda: cache.load_back(tokens))


def evict_host(cache: HierarchicalCache, pages: int) -> int:
    cache.evict(4 * pages)
    return calls(lambda: cache.evict_host(4 * (pages - 2)))


def poll(cache: HierarchicalCache, pages: int) -> int:
    cache.evict(1 << 20)
    cache.evict_host(1 << 20)
    assert cache.prefetch(1, prompt(pages)).asked == pages * 4
    cache.advance(cache.jobs()[0].id)
    cache.advance(cache.jobs()[0].id)
    return calls(lambda: cache.poll(1))


def tick_after_a_load(cache: HierarchicalCache, pages: int) -> int:
    load_back(cache, pages)
    cache.advance(cache.jobs()[0].id)
    return calls(cache.tick)


@pytest.mark.parametrize("call", [insert, turn, evict, load_back, evict_host, poll, tick_after_a_load])
def test_a_call_costs_no_step_per_page(call: Callable[[HierarchicalCache, int], int]) -> None:
    few, many = call(cache_of(FEW), FEW), call(cache_of(MANY), MANY)
    assert many <= few + SLACK, f"{few} calls for {FEW} pages, {many} for {MANY}"


@pytest.mark.parametrize("call", [insert, turn, load_back, poll, tick_after_a_load])
def test_a_call_costs_no_step_per_turn(call: Callable[[HierarchicalCache, int], int]) -> None:
    once, often = call(cache_of(FEW), FEW), call(cache_of(MANY, turns=300), MANY)
    assert often <= once + SLACK, f"{once} calls for one turn, {often} for 300"


@pytest.mark.parametrize("call", [insert, turn])
def test_a_call_costs_no_step_per_page_stored(call: Callable[[HierarchicalCache, int], int]) -> None:
    alone, among = call(cache_of(FEW), FEW), call(cache_of(FEW, others=500), FEW)
    assert among <= alone + SLACK, f"{alone} calls alone, {among} among 500 other prompts"


def test_where_the_host_is_full_an_insert_looks_at_one_node() -> None:
    cache = cache_of(1000, turns=200, write="write_back")
    cache.backups.uses = 1
    cache.host.pool.take(cache.host.pool.free_count)
    assert insert(cache, 1000) <= insert(cache_of(FEW), FEW) + 30


def test_an_idle_tick_costs_a_dozen_calls() -> None:
    assert calls(cache_of(MANY, others=500).tick) <= 12
