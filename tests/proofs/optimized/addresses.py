"""The addresses of copies: where layouts put things, and that a kernel moves every unit of a page to its place, once.

Shapes are known numbers here, for a kernel is compiled for them; pages, places in page tables, how many pages are
copied, and the program, turn and lane of the kernel are not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol

import z3

from tests.proofs.optimized.claims import proof
from tests.proofs.support.search import Run, every, implies
from tests.proofs.support.source import Slip, Source
from tests.proofs.support.terms import plain
from tests.proofs.support.tiles import Address, Bits, Lane, Triton, Wholes, word_of

LAYOUT = "kvlitmus.optimized.data.layout"
KERNELS = "kvlitmus.optimized.data.kernels"
JIT = "kvlitmus.optimized.data.jit"

MOST_PAGES = 1 << 31
"""Pages of a pool are fewer: their numbers have 32 bits."""


class Shape(NamedTuple):
    """What :class:`kvlitmus.optimized.data.shape.KVShape` says, in bytes alone."""

    name: str
    layers: int
    heads: int
    head_bytes: int
    page_size: int
    components: int = 2

    @property
    def page_bytes(self) -> int:
        return self.components * self.layers * self.page_size * self.heads * self.head_bytes


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("8 heads of 128 bf16", 32, 8, 256, 64),
        Shape("MLA of 576 bf16", 61, 1, 1152, 64, 1),
        Shape("MLA of 656 bytes", 61, 1, 656, 64, 1),
        Shape("MLA of 576 fp8, page of one", 27, 1, 576, 1, 1),
        Shape("a head of 80 fp16", 28, 1, 160, 16),
        Shape("three heads of 5 bytes", 3, 3, 5, 3),
        Shape("a head of 3 fp16, two of all", 2, 2, 6, 2),
    )
}
LAYOUTS = ("layer_first", "page_first", "page_first_direct", "page_head")
PAIRS = [(one, other) for one, other in product(LAYOUTS, LAYOUTS) if "layer_first" in (one, other)]
"""Copies between a device pool and a host pool; those of a stage and a pool are among them."""


class Copied(NamedTuple):
    """One kind of copy: of what, from which layout to which, layer by layer or not; and how the kernel is launched."""

    shape: str
    source: str
    target: str
    by_layer: bool
    programs: int = 4
    tile: int = 4096


def index_of(offset: Any, strides: Any, shape: Shape, pages: int) -> dict[str, Any]:
    """Which element's byte is at an offset: its index along each axis, worked out from the strides, largest first."""
    extents = {
        "page": pages,
        "component": shape.components,
        "layer": shape.layers,
        "token": shape.page_size,
        "head": shape.heads,
    }
    found: dict[str, Any] = {}
    for axis in sorted(extents, key=lambda axis: (strides._asdict()[axis], extents[axis]), reverse=True):
        if extents[axis] == 1:
            found[axis] = z3.IntVal(0)
            continue
        step = strides._asdict()[axis]
        found[axis] = offset / step
        offset = offset - found[axis] * step
    return {**found, "byte": offset}


def offset_of(index: dict[str, Any], strides: Any) -> Any:
    """Where an element's byte is."""
    return sum([index[axis] * step for axis, step in strides._asdict().items()]) + index["byte"]


# Layouts


