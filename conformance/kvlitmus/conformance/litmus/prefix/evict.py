"""Litmus tests on eviction."""

from __future__ import annotations

from kvlitmus.conformance.checker.calls.prefix import pool, tree
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.litmus.keys import prompt
from kvlitmus.conformance.litmus.prefix.lock import take
from kvlitmus.conformance.litmus.prefix.tree import store
from kvlitmus.conformance.litmus.registry import litmus

EVICT = ("pool", "tree", "evict", "inspect")


@litmus(rules=("EVICT-01", "EVICT-02", "EVICT-04", "EVICT-06"), needs=EVICT)
def an_eviction_frees_what_it_says(checker: Checker) -> None:
    """Evictions of every size free enough, say how much, and stop in time; what is gone is no longer matched."""
    for ways in ("abc", "abd", "ax", "p"):
        store(checker, prompt(checker, ways))
    for n in (1, checker.size, checker.size + 1, 2 * checker.size):
        tree.evict(checker, n)
        tree.match(checker, prompt(checker, "abc"))
    tree.evict(checker, checker.capacity)
    tree.evict(checker, 1)
    slots = pool.alloc(checker, checker.capacity)
    if slots:
        pool.free(checker, slots)


@litmus(rules=("EVICT-05",), needs=EVICT)
def the_least_valuable_leaf_goes_first(checker: Checker) -> None:
    """Victims follow the policy: recency, frequency, age or priority, as the configuration says."""
    for ways, priority in (("ab", 2), ("ac", 0), ("d", 3), ("e", 1)):
        store(checker, prompt(checker, ways), priority=priority)
    store(checker, prompt(checker, "ac"))
    store(checker, prompt(checker, "d"))
    store(checker, prompt(checker, "d"))
    tree.match(checker, prompt(checker, "ab"))
    for _ in range(5):
        tree.evict(checker, 1)


@litmus(rules=("EVICT-05",), needs=(*EVICT, "locks"), policies=("lru", "mru"))
def a_lock_is_a_use_where_that_is_declared(checker: Checker) -> None:
    """A path is locked after another one was matched, and given back: what goes first says whether that was a use."""
    first, second = prompt(checker, "a"), prompt(checker, "b")
    store(checker, first)
    store(checker, second)
    hit = tree.match(checker, first)
    tree.match(checker, second)
    tree.lock(checker, hit, first, 1)
    tree.match(checker, second)
    tree.unlock(checker, 1)
    tree.evict(checker, 1)
    store(checker, first)
    store(checker, second)
    hit = tree.match(checker, first)
    tree.match(checker, second)
    tree.lock(checker, hit, first, 2)
    tree.unlock(checker, 2)
    tree.evict(checker, 1)


@litmus(rules=("EVICT-03", "EVICT-05"), needs=(*EVICT, "locks"))
def the_least_valuable_is_spared_while_it_is_locked(checker: Checker) -> None:
    """A locked leaf is passed by, however little it is worth, and its parent with it."""
    for ways in ("ab", "ac", "d"):
        store(checker, prompt(checker, ways))
    take(checker, "ab", 1)
    for ways in ("ac", "d"):
        tree.match(checker, prompt(checker, ways))
    tree.evict(checker, 1)
    tree.evict(checker, checker.capacity)
    tree.unlock(checker, 1)
    tree.evict(checker, checker.capacity)


@litmus(rules=("EVICT-01", "EVICT-04", "TREE-05"), needs=EVICT)
def a_parent_goes_after_its_last_child(checker: Checker) -> None:
    """Leaves go before their parents, and a parent becomes a leaf when its last child is gone."""
    for ways in ("abcd", "abce", "abf"):
        store(checker, prompt(checker, ways))
    for _ in range(7):
        tree.evict(checker, 1)


@litmus(rules=("TREE-02", "TREE-03"), needs=("pool", "tree", "evict"))
def what_was_evicted_is_not_found_under_its_old_name(checker: Checker) -> None:
    """A page that is used again for other tokens is not found for the old ones."""
    store(checker, prompt(checker, "abc"))
    tree.evict(checker, checker.capacity)
    store(checker, prompt(checker, "xyz"))
    for ways in ("abc", "xyz"):
        tree.match(checker, prompt(checker, ways))


@litmus(rules=("POOL-20",), needs=EVICT)
def allocations_leave_the_cache_alone(checker: Checker) -> None:
    """Allocating to the last page and beyond evicts nothing, where the profile doesn't say so."""
    store(checker, prompt(checker, "abcd"))
    for _ in range(checker.config.pages):
        pool.alloc(checker, 2 * checker.size)
        pool.alloc(checker, checker.size)
    tree.match(checker, prompt(checker, "abcd"))


@litmus(rules=("EVICT-07",), needs=EVICT)
def two_caches_break_ties_alike(checker: Checker) -> None:
    """Many leaves of equal worth, evicted one by one: a second cache that gets the same calls takes the same ones."""
    if checker.again is None:
        return
    other = checker.again()
    for one in (checker, other):
        for ways in "abcdefgh":
            store(one, prompt(one, ways + "x"))
            store(one, prompt(one, ways + "y"))
        for _ in range(one.config.pages):
            tree.evict(one, 1)
    tree.compare_victims(checker, other)
