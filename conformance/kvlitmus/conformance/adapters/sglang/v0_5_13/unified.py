"""SGLang 0.5.13.post1's ``UnifiedRadixCache`` with a host tier and storage, on a CPU.

Targets: ``unified`` (also the module itself), and ``unified_events``, the same with its events told.

The cache has its one component for full attention, and gets its host tier by ``init_hicache``, as
a server's does.  Host pool and everything else that is replaced:
:mod:`kvlitmus.conformance.adapters.sglang.v0_5_13.environment`.

What is different from ``HiRadixCache``, as far as the ports show it:

* Storage is configured when the server starts: ``attach`` of an unused cache makes it anew with
  storage; later it is refused, as ``detach`` always is.
* Duplicates are freed by ``insert`` itself.  The length that it returns includes pages that it brought
  back to the device, for which it takes the caller's slots; the port's ``already`` is without them.
* A receipt is the node with what ``inc_lock_ref`` says must be given back.

Profile: what the code says.  The ancestors of a page that is due are backed up first; an insert that
brings a page back counts a hit; the upper half of a split node keeps its age; a prefetch may take 1 s,
and 0.25 s more per 1024 tokens found, without an upper limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

from kvlitmus.conformance.adapters.sglang.common.pools import MEM, POLICIES
from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign, Peer, install
from kvlitmus.conformance.adapters.sglang.common.tiers import HICACHE_PORTS, Telling
from kvlitmus.conformance.adapters.sglang.v0_5_13.environment import PLAN
from kvlitmus.conformance.adapters.sglang.v0_5_13.hicache import HICACHE_PROFILE, hicache_configs
from kvlitmus.conformance.adapters.sglang.v0_5_13.jobs import Stepped
from kvlitmus.conformance.ports import Config, Stored, Unsupported
from kvlitmus.spec.words.units import Key


class Unified(Stepped):
    """``UnifiedRadixCache`` with ``HybridCacheController``, host pool and storage threads."""

    def __init__(self, config: Config) -> None:
        if config.storage == "later":
            raise Unsupported("UnifiedRadixCache of this release attaches storage when the server starts, not later")
        self.backend_name: str | None = None
        super().__init__(config)

    def _make_cache(self) -> Foreign:
        full = install(PLAN)(f"{MEM}.unified_cache_components").ComponentType.FULL
        self.full = int(full)
        params = self._params(enable_kv_cache_events=self.telling, tree_components=(full,))
        cache = self.modules.unified.UnifiedRadixCache(params)
        with self._sized() as options:
            options.hicache_storage_backend = self.backend_name
            options.hicache_storage_backend_extra_config = self._extra_config()
            cache.init_hicache(options, params)
        cache.enable_storage = cache.cache_controller.enable_storage
        return cache

    def _host_pool(self) -> Foreign:
        host = self.controller.mem_pool_host.anchor_entry.host_pool
        host.pin_memory = False
        return host

    def _backup_units(self, node_id: int) -> tuple[Foreign, int]:
        node, _receipt, published = self.cache.ongoing_write_through[node_id]
        return node, sum(len(part.key) for part in published)

    def _put_node(self, operation: Foreign) -> Foreign:
        return self.cache.ongoing_backup[operation.id][0]

    def _load_back(self, found: Foreign) -> Foreign:
        request = SimpleNamespace(
            last_node=found.last_device_node,
            swa_host_hit_length=found.swa_host_hit_length,
            mamba_host_hit_length=found.mamba_host_hit_length,
        )
        params = self.base.InitLoadBackParams(
            best_match_node=found.best_match_node, host_hit_length=found.host_hit_length, req=request
        )
        return self.cache.init_load_back(params)[0]

    def _resident(self, key: Key) -> int:
        """How many units of a key are on the device; looks, and changes nothing."""
        wanted = self._key(key)
        wanted, _ = wanted.maybe_to_bigram_view(self.config.bigram)
        wanted = wanted.page_aligned(self.page_size)
        node, units = self.cache.root_node, 0
        while len(wanted):
            node = node.children.get(wanted.child_key(self.page_size))
            if node is None or node.component_data[self.full].value is None:
                break
            same = node.key.match(wanted, page_size=self.page_size)
            units += same
            if same < len(node.key):
                break
            wanted = wanted[same:]
        return units

    def insert(
        self, key: Key, slots: Sequence[int], *, protected: int = 0, priority: int = 0, chunked: bool = False
    ) -> Stored:
        """``insert``, which frees the duplicates."""
        already = self._resident(key)
        self._insert(key, slots, prev_prefix_len=protected, priority=priority, chunked=chunked)
        return Stored(already)

    def lock(self, handle: object) -> object:
        """``inc_lock_ref``; the receipt is the node and what is to be given back."""
        return handle, self.cache.inc_lock_ref(handle).to_dec_params()

    def unlock(self, receipt: object) -> None:
        """``dec_lock_ref``."""
        assert isinstance(receipt, tuple)
        self.cache.dec_lock_ref(*receipt)

    def _attach(self) -> bool:
        unused = not self.cache.root_node.children and self.available() == self.config.pages * self.page_size
        if self.cache.enable_storage or not unused:
            done, _message = self.cache.attach_storage_backend("litmus", self._extra_config(), "litmus")
            return bool(done)
        self.backend_name = "litmus"
        self._build()
        return True

    def detach(self) -> bool:
        """``detach_storage_backend``: this release's answer is no."""
        done, _message = self.cache.detach_storage_backend()
        return bool(done)


class UnifiedEvents(Telling, Unified):
    """The same, with its events told."""


UNIFIED_PROFILE = replace(
    HICACHE_PROFILE,
    attach="at_start",
    duplicates="cache_frees",
    split_created="keeps",
    backup_parent="chain",
    restored_counts=True,
    timeout=(1.0, 0.25, 0.0),
)


_target = partial(
    Peer,
    plan=PLAN,
    profile=UNIFIED_PROFILE,
    configs=tuple(config for config in hicache_configs("lfu", "priority") if config.storage != "later"),
    policies=POLICIES,
)

unified = _target(build=Unified, capabilities=HICACHE_PORTS)
unified_events = _target(build=UnifiedEvents, capabilities=HICACHE_PORTS | {"events"})

profile = unified.profile
capabilities = unified.capabilities
make = unified.make
