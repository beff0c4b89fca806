"""The specimen's requests on components: a table of them over the tree and the pools of its cache of components."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kvlitmus.conformance.specimen.components.claims import ComponentClaims
from kvlitmus.conformance.specimen.components.tree import ComponentNode, ComponentPools, ComponentPorts, ComponentTree
from kvlitmus.spec.words.shapes import Chunk, Component, Point, Window
from kvlitmus.spec.words.units import Key

Rows = dict[str, dict[int, int]]
"""Of each component places, by where they end."""


@dataclass(eq=False)
class RequestState:
    """A request: what it holds, of that what isn't cached, and the nodes that it has locked for the rest.

    Of KV that another has cached first, it has locked the node as well: what it caches itself is behind it.
    """

    key: Key
    units: int
    rows: Rows
    own: set[tuple[str, int]] = field(default_factory=set)
    locked: dict[tuple[str, int], ComponentNode] = field(default_factory=dict)


class ComponentRequestTable:
    """The running requests, and how they come to their places."""

    def __init__(self, tree: ComponentTree, pools: ComponentPools) -> None:
        self.tree, self.pools = tree, pools
        self.components = pools.layout.components

    def start(self, key: Key, chunk: int) -> tuple[RequestState, int] | None:
        """A request with its hit, and places for a chunk; ``None``: there is no room."""
        node = self.tree.match(key)
        length = node.end if node else 0
        request = RequestState(key, length, {one.name: {} for one in self.components})
        for one in self.components:
            for found in self.tree.needed(one, node) if node else []:
                self.hold(request, one.name, found)
        if self.grow(request, chunk):
            return request, length
        self.finish(request)
        return None

    def grow(self, request: RequestState, chunk: int) -> bool:
        """Give back what is left behind, and get places for a chunk; whether there is room."""
        after = min(request.units + chunk, len(request.key.units))
        need = {one.name: self.working(one, request.units, after) for one in self.components}
        for name, row in request.rows.items():
            for end in [end for end in row if end not in need[name]]:
                self.let_go(request, name, end)
        missing = {name: [end for end in ends if end not in request.rows[name]] for name, ends in need.items()}
        granted = self.room({name: len(ends) for name, ends in missing.items() if ends})
        if granted is None:
            return False
        for name, places in granted.items():
            request.rows[name].update(zip(missing[name], places, strict=True))
            request.own.update((name, end) for end in missing[name])
        request.units = after
        self.publish(request)
        return True

    def working(self, component: Component, before: int, after: int) -> list[int]:
        """Where the entries end that are read or written between two lengths."""
        unit, shape = component.unit, component.shape
        last = -(-after // unit) * unit
        if isinstance(shape, Point):
            return [end for end in (before, last) if end]
        start = 0
        if isinstance(shape, Window):
            start = max(0, before - shape.reach)
        elif isinstance(shape, Chunk):
            start = before // shape.size * shape.size
        return list(range(start // unit * unit + unit, last + 1, unit))

    def room(self, wants: Mapping[str, int]) -> Mapping[str, Sequence[int]] | None:
        """Places, for which what is worth least is evicted; ``None`` where that would not be enough."""
        asked, loose = dict.fromkeys(self.pools.free, 0), {pool: len(free) for pool, free in self.pools.free.items()}
        for name, many in wants.items():
            asked[self.pools.pool_of[name]] += many
        for node in self.tree.nodes():
            for name in node.places:
                loose[self.pools.pool_of[name]] += not node.locks.get(name)
        if any(asked[pool] > loose[pool] for pool in asked):
            return None
        while not self.pools.enough(wants):
            short = [pool for pool, many in asked.items() if many > len(self.pools.free[pool])]
            mine = [one for one in self.components if one.pool in short]
            choices = [(self.tree.worth(node), one.name) for one in mine for node in self.tree.evictable(one)]
            self.tree.evict({min(choices)[1]: 1})
        return self.pools.alloc(wants)

    def hold(self, request: RequestState, name: str, node: ComponentNode) -> None:
        """A request holds an entry that is cached."""
        self.lock(request, name, node)
        request.rows[name][node.end] = node.places[name]

    def lock(self, request: RequestState, name: str, node: ComponentNode) -> None:
        """Protect a cached entry, once for a request."""
        if (name, node.end) not in request.locked:
            node.locks[name] = node.locks.get(name, 0) + 1
            request.locked[name, node.end] = node

    def let_go(self, request: RequestState, name: str, end: int) -> None:
        """A request needs an entry no more."""
        place = request.rows[name].pop(end)
        node = request.locked.pop((name, end), None)
        if node is not None:
            node.locks[name] -= 1
        if (name, end) in request.own:
            request.own.discard((name, end))
            self.pools.give(name, [place])

    def publish(self, request: RequestState) -> None:
        """Cache what is whole and a request's own; what is there already stays its own."""
        whole = self.whole(request)
        left = self.tree.insert(request.key, {name: row for name, row in whole.items() if row})
        path = {node.end: node for node in self.tree.walk(request.key)}
        for name, row in whole.items():
            for end, place in row.items():
                if place not in left.get(name, []):
                    request.own.discard((name, end))
                    self.hold(request, name, path[end])
                elif name == self.components[0].name:
                    self.lock(request, name, path[end])

    def whole(self, request: RequestState) -> Rows:
        """The entries of a request that are its own, and computed to their ends."""
        return {
            name: {end: place for end, place in row.items() if end <= request.units and (name, end) in request.own}
            for name, row in request.rows.items()
        }

    def finish(self, request: RequestState) -> None:
        """Let everything go that a request holds."""
        for name, row in request.rows.items():
            for end in list(row):
                self.let_go(request, name, end)


class ComponentServer(ComponentPorts):
    """Requests, tree and pools behind the ports."""

    def component_reset(self) -> None:
        """See :class:`~kvlitmus.spec.interface.components.ComponentLookup`."""
        super().component_reset()
        self.table: ComponentRequestTable = self.parts.component_requests(self.tree, self.pools)
        self.claims: ComponentClaims = self.parts.component_claims(self.pools, self.tree)

    def component_match(self, key: Key) -> tuple[int, dict[str, list[int]], object]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentLookup`."""
        node = self.tree.match(key)
        needed = {one.name: self.tree.needed(one, node) if node else [] for one in self.layout.components}
        return node.end if node else 0, {name: [at.places[name] for at in some] for name, some in needed.items()}, None

    def component_start(self, key: Key, chunk: int) -> tuple[object, int, Rows] | None:
        """See :class:`~kvlitmus.spec.interface.components.ComponentRequests`."""
        begun = self.table.start(key, chunk)
        if begun is None:
            return None
        request, length = begun
        self.claims.begins(request)
        return request, length, {name: dict(row) for name, row in request.rows.items()}

    def component_grow(self, receipt: object, chunk: int) -> tuple[bool, Rows]:
        """See :class:`~kvlitmus.spec.interface.components.ComponentRequests`."""
        self.claims.goes_on(receipt)
        assert isinstance(receipt, RequestState)
        granted = self.table.grow(receipt, chunk)
        return granted, {name: dict(row) for name, row in receipt.rows.items()}

    def component_finish(self, receipt: object) -> None:
        """See :class:`~kvlitmus.spec.interface.components.ComponentRequests`."""
        self.claims.ends(receipt)
        assert isinstance(receipt, RequestState)
        self.table.finish(receipt)
