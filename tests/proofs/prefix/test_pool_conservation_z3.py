"""A pool of any size loses and doubles nothing: z3 proves that each step keeps it so.

Whole calls are made of single-page **steps**, each with the home that it takes the page from and
the home that it gives it to (:data:`STEPS`).  z3 shows for a pool of unknown size, with any
number of locks on each page, that a sound state is sound after every step; and that every way to
do half a step, or to forget what it requires, is refuted, by a pool of two pages.  The same table is then held against
the reference, whose calls must decompose into these steps and nothing else.
"""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import pytest

from kvlitmus.reference.prefix.perform import free_pages, perform
from kvlitmus.reference.prefix.pool import slots_of
from kvlitmus.spec.prefix import calls
from kvlitmus.spec.prefix import state as states
from kvlitmus.spec.words.config import Config
from kvlitmus.spec.words.profile import Profile
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import CACHED, FREE, REQUEST, Key, PageNo, Tokens, page_floor

z3 = pytest.importorskip("z3")
from tests.proofs.support.solving import can_be  # noqa: E402 - needs z3

pytestmark = pytest.mark.proof

HOMES = (FREE, CACHED, REQUEST)
Formula = Any


class Step(NamedTuple):
    """One page moves from one home to another; ``unlocked``: only while nothing protects it."""

    source: str
    goal: str
    unlocked: bool = False


STEPS = {
    "alloc": Step(FREE, REQUEST),
    "free": Step(REQUEST, FREE),
    "insert": Step(REQUEST, CACHED),
    "evict": Step(CACHED, FREE, unlocked=True),
}


class State(NamedTuple):
    """Who claims which page (a set for each home, so that a page can be claimed twice), and the locks on each."""

    claims: dict[str, Formula]
    locks: Formula


x, size, page = z3.Ints("x size page")
_sets = {home: z3.Array(home, z3.IntSort(), z3.BoolSort()) for home in HOMES}
START = State(_sets, z3.Array("locks", z3.IntSort(), z3.IntSort()))


def sound_at(state: State, place: Formula, pages: Formula) -> Formula:
    """A page of the pool has exactly one home, any other page has none, and what is locked is cached."""
    claims = [state.claims[home][place] for home in HOMES]
    exactly_one = z3.PbEq([(claim, 1) for claim in claims], 1)
    locked = z3.And(state.locks[place] >= 0, z3.Implies(state.locks[place] > 0, state.claims[CACHED][place]))
    return z3.If(z3.And(place >= 0, place < pages), z3.And(exactly_one, locked), z3.Not(z3.Or(*claims)))


def required(step: Step) -> list[Formula]:
    """What must be true before the step."""
    here = [START.claims[step.source][page]]
    return [*here, START.locks[page] == 0] if step.unlocked else here


def moved(step: Step, *, taken: bool = True, given: bool = True) -> State:
    """The state after the step, or after half of it."""
    claims = dict(START.claims)
    if taken:
        claims[step.source] = z3.Store(claims[step.source], page, False)
    if given:
        claims[step.goal] = z3.Store(claims[step.goal], page, True)
    return State(claims, START.locks)


def locked_by(change: int) -> State:
    return State(START.claims, z3.Store(START.locks, page, START.locks[page] + change))


def _can_go_wrong(before: list[Formula], after: Formula) -> bool:
    return can_be(*before, page >= 0, page < size, z3.Not(after))


def proven(assumed: list[Formula], after: State) -> bool:
    """Whether a sound state stays sound, in pools of any size."""
    everywhere = [z3.ForAll([x], sound_at(state, x, size)) for state in (START, after)]
    return not _can_go_wrong([everywhere[0], *assumed], everywhere[1])


def refuted(assumed: list[Formula], after: State) -> bool:
    """Whether a sound state becomes an unsound one already in a pool of two pages."""
    everywhere = [z3.And(*[sound_at(state, z3.IntVal(place), size) for place in range(2)]) for state in (START, after)]
    return _can_go_wrong([size == 2, everywhere[0], *assumed], everywhere[1])


@pytest.mark.parametrize("name", STEPS)
def test_every_step_keeps_a_pool_of_any_size_sound(name: str) -> None:
    assert proven(required(STEPS[name]), moved(STEPS[name]))


@pytest.mark.parametrize("name", STEPS)
def test_a_page_that_is_given_and_not_taken_has_two_homes(name: str) -> None:
    assert refuted(required(STEPS[name]), moved(STEPS[name], taken=False))


@pytest.mark.parametrize("name", STEPS)
def test_a_page_that_is_taken_and_not_given_is_lost(name: str) -> None:
    assert refuted(required(STEPS[name]), moved(STEPS[name], given=False))


@pytest.mark.parametrize("name", STEPS)
def test_a_step_from_another_home_is_refuted(name: str) -> None:
    assert refuted([], moved(STEPS[name]))


def test_an_eviction_that_does_not_look_at_locks_is_refuted() -> None:
    assert refuted([START.claims[CACHED][page]], moved(STEPS["evict"]))


def test_locks_come_and_go_soundly() -> None:
    assert proven([START.claims[CACHED][page]], locked_by(+1))
    assert proven([START.locks[page] >= 1], locked_by(-1))


