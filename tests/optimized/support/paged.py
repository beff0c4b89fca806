"""Pages that are copied, and what must be in both pools afterwards, found without any code of the data plane.

A pool's bytes are seen here through numpy: reshaped by the order of the axes that the layout's documentation gives, and
transposed.  Every byte of both pools is random before a copy; afterwards every byte is compared, also those of pages
that had no part in it and of layers that were not copied.

Run as a script under ``TRITON_INTERPRET=1`` it makes the copies by the kernels, in Triton's interpreter, and prints how
many there were (the variable must be set before Triton is imported, hence a process of its own).
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from kvlitmus.optimized.data.copies import PageCopy
from kvlitmus.optimized.data.kernels import Launch, Signals
from kvlitmus.optimized.data.layout import LAYOUTS, Layout
from kvlitmus.optimized.data.pools import DevicePool, HostPool, KVPool
from kvlitmus.optimized.data.shape import DTYPES, KVShape

AXES: dict[str, str] = {
    "layer_first": "clpth",
    "page_first": "pctlh",
    "page_first_direct": "pclth",
    "page_head": "pchtl",
}
"""The axes component, layer, page, token and head, outermost first."""

PAIRS: list[tuple[Layout, Layout]] = list(itertools.product(LAYOUTS, LAYOUTS))
ELEMENTS = [name for name in DTYPES if name != "bytes"]


class Row(NamedTuple):
    """A class of row sizes: what a row is made of.  ``dtypes``: which element types it is for."""

    name: str
    kind: str
    heads: int
    head_dim: int
    dtypes: tuple[str, ...] = tuple(ELEMENTS)


ROWS = (
    Row("gqa", "mha", 2, 16),  # heads of 16, 32 or 64 bytes: wide accesses throughout
    Row("odd", "mha", 3, 5),  # heads of 5, 10 or 20 bytes: no wide access is aligned
    Row("one-head", "mha", 1, 12),
    Row("latent-576", "mla", 1, 576, ("bf16", "fp16", "fp8_e4m3")),
    Row("latent-656", "mla", 1, 656, ("bytes",)),  # 512 fp8 numbers, 4 scales, 64 bf16 numbers
)

Bytes = npt.NDArray[np.uint8]


def shape_of(row: Row, dtype: str, page_size: int, layers: int = 3) -> KVShape:
    """The shape of pages with such rows."""
    kind: Any = row.kind
    return KVShape(
        kind=kind, layers=layers, heads=row.heads, head_dim=row.head_dim, dtype=DTYPES[dtype], page_size=page_size
    )


def contents(pool: KVPool) -> Bytes:
    """All bytes of a pool as ``[page, component, layer, token, head, byte]``; a view, if it is in host memory."""
    shape = pool.shape
    extent = {"c": shape.components, "l": shape.layers, "p": pool.pages, "t": shape.page_size, "h": shape.heads}
    order = AXES[pool.layout]
    plain: Bytes = pool.buffer.cpu().numpy().reshape([extent[axis] for axis in order] + [shape.head_bytes])
    return plain.transpose([order.index(axis) for axis in "pclth"] + [5])


def fill(pool: KVPool, seed: int) -> None:
    """Random bytes everywhere."""
    noise = np.random.default_rng(seed).integers(0, 256, pool.buffer.numel(), dtype=np.uint8)
    pool.buffer.copy_(torch.from_numpy(noise))


Copying = Callable[[npt.NDArray[np.int32], npt.NDArray[np.int32], int, int], None]
"""Called with source pages, target pages and the layers from, up to; the copy is complete on return."""


def check(
    source: KVPool, target: KVPool, copying: Copying, pages: tuple[Any, Any], *, lo: int, hi: int, seed: int = 0
) -> None:
    """Make a copy and compare every byte of both pools."""
    fill(source, seed)
    fill(target, seed + 1)
    before, expected = contents(source).copy(), contents(target).copy()
    from_pages, to_pages = (np.asarray(some, np.int32) for some in pages)
    for one, other in zip(from_pages, to_pages, strict=True):
        expected[other, :, lo:hi] = before[one, :, lo:hi]
    copying(from_pages, to_pages, lo, hi)
    assert np.array_equal(contents(target), expected), "the target is not as it must be"
    assert np.array_equal(contents(source), before), "the source has changed"


def some_pages(rng: np.random.Generator, source: KVPool, target: KVPool, count: int) -> tuple[Any, Any]:
    """Different pages of both pools, in no order, two of them neighbours on both sides."""
    one, other = rng.permutation(source.pages - 1)[:count], rng.permutation(target.pages - 1)[:count]
    one, other = one[one != one[0] + 1], other[other != other[0] + 1]
    least = min(len(one), len(other))
    one, other = one[:least], other[:least]
    return np.insert(one, 1, one[0] + 1), np.insert(other, 1, other[0] + 1)


def shapes(page_sizes: tuple[int, ...]) -> Iterator[tuple[str, KVShape]]:
    """Every row class with every element type that it is for."""
    for row in ROWS:
        for dtype, page_size in itertools.product(row.dtypes, page_sizes):
            yield f"{row.name} {dtype} {page_size}", shape_of(row, dtype, page_size)


def interpreted(page_sizes: tuple[int, ...], every: int = 1) -> dict[str, int]:
    """All pairs of layouts with all shapes, or one of so many, by kernels: all layers at once or by layer."""
    rng = np.random.default_rng(7)
    counts = {"copies": 0, "units": 0}
    units = set()
    launch = Launch(programs=3, warps=1, tile=64)
    for (name, shape), (one, other) in itertools.islice(itertools.product(shapes(page_sizes), PAIRS), 0, None, every):
        source, target = DevicePool(shape, 5, layout=one), HostPool(shape, 6, layout=other, pinned=False)
        by_layer = bool(rng.integers(2))
        copy = PageCopy(source, target, engine="kernel", launch=launch, by_layer=by_layer)
        counters, flags = np.zeros(3, np.int32), np.zeros(3, np.int32)

        def copying(some: Any, others: Any, lo: int, hi: int) -> None:
            tables = copy.tables(some, others)  # noqa: B023  called at once
            said = (counters.ctypes.data, flags.ctypes.data, 9) if copy.by_layer else ()  # noqa: B023
            if (lo, hi) == (0, 3):  # as transfers start it
                kernel = copy.signalling if copy.by_layer else copy.kernel  # noqa: B023
                start = kernel.bind(copy.source.address, copy.target.address)  # noqa: B023
                start(*tables.addresses, len(tables), 0, *said)
            else:
                copy.enqueue(tables, lo=lo, hi=hi, signals=Signals(*said))  # noqa: B023

        lo, hi = sorted(rng.choice(4, 2, replace=False).tolist()) if by_layer else (0, 3)
        pages = some_pages(rng, source, target, 2)
        try:
            check(source, target, copying, pages, lo=lo, hi=hi, seed=counts["copies"])
            expected = [9 * (by_layer and lo <= layer < hi) for layer in range(3)]
            assert flags.tolist() == expected, f"flags {flags} after layers {lo} to {hi}"
        except AssertionError as error:
            raise AssertionError(f"{name}: {one} to {other}, layers {lo} to {hi}: {error}") from error
        counts["copies"] += 1
        units.add(copy.loops.unit)
    counts["units"] = len(units)
    return counts


def flag_comes_last() -> None:
    """The flag lies where the last program has yet to copy to: whoever writes it too early has it overwritten.

    The interpreter runs programs one after the other; the third of three copies the first unit of the second page.
    """
    shape = shape_of(ROWS[0], "fp32", 4)
    source, target = DevicePool(shape, 3), HostPool(shape, 3, layout="layer_first", pinned=False)
    fill(source, 1)
    copy = PageCopy(source, target, engine="kernel", launch=Launch(programs=3, warps=1, tile=32), by_layer=True)
    assert shape.layer_bytes == 64 * copy.loops.unit, "a page's layer is two tiles"
    counters = np.zeros(3, np.int32)
    place = target.rows(0, 0)[2]
    tables = copy.tables(np.array([0, 1]), np.array([1, 2]))
    copy.enqueue(tables, lo=0, hi=1, signals=Signals(counters.ctypes.data, place.data_ptr(), 9))
    assert int(place.view(torch.int32).flatten()[0]) == 9, "a flag was written before the last program had copied"


def main(arguments: list[str] | None = None) -> int:
    """Run as a script."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page-sizes", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--every", type=int, default=1, help="make one of so many; an odd number meets all pairs")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    flag_comes_last()
    print(json.dumps(interpreted(tuple(given.page_sizes), given.every)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
