"""The hierarchy of SGLang 0.5.23 on a CPU: which modules are real, and what stands in for the rest of it.

Real, as published: ``UnifiedRadixCache`` with ``init_hicache``, both tree cores, the component
FULL, ``HybridCacheController`` and the functions of its threads, ``StorageAttachment``,
``L2TransferEngine``, ``HostPoolGroup``, ``MHATokenToKVPoolHost`` (the host pool: allocation, page
layout, getting and setting pages), the allocators, hashing, the parsing of the storage options.

Replaced, besides what is in every release (:mod:`kvlitmus.conformance.adapters.sglang.common.hicache`):

* The device's KV pool, which is described to the host pool by SGLang's own ``MHABufferInfo``.
* ``attach_hybrid_pool_to_unified_cache``, which chooses among the stacks of all kinds of models:
  :func:`assemble` makes the same objects for a plain model (``build_kv_only_stack``).
* ``time.perf_counter`` for timeouts (``PollTimer``).
* The compiled SHA-256 over tokens (``hash_binding.cpp``, built on first use by a compiler that need not
  be there): the same bytes by ``hashlib`` (:class:`Hasher`).  Chaining, namespaces and which tokens
  go in are SGLang's.  The Rust core hashes by itself.
* The server's options: what ``get_memory()`` and its like would tell of them.  One rank.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace

from kvlitmus.conformance.adapters.sglang.common import steps
from kvlitmus.conformance.adapters.sglang.common.hicache import SRT, Backend, BackendFactory, transfer_kv_direct
from kvlitmus.conformance.adapters.sglang.common.pools import MEM
from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign, install, torch_module
from kvlitmus.conformance.adapters.sglang.v0_5_23.flat import PLAN, UNIFIED
from kvlitmus.conformance.ports import Config

BACKEND = "litmus"
"""What SGLang calls the storage: a name that no optimization is tied to."""

MEMORY = SimpleNamespace(
    hicache_host_memory_mode="cache",
    hicache_storage_backend=None,
    hicache_storage_backend_extra_config=None,
    hicache_write_policy="write_through",
    hicache_io_backend="direct",
    hicache_storage_prefetch_policy="best_effort",
)
"""The options that ``get_memory()`` tells; set before a cache is made."""

PARALLEL = SimpleNamespace(attn_dcp_size=1, attn_dcp_rank=0, tp_rank=0, tp_size=1, pp_rank=0, pp_size=1)


class Queue(steps.Queue):
    """Made as ``Queue[Item]()`` too."""

    def __class_getitem__(cls, _item: object) -> type[Queue]:
        return cls


class Backend23(Backend):
    """What this release asks of a backend besides."""

    def on_host_pools_registered(self) -> None:
        """Nothing to prepare."""


class Hasher:
    """``hicache_hash_cpp``: pages of tokens to chained hashes.

    A unit is a token, or two neighbours (bigram); a token takes four bytes, little end first.  A page with
    a token beyond that takes eight bytes for each and is marked.
    """

    @staticmethod
    def get_hash(
        raw: Sequence[int], length: int, width: int, bigram: bool, prior: bytes | None, page_size: int | None
    ) -> str | list[str]:
        """The hash of each page, or of everything where no page size is given."""
        hashes: list[str] = []
        step = max(length, 1) if page_size is None else page_size
        for start in range(0, length if page_size is not None else step, step):
            end = min(start + step, length)
            if bigram:
                tokens = [token for i in range(start, end) for token in (raw[i], raw[i + 1])]
            else:
                tokens = list(raw[start * width : end * width])
            wide = any(token > 0xFFFFFFFF for token in tokens)
            data = b"".join(int(token).to_bytes(8 if wide else 4, "little") for token in tokens)
            digest = hashlib.sha256((prior or b"") + (b"\xff" if wide else b"") + data)
            prior = digest.digest()
            hashes.append(digest.hexdigest())
        return hashes if page_size is not None else hashes[0]


class KVPool:
    """The device's KV: one layer, one head, one number for K and V each."""

    def __init__(self, config: Config) -> None:
        torch = torch_module()
        rows = (config.pages + 1) * config.page_size
        self.device = torch.device("cpu")
        self.layer_num = 1
        self.page_size = config.page_size
        self.k = torch.zeros((rows, 1, 1), dtype=torch.float32)
        self.v = torch.zeros((rows, 1, 1), dtype=torch.float32)

    def register_layer_transfer_counter(self, _counter: object) -> None:
        """A forward pass would wait for it, layer by layer; there is none."""

    def buffer_info(self, module: Foreign) -> Foreign:
        """The pool as SGLang describes it to a host pool."""
        torch = torch_module()
        pointers = [torch.tensor([tensor.data_ptr()], dtype=torch.uint64) for tensor in (self.k, self.v)]
        buffers = module.KVBuffers(
            k=(self.k,),
            v=(self.v,),
            k_data_ptrs=pointers[0],
            v_data_ptrs=pointers[1],
            layout=module.KVBufferLayout.NHD,
        )
        return module.MHABufferInfo(
            buffers=buffers,
            page_size=self.page_size,
            head_num=1,
            head_dim=1,
            v_head_dim=1,
            dtype=torch.float32,
            device=self.device,
        )


