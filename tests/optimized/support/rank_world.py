"""Ranks of the optimized cache in one process, driven by hand: each goes on at a speed of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvlitmus.optimized.agreement import Vector
from kvlitmus.optimized.audit import audit
from kvlitmus.optimized.cache import CacheConfig
from kvlitmus.optimized.mover import NullMover
from kvlitmus.optimized.ranks import RankedCache
from kvlitmus.optimized.storage.base import Buffer
from kvlitmus.optimized.testing import SetClock
from kvlitmus.optimized.view import nodes_of

PAGES, HOST = 24, 16


class Kept:
    """Storage in a dictionary, which may be short of some names, and refuse others."""

    def __init__(self) -> None:
        self.there: dict[str, bytes] = {}
        self.refuses = False

    def exists(self, keys: Sequence[str]) -> int:
        return next((at for at, key in enumerate(keys) if key not in self.there), len(keys))

    def get(self, keys: Sequence[str], size: int | None = None) -> list[bytes | None]:
        return [self.there.get(key) for key in keys]

    def get_into(self, keys: Sequence[str], buffers: Sequence[bytearray | memoryview]) -> list[bool]:
        return [key in self.there for key in keys]

    def put(self, keys: Sequence[str], values: Sequence[Buffer]) -> list[bool]:
        if self.refuses:
            return [False for _ in keys]
        self.there.update((key, bytes(value)) for key, value in zip(keys, values, strict=True))
        return [True for _ in keys]

    def clear(self) -> None:
        self.there.clear()


def rank_of(
    number: int, many: int, *, pages: int = PAGES, host: int = HOST, kind: type[RankedCache] = RankedCache, **more: Any
) -> RankedCache:
    """One rank, with storage of its own; ``more``: of the configuration."""
    given = {"reserved": 0, "rate_limit": 1 << 20, "stop": "wait_complete", **more}
    mover = given.pop("mover", NullMover())
    cache = kind(CacheConfig(pages=pages, host_pages=host, **given), mover, rank=number, ranks=many, clock=SetClock())
    cache.attach(Kept())
    return cache


def settled(caches: Sequence[RankedCache], reduce: Callable[..., Any] = np.minimum.reduce) -> None:
    """All ranks tick, and settle what comes of it."""
    least: Vector = reduce([cache.tick() for cache in caches])
    for cache in caches:
        cache.settle(least)


def finish(caches: Sequence[RankedCache]) -> None:
    """Everything under way goes to its end, on all ranks."""
    while any(cache.jobs() for cache in caches):
        for cache in caches:
            go_on(cache)
        settled(caches)


def go_on(cache: RankedCache) -> None:
    """All jobs of one rank go on to their ends."""
    for work in cache.jobs():
        if not work.landed:
            cache.advance(work.id)


def cached(caches: Sequence[RankedCache], tokens: Sequence[int]) -> None:
    """A request of each rank computes this, and ends."""
    for cache in caches:
        running = cache.begin("computes", tokens)
        if running is not None:
            cache.end("computes", keep=True)


def looks(cache: RankedCache) -> Any:
    """What a rank has, without the places; raises ``AssertionError`` where something is not in order."""
    audit(cache.tree)
    whole(cache)
    return (
        [
            (node.parent, node.units.tolist(), node.pages is None, node.host_pages is None, node.locks, node.pins)
            for node in nodes_of(cache.tree)
        ],
        *(cache.pool.free_count, cache.host.pool.free_count),
        [(work.kind, work.rid, cache.span(work).units.tolist()) for work in cache.jobs()],
    )


def whole(cache: RankedCache) -> None:
    """Each page of both pools is free, cached, withheld or held by what is under way, and is so once."""
    tree = cache.tree.opened()
    device: list[NDArray[Any]] = [one.row[one.cached :] for one in cache.requests.running.values()]
    device += [cache.pool.withheld, cache.pool.free_pages()]
    device += [branch.dev_pages[: branch.dev] for branch in tree.branches()]
    host: list[NDArray[Any]] = [cache.moving(), cache.host.pool.free_pages()]
    host += [branch.host_pages[: branch.n] for branch in tree.branches() if branch.host_pages is not None]
    for pool, parts in ((cache.pool, device), (cache.host.pool, host)):
        pages = np.concatenate(parts)
        assert np.sort(pages[pages >= 0]).tolist() == list(range(pool.pages)), "pages are lost, or have two owners"


def alike(caches: Sequence[RankedCache]) -> None:
    """All ranks look the same."""
    first, *others = [looks(cache) for cache in caches]
    assert all(one == first for one in others)


CALLS = ("compute", "compute", "load", "prefetch", "poll", "poll", "evict", "abandon", "match")


def answer_of(one: RankedCache, what: str, key: Sequence[int], step: int, pick: int) -> Any:
    """Make a call on one rank."""
    reading = list(one.fetches.ongoing)
    if what == "compute":
        running = one.begin(step, key)
        if running is None:
            return None
        one.end(step, keep=True)
        return len(key) - running.cached
    if what == "load":
        loaded = one.load_back(key)
        return 0 if loaded.pages is None else len(loaded.pages)
    if what == "prefetch":
        return one.prefetch(step, key).asked
    if what in ("poll", "abandon") and reading:
        rid = reading[pick % len(reading)]
        return one.poll(rid) and one.loaded(rid) if what == "poll" else one.abandon(rid)
    return len(one.evict(1 + pick % 6) if what == "evict" else one.match(key).pages)
