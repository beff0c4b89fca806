"""Shapes, layouts and loops: every byte of every page has one place, and loops meet each of them once."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kvlitmus.optimized.data.layout import LAYOUTS, Layout, Nest, nest, strides
from kvlitmus.optimized.data.pools import DevicePool, HostPool, KVPool
from kvlitmus.optimized.data.shape import DTYPES, KVShape
from tests.optimized.support import paged


def test_sizes_of_known_models() -> None:
    """Bytes per token of models whose figures are published."""
    llama = KVShape(layers=32, heads=8, head_dim=128, dtype=torch.bfloat16, page_size=64)
    assert (llama.row_bytes, llama.token_bytes, llama.page_bytes) == (2048, 131_072, 8 << 20)
    assert llama.layer_bytes == llama.page_bytes // 32
    latent = KVShape(kind="mla", layers=61, head_dim=576, dtype=torch.bfloat16, page_size=16)
    assert (latent.components, latent.token_bytes) == (1, 70_272)
    packed = KVShape(kind="mla", layers=61, head_dim=656, dtype=torch.uint8, page_size=64)
    assert packed.token_bytes == 40_016


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"layers": 0}, "layers must be at least 1"),
        ({"heads": 0}, "heads must be at least 1"),
        ({"head_dim": -1}, "head_dim must be at least 1"),
        ({"page_size": 0}, "page_size must be at least 1"),
        ({"kind": "mha2"}, "kind must be"),
        ({"kind": "mla", "heads": 2}, "heads must be 1"),
    ],
)
def test_shapes_that_cannot_be(wrong: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        KVShape(**({"layers": 2, "head_dim": 8, "dtype": torch.bfloat16, "page_size": 4} | wrong))


def test_identities_of_different_shapes_differ() -> None:
    base: dict[str, Any] = {"layers": 2, "heads": 1, "head_dim": 8, "dtype": torch.bfloat16, "page_size": 4}
    others = [
        {"layers": 4, "head_dim": 4},
        {"heads": 2, "head_dim": 4},
        {"dtype": torch.float16},
        {"page_size": 2},
        {"kind": "mla"},
    ]
    texts = [KVShape(**(base | other)).text for other in [{}, *others]]
    assert len(set(texts)) == len(texts)


def numbered(pool: KVPool) -> None:
    """Each byte of a pool: its place, modulo a prime."""
    pool.buffer.copy_((torch.arange(pool.buffer.numel()) % 251).to(torch.uint8))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("row", paged.ROWS, ids=lambda row: row.name)
def test_layouts_are_what_their_documentation_says(layout: Layout, row: paged.Row) -> None:
    shape = paged.shape_of(row, row.dtypes[0], 4)
    pool = DevicePool(shape, 5, layout=layout)
    numbered(pool)
    expected = torch.from_numpy(paged.contents(pool).copy())
    assert torch.equal(pool.canonical(), expected)
    for component, layer in itertools.product(range(shape.components), range(shape.layers)):
        rows = pool.rows(component, layer)
        assert rows.shape == (5, 4, shape.heads, shape.head_dim)
        assert torch.equal(
            rows.contiguous().view(torch.uint8).view(expected[:, 0, 0].shape), expected[:, component, layer]
        )


def test_slots_are_rows_by_another_number() -> None:
    shape = paged.shape_of(paged.ROWS[0], "fp32", 4)
    pool = DevicePool(shape, 5)
    pool.slots(1, 2)[4 * 3 + 1] = 7.0
    assert bool((pool.rows(1, 2)[3, 1] == 7.0).all()) and int((pool.buffer.view(torch.float32) == 7.0).sum()) == 32
    with pytest.raises(ValueError, match="not evenly spaced"):
        DevicePool(shape, 5, layout="page_head").slots(0, 0)


def test_pools_that_cannot_be() -> None:
    shape = paged.shape_of(paged.ROWS[0], "fp32", 4)
    wrong: Any = "page_last"
    with pytest.raises(ValueError, match="layout must be one of"):
        DevicePool(shape, 5, layout=wrong)
    for pages in (0, -1):
        with pytest.raises((ValueError, RuntimeError)):
            DevicePool(shape, pages)
        with pytest.raises(ValueError, match="pages must be at least 1"):
            HostPool(shape, pages, pinned=False)
    with pytest.raises(ValueError, match="buffer must be"):
        KVPool(shape, 2, "layer_first", torch.zeros(5, dtype=torch.uint8))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a device to pin for")
def test_nothing_is_pinned_without_a_device() -> None:
    shape = paged.shape_of(paged.ROWS[0], "fp32", 4)
    assert not HostPool(shape, 2).pinned
    with pytest.raises(RuntimeError, match="CUDA"):
        HostPool(shape, 2, pinned=True)


@st.composite
def loops(draw: st.DrawFn) -> tuple[KVShape, tuple[Layout, Layout], tuple[int, int], Nest]:
    """A shape, two layouts, the pages of the two pools, and the loops between them."""
    kind: Any = draw(st.sampled_from(["mha", "mla"]))
    shape = KVShape(
        kind=kind,
        layers=draw(st.integers(1, 4)),
        heads=draw(st.integers(1, 3)) if kind == "mha" else 1,
        head_dim=draw(st.integers(1, 20)),
        dtype=draw(st.sampled_from(list(DTYPES.values()))),
        page_size=draw(st.integers(1, 4)),
    )
    pair = (draw(st.sampled_from(LAYOUTS)), draw(st.sampled_from(LAYOUTS)))
    pages = (draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    steps = [strides(layout, shape, count) for layout, count in zip(pair, pages, strict=True)]
    return shape, pair, pages, nest(shape, *steps, by_layer=draw(st.booleans()))


@given(loops())
def test_loops_meet_every_byte_once(found: tuple[KVShape, tuple[Layout, Layout], tuple[int, int], Nest]) -> None:
    """Walk the loops on plain byte strings; what they copy is what numpy says, and no byte is written twice."""
    shape, (one, other), pages, way = found
    source, target = DevicePool(shape, pages[0], layout=one), DevicePool(shape, pages[1], layout=other)
    numbered(source)
    page, to = pages[0] - 1, pages[1] - 1
    assert len(way.axes) <= (3 if way.layer else 4)
    every = [axis for axis in (way.layer,) if axis] + list(way.axes)
    written: set[int] = set()
    for index in itertools.product(*(range(axis.extent) for axis in every)):
        start = page * way.page.source + sum(i * a.source for i, a in zip(index, every, strict=True))
        begin = to * way.page.target + sum(i * a.target for i, a in zip(index, every, strict=True))
        assert start % way.unit == begin % way.unit == way.chunk % way.unit == 0
        target.buffer[begin : begin + way.chunk] = source.buffer[start : start + way.chunk]
        assert written.isdisjoint(range(begin, begin + way.chunk))
        written.update(range(begin, begin + way.chunk))
    assert len(written) == shape.page_bytes
    assert (paged.contents(target)[to] == paged.contents(source)[page]).all()


def test_loops_are_as_long_as_they_can_be() -> None:
    shape = KVShape(layers=32, heads=8, head_dim=128, dtype=torch.bfloat16, page_size=64)

    def chunk(one: Layout, other: Layout, *, by_layer: bool = False) -> tuple[int, int]:
        way = nest(shape, strides(one, shape, 10), strides(other, shape, 20), by_layer=by_layer)
        return way.chunk, way.chunks

    assert chunk("page_first_direct", "layer_first") == (128 << 10, 64)
    assert chunk("page_first_direct", "layer_first", by_layer=True) == (128 << 10, 64)
    assert chunk("page_first", "layer_first") == (2048, 64 * 64)
    assert chunk("page_head", "layer_first") == (256, 64 * 64 * 8)
    for layout in ("page_first", "page_first_direct", "page_head"):
        assert chunk(layout, layout) == (8 << 20, 1)
        way = nest(shape, strides(layout, shape, 10), strides(layout, shape, 20))
        assert way.whole_pages and way.runs_join
