"""Looking at SGLang 0.5.23's hierarchy: free lists, the tree written in Python, contents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace

from kvlitmus.conformance.adapters.sglang.common.pools import DevicePool
from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign
from kvlitmus.conformance.adapters.sglang.v0_5_23.hicache_plan import KVPool
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.ports.tiers import Event, TierNode, TierView
from kvlitmus.spec.units import Key


class Looking(DevicePool):
    """The ports that show what is there."""

    config: Config
    cache: Foreign
    full: Foreign
    host: Foreign
    kv: KVPool

    def moving(self) -> Iterator[int]:
        """The host slots that work in flight holds."""
        raise NotImplementedError

    def tiers(self) -> TierView:
        """Free lists, the tree by a walk from its root, and what work in flight holds."""
        return TierView(self._free_pages(), self._tier_nodes(), self._host_free(), list(self.moving()))

    def _tier_nodes(self) -> list[TierNode]:
        nodes: list[TierNode] = []
        counted = self.config.write != "write_back"
        queue = [(-1, child) for child in self.cache.tree_core.root_node.children.values()]
        for parent, node in queue:  # grows while it is walked
            queue.extend((len(nodes), child) for child in node.children.values())
            data = node.component_data[self.full]
            nodes.append(
                TierNode(
                    parent=parent,
                    namespace=node.key.extra_key,
                    units=tuple(node.key),
                    slots=None if data.value is None else tuple(data.value.tolist()),
                    host=None if data.host_value is None else tuple(data.host_value.tolist()),
                    locks=data.lock_ref,
                    hits=node.hit_count if counted else None,
                    priority=node.priority,
                    pins=data.host_lock_ref,
                )
            )
        return nodes

    def _host_free(self) -> list[int]:
        """The host's free list, page by page; a run that isn't one whole page, slot by slot."""
        slots = [slot for chunk in (self.host.free_slots, *self.host.release_slots) for slot in chunk.tolist()]
        size = self.page_size
        if size == 1:
            return slots
        free: list[int] = []
        for start in range(0, len(slots), size):
            run = slots[start : start + size]
            whole = run == list(range(run[0], run[0] + size)) and run[0] % size == 0
            free.extend([run[0] // size] if whole else [slot // size for slot in run])
        return free

    def poke(self, slots: Sequence[int], values: Sequence[int]) -> None:
        """Write K and V of these device slots."""
        numbers = self.torch.tensor(list(values), dtype=self.torch.float32)
        where = self._tensor(slots)
        self.kv.k.view(-1)[where] = numbers
        self.kv.v.view(-1)[where] = numbers

    def peek(self, tier: str, slots: Sequence[int]) -> list[int]:
        """Read K; -1 where V differs from it."""
        pair = (self.kv.k, self.kv.v) if tier == "device" else (self.host.k_data_refs[0], self.host.v_data_refs[0])
        where = self._tensor(slots)
        keys, values = (buffer.view(-1)[where].tolist() for buffer in pair)
        return [int(k) if k == v else -1 for k, v in zip(keys, values, strict=True)]


class Telling:
    """A cache whose events are told (``enable_kv_cache_events``)."""

    cache: Foreign
    params: Foreign

    def _key(self, key: Key) -> Foreign:
        """A key; its namespace is an adapter (LoRA) whose name is known, as the scheduler makes it known."""
        if key.namespace is not None:
            request = SimpleNamespace(lora_id=key.namespace, extra_key=key.namespace)
            self.params.kv_event_lora_names.register(request, key.namespace)
        made: Foreign = super()._key(key)  # type: ignore[misc]
        return made

    def events(self) -> list[Event]:
        """``take_events``, page by page; SGLang names a page by 64 bits of its hash."""
        told: list[Event] = []
        for event in self.cache.take_events():
            kind = type(event).__name__
            if kind == "AllBlocksCleared":
                told.append(Event("cleared"))
                continue
            tier = "device" if event.medium == "GPU" else "host"
            if kind == "BlockRemoved":
                told += [Event("removed", tier, page) for page in event.block_hashes]
                continue
            above, size = event.parent_block_hash, event.block_size
            for at, page in enumerate(event.block_hashes):
                units = tuple(event.token_ids[at * size : at * size + size])
                told.append(Event("stored", tier, page, above, units, event.lora_name))
                above = page
        return told
