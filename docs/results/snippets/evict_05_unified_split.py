"""SGLang 0.5.23, UnifiedRadixCache: half a match makes the other half look used (EVICT-05).

The same as in RadixCache: `old` is cached in one node of two tokens, then `new`; a match of the
first token of `old` splits the node, and the second token, which nobody used, gets a new time.
The eviction of one token takes `new`.

The argument names the tree core: `python` (default) or `rust`.  Exits 1 if the fault shows.
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
cache = UnifiedRadixCache(
    CacheInitParams(
        disable=False,
        req_to_token_pool=None,
        token_to_kv_pool_allocator=pool,
        page_size=1,
        tree_components=(ComponentType.FULL,),
        tree_core_backend=core,
    )
)


def key(*tokens: int) -> RadixKey:
    return RadixKey(array("q", tokens))


def cached(*tokens: int) -> int:
    """How much of this prompt is cached; a call that only reads."""
    return int(cache.tree_core.match_full_device_prefix(key(*tokens))[0])


cache.insert(InsertParams(key=key(1, 2), value=pool.alloc(2)))
cache.insert(InsertParams(key=key(8), value=pool.alloc(1)))
cache.match_prefix(MatchPrefixParams(key=key(1)))
cache.evict(EvictParams(num_tokens=1))

print(
    f"{type(cache.tree_core).__name__}; order of use: token 2 of [1, 2], then [8], then token 1; LRU evicts "
    f"one token: [1, 2] has {cached(1, 2)} cached (expected 1), [8] has {cached(8)} (expected 1)"
)
sys.exit(cached(8) != 1)
