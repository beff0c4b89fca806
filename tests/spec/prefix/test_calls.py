"""The calls on a cache of prefixes: one union has them all, and what is said call by call is said of each."""

from __future__ import annotations

from typing import get_args, get_origin

from kvlitmus.spec.law.occasions import JOINT
from kvlitmus.spec.prefix import calls, work_calls
from kvlitmus.spec.prefix.components.advance import FOLLOW
from kvlitmus.spec.prefix.work_calls import Call

NO_CALLS = {calls.Path, calls.Raised, calls.Within, work_calls.Reach}
"""What else is defined beside the calls."""


def test_the_union_has_every_call() -> None:
    defined = {
        one
        for module in (calls, work_calls)
        for one in vars(module).values()
        if isinstance(one, type) and issubclass(one, tuple) and one.__module__ == module.__name__
    }
    assert {get_origin(one) or one for one in get_args(Call)} == defined - NO_CALLS


def test_what_is_an_occasion_on_components_is_followed_there() -> None:
    assert set(FOLLOW) == set(JOINT) <= {get_origin(one) or one for one in get_args(Call)}
