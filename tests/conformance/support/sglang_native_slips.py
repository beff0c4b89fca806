"""Slips planted where SGLang 0.5.23's compiled tree is asked and answers, to show that a fault there would be seen.

The compiled code itself can't be changed; each slip changes what a call of ``RustUnifiedTreeCore`` asks of it or
answers.
"""

from __future__ import annotations

from typing import Any

from tests.conformance.support.sglang_hosted_target import OWN


def anywhere(cache: Any) -> None:
    """A hit ends wherever there is KV."""
    core = cache.cache.tree_core
    match = core.match_prefix

    def matched(params: Any) -> Any:
        found = match(params)
        length, node = core.match_full_device_prefix(params.key)[:2]
        return found._replace(device_prefix_len=length, last_device_node=node)

    core.match_prefix = matched


def kv_alone(cache: Any) -> None:
    """A lock is of KV alone."""
    core = cache.cache.tree_core
    lock = core.inc_lock_ref
    others = tuple(kind for name, kind in cache.types.items() if name != "kv")
    core.inc_lock_ref = lambda node, skip=(): lock(node, (*skip, *others))


def unlocked(cache: Any) -> None:
    """A lock that is given back stays."""
    cache.cache.tree_core.dec_lock_ref = lambda *_args, **_more: None


def leaked(cache: Any) -> None:
    """What an eviction took of a window or of states is not given back to its pool."""
    core = cache.cache.tree_core
    fill = core._fill_evict_result

    def filled(said: Any, result: Any) -> Any:
        fill(said, result)
        for name, kind in cache.types.items():
            if name != "kv":
                result.device_frees[kind].clear()
        return result

    core._fill_evict_result = filled


def greedy(cache: Any) -> None:
    """An eviction goes on after it has enough."""
    core = cache.cache.tree_core
    start = core.evict_device_start
    core.evict_device_start = lambda kind, many: start(kind, 4 * many)


def short(cache: Any) -> None:
    """An insert leaves the window's first page out."""
    core = cache.cache.tree_core
    begin = core.begin_insert

    def begun(params: Any) -> Any:
        params.set_evicted_seqlen(cache.types["swa"], params.get_evicted_seqlen(cache.types["swa"]) + cache.page)
        return begin(params)

    core.begin_insert = begun


def stateless(cache: Any) -> None:
    """A backup forgets the state and the window."""
    core = cache.cache.tree_core
    build = core.build_backup_spec

    def built(node: Any) -> Any:
        return build(node)[0], {}

    core.build_backup_spec = built


SLIPS = {slip.__name__: slip for slip in (anywhere, kv_alone, unlocked, leaked, greedy, short, stateless)}
SLIPS |= {name: OWN[name] for name in ("kept", "held", "alone", "loose")}
"""And those for the tree in Python that are planted in what both trees have."""
