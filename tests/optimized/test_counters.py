"""Counters: what a cache has done, as numbers and for Prometheus; and which pages an eviction has freed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kvlitmus.optimized.cache import CacheConfig, FlatCache
from kvlitmus.optimized.cores import NATIVE, PYTHON, lacking
from kvlitmus.optimized.counters import Served
from kvlitmus.optimized.hierarchy import HierarchicalCache
from kvlitmus.optimized.mover import NullMover
from kvlitmus.optimized.testing import BACKUP_LATE
from tests.optimized.support.fault_desk import SIZE, Desk
from tests.optimized.support.hierarchy_sides import ScriptedStore

CORES = [pytest.param(NATIVE, marks=pytest.mark.skipif(bool(lacking()), reason="no core")), PYTHON]


def tiered(core: str, write: str = "write_through") -> HierarchicalCache:
    config = CacheConfig(
        page_size=2, pages=4, host_pages=4, write=write, stop="wait_complete", rate_limit=99, core=core
    )
    return HierarchicalCache(config, NullMover(stepped=True))


def serve(cache: FlatCache, rid: int, tokens: list[int]) -> int:
    """A request from its begin to its end; how much of it was cached."""
    running = cache.begin(rid, tokens)
    assert running is not None
    cached = running.cached
    cache.end(rid, keep=True)
    return cached


def settle(cache: HierarchicalCache) -> None:
    for _ in range(3):
        for work in cache.jobs():
            if not work.landed:
                cache.advance(work.id)
        cache.tick()


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("write", ["write_through", "write_back"])
def test_an_eviction_says_which_pages_are_free_now(core: str, write: str) -> None:
    for cache in (FlatCache(CacheConfig(page_size=2, pages=4, core=core)), tiered(core, write)):
        row = cache.begin(0, [1, 2, 3, 4, 5, 6])
        assert row is not None
        pages = (row.row[::2] // 2).tolist()
        cache.end(0, keep=True)
        if isinstance(cache, HierarchicalCache):
            settle(cache)
        gone = cache.evict(3)
        assert (gone.dtype, sorted(gone.tolist())) == (np.dtype(np.int32), sorted(pages[1:]))
        assert cache.evict(100).tolist() == pages[:1]
        assert cache.evict(100).tolist() == [] == cache.evict(0).tolist()


@pytest.mark.parametrize("core", CORES)
def test_an_eviction_inside_of_a_group_says_it_too(core: str) -> None:
    cache = FlatCache(CacheConfig(page_size=1, pages=4, core=core))
    serve(cache, 0, [1, 2])
    pages = cache.match([1, 2]).pages.tolist()
    mine = cache.alloc(1)
    assert mine is not None
    cache.pool.group_begin()
    cache.free(mine)
    assert cache.evict(1).tolist() == pages[1:]
    assert cache.evict(1).tolist() == pages[:1]
    assert cache.available() == 1
    cache.pool.group_end()
    assert cache.available() == 4


@pytest.mark.parametrize("core", CORES)
def test_requests_and_evictions_are_counted_across_resets(core: str) -> None:
    cache = FlatCache(CacheConfig(page_size=2, pages=4, core=core))
    assert serve(cache, 0, [1, 2, 3, 4, 5]) == 0
    assert serve(cache, 1, [1, 2, 3, 4, 6, 7, 8]) == 4
    assert cache.stats().served == Served(requests=2, tokens=12, hits=4)
    cache.evict(2)
    assert cache.begin(2, [9] * 5) is not None  # makes room
    cache.fork(3, 2)  # is no request that was looked up
    assert cache.stats().served == Served(3, 17, 4, evicted=cache.stats().served.evicted)
    assert cache.stats().served.evicted >= 2 and cache.stats().running == 1
    before = cache.stats().served
    cache.reset(abort=True)
    assert cache.stats().served == before
    serve(cache, 0, [1])
    assert cache.stats().served == before._replace(requests=4, tokens=18)
    assert (cache.stats().free, cache.stats().waiting) == (4, {})


@pytest.mark.parametrize("core", CORES)
def test_work_is_counted_by_kind(core: str) -> None:
    cache = tiered(core)
    cache.attach(ScriptedStore())
    serve(cache, 0, [1, 2, 3, 4])
    assert cache.stats().waiting == {"backup": 1} and cache.stats().work["backup"].begun == 1
    settle(cache)
    work = cache.stats().work
    assert (work["backup"].over, work["backup"].pages, work["backup"].failed) == (1, 2, 0)
    assert (work["put"].over, work["put"].pages) == (1, 2) and work["put"].seconds > 0
    assert len(cache.evict(4)) == 2 and cache.load_back([1, 2, 3, 4]).work is not None
    settle(cache)
    assert (cache.stats().work["load"].over, cache.stats().work["load"].pages) == (1, 2)
    assert len(cache.evict(4)) == 2 and cache.evict_host(4) == 4
    assert (cache.stats().served.evicted, cache.stats().served.evicted_host) == (4, 2)
    assert cache.prefetch(1, [1, 2, 3, 4]).started
    for _ in range(2):
        settle(cache)
    assert cache.poll(1)
    work = cache.stats().work
    assert (work["query"].over, work["fetch"].over, work["fetch"].pages) == (1, 1, 2)
    assert cache.stats().waiting == {} and cache.stats().free_host == 2


@pytest.mark.parametrize("core", CORES)
def test_what_is_written_back_at_its_eviction_is_counted(core: str) -> None:
    cache = tiered(core, "write_back")
    serve(cache, 0, [1, 2, 3, 4])
    assert len(cache.evict(4)) == 2
    backups = cache.stats().work["backup"]
    assert (backups.begun, backups.over, backups.failed, backups.pages) == (backups.begun, backups.begun, 0, 2)


def test_a_copy_that_fails_is_counted_as_failed() -> None:
    desk = Desk("write_through")
    desk.faults.fail(BACKUP_LATE)
    rid = desk.begin(list(range(2 * SIZE)))
    assert rid is not None
    desk.end(rid, keep=True)
    desk.settle()
    backups = desk.cache.stats().work["backup"]
    assert backups.failed == 1 and backups.pages < backups.over * 2


def test_prometheus_reads_it_anew_each_time() -> None:
    client: Any = pytest.importorskip(
        "prometheus_client", reason="the client library is missing: the extra 'prometheus' brings it"
    )
    from kvlitmus.optimized.prometheus import CacheCollector

    cache = tiered("auto")
    registry = client.CollectorRegistry()
    registry.register(CacheCollector(cache, {"model": 'a "large" one'}))
    serve(cache, 0, [1, 2, 3, 4])
    settle(cache)
    label = {"model": 'a "large" one'}
    assert registry.get_sample_value("kvlitmus_cache_requests_total", label) == 1
    assert registry.get_sample_value("kvlitmus_cache_hit_tokens_total", label) == 0
    assert registry.get_sample_value("kvlitmus_cache_free_pages", {**label, "tier": "host"}) == 2
    serve(cache, 1, [1, 2, 3, 4])
    assert registry.get_sample_value("kvlitmus_cache_hit_tokens_total", label) == 4
    assert registry.get_sample_value("kvlitmus_cache_work_seconds_count", {**label, "kind": "backup"}) == 1
    text = client.generate_latest(registry).decode()
    assert 'kvlitmus_cache_evicted_pages_total{model="a \\"large\\" one",tier="device"} 0.0' in text
    flat = client.CollectorRegistry()
    flat.register(CacheCollector(FlatCache(CacheConfig(page_size=1, pages=4))))
    assert flat.get_sample_value("kvlitmus_cache_free_pages", {"tier": "device"}) == 4
    assert flat.get_sample_value("kvlitmus_cache_free_pages", {"tier": "host"}) is None
