"""SGLang 0.5.23: the last lock, given back twice, and the tree core afterwards (MISUSE-06).

One request locks a cached prompt and unlocks it twice.  The count of the node is 0 then, so it isn't another's
protection that goes.  The argument names the tree core: `python` (default) or `rust`.

Exits 1 if the cache is of no use any more.
"""

from __future__ import annotations

import sys
from array import array

import torch
from sglang.srt.mem_cache.allocator.token import TokenToKVPoolAllocator
from sglang.srt.mem_cache.base_prefix_cache import EvictParams, InsertParams, MatchPrefixParams
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.radix_cache import RadixKey
from sglang.srt.mem_cache.unified_cache.component_type import ComponentType
from sglang.srt.mem_cache.unified_radix_cache import UnifiedRadixCache

core = sys.argv[1] if len(sys.argv) > 1 else "python"
pool = TokenToKVPoolAllocator(32, dtype=torch.float16, device="cpu", kvcache=None, need_sort=False)
made = {"disable": False, "req_to_token_pool": None, "token_to_kv_pool_allocator": pool, "page_size": 1}
cache = UnifiedRadixCache(CacheInitParams(**made, tree_components=(ComponentType.FULL,), tree_core_backend=core))


def told(call: object) -> str:
    """What a call answers, or what it raises."""
    try:
        return repr(call())
    except BaseException as error:  # a panic of the compiled core is no Exception
        return f"{type(error).__name__}: {error}".partition("\n")[0]


prompt = RadixKey(array("q", [1, 2]))
cache.insert(InsertParams(key=prompt, value=pool.alloc(2)))
receipt = cache.lock(cache.match_prefix(MatchPrefixParams(key=prompt)).last_device_node)
cache.unlock(receipt)
print(f"{type(cache.tree_core).__name__}: the second unlock: {told(lambda: cache.unlock(receipt))}")
other = RadixKey(array("q", [7]))
later = [
    told(lambda: cache.match_prefix(MatchPrefixParams(key=prompt)).device_prefix_len),
    told(lambda: cache.insert(InsertParams(key=other, value=pool.alloc(1))).prefix_len),
    told(lambda: cache.evict(EvictParams(num_tokens=3)).num_tokens_evicted),
]
print(f"afterwards: match {later[0]} (expected 2), insert {later[1]} (expected 0), evict {later[2]} (expected 3)")
sys.exit(later != ["2", "0", "3"])
