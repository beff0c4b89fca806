"""What a cache may choose, the reference does when it is told so; what it may not choose is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from kvlitmus.conformance.adapters.reference.flat import PROFILE, ReferenceCache
from kvlitmus.conformance.adapters.reference.target import ReferenceTarget
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.engine import run_item
from kvlitmus.conformance.run.plan import TIER_CONFIGS
from kvlitmus.conformance.run.results import Item, Options
from kvlitmus.reference.prefix.choose import Choice
from kvlitmus.reference.prefix.hierarchy import moving, works_of
from kvlitmus.reference.prefix.perform import perform
from kvlitmus.spec.interface.tiers import Outcome
from kvlitmus.spec.prefix import effects
from kvlitmus.spec.prefix.calls import Evict, Insert
from kvlitmus.spec.prefix.work_calls import Advance, EvictHost, FailCopy, LoadBack, Poll, TellLoaded, Tick
from kvlitmus.spec.words.units import Key, PageNo, Slot, Tokens
from tests.reference.support.desk import Desk

NOT_SO = "no correct cache chooses so"
FLAT = (Config(page_size=1, pages=8), Config(page_size=4, pages=12))


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
    before, after = works_of(step.before), works_of(step.after)
    assert len(after.free) == len(before.free) + freed and len(after.release) == 2 - freed
    assert sorted([*after.free, *moving(step.after)]) == sorted([*before.free, *moving(step.before)])
    left = perform(step.after, desk.cache.setting, Tick()).after
    assert not works_of(left).release


def test_no_more_is_free_at_once_than_was_given_back() -> None:
    desk = asking()
    (query,) = desk.jobs("query")
    with pytest.raises(ValueError, match=NOT_SO):
        perform(desk.now, desk.cache.setting, Advance(query.id, Outcome("short", 1)), Choice(released=3))


def test_duplicates_may_wait_for_a_tick() -> None:
    desk = asking()
    desk.compute(2)
    desk.go("query")
    desk.go("fetch")
    step = perform(desk.now, desk.cache.setting, Poll(1), Choice(released=0))
    assert works_of(step.after).free == works_of(step.before).free and len(works_of(step.after).release) == 1


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
    assert stays.answer == 0 and last in stays.after.device.pages
    lost = perform(
        desk.now, desk.cache.setting, Evict(Tokens(2)), Choice((last,), host_victims=(last,), given_up=(last,))
    )
    assert lost.answer == 2 and last not in lost.after.device.pages and last not in lost.after.host.pages


def test_with_a_page_that_is_given_up_goes_what_is_below_it() -> None:
    desk = Desk(write="write_back")
    desk.compute(4)
    desk.cache.evict(2)
    desk.cache.fail_copy("spill", 0)
    first, last = desk.cache.path(desk.key(4)).pages
    choice = Choice((first,), host_victims=(first, last), given_up=(first,))
    step = perform(desk.now, desk.cache.setting, Evict(Tokens(2)), choice)
    assert not step.after.device.pages and not step.after.host.pages and len(works_of(step.after).free) == 8


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
    assert not works_of(perform(desk.now, desk.cache.setting, Tick()).after).transfers
    (again,) = works_of(perform(desk.now, desk.cache.setting, Tick(), over).after).transfers
    assert again.id != job.id and not again.landed
    desk.cache.fail_copy("backup", 0)
    (waits,) = works_of(perform(desk.now, desk.cache.setting, Tick(), over).after).transfers
    assert waits.id == job.id and waits.failed


def test_a_copy_may_be_over_when_the_call_returns() -> None:
    desk = Desk()
    slots = desk.cache.alloc(4)
    assert slots is not None
    insert = Insert(desk.cache.path(desk.key(4)), tuple(map(Slot, slots)), 0, 0, False)
    step = perform(desk.now, desk.cache.setting, insert, Choice(at_once=True))
    own = works_of(step.after)
    assert own.settled == step.after.host.pages.keys() and len(own.settled) == 2
    assert not any(copy.locks for copy in step.after.host.pages.values())
    assert not own.transfers and not any(page.locks for page in step.after.device.pages.values())


@pytest.mark.parametrize("chunks", [False, True])
def test_a_chunk_is_backed_up_or_not(chunks: bool) -> None:
    desk = Desk(replace(PROFILE, hit_counts="none"))
    slots = desk.cache.alloc(4)
    assert slots is not None
    insert = Insert(desk.cache.path(desk.key(4)), tuple(map(Slot, slots)), 0, 0, True)
    step = perform(desk.now, desk.cache.setting, insert, Choice(chunks=chunks))
    assert len(step.after.host.pages) == 2 * chunks


def test_a_backup_may_be_left_to_the_next_tick() -> None:
    desk = Desk(replace(PROFILE, backup_moment="tick"))
    slots = desk.cache.alloc(4)
    assert slots is not None
    path = desk.cache.path(desk.key(4))
    insert = Insert(path, tuple(map(Slot, slots)), 0, 0, False)
    now = perform(desk.now, desk.cache.setting, insert, Choice(postponed=True)).after
    assert not works_of(now).transfers and not now.host.pages
    after = perform(now, desk.cache.setting, Tick()).after
    assert [one.names for one in works_of(after).transfers] == [path.pages] and not works_of(after).postponed
    left = perform(now, desk.cache.setting, Evict(Tokens(2))).after
    after = perform(left, desk.cache.setting, Tick()).after
    assert [one.names for one in works_of(after).transfers] == [path.pages[:1]]


@pytest.mark.parametrize("uncounted", [False, True])
def test_uses_that_nobody_counted_may_make_a_backup_due(uncounted: bool) -> None:
    desk = Desk(write="write_through_selective")
    slots = desk.cache.alloc(4)
    assert slots is not None
    path = desk.cache.path(desk.key(4))
    insert = Insert(path, tuple(map(Slot, slots)), 0, 0, False)
    now = perform(desk.now, desk.cache.setting, insert, Choice(uncounted=uncounted)).after
    assert [one.names for one in works_of(now).transfers] == [path.pages] * uncounted


def test_a_load_of_nothing_may_be_declined_and_no_other() -> None:
    desk = Desk(write="write_back")
    desk.compute(4)
    load = LoadBack(desk.cache.path(desk.key(4)), None)
    for declined, slots in ((False, ()), (True, None)):
        assert perform(desk.now, desk.cache.setting, load, Choice(declined=declined)).answer == (4, slots)
    desk.cache.evict(4)
    answer = perform(desk.now, desk.cache.setting, load, Choice(declined=True)).answer
    assert answer.before == 0 and len(answer.slots) == 4


def test_a_copy_that_was_reclaimed_is_made_anew_when_its_page_leaves_the_device() -> None:
    profile = replace(PROFILE, host_duplicates="reclaimed")
    desk = Desk(profile, write="write_back", host_pages=3)
    desk.compute(4)
    desk.cache.evict(4)
    assert desk.cache.load_back(desk.key(4)).slots is not None
    desk.settle()
    desk.compute([9, 9, 8, 8])
    assert desk.cache.match(desk.key(4)).length == 4
    first, second = desk.cache.path(desk.key(4)).pages
    third, last = desk.cache.path(desk.key([9, 9, 8, 8])).pages
    victims, places = (first, second, third, last), {first: PageNo(2), third: PageNo(0)}
    step = perform(desk.now, desk.cache.setting, Evict(Tokens(8)), Choice(victims, None, None, (first, last), places))
    copies = step.after.host.pages
    assert {name: copies[name].page for name in copies} == {first: 2, second: 1, third: 0}


def test_what_was_reclaimed_counts_as_room_that_was_made() -> None:
    desk = Desk(replace(PROFILE, host_duplicates="reclaimed"), write="write_back")
    for one in range(2):
        desk.compute([one] * 2)
    desk.cache.evict(4)
    assert desk.cache.load_back(desk.key([0] * 2)).slots is not None
    desk.settle()
    (twice,), (alone,) = (desk.cache.path(desk.key([one] * 2)).pages for one in range(2))
    with pytest.raises(ValueError, match=NOT_SO):
        perform(desk.now, desk.cache.setting, EvictHost(Tokens(2)), Choice(host_victims=(twice, alone)))
    step = perform(desk.now, desk.cache.setting, EvictHost(Tokens(2)), Choice(host_victims=(twice,)))
    assert step.answer == 2 and step.after.host.pages.keys() == {alone}


def cached(tokens: int, **profile: str) -> ReferenceCache:
    """A flat cache with pages of two units and one key cached, in order, by one insertion."""
    own = ReferenceCache(Config(page_size=2, pages=8), replace(PROFILE, **profile))  # type: ignore[arg-type]
    slots = own.alloc(tokens)
    assert slots is not None
    own.insert(Key(None, tuple(range(tokens))), slots)
    return own


def test_a_match_ends_before_a_node_that_the_key_leaves_or_within_it() -> None:
    own, left = cached(6, match_ends="node"), Key(None, (0, 1, 2, 3, 9, 9))
    assert own.match(left).length == 0 and own.match(Key(None, tuple(range(6)))).length == 6
    for found in (0, 1, 2):
        fresh = cached(6, match_ends="node")
        fresh.choice = Choice(found=tuple(map(PageNo, (1, 2)[:found])))
        assert fresh.match(left).length == 2 * found


@pytest.mark.parametrize("found", [3, 1])
def test_a_match_ends_neither_behind_the_cached_prefix_nor_before_a_whole_node(found: int) -> None:
    own = cached(6, match_ends="node")
    own.match(Key(None, (0, 1, 2, 3)))
    own.choice = Choice(found=tuple(map(PageNo, range(1, found + 1))))
    own.state = own.state._replace(device=effects.split(own.state.device, own.path(Key(None, (0, 1, 2, 3))).pages[1]))
    with pytest.raises(ValueError, match=NOT_SO):
        own.match(Key(None, (0, 1, 2, 3, 9, 9)))


TABLE = replace(PROFILE, publish="at_alloc", duplicates="kept", match_cap="len-1", evict_moment="alloc")
"""A block table."""

TWICE = Key(None, (7, 7, 8))


def twice() -> ReferenceCache:
    """A block table where one page is found in two places; the second was begun with before the first was entered."""
    own = ReferenceCache(Config(page_size=2, pages=4), TABLE)
    for rid in (1, 2):
        assert own.begin(rid, Key(None, (7,)))
    for rid in (1, 2):
        assert own.grow(rid, (7,)) is not None
    own.end(2, keep=True)
    own.end(1, keep=True)
    assert {page: block.holders for page, block in own.state.table.items()} == {1: 0, 2: 0}
    return own


def test_a_page_of_a_block_table_is_found_in_any_of_its_places() -> None:
    assert twice().match(TWICE).slots == (2, 3)
    for page in (1, 2):
        own = twice()
        own.choice = Choice(found=(PageNo(page),))
        begun = own.begin(3, TWICE)
        assert begun is not None and begun.cached == 2 and begun.row[:2] == (2 * page, 2 * page + 1)
        assert own.state.table[PageNo(page)].holders == 1
    own.choice = Choice(found=(PageNo(3),))
    with pytest.raises(ValueError, match=NOT_SO):
        own.match(TWICE)


def test_what_is_found_in_a_page_is_lost_with_its_last_place() -> None:
    own = twice()
    own.choice = Choice((), (PageNo(1),))
    assert own.alloc(2) == (2, 3)
    own.choice = Choice()
    assert own.match(TWICE).slots == (4, 5)
    own.choice = Choice((), (PageNo(2),))
    with pytest.raises(ValueError, match=NOT_SO):
        own.alloc(2)
    own.choice = Choice(tuple(own.state.device.pages), (PageNo(2),))
    assert own.alloc(2) == (4, 5) and not own.state.device.pages


def test_a_block_table_takes_its_hit_back_before_it_hands_out() -> None:
    own = twice()
    own.choice = Choice(pages=(PageNo(1), PageNo(3), PageNo(4)))
    assert own.alloc(6) is not None
    own.choice, held = Choice(), own.state.table
    assert len(held) == 1 and own.begin(3, TWICE) is None and own.state.table == held


@pytest.mark.parametrize("depth", [0, 3])
@pytest.mark.parametrize("profile", [{"match_ends": "node"}, {"match_ends": "node", "evict_granularity": "node"}])
def test_the_reference_is_legal_where_matches_end_at_nodes(profile: dict[str, str], depth: int) -> None:
    judged(ReferenceTarget(replace(PROFILE, **profile)), FLAT, depth)  # type: ignore[arg-type]


@pytest.mark.parametrize("depth", [0, 3])
@pytest.mark.parametrize("stop", ["best_effort", "wait_complete", "timeout"])
def test_the_reference_is_legal_where_ticks_commit(stop: str, depth: int) -> None:
    configs = [config for config in TIER_CONFIGS if config.stop == stop]
    judged(ReferenceTarget(replace(PROFILE, commit="tick")), configs[:1], depth)


def judged(target: ReferenceTarget, configs: Sequence[Config], depth: int) -> None:
    """Let the judge look at random schedules."""
    for config in configs:
        for seed in range(4):
            item = Item(kind="random", config=config, seed=seed, ops=200)
            result = run_item(target, item, Options(depth=depth, reruns=0, shrink_trials=0))
            assert not result.findings and not result.error, (result.findings, result.error)
