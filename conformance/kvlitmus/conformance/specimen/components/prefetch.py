"""The specimen's prefetches of several components: buffers that are reserved, read into, and attached or given back.

A prefetch is an object with a buffer for each component, as an engine has one; each step takes places out of its
buffers, so that what is left at the end is what is given back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from kvlitmus.conformance.specimen.components.tree import ComponentNode, ComponentPools, ComponentTree
from kvlitmus.spec.words.shapes import Chunk, Component, Derived, Point, Run, Window
from kvlitmus.spec.words.units import Key

Places = dict[str, list[int]]


@dataclass(eq=False)
class ComponentFetch:
    """A prefetch: its key, where its anchor ends, what it protects, its buffers, and what it reads."""

    key: Key
    start: int
    length: int
    threshold: int
    guard: Mapping[str, Sequence[ComponentNode]]
    buffers: Places
    boundary: int = 0
    reads: dict[str, dict[int, int]] = field(default_factory=dict)
    running: bool = False
    over: bool = False


class ComponentFetcher:
    """Reserves, plans, commits and aborts."""

    def __init__(self, pools: ComponentPools, tree: ComponentTree) -> None:
        self.pools = pools
        self.tree = tree
        self.components = pools.layout.components
        self.base = self.components[0]

    # Reserving

    def begin(
        self, node: ComponentNode | None, key: Key, threshold: int
    ) -> tuple[ComponentFetch | None, dict[str, int]]:
        """Protect the anchor and reserve buffers; ``None`` where there is no memory, and how much was evicted."""
        start = node.end if node else 0
        whole = (len(key.units) - start) // self.tree.step * self.tree.step
        least = max(threshold, self.tree.step)
        if whole < least:
            return None, {}
        guard = self.protect(node)
        freed = self.make_room(whole)
        length = self.cut(whole)
        buffers = self.reserve(length) if length >= least else None
        if buffers is None:
            self.tree.unlock(guard)
            return None, freed
        return ComponentFetch(key, start, length, least, guard, buffers, start), freed

    def protect(self, node: ComponentNode | None) -> dict[str, list[ComponentNode]]:
        """Protect the KV of the anchor, and nothing else there."""
        return self.tree.keep({self.base.name: self.tree.needed(self.base, node) if node else []})

    def wants(self, length: int) -> dict[str, int]:
        """How many places of each component a prefetch of so many units needs."""
        return {one.name: self.want(one, length) for one in self.components}

    def want(self, component: Component, length: int) -> int:
        """How many places of one component it needs."""
        shape, unit = component.shape, component.unit
        if isinstance(shape, Window):
            whole = self.window(shape, unit)
            return whole if length // unit >= whole else 0
        if isinstance(shape, Point):
            return 1
        if isinstance(shape, Chunk):
            return min((shape.size - 1) // unit, length // unit)
        return length // unit

    def window(self, shape: Window, unit: int) -> int:
        """How many entries hold a window."""
        return -(-shape.reach // unit)

    def make_room(self, length: int) -> dict[str, int]:
        """Where there is too little, evict once what the prefetch needs of the pools that are short."""
        wants = self.wants(length)
        short = self.short(wants)
        return (
            self.tree.evict({name: many for name, many in wants.items() if self.pools.pool_of[name] in short})
            if short
            else {}
        )

    def short(self, wants: Mapping[str, int]) -> set[str]:
        """The pools that have less than what all components together want of them."""
        return self.pools.short(wants)

    def cut(self, length: int) -> int:
        """The largest length, in whole steps, for which the pool of the KV has room."""
        while length and self.base.pool in self.short(self.wants(length)):
            length -= self.tree.step
        return length

    def reserve(self, length: int) -> Places | None:
        """Buffers for a prefetch of this length, for all components or for none."""
        return self.pools.alloc(self.wants(length))

    # Reading

    def found(self, fetch: ComponentFetch, stored: Mapping[str, Collection[int]]) -> Places:
        """Plan what is read of what storage has; the places that are given back already."""
        boundary = fetch.start
        for end in range(fetch.start + self.tree.step, fetch.start + fetch.length + 1, self.tree.step):
            if end - fetch.start >= fetch.threshold and all(
                self.restores(one, fetch, end, stored.get(one.name, ())) for one in self.components
            ):
                boundary = end
        fetch.boundary = boundary
        for one in self.components:
            ends = self.ends(one, fetch, boundary) if boundary > fetch.start and fetch.buffers[one.name] else []
            fetch.reads[one.name] = dict(zip(ends, fetch.buffers[one.name], strict=False))
        fetch.running = any(fetch.reads.values())
        return {}

    def restores(self, component: Component, fetch: ComponentFetch, end: int, stored: Collection[int]) -> bool:
        """Whether storage has what a boundary needs of a component for which there is a buffer."""
        if not fetch.buffers[component.name]:
            return True
        ends = self.ends(component, fetch, end)
        return (bool(ends) or isinstance(component.shape, Chunk)) and all(one in stored for one in ends)

    def ends(self, component: Component, fetch: ComponentFetch, boundary: int) -> list[int]:
        """Where the entries end that are read of a component for a boundary; of a window all or none."""
        shape, unit = component.shape, component.unit
        if isinstance(shape, Point):
            return [boundary]
        start = fetch.start
        if isinstance(shape, Window):
            start = boundary - self.window(shape, unit) * unit
            if start < fetch.start:
                return []
        elif isinstance(shape, Chunk):
            since = boundary - boundary % shape.size
            start = max(start, since - since % unit)
        return list(range(start + unit, boundary + 1, unit))

    # Ending

    def commit(self, fetch: ComponentFetch, came: Mapping[str, Collection[int]]) -> tuple[int, Places]:
        """Cache what came; where the KV ends, and the places that are given back."""
        end = self.clamp(fetch, came)
        entries = self.entries(fetch, came, end)
        left = self.tree.attach(fetch.key, entries)
        kept = {name: set(some.values()) - set(left[name]) for name, some in entries.items()}
        return end, self.finish(fetch, kept, came)

    def clamp(self, fetch: ComponentFetch, came: Mapping[str, Collection[int]]) -> int:
        """Where the KV ends that can be cached: before what is missing of it, or of what is derived from it."""
        end = fetch.boundary
        for one in self.components:
            if isinstance(one.shape, Run | Derived):
                missing = [at for at in fetch.reads[one.name] if at not in came.get(one.name, ())]
                end = min(end, min(missing, default=end + one.unit) - one.unit)
        return end

    def entries(
        self, fetch: ComponentFetch, came: Mapping[str, Collection[int]], end: int
    ) -> dict[str, dict[int, int]]:
        """What is attached: KV up to its end, and of the others what is whole and belongs there."""
        found = {}
        for one in self.components:
            reads = fetch.reads.get(one.name, {})
            if isinstance(one.shape, Run | Derived):
                found[one.name] = {at: place for at, place in reads.items() if at <= end}
            else:
                found[one.name] = dict(reads) if self.is_whole(one, fetch, came, end) else {}
        return found

    def is_whole(
        self, component: Component, fetch: ComponentFetch, came: Mapping[str, Collection[int]], end: int
    ) -> bool:
        """Whether all of a component came, and the KV reaches the boundary that it was read for."""
        return end == fetch.boundary and all(at in came.get(component.name, ()) for at in fetch.reads[component.name])

    def abort(self, fetch: ComponentFetch) -> Places:
        """Give everything back that I/O does not write."""
        return self.finish(fetch, {}, {})

    def finish(
        self, fetch: ComponentFetch, kept: Mapping[str, Collection[int]], came: Mapping[str, Collection[int]]
    ) -> Places:
        """The prefetch is over: its anchor is let go, and what is neither kept nor written is given back."""
        self.tree.unlock(fetch.guard)
        fetch.over = True
        busy = self.busy(fetch, came)
        returned: Places = {}
        for name, places in fetch.buffers.items():
            returned[name] = [one for one in places if one not in kept.get(name, ()) and one not in busy.get(name, ())]
            fetch.buffers[name] = [one for one in places if one in busy.get(name, ())]
        return self.give(returned)

    def busy(self, fetch: ComponentFetch, came: Mapping[str, Collection[int]]) -> Places:
        """The places that I/O may still write."""
        if not fetch.running:
            return {}
        return {
            name: [place for at, place in some.items() if at not in came.get(name, ())]
            for name, some in fetch.reads.items()
        }

    def settled(self, fetch: ComponentFetch) -> Places:
        """The I/O has ended; of a prefetch that is over the rest is given back."""
        fetch.running = False
        if not fetch.over:
            return {}
        returned, fetch.buffers = fetch.buffers, {}
        return self.give(returned)

    def give(self, places: Places) -> Places:
        """These places are free again."""
        for name, some in places.items():
            self.pools.give(name, some)
        return places
