"""Null mutants of a cache of components: by node, in pairs, with replacements, with a state for each end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace

from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.plan import COMPONENT_CONFIGS
from kvlitmus.conformance.specimen.components.tree import ComponentEvictor, ComponentNode, ComponentPools, ComponentTree
from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.mutants.registry import null_mutant
from kvlitmus.spec.words.layouts import Layout
from kvlitmus.spec.words.shapes import Component, Point, Run, Window
from kvlitmus.spec.words.units import Key

BY_NODE = replace(PROFILE, evict_granularity="node", component_cascade="leaf")
PAIRED = replace(PROFILE, component_grants="paired")
WHOLE = replace(PROFILE, component_grants="whole")
REPLACING = replace(PROFILE, component_refill="replaces")
FREEING = replace(PROFILE, duplicates="cache_frees")
ENDING = replace(PROFILE, component_points="end")

PAIRS = tuple(
    Config(page_size=size, pages=pages, components=name)
    for size, pages, name in ((4, 16, "kv+swa"), (4, 16, "kv+swa+state"), (1, 12, "kv+swa+state"))
)
"""The layouts in which a window has entries of the size of the KV's, in a pool of its own."""


class WholeNodes(ComponentEvictor, ABC):
    """Evicts the rest of a node with its last entry, from whichever tier; what a node is, others say."""

    @abstractmethod
    def same(self, node: ComponentNode, other: ComponentNode | None) -> bool:
        """Whether the page before belongs to the node of this one."""

    def evict(self, wants: Mapping[str, int]) -> dict[str, int]:
        """Whoever loses an entry at the end of a path loses the rest of the node with it."""
        freed = {one.name: 0 for one in self.components}
        for name, many in wants.items():
            component = self.tier.pools.layout.named(name)
            while freed[name] < many and (choices := self.evictable(component)):
                victim: ComponentNode | None = min(choices, key=lambda node: (node.used, -node.end))
                while victim is not None:
                    above, going = self.rest(component, victim), self.goes_with(victim, name)
                    self.leaving(victim, going)
                    for gone in going:
                        self.tier.pools.give(gone, [self.take(victim, gone)])
                        freed[gone] += 1
                    self.prune(victim)
                    victim = above
        return freed

    def rest(self, component: Component, node: ComponentNode) -> ComponentNode | None:
        """The page of the same node that goes after this one, of the run; a window leaves tombstones page by page."""
        above = node.above
        if not isinstance(component.shape, Run) or not self.same(node, above):
            return None
        assert above is not None
        there = component.name in self.tier.entries(above)
        return above if there and not any(self.tier.locks(above).values()) else None


class NodeTree(WholeNodes, ComponentTree):
    """What one insert brought in a row is a node, until a path parts there."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        self.born: dict[ComponentNode, int] = {}

    def grown(self, key: Key, length: int) -> list[ComponentNode]:
        """Nodes that an insert makes are of one birth."""
        path = super().grown(key, length)
        for node in path:
            self.born.setdefault(node, self.clock)
        return path

    def same(self, node: ComponentNode, other: ComponentNode | None) -> bool:
        """Whether the page before belongs to the node of this one."""
        return other is not None and self.born.get(other) == self.born.get(node) and len(other.children) == 1

    def lock(self, node: ComponentNode | None) -> dict[str, list[ComponentNode]]:
        """A window is protected to the start of the node in which it starts."""
        cover = super().lock(node)
        for one in self.components:
            first = cover[one.name][0] if cover[one.name] and isinstance(one.shape, Window) else None
            while first is not None and self.same(first, first.above) and one.name in first.above.places:  # type: ignore[union-attr]
                first = first.above
                assert first is not None
                first.locks[one.name] = first.locks.get(one.name, 0) + 1
                cover[one.name].insert(0, first)
        return cover


@null_mutant("null-component-by-node", profile=BY_NODE, configs=PAIRS)
class ByNode(NodeTree):
    """What was inserted in a row is evicted in a row, and protected to its start, as the profile declares."""


@null_mutant("null-component-frees-duplicates", profile=FREEING, configs=COMPONENT_CONFIGS)
class FreesDuplicates(ComponentTree):
    """The insert frees duplicates by itself, as the profile declares."""

    def insert(self, key: Key, entries: Mapping[str, Mapping[int, int]]) -> dict[str, list[int]]:
        left = super().insert(key, entries)
        for name, places in left.items():
            self.pools.give(name, places)
        return left


class ReplacingTree(ComponentTree):
    """An insert that recovers a window's entry takes the KV that came with it, and frees the one that was there."""

    def insert(self, key: Key, entries: Mapping[str, Mapping[int, int]]) -> dict[str, list[int]]:
        """Where a window's entry is missing, that of the KV gives way, unless it is read."""
        base = self.components[0].name
        windows = [one.name for one in self.components if isinstance(one.shape, Window)]
        for node in self.walk(key):
            brought = node.end in entries.get(base, {}) and base in node.places and not node.locks.get(base)
            if brought and any(node.end in entries.get(name, {}) and name not in node.places for name in windows):
                self.displace(node, base)
        return super().insert(key, entries)

    def displace(self, node: ComponentNode, base: str) -> None:
        """The KV that is cached gives way to what was brought."""
        self.pools.give(base, [self.take(node, base)])


