"""Prefetches of SGLang 0.5.13.post1's ``HiMambaRadixCache``, scene by scene: ``[SLIP]``, all scenes as JSON.

``prefetch_from_storage`` runs as published, over what :mod:`tests.conformance.support.sglang_state_cache` makes.  Pages
are of four tokens and the threshold is eight.  Run by the interpreter of the release's environment.
"""

from __future__ import annotations

import json
import sys
from array import array
from collections.abc import Callable
from typing import Any

from kvlitmus.conformance.adapters.sglang.common.stubs import torch_module
from tests.conformance.support.sglang_state_cache import PAGE, THRESHOLD, StateCache, key_of

LONG = (1, 2, 3, 4)
"""A key of sixteen tokens."""

TRUNCATIONS = ((4, 64), (8, 8), (8, 4), (16, 16), (12, 40), (16, 11), (16, 7), (16, 15), (16, 0))
"""Lengths, and how much room there is for KV: those of ``tests/proofs/components/test_prefetch.py``."""

SLIP: list[Callable[[StateCache], None]] = []
"""What is planted in each cache."""


def made(pages: int = 20, states: int = 4) -> StateCache:
    """A cache, with the slip if there is one."""
    cache = StateCache(pages, states)
    for plant in SLIP:
        plant(cache)
    return cache


def table() -> list[list[int]]:
    """From the root, for each truncation with no, one and two states free.

    Tokens, rows and states that are taken, what is accounted for, and what is free then of both.
    """
    rows: list[list[int]] = []
    for length, room in TRUNCATIONS:
        for states in (0, 1, 2):
            cache = made()
            cache.leave(room, states)
            cache.prefetch("r", key_of(*LONG)[:length])
            rows.append([*cache.taken("r"), cache.controller.prefetch_tokens_occupied, *cache.free()])
    return rows


def anchored() -> list[list[object]]:
    """Behind two pages: tokens, how often KV and state of the anchor are protected, and whether it can be evicted."""
    rows: list[list[object]] = []
    for length, room in TRUNCATIONS:
        cache = made()
        anchor = cache.cached(8, 9)
        cache.leave(room, 1)
        cache.prefetch("r", key_of(8, 9, *LONG)[: 2 * PAGE + length])
        loose = anchor in cache.tree.evictable_full_host_leaves
        rows.append([cache.taken("r").tokens, *cache.counts(anchor).values(), loose])
    return rows


def watched(room: int, states: int, *others: int) -> list[str]:
    """What a prefetch of four pages asks for where there is so much room; ``others`` can be evicted."""
    cache = made()
    if others:
        cache.cached(*others)
    cache.leave(room, states)
    cache.watch()
    cache.prefetch("r", key_of(*LONG))
    return cache.calls


def order() -> dict[str, list[str]]:
    """What is asked of the pools and of evictions, in order."""
    return {
        "room for all": watched(16, 1),
        "room after an eviction": watched(4, 1, 7, 8, 9),
        "cut": watched(11, 1),
        "no state": watched(11, 0),
        "a state after an eviction": watched(16, 0, 8, 9),
        "too little": watched(7, 1),
    }


def position() -> list[object]:
    """Four pages are cut to two, and storage has states for the second and the fourth.

    Tokens that are read, the end that the state is read for and that its contents belong to, the hit, and what is free.
    """
    cache = made()
    tokens = key_of(*LONG)
    cache.store(tokens, [8, 16])
    cache.leave(11, 1)
    operation = cache.prefetch("r", tokens)
    cache.ask()
    (transfer,) = operation.pool_transfers
    read, slot = len(operation.host_indices), int(transfer.host_indices)
    cache.finish("r")
    end = (cache.hashes(tokens).index(transfer.keys[0]) + 1) * PAGE
    contents = int(cache.states.temporal_buffer[:, slot].flatten()[0])
    return [read, end, contents, cache.hit(tokens), *cache.free()]


