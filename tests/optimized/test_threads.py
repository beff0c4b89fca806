"""Which calls may come from which thread: the scheduler's are its own, a model's may come from anywhere."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kvlitmus.optimized.cache import CacheConfig
from kvlitmus.optimized.data.pools import DevicePool, HostPool
from kvlitmus.optimized.hierarchy import HierarchicalCache
from kvlitmus.optimized.mover import NullMover
from kvlitmus.optimized.runner import Threads
from tests.optimized.support.pausing import PausingMover
from tests.optimized.support.stress_world import Contents, lagging, prints_of, shape_of
from tests.support.processes import LIMIT

KEY = [1, 2, 3, 4, 5, 6, 7, 8]


def free_running() -> HierarchicalCache:
    mover = NullMover(stepped=False)
    return HierarchicalCache(
        CacheConfig(page_size=2, pages=8, host_pages=8), mover, Threads(mover, threads=1), events=True
    )


def in_a_thread(call: Callable[[], object], name: str = "other") -> BaseException | None:
    """Make a call in a thread of its own; what it raised."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001  handed to the test
            raised.append(error)

    thread = threading.Thread(target=run, name=name)
    thread.start()
    thread.join(LIMIT)
    assert not thread.is_alive()
    return raised[0] if raised else None


CALLS: tuple[tuple[str, Callable[[HierarchicalCache], object]], ...] = (
    ("begin", lambda cache: cache.begin(9, KEY)),
    ("grow", lambda cache: cache.grow(1, [5])),
    ("publish", lambda cache: cache.publish(1)),
    ("end", lambda cache: cache.end(1, keep=True)),
    ("insert", lambda cache: cache.insert(KEY, [5, 6, 7, 8])),
    ("insert_behind", lambda cache: cache.insert_behind(cache.match([]).place, KEY, [5, 6, 7, 8])),
    ("evict", lambda cache: cache.evict(4)),
    ("evict_host", lambda cache: cache.evict_host(4)),
    ("load_back", lambda cache: cache.load_back(KEY)),
    ("prefetch", lambda cache: cache.prefetch(9, KEY)),
    ("poll", lambda cache: cache.poll(9)),
    ("loaded", lambda cache: cache.loaded(9)),
    ("abandon", lambda cache: cache.abandon(9)),
    ("tick", lambda cache: cache.tick()),
    ("attach", lambda cache: cache.attach(None)),  # type: ignore[arg-type]
    ("detach", lambda cache: cache.detach()),
    ("events", lambda cache: cache.events()),
    ("reset", lambda cache: cache.reset()),
    ("close", lambda cache: cache.close()),
    ("hand_over", lambda cache: cache.hand_over()),
)


@pytest.mark.parametrize("call", [call for _, call in CALLS], ids=[name for name, _ in CALLS])
def test_a_call_of_another_thread_is_refused_and_changes_nothing(call: Callable[[HierarchicalCache], object]) -> None:
    cache = free_running()
    assert cache.begin(1, KEY) is not None
    before = cache.available(), cache.sizes(), len(cache.jobs()), dict(cache.requests.running), cache.tree
    raised = in_a_thread(lambda: call(cache))
    assert (cache.available(), cache.sizes(), len(cache.jobs()), dict(cache.requests.running), cache.tree) == before
    assert isinstance(raised, RuntimeError), raised
    assert str(raised) == "this cache is the thread's 'MainThread': 'other' may not call it (see hand_over)"
    cache.end(1, keep=True)
    cache.close()


def test_whoever_calls_first_is_the_scheduler_and_hands_over_or_ends() -> None:
    cache = free_running()  # who makes it need not be the one
    assert in_a_thread(cache.tick, "first") is None
    cache.tick()  # the first has ended
    raised = in_a_thread(cache.tick)
    assert isinstance(raised, RuntimeError)
    cache.hand_over()
    release, ready = threading.Event(), threading.Event()

    def stay() -> None:
        cache.tick()
        ready.set()
        release.wait(LIMIT)

    second = threading.Thread(target=stay, name="second")
    second.start()
    assert ready.wait(LIMIT)
    with pytest.raises(RuntimeError, match="the thread's 'second': 'MainThread' may not"):
        cache.tick()
    release.set()
    second.join(LIMIT)
    cache.close()


def test_a_stepped_cache_asks_nobody() -> None:
    cache = HierarchicalCache(CacheConfig(page_size=2, pages=8, host_pages=8))
    cache.tick()
    assert in_a_thread(cache.tick) is None
    cache.hand_over()


def test_a_model_waits_for_layers_in_a_thread_of_its_own() -> None:
    """Three of them, while the scheduler loads, evicts and ticks; each layer is right once it was waited for."""
    shape = shape_of(2)
    device, host = DevicePool(shape, 25), HostPool(shape, 40)
    contents = Contents(device)
    mover = PausingMover(device, host, stepped=False, pause=lagging(1, 0.001))
    cache = HierarchicalCache(CacheConfig(page_size=2, pages=24, host_pages=40), mover, Threads(mover, threads=1))
    wrong: list[BaseException] = []

    def model(loads: list[int], slots: Any, prints: Any) -> None:
        try:
            for layer in range(cache.layers()):
                for job in loads:
                    cache.wait_layer(job, layer)
                    assert cache.layers_ready(job) in range(cache.layers() + 1)
                contents.check(slots, prints, "what the model reads", layer)
        except BaseException as error:  # noqa: BLE001  handed to the test
            wrong.append(error)

    for step in range(60):
        batch: list[tuple[int, threading.Thread]] = []
        for stream in range(3):
            tokens = [stream, step % 2, *KEY[2:]]
            cache.load_back(tokens)
            running = cache.begin(stream, tokens)
            assert running is not None
            prints = prints_of(None, tokens)
            contents.write(running.row[running.cached :], prints[running.cached :])
            loads = [work.id for work in cache.loads_on(running.place)]
            thread = threading.Thread(target=model, args=(loads, running.row.copy(), prints))
            thread.start()
            batch.append((stream, thread))
            cache.tick()
        for stream, thread in batch:
            thread.join(LIMIT)
            assert not thread.is_alive() and not wrong, wrong
            cache.end(stream, keep=True)
        cache.tick()
        cache.evict(1000)
        assert np.all(cache.pool.state <= 3)
    cache.close()
    mover.close()
