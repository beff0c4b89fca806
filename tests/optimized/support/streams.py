"""Streams, events and the driver's calls without a GPU: as asynchronous as a test wants them to be.

Every stream is a queue of operations that happens when the test says so, one at a time, in any interleaving of the
streams; an operation can be blocked by an event or by a value in memory.  What is still in a queue has *not* happened:
page tables are read, and pages copied, when the operation runs, not when it was submitted.  So whatever depends on an
order that nobody has asked for goes wrong here, in some interleaving.

``install`` puts all that in the place of the real thing in the data plane.  Device memory is host memory.
"""

from __future__ import annotations

import collections
import contextlib
import importlib.util
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from kvlitmus.optimized.data import driver, flags, kernels, lane, measured, staged
from kvlitmus.optimized.data.pools import DevicePool, HostPool, KVPool
from kvlitmus.optimized.data.threads import Worker
from tests.optimized.support.libcuda import Cuda


class Deadlock(AssertionError):
    """Somebody waits for what can't happen any more."""


Operation = Callable[[], bool]
"""Returns whether it has happened; if it hasn't, it is tried again later."""


class Stream:
    """A queue of operations."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.queue: collections.deque[Operation] = collections.deque()
        world.streams.append(self)
        self.cuda_stream = len(world.streams)

    def push(self, operation: Operation) -> None:
        self.queue.append(operation)

    def do(self, action: Callable[[], None]) -> None:
        """Push what can't be blocked."""

        def operation() -> bool:
            action()
            return True

        self.push(operation)

    def wait_event(self, event: Event) -> None:
        self.world.cuda.runtime("stream.wait_event")
        token = event.token
        self.push(lambda: token is None or token[0])

    def wait_stream(self, other: Stream) -> None:
        event = Event(self.world)
        event.record(other)
        self.wait_event(event)

    def synchronize(self) -> None:
        self.world.cuda.runtime("stream.synchronize")
        self.world.blocked += bool(self.queue)
        self.world.until(lambda: not self.queue)


class Event:
    """Where a stream was when it was recorded."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.token: list[bool] | None = None

    def record(self, stream: Stream) -> None:
        self.world.cuda.runtime("event.record")
        token = self.token = [False]
        stream.do(lambda: token.__setitem__(0, True))

    def query(self) -> bool:
        self.world.cuda.runtime("event.query")
        return self._reached()

    def synchronize(self) -> None:
        self.world.cuda.runtime("event.synchronize")
        self.world.blocked += not self._reached()
        self.world.until(self._reached)

    def _reached(self) -> bool:
        return self.token is None or self.token[0]


class World:
    """All streams of the device; ``random`` chooses which goes on when somebody waits.

    ``patch``: for what a test replaces besides, so that it is undone in the right order: before what ``install`` has
    replaced, not after.
    """

    patch: pytest.MonkeyPatch

    def __init__(self, seed: int = 0) -> None:
        self.random = random.Random(seed)
        self.streams: list[Stream] = []
        self.posted = 0
        """Jobs that the lanes' threads have still to do."""
        self.blocked = 0
        """How often the host had to wait for the device."""
        self.cuda = Cuda(self)
        self.default = Stream(self)
        self._threads = threading.local()

    @property
    def current(self) -> Stream:
        """The stream that is current on the calling thread."""
        found: Stream = getattr(self._threads, "stream", None) or self.default
        return found

    @contextlib.contextmanager
    def stream(self, stream: Stream | None) -> Iterator[None]:
        """In the place of ``torch.cuda.stream``."""
        before = getattr(self._threads, "stream", None)
        self._threads.stream = stream or before
        try:
            yield
        finally:
            self._threads.stream = before

    def step(self, which: int) -> bool:
        """Let one stream go on by one operation, if it has one that isn't blocked."""
        stream = self.streams[which % len(self.streams)]
        if not stream.queue or not stream.queue[0]():
            return False
        stream.queue.popleft()
        return True

    def until(self, reached: Callable[[], bool]) -> None:
        while not reached():
            posted = self.posted
            order = list(range(len(self.streams)))
            self.random.shuffle(order)
            if not any(self.step(which) for which in order):
                if not posted:
                    raise Deadlock("no stream can go on")
                time.sleep(0.0001)  # a thread has still to submit what it was given

    def finish(self) -> None:
        """Everything submitted happens."""
        self.until(lambda: not any(stream.queue for stream in self.streams))

    def of(self, raw: int) -> Stream:
        return self.streams[raw - 1]


