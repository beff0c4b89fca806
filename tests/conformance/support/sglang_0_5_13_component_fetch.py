"""Prefetches of SGLang 0.5.13.post1's unified cache with a window or states: what storage has comes to the host.

Real, as published: ``UnifiedRadixCache`` with its components, ``init_hicache`` and the stack that it chooses,
``HybridCacheController`` with the functions of its threads, the host pools of KV, of a window and of states, and
``HiCacheFile.batch_exists_v2``.  Replaced: what is in every hierarchy of this release, and the files, of which a scene
says which there are and which could be read.  Run by the interpreter of the release's environment.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from kvlitmus.conformance.adapters.sglang.common import steps
from kvlitmus.conformance.adapters.sglang.common.components import window_pool
from kvlitmus.conformance.adapters.sglang.common.hicache import SRT, BackendFactory
from kvlitmus.conformance.adapters.sglang.common.pools import MEM
from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign, install, torch_module
from kvlitmus.conformance.adapters.sglang.v0_5_13 import environment
from kvlitmus.conformance.adapters.sglang.v0_5_13.components import COMPONENT_PLAN as PLAN
from kvlitmus.conformance.adapters.sglang.v0_5_13.components import Hybrid
from kvlitmus.conformance.adapters.sglang.v0_5_23.component_prefetch import Storage
from kvlitmus.conformance.ports import Config
from kvlitmus.spec.words.units import Key
from tests.conformance.support.sglang_component_fetch import stored_of

WIDEST = "kv+swa"
"""The layout with most components for which this release has a host's memory: no stack is for window and states."""


class States:
    """The device's pool of states, of one layer."""

    device, num_mamba_layers = "cpu", 1

    def __init__(self, places: int) -> None:
        self.size = places
        entries: Foreign = torch_module().zeros((1, places + 1, 1))
        self.mamba_cache = SimpleNamespace(temporal=entries, conv=[entries])