def test_a_lock_on_what_is_not_cached_and_an_unlock_too_many_are_refuted() -> None:
    assert refuted([], locked_by(+1))
    assert refuted([START.claims[CACHED][page]], locked_by(-1))


# The same in numbers: what a whole call does to the counters, in pages of any size

COUNTS = {home: z3.Int(f"count_{home}") for home in HOMES}
slots, total, page_size = z3.Ints("slots total page_size")


def counters_go_wrong(step: Step, guards: list[Formula], *, returned: Formula = slots) -> bool:
    """Whether moving ``slots`` can leave counters that don't add up, are negative, or hold part of a page."""
    after = dict(COUNTS)
    after[step.source] = after[step.source] - slots
    after[step.goal] = after[step.goal] + returned
    pages = {home: z3.Int(f"pages_{home}") for home in HOMES}
    before = [page_size >= 1, slots == page_size * z3.Int("pages_moved"), slots >= 0, sum(COUNTS.values()) == total]
    for home, count in COUNTS.items():
        before += [count >= 0, count == page_size * pages[home]]
    whole = [z3.And(count >= 0, count % page_size == 0) for count in after.values()]
    return can_be(*before, *guards, z3.Not(z3.And(sum(after.values()) == total, *whole)))


@pytest.mark.parametrize("name", STEPS)
def test_the_counters_add_up_after_every_call_in_whole_pages(name: str) -> None:
    assert not counters_go_wrong(STEPS[name], [slots <= COUNTS[STEPS[name].source]])


@pytest.mark.parametrize("name", STEPS)
def test_counters_are_refuted_when_more_moves_than_there_is_or_some_is_lost(name: str) -> None:
    enough = [slots <= COUNTS[STEPS[name].source]]
    assert counters_go_wrong(STEPS[name], [])
    assert counters_go_wrong(STEPS[name], [*enough, slots >= 1], returned=slots - 1)
    assert counters_go_wrong(STEPS[name], [*enough, slots >= 1], returned=slots - page_size)


# The table is the reference's

ALLOWED = {(step.source, step.goal): step for step in STEPS.values()}


def _homes(state: states.State, setting: Setting) -> dict[PageNo, str]:
    """Where each page is at home; fails where one has two homes, or is cached twice."""
    cached = [page.page for page in state.tree.pages.values()]
    free = free_pages(state, setting)
    homes = [*free, *state.owners, *cached]
    assert len(set(homes)) == len(homes) == len(setting.usable)
    return {**dict.fromkeys(free, FREE), **dict.fromkeys(state.owners, REQUEST), **dict.fromkeys(cached, CACHED)}


def _steps_between(before: states.State, after: states.State, setting: Setting) -> set[tuple[str, str]]:
    """The steps that a call of the reference made; fails where one of them required what was not so."""
    one, other = _homes(before, setting), _homes(after, setting)
    assert one.keys() == other.keys()
    changed = {number for number in one if one[number] != other[number]}
    locked = {entry.page for entry in before.tree.pages.values() if entry.locks > 0}
    for number in changed:
        step = ALLOWED[one[number], other[number]]
        assert not (step.unlocked and number in locked)
    return {(one[number], other[number]) for number in changed}


@pytest.mark.parametrize("size_of_page", [1, 4])
def test_every_call_of_the_reference_is_made_of_these_steps(size_of_page: int) -> None:
    source = random.Random(size_of_page)
    setting = Setting(Config(page_size=size_of_page, pages=6), Profile(), 3, frozenset())
    state = states.empty_state()
    mine: list[PageNo] = []
    seen: dict[str, set[tuple[str, str]]] = {name: set() for name in (*STEPS, "lock", "unlock")}
    for receipt in range(1500):
        kind = source.choice(list(seen))
        call: object = None
        if kind == "alloc":
            call = calls.Alloc(Tokens(source.randrange(4) * size_of_page))
        elif kind == "free":
            given = [mine.pop(source.randrange(len(mine))) for _ in range(min(len(mine), source.randrange(3)))]
            call = calls.Free(slots_of(given, size_of_page))
        elif kind == "insert":
            units = tuple(source.randrange(2) for _ in range(min(len(mine), 3) * size_of_page))
            path = calls.path_of(setting.names, Key(None, units), size_of_page)
            call = calls.Insert(path, slots_of(mine[: len(path.pages)], size_of_page))
        elif kind == "evict":
            call = calls.Evict(Tokens(source.randrange(3 * size_of_page)))
        elif kind == "lock" and state.tree.pages:
            call = calls.Lock(source.choice(sorted(state.tree.pages)), receipt)
        elif kind == "unlock" and state.receipts:
            given_back = source.choice(sorted(state.receipts))
            call = calls.Unlock(state.receipts[given_back], given_back)
        if call is None:
            continue
        step = perform(state, setting, call)
        if isinstance(call, calls.Evict):
            assert page_floor(step.answer, size_of_page) == step.answer
        mine = [
            *[page for page in mine if page in step.after.owners],
            *(step.after.owners.keys() - state.owners.keys()),
        ]
        seen[kind] |= _steps_between(state, step.after, setting)
        state = step.after
    assert seen == {
        **{name: {(step.source, step.goal)} for name, step in STEPS.items()},
        "lock": set(),
        "unlock": set(),
    }
