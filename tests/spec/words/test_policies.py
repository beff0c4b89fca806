"""The policies of the specification: what each decides, and that the specimen, which writes its own, decides alike."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlitmus.conformance.specimen.cache import SpecimenTarget
from kvlitmus.conformance.specimen.prefix import backup, works
from kvlitmus.conformance.specimen.prefix import tree as specimen
from kvlitmus.spec.words import policies
from kvlitmus.spec.words.config import CONFIG_VALUES, Config
from kvlitmus.spec.words.prefetch_life import ANSWERED, ENDED, FETCH, QUERY, REVOKED, STAGES
from kvlitmus.spec.words.profile import PROFILE_VALUES, Profile
from kvlitmus.spec.words.units import Key

TIMEOUTS = ((2.0, 0.1, 30.0), (1.0, 1024.0, 0.0), (0.0, 8.0, 0.5), (0.0, 0.0, 0.0))
BASES, ORIGINS = ("hit", "requested"), ("submit", "first_poll")


class Rated(NamedTuple):
    """What a policy looks at."""

    touched: int
    created: int
    hits: int
    priority: int


FEW = st.integers(-2, 4)
rated = st.builds(Rated, st.integers(0, 5), st.integers(0, 5), st.integers(0, 5), FEW)


def waits() -> Iterator[tuple[str, str, tuple[float, float, float], str, str, int, int | None]]:
    """Every stop policy in every stage, with every way to count, and few, many, and unknown units."""
    yield from itertools.product(policies.STOPS, STAGES, TIMEOUTS, BASES, ORIGINS, (4, 1024, 4000), (None, 0, 8, 1024))


def around(limit: float) -> tuple[float, ...]:
    """Times before a limit, at it, and after it."""
    return (0.0, max(0.0, limit - 0.25), limit, limit + 1e-9, limit + 0.25)


def test_what_may_be_configured_is_what_there_is() -> None:
    assert CONFIG_VALUES["policy"] == tuple(policies.POLICIES)
    assert CONFIG_VALUES["write"] == (*policies.WRITES, "asked")
    assert (*policies.USES, policies.WRITE_BACK) == policies.WRITES
    assert CONFIG_VALUES["stop"] == policies.STOPS
    assert PROFILE_VALUES["backup_parent"] == policies.PARENTS
    assert PROFILE_VALUES["timeout_basis"] == BASES and PROFILE_VALUES["timeout_from"] == ORIGINS
    assert Profile().slru_hits == policies.SLRU_HITS


@pytest.mark.parametrize(
    ("policy", "first", "other"),
    [
        ("lru", Rated(1, 9, 9, 9), Rated(2, 0, 0, 0)),
        ("mru", Rated(2, 9, 9, 9), Rated(1, 0, 0, 0)),
        ("fifo", Rated(9, 1, 9, 9), Rated(0, 2, 0, 0)),
        ("filo", Rated(9, 2, 9, 9), Rated(0, 1, 0, 0)),
        ("lfu", Rated(9, 9, 1, 9), Rated(0, 0, 2, 0)),
        ("lfu", Rated(1, 9, 1, 9), Rated(2, 0, 1, 0)),
        ("priority", Rated(9, 9, 9, -1), Rated(0, 0, 0, 0)),
        ("priority", Rated(1, 9, 9, 0), Rated(2, 0, 0, 0)),
        ("slru", Rated(9, 9, 1, 9), Rated(0, 0, 2, 0)),
        ("slru", Rated(1, 9, 5, 9), Rated(2, 0, 2, 0)),
        ("slru", Rated(1, 9, 1, 9), Rated(2, 0, 0, 0)),
    ],
)
def test_each_policy_takes_the_page_that_its_sentence_names(policy: str, first: Rated, other: Rated) -> None:
    worth = policies.worth(policy)
    assert worth(first) < worth(other)


def test_every_policy_is_tried_above() -> None:
    (mark,) = test_each_policy_takes_the_page_that_its_sentence_names.pytestmark  # type: ignore[attr-defined]
    assert {policy for policy, _, _ in mark.args[1]} == set(policies.POLICIES)


@given(rated, rated, st.integers(1, 6))
def test_the_protected_segment_begins_where_the_profile_says(one: Rated, other: Rated, hits: int) -> None:
    worth = policies.worth("slru", hits)
    if (one.hits >= hits) == (other.hits >= hits):
        assert (worth(one) < worth(other)) == (one.touched < other.touched)
    else:
        assert (worth(one) < worth(other)) == (one.hits < hits)


@pytest.mark.parametrize("policy", policies.POLICIES)
@given(rated, rated, st.integers(1, 6), st.integers(1, 6))
def test_counts_that_stop_are_worth_what_they_stopped_at(
    policy: str, one: Rated, other: Rated, hits: int, most: int
) -> None:
    stopped, plain = policies.worth(policy, hits, most), policies.worth(policy, hits)
    low, high = (page._replace(hits=min(page.hits, most)) for page in (one, other))
    assert (stopped(one) < stopped(other)) == (plain(low) < plain(high))


def test_a_policy_that_there_is_none_has_no_worth() -> None:
    with pytest.raises(KeyError):
        policies.worth("lruu")


# -- writing ----------------------------------------------------------------------------------------------


def test_a_page_is_due_at_its_first_or_second_use_or_never() -> None:
    hot = {write: [policies.hot(write, hits) for hits in range(4)] for write in policies.WRITES}
    assert hot == {
        "write_through": [False, True, True, True],
        "write_through_selective": [False, False, True, True],
        "write_back": [False, False, False, False],
    }


@given(st.lists(st.booleans(), max_size=8))
def test_who_waits_for_its_parent_and_who_takes_it_along(hot: list[bool]) -> None:
    skipped, chained = policies.due(hot, policies.SKIP), policies.due(hot, policies.CHAIN)
    assert all(hot[:skipped]) and (skipped == len(hot) or not hot[skipped])
    assert not any(hot[chained:]) and (not chained or hot[chained - 1])
    assert skipped <= chained


# -- waiting ----------------------------------------------------------------------------------------------


def test_the_table_of_stop_policies() -> None:
    table = {
        (stop, stage): tuple(policies.may_stop(stop, stage, elapsed, 1.0) for elapsed in (0.0, 1.0, 1.5))
        for stop in policies.STOPS
        for stage in STAGES
    }
    never, always, late = (False, False, False), (True, True, True), (False, False, True)
    assert table == {
        **{("best_effort", stage): always for stage in STAGES},
        **{("wait_complete", stage): always if stage == ENDED else never for stage in STAGES},
        **{("timeout", stage): late for stage in (QUERY, ANSWERED, FETCH)},
        ("timeout", ENDED): always,
        ("timeout", REVOKED): never,
    }


@pytest.mark.parametrize(
    ("timeout", "units", "limit"),
    [
        ((2.0, 0.1, 30.0), 0, 2.0),
        ((2.0, 8.0, 30.0), 512, 6.0),
        ((2.0, 8.0, 5.0), 512, 5.0),
        ((2.0, 8.0, 0.0), 512, 6.0),
    ],
)
def test_the_time_limit_grows_with_the_units_to_its_maximum(
    timeout: tuple[float, float, float], units: int, limit: float
) -> None:
    assert policies.time_limit(timeout, units) == limit


def test_what_the_time_limit_counts_and_from_when() -> None:
    assert [policies.counted_units("requested", 8, found) for found in (None, 0, 4)] == [8, 8, 8]
    assert [policies.counted_units("hit", 8, found) for found in (None, 0, 4)] == [0, 0, 4]
    assert [policies.time_begins("submit", 1.0, polled) for polled in (None, 2.0)] == [1.0, 1.0]
    assert [policies.time_begins("first_poll", 1.0, polled) for polled in (None, 2.0)] == [None, 2.0]


# -- the specimen writes its own --------------------------------------------------------------------------


@given(rated, rated)
def test_the_specimen_evicts_in_the_same_order(one: Rated, other: Rated) -> None:
    assert specimen.POLICIES.keys() == policies.POLICIES.keys()
    nodes: Any = [SimpleNamespace(**page._asdict(), serial=7) for page in (one, other)]
    for policy, worth in specimen.POLICIES.items():
        mine = [policies.worth(policy)(page) for page in (one, other)]
        theirs = [worth(node) for node in nodes]
        assert (theirs[0] < theirs[1], theirs[0] > theirs[1]) == (mine[0] < mine[1], mine[0] > mine[1]), policy


def test_the_specimen_backs_up_after_as_many_uses() -> None:
    assert backup.USES == policies.USES


SPECIMENS = {QUERY: works.QUERYING, FETCH: works.FETCHING, ENDED: works.ENDED, REVOKED: works.REVOKED}
"""What the specimen calls the stages that it has; it takes memory when it is asked, so it has no ``answered``."""


def test_the_specimen_lets_requests_wait_as_long() -> None:
    tried = 0
    caches = {}
    for stop, stage, timeout, basis, origin, asked, hit in waits():
        if stage not in SPECIMENS:
            continue
        made = (stop, timeout, basis, origin)
        if made not in caches:
            profile = Profile(timeout=timeout, timeout_basis=basis, timeout_from=origin)
            config = Config(host_pages=8, storage="attached", stop=stop)
            caches[made] = SpecimenTarget(profile=profile).make(config).fetches
        fetches = caches[made]
        limit = policies.time_limit(timeout, policies.counted_units(basis, asked, hit))
        fetch = works.Fetch(1, Key(None, (1,)), 0, fetches.tree.root(None))
        fetch.stage, fetch.asked, fetch.hit, fetch.began = SPECIMENS[stage], asked, hit, 3.0
        for elapsed in around(limit):
            fetches.now = 3.0 + elapsed
            passed = fetches.now - 3.0
            assert fetches.may_stop(fetch) == policies.may_stop(stop, stage, passed, limit), (made, stage, elapsed)
            tried += 1
        assert fetches.limit(fetch) == limit
    assert tried == 3 * 4 * len(TIMEOUTS) * 2 * 2 * 3 * 4 * 5


@pytest.mark.parametrize("origin", ORIGINS)
def test_the_specimens_time_begins_when_the_profile_says(origin: str) -> None:
    config = Config(host_pages=8, storage="attached", stop="wait_complete")
    fetches: Any = SpecimenTarget(profile=Profile(timeout_from=origin)).make(config).fetches
    fetches.now = 1.0
    fetch = works.Fetch(1, Key(None, (1,)), 0, fetches.tree.root(None))
    fetches.begin(fetch)
    assert fetch.began == policies.time_begins(origin, 1.0, None)
    for fetches.now in (2.0, 3.0):
        assert not fetches.poll(1)
        assert fetch.began == policies.time_begins(origin, 1.0, 2.0)
