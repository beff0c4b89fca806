"""The compiled loops of the control plane: comparing tokens, handing out pages, spelling slots, the heap of victims."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

from kvlitmus.spec.words.units import continues_pages, pages_in_order, pages_needed
from tests.proofs.optimized.claims import proof
from tests.proofs.support.machine import LIMITS, Cells, Numpy, counting, numbered, word
from tests.proofs.support.search import Run, every, implies, some
from tests.proofs.support.source import Slip, Source

KERNELS = "kvlitmus.optimized.kernels"


def kernels_of(source: Source, run: Run, **constants: Any) -> Any:
    """The module, not compiled, on unknown numbers."""
    return source.module(KERNELS, constants, jitted=lambda function: function, np=Numpy(run), range=counting(run))


# Tokens


@proof(
    "TREE-01",
    "TREE-02",
    bounds="every token of 64 bits; keys of at most five units, compared two at a time and one by one",
    slips=[
        Slip(KERNELS, "unlike |= x[k] ^ y[k]", "unlike = x[k] ^ y[k]"),
        Slip(KERNELS, "while done < length and x[done] == y[done]:", "while done < length and x[done] <= y[done]:"),
        Slip(KERNELS, "min(stop - start, len(other) - at)", "stop - start"),
    ],
    cases=[(mine, other, start, at) for mine, other, start, at in product((3, 5), (2, 4), (0, 1), (0, 1))],
)
def a_common_prefix_ends_at_the_first_difference(source: Source, run: Run, case: tuple[int, int, int, int]) -> object:
    """As many as are equal from the first one on, and no more."""
    mine, other, start, at = case
    x = [run.bits(f"x{one}") for one in range(mine)]
    y = [run.bits(f"y{one}") for one in range(other)]
    found = kernels_of(source, run, BLOCK=2).common(x, start, mine, y, at)
    longest = min(mine - start, other - at)
    equal = every([x[start + one] == y[at + one] for one in range(found)])
    return every([equal, found == longest or x[start + found] != y[at + found]])


# Slots and pages

SLOTS = ((1, 1), (1, 2), (2, 1), (2, 2), (2, 4), (3, 2), (3, 3), (3, 4))
"""A page size, and how many slots."""


@proof(
    "POOL-09",
    "POOL-10",
    "MISUSE-04",
    bounds="every slot of 63 bits; pages of one to three slots, at most two (to five and three in the nightly run)",
    slips=[
        Slip(KERNELS, "        if k + size > count:\n            return count\n", ""),
        Slip(KERNELS, "!= page * size + j:", "!= slots[k] + j:"),
        Slip(KERNELS, "if 0 <= page <= 2147483647 else -1", "if page <= 2147483647 else -1"),
    ],
    cases=SLOTS,
    more=[(3, 6), (4, 8), (2, 6), (5, 6)],
)
def slots_are_whole_pages_or_refused(source: Source, run: Run, case: tuple[int, int]) -> object:
    """Exactly what the spec calls whole pages is taken, as those pages; one that no pool has is none of its own."""
    size, count = case
    slots = [word(run, f"slot{one}", spare=1) for one in range(count)]
    pages = Cells(run, "int32", [0] * -(-count // size))
    wrong = kernels_of(source, run).whole_pages(slots, size, pages)
    whole = count % size == 0 and bool(continues_pages(0, 0, slots, size))
    if wrong != -1:
        return not whole and 0 <= wrong <= count
    limit = LIMITS["int32"][1]
    meant = pages_in_order(slots, size)
    named = [bool(page < 0) or bool(page >= limit) for page in meant]
    right = [(found < 0) if none else (found == page) for found, page, none in zip(pages, meant, named, strict=True)]
    return every([whole, *right])


@proof(
    "POOL-02",
    "TREE-06",
    bounds="every page that numbers of 32 bits name; pages of one to four slots, at most three pages",
    slips=[
        Slip(KERNELS, "            slots[k * size + j] = first + j", "            slots[k * size + j] = first + k"),
        Slip(KERNELS, "first = np.int64(pages[k]) * size", "first = np.int32(pages[k] * size)"),
    ],
    cases=tuple(product((1, 2, 4), (1, 2, 3))),
)
def pages_are_spelled_out_as_their_slots(source: Source, run: Run, case: tuple[int, int]) -> object:
    """The slots of whole pages, in the order of the pages."""
    size, count = case
    pages = Cells(run, "int32", [word(run, f"page{one}", "int32") for one in range(count)])
    slots = kernels_of(source, run).spell_slots(pages, size).cells
    named = pages_in_order(slots, size)
    return every([continues_pages(0, 0, slots, size), *[a == b for a, b in zip(named, pages, strict=True)]])


SIZES = (1, 3, 16, 64, 100)


@proof(
    "POOL-18",
    bounds="every length of 31 bits; pages of 1, 3, 16, 64 and 100 slots; at most three requests",
    slips=[
        Slip(KERNELS, "(after[k] + size - 1) // size -", "(after[k] + size) // size -"),
        Slip(KERNELS, "- (before[k] + size - 1) // size", "- before[k] // size"),
    ],
    cases=tuple(product(SIZES, (1, 2, 3))),
)
def as_many_pages_are_opened_as_are_needed(source: Source, run: Run, case: tuple[int, int]) -> object:
    """What all requests need after their growth, less what they had."""
    size, requests = case
    before, after = [], []
    for one in range(requests):
        before.append(word(run, f"before{one}", "int32"))
        after.append(word(run, f"after{one}", "int32"))
        run.assume(before[-1] >= 0)
        run.assume(before[-1] <= after[-1])
    opened = kernels_of(source, run).pages_to_open(before, after, size)
    needed = [pages_needed(b, size) - pages_needed(a, size) for a, b in zip(before, after, strict=True)]
    return opened == sum(needed)


@proof(
    "POOL-17",
    "POOL-18",
    bounds="every page, last slot and length; pages of 1, 2 and 4 slots; one request grows by four or two by two",
    slips=[
        Slip(
            KERNELS,
            "if position % size == 0:\n                slot = np.int64(pages[opened])",
            "if slot % size == 0:\n                slot = np.int64(pages[opened])",
            case=2,
        ),
        Slip(KERNELS, "                opened += 1\n", ""),
        Slip(KERNELS, "                slot += 1\n", "                slot += 2\n", case=2),
    ],
    cases=[(size, *grown) for size in (1, 2, 4) for grown in ((4,), (2, 2))],
    more=[(3, 5), (8, 9), (2, 2, 2, 2)],
)
def requests_grow_into_their_last_page_and_open_others_in_order(
    source: Source, run: Run, case: tuple[int, ...]
) -> object:
    """Each one's slots go on as the spec says, and pages are opened in order, each once."""
    size, most = case[0], case[1:]
    before = [word(run, f"before{one}", "int32") for one in range(len(most))]
    after = [word(run, f"after{one}", "int32") for one in range(len(most))]
    last = [word(run, f"last{one}", "int32") for one in range(len(most))]
    for one, grown in enumerate(most):
        run.assume(before[one] >= 0)
        run.assume(before[one] <= after[one])
        run.assume(after[one] - before[one] <= grown)
    pages = Cells(run, "int32", [word(run, f"page{one}", "int32") for one in range(sum(most))])
    slots = kernels_of(source, run).extend(before, after, last, pages, size).cells
    units = source.module("kvlitmus.spec.words.units", enumerate=numbered)
    claims: list[object] = []
    at = opened = 0
    for one in range(len(most)):
        grown = run.choose(after[one] - before[one], most[one] + 1)
        mine = slots[at : at + grown]
        claims.append(units.continues_pages(before[one], last[one], mine, size))
        for grown_by, slot in enumerate(mine):
            if bool((before[one] + grown_by) % size == 0):
                claims.append(slot == pages[opened] * size)
                opened += 1
        at += grown
    return every([*claims, len(slots) == at])