@proof(
    "TIER-08",
    bounds="every page and element of the shapes; pools of 2**31 pages",
    slips=[
        Slip(LAYOUT, "        step *= extent[axis]\n", "        step *= shape.heads\n"),
        Slip(LAYOUT, '"page_head": "pchtl"', '"page_head": "pchtt"'),
        Slip(LAYOUT, 'found["t"], found["h"])', 'found["h"], found["t"])'),
    ],
    cases=tuple(product(SHAPES, LAYOUTS)),
)
def no_two_elements_share_an_address(source: Source, run: Run, case: tuple[str, str]) -> object:
    """Each element has its own place within the pool, and the place says which element it is."""
    shape, pages = SHAPES[case[0]], MOST_PAGES
    strides = source.module(LAYOUT, KVShape=Shape).strides(case[1], shape, pages)
    limits = {
        "page": pages,
        "component": shape.components,
        "layer": shape.layers,
        "token": shape.page_size,
        "head": shape.heads,
        "byte": shape.head_bytes,
    }
    index = {axis: plain(run.number(axis, 0, limit)) for axis, limit in limits.items()}
    offset = offset_of(index, strides)
    end = pages * shape.page_bytes
    back = index_of(z3.IntVal(offset) if isinstance(offset, int) else offset, strides, shape, pages)
    return every([offset >= 0, offset < end, end < 1 << 62, *[back[axis] == value for axis, value in index.items()]])


# The kernel


class Copying(Protocol):
    """What a copy is: between which strides, by which loops, and of how many units of a page (and of a layer)."""

    @property
    def shape(self) -> Shape:
        """What a page holds."""

    @property
    def strides(self) -> Sequence[Any]:
        """Those of the source, and those of the target."""

    @property
    def loops(self) -> Any:
        """The plan of the copy."""

    @property
    def page_units(self) -> int:
        """Accesses to a page."""


class Digits:
    """A unit as the digits of its number: the place of its page, its index along each axis, its place within a chunk.

    Each axis has the factor that the loops of the copy give it; what both sides have in one run is one digit.  That
    these are the factors of digits, so that each unit has its own and all of them are taken, is shown by counting; that
    the loops lead there, by the proof.
    """

    def __init__(self, run: Run, made: Copying) -> None:
        shape, loops = made.shape, made.loops
        self.turns = [z3.IntVal(0) for _ in loops.axes]
        """The index of each loop of the copy."""
        self.unit_bytes, self.chunk = loops.unit, loops.chunk
        extents = {"component": shape.components, "token": shape.page_size, "head": shape.heads, "layer": shape.layers}
        layers = extents.pop("layer") if loops.layer else 1
        factors = {}
        for axis, extent in extents.items():
            steps = [getattr(strides, axis) for strides in made.strides]
            if extent > 1 and (steps[0] != steps[1] or steps[0] >= loops.chunk):
                loop, times, factors[axis] = self.factor(loops, steps)
                self.turns[loop] += whole(run.number(axis, 0, extent)) * times
        factors["byte"], extents["byte"] = 1, loops.chunk // loops.unit
        expected = 1
        for axis, factor in sorted(factors.items(), key=lambda one: (one[1], extents[one[0]])):
            assert factor == expected, f"{factors} are not the factors of digits"
            expected *= extents[axis]
        assert expected == made.page_units, f"{expected} units of a page, not {made.page_units}"
        assert expected * loops.unit * layers == shape.page_bytes, "the units are not all bytes of a page"
        self.digits = {axis: whole(run.number(axis, 0, extents[axis])) for axis in factors}
        self.place = whole(run.number("place", 0, MOST_PAGES))
        self.unit = self.place * expected + z3.Sum([self.digits[axis] * factor for axis, factor in factors.items()])

    @staticmethod
    def factor(loops: Any, steps: list[int]) -> tuple[int, int, int]:
        """Which loop goes along an axis, how often for one step, and through how many units until then."""
        inner = loops.chunk // loops.unit
        for number, loop in reversed(list(enumerate(loops.axes))):
            times = steps[0] // loop.source
            if 0 < times < loop.extent and steps == [times * loop.source, times * loop.target]:
                return number, times, times * inner
            inner *= loop.extent
        raise AssertionError(f"no loop has these steps: {steps}")

    def index(self, layer: Any, within: Any) -> dict[str, Any]:
        """Which element this is, the first of its chunk, and which byte from there on."""
        found = {axis: self.digits.get(axis, z3.IntVal(0)) for axis in ("component", "token", "head")}
        byte = self.digits["byte"] * self.unit_bytes + within
        return {**found, "layer": self.digits.get("layer", layer), "byte": byte}


