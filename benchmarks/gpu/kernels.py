"""Two kernels of other people's shape, for comparison only; the cache's own are in ``optimized``."""

from __future__ import annotations

# ruff: noqa: N803, UP037  (compile-time constants are capitals; Triton evaluates annotations, unless they are text)
from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from triton.compiler import ASTSource

from benchmarks.gpu.chunks import Chunks
from kvlitmus.optimized.data.kernels import interpreted, target_of
from kvlitmus.optimized.data.loaded import LoadedKernel


def _register(
    source: "Any",
    target: "Any",
    source_pages: "Any",
    target_pages: "Any",
    pages: "Any",
    items: "Any",
    source_part: "Any",
    target_part: "Any",
    ROWS: tl.constexpr,
    WORDS: tl.constexpr,
    PER: tl.constexpr,
) -> None:
    """A row of ``WORDS`` 8-byte words per warp and turn; ``PER`` rows are a chunk."""
    row = tl.arange(0, ROWS)
    word = tl.arange(0, WORDS)
    for turn in range(tl.program_id(0) * ROWS, items, tl.num_programs(0) * ROWS):
        item = turn + row
        there = item < items
        chunk = item // PER
        part = (chunk // pages).to(tl.int64)
        page = chunk % pages
        here = tl.load(source_pages.to(tl.pointer_type(tl.int32)) + page, mask=there, other=0).to(tl.int64)
        to = tl.load(target_pages.to(tl.pointer_type(tl.int32)) + page, mask=there, other=0).to(tl.int64)
        within = (item % PER).to(tl.int64) * WORDS
        start = part * source_part + here * (PER * WORDS) + within
        end = part * target_part + to * (PER * WORDS) + within
        from_words = source.to(tl.pointer_type(tl.int64)) + start[:, None] + word[None, :]
        to_words = target.to(tl.pointer_type(tl.int64)) + end[:, None] + word[None, :]
        tl.store(to_words, tl.load(from_words, mask=there[:, None]), mask=there[:, None])


def _simple(
    source: "Any",
    target: "Any",
    source_pages: "Any",
    target_pages: "Any",
    pages: "Any",
    source_part: "Any",
    target_part: "Any",
    WORDS: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """One program per chunk, a block of words at a time."""
    chunk = tl.program_id(0)
    part = (chunk // pages).to(tl.int64)
    page = chunk % pages
    here = part * source_part + tl.load(source_pages.to(tl.pointer_type(tl.int32)) + page).to(tl.int64) * WORDS
    to = part * target_part + tl.load(target_pages.to(tl.pointer_type(tl.int32)) + page).to(tl.int64) * WORDS
    word = tl.arange(0, BLOCK)
    for at in range(0, WORDS, BLOCK):
        there = at + word < WORDS
        words = tl.load(source.to(tl.pointer_type(tl.int64)) + here + at + word, mask=there)
        tl.store(target.to(tl.pointer_type(tl.int64)) + to + at + word, words, mask=there)


register = triton.jit(_register)
simple = triton.jit(_simple)


def started(kernel: Any, warps: int, **fixed: int) -> Callable[..., None]:
    """A kernel to be called with its programs, the stream and its numbers: by the driver, or by the interpreter.

    Triton's own launcher would want a C compiler.
    """
    if interpreted():
        return lambda programs, stream, *given: kernel[(programs,)](*given, **fixed)  # noqa: ARG005
    kinds = kinds_of(kernel, fixed)
    target = target_of(torch.cuda.current_device())
    source = ASTSource(kernel, kinds | dict.fromkeys(fixed, "constexpr"), fixed)
    compiled = triton.compile(source, target=target, options={"num_warps": warps})
    return LoadedKernel(compiled, tuple(kinds.values()))


def kinds_of(kernel: Any, fixed: dict[str, int]) -> dict[str, str]:
    """The kinds of a kernel's parameters: addresses are numbers of 64 bits."""
    wide = ("source", "target", "source_pages", "target_pages", "source_part", "target_part")
    return {name: "i64" if name in wide else "i32" for name in kernel.arg_names if name not in fixed}


def _prepared(chunks: Chunks, direction: str) -> tuple[Any, ...]:
    source, target, source_pages, target_pages = chunks.sides(direction)
    on = chunks.device.device
    parts, _, chunk = source.shape
    lists = (torch.from_numpy(source_pages).to(on), torch.from_numpy(target_pages).to(on))
    return source, target, *lists, parts, len(source_pages), chunk // 8, source.stride(0) // 8, target.stride(0) // 8


def _stream(chunks: Chunks) -> int:
    return torch.cuda.current_stream().cuda_stream if chunks.device.device.type == "cuda" else 0


def register_copy(chunks: Chunks, direction: str) -> Callable[[], None]:
    """Two blocks of 1,024 threads, 8-byte accesses, rows of at most 2 KiB, one at a time per warp."""
    source, target, here, there, parts, pages, words, source_part, target_part = _prepared(chunks, direction)
    row = min(words, 256)
    start = started(register, 32, ROWS=32, WORDS=row, PER=words // row)
    items = parts * pages * (words // row)
    given = (source.data_ptr(), target.data_ptr(), here.data_ptr(), there.data_ptr(), pages, items)

    def work() -> None:
        start(2, _stream(chunks), *given, source_part, target_part)
        _ = here, there  # as long as the kernel reads them

    return work


def simple_copy(chunks: Chunks, direction: str) -> Callable[[], None]:
    """A program per chunk; the grid fills the device."""
    source, target, here, there, parts, pages, words, source_part, target_part = _prepared(chunks, direction)
    start = started(simple, 8, WORDS=words, BLOCK=min(words, 1024))
    given = (source.data_ptr(), target.data_ptr(), here.data_ptr(), there.data_ptr(), pages)

    def work() -> None:
        start(parts * pages, _stream(chunks), *given, source_part, target_part)
        _ = here, there

    return work
