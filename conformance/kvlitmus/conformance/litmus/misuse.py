"""Litmus tests on misuse: run only where the profile says what happens then, or when forced."""

from __future__ import annotations

from kvlitmus.conformance.checker.calls import misuse, pool, tree
from kvlitmus.conformance.checker.checker import Judge
from kvlitmus.conformance.litmus.keys import prompt
from kvlitmus.conformance.litmus.lock import take
from kvlitmus.conformance.litmus.registry import litmus
from kvlitmus.conformance.litmus.tree import store


@litmus(rules=("MISUSE-01", "MISUSE-02"), needs=("pool",), misuse=True)
def a_page_freed_twice(judge: Judge) -> None:
    """A page that is freed a second time is not available twice."""
    slots = pool.alloc(judge, 2 * judge.size)
    if slots:
        pool.free(judge, slots)
        misuse.double_free(judge, slots[: judge.size])


@litmus(rules=("MISUSE-02", "MISUSE-03"), needs=("pool",), misuse=True)
def a_page_named_twice_in_one_free(judge: Judge) -> None:
    """A free that names its pages twice frees them once, or not at all."""
    slots = pool.alloc(judge, 2 * judge.size)
    if slots:
        misuse.repeated_free(judge, slots)


@litmus(rules=("MISUSE-02", "MISUSE-04"), needs=("pool",), min_page=2, misuse=True)
def part_of_a_page_is_freed(judge: Judge) -> None:
    """Freeing one slot of a page does not give the page away, and breaks no other page."""
    slots = pool.alloc(judge, 2 * judge.size)
    if slots:
        misuse.partial_free(judge, slots)


@litmus(rules=("MISUSE-05",), needs=("pool",), misuse=True)
def a_returned_sequence_is_overwritten(judge: Judge) -> None:
    """What a caller does to the sequence it was given does not reach the pool."""
    misuse.scribble(judge, 2 * judge.size)


@litmus(rules=("MISUSE-06",), needs=("pool", "tree", "locks", "counters"), misuse=True)
def a_receipt_is_given_back_twice(judge: Judge) -> None:
    """A receipt is worth one unlock: a second one takes nobody else's protection away."""
    store(judge, prompt(judge, "ab"))
    take(judge, "ab", 1)
    take(judge, "ab", 2)
    token, _ = judge.receipts[1]
    tree.unlock(judge, 1)
    misuse.stale_unlock(judge, token, 1)