def whole(number: Any) -> Any:
    """A number as a formula."""
    value = plain(number)
    return z3.IntVal(value) if isinstance(value, int) else value


class Launched:
    """A copy by the kernel: its own source, called by its own host code, for one lane."""

    def __init__(
        self,
        source: Source,
        run: Run,
        case: Copied,
        kind: Any,
        *,
        pages: int = MOST_PAGES,
        mark: str = "",
        signal: bool = False,
    ) -> None:
        self.shape = SHAPES[case.shape]
        layout = source.module(LAYOUT, KVShape=Shape)
        self.strides = [layout.strides(name, self.shape, pages) for name in (case.source, case.target)]
        self.pages = pages
        self.run, self.kind, self.mark = run, kind, mark
        self.entries: list[Any] = []
        """The pages that the tables have for this lane."""
        self.loops = layout.nest(self.shape, *self.strides, by_layer=case.by_layer)
        drivers = {"context_of": None, "LoadedKernel": None}
        host = source.module(KERNELS, Nest=object, Axis=layout.Axis, range=self.one_launch, **drivers)
        launch = host.Launch(case.programs, 8, case.tile)
        self.signals = host.Signals(0, 0, 7) if signal else None
        self.copy = host.PagedCopy(self.loops, launch, signal=signal)
        self.copy.__dict__["_run"] = self.kernel
        self.tile = Triton(kind, case.programs, {"source table": self.entry, "target table": self.entry}, mark)
        plain_functions = SimpleNamespace(jit=lambda function: function)
        self.jit = source.module(JIT, tl=self.tile, triton=plain_functions, range=self.tile.range)

    def start(self, count: Any, unit: Any = None) -> Launched:
        """Copy so many pages, and look at what a lane does: any, or that of a unit."""
        self.tile.unit = unit
        self.copy(0, 0, (0, 0), count, signals=self.signals)
        self.places = [one.offset for one in self.tile.accesses if one.region.endswith("table")]
        (self.stored,) = [one for one in self.tile.accesses if one.kind == "store" and one.region == "target"]
        return self

    @property
    def page_units(self) -> int:
        """As the launch counts them."""
        return int(self.copy._units)

    def one_launch(self, start: int, stop: Any, step: int) -> Iterator[Any]:
        """Any one of the launches that a copy is split into."""
        if isinstance(self.kind, Bits):
            yield start
            return
        number = self.run.number("launch", 0)
        self.run.assume(start + number * step < stop)
        yield start + number * step

    def entry(self, offset: Any, taken: Any) -> Any:
        """A page of a table, if the lane takes part: any that the pool has."""
        page = self.kind.unknown(f"page{len(self.entries)}{self.mark}", 32)
        self.run.assume(implies(taken, z3.And(page >= 0, page < min(self.pages, MOST_PAGES - 1))))
        self.entries.append(page)
        return page

    def kernel(self, *given: Any, stream: int) -> None:
        """Launch: what is known of the arguments is their region."""
        assert stream == 0
        begin, end, sources, targets, count, layers, counters, flags, epoch = given
        regions = {"source": begin, "target": end, "source table": sources, "target table": targets}
        addresses = [Address(name, word_of(self.kind, value, 64)) for name, value in regions.items()]
        numbers = [self.counted(count), word_of(self.kind, layers, 32)]
        said = [Address(name, word_of(self.kind, at, 64)) for name, at in (("counters", counters), ("flags", flags))]
        values = self.copy._constants.values()
        self.jit.paged_copy(*addresses, *numbers, *said, word_of(self.kind, epoch, 32), *values)

    def counted(self, count: Any) -> Lane:
        """The number of pages of this launch."""
        if isinstance(self.kind, Wholes):
            return word_of(self.kind, count, 32)
        value = self.kind.unknown("count", 32)
        self.run.assume(z3.And(value >= 0, value <= self.copy.most))
        return Lane(self.kind, value, 32)


