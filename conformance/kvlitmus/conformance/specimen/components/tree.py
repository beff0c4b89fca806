"""The specimen's cache of components: a tree of nodes, one for each page, and pools with free lists.

It is written as engines write it, with counters and marks that are kept up to date call by call, and shares nothing
with the reference but the vocabulary.  Its parts are :class:`ComponentPools`, :class:`WindowWalk` (how far a component
reaches along a path), :class:`ComponentEvictor` (what goes from a tier) and :class:`ComponentTree`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kvlitmus.spec.interface import Sizes
from kvlitmus.spec.interface.components import ComponentEvent
from kvlitmus.spec.words.config import Config
from kvlitmus.spec.words.layouts import Layout, layout_of
from kvlitmus.spec.words.profile import Profile
from kvlitmus.spec.words.shapes import Chunk, Component, Derived, Point, Run, Window
from kvlitmus.spec.words.units import Key


@dataclass(eq=False)
class ComponentNode:
    """A prefix of whole pages: its page, what each component has for it on either tier, and how often that is kept.

    ``used``, ``born``, ``hits``: by the tree's clock when it was used last and when it came, and how often it was used.
    """

    units: tuple[object, ...]
    above: ComponentNode | None
    end: int
    children: dict[tuple[object, ...], ComponentNode] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)
    locks: dict[str, int] = field(default_factory=dict)
    host: dict[str, int] = field(default_factory=dict)
    host_locks: dict[str, int] = field(default_factory=dict)
    used: int = 0
    born: int = 0
    hits: int = 0


ORDERS: dict[str, Callable[[ComponentNode], tuple[int, ...]]] = {
    "lru": lambda node: (node.used,),
    "mru": lambda node: (-node.used,),
    "lfu": lambda node: (node.hits, node.used),
    "fifo": lambda node: (node.born,),
    "filo": lambda node: (-node.born,),
    "priority": lambda node: (node.used,),
    "slru": lambda node: (int(node.hits >= 2), node.used),
}
"""What each policy compares, the least goes first; nobody gives components priorities."""


class ComponentPools:
    """The free places of each pool, last freed first out."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.pool_of = {one.name: one.pool for one in layout.components}
        self.free: dict[str, list[int]] = {pool: list(range(many)) for pool, many in layout.places.items()}

    def alloc(self, wants: Mapping[str, int]) -> dict[str, list[int]] | None:
        """So many places of each component, or ``None`` where one of the pools is short."""
        if not self.enough(wants):
            return None
        return {name: [self.free[self.pool_of[name]].pop() for _ in range(many)] for name, many in wants.items()}

    def enough(self, wants: Mapping[str, int]) -> bool:
        """Whether each pool has what all components together ask of it."""
        return not self.short(wants)

    def short(self, wants: Mapping[str, int]) -> set[str]:
        """The pools that have less than what all components together ask of them."""
        asked = dict.fromkeys(self.free, 0)
        for name, many in wants.items():
            asked[self.pool_of[name]] += many
        return {pool for pool, many in asked.items() if len(self.free[pool]) < many}

    def give(self, name: str, places: Sequence[int]) -> None:
        """These places of a component are free again."""
        self.free[self.pool_of[name]].extend(places)


class ComponentJournal:
    """What is to be told of entries that come and go."""

    def __init__(self) -> None:
        self.waiting: list[ComponentEvent] = []

    def tell(self, what: str, tier: str, name: str, namespace: str | None, node: ComponentNode) -> None:
        """An entry of a node was stored on a tier, or removed from it."""
        self.waiting.append(ComponentEvent(what, tier, name, namespace, prefix_of(node)))

    def clear(self) -> None:
        """Everything has gone."""
        self.waiting.append(ComponentEvent("cleared"))

    def take(self) -> list[ComponentEvent]:
        """What wasn't told before."""
        waiting, self.waiting = self.waiting, []
        return waiting


def prefix_of(node: ComponentNode) -> tuple[object, ...]:
    """All units up to the end of a node."""
    parts: list[tuple[object, ...]] = []
    at: ComponentNode | None = node
    while at is not None:
        parts.append(at.units)
        at = at.above
    return tuple(unit for part in reversed(parts) for unit in part)


