"""Hazards of components and storage, tried on SGLang's published code: ``RELEASE HAZARD``, as JSON.

Run by the interpreter of the release's environment.  One process holds one plan of modules, so each hazard has its own.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from kvlitmus.conformance.adapters.sglang.common import file
from kvlitmus.conformance.adapters.sglang.common.pools import MEM
from kvlitmus.conformance.adapters.sglang.common.state_commits import HiMamba
from kvlitmus.conformance.adapters.sglang.common.stubs import install, torch_module
from kvlitmus.conformance.adapters.sglang.v0_5_13 import components as old
from kvlitmus.conformance.adapters.sglang.v0_5_23 import components as new
from kvlitmus.conformance.ports import Config

MODULES = {"0.5.13.post1": old, "0.5.23": new}


def hit(release: str, pages: int, trailing: Mapping[str, tuple[int, Sequence[int]]]) -> int:
    """The pages that storage in files finds usable; ``trailing``: of each pool its window and the pages that it has.

    The files are listed as if they were there: ``_collect_existing_component_keys`` answers their names.
    """
    module = install(file.PLANS[release])(f"{MEM}.hicache_storage")
    store = object.__new__(module.HiCacheFile)
    store._get_component_key = lambda key, pool="kv": f"{key}.{pool}"
    there = {f"{page}.kv.bin" for page in range(pages)}
    there |= {f"{page}.{pool}.bin" for pool, (_, has) in trailing.items() for page in has}
    store._collect_existing_component_keys = lambda *_args: there
    policy = module.PoolHitPolicy.TRAILING_PAGES
    transfers = [
        module.PoolTransfer(name=pool, keys=["x"] * window, hit_policy=policy) for pool, (window, _) in trailing.items()
    ]
    return int(store.batch_exists_v2([str(page) for page in range(pages)], transfers).kv_hit_pages)


def several(release: str) -> int:
    """H-17: the window can be restored after six pages alone, the states after four and eight."""
    return hit(release, 8, {"swa": (2, (4, 5)), "mamba": (1, (3, 7))})


def clipped(release: str) -> int:
    """H-18: the window is of four pages, and of the key's two pages it has both."""
    return hit(release, 2, {"swa": (4, (0, 1))})


def clipped_read(release: str) -> list[int]:
    """H-18, what is read then: a window of two pages is reserved, one is usable; pages read, slots left for it."""
    plan = replace(
        file.PLANS[release],
        real=file.PLANS[release].real | {f"{MEM}.hybrid_cache.hybrid_cache_controller"},
    )
    load = install(plan)
    module, torch = load(f"{MEM}.hicache_storage"), torch_module()
    controller = load(f"{MEM}.hybrid_cache.hybrid_cache_controller").HybridCacheController
    pool = SimpleNamespace(page_size=4)
    this = SimpleNamespace(
        page_size=4,
        mem_pool_host=SimpleNamespace(entry_map={"swa": SimpleNamespace(host_pool=pool)}),
        append_host_mem_release=lambda **_: None,
    )
    transfer = module.PoolTransfer(
        name="swa",
        host_indices=torch.arange(8),
        keys=["x", "x"],
        hit_policy=module.PoolHitPolicy.TRAILING_PAGES,
    )
    controller._sync_trailing_keys(this, [transfer], ["0"], 1)
    store = object.__new__(module.HiCacheFile)
    store.registered_pools = {"swa": pool}
    store._read_page = lambda *_: True
    return [sum(store.batch_get_v2([transfer])["swa"]), len(transfer.host_indices)]


def counted(release: str) -> int:
    """H-20: of three pages of a pool the second could not be read."""
    module = install(file.PLANS[release])(f"{MEM}.hicache_storage")
    result = module.PoolTransferResult.empty()
    read = {"swa": [True, False, True]}
    count: Callable[[Any], Any] = getattr(module, "count_pool_hits", lambda rows: rows)
    result.update_extra_pool_hit_pages(count(read))
    return int(result.extra_pool_hit_pages["swa"])


def window_without_kv(release: str) -> dict[str, bool]:
    """H-63: a prefetch of three pages, of which two came to the device meanwhile; the window is of two pages."""
    module = MODULES[release]
    cache = module.swa.make(Config(page_size=4, pages=16, components="kv+swa"))
    torch, core = torch_module(), getattr(cache.cache, "tree_core", cache.cache)
    seen = {}
    for write_back in (False, True) if release == "0.5.23" else (False,):
        cache.component_reset()
        if release == "0.5.23":
            core.is_write_back = write_back
        key = cache.key_class(list(range(12)), None)
        granted = cache.component_alloc({"kv": 2, "swa": 2})
        assert granted is not None
        slots = cache._slots(granted["kv"])
        cache.cache.insert(cache.base.InsertParams(key=key[:8], value=torch.tensor(slots)))
        core.write_through_pending = {}
        window = cache.types["swa"]
        host = torch.arange(100, 112)
        hashes = ["a", "b", "c"]
        if release == "0.5.23":
            result = core.insert_host(core.root_node.id, key, host, hashes)
            more: dict[str, object] = {"cache_actions": []}
        else:
            result = cache.cache._insert_helper_host(core.root_node, key, host, hashes)
            more = {}
        storage = install(module.COMPONENT_PLAN)(f"{MEM}.hicache_storage")
        transfer = storage.PoolTransfer(name=storage.PoolName.SWA, host_indices=torch.arange(200, 208))
        done = SimpleNamespace(extra_pool_hit_pages={storage.PoolName.SWA: 2})
        cache.cache.components[window]._commit_prefetch(
            core.root_node, [transfer], insert_result=result, pool_storage_result=done, **more
        )
        odd = any(
            node.component_data[window].host_value is not None
            and node.component_data[cache.types["kv"]].host_value is None
            for node in nodes(core.root_node)
        )
        seen["write back" if write_back else "write through"] = odd
    return seen


def nodes(root: Any) -> list[Any]:
    """All nodes below a root."""
    found = list(root.children.values())
    for node in found:
        found.extend(node.children.values())
    return found


def state_of_a_longer_key(release: str) -> dict[str, int | None]:
    """H-26: a prefetch of four tokens; the ranks agree on two, and this one has the state of the fourth."""
    assert release == "0.5.13.post1"
    done = HiMamba(1).commit(4, 0, 2, 7)
    return {"tokens": done.node, "state": done.state}


def state_beside_a_branch(release: str) -> dict[str, Any]:
    """sglang#38815: up to where a request is cached whose window parts at 4 of 12 tokens, with states and without."""
    assert release == "0.5.23"
    said: dict[str, Any] = {}
    for name, target, layout in (("window", new.swa, "kv+swa"), ("window and states", new.swa_mamba, "kv+swa+state")):
        cache: Any = target.make(Config(page_size=4, pages=16, components=layout))
        kv = SimpleNamespace(cache_protected_len=0, get_evicted_seqlen=lambda _type: 0)
        request = SimpleNamespace(kv=kv, swa_branching_seqlen=4)
        part = cache.cache.components[cache.types["swa"]]
        said[name] = part.prepare_for_caching_req(request, cache.base.InsertParams(), 12, is_finished=True)
    return said


HAZARDS = {
    "H-17": several,
    "H-18": clipped,
    "H-18, read": clipped_read,
    "H-20": counted,
    "H-26": state_of_a_longer_key,
    "H-63": window_without_kv,
    "sglang#38815": state_beside_a_branch,
}

if __name__ == "__main__":
    print(json.dumps(HAZARDS[sys.argv[2]](sys.argv[1])))
