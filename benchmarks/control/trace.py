"""A recorded workload: what a request costs, and whether the hits are the reference's.

The tokens of block ``id`` are ``512 id … 512 id + 511``; of each prompt the whole pages of 64 take part.
One clock runs around the whole request: finding what is cached, locking it, evicting what is missing, allocating,
listing slots, caching and unlocking.  A request is only served once a pass, so what is counted is the thread's CPU
time: on a busy machine the clock on the wall would count other processes, too.

With tiers a request is one step of a scheduler: what its copies cost to begin is of the request, the copies themselves
are made outside of the clock, and the tick that takes note of them is counted in again.

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
from numpy.typing import NDArray

from benchmarks.control.rows import PAGE, Peers
from benchmarks.control.tokens import Tokens
from benchmarks.timing import quiet
from benchmarks.trace.mooncake import BLOCK, Request, load_trace
from benchmarks.trace.replay import Replay, build

Times = NDArray[np.int64]

CAPACITIES = (3_000_000, 50_000_000)
WITH_TIERS = (1_000_000, 4_000_000)
"""Tokens on the device, and on the host."""
WARM = 30
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
    for make in peers.servers(PAGE, warm_capacity(all_requests)):
        warm(make(), all_requests)
    return replayed(peers.servers(PAGE, capacity), all_requests, f"{capacity:,} tokens", passes, tell)


def replay_with_tiers(
    peers: Peers, all_requests: Sequence[Request], passes: int, tell: Callable[[str], None]
) -> dict[str, Any]:
    """The same through hierarchies, and through caches as large as their device tier beside them."""
    device, host = WITH_TIERS
    for make in peers.servers_with_tiers(PAGE, warm_capacity(all_requests), 4 * warm_capacity(all_requests)):
        warm(make(), all_requests)
    makers = peers.servers_with_tiers(PAGE, device, host)
    return replayed(makers, all_requests, f"{device:,} and {host:,} tokens", passes, tell)


def replayed(
    makers: Sequence[Callable[[], Any]],
    all_requests: Sequence[Request],
    room: str,
    passes: int,
    tell: Callable[[str], None],
) -> dict[str, Any]:
    """What each of these caches takes for a request, and how many tokens it finds; all have this much room."""
    times: dict[str, list[Times]] = {}
    hits: dict[str, int] = {}
    for turn in range(passes):
        shift = turn % len(makers)
        for make in (*makers[shift:], *makers[:shift]):
            cache = make()
            tell(f"{room}, pass {turn + 1} of {passes}, {cache.name}")
            known, spent = replay_one(cache, all_requests)
            assert hits.setdefault(cache.name, known) == known, "two passes, two figures"
            times.setdefault(cache.name, []).append(spent)
            del cache
            gc.collect()
    return {name: {"hit_tokens": hits[name], **summary(seen)} for name, seen in times.items()}


def warm_capacity(all_requests: Sequence[Request]) -> int:
    """So few tokens that the first requests evict one another."""
    return 2 * max(len(one.blocks) for one in all_requests) * BLOCK


def warm(cache: Any, all_requests: Sequence[Request]) -> None:
    """Have compiled or loaded whatever is so at its first use."""
    for request in all_requests[:WARM]:
        cache.serve(cache.native(tokens_of(request)))
        cache.settle()


def replay_one(cache: Any, all_requests: Sequence[Request]) -> tuple[int, Times]:
    """Send the trace through one cache: the tokens found, and the nanoseconds of each request."""
    found, seen, clock = 0, np.zeros(len(all_requests), dtype=np.int64), time.thread_time_ns
    with quiet():
        for number, request in enumerate(all_requests):
            if number % COLLECT == COLLECT - 1:
                gc.collect(1)
            tokens = cache.native(tokens_of(request))
            began = clock()
            known = cache.serve(tokens)
            seen[number] = clock() - began
            found += known
            if cache.tiers:
                cache.land()
                began = clock()
                cache.tick()
                seen[number] += clock() - began
    return found, seen


def clock_cost() -> int:
    """What reading the clock costs, in nanoseconds: the time of each request holds one reading."""
    clock = time.thread_time_ns
    readings = [clock() for _ in range(2_000)]
    return int(statistics.median(after - before for before, after in itertools.pairwise(readings)))


def summary(passes: list[Times]) -> dict[str, Any]:
    """Microseconds per request: the least of the passes for each request, its mean and quantiles."""
    stacked = np.maximum(np.stack(passes) - clock_cost(), 0) / 1e3
    least = stacked.min(axis=0)
    return {
        "mean": round(float(least.mean()), 3),
        "p50": round(float(np.quantile(least, 0.5)), 3),
        "p99": round(float(np.quantile(least, 0.99)), 3),
        "most": round(float(least.max()), 3),
        "passes": [round(float(one.mean()), 3) for one in stacked],
        "requests": len(least),
    }
