"""Mutants of prefetches that are committed whole or not at all, or that take windows which are short."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kvlitmus.conformance.specimen.components.prefetch import ComponentFetch, ComponentFetcher, Places
from kvlitmus.conformance.specimen.components.tree import ComponentNode
from kvlitmus.mutants.components.tree import STATED, WINDOWED
from kvlitmus.mutants.legal.components.prefetch import (
    ANCHORED,
    DROPPED,
    SHORTER,
    AnchoredFetcher,
    DroppingFetcher,
    ShortFetcher,
)
from kvlitmus.mutants.registry import mutant
from kvlitmus.spec.words.shapes import Component, Window
from kvlitmus.spec.words.units import Key

_SGLANG = "https://github.com/sgl-project/sglang/"


@mutant(
    "component-prefetch-short-behind-an-anchor",
    bugs=("H-18",),
    links=(f"{_SGLANG}pull/27264",),
    kills=("COMP-26",),
    profile=SHORTER,
    configs=WINDOWED,
)
class ShortBehindAnAnchor(ShortFetcher):
    """What is right at the root is done behind a hit: the last pages of a window are read, and its head is nowhere."""

    def ends(self, component: Component, fetch: ComponentFetch, boundary: int) -> list[int]:
        whole = super().ends(component, fetch, boundary)
        if whole or not isinstance(component.shape, Window):
            return whole
        return list(range(fetch.start + component.unit, boundary + 1, component.unit))


@mutant("component-prefetch-short-of-the-key", kills=("COMP-21",), profile=SHORTER, configs=WINDOWED)
class ShortOfTheKey(ShortFetcher):
    """The window is as long as the key makes it, whatever the KV was cut to afterwards."""

    whole = 0

    def begin(
        self, node: ComponentNode | None, key: Key, threshold: int
    ) -> tuple[ComponentFetch | None, dict[str, int]]:
        self.whole = len(key.units) - (node.end if node else 0)
        return super().begin(node, key, threshold)

    def reserve(self, length: int) -> Places | None:
        long = {one.name: self.want(one, self.whole) for one in self.components if isinstance(one.shape, Window)}
        return self.pools.alloc(self.wants(length) | long)


@mutant(
    "component-commit-drops-the-kv-alone", kills=("COMP-15", "COMP-29"), profile=DROPPED, configs=(*STATED, *WINDOWED)
)
class DropsTheKvAlone(DroppingFetcher):
    """Where something is missing the KV is given back, and what came whole beside it is attached all the same."""

    def is_whole(
        self, component: Component, fetch: ComponentFetch, came: Mapping[str, Collection[int]], end: int
    ) -> bool:
        return super().is_whole(component, fetch, came, fetch.boundary)


@mutant("component-commit-drops-what-is-missing", kills=("COMP-28",), profile=DROPPED, configs=(*STATED, *WINDOWED))
class DropsWhatIsMissing(ComponentFetcher):
    """All or nothing is said of each component by itself: the KV stays without the state that did not come."""


@mutant(
    "component-commit-drops-and-forgets",
    links=(f"{_SGLANG}pull/26945",),
    kills=("POOL-10", "COMP-29"),
    profile=DROPPED,
    configs=(*STATED, *WINDOWED),
)
class DropsAndForgets(DroppingFetcher):
    """Of what is dropped the KV is given back; the window and the state are lost to their pools."""

    def finish(
        self, fetch: ComponentFetch, kept: Mapping[str, Collection[int]], came: Mapping[str, Collection[int]]
    ) -> Places:
        lost = {name: some for name, some in fetch.buffers.items() if name != self.base.name}
        dropped = bool(came) and self.clamp(fetch, came) < fetch.boundary
        return super().finish(fetch, lost if dropped else kept, came)


@mutant("component-commit-drops-a-short-window", kills=("COMP-29",), profile=ANCHORED, configs=WINDOWED)
class DropsAShortWindow(AnchoredFetcher):
    """Less than a window is read behind an anchor, and dropped when it has come, though the anchor has the rest."""

    def is_whole(
        self, component: Component, fetch: ComponentFetch, came: Mapping[str, Collection[int]], end: int
    ) -> bool:
        shape, reads = component.shape, fetch.reads[component.name]
        short = isinstance(shape, Window) and 0 < len(reads) < self.window(shape, component.unit)
        return super().is_whole(component, fetch, came, end) and not (fetch.start and short)
