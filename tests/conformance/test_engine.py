"""The engine: schedules are decoded, played, shrunk, and played again with the broken rule muted."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlitmus.conformance.checker.calls import misuse
from kvlitmus.conformance.checker.calls.prefix.tier import merge
from kvlitmus.conformance.generate import shrink as shrinking
from kvlitmus.conformance.generate.naming import Naming
from kvlitmus.conformance.generate.schedule import NEEDS, WEIGHTS, Op, decode, draw, make_key, table
from kvlitmus.conformance.generate.shrink import MINIMAL, TWO_MINIMAL, Case, Failed, shrink
from kvlitmus.conformance.litmus import registry
from kvlitmus.conformance.litmus.registry import LITMUS, all_litmus
from kvlitmus.conformance.ports import PORTS, Config, Profile, capabilities_of
from kvlitmus.conformance.run.engine import HarnessError, make_checker, run_item
from kvlitmus.conformance.run.plan import CONFIGS, TIERED, configs_of, items
from kvlitmus.conformance.run.results import (
    Item,
    Options,
    item_from_json,
    result_from_json,
    schedule_from_json,
    to_json,
)
from kvlitmus.conformance.run.verdicts import missing
from kvlitmus.conformance.specimen.cache import SpecimenTarget, component_request_target, target
from kvlitmus.conformance.specimen.parts import PROFILE, Parts
from kvlitmus.conformance.specimen.prefix.request import RequestTable, SpecimenRequest
from kvlitmus.conformance.specimen.prefix.tree import Node, RadixTree
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.spec.law.rule import Rule
from kvlitmus.spec.parts import all_rules

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

    def free_tail(self, request: SpecimenRequest, start: int) -> None:
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
    pools, groups = (Config(pool=pool) for pool in ("store", "sparse", "ranks")), Config(components="groups")
    caches = [target.make(config) for config in (PAGED, TIERED, *pools, groups)]
    caches += [target.make(replace(groups, host_pages=8, storage="later")), component_request_target.make(groups)]
    kinds = table(frozenset({"reattach"}).union(*map(capabilities_of, caches)))

    assert draw(7, 50, kinds) == draw(7, 50, kinds) != draw(8, 50, kinds)
    assert set(kinds) == set(ALL) - {
        "misuse",
        "last_call",
        "plan_behind",
        "take_back",
        "fork",
        "save",
        "bring_back",
        "flush_all",
        "component_last_call",
    }
    assert draw(7, 50, kinds, misuse=True)[:-1] == draw(7, 50, kinds)
    assert draw(7, 50, kinds, misuse=True)[-1].kind == "component_last_call"
    flat = table(capabilities_of(caches[0]))
    assert draw(7, 50, flat, misuse=True)[-1].kind == "last_call"


@given(st.integers(0, 255), st.integers(0, 255), st.integers(0, 255), st.sampled_from(CONFIGS))
def test_keys_fit_the_pool_and_know_nothing_of_history(a: int, b: int, c: int, config: Config) -> None:
    key = make_key(config, a, b, c)

    assert key == make_key(config, a, b, c)
    assert key.length <= config.pages * config.page_size
    assert key.bigram == config.bigram


class Declared:
    """Makes the specimen, which has a profile of its own, and declares that nothing counts as a hit."""

    profile = replace(PROFILE, hit_counts="none")

    def make(self, config: Config) -> object:
        """The specimen as it always is."""
        return target.make(config)


def test_a_cache_is_judged_as_its_target_declares_whatever_the_cache_says_of_itself() -> None:
    """A profile that the adapter happened to have replaced the declared one, which then was never tried."""
    item = Item(kind="schedule", config=Config(), schedule=(Op("begin", 0, 2), Op("finish")))

    result = run_item(Declared(), item, Options(reruns=0, shrink_trials=0))

    assert [finding.rules for finding in result.findings] == [["TREE-13"]]
    assert not run_item(SpecimenTarget(profile=Declared.profile), item, Options()).findings


def without_a_snapshot(rule: Rule) -> bool:
    """Whether a rule is judged only where there is no snapshot: then tests/conformance/test_depths.py leads to it."""
    return rule.predicate.__module__ == "kvlitmus.spec.prefix.rules.unseen"


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.nightly)], ids=["one", "every"])
def test_every_litmus_test_exercises_the_rules_that_it_names(every: bool) -> None:
    """By day each in one configuration, not all of them in the same one."""
    declared = {rule for test in all_litmus().values() for rule in test.rules}
    fitting = defaultdict[str, list[Item]](list)
    for item in items(configs_of(target), PROFILE, steps=0):
        fitting[item.name].append(item)

    assert fitting
    for item in (one for at, all in enumerate(fitting.values()) for one in (all if every else [all[at % len(all)]])):
        result = run_item(target, item, Options())
        assert (result.findings, result.error, result.unexercised) == ([], "", []), item.id
    played = frozenset(PORTS) - {"batches"}  # what was published: no cache is played
    streams = {id for id, one in all_rules().items() if missing(one, played)}
    judged = {id for id, one in all_rules().items() if one.pack != "port" and not without_a_snapshot(one)} - streams
    assert judged - declared - {f"PREFETCH-{number:02}" for number in range(21)} == set()


def test_litmus_tests_are_listed_part_by_part_whoever_imports_them(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = list(all_litmus())
    parts = [name.partition("/")[0] for name in expected]
    assert [part for part, _ in itertools.groupby(parts)] == list(dict.fromkeys(parts))
    later = [name for name, part in zip(expected, parts, strict=True) if part == parts[-1]]
    monkeypatch.setattr(registry, "LITMUS", {name: LITMUS[name] for name in [*later, *expected]})
    assert list(all_litmus()) == expected


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
    result = run_item(SpecimenTarget(parts), Item(kind="random", config=PAGED, ops=250), Options(shrink_trials=0))
    broken = [set(found.rules) for found in result.findings]

    assert any("POOL-12" in rules for rules in broken)
    assert any(rules & {"LOCK-02", "LOCK-03", "LOCK-04"} for rules in broken)
    assert all(not one & other for at, one in enumerate(broken) for other in broken[:at])


def test_a_schedule_that_was_shrunk_breaks_the_same_rule_when_it_is_played_by_itself() -> None:
    mutant = SpecimenTarget(Parts(tree=ForgetsLocks))
    first = run_item(mutant, Item(kind="random", config=PAGED, seed=2, ops=250), Options()).findings[0]
    again = run_item(
        mutant, Item(kind="schedule", config=first.config, schedule=tuple(first.schedule)), Options(reruns=0)
    )

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


@pytest.mark.parametrize(
    ("adapter", "said"),
    [
        (None, "make() returned None, which implements no port"),
        (SimpleNamespace(), "make() returned SimpleNamespace, which implements no port"),
        (
            SimpleNamespace(alloc=len, available=len, lock=len),
            "make() returned SimpleNamespace, which implements no port; for pool it lacks free",
        ),
    ],
)
def test_an_adapter_without_a_port_is_named_by_its_type(adapter: object, said: str) -> None:
    """And by what it lacks for the port that it has most of; a forgotten ``return`` is the commonest cause."""
    target = SimpleNamespace(profile=Profile(), make=lambda config: adapter)
    with pytest.raises(HarnessError) as raised:
        make_checker(target, Config(), Options())
    assert str(raised.value) == said


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


def calls_of(case: Case, _: int | None) -> Failed | None:
    """Every schedule fails, with a call for each operation."""
    return Failed(len(case.ops))


@given(st.lists(st.integers(0, 255), min_size=1, max_size=40), st.integers(0, 255))
def test_shrinking_keeps_failing_and_finds_the_smallest_cause(numbers: list[int], needle: int) -> None:
    ops = tuple(Op("match", number) for number in [*numbers, needle | 1])

    def fails(case: Case, _: int | None) -> Failed | None:
        return Failed(len(case.ops)) if case.config == PAGED and any(op.a & 1 for op in case.ops) else None

    assert shrink(Case(PAGED, ops), fails, trials=10_000) == (Case(PAGED, (Op("match", 1),)), "", MINIMAL)


def test_nothing_is_shrunk_into_a_configuration_that_does_not_ask_for_it() -> None:
    """Without storage nothing is asked of prefetches: FETCH-04 would not be judged, though one is made."""
    mutant = all_mutants()["fetch-loses-a-page-of-its-memory"]
    ops = (Op("attach"), Op("prefetch", 0, 100), Op("tick"))
    item = Item(kind="schedule", config=TIERED, schedule=ops)
    (found,) = run_item(mutant.target, item, Options(reruns=0, shrink_trials=60)).findings
    assert (found.rules, found.config.storage, len(found.schedule)) == (["POOL-12", "FETCH-04"], "attached", 1)


def test_a_budget_of_nothing_shrinks_nothing() -> None:
    case = Case(PAGED, (Op("match", 5), Op("evict", 7)))

    assert shrink(case, calls_of, trials=0) == (case, "shrinking stopped after 0 tries", "")
    assert shrink(case, calls_of, seconds=0) == (case, "shrinking stopped after 0 s", "")


def test_shrinking_says_whether_it_ended_by_itself() -> None:
    case = Case(PAGED, tuple(Op("match", number) for number in range(60)))

    def all_of_them(trial: Case, _: int | None) -> Failed | None:
        return Failed(60) if len(trial.ops) == 60 else None

    def never(*_: object) -> None:
        return None

    assert shrink(case, calls_of, trials=100_000).stopped == ""
    assert shrink(case, calls_of, trials=1).stopped == "shrinking stopped after 1 try"
    assert shrink(case, all_of_them, trials=100_000).stopped == "too long for trying pairs of operations"
    assert shrink(case, never, trials=100_000).stopped == "it did not occur again when it was shrunk"


def test_a_smaller_number_that_makes_more_calls_is_not_simpler() -> None:
    """Published by itself a request takes one call, within a group of frees three: small numbers say the latter."""

    def calls(case: Case, _: int | None) -> Failed | None:
        return Failed(sum(1 if op.b >= 48 else 3 for op in case.ops)) if case.ops else None

    for drawn in (200, 5):
        ((_, (op,)), *_) = shrink(Case(PAGED, (Op("publish", 9, drawn, 9),)), calls, trials=10_000)
        assert (op.a, op.c) == (0, 0)
        assert op.b >= 48


def test_a_request_is_dropped_with_all_that_is_its_and_what_follows_the_failure_with_it() -> None:
    """Of three requests one fails; neither runs of operations nor pairs of them are one request."""
    ops = [Op(kind, 0, 0, rid) for kind in ("begin", "grow", "finish") for rid in (1, 2, 3)]
    ops += [Op("tick")] * 200

    def fails(case: Case, _: int | None) -> Failed | None:
        ours = [op for op in case.ops if op.c]
        if any(sum(op.c == rid for op in ours) not in (0, 3) for rid in (1, 2, 3)) or 3 not in {op.c for op in ours}:
            return None
        last = max(at for at, op in enumerate(case.ops) if (op.kind, op.c) == ("finish", 3))
        return Failed(last + 1, tuple(range(last + 1)), makers(case.ops))

    found = shrink(Case(PAGED, tuple(ops)), fails, trials=400)
    assert [op.kind for op in found.case.ops] == ["begin", "grow", "finish"]


def test_what_makes_several_calls_is_spelt_out_where_single_ones_do() -> None:
    """Of the five calls of a delivery one is needed."""

    def fails(case: Case, _: int | None) -> Failed | None:
        calls = [call for op in case.ops for call in (["tick()"] * 5 if op.kind == "deliver" else [f"{op.kind}()"])]
        return Failed(len(calls), (0,)) if "tick()" in calls else None

    def spell_out(case: Case, _: Failed) -> list[Op]:
        return [one for op in case.ops for one in ([Op("tick")] * 5 if op.kind == "deliver" else [op])]

    case = Case(PAGED, (Op("deliver"),))
    assert shrink(case, fails, trials=1_000).case.ops == case.ops
    spelt = Case(PAGED, (Op("tick"),))
    assert shrink(case, lambda one, most: begun(fails(one, most), one), trials=1_000, spell_out=spell_out).case == spelt


def begun(failed: Failed | None, case: Case) -> Failed | None:
    """The same with a beginning for each operation."""
    return failed and failed._replace(began=tuple(range(len(case.ops))))


def makers(ops: Sequence[Op]) -> Naming:
    """Of each operation the one that began the same request."""
    naming = Naming()
    naming.about = {
        at: next(first for first, one in enumerate(ops) if (one.kind, one.c) == ("begin", op.c))
        for at, op in enumerate(ops)
        if op.c and op.kind != "begin"
    }
    return naming


def test_many_requests_are_dropped_at_once() -> None:
    """Of 64 requests the last one fails: halves of them go before single ones."""
    ops = tuple(Op(kind, 0, 0, rid) for rid in range(64) for kind in ("begin", "finish"))
    played: list[int] = []

    def fails(case: Case, _: int | None) -> Failed | None:
        played.append(len(case.ops))
        kinds, rids = [op.kind for op in case.ops], [op.c for op in case.ops]
        if rids[-2:] != [63, 63] or kinds != ["begin", "finish"] * (len(kinds) // 2) or rids[::2] != rids[1::2]:
            return None
        return Failed(len(kinds), tuple(range(len(kinds))), makers(case.ops))

    assert [op.c for op in shrink(Case(PAGED, ops), fails, trials=400).case.ops] == [63, 63]
    assert len(played) < 100


def test_of_a_short_one_every_part_is_tried() -> None:
    """Neither runs of them nor pairs can be left out, but four at once."""
    whole = tuple(Op("match", at) for at in range(9))

    def fails(case: Case, _: int | None) -> Failed | None:
        return Failed(len(case.ops)) if [op.a for op in case.ops] in ([*range(9)], [0, 2, 4, 6, 8]) else None

    assert shrink(Case(PAGED, whole), fails, trials=4_000) == (Case(PAGED, whole[::2]), "", MINIMAL)


def test_of_a_long_one_pairs_are_tried() -> None:
    """It isn't known then whether some further ones would do."""
    whole = tuple(Op("match", at) for at in range(13))

    def fails(case: Case, _: int | None) -> Failed | None:
        return Failed(len(case.ops)) if [op.a for op in case.ops] in ([*range(13)], [0, 2, 4, 6, 8, 10, 12]) else None

    assert shrink(Case(PAGED, whole), fails, trials=4_000) == (Case(PAGED, whole), "", TWO_MINIMAL)


