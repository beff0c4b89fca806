"""Layouts: which components a cache is asked to keep, by name.

A configuration names one of them (:class:`~kvlitmus.spec.words.config.Config`).  Sizes follow its pages: a place of a pool
holds what one page of tokens needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kvlitmus.spec.words.shapes import Chunk, Component, Derived, Point, Run, Shape, Window


class Layout(NamedTuple):
    """The components of a cache, the base first, and how many places each pool has, and each of the host's."""

    components: tuple[Component, ...]
    places: Mapping[str, int]
    host: Mapping[str, int] = {}

    @property
    def base(self) -> Component:
        """The component that all others go with: the KV of the whole prefix."""
        return self.components[0]

    @property
    def components_by_name(self) -> Mapping[str, Component]:
        """The components by their names."""
        return {one.name: one for one in self.components}

    def named(self, name: str) -> Component:
        """The component of a name; raises ``KeyError`` where there is none."""
        found = next((one for one in self.components if one.name == name), None)
        if found is None:
            raise KeyError(name)
        return found


KV = "kv"
"""The component that all layouts begin with; a plain cache has no other."""

NONE = Layout((), {})
"""No components: a cache of KV alone."""


def window_reach(page_size: int) -> int:
    """The reach of the windows: a page and a half, so that it is no multiple of the page where that can be."""
    return page_size + (page_size + 1) // 2


def _kv(size: int, pool: str = "kv") -> Component:
    return Component(KV, Run(), pool, size, size)


def _with(name: str, shape: Callable[[int], Shape], *, units: int = 1, share: int = 2, pool: str = "") -> Maker:
    def make(size: int, pages: int) -> Layout:
        second = Component(name, shape(size), pool or name, units * size, units * size)
        if pool:
            return Layout((_kv(size, pool), second), {pool: pages})
        return Layout((_kv(size), second), {"kv": pages, name: max(2, pages // share)})

    return make


def _hybrid(size: int, pages: int) -> Layout:
    swa = Component("swa", Window(window_reach(size)), "swa", size, size)
    state = Component("state", Point(), "state", size, size)
    return Layout((_kv(size), swa, state), {"kv": pages, "swa": max(2, pages // 2), "state": max(2, pages // 4)})


def _groups(size: int, pages: int) -> Layout:
    swa = Component("swa", Window(max(1, window_reach(size) - 1)), "blocks", 2 * size, 2 * size)
    state = Component("state", Point(), "blocks", size, size)
    return Layout((_kv(size, "blocks"), swa, state), {"blocks": pages})


def _groups_with_chunks(size: int, pages: int) -> Layout:
    base, _, state = _groups(size, pages).components
    swa = Component("swa", Window(window_reach(4 * size) - 1), "blocks", 2 * size, 2 * size)
    chunk = Component("chunk", Chunk(4 * size), "blocks", 2 * size, 2 * size)
    return Layout((base, swa, state, chunk), {"blocks": pages})


def _blocks(name: str, shape: Callable[[int], Shape]) -> Maker:
    def make(size: int, pages: int) -> Layout:
        return Layout((_kv(size, "blocks"), Component(name, shape(size), "blocks", size, size)), {"blocks": pages})

    return make


Maker = Callable[[int, int], Layout]

LAYOUTS: Mapping[str, Maker] = {
    "kv+swa": _with("swa", lambda size: Window(window_reach(size))),
    "kv+state": _with("state", lambda _: Point(), share=4),
    "kv+chunk": _with("chunk", lambda size: Chunk(3 * size)),
    "kv+index": _with("index", lambda _: Derived("kv"), share=1),
    "kv+swa+state": _hybrid,
    "groups": _groups,
    "groups+chunk": _groups_with_chunks,
    "blocks+swa": _blocks("swa", lambda size: Window(window_reach(2 * size) - 1)),
    "blocks+state": _blocks("state", lambda _: Point()),
    "blocks+chunk": _blocks("chunk", lambda size: Chunk(3 * size)),
}
"""By name how a layout follows from page size and pages.

``kv+swa``, ``kv+state``, ``kv+chunk``, ``kv+index``: one component beside the KV, in a pool of its own; ``kv+swa+state``:
two of them; ``groups``: KV, a window with entries of two pages, and states, all in one pool, as vLLM's KV cache groups;
``groups+chunk``: chunks with entries of two pages beside them, and a window of several entries; ``blocks+swa``,
``blocks+state`` and ``blocks+chunk``: KV and one component in one pool, with entries of a page each, of which a window needs several.
"""


def layout_of(name: str, page_size: int, pages: int, host_pages: int = 0) -> Layout:
    """The layout of a name; that of the empty name has no components.

    With ``host_pages`` each pool has one on the host too, with as many places as it would itself have of so many pages.
    """
    if not name:
        return NONE
    layout = LAYOUTS[name](page_size, pages)
    return layout._replace(host=LAYOUTS[name](page_size, host_pages).places) if host_pages else layout