def state_behind() -> list[object]:
    """The same where storage has the state of the fourth page alone: whether it goes on, and what is free."""
    cache = made()
    tokens = key_of(*LONG)
    cache.store(tokens, [16])
    cache.leave(11, 1)
    cache.prefetch("r", tokens)
    cache.ask()
    return [cache.operation("r") is not None, *cache.free(), cache.controller.prefetch_tokens_occupied]


def no_state() -> list[object]:
    """No state is free, and none can be evicted: the anchor's, the only one, another prefetch has protected.

    Whether it begins, what is free before and after, what is accounted for besides, how often KV and state of the
    anchor are protected before and after, and whether the KV that was evicted for it is still there.
    """
    cache = made()
    cache.stateless(6, 7)
    anchor = cache.cached(8, 9)
    cache.prefetch("other", key_of(8, 9, 5, 5))
    cache.leave(4, 0)
    before, occupied = cache.counts(anchor), cache.controller.prefetch_tokens_occupied
    free = cache.free()
    cache.prefetch("r", key_of(8, 9, *LONG))
    more = cache.controller.prefetch_tokens_occupied - occupied
    kept = sum(node.key.token_ids[0] == 6 for node in cache.nodes())
    begun = cache.operation("r") is not None
    return [begun, free, cache.free(), more, *before.values(), *cache.counts(anchor).values(), bool(kept)]


def own_state() -> list[object]:
    """The one state that there is is the anchor's: what is taken, whether the anchor keeps it, and the hits.

    Before, while the prefetch runs, and when it has ended with nothing, since storage has nothing.
    """
    cache = made(20, 2)
    anchor = cache.cached(8, 9)
    cache.leave(None, 0)
    tokens = key_of(8, 9, *LONG)
    before = cache.hit(tokens)
    cache.prefetch("r", tokens)
    taken, kept = cache.taken("r"), anchor.mamba_host_value is not None
    during = cache.hit(tokens)
    cache.ask()
    return [*taken, kept, before, during, cache.hit(tokens)]


def protected() -> list[list[int]]:
    """How often KV and state of the anchor are protected: while memory is asked for, while it runs, and at the end.

    And how many states an eviction frees while it runs.
    """
    cache = made()
    anchor = cache.cached(8, 9)
    seen: list[list[int]] = []
    evict = cache.tree.evict_host

    def seeing(size: int) -> None:
        seen.append(list(cache.counts(anchor).values()))
        evict(size)

    cache.tree.evict_host = seeing
    cache.leave(11, 1)
    tokens = key_of(8, 9, *LONG)
    cache.store(tokens, [16])
    cache.prefetch("r", tokens)
    seen.append(list(cache.counts(anchor).values()))
    seen.append([cache.tree.evict_mamba_host(1)])
    cache.ask()
    cache.finish("r")
    seen.append(list(cache.counts(anchor).values()))
    return seen


def nothing() -> dict[str, list[object]]:
    """What is asked for, and how often the anchor is protected: below the threshold, without storage, at the limit."""
    answers: dict[str, list[object]] = {}
    for why in ("short", "away", "limit"):
        cache = made()
        anchor = cache.cached(8, 9)
        cache.watch()
        if why == "away":
            cache.tree.enable_storage = False
        if why == "limit":
            cache.controller.prefetch_capacity_limit = 0
        more = THRESHOLD - 1 if why == "short" else THRESHOLD
        cache.prefetch("r", [*key_of(8, 9), *key_of(*LONG)[:more]])
        answers[why] = [cache.calls, *cache.counts(anchor).values()]
    return answers


def failing(cache: StateCache, *times: int) -> None:
    """The pool of KV refuses these of the next calls, whatever room there is."""
    alloc, calls = cache.kv.alloc, [0]

    def refusing(size: int) -> Any:
        calls[0] += 1
        return None if calls[0] in times else alloc(size)

    cache.kv.alloc = refusing


