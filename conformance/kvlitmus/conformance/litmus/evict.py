"""Litmus tests on eviction."""

from __future__ import annotations

from kvlitmus.conformance.checker.calls import pool, tree
from kvlitmus.conformance.checker.checker import Judge
from kvlitmus.conformance.litmus.keys import prompt
from kvlitmus.conformance.litmus.lock import take
from kvlitmus.conformance.litmus.registry import litmus
from kvlitmus.conformance.litmus.tree import store

EVICT = ("pool", "tree", "evict", "inspect")


@litmus(rules=("EVICT-01", "EVICT-02", "EVICT-04", "EVICT-06"), needs=EVICT)
def an_eviction_frees_what_it_says(judge: Judge) -> None:
    """Evictions of every size free enough, say how much, and stop in time; what is gone is no longer matched."""
    for ways in ("abc", "abd", "ax", "p"):
        store(judge, prompt(judge, ways))
    for n in (1, judge.size, judge.size + 1, 2 * judge.size):
        tree.evict(judge, n)
        tree.match(judge, prompt(judge, "abc"))
    tree.evict(judge, judge.capacity)
    tree.evict(judge, 1)
    slots = pool.alloc(judge, judge.capacity)
    if slots:
        pool.free(judge, slots)


@litmus(rules=("EVICT-05",), needs=EVICT)
def the_least_valuable_leaf_goes_first(judge: Judge) -> None:
    """Victims follow the policy: recency, frequency, age or priority, as the configuration says."""
    for ways, priority in (("ab", 2), ("ac", 0), ("d", 3), ("e", 1)):
        store(judge, prompt(judge, ways), priority=priority)
    store(judge, prompt(judge, "ac"))
    store(judge, prompt(judge, "d"))
    store(judge, prompt(judge, "d"))
    tree.match(judge, prompt(judge, "ab"))
    for _ in range(5):
        tree.evict(judge, 1)


@litmus(rules=("EVICT-03", "EVICT-05"), needs=(*EVICT, "locks"))
def the_least_valuable_is_spared_while_it_is_locked(judge: Judge) -> None:
    """A locked leaf is passed by, however little it is worth, and its parent with it."""
    for ways in ("ab", "ac", "d"):
        store(judge, prompt(judge, ways))
    take(judge, "ab", 1)
    for ways in ("ac", "d"):
        tree.match(judge, prompt(judge, ways))
    tree.evict(judge, 1)
    tree.evict(judge, judge.capacity)
    tree.unlock(judge, 1)
    tree.evict(judge, judge.capacity)


@litmus(rules=("EVICT-01", "EVICT-04", "TREE-05"), needs=EVICT)
def a_parent_goes_after_its_last_child(judge: Judge) -> None:
    """Leaves go before their parents, and a parent becomes a leaf when its last child is gone."""
    for ways in ("abcd", "abce", "abf"):
        store(judge, prompt(judge, ways))
    for _ in range(7):
        tree.evict(judge, 1)


@litmus(rules=("TREE-02", "TREE-03"), needs=("pool", "tree", "evict"))
def what_was_evicted_is_not_found_under_its_old_name(judge: Judge) -> None:
    """A page that is used again for other tokens is not found for the old ones."""
    store(judge, prompt(judge, "abc"))
    tree.evict(judge, judge.capacity)
    store(judge, prompt(judge, "xyz"))
    for ways in ("abc", "xyz"):
        tree.match(judge, prompt(judge, ways))


@litmus(rules=("POOL-20",), needs=EVICT)
def allocations_leave_the_cache_alone(judge: Judge) -> None:
    """Allocating to the last page and beyond evicts nothing, where the profile doesn't say so."""
    store(judge, prompt(judge, "abcd"))
    for _ in range(judge.config.pages):
        pool.alloc(judge, 2 * judge.size)
        pool.alloc(judge, judge.size)
    tree.match(judge, prompt(judge, "abcd"))


@litmus(rules=("EVICT-07",), needs=EVICT)
def two_caches_break_ties_alike(judge: Judge) -> None:
    """Many leaves of equal worth, evicted one by one: a second cache that gets the same calls takes the same ones."""
    if judge.again is None:
        return
    other = judge.again()
    for one in (judge, other):
        for ways in "abcdefgh":
            store(one, prompt(one, ways + "x"))
            store(one, prompt(one, ways + "y"))
        for _ in range(one.config.pages):
            tree.evict(one, 1)
    tree.compare_victims(judge, other)
