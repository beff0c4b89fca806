"""SGLang 0.5.13.post1: a free that waits for the end of a group reads a row that has changed (POOL-12).

Two requests compute the same prompt.  The first one publishes it.  When the second one publishes, its
own slots are duplicates: `cache_unfinished_req` frees them, as a view on the request's row, and
then writes the tree's slots into that row.  Within a free group the view is read at the group's end: the tree's slots
are freed, which are cached and in use, and the duplicates are lost.

Exits 1 if the fault shows.
"""

from __future__ import annotations

import sys
from array import array
from types import SimpleNamespace

import torch
from sglang.srt.mem_cache.allocator.token import TokenToKVPoolAllocator
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.radix_cache import RadixCache

PROMPT = array("q", [11, 12])
rows = torch.zeros((2, 8), dtype=torch.int32)
table = SimpleNamespace(req_to_token=rows, write=lambda where, slots: rows.__setitem__(where, slots.to(rows.dtype)))
pool = TokenToKVPoolAllocator(32, dtype=torch.float16, device="cpu", kvcache=None, need_sort=False)
cache = RadixCache(
    CacheInitParams(disable=False, req_to_token_pool=table, token_to_kv_pool_allocator=pool, page_size=1)
)


def begin(row: int) -> SimpleNamespace:
    """A request with the fields that the cache reads; its prompt has been computed into slots of its own."""
    rows[row, : len(PROMPT)] = pool.alloc(len(PROMPT))
    cache.inc_lock_ref(cache.root_node)
    return SimpleNamespace(
        get_fill_ids=lambda: PROMPT,
        req_pool_idx=row,
        extra_key=None,
        priority=0,
        cache_protected_len=0,
        last_node=cache.root_node,
        prefix_indices=None,
    )


first, second = begin(0), begin(1)
duplicates = rows[1, : len(PROMPT)].tolist()
cache.cache_unfinished_req(first)
pool.free_group_begin()
cache.cache_unfinished_req(second)
pool.free_group_end()

cached = cache.all_values_flatten().tolist()
free = pool.free_pages.tolist()
both = sorted(set(cached) & set(free))
lost = sorted(set(duplicates) - set(free))
print(f"cached {cached}, in use by both requests; free as well: {both} (expected none); lost: {lost} (expected none)")
sys.exit(bool(both or lost))
