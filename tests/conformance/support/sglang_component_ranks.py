"""Two ranks of SGLang that prefetch a window or a state, each a process, over a real gloo group.

``RELEASE SCENE SLIP``, as JSON: a list with what each rank says.  Storage has other things for each of the two, other
things come, one has less memory, or its clock is ahead.  All that ranks agree on is SGLang's own, as published: the
query's and the reading's collectives, on groups that its controller makes.  A release says how its rank is made, how a
prefetch begins and is read, and where its ranks agree; the scenes are the same.  Run by the interpreter of the
release's environment.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from kvlitmus.conformance.adapters.sglang.common import steps
from kvlitmus.conformance.adapters.sglang.common.stubs import install
from kvlitmus.conformance.ports import Config
from tests.conformance.support.sglang_component_fetch import SIZE, cached, key_of

RANKS = 2
LIMIT, SLIPPED = 60, 20
"""Seconds after which a rank that waits for the other is given up, and where a slip is planted."""
RELEASES = {
    "0.5.13.post1": "tests.conformance.support.sglang_0_5_13_component_fetch",
    "0.5.23": "tests.conformance.support.sglang_0_5_23_component_rank",
}
Stored = Mapping[str, Sequence[int]]
Make = Callable[[str], Any]
"""Makes a rank's cache of sixteen pages on the host, with the components of a layout; its window is of two pages."""


def outcome(
    cache: Any, pages: int, stored: Stored, lost: Stored | None = None, *, taken: int = 0, policy: str = "best_effort"
) -> dict[str, Any]:
    """A key of so many pages is prefetched, and ``lost`` doesn't come: how much is read and cached, and a hit's end.

    ``taken``: how many pages of KV somebody else has.  ``policy``: when a prefetch may end.
    """
    cache.cache.prefetch_stop_policy = policy
    if taken:
        assert cache.component_alloc({"kv": taken}) is not None
    key, free = key_of(range(1, pages + 1)), cache.component_available()
    one = cache.begin(key, stored)
    read = 0 if one.operation is None else len(one.operation.hash_value)
    for name, ends in (lost or {}).items():
        cache.backend.fetch.came[name] -= set(ends)
    if one.operation is None:
        cache.look()
    else:
        cache.read()
        cache.look()
        assert cache.cache.check_prefetch_progress(one.handle)
        cache.look()
    return {"read": read, **left(cache, free), "hit": cache.component_match(key)[0]}


def left(cache: Any, free: Mapping[str, int]) -> dict[str, Any]:
    """What is cached, what waits to be free, and what is none of it and not free of what was free."""
    there, now, waiting = cached(cache), cache.component_available(), {}
    for name in free:
        control, pool = cache.controller, cache.pools[name]
        queue = control.host_mem_release_queue if name == "kv" else control.extra_host_mem_release_queues[pool]
        waiting[name] = sum(len(rows) for rows in queue.queue) // cache.unit(name)
    missing = {name: many - now[name] - there[name] - waiting[name] for name, many in free.items()}
    return {"cached": there, "waiting": waiting, "missing": missing}


def window_of_one_rank(make: Make, rank: int) -> dict[str, Any]:
    """Of four pages one rank's storage has the window, and that of the other lacks its last page."""
    pages = [4, 8, 12, 16]
    return outcome(make("kv+swa"), 4, {"kv": pages, "swa": pages[:-1] if rank else pages})


def states_that_differ(make: Make, rank: int) -> dict[str, Any]:
    """One rank's storage has the states of pages two and four, the other's those of two and three."""
    return outcome(make("kv+state"), 4, {"kv": [4, 8, 12, 16], "state": [8, (16, 12)[rank]]})


def window_that_comes_to_one(make: Make, rank: int) -> dict[str, Any]:
    """Both have all, and one page of the window doesn't come to one of them."""
    stored = {"kv": [4, 8, 12, 16], "swa": [4, 8, 12, 16]}
    return outcome(make("kv+swa"), 4, stored, {"swa": [16]} if rank else None)


def state_that_comes_to_one(make: Make, rank: int) -> dict[str, Any]:
    """Both have all, and the state doesn't come to one of them."""
    return outcome(make("kv+state"), 3, {"kv": [4, 8, 12], "state": [12]}, {"state": [12]} if rank else None)


