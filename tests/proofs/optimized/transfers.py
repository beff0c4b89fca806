"""Copies without a kernel: views of tensors, descriptors for the copy engine, the pieces of a staged copy, the ring."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import product
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy
import z3

from tests.proofs.optimized.addresses import LAYOUT, MOST_PAGES, SHAPES, Copied, Digits, Shape, offset_of, whole
from tests.proofs.optimized.claims import proof
from tests.proofs.support.machine import Cells, Numpy, word
from tests.proofs.support.search import Run, alike, every, some
from tests.proofs.support.source import Slip, Source
from tests.proofs.support.terms import Term, plain

COPIES = "kvlitmus.optimized.data.copies"
POOLS = "kvlitmus.optimized.data.pools"
STAGED = "kvlitmus.optimized.data.staged"
LANE = "kvlitmus.optimized.data.lane"


class Objects:
    """numpy whose integers may be unknown: arrays of objects, which calculate with them one by one."""

    int64 = uint64 = object

    def __getattr__(self, name: str) -> Any:
        return getattr(numpy, name)


def unused(names: str) -> dict[str, Any]:
    """Stand-ins for what a module imports, and what is proven of it never touches."""
    return dict.fromkeys(names.split(), SimpleNamespace(uint8=0, int16=0, int32=0, int64=0))


def copies_of(source: Source) -> Any:
    """The module, without torch and without pools."""
    return source.module(
        COPIES,
        np=Objects(),
        **unused("driver DEVICE LINK Launch PagedCopy Signals interpreted Nest nest HostPool KVPool StagedCopy torch"),
    )


class Planned(NamedTuple):
    """A copy, as :class:`Digits` wants to know it."""

    shape: Shape
    strides: list[Any]
    loops: Any
    page_units: int


def planned(source: Source, case: Copied) -> Planned:
    """The loops of a copy between two pools."""
    shape = SHAPES[case.shape]
    layout = source.module(LAYOUT, KVShape=Shape)
    strides = [layout.strides(name, shape, MOST_PAGES) for name in (case.source, case.target)]
    loops = layout.nest(shape, *strides, by_layer=case.by_layer)
    units = loops.chunk // loops.unit
    for axis in loops.axes:
        units *= axis.extent
    return Planned(shape, strides, loops, units)


class View(NamedTuple):
    """A strided view: sizes and strides of each axis and where it begins, in elements."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    def place(self, index: Sequence[Any]) -> Any:
        """Where an index leads."""
        return self.offset + z3.Sum([one * step for one, step in zip(index, self.strides, strict=True)])

    def has(self, index: Sequence[Any]) -> object:
        """Whether there is such an index."""
        return every([z3.And(one >= 0, one < size) for one, size in zip(index, self.sizes, strict=True)])


def strided(_: Any) -> Any:
    """A buffer of words, of which a view is made."""
    return SimpleNamespace(as_strided=View)


LINKS = [
    Copied("8 heads of 128 bf16", "page_first_direct", "layer_first", True),
    Copied("MLA of 656 bytes", "layer_first", "page_first", False),
    Copied("three heads of 5 bytes", "page_head", "layer_first", False),
    Copied("a head of 80 fp16", "page_first_direct", "page_first_direct", False),
]


