"""Paged copies as Triton kernels: prepared once per pair of layouts, launched with page tables.

>>> copy = PagedCopy(nest(shape, host.strides, device.strides), launch=LINK)        # doctest: +SKIP
>>> copy(host.address, device.address, tables, count, stream=torch.cuda.current_stream().cuda_stream)  # doctest: +SKIP

Everything a kernel gets is a number: addresses of pools (pinned host memory by its host address), of two page tables
in device memory, and a count.  So a launch costs the driver's call and little more, and needs no C compiler
(:mod:`kvlitmus.optimized.data.loaded`).

With ``TRITON_INTERPRET=1`` in the environment before Triton is first imported, the same kernels run on the CPU, on
ordinary host memory; ``compile_for`` compiles them for a GPU that need not be there.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kvlitmus.optimized.data.driver import context_of
from kvlitmus.optimized.data.layout import Axis, Nest
from kvlitmus.optimized.data.loaded import LoadedKernel

_LARGEST = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Launch:
    """How a kernel is started.

    programs: of the grid; each occupies one SM.  warps: per program.  tile: accesses (of ``Nest.unit`` bytes) that a
    program has in flight, a power of two, at least 32 * warps.
    """

    programs: int = 4
    warps: int = 32
    tile: int = 4096

    @property
    def in_flight(self) -> int:
        """Bytes that are outstanding at once with 16-byte accesses."""
        return self.programs * self.tile * 16


LINK = Launch(programs=4, warps=32, tile=4096)
"""From the host: 4 SMs, 256 KiB in flight, some four times what PCIe 5 needs for a round trip of 1.3 us."""

OUT = Launch(programs=3, warps=8, tile=1024)
"""To the host: 3 SMs, 48 KiB in flight.

