"""Events that nobody fetches: they are bounded, and whoever listens later is told."""

from __future__ import annotations

from typing import Any

from kvlitmus.optimized.cache import CacheConfig
from kvlitmus.optimized.event import EventLog
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


def test_a_number_of_events_can_be_asked_for() -> None:
    cache = HierarchicalCache(CacheConfig(page_size=SIZE, pages=8, host_pages=8), events=3)
    assert cache.log is not None and cache.log.limit == 3 and EventLog().limit > 1000
