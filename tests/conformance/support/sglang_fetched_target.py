"""The suite on the prefetches of SGLang 0.5.23's unified cache with components: ``TARGET STEPS [SLIP]``, as JSON.

A slip is planted in SGLang's own functions, to show that the judge sees a fault there.  Run by the interpreter of the
release's environment.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Any

from kvlitmus.conformance.adapters.sglang.v0_5_23 import component_prefetch
from tests.conformance.support.sglang_components import drawn, slipped


def kept(cache: Any) -> None:
    """Whatever became of the window and the state, what came is committed."""
    cache.cache._check_hybrid_prefetch_result = lambda *_args: True


def part(cache: Any) -> None:
    """So it is, and a window counts as read when its first page is."""
    kept(cache)
    window = cache.cache.components[cache.types["swa"]]
    commit = window._commit_prefetch

    def committed(anchor: Any, transfers: Any, *, pool_storage_result: Any, **more: Any) -> None:
        hits = dict(pool_storage_result.extra_pool_hit_pages)
        if hits.get(window.pool_name):
            hits[window.pool_name] = len(transfers[0].host_indices) // cache.page
        told = replace(pool_storage_result, extra_pool_hit_pages=hits)
        commit(anchor, transfers, pool_storage_result=told, **more)

    window._commit_prefetch = committed


def moved(cache: Any) -> None:
    """The state that was read is attached to the node before the one that it was stored for."""
    states = cache.cache.components[cache.types["state"]]
    commit = states.commit_hicache_transfer

    def committed(node: Any, phase: Any, transfers: Any = (), *, insert_result: Any = None, **more: Any) -> None:
        if phase == "prefetch" and insert_result is not None and insert_result.inserted_host_node is not None:
            above = cache._node(insert_result.inserted_host_node).parent
            if above is not cache._root():
                insert_result.inserted_host_node = above.id
        commit(node, phase, transfers, insert_result=insert_result, **more)

    states.commit_hicache_transfer = committed


def first(cache: Any) -> None:
    """The window and the state are read for the first pages of a hit, not for its last ones."""
    control = cache.controller

    def synced(transfers: Any, hashes: Any, _pages: int) -> None:
        for one in transfers:
            one.keys = hashes[: len(one.keys)]

    control._sync_trailing_keys = synced


def least(cache: Any) -> None:
    """Each pool says how far it could be restored, and the least of that is read."""
    ask = cache.backend.files.batch_exists_v2

    def asked(keys: Any, transfers: Any = None, extra_info: Any = None) -> Any:
        answers = [ask(keys, [one], extra_info) for one in transfers or ()]
        pages = min([one.kv_hit_pages for one in answers], default=ask(keys, None, extra_info).kv_hit_pages)
        answer = ask(keys, None, extra_info)
        return replace(answer, kv_hit_pages=pages, restorable_prefix_pages=list(range(1, pages + 1)))

    cache.backend.files.batch_exists_v2 = asked


def lost(cache: Any) -> None:
    """What a prefetch has of the window and of states is not given back with its KV."""
    release = cache.controller.append_host_mem_release
    cache.controller.append_host_mem_release = lambda host_indices=None, _extra_pools=None, **_more: release(
        host_indices
    )


def early(cache: Any) -> None:
    """An abort gives back all KV, also what is still read."""
    retire = cache.cache._retire_ongoing_prefetch

    def retired(request: Any, _indices: Any, extra_pools: Any) -> None:
        whole = cache.cache.ongoing_prefetch[request].host_indices
        cache.cache.ongoing_prefetch[request].operation.ack_releases_incomplete_host_indices = False
        retire(request, whole, extra_pools)

    cache.cache._retire_ongoing_prefetch = retired


def loose(cache: Any) -> None:
    """A prefetch doesn't hold its anchor."""
    start = cache.cache.prefetch_from_storage

    def started(handle: Any, node: Any, *args: Any, **more: Any) -> Any:
        answer = start(handle, node, *args, **more)
        info = cache.cache.ongoing_prefetch.get(handle)
        if info is not None:
            cache.cache.dec_host_lock_ref(node, info.anchor_lock_params)
            cache.cache.ongoing_prefetch[handle] = info._replace(anchor_lock_params=None)
        return answer

    release = cache.cache.dec_host_lock_ref
    cache.cache.dec_host_lock_ref = lambda node, params: params and release(node, params)
    cache.cache.prefetch_from_storage = started


def halfway(cache: Any) -> None:
    """Where there is no state the prefetch begins all the same, with its KV."""
    stage = cache.cache._alloc_prefetch_aux_staging
    cache.cache._alloc_prefetch_aux_staging = lambda *args: stage(*args) or True


SLIPS = {slip.__name__: slip for slip in (kept, part, moved, first, least, lost, early, loose, halfway)}


def main(name: str, steps: str, slip: str = "") -> dict[str, list[str]]:
    """The rules that litmus tests and drawn schedules break."""
    return drawn(slipped(getattr(component_prefetch, name), SLIPS[slip] if slip else None), int(steps))


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
