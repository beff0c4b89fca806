"""The engine: schedules are decoded, played, shrunk, and played again with the broken rule muted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlitmus.conformance.generate.schedule import NEEDS, WEIGHTS, Op, decode, draw, make_key, table
from kvlitmus.conformance.generate.shrink import shrink
from kvlitmus.conformance.litmus.registry import LITMUS, all_litmus
from kvlitmus.conformance.ports import Config, capabilities_of
from kvlitmus.conformance.run.engine import run_item
from kvlitmus.conformance.run.plan import CONFIGS, TIERED, configs_of, items
from kvlitmus.conformance.run.results import Item, Options, item_from_json, result_from_json, to_json
from kvlitmus.conformance.specimen.cache import SpecimenTarget, target
from kvlitmus.conformance.specimen.parts import PROFILE, Parts
from kvlitmus.conformance.specimen.requests import RequestTable, Running
from kvlitmus.conformance.specimen.tree import Node, RadixTree
from kvlitmus.spec.rule import all_rules

ALL = tuple(WEIGHTS)
PAGED = Config(page_size=4)


class ForgetsLocks(RadixTree):
    """The upper half of a split node starts without locks."""

    def split(self, node: Node, pages: int) -> Node:
        """Split, and forget."""
        upper = super().split(node, pages)
        upper.locks = 0
        return upper


class LeaksTail(RequestTable):
    """An ended request's own pages are never freed."""

    def free_tail(self, request: Running, start: int) -> None:
        """Free nothing."""


class PoolOnly:
    """A target with nothing but a pool."""

    profile = PROFILE

    def make(self, config: Config) -> object:
        """A pool."""
        return replace_parts(config)


def replace_parts(config: Config) -> object:
    """The specimen's pool alone, with the three methods of the port."""
    pool = target.make(config).pool

    class Adapter:
        alloc, free, available = pool.alloc, pool.free, pool.available

    return Adapter()


