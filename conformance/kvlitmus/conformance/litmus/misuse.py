"""Litmus tests on misuse: run only where the profile says what happens then, or when forced."""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.conformance.checker.calls import misuse, pool, tree
from kvlitmus.conformance.checker.calls.text import key_text
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.litmus.keys import prompt
from kvlitmus.conformance.litmus.lock import take
from kvlitmus.conformance.litmus.registry import litmus
from kvlitmus.conformance.litmus.tree import store
from kvlitmus.spec.units import Slot


@litmus(rules=("MISUSE-01", "MISUSE-02"), needs=("pool",), misuse=True)
def a_page_freed_twice(checker: Checker) -> None:
    """A page that is freed a second time is not available twice."""
    slots = pool.alloc(checker, 2 * checker.size)
    if slots:
        pool.free(checker, slots)
        misuse.double_free(checker, slots[: checker.size])


@litmus(rules=("MISUSE-02", "MISUSE-03"), needs=("pool",), misuse=True)
def a_page_named_twice_in_one_free(checker: Checker) -> None:
    """A free that names its pages twice frees them once, or not at all."""
    slots = pool.alloc(checker, 2 * checker.size)
    if slots:
        misuse.repeated_free(checker, slots)


@litmus(rules=("MISUSE-02", "MISUSE-04"), needs=("pool",), min_page=2, misuse=True)
def part_of_a_page_is_freed(checker: Checker) -> None:
    """Freeing one slot of a page does not give the page away, and breaks no other page."""
    slots = pool.alloc(checker, 2 * checker.size)
    if slots:
        misuse.partial_free(checker, slots)


@litmus(rules=("MISUSE-05",), needs=("pool",), misuse=True)
def a_returned_sequence_is_overwritten(checker: Checker) -> None:
    """What a caller does to the sequence it was given does not reach the pool."""
    misuse.scribble(checker, 2 * checker.size)


@litmus(rules=("MISUSE-10",), needs=("pool",), min_page=2, misuse=True)
def a_size_that_fills_no_page(checker: Checker) -> None:
    """An allocation of a page and a slot is rejected, where the profile says so, and takes nothing."""
    misuse.odd_alloc(checker, checker.size + 1)


@litmus(rules=("MISUSE-06",), needs=("pool", "tree", "locks", "counters"), misuse=True)
def a_receipt_is_given_back_twice(checker: Checker) -> None:
    """A receipt is worth one unlock: a second one takes nobody else's protection away."""
    store(checker, prompt(checker, "ab"))
    take(checker, "ab", 1)
    take(checker, "ab", 2)
    token = checker.tokens[1]
    tree.unlock(checker, 1)
    misuse.stale_unlock(checker, token, 1)


@litmus(rules=("MISUSE-07", "MISUSE-08", "MISUSE-09"), needs=("pool", "tree", "evict"), misuse=True)
def an_insert_in_too_few_slots(checker: Checker) -> None:
    """A key of two pages can't be cached in the slots of one: nothing is, and the cache goes on."""
    if checker.profile.misuse == "undefined":
        return
    store(checker, prompt(checker, "ab"))
    own = pool.alloc(checker, checker.size)
    if own:
        key = prompt(checker, "cd")
        misuse.forbidden(
            checker,
            "insert",
            f"insert({key_text(key)}, {list(own)})",
            "too few slots",
            lambda: checker.adapter.insert(key, list(own)),
        )
        misuse.go_on(checker, lambda: end_lawfully(checker, own))


@litmus(rules=("MISUSE-07", "MISUSE-09"), needs=("pool", "tree", "locks", "evict"), misuse=True)
def the_last_receipt_is_given_back_twice(checker: Checker) -> None:
    """A receipt that was the last one is given back twice: the second time is refused, and the cache goes on."""
    if checker.profile.misuse == "undefined":
        return
    store(checker, prompt(checker, "ab"))
    take(checker, "ab", 1)
    token = checker.tokens[1]
    tree.unlock(checker, 1)
    misuse.forbidden(
        checker, "unlock", "unlock(receipt 1)", "given back already", lambda: checker.adapter.unlock(token)
    )
    misuse.go_on(checker, lambda: end_lawfully(checker, None))


def end_lawfully(checker: Checker, own: Sequence[Slot] | None) -> None:
    """Use what is cached, give back what is owned, and evict everything."""
    tree.match(checker, prompt(checker, "ab"))
    if own:
        pool.free(checker, own)
    tree.evict(checker, checker.capacity)
