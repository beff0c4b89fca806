"""Handles die with what they named: places, receipts and requests, after evictions, after resets, in other caches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("numba")

import numpy as np

from kvlitmus.optimized.audit import audit
from kvlitmus.optimized.cache import CacheConfig, FlatCache
from kvlitmus.optimized.hierarchy import HierarchicalCache
from kvlitmus.optimized.inputs import StaleHandle
from kvlitmus.optimized.tree import Place

pytestmark = pytest.mark.usefixtures("each_core")

PAGES = 8
OLD, NEW = [1, 2, 3, 4], [1, 2, 9, 9]
"""Two keys that share their first page."""


def flat() -> FlatCache:
    return FlatCache(CacheConfig(page_size=2, pages=PAGES))


def tiered() -> HierarchicalCache:
    return HierarchicalCache(CacheConfig(page_size=2, pages=PAGES, host_pages=PAGES))


MAKE: tuple[Callable[[], FlatCache], ...] = (flat, tiered)


def store(cache: FlatCache, tokens: list[int]) -> Place:
    pages = cache.pool.take(len(tokens) // 2)
    assert pages is not None
    done = cache.insert(tokens, pages)
    cache.pool.give_back(pages[: done.already])
    return done.place


def forget(cache: FlatCache, pages: int) -> None:
    """Evict so many pages from everywhere."""
    if isinstance(cache, HierarchicalCache):
        for job in cache.jobs():
            cache.advance(job.id, None)
        cache.tick()
    cache.evict(2 * pages)
    if isinstance(cache, HierarchicalCache):
        cache.evict_host(2 * pages)


def calls(cache: FlatCache, place: Place) -> dict[str, Callable[[], Any]]:
    """Every public call that takes a place, with this one."""
    (page,) = cache.pool.free_pages()[:1].tolist()
    found: dict[str, Callable[[], Any]] = {
        "lock": lambda: cache.lock(place),
        "resume": lambda: cache.resume(place, [7, 7]),
        "insert_behind": lambda: cache.insert_behind(place, [7, 7], [page]),
        "unlock": lambda: cache.tree.unlock(place),
    }
    if isinstance(cache, HierarchicalCache):
        found["loads_on"] = lambda: cache.loads_on(place)
    return found


def refused(cache: FlatCache, place: Place, match: str) -> None:
    """Every call refuses the place, and nothing changes."""
    before = (cache.sizes(), cache.available(), cache.tree.clock, len(cache.tree.opened().by_uid))
    for name, call in calls(cache, place).items():
        with pytest.raises(StaleHandle, match=match):
            call()
        assert (cache.sizes(), cache.available(), cache.tree.clock, len(cache.tree.opened().by_uid)) == before, name
    audit(cache.tree)


@pytest.mark.parametrize("make", MAKE)
@pytest.mark.parametrize("hold", [False, True], ids=["in a match", "in an insert"])
def test_a_place_is_not_another_prompts(make: Callable[[], FlatCache], hold: bool) -> None:
    cache = make()
    place = store(cache, OLD)
    place = place if hold else cache.match(OLD).place
    forget(cache, 1)
    assert store(cache, NEW).branch is place.branch, "it grows where the other one was"
    refused(cache, place, "other pages have been cached where it was")
    cache.lock(cache.match(NEW).place)
    refused(cache, place, "other pages have been cached where it was")
    assert cache.match([*NEW, 7, 7]).pages.tolist() == cache.match(NEW).pages.tolist()


@pytest.mark.parametrize("make", MAKE)
def test_a_place_of_the_same_tokens_cached_again_is_stale_too(make: Callable[[], FlatCache]) -> None:
    cache = make()
    place = store(cache, OLD)
    forget(cache, 1)
    store(cache, OLD)
    refused(cache, place, "other pages have been cached where it was")


@pytest.mark.parametrize("make", MAKE)
def test_a_place_whose_branch_has_left_is_refused(make: Callable[[], FlatCache]) -> None:
    cache = make()
    place = store(cache, OLD)
    forget(cache, 2)
    refused(cache, place, "this place is gone")
    store(cache, NEW)
    refused(cache, place, "this place is gone")


@pytest.mark.parametrize("make", MAKE)
def test_what_other_pages_do_leaves_a_place_alone(make: Callable[[], FlatCache]) -> None:
    cache = make()
    place = store(cache, OLD)
    inner = cache.match(OLD[:2]).place
    store(cache, NEW)
    store(cache, [*OLD, 5, 5])
    receipt = cache.lock(place)
    forget(cache, PAGES)
    assert cache.resume(place, [5, 5]).known == 2
    cache.unlock(cache.lock(inner))
    cache.unlock(receipt)
    assert cache.sizes() == (4, 0)


@pytest.mark.parametrize("make", MAKE)
def test_places_and_receipts_end_with_a_reset(make: Callable[[], FlatCache]) -> None:
    cache = make()
    place, root = store(cache, OLD), cache.match([8, 8]).place
    receipt = cache.lock(place)
    cache.reset()
    for stale in (place, root):
        refused(cache, stale, "of another cache, or from before a reset")
    store(cache, OLD)
    refused(cache, place, "of another cache, or from before a reset")
    with pytest.raises(StaleHandle, match="of another cache, or from before a reset"):
        cache.unlock(receipt)
    assert sum(cache.sizes()) == 4 and min(cache.sizes()) == 0


def test_places_and_receipts_are_of_one_cache() -> None:
    one, other = flat(), flat()
    place, root = store(one, OLD), one.match([8, 8]).place
    store(other, OLD)
    for foreign in (place, root):
        refused(other, foreign, "of another cache, or from before a reset")
    receipt = one.lock(place)
    with pytest.raises(StaleHandle, match="of another cache"):
        other.unlock(receipt)
    assert (one.sizes(), other.sizes()) == ((0, 4), (4, 0))
    one.unlock(receipt)


def test_a_place_that_left_the_device_lives_on_with_its_host_copy() -> None:
    cache = tiered()
    place = store(cache, OLD)
    for job in cache.jobs():
        cache.advance(job.id, None)
    cache.tick()
    cache.evict(4)
    with pytest.raises(ValueError, match="not resident"):
        cache.lock(place)
    cache.load_back(OLD)
    cache.unlock(cache.lock(place))


@pytest.mark.parametrize("make", MAKE)
def test_the_place_of_a_request_that_ended_is_one_like_any_other(make: Callable[[], FlatCache]) -> None:
    cache = make()
    store(cache, OLD)
    running = cache.begin(1, [*OLD, 5])
    assert running is not None
    place = running.place
    cache.end(1, keep=False)
    forget(cache, 1)
    store(cache, NEW)
    refused(cache, place, "other pages have been cached where it was")


@pytest.mark.parametrize("make", MAKE)
def test_a_reset_does_not_take_the_slots_of_running_requests(make: Callable[[], FlatCache]) -> None:
    cache = make()
    first = cache.begin(1, OLD)
    assert first is not None
    with pytest.raises(ValueError, match=r"1 requests are running, 1 among them: end them, or reset\(abort=True\)"):
        cache.reset()
    second = cache.begin(2, OLD)
    assert second is not None and not set(first.row.tolist()) & set(second.row.tolist())
    cache.end(2, keep=False)
    cache.reset(abort=True)
    for call in (lambda: cache.grow(1, [5]), lambda: cache.publish(1), lambda: cache.end(1, keep=True)):
        with pytest.raises(KeyError):
            call()
    assert cache.available() == 2 * PAGES and cache.begin(1, OLD) is not None


def test_a_prefetch_does_not_attach_to_what_grew_where_its_anchor_was() -> None:
    cache = tiered()
    anchor = store(cache, OLD)
    forget(cache, 1)
    store(cache, NEW)
    pages = cache.host.pool.take(1)
    assert pages is not None
    with pytest.raises(StaleHandle):
        cache.tree.insert_host(anchor, np.array([5, 5], np.int32), pages)
