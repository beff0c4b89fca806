"""Staging: every rule holds in all small states, and slips are found."""

from __future__ import annotations

from collections import Counter

import pytest

from kvlitmus.spec.sparse.calls import SparseCall, SparseDone, SparseFree, SparseReady
from kvlitmus.spec.sparse.state import SparseState
from tests.proofs.sparse import staging as sparse_staging
from tests.proofs.sparse.staging import SIZES, broken_in, one_by_one, perform, waiting
from tests.proofs.support.sparse_search import Perform, seen
from tests.support.night import by_turns

pytestmark = pytest.mark.proof


@pytest.mark.parametrize("performed", by_turns((perform, waiting, one_by_one)))
def test_every_rule_of_staging_holds(performed: Perform) -> None:
    counts: Counter[str] = Counter()
    for size in SIZES:
        evaluated, states, broken = broken_in(size, performed)
        assert broken == []
        assert states > 100
        counts += evaluated
    assert {id for ids, _ in sparse_staging.PROVEN.values() for id in ids} <= counts.keys()
    assert min(counts[rule.id] for rule in sparse_staging.OF_STAGING) > 10


def frees_under_the_copy(pool: SparseState, call: SparseCall) -> tuple[SparseState, SparseDone]:
    """Pages are free when their row is given back, and the copy goes on."""
    then, answer = perform(pool, call)
    if isinstance(call, SparseFree):
        then = then._replace(copies={n: copy._replace(left=False) for n, copy in then.copies.items()})
    return then, answer._replace(seen=seen(then))


def by_count(pool: SparseState, call: SparseCall) -> tuple[SparseState, SparseDone]:
    """As many rows are acknowledged as there are copies that have ended, from the head of the queue."""
    if not isinstance(call, SparseReady):
        return perform(pool, call)
    many = sum(one.copy not in pool.copies for one in pool.waiting)
    rows = tuple([one.row for one in pool.waiting[:many]])
    then = pool._replace(waiting=pool.waiting[many:])
    return then, SparseDone((), seen(then), copying=tuple(then.copies), ready=rows)


@pytest.mark.parametrize(("slip", "rule"), [(frees_under_the_copy, "SPARSE-06"), (by_count, "SPARSE-30")])
def test_a_planted_slip_is_found(slip: Perform, rule: str) -> None:
    assert rule in broken_in(1, slip)[2][0]
