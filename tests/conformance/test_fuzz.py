"""Choosing schedules, telling findings apart, and what a campaign says."""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlitmus.conformance.fuzz import mutate
from kvlitmus.conformance.fuzz.budget import Budget, duration
from kvlitmus.conformance.fuzz.corpus import GREATEST, LEAST, Choice, Corpus, Entry
from kvlitmus.conformance.fuzz.dedupe import MOST, RESTS_AFTER, Known, shape
from kvlitmus.conformance.fuzz.features import LARGEST, NOTHING, Key, part_of, size_of
from kvlitmus.conformance.fuzz.play import play_item
from kvlitmus.conformance.generate.schedule import NEEDS, Op, table
from kvlitmus.conformance.isolation.current_run import CurrentRun
from kvlitmus.conformance.ports import Config, Unsupported
from kvlitmus.conformance.run.engine import make_checker
from kvlitmus.conformance.run.results import Finding, Item, Options, schedule_from_json, to_json
from kvlitmus.conformance.specimen.cache import target as specimen
from kvlitmus.mutants.registry import all_mutants

PAGED = Config(page_size=4)
KINDS = table(make_checker(specimen, PAGED, Options()).capabilities)
OPS = st.builds(Op, st.sampled_from(sorted(NEEDS)), *[st.integers(0, 255)] * 3, of=st.just(-1))


def finding(rules: list[str], call: str = "evict(4)", detail: str = "", steps: int = 3) -> Finding:
    return Finding(
        rules=rules,
        item="schedule",
        config=PAGED,
        call=call,
        calls=["match([1])"] * (steps - 1) + [call],
        allowed=f"exactly {steps}",
        seen={},
        detail=detail,
        schedule=[Op("evict", steps)],
    )


# -- mutation ------------------------------------------------------------------------------------


@given(st.lists(OPS, max_size=60), st.lists(OPS, max_size=60), st.integers(0, 1 << 30))
def test_a_mutated_schedule_is_a_schedule(ops: list[Op], other: list[Op], seed: int) -> None:
    made = mutate.mutated(ops, mutate.Source(random.Random(seed), KINDS, other))
    assert 0 < len(made) <= mutate.LONGEST
    assert schedule_from_json(to_json(made)) == tuple(made), "numbers are from 0 to 255, kinds are known"
    assert {op.kind for op in made} <= set(KINDS), "and the target can do them"


@given(st.lists(OPS, min_size=1, max_size=40), st.lists(OPS, max_size=40), st.integers(0, 1 << 30))
def test_each_change_by_itself_makes_a_schedule(ops: list[Op], other: list[Op], seed: int) -> None:
    for change in dict.fromkeys(mutate.CHANGES):
        given, made = list(ops), change(list(ops), mutate.Source(random.Random(seed), KINDS, other))
        assert schedule_from_json(to_json(made)) == tuple(made), change.__name__
        assert given == ops


def test_each_change_changes_something() -> None:
    ops = [Op(kind, number, number + 1, number + 2) for number, kind in enumerate(sorted(set(KINDS)))]
    other = [Op("alloc", 200 + number) for number in range(10)]
    for change in dict.fromkeys(mutate.CHANGES):
        made = {tuple(change(list(ops), mutate.Source(random.Random(seed), KINDS, other))) for seed in range(50)}
        assert len(made - {tuple(ops)}) > 5, change.__name__


MET: dict[Key, int] = {}
"""The features of all schedules that these tests play: their numbers are the same in all of them."""


def played(target: Any, item: Item) -> dict[str, Any]:
    """What a worker of a campaign answers."""
    return play_item(target, item, Options(), CurrentRun(), MET)


def test_a_mutated_schedule_can_be_played() -> None:
    rng = random.Random(5)
    first = mutate.Source(rng, KINDS).fresh(100)
    for _ in range(10):
        ops = tuple(mutate.mutated(first, mutate.Source(rng, KINDS, first)))
        found = played(specimen, Item(kind="schedule", config=PAGED, schedule=ops))
        assert found["result"]["findings"] == [] and found["result"]["error"] == ""
        assert found["result"]["steps"] > 0 and len(found["reached"]) == len(found["where"]) > 20


# -- features and corpus -------------------------------------------------------------------------


def test_sizes_are_rounded_to_powers_of_two() -> None:
    assert [size_of(number) for number in (0, 1, 2, 3, 4, 127, 128, 1 << 40)] == [0, 1, 2, 2, 3, 7, 7, 7]
    odd = [size_of(value) for value in (True, None, (1, 2), "text", -1)]
    assert odd == [1, NOTHING, 2, None, LARGEST]
    assert [part_of(number, 8) for number in (0, 1, 2, 4, 7, 8, 9)] == [0, 1, 2, 3, 4, 5, 5]


