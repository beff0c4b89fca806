"""The optimized cache writes its own policies: they decide as those of the specification, for every value."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("numba")

import numpy as np

from kvlitmus.optimized import backup, fetch, policy, work
from kvlitmus.optimized.branch import Branch, Place
from kvlitmus.optimized.fetch import Fetches, FetchSettings
from kvlitmus.optimized.work import Operation
from kvlitmus.spec.words import policies
from kvlitmus.spec.words.prefetch_life import ENDED, FETCH, QUERY, REVOKED
from tests.spec.words.test_policies import BASES, TIMEOUTS, Rated, around, rated

UNITS = np.empty(0, np.int32)
STAGES = {QUERY: work.QUERYING, FETCH: work.FETCHING, ENDED: work.ENDED, REVOKED: work.REVOKED}
"""What the optimized cache calls the stages that it has; it never is at ``answered``."""


def branch(page: Rated) -> Branch:
    """A branch whose pages all have these numbers."""
    made = Branch(None, None, 0, 0, page.touched, UNITS)
    made.created, made.priority, made.nodes = page.created, page.priority, page.hits
    return made


def order(worths: Sequence[tuple[int, ...]]) -> tuple[bool, bool]:
    """Whether the first goes first, whether the other does."""
    one, other = worths
    return one < other, one > other


@given(rated, rated)
def test_it_evicts_in_the_same_order(one: Rated, other: Rated) -> None:
    assert policy.POLICIES.keys() == policies.POLICIES.keys()
    for name, worth in policy.POLICIES.items():
        mine = [policies.worth(name)(page) for page in (one, other)]
        assert order([worth(branch(page), 0) for page in (one, other)]) == order(mine), name


@given(st.sampled_from(policies.WRITES), st.integers(0, 3))
def test_a_page_is_due_after_as_many_uses(write: str, hits: int) -> None:
    uses = backup.USES[write]
    assert bool(uses and hits >= uses) == policies.hot(write, hits)
    assert backup.USES.keys() == set(policies.WRITES)


def test_it_lets_requests_wait_as_long() -> None:
    assert set(policies.STOPS) == set(fetch.STOPS)
    size, fetches = 4, object.__new__(Fetches)
    fetches.size = size
    for stop, timeout, basis, asked, hit in itertools.product(
        policies.STOPS, TIMEOUTS, BASES, (4, 1024, 4000), (0, 2, 256)
    ):
        fetches.settings = FetchSettings(stop=stop, timeout=timeout, timeout_basis=basis)
        operation = Operation(1, None, Place(branch(Rated(0, 0, 0, 0)), 0), UNITS, 0)
        operation.asked, operation.hit = asked, hit
        limit = policies.time_limit(timeout, policies.counted_units(basis, asked, hit * size))
        assert fetches.limit(operation) == limit
        for stage, own in STAGES.items():
            operation.stage = own
            for elapsed in around(limit):
                assert fetches.may_stop(operation, elapsed) == policies.may_stop(stop, stage, elapsed, limit)
