"""Litmus tests on the life of the whole: reset, storage that comes and goes."""

from __future__ import annotations

from kvlitmus.conformance.checker.calls.prefix import fetch, memory, pool, request, tree
from kvlitmus.conformance.checker.calls.prefix import tier as tiers
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.litmus.prefix.scenes import (
    FAILING,
    READS,
    STORAGE,
    TIERS,
    backed,
    brought,
    computed,
    emptied,
    least_pages,
    letters,
    step,
    storage,
    stored,
    too_many,
)
from kvlitmus.conformance.litmus.registry import litmus
from kvlitmus.spec.interface.tiers import FAILED, Outcome

PLACES = 9
"""At so many places memory may run out in a call."""

STAGES = ("asked", "queried", "reading", "read")


def reach(checker: Checker, stage: str, rid: int) -> None:
    """A prefetch gets as far as this stage."""
    key = letters(checker, least_pages(checker) + 2)
    fetch.prefetch(checker, rid, key)
    if stage != "asked":
        step(checker, "query", Outcome("short", least_pages(checker) + 1))
    if stage in ("reading", "read"):
        step(checker, "fetch", Outcome("part", 1) if stage == "reading" else Outcome())


@litmus(rules=("LIFE-01", "LIFE-02", "POOL-12"), needs=(*READS, "reset"))
def a_reset_forgets_what_is_under_way(checker: Checker) -> None:
    """A prefetch is at each of its stages when the cache is reset; nothing of it comes back afterwards."""
    stored(checker, letters(checker, least_pages(checker) + 2))
    for rid, stage in enumerate(STAGES, 1):
        reach(checker, stage, rid)
        computed(checker, letters(checker, 2, "k"))
        pool.reset(checker)
        tiers.tick(checker)
        brought(checker, 10 + rid, letters(checker, least_pages(checker) + 2))
        tiers.settle(checker)
        pool.reset(checker)
        tiers.tick(checker)


@litmus(rules=("LIFE-01", "POOL-12"), needs=(*TIERS, "locks", "reset"))
def a_reset_forgets_receipts(checker: Checker) -> None:
    """A key on both tiers is locked when the cache is reset, and comes to both again: all of it can go."""
    key = letters(checker, 2)
    for receipt in (1, 2):
        backed(checker, key)
        hit = tree.match(checker, key)
        if receipt == 1:
            tree.lock(checker, hit, key, receipt)
            pool.reset(checker)
    emptied(checker)
    tree.match(checker, key)


@litmus(rules=("LIFE-15", "FETCH-16"), needs=(*READS, "reset"))
def a_reset_forgets_what_a_prefetch_had_added(checker: Checker) -> None:
    """A prefetch has brought pages, and the cache is reset before its request asks how many; then it asks."""
    key = letters(checker, least_pages(checker) + 2)
    stored(checker, key)
    fetch.prefetch(checker, 1, key)
    step(checker, "query")
    tiers.tick(checker)
    step(checker, "fetch")
    tiers.tick(checker)
    fetch.poll(checker, 1, asks=False)
    pool.reset(checker)
    fetch.loaded(checker, 1)
    tiers.settle(checker)


@litmus(rules=("LIFE-02", "LIFE-03", "LIFE-04", "LIFE-05", "LIFE-09", "LIFE-16", "POOL-12"), needs=(*READS, "reattach"))
def a_detach_ends_what_is_under_way(checker: Checker) -> None:
    """A prefetch is at each of its stages, a put under way, when storage goes; everything comes back."""
    stored(checker, letters(checker, least_pages(checker) + 2))
    for rid, stage in enumerate(STAGES, 1):
        reach(checker, stage, rid)
        tiers.tick(checker)
        computed(checker, letters(checker, 2, "k"), uses=2)
        step(checker, "backup")
        tiers.attach(checker, on=False)
        tiers.tick(checker)
        tiers.settle(checker)
        storage(checker)
    tiers.settle(checker)


@litmus(rules=("LIFE-05", "LIFE-16", "POOL-12"), needs=(*READS, "reattach"))
def a_detach_ends_what_nobody_waits_for(checker: Checker) -> None:
    """A request is aborted while its query, then its fetch, is under way; storage goes before either has ended."""
    stored(checker, letters(checker, least_pages(checker) + 2))
    for rid, stage in enumerate(("asked", "reading"), 1):
        reach(checker, stage, rid)
        fetch.abandon(checker, rid)
        tiers.attach(checker, on=False)
        tiers.settle(checker)
        storage(checker)
    tiers.settle(checker)


@litmus(rules=("LIFE-17",), needs=(*STORAGE, "reattach"))
def storage_that_is_gone_hears_nothing(checker: Checker) -> None:
    """A prompt is put while storage is there, and another one computed and backed up when it is gone."""
    storage(checker)
    backed(checker, letters(checker, 2))
    tiers.settle(checker)
    tiers.attach(checker, on=False)
    backed(checker, letters(checker, 2, "d"))
    tree.match(checker, letters(checker, 2))
    tree.evict(checker, checker.capacity)
    tiers.settle(checker)


@litmus(rules=("LIFE-03",), needs=(*STORAGE, "reattach"))
def storage_is_attached_once_and_detached_once(checker: Checker) -> None:
    """Attaching twice and detaching twice."""
    storage(checker)
    tiers.attach(checker, on=True)
    tiers.attach(checker, on=False)
    tiers.attach(checker, on=False)
    tiers.attach(checker, on=True)
    tiers.settle(checker)


@litmus(rules=("LIFE-01", "LIFE-06", "LIFE-08", "POOL-12"), needs=(*FAILING, "reset"))
def a_reset_forgets_what_has_failed(checker: Checker) -> None:
    """A load, then a backup has failed, and no tick has noted it, when the cache is reset; then all is as new."""
    key = letters(checker, max(3, min(-(-checker.profile.load_threshold // checker.size), too_many(checker))))
    backed(checker, key)
    tree.evict(checker, checker.capacity)
    tiers.load_back(checker, key)
    step(checker, "load", FAILED)
    pool.reset(checker)
    computed(checker, key, uses=2)
    step(checker, "backup", FAILED)
    pool.reset(checker)
    tiers.tick(checker)
    backed(checker, key)
    tiers.settle(checker)


@litmus(rules=("LOAD-04", "POOL-12", "LOCK-04", "REQ-02"), needs=(*TIERS, "memory_faults"))
def what_finds_no_memory_changes_nothing(checker: Checker) -> None:
    """Memory runs out at each place of a request's life in turn; the same call again succeeds."""
    for after in range(PLACES):
        key = letters(checker, 3, "a" if after % 2 else "d")
        memory.starved(checker, after, key, lambda key=key: request.begin(checker, 1, key))  # type: ignore[misc]
        if 1 in checker.requests or request.begin(checker, 1, key):
            memory.starved(checker, after, key, lambda: request.publish(checker, 1, chunked=False))
            if memory.starved(checker, after, key, lambda: request.end(checker, 1, keep=True)):
                request.end(checker, 1, keep=True)
        tiers.settle(checker)
        tree.evict(checker, checker.capacity)
