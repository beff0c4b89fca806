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
import ctypes
import importlib.util
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from kvlitmus.optimized.data import driver, lane, staged
from kvlitmus.optimized.data.kernels import PagedCopy, Signals
from kvlitmus.optimized.data.layout import Axis
from kvlitmus.optimized.data.pools import DevicePool, HostPool


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
        token = event.token
        self.push(lambda: token is None or token[0])

    def wait_stream(self, other: Stream) -> None:
        event = Event(self.world)
        event.record(other)
        self.wait_event(event)

    def synchronize(self) -> None:
        self.world.blocked += bool(self.queue)
        self.world.until(lambda: not self.queue)


class Event:
    """Where a stream was when it was recorded."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.token: list[bool] | None = None

    def record(self, stream: Stream) -> None:
        token = self.token = [False]
        stream.do(lambda: token.__setitem__(0, True))

    def query(self) -> bool:
        return self.token is None or self.token[0]

    def synchronize(self) -> None:
        self.world.blocked += not self.query()
        self.world.until(self.query)


class World:
    """All streams of the device; ``random`` chooses which goes on when somebody waits.

    ``patch``: for what a test replaces besides, so that it is undone in the right order: before what ``install`` has
    replaced, not after.
    """

    patch: pytest.MonkeyPatch

    def __init__(self, seed: int = 0) -> None:
        self.random = random.Random(seed)
        self.streams: list[Stream] = []
        self.blocked = 0
        """How often the host had to wait for the device."""
        self.current = Stream(self)

    def step(self, which: int) -> bool:
        """Let one stream go on by one operation, if it has one that isn't blocked."""
        stream = self.streams[which % len(self.streams)]
        if not stream.queue or not stream.queue[0]():
            return False
        stream.queue.popleft()
        return True

    def until(self, reached: Callable[[], bool]) -> None:
        while not reached():
            order = list(range(len(self.streams)))
            self.random.shuffle(order)
            if not any(self.step(which) for which in order):
                raise Deadlock("no stream can go on")

    def finish(self) -> None:
        """Everything submitted happens."""
        self.until(lambda: not any(stream.queue for stream in self.streams))

    def of(self, raw: int) -> Stream:
        return self.streams[raw - 1]


def _launch(world: World) -> Callable[..., None]:
    """In the place of a kernel: layer by layer, by the loops that the kernel was made for."""

    def call(
        self: PagedCopy,
        source: int,
        target: int,
        tables: tuple[int, int],
        count: int,
        *,
        stream: int = 0,
        lo: int = 0,
        hi: int | None = None,
        signals: Signals | None = None,
    ) -> None:
        assert self.signal == (signals is not None)
        layer = self.loops.layer or Axis(1, 0, 0)

        def one(number: int) -> None:
            pages = [np.ctypeslib.as_array((ctypes.c_int32 * count).from_address(table)) for table in tables]
            for some, other in zip(*(each.tolist() for each in pages), strict=True):
                start = source + self.loops.source + some * self.loops.page.source + number * layer.source
                to = target + self.loops.target + other * self.loops.page.target + number * layer.target
                _walk(self.loops.axes, start, to, self.loops.chunk)
            if signals is not None:
                ctypes.c_int32.from_address(signals.flags + 4 * number).value = signals.epoch

        for number in range(lo, layer.extent if hi is None else hi):
            world.of(stream).do(lambda number=number: one(number))  # type: ignore[misc]

    return call


def _walk(axes: tuple[Axis, ...], start: int, to: int, chunk: int) -> None:
    if not axes:
        ctypes.memmove(to, start, chunk)
        return
    for index in range(axes[0].extent):
        _walk(axes[1:], start + index * axes[0].source, to + index * axes[0].target, chunk)


class OnDevice(DevicePool):
    """A device pool whose memory is here."""

    @property
    def device(self) -> torch.device:
        return torch.device("cuda:0")


def locked(pool: HostPool) -> HostPool:
    """A host pool that passes for pinned."""
    pool.pinned = True
    return pool


@contextlib.contextmanager
def install(seed: int = 0, *, entries: int = 32, slots: int = 4, piece: int = 512) -> Iterator[World]:
    """The data plane submits to a world of these streams; its rings are so small that they wrap."""
    left = [
        each for each in (driver.copy_async, driver.copy_batch, driver.wait_value) if each.__module__ != driver.__name__
    ]
    assert not left, f"an earlier test has left a stand-in behind: {left}"
    world = World(seed)

    def copy_async(target: int, source: int, size: int, stream: int) -> None:
        def move() -> None:
            ctypes.memmove(target, source, size)

        world.of(stream).do(move)

    def copy_batch(targets: Any, sources: Any, sizes: Any, stream: int) -> None:
        for each in zip(targets.tolist(), sources.tolist(), sizes.tolist(), strict=True):
            copy_async(*each, stream)

    def wait_value(stream: int, address: int, value: int) -> None:
        world.of(stream).push(lambda: ctypes.c_int32.from_address(address).value >= value)

    nothing = contextlib.nullcontext()
    with pytest.MonkeyPatch.context() as patch:
        world.patch = patch
        patch.setattr(torch.cuda, "Stream", lambda device=None, priority=0: Stream(world))
        patch.setattr(torch.cuda, "Event", lambda: Event(world))
        patch.setattr(torch.cuda, "current_stream", lambda device=None: world.current)
        patch.setattr(torch.cuda, "current_device", lambda: 0)
        patch.setattr(torch.cuda, "device", lambda device: nothing)
        patch.setattr(torch.cuda, "stream", lambda stream: nothing)
        for name, function in (("copy_async", copy_async), ("copy_batch", copy_batch), ("wait_value", wait_value)):
            patch.setattr(driver, name, function)
        patch.setattr(lane, "_ENTRIES", entries)
        patch.setattr(lane, "_SLOTS", slots)
        patch.setattr(lane, "_KEPT", min(slots - 1, lane._KEPT))
        patch.setattr(lane, "_pinned", lambda count: torch.zeros(count, dtype=torch.int32))
        patch.setattr(lane, "_on_device", lambda count, device: torch.zeros(count, dtype=torch.int32))
        patch.setattr(staged, "_stage", lambda shape, pages, device, layout: OnDevice(shape, pages, layout=layout))
        patch.setattr(staged, "_numbers", lambda count, device: torch.arange(count, dtype=torch.int32))
        patch.setattr(staged, "PIECE", piece)
        launch = _launch(world)

        def bind(self: PagedCopy, source: int, target: int) -> Callable[..., None]:
            def start(sources: int, targets: int, count: int, stream: int, *said: int) -> None:
                signals = Signals(*said) if said[0] else None
                launch(self, source, target, (sources, targets), count, stream=stream, signals=signals)

            return start

        patch.setattr(PagedCopy, "__call__", launch)
        patch.setattr(PagedCopy, "bind", bind)
        patch.setattr(PagedCopy, "prepare", lambda self: None)
        patch.setattr(importlib.util, "find_spec", lambda name: object())
        yield world
