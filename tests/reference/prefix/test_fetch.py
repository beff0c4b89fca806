"""Storage and the host: puts, prefetches, events, storage that comes and goes (rules FETCH, BACKUP, LIFE, EVENT)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kvlitmus.conformance.adapters.reference.flat import PROFILE
from kvlitmus.reference.prefix.hashing import page_hashes
from kvlitmus.spec.interface.tiers import Outcome
from tests.reference.support.desk import Desk


def names_of(desk: Desk, tokens: int) -> tuple[str, ...]:
    return page_hashes(desk.key(tokens), 2)


def test_what_was_stored_is_read_back_as_it_was_written() -> None:
    desk = Desk()
    desk.stored(6)
    assert set(desk.store.contents) == set(names_of(desk, 6))
    assert desk.cache.prefetch(1, desk.key(8))[:3] == (True, 0, 8)
    assert desk.cache.occupied() == 8
    desk.go("query")
    assert [(job.kind, job.key.length, job.start) for job in desk.cache.jobs()] == [("fetch", 6, 0)]
    desk.go("fetch", Outcome("part", 1))
    assert desk.jobs("fetch")[0].done == 2
    desk.go("fetch")
    assert desk.cache.poll(1) and (desk.cache.loaded(1), desk.cache.loaded(1)) == (6, 0)
    assert desk.where(6) == "HHH" and desk.cache.occupied() == 0
    desk.cache.load_back(desk.key(6))
    desk.settle()
    assert desk.on_device(6)


def test_puts_stop_at_a_refusal_and_are_tried_again() -> None:
    desk = Desk()
    desk.cache.attach(desk.store)
    first, second, _ = names_of(desk, 6)
    desk.store.refused.add(second)
    desk.compute(6)
    desk.settle()
    assert set(desk.store.contents) == {first}
    desk.store.refused.clear()
    desk.compute(6)
    assert [(job.start, job.key.length) for job in desk.jobs("put")] == [(2, 6)]
    desk.settle()
    assert set(desk.store.contents) == set(names_of(desk, 6))


def test_pages_from_before_the_storage_are_put_when_they_are_used() -> None:
    desk = Desk()
    desk.compute(4)
    desk.settle()
    assert desk.cache.attach(desk.store) and not desk.cache.attach(desk.store)
    desk.compute(6)
    desk.settle()
    assert set(desk.store.contents) == set(names_of(desk, 6))


@pytest.mark.parametrize(
    ("tokens", "config", "started"),
    [
        (3, {}, True),
        (1, {}, False),
        (6, {"threshold": 6}, True),
        (6, {"threshold": 7}, False),
        (6, {"rate_limit": 0}, False),
    ],
)
def test_the_gates(tokens: int, config: dict[str, Any], started: bool) -> None:
    desk = Desk(**config)
    desk.stored(6)
    before = desk.now
    assert desk.cache.prefetch(1, desk.key(tokens)).started == started
    if not started:
        assert desk.now._replace(device=before.device) == before


def test_without_storage_or_with_one_under_way_a_prefetch_is_refused() -> None:
    desk = Desk()
    assert not desk.cache.prefetch(1, desk.key(6)).started
    desk.cache.attach(desk.store)
    assert desk.cache.prefetch(1, desk.key(6)).started
    assert not desk.cache.prefetch(1, desk.key(8)).started
    assert desk.cache.prefetch(2, desk.key(6)).started


def test_a_prefetch_does_not_begin_behind_a_page_without_a_host_copy() -> None:
    desk = Desk(write="write_through_selective")
    desk.cache.attach(desk.store)
    desk.compute(2)
    assert desk.cache.prefetch(1, desk.key(6))[:3] == (False, 2, 0)
    desk.compute(2)
    assert desk.cache.prefetch(1, desk.key(6))[:3] == (True, 2, 4)


def test_memory_is_adapted_to_what_there_is() -> None:
    desk = Desk(host_pages=3)
    desk.cache.attach(desk.store)
    assert desk.cache.prefetch(1, desk.key(10)).asked == 6
    assert not desk.cache.prefetch(2, desk.key(10)).started
    desk.cache.abandon(1)
    desk.settle()
    assert desk.cache.host_available() == 6


@pytest.mark.parametrize("how", ["short", "fail"])
def test_too_small_a_hit_is_revoked_at_the_next_tick(how: str) -> None:
    desk = Desk(stop="wait_complete")
    desk.stored(6)
    desk.cache.prefetch(1, desk.key(6))
    desk.go("query", Outcome(how, 0))
    assert not desk.cache.poll(1) and desk.cache.occupied() == 6 and desk.cache.host_available() == 10
    desk.cache.tick()
    assert desk.cache.poll(1) and desk.cache.occupied() == 0 and desk.cache.host_available() == 16


def test_a_revocation_does_not_meet_the_next_prefetch_of_its_request() -> None:
    desk = Desk()
    desk.stored(6)
    desk.cache.prefetch(1, desk.key(6))
    desk.go("query", Outcome("short", 0))
    assert desk.cache.poll(1)
    assert desk.cache.prefetch(1, desk.key(6)).started
    desk.cache.tick()
    desk.settle()
    assert desk.cache.poll(1) and desk.cache.loaded(1) == 6


@pytest.mark.parametrize("how", ["short", "fail"])
def test_a_read_that_ends_early_is_over_under_every_policy(how: str) -> None:
    for stop in ("best_effort", "wait_complete", "timeout"):
        desk = Desk(stop=stop)
        desk.stored(6)
        desk.cache.prefetch(1, desk.key(6))
        desk.go("query")
        desk.go("fetch", Outcome(how, 1))
        assert desk.cache.poll(1) and desk.cache.loaded(1) == 2
        desk.cache.tick()
        assert desk.where(6) == "H--" and desk.cache.host_available() == 14


def test_what_storage_raises_or_cuts_short_ends_the_read() -> None:
    desk = Desk(stop="wait_complete")
    desk.stored(6)
    _, second, third = names_of(desk, 6)
    desk.store.broken.add(third)
    desk.store.contents[second] = desk.store.contents[second][:1]
    desk.cache.prefetch(1, desk.key(6))
    desk.settle()
    assert desk.cache.poll(1) and desk.cache.loaded(1) == 2


def test_a_timeout_is_exceeded_not_reached() -> None:
    desk = Desk(replace(PROFILE, timeout=(2.0, 512.0, 4.0)), stop="timeout")
    desk.stored(6)
    desk.cache.set_clock(10.0)
    desk.cache.prefetch(1, desk.key(6))
    desk.cache.set_clock(12.0)
    assert not desk.cache.poll(1)
    desk.go("query")
    desk.cache.set_clock(14.0)
    assert not desk.cache.poll(1)
    desk.cache.set_clock(14.5)
    assert desk.cache.poll(1)


def test_time_may_begin_with_the_first_poll_and_count_what_was_requested() -> None:
    profile = replace(PROFILE, timeout=(1.0, 1024.0, 0.0), timeout_from="first_poll", timeout_basis="requested")
    desk = Desk(profile, stop="timeout")
    desk.stored(6)
    desk.cache.prefetch(1, desk.key(6))
    desk.cache.set_clock(50.0)
    assert not desk.cache.poll(1)
    desk.cache.set_clock(57.0)
    assert not desk.cache.poll(1)
    desk.cache.set_clock(57.5)
    assert desk.cache.poll(1)


def test_what_was_cached_meanwhile_is_freed_at_once_and_the_rest_is_the_trees() -> None:
    desk = Desk()
    desk.stored(6)
    desk.cache.prefetch(1, desk.key(6))
    desk.compute(2)
    desk.go("query")
    desk.go("fetch")
    free = desk.cache.host_available()
    assert desk.cache.poll(1) and desk.cache.loaded(1) == 4
    assert desk.cache.host_available() == free + 2 and desk.where(6) == "BHH"


@pytest.mark.parametrize(("fills", "where", "loaded"), [(False, "D--", 0), (True, "BHH", 4)])
def test_below_a_page_without_a_host_copy_nothing_is_attached_unless_it_is_filled(
    fills: bool, where: str, loaded: int
) -> None:
    desk = Desk(replace(PROFILE, fill_matched=fills), write="write_through_selective")
    desk.cache.attach(desk.store)
    desk.compute(6)
    desk.compute(6)
    desk.settle()
    desk.cache.reset()
    desk.cache.prefetch(1, desk.key(6))
    desk.compute(2)
    desk.settle()
    assert desk.cache.poll(1) and desk.cache.loaded(1) == loaded
    assert desk.where(6) == where


def test_memory_may_be_taken_at_the_hit() -> None:
    desk = Desk(replace(PROFILE, reserve="hit"))
    desk.stored(6)
    assert desk.cache.prefetch(1, desk.key(8)).asked == 8
    assert desk.cache.host_available() == 16
    desk.go("query")
    assert desk.cache.host_available() == 16 and desk.jobs("query")[0].landed
    desk.cache.tick()
    assert desk.cache.host_available() == 10 and len(desk.jobs("fetch")) == 1
    desk.settle()
    assert desk.cache.poll(1) and desk.cache.loaded(1) == 6


@pytest.mark.parametrize("steps", range(4))
def test_an_abort_and_a_detach_return_everything_in_every_stage(steps: int) -> None:
    for detaches in (False, True):
        desk = Desk()
        desk.stored(6)
        desk.compute(2)
        desk.settle()
        desk.cache.prefetch(1, desk.key(6))
        for kind, outcome in [("query", None), ("fetch", Outcome("part", 1)), ("fetch", Outcome())][:steps]:
            desk.go(kind, outcome or Outcome())
        if detaches:
            assert desk.cache.detach() and not desk.cache.detach()
            assert not desk.jobs("query") and not desk.jobs("fetch")
        else:
            desk.cache.abandon(1)
        desk.settle()
        assert desk.where(6) == "B--" and desk.cache.host_available() == 14 and desk.cache.occupied() == 0
        assert all(copy.locks == 0 for copy in desk.now.host.pages.values())


def test_namespaces_share_nothing_in_storage() -> None:
    desk = Desk()
    desk.stored(6)
    desk.cache.prefetch(1, desk.key(6, "tenant"))
    desk.settle()
    assert desk.cache.poll(1) and desk.cache.loaded(1) == 0


def test_events_tell_what_is_on_each_tier() -> None:
    desk = Desk()
    desk.compute(4)
    first, second = names_of(desk, 4)
    told = desk.cache.events()
    assert [(one.what, one.tier, one.page, one.parent, one.units) for one in told] == [
        ("stored", "device", first, None, (0, 1)),
        ("stored", "device", second, first, (2, 3)),
    ]
    desk.go("backup")
    assert not desk.cache.events()
    desk.cache.tick()
    assert [(one.what, one.tier, one.page) for one in desk.cache.events()] == [
        ("stored", "host", first),
        ("stored", "host", second),
    ]
    desk.cache.evict(4)
    desk.cache.evict_host(2)
    assert [(one.what, one.tier, one.page) for one in desk.cache.events()] == [
        ("removed", "device", second),
        ("removed", "device", first),
        ("removed", "host", second),
    ]
    desk.cache.reset()
    assert [one.what for one in desk.cache.events()] == ["cleared"]
