"""SGLang: one slot of a page is freed, and the whole page is given away, or pages break up (MISUSE-04).

Device allocator (0.5.13.post1 and 0.5.23): freeing one slot frees its page, under the other slots
that are in use.  Host pool (0.5.13.post1): exactly the slot is freed; from then on an allocation of
a page is no page any more, it begins in one page and ends in another.

Exits 1 if the fault shows.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from types import SimpleNamespace

import torch
from sglang.srt.mem_cache.allocator.paged import PagedTokenToKVPoolAllocator

OLD = version("sglang") == "0.5.13.post1"
PAGE, PAGES = 4, 3


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


pool = PagedTokenToKVPoolAllocator(
    PAGE * PAGES, page_size=PAGE, dtype=torch.float16, device="cpu", kvcache=None, need_sort=False
)
mine = pool.alloc(PAGE).clone()
pool.free(mine[:1])  # the other three are in use
theirs = pool.alloc(PAGE)
shared = sorted(set(mine[1:].tolist()) & set(theirs.tolist()))
print(
    f"device: I hold {mine[1:].tolist()}, the next allocation gets {theirs.tolist()}: shared {shared} (expected none)"
)
broken = bool(shared)

host = host_pool(PAGES)
pages = host.alloc(PAGE * PAGES).clone()
host.free(pages[:1])
host.free(pages[PAGE:])
handed_out = []
while host.available_size() >= PAGE:
    handed_out.append(host.alloc(PAGE).tolist())
whole = all(got == list(range(got[0], got[0] + PAGE)) and got[0] % PAGE == 0 for got in handed_out)
print(f"host: after free([0]) and free of the whole pages behind it, pages are {handed_out} (expected whole pages)")
sys.exit(broken or not whole)
