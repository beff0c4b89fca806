"""Litmus tests on locks."""

from __future__ import annotations

from kvlitmus.conformance.checker.calls import tree
from kvlitmus.conformance.checker.checker import Judge
from kvlitmus.conformance.litmus.keys import prompt
from kvlitmus.conformance.litmus.registry import litmus
from kvlitmus.conformance.litmus.tree import store

LOCKS = ("pool", "tree", "locks")
COUNTED = ("LOCK-02", "LOCK-06", "LOCK-07", "POOL-14")


def take(judge: Judge, ways: str, receipt: int) -> None:
    """Match a key and lock what was found."""
    key = prompt(judge, ways)
    tree.lock(judge, tree.match(judge, key), key, receipt)


@litmus(rules=("LOCK-01", "LOCK-05"), needs=(*LOCKS, "evict", "inspect"))
def what_is_locked_survives_every_eviction(judge: Judge) -> None:
    """While a receipt is out its path stays, whatever is evicted; afterwards it can go."""
    store(judge, prompt(judge, "abc"))
    store(judge, prompt(judge, "axy"))
    take(judge, "ab", 1)
    tree.evict(judge, judge.capacity)
    tree.match(judge, prompt(judge, "abc"))
    tree.unlock(judge, 1)
    tree.evict(judge, judge.capacity)
    tree.match(judge, prompt(judge, "abc"))


@litmus(rules=("LOCK-03", "LOCK-04"), needs=(*LOCKS, "inspect"))
def a_split_keeps_both_halves_locked(judge: Judge) -> None:
    """A node that is split while it is locked stays locked in both halves, and one unlock frees both."""
    store(judge, prompt(judge, "abcd"))
    take(judge, "abcd", 1)
    store(judge, prompt(judge, "abxy"))
    tree.match(judge, prompt(judge, "a"))
    take(judge, "abc", 2)
    tree.unlock(judge, 1)
    tree.unlock(judge, 2)


@litmus(rules=("LOCK-04",), needs=(*LOCKS, "inspect"))
def a_lock_covers_what_was_matched_and_no_more(judge: Judge) -> None:
    """A lock on a partial match protects the matched pages only."""
    store(judge, prompt(judge, "abcd"))
    take(judge, "ab", 1)
    tree.unlock(judge, 1)


@litmus(rules=COUNTED, needs=(*LOCKS, "counters", "inspect"))
def counters_follow_locks(judge: Judge) -> None:
    """Overlapping locks shift units between evictable and protected, each unit once, and all come back."""
    store(judge, prompt(judge, "abc"))
    take(judge, "abc", 1)
    take(judge, "ab", 2)
    store(judge, prompt(judge, "abcde"))
    take(judge, "abcde", 3)
    for receipt in (1, 3, 2):
        tree.unlock(judge, receipt)


@litmus(rules=("LOCK-05", "LOCK-06"), needs=(*LOCKS, "counters", "inspect"))
def locking_nothing_is_harmless(judge: Judge) -> None:
    """A lock on an empty match protects nothing, and giving it back changes nothing."""
    take(judge, "a", 1)
    store(judge, prompt(judge, "a"))
    tree.unlock(judge, 1)