# Pages from hand to hand

POOL = 4
"""Pages of the pool, the reserved one included."""


def pool_of(run: Run, kernels: Any) -> tuple[Cells, list[Any]]:
    """The state of each page, unknown, and a copy of it."""
    states = [word(run, f"state{page}", "uint8") for page in range(POOL)]
    return Cells(run, "uint8", states), states


@proof(
    "POOL-09",
    "POOL-11",
    "POOL-12",
    "MISUSE-01",
    "MISUSE-03",
    bounds="every page of 64 bits and every state; a pool of four pages, at most three given back at once",
    slips=[
        Slip(KERNELS, "if page < first or page >= end", "if page < first or page > end"),
        Slip(KERNELS, "            for j in range(k):\n                state[pages[j]] = was\n", ""),
        Slip(KERNELS, "            stack[top + k] = pages[count - 1 - k]", "            stack[top + k] = pages[0]"),
        Slip(KERNELS, "if page < first or", "if page < 0 or"),
    ],
    cases=(1, 2, 3),
)
def pages_are_given_back_all_or_none(source: Source, run: Run, case: int) -> object:
    """Where each is one that its owner may give back, and none is named twice, all are free; else nothing changes."""
    kernels = kernels_of(source, run)
    state, before = pool_of(run, kernels)
    pages = [word(run, f"page{one}") for one in range(case)]
    stack = Cells(run, "int32", [None] * case)
    wrong = kernels.give_back(pages, state, 1, kernels.USED, kernels.FREE, stack, 0)
    mine = [some([every([page == one, before[one] == kernels.USED]) for one in range(1, POOL)]) for page in pages]
    once = [one != other for at, one in enumerate(pages) for other in pages[:at]]
    lawful = every([*mine, *once])
    if wrong != -1:
        return every([implies(lawful, False), *[a == b for a, b in zip(state, before, strict=True)]])
    named = [some([page == one for page in pages]) for one in range(POOL)]
    freed = [implies(is_named, now == kernels.FREE) for is_named, now in zip(named, state, strict=True)]
    spared = [some([is_named, now == was]) for is_named, now, was in zip(named, state, before, strict=True)]
    stacked = [a == b for a, b in zip(stack, reversed(pages), strict=True)]
    return every([lawful, *freed, *spared, *stacked])


