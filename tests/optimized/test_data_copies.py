"""Copies between pools in host memory, byte for byte: every pair of layouts, element type, page size and row size."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvlitmus.optimized.cores import compiled
from kvlitmus.optimized.data.copies import Choice, PageCopy
from kvlitmus.optimized.data.layout import LAYOUTS, Layout
from kvlitmus.optimized.data.pools import DevicePool, HostPool, KVPool
from kvlitmus.optimized.data.shape import KVShape
from tests.optimized.support import paged
from tests.support.night import by_turns


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def both(source: KVPool, target: KVPool, *, by_layer: bool) -> Iterator[PageCopy]:
    """A copy that the compiled core makes, where there is one, and one without."""
    for core in dict.fromkeys((compiled(), None)):
        copy = PageCopy(source, target, by_layer=by_layer)
        assert copy.engine == "torch" and copy.core is compiled()
        copy.core = core
        yield copy


@pytest.mark.parametrize("page_size", [1, 16, 64])
@pytest.mark.parametrize("pair", by_turns([(pair,) for pair in paged.PAIRS]), ids=lambda pair: f"{pair[0]}-{pair[1]}")
def test_every_byte(pair: tuple[Layout, Layout], page_size: int) -> None:
    rng = np.random.default_rng(page_size)
    for number, (name, shape) in enumerate(paged.shapes((page_size,))):
        source, target = DevicePool(shape, 7, layout=pair[0]), HostPool(shape, 9, layout=pair[1], pinned=False)
        for by_layer, lo, hi in ((False, 0, 3), (True, 0, 3), (True, 1, 2), (True, 2, 3)):
            pages = paged.some_pages(rng, source, target, 4)
            for copy in both(source, target, by_layer=by_layer):

                def copying(some: Any, others: Any, lo: int, hi: int, copy: PageCopy = copy) -> None:
                    copy.now(some, others, lo=lo, hi=hi)

                try:
                    paged.check(source, target, copying, pages, lo=lo, hi=hi, seed=number)
                except AssertionError as error:
                    raise AssertionError(f"{name}, layers {lo} to {hi}, by {copy.core}: {error}") from error


PAIRS_OF_PAGES = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 11)), max_size=8, unique_by=lambda pair: pair[1])


@settings(max_examples=200)
@given(
    pages=PAIRS_OF_PAGES,
    one=st.sampled_from(LAYOUTS),
    other=st.sampled_from(LAYOUTS),
    row=st.sampled_from(paged.ROWS),
    head_dim=st.integers(1, 40),
    page_size=st.sampled_from([1, 2, 5, 16]),
    layers=st.sampled_from([(0, 3), (0, 1), (1, 3), (2, 3)]),
    seed=st.integers(0, 99),
)
def test_any_pages(
    pages: list[tuple[int, int]],
    one: Layout,
    other: Layout,
    row: paged.Row,
    head_dim: int,
    page_size: int,
    layers: tuple[int, int],
    seed: int,
) -> None:
    """Any set of pages: none, runs, one source for several targets, in any order."""
    shape = paged.shape_of(row._replace(head_dim=head_dim), row.dtypes[0], page_size)
    source, target = HostPool(shape, 10, layout=one, pinned=False), DevicePool(shape, 12, layout=other)
    some = ([pair[0] for pair in pages], [pair[1] for pair in pages])
    for copy in both(source, target, by_layer=True):

        def copying(a: Any, b: Any, lo: int, hi: int, copy: PageCopy = copy) -> None:
            copy.now(a, b, lo=lo, hi=hi)

        paged.check(source, target, copying, some, lo=layers[0], hi=layers[1], seed=seed)


@pytest.mark.parametrize("by_layer", [False, True])
@pytest.mark.parametrize("pair", paged.PAIRS, ids=lambda pair: f"{pair[0]}-{pair[1]}")
def test_what_the_copy_engine_is_told(pair: tuple[Layout, Layout], by_layer: bool) -> None:
    """Carry the descriptors out by ``memmove``: the same bytes, in as few pieces as can be."""
    shape = paged.shape_of(paged.ROWS[0], "bf16", 4)
    source, target = DevicePool(shape, 9, layout=pair[0]), HostPool(shape, 9, layout=pair[1], pinned=False)
    copy = PageCopy(source, target, by_layer=by_layer)
    counts = []

    def copying(some: Any, others: Any, lo: int, hi: int) -> None:
        targets, sources, sizes = copy.descriptors(copy.tables(some, others), lo, hi)
        counts.append(len(sizes))
        for to, start, size in zip(targets.tolist(), sources.tolist(), sizes.tolist(), strict=True):
            ctypes.memmove(to, start, size)

    lo, hi = (1, 3) if by_layer else (0, 3)
    paged.check(source, target, copying, ([2, 3, 4, 7, 8, 0], [5, 6, 7, 1, 3, 4]), lo=lo, hi=hi)
    chunks = copy.loops.chunks * (hi - lo) // 3 if by_layer else copy.loops.chunks
    joined = pair == ("layer_first", "layer_first") or (copy.loops.whole_pages and pair[0] == pair[1])
    assert counts == [chunks * (4 if joined else 6)]


def test_page_tables_are_taken_as_they_come() -> None:
    """What the control plane hands out is not copied; what else names pages is brought to the same."""
    shape = paged.shape_of(paged.ROWS[0], "bf16", 4)
    for copy in both(DevicePool(shape, 5), HostPool(shape, 4, pinned=False), by_layer=False):
        pages, others = np.array([4, 0, 2], np.int32), np.array([3, 0, 1], np.int32)
        made = copy.tables(pages, others)
        assert copy.core is None or (made.source is pages and made.target is others)
        same: tuple[Any, ...] = (pages.astype(np.int64), torch.from_numpy(pages), pages.tolist())
        for each in (*same, np.repeat(pages, 2)[::2]):
            found = copy.tables(each, others)
            assert found.source.dtype == np.int32 and found.source.tolist() == [4, 0, 2]
        nothing = copy.tables(pages[:0], others[:0])
        assert len(nothing) == 0


def test_what_the_core_refuses() -> None:
    core = compiled()
    if core is None:
        pytest.skip("no core")
    pages = np.array([1, 2], np.int32)
    assert core.within(pages, 3) and core.within(pages[:0], 0) and core.within(pages, 1 << 40)
    others = (-pages, pages.astype(np.int64), np.repeat(pages, 2)[::2], np.ones((2, 1), np.int32), [1])
    assert not any(core.within(*one) for one in ((pages, 2), (pages, -1), *((other, 3) for other in others)))
    for tables in ((pages, pages[:1]), (pages, [1, 2]), (pages, np.ones((2, 1), np.int32))):
        with pytest.raises(TypeError, match="page tables are two arrays"):
            core.copy_pages(0, 0, *tables, (0, 0), 0, ())
    for loops in (((1, 1, 1),) * 6, [(1, 1, 1)]):
        with pytest.raises(TypeError, match="at most 5 loops"):
            core.copy_pages(0, 0, pages, pages, (0, 0), 0, loops)


def test_what_is_refused() -> None:
    shape = paged.shape_of(paged.ROWS[0], "bf16", 4)
    source, target = DevicePool(shape, 5), HostPool(shape, 4, pinned=False)
    copy = PageCopy(source, target)
    wrong: Any = "warp"
    for some, others, kind in (
        ([1, 2], [1], ValueError),
        ([5], [1], IndexError),
        ([1], [4], IndexError),
        ([-1], [1], IndexError),
    ):
        for each, dtype in itertools.product(both(source, target, by_layer=False), ("int32", "int64")):
            given_pages = np.array(some, np.dtype(dtype)), np.array(others, np.dtype(dtype))
            with pytest.raises(kind):
                each.now(*given_pages)
    with pytest.raises(ValueError, match="all unless by_layer"):
        copy.now(np.array([1]), np.array([1]), lo=1)
    with pytest.raises(ValueError, match="engine must be one of"):
        PageCopy(source, target, engine=wrong)
    with pytest.raises(ValueError, match="same shape"):
        PageCopy(source, HostPool(paged.shape_of(paged.ROWS[0], "fp32", 4), 4, pinned=False))
    for engine in ("dma", "kernel"):
        unfit: Any = engine
        with pytest.raises(ValueError, match="CUDA"):
            PageCopy(source, target, engine=unfit)


class _There:
    """As much of a pool as the choice of an engine looks at."""

    def __init__(self, device: str) -> None:
        self.device = torch.device(device)


class _Locked(HostPool):
    def __init__(self, shape: KVShape, layout: Layout, *, pinned: bool) -> None:  # without memory
        self.shape = shape
        self.layout = layout
        self.pinned = pinned

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")


@pytest.mark.parametrize("layout", ["page_first_direct", "page_first", "page_head"])
def test_which_engine(layout: Layout) -> None:
    """Chunks of 128 KiB, 2 KiB and 256 bytes: all layers of large pages are staged; what goes layer by layer is not."""
    pytest.importorskip("triton")
    shape = KVShape(layers=32, heads=8, head_dim=128, dtype=torch.bfloat16, page_size=64)
    from kvlitmus.optimized.data.layout import nest, strides

    device: Any = _There("cuda:0")
    host, loose = _Locked(shape, layout, pinned=True), _Locked(shape, layout, pinned=False)
    out = nest(shape, strides("layer_first", shape, 3), strides(layout, shape, 3))
    home = nest(shape, strides(layout, shape, 3), strides("layer_first", shape, 3))
    choice = Choice()
    assert choice.engine(host, device, home) == choice.engine(device, host, out) == "staged"
    layered = nest(shape, strides(layout, shape, 3), strides("layer_first", shape, 3), by_layer=True)
    assert choice.engine(host, device, layered) == "kernel"
    assert Choice(to_device=128 << 10).engine(host, device, layered) == (
        "dma" if layout == "page_first_direct" else "kernel"
    )
    assert choice.engine(device, device, home) == "kernel"
    assert choice.engine(loose, device, home) == choice.engine(host, loose, home) == "torch"
    for least, by_layer, expected in ((8 << 20, False, "staged"), (9 << 20, False, "kernel"), (1, True, "kernel")):
        always = Choice(to_device=1 << 40, to_host=1 << 40, staged=least)
        way = nest(shape, strides(layout, shape, 3), strides("layer_first", shape, 3), by_layer=by_layer)
        assert always.engine(host, device, way) == always.engine(device, host, way) == expected
        assert always.engine(device, device, way) == "kernel"
        assert always.engine(_Locked(shape, "layer_first", pinned=True), device, way) == "kernel"
    unstaged = Choice(to_device=1, to_host=1 << 40, staged=1 << 40)
    assert unstaged.engine(host, device, home) == "dma"
    assert unstaged.engine(device, host, out) == "kernel"
    assert Choice(to_device=1, staged=1).engine(host, device, home) == "dma", "its chunks are as long as staging asks"
