"""A recorded workload: what a request costs, and whether the hits are the reference's.

The tokens of block ``id`` are ``512 id … 512 id + 511``; of each prompt the whole pages of 64 take part.
A request is only served
once a pass, so what is counted is the thread's CPU time: on a busy machine the clock on the wall would count
other processes, too.

What has to be hit is found out by the specimen, the suite's own cache, which is step for step what the
reference is: with one unit for each page of 64 tokens its pages of one unit are these pages.
"""

from __future__ import annotations

import gc
import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.control_rows import PAGE, Peers
from benchmarks.control_timing import quiet
from benchmarks.control_tokens import Tokens
from benchmarks.replay_trace.mooncake import BLOCK, Request, load_trace
from benchmarks.replay_trace.replay import Replay, build

CAPACITIES = (3_000_000, 50_000_000)
PARTS = ("match", "lock", "evict", "insert", "unlock", "rest")
WARM = 10
COLLECT = 1_000
"""Requests between two runs of the garbage collector, outside of the clock."""


def requests(path: str, limit: int | None) -> Sequence[Request]:
    """The trace, or its first requests; raises ``TraceError``."""
    return load_trace(path).requests[:limit]


def tokens_of(request: Request) -> Tokens:
    """The tokens of a request's whole pages."""
    blocks = np.array(request.blocks, dtype=np.int64)
    return (blocks[:, None] * BLOCK + np.arange(BLOCK)).ravel()[: request.tokens // PAGE * PAGE]


def expected(all_requests: Sequence[Request], capacity: int) -> int:
    """The hit tokens of the suite's own cache."""
    from kvlitmus.conformance.specimen.cache import target

    pages = capacity // PAGE
    play = Replay(build(target, pages), target.profile, pages, "all-leaf")
    with quiet():  # it makes millions of small tuples, none of them garbage
        for one in all_requests:
            play.play(in_pages(one))
    return play.hit_blocks * PAGE


def in_pages(one: Request) -> Request:
    """A request with one unit for each whole page."""
    each = BLOCK // PAGE
    units = [block * each + at for block in one.blocks for at in range(each)][: one.tokens // PAGE]
    return Request(one.line, one.timestamp, len(units) * BLOCK, tuple(units))


def replay(
    peers: Peers, all_requests: Sequence[Request], capacity: int, passes: int, tell: Callable[[str], None]
) -> dict[str, Any]:
    """Send the trace through fresh caches, one cache after the other, ``passes`` times; the order changes each time."""
    for cache in peers.make(PAGE, WARM * max(len(one.blocks) for one in all_requests) * BLOCK):
        for request in all_requests[:WARM]:  # whatever is compiled or loaded at its first use
            cache.serve(cache.native(tokens_of(request)))
    times: dict[str, list[Any]] = {}
    hits: dict[str, int] = {}
    makers = peers.makers(PAGE, capacity)
    for turn in range(passes):
        shift = turn % len(makers)
        for make in makers[shift:] + makers[:shift]:
            cache = make()
            tell(f"{capacity:,} tokens, pass {turn + 1} of {passes}, {cache.name}")
            known, spent = replay_one(cache, all_requests)
            assert hits.setdefault(cache.name, known) == known, "two passes, two figures"
            times.setdefault(cache.name, []).append(spent)
            del cache
            gc.collect()
    return {name: {"hit_tokens": hits[name], **summary(seen)} for name, seen in times.items()}


def replay_one(cache: Any, all_requests: Sequence[Request]) -> tuple[int, Any]:
    """Send the trace through one cache: the tokens found, and the nanoseconds of each request's parts."""
    found, seen = 0, np.zeros((len(all_requests), len(PARTS)), dtype=np.int64)
    with quiet():
        for number, request in enumerate(all_requests):
            if number % COLLECT == COLLECT - 1:
                gc.collect(1)
            known, seen[number] = cache.serve(cache.native(tokens_of(request)))
            found += known
    return found, seen


def clock_cost() -> int:
    """What reading the clock costs, in nanoseconds: each part of a request holds one reading."""
    clock = time.thread_time_ns
    readings = [clock() for _ in range(2_000)]
    return int(statistics.median(after - before for before, after in itertools.pairwise(readings)))


def summary(passes: list[Any]) -> dict[str, Any]:
    """Microseconds per request: the least of the passes for each request, its mean and quantiles, its parts."""
    stacked = np.maximum(np.stack(passes) - clock_cost(), 0)
    totals = stacked[:, :, :5].sum(axis=2)  # without what isn't one of the five: allocating, listing slots
    least = totals.min(axis=0) / 1e3
    best = stacked[totals.argmin(axis=0), np.arange(stacked.shape[1])] / 1e3
    return {
        "mean": round(float(least.mean()), 3),
        "p50": round(float(np.quantile(least, 0.5)), 3),
        "p99": round(float(np.quantile(least, 0.99)), 3),
        "most": round(float(least.max()), 3),
        "parts": dict(zip(PARTS, [round(float(value), 3) for value in best.mean(axis=0)], strict=True)),
        "passes": [round(float(one.mean()) / 1e3, 3) for one in totals],
        "requests": len(least),
    }
