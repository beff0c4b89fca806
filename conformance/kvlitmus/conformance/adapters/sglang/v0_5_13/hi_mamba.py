"""SGLang 0.5.13.post1's ``HiMambaRadixCache``, made by its own constructor, on a CPU.

Target: ``hi_mamba``, what it does on the device; host memory is there and stays empty.  No code of this release makes
the class.

Real, as published: the class with all its methods, ``HybridCacheController``, what the constructor calls
(``attach_hybrid_pool_to_mamba_cache``), ``MHATokenToKVPoolHost`` and ``MambaPoolHost`` in one ``HostPoolGroup``, and
the device's pools (``HybridLinearKVPool``, ``HybridReqToTokenPool``): a KV pool has one layer with one head of one
number, a state has two numbers.

Replaced, besides what is in :mod:`kvlitmus.conformance.adapters.sglang.v0_5_13.environment`:

* ``mamba_cache_chunk_size`` is a number, where a server would ask its options.
* The host pools are as large as one says, where a server's must be larger than the device's: meanwhile the device's
  say that they are small.

Limits: no backups, so nothing on the host, no storage, no requests.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

from kvlitmus.conformance.adapters.sglang.common import steps
from kvlitmus.conformance.adapters.sglang.common.components import CAPABILITIES, PROFILE
from kvlitmus.conformance.adapters.sglang.common.hicache import SRT
from kvlitmus.conformance.adapters.sglang.common.pools import MEM
from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign, Peer, torch_module
from kvlitmus.conformance.adapters.sglang.v0_5_13 import environment
from kvlitmus.conformance.adapters.sglang.v0_5_13.hybrid import StateRadix
from kvlitmus.conformance.ports import Config

PLAN = replace(
    environment.PLAN,
    real=environment.PLAN.real | {f"{MEM}.hi_mamba_radix_cache", f"{MEM}.mamba_radix_cache"},
    answers={
        **environment.PLAN.answers,
        f"{SRT}.server_args": {"get_global_server_args": lambda: SimpleNamespace(mamba_cache_chunk_size=4)},
        f"{SRT}.platforms": {
            "current_platform": SimpleNamespace(is_cuda_alike=lambda: False, is_out_of_tree=lambda: False)
        },
    },
)

NEVER = 1 << 30
"""So many uses as no prefix has."""


def device_pools(load: Foreign, page_size: int, pages: int, states: int) -> tuple[Foreign, Foreign]:
    """The device's table of requests with so many states, and its KV."""
    number = torch_module().float32
    shape = SimpleNamespace(conv=[(1, 1)], temporal=(1, 1, 1))
    kinds = SimpleNamespace(conv=number, temporal=number)
    pool = load(f"{MEM}.memory_pool")
    rows = pool.HybridReqToTokenPool(
        size=4,
        mamba_size=states,
        mamba_spec_state_size=0,
        max_context_len=pages * page_size,
        device="cpu",
        enable_memory_saver=False,
        cache_params=SimpleNamespace(shape=shape, dtype=kinds),
        mamba_layer_ids=[1],
        enable_mamba_extra_buffer=True,
    )
    kv = pool.HybridLinearKVPool(
        size=pages * page_size,
        dtype=number,
        page_size=page_size,
        head_num=1,
        head_dim=1,
        full_attention_layer_ids=[0],
        enable_kvcache_transpose=False,
        device="cpu",
        mamba_pool=rows.mamba_pool,
    )
    return rows, kv


def cache_over(load: Foreign, params: Foreign, options: Foreign, host_pages: int, host_states: int) -> Foreign:
    """What the constructor makes, with so much on the host, of pools that say they are small meanwhile."""
    options.hicache_ratio = host_pages - 0.5
    kv = params.token_to_kv_pool_allocator.get_kvcache().full_kv_pool
    states = params.req_to_token_pool.mamba_pool
    sized = ((kv, params.page_size), (states, (host_states - 0.5) / options.hicache_ratio))
    before = [pool.size for pool, _ in sized]
    for pool, size in sized:
        pool.size = size
    cache = load(f"{MEM}.hi_mamba_radix_cache").HiMambaRadixCache(params, options)
    for (pool, _), size in zip(sized, before, strict=True):
        pool.size = size
    return cache


class StateHierarchy(StateRadix):
    """``HiMambaRadixCache``, in which no prefix is used often enough for a backup."""

    plan = PLAN
    made = "hi_mamba_radix_cache:HiMambaRadixCache"

    def __init__(self, config: Config) -> None:
        self.rig = steps.Rig()
        steps.Rig.current = self.rig
        steps.close_with(self, self.rig)
        super().__init__(config)
        self.cache.write_through_threshold = NEVER

    def _allocator(self, load: Foreign) -> Foreign:
        environment.modules(PLAN)
        self.pools = device_pools(load, self.page, self.layout.places["kv"], self.layout.places["state"])
        made = super()._allocator(load)
        made._kvcache = self.pools[1]  # noqa: SLF001 - allocators are built without KV
        return made

    def _params(self, load: Foreign, **more: object) -> Foreign:
        self.rows = self.pools[0]
        self.states = self.rows.mamba_allocator
        return super()._params(load, **more)

    def _cache(self, load: Foreign) -> Foreign:
        options = environment.server_args(Config(page_size=self.page, write="write_through_selective"))
        return cache_over(load, self._params(load), options, 2, 2)


hi_mamba = Peer(
    plan=PLAN,
    capabilities=CAPABILITIES,
    policies=("lru",),
    profile=replace(PROFILE, component_points="end"),
    build=StateHierarchy,
    configs=(
        Config(page_size=4, pages=16, components="kv+state"),
        Config(page_size=1, pages=16, components="kv+state"),
    ),
)
