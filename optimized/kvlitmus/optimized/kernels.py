"""The loops of the control plane, compiled: comparing tokens, handing out pages, spelling out slots.

Everything here is a function of flat integer arrays; what the numbers mean is known by the callers.  Arrays may be of
any integer type; each combination of types is compiled at its first use and kept on disk (:func:`compile_all` does that
ahead of time).  A call costs about half a microsecond before it does anything.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvlitmus.optimized.arrays import CACHED, FREE, USED, IntArray, PageArray
from kvlitmus.optimized.jit import jitted

BLOCK = 1024
"""Units compared between two looks at the outcome: enough for vector instructions, little to repeat."""


@jitted
def common(mine: IntArray, start: int, stop: int, other: IntArray, at: int) -> int:
    """How many elements of ``mine[start:stop]`` equal those of ``other`` from ``at`` on, up to the first difference.

    ``other`` may end earlier.
    """
    length = min(stop - start, len(other) - at)
    x = mine[start : start + length]
    y = other[at : at + length]
    done = 0
    while done + BLOCK <= length:
        unlike = x[done] ^ y[done]
        for k in range(done, done + BLOCK):
            unlike |= x[k] ^ y[k]
        if unlike != 0:
            break
        done += BLOCK
    while done < length and x[done] == y[done]:
        done += 1
    return done


@jitted
def take(stack: PageArray, top: int, count: int, state: NDArray[np.uint8]) -> PageArray:
    """The last ``count`` pages of ``stack[:top]``, last one first; they are in use from now on."""
    pages = np.empty(count, np.int32)
    for k in range(count):
        page = stack[top - 1 - k]
        pages[k] = page
        state[page] = USED
    return pages


@jitted
def hand_over(pages: IntArray, state: NDArray[np.uint8], first: int, was: int, to: int) -> int:
    """Give pages the state ``to``, which have the state ``was``; a page without sign spares a look for negative ones.

    Returns -1, or the index of the first page that has not (or is below ``first``); nothing has changed then.
    """
    end = len(state)
    for k in range(len(pages)):
        page = np.int64(pages[k])
        if page < first or page >= end or state[np.uint64(page)] != was:
            for j in range(k):
                state[pages[j]] = was
            return k
        state[np.uint64(page)] = to
    return -1


@jitted
def give_back(
    pages: IntArray, state: NDArray[np.uint8], first: int, was: int, to: int, stack: PageArray, top: int
) -> int:
    """The same; where ``to`` is free the pages are put on the stack."""
    wrong = hand_over(pages, state, first, was, to)
    if wrong < 0 and to == FREE:
        count = len(pages)
        for k in range(count):
            stack[top + k] = pages[count - 1 - k]
    return wrong


@jitted
def whole_pages(slots: IntArray, size: int, pages: PageArray) -> int:
    """The pages that these slots fill, in order.

    Returns -1, or the index of the first slot that doesn't follow; ``len(slots)`` where the last page isn't complete.
    """
    count = len(slots)
    for k in range(0, count, size):
        page = slots[k] // size
        if k + size > count:
            return count
        for j in range(size):
            if slots[k + j] != page * size + j:
                return k + j
        pages[k // size] = page if 0 <= page <= 2147483647 else -1  # what no pool has must not wrap into what it has
    return -1


@jitted
def spell_slots(pages: IntArray, size: int) -> NDArray[np.int64]:
    """The slots of these pages, in order."""
    slots = np.empty(len(pages) * size, np.int64)
    for k in range(len(pages)):
        first = np.int64(pages[k]) * size
        for j in range(size):
            slots[k * size + j] = first + j
    return slots


@jitted
def pages_to_open(before: IntArray, after: IntArray, size: int) -> int:
    """How many pages requests need that grow from ``before[i]`` to ``after[i]`` tokens."""
    total = 0
    for k in range(len(before)):
        total += (after[k] + size - 1) // size - (before[k] + size - 1) // size
    return total


@jitted
def extend(before: IntArray, after: IntArray, last: IntArray, pages: PageArray, size: int) -> NDArray[np.int64]:
    """The slots of positions ``before[i] .. after[i]-1`` of each request, one request after the other.

    The page of the slot ``last[i]`` is filled first, then ``pages`` are opened in order.
    """
    total = 0
    for k in range(len(before)):
        total += after[k] - before[k]
    slots = np.empty(total, np.int64)
    at = 0
    opened = 0
    for k in range(len(before)):
        slot = np.int64(last[k])
        for position in range(before[k], after[k]):
            if position % size == 0:
                slot = np.int64(pages[opened]) * size
                opened += 1
            else:
                slot += 1
            slots[at] = slot
            at += 1
    return slots


HEAP, WHERE = 0, 1
"""Rows of the ``places`` of a heap: its entries in order, and where each entry is (-1: nowhere)."""


@jitted
def _before(keys: NDArray[np.int64], one: int, other: int) -> bool:
    if keys[one, 0] != keys[other, 0]:
        return bool(keys[one, 0] < keys[other, 0])
    if keys[one, 1] != keys[other, 1]:
        return bool(keys[one, 1] < keys[other, 1])
    return one < other


@jitted
def _settle(keys: NDArray[np.int64], places: PageArray, size: int, entry: int, at: int) -> None:
    """Put an entry at the free place ``at``, or above it or below it, where it belongs."""
    while at > 0:
        above = places[HEAP, (at - 1) // 2]
        if not _before(keys, entry, above):
            break
        places[HEAP, at] = above
        places[WHERE, above] = at
        at = (at - 1) // 2
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and _before(keys, places[HEAP, child + 1], places[HEAP, child]):
            child += 1
        below = places[HEAP, child]
        if not _before(keys, below, entry):
            break
        places[HEAP, at] = below
        places[WHERE, below] = at
        at = child
    places[HEAP, at] = entry
    places[WHERE, entry] = at


@jitted
def heap_put(keys: NDArray[np.int64], places: PageArray, size: int, entry: int, first: int, second: int) -> int:
    """Put an entry into a heap of ``size`` entries, or move it, with this key; returns how many there are now.

    The smallest pair of numbers is on top; of equal ones that with the smallest entry.
    """
    keys[entry, 0] = first
    keys[entry, 1] = second
    at = places[WHERE, entry]
    if at < 0:
        at = size
        size += 1
    _settle(keys, places, size, entry, at)
    return size


@jitted
def heap_drop(keys: NDArray[np.int64], places: PageArray, size: int, entry: int) -> int:
    """Take an entry out of a heap of ``size`` entries, if it is there; returns how many there are now."""
    at = places[WHERE, entry]
    if at < 0:
        return size
    places[WHERE, entry] = -1
    size -= 1
    if at < size:
        _settle(keys, places, size, places[HEAP, size], at)
    return size


def compile_all() -> None:
    """Compile everything for the usual types: tokens of 32 and of 64 bits, pages of 32 bits."""
    state = np.zeros(4, np.uint8)
    stack = np.arange(4, dtype=np.int32)
    for kind in (np.int32, np.int64):
        numbers = np.ones(1, kind)
        common(numbers, 0, 1, numbers, 0)
        common(numbers, 0, 1, np.frombuffer(numbers.tobytes(), kind), 0)  # an array that can't be written to
        take(stack, 4, 1, state)
        hand_over(numbers * 3, state, 0, USED, CACHED)
        give_back(numbers * 3, state, 0, CACHED, FREE, stack, 3)
        whole_pages(numbers, 1, stack)
        spell_slots(numbers, 1)
        pages_to_open(numbers, numbers, 1)
        extend(numbers, numbers, numbers, stack, 1)
    keys, places = np.zeros((1, 2), np.int64), np.full((2, 1), -1, np.int32)
    heap_drop(keys, places, heap_put(keys, places, 0, 0, 1, 1), 0)
