"""Transfers into sparse host memory: every rule holds in all small states, and slips are found."""

from __future__ import annotations

from collections import Counter

import pytest

from kvlitmus.spec.sparse.calls import SparseCall, SparseDone, SparseFree, SparseRequest, SparseTransferred
from kvlitmus.spec.sparse.state import SparseState
from tests.proofs.sparse import transfer as sparse_transfer
from tests.proofs.sparse.transfer import SIZES, breaking_off, broken_in, perform
from tests.proofs.support.sparse_search import Perform, seen
from tests.support.night import by_turns

pytestmark = pytest.mark.proof


@pytest.mark.nightly
def test_every_rule_of_transfers_holds() -> None:
    counts: Counter[str] = Counter()
    for performed in (perform, breaking_off):
        for size in SIZES:
            evaluated, states, broken = broken_in(size, performed)
            assert broken == []
            assert states > 100
            counts += evaluated
    assert {id for ids, _ in sparse_transfer.PROVEN.values() for id in ids} <= counts.keys()
    assert min(counts[rule.id] for rule in sparse_transfer.OF_TRANSFERS) > 10


def frees_under_the_peer(pool: SparseState, call: SparseCall) -> tuple[SparseState, SparseDone]:
    """An abort frees pages that the peer still writes to."""
    then, answer = perform(pool, call)
    if isinstance(call, SparseFree):
        return then, answer._replace(seen=seen(then._replace(transfers={})))
    return then, answer


def keeps_the_last_page(pool: SparseState, call: SparseCall) -> tuple[SparseState, SparseDone]:
    """A page that a prompt fills in part is no destination."""
    then, answer = perform(pool, call)
    if isinstance(call, SparseRequest) and call.peer and call.prompt % pool.page_size:
        return then, answer._replace(pages=answer.pages[:-1])
    return then, answer


def serves_any_peer(pool: SparseState, call: SparseCall) -> tuple[SparseState, SparseDone]:
    """A peer with other pages gets slots."""
    if isinstance(call, SparseRequest) and call.peer:
        call = call._replace(peer=pool.page_size)
    return perform(pool, call)


def takes_failed_for_arrived(pool: SparseState, call: SparseCall) -> tuple[SparseState, SparseDone]:
    """A transfer that failed is taken for one that arrived."""
    return perform(pool, call._replace(arrived=True) if isinstance(call, SparseTransferred) else call)


def backs_up_again(pool: SparseState, call: SparseCall) -> tuple[SparseState, SparseDone]:
    """The first step backs up what is on the host."""
    if isinstance(call, SparseRequest) and call.length:
        return perform(pool._replace(backed=dict.fromkeys(pool.backed, 0)), call)
    return perform(pool, call)


def begins_all_the_same(pool: SparseState, call: SparseCall) -> tuple[SparseState, SparseDone]:
    """Where slots were refused, a transfer begins."""
    then, answer = perform(pool, call)
    if isinstance(call, SparseRequest) and call.peer and answer.slots is None:
        return then, answer._replace(sending=(*answer.sending, pool.sent))
    return then, answer


def forgets_the_end(pool: SparseState, call: SparseCall) -> tuple[SparseState, SparseDone]:
    """A transfer that its peer has ended goes on."""
    then, answer = perform(pool, call)
    if isinstance(call, SparseTransferred):
        return then, answer._replace(sending=tuple(pool.transfers))
    return then, answer


@pytest.mark.parametrize(
    ("slip", "rule"),
    by_turns(
        [
            (frees_under_the_peer, "SPARSE-06"),
            (keeps_the_last_page, "SPARSE-47"),
            (serves_any_peer, "SPARSE-12"),
            (takes_failed_for_arrived, "SPARSE-06"),
            (takes_failed_for_arrived, "SPARSE-17"),
            (backs_up_again, "SPARSE-38"),
            (begins_all_the_same, "SPARSE-48"),
            (forgets_the_end, "SPARSE-48"),
        ]
    ),
)
def test_a_planted_slip_is_found(slip: Perform, rule: str) -> None:
    assert rule in broken_in(2, slip)[2][0]
