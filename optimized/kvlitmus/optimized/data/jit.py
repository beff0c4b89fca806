"""The kernels themselves, in Triton.  Import this module only where one is launched or compiled.

They are plain functions, made kernels by a call below each, so that type checkers see ordinary functions.  Capital
letters are compile-time constants: strides, extents and widths of a pair of layouts are the same for the life of a
mover, so that divisions become multiplications.  Pools come as addresses (``int64``), because pinned host memory is
no CUDA tensor: with unified addressing the device reads and writes it by its host address.

How fast a copy over the link runs is a question of bytes in flight: 55 GB/s times a round trip of 1.3 us is 72
KB.  Hence each program handles ``TILE`` accesses of 16 bytes at a time, all loads before the first store; 16 warps
with four 16-byte loads a thread have 32 KiB outstanding, and four such programs 128 KiB.
"""

from __future__ import annotations

# ruff: noqa: N803, N806, UP037  (compile-time constants are capitals; Triton evaluates annotations, unless they are text)
from typing import Any

import triton
import triton.language as tl


def _announce(counter: "Any", flag: "Any", epoch: "Any") -> None:
    """Say that this program has done its share of a layer; the last one to say so writes the flag.

    The barrier puts the stores of all threads before the release of the one that counts; counting releases and
    acquires, so that the flag is written after the stores of all programs.  A counter grows by the number of programs
    in each launch and is never reset.
    """
    tl.debug_barrier()
    programs = tl.num_programs(0)
    before = tl.atomic_add(counter, 1, sem="acq_rel", scope="gpu")
    if before % programs == programs - 1:
        tl.atomic_xchg(flag, epoch, sem="release", scope="sys")


announce = triton.jit(_announce)


def _paged_copy(
    source: "Any",  # address of the first byte of the first layer, int64
    target: "Any",
    source_pages: "Any",  # addresses of int32[count] on the device
    target_pages: "Any",
    count: "Any",  # pages, int32
    layers: "Any",  # how many, int32
    counters: "Any",  # address of int32[layers] on the device; unused without SIGNAL
    flags: "Any",  # address of int32[layers] in pinned host memory; unused without SIGNAL
    epoch: "Any",  # what a flag is set to, int32
    SOURCE_PAGE: tl.constexpr,  # strides in units
    TARGET_PAGE: tl.constexpr,
    SOURCE_LAYER: tl.constexpr,
    TARGET_LAYER: tl.constexpr,
    EXTENT_0: tl.constexpr,  # up to four loops within a page and layer, outermost first
    SOURCE_0: tl.constexpr,
    TARGET_0: tl.constexpr,
    EXTENT_1: tl.constexpr,
    SOURCE_1: tl.constexpr,
    TARGET_1: tl.constexpr,
    EXTENT_2: tl.constexpr,
    SOURCE_2: tl.constexpr,
    TARGET_2: tl.constexpr,
    EXTENT_3: tl.constexpr,
    SOURCE_3: tl.constexpr,
    TARGET_3: tl.constexpr,
    CHUNK: tl.constexpr,  # units of a chunk
    UNIT: tl.constexpr,  # bytes of one access: 16, 8, 4, 2 or 1
    TILE: tl.constexpr,  # accesses of a program at a time, a power of two
    SIGNAL: tl.constexpr,  # whether flags are written
) -> None:
    """Copy pages, chunk by chunk: lane ``u`` of a layer moves unit ``u % CHUNK`` of chunk ``u // CHUNK``.

    Neighbouring lanes move neighbouring units of a chunk, whatever its length, so that accesses are coalesced and no
    lane idles, also with rows of 576 or 656 bytes.
    """
    WORDS: tl.constexpr = UNIT // 4 if UNIT > 4 else 1
    word: tl.constexpr = tl.int32 if UNIT >= 4 else (tl.int16 if UNIT == 2 else tl.int8)
    PER_PAGE: tl.constexpr = EXTENT_0 * EXTENT_1 * EXTENT_2 * EXTENT_3 * CHUNK
    total = count * PER_PAGE
    source_pages = source_pages.to(tl.pointer_type(tl.int32))
    target_pages = target_pages.to(tl.pointer_type(tl.int32))
    lanes = tl.arange(0, TILE)
    words = tl.arange(0, WORDS)
    for number in range(layers):
        layer = tl.cast(number, tl.int64)
        read = (source + layer * (SOURCE_LAYER * UNIT)).to(tl.pointer_type(word))
        write = (target + layer * (TARGET_LAYER * UNIT)).to(tl.pointer_type(word))
        for start in range(tl.program_id(0) * TILE, total, tl.num_programs(0) * TILE):
            unit = start + lanes
            inside = unit < total
            page = unit // PER_PAGE
            rest = unit % PER_PAGE // CHUNK
            i_3 = rest % EXTENT_3
            i_2 = rest // EXTENT_3 % EXTENT_2
            i_1 = rest // (EXTENT_3 * EXTENT_2) % EXTENT_1
            i_0 = rest // (EXTENT_3 * EXTENT_2 * EXTENT_1)
            within = unit % CHUNK
            from_page = tl.load(source_pages + page, mask=inside, other=0).to(tl.int64)
            to_page = tl.load(target_pages + page, mask=inside, other=0).to(tl.int64)
            from_unit = from_page * SOURCE_PAGE + i_0.to(tl.int64) * SOURCE_0 + i_1.to(tl.int64) * SOURCE_1
            from_unit += i_2.to(tl.int64) * SOURCE_2 + i_3.to(tl.int64) * SOURCE_3 + within
            to_unit = to_page * TARGET_PAGE + i_0.to(tl.int64) * TARGET_0 + i_1.to(tl.int64) * TARGET_1
            to_unit += i_2.to(tl.int64) * TARGET_2 + i_3.to(tl.int64) * TARGET_3 + within
            from_word = (from_unit * WORDS)[:, None] + words[None, :]
            to_word = (to_unit * WORDS)[:, None] + words[None, :]
            # What the compiler can't see through an address given as a number: a unit is aligned, its words contiguous.
            from_word = tl.max_contiguous(tl.multiple_of(read + from_word, (1, UNIT)), (1, WORDS))
            to_word = tl.max_contiguous(tl.multiple_of(write + to_word, (1, UNIT)), (1, WORDS))
            value = tl.load(from_word, mask=inside[:, None], other=0, cache_modifier=".cg")
            tl.store(to_word, value, mask=inside[:, None], cache_modifier=".cs")
        if SIGNAL:
            announce(
                (counters + 4 * layer).to(tl.pointer_type(tl.int32)),
                (flags + 4 * layer).to(tl.pointer_type(tl.int32)),
                epoch,
            )


paged_copy = triton.jit(_paged_copy)
