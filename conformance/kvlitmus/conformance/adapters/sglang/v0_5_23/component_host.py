"""SGLang 0.5.23's unified cache with a window and states, and host memory for all of them, on a CPU.

Real, as published, besides what the targets without host memory have: ``attach_hybrid_pool_to_unified_cache`` and the
stacks that it chooses for a model with a window or states, ``HybridCacheController``, ``L2TransferEngine``,
``HostPoolGroup``, and the host pools of KV, of a window and of states.  Replaced: the copies of rows between device
and host (with I/O ``direct`` and layout ``page_first_direct``), CUDA's streams and events, and the device's pools,
which have one layer with one head of one number.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import NamedTuple

from kvlitmus.conformance.adapters.sglang.common import steps
from kvlitmus.conformance.adapters.sglang.common.components import HybridCache, window_pool
from kvlitmus.conformance.adapters.sglang.common.hicache import SRT
from kvlitmus.conformance.adapters.sglang.common.pools import MEM
from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign, install, torch_module
from kvlitmus.conformance.adapters.sglang.v0_5_23.components import COMPONENT_PLAN, RUNTIME, Hybrid
from kvlitmus.conformance.adapters.sglang.v0_5_23.environment import HICACHE_PLAN, MEMORY, PARALLEL, KVPool, Queue
from kvlitmus.conformance.adapters.sglang.v0_5_23.flat import CORES
from kvlitmus.conformance.ports import Config
from kvlitmus.spec.component_layouts import layout_of
from kvlitmus.spec.units import Key

ASSEMBLER = f"{MEM}.hybrid_cache.hybrid_pool_assembler"
OPTIONS = SimpleNamespace(**vars(MEMORY), hicache_ratio=1.0, hicache_size=0, hicache_mem_layout="page_first_direct")
RANKS = SimpleNamespace(**vars(PARALLEL), dcp_enabled=False)

PLAN = replace(
    COMPONENT_PLAN,
    real=COMPONENT_PLAN.real
    | HICACHE_PLAN.real
    | {ASSEMBLER, f"{MEM}.hybrid_cache.host_pool_config", f"{MEM}.pool_host.mamba", f"{MEM}.pool_host.host_pool_decl"},
    answers={
        **HICACHE_PLAN.answers,
        **COMPONENT_PLAN.answers,
        RUNTIME: {
            **COMPONENT_PLAN.answers[RUNTIME],
            "get_memory": lambda: OPTIONS,
            "get_parallel": lambda: RANKS,
            "get_observability": lambda: SimpleNamespace(extra_metric_labels=None),
            "get_serving": lambda: SimpleNamespace(strip_thinking_cache=False, served_model_name=None),
        },
        ASSEMBLER: {},
    },
)


def pages_of(indices: Foreign, size: int) -> list[int]:
    """Where the pages begin that these rows are: a copy moves whole pages."""
    return list(indices.tolist()[::size])


def all_layers(
    *,
    src_ptrs: Sequence[Foreign],
    dst_ptrs: Sequence[Foreign],
    src_indices: Foreign,
    dst_indices: Foreign,
    page_size: int,
) -> None:
    """``transfer_kv_all_layer_direct_lf_pf``: layers on the device to pages on the host, when the stream gets there."""
    pairs = list(zip(pages_of(src_indices, page_size), pages_of(dst_indices, page_size), strict=True))
    layers = len(src_ptrs) // len(dst_ptrs)

    def copy() -> None:
        for number, target in enumerate(dst_ptrs):
            for layer in range(layers):
                source = src_ptrs[number * layers + layer]
                for start, to in pairs:
                    target[to // page_size, layer] = source[start : start + page_size]

    steps.Stream.put(copy)


def one_layer(
    *,
    src_ptrs: Sequence[Foreign],
    dst_ptrs: Sequence[Foreign],
    src_indices: Foreign,
    dst_indices: Foreign,
    layer_id: int,
    page_size: int,
) -> None:
    """``transfer_kv_per_layer_direct_pf_lf``: a layer of pages on the host to the device, when the stream is there."""
    pairs = list(zip(pages_of(src_indices, page_size), pages_of(dst_indices, page_size), strict=True))

    def copy() -> None:
        for source, target in zip(src_ptrs, dst_ptrs, strict=True):
            for start, to in pairs:
                target[to : to + page_size] = source[start // page_size, layer_id]

    steps.Stream.put(copy)


def prepare() -> Callable[[str], Foreign]:
    """Put the replacements in place; answers the function that imports modules of the release."""
    load, torch = install(PLAN), torch_module()
    logging.getLogger("sglang").setLevel(logging.CRITICAL + 1)
    for name in ("mha", "mamba"):
        module = load(f"{MEM}.pool_host.{name}")
        module.transfer_kv_all_layer_direct_lf_pf = all_layers
        module.transfer_kv_per_layer_direct_pf_lf = one_layer
    allocate = load(f"{MEM}.pool_host.common").ALLOC_MEMORY_FUNCS
    allocate["cpu"] = lambda dims, dtype, **_kwargs: torch.zeros(dims, dtype=dtype)
    for name in (f"{SRT}.managers.cache_controller", f"{MEM}.hybrid_cache.hybrid_cache_controller"):
        load(name).threading = steps.THREADING
        load(name).Queue = Queue
    load(f"{MEM}.unified_radix_cache").atexit = SimpleNamespace(register=lambda _function: None)
    return load


class Layer(KVPool):
    """A pool of the device with one layer, of KV or of a window, as the assembler looks at it."""

    start_layer, end_layer, layer_num = 0, 1, 1
    hicache_write_back_staging = None

    def __init__(self, pages: int, page_size: int, host_pages: int) -> None:
        super().__init__(Config(page_size=page_size, pages=pages))
        self.size = pages * page_size
        self.host_capacity_tokens = (host_pages - 1) * page_size  # the host pool adds a page

    def get_device_pool_infos(self) -> list[Foreign]:
        """Its description."""
        info = self.buffer_info(install(PLAN)(f"{MEM}.device_pool_info"))
        return [SimpleNamespace(buffer_info=info)]


class States:
    """The device's pool of states, of one layer."""

    def __init__(self, places: int, host_places: int) -> None:
        torch = torch_module()
        self.size, self.host_capacity_tokens = places, host_places - 1  # the host pool adds a place
        self.temporal = torch.zeros((1, places + 1, 1), dtype=torch.float32)
        self.conv = torch.zeros((1, places + 1, 1), dtype=torch.float32)

    def get_device_pool_infos(self) -> tuple[Foreign]:
        """Its description; its layer comes after those of KV and of the window."""
        made = install(PLAN)(f"{MEM}.device_pool_info").MambaStateBufferInfo
        return (SimpleNamespace(buffer_info=made(temporal=self.temporal, conv=(self.conv,)), layer_ids=(2,)),)


