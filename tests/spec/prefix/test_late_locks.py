"""Locks that end late: for how many calls they are remembered, and of which paths."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kvlitmus.spec.prefix.calls import Begin, Compute, End, Evict, Grow, Publish, Reset, Unlock
from kvlitmus.spec.prefix.late_locks import given_back, late_locks, still_locked
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.words.units import Name, Tokens
from tests.spec.support.boundaries import CACHED, LONG, ONE, RUNNING, SHORT, TWO, setting

DELAYED = {"unlock_delay": 2}
RUNS = CACHED._replace(
    requests={0: RUNNING._replace(path=LONG, locked=ONE), 1: RUNNING._replace(path=SHORT)}, receipts={1: TWO, 2: ONE}
)


def after(*calls: Any) -> State:
    """The state after these calls, as far as locks are concerned that were given back."""
    state = RUNS
    for call in calls:
        state = given_back(state, state, setting(profile=DELAYED), call)
    return state


@pytest.mark.parametrize(
    ("calls", "late"),
    [
        ((), {}),
        ((Unlock(1),), {ONE: 1, TWO: 1}),
        ((Unlock(1), Evict(Tokens(4))), {ONE: 1, TWO: 1}),
        ((Unlock(1), Evict(Tokens(4)), Evict(Tokens(4))), {}),
        ((Unlock(1), Compute(0, 1), Compute(0, 1)), {ONE: 1, TWO: 1}),
        ((Unlock(1), Unlock(2)), {ONE: 2, TWO: 1}),
        ((Publish(0),), {ONE: 1}),
        ((End(0, keep=True),), {ONE: 1, TWO: 1}),
        ((End(0, keep=False),), {ONE: 1}),
        ((End(1, keep=True),), {ONE: 1}),
        ((Begin(2, LONG),), {ONE: 1, TWO: 1}),
        ((Begin(2, SHORT),), {ONE: 1}),
        ((Begin(1, SHORT),), {}),
    ],
)
def test_a_lock_is_remembered_for_so_many_calls(calls: tuple[Any, ...], late: dict[Name, int]) -> None:
    state = after(*calls)
    assert late_locks(state, state.device) == late
    assert {name: page.locks for name, page in still_locked(state).pages.items() if page.locks} == late
    assert not any(page.locks for page in still_locked(state, late).pages.values()), "where they have ended"


def test_what_may_have_made_no_call_is_not_counted() -> None:
    composed = replace(setting(profile=DELAYED), capabilities=frozenset({"composed"}))
    state = given_back(RUNS, RUNS, composed, Unlock(1))
    for _ in range(3):
        state = given_back(state, state, composed, Grow(0, Tokens(1)))
    assert late_locks(state, state.device) == {ONE: 1, TWO: 1}
    state = given_back(state, state, composed, Publish(0))
    assert late_locks(state, state.device) == {ONE: 2, TWO: 1}


def test_a_reset_forgets_them() -> None:
    state = given_back(after(Unlock(1)), CACHED, setting(profile=DELAYED), Reset())
    assert not late_locks(state, state.device)


@pytest.mark.parametrize(
    "other", [setting(host_pages=4, profile=DELAYED), setting(profile={**DELAYED, "publish": "at_alloc"}), setting()]
)
def test_only_flat_caches_that_publish_explicitly_have_them(other: Any) -> None:
    assert other.unlock_delay == 0