QUICK = [
    Copied("8 heads of 128 bf16", "page_first_direct", "layer_first", True),
    Copied("8 heads of 128 bf16", "layer_first", "page_head", False),
    Copied("MLA of 576 bf16", "page_first", "layer_first", True),
    Copied("MLA of 656 bytes", "layer_first", "page_first_direct", False),
    Copied("MLA of 576 fp8, page of one", "page_first", "layer_first", False, 264, 2048),
    Copied("three heads of 5 bytes", "page_head", "layer_first", True, 3, 64),
    Copied("a head of 3 fp16, two of all", "layer_first", "page_first", False, 2, 32),
]
ALL = [Copied(shape, *pair, by_layer) for shape in SHAPES for pair in PAIRS for by_layer in (False, True)]
ALL += [copy._replace(programs=264, tile=2048) for copy in ALL]
SLIPS = [
    Slip(JIT, "chunk = unit % PER_PAGE // CHUNK", "chunk = unit // CHUNK"),
    Slip(JIT, "i_1 = (number // (EXTENT_3 * EXTENT_2) % EXTENT_1)", "i_1 = (number // EXTENT_3 % EXTENT_1)"),
    Slip(JIT, "layer * TARGET_LAYER + unit % CHUNK", "layer * SOURCE_LAYER + unit % CHUNK"),
    Slip(JIT, "SOURCE_0, SOURCE_1, SOURCE_2, SOURCE_3)", "SOURCE_0, SOURCE_1, SOURCE_3, SOURCE_2)"),
]


@proof(
    "TIER-08",
    bounds="the shapes and layouts listed; any count of pages below 2**31, any page, program, turn and lane",
    slips=[
        *SLIPS,
        Slip(KERNELS, '"TARGET_PAGE": loops.page.target // unit', '"TARGET_PAGE": loops.page.source // unit'),
        Slip(KERNELS, "tables[1] + 4 * first", "tables[1] + first"),
        Slip(LAYOUT, "        chunk *= found.extent\n", ""),
    ],
    cases=QUICK,
    more=ALL,
)
def a_kernel_moves_each_unit_to_its_place(source: Source, run: Run, case: Copied) -> object:
    """What a lane reads and writes is the same byte of the same element, of the pages that stand beside each other."""
    count = run.number("pages", 0, MOST_PAGES)
    made = Launched(source, run, case, Wholes(run))
    digits = Digits(run, made)
    made.start(count, digits.unit)
    read, write, size = made.stored.value.offset.value, made.stored.offset, made.stored.size
    layer, word = made.tile.lanes[0], made.tile.lanes[-1]
    index = digits.index(layer, word * size)
    ends = plain(count) * 4
    tables = [z3.And(place >= 0, place + 4 <= ends, place % 4 == 0) for place in made.places]
    beside = made.places[0] == made.places[1]
    moved = [
        at == offset_of({**index, "page": page}, strides)
        for at, page, strides in zip((read, write), made.entries, made.strides, strict=True)
    ]
    within = [index["byte"] >= 0, index["byte"] + size <= made.loops.chunk, made.stored.value.size == size]
    inside = [layer >= 0, layer < made.shape.layers]
    return implies(made.stored.mask, every([*tables, beside, *moved, *within, *inside]))


