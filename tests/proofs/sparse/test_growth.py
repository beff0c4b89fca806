"""The device's slots behind buffers: every rule in small states, sizes for any numbers, and slips."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from kvlitmus.reference import sparse as reference
from kvlitmus.spec.sparse.buffer import grown
from kvlitmus.spec.sparse.calls import SparseCall, SparseDone, SparseFree, SparseGrow
from kvlitmus.spec.sparse.state import SparseState
from kvlitmus.spec.words.units import Tokens
from tests.proofs.sparse import growth as sparse_growth
from tests.proofs.sparse.growth import SCOPES, broken_in, perform, seen
from tests.proofs.sparse.page_sizes import every_page_size
from tests.proofs.support.sparse_search import Perform

z3 = pytest.importorskip("z3")
from tests.proofs.support.solving import can_be  # noqa: E402 - needs z3
from tests.proofs.support.terms import formula_of  # noqa: E402 - needs z3
from tests.support.night import by_turns  # noqa: E402 - needs z3

pytestmark = pytest.mark.proof

n, m, room = (z3.Int(name) for name in ("n", "m", "room"))
"""Tokens of a sequence, of a longer one, and the room of a buffer."""
Formula = Any


def test_every_rule_of_growth_holds() -> None:
    counts: Counter[str] = Counter()
    for scope in SCOPES:
        evaluated, states, broken = broken_in(scope)
        assert broken == []
        assert states > 20
        counts += evaluated
    assert {id for ids, _ in sparse_growth.PROVEN.values() for id in ids} <= counts.keys()
    assert min(counts[rule.id] for rule in sparse_growth.OF_GROWTH) > 10


def takes_before_it_refuses(pool: SparseState, call: SparseCall) -> tuple[SparseState, SparseDone]:
    """What is free is taken, and then growth is refused."""
    then, answer = perform(pool, call)
    if isinstance(call, SparseGrow) and not answer.accepted:
        return then, answer._replace(seen=answer.seen._replace(device=Tokens(0)))
    return then, answer


def refuses_the_last(pool: SparseState, call: SparseCall) -> tuple[SparseState, SparseDone]:
    """Growth is refused that takes the last slot."""
    then, answer = perform(pool, call)
    if isinstance(call, SparseGrow) and then != pool and answer.seen.device == 0:
        return pool, SparseDone((), seen(pool), accepted=False)
    return then, answer


def gives_the_last_place(pool: SparseState, call: SparseCall) -> tuple[SparseState, SparseDone]:
    """The newest token of a long sequence is written to the last place of the buffer."""
    then, answer = perform(pool, call)
    if isinstance(call, SparseGrow) and answer.accepted and call.length > pool.room:
        return then, answer._replace(places=(then.held[call.row][pool.room - 1],))
    return then, answer


def shares_a_slot(pool: SparseState, call: SparseCall) -> tuple[SparseState, SparseDone]:
    """A buffer has the first slot of another one."""
    then, answer = perform(pool, call)
    other = then.held.get(1, ())
    if isinstance(call, SparseGrow) and call.row == 0 and other:
        own = (*other[:1], *then.held[0][1:])
        return then, answer._replace(seen=answer.seen._replace(buffers={0: own, 1: other}))
    return then, answer


def keeps_the_newest_slot(pool: SparseState, call: SparseCall) -> tuple[SparseState, SparseDone]:
    """What is given back is as many slots as a buffer has room for."""
    then, answer = perform(pool, call)
    lost = len(pool.held.get(call.row, ())[pool.room :]) if isinstance(call, SparseFree) else 0
    free = len(reference.device_slots(then)) - lost
    return then, answer._replace(seen=answer.seen._replace(device=Tokens(free)))


@pytest.mark.parametrize(
    ("slip", "rule"),
    by_turns(
        [
            (takes_before_it_refuses, "SPARSE-56"),
            (refuses_the_last, "SPARSE-57"),
            (gives_the_last_place, "SPARSE-58"),
            (shares_a_slot, "SPARSE-53"),
            (keeps_the_newest_slot, "SPARSE-59"),
        ]
    ),
)
def test_a_planted_slip_is_found(slip: Perform, rule: str) -> None:
    assert any(rule in one for scope in SCOPES[:3] for one in broken_in(scope, slip)[2])


def least(tokens: Formula, page: int, grows: str = "page") -> Formula:
    return formula_of(lambda *of: grown(of[0], of[1], page, grows)[0], tokens, room)


def most(tokens: Formula, page: int, grows: str = "page") -> Formula:
    return formula_of(lambda *of: grown(of[0], of[1], page, grows)[1], tokens, room)


def refuted(claim: Formula) -> bool:
    """Whether there are numbers against a claim about sequences and buffers."""
    return can_be(n >= 1, m >= n, room >= 1, z3.Not(claim))


def has_the_newest_place(page: int) -> Formula:
    """The newest token's place is in the buffer: that of its number, or the one behind the room."""
    place = z3.If(n - 1 < room, n - 1, room)
    return z3.And(place < least(n, page), place < least(n, page, "whole"))


def never_shrinks(page: int) -> Formula:
    """A longer sequence has as many slots or more, whatever was chosen behind the room."""
    return z3.And(least(n, page) <= least(m, page), most(n, page) <= most(m, page), least(n, page) <= most(n, page))


def ends(page: int) -> Formula:
    """A buffer has no more than a page more than it has room for, and grows no more when it has that."""
    full = z3.Implies(n >= room, z3.And(least(n, page) == room + 1, most(n, page) == room + page))
    return z3.And(full, most(n, page) <= room + page)


def by_the_page(page: int) -> Formula:
    """As long as there is room for whole pages, these are what the sequence takes, and less than a page is unused."""
    return z3.Implies(most(n, page) < room, z3.And(most(n, page) % page == 0, most(n, page) - n < page))


@every_page_size
@pytest.mark.parametrize("claim", by_turns([has_the_newest_place, never_shrinks, ends, by_the_page], every=2))
def test_the_sizes_of_buffers(claim: Callable[[int], Formula], sizes: tuple[int, ...]) -> None:
    assert [page for page in sizes if refuted(claim(page))] == []


def ends_at_the_room(page: int) -> Formula:
    """A slip: a full buffer has no slot more than it has room for."""
    return most(n, page) <= room


def grows_for_ever(page: int) -> Formula:
    """A slip: each sequence has as many slots as tokens."""
    return most(n, page) >= n


@every_page_size
@pytest.mark.parametrize("slip", [ends_at_the_room, grows_for_ever])
def test_a_slip_of_the_sizes_is_refuted(slip: Callable[[int], Formula], sizes: tuple[int, ...]) -> None:
    assert all(refuted(slip(page)) for page in sizes)
