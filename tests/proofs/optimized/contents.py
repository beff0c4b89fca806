"""A page as storage sees it: which bytes of a host pool it is made of, whatever the layout."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from types import SimpleNamespace
from typing import Any, NamedTuple

import z3

from tests.proofs.optimized.addresses import LAYOUT, LAYOUTS, MOST_PAGES, SHAPES, Shape, offset_of, whole
from tests.proofs.optimized.claims import proof
from tests.proofs.optimized.transfers import POOLS, READ, unused
from tests.proofs.support.search import Run, every
from tests.proofs.support.source import Slip, Source

PAGES = "kvlitmus.optimized.data.pages"


class Bytes(NamedTuple):
    """A run of bytes: how many there are, and where each one is; of contents that are handed in, its own number."""

    size: Any
    where: Callable[[Any], Any]
    readonly: bool = False

    def cast(self, kind: str) -> Bytes:
        assert kind == "B"
        return self

    def numpy(self) -> Bytes:
        return self

    def toreadonly(self) -> Bytes:
        return self._replace(readonly=True)

    def view(self, shape: tuple[int, ...]) -> View:
        """The same bytes in rows."""
        steps = [1]
        for extent in reversed(shape[1:]):
            steps.insert(0, steps[0] * extent)
        return View(None, shape, tuple(steps), 0)


class Buffer:
    """The bytes of a pool.  ``written``: which of them were, and with what."""

    def __init__(self) -> None:
        self.written: list[tuple[Bytes, Bytes]] = []

    def __getitem__(self, part: slice) -> Bytes:
        return Bytes(part.stop - part.start, lambda byte: whole(part.start) + byte)

    def __setitem__(self, part: slice, contents: Bytes) -> None:
        self.written.append((self[part], contents))

    def as_strided(self, sizes: tuple[int, ...], steps: tuple[int, ...]) -> View:
        return View(self, sizes, steps, 0)

    def cast(self, kind: str) -> Buffer:
        assert kind == "B"
        return self

    def numpy(self) -> Buffer:
        return self


class View:
    """Bytes in rows of rows, from a place on."""

    def __init__(self, of: Buffer | None, shape: tuple[int, ...], steps: tuple[int, ...], begin: Any) -> None:
        self.of, self.shape, self.steps, self.begin = of, shape, steps, begin

    def __getitem__(self, number: Any) -> View:
        """One of the outermost rows."""
        return View(self.of, self.shape[1:], self.steps[1:], self.begin + whole(number) * self.steps[0])

    def contiguous(self) -> View:
        return self

    def view(self, size: int) -> Bytes:
        """All of its bytes, row by row."""
        assert size == -1
        total = 1
        for extent in self.shape:
            total *= extent

        def where(byte: Any) -> Any:
            found, rest = self.begin, byte
            for extent, step in zip(reversed(self.shape), reversed(self.steps), strict=True):
                found, rest = found + rest % extent * step, rest / extent
            return found

        return Bytes(total, where)

    def copy_(self, other: View) -> None:
        assert self.of is not None and self.shape == other.shape
        self.of.written.append((self.view(-1), other.view(-1)))


class HostPages(NamedTuple):
    """A pool in host memory, and one byte of one of its pages."""

    pages: Any
    pool: Any
    page: Any
    byte: Any
    place: Any
    """Where the layout has it."""


def host_pages(source: Source, run: Run, case: tuple[str, str]) -> HostPages:
    """A pool of any page number, and a byte of the canonical order: component, layer, token, head."""
    shape, name = SHAPES[case[0]], case[1]
    layout = source.module(LAYOUT, KVShape=Shape)
    strides = layout.strides(name, shape, MOST_PAGES)
    pools = source.module(
        POOLS, Strides=layout.Strides, strides=layout.strides, **unused("torch mmap numa Layout KVShape")
    )
    pool = SimpleNamespace(shape=shape, strides=strides, pages=MOST_PAGES, buffer=Buffer(), layout=name)
    pool.canonical = lambda: pools.KVPool.canonical(pool)
    limits = {"component": shape.components, "layer": shape.layers, "token": shape.page_size, "head": shape.heads}
    limits["byte"] = shape.head_bytes
    page, byte = run.number("page"), z3.IntVal(0)
    index = {"page": whole(page)}
    for axis, limit in limits.items():
        index[axis] = whole(run.number(axis, 0, limit))
        byte = byte * limit + index[axis]
    torch = SimpleNamespace(frombuffer=writable, uint8=0)
    stand_ins: dict[str, Any] = {
        "memoryview": lambda one: one,
        "bytearray": copied,
        "len": lambda one: one.size,
        "torch": torch,
    }
    return HostPages(source.module(PAGES, **stand_ins, **unused("KVPool")), pool, page, byte, offset_of(index, strides))


def copied(contents: Bytes) -> Bytes:
    """A copy can be written to."""
    return contents._replace(readonly=False)


def writable(contents: Bytes, *, dtype: int) -> Bytes:
    """A tensor over these bytes: torch warns of bytes that are read-only."""
    assert dtype == 0 and not contents.readonly
    return contents


HOST_PAGES = tuple(product(READ, LAYOUTS))


@proof(
    "BACKUP-06",
    bounds="every page number and every byte of three shapes, in each layout; pools of 2**31 pages",
    slips=[
        Slip(
            PAGES,
            "found = pool.buffer[page * size : (page + 1) * size]",
            "found = pool.buffer[page : page + size]",
            case=2,
        ),
        Slip(PAGES, "found = pool.canonical()[page].", "found = pool.canonical()[0]."),
        Slip(PAGES, "if not 0 <= page < pool.pages:", "if not 0 <= page <= pool.pages:"),
        Slip(PAGES, '.cast("B").toreadonly()', '.cast("B")'),
        Slip(POOLS, "(step.page, step.component, step.layer,", "(step.page, step.layer, step.component,"),
    ],
    cases=HOST_PAGES,
)
def a_page_is_read_as_its_canonical_bytes(source: Source, run: Run, case: tuple[str, str]) -> object:
    """Each byte at its place in the order of storage, whatever the layout; a page that is not there is refused."""
    made = host_pages(source, run, case)
    there = bool(made.page >= 0) and bool(made.page < MOST_PAGES)
    try:
        found = made.pages.read_page(made.pool, made.page)
    except IndexError:
        return not there
    size = found.size == SHAPES[case[0]].page_bytes
    return every([there, size, found.readonly, found.where(made.byte) == made.place])


@proof(
    "TIER-08",
    bounds="every page number, every length of contents, every byte of three shapes, in each layout; 2**31 pages",
    slips=[
        Slip(
            PAGES,
            "[page * size : (page + 1) * size] = given",
            "[page * size : page * size + 1] = given",
            case=2,
        ),
        Slip(PAGES, "    target = pool.canonical()[page]\n", "    target = pool.canonical()[page + 1]\n"),
        Slip(PAGES, "if len(given) != size:", "if len(given) > size:", case=2),
        Slip(PAGES, "bytearray(given) if given.readonly else given", "given"),
    ],
    cases=HOST_PAGES,
)
def a_page_is_written_from_its_canonical_bytes(source: Source, run: Run, case: tuple[str, str]) -> object:
    """Each byte of the contents to its place, and no other; contents of another length and other pages are refused."""
    made = host_pages(source, run, case)
    size, there = SHAPES[case[0]].page_bytes, bool(made.page >= 0) and bool(made.page < MOST_PAGES)
    contents = Bytes(run.number("length", 0), lambda byte: byte, run.whether("readonly"))
    written = made.pool.buffer.written
    try:
        made.pages.write_page(made.pool, made.page, contents)
    except IndexError:
        return not there and not written
    except ValueError:
        return every([there, not written, contents.size != size])
    ((target, given),) = written
    sizes = [target.size == size, given.size == size]
    return every([there, *sizes, target.where(made.byte) == made.place, given.where(made.byte) == made.byte])
