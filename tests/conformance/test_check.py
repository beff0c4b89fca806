"""Recorded traces: what a run finds in a cache, a check finds in its trace; and what only a check finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvlitmus.conformance.adapters.reference import target as reference
from kvlitmus.conformance.history import playback
from kvlitmus.conformance.litmus.registry import all_litmus
from kvlitmus.conformance.ports import PORTS, Config, capabilities_of
from kvlitmus.conformance.run import engine
from kvlitmus.conformance.run.plan import suits
from kvlitmus.conformance.run.results import Item, Options
from kvlitmus.conformance.specimen import cache as specimen
from kvlitmus.conformance.tape.recorder import Recording
from kvlitmus.mutants.mutant import Mutant
from kvlitmus.mutants.registry import all_mutants
from tests.conformance.support.recorder import call, check, key, record, schedule, written
from tests.support.night import by_turns

CONFIGS = (
    Config(page_size=1),
    Config(page_size=4, policy="slru"),
    Config(page_size=4, bigram=True),
    Config(page_size=4, pool="host"),
)


@pytest.mark.parametrize("target", [specimen.target, reference.target], ids=["specimen", "reference"])
@pytest.mark.parametrize("depth", [0, 1, 3])
@pytest.mark.parametrize("config", by_turns(CONFIGS, every=2), ids=lambda config: config.label)
def test_a_recorded_run_passes_and_every_rule_is_evaluated_as_often(
    target: Any, depth: int, config: Config, tmp_path: Path
) -> None:
    for seed in (1, 2):
        program = schedule(target, config, seed, 120, leave="hashes")
        checker, violation = record(target, config, program, tmp_path / "t.jsonl", depth=depth)
        trace_checker = check(tmp_path / "t.jsonl")
        assert violation is None
        assert (trace_checker.outcome.findings, trace_checker.outcome.misuse) == ([], [])
        assert not trace_checker.outcome.stopped and not trace_checker.outcome.error
        assert trace_checker.checker.depth == checker.depth == depth
        assert trace_checker.checker.steps == checker.steps
        assert trace_checker.checker.reached == checker.reached
        run, again = checker.counted(), trace_checker.checker.counted()
        # Which slots a plan holds is the one thing that a trace doesn't say.
        assert {id: times for id, times in run.items() if id != "PREFETCH-17"} == dict(again)


class Parts:
    """A target whose caches have no requests of their own: the engine makes them of match, lock, alloc and insert."""

    def __init__(self, target: Any) -> None:
        self.target, self.profile = target, target.profile

    def make(self, config: Config) -> Any:
        cache = self.target.make(config)

        class WithoutRequests:
            def __getattr__(self, name: str) -> Any:
                if name in PORTS["requests"]:
                    raise AttributeError(name)
                return getattr(cache, name)

        return WithoutRequests()


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_an_engine_that_makes_requests_of_parts_is_blamed_for_nothing(depth: int, tmp_path: Path) -> None:
    config = Config(page_size=4, pages=16)
    program = schedule(specimen.target, config, 7, 150, leave="hashes")
    checker, violation = record(Parts(specimen.target), config, program, tmp_path / "t.jsonl", depth=depth)
    trace_checker = check(tmp_path / "t.jsonl")
    assert violation is None and "begin" in checker.reached and "begin" not in trace_checker.checker.reached
    assert trace_checker.checker.steps > checker.steps, "the parts of each request are calls of their own"
    assert (trace_checker.outcome.findings, trace_checker.outcome.misuse, trace_checker.outcome.stopped) == ([], [], "")
    assert "requests" not in trace_checker.checker.capabilities


def test_litmus_tests_pass_and_two_calls_are_held_against_each_other(tmp_path: Path) -> None:
    target, config = specimen.target, Config(page_size=4)
    evaluated: set[str] = set()
    for test in all_litmus().values():
        needs_another_cache = any(rule in test.rules for rule in ("EVICT-07",))
        if test.misuse or needs_another_cache or not suits(test, config, target.profile, force_misuse=False):
            continue
        _, violation = record(target, config, test.program, tmp_path / "t.jsonl")
        trace_checker = check(tmp_path / "t.jsonl")
        assert violation is None
        assert (trace_checker.outcome.findings, trace_checker.outcome.misuse, trace_checker.outcome.error) == (
            [],
            [],
            "",
        ), test.id
        evaluated |= set(trace_checker.checker.counted())
    assert {"HASH-04", "HASH-05", "HASH-06", "POOL-19", "REQ-01"} <= evaluated


def test_what_a_run_has_recorded_is_judged_like_what_a_logger_wrote(tmp_path: Path) -> None:
    """Handles are named by the steps that gave them, looks are changes, and within a group there are none."""
    mutant = all_mutants()["split-forgets-locks"]
    for name, target in (("good", specimen.target), ("bad", mutant.target)):
        recording = Recording(target)
        item = Item(kind="random", config=Config(page_size=4), seed=0, ops=300)
        result = engine.run_item(recording, item, Options(shrink_trials=0, reruns=0))
        path = tmp_path / f"{name}.jsonl"
        path.write_bytes(recording.record(item) or b"")
        outcome = check(path, ignore_unknown=True).outcome
        assert [one.finding.rules for one in outcome.findings] == [one.rules for one in result.findings]
        assert bool(result.findings) == (name == "bad") and not outcome.error and not outcome.misuse
        assert outcome.ignored.keys() <= {"plan_prefetch", "raw_array", "raw_match"}


# -- mutants ---------------------------------------------------------------------------------------

UNSEEN = {
    "staging-buffer-reused": "a trace holds copies of what was answered (PORT-04)",
    "answer-is-the-free-list": "a trace holds copies of what was answered (PORT-04)",
    "prefetch-forgets-a-page": "a trace tells how many host slots a plan got, and not which (PREFETCH-17)",
}
"""Mutants whose bug leaves no trace, and why; those of the pack ``misuse`` need a caller that breaks the contract."""


FLAT = frozenset(
    {*("pool", "extend", "group", "tree", "locks", "evict", "requests", "partial", "reset"), "hashes", "prefetch"}
)
"""The ports whose calls the logger of the docs writes down."""


def recordable(*, null: bool) -> list[Mutant]:
    """The mutants of flat caches; without misuse nothing is called with raw arrays."""
    judged = FLAT | {
        "counters",
        "inspect",
        "events",
        "lookup",
        "raw",
        "raw_requests",
        "take_back",
        "fork",
        "retract",
        "flush",
    }
    return [
        mutant
        for mutant in all_mutants().values()
        if mutant.null == null and capabilities_of(mutant.target.make(mutant.configs[-1])) <= judged
    ]


@pytest.mark.slow
@pytest.mark.nightly
def test_a_check_finds_in_a_mutants_trace_what_the_run_found_in_the_mutant(tmp_path: Path) -> None:
    found: dict[str, tuple[str, ...]] = {}
    for mutant in recordable(null=False):
        if mutant.id in UNSEEN:
            continue
        config = mutant.configs[-1]
        program = schedule(mutant.target, config, 1, 130)
        _, violation = record(mutant.target, config, program, tmp_path / "t.jsonl")
        trace_checker = check(tmp_path / "t.jsonl")
        assert not trace_checker.outcome.error, (mutant.id, trace_checker.outcome.error)
        if violation is None:
            assert trace_checker.outcome.findings == [], mutant.id
        elif violation.rules != ("PORT-04",):
            (one,) = trace_checker.outcome.findings
            lines = (tmp_path / "t.jsonl").read_text().splitlines()
            assert tuple(one.finding.rules) == violation.rules, mutant.id
            assert one.line >= len(lines) - 8, f"{mutant.id}: the run ended there (one step may be several lines)"
            found[mutant.id] = violation.rules
    assert len(found) >= 60
    assert len({rule for rules in found.values() for rule in rules}) >= 30


@pytest.mark.parametrize("at_all", [False, pytest.param(True, marks=pytest.mark.nightly)], ids=["one", "all"])
def test_a_check_is_silent_on_null_mutants(at_all: bool, tmp_path: Path) -> None:
    """By day each is seen at one depth, every second one at the full one."""
    nulls = recordable(null=True)
    assert len(nulls) >= 20
    for at, mutant in enumerate(nulls):
        config = mutant.configs[-1]
        for depth in (0, 3) if at_all else (3 * (at % 2),):
            record(mutant.target, config, schedule(mutant.target, config, 1, 60), tmp_path / "t.jsonl", depth=depth)
            outcome = check(tmp_path / "t.jsonl").outcome
            assert (outcome.findings, outcome.misuse, outcome.error) == ([], [], ""), mutant.id


def test_forgetting_prefixes_that_nobody_speaks_of_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for config, depth in ((Config(page_size=1), 3), (Config(page_size=4, bigram=True), 0), (Config(page_size=4), 1)):
        program = schedule(specimen.target, config, 5, 300, leave="hashes")
        checker, _ = record(specimen.target, config, program, tmp_path / "t.jsonl", depth=depth)
        whole = check(tmp_path / "t.jsonl").checker
        monkeypatch.setattr(playback, "MANY_NAMES", 20)
        small = check(tmp_path / "t.jsonl")
        monkeypatch.undo()
        assert (small.outcome.findings, small.outcome.error) == ([], "")
        assert small.checker.reached == whole.reached == checker.reached
        assert small.checker.counted() == whole.counted()
        assert small.checker.prefixes.spare, "some were forgotten"
        assert len(small.checker.names._ids) < len(whole.names._ids)


# -- what is known of contents ---------------------------------------------------------------------

ALIASED = (
    call("alloc", 4, answer=[4, 5, 6, 7]),
    call("write", [4, 5, 6, 7], key(1, 2, 3, 4)),
    call("insert", key(1, 2, 3, 4), [4, 5, 6, 7], answer={"already": 0}),
    call("alloc", 4, answer=[8, 9, 10, 11]),
    call("write", [4, 5, 6, 7], key(9, 9, 9, 9)),
    call("match", key(1, 2, 3, 4), answer={"length": 4, "slots": [4, 5, 6, 7], "handle": "h1"}),
)
"""Somebody computed another prompt into the slots that the tree holds."""


@pytest.mark.parametrize(("contents", "rules"), [("unknown", []), ("as_asked", []), ("recorded", [["TREE-03"]])])
def test_contents_are_judged_only_as_far_as_the_trace_tells_them(
    contents: str, rules: list[list[str]], tmp_path: Path
) -> None:
    trace_checker = check(written(tmp_path / "t.jsonl", *ALIASED, contents=contents))
    assert [one.finding.rules for one in trace_checker.outcome.findings] == rules
    assert trace_checker.checker.counted()["TREE-03"] == (0 if contents == "unknown" else 1)
    assert [one.line for one in trace_checker.outcome.findings] == [7] * len(rules)


def test_a_wrong_row_is_seen_where_the_trace_vouches_for_what_is_written(tmp_path: Path) -> None:
    stale = (
        call("begin", "a", key(1, 2, 3, 4), answer={"row": [4, 5, 6, 7], "cached": 0}),
        call("end", "a", kwargs={"keep": True}),
        call("begin", "b", key(9, 2, 3, 4), answer={"row": [4, 5, 6, 7], "cached": 4}),
    )
    (one,) = check(written(tmp_path / "t.jsonl", *stale, contents="as_asked")).outcome.findings
    assert one.line == 4 and one.finding.rules == ["TREE-02", "TREE-03", "REQ-02"]
    (one,) = check(written(tmp_path / "t.jsonl", *stale)).outcome.findings
    assert one.finding.rules == ["TREE-02"], "that a hit was impossible is seen all the same"


# -- batches and groups ----------------------------------------------------------------------------


def test_a_batch_is_one_allocation_and_each_of_its_requests_continues_its_page(tmp_path: Path) -> None:
    begin = call("alloc", 8, answer=[4, 5, 6, 7, 8, 9, 10, 11])
    args = [2, 3], [5, 4], [5, 10]
    good = check(written(tmp_path / "a.jsonl", begin, call("alloc_extend", *args, answer=[6, 7, 12, 11])))
    assert good.outcome.findings == [] and good.checker.counted()["POOL-17"] == 2
    bad = check(written(tmp_path / "b.jsonl", begin, call("alloc_extend", *args, answer=[6, 7, 12, 13])))
    assert [one.finding.rules for one in bad.outcome.findings] == [["POOL-17"]]
    page_too_many = call("alloc_decode", [3, 4], [5, 10], answer=[12, 16])
    worse = check(written(tmp_path / "c.jsonl", begin, page_too_many)).outcome
    assert [one.finding.rules for one in worse.findings] == [["POOL-18"]]


def test_in_a_group_of_all_sorts_the_pool_is_judged_at_its_end(tmp_path: Path) -> None:
    def lines(at_end: int) -> tuple[dict[str, Any], ...]:
        return (
            call("begin", 1, key(1, 2, 3, 4), answer={"row": [4, 5, 6, 7], "cached": 0}, available=28),
            call("alloc", 4, answer=[8, 9, 10, 11], available=24),
            call("free_group_begin", available=24),
            call("end", 1, kwargs={"keep": False}, available=24),
            call("free", [8, 9, 10, 11], available=24),
            call("free_group_end", available=at_end),
            call("alloc", 4, answer=[12, 13, 14, 15], available=at_end - 4),
        )

    assert check(written(tmp_path / "a.jsonl", *lines(32), available=32)).outcome.findings == []
    lost = [*lines(28)[:-1], call("alloc", 32, answer=None, available=28)]
    good_so_far = check(written(tmp_path / "b.jsonl", *lost, available=32))
    assert good_so_far.outcome.findings == [], "a pool without counters of the tree may hold something back"
    in_between = check(written(tmp_path / "c.jsonl", *lines(32)[:5], available=32)).outcome
    assert "ends within the free group" in in_between.stopped and in_between.findings == []
