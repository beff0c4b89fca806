"""Looking at the compiled tree of SGLang 0.5.23 with both of its tiers, without changing anything.

The compiled core shows no nodes, but it answers questions about any node whose id one knows, and
its ids are consecutive numbers: asking for those behind the last known one finds new nodes, and a
node that is gone answers with ``KeyError``.  Of a living node it tells the path from the root
(``collect_path_info``), the slots on the device (``get_component_device_value``), and, where the node is
backed up, the slots on the host and its tokens (``build_storage_backup_spec``); of a node with hashes, its
tokens too (``snapshot_buffer_backup``).  What a node's path spells never changes, so it is remembered per
id: from the match or insert that ended there, from the tokens that the core tells, or, for the upper part
of a node that was split, from what is below it.

Hit counts, priorities and pins can't be seen, and of locks only whether there are none.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign
from kvlitmus.spec.interface.tiers import TierNode
from kvlitmus.spec.words.units import Unit

GAP = 48
"""Maximum number of ids in a row that nobody has before the search for new nodes ends."""


class Seen(NamedTuple):
    """A living node, as the core tells it."""

    id: int
    parent: int
    start: int
    end: int

    @classmethod
    def of(cls, step: Foreign) -> Seen:
        """A step of a path."""
        return cls(step.node_id, step.parent_id, step.path_start, step.path_end)


class NativeSnapshot:
    """The nodes of the compiled tree."""

    def __init__(self, core: Foreign, full: Foreign, *, bigram: bool) -> None:
        self.core = core
        self.full = full
        self.bigram = bigram
        self.forget()

    def forget(self) -> None:
        """The tree is empty."""
        self.paths: dict[int, tuple[Unit, ...]] = {}
        self.living: set[int] = set()
        self.next = int(self.core.root_node_handle()) + 1

    def learn(self, node_id: int, units: tuple[Unit, ...]) -> None:
        """The path to the end of this node spells this."""
        self.paths.setdefault(node_id, units)

    def _way(self, node_id: int) -> tuple[Foreign, ...] | None:
        try:
            (way,) = self.core.collect_path_info([node_id])
        except KeyError:
            return None
        return tuple(way)

    def look(self) -> list[Seen]:
        """All living nodes, parents before children; learns what their paths spell."""
        ways: dict[int, tuple[Foreign, ...]] = {}
        for node_id in sorted(self.living):
            way = self._way(node_id)
            if way:
                ways[node_id] = way
        candidate, missed = self.next, 0
        while missed < GAP:
            way = self._way(candidate)
            if way:
                ways[candidate] = way
                self.next = candidate + 1
            missed = 0 if way else missed + 1
            candidate += 1
        self.living = set(ways)
        self.paths = {node_id: units for node_id, units in self.paths.items() if node_id in ways}
        seen = sorted(
            (Seen.of(way[-1]) for way in ways.values()),
            key=lambda one: one.end,
        )
        self._spell(seen, ways)
        return seen

    def _spell(self, seen: list[Seen], ways: dict[int, tuple[Foreign, ...]]) -> None:
        """Learn what the paths of new nodes spell."""
        for node_id in [node_id for node_id in ways if node_id in self.paths]:
            units = self.paths[node_id]
            for above in ways[node_id][:-1]:
                self.learn(above.node_id, units[: above.path_end])
        for one in seen:
            if one.id in self.paths:
                continue
            tokens = self._tokens(one.id)
            if tokens is not None and (one.parent in self.paths or one.start == 0):
                own = tuple(pairwise(tokens)) if self.bigram else tokens
                self.paths[one.id] = (*self.paths.get(one.parent, ()), *own[: one.end - one.start])

    def _tokens(self, node_id: int) -> tuple[int, ...] | None:
        """What the core says of a node's tokens, if it does: where it is on the host, or on the device with hashes."""
        spec = self.core.build_storage_backup_spec(node_id, False)
        if spec is not None:
            return tuple(spec.token_ids)
        hashed = self.core.snapshot_buffer_backup(node_id, False)
        return None if hashed is None else tuple(hashed.key.raw_token_ids())

    def nodes(self) -> list[TierNode]:
        """The tree; a node of which nobody knows what it spells has no units."""
        places: dict[int, int] = {}
        nodes: list[TierNode] = []
        unlocked = set(self.core.walk_for_kv_canary(True, False).slot_indices.tolist())
        for one in self.look():
            value = self.core.get_component_device_value(one.id, self.full)
            spec = self.core.build_storage_backup_spec(one.id, False)
            slots = None if value is None else tuple(value.tolist())
            places[one.id] = len(nodes)
            nodes.append(
                TierNode(
                    parent=places.get(one.parent, -1),
                    namespace=self.core.prefetch_anchor_info(one.id)[0],
                    units=self.paths.get(one.id, ())[one.start : one.end],
                    slots=slots,
                    host=None if spec is None else tuple(spec.host_value.tolist()),
                    locks=0 if slots is not None and unlocked.issuperset(slots) else None,
                )
            )
        return nodes
