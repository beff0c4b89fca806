"""What the adapters of SGLang's hierarchical caches share: the host tier, what can be seen, storage that comes.

The scheduler's part is imitated as SGLang plays it; the functions that are meant are named where they are.  See
:mod:`kvlitmus.conformance.adapters.sglang.common.hicache` for what is replaced, and
:mod:`kvlitmus.conformance.adapters.sglang.common.jobs` for what happens in the background.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kvlitmus.conformance.adapters.sglang.common import steps
from kvlitmus.conformance.adapters.sglang.common.hicache import Backend, BackendFactory
from kvlitmus.conformance.adapters.sglang.common.jobs import Jobs
from kvlitmus.conformance.adapters.sglang.common.pools import TREE_PORTS, listed, runs_of_pages
from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign
from kvlitmus.conformance.adapters.sglang.common.tree import Tree, walk
from kvlitmus.conformance.ports import Config, Unsupported
from kvlitmus.spec.interface.tiers import Event, PageStore, TierNode, TierView

HICACHE_PORTS = TREE_PORTS | {"host", "tiers", "steps", "prefetching", "lifecycle", "clock", "faults", "data"}
"""What all hierarchies have."""

POLICIES_BY_HITS = ("lfu", "slru")


def require_hierarchy(config: Config) -> None:
    """Raise ``Unsupported`` for what no hierarchy of SGLang can be."""
    if not config.tiered:
        raise Unsupported("this target is a hierarchy: it needs host pages")
    if config.write == "write_back" and config.policy in POLICIES_BY_HITS:
        raise Unsupported(f"under write_back SGLang counts no hits, so {config.policy} has nothing to go by")


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


class Hierarchy(Jobs, Tree):
    """Host tier, snapshots and storage of a cache with SGLang's ``HiCacheController``."""

    view = None  # type: ignore[assignment]  # a hierarchy has ``tiers`` instead
    telling = False
    """Whether events are told (``enable_kv_cache_events``)."""

    backend_class = Backend
    host: Foreign
    full: Foreign
    seconds = 0.0

    # --- what differs from release to release

    def _root(self) -> Foreign:
        """The root of the tree, where it is written in Python."""
        raise NotImplementedError

    def _device(self) -> tuple[Foreign, Foreign]:
        """The device's buffers of K and V."""
        raise NotImplementedError

    def _host_lists(self) -> list[Foreign]:
        """The host's free lists."""
        raise NotImplementedError

    def _moving(self) -> Iterator[int]:
        """The host slots that work in flight holds, each as often as it is held."""
        raise NotImplementedError

    def _handle(self, rid: int) -> Foreign:
        """SGLang's name for a request."""
        raise NotImplementedError

    def _attach(self) -> bool:
        """Attach the backend that the factory is going to make."""
        raise NotImplementedError

    # --- the host tier

    def host_available(self) -> int:
        """``available_size()`` of the host pool."""
        return int(self.host.available_size())

    def evict_host(self, n: int) -> int | None:
        """``evict_host``."""
        freed = self.cache.evict_host(n)
        return None if freed is None else int(freed)

    def _watch_alloc(self) -> None:
        """Have allocations of host memory fail when the suite wants it."""
        self.allocation = self.host.alloc = Allocation(self.host.alloc)

    def fail_host_alloc(self, after: int) -> None:
        """The allocation after the next ``after`` ones returns ``None``, once."""
        self.allocation.left = after

    # --- looking

    def tiers(self) -> TierView:
        """Free lists, the tree, and what work in flight holds."""
        host_free = runs_of_pages(listed(self._host_lists()), self.page_size)
        return TierView(self._free_pages(), self._tier_nodes(), host_free, list(self._moving()))

    def _tier_nodes(self) -> list[TierNode]:
        """The nodes, parents first: by a walk from the root."""
        return [self._tier_node(parent, node) for parent, node in walk(self._root())]

    def _tier_node(self, parent: int, node: Foreign) -> TierNode:
        """One node; its slots and locks are those of the component FULL."""
        data = node.component_data[self.full]
        return self._shown(parent, node, data, data.host_lock_ref)

    def _shown(self, parent: int, node: Foreign, data: Foreign, pins: int) -> TierNode:
        """A node as the ports show it; ``data``: the part of it that has slots and locks."""
        return TierNode(
            parent=parent,
            namespace=node.key.extra_key,
            units=tuple(node.key),
            slots=None if data.value is None else tuple(data.value.tolist()),
            host=None if data.host_value is None else tuple(data.host_value.tolist()),
            locks=data.lock_ref,
            hits=None if self.config.write == "write_back" else node.hit_count,
            priority=node.priority,
            pins=pins,
        )

    def poke(self, slots: Sequence[int], values: Sequence[int]) -> None:
        """Write K and V of these device slots."""
        numbers = self.torch.tensor(list(values), dtype=self.torch.float32)
        where = self._tensor(slots)
        for buffer in self._device():
            buffer.view(-1)[where] = numbers

    def peek(self, tier: str, slots: Sequence[int]) -> list[int]:
        """Read K; -1 where V differs from it."""
        pair = self._device() if tier == "device" else (self.host.k_data_refs[0], self.host.v_data_refs[0])
        where = self._tensor(slots)
        keys, values = (buffer.view(-1)[where].tolist() for buffer in pair)
        return [int(k) if k == v else -1 for k, v in zip(keys, values, strict=True)]

    # --- prefetches

    def loaded(self, rid: int) -> int:
        """``pop_prefetch_loaded_tokens``."""
        return int(self.cache.pop_prefetch_loaded_tokens(self._handle(rid)))

    def occupied(self) -> int:
        """``prefetch_tokens_occupied``."""
        return int(getattr(self.controller, "prefetch_tokens_occupied", 0))

    def set_clock(self, seconds: float) -> None:
        """The time that timeouts are measured by."""
        self.seconds = seconds

    # --- storage that comes

    def attach(self, store: PageStore) -> bool:
        """``attach_storage_backend``; the rate limit is the configured one instead of what the sizes give."""
        backend = self.backend_class(store, self.page_size)
        steps.Rig.current, BackendFactory.made = self.rig, backend
        if not self._attach():
            return False
        self.backend = backend
        self.controller.prefetch_capacity_limit = self.config.rate_limit
        return True


class Telling:
    """A cache whose events are told."""

    telling = True
    cache: Foreign

    def events(self) -> list[Event]:
        """``take_events``, page by page; SGLang names a page by the first 64 bits of its hash.

        0.5.13 tells no namespace.
        """
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
                told.append(Event("stored", tier, page, above, units, getattr(event, "lora_name", None)))
                above = page
        return told
