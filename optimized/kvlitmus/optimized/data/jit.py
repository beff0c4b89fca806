"""The kernels themselves, in Triton.  Import this module only where one is launched or compiled.

They are plain functions, made kernels by calls below them, so that type checkers see ordinary functions.  Capital
letters are compile-time constants: strides, extents and widths of a pair of layouts are the same for the life of a
mover, so that divisions become multiplications.  Pools come as addresses (``int64``), because pinned host memory is
no CUDA tensor: with unified addressing the device reads and writes it by its host address.

How fast a copy over the link runs is a question of bytes in flight: 55 GB/s times a round trip of 1.3 us is 72 KB.
Hence each program handles ``TILE`` units at a time, all loads before the first store; 32 warps with four 16-byte loads
a thread have 64 KiB outstanding, and four such programs 256 KiB.
"""

from __future__ import annotations

# ruff: noqa: N803, N806, UP037  (compile-time constants are capitals; Triton evaluates annotations, unless they are text)
from typing import Any

import triton
import triton.language as tl


def _announce(counter: "Any", flag: "Any", epoch: "Any") -> None:
    """Say that this program has done its share of a layer; the last one to say so writes the flag.

    The barrier puts the stores of all threads before the release of the one that counts; counting releases and
    acquires, so that the last one comes after the stores of all programs.  It sets the counter back to zero, in the
    scope of the system: what follows is after all those stores for the host, too.  Both atomics are on device memory.
    The flag is a plain store that is written through: an atomic over the link is more than every machine can do.
    Both are addresses of an int32.
    """
    tl.debug_barrier()
    counting = counter.to(tl.pointer_type(tl.int32))
    before = tl.atomic_add(counting, 1, sem="acq_rel", scope="gpu")
    if before == tl.num_programs(0) - 1:
        tl.atomic_xchg(counting, 0, sem="acq_rel", scope="sys")
        tl.store(flag.to(tl.pointer_type(tl.int32)), epoch, cache_modifier=".wt")


def _page(table: "Any", place: "Any", inside: "Any", STRIDE: tl.constexpr) -> "Any":
    """Where the page at a place of a page table begins, in units."""
    return tl.load(table.to(tl.pointer_type(tl.int32)) + place, mask=inside, other=0).to(tl.int64) * STRIDE


def _chunk(
    number: "Any",
    EXTENT_1: tl.constexpr,
    EXTENT_2: tl.constexpr,
    EXTENT_3: tl.constexpr,
    STRIDE_0: tl.constexpr,
    STRIDE_1: tl.constexpr,
    STRIDE_2: tl.constexpr,
    STRIDE_3: tl.constexpr,
) -> "Any":
    """Where a chunk begins within its page and layer, in units: its number taken apart into the loops' indices."""
    i_3 = (number % EXTENT_3).to(tl.int64)
    i_2 = (number // EXTENT_3 % EXTENT_2).to(tl.int64)
    i_1 = (number // (EXTENT_3 * EXTENT_2) % EXTENT_1).to(tl.int64)
    i_0 = (number // (EXTENT_3 * EXTENT_2 * EXTENT_1)).to(tl.int64)
    return i_0 * STRIDE_0 + i_1 * STRIDE_1 + i_2 * STRIDE_2 + i_3 * STRIDE_3


def _move(source: "Any", target: "Any", from_unit: "Any", to_unit: "Any", inside: "Any", UNIT: tl.constexpr) -> None:
    """Copy one unit per lane: all loads of a thread, then all its stores."""
    WORDS: tl.constexpr = UNIT // 4 if UNIT > 4 else 1
    word: tl.constexpr = tl.int32 if UNIT >= 4 else (tl.int16 if UNIT == 2 else tl.int8)
    words = tl.arange(0, WORDS)[None, :]
    read = source.to(tl.pointer_type(word)) + ((from_unit * WORDS)[:, None] + words)
    write = target.to(tl.pointer_type(word)) + ((to_unit * WORDS)[:, None] + words)
    # What the compiler can't see through an address given as a number: a unit is aligned, its words contiguous.
    read = tl.max_contiguous(tl.multiple_of(read, (1, UNIT)), (1, WORDS))
    write = tl.max_contiguous(tl.multiple_of(write, (1, UNIT)), (1, WORDS))
    value = tl.load(read, mask=inside[:, None], other=0, cache_modifier=".cg")
    tl.store(write, value, mask=inside[:, None], cache_modifier=".cs")


announce, page_at, chunk_at, move = (triton.jit(function) for function in (_announce, _page, _chunk, _move))


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
    """Copy pages: lane ``u`` of a layer moves unit ``u % CHUNK`` of chunk ``u // CHUNK``, so that neighbouring lanes
    have neighbouring units and no lane idles, however long a chunk is (576 and 656 bytes, too).
    """
    PER_PAGE: tl.constexpr = EXTENT_0 * EXTENT_1 * EXTENT_2 * EXTENT_3 * CHUNK
    total = count * PER_PAGE
    for number in range(layers):
        layer = tl.cast(number, tl.int64)
        for start in range(tl.program_id(0) * TILE, total, tl.num_programs(0) * TILE):
            unit = start + tl.arange(0, TILE)
            inside = unit < total
            chunk = unit % PER_PAGE // CHUNK
            read = page_at(source_pages, unit // PER_PAGE, inside, SOURCE_PAGE) + layer * SOURCE_LAYER + unit % CHUNK
            read += chunk_at(chunk, EXTENT_1, EXTENT_2, EXTENT_3, SOURCE_0, SOURCE_1, SOURCE_2, SOURCE_3)
            write = page_at(target_pages, unit // PER_PAGE, inside, TARGET_PAGE) + layer * TARGET_LAYER + unit % CHUNK
            write += chunk_at(chunk, EXTENT_1, EXTENT_2, EXTENT_3, TARGET_0, TARGET_1, TARGET_2, TARGET_3)
            move(source, target, read, write, inside, UNIT)
        if SIGNAL:
            announce(counters + 4 * layer, flags + 4 * layer, epoch)


paged_copy = triton.jit(_paged_copy)
