"""A CUDA driver that is not there: as strict as the real one, and it fails when a test says so.

A call from a thread without a current context is refused (error 201); a call of the runtime, as torch makes them, gives
the thread one.  Each call can be made to fail, to take its time, or to poison the context: then it and every later one
fails, as after an illegal access.  What succeeds is submitted to the streams of :mod:`tests.optimized.support.streams`.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from kvlitmus.optimized.data.kernels import Launch
from kvlitmus.optimized.data.layout import Axis, Nest

if TYPE_CHECKING:
    from tests.optimized.support.streams import World

INVALID_CONTEXT, ILLEGAL_ADDRESS, INVALID_HANDLE = 201, 700, 400
CONTEXT = 0xC0DE
"""The one context of the one device."""
_KINDS = (*[ctypes.c_int64] * 4, *[ctypes.c_int32] * 2, *[ctypes.c_int64] * 2, ctypes.c_int32)
"""The parameters of the kernel; see ``jit.py``."""


class Function:
    """A function of the library; the driver's own types are those that the caller has declared."""

    def __init__(self, cuda: Cuda, name: str) -> None:
        self.cuda = cuda
        self.name = name
        self.argtypes: tuple[Any, ...] = ()
        self.restype: Any = None

    def __call__(self, *given: Any) -> int:
        assert len(given) == len(self.argtypes), f"{self.name} takes {len(self.argtypes)} arguments"
        assert self.restype is ctypes.c_int
        if code := self.cuda.enter(self.name):
            return code
        getattr(self.cuda, f"_{self.name}")(*given)
        return 0


