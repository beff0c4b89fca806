"""Slips that are planted in SGLang's own functions, to show that somebody would see a fault there."""

from __future__ import annotations

import contextlib
from typing import Any


def order(cache: Any) -> None:
    """A backup of a window that lies on several nodes attaches its parts to each other's nodes."""
    window = cache.cache.components[cache.types["swa"]]
    build = window.build_hicache_transfers

    def built(node: Any, phase: Any, **more: Any) -> Any:
        transfers = build(node, phase, **more)
        if transfers and phase == "backup_host":
            transfers[0].nodes_to_load.reverse()
        return transfers

    window.build_hicache_transfers = built


def unlocked(cache: Any) -> None:
    """A backup holds the KV that it reads, and not the window."""
    track = cache.cache._track_write_through_node

    def tracked(node: Any, lock: Any, **more: Any) -> None:
        if lock is not None:
            cache.cache.dec_lock_ref(node, lock)
            lock = cache.cache.tree_core.inc_lock_ref(node, (cache.types["swa"],)).to_dec_params()
        track(node, lock, **more)

    cache.cache._track_write_through_node = tracked


def unmapped(cache: Any) -> None:
    """A load back forgets which rows of the window belong to which of KV."""
    window = cache.cache.components[cache.types["swa"]]
    apply = window.apply_component_action

    def applied(action: Any) -> None:
        if type(action).__name__ != "RebuildFullToSWAMapping":
            apply(action)

    window.apply_component_action = applied


def half(cache: Any) -> None:
    """A load back takes the last node of a window alone."""
    window = cache.cache.components[cache.types["swa"]]
    build = window.build_hicache_transfers

    def built(node: Any, phase: Any, **more: Any) -> Any:
        transfers = build(node, phase, **more)
        if transfers and phase == "load_back":
            one = transfers[0]
            last = cache._node(one.nodes_to_load[-1])
            one.nodes_to_load = one.nodes_to_load[-1:]
            one.host_indices = one.host_indices[-len(last.key) :]
        return transfers

    window.build_hicache_transfers = built


def unpinned(cache: Any) -> None:
    """The scheduler doesn't lock what a request goes on from while its load back makes room."""
    cache.locked = lambda *_args, **_more: contextlib.nullcontext()


def shared(cache: Any) -> None:
    """Where a node is split the state on the host stays with both parts."""
    states = cache.cache.components[cache.types["state"]]
    share = states.redistribute_on_node_split

    def shared_out(new_parent: Any, child: Any) -> None:
        share(new_parent, child)
        kind = cache.types["state"]
        new_parent.component_data[kind].host_value = child.component_data[kind].host_value

    states.redistribute_on_node_split = shared_out


def everywhere(cache: Any) -> None:
    """A hit on the device may end at what is on the host alone."""
    core = cache.cache.tree_core
    make = core._create_match_validators

    def made(params: Any, match_device_only: bool) -> Any:
        return make(params, False)

    core._create_match_validators = made


def left(cache: Any) -> None:
    """Where the KV of a prefix goes to the host, its window stays on the device."""
    core = cache.cache.tree_core
    choose = core._should_cascade_evict_component

    def chosen(node: Any, trigger: Any, component: Any, target: Any, is_leaf: bool) -> Any:
        return not node.backuped and choose(node, trigger, component, target, is_leaf)

    core._should_cascade_evict_component = chosen


SLIPS = {slip.__name__: slip for slip in (order, unlocked, unmapped, half, unpinned, shared, everywhere, left)}


def plant(cache: Any, slip: str) -> Any:
    """Plant one; answers the cache."""
    SLIPS[slip](cache)
    return cache
