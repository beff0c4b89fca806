"""Copies of pages between two pools, by the engine that suits them.

>>> copy = PageCopy(host_pool, device_pool)                      # doctest: +SKIP
>>> copy.now(host_pages, device_pages)                           # synchronous; numpy or torch, any integer type
>>> tables = copy.tables(host_pages, device_pages)               # page tables on the device, to use again and again
>>> copy.enqueue(tables, stream=torch.cuda.current_stream())     # CUDA: in the order of the stream
>>> copy.enqueue(tables, lo=3, hi=4, stream=stream)              # one layer

There are four engines:

- ``torch``: tensors in host memory, any layouts; also the fallback on CUDA where there is no Triton.  Where both pools
  are in host memory and there is a compiled core, that copies chunk by chunk, without memory between: what passes
  through the processor's caches on its way drives out what the scheduler needs next.
- ``kernel``: a Triton kernel (:mod:`kvlitmus.optimized.data.kernels`); chunks of any size, at least one pool on CUDA,
  host memory pinned.
- ``dma``: the copy engine, one descriptor per run of chunks.  No SM is used and long chunks go at the link's full
  speed, but each descriptor costs one to three us of the time of who submits it.
- ``staged``: whole pages by the copy engine into a stage on the device, and a kernel between stage and pool
  (:mod:`kvlitmus.optimized.data.staged`); all layers at once, between the host and CUDA, unless the host is
  layer-first.

Which one is chosen where the pools allow more than one says :class:`Choice`, by the bytes of a chunk.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import torch

from kvlitmus.optimized.cores import compiled
from kvlitmus.optimized.data import driver
from kvlitmus.optimized.data.kernels import DEVICE, LINK, OUT, Launch, PagedCopy, Signals, interpreted
from kvlitmus.optimized.data.layout import Axis, Nest, nest
from kvlitmus.optimized.data.pools import HostPool, KVPool
from kvlitmus.optimized.data.staged import StagedCopy
from kvlitmus.optimized.data.tables import Tables

Engine: TypeAlias = Literal["torch", "kernel", "dma", "staged"]
ENGINES: tuple[Engine, ...] = get_args(Engine)
Pages: TypeAlias = "npt.NDArray[np.integer[Any]] | torch.Tensor"

_PER_PAGE = 24 * 1024
"""Bytes of a run from which on copying run by run beats gathering all pages first (measured on a CPU, one thread)."""


_BATCH = 512
"""Descriptors that the copy engine is given in one call.

