"""The memory of the pools: KV of whole pages, on the device or on the host.

A pool is one buffer of bytes with a layout; page numbers are the only addresses.  Who owns a page is not known here:
that is the control plane's business (``optimized/pool.py``).
"""

from __future__ import annotations

import contextlib
import mmap
import weakref
from typing import Any

import torch

from kvlitmus.optimized.data import numa
from kvlitmus.optimized.data.layout import Layout, Strides, strides
from kvlitmus.optimized.data.shape import KVShape

_WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class KVPool:
    """Pages of KV in one buffer.

    shape: what a page holds.  pages: how many, page 0 included.  layout: see :mod:`kvlitmus.optimized.data.layout`.
    buffer: all bytes, a flat ``uint8`` tensor.  strides: bytes from index to index of each axis.
    """

    def __init__(self, shape: KVShape, pages: int, layout: Layout, buffer: torch.Tensor) -> None:
        if pages < 1:
            raise ValueError(f"pages must be at least 1 (got {pages})", pages)
        if buffer.dtype != torch.uint8 or buffer.dim() != 1 or buffer.numel() != pages * shape.page_bytes:
            raise ValueError(f"buffer must be {pages * shape.page_bytes} bytes, uint8 and flat", tuple(buffer.shape))
        self.shape = shape
        self.pages = pages
        self.layout = layout
        self.buffer = buffer
        self.strides: Strides = strides(layout, shape, pages)

    @property
    def device(self) -> torch.device:
        """Where the buffer is."""
        return self.buffer.device

    @property
    def address(self) -> int:
        """The first byte; a kernel reads pinned host memory by this very number."""
        return int(self.buffer.data_ptr())

    def rows(self, component: int, layer: int) -> torch.Tensor:
        """One layer as attention sees it: a view ``[pages, page_size, heads, head_dim]`` of the element type.

        component: 0 for K (or the latent), 1 for V.  Contiguous in ``layer_first`` alone.
        """
        shape, step = self.shape, self.strides
        size = shape.dtype.itemsize
        return self.buffer.view(shape.dtype).as_strided(
            (self.pages, shape.page_size, shape.heads, shape.head_dim),
            (step.page // size, step.token // size, step.head // size, 1),
            (component * step.component + layer * step.layer) // size,
        )

    def slots(self, component: int, layer: int) -> torch.Tensor:
        """The same by slot (slot = page * page_size + token): ``[pages * page_size, heads, head_dim]``.

        Only where the tokens of neighbouring pages are evenly spaced: ``layer_first``, and ``page_first`` with
        ``mla``. Raises ``ValueError`` elsewhere.
        """
        shape, step = self.shape, self.strides
        if step.page != shape.page_size * step.token:
            raise ValueError(f"slots of layout {self.layout!r} are not evenly spaced", self.layout)
        size = shape.dtype.itemsize
        return self.buffer.view(shape.dtype).as_strided(
            (self.pages * shape.page_size, shape.heads, shape.head_dim),
            (step.token // size, step.head // size, 1),
            (component * step.component + layer * step.layer) // size,
        )

    def canonical(self) -> torch.Tensor:
        """All bytes as a view ``[pages, component, layer, token, head, head_bytes]``, whatever the layout."""
        shape, step = self.shape, self.strides
        return self.buffer.as_strided(
            (self.pages, shape.components, shape.layers, shape.page_size, shape.heads, shape.head_bytes),
            (step.page, step.component, step.layer, step.token, step.head, 1),
        )

    def words(self, width: int) -> torch.Tensor:
        """The buffer as integers of 1, 2, 4 or 8 bytes."""
        return self.buffer.view(_WORDS[width])


class DevicePool(KVPool):
    """The pool that attention reads.

    pages: all of them, the reserved ones too (page 0 takes the writes of padding).  device: ``"cuda"``, ``"cuda:1"``,
    ``"cpu"``.  layout: ``layer_first`` unless the engine's kernels read another.  The memory is zeroed.
    """

    def __init__(
        self, shape: KVShape, pages: int, *, device: torch.device | str = "cpu", layout: Layout = "layer_first"
    ) -> None:
        buffer = torch.zeros(pages * shape.page_bytes, dtype=torch.uint8, device=device)
        super().__init__(shape, pages, layout, buffer)


class RegistrationError(RuntimeError):
    """CUDA will not lock memory that is there already.  ``args``: the message, the code."""


class HostPool(KVPool):
    """The pool in host memory, page-locked where there is a CUDA device.

    layout: ``page_first_direct`` keeps a page as storage wants it, without a copy.  pinned: by default what
    ``torch.cuda.is_available()`` says.  node: the NUMA node that the memory is to lie on, by default that of the
    current CUDA device, or of the calling thread where there is none.  The constructor touches every page of memory,
    so that no later copy pays for a first touch; see :mod:`kvlitmus.optimized.data.numa`.
    Where memory that is there can't be locked afterwards (some sandboxes), it is torch's own, up to twice as large.
    Raises ``RuntimeError`` if memory can't be locked at all.
    """

    def __init__(
        self,
        shape: KVShape,
        pages: int,
        *,
        layout: Layout = "page_first_direct",
        pinned: bool | None = None,
        node: int | None = None,
    ) -> None:
        size = pages * shape.page_bytes
        if size < 1:
            raise ValueError(f"pages must be at least 1 (got {pages})", pages)
        self.pinned = torch.cuda.is_available() if pinned is None else pinned
        if node is None and self.pinned and torch.cuda.is_available():
            node = numa.node_of(torch.device("cuda", torch.cuda.current_device()))
        super().__init__(shape, pages, layout, _host_memory(size, node))
        if self.pinned:
            try:
                _pin(self.buffer)
            except RegistrationError:
                self.buffer = _pinned_by_torch(size)
            else:
                weakref.finalize(self, _unpin, self.buffer)


def _host_memory(size: int, node: int | None) -> torch.Tensor:
    """Zeroed bytes at a page border, in huge pages where the system has them.

    torch's own pinned allocator rounds up to a power of two, which may be tens of gigabytes for nothing.
    """
    private = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without huge pages
            private.madvise(mmap.MADV_HUGEPAGE)
    memory = torch.frombuffer(private, dtype=torch.uint8)
    numa.zero(memory, node)
    return memory


def _pinned_by_torch(size: int) -> torch.Tensor:
    return torch.zeros(size, dtype=torch.uint8, pin_memory=True)


def _runtime() -> Any:
    return torch.cuda.cudart()


def _pin(buffer: torch.Tensor) -> None:
    if not torch.cuda.is_available():
        raise RuntimeError("host memory can't be pinned without a CUDA device")
    torch.cuda.init()
    code = int(_runtime().cudaHostRegister(buffer.data_ptr(), buffer.numel(), 0))
    if code:
        raise RegistrationError(
            f"cudaHostRegister of {buffer.numel()} bytes failed with error {code}; is `ulimit -l` large enough?", code
        )


def _unpin(buffer: torch.Tensor) -> None:
    _runtime().cudaHostUnregister(buffer.data_ptr())
