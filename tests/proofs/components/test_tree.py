"""Components: lemmas for all numbers, every state of small caches, and MIN against the intersection of small sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations

import pytest

from kvlitmus.reference.prefix.components import tree as model
from kvlitmus.spec.prefix.calls import Alloc, Evict, Insert, Lock, Match
from kvlitmus.spec.prefix.components.calls import ComponentHit
from kvlitmus.spec.prefix.components.fetch import agreed
from kvlitmus.spec.prefix.listener import DEVICE
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.words.profile import Profile
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.shapes import (
    Chunk,
    Component,
    Derived,
    Point,
    Run,
    Window,
    admit,
    largest,
    needed,
    step_of,
    valid,
)
from tests.proofs.components import lemmas as component_lemmas
from tests.proofs.components.boundaries import (
    all_or_nothing,
    counterexamples,
    least_of_the_largest,
    restorable,
    without_holes,
)
from tests.proofs.support.component_explore import NIGHTLY, QUICK, RULES, Explorer, Scope, quick, with_slip
from tests.proofs.support.reader import Ask, confirmed, found_and_real
from tests.support.night import by_turns

LEMMAS = (
    "a_window_takes_as_many_pages_as_hold_it",
    "a_prefetch_takes_a_whole_window_or_none",
    "a_boundary_reaches_no_further_than_it_needs",
    "a_point_needs_its_own_boundary",
)
PLANTED = tuple(name for name in vars(component_lemmas) if name.startswith("planted_"))

SHAPES = (Run(), Window(1), Window(2), Window(3), Chunk(2), Point(), Derived("kv"))


@pytest.mark.proof
@pytest.mark.parametrize("name", LEMMAS)
def test_the_lemma_is_confirmed_over_all_paths(crosshair: Ask, name: str) -> None:
    confirmed(crosshair(f"components.lemmas.{name}"))


@pytest.mark.proof
@pytest.mark.parametrize("name", PLANTED)
def test_the_planted_slip_is_found_and_real(crosshair: Ask, name: str) -> None:
    found_and_real(crosshair(f"components.lemmas.{name}"), getattr(component_lemmas, name))


# Shapes, in all small cases


def one(shape: object, unit: int) -> Component:
    """A component of a shape."""
    return Component("one", shape, "pool", unit, unit)  # type: ignore[arg-type]


def sets_of(most: int) -> list[frozenset[int]]:
    """All sets of the numbers from 1 on."""
    return [frozenset(some) for many in range(most + 1) for some in combinations(range(1, most + 1), many)]


def by_tokens(component: Component, boundary: int, held: frozenset[int], root: str) -> bool:
    """Whether a boundary is valid, said of every token by itself: is it needed, and does an entry hold it?"""
    shape, unit = component.shape, component.unit
    if isinstance(shape, Point):
        return boundary == 0 or boundary in held
    if isinstance(shape, Window) and root == "full" and 0 < boundary < shape.reach:
        return False
    for token in range(boundary):
        wanted = True
        if isinstance(shape, Window):
            wanted = token >= boundary - shape.reach
        elif isinstance(shape, Chunk):
            wanted = token // shape.size == boundary // shape.size
        if wanted and (token // unit + 1) * unit not in held:
            return False
    return True


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("root", ["shorter", "full"])
@pytest.mark.parametrize("unit", [1, 2])
def test_a_shape_says_what_its_tokens_say(shape: object, root: str, unit: int) -> None:
    component = one(shape, unit)
    for held in sets_of(6):
        for boundary in range(0, 7, unit):
            assert valid(component, boundary, held, root) == by_tokens(component, boundary, held, root)


@pytest.mark.parametrize("second", SHAPES, ids=str)
@pytest.mark.parametrize("unit", [1, 2])
def test_the_largest_boundary_is_valid_and_none_beyond_it_is(second: object, unit: int) -> None:
    both = (Component("kv", Run(), "kv", 1, 1), one(second, unit))
    step = step_of(both)
    assert step == unit
    for kv in sets_of(4):
        for other in sets_of(4):
            held = {"kv": kv, "one": other}
            for cap in ("full", "len-1"):
                found = largest(both, 4, held.__getitem__, cap=cap)
                good = [
                    at
                    for at in range(5)
                    if at % unit == 0
                    and (cap == "full" or at < 4)
                    and valid(both[0], at, kv)
                    and valid(both[1], at, other)
                ]
                assert found == max(good) and admit(found, 4, step, cap)


def test_a_full_window_is_never_valid_before_its_reach() -> None:
    assert needed(one(Window(3), 1), 2, "full") is None
    assert needed(one(Window(3), 1), 0, "full") == range(1, 1)


# The intersection, and MIN


def test_min_is_enough_only_without_holes_or_for_all_or_nothing() -> None:
    every = [one | {0} for one in sets_of(4)]
    wrong = set(counterexamples(4))
    assert wrong
    for left in every:
        for right in every:
            said, true = least_of_the_largest((left, right)), agreed((left, right))
            assert ((left, right) in wrong) == (said not in left & right)
            assert true <= said
            if (without_holes(left) and without_holes(right)) or all_or_nothing((left, right)):
                assert said == true and (left, right) not in wrong


def test_the_smallest_counterexample_to_min() -> None:
    """One can restore one page, the other two pages: MIN says one, and they have nothing in common but the root."""
    first = next(counterexamples(3))
    assert first == (frozenset({0, 1}), frozenset({0, 2}))
    assert (least_of_the_largest(first), agreed(first)) == (1, 0)


def test_a_window_is_restorable_with_holes() -> None:
    assert restorable(2, {1, 2, 4, 5}, 5) == {0, 1, 2, 5}
    assert restorable(2, {1, 2, 4, 5}, 5, "full") == {0, 2, 5}
    assert restorable(2, {1, 2, 3}, 2) == {0, 1, 2}
    swa, state = restorable(2, {5, 6}, 6), frozenset({0, 4, 8})
    assert agreed((swa, state)) == 0 and least_of_the_largest((swa, state)) == 6


# Every state of small caches


@pytest.mark.proof
@pytest.mark.parametrize("name", by_turns(QUICK))
def test_no_step_breaks_a_rule(name: str) -> None:
    report = quick(name)
    print(f"{name}: {report.states} states, {report.steps} steps")
    assert report.broken == ()
    assert report.states > 10


@pytest.mark.nightly
@pytest.mark.proof
def test_every_rule_is_judged_in_some_step() -> None:
    judged = {id for name in QUICK for id in quick(name).evaluated}
    assert judged == {rule.id for rule in RULES}


@pytest.mark.proof
@pytest.mark.nightly
@pytest.mark.parametrize("name", NIGHTLY)
def test_no_step_breaks_a_rule_with_longer_prefixes(name: str) -> None:
    report = Explorer(NIGHTLY[name]).run()
    assert report.broken == () and report.states > 1_000


@pytest.mark.proof
@pytest.mark.nightly
@pytest.mark.parametrize("cascade", ["base", "none", "leaf"])
@pytest.mark.parametrize("layout", ["kv+swa", "kv+state", "kv+chunk", "kv+index", "groups"])
def test_no_step_breaks_a_rule_with_three_keys(layout: str, cascade: str) -> None:
    profile = replace(Profile(), component_cascade=cascade)
    report = Explorer(Scope(layout, 3, ((1, 1), (1, 2), (1, 1, 1)), profile=profile)).run()
    assert report.broken == () and report.states > (20 if layout == "groups" else 100)


def match_of_the_kv(cache: State, setting: Setting, call: Match) -> tuple[State, ComponentHit]:
    """A slip: a hit is as long as the KV."""
    layout = setting.layout
    alone = type(setting)(setting.config, setting.profile, 3, setting.capabilities, setting.names)
    object.__setattr__(alone, "layout", layout._replace(components=layout.components[:1]))
    return model.match(cache, alone, call)


def match_one_short(cache: State, setting: Setting, call: Match) -> tuple[State, ComponentHit]:
    """A slip: the last unit is never looked at."""
    path = call.path._replace(names=call.path.names[:-1], pages=call.path.pages[:-1])
    return model.match(cache, setting, Match(path))


def lock_of_the_kv(cache: State, setting: Setting, call: object) -> tuple[State, object]:
    """A slip: a receipt covers the KV alone."""
    then, cover = model.lock(cache, setting, call)  # type: ignore[arg-type]
    return then, {"kv": cover["kv"]}


def evict_without_locks(cache: State, setting: Setting, call: object) -> tuple[State, object]:
    """A slip: an eviction takes what a receipt covers."""
    then, freed = model.evict(cache._replace(covers={}), setting, call)  # type: ignore[arg-type]
    return then._replace(covers=cache.covers), freed


def alloc_what_there_is(cache: State, setting: Setting, call: object) -> tuple[State, object]:
    """A slip: a pool that is short grants what it has."""
    wants, free = call.asked, model.free_places(cache, setting)  # type: ignore[attr-defined]
    less = {name: min(many, len(free[setting.layout.named(name).pool])) for name, many in wants.items()}
    return model.alloc(cache, setting, call._replace(asked=less))  # type: ignore[attr-defined]


def insert_leaves_tombstones(cache: State, setting: Setting, call: object) -> tuple[State, object]:
    """A slip: whatever is brought for a page that is cached is left."""
    there = {name for _, name in cache.places(DEVICE)}
    brought = call.slots  # type: ignore[attr-defined]
    kept = {at: place for at, place in brought.items() if at[1] not in there}
    then, _ = model.insert(cache, setting, call._replace(slots=kept))  # type: ignore[attr-defined]
    left: dict[str, tuple[int, ...]] = {}
    for at, place in brought.items():
        if at not in kept:
            left[at[0]] = (*left.get(at[0], ()), place)
    return then, left


SLIPS: tuple[tuple[type, Callable[..., tuple[State, object]], set[str]], ...] = (
    (Match, match_of_the_kv, {"TREE-02", "TREE-03"}),
    (Match, match_one_short, {"TREE-02", "EVENT-09"}),
    (Lock, lock_of_the_kv, {"COMP-10"}),
    (Evict, evict_without_locks, {"COMP-13", "LOCK-01"}),
    (Alloc, alloc_what_there_is, {"POOL-01"}),
    (Insert, insert_leaves_tombstones, {"TREE-08", "TREE-09", "TREE-11"}),
)


@pytest.mark.proof
@pytest.mark.parametrize(("kind", "slip", "rules"), by_turns(SLIPS), ids=lambda one: getattr(one, "__name__", None))
def test_a_slip_in_the_reference_is_found(
    kind: type, slip: Callable[..., tuple[State, object]], rules: set[str]
) -> None:
    found: set[str] = set()
    for name in ("windows", "overlaps"):
        found |= set(Explorer(QUICK[name], with_slip(kind, slip)).run().broken)
    assert rules & found
