"""Two kernels of other people's shape, for comparison only; the cache's own are in ``optimized``."""

from __future__ import annotations

# ruff: noqa: N803, UP037  (compile-time constants are capitals; Triton evaluates annotations, unless they are text)
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
import triton
import triton.language as tl

if TYPE_CHECKING:
    from benchmarks.gpu_baselines import Chunks


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
        here = tl.load(source_pages + page, mask=there, other=0).to(tl.int64)
        to = tl.load(target_pages + page, mask=there, other=0).to(tl.int64)
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
    here = part * source_part + tl.load(source_pages + page).to(tl.int64) * WORDS
    to = part * target_part + tl.load(target_pages + page).to(tl.int64) * WORDS
    word = tl.arange(0, BLOCK)
    for at in range(0, WORDS, BLOCK):
        there = at + word < WORDS
        words = tl.load(source.to(tl.pointer_type(tl.int64)) + here + at + word, mask=there)
        tl.store(target.to(tl.pointer_type(tl.int64)) + to + at + word, words, mask=there)


register = triton.jit(_register)
simple = triton.jit(_simple)


def _prepared(chunks: Chunks, direction: str) -> tuple[Any, ...]:
    source, target, source_pages, target_pages = chunks.sides(direction)
    on = chunks.device.device
    parts, _, chunk = source.shape
    lists = (torch.from_numpy(source_pages).to(on), torch.from_numpy(target_pages).to(on))
    return source, target, *lists, parts, len(source_pages), chunk // 8, source.stride(0) // 8, target.stride(0) // 8


def register_copy(chunks: Chunks, direction: str) -> Callable[[], None]:
    """Two blocks of 1,024 threads, 8-byte accesses, rows of at most 2 KiB, one at a time per warp."""
    source, target, here, there, parts, pages, words, source_part, target_part = _prepared(chunks, direction)
    row = min(words, 256)

    def work() -> None:
        register[(2,)](
            source.data_ptr(),
            target.data_ptr(),
            here,
            there,
            pages,
            parts * pages * (words // row),
            source_part,
            target_part,
            ROWS=32,
            WORDS=row,
            PER=words // row,
            num_warps=32,
        )

    return work


def simple_copy(chunks: Chunks, direction: str) -> Callable[[], None]:
    """A program per chunk; the grid fills the device."""
    source, target, here, there, parts, pages, words, source_part, target_part = _prepared(chunks, direction)

    def work() -> None:
        simple[(parts * pages,)](
            source.data_ptr(),
            target.data_ptr(),
            here,
            there,
            pages,
            source_part,
            target_part,
            WORDS=words,
            BLOCK=min(words, 1024),
            num_warps=8,
        )

    return work
