"""The rows of the table: what is built, what is called, which answers are checked before time is taken.

A row has variants (page sizes, lengths, trees); each variant has one series of times for each contender.
"""

from __future__ import annotations

import ctypes
import importlib.util
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from benchmarks.control.goals import TIERS
from benchmarks.control.ours import (
    OurRequests,
    OurRequestsWithTiers,
    Ours,
    OursOverTensors,
    OursWithTiers,
    Pool,
    cores,
    native,
)
from benchmarks.control.tokens import VOCABULARY, leaves, prompt
from benchmarks.timing import ATTEMPTS, Action, Call, Stat, measure, quiet

PAGE = 64
K = 1024
SMALL_POOL = 32_000
"""Slots of the small pool: what the peers' ``free`` costs grows with the pool."""

PEERS = ("rust", "python", "radix")
"""SGLang 0.5.23's ``UnifiedRadixCache`` with its two cores; 0.5.13.post1's ``RadixCache``."""


@dataclass(frozen=True)
class Peers:
    """The release that this process can measure beside the optimized cache; ``None`` without one."""

    release: str | None

    def makers(self, page_size: int, tokens: int) -> list[Callable[[], Any]]:
        """What makes the optimized cache, over each of its cores, and the release's, with room for so many tokens."""
        found: list[Callable[[], Any]] = [partial(Ours, page_size, tokens, core=core) for core in cores()]
        if self.release is None:
            return found
        from benchmarks.control.sglang import Radix, Unified

        if self.release == "0.5.23":
            return [*found, *(partial(Unified, core, page_size, tokens) for core in ("rust", "python"))]
        return [*found, partial(Radix, page_size, tokens)]

    def servers(self, page_size: int, tokens: int) -> list[Callable[[], Any]]:
        """The same for whole requests, which the optimized cache also serves by two calls of its own, and in SGLang."""
        found: list[Callable[[], Any]] = [partial(OurRequests, page_size, tokens, core=core) for core in cores()]
        found += self.makers(page_size, tokens)
        if self.release == "0.5.23":
            from benchmarks.control.sglang import Unified

            found.append(partial(Unified, "kvlitmus", page_size, tokens))
        return found

    def servers_with_tiers(self, page_size: int, tokens: int, host_tokens: int) -> list[Callable[[], Any]]:
        """The same in hierarchies, each beside a cache that has no host."""
        two_calls: list[Callable[[], Any]] = [partial(OurRequests, page_size, tokens)]
        two_calls.append(partial(OurRequestsWithTiers, page_size, tokens, host_tokens))
        return [*two_calls, *self.hierarchies(page_size, tokens, host_tokens)]

    def make(self, page_size: int, tokens: int) -> list[Any]:
        """All of these caches."""
        return [make() for make in self.makers(page_size, tokens)]

    def hierarchies(self, page_size: int, tokens: int, host_tokens: int = 0) -> list[Callable[[], Any]]:
        """What makes ours with a host tier and SGLang's, compiled both, and each without one beside it."""
        found: list[Callable[[], Any]] = [partial(Ours, page_size, tokens)]
        found.append(partial(OursWithTiers, page_size, tokens, host_tokens))
        if importlib.util.find_spec("torch") is not None:
            found.append(partial(OursOverTensors, page_size, tokens, host_tokens))
        if self.release == "0.5.23":
            from benchmarks.control.sglang import Tiered, Unified

            found.append(partial(Unified, "rust", page_size, tokens))
            found.append(partial(Tiered, "rust", page_size, tokens, host_tokens))
        return found


@dataclass(frozen=True)
class Scale:
    """How much is done: rounds, and the sizes that ``--quick`` makes smaller."""

    rounds: int = 60
    slow_rounds: int = 20
    chain: int = 128 * K
    leaves: int = 50_000
    few_leaves: int = 1_000
    times: int = 3
    turnover: int = 5_000
    pool: int = 1_000_000
    turns: tuple[int, ...] = (10, 50, 200, 500)
    seeds: int = 3

    @property
    def grown(self) -> int:
        """How many calls at most need room of their own in one variant."""
        return ATTEMPTS * self.slow_rounds * self.times


