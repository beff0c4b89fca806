"""Holding the background of SGLang's hierarchical cache still, so that it goes on step by step.

SGLang moves KV in the background in two ways, and each has a stand-in here that keeps its order
and takes away its timing:

**Streams.**  Copies between device and host are put on a CUDA stream, and an event that is
recorded behind them says when they are over.  :class:`Stream` is a list of what was put on it;
nothing of it happens before somebody runs it up to an event.  What is put on no stream at all
happens at once, as on a device that is done with computing.

**Threads.**  Storage is read and written by threads that take operations from queues.  They are
real threads and run SGLang's own thread functions from beginning to end; but one that asks a
queue for the next operation, or the store for the next page, stops there until it is told to go
on (:meth:`Thread.resume`), and whoever told it waits until it stops again.  So exactly one thread
runs at any time, and a run is the same every time.  The time that a queue waits for an item
(SGLang: one second) plays no part: an empty queue looks empty at once to a thread that is being
joined, and to one that is idle at that time.

A thread whose function raises is dead, as it would be in a server; it stays dead.

Which threads belong together is a :class:`Rig`; each adapter has one.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from queue import Empty
from types import SimpleNamespace

from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign


class Gone(BaseException):
    """The cache that a thread belongs to is no longer needed; no ``except Exception`` catches this."""


class Time:
    """What ``time`` is inside SGLang's modules: two clocks, neither of which goes by itself.

    ``counter`` grows with every look and orders accesses, so that two are never equally old.
    ``seconds`` is what timeouts are measured in; the adapter sets it.
    """

    seconds = 0.0
    ticks = 0

    @classmethod
    def counter(cls) -> float:
        """The next tick."""
        cls.ticks += 1
        return cls.ticks

    @classmethod
    def now(cls) -> float:
        """This late."""
        return cls.seconds


class Event:
    """A CUDA event: done unless it was recorded on a stream that hasn't come that far.

    ``waited``: who is told that somebody waits for an event that isn't done.
    """

    waited: Callable[[Event], None] | None = None

    def __init__(self, *_args: object, **_kwargs: object) -> None:
        self.stream: Stream | None = None

    def record(self, stream: Stream | None = None) -> None:
        """Stand behind everything that is on the stream now."""
        place = stream or Stream.current
        self.stream = place
        if place is not None:
            place.work.append(self)

    def query(self) -> bool:
        """Whether everything before it is over."""
        return self.stream is None

    def synchronize(self) -> None:
        """Wait until everything before it is over: the stream runs."""
        if self.stream is not None:
            if Event.waited is not None:
                Event.waited(self)
            self.stream.run(self)

    def wait(self, stream: Stream | None = None) -> None:
        """Let a stream wait for this event; SGLang only waits for what the device has computed already."""
        if not self.query():
            raise NotImplementedError("a stream waits for another stream")


class Stream:
    """A CUDA stream: what was put on it, in order, and not done yet."""

    current: Stream | None = None

    def __init__(self, *_args: object, **_kwargs: object) -> None:
        self.work: deque[Event | Callable[[], None]] = deque()

    def run(self, until: Event) -> None:
        """Do everything up to this event."""
        while until.stream is self:
            self.step()

    def synchronize(self) -> None:
        """Wait until all of it is over."""
        while self.work:
            self.step()

    def wait_stream(self, other: Stream | None) -> None:
        """Wait for what is on another stream; SGLang only waits for what the device has computed already."""
        if other is not None and other.work:
            raise NotImplementedError("a stream waits for another stream")

    def step(self) -> None:
        """Do what is next."""
        item = self.work.popleft()
        if isinstance(item, Event):
            item.stream = None
        else:
            item()

    @classmethod
    def put(cls, copy: Callable[[], None]) -> None:
        """Put a copy on the current stream; without one it happens now."""
        if cls.current is None:
            copy()
        else:
            cls.current.work.append(copy)


@contextlib.contextmanager
def on_stream(stream: Stream) -> Iterator[None]:
    """``torch.cuda.stream``."""
    before, Stream.current = Stream.current, stream
    try:
        yield
    finally:
        Stream.current = before


DEVICE = SimpleNamespace(Event=Event, Stream=Stream, stream=on_stream, current_stream=lambda: Stream.current)
"""What SGLang's ``get_device_module()`` gives: streams and events."""


