"""Null mutants of prefetches of several components: what they evict, name, and give back when."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace

from kvlitmus.conformance.run.plan import COMPONENT_CONFIGS
from kvlitmus.conformance.specimen.components.prefetch import ComponentFetch, ComponentFetcher, Places
from kvlitmus.conformance.specimen.components.tree import ComponentNode
from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.mutants.registry import null_mutant
from kvlitmus.spec.words.shapes import Component, Window
from kvlitmus.spec.words.units import Key

DROPPED = replace(PROFILE, component_shortfall="dropped")
SHORTER = replace(PROFILE, component_fetch_window="root")
ANCHORED = replace(PROFILE, component_fetch_window="anchor")
BY_PATH = replace(PROFILE, component_extent="path")


@null_mutant("component-prefetch-evicts-what-it-lacks", configs=COMPONENT_CONFIGS)
class EvictsWhatItLacks(ComponentFetcher):
    """Of a pool that one component has for itself no more is evicted than is lacking."""

    def make_room(self, length: int) -> dict[str, int]:
        wants = self.wants(length)
        short = self.short(wants)
        pools = list(self.pools.pool_of.values())
        lacks = {}
        for name, many in wants.items():
            pool = self.pools.pool_of[name]
            if pool in short:
                lacks[name] = many - (len(self.pools.free[pool]) if pools.count(pool) == 1 else 0)
        return self.tree.evict(lacks) if lacks else {}


@null_mutant("component-prefetch-kv-first", configs=COMPONENT_CONFIGS)
class KvFirst(ComponentFetcher):
    """Room is made for the KV; where there is none the other pools are not looked at."""

    def make_room(self, length: int) -> dict[str, int]:
        wants = self.wants(length)
        short, pool = self.short(wants), self.pools.pool_of
        freed = {one.name: 0 for one in self.components}
        for turn in ({self.base.pool}, short - {self.base.pool}):
            asked = {name: many for name, many in wants.items() if pool[name] in short & turn}
            for name, many in (self.tree.evict(asked) if asked else {}).items():
                freed[name] += many
            if not self.cut(length):
                break
        return freed


@null_mutant("component-prefetch-returns-early", configs=COMPONENT_CONFIGS)
class ReturnsEarly(ComponentFetcher):
    """What is not read is given back as soon as storage has answered, and not at the end."""

    def found(self, fetch: ComponentFetch, stored: Mapping[str, Collection[int]]) -> Places:
        super().found(fetch, stored)
        rest: Places = {}
        for name, places in fetch.buffers.items():
            read = list(fetch.reads[name].values())
            rest[name] = [one for one in places if one not in read]
            fetch.buffers[name] = [one for one in places if one in read]
        return self.give(rest)


@null_mutant("component-prefetch-names-what-it-reads", configs=COMPONENT_CONFIGS)
class NamesWhatItReads(ComponentFetcher):
    """A component of which nothing is read is not named; where nothing is worth it none is."""

    def found(self, fetch: ComponentFetch, stored: Mapping[str, Collection[int]]) -> Places:
        returned = super().found(fetch, stored)
        fetch.reads = defaultdict(dict, {name: some for name, some in fetch.reads.items() if some})
        return returned


class KnowsItsLeast(ComponentFetcher):
    """While it makes room it knows with how many units the prefetch is worth it."""

    least = 0

    def begin(
        self, node: ComponentNode | None, key: Key, threshold: int
    ) -> tuple[ComponentFetch | None, dict[str, int]]:
        self.least = max(threshold, self.tree.step)
        return super().begin(node, key, threshold)


@null_mutant("component-prefetch-foresees-its-length", configs=COMPONENT_CONFIGS)
class ForeseesItsLength(KnowsItsLeast):
    """Nothing is evicted that makes the prefetch no longer, and nothing at all where it is refused all the same.

    Where components share a pool, what a shorter one wants may be too little room for it; then as much is evicted as
    the longest wants.
    """

    def make_room(self, length: int) -> dict[str, int]:
        whole, room = length, self.room(length)
        while length and self.base.pool in self.beyond(length, room):
            length -= self.tree.step
        if length < self.least or self.beyond(length, room):
            return {}
        return super().make_room(whole if self.beyond(length, self.room(length)) else length)

    def room(self, length: int) -> dict[str, int]:
        """How many places of each pool there are after an eviction of what a prefetch of this length wants."""
        room = {pool: len(free) for pool, free in self.pools.free.items()}
        for name, many in self.wants(length).items():
            loose = sum(name in node.places and not node.locks.get(name) for node in self.tree.nodes())
            room[self.pools.pool_of[name]] += min(many, loose)
        return room

    def beyond(self, length: int, room: Mapping[str, int]) -> set[str]:
        """The pools that have too little room for a prefetch of this length."""
        needs = dict.fromkeys(room, 0)
        for name, many in self.wants(length).items():
            needs[self.pools.pool_of[name]] += many
        return {pool for pool, many in needs.items() if many > room[pool]}


class DroppingFetcher(ComponentFetcher):
    """A commit to which something is missing caches nothing."""

    def clamp(self, fetch: ComponentFetch, came: Mapping[str, Collection[int]]) -> int:
        whole = all(end in came.get(name, ()) for name, some in fetch.reads.items() for end in some)
        return super().clamp(fetch, came) if whole else fetch.start


@null_mutant("component-commit-all-or-nothing", profile=DROPPED, configs=COMPONENT_CONFIGS)
class AllOrNothing(DroppingFetcher):
    """What was read is cached whole, or given back whole: KV without its state ends no hit."""


class ShortFetcher(ComponentFetcher):
    """From the root a window is what there is of it."""

    root = False

    def begin(
        self, node: ComponentNode | None, key: Key, threshold: int
    ) -> tuple[ComponentFetch | None, dict[str, int]]:
        self.root = node is None
        return super().begin(node, key, threshold)

    def want(self, component: Component, length: int) -> int:
        if self.root and isinstance(component.shape, Window):
            return min(self.window(component.shape, component.unit), length // component.unit)
        return super().want(component, length)

    def ends(self, component: Component, fetch: ComponentFetch, boundary: int) -> list[int]:
        if fetch.start or not isinstance(component.shape, Window):
            return super().ends(component, fetch, boundary)
        first = max(0, boundary - self.window(component.shape, component.unit) * component.unit)
        return list(range(first + component.unit, boundary + 1, component.unit))


@null_mutant("component-prefetch-short-from-the-root", profile=SHORTER, configs=COMPONENT_CONFIGS)
class ShortFromTheRoot(ShortFetcher):
    """A prompt that is shorter than the window is fetched with the window that it has."""


class AnchoredFetcher(ComponentFetcher):
    """Of a window there is what is behind the anchor, whose own window is the rest of it."""

    def want(self, component: Component, length: int) -> int:
        if isinstance(component.shape, Window):
            return min(self.window(component.shape, component.unit), length // component.unit)
        return super().want(component, length)

    def ends(self, component: Component, fetch: ComponentFetch, boundary: int) -> list[int]:
        if not isinstance(component.shape, Window):
            return super().ends(component, fetch, boundary)
        first = max(fetch.start, boundary - self.window(component.shape, component.unit) * component.unit)
        return list(range(first + component.unit, boundary + 1, component.unit))


@null_mutant("component-prefetch-completes-a-window", profile=ANCHORED, configs=COMPONENT_CONFIGS)
class CompletesAWindow(AnchoredFetcher):
    """Less than a window is fetched behind an anchor: with the window of the anchor it is one."""


@null_mutant("component-prefetch-holds-its-hit", profile=BY_PATH, configs=COMPONENT_CONFIGS)
class HoldsItsHit(ComponentFetcher):
    """The anchor is locked as a hit is: its window and its state stay with its KV."""

    def protect(self, node: ComponentNode | None) -> dict[str, list[ComponentNode]]:
        return self.tree.lock(node)
