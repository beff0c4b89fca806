"""Admission to sparse host memory, and backups: every rule holds in all small states, and slips are found."""

from __future__ import annotations

from collections import Counter

import pytest

from kvlitmus.spec.sparse.calls import SparseCall, SparseDone, SparseRequest, SparseReserve
from kvlitmus.spec.sparse.state import SparseState
from tests.proofs.sparse import admission as sparse_admission
from tests.proofs.sparse.admission import SIZES, broken_in, perform
from tests.proofs.support.sparse_search import Perform, seen
from tests.support.night import by_turns

pytestmark = pytest.mark.proof


def test_every_rule_of_admission_holds() -> None:
    counts: Counter[str] = Counter()
    for size in SIZES:
        evaluated, states, broken = broken_in(size)
        assert broken == []
        assert states > 100
        counts += evaluated
    assert {id for ids, _ in sparse_admission.PROVEN.values() for id in ids} <= counts.keys()
    assert min(counts[rule.id] for rule in sparse_admission.OF_ADMISSION) > 10


def looks_away(pool: SparseState, call: SparseCall) -> tuple[SparseState, SparseDone]:
    """What is promised already isn't counted at admission."""
    if not isinstance(call, SparseReserve):
        return perform(pool, call)
    admitted = perform(pool._replace(reserved={}), call)[1].accepted
    return pool, SparseDone((), seen(pool), admitted)


def serves_the_first(pool: SparseState, call: SparseCall) -> tuple[SparseState, SparseDone]:
    """Who asks first gets what is promised to another row."""
    return perform(pool._replace(reserved={}) if isinstance(call, SparseRequest) else pool, call)


def backs_up_again(pool: SparseState, call: SparseCall) -> tuple[SparseState, SparseDone]:
    """The first step backs up what is on the host."""
    if isinstance(call, SparseRequest) and call.length:
        return perform(pool._replace(backed=dict.fromkeys(pool.backed, 0)), call)
    return perform(pool, call)


@pytest.mark.parametrize(
    ("slip", "rule"),
    by_turns([(looks_away, "SPARSE-39"), (serves_the_first, "SPARSE-13"), (backs_up_again, "SPARSE-38")]),
)
def test_a_planted_slip_is_found(slip: Perform, rule: str) -> None:
    assert rule in broken_in(1, slip)[2][0]
