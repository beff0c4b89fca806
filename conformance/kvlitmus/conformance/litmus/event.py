"""Litmus tests on events."""

from __future__ import annotations

from kvlitmus.conformance.checker.calls import pool, request, tiers, tree
from kvlitmus.conformance.checker.checker import Judge
from kvlitmus.conformance.litmus.keys import prompt
from kvlitmus.conformance.litmus.registry import litmus
from kvlitmus.conformance.litmus.scenes import READS, TIERS, backed, brought, emptied, letters, stored


@litmus(rules=("EVENT-01", "EVENT-02"), needs=("events", "inspect", "requests", "tree", "evict"))
def events_follow_what_is_cached(judge: Judge) -> None:
    """Prompts that share pages, in two namespaces, come, go in part and come again; events tell each page."""
    keys = [prompt(judge, "abc"), prompt(judge, "abd"), prompt(judge, "abc", namespace="tenant-a")]
    for rid, key in enumerate(keys):
        if request.begin(judge, rid, key):
            request.end(judge, rid, keep=True)
    tree.evict(judge, judge.size)
    tree.evict(judge, 3 * judge.size)
    if request.begin(judge, 9, keys[0]):
        request.publish(judge, 9, chunked=True)
        request.end(judge, 9, keep=True)
    tree.evict(judge, judge.capacity)


@litmus(rules=("EVENT-01", "EVENT-02"), needs=("events", "inspect", "requests", "reset"))
def events_tell_of_a_reset(judge: Judge) -> None:
    """What was cached before a reset is gone for those who listen as well; what comes after it is told anew."""
    for rid in (1, 2):
        if request.begin(judge, rid, prompt(judge, "ab")):
            request.end(judge, rid, keep=True)
        pool.reset(judge)


@litmus(rules=("EVENT-01", "EVENT-02", "EVENT-03"), needs=(*TIERS, "events"))
def events_follow_a_page_through_the_tiers(judge: Judge) -> None:
    """Pages are inserted, backed up, demoted, loaded back and dropped; after each the events tell where they are."""
    key = letters(judge, 3)
    backed(judge, key)
    tiers.settle(judge)
    tree.evict(judge, 2 * judge.size)
    tiers.settle(judge)
    tiers.load_back(judge, key)
    tiers.settle(judge)
    emptied(judge)
    tiers.settle(judge)


@litmus(rules=("EVENT-03",), needs=(*READS, "events"))
def events_tell_what_a_prefetch_brought(judge: Judge) -> None:
    """What a prefetch brings is told, and told again when it is dropped."""
    key = letters(judge, 4)
    stored(judge, key)
    brought(judge, 1, key)
    tiers.settle(judge)
    emptied(judge)
    tiers.settle(judge)
