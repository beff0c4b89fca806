"""SGLang: unlocking once too often takes away another request's protection (MISUSE-06).

Two requests lock the same cached prompt.  The first one unlocks twice.  The prompt is now
evictable although the second request still reads it.  0.5.13.post1 has counts on nodes and no
receipts (dec_lock_ref); 0.5.23 has receipts, and accepts one of them twice.

Exits 1 if the fault shows.
"""

from __future__ import annotations

import sys
from array import array
from importlib.metadata import version

import torch
from sglang.srt.mem_cache.allocator.token import TokenToKVPoolAllocator
from sglang.srt.mem_cache.base_prefix_cache import EvictParams, InsertParams, MatchPrefixParams
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.radix_cache import RadixKey

pool = TokenToKVPoolAllocator(32, dtype=torch.float16, device="cpu", kvcache=None, need_sort=False)
made = {"disable": False, "req_to_token_pool": None, "token_to_kv_pool_allocator": pool, "page_size": 1}
core = sys.argv[1] if len(sys.argv) > 1 else "python"
if version("sglang") == "0.5.13.post1":
    from sglang.srt.mem_cache.radix_cache import RadixCache

    cache = RadixCache(CacheInitParams(**made))

    def lock(node: object) -> object:
        cache.inc_lock_ref(node)
        return node

    unlock = cache.dec_lock_ref
else:
    from sglang.srt.mem_cache.unified_cache.component_type import ComponentType
    from sglang.srt.mem_cache.unified_radix_cache import UnifiedRadixCache

    cache = UnifiedRadixCache(CacheInitParams(**made, tree_components=(ComponentType.FULL,), tree_core_backend=core))
    lock, unlock = cache.lock, cache.unlock

prompt = RadixKey(array("q", [1, 2]))
cache.insert(InsertParams(key=prompt, value=pool.alloc(2)))
first = lock(cache.match_prefix(MatchPrefixParams(key=prompt)).last_device_node)
second = lock(cache.match_prefix(MatchPrefixParams(key=prompt)).last_device_node)
unlock(first)
try:
    unlock(first)
except Exception as error:
    print(f"the second unlock was refused: {error!r}")
evicted = cache.evict(EvictParams(num_tokens=2)).num_tokens_evicted
print(
    f"{type(cache).__name__}: evict(2) with one lock held evicted {evicted} (expected 0), "
    f"{cache.protected_size()} protected (expected 2)"
)
sys.exit(evicted > 0)
