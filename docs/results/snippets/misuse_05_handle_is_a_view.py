"""SGLang: what an allocation returns is a view on the free list (MISUSE-05).

The slots that TokenToKVPoolAllocator and HostKVCache return are the first part of the free list's
own tensor, not a copy.  As long as anybody keeps the handle, the whole list stays in memory, and an
operation in place that outgrows it (here `torch.arange(…, out=handle)`) writes into the slots that
are handed out next.

Exits 1 if the fault shows.
"""

from __future__ import annotations

import sys
import warnings
from importlib.metadata import version
from types import SimpleNamespace

import torch
from sglang.srt.mem_cache.allocator.token import TokenToKVPoolAllocator

warnings.simplefilter("ignore")
OLD = version("sglang") == "0.5.13.post1"
PAGE, SIZE = 1, 8


def host_pool(pages: int) -> object:
    """A HostKVCache of PAGE slots a page, without KV: the free list needs none."""
    if OLD:
        import sglang.srt.mem_cache.memory_pool_host as module

        module.HICACHE_HOST_MEMORY_RESERVE_BYTES = 0
        members = dict.fromkeys(module.HostKVCache.__abstractmethods__, lambda *_a, **_k: None)
        members |= {"get_size_per_token": lambda _self: 8, "init_kv_buffer": lambda _self: None}
        # The constructor adds a page to what the ratio gives.
        device = SimpleNamespace(size=PAGE * (pages - 1), store_dtype=None, start_layer=0, end_layer=1)
        return type("Host", (module.HostKVCache,), members)(device, 1.0, 0, PAGE, "layer_first", False, "cpu")
    from sglang.srt.mem_cache.pool_host.base import HostKVCache

    members = dict.fromkeys(HostKVCache.__abstractmethods__, lambda *_a, **_k: None)
    return type("Host", (HostKVCache,), members)(
        dtype=None,
        device_capacity_tokens=PAGE * pages,
        size_per_token=8,
        start_layer=0,
        end_layer=1,
        host_to_device_ratio=1.0,
        host_size=0,
        page_size=PAGE,
        layout="layer_first",
        pin_memory=False,
        device="cpu",
        is_dummy=True,
        host_token_capacity=PAGE * pages,
    )


broken = False
for name, pool in (
    ("TokenToKVPoolAllocator", TokenToKVPoolAllocator(SIZE, torch.float16, "cpu", None, False)),
    ("HostKVCache", host_pool(SIZE)),
):
    handle = pool.alloc(2)
    torch.arange(100, 100 + SIZE - 2, out=handle)
    try:
        got = pool.alloc(2).tolist()
    except Exception as error:
        got = [repr(error)]
    print(f"{name}: after writing to the first handle, the next allocation gives {got} (expected two free slots)")
    broken = broken or not all(isinstance(slot, int) and slot < 100 for slot in got)
sys.exit(broken)