@proof(
    "TIER-08",
    bounds="the shapes and layouts listed; any two lanes of one launch of as many pages as a launch can have",
    slips=[
        Slip(JIT, "range(tl.program_id(0) * TILE, total,", "range(tl.program_id(0), total,"),
        Slip(JIT, "total, tl.num_programs(0) * TILE)", "total, TILE)"),
        Slip(JIT, "inside = unit < total", "inside = unit < total - 1"),
    ],
    cases=[QUICK[0], QUICK[5]],
    more=QUICK,
)
def each_unit_is_moved_by_one_lane(source: Source, run: Run, case: Copied) -> object:
    """No two lanes of a launch have one unit, and there is a lane for each unit that there is."""
    kind = Wholes(run)
    one, other = (Launched(source, run, case, kind, mark=mark) for mark in ("", "'"))
    units, layers = [], []
    for launched in (one, other):
        launched.start(launched.copy.most)
        layer, _, _, lane, _ = launched.tile.lanes
        layers.append(layer)
        units.append(launched.tile.at + lane)
    same = every([units[0] == units[1], layers[0] == layers[1], one.tile.lanes[-1] == other.tile.lanes[-1]])
    alike = every([a == b for a, b in zip(one.tile.lanes, other.tile.lanes, strict=True)])
    unit = run.number("unit", 0, one.copy.most * one.copy._units)
    tile, programs = case.tile, case.programs
    parts = (unit // tile % programs, unit // (tile * programs), unit % tile)
    there = one_lane(source, run, case, plain(unit), [plain(part) for part in parts])
    return every([implies(every([one.stored.mask, other.stored.mask, same]), alike), there])


def one_lane(source: Source, run: Run, case: Copied, unit: Any, parts: list[Any]) -> object:
    """Whether the lane of this program, in this turn and at this place of the tile, has this unit, and takes part."""
    made = Launched(source, run, case, Wholes(run), mark="''")
    made.tile.fixed = dict(zip(("program", "turn2", "lane3"), parts, strict=True))
    made.start(made.copy.most)
    return every([made.tile.at + made.tile.lanes[3] == unit, made.stored.mask])


@proof(
    "TIER-08",
    bounds="the shapes and layouts listed; bit-vectors of 32 and 64 bits, launches of as many pages as are allowed",
    slips=[
        Slip(KERNELS, "self.most = (_LARGEST - step) // self._units", "self.most = _LARGEST // self._units", case=2),
        Slip(KERNELS, "_LARGEST = (1 << 31) - 1", "_LARGEST = (1 << 32) - 1", case=2),
        Slip(JIT, "mask=inside, other=0).to(tl.int64) * STRIDE", "mask=inside, other=0) * STRIDE"),
    ],
    cases=QUICK,
    more=ALL,
)
def no_number_of_a_kernel_overflows(source: Source, run: Run, case: Copied) -> object:
    """What is owed on the way is all that is claimed: no result leaves its width, every division rounds as C's does."""
    Launched(source, run, case, Bits(run), pages=1 << 26).start(1)
    return True


@proof(
    "LOAD-06",
    bounds="every layer and program; what a program finds in a counter is below the number of programs",
    slips=[
        Slip(JIT, "if before == tl.num_programs(0) - 1:", "if before == tl.num_programs(0) - 2:"),
        Slip(JIT, "        tl.atomic_xchg(counting, 0,", "        tl.atomic_xchg(counting, 1,"),
        Slip(JIT, "flags + 4 * layer, epoch)", "flags + layer, epoch)"),
        Slip(JIT, "    tl.debug_barrier()\n", ""),
    ],
    cases=[QUICK[0], QUICK[2]],
)
def the_last_program_of_a_layer_writes_its_flag(source: Source, run: Run, case: Copied) -> object:
    """Behind its last store and a barrier; it and no other, and the counter begins anew."""
    made = Launched(source, run, case, Wholes(run), signal=True).start(1)
    layer = made.tile.lanes[0]
    behind = made.tile.accesses[made.tile.accesses.index(made.stored) + 1 :]
    if [one.kind for one in behind[:2]] != ["barrier", "add"]:
        return False
    counted, *told = behind[1:]
    last = bool(run.number("before") == case.programs - 1)
    if not last:
        return every([not told, counted.offset == 4 * layer])
    if [(one.kind, one.region) for one in told] != [("set", "counters"), ("store", "flags")]:
        return False
    zeroed, flag = told
    at = [one.offset == 4 * layer for one in (counted, zeroed, flag)]
    inside = z3.And(layer >= 0, 4 * layer + 4 <= 4 * made.shape.layers)
    return every([*at, inside, zeroed.value == 0, flag.value == 7, flag.size == 4])