class WindowWalk:
    """Goes down a path and says after each node whether one component could end there."""

    def __init__(self, component: Component, profile: Profile) -> None:
        self.component = component
        self.reach = component.shape.reach if isinstance(component.shape, Window) else 0
        self.full = profile.window_root == "full"
        self.unbroken = 0
        self.gap = False
        self.had: list[bool] = []

    def goes_on(self, node: ComponentNode) -> bool:
        """Take the next node of the path; whether a prefix may end with it."""
        shape, unit = self.component.shape, self.component.unit
        has = self.component.name in node.places
        if isinstance(shape, Point):
            return has
        if node.end % unit:
            return False
        self.had.append(has)
        if isinstance(shape, Chunk):
            return self.chunk_is_there(node.end, shape.size)
        self.unbroken = self.unbroken + unit if has else 0
        self.gap = self.gap or not has
        if isinstance(shape, Run | Derived):
            return not self.gap
        return self.unbroken >= self.reach or (not self.gap and not self.full)

    def chunk_is_there(self, end: int, size: int) -> bool:
        """Whether everything is there since the last multiple of the chunk's size."""
        unit = self.component.unit
        behind = (end % size + unit - 1) // unit
        return all(self.had[-behind:]) if behind else True


class ComponentTier(NamedTuple):
    """One tier: its name, its pools, what a node has there of each component, and how often that is kept."""

    name: str
    pools: ComponentPools
    entries: Callable[[ComponentNode], dict[str, int]]
    locks: Callable[[ComponentNode], dict[str, int]]


class ComponentEvictor:
    """Evicts from one tier of a tree what is worth least by the policy; entries and locks are those of this tier.

    What comes to its tier and leaves it, it tells its journal.
    """

    def __init__(
        self, tier: ComponentTier, roots: dict[str | None, ComponentNode], profile: Profile, policy: str
    ) -> None:
        self.tier = tier
        self.roots = roots
        self.profile = profile
        self.policy = policy
        self.components = tier.pools.layout.components
        self.base = self.components[0]
        self.journal = ComponentJournal()
        self.leaving: Callable[[ComponentNode, list[str]], None] = lambda _node, _names: None
        """What is to be done before a node loses its entries of some components."""

    def put(self, node: ComponentNode, name: str, place: int) -> None:
        """An entry comes to a node."""
        self.tier.entries(node)[name] = place
        self.told("stored", node, name)

    def take(self, node: ComponentNode, name: str) -> int:
        """An entry leaves a node; its place."""
        self.told("removed", node, name)
        return self.tier.entries(node).pop(name)

    def told(self, what: str, node: ComponentNode, name: str) -> None:
        """What became of an entry is to be told."""
        self.journal.tell(what, self.tier.name, name, self.namespace(node), node)

    def namespace(self, node: ComponentNode) -> str | None:
        """The namespace that a node belongs to."""
        top = node
        while top.above is not None:
            top = top.above
        return next(one for one, root in self.roots.items() if root is top)

    def nodes(self) -> Iterator[ComponentNode]:
        """Every node of the tree, roots left out."""
        waiting = [child for root in self.roots.values() for child in root.children.values()]
        while waiting:
            node = waiting.pop()
            waiting.extend(node.children.values())
            yield node

    def is_leaf(self, node: ComponentNode) -> bool:
        """Whether no cached KV goes on from a node."""
        return not any(self.base.name in self.tier.entries(child) for child in node.children.values())

    def evictable(self, component: Component) -> list[ComponentNode]:
        """The nodes that could lose their entry of a component now."""
        name = component.name
        return [
            node
            for node in self.nodes()
            if name in self.tier.entries(node)
            and not self.tier.locks(node).get(name)
            and (not isinstance(component.shape, Run) or self.is_leaf(node))
        ]

    def worth(self, node: ComponentNode) -> tuple[int, ...]:
        """What goes first is least: by the policy, and of equals what ends last."""
        return (*ORDERS[self.policy](node), -node.end)

    def evict(self, wants: Mapping[str, int]) -> dict[str, int]:
        """Free so many entries of each component, what is worth least first."""
        freed = {one.name: 0 for one in self.components}
        for name, many in wants.items():
            component = self.tier.pools.layout.named(name)
            while freed[name] < many and (choices := self.evictable(component)):
                victim = min(choices, key=self.worth)
                going = self.goes_with(victim, name)
                self.leaving(victim, going)
                for gone in going:
                    self.tier.pools.give(gone, [self.take(victim, gone)])
                    freed[gone] += 1
                self.prune(victim)
        return freed

    def goes_with(self, node: ComponentNode, name: str) -> list[str]:
        """The components that lose their entry with that of this one."""
        base, cascade = self.base.name, self.profile.component_cascade
        there, locks = self.tier.entries(node), self.tier.locks(node)
        whole = cascade != "none" and name == base
        if cascade in ("leaf", "later") and base in there and not locks.get(base):
            whole = whole or self.is_leaf(node)
        if whole:
            return list(there)
        order = [one.name for one in self.components]
        later = order[order.index(name) + 1 :] if cascade == "later" else []
        return [name, *(one for one in later if one in there and not locks.get(one))]

    def prune(self, node: ComponentNode) -> None:
        """Nodes that hold nothing, with nothing below them, are gone."""
        at: ComponentNode | None = node
        while at is not None and at.above is not None and not (at.places or at.host or at.children):
            at.above.children.pop(at.units, None)
            at = at.above