Nobody waits for the end of a write to the host: more of them under way are not faster, and crowd out what a computation
has under way (an H100, 2026-11-27: 51.6 GB/s and a product 1.10 times as long, with :data:`LINK` 51.8 GB/s and 1.69).
"""

DEVICE = Launch(programs=264, warps=8, tile=2048)
"""Within the device: two programs per SM of an H200, 8 MiB in flight."""


@dataclass(frozen=True, slots=True)
class Signals:
    """Where a launch says how far it is: one int32 per layer each.

    counters: address in device memory, zero before the first use, never touched by anyone else.  flags: address in
    pinned host memory.  epoch: what a layer's flag is set to once the layer is complete.
    """

    counters: int
    flags: int
    epoch: int


def interpreted() -> bool:
    """Whether Triton runs kernels in its interpreter in this process."""
    return os.environ.get("TRITON_INTERPRET", "") == "1"


def constants(loops: Nest, launch: Launch, *, signal: bool) -> dict[str, int | bool]:
    """The compile-time constants of a copy, in the order of the kernel's parameters."""
    unit = loops.unit
    layer = loops.layer or Axis(1, 0, 0)
    found: dict[str, int | bool] = {
        "SOURCE_PAGE": loops.page.source // unit,
        "TARGET_PAGE": loops.page.target // unit,
        "SOURCE_LAYER": layer.source // unit,
        "TARGET_LAYER": layer.target // unit,
    }
    axes = [Axis(1, 0, 0)] * (4 - len(loops.axes)) + list(loops.axes)
    for number, axis in enumerate(axes):
        found[f"EXTENT_{number}"] = axis.extent
        found[f"SOURCE_{number}"] = axis.source // unit
        found[f"TARGET_{number}"] = axis.target // unit
    return found | {"CHUNK": loops.chunk // unit, "UNIT": unit, "TILE": launch.tile, "SIGNAL": signal}


_SIGNATURE = {
    "source": "i64",
    "target": "i64",
    "source_pages": "i64",
    "target_pages": "i64",
    "count": "i32",
    "layers": "i32",
    "counters": "i64",
    "flags": "i64",
    "epoch": "i32",
}


def compile_for(loops: Nest, launch: Launch = LINK, *, signal: bool = False, target: Any = None) -> Any:
    """The compiled kernel (``.asm["ptx"]``, ``.asm["cubin"]``, ``.metadata``) for a ``GPUTarget``, by default sm_90.

    Needs no GPU.  Don't call it where Triton interprets.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from kvlitmus.optimized.data.jit import paged_copy

    fixed = constants(loops, launch, signal=signal)
    source = ASTSource(paged_copy, _SIGNATURE | dict.fromkeys(fixed, "constexpr"), fixed)
    options = {"num_warps": launch.warps, "num_stages": 1}
    return triton.compile(source, target=target or GPUTarget("cuda", 90, 32), options=options)


def target_of(device: int) -> Any:
    """The ``GPUTarget`` of a device, by what torch says of it: Triton would want a C compiler to find that out."""
    import torch
    from triton.backends.compiler import GPUTarget

    major, minor = torch.cuda.get_device_capability(device)
    return GPUTarget("cuda", 10 * major + minor, 32)


def compile_sm90(loops: Nest, launch: Launch = LINK, *, signal: bool = False) -> Any:
    """The kernel for Hopper; see :func:`compile_for`."""
    return compile_for(loops, launch, signal=signal)


class PagedCopy:
    """One copy between two layouts, compiled for the current device.

    loops: what is copied per page.  launch: how.  signal: whether layers are announced one by one (``loops.layer`` is
    set). The first call compiles (seconds); :meth:`prepare` does that ahead of time.
    """

    def __init__(self, loops: Nest, launch: Launch = LINK, *, signal: bool = False) -> None:
        if signal and loops.layer is None:
            raise ValueError("signals need loops that go layer by layer", loops)
        self.loops = loops
        self.launch = launch
        self.signal = signal
        self._constants = constants(loops, launch, signal=signal)
        self._units = max(1, loops.chunk // loops.unit)
        for axis in loops.axes:
            self._units *= axis.extent
        step = launch.programs * launch.tile
        self.most = (_LARGEST - step) // self._units
        """Pages of one launch: units are counted in 32 bits (about 32 GiB per layer); longer copies are split."""
        if self.most < 1:
            raise ValueError(f"a page has too many units for one launch ({self._units})", loops)

    @functools.cached_property
    def _run(self) -> Any:
        values = tuple(self._constants.values())
        if interpreted():
            from kvlitmus.optimized.data.jit import paged_copy

            grid = paged_copy[(self.launch.programs,)]
            return lambda *given, stream: grid(*given, *values)  # noqa: ARG005  (it has no streams)
        import torch

        # In the context that is current here: that of the device whose pools are copied.
        number = torch.cuda.current_device()
        context_of(number).bind()
        compiled = compile_for(self.loops, self.launch, signal=self.signal, target=target_of(number))
        start, programs = LoadedKernel(compiled, tuple(_SIGNATURE.values())), self.launch.programs
        return lambda *given, stream: start(programs, stream, *given)

    def prepare(self) -> None:
        """Compile and load now, not at the first call."""
        _ = self._run

    def bind(self, source: int, target: int) -> Callable[..., None]:
        """The copy of all layers between two pools, with as little left to do per launch as can be.

        To be called with the addresses of two page tables, how many pages (at most :attr:`most`), the stream, and with
        signals the addresses of counters and flags, and the epoch.  Raises ``ValueError`` for unaligned addresses.
        """
        loops = self.loops
        if (source | target) % loops.unit:
            raise ValueError(f"pools must be aligned to {loops.unit} bytes (got {source:#x}, {target:#x})", loops.unit)
        run, layers = self._run, loops.layer.extent if loops.layer else 1

        def start(
            sources: int, targets: int, count: int, stream: int, counters: int = 0, flags: int = 0, epoch: int = 0
        ) -> None:
            run(source, target, sources, targets, count, layers, counters, flags, epoch, stream=stream)

        return start

    def __call__(
        self,
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
        """Start the copy of ``count`` pages on a stream.

        source, target: addresses of the pools.  tables: addresses of the two page tables, int32 on the
        device.  stream: a raw ``cudaStream_t``; the current device must be its device.  lo, hi: the layers, where the
        loops go layer by layer (counted from the first of the loops; all of them otherwise).  Raises ``ValueError``
        for addresses that are not aligned, for layers that can't be chosen, or for more pages than one launch can
        count together with signals.
        """
        loops = self.loops
        layer = loops.layer or Axis(1, 0, 0)
        hi = layer.extent if hi is None else hi
        if not 0 <= lo < hi <= layer.extent:
            raise ValueError(f"layers must be within 0 to {layer.extent} (got {lo} to {hi})", lo, hi)
        if (source | target) % loops.unit:
            raise ValueError(f"pools must be aligned to {loops.unit} bytes (got {source:#x}, {target:#x})", loops.unit)
        if self.signal != (signals is not None):
            raise ValueError(f"signals must be given exactly where they are compiled in (signal={self.signal})")
        if signals is not None and count > self.most:
            raise ValueError(f"a copy with signals has at most {self.most} pages (got {count})", count)
        begin = (source + lo * layer.source, target + lo * layer.target)
        said = (signals.counters + 4 * lo, signals.flags + 4 * lo, signals.epoch) if signals else (0, 0, 0)
        for first in range(0, count, self.most):
            some = min(self.most, count - first)
            entries = (tables[0] + 4 * first, tables[1] + 4 * first)
            self._run(*begin, *entries, some, hi - lo, *said, stream=stream)