@proof(
    "TIER-08",
    bounds="the shapes and layouts listed; every page, element and byte; pools of 2**31 pages",
    slips=[
        Slip(COPIES, "(axis.extent, axis[side])", "(axis.extent, axis[1])"),
        Slip(COPIES, "(step // width for _, step in steps), 1)", "(step for _, step in steps), 1)"),
        Slip(COPIES, "(pool.pages, loops.page[side])", "(pool.pages, loops.page[2])"),
    ],
    cases=LINKS,
)
def two_views_have_one_element_at_one_index(source: Source, run: Run, case: Copied) -> object:
    """What torch copies from one view to the other is the same byte of the same element."""
    made = planned(source, case)
    digits = Digits(run, made)
    layer = whole(run.number("of_layer", 0, made.shape.layers if made.loops.layer else 1))
    width = min(8, made.loops.unit)
    at = whole(run.number("word", 0, made.loops.chunk // width))
    claims: list[object] = []
    for side, strides in ((1, made.strides[0]), (2, made.strides[1])):
        pool = SimpleNamespace(pages=MOST_PAGES, words=strided)
        seen: View = copies_of(source)._view(pool, made.loops, side)
        taken = [digits.place, layer, *digits.turns, at]
        index = {**digits.index(layer, 0), "byte": at * width, "page": digits.place}
        claims += [seen.has(taken), seen.place(taken) * width == offset_of(index, strides)]
    return every(claims)


READ = ("8 heads of 128 bf16", "three heads of 5 bytes", "MLA of 656 bytes")


@proof(
    "TIER-08",
    bounds="every page, element and byte of three shapes; the first, second and last layer; pools of 2**31 pages",
    slips=[
        Slip(
            POOLS,
            "(step.page // size, step.token // size, step.head // size, 1)",
            "(step.page, step.token, step.head, 1)",
        ),
        Slip(POOLS, "(step.page, step.component, step.layer,", "(step.page, step.layer, step.component,"),
        Slip(POOLS, "if step.page != shape.page_size * step.token:", "if shape.page_size < 1:"),
    ],
    cases=tuple(product(READ, ("layer_first", "page_first", "page_first_direct", "page_head"))),
)
def a_view_of_a_pool_has_each_element_at_its_index(source: Source, run: Run, case: tuple[str, str]) -> object:
    """By page and by slot, as attention reads it, where slots are evenly spaced; and in the order of storage."""
    shape = SHAPES[case[0]]
    layout = source.module(LAYOUT, KVShape=Shape)
    strides = layout.strides(case[1], shape, MOST_PAGES)
    size = 1 if shape.head_bytes % 2 else 2
    said = {**shape._asdict(), "dtype": SimpleNamespace(itemsize=size), "head_dim": shape.head_bytes // size}
    pools = source.module(
        POOLS, Strides=layout.Strides, strides=layout.strides, **unused("torch mmap numa Layout KVShape")
    )
    buffer = SimpleNamespace(view=strided, as_strided=View)
    pool = SimpleNamespace(
        shape=SimpleNamespace(**said), strides=strides, pages=MOST_PAGES, buffer=buffer, layout=case[1]
    )
    limits = {"page": MOST_PAGES, "token": shape.page_size, "head": shape.heads, "element": said["head_dim"]}
    page, token, head, element = (whole(run.number(axis, 0, limit)) for axis, limit in limits.items())
    claims: list[object] = []
    for component, layer in product(range(shape.components), sorted({0, 1, shape.layers - 1})):
        index = {"page": page, "component": component, "layer": layer, "token": token, "head": head}
        expected = offset_of({**index, "byte": element * size}, strides)
        views = [(pools.KVPool.rows(pool, component, layer), [page, token, head, element], size)]
        try:
            slot = page * shape.page_size + token
            views.append((pools.KVPool.slots(pool, component, layer), [slot, head, element], size))
        except ValueError:
            claims.append(case[1] != "layer_first")
        where = [z3.IntVal(one) if isinstance(one, int) else one for one in index.values()]
        views.append((pools.KVPool.canonical(pool), [*where, element * size], 1))
        claims += [every([view.has(at), view.place(at) * unit == expected]) for view, at, unit in views]
    return every(claims)


TABLES = [(copied, pages) for copied in (
    Copied("a head of 3 fp16, two of all", "page_first", "layer_first", True),
    Copied("a head of 3 fp16, two of all", "layer_first", "page_first_direct", False),
    Copied("8 heads of 128 bf16", "page_first_direct", "page_first_direct", False),
    Copied("MLA of 576 fp8, page of one", "layer_first", "layer_first", True),
) for pages in (1, 2, 3)]  # fmt: skip


@proof(
    "TIER-08",
    bounds="the copies listed, of at most three pages of pools of 2**31; any addresses below 2**46",
    slips=[
        Slip(
            COPIES, "breaks = (np.diff(source) != 1) | (np.diff(target) != 1)", "breaks = np.diff(source) != 1", case=7
        ),
        Slip(
            COPIES,
            "targets = (targets[None] + (steps * axis.target)",
            "targets = (targets[None] + (steps * axis.source)",
        ),
        Slip(COPIES, "sizes = lengths * loops.chunk", "sizes = np.ones_like(lengths) * loops.chunk", case=7),
        Slip(COPIES, "        elif not loops.runs_join:\n", "        elif False:\n"),
    ],
    cases=TABLES,
)
def the_copy_engine_is_told_of_every_byte_once(source: Source, run: Run, case: tuple[Copied, int]) -> object:
    """Each byte of each page is in a descriptor that brings it to its place, and no descriptor has more than these."""
    copied, count = case
    made = planned(source, copied)
    module, digits = copies_of(source), Digits(run, made)
    base = [word(run, name, "int64", spare=17) for name in ("source_address", "target_address")]
    tables = []
    for side in ("from", "to"):
        pages = numpy.empty(count, dtype=object)
        for at in range(count):
            pages[at] = word(run, f"{side}{at}", "int32")
            run.assume(pages[at] >= 0)
        tables.append(pages)
    for one, other in product(range(count), range(count)):
        run.assume(one == other or tables[1][one] != tables[1][other])
    pools = [SimpleNamespace(address=address) for address in base]
    copy = SimpleNamespace(loops=made.loops, source=pools[0], target=pools[1])
    given = Sized(source=tables[0], target=tables[1])
    layers = made.shape.layers
    targets, sources, sizes = (list(one) for one in module.PageCopy.descriptors(copy, given, 0, layers))
    layer = whole(run.number("of_layer", 0, layers if made.loops.layer else 1))
    byte = whole(run.number("byte_of_chunk", 0, made.loops.chunk))
    told: list[object] = []
    for at in range(count):
        index = {**digits.index(layer, 0), "byte": byte}
        source_end, target_end = [
            plain(address) + offset_of({**index, "page": plain(pages[at])}, strides)
            for address, pages, strides in zip(base, tables, made.strides, strict=True)
        ]
        told.append(some([moves(source_end, target_end, *one) for one in zip(sources, targets, sizes, strict=True)]))
    total = sum([number(size) for size in sizes])
    return every([*told, total == count * made.shape.page_bytes])


def number(value: Any) -> Any:
    """A number that numpy may have made, as z3 takes it."""
    return int(value) if isinstance(value, numpy.integer) else plain(value)


class Sized(SimpleNamespace):
    """Page tables: as long as either."""

    def __len__(self) -> int:
        return len(self.source)


def moves(source: Any, target: Any, first: Any, to: Any, size: Any) -> object:
    """Whether a descriptor brings the byte at ``source`` to ``target``."""
    first, to, size = number(first), number(to), number(size)
    return every([source >= first, source < first + size, target - to == source - first])


class Moved(NamedTuple):
    """What one step of a staged copy was told: entries of the tables, slots of the stage, and on which stream."""

    entries: tuple[int, ...]
    slots: tuple[int, ...]
    stream: str


class Stream:
    """A stream that notes which events it waits for."""

    def __init__(self, name: str, log: list[Any]) -> None:
        self.cuda_stream, self.log = name, log

    def wait_stream(self, other: Stream) -> None:
        self.log.append((self.cuda_stream, "waits for", other.cuda_stream))

    def wait_event(self, event: Event) -> None:
        self.log.append((self.cuda_stream, "waits for", event))


class Event:
    """An event that notes where it was recorded."""

    def record(self, stream: Stream) -> None:
        stream.log.append((stream.cuda_stream, "records", self))


@proof(
    "TIER-08",
    bounds="pieces of one to three pages, stages of one to three parts, copies of at most ten pages, both ways",
    slips=[
        Slip(STAGED, "min(len(tables), lo + self.each)", "lo + self.each"),
        Slip(STAGED, "part = number % self.parts", "part = number % (self.parts + 1)"),
        Slip(STAGED, "+ 4 * part * self.each", "+ part * self.each"),
        Slip(STAGED, "                first.wait_event(self._left[part])\n", "                pass\n"),
    ],
    cases=tuple(product((1, 2, 3), (1, 2, 3), (False, True))),
)
def a_staged_copy_moves_each_page_once_through_its_own_slot(
    source: Source, run: Run, case: tuple[int, int, bool]
) -> object:
    """Each page crosses and is laid out once, by one slot, which nobody fills before it was emptied."""
    each, parts, inward = case
    names = "Launch PagedCopy Layout nest DevicePool KVPool KVShape"
    torch = SimpleNamespace(cuda=SimpleNamespace(Event=Event))
    staged = source.module(
        STAGED, torch=torch, Tables=lambda source, target: (source, target), **unused(names)
    ).StagedCopy
    return every([staged_well(staged, each, parts, inward, count) for count in range(11)])


def staged_well(staged: Any, each: int, parts: int, inward: bool, count: int) -> bool:
    """The same for one number of pages; entry ``i`` of both tables is the page ``i``, so a page says which it is."""
    log: list[Any] = []
    side = SimpleNamespace(each=each, parts=parts, inward=inward, _left=[None] * parts, _pools=(0, 0))
    side._other = Stream("other", log)
    side._slots = SimpleNamespace(data_ptr=lambda: 0)
    side.pieces = lambda pages: staged.pieces(side, pages)
    crossing, within = [], []

    def enqueue(tables: tuple[Any, Any], stream: Stream) -> None:
        pages, slots = tables if inward else tables[::-1]
        crossing.append(Moved(tuple(map(int, pages)), tuple(map(int, slots)), stream.cuda_stream))
        log.append((stream.cuda_stream, "crosses", crossing[-1].slots))

    def kernel(_: int, __: int, entries: tuple[int, int], pages: int, *, stream: str) -> None:
        slots, at = entries if inward else entries[::-1]
        named, places = (tuple(one // 4 + entry for entry in range(pages)) for one in (at, slots))
        within.append(Moved(named, places, stream))
        log.append((stream, "lays out", within[-1].slots))

    side._across = SimpleNamespace(enqueue=enqueue)
    side._kernel = kernel
    side._enqueue = lambda *given: staged._enqueue(side, *given)
    side._cross = lambda *given: staged._cross(side, *given)
    side._within = lambda *given: staged._within(side, *given)
    table = SizedTables(numpy.arange(count), numpy.arange(count), (0, 0))
    staged.enqueue(side, table, Stream("caller", log))
    pages = [
        [(entry, slot) for one in steps for entry, slot in zip(one.entries, one.slots, strict=True)]
        for steps in (crossing, within)
    ]
    right = pages[0] == pages[1] and [entry for entry, _ in pages[0]] == list(range(count))
    return right and all(0 <= slot < each * parts for _, slot in pages[0]) and emptied_first(log, parts)


class SizedTables(NamedTuple):
    """Page tables of a staged copy."""

    source: Any
    target: Any
    addresses: tuple[int, int]

    def __len__(self) -> int:
        return len(self.source)


def emptied_first(log: list[Any], parts: int) -> bool:
    """Whether each slot is filled only after a wait for an event that was recorded when it had been emptied."""
    last_use: dict[int, Any] = {}
    waited: set[Any] = set()
    used: list[int] = []
    for who, what, about in log:
        if what == "waits for":
            waited.add((who, about))
        elif what == "records":
            for slot in used if who == "caller" else []:
                last_use[slot] = about
            used = [] if who == "caller" else used
        else:
            if who == "other" and any(slot in last_use and ("other", last_use[slot]) not in waited for slot in about):
                return False
            used = list(about)
    return bool(parts)


# Page tables on their way to the device

ENTRIES = 8


@proof(
    "TIER-08",
    bounds="any four copies, one after the other, in a ring of eight entries",
    slips=[
        Slip(LANE, "start = self._position if size <= left else self._position + left", "start = self._position"),
        Slip(
            LANE,
            "self._held[0].start < self._position - self._entries:",
            "self._held[0].start + 1 < self._position - self._entries:",
        ),
    ],
)
def no_copy_writes_over_tables_that_are_read(source: Source, run: Run, case: None) -> object:
    """A copy's tables are in one row, and apart from those of every copy that was not waited for."""
    names = "torch driver PageCopy FlagRow LayerFlags on_device pinned Tables Worker PageArray"
    module = source.module(LANE, jitted=lambda function: function, **unused(names))
    lane = SimpleNamespace(_entries=ENTRIES, _position=0, _held=deque())
    claims: list[object] = []
    for number in range(4):
        size = run.number(f"size{number}", 1, ENTRIES + 1)
        start = module.Lane._room(lane, size)
        claims.append(start % ENTRIES + size <= ENTRIES)
        for other in lane._held:
            claims.append(some([other.start + other.size <= start, start + size <= other.start]))
            claims.append(start + size - other.start <= ENTRIES)
        lane._held.append(SimpleNamespace(start=start, size=size, ticket=SimpleNamespace(forget=lambda: None)))
    return every(claims)


@proof(
    "TIER-08",
    bounds="every page of 32 bits, at most three; pools of five and of 2**31-1 pages",
    slips=[
        Slip(LANE, "signs |= sources[i] | (last - sources[i])", "signs |= (last - sources[i])"),
        Slip(
            LANE,
            "last, final = np.int32(source_limit - 1), np.int32(target_limit - 1)",
            "last, final = np.int32(source_limit), np.int32(target_limit - 1)",
        ),
        Slip(LANE, "ring[at + count : at + 2 * count] = targets", "ring[at + count : at + 2 * count] = sources"),
        Slip(LANE, "            return count + i\n", "            return i\n"),
    ],
    cases=tuple(product((1, 2, 3), ((5, 5), (5, (1 << 31) - 1)))),
)
def page_tables_are_written_and_looked_at(source: Source, run: Run, case: tuple[int, tuple[int, int]]) -> object:
    """Both tables are in the ring, one behind the other; told is the first page that is not there, if there is one."""
    count, limits = case
    names = "torch driver PageCopy FlagRow LayerFlags on_device pinned Tables Worker PageArray"
    module = source.module(LANE, jitted=lambda function: function, np=Numpy(run), **unused(names))
    given = [[wide(run, f"{side}{at}") for at in range(count)] for side in ("from", "to")]
    ring = Cells(run, "int32", [0] * (2 * count + 2))
    wrong = module.fill_table(ring, 1, *given, *limits)
    written = [a is b for a, b in zip(ring.cells[1:-1], [*given[0], *given[1]], strict=True)]
    right = [every([page >= 0, page < limit]) for pages, limit in zip(given, limits, strict=True) for page in pages]
    if wrong == -1:
        return every([*written, *right])
    return every([*written, *right[:wrong], alike(right[wrong], False)])


def wide(run: Run, name: str) -> Term:
    """A page of 32 bits, as compiled code calculates with it."""
    return Term(z3.SignExt(32, run.bits(name, 32).formula), run)