class ComponentTree(ComponentEvictor):
    """What is cached."""

    def __init__(self, config: Config, profile: Profile, pools: ComponentPools) -> None:
        tier = ComponentTier("device", pools, lambda node: node.places, lambda node: node.locks)
        super().__init__(tier, {}, profile, config.policy)
        self.size = config.page_size
        self.pools = pools
        self.step = math.lcm(*[one.align for one in self.components])
        self.clock = 0

    def walk(self, key: Key) -> Iterator[ComponentNode]:
        """The nodes of a key from its first page on, as far as there are any."""
        node = self.roots.get(key.namespace)
        units = key.units
        for start in range(0, len(units) - self.size + 1, self.size):
            node = node and node.children.get(units[start : start + self.size])
            if node is None:
                return
            yield node

    def match(self, key: Key) -> ComponentNode | None:
        """The deepest node at which every component could end; ``None`` for the root."""
        self.clock += 1
        best = self.dropped(key, self.last_usable(self.walk(key), self.most(key)))
        if best is not None:
            for one in self.components:
                for node in self.needed(one, best):
                    node.used = self.clock
            if self.profile.hit_counts == "match":
                for node in {node for one in self.components for node in self.needed(one, best)}:
                    node.hits += 1
        return best

    def dropped(self, key: Key, best: ComponentNode | None) -> ComponentNode | None:
        """What is left of a hit if its last entries are to be computed again, as the profile may say."""
        if self.profile.component_drop == "none":
            return best
        while best is not None and not self.is_followed(key, best):
            best = self.last_usable(self.walk(key), best.end - 1)
        return best

    def is_followed(self, key: Key, node: ComponentNode) -> bool:
        """Whether each component but states has the entry behind a node."""
        behind = {one.end: one.places for one in self.walk(key) if one.end > node.end}
        runs = [one for one in self.components if not isinstance(one.shape, Point)]
        return all(one.name in behind.get(node.end + one.unit, ()) for one in runs)

    def most(self, key: Key) -> int:
        """The length of the longest hit that the profile allows of a key."""
        return len(key.units) - (self.profile.match_cap == "len-1" and len(key.units) > 0)

    def last_usable(
        self,
        path: Iterable[ComponentNode],
        most: int,
        seen: Callable[[ComponentNode], ComponentNode] = lambda node: node,
    ) -> ComponentNode | None:
        """The last node on a path from the root at which every component could end, as the nodes are ``seen``."""
        walks = [self.walker(one) for one in self.components]
        best = None
        for node in path:
            shown = seen(node)
            usable = [walk.goes_on(shown) for walk in walks]
            if node.end <= most and node.end % self.step == 0 and all(usable):
                best = node
        return best

    def walker(self, component: Component) -> WindowWalk:
        """What says how far a component reaches along a path."""
        return WindowWalk(component, self.profile)

    def needed(self, component: Component, node: ComponentNode) -> list[ComponentNode]:
        """The nodes whose entries of a component are needed by who goes on from a node, the first one first."""
        found: list[ComponentNode] = []
        start = self.first_needed(component, node.end)
        at: ComponentNode | None = node
        while at is not None and at.above is not None and at.end > start:
            if at.end % component.unit == 0:
                found.append(at)
            at = at.above
        return found[:1] if isinstance(component.shape, Point) else found[::-1]

    def first_needed(self, component: Component, end: int) -> int:
        """The end of the last entry of a component that is not needed at this boundary."""
        shape = component.shape
        if isinstance(shape, Window):
            start = max(0, end - shape.reach)
        elif isinstance(shape, Chunk):
            start = end - end % shape.size
        else:
            start = 0
        return start - start % component.unit

    def insert(self, key: Key, entries: Mapping[str, Mapping[int, int]]) -> dict[str, list[int]]:
        """Fill what is missing; what was brought for what is there is the caller's."""
        return self.attach(key, entries)

    def attach(self, key: Key, entries: Mapping[str, Mapping[int, int]]) -> dict[str, list[int]]:
        """Fill what is missing, for an insert or a prefetch; what was brought for what is there."""
        self.clock += 1
        left: dict[str, list[int]] = {name: [] for name in entries}
        for node in self.grown(key, max((end for some in entries.values() for end in some), default=0)):
            self.count(node)
            for name, some in entries.items():
                if node.end in some:
                    self.fill(node, name, some[node.end], left[name])
        return left

    def count(self, node: ComponentNode) -> None:
        """An insert goes through a node: what holds nothing begins anew."""
        if not node.places and not node.host:
            node.born, node.hits = self.clock, 0
        node.hits += self.profile.hit_counts == "insert"

    def fill(self, node: ComponentNode, name: str, place: int, left: list[int]) -> None:
        """Give an entry to a node, unless it has one."""
        if name in node.places:
            left.append(place)
        else:
            self.put(node, name, place)
            node.used = self.clock

    def grown(self, key: Key, length: int) -> list[ComponentNode]:
        """The nodes of a key up to a length; those that don't exist are made."""
        node = self.roots.setdefault(key.namespace, ComponentNode((), None, 0))
        path = []
        for start in range(0, length, self.size):
            units = key.units[start : start + self.size]
            if units not in node.children:
                node.children[units] = ComponentNode(units, node, node.end + self.size)
            node = node.children[units]
            path.append(node)
        return path

    def lock(self, node: ComponentNode | None) -> dict[str, list[ComponentNode]]:
        """Protect what a boundary needs; which nodes that are, by component."""
        return self.keep({one.name: self.needed(one, node) if node else [] for one in self.components})

    def keep(self, cover: dict[str, list[ComponentNode]]) -> dict[str, list[ComponentNode]]:
        """Protect these nodes, by component."""
        for name, nodes in cover.items():
            for one in nodes:
                one.locks[name] = one.locks.get(name, 0) + 1
        return cover

    def unlock(self, cover: Mapping[str, Sequence[ComponentNode]]) -> None:
        """Take the protection back that a lock gave."""
        for name, nodes in cover.items():
            for one in nodes:
                one.locks[name] -= 1

    def sizes(self) -> dict[str, Sizes]:
        """How many entries of each component could be evicted, and how many are protected."""
        free = {one.name: 0 for one in self.components}
        held = dict(free)
        for node in self.nodes():
            for name, locks in self.counts(node):
                free[name] += not locks
                held[name] += locks
        return {name: Sizes(free[name], held[name]) for name in free}

    def counts(self, node: ComponentNode) -> list[tuple[str, int]]:
        """The components that have an entry at a node, and as how many protected ones it counts."""
        return [(name, bool(node.locks.get(name))) for name in node.places]

    def entries(self, *, host: bool = False) -> list[tuple[str, str | None, tuple[object, ...], int]]:
        """Every entry of one tier: its component, the namespace and the units of its prefix, and its place."""
        found = []
        for namespace, root in self.roots.items():
            waiting: list[tuple[ComponentNode, tuple[object, ...]]] = [(root, ())]
            while waiting:
                node, units = waiting.pop()
                waiting += [(child, units + child.units) for child in node.children.values()]
                there = node.host if host else node.places
                found += [(name, namespace, units, place) for name, place in there.items()]
        return found