@proof(
    "POOL-01",
    "POOL-03",
    "POOL-05",
    bounds="every free list of a pool of three pages, and every state of the others",
    slips=[
        Slip(KERNELS, "page = stack[top - 1 - k]", "page = stack[top - 1]"),
        Slip(KERNELS, "        state[page] = USED\n", ""),
        Slip(KERNELS, "stack[top - 1 - k]", "stack[top - k]"),
    ],
    cases=[
        (free, count)
        for top in range(1, POOL)
        for free in permutations(range(1, POOL), top)
        for count in range(top + 1)
    ],
)
def pages_are_taken_from_the_top_of_the_free_list(
    source: Source, run: Run, case: tuple[tuple[int, ...], int]
) -> object:
    """As many as were asked for, the last one first; they are in use, and no other page is."""
    free, count = case
    kernels = kernels_of(source, run)
    state, before = pool_of(run, kernels)
    for page in free:
        run.assume(before[page] == kernels.FREE)
    taken = kernels.take(Cells(run, "int32", free), len(free), count, state).cells
    expected = list(free[::-1][:count])
    changed = [
        now == (kernels.USED if page in expected else was)
        for page, (now, was) in enumerate(zip(state, before, strict=True))
    ]
    return every([taken == expected, *changed])


# The heap of victims


class Rows:
    """An array of two dimensions."""

    def __init__(self, run: Run, kind: str, rows: list[list[Any]]) -> None:
        self.rows = [Cells(run, kind, row) for row in rows]

    def __getitem__(self, index: tuple[int, Any]) -> Any:
        return self.rows[index[0]][index[1]]

    def __setitem__(self, index: tuple[int, Any], value: Any) -> None:
        self.rows[index[0]][index[1]] = value


def heaps(size: int) -> list[tuple[int, ...]]:
    """Which entries are where, in heaps of so many of ``size + 1`` entries."""
    return list(permutations(range(size + 1), size))


