"""The end of a free-running cache: nothing is lost that could be kept, and what is lost is told."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from examples import serve
from kvlitmus.optimized.cache import CacheConfig
from kvlitmus.optimized.hashing import page_hashes
from kvlitmus.optimized.hierarchy import HierarchicalCache
from kvlitmus.optimized.mover import NullMover
from kvlitmus.optimized.runner import Threads
from kvlitmus.optimized.storage.base import Buffer
from kvlitmus.optimized.storage.file import FileStore
from tests.support.processes import LIMIT
from tests.test_layout import ROOT

PROMPT = np.arange(12, dtype=np.int32)
NAMES = page_hashes(PROMPT, 4)


class Slow(FileStore):
    """A file store that answers when it is let."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.gate = threading.Event()
        self.refuses = 0

    def put(self, keys: Sequence[str], values: Sequence[Buffer]) -> list[bool]:
        self.gate.wait(LIMIT)
        if self.refuses:
            self.refuses -= 1
            raise OSError("planted")
        return super().put(keys, values)


def served(store: Slow) -> HierarchicalCache:
    """A cache in which a prompt of three pages has been computed."""
    mover = NullMover(stepped=False)
    cache = HierarchicalCache(CacheConfig(page_size=4, pages=8, host_pages=8), mover, Threads(mover, threads=2))
    cache.attach(store)
    assert cache.begin(1, PROMPT) is not None
    cache.end(1, keep=True)
    return cache


@pytest.fixture
def store(tmp_path: Path) -> Slow:
    return Slow(tmp_path / "pages")


def test_a_close_puts_what_was_computed_last(store: Slow) -> None:
    cache = served(store)
    threading.Timer(0.1, store.gate.set).start()
    assert cache.close() == []
    assert store.exists(NAMES) == 3


def test_a_close_tries_again_what_was_refused(store: Slow) -> None:
    store.gate.set()
    store.refuses = 1
    cache = served(store)
    until = time.monotonic() + LIMIT
    while cache.jobs() or store.refuses:
        cache.tick()
        assert time.monotonic() < until
    assert store.exists(NAMES) == 0
    assert cache.close() == []
    assert store.exists(NAMES) == 3


def test_a_close_gives_up_in_time_and_tells_what_is_lost(store: Slow) -> None:
    cache = served(store)
    assert cache.close(timeout=0.5) == NAMES
    store.gate.set()


def test_a_detach_waits_for_nobody_and_its_pages_stay_held_until_threads_let_go(store: Slow) -> None:
    cache = served(store)
    until = time.monotonic() + LIMIT
    while not any(work.kind == "put" for work in cache.jobs()):
        cache.tick()
        assert time.monotonic() < until
    assert cache.detach()
    cache.evict(12)
    assert cache.evict_host(12) == 0, "a thread still reads them"
    store.gate.set()
    while cache.jobs():
        cache.tick()
        assert time.monotonic() < until
    assert cache.evict_host(12) == 12


def stored(folder: Path) -> int:
    """How many pages there are."""
    return len(list((folder / "pages").rglob("*.page")))


@pytest.mark.nightly
def test_an_engine_that_is_killed_again_and_again_never_uses_a_wrong_page(tmp_path: Path) -> None:
    """Each life begins with what the one before has left in storage; the last one's logits are right."""
    draw = random.Random(0)
    command = [sys.executable, "-m", "examples.serve", "--folder", str(tmp_path / "pages"), "--users", "60"]
    for _ in range(10):
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, env={**os.environ}) as life:
            before, until = stored(tmp_path), time.monotonic() + LIMIT
            while stored(tmp_path) == before and time.monotonic() < until:
                time.sleep(0.05)
            time.sleep(draw.random())
            life.send_signal(signal.SIGKILL)
        assert life.returncode == -signal.SIGKILL, "it must not have come to its end"
    assert stored(tmp_path), "none of them lived long enough to store a page"
    found = serve.run(tmp_path / "pages")
    assert found["prefetched"] > 0
    assert found["worst"] < 1e-4
