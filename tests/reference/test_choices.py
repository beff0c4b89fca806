"""What a cache may choose, the reference does when it is told so; what it may not choose is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvlitmus.conformance.adapters.reference.flat import PROFILE
from kvlitmus.reference.choose import Choice
from kvlitmus.reference.hierarchy import host_of, moving
from kvlitmus.reference.perform import perform
from kvlitmus.spec.calls import Evict
from kvlitmus.spec.interface.tiers import Outcome
from kvlitmus.spec.tier_calls import Advance, FailCopy, Poll, TellLoaded, Tick
from kvlitmus.spec.units import Tokens
from tests.reference.support.desk import Desk

NOT_SO = "no correct cache chooses so"


def asking() -> Desk:
    """A desk with the query of a prefetch under way, of which storage has half."""
    desk = Desk()
    desk.stored(6)
    desk.cache.prefetch(1, desk.key(6))
    return desk


@pytest.mark.parametrize("freed", range(3))
def test_what_storage_has_not_is_free_at_once_or_waits_for_a_tick(freed: int) -> None:
    desk = asking()
    (query,) = desk.jobs("query")
    step = perform(desk.now, desk.cache.setting, Advance(query.id, Outcome("short", 1)), Choice(released=freed))
    before, after = host_of(step.before), host_of(step.after)
    assert len(after.free) == len(before.free) + freed and len(after.release) == 2 - freed
    assert sorted([*after.free, *moving(step.after)]) == sorted([*before.free, *moving(step.before)])
    left = perform(step.after, desk.cache.setting, Tick()).after
    assert not host_of(left).release


def test_no_more_is_free_at_once_than_was_given_back() -> None:
    desk = asking()
    (query,) = desk.jobs("query")
    with pytest.raises(ValueError, match=NOT_SO):
        perform(desk.now, desk.cache.setting, Advance(query.id, Outcome("short", 1)), Choice(released=3))


def test_what_was_brought_in_vain_may_wait_for_a_tick() -> None:
    desk = asking()
    desk.compute(2)
    desk.go("query")
    desk.go("fetch")
    step = perform(desk.now, desk.cache.setting, Poll(1), Choice(released=0))
    assert host_of(step.after).free == host_of(step.before).free and len(host_of(step.after).release) == 1


@pytest.mark.parametrize("told", [4, 6])
def test_what_was_filled_may_be_told_or_not(told: int) -> None:
    desk = filled()
    step = perform(desk.now, desk.cache.setting, TellLoaded(1), Choice(told=Tokens(told)))
    assert step.answer == told
    assert perform(step.after, desk.cache.setting, TellLoaded(1)).answer == 0


@pytest.mark.parametrize("told", [2, 8])
def test_neither_less_nor_more_is_told(told: int) -> None:
    desk = filled()
    with pytest.raises(ValueError, match=NOT_SO):
        perform(desk.now, desk.cache.setting, TellLoaded(1), Choice(told=Tokens(told)))


def filled() -> Desk:
    """A desk where a prefetch of three pages found the first on the device alone, and gave it a copy."""
    desk = Desk(replace(PROFILE, fill_matched=True), write="write_through_selective")
    desk.cache.attach(desk.store)
    desk.compute(6)
    desk.compute(6)
    desk.settle()
    desk.cache.reset()
    desk.cache.prefetch(1, desk.key(6))
    desk.compute(2)
    desk.settle()
    assert desk.cache.poll(1)
    return desk


def test_what_was_read_may_count_from_the_next_tick_on() -> None:
    desk = Desk(replace(PROFILE, commit="tick"))
    desk.stored(6)
    desk.cache.prefetch(1, desk.key(6))
    desk.go("query")
    desk.go("fetch", Outcome("part", 1))
    desk.cache.tick()
    desk.go("fetch", Outcome("part", 1))
    assert desk.cache.poll(1) and desk.cache.loaded(1) == 2
    assert desk.where(6) == "H--" and len(moving(desk.now)) == 2
    desk.go("fetch")
    desk.cache.tick()
    assert not moving(desk.now)


def test_a_tick_may_commit_what_has_ended() -> None:
    desk = Desk(replace(PROFILE, commit="tick"))
    desk.stored(6)
    desk.cache.prefetch(1, desk.key(6))
    desk.go("query")
    desk.go("fetch")
    assert desk.where(6) == "---"
    desk.cache.tick()
    assert desk.where(6) == "HHH" and desk.cache.poll(1) and desk.cache.loaded(1) == 6


def spilling() -> Desk:
    """A desk under write-back, with two pages on the device, the second of which will fail to be copied."""
    desk = Desk(write="write_back")
    desk.compute(4)
    desk.cache.fail_copy("spill", 0)
    return desk


def test_a_page_that_could_not_be_copied_stays_or_is_given_up() -> None:
    desk = spilling()
    (last,) = desk.cache.path(desk.key(4)).pages[1:]
    stays = perform(desk.now, desk.cache.setting, Evict(Tokens(2)))
    assert stays.answer == 0 and last in stays.after.tree.pages
    lost = perform(
        desk.now, desk.cache.setting, Evict(Tokens(2)), Choice((last,), host_victims=(last,), given_up=(last,))
    )
    assert lost.answer == 2 and last not in lost.after.tree.pages and last not in host_of(lost.after).copies


def test_with_a_page_that_is_given_up_goes_what_is_below_it() -> None:
    desk = Desk(write="write_back")
    desk.compute(4)
    desk.cache.evict(2)
    desk.cache.fail_copy("spill", 0)
    first, last = desk.cache.path(desk.key(4)).pages
    choice = Choice((first,), host_victims=(first, last), given_up=(first,))
    step = perform(desk.now, desk.cache.setting, Evict(Tokens(2)), choice)
    assert not step.after.tree.pages and not host_of(step.after).copies and len(host_of(step.after).free) == 8


def test_a_page_that_can_be_copied_is_not_given_up() -> None:
    desk = spilling()
    (last,) = desk.cache.path(desk.key(4)).pages[1:]
    now = perform(desk.now, desk.cache.setting, FailCopy("spill", 5)).after
    with pytest.raises(ValueError, match=NOT_SO):
        perform(now, desk.cache.setting, Evict(Tokens(2)), Choice((last,), host_victims=(last,), given_up=(last,)))


def test_a_copy_that_failed_begins_again_or_not() -> None:
    desk = Desk()
    desk.compute(4)
    (job,) = desk.jobs("backup")
    desk.cache.advance(job.id, Outcome("fail"))
    over = Choice(ended={job.id}, again={job.id})
    assert not host_of(perform(desk.now, desk.cache.setting, Tick()).after).transfers
    (again,) = host_of(perform(desk.now, desk.cache.setting, Tick(), over).after).transfers
    assert again.id != job.id and not again.landed
    desk.cache.fail_copy("backup", 0)
    (waits,) = host_of(perform(desk.now, desk.cache.setting, Tick(), over).after).transfers
    assert waits.id == job.id and waits.failed