HEAPS = [(heap, entry) for size in range(3) for heap in heaps(size) for entry in range(size + 1)]
HEAPS += [(heap, entry) for heap in ((0, 1, 2), (2, 1, 0), (1, 3, 0)) for entry in (0, 3)]
LARGER = [(heap, entry) for heap in heaps(3) for entry in range(4)]
LARGER += [
    (heap, entry)
    for heap in ((0, 1, 2, 3), (3, 2, 1, 0), (4, 1, 3, 0), (2, 0, 1, 4, 5), (0, 1, 2, 3, 4, 5))
    for entry in (0, 1, 4)
]


def heap_of(run: Run, heap: tuple[int, ...], entries: int) -> tuple[Rows, Rows]:
    """A heap with these entries in this order, and any keys in which it is one."""
    keys = Rows(run, "int64", [[word(run, f"key{entry}_{part}") for part in (0, 1)] for entry in range(entries)])
    where = [heap.index(entry) if entry in heap else -1 for entry in range(entries)]
    places = Rows(run, "int32", [[*heap, *[-1] * (entries - len(heap))], where])
    for at in range(1, len(heap)):
        run.assume(some([goes_first(keys, heap[(at - 1) // 2], heap[at])]))
    return keys, places


def goes_first(keys: Rows, one: int, other: int) -> object:
    """The smaller key, the first number before the second; of equal keys the smaller entry."""
    (a, b), (c, d) = keys.rows[one].cells, keys.rows[other].cells
    return some([a < c, every([a == c, some([b < d, every([b == d, one < other])])])])


def in_order(places: Rows, keys: Rows, size: int, members: set[int]) -> object:
    """Whether a heap has these members, each knows where it is, the others that they are nowhere; and is a heap."""
    heap, where = places.rows[0].cells[:size], places.rows[1].cells
    if size != len(members) or set(heap) != members:
        return False
    if any(where[entry] != (heap.index(entry) if entry in members else -1) for entry in range(len(where))):
        return False
    return every([goes_first(keys, heap[(at - 1) // 2], heap[at]) for at in range(1, size)])


@proof(
    "EVICT-05",
    "EVICT-07",
    bounds="every key; heaps of two entries in any order and some of three (nightly: all of three, some of six)",
    slips=[
        Slip(KERNELS, "    while at > 0:\n", "    while at > 1:\n"),
        Slip(KERNELS, "if child + 1 < size and", "if child + 2 < size and", case=23),
        Slip(KERNELS, "        places[WHERE, below] = at\n", ""),
        Slip(KERNELS, "return bool(keys[one, 1] < keys[other, 1])", "return bool(keys[one, 1] > keys[other, 1])"),
    ],
    cases=HEAPS,
    more=LARGER,
)
def a_branch_that_is_offered_comes_up_in_its_turn(
    source: Source, run: Run, case: tuple[tuple[int, ...], int]
) -> object:
    """Put in or moved, an entry leaves a heap: the smallest key is on top."""
    heap, entry = case
    entries = max([*heap, entry]) + 1
    keys, places = heap_of(run, heap, entries)
    first, second = word(run, "first"), word(run, "second")
    size = kernels_of(source, run).heap_put(keys, places, len(heap), entry, first, second)
    put = [keys[entry, 0] == first, keys[entry, 1] == second]
    return every([*put, in_order(places, keys, size, {*heap, entry})])


@proof(
    "EVICT-05",
    "EVICT-07",
    bounds="every key; heaps of two entries in any order and some of three (nightly: all of three, some of six)",
    slips=[
        Slip(KERNELS, "    places[WHERE, entry] = -1\n    size -= 1", "    size -= 1"),
        Slip(
            KERNELS,
            "        _settle(keys, places, size, places[HEAP, size], at)\n    return size",
            "        places[HEAP, at] = places[HEAP, size]\n    return size",
        ),
    ],
    cases=HEAPS,
    more=LARGER,
)
def a_branch_that_is_dropped_leaves_the_others_in_order(
    source: Source, run: Run, case: tuple[tuple[int, ...], int]
) -> object:
    """Taken out, if it was there, an entry leaves a heap of the others."""
    heap, entry = case
    keys, places = heap_of(run, heap, max([*heap, entry]) + 1)
    size = kernels_of(source, run).heap_drop(keys, places, len(heap), entry)
    return in_order(places, keys, size, {*heap} - {entry})
