"""The program of one rank: a cache whose vectors are reduced over a real group of gloo.

Started with the number of its rank, of all ranks, and a file by which the processes find each other.  It prints what it
has seen, as JSON: what a scheduler was answered, step by step; then, once the last rank has ended its process in the
middle of a step, what the others were told and whether a page was lost or freed twice.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable
from datetime import timedelta

from kvlitmus.optimized.agreement import Vector
from kvlitmus.optimized.ranks import Pipeline, RankedCache
from tests.optimized.support.rank_world import CALLS, HOST, PAGES, answer_of, go_on, looks, rank_of

STEPS, GIVES_UP = 120, 30.0


def start(many: int, number: int, store: str) -> Callable[[Vector], Callable[[], Vector]]:
    """Join the group; what begins to reduce a vector."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    limit = timedelta(seconds=GIVES_UP)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=number, world_size=many, timeout=limit)

    def begin(vector: Vector) -> Callable[[], Vector]:
        work = dist.all_reduce(torch.from_numpy(vector), op=dist.ReduceOp.MIN, async_op=True)

        def least() -> Vector:
            work.wait()
            return vector

        return least

    return begin


def step(cache: RankedCache, pipeline: Pipeline, calls: random.Random, own: random.Random, at: int) -> object:
    """One step of a scheduler; copies and storage of each rank go on at a speed of its own."""
    for work in cache.jobs():
        if not work.landed and own.random() < 0.2 + 0.3 * cache.rank:
            cache.advance(work.id, own.choice([1, 2, None]))
    pipeline.step()
    key = [calls.randrange(3) for _ in range(calls.randrange(1, 7))]
    what, pick = calls.choice(CALLS), calls.randrange(1 << 30)
    return what, answer_of(cache, what, key, at, pick)


def main() -> None:
    """Play the steps, lose a rank, say what came of it."""
    number, many = int(sys.argv[1]), int(sys.argv[2])
    begin = start(many, number, sys.argv[3])
    cache = rank_of(number, many, pages=PAGES - 4 * number, host=HOST - number)
    pipeline, calls, own = Pipeline(cache, begin), random.Random(7), random.Random(number)
    said = [step(cache, pipeline, calls, own, at) for at in range(STEPS)]
    seen = looks(cache)
    if number == many - 1:
        print(json.dumps([said, seen]), flush=True)
        os._exit(0)
    go_on(cache)
    told = ""
    try:
        for _ in range(3):
            pipeline.step()
    except RuntimeError as error:
        told = type(error).__name__
    looks(cache)
    for rid in list(cache.fetches.ongoing):
        cache.abandon(rid)
    cache.reset(abort=True)
    looks(cache)
    print(json.dumps([said, seen, told, len(cache.jobs()), cache.available()]), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