QUICK = Scale(
    rounds=5,
    slow_rounds=3,
    chain=8 * K,
    leaves=2_000,
    few_leaves=200,
    times=1,
    turnover=200,
    pool=100_000,
    turns=(3, 10),
    seeds=1,
)


@dataclass
class Row:
    """What was measured for one row: variant → contender → times; and whatever else belongs to it."""

    id: str
    cells: dict[str, dict[str, Stat]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    def add(self, variant: str, actions: Mapping[str, Action], rounds: int) -> None:
        """Measure a variant."""
        self.cells[variant] = measure(actions, rounds=rounds, judged=("ours", *PEERS, *TIERS))

    def add_worst(self, variant: str, actions: Mapping[str, Action], rounds: int) -> None:
        """Measure a variant once more with another seed; what stays is that of which ours is worst beside the peer."""
        before = self.cells.pop(variant, None)
        self.add(variant, actions, rounds)
        if before is not None and _ahead(before) < _ahead(self.cells[variant]):
            self.cells[variant] = before


def _ahead(series: Mapping[str, Stat]) -> float:
    """How many times as long as ours the slowest takes."""
    return max(one.least for one in series.values()) / series["ours"].least


def compare(tokens: int) -> Call:
    """The floor of a match: the C library's comparison of two equal buffers of int32."""
    x, y = native(prompt(tokens)), native(prompt(tokens))
    memcmp = ctypes.CDLL(None).memcmp
    memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    at, other, size = ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data), x.nbytes

    def call() -> int:
        return int(memcmp(at, other, size)) | (x is y)  # both stay alive with the call

    assert call() == 0
    return call


def match_one(peers: Peers, scale: Scale) -> Row:
    """A prompt that was cached in one insert."""
    row = Row("match-32k")
    caches = peers.make(PAGE, 64 * K)
    tokens = prompt(32 * K)
    for cache in caches:
        cache.fill(tokens)
        assert cache.matched(tokens) == len(tokens)
    actions = {cache.name: Action(cache.match(tokens)) for cache in caches}
    actions["ours, no pages listed"] = Action(caches[0].match_place(tokens))
    row.add("32k, one node", {**actions, "floor": Action(compare(len(tokens)))}, scale.rounds)
    row.add("32k, one node, slots listed", {one.name: Action(one.match_slots(tokens)) for one in caches}, scale.rounds)
    return row


def chain(peers: Peers, scale: Scale) -> list[Row]:
    """A prompt that grew by 64 tokens a turn, and the same length cached at once."""
    tokens = prompt(scale.chain)
    caches = peers.make(PAGE, 2 * scale.chain + K)
    matching, kept, locking = Row("match-chain"), Row("match-kept"), Row("lock")
    other = prompt(scale.chain, 3)
    for cache in caches:
        cache.fill(tokens, PAGE)
        cache.fill(other)
        assert cache.matched(tokens) == cache.matched(other) == len(tokens)
    name = f"{scale.chain // K}k"
    rounds = scale.slow_rounds
    grown = {one.name: Action(one.match(tokens)) for one in caches}
    at_once = {one.name: Action(one.match(other)) for one in caches}
    bare = {"ours, no pages listed": Action(caches[0].match_place(tokens))}
    matching.add(f"{name}, nodes of {PAGE}", {**grown, **bare, "floor": Action(compare(len(tokens)))}, rounds)
    matching.add(f"{name}, one node", at_once, rounds)
    # What the goal compares is taken in one turn: the same cache with both prompts.
    matching.add("ours, both", {"chain": Action(grown["ours"].run), "one": Action(at_once["ours"].run)}, rounds)
    locking.add(f"{name}, nodes of {PAGE}", {one.name: Action(one.lock_unlock(tokens)) for one in caches}, rounds)
    locking.add(f"{name}, one node", {one.name: Action(one.lock_unlock(other)) for one in caches}, rounds)
    ours = caches[0]
    for length in (4 * K, 32 * K, 128 * K):
        if length <= scale.chain:
            behind = np.concatenate([tokens[:length], prompt(512, 4)])
            calls = {"hit": ours.resume(tokens[:length], length - PAGE), "miss": ours.resume(behind, length)}
            wanted = {"hit": 1, "miss": 0}
            for kind, call in calls.items():
                assert call().resident == length // PAGE, (kind, call(), wanted)
            variants = {f"ours, {kind}": Action(call) for kind, call in calls.items()}
            kept.add(f"{length // K}k kept", variants, scale.rounds)
    return [matching, kept, locking]


