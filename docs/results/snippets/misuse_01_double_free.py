"""SGLang 0.5.13.post1: a page freed twice is available twice (MISUSE-01, MISUSE-03).

The device's allocators and the host pool take back what is free already, in a second call or named
twice in one call, and hand it out twice afterwards: two owners write to one slot.  In 0.5.23 the
host pool refuses a second call, and still takes a slot that is named twice in one; there this
script shows that.

Exits 1 if the fault shows.
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from types import SimpleNamespace

import torch
from sglang.srt.mem_cache.allocator.paged import PagedTokenToKVPoolAllocator
from sglang.srt.mem_cache.allocator.token import TokenToKVPoolAllocator

OLD = version("sglang") == "0.5.13.post1"
PAGE, PAGES = 16, 4
COMMON = {"dtype": torch.float16, "device": "cpu", "kvcache": None, "need_sort": False}


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


def try_it(name: str, pool: object, page: int, way: str) -> bool:
    """Whether more is available than there is."""
    there = pool.available_size()
    slots = pool.alloc(page).clone()
    try:
        if way == "in two calls":
            pool.free(slots)
            pool.free(slots)
        else:
            pool.free(torch.cat([slots, slots]))
    except AssertionError as error:
        print(f"{name}, freed twice {way}: refused ({str(error)[:40]}…)")
        return False
    now = pool.available_size()
    print(f"{name}, freed twice {way}: {now} slots available of {there}")
    return now > there


broken = [
    try_it(name, make(), page, way)
    for name, make, page in (
        ("TokenToKVPoolAllocator", lambda: TokenToKVPoolAllocator(PAGES, **COMMON), 1),
        (
            "PagedTokenToKVPoolAllocator",
            lambda: PagedTokenToKVPoolAllocator(PAGE * PAGES, page_size=PAGE, **COMMON),
            PAGE,
        ),
        ("HostKVCache", lambda: host_pool(PAGES), PAGE),
    )
    for way in ("in two calls", "in one call")
]
sys.exit(any(broken))
