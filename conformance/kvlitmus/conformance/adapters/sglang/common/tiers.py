"""What the adapters of SGLang's two hierarchical caches share: tree, host tier, what can be seen.

The scheduler's part is imitated as SGLang 0.5.13.post1 plays it; the functions that are meant are
named where they are.  See :mod:`kvlitmus.conformance.adapters.sglang.common.hicache` for what is replaced, and
:mod:`kvlitmus.conformance.adapters.sglang.v0_5_13.jobs` for storage and for what happens in the background.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence

from kvlitmus.conformance.adapters.sglang.common import steps
from kvlitmus.conformance.adapters.sglang.common.hicache import PLAN, device_pool, modules
from kvlitmus.conformance.adapters.sglang.common.pools import DevicePool
from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign
from kvlitmus.conformance.ports import Config, Hit, Sizes, Stored, Unsupported
from kvlitmus.conformance.ports.tiers import Loaded, TierNode, TierView
from kvlitmus.spec.units import Key

POLICIES_BY_HITS = ("lfu", "slru")


class Allocation:
    """``alloc`` of the host pool, unless the suite wants it to find nothing.

    It knows nothing of the adapter: what a thread can reach lives as long as the thread.
    """

    def __init__(self, alloc: Callable[[int], Foreign]) -> None:
        self.alloc = alloc
        self.left: int | None = None

    def __call__(self, need_size: int) -> Foreign:
        """Slots, or ``None``."""
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.left = None
                return None
        return self.alloc(need_size)


class Hierarchy(DevicePool):
    """Tree, host tier and snapshots of a cache with SGLang's ``HiCacheController``."""

    view = None  # type: ignore[assignment]  # a hierarchy has ``tiers`` instead

    def __init__(self, config: Config) -> None:
        if not config.tiered:
            raise Unsupported("this target is a hierarchy: it needs host pages")
        if config.host_pages < 2:
            raise Unsupported("HostKVCache has at least two pages")
        if config.write == "write_back" and config.policy in POLICIES_BY_HITS:
            raise Unsupported(f"under write_back SGLang counts no hits, so {config.policy} has nothing to go by")
        super().__init__(PLAN, config)
        self.config = config
        self.modules = modules()
        self.kv: Foreign = device_pool(config)
        self.allocator._kvcache = self.kv  # noqa: SLF001 - what its constructor would have been given
        self.rig = steps.Rig()
        steps.close_with(self, self.rig)
        self._build()

    # --- what differs from cache to cache

    def _make_cache(self) -> Foreign:
        """The cache, with its controller."""
        raise NotImplementedError

    def _host_pool(self) -> Foreign:
        """The host pool that holds KV."""
        raise NotImplementedError

    def _node(self, node: Foreign, parent: int) -> TierNode:
        """One node, as the ports show it."""
        raise NotImplementedError

    def _load_back(self, found: Foreign) -> Foreign:
        """``init_load_back``: the device slots of what comes back."""
        raise NotImplementedError

    # --- building

    def _build(self) -> None:
        steps.Rig.current = self.rig
        self.cache: Foreign = self._make_cache()
        self.controller: Foreign = self.cache.cache_controller
        self.host: Foreign = self._host_pool()
        self.allocation = self.host.alloc = Allocation(self.host.alloc)

    def fail_host_alloc(self, after: int) -> None:
        """The allocation after the next ``after`` ones returns ``None``, once."""
        self.allocation.left = after

    # --- the tree

    def _key(self, key: Key) -> Foreign:
        return self.modules.radix.RadixKey(array("q", key.tokens), key.namespace)

    def _match(self, key: Key) -> Foreign:
        return self.cache.match_prefix(self.modules.base.MatchPrefixParams(key=self._key(key)))

    def match(self, key: Key) -> Hit:
        """``match_prefix``; the handle is the last resident node."""
        found = self._match(key)
        slots = found.device_indices.tolist()
        return Hit(len(slots), slots, found.last_device_node, int(found.host_hit_length))

    def insert(
        self, key: Key, slots: Sequence[int], *, protected: int = 0, priority: int = 0, chunked: bool = False
    ) -> Stored:
        """``insert``."""
        del protected  # the tree doesn't ask
        params = self.modules.base.InsertParams(
            key=self._key(key), value=self._tensor(slots), priority=priority, chunked=chunked
        )
        return Stored(int(self.cache.insert(params).prefix_len))

    def lock(self, handle: object) -> object:
        """``inc_lock_ref``; the receipt is the node."""
        self.cache.inc_lock_ref(handle)
        return handle

    def unlock(self, receipt: object) -> None:
        """``dec_lock_ref``."""
        self.cache.dec_lock_ref(receipt)

    def evict(self, n: int) -> int:
        """``evict``."""
        return int(self.cache.evict(self.modules.base.EvictParams(num_tokens=n)).num_tokens_evicted)

    def sizes(self) -> Sizes:
        """``evictable_size()`` and ``protected_size()``."""
        return Sizes(int(self.cache.evictable_size()), int(self.cache.protected_size()))

    # --- the host tier

    def host_available(self) -> int:
        """``available_size()`` of the host pool."""
        return int(self.host.available_size())

    def evict_host(self, n: int) -> int | None:
        """``evict_host``."""
        freed = self.cache.evict_host(n)
        return None if freed is None else int(freed)

    def load_back(self, key: Key) -> Loaded:
        """``PrefillAdder.add_one_req``: match, lock the resident part, ``init_load_back``; then the batch begins."""
        found = self._match(key)
        before = len(found.device_indices)
        if not found.host_hit_length:
            return Loaded(before, None)
        resident = found.last_device_node
        locked = self.cache.inc_lock_ref(resident)
        loaded = self._load_back(found)
        self.cache.dec_lock_ref(resident, locked.to_dec_params())
        if len(loaded):
            self._begun_load(found.best_match_node, len(loaded))
        self._start_loads()
        return Loaded(before, loaded.tolist() if len(loaded) else None)

    def _begun_load(self, node: Foreign, units: int) -> None:
        """A load of so many units that ends with this node was begun."""
        raise NotImplementedError

    def _start_loads(self) -> None:
        """``ready_to_load_host_cache``, one batch per load.

        A batch waits for its loads, so no more than the controller's three load events are in use
        at a time; a load for which none is left waits for a scheduler step.
        """
        counter, queue = self.controller.layer_done_counter, self.controller.load_queue
        while queue:
            event = counter.events[(counter.producer_index + 1) % counter.num_counters].finish_event
            if any(ack.finish_event is event for ack in self.controller.ack_load_queue):
                return
            rest = queue[1:]
            del queue[1:]
            self.cache.ready_to_load_host_cache()
            queue.extend(rest)

    # --- looking

    def tiers(self) -> TierView:
        """Free lists, the tree by a walk from its root, and what work in flight holds."""
        nodes: list[TierNode] = []
        queue = [(-1, child) for child in self.cache.root_node.children.values()]
        for parent, node in queue:  # grows while it is walked
            queue.extend((len(nodes), child) for child in node.children.values())
            nodes.append(self._node(node, parent))
        return TierView(self._free_pages(), nodes, self._host_free(), list(self._moving()))

    def _host_free(self) -> list[int]:
        """The host's free list, page by page; a run that isn't one whole page, slot by slot."""
        slots, size = self.host.free_slots.tolist(), self.page_size
        if size == 1:
            return list(slots)
        free: list[int] = []
        for start in range(0, len(slots), size):
            run = slots[start : start + size]
            whole = run == list(range(run[0], run[0] + size)) and run[0] % size == 0
            free.extend([run[0] // size] if whole else [slot // size for slot in run])
        return free

    def _moving(self) -> Iterator[int]:
        """The host slots that work in flight holds, each as often as it is held."""
        raise NotImplementedError

    def poke(self, slots: Sequence[int], values: Sequence[int]) -> None:
        """Write K and V of these device slots."""
        numbers = self.torch.tensor(list(values), dtype=self.torch.float32)
        where = self._tensor(slots)
        for buffer in (self.kv.k_buffer[0], self.kv.v_buffer[0]):
            buffer.view(-1)[where] = numbers

    def peek(self, tier: str, slots: Sequence[int]) -> list[int]:
        """Read K."""
        buffer = self.kv.k_buffer[0] if tier == "device" else self.host.k_data_refs[0]
        return [int(number) for number in buffer.view(-1)[self._tensor(slots)].tolist()]
