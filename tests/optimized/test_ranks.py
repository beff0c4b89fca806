"""Ranks of the optimized cache by hand: what one rank sees alone decides nothing, and what fails loses nothing."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba", reason="the extra 'optimized' is not installed")

from kvlitmus.optimized.agreement import Facts, Layout, RanksParted, Vector
from kvlitmus.optimized.cache import CacheConfig
from kvlitmus.optimized.calls import TornCache
from kvlitmus.optimized.mover import NullMover
from kvlitmus.optimized.ranks import Pipeline, RankedCache
from kvlitmus.optimized.testing import BACKUP, BACKUP_LATE, LOAD, LOAD_LATE, Faults, FaultyMover
from tests.optimized.support.interrupts import Stop, ended
from tests.optimized.support.rank_world import (
    CALLS,
    HOST,
    PAGES,
    Kept,
    alike,
    answer_of,
    cached,
    finish,
    go_on,
    looks,
    rank_of,
    settled,
)

pytestmark = pytest.mark.usefixtures("each_core")


def test_ranks_that_part_are_told_at_the_next_settle() -> None:
    ranks = [rank_of(number, 2) for number in range(2)]
    settled(ranks)
    cached(ranks, range(5))
    finish(ranks)
    ranks[1].evict(1)
    before = [looks(one) for one in ranks]
    least = np.minimum.reduce([one.tick() for one in ranks])
    for one in ranks:
        with pytest.raises(RanksParted, match="not decided alike"):
            one.settle(least)
    assert [looks(one) for one in ranks] == before, "a settle that was refused has changed something"
    for one in ranks:
        one.reset()
    settled(ranks)
    cached(ranks, range(5))
    alike(ranks)


# -- vectors that can't be settled ------------------------------------------------------------------------------------


def summed(vectors: Sequence[Vector]) -> Vector:
    """The sum."""
    total: Vector = np.sum(vectors, axis=0)
    return total


@pytest.mark.parametrize("reduce", [np.maximum.reduce, summed, lambda vectors: vectors[0], lambda vectors: vectors[1]])
def test_what_is_no_min_over_all_ranks_is_refused(reduce: Callable[..., Any]) -> None:
    ranks = [rank_of(number, 3) for number in range(3)]
    least = reduce([one.tick() for one in ranks])
    for one in ranks:
        with pytest.raises(ValueError, match="no MIN over ranks 0 to 2"):
            one.settle(least)


def test_a_wrong_vector_is_refused_and_the_right_one_is_settled() -> None:
    one = rank_of(0, 1)
    with pytest.raises(ValueError, match="no tick to settle"):
        one.settle(np.zeros(len(one.layout.names), np.int64))
    older = one.tick()
    right = one.tick()
    before = looks(one)
    for wrong, said in (
        (right[:-1], "numbers of int64"),
        (right.astype(np.int32), "numbers of int64"),
        (right[None], "numbers of int64"),
        ("none", "numbers of int64"),
        (older, "that of tick 1, and that of tick 2"),
    ):
        with pytest.raises(ValueError, match=said):
            one.settle(wrong)
        assert looks(one) == before
    one.settle(right)
    assert one.available() == PAGES
    with pytest.raises(ValueError, match="no tick to settle"):
        one.settle(right)
    one.tick()
    one.reset()
    with pytest.raises(ValueError, match="no tick to settle"):
        one.settle(right)


def test_a_vector_that_is_lost_loses_nothing() -> None:
    """A collective that failed is followed by another tick, whose vector tells all that the lost one told."""
    ranks = [rank_of(number, 2) for number in range(2)]
    settled(ranks)
    cached(ranks, range(4))
    for one in ranks:
        go_on(one)
        one.tick()
    assert all(one.tree.protected for one in ranks), "noted before all have agreed"
    settled(ranks)
    assert not any(one.tree.protected for one in ranks)
    finish(ranks)
    alike(ranks)


def test_a_settle_that_is_interrupted_was_made_or_not_begun_or_is_told() -> None:
    """At each of its bytecodes: the vector can be settled again, or the rank is torn and a reset brings all back."""

    def made() -> tuple[RankedCache, Vector]:
        one = rank_of(0, 1)
        settled([one])
        cached([one], range(6))
        finish([one])
        one.evict(3)
        one.load_back(range(6))
        cached([one], (1, 2))
        one.prefetch(1, (9, 8, 7))
        one.prefetch(2, (9, 8))
        one.poll(2)
        one.lend("host", 2)
        go_on(one)
        return one, one.tick()

    became, at = Counter[str](), 0
    whole, vector = made()
    whole.settle(vector)
    after = looks(whole)
    while True:
        one, vector = made()
        before = looks(one)
        if ended(lambda: one.settle(vector), at, Stop) <= at:  # noqa: B023
            break
        if one.calls.torn:
            for call in (lambda: one.match((1,)), one.tick, lambda: one.settle(vector)):  # noqa: B023
                with pytest.raises(TornCache, match="reset"):
                    call()
            one.reset(abort=True)
            settled([one])
            settled([one])
            assert (one.available(), one.host_available()) == (PAGES, HOST - 2)
            became["torn"] += 1
        elif looks(one) == before and one.told is not None:
            one.settle(vector)
            assert looks(one) == after
            became["not begun"] += 1
        else:
            assert looks(one) == after
            became["finished"] += 1
        at += 41
    assert became["torn"] and became["not begun"]


# -- what is unequal --------------------------------------------------------------------------------------------------


def play(ranks: Sequence[RankedCache], seed: int, steps: int = 150, piped: bool = False) -> Counter[str]:
    """Steps of a scheduler, the same on all ranks, whose jobs go on by chance; all look the same after each."""
    calls, chance = random.Random(seed), [random.Random(f"{seed} {one.rank}") for one in ranks]
    done = Counter[str]()
    least: Vector | None = None
    for step in range(steps):
        for one, its in zip(ranks, chance, strict=True):
            for work in one.jobs():
                if not work.landed and its.random() < 0.3 + 0.3 * one.rank:
                    one.advance(work.id, its.choice([1, 2, None]))
        if least is not None:
            for one in ranks:
                one.settle(least)
        vector = np.minimum.reduce([one.tick() for one in ranks])
        if piped:
            least = vector
        else:
            for one in ranks:
                one.settle(vector)
        alike(ranks)
        key = [calls.randrange(3) for _ in range(calls.randrange(1, 7))]
        what, pick = calls.choice(CALLS), calls.randrange(1 << 30)
        answers = [answer_of(one, what, key, step, pick) for one in ranks]
        assert all(answer == answers[0] for answer in answers), (what, answers)
        done[what] += bool(answers[0])
    if least is not None:
        for one in ranks:
            one.settle(least)
    return done


def test_ranks_of_unequal_speed_and_memory_look_the_same_at_each_step() -> None:
    done = Counter[str]()
    for seed in range(3):
        sizes = ((PAGES, HOST), (PAGES - 6, HOST), (PAGES, HOST - 5))
        ranks = [rank_of(at, 3, pages=pages, host=host) for at, (pages, host) in enumerate(sizes)]
        done += play(ranks, seed, piped=seed > 0)
        finish(ranks)
        alike(ranks)
    assert done.keys() >= {"compute", "load", "prefetch", "poll", "evict"}, done


@pytest.mark.nightly
@pytest.mark.parametrize("piped", [False, True])
@pytest.mark.parametrize("stop", ["best_effort", "wait_complete", "timeout"])
@pytest.mark.parametrize("many", [1, 2, 4])
def test_ranks_look_the_same_for_long(many: int, stop: str, piped: bool) -> None:
    for seed in range(20):
        ranks = [rank_of(at, many, pages=PAGES - 3 * at, host=HOST - at, stop=stop) for at in range(many)]
        play(ranks, seed, 400, piped)
        finish(ranks)
        alike(ranks)


def test_memory_that_others_have_is_missed_on_all_ranks() -> None:
    ranks = [rank_of(number, 2, host=HOST) for number in range(2)]
    settled(ranks)
    cached(ranks, range(PAGES - 10))
    finish(ranks)
    ranks[0].evict(PAGES)
    ranks[1].evict(PAGES)
    ranks[1].lend("host", 10)
    assert not len(ranks[1].lent("host"))
    settled(ranks)
    alike(ranks)
    assert len(ranks[1].lent("host")) == 10
    assert [len(one.tree.opened().host_run(run)) for one in ranks for run in runs_of(one)] == [6, 6], "nothing gave way"
    ranks[1].reset()
    ranks[0].reset()
    settled(ranks)
    assert [one.host_available() for one in ranks] == [HOST - 10] * 2, "others lost what they have by a reset"
    ranks[1].lend("host", 0)
    settled(ranks)
    assert [one.host_available() for one in ranks] == [HOST] * 2


def runs_of(one: RankedCache) -> Any:
    """What is cached, branch by branch."""
    tree = one.tree.opened()
    return [run for branch in tree.branches() for run in tree.runs(tree.place(branch, branch.n), branch.base)]


@pytest.mark.parametrize("kind", [BACKUP, BACKUP_LATE, LOAD, LOAD_LATE])
def test_a_copy_that_fails_on_one_rank_is_taken_back_on_all(kind: str) -> None:
    faults = Faults()
    ranks = [rank_of(0, 2), rank_of(1, 2, mover=FaultyMover(NullMover(), faults, lambda *_: None))]
    settled(ranks)
    if kind in (LOAD, LOAD_LATE):
        cached(ranks, range(6))
        finish(ranks)
        for one in ranks:
            one.evict(4)
        faults.fail(kind)
        for one in ranks:
            one.load_back(range(6))
    else:
        faults.fail(kind)
        cached(ranks, range(6))
    for one in ranks:
        go_on(one)
        one.match(range(6))
    settled(ranks)
    alike(ranks)
    assert faults.struck == [kind] and not ranks[0].jobs()
    assert [len(one.match(range(6)).pages) for one in ranks] == ([2, 2] if kind in (LOAD, LOAD_LATE) else [6, 6])
    assert [one.host_available() for one in ranks] == ([HOST - 6] * 2 if kind in (LOAD, LOAD_LATE) else [HOST] * 2)
    finish(ranks)
    cached(ranks, range(6))
    finish(ranks)
    alike(ranks)


def test_a_put_that_one_storage_refuses_is_put_again_on_all() -> None:
    stores = [Kept(), Kept()]
    ranks = [rank_of(number, 2) for number in range(2)]
    for one, store in zip(ranks, stores, strict=True):
        one.detach()
        one.attach(store)
    stores[1].refuses = True
    settled(ranks)
    cached(ranks, range(3))
    finish(ranks)
    assert (len(stores[0].there), len(stores[1].there)) == (3, 0)
    assert [one.puts.missing() for one in ranks] == [3, 3], "what one storage lacks counts as stored on the other rank"
    stores[1].refuses = False
    cached(ranks, range(3))
    finish(ranks)
    assert [one.puts.missing() for one in ranks] == [0, 0]


def test_storage_is_used_while_all_ranks_have_it() -> None:
    ranks = [rank_of(number, 2) for number in range(2)]
    settled(ranks)
    for one in ranks:
        assert one.prefetch(1, range(3)).started
    ranks[1].detach()
    assert not ranks[1].detach()
    assert not ranks[1].attach(Kept()), "another storage while others use the one before"
    assert all(one.prefetch(2, range(3, 6)).started for one in ranks), "not settled yet"
    settled(ranks)
    assert not any(one.prefetch(3, range(6, 9)).started for one in ranks)
    assert ranks[1].attach(Kept())
    assert not ranks[0].attach(Kept())
    settled(ranks)
    assert all(one.prefetch(3, range(6, 9)).started for one in ranks)
    finish(ranks)
    alike(ranks)


def test_more_prefetches_than_a_vector_tells_are_refused() -> None:
    one = RankedCache(CacheConfig(pages=PAGES, host_pages=HOST, rate_limit=100), prefetches=2)
    one.attach(Kept())
    settled([one])
    assert [one.prefetch(rid, (rid, 1)).started for rid in range(3)] == [True, True, False]
    one.abandon(0)
    assert not one.prefetch(3, (3, 1)).started, "its query is under way"
    go_on(one)
    settled([one])
    assert one.prefetch(3, (3, 1)).started


def test_a_prefetch_gives_copies_to_what_was_computed_meanwhile() -> None:
    store = Kept()
    one = rank_of(0, 1, host=6)
    one.detach()
    one.attach(store)
    settled([one])
    cached([one], range(6))
    finish([one])
    assert len(store.there) == 6
    one.reset()
    settled([one])
    one.prefetch(1, range(6))
    go_on(one)
    cached([one], range(4))
    finish([one])
    assert one.host_available() == 0 and one.poll(1)
    looks(one)
    assert [one.loaded(1), one.host_available()] == [2, 0]
    assert len(one.match(range(6)).pages) == 4 and one.match(range(6)).behind == 2


def test_write_back_and_odd_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="write back"):
        RankedCache(CacheConfig(pages=4, host_pages=4, write="write_back"))
    odd: list[dict[str, Any]] = [{"rank": 2, "ranks": 2}, {"ranks": 0}, {"prefetches": 0}, {"puts": 0}]
    for given in odd:
        with pytest.raises(ValueError, match="must be a whole number"):
            RankedCache(CacheConfig(pages=4, host_pages=4), **given)


def test_a_rank_alone_steps_by_itself() -> None:
    one = RankedCache(CacheConfig(pages=PAGES, host_pages=HOST, reserved=0))
    steps = Pipeline(one)
    assert one.begin(0, range(4)) is None, "something was handed out before the first settle"
    steps.step()
    steps.step()
    cached([one], range(4))
    go_on(one)
    steps.step()
    assert one.tree.protected, "noted without a settle"
    steps.step()
    assert not one.tree.protected


def test_the_layout_follows_from_the_configuration_alone() -> None:
    one, other = Layout(4, 2), Layout(4, 2)
    assert one.names == other.names and len(set(one.names)) == len(one.names)
    facts = Facts(*range(7))
    reads, puts = [(1, 2, 3, 4)] * 4, [5] * 2
    vectors = [one.pack(1, 0, (), facts, (), ()), other.pack(1, 0, (), facts, reads, puts)]
    assert [len(vector) for vector in vectors] == [len(one.names)] * 2
    assert one.read(vectors[1], 1, 1) == (facts, list(map(list, reads)), puts)
