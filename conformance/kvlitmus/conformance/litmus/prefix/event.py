"""Litmus tests on events."""

from __future__ import annotations

from kvlitmus.conformance.checker.calls.prefix import pool, request, tree
from kvlitmus.conformance.checker.calls.prefix import tier as tiers
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.litmus.keys import prompt
from kvlitmus.conformance.litmus.prefix.scenes import READS, TIERS, backed, brought, emptied, letters, stored
from kvlitmus.conformance.litmus.registry import litmus

FLAT = ("EVENT-01", "EVENT-02", "EVENT-08", "EVENT-09", "EVENT-10")
TOLD = ("EVENT-04", "EVENT-05", "EVENT-06", "EVENT-07")


@litmus(rules=(*FLAT, *TOLD), needs=("events", "inspect", "requests", "tree", "evict"))
def events_follow_what_is_cached(checker: Checker) -> None:
    """Prompts that share pages, in two namespaces, come, go in part and come again; events tell each page."""
    keys = [prompt(checker, "abc"), prompt(checker, "abd"), prompt(checker, "abc", namespace="tenant-a")]
    for rid, key in enumerate(keys):
        if request.begin(checker, rid, key):
            request.end(checker, rid, keep=True)
    tree.evict(checker, checker.size)
    tree.evict(checker, 3 * checker.size)
    if request.begin(checker, 9, keys[0]):
        request.publish(checker, 9, chunked=True)
        request.end(checker, 9, keep=True)
    tree.evict(checker, checker.capacity)


@litmus(rules=FLAT, needs=("events", "inspect", "requests", "reset"))
def events_tell_of_a_reset(checker: Checker) -> None:
    """What was cached before a reset is gone for those who listen as well; what comes after it is told anew."""
    for rid in (1, 2):
        if request.begin(checker, rid, prompt(checker, "ab")):
            request.end(checker, rid, keep=True)
        pool.reset(checker)


@litmus(rules=("EVENT-01", "EVENT-02", "EVENT-03", *TOLD), needs=(*TIERS, "events"))
def events_follow_a_page_through_the_tiers(checker: Checker) -> None:
    """Pages are inserted, backed up, demoted, loaded back and dropped; after each the events tell where they are."""
    key = letters(checker, 3)
    backed(checker, key)
    tiers.settle(checker)
    tree.evict(checker, 2 * checker.size)
    tiers.settle(checker)
    tiers.load_back(checker, key)
    tiers.settle(checker)
    emptied(checker)
    tiers.settle(checker)


@litmus(rules=("EVENT-03",), needs=(*READS, "events"))
def events_tell_what_a_prefetch_brought(checker: Checker) -> None:
    """What a prefetch brings is told, and told again when it is dropped."""
    key = letters(checker, 4)
    stored(checker, key)
    brought(checker, 1, key)
    tiers.settle(checker)
    emptied(checker)
    tiers.settle(checker)
