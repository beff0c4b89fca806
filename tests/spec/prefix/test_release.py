"""The release queue of the device: what may wait after a call, as far as it can be known what that gave back."""

from __future__ import annotations

from typing import Any

import pytest

from kvlitmus.spec.prefix.calls import End, Free, Insert, Reset
from kvlitmus.spec.prefix.release import queued, waiting_in
from kvlitmus.spec.prefix.state import State, empty_state
from kvlitmus.spec.words.units import PageNo, Slot
from tests.spec.support.boundaries import PATH, setting

FREED, KEPT, ABORTED = Free((Slot(4),)), End(1, keep=True), End(1, keep=False)
DELAY = {"release_delay": 2}


def after(depth: int, *calls: Any) -> State:
    """The state after so many calls, the first of which gives back page 1, the second page 2, and so on."""
    state = empty_state()
    for at, call in enumerate(calls, 1):
        owned = state._replace(owners={PageNo(at): 1})
        state = queued(owned, state, setting(depth, DELAY), call)
    return state


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_what_was_certainly_given_back_is_free_after_so_many_calls(depth: int) -> None:
    state = after(depth, FREED, ABORTED, FREED)
    assert waiting_in(state) == {2, 3}
    assert waiting_in(queued(state, state, setting(depth, DELAY), FREED)) == {2, 3}, "nothing was given back"
    assert waiting_in(queued(state, empty_state(), setting(depth, DELAY), Reset())) == set()


@pytest.mark.parametrize("call", [KEPT, Insert(PATH, (Slot(8),))])
@pytest.mark.parametrize(("depth", "waits"), [(2, {1, 2, 3}), (3, {2, 3})])
def test_what_may_not_have_been_a_duplicate_lets_the_others_wait(depth: int, waits: set[int], call: Any) -> None:
    assert waiting_in(after(depth, FREED, call, FREED)) == waits
    assert waiting_in(after(depth, call)) == {1}


def test_what_may_wait_is_counted_with_what_was_given_back_last() -> None:
    state = after(2, FREED, FREED, KEPT)
    assert [set(pages) for pages in state.leaving] == [{1}, {2, 3}]
