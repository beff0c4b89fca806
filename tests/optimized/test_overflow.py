"""Events that nobody fetches: they are bounded, and whoever listens later is told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kvlitmus.optimized.cache import CacheConfig, FlatCache
from kvlitmus.optimized.event import EventLog
from kvlitmus.optimized.hashing import page_hashes
from kvlitmus.optimized.hierarchy import HierarchicalCache
from tests.optimized.support.fault_desk import SIZE, Desk
from tests.optimized.support.fault_scenes import KEY, OTHER


def test_events_are_bounded_and_an_overflow_says_what_there_is() -> None:
    desk = Desk()
    assert desk.cache.log is not None
    desk.cache.log.limit = 12
    for first in range(40):
        desk.compute([first, *KEY[1:]])
        desk.settle(1)
        assert len(desk.cache.log.log) <= 12
    desk.compute(KEY)  # a backup is under way, which isn't told of yet
    told = list(desk.cache.events())
    assert told[0].what == "overflow" and {one.what for one in told[1:]} == {"stored"}
    desk.mirror = {(one.tier, one.page) for one in told[1:]}
    desk.check_events()
    desk.settle()
    desk.check_events()
    seen: set[tuple[str, str]] = set()
    for one in told[1:]:
        assert one.parent is None or (one.tier, one.parent) in seen, "a page is told before the one above it"
        seen.add((one.tier, one.page))
    desk.still_works(KEY)


def test_events_that_find_no_memory_are_lost_and_it_is_said() -> None:
    desk = Desk()
    desk.compute(KEY)
    assert desk.cache.log is not None

    def scarce(*_: Any) -> Any:
        raise MemoryError

    names, desk.cache.log.names = desk.cache.log.names, scarce
    desk.compute(OTHER)
    desk.cache.log.names = names
    assert next(iter(desk.cache.events())).what == "overflow"
    desk.settle()
    assert {one.what for one in desk.cache.events()} == {"stored"}, "from here on everything is told again"


@pytest.mark.usefixtures("each_core")
def test_a_cache_without_tiers_tells_what_its_calls_came_to() -> None:
    cache = FlatCache(CacheConfig(page_size=2, pages=8), events=4)
    names = page_hashes(np.arange(8, dtype=np.int32), 2)
    for _ in range(2):
        cache.begin(1, range(8))
        cache.end(1, keep=True)
    told = cache.events()
    assert [(one.what, one.page, one.parent) for one in told] == [
        ("stored", page, parent) for page, parent in zip(names, [None, *names], strict=False)
    ]
    cache.evict(4)
    assert [(one.what, one.page) for one in cache.events()] == [("removed", names[3]), ("removed", names[2])]
    cache.evict(4)
    cache.begin(1, range(4))
    cache.publish(1)
    assert cache.events() == [], "pages that came and went between two looks are told of"
    cache.begin(2, range(10, 16), ("no", "text"))
    cache.end(2, keep=True)
    assert cache.events() == []
    cache.end(1, keep=True)
    cache.begin(2, range(20, 26))
    cache.end(2, keep=True)
    cache.flush()
    assert [one.what for one in cache.events()] == ["overflow"], "three pages stored and two removed are five events"
    cache.reset()
    assert [one.what for one in cache.events()] == ["cleared"]
    assert FlatCache(CacheConfig()).events() == ()


def test_a_number_of_events_can_be_asked_for() -> None:
    cache = HierarchicalCache(CacheConfig(page_size=SIZE, pages=8, host_pages=8), events=3)
    assert cache.log is not None and cache.log.limit == 3 and EventLog().limit > 1000
