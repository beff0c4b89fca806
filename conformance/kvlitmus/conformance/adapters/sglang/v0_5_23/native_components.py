"""SGLang 0.5.23's unified cache with a window, with states, and with both, on its compiled tree, which servers use.

Targets: ``swa_rust``, ``mamba_rust`` and ``swa_mamba_rust``, and with host memory ``swa_hosted_rust``,
``mamba_hosted_rust`` and ``swa_mamba_hosted_rust``.  They make the same calls as those with the tree in Python
(:mod:`kvlitmus.conformance.adapters.sglang.v0_5_23.components` and
:mod:`kvlitmus.conformance.adapters.sglang.v0_5_23.component_host`), with the same profiles; where SGLang falls back to
that tree it is ``Unsupported``.

The compiled tree shows no nodes.  What is read of them are its answers to questions that change nothing:

* **Which there are**, and the path to each: :mod:`kvlitmus.conformance.adapters.sglang.v0_5_23.native_snapshot`.
* **On the device**: ``get_component_device_value`` of a node and a component.
* **On the host**: of KV ``build_storage_backup_spec``; of a window and of states ``build_hicache_transfers`` for
  storage, whose transfers name the host's rows.  It answers only of nodes with hashes.  So these caches tell events
  (``enable_kv_cache_events``), for which SGLang hashes what is inserted; the events are taken, and not judged.
* **What a path spells** a node with hashes tells too (``snapshot_buffer_backup``).
* **Locks**: whether a node's KV or window has any (``walk_for_kv_canary``), not how many.  A lock covers what it
  gave a lock to that had none, and what its hit needs that has one.  Of states no more can be seen than how many are
  locked: the last node's is covered if any is, for a lock is of no other state.
* **Where a key leads**: ``match_full_device_prefix``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kvlitmus.conformance.adapters.sglang.common.components import HybridCache, Row
from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign, Peer
from kvlitmus.conformance.adapters.sglang.v0_5_23 import component_host, components
from kvlitmus.conformance.adapters.sglang.v0_5_23.flat import UNIFIED
from kvlitmus.conformance.adapters.sglang.v0_5_23.native_snapshot import NativeSnapshot, Seen
from kvlitmus.conformance.ports import Config
from kvlitmus.spec.words.shapes import needed
from kvlitmus.spec.words.units import Key


class Native(HybridCache):
    """Reads the compiled tree; to be mixed in before a class that reads the one in Python."""

    core = "rust"

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.tree: Foreign = self.cache.tree_core
        self.snapshot = NativeSnapshot(self.tree, self.types["kv"], bigram=config.bigram)

    def _params(self, load: Foreign, **more: object) -> Foreign:
        self.phases: Foreign = load(f"{UNIFIED}.components").CacheTransferPhase
        return super()._params(load, enable_kv_cache_events=True, **more)

    def _node(self, handle: object) -> Foreign:
        return handle

    def _path(self, node: Foreign) -> list[Foreign]:
        (way,) = self.tree.collect_path_info([node])
        return [Seen.of(one) for one in way]

    def _span(self, node: Foreign) -> int:
        return int(node.end - node.start)

    def _value(self, node: Foreign, name: str, tier: str) -> Foreign:
        if tier == "value":
            return self.tree.get_component_device_value(node.id, self.types[name])
        if name == "kv":
            spec = self.tree.build_storage_backup_spec(node.id, False)
            return None if spec is None else spec.host_value
        transfers = self.tree.build_hicache_transfers(self.types[name], node.id, self.phases.BACKUP_STORAGE)
        return None if transfers is None else transfers[0].host_indices

    def _deepest(self, key: Key) -> Foreign:
        """The node in which the KV on the device ends that there is of a key."""
        return self.tree.match_full_device_prefix(self._key(key))[1]

    def _locks(self, path: Sequence[Foreign]) -> list[dict[str, int]]:
        """Whether each component of some nodes has a lock; of a state whether any state has."""
        unlocked = {name: self._unlocked(name) for name in self.names if name != "state"}
        states = "state" in self.names and self.tree.component_protected_size(self.types["state"]) > 0
        locks: list[dict[str, int]] = []
        for node in path:
            slots = self._value(node, "kv", "value").tolist()
            own = {name: int(not there.issuperset(slots)) for name, there in unlocked.items()}
            locks.append({**own, "state": int(states)})
        return locks

    def _unlocked(self, name: str) -> set[int]:
        """The slots of KV of the nodes on which this component is there, without a lock."""
        return set(self.tree.walk_for_kv_canary(True, name == "swa").slot_indices.tolist())

    def _covered(
        self, path: Sequence[Foreign], before: Sequence[Mapping[str, int]], after: Sequence[Mapping[str, int]]
    ) -> list[list[str]]:
        """What got a lock that had none, and what the hit needs that has one."""
        length = sum(self._span(node) for node in path)
        ends = {one.name: set(needed(one, length) or ()) for one in self.layout.components}
        return [
            [
                name
                for name in self.names
                if new[name]
                and ((name != "state" and not old[name]) or any(node.start < end <= node.end for end in ends[name]))
            ]
            for node, old, new in zip(path, before, after, strict=True)
        ]

    def _snapshot(self, tier: str) -> list[Row]:
        rows: list[Row] = []
        for node in self.snapshot.look():
            namespace, units = self.tree.prefetch_anchor_info(node.id)[0], self.snapshot.paths[node.id]
            assert self.tree.get_hash_values(node.id), "a node without hashes doesn't say what it has on the host"
            for name in self.names:
                rows += [
                    (name, namespace, units[:end], place)
                    for end, place in self._entries(node, name, node.start, tier).items()
                ]
        if tier == "value":
            seen = sum(self.page for name, *_ in rows if name == "kv")
            assert seen == self.tree.total_size()[0], "there are nodes that were not found"
        return rows

    def component_insert(self, key: Key, entries: Mapping[str, Mapping[int, int]]) -> dict[str, list[int]]:
        """And the events are taken, as the scheduler takes them after each batch."""
        left = super().component_insert(key, entries)
        self.cache.take_events()
        return left

    def component_reset(self) -> None:
        """Nobody remembers what was there."""
        super().component_reset()
        self.snapshot.forget()


class NativeHybrid(Native, components.Hybrid):
    """The compiled tree, on the device alone."""


class NativeHost(Native, component_host.ComponentHost):
    """The compiled tree, with host memory behind it."""


def _compiled(target: Peer, build: type[Native]) -> Peer:
    """The same target with the compiled tree."""
    return replace(target, build=build)


swa_rust = _compiled(components.swa, NativeHybrid)
mamba_rust = _compiled(components.mamba, NativeHybrid)
swa_mamba_rust = _compiled(components.swa_mamba, NativeHybrid)

swa_hosted_rust = _compiled(component_host.swa_hosted, NativeHost)
mamba_hosted_rust = _compiled(component_host.mamba_hosted, NativeHost)
swa_mamba_hosted_rust = _compiled(component_host.swa_mamba_hosted, NativeHost)
