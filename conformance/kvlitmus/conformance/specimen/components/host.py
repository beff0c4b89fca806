"""The specimen's host memory of components: places on the nodes of its tree, counters of who needs them, and copies.

A copy is an object with the nodes that it pins on either tier and the buffers that it is written to, as an engine has
one; what it brings is hung on the nodes when it has ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kvlitmus.conformance.specimen.components.tree import (
    ComponentEvictor,
    ComponentNode,
    ComponentPools,
    ComponentSpecimen,
    ComponentTier,
    ComponentTree,
)
from kvlitmus.spec.words.layouts import layout_of
from kvlitmus.spec.words.units import Key

Pinned = list[tuple[str, ComponentNode]]
Buffers = list[tuple[str, ComponentNode, int]]


@dataclass(eq=False)
class ComponentCopy:
    """A copy: which way it goes, the boundary that it is for, what it pins on device and host, and its buffers."""

    load: bool
    end: int
    device: Pinned
    host: Pinned
    buffers: Buffers


def placed(copy: ComponentCopy | None) -> dict[str, dict[int, int]]:
    """The buffers of a copy, by component and where the entries end."""
    found: dict[str, dict[int, int]] = {}
    for name, node, place in copy.buffers if copy else ():
        found.setdefault(name, {})[node.end] = place
    return found


class ComponentCopier(ComponentEvictor):
    """Backs up, loads back, and evicts from the host."""

    def __init__(self, pools: ComponentPools, host: ComponentPools, tree: ComponentTree) -> None:
        tier = ComponentTier("host", host, lambda node: node.host, lambda node: node.host_locks)
        super().__init__(tier, tree.roots, tree.profile, tree.policy)
        self.pools = pools
        self.host = host
        self.tree = tree

    # Beginning

    def back_up(self, node: ComponentNode | None) -> tuple[ComponentCopy | None, dict[str, int]]:
        """Copy to the host what a boundary needs and the host lacks."""
        return self.begin(node, load=False) if node else (None, {})

    def load(self, node: ComponentNode | None, key: Key) -> tuple[ComponentCopy | None, dict[str, int]]:
        """Copy to the device what it lacks for the deepest boundary of both tiers, if that is behind the hit."""
        deepest = self.deepest(key)
        if deepest is None or deepest.end <= (node.end if node else 0):
            return None, {}
        return self.begin(deepest, load=True)

    def deepest(self, key: Key) -> ComponentNode | None:
        """The deepest node of a key at which every component could end with what either tier has."""

        def both(node: ComponentNode) -> ComponentNode:
            return ComponentNode(node.units, node.above, node.end, places=self.together(node))

        return self.tree.last_usable(self.tree.walk(key), self.tree.most(key), both)

    def together(self, node: ComponentNode) -> dict[str, int]:
        """What a node has on either tier."""
        return {**node.host, **node.places}

    def needs(self, node: ComponentNode) -> Iterator[tuple[str, ComponentNode]]:
        """What a boundary needs, component by component."""
        for one in self.components:
            for needed in self.tree.needed(one, node):
                yield one.name, needed

    def lacks(self, node: ComponentNode, *, load: bool) -> Pinned:
        """What a boundary needs and the tier lacks that a copy goes to."""
        return [(name, at) for name, at in self.needs(node) if name not in (at.places if load else at.host)]

    def begin(self, node: ComponentNode, *, load: bool) -> tuple[ComponentCopy | None, dict[str, int]]:
        """Pin what the boundary needs, make room once, and take buffers for all components or for none."""
        missing = self.lacks(node, load=load)
        if not missing:
            return None, {}
        copy = ComponentCopy(load, node.end, [], [], [])
        self.pin(copy, node)
        wants: dict[str, int] = {}
        for name, _ in missing:
            wants[name] = wants.get(name, 0) + 1
        freed = self.make_room(wants, load=load)
        places = self.buffers(wants, load=load)
        if places is None:
            self.unpin(copy)
            return None, freed
        copy.buffers = [(name, at, places[name].pop()) for name, at in missing]
        return copy, freed

    def pin(self, copy: ComponentCopy, node: ComponentNode) -> None:
        """Protect on both tiers what is there of what a boundary needs."""
        copy.device = [(name, at) for name, at in self.needs(node) if name in at.places]
        copy.host = [(name, at) for name, at in self.needs(node) if name in at.host]
        for name, at in copy.device:
            at.locks[name] = at.locks.get(name, 0) + 1
        for name, at in copy.host:
            at.host_locks[name] = at.host_locks.get(name, 0) + 1

    def unpin(self, copy: ComponentCopy) -> None:
        """Take that protection back."""
        for name, at in copy.device:
            at.locks[name] -= 1
        for name, at in copy.host:
            at.host_locks[name] -= 1

    def make_room(self, wants: Mapping[str, int], *, load: bool) -> dict[str, int]:
        """Where there is too little on a tier, evict there once what is wanted of the pools that are short."""
        pools = self.pools if load else self.host
        short = pools.short(wants)
        mine = {name: many for name, many in wants.items() if pools.pool_of[name] in short}
        if not mine:
            return {}
        return self.tree.evict(mine) if load else self.evict(mine)

    def buffers(self, wants: Mapping[str, int], *, load: bool) -> dict[str, list[int]] | None:
        """Places for all components, or none."""
        return (self.pools if load else self.host).alloc(wants)

    # Ending

    def ended(self, copy: ComponentCopy, *, ok: bool) -> dict[str, list[int]]:
        """Hang what was brought on its nodes, unless the copy has failed; what is given back."""
        self.unpin(copy)
        returned: dict[str, list[int]] = {}
        for name, node, place in copy.buffers:
            if not ok or not self.land(copy, node, name, place):
                returned.setdefault(name, []).append(place)
        for name, places in returned.items():
            (self.pools if copy.load else self.host).give(name, places)
        for _, node, _ in copy.buffers:
            self.tree.prune(node)
        return returned

    def land(self, copy: ComponentCopy, node: ComponentNode, name: str, place: int) -> bool:
        """Give an entry to a node, unless it has one; whether it got it."""
        there = node.places if copy.load else node.host
        if name in there:
            return False
        (self.tree if copy.load else self).put(node, name, place)
        node.used = self.tree.clock
        return True


class ComponentHierarchy(ComponentSpecimen):
    """Pools, tree and host memory behind the ports."""

    def component_reset(self) -> None:
        """See :class:`~kvlitmus.spec.interface.components.ComponentLookup`."""
        config = self.config
        self.layout = layout_of(config.components, config.page_size, config.pages, config.host_pages)
        super().component_reset()
        self.host: ComponentPools = self.parts.component_pools(self.layout._replace(places=self.layout.host))
        self.copies: Any = self.parts.component_copies(self.pools, self.host, self.tree)
        self.copies.journal = self.journal
        self.policy: Any = self.parts.component_policies(
            self.copies, self.tree, config.write if config.tiered else "asked"
        )

    def component_insert(self, key: Key, entries: Mapping[str, Mapping[int, int]]) -> dict[str, list[int]]:
        """See :class:`~kvlitmus.spec.interface.components.Components`."""
        self.claims.may_bring(key, entries)
        self.policy.before_insert(key)
        left = super().component_insert(key, entries)
        self.policy.inserted(key)
        return left

    def component_begun(self) -> list[Any]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentWrites`."""
        begun: list[Any] = self.policy.take()
        for one in begun:
            self.claims.begins(one.copy)
        return begun

    def component_back_up(self, handle: object) -> tuple[Any, dict[str, dict[int, int]], dict[str, int]]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentHost`."""
        copy, freed = self.copies.back_up(self.claims.found(handle))
        self.claims.begins(copy)
        return copy, placed(copy), freed

    def component_load(self, handle: object, key: Key) -> tuple[Any, int, dict[str, dict[int, int]], dict[str, int]]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentHost`."""
        copy, freed = self.copies.load(self.claims.found(handle), key)
        self.claims.begins(copy)
        return copy, copy.end if copy else 0, placed(copy), freed

    def component_copied(self, copy: Any, ok: bool) -> dict[str, list[int]]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentHost`."""
        self.claims.ends(copy)
        returned: dict[str, list[int]] = self.copies.ended(copy, ok=ok)
        return returned

    def component_evict_host(self, wants: Mapping[str, int]) -> dict[str, int]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentHost`."""
        self.claims.asks(wants)
        freed: dict[str, int] = self.copies.evict(wants)
        return freed

    def component_available_host(self) -> dict[str, int]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentHostCounters`."""
        return {pool: len(free) for pool, free in self.host.free.items()}

    def component_free_host(self) -> dict[str, list[int]]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentHostView`."""
        return {pool: list(free) for pool, free in self.host.free.items()}

    def component_host_entries(self) -> list[tuple[str, str | None, tuple[object, ...], int]]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentHostView`."""
        return self.tree.entries(host=True)
