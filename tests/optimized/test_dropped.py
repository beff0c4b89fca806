"""What has threads or files and is dropped without a close keeps none: movers, runners, stores, whole caches."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba")
pytest.importorskip("torch")

import torch

from kvlitmus.optimized.cache import CacheConfig
from kvlitmus.optimized.data.pools import DevicePool, HostPool
from kvlitmus.optimized.data.shape import KVShape
from kvlitmus.optimized.data.threads import Worker
from kvlitmus.optimized.data.transfer import TorchMover
from kvlitmus.optimized.hierarchy import HierarchicalCache
from kvlitmus.optimized.mover import NullMover
from kvlitmus.optimized.runner import Threads
from kvlitmus.optimized.storage.file import FileStore
from tests.optimized.support.fake_redis import serving
from tests.support.processes import eventually

KEY, PAGE = "0" * 64, b"page" * 8
FILES = Path("/proc/self/fd")

Make = Callable[[ExitStack, Path], Callable[[], Any]]


def mover(*, used: bool) -> TorchMover:
    """A mover of CPU tensors, as it is made or with copies behind it."""
    shape = KVShape(layers=1, heads=1, head_dim=4, dtype=torch.float32, page_size=4)
    made = TorchMover(DevicePool(shape, 9), HostPool(shape, 8), stepped=False)
    if used:
        pages = np.arange(4, dtype=np.int32)
        made.backup(pages + 1, pages).wait()
        made.load(pages, pages + 1)  # nobody waits for it
    return made


def redis_store(stack: ExitStack, _: Path) -> Callable[[], Any]:
    """A store with connections, one of them in use."""
    pytest.importorskip("redis", reason="the client library is missing: the extra 'redis' brings it")
    from kvlitmus.optimized.storage.redis import RedisStore

    server = stack.enter_context(serving())

    def make() -> RedisStore:
        store = RedisStore(server.url, seconds=30.0)
        assert store.put([KEY], [PAGE]) == [True]
        return store

    return make


def whole_cache(_: ExitStack, folder: Path) -> Callable[[], Any]:
    """A free-running cache, with its threads, after some requests."""

    def make() -> HierarchicalCache:
        own = mover(used=False)
        cache = HierarchicalCache(CacheConfig(page_size=4, pages=8, host_pages=8), own, Threads(own, threads=2))
        cache.attach(FileStore(folder))
        cache.begin(1, np.arange(12, dtype=np.int32))
        cache.end(1, keep=True)
        return cache

    return make


def file_store(_: ExitStack, folder: Path) -> Callable[[], Any]:
    """A store of files that has written and read."""

    def make() -> FileStore:
        store = FileStore(folder)
        assert store.put([KEY], [PAGE]) == [True] and store.get([KEY]) == [PAGE]
        return store

    return make


DROPPED: dict[str, Make] = {
    "a mover": lambda *_: lambda: mover(used=False),
    "a mover with copies": lambda *_: lambda: mover(used=True),
    "a worker": lambda *_: lambda: Worker("kv-dropped"),
    "a runner": lambda *_: lambda: Threads(NullMover(stepped=False), threads=2),
    "a store of files": file_store,
    "a store on a server": redis_store,
    "a whole cache": whole_cache,
}


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """What ends with the test."""
    with ExitStack() as one:
        yield one


class Kept:
    """What this process has more than it had: threads of a cache's own, and open files."""

    def __init__(self) -> None:
        gc.collect()
        gc.freeze()  # what is there now is looked through once
        self.threads = set(threading.enumerate())
        self.files = files()

    def more(self) -> list[str]:
        """The names of these threads, and how many files."""
        gc.collect()
        names = [one.name for one in threading.enumerate() if one not in self.threads]
        return [name for name in names if name.startswith(("kv-", "kvlitmus-"))] + ["a file"] * (files() - self.files)


def files() -> int:
    """How many files this process has open, where it can be seen."""
    return len(list(FILES.iterdir())) if FILES.exists() else 0


@pytest.mark.parametrize("what", DROPPED)
def test_what_is_dropped_keeps_no_thread_and_no_file(what: str, stack: ExitStack, tmp_path: Path) -> None:
    make = DROPPED[what](stack, tmp_path)
    make()  # what is made once for all is there
    kept = Kept()
    held = [make() for _ in range(3)]
    assert what == "a store of files" or kept.more(), "it has nothing that could be kept"
    held.clear()
    eventually(lambda: not kept.more())


def test_a_thread_that_is_kept_is_seen() -> None:
    """The check itself: a worker that somebody has keeps its thread."""
    kept = Kept()
    worker = Worker("kv-kept")
    assert kept.more() == ["kv-kept"]
    worker.close()
    assert not kept.more()