@null_mutant("null-component-refill-replaces", profile=REPLACING, configs=PAIRS)
class RefillReplaces(ReplacingTree):
    """With the window's entry of a tombstone the KV is taken too, and what was there is free: so declared."""


class PairedPools(ComponentPools):
    """A place of a window comes with one of the KV, and goes with it."""

    def __init__(self, layout: Layout) -> None:
        super().__init__(layout)
        self.base = layout.base.name
        self.window = next(one.name for one in layout.components if isinstance(one.shape, Window))
        self.mates: dict[int, int] = {}

    def alloc(self, wants: Mapping[str, int]) -> dict[str, list[int]] | None:
        """The last places of the KV have those of the window as mates; raises ``ValueError`` for more of these."""
        kv, window = wants.get(self.base, 0), wants.get(self.window, 0)
        if window > kv:
            raise ValueError(f"{window} places of a window with {kv} of KV")
        granted = super().alloc(wants)
        if granted is not None and window:
            self.mates.update(zip(granted[self.base][-window:], granted[self.window], strict=True))
        return granted

    def give(self, name: str, places: Sequence[int]) -> None:
        """With a place of the KV its mate is free; a window's place is, unless its mate's end freed it."""
        if name == self.base:
            mates = [self.mates.pop(place) for place in places if place in self.mates]
            super().give(self.window, mates)
        elif name == self.window:
            tied = {mate: place for place, mate in self.mates.items()}
            places = [place for place in places if place in tied]
            for place in places:
                del self.mates[tied[place]]
        super().give(name, places)

    def tie(self, kv: int, window: int) -> None:
        """A window's place goes over to another place of the KV."""
        self.mates = {place: mate for place, mate in self.mates.items() if mate != window}
        self.mates[kv] = window


class PairedTree(ComponentTree):
    """A window's entry that fills a tombstone is tied to the KV that is there."""

    def fill(self, node: ComponentNode, name: str, place: int, left: list[int]) -> None:
        """As ever; and the window's place belongs to the KV of the node then."""
        filled = name not in node.places
        super().fill(node, name, place, left)
        pools = self.pools
        if filled and isinstance(pools, PairedPools) and name == pools.window and pools.base in node.places:
            pools.tie(node.places[pools.base], place)


@null_mutant("null-component-pairs", beside=(PairedPools,), profile=PAIRED, configs=PAIRS)
class Pairs(PairedTree):
    """A window's place is allocated and freed with one of the KV, as the profile declares."""


@null_mutant("null-component-whole-windows", beside=(PairedPools,), profile=WHOLE, configs=PAIRS)
class WholeWindows(PairedTree):
    """A key of whose end the window is not brought is not cached, and none is asked to be: the profile says so."""

    def insert(self, key: Key, entries: Mapping[str, Mapping[int, int]]) -> dict[str, list[int]]:
        base, window = self.components[0].name, "swa"
        if entries.get(base) and max(entries[base]) not in entries.get(window, {}):
            return {name: list(some.values()) for name, some in entries.items()}
        return super().insert(key, entries)


@null_mutant("null-component-states-at-the-end", profile=ENDING, configs=PAIRS)
class StatesAtTheEnd(ComponentTree):
    """An insert without the state of its end is refused, as the profile lets it be."""

    def insert(self, key: Key, entries: Mapping[str, Mapping[int, int]]) -> dict[str, list[int]]:
        end = max((end for some in entries.values() for end in some), default=0)
        for one in self.components:
            if isinstance(one.shape, Point) and list(entries.get(one.name, ())) != [end]:
                raise ValueError(f"no state for {end}")
        return super().insert(key, entries)
