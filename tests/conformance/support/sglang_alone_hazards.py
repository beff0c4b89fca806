"""Hazards of SGLang 0.5.13.post1 that need one rank only, each shown on the published code, as JSON.

Run by the release's own interpreter; the argument is the hazard.  Each function returns what was seen; what that must
be, says ``test_sglang_ranks.py``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from queue import Queue
from types import SimpleNamespace
from typing import Any

from kvlitmus.conformance.adapters.sglang.common.hicache import SRT
from kvlitmus.conformance.adapters.sglang.common.pools import MEM
from kvlitmus.conformance.adapters.sglang.common.stubs import install, installed_folder, torch_module
from kvlitmus.conformance.adapters.sglang.v0_5_13 import environment
from kvlitmus.conformance.adapters.sglang.v0_5_13.hicache import hiradix
from kvlitmus.conformance.ports import Config
from kvlitmus.spec.interface.tiers import BACKUP, PUT, Outcome
from kvlitmus.spec.words.units import Key
from tests.conformance.support.sglang_hicache_scene import Scene

CONFIG = Config(page_size=4, pages=24, host_pages=32, storage="attached", threshold=4, rate_limit=1000)


def key(length: int) -> Key:
    """So many tokens."""
    return Key(None, tuple(range(length)), False)


def a_refused_page_is_not_stored_again() -> dict[str, Any]:
    """H-60: storage refuses the second of three pages once; then a longer key is cached, and the key is used again."""
    scene = Scene(hiradix, CONFIG)
    scene.insert(key(12))
    scene.step(BACKUP)
    scene.adapter.tick()
    scene.step(PUT, Outcome("short", 1))
    scene.settle()
    before = len(scene.store.contents)
    scene.insert(key(16))
    scene.insert(key(16))
    scene.settle()
    reader = Scene(hiradix, CONFIG, dict(scene.store.contents))
    reader.adapter.prefetch(1, key(16))
    reader.settle()
    reader.adapter.poll(1)
    reader.adapter.tick()
    return {"stored": before, "then": len(scene.store.contents), "loaded": reader.adapter.loaded(1)}


def half_of_an_allocation_is_lost() -> dict[str, Any]:
    """H-43: two requests need a page each; the pool of the window has one left.  Before: whether the scheduler's own
    check would have let them come here.
    """
    plan = replace(
        environment.PLAN,
        real=environment.PLAN.real | {f"{MEM}.allocator.swa", f"{MEM}.base_swa_memory_pool"},
        lifted={**environment.PLAN.lifted, f"{SRT}.utils.common": {"srt/utils/common.py": ("get_num_new_pages",)}},
    )
    load, torch = install(plan), torch_module()

    class Pool(load(f"{MEM}.base_swa_memory_pool").BaseSWAKVPool):  # type: ignore[misc]
        """The pools' mapping alone; it holds no KV."""

        full_kv_pool = swa_kv_pool = None

        def __init__(self) -> None:
            self.mapping: Any = None

        def register_mapping(self, mapping: Any) -> None:
            """Keep the mapping."""
            self.full_to_swa_index_mapping = mapping

        def translate_loc_from_full_to_swa(self, places: Any) -> Any:
            """The window's places."""
            return self.full_to_swa_index_mapping[places]

    Pool.__abstractmethods__ = frozenset()
    allocator = load(f"{MEM}.allocator.swa").SWATokenToKVPoolAllocator(
        size=32, size_swa=12, page_size=4, dtype=torch.float16, device="cpu", kvcache=Pool(), need_sort=False
    )
    for _ in range(2):
        first = allocator.alloc_extend(
            *[torch.tensor([0]), torch.tensor([0]), torch.tensor([4]), torch.tensor([4]), torch.tensor([-1])], 4
        )
        assert first is not None
    before = [allocator.full_available_size(), allocator.swa_available_size()]
    lengths = torch.tensor([5, 5])
    enough = allocator.available_size() >= 2 * allocator.page_size
    answer = allocator.alloc_decode(lengths, lengths, torch.tensor([7, 11]))
    after = [allocator.full_available_size(), allocator.swa_available_size()]
    return {"before": before, "enough": bool(enough), "granted": answer is not None, "after": after}