def test_what_is_left_out_does_not_change_what_others_are_about() -> None:
    """The fifth of six requests is the one: the others go, though each that goes changes the numbers of the rest."""
    ops = [Op("begin"), Op("begin"), Op("begin"), Op("begin"), Op("begin", 0, 5), Op("begin"), Op("grow", 0, 2, 58)]
    ops += [Op("grow", 0, 1, 52), Op("finish", 0, 0, 215), Op("finish", 0, 0, 58), Op("evict", 255)]
    item = Item(kind="schedule", config=PAGED, schedule=tuple(ops))

    (found,) = run_item(SpecimenTarget(Parts(requests=LeaksTail)), item, Options(reruns=0)).findings
    assert [(op.kind, op.of) for op in found.schedule] == [("begin", -1), ("grow", 0)]
    assert (found.minimal, found.not_minimal) == ("minimal", "")
    again = Item(kind="schedule", config=found.config, schedule=schedule_from_json(to_json(found.schedule)))
    (same,) = run_item(SpecimenTarget(Parts(requests=LeaksTail)), again, Options(reruns=0, shrink_trials=0)).findings
    assert (same.rules, same.calls) == (found.rules, found.calls)


def test_a_counterexample_is_shrunk_alike_however_slow_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a finding lists must not depend on how many plays fit into some seconds."""

    def shrunk(seconds_per_look: float) -> tuple[Case, str]:
        clock = itertools.count(0, seconds_per_look)
        monkeypatch.setattr(shrinking, "monotonic", lambda: float(next(clock)))
        result = run_item(
            SpecimenTarget(Parts(requests=LeaksTail)), Item(kind="random", config=PAGED, ops=100), Options(reruns=0)
        )
        (found,) = result.findings
        return Case(found.config, tuple(found.schedule)), found.not_minimal

    assert shrunk(0.0) == shrunk(0.1)


def test_a_call_that_is_made_again_and_again_is_one_line() -> None:
    history: list[str] = []
    for call in ["tick()", "tick()", "advance(fetch 4)", *["advance(fetch 4)"] * 399, "tick()"]:
        history.append(call)
        merge(history)
    assert history == ["tick() ×2", "advance(fetch 4) ×400", "tick()"]


def test_muted_rules_are_not_judged() -> None:
    options = Options(muted=frozenset({"POOL-12", "POOL-14", "REQ-07"}), reruns=0)
    result = run_item(SpecimenTarget(Parts(requests=LeaksTail)), Item(kind="random", config=PAGED, ops=250), options)

    assert not result.evaluated["POOL-12"]
    assert not {rule for found in result.findings for rule in found.rules} & options.muted
    assert replace(options, reruns=1).muted == options.muted


def test_calls_after_misuse_evaluate_once_that_the_cache_goes_on() -> None:
    checker = make_checker(target, CONFIGS[0], Options())
    for times in (1, 2):
        misuse.go_on(checker, lambda: None)
        assert checker.evaluated[misuse.GOES_ON] == times