class Rig:
    """The threads of one cache."""

    current: Rig | None = None
    """Whose threads are being made; a thread that makes another one passes its own on."""

    def __init__(self) -> None:
        self.threads: list[Thread] = []

    def idle(self, queue: Foreign) -> Thread | None:
        """A living thread that waits for this queue."""
        return next((thread for thread in self.threads if thread.alive and thread.queue is queue), None)

    def holder(self, item: Foreign) -> Thread | None:
        """The living thread that has this in hand."""
        return next((thread for thread in self.threads if thread.alive and thread.hands is item), None)

    def look_up(self) -> None:
        """Threads that wait for an empty queue look whether they shall stop, as they do every second."""
        for thread in list(self.threads):
            if thread.alive and thread.queue is not None and not thread.queue.queue:
                thread.resume()

    def close(self) -> None:
        """End all threads, wherever they are."""
        for thread in self.threads:
            if thread.alive:
                thread.gone = True
                thread.resume()
        self.threads.clear()


class Thread:
    """``threading.Thread`` for SGLang: it stops at its queues and storage calls until it is resumed.

    ``hands``: the operation that it took from a queue and has not finished, also when it died over
    it.  ``queue``: the queue that it waits for, if it does.  ``pages``: how many pages it may read
    or write before it stops (``None``: any number).
    """

    def __init__(self, target: Callable[[], None], daemon: bool = True) -> None:
        maker = threading.current_thread()
        rig = maker.rig if isinstance(maker, _Carrier) else Rig.current
        assert rig is not None, "a thread is made outside of an adapter"
        self.rig: Rig = rig
        self.target = target
        self.alive = False
        self.gone = False
        self.joined = False
        self.error: BaseException | None = None
        self.hands: Foreign = None
        self.queue: Foreign = None
        self._go = threading.Lock()
        self._stopped = threading.Lock()
        self._go.acquire()
        self._stopped.acquire()

    def start(self) -> None:
        """Run up to the first stop."""
        self.alive = True
        self.rig.threads.append(self)
        _Carrier(self).start()
        self._stopped.acquire()

    def is_alive(self) -> bool:
        """Whether the function is still running."""
        return self.alive

    def join(self, timeout: float | None = None) -> None:
        """Let it run to its end; idle threads of the same cache notice meanwhile that they shall stop."""
        self.joined = True
        self.rig.look_up()
        while self.alive:
            self.resume()

    def resume(self) -> None:
        """Let it go on to its next stop."""
        self._go.release()
        self._stopped.acquire()

    def stop(self) -> None:
        """Called by the thread itself: wait until it is resumed."""
        self._stopped.release()
        self._go.acquire()
        if self.gone:
            raise Gone

    def run(self) -> None:
        """The thread's own work."""
        try:
            self.target()
            self.hands = None
        except Gone:
            self.hands = None
        except BaseException as error:  # noqa: BLE001 - whatever it is, the thread is dead
            self.error = error
        self.alive = False
        self.queue = None
        self._stopped.release()


class _Carrier(threading.Thread):
    """What a :class:`Thread` runs on."""

    def __init__(self, thread: Thread) -> None:
        super().__init__(daemon=True)
        self.stepped = thread
        self.rig: Rig = thread.rig

    def run(self) -> None:
        self.stepped.run()


def here() -> Thread | None:
    """The stepped thread that is running this."""
    carrier = threading.current_thread()
    return carrier.stepped if isinstance(carrier, _Carrier) else None


class Queue:
    """``queue.Queue`` for SGLang: a stepped thread stops before it takes something."""

    def __init__(self, maxsize: int = 0) -> None:
        self.queue: deque[Foreign] = deque()

    def put(self, item: Foreign, block: bool = True, timeout: float | None = None) -> None:
        """Append."""
        self.queue.append(item)

    put_nowait = put

    def get(self, block: bool = True, timeout: float | None = None) -> Foreign:
        """The first item; ``Empty`` when there is none, after a stop."""
        thread = here()
        if thread is not None and block:
            thread.hands = None
            thread.queue = self
            thread.stop()
            thread.queue = None
        if not self.queue:
            raise Empty
        item = self.queue.popleft()
        if thread is not None:
            thread.hands = item
        return item

    def get_nowait(self) -> Foreign:
        """The first item, or ``Empty``, at once."""
        return self.get(block=False)

    def empty(self) -> bool:
        """Whether nothing is in it."""
        return not self.queue

    def full(self) -> bool:
        """Never."""
        return False

    def qsize(self) -> int:
        """How many items there are."""
        return len(self.queue)


THREADING = SimpleNamespace(Thread=Thread, Event=threading.Event, Lock=threading.Lock, RLock=threading.RLock)
"""What ``threading`` is inside SGLang's controllers."""


def close_with(owner: object, rig: Rig) -> None:
    """End the rig's threads when their owner is no longer needed."""
    weakref.finalize(owner, rig.close)