def a_buffer_is_given_back_while_it_is_read_into(policy: str) -> dict[str, Any]:
    """H-41, H-42: a request is aborted, or polled, while its thread reads the window's pages into host memory."""
    load, torch = install(environment.PLAN), torch_module()
    environment.modules()
    names = load(f"{MEM}.hicache_storage")
    hybrid = load(f"{MEM}.hybrid_cache.hybrid_cache_controller")
    pages = names.PoolTransfer(name=names.PoolName.SWA, host_indices=torch.arange(4), keys=["a"])
    operation = hybrid.PrefetchOperation("1", torch.arange(4), [0, 1, 2, 3], pool_transfers=[pages])
    operation.hash_value = ["a"]
    operation.pool_transfers_done = False
    controller = object.__new__(hybrid.HybridCacheController)
    entry = SimpleNamespace(is_primary_index_anchor=False, host_pool=SimpleNamespace(page_size=4))
    controller.mem_pool_host = SimpleNamespace(page_size=4, entry_map={names.PoolName.SWA: entry})
    controller.extra_host_mem_release_queues = {names.PoolName.SWA: Queue()}
    controller.host_mem_release_queue = Queue()
    controller.page_size, controller.has_draft, controller.prefetch_tokens_occupied = 4, False, 4
    controller.page_get_func = lambda operation, *_: operation.increment(4)
    cache = object.__new__(load(f"{MEM}.unified_radix_cache").UnifiedRadixCache)
    cache.cache_controller, cache.prefetch_stop_policy, cache.tp_world_size = controller, policy, 1
    cache.attn_cp_group = cache.attn_tp_group = None
    cache.page_size = 4
    cache.prefetch_loaded_tokens_by_reqid = {}
    cache.dec_host_lock_ref = lambda *_: None
    cache.ongoing_prefetch = {"1": (None, [0, 1, 2, 3], torch.arange(4), operation, None, {"swa": [pages]})}
    seen: dict[str, Any] = {}

    def reading(transfers: list[Any]) -> dict[Any, list[bool]]:
        """The storage is in the middle of it when the scheduler's step comes."""
        seen["may end"] = bool(cache.can_terminate_prefetch(operation))
        seen["done"] = operation.pool_transfers_done
        cache.release_aborted_request("1")
        seen["given back"] = controller.extra_host_mem_release_queues[names.PoolName.SWA].qsize()
        seen["read into"] = transfers[0].host_indices.tolist()
        return {names.PoolName.SWA: [True]}

    controller.storage_backend = SimpleNamespace(batch_get_v2=reading)
    controller._page_transfer(operation)
    return seen


def nobody_makes_the_mamba_tree() -> dict[str, Any]:
    """H-30, H-33, H-37: where the release makes a ``HiMambaRadixCache``."""
    made = [
        str(file.relative_to(folder))
        for folder in [Path(installed_folder(environment.PLAN))]
        for file in folder.rglob("*.py")
        if "HiMambaRadixCache(" in file.read_text(encoding="utf-8").replace("class HiMambaRadixCache(", "")
    ]
    return {"made in": made}


HAZARDS: Mapping[str, Callable[[], dict[str, Any]]] = {
    "put": a_refused_page_is_not_stored_again,
    "decode": half_of_an_allocation_is_lost,
    "buffer": lambda: a_buffer_is_given_back_while_it_is_read_into("wait_complete"),
    "buffer, best effort": lambda: a_buffer_is_given_back_while_it_is_read_into("best_effort"),
    "mamba": nobody_makes_the_mamba_tree,
}

if __name__ == "__main__":
    print(json.dumps(HAZARDS[sys.argv[1]]()))