class Cuda:
    """``libcuda`` with the functions that the data plane calls.

    before: is told the name of every call, of the runtime's too (``event.record``, ``stream.synchronize``), and
    answers with the error that it is to have, 0 for none.  absent: functions that this driver hasn't got.  calls: their
    names.  poisoned: the error of a context that
    is lost, 0 as long as it isn't.
    """

    FREE = ("cuInit", "cuDeviceGet", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent")
    """What needs no context."""
    NAMES = (
        *FREE,
        "cuMemcpyAsync",
        "cuMemcpyBatchAsync_v2",
        "cuStreamWaitValue32_v2",
        "cuStreamWriteValue32_v2",
        "cuModuleLoadData",
        "cuModuleGetFunction",
        "cuLaunchKernel",
    )

    def __init__(self, world: World) -> None:
        self.world = world
        self.before: Callable[[str], int] = lambda name: 0
        self.calls: list[str] = []
        self.absent: tuple[str, ...] = ()
        self.poisoned = 0
        self._threads = threading.local()
        self._kernels: dict[int, tuple[Nest, Launch, bool]] = {}
        self._handles = itertools.count(1)
        self._coming: dict[int, int] = {}
        """What was submitted to be written to an address."""

    def __getattr__(self, name: str) -> Function:
        if name not in self.NAMES or name in self.absent:
            raise AttributeError(name)
        made = Function(self, name)
        setattr(self, name, made)
        return made

    def enter(self, name: str) -> int:
        """A call of the driver begins; the error that it has."""
        self.calls.append(name)
        code = self.poisoned or self.before(name) or self._lost()
        if code:
            return code
        bound = getattr(self._threads, "context", 0)
        return 0 if bound == CONTEXT or name in self.FREE else INVALID_CONTEXT

    def _lost(self) -> int:
        """The context may be poisoned since this very call."""
        return self.poisoned

    def runtime(self, name: str) -> None:
        """A call of the runtime: it binds the thread, and raises as torch does."""
        self._threads.context = CONTEXT
        if code := self.enter(name):
            raise RuntimeError(f"CUDA error {code} in {name}")

    def compile_for(self, loops: Nest, launch: Launch, *, signal: bool = False, target: Any = None) -> Any:
        """In the place of the compiler: what the kernel was made for is found again when it is started."""
        number = next(self._handles)
        self._kernels[number] = (loops, launch, signal)
        facts = SimpleNamespace(name="copy", num_warps=launch.warps, shared=4, global_scratch_size=0)
        return SimpleNamespace(asm={"cubin": str(number).encode()}, metadata=facts)

    def _cuInit(self, flags: int) -> None:  # noqa: N802
        assert flags == 0

    def _cuDeviceGet(self, found: int, number: int) -> None:  # noqa: N802
        ctypes.c_int.from_address(found).value = number

    def _cuDevicePrimaryCtxRetain(self, found: int, device: int) -> None:  # noqa: N802
        assert device == 0
        ctypes.c_uint64.from_address(found).value = CONTEXT

    def _cuCtxSetCurrent(self, context: int) -> None:  # noqa: N802
        self._threads.context = context

    def _cuMemcpyAsync(self, target: int, source: int, size: int, stream: int) -> None:  # noqa: N802
        def move() -> None:
            ctypes.memmove(target, source, size)

        self.world.of(stream).do(move)

    def _cuMemcpyBatchAsync_v2(self, *given: int) -> None:  # noqa: N802
        *pointers, count, _, _, kinds, stream = given
        assert kinds == 1
        arrays = [(ctypes.c_uint64 * count).from_address(pointer)[:] for pointer in pointers]
        for target, source, size in zip(*arrays, strict=True):
            self._cuMemcpyAsync(target, source, size, stream)

    def _cuStreamWaitValue32_v2(self, stream: int, address: int, value: int, flags: int) -> None:  # noqa: N802
        assert flags == 0

        def reached() -> bool:
            return _reached(ctypes.c_uint32.from_address(address).value, value)

        # On a device such a wait can hang: an allocation of the caller waits for its stream, and locks out the thread.
        assert reached() or _reached(self._coming.get(address, value - 1), value), "nobody has submitted what it is for"
        self.world.of(stream).push(reached)

    def _cuStreamWriteValue32_v2(self, stream: int, address: int, value: int, flags: int) -> None:  # noqa: N802
        assert flags == 0

        def write() -> None:
            ctypes.c_uint32.from_address(address).value = value

        self._coming[address] = value
        self.world.of(stream).do(write)

    def _cuModuleLoadData(self, found: int, cubin: bytes) -> None:  # noqa: N802
        ctypes.c_uint64.from_address(found).value = int(cubin)

    def _cuModuleGetFunction(self, found: int, module: int, name: bytes) -> None:  # noqa: N802
        assert name == b"copy"
        ctypes.c_uint64.from_address(found).value = module

    def _cuLaunchKernel(self, function: int, *given: Any) -> None:  # noqa: N802
        *sizes, shared, stream, parameters, _ = given
        loops, launch, signal = self._kernels[function]
        assert sizes == [launch.programs, 1, 1, 32 * launch.warps, 1, 1] and shared == 4
        places = (ctypes.c_void_p * len(_KINDS)).from_address(parameters)
        values = [kind.from_address(place).value for kind, place in zip(_KINDS, places, strict=True)]
        assert signal == bool(values[7])
        if signal:
            self._coming.update(dict.fromkeys((values[7] + 4 * layer for layer in range(values[5])), values[8]))
        run(self.world, loops, values, stream)


def _reached(now: int, value: int) -> bool:
    return (now - value) & 0xFFFF_FFFF < 1 << 31


def run(world: World, loops: Nest, values: list[int], stream: int) -> None:
    """What the kernel does, layer by layer, by the loops that it was made for."""
    source, target, sources, targets, count, layers, _, flags, epoch = values
    layer = loops.layer or Axis(1, 0, 0)

    def one(number: int) -> None:
        pages = [np.ctypeslib.as_array((ctypes.c_int32 * count).from_address(table)) for table in (sources, targets)]
        for some, other in zip(*(each.tolist() for each in pages), strict=True):
            start = source + some * loops.page.source + number * layer.source
            to = target + other * loops.page.target + number * layer.target
            _walk(loops.axes, start, to, loops.chunk)
        if flags:
            ctypes.c_int32.from_address(flags + 4 * number).value = epoch

    for number in range(layers):
        world.of(stream).do(lambda number=number: one(number))  # type: ignore[misc]


def _walk(axes: tuple[Axis, ...], start: int, to: int, chunk: int) -> None:
    if not axes:
        ctypes.memmove(to, start, chunk)
        return
    for index in range(axes[0].extent):
        _walk(axes[1:], start + index * axes[0].source, to + index * axes[0].target, chunk)
