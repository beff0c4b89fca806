"""A machine that takes itself for a CUDA device: what the stages of benchmarks/gpu.py do there, done here.

Streams do at once what they are given, so that lanes, tickets, events and batches of copies run as on a device; what a
kernel would do is done by loops, on host memory.  Times mean nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from benchmarks.gpu import baselines, choice, copies, device, kernels, movers
from benchmarks.gpu.stage import Bench, Record, Skip
from kvlitmus.optimized.data.pools import HostPool
from tests.optimized.support import streams


class AtOnce(streams.Stream):
    """A stream that has done what it is given before anybody else can look."""

    def push(self, operation: Callable[[], bool]) -> None:
        while True:
            posted = self.world.posted
            if operation():
                return
            if not posted:
                raise streams.Deadlock("this can't happen any more, for nothing is submitted later that it waits for")
            time.sleep(0.0001)  # a lane's thread has still to submit what it waits for


class Timed(streams.Event):
    """An event with a time."""

    def __init__(self, world: streams.World) -> None:
        super().__init__(world)
        self.at = 0.0

    def record(self, stream: Any = None) -> None:
        super().record(stream or self.world.current)
        self.at = time.perf_counter()

    def elapsed_time(self, other: Timed) -> float:
        return max(1e-3, (other.at - self.at) * 1e3)


class Library:
    """The two calls of the CUDA runtime that the other ways need."""

    def cudaMemcpyBatchAsync(self, *given: Any) -> int:  # noqa: N802
        targets, sources, sizes, count, *_ = given
        arrays = [(ctypes.c_uint64 * count.value).from_address(each.value) for each in (targets, sources, sizes)]
        for target, source, size in zip(*arrays, strict=True):
            ctypes.memmove(target, source, size)
        return 0

    def cudaMemcpy2DAsync(self, *given: Any) -> int:  # noqa: N802
        target, target_pitch, source, source_pitch, width, height, kind, _ = given
        assert kind.value == 4
        for row in range(height.value):
            to, start = target.value + row * target_pitch.value, source.value + row * source_pitch.value
            ctypes.memmove(to, start, width.value)
        return 0


def _not_here(*given: Any, **more: Any) -> Any:
    raise Skip("kernels of other people's shape are compiled for a device, and run on none here")


@contextlib.contextmanager
def pretend() -> Iterator[tuple[Bench, streams.World]]:
    """A bench on such a machine, and the world of its streams."""
    with streams.install(entries=1 << 18, slots=256) as world:
        patch = world.patch
        world.default = AtOnce(world)
        made = SimpleNamespace(name="NVIDIA H200", major=9, minor=0, multi_processor_count=132, total_memory=1 << 37)
        for name, fake in {
            "Stream": lambda device=None, priority=0: AtOnce(world),
            "Event": lambda enable_timing=False: Timed(world),
            "synchronize": lambda device=None: world.cuda.runtime("synchronize"),
            "empty_cache": lambda: None,
            "_sleep": lambda cycles: None,
            "get_device_properties": lambda number: made,
        }.items():
            patch.setattr(torch.cuda, name, fake)
        for module in (movers, copies, choice):
            patch.setattr(
                module, "DevicePool", lambda of, pages, device="cpu", **more: streams.OnDevice(of, pages, **more)
            )
        for module in (movers, choice):
            patch.setattr(module, "HostPool", lambda *given, **more: streams.locked(HostPool(*given, **more)))
        for module in (baselines, choice):
            patch.setattr(module, "runtime", Library)
        patch.setattr(kernels, "started", _not_here)
        machine = device.Machine("cpu", 5)
        machine.cuda = True
        patch.setattr(machine, "host_bytes", machine.device_bytes)
        bench = Bench("cuda", True, Record(None, {"dry": False}), Path())
        bench.kept.update(machine=machine, chunk_sizes=[512, 4096])
        yield bench, world
