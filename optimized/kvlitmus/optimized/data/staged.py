"""Copies over the link in two steps: whole pages by the copy engine, and relayout within the device.

A host page is one run of bytes unless the host pool is layer-first, so the copy engine can move it whole, at the link's
full speed and without an SM, however short the chunks are that the device pool has.  What lies between is a stage on
the device, some pages in the host's layout, and a kernel of few programs between stage and pool; at some 2 TB/s it is
hidden behind the next piece's transfer.

The stage has several parts.  A piece of the copy uses the next part as soon as the piece before the last has left it:

    copy engine   | piece 0 | piece 1 | piece 2 | piece 3 |
    kernel                  | piece 0 | piece 1 | piece 2 | ...

A piece costs the submitting thread a batch for the copy engine, a launch and three events, some 50 us, while it takes
the link 150 us (8 MiB).  Layers come all at once at the end: layer by layer, a kernel over the link is better.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch

from kvlitmus.optimized.data.kernels import Launch, PagedCopy
from kvlitmus.optimized.data.layout import Layout, nest
from kvlitmus.optimized.data.pools import DevicePool, KVPool
from kvlitmus.optimized.data.shape import KVShape
from kvlitmus.optimized.data.tables import Tables

PIECE = 8 << 20
"""Bytes of a piece, if pages are smaller: some 150 us of the link, and a stage of 24 MiB."""

PARTS = 3
"""Parts of the stage: one is filled, one is emptied, and one is between."""


class Across(Protocol):
    """Copies whole pages over the link."""

    def enqueue(self, tables: Tables, *, stream: Any) -> object:
        """Start a copy on a stream."""


class StagedCopy:
    """All layers of pages from one pool to another, one of them on the host, with whole pages over the link.

    launch: of the kernel within the device.  across: makes what copies whole pages over the link.  piece: bytes that
    cross the link at a time (:data:`PIECE`), at least a page.  parts: pieces that the stage has room for.  Raises
    ``ValueError`` where a host page is not one run of bytes.
    """

    def __init__(
        self,
        source: KVPool,
        target: KVPool,
        *,
        launch: Launch,
        across: Callable[[KVPool, KVPool], Across],
        piece: int | None = None,
        parts: int = PARTS,
    ) -> None:
        host, device = (source, target) if target.device.type == "cuda" else (target, source)
        if host.device.type == "cuda" or device.device.type != "cuda":
            raise ValueError("a staged copy is between the host and a CUDA device")
        if host.layout == "layer_first":
            raise ValueError("a staged copy needs host pages of one run each; layer_first has a run per layer")
        self.inward = target is device
        self.each = max(1, (PIECE if piece is None else piece) // host.shape.page_bytes)
        """Pages of a piece."""
        self.parts = parts
        self.stage = _stage(host.shape, self.each * parts, device.device, host.layout)
        self._slots = _numbers(self.each * parts, device.device)
        ways = (self.stage, target) if self.inward else (source, self.stage)
        self._pools = (ways[0].address, ways[1].address)
        self._kernel = PagedCopy(nest(host.shape, ways[0].strides, ways[1].strides), launch)
        self._across = across(source, self.stage) if self.inward else across(self.stage, target)
        self._other: Any = torch.cuda.Stream(device.device, priority=-1)
        self._left: list[Any] = [None] * parts

    def prepare(self) -> None:
        """Compile the kernel."""
        self._kernel.prepare()

    def pieces(self, count: int) -> int:
        """How many pieces a copy of so many pages has."""
        return -(-count // self.each)

    def enqueue(self, tables: Tables, stream: Any) -> None:
        """Start a copy; its end is in the order of ``stream``, and it begins after what is there.

        One thread at a time, and copies one after the other on one stream: they share the stage.
        """
        self._other.wait_stream(stream)
        try:
            self._enqueue(tables, self._other, stream)
        except BaseException:
            # What was started goes on, and ends before what comes next on the caller's stream.
            with contextlib.suppress(RuntimeError):
                stream.wait_stream(self._other)
            raise

    def _enqueue(self, tables: Tables, first: Any, last: Any) -> None:
        for number in range(self.pieces(len(tables))):
            lo = number * self.each
            hi = min(len(tables), lo + self.each)
            part = number % self.parts
            if self._left[part] is not None:
                first.wait_event(self._left[part])
            if self.inward:
                self._cross(tables, lo, hi, part, first)
            else:
                self._within(tables, lo, hi, part, first)
            between = torch.cuda.Event()
            between.record(first)
            last.wait_event(between)
            if self.inward:
                self._within(tables, lo, hi, part, last)
            else:
                self._cross(tables, lo, hi, part, last)
            self._left[part] = torch.cuda.Event()
            self._left[part].record(last)

    def _cross(self, tables: Tables, lo: int, hi: int, part: int, stream: Any) -> None:
        """Whole pages between host and stage."""
        slots = np.arange(part * self.each, part * self.each + hi - lo)
        if self.inward:
            self._across.enqueue(Tables(tables.source[lo:hi], slots), stream=stream)
        else:
            self._across.enqueue(Tables(slots, tables.target[lo:hi]), stream=stream)

    def _within(self, tables: Tables, lo: int, hi: int, part: int, stream: Any) -> None:
        """Relayout between stage and pool."""
        slots = int(self._slots.data_ptr()) + 4 * part * self.each
        pages = tables.addresses[self.inward] + 4 * lo
        entries = (slots, pages) if self.inward else (pages, slots)
        self._kernel(*self._pools, entries, hi - lo, stream=stream.cuda_stream)


def _stage(shape: KVShape, pages: int, device: torch.device, layout: Layout) -> KVPool:
    return DevicePool(shape, pages, device=device, layout=layout)


def _numbers(count: int, device: torch.device) -> torch.Tensor:
    return torch.arange(count, dtype=torch.int32, device=device)
