"""The hierarchy of SGLang 0.5.13.post1 on a CPU: which modules are real, and what stands in for hardware.

Real, as published: the trees (``HiRadixCache``, ``UnifiedRadixCache`` and its components), the
controllers with the functions of their threads, ``MHATokenToKVPool`` (the device pool, with CPU
tensors), ``MHATokenToKVPoolHost`` (the host pool: allocation, page layout, getting and setting
pages), the allocators, hashing, the parsing of the storage options, attaching and detaching.

Replaced, each by something that keeps the order in which things happen:

* ``transfer_kv_direct``, the copy between device and host of the I/O backend ``direct``, which
  exists for CUDA only: the same rows are copied by index, when the stream that it was put on comes
  to it.  Which rows, and which stream, SGLang decides.
* CUDA's streams and events, ``threading.Thread`` and ``queue.Queue`` inside the controllers
  (:mod:`kvlitmus.conformance.adapters.sglang.common.steps`).
* ``time.monotonic``: a counter for recency, and for timeouts the clock that the suite sets.
* Pinned memory: plain tensors.  The check that 10 GiB of memory stay free: nothing to keep.
* ``StorageBackendFactory``: the backend that it makes is :class:`Backend`, which asks the suite's
  store, one page after the other.  Like other storage without zero copy it is used through
  ``batch_exists``, ``batch_get`` and ``batch_set``.
* ``STORAGE_BATCH_SIZE``, the number of pages per storage call, is 1 instead of 128, so that reads
  and writes can be stopped between any two pages.
* ``atexit.register``: a cache that is no longer needed is forgotten instead of shut down.
* One rank: ``torch.distributed`` knows a world of one process.

A KV pool has one layer with one head of one float32 number, for K and V each.  The suite's numbers
are whole and below 2**24, so they survive unchanged; it is K that is read back.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import logging
import time
from collections.abc import Sequence
from types import SimpleNamespace

from kvlitmus.conformance.adapters.sglang.common import steps
from kvlitmus.conformance.adapters.sglang.common.pools import MEM
from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign, Plan, install, torch_module
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.ports.tiers import PageStore

SRT = "sglang.srt"


class StorageMedium(enum.StrEnum):
    """The tiers that SGLang's events name."""

    GPU = "GPU"
    CPU = "CPU_PINNED"
    DISK = "DISK"
    EXTERNAL = "EXTERNAL"


class Told(SimpleNamespace):
    """One of SGLang's events, which are plain records."""


class BlockStored(Told):
    """A page is on a tier."""


class BlockRemoved(Told):
    """A page is no longer on a tier."""


class AllBlocksCleared(Told):
    """No page is on any tier."""


class Backend:
    """A storage backend over the suite's store, as the controllers use it.

    Whether the store has, takes or refuses a page is the store's own answer.  ``left`` is how many
    more pages may be read or written before the thread stops; ``None``: any number.
    """

    def __init__(self, store: PageStore, page_size: int) -> None:
        self.store = store
        self.page_size = page_size
        self.left: int | None = None
        self.torch: Foreign = torch_module()

    def _page(self) -> None:
        """Another page is about to be read or written: the thread stops here if it is one too many."""
        thread = steps.here()
        while self.left == 0 and thread is not None and not thread.joined:
            thread.stop()
        if self.left:
            self.left -= 1

    def batch_exists(self, keys: Sequence[str], _extra_info: object = None) -> int:
        """How many of the pages are stored, up to the first one that isn't."""
        return self.store.exists(list(keys))

    def batch_get(self, keys: Sequence[str], _targets: object = None, _sizes: object = None) -> list[Foreign]:
        """The pages, flat, K before V; ``None`` for those that aren't stored."""
        pages: list[Foreign] = []
        for key in keys:
            self._page()
            contents = self.store.get(key)
            numbers = None if contents is None else [*contents, *contents]
            pages.append(None if numbers is None else self.torch.tensor(numbers, dtype=self.torch.float32))
        return pages

    def batch_set(self, keys: Sequence[str], values: Sequence[Foreign]) -> bool:
        """Store the pages; stops at the first one that the store refuses."""
        for key, value in zip(keys, values, strict=True):
            self._page()
            if not self.store.put(key, [int(number) for number in value[: self.page_size].tolist()]):
                return False
        return True

    def register_mem_host_pool_v2(self, *_args: object) -> None:
        """Nothing to prepare."""

    def register_mem_pool_host(self, mem_pool_host: object) -> None:
        """Nothing to prepare."""

    def get_stats(self) -> None:
        """Nothing to tell."""


class BackendFactory:
    """``StorageBackendFactory``: makes the one backend there is."""

    made: Backend | None = None

    @classmethod
    def create_backend(cls, *_args: object, **_kwargs: object) -> Backend | None:
        """What the adapter that attaches has prepared."""
        return cls.made


class _Saver:
    """``TorchMemorySaverAdapter``: nothing is saved."""

    @staticmethod
    def create(**_kwargs: object) -> SimpleNamespace:
        """An adapter whose regions are like any other."""
        return SimpleNamespace(region=contextlib.nullcontext)


REAL = (
    f"{SRT}.environ",
    f"{SRT}.managers.cache_controller",
    f"{SRT}.session.streaming_session",
    *(
        f"{MEM}.{name}"
        for name in (
            "allocator",
            "allocator.base",
            "allocator.mamba",
            "allocator.paged",
            "allocator.token",
            "base_prefix_cache",
            "cache_init_params",
            "events",
            "evict_policy",
            "hicache_storage",
            "hiradix_cache",
            "hybrid_cache.hybrid_cache_controller",
            "hybrid_cache.hybrid_pool_assembler",
            "memory_pool",
            "memory_pool_host",
            "mmap_allocator",
            "radix_cache",
            "triton_ops.allocator",
            "unified_cache_components",
            "unified_cache_components.full_component",
            "unified_cache_components.mamba_component",
            "unified_cache_components.swa_component",
            "unified_cache_components.tree_component",
            "unified_radix_cache",
            "utils",
        )
    ),
)

PLAN = Plan(
    release="0.5.13.post1",
    real=frozenset(REAL),
    lifted={f"{SRT}.utils": {"srt/utils/common.py": ("get_num_new_pages", "next_power_of_2")}},
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


def transfer_kv_direct(
    src_layers: Sequence[Foreign],
    dst_layers: Sequence[Foreign],
    src_indices: Foreign,
    dst_indices: Foreign,
    **_kwargs: object,
) -> None:
    """Copy rows, when the stream comes to it.  The indices are read now, as the real one does on the host."""
    pairs = list(zip(src_layers, dst_layers, strict=True))
    source, target = src_indices.clone(), dst_indices.clone()

    def copy() -> None:
        for src, dst in pairs:
            dst[target] = src[source]

    steps.Stream.put(copy)


class Modules(SimpleNamespace):
    """SGLang's modules, with what is replaced in them."""


@functools.cache
def modules() -> Modules:
    """Import what is needed, once, and put the replacements in place."""
    load = install(PLAN)
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


def device_pool(config: Config) -> Foreign:
    """``MHATokenToKVPool``: one layer, one head, one number."""
    torch = torch_module()
    return modules().pool.MHATokenToKVPool(
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
