"""Streams and threads that stand still, without SGLang: what waits, what goes on, what is dead."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from queue import Empty

import pytest

from kvlitmus.conformance.adapters.sglang.common import steps
from tests.support.processes import LIMIT


@pytest.fixture
def rig() -> Iterator[steps.Rig]:
    made = steps.Rig.current = steps.Rig()
    yield made
    made.close()
    steps.Rig.current = None


def test_a_copy_waits_for_its_stream_and_an_event_for_what_is_before_it() -> None:
    stream, first, second = steps.Stream(), steps.Event(), steps.Event()
    done: list[str] = []
    assert first.query(), "an event that was never recorded is done"
    with steps.on_stream(stream):
        steps.Stream.put(lambda: done.append("a"))
        first.record()
        steps.Stream.put(lambda: done.append("b"))
        second.record()
    steps.Stream.put(lambda: done.append("now"))
    assert (done, first.query(), second.query()) == (["now"], False, False)
    first.synchronize()
    assert (done, first.query(), second.query()) == (["now", "a"], True, False)
    second.synchronize()
    assert done == ["now", "a", "b"]


def test_an_event_recorded_on_no_stream_is_done() -> None:
    event = steps.Event()
    event.record()
    assert event.query()


class Server:
    """A thread function as SGLang writes them."""

    def __init__(self, work: Callable[[str], None]) -> None:
        self.stop = threading.Event()
        self.queue = steps.Queue()
        self.work = work
        self.thread = steps.Thread(target=self.serve)

    def serve(self) -> None:
        while not self.stop.is_set():
            try:
                item = self.queue.get(block=True, timeout=1)
            except Empty:
                continue
            self.work(item)


def test_a_thread_does_one_thing_at_a_time_and_only_when_it_is_told(rig: steps.Rig) -> None:
    done: list[str] = []
    server = Server(done.append)
    server.thread.start()
    server.queue.put("a")
    server.queue.put("b")
    assert not done
    assert rig.idle(server.queue) is server.thread
    server.thread.resume()
    assert (done, server.queue.qsize()) == (["a"], 1)
    server.thread.resume()
    server.thread.resume()
    assert done == ["a", "b"], "an empty queue looks empty"
    assert server.thread.is_alive()


def test_a_thread_can_stop_in_the_middle_and_is_found_by_what_it_has_in_hand(rig: steps.Rig) -> None:
    done: list[str] = []

    def work(item: str) -> None:
        done.append(f"{item} begun")
        thread = steps.here()
        assert thread is not None
        thread.stop()
        done.append(f"{item} over")

    server = Server(work)
    server.thread.start()
    server.queue.put("a")
    server.thread.resume()
    assert done == ["a begun"]
    assert rig.holder("a") is server.thread
    assert rig.idle(server.queue) is None
    server.thread.resume()
    assert done == ["a begun", "a over"]
    assert rig.holder("a") is None


def test_a_thread_that_raises_is_dead_and_keeps_in_hand_what_it_died_over(rig: steps.Rig) -> None:
    def work(item: str) -> None:
        raise OSError(item)

    server = Server(work)
    server.thread.start()
    server.queue.put("a")
    server.thread.resume()
    assert not server.thread.is_alive()
    assert isinstance(server.thread.error, OSError)
    assert server.thread.hands == "a"
    assert rig.idle(server.queue) is None
    assert rig.holder("a") is None
    server.thread.join(timeout=LIMIT)


def test_who_joins_a_thread_lets_it_end_and_idle_ones_notice_meanwhile(rig: steps.Rig) -> None:
    done: list[str] = []
    joined, idle = Server(done.append), Server(done.append)
    idle.stop = joined.stop
    joined.thread.start()
    idle.thread.start()
    joined.queue.put("a")
    joined.stop.set()
    joined.thread.join()
    assert done == ["a"]
    assert not joined.thread.is_alive()
    assert not idle.thread.is_alive()


def test_a_thread_that_makes_another_waits_until_that_one_stands_still(rig: steps.Rig) -> None:
    done: list[str] = []

    def work(item: str) -> None:
        inner = Server(done.append)
        inner.thread.start()
        inner.queue.put(item)
        done.append("made")

    outer = Server(work)
    outer.thread.start()
    outer.queue.put("a")
    outer.thread.resume()
    assert done == ["made"]
    assert len(rig.threads) == 2


def test_threads_end_with_their_owner() -> None:
    class Owner:
        pass

    owner = Owner()
    made = steps.Rig.current = steps.Rig()
    steps.close_with(owner, made)
    server = Server(lambda _item: None)
    server.thread.start()
    del owner
    gc.collect()
    steps.Rig.current = None
    assert not server.thread.is_alive()


def test_the_two_clocks() -> None:
    before = steps.Time.seconds
    assert steps.Time.counter() < steps.Time.counter()
    assert steps.Time.now() == before
