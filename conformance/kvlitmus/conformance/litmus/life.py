"""Litmus tests on the life of the whole: reset, storage that comes and goes."""

from __future__ import annotations

from kvlitmus.conformance.checker.calls import fetch, memory, pool, request, tiers, tree
from kvlitmus.conformance.checker.checker import Judge
from kvlitmus.conformance.litmus.registry import litmus
from kvlitmus.conformance.litmus.scenes import (
    FAILING,
    READS,
    STORAGE,
    TIERS,
    backed,
    brought,
    computed,
    least_pages,
    letters,
    step,
    storage,
    stored,
)
from kvlitmus.conformance.ports.tiers import FAILED, Outcome

PLACES = 9
"""At so many places memory may run out in a call."""

STAGES = ("asked", "queried", "reading", "read")


def reach(judge: Judge, stage: str, rid: int) -> None:
    """A prefetch gets as far as this stage."""
    key = letters(judge, least_pages(judge) + 2)
    fetch.prefetch(judge, rid, key)
    if stage != "asked":
        step(judge, "query", Outcome("short", least_pages(judge) + 1))
    if stage in ("reading", "read"):
        step(judge, "fetch", Outcome("part", 1) if stage == "reading" else Outcome())


@litmus(rules=("LIFE-01", "LIFE-02", "TIER-01", "TIER-02"), needs=(*READS, "reset"))
def a_reset_forgets_what_is_under_way(judge: Judge) -> None:
    """A prefetch is at each of its stages when the cache is reset; nothing of it comes back afterwards."""
    stored(judge, letters(judge, least_pages(judge) + 2))
    for rid, stage in enumerate(STAGES, 1):
        reach(judge, stage, rid)
        computed(judge, letters(judge, 2, "k"))
        pool.reset(judge)
        tiers.tick(judge)
        brought(judge, 10 + rid, letters(judge, least_pages(judge) + 2))
        tiers.settle(judge)
        pool.reset(judge)
        tiers.tick(judge)


@litmus(rules=("LIFE-02", "LIFE-03", "LIFE-04", "LIFE-05", "TIER-01", "TIER-02"), needs=(*READS, "reattach"))
def a_detach_ends_what_is_under_way(judge: Judge) -> None:
    """A prefetch is at each of its stages, a put under way, when storage goes; everything comes back."""
    stored(judge, letters(judge, least_pages(judge) + 2))
    for rid, stage in enumerate(STAGES, 1):
        reach(judge, stage, rid)
        tiers.tick(judge)
        computed(judge, letters(judge, 2, "k"), uses=2)
        step(judge, "backup")
        tiers.attach(judge, on=False)
        tiers.tick(judge)
        tiers.settle(judge)
        storage(judge)
    tiers.settle(judge)


@litmus(rules=("LIFE-05", "TIER-01", "TIER-02"), needs=(*READS, "reattach"))
def a_detach_ends_what_nobody_waits_for(judge: Judge) -> None:
    """A request is aborted while its query, then its fetch, is under way; storage goes before either has ended."""
    stored(judge, letters(judge, least_pages(judge) + 2))
    for rid, stage in enumerate(("asked", "reading"), 1):
        reach(judge, stage, rid)
        fetch.abandon(judge, rid)
        tiers.attach(judge, on=False)
        tiers.settle(judge)
        storage(judge)
    tiers.settle(judge)


@litmus(rules=("LIFE-03",), needs=(*STORAGE, "reattach"))
def storage_is_attached_once_and_detached_once(judge: Judge) -> None:
    """Attaching twice and detaching twice."""
    storage(judge)
    tiers.attach(judge, on=True)
    tiers.attach(judge, on=False)
    tiers.attach(judge, on=False)
    tiers.attach(judge, on=True)
    tiers.settle(judge)


@litmus(rules=("LIFE-01", "LIFE-06", "LIFE-08", "TIER-01", "TIER-02"), needs=(*FAILING, "reset"))
def a_reset_forgets_what_has_failed(judge: Judge) -> None:
    """A load, then a backup has failed, and no tick has noted it, when the cache is reset; then all is as new."""
    key = letters(judge, max(3, -(-judge.profile.load_threshold // judge.size)))
    backed(judge, key)
    tree.evict(judge, judge.capacity)
    tiers.load_back(judge, key)
    step(judge, "load", FAILED)
    pool.reset(judge)
    computed(judge, key, uses=2)
    step(judge, "backup", FAILED)
    pool.reset(judge)
    tiers.tick(judge)
    backed(judge, key)
    tiers.settle(judge)


@litmus(rules=("LIFE-10", "POOL-12", "LOCK-04", "REQ-02"), needs=(*TIERS, "memory_faults"))
def what_finds_no_memory_changes_nothing(judge: Judge) -> None:
    """Memory runs out at each place of a request's life in turn; the same call again succeeds."""
    for after in range(PLACES):
        key = letters(judge, 3, "a" if after % 2 else "d")
        begun = not memory.starved(judge, after, key, lambda key=key: request.begin(judge, 1, key))  # type: ignore[misc]
        if begun or request.begin(judge, 1, key):
            memory.starved(judge, after, key, lambda: request.publish(judge, 1, chunked=False))
            if memory.starved(judge, after, key, lambda: request.end(judge, 1, keep=True)):
                request.end(judge, 1, keep=True)
        tiers.settle(judge)
        tree.evict(judge, judge.capacity)