def evict(peers: Peers, scale: Scale) -> Row:
    """One page from a tree with many leaves of one page each; the victim is cached again after each call."""
    row = Row("evict")
    for count in (scale.few_leaves, scale.leaves):
        caches = peers.make(PAGE, count * PAGE + 16 * K)
        prompts = list(leaves(count, K, PAGE))
        for cache in caches:
            cache.fill(prompts[0][:K])
            cache.fill_leaves(prompts, K)
        actions = {cache.name: _evicting(cache, prompts, scale.times) for cache in caches}
        row.add(f"{count:,} leaves", actions, scale.slow_rounds)
        name = f"{count:,} leaves, µs to evict a page and cache another, mean of {scale.turnover:,}"
        row.facts[name] = _turnover(caches[0], scale.turnover)
    return row


def _turnover(cache: Ours, turns: int) -> float:
    """What evicting a page and caching another costs on average: nothing is put off until nobody looks."""
    call = cache.evict(PAGE)
    head = next(iter(leaves(1, K, PAGE)))[:K]
    new = [np.concatenate([head, np.full(PAGE, VOCABULARY + turn)]) for turn in range(turns)]
    with quiet():
        started = time.thread_time()
        for tokens in new:
            call()
            cache.add(tokens)
        return round((time.thread_time() - started) / turns * 1e6, 2)


def _evicting(cache: Any, prompts: list[Any], times: int) -> Action:
    """Evict one leaf; it must be the oldest one, which is then cached again and is the youngest."""
    call = cache.evict(PAGE)
    answers: list[Any] = []
    turn = 0

    def run() -> None:
        answers.append(call())

    def after() -> None:
        nonlocal turn
        victim = prompts[turn % len(prompts)]
        assert cache.evicted(answers.pop()) == PAGE
        assert turn >= 8 or cache.matched(victim) == len(victim) - PAGE  # matching ages nothing but the shared page
        cache.add(victim)
        turn += 1

    return Action(run, after=after, times=times)


def free(peers: Peers, scale: Scale) -> Row:
    """64 tokens into a pool that is otherwise free, a large one and a small one; host time."""
    row = Row("free")
    for page in (1, 16):
        for pool, size in (("large", scale.pool), ("small", SMALL_POOL)):
            actions = {"ours": Pool(page, size).free(64)}
            if pool == "large":
                actions["ours, small pool"] = Pool(page, SMALL_POOL).free(64)
            actions["ours, one page"] = Pool(page, size).free(page)
            actions["ours, 6,400"] = Pool(page, size).free(6_400)
            if peers.release is not None:
                from benchmarks.control.sglang import Allocator

                allocator = Allocator(peers.release, page, size)
                actions["peer"] = allocator.free(64)
                if allocator.segments:
                    actions["peer, free_segment"] = allocator.free(64, segment=True)
            row.cells[f"page {page}, {pool} pool"] = measure(actions, rounds=scale.rounds, judged=("ours", "peer"))
    return row


def insert(peers: Peers, scale: Scale) -> Row:
    """4k new tokens under 4k cached ones."""
    row = Row("insert")
    caches = peers.make(PAGE, 16 * K)
    tokens = prompt(8 * K, 5)
    for cache in caches:
        cache.fill(tokens[: 4 * K])
    row.add("4k under 4k", {cache.name: cache.insert(tokens, 4 * K, scale.times) for cache in caches}, scale.rounds)
    return row


def sha(peers: Peers, scale: Scale) -> Row:
    """The SHA-256 chain of 32k tokens: the optimized cache's, hashlib page by page, and token by token."""
    del peers
    from benchmarks.control.hash import chains

    row = Row("sha")
    calls = chains(prompt(32 * K, 6), PAGE)
    answers = [call() for call in calls.values()]
    assert all(answer == answers[0] for answer in answers)
    actions = {name: Action(call) for name, call in calls.items()}
    row.cells["32k, page 64"] = measure(actions, rounds=scale.slow_rounds, judged=("ours", "hashlib"))
    return row
