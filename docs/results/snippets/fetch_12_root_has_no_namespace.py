"""SGLang 0.5.13.post1: what is prefetched for one tenant is cached for requests of no tenant (FETCH-12, FETCH-13).

A request with an `extra_key` finds nothing in the tree, so its prefetch is anchored at the root.
`prefetch_from_storage` takes the namespace from the anchor, not from the request, and the root has none: the pages are
cached under a key without a namespace.  The request itself doesn't find them; one without an `extra_key` does.

Argument: hiradix (HiRadixCache, the default) or unified (UnifiedRadixCache).  Exits 1 if the fault shows.
"""

from __future__ import annotations

import sys
import time
from array import array
from types import SimpleNamespace

import torch
from sglang.srt.mem_cache.allocator.token import TokenToKVPoolAllocator
from sglang.srt.mem_cache.base_prefix_cache import MatchPrefixParams
from sglang.srt.mem_cache.cache_init_params import CacheInitParams
from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool
from sglang.srt.mem_cache.memory_pool_host import ALLOC_MEMORY_FUNCS
from sglang.srt.mem_cache.radix_cache import RadixKey
from sglang.srt.mem_cache.storage import StorageBackendFactory

PROMPT = array("q", range(1, 9))
# Nothing is copied between device and host here, so no memory need be pinned.
ALLOC_MEMORY_FUNCS["cpu"] = lambda dims, dtype, **_options: torch.zeros(dims, dtype=dtype)
if not torch.distributed.is_initialized():
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)


class Everything:
    """Storage that has every page."""

    def batch_exists(self, keys: list[str], _extra: object = None) -> int:
        """All are there."""
        return len(keys)

    def batch_get(self, keys: list[str], targets: list[torch.Tensor], _sizes: object = None) -> list[torch.Tensor]:
        """The pages as they are: their contents don't matter here."""
        return targets

    def register_mem_pool_host(self, *_pool: object) -> None:
        """Nothing to prepare."""

    register_mem_host_pool_v2 = get_stats = register_mem_pool_host


StorageBackendFactory.create_backend = staticmethod(lambda *_given, **_named: Everything())
kv = MHATokenToKVPool(
    size=16,
    page_size=1,
    dtype=torch.float32,
    head_num=1,
    head_dim=1,
    layer_num=1,
    device="cpu",
    enable_memory_saver=False,
)
pool = TokenToKVPoolAllocator(16, dtype=torch.float32, device="cpu", kvcache=kv, need_sort=False)
options = SimpleNamespace(
    hicache_ratio=4.0,
    hicache_size=0,
    hicache_mem_layout="layer_first",
    hicache_io_backend="direct",
    hicache_write_policy="write_through",
    hicache_storage_backend="file",
    hicache_storage_backend_extra_config='{"prefetch_threshold": 1}',
    hicache_storage_prefetch_policy="wait_complete",
    served_model_name="any",
    extra_metric_labels=None,
)
made = {"disable": False, "req_to_token_pool": None, "token_to_kv_pool_allocator": pool, "page_size": 1}
if sys.argv[1:] == ["unified"]:
    from sglang.srt.mem_cache.unified_cache_components import ComponentType
    from sglang.srt.mem_cache.unified_radix_cache import UnifiedRadixCache

    params = CacheInitParams(**made, tree_components=(ComponentType.FULL,))
    cache = UnifiedRadixCache(params)
    cache.init_hicache(options, params)
else:
    from sglang.srt.mem_cache.hiradix_cache import HiRadixCache

    cache = HiRadixCache(CacheInitParams(**made), options)
host = cache.cache_controller.mem_pool_host
(host if not hasattr(host, "anchor_entry") else host.anchor_entry.host_pool).pin_memory = False


def found(extra_key: str | None) -> int:
    """How many tokens of the prompt a request with this extra_key finds on the host."""
    return cache.match_prefix(MatchPrefixParams(key=RadixKey(PROMPT, extra_key))).host_hit_length


# What the scheduler does for a request of tenant-a (`_prefetch_kvcache`); nothing is cached, so the match is the root.
anchor = cache.match_prefix(MatchPrefixParams(key=RadixKey(PROMPT, "tenant-a"))).last_host_node
cache.prefetch_from_storage("request of tenant-a", anchor, PROMPT, None, None)
while not cache.check_prefetch_progress("request of tenant-a"):
    time.sleep(0.01)
asked, other = found("tenant-a"), found(None)
print(
    f"{type(cache).__name__}: after a prefetch for tenant-a, tenant-a finds {asked} tokens (expected {len(PROMPT)}), "
    f"requests without a tenant find {other} (expected 0)"
)
sys.exit(asked != len(PROMPT) or other != 0)
