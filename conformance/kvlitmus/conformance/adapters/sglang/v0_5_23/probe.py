"""Looking at a tree that shows no nodes, by asking for what was put in.

The compiled core of SGLang's unified cache hands out node ids only.  But it answers, without
changing anything, how much of a key is cached and where, and which nodes lie on a path.  A cached
prefix can only be one that somebody inserted; so remembering the keys of all inserts and asking
for each shows the whole tree: units (the tree's own answer to the question whether it has them),
slots, node boundaries.  The core also lists all slots that it holds, locked or not; what it holds
and no key reaches is shown as a node without units, which no correct tree has.
"""

from __future__ import annotations

from collections.abc import Callable

from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign
from kvlitmus.conformance.ports import NodeView
from kvlitmus.spec.words.units import Key


class Probe:
    """Remembers what was inserted and asks the core for it.

    ``cache`` is the ``UnifiedRadixCache``; ``to_foreign`` turns a key into SGLang's.
    """

    LIMIT = 512
    """Maximum number of keys that are remembered before those that are no longer needed are dropped."""

    def __init__(self, cache: Foreign, to_foreign: Callable[[Key], Foreign]) -> None:
        self.cache = cache
        self.core: Foreign = cache.tree_core
        self.to_foreign = to_foreign
        self.keys: dict[Key, None] = {}

    def forget(self) -> None:
        """The tree is empty."""
        self.keys.clear()

    def remember(self, key: Key) -> None:
        """This key is being inserted, or was."""
        self.keys[key] = None
        if len(self.keys) > self.LIMIT:
            self.nodes()

    def nodes(self) -> list[NodeView]:
        """The nodes, parents first.  Drops the keys that are not needed to find them again."""
        root = self.core.root_node_handle()
        unlocked = set(self.core.walk_for_kv_canary(True, False).slot_indices.tolist())
        places: dict[int, int] = {}
        nodes: list[NodeView] = []
        needed: dict[Key, None] = {}
        leaves: set[int] = set()
        for key in self.keys:
            matched, end, _ = self.core.match_full_device_prefix(self.to_foreign(key))
            if not matched:
                continue
            units = key.units
            slots = self.core.collect_full_device_indices(end, root).tolist()
            (path,) = self.core.collect_path_info([end])
            for step in path:
                # A node in which the key ends or turns away is found whole by the key that made it.
                if step.path_end > matched:
                    break
                if step.node_id not in places:
                    places[step.node_id] = len(nodes)
                    own = tuple(slots[step.path_start : step.path_end])
                    nodes.append(
                        NodeView(
                            parent=places.get(step.parent_id, -1),
                            namespace=key.namespace,
                            units=units[step.path_start : step.path_end],
                            slots=own,
                            locks=0 if unlocked.issuperset(own) else None,
                        )
                    )
                if step.num_children == 0 and step.node_id not in leaves:
                    leaves.add(step.node_id)
                    needed[key] = None
        self.keys = needed
        held = self.core.walk_for_kv_canary(False, False).slot_indices.tolist()
        shown = {slot for node in nodes for slot in node.slots}
        stray = tuple(slot for slot in held if slot not in shown)
        if stray:
            nodes.append(NodeView(parent=-1, namespace=None, units=(), slots=stray))
        return nodes
