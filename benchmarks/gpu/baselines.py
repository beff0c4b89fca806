"""What else could move the same chunks: the ways people use, measured in the same run.

All of them move chunks of layer-first pools, the same bytes as the transfers of the table:

``index``     PyTorch alone: gather on the source's side, one copy, scatter on the other side
``loop``      one ``cudaMemcpyAsync`` per chunk, from Python (on some thousand chunks only)
``batch``     one ``cudaMemcpyBatchAsync``, called through ctypes: the copy engine, without Python in the loop
``register``  two blocks of 1,024 threads, a warp per row, 8-byte loads, a row at a time: a re-write of the shape of
              the first published kernels for paged host copies
``simple``    a Triton kernel, one program per chunk, over the host's addresses: what one writes first
"""

from __future__ import annotations

import ctypes
import itertools
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.gpu.chunks import Chunks, made
from benchmarks.gpu.device import repeat, summary
from benchmarks.gpu.kernels import register_copy, simple_copy
from benchmarks.gpu.stage import Bench, Skip

REPEATS = {"index": 1, "loop": 2}
"""Of the ways that take a second for each; five of the others."""
LOOPED = 4_096
"""Chunks that the loop copies: at some microseconds each, the whole of a transfer would take the stage's time."""


def index(chunks: Chunks, direction: str) -> Callable[[], None]:
    """PyTorch's own indexing; the source's side gathers, the target's side scatters."""
    source, target, source_pages, target_pages = chunks.sides(direction)
    here = torch.from_numpy(source_pages).to(source.device, torch.int64)
    there = torch.from_numpy(target_pages).to(target.device, torch.int64)

    def work() -> None:
        target.index_copy_(1, there, source.index_select(1, here).to(target.device))

    return work


def loop(chunks: Chunks, direction: str) -> Callable[[], None]:
    """One asynchronous copy per chunk; see :data:`LOOPED`."""
    source, target, source_pages, target_pages = chunks.sides(direction)
    parts = source.shape[0]
    pairs = list(zip(source_pages.tolist(), target_pages.tolist(), strict=True))[: max(1, LOOPED // parts)]

    def work() -> None:
        for part in range(parts):
            for here, there in pairs:
                target[part, there].copy_(source[part, here], non_blocking=True)

    return work


def looped(chunks: Chunks) -> int:
    """Bytes that :func:`loop` moves."""
    parts, _, chunk = chunks.host.shape
    return min(len(chunks.host_pages), max(1, LOOPED // int(parts))) * int(parts * chunk)


class _Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _Attributes(ctypes.Structure):
    """``cudaMemcpyAttributes``; access order 1 is the stream's."""

    _fields_ = (
        ("order", ctypes.c_int),
        ("source", _Location),
        ("target", _Location),
        ("flags", ctypes.c_uint),
    )


def runtime() -> ctypes.CDLL:
    """The CUDA runtime that torch has loaded.  Raises ``Skip`` where there is none with a batch copy of CUDA 13."""
    if not torch.cuda.is_available():
        raise Skip("needs CUDA")
    maps = Path("/proc/self/maps").read_text()
    found = re.search(r"(/\S*libcudart[^\s/]*\.so\S*)", maps)
    if found is None:
        raise Skip("no libcudart is loaded in this process")
    library = ctypes.CDLL(found.group(1))
    version = ctypes.c_int()
    if library.cudaRuntimeGetVersion(ctypes.byref(version)) or version.value < 13_000:
        raise Skip(f"cudaMemcpyBatchAsync has this signature from CUDA 13 on (runtime {version.value})")
    return library


def batch(chunks: Chunks, direction: str) -> Callable[[], None]:
    """The chunks as one batch; the descriptors are made outside of what is timed."""
    library = runtime()
    source, target, source_pages, target_pages = chunks.sides(direction)
    sources, targets = (
        np.ascontiguousarray(
            memory.data_ptr()
            + np.arange(memory.shape[0], dtype=np.uint64)[:, None] * np.uint64(memory.stride(0))
            + pages.astype(np.uint64)[None, :] * np.uint64(memory.stride(1)),
            dtype=np.uint64,
        ).reshape(-1)
        for memory, pages in ((source, source_pages), (target, target_pages))
    )
    sizes = np.full(len(sources), source.shape[2], dtype=np.uint64)
    stream = torch.cuda.Stream()
    # Source and destination hints are ignored for memory allocated by CUDA.
    attributes = _Attributes(1, _Location(0, 0), _Location(0, 0), 0)
    first = ctypes.c_size_t(0)

    def work() -> None:
        stream.wait_stream(torch.cuda.current_stream())
        code = library.cudaMemcpyBatchAsync(
            ctypes.c_void_p(targets.ctypes.data),
            ctypes.c_void_p(sources.ctypes.data),
            ctypes.c_void_p(sizes.ctypes.data),
            ctypes.c_size_t(len(sources)),
            ctypes.byref(attributes),
            ctypes.byref(first),
            ctypes.c_size_t(1),
            ctypes.c_void_p(stream.cuda_stream),
        )
        if code:
            raise RuntimeError(f"cudaMemcpyBatchAsync returned {code}")
        torch.cuda.current_stream().wait_stream(stream)

    return work


WAYS: dict[str, Callable[[Chunks, str], Callable[[], None]]] = {
    "index": index,
    "loop": loop,
    "batch": batch,
    "register": register_copy,
    "simple": simple_copy,
}


def exact(chunks: Chunks, direction: str, bytes_moved: int) -> bool:
    """Whether what was moved arrived; a baseline that copies wrongly would be no baseline."""
    source, target, source_pages, target_pages = chunks.sides(direction)
    parts, _, chunk = source.shape
    pages = min(len(source_pages), bytes_moved // (parts * chunk), 64)
    here = torch.from_numpy(source_pages[:pages]).to(source.device, torch.int64)
    there = torch.from_numpy(target_pages[:pages]).to(target.device, torch.int64)
    return bool(torch.equal(source.index_select(1, here).cpu(), target.index_select(1, there).cpu()))


def baselines(bench: Bench) -> None:
    """Every way, both directions, at the chunk sizes of the table."""
    wrong: list[str] = []
    cases = 0
    for chunk in bench.kept["chunk_sizes"]:
        parts, pages = (2, 4) if bench.dry else (64, (1 << 30) // (64 * chunk))
        chunks = made(bench.machine, parts, pages, chunk)
        for direction, name in itertools.product(("h2d", "d2h"), WAYS):
            facts = {"way": name, "chunk": chunk, "direction": direction}
            if bench.short(2):
                bench.record.row("baselines", **facts, note="no time left")
            elif bench.record.tried("baselines", facts, partial(_moved, bench, chunks, direction, name)):
                cases += 1
                wrong += [] if bench.record.rows[-1]["exact"] else [f"{name}, {direction}, chunks of {chunk}"]
        del chunks
        bench.machine.free()
    bench.record.head["baselines_wrong"] = wrong
    bench.record.head["baseline_cases"] = cases


def _moved(bench: Bench, chunks: Chunks, direction: str, name: str) -> dict[str, Any]:
    """One way in one direction."""
    payload = looped(chunks) if name == "loop" else chunks.payload
    work = WAYS[name](chunks, direction)
    chunks.sides(direction)[1].zero_()
    found = repeat(partial(bench.machine.events, work), bench.repeats(REPEATS.get(name, 5)))
    return {**summary(found, payload), "exact": exact(chunks, direction, payload)}
