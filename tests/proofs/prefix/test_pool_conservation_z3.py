"""The counters of a pool of any size add up after every call, in whole pages.

Calls move pages from one home to another (:data:`STEPS`).  z3 shows that the counters of the homes add up whatever is
moved so, and that they don't where more is moved than there is, or some is lost.  The same table is then held against
the reference, whose calls must decompose into these steps and nothing else.  That each page has one home is shown on
the reference's own source (``test_any_size_z3.py``).
"""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import pytest

from kvlitmus.reference.prefix.perform import free_pages, perform
from kvlitmus.reference.prefix.pool import slots_of
from kvlitmus.spec.prefix import calls
from kvlitmus.spec.prefix import state as states
from kvlitmus.spec.prefix.work_calls import PlainCall
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


# What a whole call does to the counters, in pages of any size

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
    cached = [page.page for page in state.device.pages.values()]
    free = free_pages(state, setting)
    homes = [*free, *state.owners, *cached]
    assert len(set(homes)) == len(homes) == len(setting.usable)
    return {**dict.fromkeys(free, FREE), **dict.fromkeys(state.owners, REQUEST), **dict.fromkeys(cached, CACHED)}


def _steps_between(before: states.State, after: states.State, setting: Setting) -> set[tuple[str, str]]:
    """The steps that a call of the reference made; fails where one of them required what was not so."""
    one, other = _homes(before, setting), _homes(after, setting)
    assert one.keys() == other.keys()
    changed = {number for number in one if one[number] != other[number]}
    locked = {entry.page for entry in before.device.pages.values() if entry.locks > 0}
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
        call: PlainCall | None = None
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
        elif kind == "lock" and state.device.pages:
            call = calls.Lock(source.choice(sorted(state.device.pages)), receipt)
        elif kind == "unlock" and state.receipts:
            given_back = source.choice(sorted(state.receipts))
            call = calls.Unlock(given_back)
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
