"""SGLang 0.5.23's unified cache with a window and states, and host memory for all of them, on a CPU.

Real, as published, besides what the targets without host memory have: ``attach_hybrid_pool_to_unified_cache`` and the
stacks that it chooses for a model with a window or states, ``HybridCacheController``, ``L2TransferEngine``,
``HostPoolGroup``, and the host pools of KV, of a window and of states.  Replaced: the copies of rows between device
and host (with I/O ``direct`` and layout ``page_first_direct``), CUDA's streams and events, and the device's pools,
which have one layer with one head of one number.

Targets: ``swa_hosted``, ``mamba_hosted`` and ``swa_mamba_hosted``, which play what the scheduler does around the cache:

* **A backup** is what an insert asks for when its prefix is due: ``build_backup_kv_action``, then
  ``flush_pending_backups``, one batch per backup.  It is refused where an insert would not ask: where all is there, and
  where a backup of the node runs, whose end SGLang waits for.  Backups that an insert asks for by itself find no room:
  the suite says when there is one.
* **A load back** is ``init_load_back`` with the scheduler's locks (:meth:`Hosted.load`), then
  ``ready_to_load_host_cache``, one batch per load; there are counters for more batches than three, since nobody
  computes on them.  Who asks has a state already, in a place beside those of the layout (``holds_mamba``): the port has
  no requests, and for one without SGLang would take a second state (``MambaComponent.prepare_load_back``), and raise
  where there is none.
* **A copy ends** when its stream has come to it and the scheduler looks (``check_hicache_events``).  What stands for it
  is SGLang's acknowledgement (``HiCacheAck``).  A stream goes in order, and no copy can fail.
* **An eviction from the host** is ``evict_host``, component by component.
* **A reset** waits until all copies have ended, as ``flush_cache`` does.

Profile: what the code says.  What a copy brings is in the tree when it begins; a backup takes what isn't backed up
before it, node by node, and a load back takes a window by whole nodes; the host evicts only what is not on the device
too.

Limits: those of the targets without host memory; no write policy, no storage.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import NamedTuple

from kvlitmus.conformance.adapters.sglang.common import steps
from kvlitmus.conformance.adapters.sglang.common.components import (
    CAPABILITIES,
    PAIRED,
    PROFILE,
    Row,
    window_pool,
)
from kvlitmus.conformance.adapters.sglang.common.hicache import SRT
from kvlitmus.conformance.adapters.sglang.common.pools import MEM
from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign, Peer, install, torch_module
from kvlitmus.conformance.adapters.sglang.v0_5_23.components import COMPONENT_PLAN, RUNTIME, Hybrid
from kvlitmus.conformance.adapters.sglang.v0_5_23.environment import HICACHE_PLAN, MEMORY, PARALLEL, KVPool, Queue
from kvlitmus.conformance.ports import Config, Profile, Unsupported
from kvlitmus.spec.words.layouts import layout_of
from kvlitmus.spec.words.units import Key

ASSEMBLER = f"{MEM}.hybrid_cache.hybrid_pool_assembler"
OPTIONS = SimpleNamespace(**vars(MEMORY), hicache_ratio=1.0, hicache_size=0, hicache_mem_layout="page_first_direct")
RANKS = SimpleNamespace(**vars(PARALLEL), dcp_enabled=False)

NEVER = 1 << 30
"""So many uses as no prefix has."""
BATCHES = 32
"""More batches of loads back than are ever under way."""

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

    def __init__(self, config: Config, write: str, host_pages: int) -> None:
        self.rig = steps.Rig()
        steps.close_with(self, self.rig)
        steps.Rig.current = self.rig
        OPTIONS.hicache_write_policy = write
        self.hosted = layout_of(config.components, config.page_size, config.pages, host_pages)
        load = prepare()
        super().__init__(config)
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
            self.rows.mamba_pool = States(self.states.size, self.hosted.host["state"])
            self.rows.register_layer_transfer_counter = lambda _counter: None
        self.params: Foreign = super()._params(load, **more)
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
        kv = self.request_state()
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

    def request_state(self) -> Foreign:
        """What a request has of states when it asks for a load back: none."""
        return SimpleNamespace(mamba_pool_idx=None, holds_mamba=False)

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


class ComponentHost(Hosted):
    """The port ``component_host``, with its counters and its view."""

    def __init__(self, config: Config) -> None:
        if not config.tiered or config.storage != "none" or config.write != "asked":
            raise Unsupported("this target has host memory, no storage, and backs up what it is asked to")
        super().__init__(config, "write_through_selective", config.host_pages)
        self.cache.write_through_threshold = NEVER
        self.asked = False
        self._back_up = self.cache._execute_and_commit_kv_backup  # noqa: SLF001 - where every backup begins
        self.cache._execute_and_commit_kv_backup = self._backed_up  # noqa: SLF001 - likewise
        counter = self.controller.layer_done_counter
        counter.num_counters = BATCHES
        counter.events += [type(counter.events[0])(counter.num_layers) for _ in range(BATCHES - len(counter.events))]

    def _params(self, load: Foreign, **more: object) -> Foreign:
        if self.states is not None:
            places = self.hosted.places["state"] + 1
            self.states = load(f"{MEM}.allocator.mamba").MambaSlotAllocator(places, "cpu")
            self.rows.mamba_allocator = self.states
            self.own = self.states.alloc(1)
        return super()._params(load, **more)

    def request_state(self) -> Foreign:
        """One of its own."""
        return (
            super().request_state()
            if self.states is None
            else SimpleNamespace(mamba_pool_idx=self.own[0], holds_mamba=True)
        )

    def _backed_up(self, action: Foreign, **more: object) -> int:
        """``_execute_and_commit_kv_backup``, if the suite has asked for it."""
        return int(self._back_up(action, **more)) if self.asked else 0

    def component_back_up(self, handle: object) -> tuple[Foreign, dict[str, dict[int, int]], dict[str, int]]:
        """What an insert asks for whose end this is, of all that isn't backed up before it."""
        due = self._due(handle)
        before = self._places(self.component_host_entries())
        acks = self.controller.ack_write_queue
        many, self.asked = len(acks), True
        if due:
            action = self.cache.tree_core.build_backup_kv_action(handle)
            self.cache._apply_cache_actions([action])  # noqa: SLF001 - as an insert does
        self.asked = False
        self.cache.flush_pending_backups()
        after = self._places(self.component_host_entries())
        evicted = self._gone(before, after)
        if len(acks) == many:
            return None, {}, evicted
        return acks[-1], self._came(before, after), evicted

    def _due(self, handle: object) -> bool:
        """Whether an insert that ends there would ask for a backup: by what it looks at itself."""
        tree = self.cache.tree_core
        if tree.is_root(handle):
            return False
        if not tree.is_backuped(handle):
            return True
        running = self.cache.ongoing_write_through.values()
        return all(handle not in one.publish_node_ids for one in running) and bool(tree.build_backup_spec(handle)[1])

    def component_load(
        self, handle: object, key: Key
    ) -> tuple[Foreign, int, dict[str, dict[int, int]], dict[str, int]]:
        """``init_load_back`` for the key's match, and the batch begins."""
        before = self._places(self.component_entries())
        acks = self.controller.ack_load_queue
        many = len(acks)
        admitted = self.load(key)
        self.cache.ready_to_load_host_cache()
        after = self._places(self.component_entries())
        evicted = self._gone(before, after)
        if len(acks) == many:
            return None, 0, {}, evicted
        return acks[-1], admitted.best, self._came(before, after), evicted

    def _places(self, rows: Sequence[Row]) -> dict[tuple[str, str | None, tuple[object, ...]], int]:
        """Where each entry of a snapshot is."""
        return {(name, namespace, units): place for name, namespace, units, place in rows}

    def _gone(self, before: Mapping[Foreign, int], after: Mapping[Foreign, int]) -> dict[str, int]:
        """How many entries of each component were evicted between two snapshots."""
        gone = [at[0] for at, place in before.items() if after.get(at) != place]
        return {name: gone.count(name) for name in self.names}

    def _came(self, before: Mapping[Foreign, int], after: Mapping[Foreign, int]) -> dict[str, dict[int, int]]:
        """What came between two snapshots, which is on one path: of each component where it ends, and where it is."""
        came: dict[str, dict[int, int]] = {name: {} for name in self.names}
        for at, place in after.items():
            if before.get(at) != place:
                came[at[0]][len(at[2])] = place
        return came

    def component_copied(self, copy: Foreign, ok: bool) -> dict[str, list[int]]:
        """The stream comes to it, and the scheduler looks; nothing is given back, and none can fail."""
        assert ok, "a copy of SGLang's can't fail"
        copy.finish_event.synchronize()
        self.cache.check_hicache_events()
        return {}

    def component_evict_host(self, wants: Mapping[str, int]) -> dict[str, int]:
        """``evict_host``, component by component, of what hasn't gone with the components before."""
        before = self._places(self.component_host_entries())
        gone = dict.fromkeys(self.names, 0)
        for name, many in wants.items():
            if many > gone[name]:
                unit = 1 if name == "state" else self.page
                self.cache.evict_host((many - gone[name]) * unit, self.types[name])
                gone = self._gone(before, self._places(self.component_host_entries()))
        return gone

    def component_reset(self) -> None:
        """As ``flush_cache`` does: what is under way ends first."""
        for ack in (*self.controller.ack_write_queue, *self.controller.ack_load_queue):
            ack.finish_event.synchronize()
        self.cache.check_hicache_events()
        super().component_reset()
        if self.states is not None:
            self.own = self.states.alloc(1)

    def component_available_host(self) -> dict[str, int]:
        """``available_size`` of the host's pools, in pages, and states."""
        sizes = {name: int(self.group.available_size(self.pools[name])) for name in self.names}
        return {name: many if name == "state" else many // self.page for name, many in sizes.items()}

    def component_free_host(self) -> dict[str, list[int]]:
        """The free lists."""
        free = self.free_host()
        return {name: free[name] if name == "state" else self._whole(free[name]) for name in self.names}

    def _whole(self, rows: Sequence[int]) -> list[int]:
        """The pages of which all these rows are there."""
        return [row // self.page for row in rows if row % self.page == 0 and {*range(row, row + self.page)} <= {*rows}]

    def component_host_entries(self) -> list[Row]:
        """What the nodes have on the host."""
        return self._snapshot("host_value")


_target = partial(
    Peer,
    plan=PLAN,
    capabilities=CAPABILITIES | {"component_host", "component_host_counters", "component_host_view"},
    build=ComponentHost,
    policies=("lru",),
)


def _hosted(profile: Profile) -> Profile:
    """What it chooses with host memory."""
    return replace(profile, component_landing="begun", component_extent="path", component_host_spares="device")


_WINDOW = Config(page_size=4, pages=16, host_pages=16, write="asked", components="kv+swa")
_STATE = replace(_WINDOW, components="kv+state")
_BOTH = replace(_WINDOW, components="kv+swa+state")

swa_hosted = _target(
    profile=_hosted(PAIRED),
    configs=(
        _WINDOW,
        replace(_WINDOW, host_pages=6),
        replace(_WINDOW, page_size=16, host_pages=24),
        replace(_WINDOW, pages=12, host_pages=12, bigram=True),
    ),
)
mamba_hosted = _target(
    profile=_hosted(replace(PROFILE, component_points="end")),
    configs=(_STATE, replace(_STATE, host_pages=8), replace(_STATE, page_size=1, host_pages=24)),
)
swa_mamba_hosted = _target(
    profile=_hosted(replace(PAIRED, component_points="end")),
    configs=(_BOTH, replace(_BOTH, host_pages=8)),
)
