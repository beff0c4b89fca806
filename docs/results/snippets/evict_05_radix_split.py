"""SGLang 0.5.13.post1, RadixCache: half a match makes the other half look used (EVICT-05).

Two prompts are cached: `old`, two tokens in one node, and then `new`.  A match of the first token
of `old` splits its node.  Only that token was used; the second one is now the oldest entry, but it
gets the time of the match too, and the eviction of one token takes `new` instead.

Exits 1 if the fault shows, 0 if it does not.
"""

from __future__ import annotations

import itertools
import sys
from array import array
from types import SimpleNamespace

import sglang.srt.mem_cache.radix_cache as radix_cache
import torch
from sglang.srt.mem_cache.allocator.token import TokenToKVPoolAllocator
from sglang.srt.mem_cache.base_prefix_cache import EvictParams, InsertParams, MatchPrefixParams
from sglang.srt.mem_cache.cache_init_params import CacheInitParams

# A counter instead of the clock: no two accesses have the same time.
radix_cache.time = SimpleNamespace(monotonic=itertools.count(1).__next__, perf_counter=lambda: 0.0)
pool = TokenToKVPoolAllocator(32, dtype=torch.float16, device="cpu", kvcache=None, need_sort=False)
cache = radix_cache.RadixCache(
    CacheInitParams(disable=False, req_to_token_pool=None, token_to_kv_pool_allocator=pool, page_size=1)
)


def key(*tokens: int) -> radix_cache.RadixKey:
    return radix_cache.RadixKey(array("q", tokens))


def cached(*tokens: int) -> int:
    """How much of this prompt is cached; reads the nodes, so that nothing is touched."""
    node, length = cache.root_node, 0
    while length < len(tokens) and tokens[length] in node.children:
        node = node.children[tokens[length]]
        length += len(node.key)
    return length


cache.insert(InsertParams(key=key(1, 2), value=pool.alloc(2)))
cache.insert(InsertParams(key=key(8), value=pool.alloc(1)))
cache.match_prefix(MatchPrefixParams(key=key(1)))
cache.evict(EvictParams(num_tokens=1))

print(
    f"order of use: token 2 of [1, 2], then [8], then token 1; LRU evicts one token: "
    f"[1, 2] has {cached(1, 2)} cached (expected 1), [8] has {cached(8)} (expected 1)"
)
sys.exit(cached(8) != 1)
