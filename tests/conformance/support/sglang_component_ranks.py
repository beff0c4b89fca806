"""Two ranks of SGLang 0.5.23 that prefetch a window or a state, each a process, over a real gloo group.

``SCENE``, as JSON: a list with what each rank says.  Storage has other things for each of the two, or other things
come.  All that ranks agree on is SGLang's own, as published: the query's and the reading's collectives, on groups that
its controller makes.  Run by the interpreter of the release's environment.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign, install
from kvlitmus.conformance.adapters.sglang.v0_5_23.component_host import PLAN
from kvlitmus.conformance.adapters.sglang.v0_5_23.component_prefetch import ComponentPrefetch
from kvlitmus.conformance.ports import Config
from tests.conformance.support.sglang_component_fetch import SIZE, cached, key_of, prefetch
from tests.conformance.support.sglang_component_fetch import finish as read_and_commit

RANKS = 2
LIMIT = 60
"""Seconds after which a rank that waits for the other is given up."""
Stored = Mapping[str, Sequence[int]]


class Rank(ComponentPrefetch):
    """One of the two; ``group`` is that of its tensor parallelism."""

    group: Foreign = None

    def _params(self, load: Foreign, **more: object) -> Foreign:
        return super()._params(load, tp_cache_group=self.group, **more)


def made(layout: str) -> Rank:
    """A rank's cache of sixteen pages on the host; its window is of two pages."""
    return Rank(Config(page_size=SIZE, pages=16, components=layout))


def outcome(cache: Rank, pages: int, stored: Stored, lost: Stored | None = None) -> dict[str, Any]:
    """A key of so many pages is prefetched, and ``lost`` doesn't come: how much is read and cached, and a hit's end."""
    key, free = key_of(range(1, pages + 1)), cache.component_available()
    one = prefetch(cache, key, stored)
    read = 0 if one.operation is None else len(one.operation.hash_value)
    for name, ends in (lost or {}).items():
        cache.backend.fetch.came[name] -= set(ends)
    if one.operation is None:
        cache.look()
    else:
        read_and_commit(cache, one)
    there, now = cached(cache), cache.component_available()
    missing = {name: many - now[name] - there[name] for name, many in free.items()}
    return {"read": read, "cached": there, "hit": cache.component_match(key)[0], "missing": missing}


def window_of_one_rank(rank: int) -> dict[str, Any]:
    """Of four pages one rank's storage has the window, and that of the other lacks its last page."""
    pages = [4, 8, 12, 16]
    return outcome(made("kv+swa"), 4, {"kv": pages, "swa": pages[:-1] if rank else pages})


def states_that_differ(rank: int) -> dict[str, Any]:
    """One rank's storage has the states of pages two and four, the other's those of two and three."""
    return outcome(made("kv+state"), 4, {"kv": [4, 8, 12, 16], "state": [8, (16, 12)[rank]]})


def window_that_comes_to_one(rank: int) -> dict[str, Any]:
    """Both have all, and one page of the window doesn't come to one of them."""
    stored = {"kv": [4, 8, 12, 16], "swa": [4, 8, 12, 16]}
    return outcome(made("kv+swa"), 4, stored, {"swa": [16]} if rank else None)


def state_that_comes_to_one(rank: int) -> dict[str, Any]:
    """Both have all, and the state doesn't come to one of them."""
    return outcome(made("kv+state"), 3, {"kv": [4, 8, 12], "state": [12]}, {"state": [12]} if rank else None)


def kv_that_comes_to_one(rank: int) -> dict[str, Any]:
    """Both have all, and the last page of KV doesn't come to one of them."""
    stored = {"kv": [4, 8, 12], "swa": [4, 8, 12], "state": [12]}
    return outcome(made("kv+swa+state"), 3, stored, {"kv": [12]} if rank else None)


def unsaid_by_one(rank: int) -> dict[str, Any]:
    """One rank's storage has no state at all."""
    return outcome(made("kv+state"), 2, {"kv": [4, 8], "state": [] if rank else [8]})


SCENES: dict[str, Callable[[int], dict[str, Any]]] = {
    scene.__name__: scene
    for scene in (
        window_of_one_rank,
        states_that_differ,
        window_that_comes_to_one,
        state_that_comes_to_one,
        kv_that_comes_to_one,
        unsaid_by_one,
    )
}

SLIPS = ("hits", "acks")
"""What each rank keeps as its own storage says, or as it came to it, though it takes part in the collective.

Ranks that part in that way don't agree on the number of their collectives either, so one of them ends by an error.
"""


def planted(slip: str) -> None:
    """What ranks agree on there is each rank's own."""
    controller = install(PLAN)("sglang.srt.mem_cache.hybrid_cache.hybrid_cache_controller").HybridCacheController
    agree = controller._all_reduce

    def own(self: Foreign, tensor: Foreign, op: Foreign, groups: Foreign) -> None:
        hits = groups is self.prefetch_hits_sync_groups
        agree(self, tensor.clone() if hits == (slip == "hits") else tensor, op, groups)

    if slip:
        controller._all_reduce = own


def rank_of(scene: str, rank: int, meeting: str, slip: str) -> dict[str, Any]:
    """This process is one of the ranks."""
    import torch.distributed as dist

    load = install(PLAN)
    limit = timedelta(seconds=LIMIT)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=RANKS, timeout=limit)
    load("sglang.srt.distributed.parallel_state").create_custom_parallel_group = lambda group_ranks, backend: (
        dist.new_group(group_ranks, backend=backend, timeout=limit)
    )
    Rank.group = dist.new_group(list(range(RANKS)), backend="gloo", timeout=limit)
    planted(slip)
    said = SCENES[scene](rank)
    dist.barrier()
    dist.destroy_process_group()
    return said


def ranks_of(scene: str, slip: str = "") -> list[dict[str, Any]]:
    """Start the ranks, and collect what they say; of one that didn't get to its end, how it ended."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tests.conformance.support.sglang_component_ranks", scene, slip]
        meeting = str(Path(folder) / "meeting")
        running = [
            subprocess.Popen([*command, str(rank), meeting], stdout=subprocess.PIPE, text=True) for rank in range(RANKS)
        ]
        said: list[dict[str, Any]] = []
        try:
            for one in running:
                if said and "ended" in said[0]:  # the other may wait for it
                    one.kill()
                text, _ = one.communicate(timeout=3 * LIMIT)
                said.append({"ended": one.returncode} if one.returncode else json.loads(text.splitlines()[-1]))
        finally:
            for one in running:
                one.kill()
        return said


if __name__ == "__main__":
    scene, slip, *own = [*sys.argv[1:3], *([""] * (3 - len(sys.argv))), *sys.argv[3:]]
    print(json.dumps(rank_of(scene, int(own[0]), own[1], slip) if own else ranks_of(scene, slip)))