class Rank(Hybrid):
    """A cache whose pools are the host's; the device stays empty."""

    plan = PLAN
    group: Foreign = None
    """The group of its tensor parallelism."""

    def __init__(self, config: Config) -> None:
        environment.modules(PLAN)
        self.rig = steps.Rig()
        steps.close_with(self, self.rig)
        steps.Rig.current = self.rig
        super().__init__(config)
        load = install(PLAN)
        self.storage: Foreign = load(f"{MEM}.hicache_storage")
        names = self.storage.PoolName
        self.pools = {"kv": "kv", "swa": names.SWA, "state": names.MAMBA}
        self.backend = Storage(self.storage, {pool: name for name, pool in self.pools.items()})
        made: Foreign = self.backend
        BackendFactory.made = made
        options = environment.server_args(config)
        options.hicache_ratio, options.hicache_storage_backend = 1.0, "litmus"
        options.hicache_storage_backend_extra_config = json.dumps({"prefetch_threshold": self.page})
        self.cache.init_hicache(options, self.params)
        self.cache.prefetch_stop_policy = "best_effort"
        self.controller: Foreign = self.cache.cache_controller
        self.controller.prefetch_capacity_limit = 1 << 30
        entries = {entry.name: entry.host_pool for entry in self.controller.mem_pool_host.entries}
        self.host = {name: entries[names.KV if name == "kv" else self.pools[name]] for name in self.names}
        for pool in self.host.values():
            pool.pin_memory = False

    def _allocator(self, load: Foreign) -> Foreign:
        made, places = super()._allocator(load), self.layout.places
        layers = {
            # the host pool adds a page
            name: environment.device_pool(replace(self.config, pages=places[name] - 1), PLAN)
            for name in ("kv", "swa")
            if name in self.names
        }
        if "swa" in self.names:
            known = load(f"{MEM}.swa_memory_pool").SWAKVPool
            kv = window_pool(type("Pool", (load(f"{MEM}.base_swa_memory_pool").BaseSWAKVPool, known), {}))
            kv.register_mapping(made.full_to_swa_index_mapping)
        else:
            linear = load(f"{MEM}.memory_pool").HybridLinearKVPool
            kv = object.__new__(type("Pool", (linear,), {"__abstractmethods__": frozenset()}))
        kv.full_kv_pool, kv.swa_kv_pool = layers["kv"], layers.get("swa")
        kv.layers_mapping, kv.full_attention_layer_id_mapping = {0: (0, False), 1: (0, True)}, {0: 0}
        kv.device, kv.size, kv.layer_num, kv.use_mla = "cpu", layers["kv"].size, 2, False
        kv.register_layer_transfer_counter = lambda _counter: None
        made._kvcache = kv
        return made

    def _params(self, load: Foreign, **more: object) -> Foreign:
        if self.states is not None:
            self.rows.mamba_pool, self.rows.mamba_map = States(self.layout.places["state"] - 1), {1: 0}
            self.rows.register_layer_transfer_counter = lambda _counter: None
        self.params: Foreign = super()._params(load, tp_cache_group=self.group, **more)
        return self.params

    # --- what is looked at

    def component_match(self, key: Key) -> tuple[int, dict[str, list[int]], object]:
        """``match_prefix``; how far what the host has goes, and the node there."""
        found = self.cache.match_prefix(self.base.MatchPrefixParams(key=self._key(key)))
        return int(found.host_hit_length), {}, found.last_host_node

    def unit(self, name: str) -> int:
        """How many rows a place has."""
        return 1 if name == "state" else self.page

    def component_available(self) -> dict[str, int]:
        """``available_size`` of the host's pools, in pages, and states."""
        return {name: int(self.host[name].available_size()) // self.unit(name) for name in self.names}

    def component_entries(self) -> list[tuple[str, str | None, tuple[object, ...], int]]:
        """What the nodes have on the host."""
        return self._snapshot("host_value")

    def component_alloc(self, wants: Mapping[str, int]) -> dict[str, list[int]] | None:
        """``alloc`` of the host's pools: somebody else has these."""
        return {name: self.host[name].alloc(many * self.unit(name)).tolist() for name, many in wants.items()}

    # --- what the scheduler does

    def look(self) -> None:
        """Two scheduler steps: what is put into the release queues in one is free after the next."""
        self.cache.drain_storage_control_queues()
        self.cache.drain_storage_control_queues()

    def ask(self, key: Key, stored: Mapping[str, Sequence[int]]) -> None:
        """A request arrives, and storage has pages that end there."""
        start, _, node = self.component_match(key)
        anchor: Foreign = node
        hashes: list[str] = []
        last = before = anchor.get_last_hash_value()
        for at in range(start, len(key.tokens), self.page):
            last = self.controller.get_hash_str(array("q", key.tokens[at : at + self.page]), last)
            hashes.append(last)
        stored_of(self, hashes, start, stored)
        self.cache.prefetch_from_storage("r", node, array("q", key.tokens[start:]), before)

    def takes(self, key: Key, stored: Mapping[str, Sequence[int]]) -> bool:
        """Whether a prefetch of this key gets memory here, which it does before storage is asked."""
        self.ask(key, stored)
        return "r" in self.cache.ongoing_prefetch

    def begin(self, key: Key, stored: Mapping[str, Sequence[int]]) -> Any:
        """A request arrives, and storage answers; its operation, if there is something to read."""
        self.ask(key, stored)
        self.controller.prefetch_thread.resume()
        self.look()
        return SimpleNamespace(handle="r", operation=next(iter(self.controller.prefetch_buffer.queue), None))

    def batch(self, pages: int) -> None:
        """So many pages are read by one call of storage."""
        install(PLAN)(f"{SRT}.managers.cache_controller").STORAGE_BATCH_SIZE = pages

    def read(self) -> None:
        """SGLang's own thread reads as far as it can."""
        self.controller.prefetch_io_aux_thread.resume()


def planted(slip: str) -> None:
    """What ranks agree on there is each rank's own."""
    load = install(PLAN)
    controller = load(f"{MEM}.hybrid_cache.hybrid_cache_controller").HybridCacheController
    cache = load(f"{MEM}.unified_radix_cache").UnifiedRadixCache
    hits, ends, agree = (
        controller._all_reduce_prefetch_groups,
        cache.can_terminate_prefetch,
        cache._all_reduce_attn_groups,
    )

    def within(function: Callable[..., Foreign]) -> Callable[..., Foreign]:
        """While this runs, what the tree's ranks agree on is kept to oneself."""

        def run(self: Foreign, *arguments: object) -> Foreign:
            cache._all_reduce_attn_groups = lambda self, tensor, op: agree(self, tensor.clone(), op)
            try:
                return function(self, *arguments)
            finally:
                cache._all_reduce_attn_groups = agree

        return run

    if slip == "hits":
        controller._all_reduce_prefetch_groups = lambda self, tensor, op: hits(self, tensor.clone(), op)
    elif slip == "acks":
        cache.check_prefetch_progress = within(cache.check_prefetch_progress)
    elif slip == "ends":
        cache.can_terminate_prefetch = within(ends)