@given(st.binary(max_size=200))
def test_any_bytes_are_a_schedule_and_any_prefix_of_them_is_its_prefix(data: bytes) -> None:
    ops = decode(data, ALL)

    assert len(ops) == len(data) // 4
    assert all(op.kind in NEEDS for op in ops)
    assert decode(data[: len(data) // 2], ALL) == ops[: len(data) // 8]


def test_a_seed_draws_the_same_schedule_every_time() -> None:
    shapes = (PAGED, TIERED, Config(pool="store"))
    kinds = table(frozenset({"reattach"}).union(*(capabilities_of(target.make(config)) for config in shapes)))

    assert draw(7, 50, kinds) == draw(7, 50, kinds) != draw(8, 50, kinds)
    assert set(kinds) == set(ALL)


@given(st.integers(0, 255), st.integers(0, 255), st.integers(0, 255), st.sampled_from(CONFIGS))
def test_keys_fit_the_pool_and_know_nothing_of_history(a: int, b: int, c: int, config: Config) -> None:
    key = make_key(config, a, b, c)

    assert key == make_key(config, a, b, c)
    assert key.length <= config.pages * config.page_size
    assert key.bigram == config.bigram


def test_every_litmus_test_exercises_the_rules_that_it_names() -> None:
    declared = {rule for test in all_litmus().values() for rule in test.rules}

    for item in items(configs_of(target), PROFILE, steps=0):
        result = run_item(target, item, Options())
        assert (result.findings, result.error, result.unexercised) == ([], "", []), item.id
    judged = {id for id, one in all_rules().items() if one.pack != "port"}
    assert judged - declared - {f"PREFETCH-{number:02}" for number in range(21)} == set()


def test_a_counterexample_is_short_and_its_last_call_is_the_offence() -> None:
    result = run_item(SpecimenTarget(Parts(requests=LeaksTail)), Item(kind="random", config=PAGED, ops=250), Options())
    first = result.findings[0]

    assert "POOL-12" in first.rules
    assert first.steps <= 3 < first.drawn_steps
    assert first.calls[-1] == first.call
    assert first.call.startswith("end")
    assert "exactly one of" in first.allowed
    assert first.seen["owned_after"] == "{}"


def test_one_bug_does_not_hide_the_rest() -> None:
    parts = Parts(tree=ForgetsLocks, requests=LeaksTail)
    result = run_item(SpecimenTarget(parts), Item(kind="random", config=PAGED, ops=250), Options())
    broken = [set(found.rules) for found in result.findings]

    assert any("POOL-12" in rules for rules in broken)
    assert any(rules & {"LOCK-02", "LOCK-03", "LOCK-04"} for rules in broken)
    assert all(not one & other for at, one in enumerate(broken) for other in broken[:at])


def test_a_schedule_that_was_shrunk_breaks_the_same_rule_when_it_is_played_by_itself() -> None:
    mutant = SpecimenTarget(Parts(tree=ForgetsLocks))
    first = run_item(mutant, Item(kind="random", config=PAGED, seed=1, ops=250), Options()).findings[0]
    again = run_item(mutant, Item(kind="schedule", config=PAGED, schedule=tuple(first.schedule)), Options(reruns=0))

    assert again.findings[0].rules == first.rules
    assert again.findings[0].calls == first.calls


def test_what_a_target_lacks_is_unsupported_not_passed() -> None:
    litmus = Item(kind="litmus", config=PAGED, name="lock/counters-follow-locks")
    random_item = Item(kind="random", config=PAGED, ops=50)

    assert "needs" in run_item(PoolOnly(), litmus, Options()).unsupported
    result = run_item(PoolOnly(), random_item, Options())
    assert result.steps
    assert result.evaluated["POOL-01"]
    assert not result.evaluated["TREE-01"]


def test_a_target_that_cannot_be_made_is_the_harness_error_that_it_is() -> None:
    class Broken:
        profile = PROFILE

        def make(self, config: Config) -> object:
            raise RuntimeError("no such device")

    result = run_item(Broken(), Item(kind="random", config=PAGED, ops=5), Options())

    assert "no such device" in result.error
    assert not result.findings


@pytest.mark.parametrize("kind", ["random", "litmus", "schedule"])
def test_items_and_results_survive_json(kind: str) -> None:
    item = Item(
        kind=kind, config=PAGED, name=next(iter(LITMUS)), seed=3, ops=40, schedule=(Op("match", 1, 2, 3), Op("evict"))
    )
    result = run_item(SpecimenTarget(Parts(requests=LeaksTail)), item, Options(shrink_trials=50))

    assert item_from_json(to_json(item)) == item
    assert to_json(result_from_json(to_json(result))) == to_json(result)


@given(st.lists(st.integers(0, 255), min_size=1, max_size=40), st.integers(0, 255))
def test_shrinking_keeps_failing_and_finds_the_smallest_cause(numbers: list[int], needle: int) -> None:
    ops = [Op("match", number) for number in [*numbers, needle | 1]]

    def fails(trial: Sequence[Op]) -> int | None:
        return len(trial) if any(op.a & 1 for op in trial) else None

    assert shrink(ops, fails, trials=10_000, seconds=600) == ([Op("match", 1)], "")


def test_a_budget_of_nothing_shrinks_nothing() -> None:
    ops = [Op("match", 5), Op("evict", 7)]

    assert shrink(ops, len, trials=0) == (ops, "shrinking stopped after 0 tries")
    assert shrink(ops, len, seconds=0) == (ops, "shrinking stopped after 0 s")


def test_shrinking_says_whether_it_ended_by_itself() -> None:
    ops = [Op("match", number) for number in range(60)]

    def all_of_them(trial: Sequence[Op]) -> int | None:
        return len(trial) if [op.kind for op in trial] == ["match"] * 60 else None

    assert shrink(ops, len, trials=100_000, seconds=600).stopped == ""
    assert shrink(ops, len, trials=1, seconds=600).stopped == "shrinking stopped after 1 try"
    assert shrink(ops, all_of_them, trials=100_000, seconds=600).stopped == "too long for trying pairs of operations"


def test_a_smaller_number_that_makes_more_calls_is_not_simpler() -> None:
    """Published by itself a request takes one call, within a group of frees three: small numbers say the latter."""

    def calls(trial: Sequence[Op]) -> int | None:
        return sum(1 if op.b >= 48 else 3 for op in trial) or None

    for drawn in (200, 5):
        ((op,), _) = shrink([Op("publish", 9, drawn, 9)], calls, trials=10_000, seconds=600)
        assert (op.a, op.c) == (0, 0)
        assert op.b >= 48


def test_muted_rules_are_not_judged() -> None:
    options = Options(muted=frozenset({"POOL-12", "POOL-14", "REQ-07"}), reruns=0)
    result = run_item(SpecimenTarget(Parts(requests=LeaksTail)), Item(kind="random", config=PAGED, ops=250), options)

    assert not result.evaluated["POOL-12"]
    assert not {rule for found in result.findings for rule in found.rules} & options.muted
    assert replace(options, reruns=1).muted == options.muted
