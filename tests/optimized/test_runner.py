"""The threads of the free-running mode: whatever a store does, each job gets its one last report."""

from __future__ import annotations

import gc
import logging
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kvlitmus.optimized.mover import NullMover
from kvlitmus.optimized.runner import PATIENCE, Threads
from kvlitmus.optimized.storage.base import Buffer
from kvlitmus.optimized.work import FETCH, LOAD, PUT, QUERY, Progress, Runner, Work
from tests.support.processes import LIMIT

ROOT = Path(__file__).resolve().parents[2]


class Memory(NullMover):
    """Host pages of four bytes in a list."""

    def __init__(self, pages: int = 64) -> None:
        super().__init__()
        self.page_bytes = 4
        self.pages = [b"...."] * pages

    def read_page(self, host_page: int) -> Buffer:
        return self.pages[host_page]

    def write_page(self, host_page: int, contents: Buffer) -> None:
        self.pages[host_page] = bytes(contents)


class Store:
    """A page store in a dict, which can be held up and can fail."""

    def __init__(self) -> None:
        self.there: dict[str, bytes] = {}
        self.order: list[str] = []
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Semaphore(0)
        self.raises: Callable[[], BaseException] | None = None

    def enter(self, what: str) -> None:
        self.order.append(what)
        self.entered.release()
        assert self.gate.wait(LIMIT)
        if self.raises is not None:
            raise self.raises()

    def exists(self, keys: Sequence[str]) -> int:
        self.enter("exists")
        return [*(key in self.there for key in keys), False].index(False)

    def get(self, keys: Sequence[str], size: int | None = None) -> list[bytes | None]:
        self.enter("get")
        return [self.there.get(key) for key in keys]

    def get_into(self, keys: Sequence[str], buffers: Sequence[bytearray | memoryview]) -> list[bool]:
        raise NotImplementedError

    def put(self, keys: Sequence[str], values: Sequence[Buffer]) -> list[bool]:
        self.enter("put")
        self.there.update(zip(keys, map(bytes, values), strict=True))
        return [True] * len(keys)

    def clear(self) -> None:
        self.there.clear()


_numbers = iter(range(1 << 30))


def work_of(kind: str, store: Any, pages: Sequence[int] = (0, 1, 2)) -> Work:
    """A work over these host pages, whose names are made of their numbers."""
    place: Any = None
    work = Work(next(_numbers), kind, place)
    work.store = store
    work.host_pages = np.array(pages, np.int32)
    work.names = [f"name {page}" for page in pages]
    return work


def drained(runner: Runner, overs: int, seconds: float = LIMIT) -> list[Progress]:
    """Reports until so many are the last of their work."""
    found: list[Progress] = []
    until = time.monotonic() + seconds
    while sum(one.over for one in found) < overs:
        assert time.monotonic() < until, f"only {found}"
        found += runner.drain(0.05)
    return found


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def runner(memory: Memory) -> Iterator[Threads]:
    one = Threads(memory, threads=2, batch=2)
    yield one
    one.close(5)


def test_pages_go_out_and_come_back_in_batches(runner: Threads, memory: Memory, store: Store) -> None:
    a_runner: Runner = runner
    memory.pages[:5] = [bytes([65 + page]) * 4 for page in range(5)]
    put = work_of(PUT, store, range(5))
    a_runner.submit(put)
    assert [one[1:] for one in drained(runner, 1)] == [(2, False), (2, False), (1, True)]
    assert store.there["name 4"] == b"EEEE"
    query = work_of(QUERY, store, [3, 4, 5])
    runner.submit(query)
    assert drained(runner, 1) == [Progress(query, 2, True)]
    fetch = work_of(FETCH, store, [4, 0, 3])
    fetch.host_pages = np.array([10, 11, 12], np.int32)
    runner.submit(fetch)
    assert [one[1:] for one in drained(runner, 1)] == [(2, False), (1, True)]
    assert memory.pages[10:13] == [b"EEEE", b"AAAA", b"DDDD"]
    assert runner.counts() == {"begun": 3, "written": 5, "read": 3}
    assert runner.drain() == []
    with pytest.raises(ValueError, match="no job of storage"):
        runner.submit(work_of(LOAD, store))


class Peculiar(BaseException):
    """Not even an Exception."""