class ComponentPorts:
    """Pools and tree behind the ports that each cache of components has."""

    def __init__(self, config: Config, parts: Any, profile: Profile) -> None:
        self.config, self.parts, self.profile = config, parts, profile
        self.layout = layout_of(config.components, config.page_size, config.pages)
        self.journal: ComponentJournal = parts.component_journal()
        self.component_reset()
        self.journal.take()

    def component_reset(self) -> None:
        """See :class:`~kvlitmus.spec.interface.components.ComponentLookup`."""
        self.pools: ComponentPools = self.parts.component_pools(self.layout)
        self.tree: ComponentTree = self.parts.component_tree(self.config, self.profile, self.pools)
        self.tree.journal = self.journal
        self.journal.clear()

    def component_events(self) -> list[ComponentEvent]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentEvents`."""
        return self.journal.take()

    def component_free_places(self) -> dict[str, list[int]]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentView`."""
        return {pool: list(free) for pool, free in self.pools.free.items()}

    def component_entries(self) -> list[tuple[str, str | None, tuple[object, ...], int]]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentView`."""
        return self.tree.entries()


class ComponentSpecimen(ComponentPorts):
    """Entries for whoever asks, and prefetches, behind the ports."""

    def component_reset(self) -> None:
        """See :class:`~kvlitmus.spec.interface.components.ComponentLookup`."""
        super().component_reset()
        self.fetches: Any = self.parts.component_fetches(self.pools, self.tree)
        self.claims: Any = self.parts.component_claims(self.pools, self.tree)

    def component_alloc(self, wants: Mapping[str, int]) -> dict[str, list[int]] | None:
        """See :class:`~kvlitmus.spec.interface.components.Components`."""
        self.claims.asks(wants)
        granted = self.pools.alloc(wants)
        self.claims.gets(granted or {})
        return granted

    def component_free(self, given: Mapping[str, Sequence[int]]) -> None:
        """See :class:`~kvlitmus.spec.interface.components.Components`."""
        self.claims.gives(given)
        for name, places in given.items():
            self.pools.give(name, places)

    def component_match(self, key: Key) -> tuple[int, dict[str, list[int]], object]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentLookup`."""
        node = self.tree.match(key)
        if node is None:
            return 0, {one.name: [] for one in self.layout.components}, None
        entries = {
            one.name: [at.places[one.name] for at in self.tree.needed(one, node) if one.name in at.places]
            for one in self.layout.components
        }
        return node.end, entries, node

    def component_insert(self, key: Key, entries: Mapping[str, Mapping[int, int]]) -> dict[str, list[int]]:
        """See :class:`~kvlitmus.spec.interface.components.Components`."""
        self.claims.brings(key, entries)
        left = self.tree.insert(key, entries)
        self.claims.gets(left if self.profile.duplicates == "caller_frees" else {})
        return left

    def component_lock(self, handle: object) -> tuple[object, dict[str, list[int]]]:
        """See :class:`~kvlitmus.spec.interface.components.Components`."""
        cover = self.tree.lock(self.claims.found(handle))
        self.claims.begins(cover)
        return cover, {name: [node.end for node in nodes] for name, nodes in cover.items()}

    def component_unlock(self, receipt: object) -> None:
        """See :class:`~kvlitmus.spec.interface.components.Components`."""
        self.claims.ends(receipt)
        assert isinstance(receipt, dict)
        self.tree.unlock(receipt)

    def component_evict(self, wants: Mapping[str, int]) -> dict[str, int]:
        """See :class:`~kvlitmus.spec.interface.components.Components`."""
        self.claims.asks(wants)
        return self.tree.evict(wants)

    def component_prefetch(self, handle: object, key: Key, threshold: int) -> tuple[Any, Any, dict[str, int]]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentPrefetch`."""
        fetch, freed = self.fetches.begin(self.claims.found(handle), key, threshold)
        self.claims.begins(fetch)
        return fetch, {name: list(some) for name, some in fetch.buffers.items()} if fetch else {}, freed

    def component_prefetch_found(
        self, fetch: Any, stored: Mapping[str, Sequence[int]]
    ) -> tuple[int, dict[str, dict[int, int]], dict[str, list[int]]]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentPrefetch`."""
        self.claims.goes_on(fetch)
        returned = self.fetches.found(fetch, stored)
        return fetch.boundary, {name: dict(some) for name, some in fetch.reads.items()}, returned

    def component_prefetch_settled(self, fetch: Any) -> dict[str, list[int]]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentPrefetch`."""
        self.claims.goes_on(fetch)
        returned: dict[str, list[int]] = self.fetches.settled(fetch)
        return returned

    def component_prefetch_commit(self, fetch: Any, came: Mapping[str, Sequence[int]]) -> tuple[int, Any]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentPrefetch`."""
        self.claims.goes_on(fetch, last=True)
        end, returned = self.fetches.commit(fetch, came)
        return end, returned

    def component_prefetch_abort(self, fetch: Any) -> dict[str, list[int]]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentPrefetch`."""
        self.claims.goes_on(fetch, last=True)
        returned: dict[str, list[int]] = self.fetches.abort(fetch)
        return returned

    def component_available(self) -> dict[str, int]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentCounters`."""
        return {pool: len(free) for pool, free in self.pools.free.items()}

    def component_sizes(self) -> dict[str, Sizes]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentSizes`."""
        return self.tree.sizes()
