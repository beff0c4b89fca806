"""A flat cache over an engine's own allocator keeps the laws of flat caches, and gives back whatever it lets go of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from kvlitmus.conformance.adapters.optimized.flat import PROFILE, OptimizedCache
from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.conformance.run import engine, plan
from kvlitmus.conformance.run.results import Options
from kvlitmus.optimized.cache import CacheConfig
from kvlitmus.optimized.cores import NATIVE, PYTHON, lacking
from kvlitmus.optimized.inputs import WrongPage
from kvlitmus.optimized.lent import AllocatorFault, LentCache

CORES = [pytest.param(NATIVE, marks=pytest.mark.skipif(bool(lacking()), reason="no core")), PYTHON]


class Shelf:
    """An engine's allocator, which hands out the page that has been free for longest."""

    def __init__(self, pages: int, reserved: int = 0) -> None:
        self.all = range(reserved, reserved + pages)
        self.free_pages = list(self.all)

    def available(self) -> int:
        return len(self.free_pages)

    def take(self, count: int) -> list[int] | None:
        if count > len(self.free_pages):
            return None
        taken, self.free_pages = self.free_pages[:count], self.free_pages[count:]
        return taken

    def free(self, pages: Any) -> None:
        for page in pages.tolist():
            if page in self.free_pages or page not in self.all:
                raise ValueError(f"page {page} is free already, or none of these", page)
            self.free_pages.append(page)


class Forgetful(Shelf):
    """A slip: what is given back first stays away."""

    def free(self, pages: Any) -> None:
        super().free(pages[1:])


class Ports(OptimizedCache):
    """The ports of such a cache; ``shelf``: of which allocator."""

    shelf: type[Shelf] = Shelf
    free_group_begin = free_group_end = None  # type: ignore[assignment]  # to group frees is the allocator's

    def make_cache(self, parts: Any) -> Any:
        config = self.cache_config()
        return LentCache(config, self.shelf(config.pages, config.reserved), events=True)

    def reset(self) -> None:
        super().reset()
        self.cache.allocator.free_pages = list(self.cache.allocator.all)  # the suite's slots, too

    def free(self, slots: Sequence[int]) -> None:
        pages = self.cache.pool.pages_of(slots)
        if any(int(page) in self.cache.allocator.free_pages for page in pages):
            raise ValueError("free already")
        self.cache.pool.free(slots)

    def free_pages(self) -> Sequence[int]:
        pages: list[int] = self.cache.allocator.free_pages
        return pages


class Target:
    """The optimized cache over an engine's allocator."""

    pools = ("device",)
    profile: Profile = replace(PROFILE, misuse=Profile().misuse)  # which pages are free the allocator alone knows
    capabilities = (
        *("pool", "extend", "tree", "locks", "evict", "requests", "partial", "take_back", "fork", "retract"),
        *("counters", "inspect", "reset", "flush", "events"),
    )

    def __init__(self, core: str = "auto", shelf: type[Shelf] = Shelf) -> None:
        self.core, self.shelf = core, shelf

    def make(self, config: Config) -> Any:
        ports = type("Lent", (Ports,), {"shelf": self.shelf})(config, self.profile, None, self.core)
        ports.audited = True
        return ports


def lawful(core: str, configs: Sequence[Config], steps: int) -> None:
    target = Target(core)
    evaluated: dict[str, int] = {}
    for item in plan.items(configs, target.profile, steps=steps):
        result = engine.run_item(target, item, Options(shrink_trials=0))
        assert not result.findings, (item, result.findings[0])
        for id, many in result.evaluated.items():
            evaluated[id] = evaluated.get(id, 0) + many
    assert evaluated["POOL-01"] > 100 and evaluated["EVICT-01"] > 10 and evaluated["REQ-01"] > 100


CONFIGS = [config for config in plan.configs_of(Target()) if config.pool == "device"]


def test_it_keeps_the_laws_of_flat_caches() -> None:
    lawful("auto", CONFIGS[:1] + CONFIGS[7:8], 250)


@pytest.mark.nightly
@pytest.mark.parametrize("core", CORES)
def test_it_keeps_them_in_every_configuration(core: str) -> None:
    lawful(core, CONFIGS, 1_500)


def test_an_allocator_that_loses_pages_is_found() -> None:
    target = Target(shelf=Forgetful)
    config = plan.configs_of(target)[0]
    found = {
        rule
        for item in plan.items([config], target.profile, steps=250, litmus=False)
        for finding in engine.run_item(target, item, Options(shrink_trials=0)).findings
        for rule in finding.rules
    }
    assert found & {"POOL-01", "POOL-02", "POOL-03", "POOL-05", "EVICT-01"}, found


@pytest.mark.parametrize("core", CORES)
def test_all_pages_are_the_engine_s_again_after_a_reset(core: str) -> None:
    shelf = Shelf(8, 1)
    cache = LentCache(CacheConfig(page_size=2, pages=8, reserved=1, core=core), shelf)
    for rid in range(2):
        assert cache.begin(rid, [rid, 1, 2, 3, 4]) is not None
        cache.publish(rid)
    mine = cache.alloc(2)
    assert mine is not None and shelf.available() == 1
    with pytest.raises(ValueError, match="running"):
        cache.reset()
    assert shelf.available() == 1
    cache.reset(abort=True)
    assert sorted(shelf.free_pages) == sorted(set(shelf.all) - {int(mine[0]) // 2})
    cache.free(mine)
    assert shelf.available() == 8 == cache.stats().free


@pytest.mark.parametrize("core", CORES)
def test_a_page_that_is_handed_out_though_it_is_cached_is_refused(core: str) -> None:
    shelf = Shelf(4, 1)
    cache = LentCache(CacheConfig(page_size=1, pages=4, core=core), shelf)
    first = cache.begin(0, [1])
    assert first is not None
    page = int(first.row[0])
    cache.end(0, keep=True)
    shelf.free_pages.insert(0, page)
    cache.begin(1, [2])
    with pytest.raises(WrongPage, match=f"page {page} can't be cached: it is the tree's"):
        cache.end(1, keep=True)
    assert cache.match([1]).pages.tolist() == [page]


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("answer", [[], [1, 2, 3], [0], [5], 7, "no", 1 / 3])
def test_an_allocator_that_answers_rubbish_is_told_so(core: str, answer: Any) -> None:
    shelf = Shelf(4, 1)
    cache = LentCache(CacheConfig(page_size=1, pages=4, core=core), shelf)
    running = cache.begin(0, [1])
    assert running is not None
    shelf.take = lambda count: answer  # type: ignore[method-assign]
    for call in (lambda: cache.begin(1, [2, 3]), lambda: cache.grow(0, [2, 3]), lambda: cache.fork(2, 0)):
        with pytest.raises(AllocatorFault, match="the allocator"):
            call()
    assert cache.stats().running == 1
    del shelf.take
    assert cache.begin(1, [2, 3]) is not None and shelf.available() == 1