class Admitted(NamedTuple):
    """What comes of a request's match: where its hit could end with what is on the host, where it ends, the node there.

    ``own``: the state that the request got for itself.  ``must``: there is enough to load for SGLang to try.
    """

    best: int
    hit: int
    node: Foreign
    own: int | None
    must: bool


class Hosted(Hybrid):
    """``UnifiedRadixCache`` with a window, states or both, and ``HybridCacheController`` behind it."""

    plan = PLAN
    core = "python"

    def __init__(self, config: Config, write: str, host_pages: int) -> None:
        self.rig = steps.Rig()
        steps.close_with(self, self.rig)
        steps.Rig.current = self.rig
        OPTIONS.hicache_write_policy = write
        self.hosted = layout_of(config.components, config.page_size, config.pages, host_pages)
        load = prepare()
        HybridCache.__init__(self, config)  # Hybrid's own asks for the tree in Python
        assert type(self.cache.tree_core).__name__ == CORES[self.core], "SGLang fell back to another tree"
        with load(f"{MEM}.pool_host.base").host_memory_budget_scope(1 << 40):
            self.cache.init_hicache(SimpleNamespace(), self.params)
        self.controller = self.cache.cache_controller
        self.group = self.cache.host_pool_group
        names = load(f"{MEM}.hicache_storage").PoolName
        self.pools = {"kv": names.KV, "swa": names.SWA, "state": names.MAMBA}

    def _allocator(self, load: Foreign) -> Foreign:
        made, places, host = super()._allocator(load), self.hosted.places, self.hosted.host
        self.layers: dict[str, Layer] = {
            name: Layer(places[name], self.page, host[name]) for name in ("kv", "swa") if name in self.names
        }
        if "swa" in self.names:
            known = load(f"{MEM}.swa_memory_pool").SWAKVPool
            kv = window_pool(type("Pool", (load(f"{MEM}.base_swa_memory_pool").BaseSWAKVPool, known), {}))
            kv.host_pool_decls = tuple
            kv.swa_kv_pool = self.layers["swa"]
            kv.layers_mapping = {0: (0, False), 1: (0, True)}
            kv.register_mapping(made.full_to_swa_index_mapping)
        else:
            kv = type("Pool", (load(f"{MEM}.memory_pool").HybridLinearKVPool,), {})()
            declare = load(f"{MEM}.pool_host.host_pool_decl").make_kv_pool_decl
            kv.host_pool_decls = lambda: (declare(self.layers["kv"]),)
            kv.full_attention_layer_id_mapping, kv.use_mla = {0: 0}, False
        kv.full_kv_pool = self.layers["kv"]
        kv.device, kv.layer_num, kv.start_layer = self.torch.device("cpu"), 2, 0
        kv.register_layer_transfer_counter = lambda _counter: None
        made._kvcache = kv  # noqa: SLF001 - allocators are built without KV
        return made

    def _params(self, load: Foreign, **more: object) -> Foreign:
        if self.states is not None:
            self.rows.mamba_pool = States(self.hosted.places["state"], self.hosted.host["state"])
            self.rows.register_layer_transfer_counter = lambda _counter: None
        made = HybridCache._params(self, load, tree_core_backend=self.core, **more)  # noqa: SLF001 - its base's own
        self.params = made
        return self.params

    # --- what the scheduler does

    def load(self, key: Key) -> Admitted:
        """A request is admitted: ``init_load_back`` where its match says so, as ``PrefillAdder`` calls it.

        Which locks the hit on the device meanwhile, and on both tiers what is to be loaded.
        """
        found = self.cache.match_prefix(self.base.MatchPrefixParams(key=self._key(key)))
        before, node = int(found.device_prefix_len), found.last_device_node
        best = self.depth(found.best_match_node)
        others = found.swa_host_hit_length or found.mamba_host_hit_length
        if not (found.host_hit_length or others):
            return Admitted(before, before, node, None, must=False)
        kv = SimpleNamespace(mamba_pool_idx=None, holds_mamba=False)
        request = SimpleNamespace(
            rid="r",
            last_node=node,
            swa_host_hit_length=found.swa_host_hit_length,
            mamba_host_hit_length=found.mamba_host_hit_length,
            kv=kv,
        )
        with self.locked(node), self.locked(found.best_match_node, host=True):
            length, node = self.cache.init_load_back(
                self.base.InitLoadBackParams(
                    best_match_node=found.best_match_node, host_hit_length=found.host_hit_length, req=request
                )
            )
        own = None if kv.mamba_pool_idx is None else int(kv.mamba_pool_idx)
        must = bool(others) or found.host_hit_length >= self.cache.load_back_threshold
        return Admitted(best, before + length, node, own, must)

    @contextlib.contextmanager
    def locked(self, node: object, *, host: bool = False) -> Iterator[None]:
        """``PrefillAdder._lock_node``."""
        on_host = self.cache.inc_host_lock_ref(node).to_dec_params() if host else None
        try:
            receipt = self.cache.lock(node)
            try:
                yield
            finally:
                self.cache.unlock(receipt)
        finally:
            if on_host is not None:
                self.cache.dec_host_lock_ref(node, on_host)

    def depth(self, node: object) -> int:
        """How many units there are from the root to the end of a node."""
        (way,) = self.cache.tree_core.collect_path_info([node])
        return int(way[-1].path_end) if way else 0

    def free_host(self) -> dict[str, list[int]]:
        """The free rows of each pool of the host."""
        free = {}
        for name in self.names:
            pool = self.group.get_pool(self.pools[name])
            free[name] = [row for part in (pool.free_slots, *pool.release_slots) for row in part.tolist()]
        return free
