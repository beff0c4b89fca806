"""The hierarchy of SGLang 0.5.13.post1 on a CPU: which modules are real, and what stands in for the rest of it.

Real, as published: the trees (``HiRadixCache``, ``UnifiedRadixCache`` and its components), the
controllers with the functions of their threads, ``MHATokenToKVPool`` (the device pool, with CPU
tensors), ``MHATokenToKVPoolHost`` (the host pool: allocation, page layout, getting and setting
pages), the allocators, hashing, the parsing of the storage options, attaching and detaching.

Replaced, besides what is in every release (:mod:`kvlitmus.conformance.adapters.sglang.common.hicache`):

* ``time.monotonic``: a counter for recency, and for timeouts the clock that the suite sets.
* Pinned memory: plain tensors.
* One rank: ``torch.distributed`` knows a world of one process.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

from kvlitmus.conformance.adapters.sglang.common import steps
from kvlitmus.conformance.adapters.sglang.common.hicache import SRT, BackendFactory, transfer_kv_direct
from kvlitmus.conformance.adapters.sglang.common.pools import MEM
from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign, Plan, install, torch_module
from kvlitmus.conformance.adapters.sglang.v0_5_13.flat import PLAN as FLAT_PLAN
from kvlitmus.conformance.ports import Config


class StorageMedium(enum.StrEnum):
    """The tiers that SGLang's events name."""

    GPU = "GPU"
    CPU = "CPU_PINNED"
    DISK = "DISK"
    EXTERNAL = "EXTERNAL"


class SglangEvent(SimpleNamespace):
    """One of SGLang's events, which are plain records."""


class BlockStored(SglangEvent):
    """A page is on a tier."""


class BlockRemoved(SglangEvent):
    """A page is no longer on a tier."""


class AllBlocksCleared(SglangEvent):
    """No page is on any tier."""


class _Saver:
    """``TorchMemorySaverAdapter``: nothing is saved."""

    @staticmethod
    def create(**_kwargs: object) -> SimpleNamespace:
        """An adapter whose regions are like any other."""
        return SimpleNamespace(region=contextlib.nullcontext)


PLAN = replace(
    FLAT_PLAN,
    real=FLAT_PLAN.real
    | {f"{SRT}.environ", f"{SRT}.managers.cache_controller", f"{SRT}.session.streaming_session"}
    | {
        f"{MEM}.{name}"
        for name in (
            "allocator.mamba",
            "hicache_storage",
            "hiradix_cache",
            "hybrid_cache.hybrid_cache_controller",
            "hybrid_cache.hybrid_pool_assembler",
            "memory_pool",
            "mmap_allocator",
            "unified_cache_components",
            "unified_cache_components.full_component",
            "unified_cache_components.mamba_component",
            "unified_cache_components.swa_component",
            "unified_cache_components.tree_component",
            "unified_radix_cache",
        )
    },
    answers={
        f"{SRT}.utils": {"get_device_module": lambda: steps.DEVICE, "cpu_has_amx_support": lambda: False},
        f"{SRT}.utils.common": {"ceil_align": lambda x, y: -(-x // y) * y},
        f"{SRT}.utils.torch_memory_saver_adapter": {"TorchMemorySaverAdapter": _Saver},
        f"{SRT}.platforms": {"current_platform": SimpleNamespace(is_cuda_alike=lambda: False)},
        f"{SRT}.distributed": {
            f"get_{kind}_model_parallel_{what}": lambda answer=answer: answer
            for kind in ("tensor", "pipeline")
            for what, answer in (("rank", 0), ("world_size", 1))
        },
        f"{SRT}.mem_cache.storage": {"StorageBackendFactory": BackendFactory},
        f"{SRT}.disaggregation.kv_events": {
            "StorageMedium": StorageMedium,
            "BlockStored": BlockStored,
            "BlockRemoved": BlockRemoved,
            "AllBlocksCleared": AllBlocksCleared,
        },
    },
)


class Modules(SimpleNamespace):
    """SGLang's modules, with what is replaced in them."""


def modules(plan: Plan = PLAN) -> Modules:
    """Import what is needed, once, and put the replacements in place; ``plan``: one with more modules."""
    return _prepared(install(plan))


@functools.cache
def _prepared(load: Callable[[str], Foreign]) -> Modules:
    torch = torch_module()
    # The suite makes happen what SGLang warns of, many times a second.
    logging.getLogger("sglang").setLevel(logging.CRITICAL + 1)
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    host = load(f"{MEM}.memory_pool_host")
    host.HICACHE_HOST_MEMORY_RESERVE_BYTES = 0
    host.transfer_kv_direct = transfer_kv_direct
    host.ALLOC_MEMORY_FUNCS["cpu"] = lambda dims, dtype, **_kwargs: torch.zeros(dims, dtype=dtype)
    counted = SimpleNamespace(monotonic=steps.Time.counter, perf_counter=time.perf_counter, time=time.time)
    late = SimpleNamespace(monotonic=steps.Time.now, perf_counter=time.perf_counter, time=time.time)
    load(f"{MEM}.radix_cache").time = counted
    controllers = [
        load(f"{SRT}.managers.cache_controller"),
        load(f"{MEM}.hybrid_cache.hybrid_cache_controller"),
    ]
    for controller in controllers:
        controller.threading = steps.THREADING
        controller.Queue = steps.Queue
        controller.time = late
        controller.STORAGE_BATCH_SIZE = 1
    hiradix = load(f"{MEM}.hiradix_cache")
    hiradix.time = counted
    hiradix.atexit = SimpleNamespace(register=lambda _function: None)
    unified = load(f"{MEM}.unified_radix_cache")
    unified.time = late  # it counts accesses itself
    return Modules(
        host=host,
        hiradix=hiradix,
        unified=unified,
        radix=load(f"{MEM}.radix_cache"),
        base=load(f"{MEM}.base_prefix_cache"),
        params=load(f"{MEM}.cache_init_params"),
        pool=load(f"{MEM}.memory_pool"),
        counted=counted,
        late=late,
    )


def device_pool(config: Config, plan: Plan = PLAN) -> Foreign:
    """``MHATokenToKVPool``: one layer, one head, one number."""
    torch = torch_module()
    return modules(plan).pool.MHATokenToKVPool(
        size=config.pages * config.page_size,
        page_size=config.page_size,
        dtype=torch.float32,
        head_num=1,
        head_dim=1,
        layer_num=1,
        device="cpu",
        enable_memory_saver=False,
    )


def server_args(config: Config) -> SimpleNamespace:
    """The options of a server that a hierarchy looks at."""
    return SimpleNamespace(
        hicache_ratio=2.0,
        hicache_size=0,
        hicache_mem_layout="layer_first",
        hicache_io_backend="direct",
        hicache_write_policy=config.write,
        hicache_storage_backend=None,
        hicache_storage_backend_extra_config=None,
        hicache_storage_prefetch_policy=config.stop,
        served_model_name="litmus",
        extra_metric_labels=None,
    )
