"""Pages beside a row: who takes them, how many, and what becomes of them."""

from __future__ import annotations

import pytest

from kvlitmus.spec.prefix.seen import Seen
from kvlitmus.spec.prefix.spare_pages import spares_seen, with_spares
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.words.units import PageNo
from tests.spec.support.boundaries import EMPTY, RUNNING, setting

SETTING = setting(profile={"spare_pages": 2}, pages=8)
ROW = {PageNo(page): 1 for page in (0, 1, 2)}


def running(spare: tuple[int, ...] = ()) -> State:
    """A request of three pages that has begun or grown just now, with such pages beside its row before."""
    pages = frozenset(map(PageNo, spare))
    one = with_spares(RUNNING._replace(spare=pages), SETTING)
    return EMPTY._replace(requests={0: one}, owners={**ROW, **dict.fromkeys(one.spare, 1)})


@pytest.mark.parametrize(
    ("before", "gone", "spare"),
    [
        ((), (), set()),
        ((), (4,), {4}),
        ((), (4, 5), {4, 5}),
        ((), (4, 5, 6), {4, 5}),
        ((7,), (4, 5), {4, 7}),
        ((2,), (4, 5), {4, 5}),
    ],
)
def test_what_has_no_home_is_of_the_request_that_may_have_taken_it(
    before: tuple[int, ...], gone: tuple[int, ...], spare: set[int]
) -> None:
    state = running(before)
    free = SETTING.usable.difference(state.owners, map(PageNo, gone))

    then = spares_seen(state, SETTING, Seen(free=free))

    assert then.requests[0].spare == spare and then.requests[0].unseen == 0
    assert then.owners.keys() == ROW.keys() | spare
    assert spares_seen(then, SETTING, Seen(free=free - {PageNo(8)})) == then, "another call takes nothing for it"
