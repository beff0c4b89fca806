"""Trees of any size: z3 proves what locking and use keep along every path.

The tree is an unknown parent function over unknown pages; *covers(x, y)* says that x is on the
path from y to the root.  Each lemma has a slip that z3 must refute with a model; an unknown verdict
fails.  What a step does to a page is said once, in a function (``locked_once_more`` and those below it), with which the
lemmas are stated and which is held against the spec's effects on all small trees; what the counters must be is the
spec's own predicate.  (``test_any_size_z3.py`` has what
calls keep.)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from kvlitmus.spec.prefix import effects
from kvlitmus.spec.prefix.rules.lock import locking_only_shifts_between_the_counters
from kvlitmus.spec.prefix.rules.observed import locked_count, locked_pages, unlocked_count
from kvlitmus.spec.prefix.state import Tier, empty_state
from kvlitmus.spec.words.config import Config
from kvlitmus.spec.words.profile import Profile
from kvlitmus.spec.words.setting import SNAPSHOT, Setting
from kvlitmus.spec.words.units import Name
from tests.proofs.prefix.lock_lemmas import Numbers, small_tree

z3 = pytest.importorskip("z3")
from tests.proofs.support.solving import can_be  # noqa: E402 - needs z3

pytestmark = pytest.mark.proof

Formula = Any

page_sort = z3.DeclareSort("page")
x, y, place = z3.Consts("x y place", page_sort)
root = z3.Const("root", page_sort)
parent = z3.Function("parent", page_sort, page_sort)
covers = z3.Function("covers", page_sort, page_sort, z3.BoolSort())
locks = z3.Function("locks", page_sort, z3.IntSort())
touched = z3.Function("touched", page_sort, z3.IntSort())
now = z3.Int("now")

PATHS = [
    z3.ForAll([x], covers(x, x)),
    z3.ForAll([x, y], z3.Implies(z3.And(covers(x, y), x != root), covers(parent(x), y))),
]
"""A path begins with the page itself and goes on with the parent of each of its pages."""


# What a step does to one page


def locked_once_more(count: Formula, on_path: Formula) -> Formula:
    """The locks of a page after a lock."""
    return count + z3.If(on_path, 1, 0)


def locked_once_less(count: Formula, on_path: Formula) -> Formula:
    """The locks of a page after a receipt was given back."""
    return count - z3.If(on_path, 1, 0)


def used_now(tick: Formula, on_path: Formula, clock: Formula) -> Formula:
    """When a page was used last, after a use of a path at this tick."""
    return z3.If(on_path, clock, tick)


def small_trees() -> Iterator[Tier]:
    """Three pages in every shape, with different counts."""
    for second, third, locks in itertools.product((0, 1), (0, 1, 2), (0, 2)):
        yield small_tree(second, third, [Numbers(1, 0, locks), Numbers(2, 0, locks), Numbers(3, 0, 0)])


def value(formula: Formula) -> Any:
    """What a formula without unknowns is."""
    plain = z3.simplify(formula)
    return z3.is_true(plain) if z3.is_bool(plain) else plain.as_long()


def test_a_step_on_a_page_is_what_the_effect_does_to_it() -> None:
    """The functions above, and the axioms of paths, on all small trees."""
    for tree in small_trees():
        for name, other in itertools.product(tree.pages, tree.pages):
            path, page = effects.path(tree, name), tree.pages[other]
            assert name in path and all(tree.pages[one].parent in (*path, 0) for one in path)
            covered = z3.BoolVal(other in path)
            assert effects.lock(tree, name).pages[other].locks == value(
                locked_once_more(z3.IntVal(page.locks), covered)
            )
            locked = z3.IntVal(page.locks)
            assert effects.lock(tree, name, -1).pages[other].locks == value(locked_once_less(locked, covered))
            touched = effects.touch(tree, path)
            tick, clock = z3.IntVal(page.touched), z3.IntVal(touched.clock)
            assert touched.clock > max(one.touched for one in tree.pages.values())
            assert touched.pages[other].touched == value(used_now(tick, covered, clock))


# Trees of any size


def down(count: Any) -> Formula:
    """A parent has at least as much as each of its children."""
    return z3.ForAll([x], z3.Implies(x != root, count(parent(x)) >= count(x)))


UNLOCKED_BELOW = z3.ForAll([x], z3.Implies(z3.And(x != root, locks(x) >= 0, locks(parent(x)) == 0), locks(x) == 0))
rest = z3.Function("rest", page_sort, z3.IntSort())
"""The locks of all receipts but one."""

WHOLE = z3.ForAll([x], locks(x) == locked_once_more(rest(x), covers(x, place)))


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
        down(lambda x: locked_once_more(locks(x), covers(x, place))),
        [*PATHS, down(locks)],
        down(lambda x: locked_once_more(locks(x), x == place)),
    ),
    "giving a receipt back leaves the locks of all others": Claim(
        ("LOCK-03", "LOCK-04"),
        [*PATHS, down(rest), WHOLE],
        z3.And(
            down(lambda x: locked_once_less(locks(x), covers(x, place))),
            z3.ForAll([x], locked_once_less(locks(x), covers(x, place)) == rest(x)),
        ),
        [*PATHS, down(rest), WHOLE],
        z3.ForAll([x], locked_once_less(locks(x), x == place) == rest(x)),
    ),
    "what is below an unlocked page is unlocked": Claim(
        ("EVICT-01", "LOCK-02"), [down(locks)], UNLOCKED_BELOW, [], UNLOCKED_BELOW
    ),
    "a use of a whole path keeps a parent as young as its child": Claim(
        ("EVICT-05",),
        [*PATHS, down(touched), z3.ForAll([x], touched(x) < now)],
        down(lambda x: used_now(touched(x), covers(x, place), now)),
        [*PATHS, down(touched), z3.ForAll([x], touched(x) < now)],
        down(lambda x: used_now(touched(x), x == place, now)),
    ),
}


def counterexample(assumed: list[Formula], follows: Formula) -> bool:
    """Whether something can be as assumed without what should follow."""
    return can_be(*assumed, z3.Not(follows))


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


def protects(count: Formula) -> Formula:
    """How many more pages are protected after a page with so many locks got one more."""
    return z3.If(count == 0, 1, 0)


def _after_lock(moved: Formula) -> Formula:
    """LOCK-02 and LOCK-07 after a page with ``count`` locks got one more, when the counters move if ``moved``."""
    shift = z3.If(moved, size, 0)
    return z3.And(
        evictable - shift == size * (unlocked - protects(count)),
        protected + shift == size * (locked + protects(count)),
        locking_only_shifts_between_the_counters(evictable, protected, evictable - shift, protected + shift),
    )


@pytest.mark.parametrize("page", [1, 4])
def test_what_is_protected_is_what_the_facts_count(page: int) -> None:
    setting = Setting(Config(page_size=page), Profile(), SNAPSHOT, frozenset())
    for tree in small_trees():
        before, after = (empty_state()._replace(device=one) for one in (tree, effects.lock(tree, Name(1))))
        counts = [locked_count(state, state, setting, page, locked_pages(state)) for state in (before, after)]
        more = page * value(protects(z3.IntVal(tree.pages[Name(1)].locks)))
        assert counts[1] - counts[0] == more
        rest = [unlocked_count(state, count, page) for state, count in zip((before, after), counts, strict=True)]
        assert rest[0] - rest[1] == more


def test_the_counters_follow_every_lock() -> None:
    assert not counterexample(SOUND, _after_lock(count == 0))


def test_counters_that_move_with_every_lock_are_refuted() -> None:
    assert counterexample(SOUND, _after_lock(count >= 0))
