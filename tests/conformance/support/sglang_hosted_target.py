"""The suite on SGLang 0.5.23's unified cache with host memory for its components: ``TARGET STEPS [SLIP]``, as JSON.

Judged are both tiers.  A slip is planted in SGLang's own functions, to show that the judge sees a fault there.  Run by
the interpreter of the release's environment.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from kvlitmus.conformance.adapters.sglang.v0_5_23 import component_host
from tests.conformance.support import sglang_hosted_slips as shared
from tests.conformance.support.sglang_components import drawn, slipped


def stateless(cache: Any) -> None:
    """A backup forgets the state."""
    states = cache.cache.components[cache.types["state"]]
    build = states.build_hicache_transfers

    def built(node: Any, phase: Any, **more: Any) -> Any:
        return None if phase == "backup_host" else build(node, phase, **more)

    states.build_hicache_transfers = built


def kept(cache: Any) -> None:
    """What is evicted from the host is not given back to its pool."""
    cache.cache._drain_host_frees = lambda frees: frees.clear()


def held(cache: Any) -> None:
    """The scheduler looks at no backup that has ended: what they read stays locked."""
    cache.cache.writing_check = lambda **_more: None


def tall(cache: Any) -> None:
    """A leaf of the host is whatever has KV there, whatever is behind it."""
    core = cache.cache.tree_core
    is_leaf = core._is_host_leaf

    def leaf(node: Any) -> bool:
        children, node.children = node.children, {}
        try:
            return bool(is_leaf(node))
        finally:
            node.children = children

    core._is_host_leaf = leaf


def alone(cache: Any) -> None:
    """A backup takes its node, and nothing of what isn't backed up before it."""
    core = cache.cache.tree_core
    build = core.build_backup_kv_action
    core.build_backup_kv_action = lambda node: type(build(node))([node])


def loose(cache: Any) -> None:
    """A load back holds nothing on the device while it runs."""
    load = cache.cache.load_back

    def loaded(node: Any, *args: Any, **more: Any) -> bool:
        done = bool(load(node, *args, **more))
        if done:
            one = cache.cache.ongoing_load_back[node]
            cache.cache.dec_lock_ref(node, one.lock_params)
            cache.cache.ongoing_load_back[node] = one._replace(lock_params=None)
        return done

    release = cache.cache.dec_lock_ref
    cache.cache.dec_lock_ref = lambda node, params=None, **more: params and release(node, params, **more)
    cache.cache.load_back = loaded


OWN = {slip.__name__: slip for slip in (stateless, kept, held, tall, alone, loose)}


def main(name: str, steps: str, slip: str = "") -> dict[str, list[str]]:
    """The rules that litmus tests and drawn schedules break."""
    return drawn(slipped(getattr(component_host, name), {**shared.SLIPS, **OWN}[slip] if slip else None), int(steps))


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