def test_features_are_the_same_every_time_and_lie_where_they_were_reached() -> None:
    item = Item(kind="schedule", config=PAGED, schedule=tuple(mutate.Source(random.Random(1), KINDS).fresh(80)))
    first, second = played(specimen, item), played(specimen, item)
    assert (first["reached"], first["where"]) == (second["reached"], second["where"])
    cut = 1 + first["where"][len(first["where"]) // 2]
    part = played(specimen, replace(item, schedule=item.schedule[:cut]))
    early = {number for number, at in zip(first["reached"], first["where"], strict=True) if at < cut}
    assert early <= set(part["reached"]), "what a prefix reached, it reaches by itself"


def test_what_the_target_has_no_port_for_is_left_out() -> None:
    class PoolAlone:
        profile = specimen.profile

        def make(self, config: Config) -> object:
            cache = specimen.make(config)

            class Adapter:
                def alloc(self, n: int) -> object:
                    return cache.alloc(n)

                def free(self, slots: list[int]) -> None:
                    cache.free(slots)

                def available(self) -> int:
                    return int(cache.available())

            return Adapter()

    ops = tuple(mutate.Source(random.Random(1), KINDS).fresh(200))
    found = played(PoolAlone(), Item(kind="schedule", config=PAGED, schedule=ops))
    assert found["result"]["findings"] == [] and found["result"]["error"] == ""
    assert set(found["result"]["reached"]) <= {"alloc", "refused_alloc", "free"}


def corpus(seed: int = 0, **more: bool) -> Corpus:
    return Corpus(random.Random(seed), [PAGED], {PAGED.label: KINDS}, **more)


@pytest.mark.parametrize(("given", "told"), [("no bigrams", "no bigrams"), ("", "the target gave no reason")])
def test_a_target_that_declines_is_no_error(given: str, told: str) -> None:
    class Declines:
        profile = specimen.profile

        def make(self, config: Config) -> object:
            raise Unsupported(given)

    item = Item(kind="random", config=Config(), ops=5)
    result = play_item(Declines(), item, Options(), CurrentRun(), {})["result"]
    assert (result["unsupported"], result["error"]) == (told, "")


def test_a_schedule_is_kept_up_to_its_last_new_feature() -> None:
    one = corpus()
    choice = Choice(config=PAGED, schedule=tuple(Op("alloc", at) for at in range(10)), origin="fresh")
    entry = one.reached(choice, [11, 12, 13, 14], [0, 3, 6, 10])
    assert entry is not None and len(entry.schedule) == 7 and entry.features == (11, 12, 13)
    assert one.reached(choice, [11, 14], [0, 2]) is None, "what it reached when it was emptied is known from then on"
    assert one.reached(choice, [15], [10]) is None, "what is only reached at the end is no reason"


def test_what_is_rare_is_chosen_more_often() -> None:
    one = corpus()
    rare, common = (Entry(config=PAGED, schedule=(Op("alloc"),), features=(number,)) for number in (1, 2))
    one.hits = Counter({1: 1, 2: 100})
    one.add(common)
    one.add(rare)
    picked = Counter(id(one.pick()) for _ in range(200))
    assert picked[id(rare)] > 150 > picked[id(common)] > 0


def test_the_share_of_fresh_schedules_follows_what_they_bring() -> None:
    one = corpus()
    shares = []
    for fresh, mutated in ((5.0, 0.0), (0.0, 5.0), (1.0, 1.0)):
        one.yields = {"fresh": fresh, "mutated": mutated}
        shares.append(one.share())
    assert shares == [GREATEST, LEAST, 0.5]


def test_a_mutated_schedule_is_played_where_its_parent_was_and_now_and_then_elsewhere() -> None:
    here, there = PAGED, Config(page_size=2)
    one = Corpus(random.Random(0), [here, there], {config.label: KINDS for config in (here, there)})
    one.hits = Counter({1: 1})
    one.add(Entry(config=here, schedule=(Op("alloc"),), features=(1,)))
    made = [choice.config for choice in (one.choose() for _ in range(300)) if choice.parent is not None]
    assert 0.8 * len(made) < made.count(here) < len(made)
    one.drop([here.label])
    assert {one.choose().config for _ in range(100)} == {there}


@pytest.mark.parametrize("guided", [True, False])
def test_a_seed_makes_the_same_choices(guided: bool) -> None:
    def choices(seed: int) -> list[tuple[Op, ...]]:
        one = corpus(seed, guided=guided)
        made = []
        for _ in range(30):
            choice = one.choose()
            made.append(choice.schedule)
            entry = one.reached(choice, [hash(choice.schedule[0])], [0])
            if entry is not None:
                one.add(entry)
        return made

    assert choices(1) == choices(1) != choices(2)


def staircase(ops: Sequence[Op]) -> tuple[list[int], list[int]]:
    """A cache in which each further feature takes one more call of the right kind at once: one in about 20 goes on."""
    kinds = sorted(set(KINDS))
    level = 0
    reached: dict[int, int] = {}
    for at, op in enumerate(ops):
        level = level + 1 if op.kind == kinds[(7 * level) % len(kinds)] else 0
        reached.setdefault(level, at)
    return list(reached), list(reached.values())


def test_guided_choice_climbs_where_plain_random_schedules_do_not_get() -> None:
    def highest(seed: int, guided: bool) -> int:
        one = Corpus(random.Random(seed), [PAGED], {PAGED.label: tuple(sorted(set(KINDS)))}, guided=guided)
        for _ in range(1_500):
            choice = one.choose()
            entry = one.reached(choice, *staircase(choice.schedule))
            if entry is not None:
                one.add(entry)
        return max(one.hits)

    plain, guided = ([highest(seed, way) for seed in range(3)] for way in (False, True))
    assert max(plain) <= 6 and min(guided) >= 9, (plain, guided)


# -- telling findings apart ----------------------------------------------------------------------


def test_values_do_not_make_a_finding_another_one() -> None:
    first = finding(["PORT-01"], detail="the call raised KeyError: 17, expected one of [1, 2, 'a']")
    second = finding(["PORT-01"], call="evict(9)", detail="the call raised KeyError: 3, expected one of [4]")
    assert shape(first) == shape(second)
    others = [
        finding(["PORT-03"], detail=first.detail),
        finding(["PORT-01"], call="alloc(4)", detail=first.detail),
        finding(["PORT-01"], detail="the call raised IndexError: 17"),
    ]
    assert len({shape(one) for one in [first, *others]}) == 4


def test_a_known_finding_is_not_shrunk_again_and_a_shorter_one_takes_its_place() -> None:
    known = Known(random.Random(0))
    long, short = finding(["EVICT-01"], steps=9), finding(["EVICT-01"], steps=2)
    assert known.meet(long)
    assert not known.meet(long), "it is being shrunk"
    fresh = known.settle(long, long, Path("long"), leads=False, steady=True)
    assert fresh is not None and fresh.new and not fresh.leads
    assert not known.meet(short) and fresh.hits == 2
    assert known.settle(short, short, Path("short"), leads=True, steady=True) is None
    assert (fresh.path, len(fresh.finding.calls), fresh.leads) == (Path("short"), 2, True)


def test_a_rule_that_was_never_broken_does_not_hide_behind_a_known_finding() -> None:
    known = Known(random.Random(0))
    first, more = finding(["EVICT-01"]), finding(["EVICT-01", "LOCK-01"])
    for one in (first, more):
        assert known.meet(one)
        assert known.settle(one, one, Path("file"), leads=True, steady=True) is not None
    assert not known.meet(more) and not known.meet(finding(["EVICT-01", "LOCK-01"], steps=8))
    assert len(known.distinct) == 2


def test_a_rule_rests_when_nothing_new_is_found_of_it_and_is_looked_at_now_and_then() -> None:
    known = Known(random.Random(0), accepted=["POOL-01"])
    one = finding(["EVICT-01"])
    assert known.meet(one)
    known.settle(one, one, Path("file"), leads=True, steady=True)
    assert known.resting() == ["POOL-01"], "what the baseline knows rests from the beginning"
    for _ in range(RESTS_AFTER):
        known.meet(one)
    assert known.resting() == ["EVICT-01", "POOL-01"]
    muted = Counter(rule for _ in range(1_000) for rule in known.muted())
    assert all(880 < muted[rule] < 990 for rule in known.resting())
    other = finding(["EVICT-01"], call="end(1)")
    assert known.meet(other)
    known.settle(other, other, Path("file"), leads=True, steady=True)
    assert known.resting() == ["POOL-01"], "a new kind of finding wakes it"


def test_the_findings_of_one_rule_have_a_limit() -> None:
    known = Known(random.Random(0))
    met = [known.meet(finding(["EVICT-01"], call=f"call_{letter}()")) for letter in "abcdefghijklmnop"]
    assert sum(met) == MOST and known.further["EVICT-01"] == len(met) - MOST


# -- budgets -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("15m", 900), ("1h30m", 5400), ("2h", 7200)])
def test_durations(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "0s", "1d", "-1s", "1.5h", "999999h", "1s1m", "٣s"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        duration(text)


def test_a_budget_ends_by_whichever_bound_comes_first() -> None:
    now = [100.0]

    def over(spent: int, at: float) -> bool:
        now[0] = 100.0
        budget = Budget(seconds=10, steps=50, clock=lambda: now[0], spent=spent)
        now[0] = at
        return budget.over

    assert not over(49, 109.9)
    assert over(50, 100.0) and over(0, 110.0)
    assert not Budget().over


def test_the_seconds_of_a_budget_are_those_of_the_target() -> None:
    """The canary comes before, and takes twenty: a budget of five is all there when the target's turn begins."""
    now = [100.0]
    budget = Budget(seconds=5, clock=lambda: now[0])

    def over(at: float, *, starts: bool = False) -> bool:
        now[0] = at
        if starts:
            budget.start()
        return budget.over

    assert [over(120.0), over(120.0, starts=True), over(124.9), over(125.0)] == [True, False, False, True]


def test_the_canary_is_a_mutant_that_names_rules() -> None:
    from kvlitmus.conformance.fuzz.canary import DEFAULT

    assert all_mutants()[DEFAULT].kills and not all_mutants()[DEFAULT].null