While the driver takes a batch, some 1.3 us for each, it lets no other thread in: a computation whose kernels another
thread starts would stand still for as long (an H100, 2026-11-27: a product beside backups of one batch of 8,192
descriptors each took 1.6 times as long, beside batches of 512 1.02 times; the backups were faster, too).
"""

_NEVER = 1 << 62


@dataclass(frozen=True, slots=True)
class Choice:
    """From how many bytes of a chunk on the copy engine is chosen; from how many of a page on, copies are staged.

    As measured on an H100 (``benchmarks/results/gpu-2026-11-27.json``).  A load is waited for, so the faster engine
    makes it: a kernel, unless chunks are long, for below 256 KiB the copy engine is told of a chunk no faster than it
    copies one, on some hosts.  For a backup nobody waits, so what counts is what it takes from a computation: the copy
    engine takes no SM, and is as fast from chunks of 128 KiB on; staging, from pages of 1 MiB on.
    ``benchmarks/gpu.py`` measures all of it anew; hand its result to :class:`PageCopy`.
    """

    to_device: int = 256 * 1024
    to_host: int = 128 * 1024
    within_device: int = _NEVER
    staged: int = 1024 * 1024
    """Of a page with shorter chunks than this, where all layers are copied together and staging is possible."""

    def engine(self, source: KVPool, target: KVPool, loops: Nest) -> Engine:
        """The engine for a copy between two pools."""
        if not (source.device.type == "cuda" or target.device.type == "cuda"):
            return "torch"
        if not (reachable(source) and reachable(target)):
            return "torch"  # neither engine may touch memory that is not locked
        kernels = importlib.util.find_spec("triton") is not None
        within = source.device == target.device
        host = source if target.device.type == "cuda" else target
        whole = not within and loops.layer is None and host.layout != "layer_first"
        if kernels and whole and loops.chunk < self.staged <= host.shape.page_bytes:
            return "staged"
        over_link = self.to_device if target.device.type == "cuda" else self.to_host
        if loops.chunk >= (self.within_device if within else over_link):
            return "dma"
        return "kernel" if kernels else "torch"


DECLARED = Choice()


class PageCopy:
    """Copies pages from one pool to another, all layers or some.

    engine: one of :data:`ENGINES`; by default what ``choice`` says.  launch: of the kernel.  by_layer: whether copies
    of single layers will be wanted (``lo``, ``hi``, signals); without, the loops may be longer than a layer. Raises
    ``ValueError`` for pools of different shapes, or an engine that can't serve them.
    """

    def __init__(
        self,
        source: KVPool,
        target: KVPool,
        *,
        engine: Engine | None = None,
        launch: Launch | None = None,
        choice: Choice = DECLARED,
        by_layer: bool = False,
    ) -> None:
        if source.shape != target.shape:
            raise ValueError("both pools must hold pages of the same shape", source.shape, target.shape)
        self.source = source
        self.target = target
        self.by_layer = by_layer
        self.loops = nest(source.shape, source.strides, target.strides, by_layer=by_layer)
        self.engine: Engine = engine or choice.engine(source, target, self.loops)
        if self.engine not in ENGINES:
            raise ValueError(f"engine must be one of {', '.join(ENGINES)} (got {engine!r})", engine)
        device = next((pool.device for pool in (target, source) if pool.device.type == "cuda"), None)
        self.device: torch.device = device or torch.device("cpu")
        if self.engine == "dma" and device is None:
            raise ValueError("the copy engine needs a pool on a CUDA device")
        if self.engine == "kernel" and not interpreted():
            if device is None:
                raise ValueError("kernels need a pool on a CUDA device, or Triton's interpreter (TRITON_INTERPRET=1)")
            if not (reachable(source) and reachable(target)):
                raise ValueError("kernels need pinned host memory: other memory is out of a device's reach")
        self.on_device = self.engine in ("kernel", "staged")
        """Whether a kernel reads the page tables."""
        self.launch = launch or self._launch()
        if self.engine == "staged" and by_layer:
            raise ValueError("a staged copy has all layers at once")
        self.core: Any = compiled() if self.engine == "torch" and device is None else None
        """The compiled core, where it makes the copies."""
        self.staged: StagedCopy | None = None
        if self.engine == "staged":
            self.staged = StagedCopy(source, target, launch=self.launch, across=partial(PageCopy, engine="dma"))

    def _launch(self) -> Launch:
        """How its kernel is started: that of a staged copy is within the device, beside a transfer over the link."""
        if self.source.device == self.target.device:
            return DEVICE
        return OUT if self.target.device.type != "cuda" and self.engine != "staged" else LINK

    @functools.cached_property
    def kernel(self) -> PagedCopy:
        """The kernel without signals."""
        return PagedCopy(self.loops, self.launch)

    @functools.cached_property
    def signalling(self) -> PagedCopy:
        """The kernel that announces each layer."""
        return PagedCopy(self.loops, self.launch, signal=True)

    @functools.cached_property
    def at_once(self) -> PagedCopy:
        """The kernel for all layers together, in as few turns as can be: no loop of its own over layers."""
        loops = nest(self.source.shape, self.source.strides, self.target.strides)
        return PagedCopy(loops, self.launch) if self.by_layer else self.kernel

    @functools.cached_property
    def _views(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Both pools as ``[page, layer, axes…, word]``; the layer axis has one entry unless the loops go by layer."""
        return _view(self.source, self.loops, 1), _view(self.target, self.loops, 2)

    def prepare(self) -> None:
        """Compile what will be launched, so that no later call does."""
        with torch.cuda.device(self.device) if self.device.type == "cuda" else contextlib.nullcontext():
            if self.engine == "kernel":
                self.kernel.prepare()
                if self.by_layer:
                    self.signalling.prepare()
                    self.at_once.prepare()
            if self.staged is not None:
                self.staged.prepare()

    def tables(self, source_pages: Pages, target_pages: Pages) -> Tables:
        """Page tables for :meth:`enqueue`, copied to the device if a kernel will read them.

        source_pages, target_pages: as many each, no target twice.  Raises ``ValueError`` for different lengths and
        ``IndexError`` for a page that is not there.
        """
        core, source_limit, target_limit = self.core, self.source.pages, self.target.pages
        if core is not None and core.within(source_pages, source_limit) and core.within(target_pages, target_limit):
            source, target = source_pages, target_pages
        else:
            source, target = _numbers(source_pages, source_limit), _numbers(target_pages, target_limit)
        if len(source) != len(target):
            raise ValueError(f"{len(source)} pages can't be copied to {len(target)}", len(source), len(target))
        if not self.on_device or not len(source):
            return Tables(source, target)
        kept = torch.from_numpy(np.stack([source, target])).to(self.device)
        return Tables(source, target, (kept[0].data_ptr(), kept[1].data_ptr()), kept)

    def now(self, source_pages: Pages, target_pages: Pages, *, lo: int = 0, hi: int | None = None) -> None:
        """Copy and return when it is done."""
        self.finish(self.tables(source_pages, target_pages), lo=lo, hi=hi)

    def finish(self, tables: Tables, *, lo: int = 0, hi: int | None = None) -> None:
        """The same with tables that were made before.  On CUDA it comes after what the current stream has to do."""
        if self.device.type != "cuda":
            self.enqueue(tables, lo=lo, hi=hi)
            return
        with torch.cuda.device(self.device):
            self._side.wait_stream(torch.cuda.current_stream(self.device))
            try:
                with torch.cuda.stream(self._side):
                    self.enqueue(tables, lo=lo, hi=hi)
            finally:  # what was started of a copy that fails goes on: nothing touches a page when this returns
                self._side.synchronize()

    @functools.cached_property
    def _side(self) -> Any:
        return torch.cuda.Stream(self.device)

    def enqueue(
        self,
        tables: Tables,
        *,
        lo: int = 0,
        hi: int | None = None,
        stream: Any = None,
        signals: Signals | None = None,
    ) -> None:
        """Start a copy in the order of a stream; on the CPU it is done on return.

        stream: a ``torch.cuda.Stream``, by default the current one; the tables must have been written before, in its
        order.  lo, hi: the layers, if this copy goes ``by_layer``.  signals: kernels only.
        """
        layers = self.source.shape.layers
        hi = layers if hi is None else hi
        if not 0 <= lo < hi <= layers or (not self.by_layer and (lo, hi) != (0, layers)):
            raise ValueError(f"layers must be within 0 to {layers}, all unless by_layer (got {lo} to {hi})", lo, hi)
        if not len(tables):
            return
        if self.engine == "torch":
            (self._by_torch if self.core is None else self._by_core)(tables, lo, hi)
            return
        raw = 0
        if self.device.type == "cuda":
            driver.context_of(self.device.index or 0).bind()
            stream = stream or torch.cuda.current_stream(self.device)
            raw = stream.cuda_stream
        if self.staged is not None:
            self.staged.enqueue(tables, stream)
            return
        if self.engine == "dma":
            for some in self._batches(tables, hi - lo):
                driver.copy_batch(*self.descriptors(some, lo, hi), raw)
            return
        kernel = self.signalling if signals else self.kernel
        layer = {"lo": lo, "hi": hi} if self.by_layer else {}
        kernel(
            self.source.address,
            self.target.address,
            tables.addresses,
            len(tables),
            stream=raw,
            signals=signals,
            **layer,
        )

    def _batches(self, tables: Tables, layers: int) -> Iterator[Tables]:
        """The pages of a copy of so many layers, as many at a time as make one batch for the copy engine."""
        of_page = max(1, self.loops.chunks * layers // self.source.shape.layers)
        each = max(1, _BATCH // of_page)
        for lo in range(0, len(tables), each):
            yield Tables(tables.source[lo : lo + each], tables.target[lo : lo + each])

    def descriptors(
        self, tables: Tables, lo: int, hi: int
    ) -> tuple[driver.AddressArray, driver.AddressArray, driver.AddressArray]:
        """What the copy engine is to do: addresses of targets and sources, and sizes.  Runs of chunks are joined."""
        loops = self.loops
        starts, lengths = _runs(tables.source, tables.target)
        if not loops.runs_join and loops.page.source == loops.page.target == loops.chunk:
            pass  # neighbouring pages join per chunk, too: pages of one layer in a layer-first pool
        elif not loops.runs_join:
            starts, lengths = np.arange(len(tables)), np.ones(len(tables), np.int64)
        from_pages, to_pages = tables.source[starts].astype(np.int64), tables.target[starts].astype(np.int64)
        sources = self.source.address + from_pages * loops.page.source
        targets = self.target.address + to_pages * loops.page.target
        sizes = lengths * loops.chunk
        axes = [axis for axis in (loops.layer,) if axis] + list(loops.axes)
        for number, axis in enumerate(axes):
            steps = np.arange(lo, hi) if number == 0 and loops.layer else np.arange(axis.extent)
            sources = (sources[None] + (steps * axis.source)[(...,) + (None,) * sources.ndim]).reshape(-1)
            targets = (targets[None] + (steps * axis.target)[(...,) + (None,) * targets.ndim]).reshape(-1)
            sizes = np.tile(sizes, len(steps))
        return targets.astype(np.uint64), sources.astype(np.uint64), sizes.astype(np.uint64)

    def _by_core(self, tables: Tables, lo: int, hi: int) -> None:
        loops, layer = self.loops, self.loops.layer
        source, target = self.source.address, self.target.address
        axes: tuple[Axis, ...] = loops.axes
        if layer:
            source, target = source + lo * layer.source, target + lo * layer.target
            axes = (Axis(hi - lo, layer.source, layer.target), *axes)
        page = (loops.page.source, loops.page.target)
        self.core.copy_pages(source, target, tables.source, tables.target, page, loops.chunk, axes)

    def _by_torch(self, tables: Tables, lo: int, hi: int) -> None:
        source, target = self._views
        if self.by_layer:
            source, target = source[:, lo:hi], target[:, lo:hi]
        starts, lengths = _runs(tables.source, tables.target)
        size = source[0].numel() * source.element_size() * len(tables)
        if len(starts) <= 2 or size >= _PER_PAGE * len(starts):
            for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
                first, to = int(tables.source[start]), int(tables.target[start])
                target[to : to + length].copy_(source[first : first + length], non_blocking=True)
            return
        gathered = source.index_select(0, torch.from_numpy(tables.source).to(source.device))
        places = torch.from_numpy(tables.target).to(target.device, torch.int64)
        target.index_copy_(0, places, gathered.to(target.device))


def reachable(pool: KVPool) -> bool:
    """Whether the device can read and write a pool: its own memory, or host memory that is locked."""
    return pool.device.type == "cuda" or (isinstance(pool, HostPool) and pool.pinned)


def _numbers(pages: Pages, limit: int) -> npt.NDArray[np.int32]:
    array = pages.detach().cpu().numpy() if isinstance(pages, torch.Tensor) else np.asarray(pages)
    array = np.ascontiguousarray(array, np.int64)
    if len(array) and not 0 <= int(array.min()) <= int(array.max()) < limit:
        raise IndexError(f"pages must be from 0 to {limit - 1} (got {int(array.min())} to {int(array.max())})")
    return array.astype(np.int32)


def _runs(
    source: npt.NDArray[np.integer[Any]], target: npt.NDArray[np.integer[Any]]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where runs of pages begin that are neighbours on both sides, and how long they are."""
    breaks = (np.diff(source) != 1) | (np.diff(target) != 1)
    starts = np.concatenate([[0], np.flatnonzero(breaks) + 1])
    return starts, np.diff(np.append(starts, len(source)))


def _view(pool: KVPool, loops: Nest, side: int) -> torch.Tensor:
    width = min(8, loops.unit)
    layer = loops.layer
    steps = [(pool.pages, loops.page[side]), (layer.extent if layer else 1, layer[side] if layer else 0)]
    steps += [(axis.extent, axis[side]) for axis in loops.axes]
    sizes = (*(extent for extent, _ in steps), loops.chunk // width)
    strides = (*(step // width for _, step in steps), 1)
    return pool.words(width).as_strided(sizes, strides)
