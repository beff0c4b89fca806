"""Where the bytes of a page lie, and what two layouts have in common.

A layout is an order of the axes component (K, V), layer, page, token and head; the elements of a head are always
together.  So a layout comes down to one stride per axis, and a copy between any two layouts is a nest of loops over
**chunks**: runs of bytes that are contiguous on both sides.

=====================  ==========================================  ===================================================
layout                 order of the axes, outermost first          a page is
=====================  ==========================================  ===================================================
``layer_first``        component, layer, page, token, head         one run per component and layer: what attention
reads ``page_first``         page, component, token, layer, head         one run; token by token ``page_first_direct``
page, component, layer, token, head         one run; layer by layer: the canonical bytes ``page_head``          page,
component, head, token, layer         one run; a head's bytes are together (for resharding) =====================
==========================================  ===================================================

The names are SGLang's.  There the component is the outermost axis of all four and a page of the last three is two
runs; here K and V of a page lie side by side, so that a page is one run of ``page_bytes``, one copy, one object in
storage.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, get_args

from kvlitmus.optimized.data.shape import KVShape

Layout: TypeAlias = Literal["layer_first", "page_first", "page_first_direct", "page_head"]
LAYOUTS: tuple[Layout, ...] = get_args(Layout)

_ORDER: dict[Layout, str] = {
    "layer_first": "clpth",
    "page_first": "pctlh",
    "page_first_direct": "pclth",
    "page_head": "pchtl",
}


class Strides(NamedTuple):
    """Bytes from one index to the next along each axis."""

    component: int
    layer: int
    page: int
    token: int
    head: int


def strides(layout: Layout, shape: KVShape, pages: int) -> Strides:
    """The strides of a pool of so many pages.  Raises ``ValueError`` for an unknown layout."""
    if layout not in _ORDER:
        raise ValueError(f"layout must be one of {', '.join(LAYOUTS)} (got {layout!r})", layout)
    extent = {"c": shape.components, "l": shape.layers, "p": pages, "t": shape.page_size, "h": shape.heads}
    step, found = shape.head_bytes, {}
    for axis in reversed(_ORDER[layout]):
        found[axis] = step
        step *= extent[axis]
    return Strides(found["c"], found["l"], found["p"], found["t"], found["h"])


class Axis(NamedTuple):
    """One loop of a copy: how often, and how many bytes further on either side each time."""

    extent: int
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Nest:
    """A paged copy between two layouts: for each page, for each layer, for each index of ``axes``, one chunk.

    chunk: bytes of a run contiguous on both sides.  axes: the loops within one page and layer, outermost first, at
    most three; if ``layer`` is ``None``, the layers are among them or within the chunk, then at most four.  layer:
    the loop over layers, kept apart so that a copy can go layer by layer.  page: strides from page to page. unit: the
    widest access (16, 8, 4, 2 or 1 bytes) that every chunk's start and length are multiples of.
    """

    chunk: int
    axes: tuple[Axis, ...]
    layer: Axis | None
    page: Axis
    unit: int

    @property
    def whole_pages(self) -> bool:
        """Whether a page is one chunk on both sides."""
        return not self.axes and self.layer is None

    @property
    def runs_join(self) -> bool:
        """Whether neighbouring pages are one longer chunk."""
        return self.whole_pages and self.page.source == self.page.target == self.chunk

    @property
    def chunks(self) -> int:
        """Chunks per page, in all layers of this nest."""
        count = self.layer.extent if self.layer else 1
        for axis in self.axes:
            count *= axis.extent
        return count


def nest(shape: KVShape, source: Strides, target: Strides, *, by_layer: bool = False) -> Nest:
    """The loops of a copy of all layers; with ``by_layer`` these stay an outermost loop of their own."""
    layer = Axis(shape.layers, source.layer, target.layer)
    axes = [
        Axis(shape.components, source.component, target.component),
        Axis(shape.page_size, source.token, target.token),
        Axis(shape.heads, source.head, target.head),
    ]
    if not by_layer:
        axes.append(layer)
    chunk, axes = _absorb(shape.head_bytes, [axis for axis in axes if axis.extent > 1])
    # Outer loops first, as the target lies: neighbouring writes make full bursts.
    axes = _join(sorted(axes, key=lambda axis: (axis.target, axis.source), reverse=True))
    page = Axis(0, source.page, target.page)
    steps = [chunk, page.source, page.target, layer.source, layer.target]
    steps += [step for axis in axes for step in axis[1:]]
    unit = next(width for width in (16, 8, 4, 2, 1) if all(step % width == 0 for step in steps))
    return Nest(chunk, tuple(axes), layer if by_layer else None, page, unit)


def _absorb(chunk: int, axes: list[Axis]) -> tuple[int, list[Axis]]:
    """Grow the chunk by every axis that continues it on both sides."""
    while True:
        found = next((axis for axis in axes if axis.source == axis.target == chunk), None)
        if found is None:
            return chunk, axes
        axes.remove(found)
        chunk *= found.extent


def _join(axes: list[Axis]) -> list[Axis]:
    """Make one loop of two, where the outer one continues the inner one on both sides."""
    joined: list[Axis] = []
    for axis in axes:
        outer = joined[-1] if joined else None
        if outer and outer.source == axis.extent * axis.source and outer.target == axis.extent * axis.target:
            joined[-1] = Axis(outer.extent * axis.extent, axis.source, axis.target)
        else:
            joined.append(axis)
    return joined