def third_fails() -> list[object]:
    """The pool says eight tokens are free, and refuses them: whether it begins, what is free, and the anchor."""
    cache = made()
    anchor = cache.cached(8, 9)
    cache.leave(8, 1)
    failing(cache, 3)
    cache.prefetch("r", key_of(8, 9, *LONG))
    return [cache.operation("r") is not None, *cache.free(), *cache.counts(anchor).values()]


def room_comes() -> list[object]:
    """The pool refuses twice, and has room for forty tokens when it is looked at: what is taken, and free at last."""
    cache = made()
    tokens = key_of(*LONG)
    cache.store(tokens, [16])
    cache.leave(40, 1)
    failing(cache, 1, 2)
    cache.prefetch("r", tokens)
    taken = cache.taken("r")
    cache.ask()
    cache.finish("r")
    return [*taken, *cache.free(), cache.hit(tokens)]


def above_on_host() -> list[object]:
    """The leaf that was used first is behind two pages whose state has gone; each of three nodes has eight tokens.

    Tokens that are asked for and taken, and how many are free then, so were evicted for nothing.
    """
    cache = made()
    cache.cached(8, 9)
    cache.cached(8, 9, 5, 6)
    cache.used(8, 9, 5, 6)
    cache.tree.evict_mamba_host(1)
    cache.cached(7, 7)
    cache.leave(0, 1)
    cache.prefetch("r", key_of(*LONG))
    return [len(key_of(*LONG)), cache.taken("r").tokens, cache.free()[0]]


def above_on_device() -> list[object]:
    """The same where these two pages are on the device alone, computed while what is behind them was read.

    Tokens that are asked for and taken, and how many could be evicted yet.
    """
    cache = made()
    tokens = key_of(8, 9, 5, 6)
    cache.store(tokens, [16])
    cache.tree.write_through_threshold = 2
    cache.prefetch("first", tokens)
    cache.ask()
    base = cache.load("sglang.srt.mem_cache.base_prefix_cache")
    key = cache.load("sglang.srt.mem_cache.radix_cache").RadixKey(array("q", tokens[:8]), None)
    value = cache.tree.token_to_kv_pool_allocator.alloc(8)
    state = cache.tree.req_to_token_pool.mamba_allocator.alloc(1)
    cache.tree.insert(base.InsertParams(key=key, value=value, mamba_value=state))
    cache.finish("first")
    cache.tree.evict_mamba(1)
    cache.cached(7, 7)
    cache.leave(0, 1)
    cache.prefetch("r", key_of(*LONG))
    left = sum(len(node.host_value) for node in cache.tree.evictable_full_host_leaves)
    return [len(key_of(*LONG)), cache.taken("r").tokens, left]


def commits() -> dict[str, list[object]]:
    """What becomes of the state of four pages: how much KV of the key is cached, the hit, and states free of four.

    ``new``: nothing of the key is cached before.  ``lost``: the state is gone from storage when it is read.
    ``cached``: all KV of the key is, without a state.  ``part``: that of two of its pages is.
    """
    answers: dict[str, list[object]] = {}
    tokens = key_of(*LONG)
    for what in ("new", "lost", "cached", "part"):
        cache = made()
        if what == "lost":
            cache.stateless(*LONG)
        else:
            if what in ("cached", "part"):
                cache.stateless(*(LONG if what == "cached" else LONG[:2]))
            cache.store(tokens, [16])
            cache.prefetch("r", tokens)
            cache.ask()
            cache.finish("r")
        kv = sum(len(node.host_value) for node in cache.nodes())
        answers[what] = [kv, cache.hit(tokens), cache.free()[1]]
    return answers


SCENES: dict[str, Callable[[], object]] = {
    scene.__name__: scene
    for scene in (
        table,
        anchored,
        order,
        position,
        state_behind,
        no_state,
        own_state,
        protected,
        nothing,
        third_fails,
        room_comes,
        above_on_host,
        above_on_device,
        commits,
    )
}


