"""Pages on two tiers: matching, evicting, backing up, loading back (rules TIER, BACKUP, LOAD)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvlitmus.conformance.adapters.reference.flat import PROFILE
from kvlitmus.reference.prefix.hierarchy import alone_of, host_homes, pin, works_of
from kvlitmus.reference.prefix.perform import Choice, perform
from kvlitmus.reference.prefix.tier import allocate
from kvlitmus.spec.interface.tiers import DONE
from kvlitmus.spec.prefix.calls import Begin, End, Evict, Reset
from kvlitmus.spec.prefix.page import empty_tier
from kvlitmus.spec.prefix.prefetch_advance import tiers_of
from kvlitmus.spec.prefix.work_calls import Tick
from kvlitmus.spec.words.units import Name, PageNo, Tokens
from tests.reference.support.desk import Desk


def test_a_page_is_backed_up_at_its_first_use_demoted_and_loaded_back() -> None:
    desk = Desk()
    desk.compute(6)
    assert desk.where(6) == "BBB"
    desk.go("backup")
    desk.cache.tick()
    assert desk.cache.evict(4) == 4
    desk.scribble()
    assert desk.where(6) == "BHH"
    hit = desk.cache.match(desk.key(7))
    assert (hit.length, hit.host) == (2, 4)
    assert desk.cache.load_back(desk.key(7)).before == 2
    assert desk.where(6) == "BBB" and not desk.on_device(6)
    desk.go("load")
    assert desk.on_device(6)


def test_selective_backs_up_at_the_second_use_and_write_back_at_the_eviction() -> None:
    desk = Desk(write="write_through_selective")
    desk.compute(4)
    assert desk.where(4) == "DD" and not desk.jobs("backup")
    desk.compute(4)
    assert desk.where(4) == "BB" and len(desk.jobs("backup")) == 1
    desk = Desk(write="write_back")
    desk.compute(4)
    desk.compute(4)
    assert desk.where(4) == "DD"
    assert desk.cache.evict(4) == 4
    assert desk.where(4) == "HH" and not desk.jobs("backup")
    desk.cache.load_back(desk.key(4))
    desk.settle()
    assert desk.on_device(4)


def test_what_is_being_backed_up_stays_on_the_device_until_a_tick_notices() -> None:
    desk = Desk()
    desk.compute(4)
    assert desk.cache.evict(8) == 0
    desk.go("backup")
    assert desk.cache.evict(8) == 0
    desk.cache.tick()
    assert desk.cache.evict(8) == 4


def test_acks_come_in_the_order_of_submission() -> None:
    desk = Desk()
    desk.compute(2)
    desk.compute([7, 8])
    first, second = desk.jobs("backup")
    desk.cache.advance(second.id, DONE)
    desk.cache.tick()
    assert [job.id for job in desk.jobs("backup")] == [first.id, second.id]
    desk.go("backup")
    desk.cache.tick()
    assert not desk.jobs("backup")


def test_a_backup_without_room_waits_for_the_next_use() -> None:
    desk = Desk(host_pages=2)
    desk.compute(6)
    assert desk.where(6) == "DDD"
    desk.compute([8, 9])
    assert desk.where([8, 9]) == "B" and desk.where(6) == "DDD"


def test_write_through_deletes_what_is_not_backed_and_write_back_passes_over_what_has_no_room() -> None:
    desk = Desk(host_pages=1)
    desk.compute(6)
    assert desk.cache.evict(4) == 4
    assert desk.where(6) == "D--"
    desk = Desk(host_pages=2, write="write_back")
    desk.compute(6)
    held = desk.cache.lock(desk.cache.match(desk.key(2)).handle)
    desk.cache.fail_host_alloc(0)
    assert desk.cache.evict(4) == 4
    assert desk.where(6) == "DHH"
    desk.cache.unlock(held)


def test_the_host_drops_childless_pages_that_are_nowhere_else_and_that_nothing_reads() -> None:
    desk = Desk()
    desk.compute(6)
    desk.settle()
    desk.cache.evict(4)
    assert desk.cache.evict_host(1) == 2
    assert desk.where(6) == "BH-"
    assert desk.cache.evict_host(100) == 2
    assert desk.where(6) == "B--"


def test_a_load_pins_its_sources_and_is_all_or_nothing() -> None:
    desk = Desk(pages=3)
    desk.compute(6)
    desk.settle()
    desk.cache.evict(6)
    taken = desk.cache.alloc(2)
    assert desk.cache.load_back(desk.key(6)).slots is None
    assert desk.where(6) == "HHH" and not desk.jobs("load")
    assert taken is not None
    desk.cache.free(taken)
    assert len(desk.cache.load_back(desk.key(6)).slots or ()) == 6
    assert desk.cache.evict_host(100) == 0
    desk.settle()
    assert desk.on_device(6)


def test_a_load_back_below_the_threshold_is_declined() -> None:
    desk = Desk(replace(PROFILE, load_threshold=4))
    desk.compute(4)
    desk.settle()
    desk.cache.evict(2)
    assert desk.cache.load_back(desk.key(4)).slots is None
    desk.cache.evict(2)
    assert len(desk.cache.load_back(desk.key(4)).slots or ()) == 4


def test_an_insert_over_pages_of_the_host_takes_the_callers_slots_and_keeps_what_was_known() -> None:
    for counts, hits in ((False, 1), (True, 2)):
        desk = Desk(replace(PROFILE, restored_counts=counts))
        desk.compute(4)
        desk.settle()
        desk.cache.evict(4)
        slots = desk.cache.alloc(4)
        assert slots is not None
        assert desk.cache.insert(desk.key(4), slots) == (0, ())
        (node,) = desk.cache.tiers().nodes
        assert (node.slots, node.hits) == (slots, hits)
        assert desk.where(4) == "BB"


def test_the_choice_of_victims_is_taken_and_impossible_ones_are_refused() -> None:
    desk = Desk(write="write_back", host_pages=1)
    desk.compute(4)
    first, second = desk.cache.path(desk.key(4)).pages
    setting, call = desk.cache.setting, Evict(Tokens(2))
    step = perform(desk.now, setting, call, Choice(victims=(second,)))
    assert step.answer == 2 and set(alone_of(step.after)) == {second}
    with pytest.raises(ValueError, match="no room"):
        perform(pin(step.after, [second]), setting, call, Choice(victims=(first,)))
    with pytest.raises(ValueError, match="to leave the device"):
        perform(desk.now, setting, call, Choice(victims=()))
    with pytest.raises(ValueError, match="no room"):
        perform(step.after, setting, call, Choice(victims=(first,), host_victims=()))


def test_where_the_host_keeps_a_page_is_a_choice_among_its_free_pages() -> None:
    desk = Desk()
    names = desk.cache.path(desk.key(4)).pages
    call = Begin(1, desk.cache.path(desk.key(4), row=True))
    running = perform(desk.now, desk.cache.setting, call).after
    chosen = dict(zip(names, map(PageNo, (5, 2)), strict=True))
    after = perform(running, desk.cache.setting, End(1, True), Choice(host_pages=chosen)).after
    assert {name: copy.page for name, copy in after.host.pages.items()} == chosen
    for wrong in ({names[0]: PageNo(8)}, dict.fromkeys(names, PageNo(3))):
        with pytest.raises(ValueError, match="free pages"):
            perform(running, desk.cache.setting, End(1, True), Choice(host_pages=wrong))


def test_a_tick_notes_no_more_than_it_chooses_to() -> None:
    desk = Desk()
    desk.compute(2)
    desk.compute([7, 8])
    first, second = desk.jobs("backup")
    for job in (first, second):
        desk.cache.advance(job.id, DONE)
    for ended, left in (((), 2), ((second.id,), 2), ((first.id,), 1), (None, 0)):
        after = perform(desk.now, desk.cache.setting, Tick(), Choice(ended=ended)).after
        assert len(works_of(after).transfers) == left


def test_books_that_do_not_add_up_are_told() -> None:
    desk = Desk()
    desk.compute(2)
    now, setting = desk.now, desk.cache.setting
    works = works_of(now)
    with pytest.raises(ValueError, match="lost"):
        host_homes(now._replace(host=empty_tier()), setting)
    with pytest.raises(ValueError, match="twice"):
        host_homes(now._replace(works=works._replace(release=(next(iter(works.free)),))), setting)
    one, *others = works.free
    with pytest.raises(ValueError, match=rf"twice \[{others[0]}\], lost \[{one}\]"):
        host_homes(now._replace(works=works._replace(free=frozenset(others), release=(others[0],))), setting)
    with pytest.raises(ValueError, match="not pinned"):
        pin(now, list(now.host.pages), -1)
    desk.cache.begin(1, desk.key(2))
    with pytest.raises(ValueError, match="running already"):
        desk.cache.begin(1, desk.key(2))


def test_whole_nodes_move_between_tiers_where_the_profile_says_so() -> None:
    desk = Desk(replace(PROFILE, evict_granularity="node"))
    desk.compute(6)
    desk.settle()
    assert desk.cache.evict(1) == 6
    assert desk.where(6) == "HHH"
    assert desk.cache.evict_host(1) == 6


def test_a_reset_is_as_new_whatever_is_under_way() -> None:
    desk = Desk()
    desk.stored(6)
    desk.compute(2)
    desk.cache.prefetch(1, desk.key(6))
    desk.go("query")
    serial = works_of(desk.now).serial
    fresh, new = perform(desk.now, desk.cache.setting, Reset()).after, Desk().now
    storage, works = tiers_of(new)._replace(attached=True), works_of(new)._replace(serial=serial)
    assert fresh == new._replace(tiers=storage, works=works)


@pytest.mark.parametrize("after", range(3))
def test_the_allocation_that_was_asked_to_fails_and_no_other(after: int) -> None:
    desk = Desk()
    desk.cache.fail_host_alloc(after)
    state, granted = desk.now, []
    for turn in range(4):
        state, pages = allocate(state, [Name(turn)], Choice())
        granted.append(pages is not None)
    assert granted == [turn != after for turn in range(4)]


def test_a_chosen_page_that_is_not_free_is_passed_over_where_it_may_have_been_used_again() -> None:
    state, first = allocate(Desk().now, [Name(1)], Choice())
    assert first is not None
    chosen = Choice(host_pages={Name(2): first[0], Name(3): PageNo(first[0] + 1)})

    _, pages = allocate(state, [Name(2), Name(3)], chosen, reused=True)

    assert pages is not None and first[0] not in pages and pages[1] == first[0] + 1
    with pytest.raises(ValueError, match="no correct cache chooses so"):
        allocate(state, [Name(2)], chosen)