def kv_that_comes_to_one(make: Make, rank: int) -> dict[str, Any]:
    """Both have all, and the last page of KV doesn't come to one of them; who waits waits for all."""
    stored = {"kv": [4, 8, 12], "swa": [4, 8, 12], "state": [12]}
    lost = {"kv": [12]} if rank else None
    return outcome(make("widest"), 3, stored, lost, policy="wait_complete")


def unsaid_by_one(make: Make, rank: int) -> dict[str, Any]:
    """One rank's storage has no state at all."""
    return outcome(make("kv+state"), 2, {"kv": [4, 8], "state": [] if rank else [8]})


def room_of_one_rank(make: Make, rank: int) -> dict[str, Any]:
    """One rank has room for three pages of KV, and the other one for four; storage is asked for all at once."""
    stored = {"kv": [4, 8, 12, 16], "swa": [4, 8, 12, 16]}
    cache = make("kv+swa")
    cache.batch(4)
    return outcome(cache, 4, stored, taken=13 if rank else 0)


def window_room_of_one_rank(make: Make, rank: int) -> dict[str, Any]:
    """One rank has room for one page of the window, and the other one for two: whether it takes memory to read into."""
    cache = make("kv+swa")
    if rank:
        assert cache.component_alloc({"swa": cache.component_available()["swa"] - 1}) is not None
    pages = [4, 8, 12, 16]
    return {"takes": cache.takes(key_of([1, 2, 3, 4]), {"kv": pages, "swa": pages})}


def clock_of_one(make: Make, rank: int) -> dict[str, Any]:
    """One page is read of four, and the clock of one rank says that it took too long, then that of the other too."""
    cache = make("kv+swa")
    cache.cache.prefetch_stop_policy = "timeout"
    key, free, pages = key_of([1, 2, 3, 4]), cache.component_available(), [4, 8, 12, 16]
    one = cache.begin(key, {"kv": pages, "swa": pages})
    fetch = cache.backend.fetch
    fetch.came, fetch.final = {"kv": {4}}, False
    cache.read()
    polls: list[bool] = []
    for seconds in (0, 100 if rank else 0, 100):
        steps.Time.seconds = seconds
        if not any(polls):
            polls.append(bool(cache.cache.check_prefetch_progress(one.handle)))
    fetch.final = True
    cache.read()
    cache.look()
    return {"polls": polls, **left(cache, free), "hit": cache.component_match(key)[0]}


SCENES: dict[str, Callable[[Make, int], dict[str, Any]]] = {
    scene.__name__: scene
    for scene in (
        window_of_one_rank,
        states_that_differ,
        window_that_comes_to_one,
        state_that_comes_to_one,
        kv_that_comes_to_one,
        unsaid_by_one,
        room_of_one_rank,
        window_room_of_one_rank,
        clock_of_one,
    )
}


SLIPS = ("hits", "acks", "ends")
"""What each rank keeps as its own storage says, as it came to it, or as its clock says, though it takes part.

Ranks that part in that way don't agree on the number of their collectives either, so one of them may end by an error.
"""


def rank_of(release: str, scene: str, slip: str, rank: int, meeting: str) -> dict[str, Any]:
    """This process is one of the ranks."""
    import torch.distributed as dist

    module: Any = importlib.import_module(RELEASES[release])
    load = install(module.PLAN)
    limit = timedelta(seconds=SLIPPED if slip else LIMIT)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=RANKS, timeout=limit)
    load("sglang.srt.distributed.parallel_state").create_custom_parallel_group = lambda group_ranks, backend: (
        dist.new_group(group_ranks, backend=backend, timeout=limit)
    )
    module.Rank.group = dist.new_group(list(range(RANKS)), backend="gloo", timeout=limit)
    module.planted(slip)

    def make(layout: str) -> Any:
        widest = layout == "widest"
        return module.Rank(Config(page_size=SIZE, pages=16, components=module.WIDEST if widest else layout))

    said = SCENES[scene](make, rank)
    dist.barrier()
    dist.destroy_process_group()
    return said


def ranks_of(release: str, scene: str, slip: str = "") -> list[dict[str, Any]]:
    """Start the ranks, and collect what they say; of one that didn't get to its end, how it ended."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tests.conformance.support.sglang_component_ranks", release, scene, slip]
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
    release, scene, slip, *own = [*sys.argv[1:4], *([""] * (4 - len(sys.argv))), *sys.argv[4:]]
    answer = rank_of(release, scene, slip, int(own[0]), own[1]) if own else ranks_of(release, scene, slip)
    print(json.dumps(answer))
