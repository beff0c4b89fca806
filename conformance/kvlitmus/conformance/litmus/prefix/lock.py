"""Litmus tests on locks."""

from __future__ import annotations

from kvlitmus.conformance.checker.calls.prefix import pool, tree
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.litmus.keys import prompt
from kvlitmus.conformance.litmus.prefix.tree import store
from kvlitmus.conformance.litmus.registry import litmus

LOCKS = ("pool", "tree", "locks")
COUNTED = ("LOCK-02", "LOCK-06", "LOCK-07", "POOL-14")


def take(checker: Checker, ways: str, receipt: int) -> None:
    """Match a key and lock what was found."""
    key = prompt(checker, ways)
    tree.lock(checker, tree.match(checker, key), key, receipt)


@litmus(rules=("LOCK-01", "TREE-04"), needs=(*LOCKS, "evict", "inspect"))
def what_is_locked_survives_every_eviction(checker: Checker) -> None:
    """While a receipt is out its path stays, whatever is evicted; afterwards it can go."""
    store(checker, prompt(checker, "abc"))
    store(checker, prompt(checker, "axy"))
    take(checker, "ab", 1)
    tree.evict(checker, checker.capacity)
    tree.match(checker, prompt(checker, "abc"))
    tree.unlock(checker, 1)
    tree.evict(checker, checker.capacity)
    tree.match(checker, prompt(checker, "abc"))


@litmus(rules=("EVICT-01", "TREE-02"), needs=(*LOCKS, "evict", "reset"))
def a_reset_forgets_receipts(checker: Checker) -> None:
    """A key is locked when the cache is reset, and is cached again: nothing protects it, and all of it can go."""
    store(checker, prompt(checker, "abc"))
    take(checker, "abc", 1)
    pool.reset(checker)
    store(checker, prompt(checker, "abc"))
    tree.match(checker, prompt(checker, "abc"))
    tree.evict(checker, checker.capacity)
    tree.match(checker, prompt(checker, "abc"))


@litmus(rules=("LOCK-03", "LOCK-04"), needs=(*LOCKS, "inspect"))
def a_split_keeps_both_halves_locked(checker: Checker) -> None:
    """A node that is split while it is locked stays locked in both halves, and one unlock frees both."""
    store(checker, prompt(checker, "abcd"))
    take(checker, "abcd", 1)
    store(checker, prompt(checker, "abxy"))
    tree.match(checker, prompt(checker, "a"))
    take(checker, "abc", 2)
    tree.unlock(checker, 1)
    tree.unlock(checker, 2)


@litmus(rules=("LOCK-04",), needs=(*LOCKS, "inspect"))
def a_lock_covers_what_was_matched_and_no_more(checker: Checker) -> None:
    """A lock on a partial match protects the matched pages only."""
    store(checker, prompt(checker, "abcd"))
    take(checker, "ab", 1)
    tree.unlock(checker, 1)


@litmus(rules=COUNTED, needs=(*LOCKS, "counters", "inspect"))
def counters_follow_locks(checker: Checker) -> None:
    """Overlapping locks shift units between evictable and protected, each unit once, and all come back."""
    store(checker, prompt(checker, "abc"))
    take(checker, "abc", 1)
    take(checker, "ab", 2)
    store(checker, prompt(checker, "abcde"))
    take(checker, "abcde", 3)
    for receipt in (1, 3, 2):
        tree.unlock(checker, receipt)


@litmus(rules=("TREE-04", "LOCK-06"), needs=(*LOCKS, "counters", "inspect"))
def locking_nothing_is_harmless(checker: Checker) -> None:
    """A lock on an empty match protects nothing, and giving it back changes nothing."""
    take(checker, "a", 1)
    store(checker, prompt(checker, "a"))
    tree.unlock(checker, 1)