# Slips, in the published functions


def as_many_states(cache: StateCache) -> None:
    """A state is taken for each page that is left of the KV."""
    take = cache.tree.mamba_prefetch_alloc

    def taking(tokens: Any, last: Any) -> Any:
        transfers = take(tokens, last)
        more = cache.states.alloc(len(tokens) // PAGE - 1) if transfers else None
        if more is not None:
            transfers[0].host_indices = torch_module().cat([transfers[0].host_indices, more])
        return transfers

    cache.tree.mamba_prefetch_alloc = taking


def second_eviction(cache: StateCache) -> None:
    """What doesn't fit after an eviction is tried again after another one."""
    take = cache.tree._alloc_with_evict

    def taking(pool: Any, size: int, evict: Any, **more: Any) -> Any:
        got = take(pool, size, evict, **more)
        return take(pool, size, evict, **more) if got is None else got

    cache.tree._alloc_with_evict = taking


def state_protected(cache: StateCache) -> None:
    """The anchor's state is protected with its KV, and so released."""
    protect, release = cache.tree._protect_host_node, cache.tree._release_host_node
    cache.tree._protect_host_node = lambda node, **_more: protect(node)
    cache.tree._release_host_node = lambda node, **_more: release(node)


def kv_kept(cache: StateCache) -> None:
    """Where there is no state, the KV is not given back."""
    take, free = cache.tree.mamba_prefetch_alloc, cache.controller.mem_pool_host.free
    refused = [False]

    def taking(tokens: Any, last: Any) -> Any:
        transfers = take(tokens, last)
        refused[0] = transfers is None
        return transfers

    def freeing(rows: Any) -> int:
        kept, refused[0] = refused[0], False
        return 0 if kept else int(free(rows))

    cache.tree.mamba_prefetch_alloc = taking
    cache.controller.mem_pool_host.free = freeing


def key_not_cut(cache: StateCache) -> None:
    """The state's position is the last page of the key as it was asked for."""
    ask, synced = cache.tree.prefetch_from_storage, cache.controller._sync_trailing_keys
    last: list[str] = []

    def asking(name: str, node: Any, tokens: Any, before: Any = None, prefix: Any = None) -> None:
        last[:] = cache.hashes(list(tokens)[: len(tokens) // PAGE * PAGE], before)[-1:]
        ask(name, node, tokens, before, prefix)

    def naming(transfers: Any, hashes: Any, pages: int) -> None:
        synced(transfers, hashes, pages)
        for one in transfers:
            one.keys = last[-1:]

    cache.tree.prefetch_from_storage = asking
    cache.controller._sync_trailing_keys = naming


def anchor_kept(cache: StateCache) -> None:
    """Where nothing begins the anchor stays protected."""
    release = cache.tree._release_host_node

    def releasing(node: Any, release_mamba: bool = True) -> None:
        if release_mamba:
            release(node)

    cache.tree._release_host_node = releasing


def no_threshold(cache: StateCache) -> None:
    """What is left after the cut need not reach the threshold."""
    look = cache.kv.available_size

    def looking() -> int:
        cache.tree.prefetch_threshold = PAGE
        return int(look())

    cache.kv.available_size = looking


SLIPS = {
    slip.__name__: slip
    for slip in (as_many_states, second_eviction, state_protected, kv_kept, key_not_cut, anchor_kept, no_threshold)
}


def answered(scene: Callable[[], object]) -> object:
    """What a scene says; with a slip it may raise instead."""
    if not SLIP:
        return scene()
    try:
        return scene()
    except Exception as error:  # noqa: BLE001 - whatever a slip leads to
        return f"raised {type(error).__name__}"


if __name__ == "__main__":
    SLIP.extend(SLIPS[name] for name in sys.argv[1:])
    print(json.dumps({name: answered(scene) for name, scene in SCENES.items()}))
