"""Trees of any size: z3 proves what locking, use, eviction and insertion keep along every path.

The tree is an unknown parent function over unknown pages; *covers(x, y)* says that x is on the
path from y to the root.  Each lemma has a slip that z3 must refute with a model; an unknown verdict
fails.  (``test_pool_conservation_z3.py`` has the pool.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

z3 = pytest.importorskip("z3")
pytestmark = pytest.mark.proof

TIMEOUT_MS = 20_000
Formula = Any

page_sort = z3.DeclareSort("page")
x, y, place = z3.Consts("x y place", page_sort)
root = z3.Const("root", page_sort)
parent = z3.Function("parent", page_sort, page_sort)
covers = z3.Function("covers", page_sort, page_sort, z3.BoolSort())
cached = z3.Function("cached", page_sort, z3.BoolSort())
locks = z3.Function("locks", page_sort, z3.IntSort())
touched = z3.Function("touched", page_sort, z3.IntSort())
now = z3.Int("now")

PATHS = [
    z3.ForAll([x], covers(x, x)),
    z3.ForAll([x, y], z3.Implies(z3.And(covers(x, y), x != root), covers(parent(x), y))),
]
"""A path begins with the page itself and goes on with the parent of each of its pages."""


def on_path(x: Formula) -> Formula:
    """1 for a page on the path to the place, else 0."""
    return z3.If(covers(x, place), 1, 0)


def down(count: Any) -> Formula:
    """A parent has at least as much as each of its children."""
    return z3.ForAll([x], z3.Implies(x != root, count(parent(x)) >= count(x)))


def closed(there: Any) -> Formula:
    """The parent of what is cached is cached."""
    return z3.And(there(root), z3.ForAll([x], z3.Implies(z3.And(there(x), x != root), there(parent(x)))))


def no_child(of: Formula) -> Formula:
    return z3.ForAll([x], z3.Implies(z3.And(cached(x), x != root), parent(x) != of))


def gone(x: Formula) -> Formula:
    return z3.And(cached(x), x != place)


def come(x: Formula) -> Formula:
    return z3.Or(cached(x), x == place)


UNLOCKED_BELOW = z3.ForAll([x], z3.Implies(z3.And(x != root, locks(x) >= 0, locks(parent(x)) == 0), locks(x) == 0))
rest = z3.Function("rest", page_sort, z3.IntSort())
"""The locks of all receipts but one."""

WHOLE = z3.ForAll([x], locks(x) == rest(x) + on_path(x))


class Claim(NamedTuple):
    """What is assumed and what follows; and the same with a slip, from which it must not follow."""

    rules: tuple[str, ...]
    assumed: list[Formula]
    follows: Formula
    slip_assumed: list[Formula]
    slip_follows: Formula


CLAIMS: dict[str, Claim] = {
    "locking a path keeps a parent locked as often as its child": Claim(
        ("LOCK-03", "LOCK-04"),
        [*PATHS, down(locks)],
        down(lambda x: locks(x) + on_path(x)),
        [*PATHS, down(locks)],
        down(lambda x: locks(x) + z3.If(x == place, 1, 0)),
    ),
    "giving a receipt back leaves the locks of all others": Claim(
        ("LOCK-03", "LOCK-04"),
        [*PATHS, down(rest), WHOLE],
        z3.And(down(lambda x: locks(x) - on_path(x)), z3.ForAll([x], locks(x) - on_path(x) == rest(x))),
        [*PATHS, down(rest), WHOLE],
        z3.ForAll([x], locks(x) - z3.If(x == place, 1, 0) == rest(x)),
    ),
    "what is below an unlocked page is unlocked": Claim(
        ("EVICT-01", "LOCK-02"), [down(locks)], UNLOCKED_BELOW, [], UNLOCKED_BELOW
    ),
    "evicting a leaf leaves the rest reachable": Claim(
        ("TREE-05", "EVICT-04"),
        [closed(cached), place != root, no_child(place)],
        closed(gone),
        [closed(cached), place != root],
        closed(gone),
    ),
    "inserting below what is cached leaves everything reachable": Claim(
        ("TREE-05", "TREE-08"),
        [closed(cached), cached(parent(place))],
        closed(come),
        [closed(cached)],
        closed(come),
    ),
    "a use of a whole path keeps a parent as young as its child": Claim(
        ("EVICT-05",),
        [*PATHS, down(touched), z3.ForAll([x], touched(x) < now)],
        down(lambda x: z3.If(covers(x, place), now, touched(x))),
        [*PATHS, down(touched), z3.ForAll([x], touched(x) < now)],
        down(lambda x: z3.If(x == place, now, touched(x))),
    ),
}


def counterexample(assumed: list[Formula], follows: Formula) -> bool:
    """Whether something can be as assumed without what should follow."""
    solver = z3.Solver()
    solver.set("timeout", TIMEOUT_MS)
    solver.add(*assumed, z3.Not(follows))
    verdict = solver.check()
    assert verdict != z3.unknown, solver.reason_unknown()
    return bool(verdict == z3.sat)


@pytest.mark.parametrize("name", CLAIMS)
def test_it_holds_in_trees_of_any_size(name: str) -> None:
    assert not counterexample(CLAIMS[name].assumed, CLAIMS[name].follows)


@pytest.mark.parametrize("name", CLAIMS)
def test_the_assumptions_can_be_met(name: str) -> None:
    assert counterexample(CLAIMS[name].assumed, z3.BoolVal(False))


@pytest.mark.parametrize("name", CLAIMS)
def test_the_slip_is_refuted(name: str) -> None:
    assert counterexample(CLAIMS[name].slip_assumed, CLAIMS[name].slip_follows)


# Counters: one page of a path at a time, pages of any size

evictable, protected, unlocked, locked, count, size = z3.Ints("evictable protected unlocked locked count size")
SOUND = [size >= 1, count >= 0, evictable == size * unlocked, protected == size * locked]


def _after_lock(moved: Formula) -> Formula:
    """LOCK-02 and LOCK-07 after a page with ``count`` locks got one more, when the counters move if ``moved``."""
    shift, recount = z3.If(moved, size, 0), z3.If(count == 0, 1, 0)
    return z3.And(
        evictable - shift == size * (unlocked - recount),
        protected + shift == size * (locked + recount),
        (evictable - shift) + (protected + shift) == evictable + protected,
    )


def test_the_counters_follow_every_lock() -> None:
    assert not counterexample(SOUND, _after_lock(count == 0))


def test_counters_that_move_with_every_lock_are_refuted() -> None:
    assert counterexample(SOUND, _after_lock(count >= 0))
