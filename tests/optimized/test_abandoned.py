"""Resets and closes that don't wait for ever, and what they leave behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

from kvlitmus.optimized.cache import CacheConfig
from kvlitmus.optimized.hierarchy import HierarchicalCache
from kvlitmus.optimized.mover import NullMover
from kvlitmus.optimized.runner import Threads
from kvlitmus.optimized.work import BACKUP
from tests.optimized.support.fault_desk import SIZE
from tests.optimized.support.fault_scenes import KEY
from tests.optimized.support.hierarchy_sides import ArrayMover


class Stuck:
    """A store whose reads begin and don't end until they are let go."""

    def __init__(self, page_bytes: int) -> None:
        self.page = bytes(page_bytes)
        self.reading, self.go = threading.Event(), threading.Event()

    def exists(self, keys: Sequence[str]) -> int:
        return len(keys)

    def get(self, keys: Sequence[str], size: int | None = None) -> list[bytes | None]:
        self.reading.set()
        self.go.wait(60.0)
        return [self.page] * len(keys)

    def get_into(self, keys: Sequence[str], buffers: Any) -> list[bool]:
        raise NotImplementedError

    def put(self, keys: Sequence[str], values: Any) -> list[bool]:
        return [True] * len(keys)

    def clear(self) -> None:
        raise NotImplementedError


def test_a_reset_abandons_what_does_not_end_and_keeps_its_pages_apart() -> None:
    contents = ArrayMover(SIZE, 9, 8)
    runner = Threads(contents, threads=1)
    cache = HierarchicalCache(CacheConfig(page_size=SIZE, pages=8, host_pages=8, rate_limit=100), contents, runner)
    store = Stuck(contents.page_bytes)
    cache.attach(store)
    assert cache.prefetch(1, list(KEY)).started
    while not store.reading.is_set():
        cache.tick()
    contents.host[:] = 5
    began = time.monotonic()
    (late,) = cache.reset(0.05)
    assert time.monotonic() - began < 30.0 and late.kind == "fetch"
    held = set(late.host_pages.tolist())
    assert cache.host_available() == (8 - len(held)) * SIZE and len(held) == 4
    assert set(cache.moving().tolist()) == held
    taken = cache.host.pool.take(8 - len(held))
    assert taken is not None and held.isdisjoint(taken.tolist()) and cache.host.pool.take(1) is None
    store.go.set()
    while len(cache.moving()):
        cache.tick()
    assert cache.host_available() == len(held) * SIZE, "what is over is handed out again"
    assert (contents.host[:, contents.slots(taken)] == 5).all(), "a late thread wrote to somebody else's pages"
    cache.host.pool.give_back(taken)
    assert cache.reset(0.05) == [] and cache.host_available() == 8 * SIZE
    cache.close()


def test_an_interrupt_ends_the_wait_of_a_reset_and_not_the_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    contents = ArrayMover(SIZE, 9, 8)
    runner = Threads(contents, threads=1)
    cache = HierarchicalCache(CacheConfig(page_size=SIZE, pages=8, host_pages=8, rate_limit=100), contents, runner)
    store = Stuck(contents.page_bytes)
    cache.attach(store)
    assert cache.prefetch(1, list(KEY)).started and cache.begin(2, list(KEY)) is not None
    while not store.reading.is_set():
        cache.tick()

    def interrupted(_: float) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(runner, "drain", interrupted)
        with pytest.raises(KeyboardInterrupt):
            cache.reset(600.0, abort=True)
    assert (cache.available(), cache.host_available(), cache.jobs()) == (8 * SIZE, 4 * SIZE, [])
    store.go.set()
    while len(cache.moving()):
        cache.tick()
    assert cache.host_available() == 8 * SIZE and cache.begin(2, list(KEY)) is not None
    cache.end(2, keep=False)
    assert cache.reset(0.05) == []
    cache.close()


class Hanging:
    """A copy that goes on when it is let go."""

    def __init__(self) -> None:
        self.over = False

    def advance(self, layers: int | None = None) -> None:
        """Nothing."""

    def layers_ready(self) -> int:
        return 0

    def wait_layer(self, layer: int) -> None:
        """Nothing."""

    def done(self) -> bool:
        return self.over

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None, "nobody may wait for a copy without a limit"
        return self.over


class HangingMover(NullMover):
    """A mover whose copies hang."""

    def __init__(self) -> None:
        super().__init__(stepped=False)
        self.tickets: list[Hanging] = []

    def ticket(self, sources: Any, targets: Any) -> Any:
        self.tickets.append(Hanging())
        return self.tickets[-1]


def test_a_reset_abandons_a_copy_that_hangs() -> None:
    mover = HangingMover()
    runner = Threads(mover, threads=1)
    cache = HierarchicalCache(CacheConfig(page_size=SIZE, pages=8, host_pages=8), mover, runner)
    assert cache.begin(1, list(KEY)) is not None
    cache.end(1, keep=True)
    (late,) = cache.reset(0.01, abort=True)
    assert late.kind == BACKUP and cache.available() == cache.host_available() == 4 * SIZE
    assert cache.reset(0.01) == [late], "it is abandoned still"
    mover.tickets[0].over = True
    cache.tick()
    assert cache.available() == cache.host_available() == 8 * SIZE
    assert cache.begin(1, list(KEY)) is not None
    cache.end(1, keep=True)
    began = time.monotonic()
    cache.close(0.05)
    assert time.monotonic() - began < 30.0 and [work.kind for work in cache.jobs()] == [BACKUP]
