"""Buffers of sparse rows: every rule holds in all small states, the order is that of last use, and slips are found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from kvlitmus.reference import sparse as reference
from kvlitmus.spec.sparse.buffer import SparseBuffer, swapped
from tests.proofs.sparse import swaps as sparse_swaps
from tests.proofs.sparse.swaps import ROOMS, broken_in, other_than_by_stamps

pytestmark = pytest.mark.proof


def test_every_rule_of_sparse_buffers_holds() -> None:
    counts: Counter[str] = Counter()
    for room in ROOMS:
        evaluated, states, broken = broken_in(room)
        assert broken == []
        assert states > 5
        counts += evaluated
    assert counts.keys() == {rule.id for rule in sparse_swaps.RULES}
    assert min(counts.values()) > 10


@pytest.mark.parametrize("room", [1, 2])
def test_places_are_used_anew_in_the_order_of_their_last_use(room: int) -> None:
    assert other_than_by_stamps(room) == ""


def most_recent_first(buffer: SparseBuffer, length: int, wanted: Sequence[int]) -> tuple[SparseBuffer, tuple[int, ...]]:
    """The places are taken from the wrong end."""
    then, places = swapped(buffer._replace(order=buffer.order[::-1]), length, wanted)
    return then._replace(order=then.order[::-1]), places


def hits_are_no_use(buffer: SparseBuffer, length: int, wanted: Sequence[int]) -> tuple[SparseBuffer, tuple[int, ...]]:
    """Tokens that are there stay where they are in the order."""
    then, places = swapped(buffer, length, wanted)
    hits = [place for place in buffer.order if buffer.tokens[place] in wanted]
    if length > buffer.room and len(hits) < buffer.room:
        then = then._replace(order=(*hits, *[place for place in then.order if place not in hits]))
    return then, places


def test_a_planted_slip_is_found() -> None:
    assert "SPARSE-28" in broken_in(2, most_recent_first)[2][0]
    assert other_than_by_stamps(2, most_recent_first)
    assert other_than_by_stamps(2, hits_are_no_use)


def test_a_pool_that_takes_any_wish_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "may_be_wanted", lambda *_: True)
    assert "SPARSE-63" in broken_in(2)[2][0]