def assemble(
    cache: Foreign,
    params: Foreign,
    server_args: Foreign,
    *,
    load_cache_event: object,
    storage_backend: str | None = None,
    storage_extra_config: Foreign = None,
    storage_prefetch_threshold: int = 256,
) -> None:
    """Host pool, its group and the controller of a plain model, and what ``_apply_stack_result`` sets."""
    load = install(HICACHE_PLAN)
    kv: KVPool = params.token_to_kv_pool_allocator.get_kvcache()
    base = load(f"{MEM}.pool_host.base")
    with base.host_memory_budget_scope(1 << 40):
        host = load(f"{MEM}.pool_host.mha").MHATokenToKVPoolHost(
            kv.buffer_info(load(f"{MEM}.device_pool_info")),
            host_to_device_ratio=0.0,
            host_size=0,
            page_size=params.page_size,
            layout="layer_first",
            pin_memory=False,
            device_capacity_tokens=0,
            start_layer=0,
            end_layer=1,
            host_token_capacity=server_args.host_tokens,
        )
    pools = load(f"{MEM}.pool_host.group")
    entry = pools.PoolEntry(
        name=load(f"{MEM}.hicache_storage").PoolName.KV,
        host_pool=host,
        device_pool=kv,
        layer_mapper=lambda layer: layer,
        is_primary_index_anchor=True,
    )
    cache.host_pool_group = pools.HostPoolGroup([entry])
    controller = load(f"{MEM}.hybrid_cache.hybrid_cache_controller").HybridCacheController
    cache.cache_controller = controller(
        params.token_to_kv_pool_allocator,
        cache.host_pool_group,
        params.page_size,
        None,
        load_cache_event=load_cache_event,
        write_policy=MEMORY.hicache_write_policy,
        io_backend=MEMORY.hicache_io_backend,
        storage_backend=storage_backend,
        prefetch_threshold=storage_prefetch_threshold,
        storage_backend_extra_config=storage_extra_config,
        transfer_layer_id_max=1,
    )
    full = load(f"{UNIFIED}.component_type").ComponentType.FULL
    cache.full_kv_pool_host = host
    cache.components[full]._full_kv_pool_host = host  # noqa: SLF001 - what `_apply_stack_result` sets


REAL = (
    f"{SRT}.managers.cache_controller",
    *(
        f"{MEM}.{name}"
        for name in (
            "device_pool_info",
            "hybrid_cache.hybrid_cache_controller",
            "l2_transfer",
            "pool_host",
            "pool_host.group",
            "pool_host.mha",
            "unified_cache.storage_attachment",
        )
    ),
)

HICACHE_PLAN = replace(
    PLAN,
    real=PLAN.real | frozenset(REAL),
    answers={
        **PLAN.answers,
        f"{SRT}.utils": {"get_device_module": lambda: steps.DEVICE},
        f"{SRT}.runtime_context": {
            **PLAN.answers[f"{SRT}.runtime_context"],
            "get_memory": lambda: MEMORY,
            "get_parallel": lambda: PARALLEL,
            "get_observability": lambda: SimpleNamespace(extra_metric_labels=None),
        },
        f"{MEM}.storage": {"StorageBackendFactory": BackendFactory},
        f"{MEM}.hybrid_cache.hybrid_pool_assembler": {"attach_hybrid_pool_to_unified_cache": assemble},
    },
)


def prepare() -> None:
    """Put the replacements in place."""
    load = install(HICACHE_PLAN)
    torch = torch_module()
    logging.getLogger("sglang").setLevel(logging.CRITICAL + 1)
    load(f"{MEM}.pool_host.mha").transfer_kv_direct = transfer_kv_direct
    allocate = load(f"{MEM}.pool_host.common").ALLOC_MEMORY_FUNCS
    allocate["cpu"] = lambda dims, dtype, **_kwargs: torch.zeros(dims, dtype=dtype)
    for name in (f"{SRT}.managers.cache_controller", f"{MEM}.hybrid_cache.hybrid_cache_controller"):
        module = load(name)
        module.threading = steps.THREADING
        module.Queue = Queue
    load(f"{SRT}.managers.cache_controller").STORAGE_BATCH_SIZE = 1
    load(f"{SRT}.utils.poll_timer").time = SimpleNamespace(perf_counter=steps.Time.now, time=time.time)
    load(f"{MEM}.cpp_utils.native_hash")._load_native_hash_module = lambda: Hasher  # noqa: SLF001
    load(f"{MEM}.unified_radix_cache").atexit = SimpleNamespace(register=lambda _function: None)
