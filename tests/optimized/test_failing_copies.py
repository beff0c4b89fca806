"""A copy or an allocation that fails, stage by stage: what the call says, and what is left of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from kvlitmus.optimized import testing
from kvlitmus.optimized.backup import GIVE_UP
from kvlitmus.optimized.work import BACKUP
from tests.optimized.support.fault_desk import ALL, SIZE, Desk
from tests.optimized.support.fault_scenes import KEY


def ready_to_load(write: str = "write_through", **how: Any) -> Desk:
    """A key on the host alone."""
    desk = Desk(write, **how)
    desk.keep(KEY)
    assert SIZE * len(desk.cache.evict(ALL)) == len(KEY)
    return desk


def test_a_load_that_cannot_be_submitted_is_declined() -> None:
    desk = ready_to_load()
    desk.faults.fail(testing.LOAD)
    loaded = desk.cache.load_back(list(KEY))
    assert (loaded.before, loaded.pages, loaded.work) == (0, None, None)
    assert desk.cache.match(list(KEY)).behind == 4 and desk.cache.sizes() == (0, 0)
    rid = desk.begin(KEY)
    assert rid is not None and desk.rows[rid].cached == 0
    assert [str(error) for error in desk.cache.faults()] == ["planted: load"]
    desk.still_works(KEY)


def test_a_load_that_fails_under_way_is_not_cached() -> None:
    desk = ready_to_load()
    work = desk.cache.load_back(list(KEY)).work
    assert work is not None and isinstance(work.ticket, testing.FaultyTicket)
    work.ticket.fail()
    desk.cache.advance(work.id)
    assert work.error is not None and desk.cache.layers_ready(work.id) == 0
    with pytest.raises(RuntimeError, match="layer 0 will not come"):
        desk.cache.wait_layer(work.id, 0)
    desk.cache.tick()
    found = desk.cache.match(list(KEY))
    assert (len(found.pages), found.behind) == (0, 4)
    desk.still_works(KEY)


def test_a_copy_that_will_fail_is_not_over_before_it_is() -> None:
    desk = ready_to_load()
    work = desk.cache.load_back(list(KEY)).work
    assert work is not None and isinstance(work.ticket, testing.FaultyTicket)
    work.ticket.fail()
    assert not work.ticket.done()
    work.ticket.inner.advance()
    with pytest.raises(testing.FaultError, match="a copy under way"):
        work.ticket.done()


def test_a_load_that_somebody_relies_on_is_made_again() -> None:
    desk = ready_to_load()
    work = desk.cache.load_back(list(KEY)).work
    running = desk.cache.begin(1, list(KEY))
    assert work is not None and isinstance(work.ticket, testing.FaultyTicket) and running is not None
    work.ticket.fail()
    desk.cache.advance(work.id)
    desk.faults.fail(testing.LOAD)  # it can't be submitted at the next tick either
    desk.cache.tick()
    assert [job.id for job in desk.cache.loads_on(running.place)] == [work.id]
    desk.cache.tick()
    (again,) = desk.cache.loads_on(running.place)
    assert again.id > work.id and again.error is None
    desk.cache.advance(again.id)
    desk.cache.tick()
    assert desk.contents.device[:, running.row].tolist() == desk.values(KEY).tolist()
    desk.cache.end(1, keep=True)
    desk.still_works(KEY)


@pytest.mark.parametrize(
    ("loaded", "cached"),
    [
        pytest.param((1, 2, 3, 4), KEY, id="on their branch"),
        pytest.param((1, 2, 9, 9), KEY, id="on a branch that the path has left"),
        pytest.param(KEY, (1, 2, 9, 9), id="on a branch of its own"),
    ],
)
def test_a_load_is_made_again_where_something_cached_follows_its_pages(
    loaded: tuple[int, ...], cached: tuple[int, ...]
) -> None:
    """Its pages can't leave the device before what follows them."""
    desk = ready_to_load()
    desk.keep((1, 2, 9, 9))
    desk.cache.evict(ALL)
    work = desk.cache.load_back(list(loaded)).work
    there = desk.cache.match(list(cached)).pages
    computed = desk.cache.pool.take(len(cached) // SIZE - len(there))
    assert work is not None and isinstance(work.ticket, testing.FaultyTicket) and computed is not None
    pages = np.concatenate([there, computed])
    slots = (pages[len(there) :, None] * SIZE + np.arange(SIZE)).ravel()
    desk.contents.device[:, slots] = desk.values(cached)[:, len(there) * SIZE :]
    desk.cache.insert(list(cached), pages)
    work.ticket.fail()
    desk.cache.advance(work.id)
    desk.cache.tick()
    assert desk.cache.match(list(cached)).pages.tolist() == pages.tolist()
    assert desk.cache.match(list(loaded)).behind == 0
    desk.settle()
    desk.check()
    desk.still_works(KEY)


def test_who_waits_for_a_load_that_failed_waits_for_the_one_that_is_made_in_its_stead() -> None:
    """A model computes in a thread of its own: it may ask by the old number when a tick has gone on already."""
    desk = ready_to_load()
    work = desk.cache.load_back(list(KEY)).work
    running = desk.cache.begin(1, list(KEY))
    assert work is not None and running is not None
    for _ in range(3):
        (job,) = desk.cache.loads_on(running.place)
        assert isinstance(job.ticket, testing.FaultyTicket)
        job.ticket.fail()
        desk.cache.advance(job.id)
        with pytest.raises(RuntimeError, match="has failed"):
            desk.cache.wait_layer(work.id, 0)
        desk.cache.tick()
        assert desk.cache.layers_ready(work.id) == 0
        with pytest.raises(RuntimeError, match="not copied yet"):
            desk.cache.wait_layer(work.id, 0)
    (job,) = desk.cache.loads_on(running.place)
    desk.cache.advance(job.id)
    desk.cache.wait_layer(work.id, desk.cache.layers() - 1)
    assert desk.contents.device[:, running.row].tolist() == desk.values(KEY).tolist()
    desk.cache.tick()
    desk.cache.wait_layer(work.id, 0)
    assert not desk.cache.works.again, "numbers are kept no longer than the work"
    desk.cache.end(1, keep=True)
    desk.still_works(KEY)


def test_slots_that_find_no_memory_are_free_again() -> None:
    desk = Desk()
    before = desk.cache.available()
    desk.faults.fail(testing.SLOTS)
    with pytest.raises(MemoryError):
        desk.cache.alloc(2 * SIZE)
    assert desk.cache.available() == before
    desk.still_works(KEY)


@pytest.mark.parametrize("part", ["pool", "host_pool", "tree"])
def test_a_reset_that_finds_no_memory_has_changed_nothing(part: str) -> None:
    desk = Desk()
    rid = desk.begin(KEY)
    assert rid is not None
    before = desk.cache.available(), desk.cache.host_available(), desk.cache.sizes(), desk.cache.jobs()

    def scarce(*_: Any, **__: Any) -> Any:
        raise MemoryError

    parts, scarce_one = (desk.cache.parts, desk.cache.tier_parts), cast(Any, {part: scarce})
    desk.cache.parts = desk.cache.tier_parts = replace(parts[1], **scarce_one)
    with pytest.raises(MemoryError):
        desk.cache.reset(abort=True)
    desk.cache.parts, desk.cache.tier_parts = parts
    assert (desk.cache.available(), desk.cache.host_available(), desk.cache.sizes(), desk.cache.jobs()) == before
    desk.end(rid, keep=True)
    desk.still_works(KEY)


def test_a_load_that_nobody_relies_on_any_more_ends() -> None:
    desk = ready_to_load()
    work = desk.cache.load_back(list(KEY)).work
    assert work is not None and desk.cache.begin(1, list(KEY)) is not None
    for _ in range(5):
        for job in desk.cache.jobs():
            assert isinstance(job.ticket, testing.FaultyTicket)
            job.ticket.fail()
            desk.cache.advance(job.id)
        desk.cache.tick()
    assert desk.cache.jobs()
    desk.cache.end(1, keep=False)
    for job in desk.cache.jobs():
        assert isinstance(job.ticket, testing.FaultyTicket)
        job.ticket.fail()
        desk.cache.advance(job.id)
    desk.cache.tick()
    assert not desk.cache.jobs() and desk.cache.sizes() == (0, 0)
    desk.still_works(KEY)


@pytest.mark.parametrize("stage", [testing.SPILL, testing.SPILLED])
def test_a_spill_that_fails_leaves_its_pages_where_they_are(stage: str) -> None:
    desk = Desk("write_back")
    desk.compute(KEY)
    desk.faults.fail(stage)
    assert len(desk.cache.evict(2 * SIZE)) == 0 and len(desk.cache.match(list(KEY)).pages) == 4
    desk.check()
    assert len(desk.cache.evict(2 * SIZE)) == 2
    desk.compute(KEY)
    desk.still_works(KEY)


def test_a_device_is_freed_even_if_nothing_can_be_copied_any_more() -> None:
    desk = Desk("write_back")
    desk.compute(KEY)
    for _ in range(GIVE_UP - 1):
        desk.faults.fail(testing.SPILL)
        assert len(desk.cache.evict(ALL)) == 0
    desk.faults.fail(testing.SPILL)
    assert len(desk.cache.evict(ALL)) > 0
    desk.check()
    desk.still_works(KEY)


@pytest.mark.parametrize("stage", [testing.BACKUP, testing.BACKUP_LATE])
def test_a_backup_that_fails_has_never_been(stage: str) -> None:
    desk = Desk()
    desk.faults.fail(stage)
    desk.compute(KEY)
    desk.settle()
    assert desk.cache.host_available() == 8 * SIZE and desk.cache.sizes() == (len(KEY), 0)
    desk.compute(KEY)  # it is due again at its next use
    desk.settle()
    assert desk.cache.host_available() == 4 * SIZE and desk.store.pages
    desk.still_works(KEY)


def test_a_backup_that_others_depend_on_is_made_again() -> None:
    desk = Desk()
    desk.faults.fail(testing.BACKUP_LATE)
    desk.compute(KEY)
    desk.compute((*KEY, 5, 5))
    desk.settle(1)
    (work, *_) = [work for work in desk.cache.jobs() if work.kind == BACKUP]
    assert work.error is None and work.place.end == 4
    desk.settle()
    assert desk.cache.host_available() == 3 * SIZE
    desk.still_works(KEY)


def test_an_insert_that_finds_no_memory_has_changed_nothing() -> None:
    desk = Desk()
    desk.compute(KEY)
    before = len(list(desk.cache.tree.branches())), desk.cache.sizes(), desk.cache.tree.clock
    pages = desk.cache.pool.take(3)
    assert pages is not None
    desk.faults.fail(testing.BRANCH)
    with pytest.raises(MemoryError):
        desk.cache.insert([1, 2, 8, 8, 9, 9], pages)
    assert (len(list(desk.cache.tree.branches())), desk.cache.sizes(), desk.cache.tree.clock) == before
    desk.cache.pool.give_back(pages)
    desk.still_works(KEY)