class OnDevice(DevicePool):
    """A device pool whose memory is here."""

    @property
    def device(self) -> torch.device:
        return torch.device("cuda:0")


def locked(pool: HostPool) -> HostPool:
    """A host pool that passes for pinned."""
    pool.pinned = True
    return pool


def here(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """``Tensor.to`` for which the device is here."""

    def to(self: torch.Tensor, *given: Any, **more: Any) -> torch.Tensor:
        there = [torch.device("cpu") if isinstance(one, torch.device) else one for one in given]
        return original(self, *there, **more)

    return to


def _scratch(pool: KVPool, pages: int) -> KVPool:
    if isinstance(pool, HostPool):
        return locked(HostPool(pool.shape, pages, layout=pool.layout, pinned=False))
    return OnDevice(pool.shape, pages, layout=pool.layout)


LIBRARY = driver._library


def forget() -> None:
    """What was looked up in a library is forgotten with it."""
    for each in (driver._function, driver._memcpy, driver._launch, driver.context_of):
        each.cache_clear()


@contextlib.contextmanager
def install(seed: int = 0, *, entries: int = 32, slots: int = 4, piece: int = 512, small: int = 0) -> Iterator[World]:
    """The data plane submits to a world of these streams; its rings are so small that they wrap."""
    assert driver._library is LIBRARY, "an earlier test has left a stand-in behind"
    world = World(seed)
    nothing = contextlib.nullcontext()
    with pytest.MonkeyPatch.context() as patch:
        world.patch = patch
        patch.setattr(torch.Tensor, "to", here(torch.Tensor.to))
        patch.setattr(torch.cuda, "Stream", lambda device=None, priority=0: Stream(world))
        patch.setattr(torch.cuda, "Event", lambda: Event(world))
        patch.setattr(torch.cuda, "current_stream", lambda device=None: world.current)
        patch.setattr(torch.cuda, "current_device", lambda: 0)
        patch.setattr(torch.cuda, "device", lambda device: nothing)
        patch.setattr(torch.cuda, "stream", world.stream)
        patch.setattr(driver, "_library", lambda: world.cuda)
        patch.setattr(kernels, "compile_for", world.cuda.compile_for)
        patch.setattr(kernels, "target_of", lambda device: None)
        patch.setattr(lane, "_ENTRIES", entries)
        patch.setattr(lane, "_SLOTS", slots)
        patch.setattr(lane, "_KEPT", min(slots - 1, lane._KEPT))
        patch.setattr(lane, "_SMALL", small)
        for module in (lane, flags):
            patch.setattr(module, "pinned", lambda count: torch.zeros(count, dtype=torch.int32))
            patch.setattr(module, "on_device", lambda count, device: torch.zeros(count, dtype=torch.int32))
        patch.setattr(staged, "_stage", lambda shape, pages, device, layout: OnDevice(shape, pages, layout=layout))
        patch.setattr(measured, "scratch", _scratch)
        patch.setattr(staged, "_numbers", lambda count, device: torch.arange(count, dtype=torch.int32))
        patch.setattr(staged, "PIECE", piece)
        post = Worker.post

        def counted(self: Worker, job: Callable[[], None]) -> None:
            def counting() -> None:
                try:
                    job()
                finally:
                    world.posted -= 1

            world.posted += 1
            post(self, counting)

        patch.setattr(Worker, "post", counted)
        patch.setattr(importlib.util, "find_spec", lambda name: object())
        forget()
        try:
            yield world
        finally:
            lane._LEFT.clear()
            forget()