@pytest.mark.parametrize("error", [OSError, ValueError, MemoryError, KeyboardInterrupt, SystemExit, Peculiar])
@pytest.mark.parametrize("kind", [QUERY, FETCH, PUT])
def test_a_thread_outlives_whatever_a_store_raises(
    runner: Threads, store: Store, kind: str, error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    store.raises = error
    works = [work_of(kind, store) for _ in range(5)]
    for work in works:
        runner.submit(work)
    reports = drained(runner, 5)
    assert Counter(one.work.id for one in reports) == Counter(work.id for work in works)
    assert {(one.pages, one.over) for one in reports} == {(0, True)}
    store.raises = None
    runner.submit(work := work_of(PUT, store))
    assert drained(runner, 1)[-1] == Progress(work, 1, True), "both threads are alive"
    assert {type(one) for one in runner.faults} <= {error}


def test_an_error_of_the_mover_is_kept_and_ends_that_work_alone(
    runner: Threads, memory: Memory, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    memory.pages = memory.pages[:3]
    works = [work_of(PUT, store, [0, 1, 2, 3, 4]), work_of(PUT, store, [0])]
    for work in works:
        runner.submit(work)
    reports = drained(runner, 2)
    assert [one[1:] for one in reports if one.work is works[0]] == [(2, False), (0, True)]
    assert [one[1:] for one in reports if one.work is works[1]] == [(1, True)]
    assert [type(one) for one in runner.faults] == [IndexError]
    assert runner.counts()["faulty"] == 1
    assert "a put ended by an error" in caplog.text


def test_fetches_go_before_puts_and_puts_are_not_starved(memory: Memory, store: Store) -> None:
    runner = Threads(memory, threads=1)
    store.gate.clear()
    runner.submit(work_of(PUT, store, [0]))
    assert store.entered.acquire(timeout=LIMIT)
    for kind in (PUT, PUT, *[QUERY] * (PATIENCE + 2)):
        runner.submit(work_of(kind, store, [0]))
    assert runner.waiting == (PATIENCE + 2, 2)
    store.gate.set()
    drained(runner, PATIENCE + 5)
    expected = ["put", *["exists"] * PATIENCE, "put", "exists", "exists", "put"]
    assert store.order == expected
    runner.close()


def test_puts_that_hang_do_not_hold_up_a_fetch(memory: Memory, store: Store) -> None:
    slow = Store()
    slow.gate.clear()
    runner = Threads(memory, threads=3)
    for _ in range(10):
        runner.submit(work_of(PUT, slow))
    assert slow.entered.acquire(timeout=LIMIT)
    assert slow.entered.acquire(timeout=LIMIT)
    runner.submit(query := work_of(QUERY, store))
    assert drained(runner, 1) == [Progress(query, 0, True)]
    slow.gate.set()
    assert runner.close() == []
    assert len(slow.there) == 3


def test_a_full_queue_refuses_at_once(memory: Memory, store: Store) -> None:
    runner = Threads(memory, threads=1, limit=2)
    store.gate.clear()
    runner.submit(work_of(PUT, store))
    assert store.entered.acquire(timeout=LIMIT)
    works = [work_of(kind, store) for kind in (PUT, PUT, PUT, FETCH, QUERY, QUERY)]
    for work in works:
        runner.submit(work)  # a thread would have to put first, and the gate is shut
    assert runner.drain() == [Progress(works[2], 0, True), Progress(works[5], 0, True)]
    assert runner.counts()["refused"] == 2
    store.gate.set()
    drained(runner, 5)
    assert runner.close() == []


def test_a_cancelled_work_ends_after_its_batch(runner: Threads, store: Store) -> None:
    store.gate.clear()
    begun, waiting = work_of(PUT, store, range(10)), [work_of(PUT, store), work_of(FETCH, store), work_of(QUERY, store)]
    runner.submit(begun)
    assert store.entered.acquire(timeout=LIMIT)
    runner.submit(work_of(FETCH, store))  # so that both threads are busy
    assert store.entered.acquire(timeout=LIMIT)
    for work in waiting:
        runner.submit(work)
        work.cancelled = True
    begun.cancelled = True
    store.gate.set()
    reports = drained(runner, 5)
    assert [one[1:] for one in reports if one.work is begun] == [(2, False), (0, True)]
    assert [one[1:] for one in reports if one.work in waiting] == [(0, True)] * 3
    assert len(store.there) == 2


def test_a_close_writes_what_waits_and_gives_up_reads(memory: Memory, store: Store) -> None:
    runner = Threads(memory, threads=1)
    store.gate.clear()
    puts = [work_of(PUT, store, [at]) for at in range(8)]
    reads = [work_of(kind, store) for kind in (QUERY, FETCH)]
    for work in (*puts, *reads):
        runner.submit(work)
    threading.Timer(0.1, store.gate.set).start()
    assert runner.close() == []
    assert len(store.there) == 8
    reports = drained(runner, 10)
    assert Counter(one.work.id for one in reports) == Counter(work.id for work in (*puts, *reads))
    assert sum(one.pages for one in reports) == 8
    runner.submit(late := work_of(PUT, store))
    assert runner.drain() == [Progress(late, 0, True)]
    assert runner.close() == list(late.names), "what is submitted after the end is not written, and that is said"
    assert runner.close() == []


def test_a_close_says_what_could_not_be_written(memory: Memory, store: Store) -> None:
    refusing = Store()
    refusing.raises = OSError
    runner = Threads(memory, threads=1, batch=2)
    store.gate.clear()
    runner.submit(work_of(PUT, store, [0]))
    assert store.entered.acquire(timeout=LIMIT)
    runner.submit(work_of(PUT, refusing, [1, 2]))
    runner.submit(work_of(PUT, store, [3]))
    cancelled = work_of(PUT, store, [4])
    cancelled.cancelled = True
    runner.submit(cancelled)
    threading.Timer(0.1, store.gate.set).start()
    assert runner.close() == ["name 1", "name 2"]
    assert set(store.there) == {"name 0", "name 3"}


def test_a_store_that_never_answers_is_left_behind(memory: Memory, store: Store) -> None:
    runner = Threads(memory, threads=2, batch=2)
    store.gate.clear()
    stuck, waiting = work_of(PUT, store, [0, 1, 2]), work_of(PUT, store, [3])
    runner.submit(stuck)
    assert store.entered.acquire(timeout=LIMIT)
    runner.submit(waiting)
    assert sorted(runner.close(timeout=0.3)) == ["name 0", "name 1", "name 2", "name 3"]
    assert [one.work for one in runner.drain()] == [waiting], "a thread is still in the other one"
    store.gate.set()
    assert [one.work for one in drained(runner, 1)][-1] is stuck


def test_threads_end_when_their_cache_is_forgotten(memory: Memory, store: Store) -> None:
    runner = Threads(memory, threads=3)
    threads = runner._desk.threads
    store.gate.clear()
    runner.submit(work_of(PUT, store))
    assert store.entered.acquire(timeout=LIMIT)
    assert [thread.is_alive() for thread in threads] == [True] * 3
    del runner
    gc.collect()
    store.gate.set()
    for thread in threads:
        thread.join(LIMIT)
    assert [thread.is_alive() for thread in threads] == [False] * 3
    assert len(store.there) == 3, "and have written what they had"


AT_EXIT = """
import numpy as np, sys, threading, time
from kvlitmus.optimized.runner import Threads
from kvlitmus.optimized.storage.file import FileStore
from kvlitmus.optimized.work import PUT, Work
from tests.optimized.test_runner import Memory, work_of
class Slow(FileStore):
    def put(self, keys, values):
        time.sleep(0.02)
        return super().put(keys, values)
runner = Threads(Memory(), threads=2, batch=1)
store = Slow(sys.argv[1])
for _ in range(3):
    runner.submit(work_of(PUT, store, range(10)))
{end}
"""


@pytest.mark.parametrize(("end", "status"), [("", 0), ("sys.exit(3)", 3), ("raise ValueError", 1)])
def test_an_interpreter_that_ends_writes_first(tmp_path: Path, end: str, status: int) -> None:
    from kvlitmus.optimized.storage.file import FileStore

    paths = [str(ROOT), *(str(ROOT / room) for room in ("spec", "optimized"))]
    done = subprocess.run(
        [sys.executable, "-c", AT_EXIT.format(end=end), str(tmp_path / "pages")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stderr
    assert FileStore(tmp_path / "pages").exists([f"name {page}" for page in range(10)]) == 10


@pytest.mark.parametrize("wrong", [{"threads": 0}, {"batch": 0}, {"limit": 0}])
def test_numbers_below_one_are_refused(memory: Memory, wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Threads(memory, **wrong)


def test_batches_go_by_the_size_of_pages() -> None:
    for page_bytes, batch in ((0, 32), (4, 256), (1 << 20, 8), (1 << 30, 1)):
        mover = NullMover()
        mover.page_bytes = page_bytes
        runner = Threads(mover, threads=1)
        assert runner.batch == batch
        runner.close()


def test_a_storm_of_jobs_loses_no_report(memory: Memory) -> None:
    """Many jobs of all kinds, some cancelled, over stores that fail now and then: one last report for each."""
    runner = Threads(memory, threads=4, batch=2, limit=50)
    stores = [Store() for _ in range(3)]
    stores[1].raises = OSError
    submitted: list[Work] = []
    reports: list[Progress] = []
    for number in range(2_000):
        work = work_of((QUERY, FETCH, PUT)[number % 3], stores[number % 7 % 3], range(number % 5))
        runner.submit(work)
        submitted.append(work)
        if number % 11 == 0:
            submitted[-(1 + number % 5) % len(submitted)].cancelled = True
        reports += runner.drain()
    runner.close()
    reports += runner.drain()
    overs = Counter(one.work.id for one in reports if one.over)
    assert overs == Counter(work.id for work in submitted)
    last = {one.work.id: at for at, one in enumerate(reports) if one.over}
    assert all(at <= last[one.work.id] for at, one in enumerate(reports)), "nothing comes after the last report"
    assert runner.faults == ()
