"""The benchmarks of the judge, small: what the schedules are like, and what is taken for it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from benchmarks import engine, hierarchy
from benchmarks.record import at_least, at_most, parser, path_of, stamp, verdicts, write
from kvlitmus.conformance.run.plan import TIER_CONFIGS


def test_schedules_are_looked_at() -> None:
    seen = engine.measure_character(4, 1)
    assert seen.steps > 200 and seen.live > 1 and 0 < seen.changing < 1
    low = hierarchy.measure_character(TIER_CONFIGS[0], 1)
    assert low.steps > 200 and low.alive > 0 and low.begun > 0


def test_both_drivers_are_timed_and_a_planted_bug_is_found() -> None:
    speed = engine.measure_speed(4, 1, 1, 1)
    assert min(speed.engine, speed.machine) > 0 and speed.engine_rules > speed.machine_rules > 0
    planted = engine.chosen()[0]
    config = engine.config_of(planted)
    assert config is not None and engine.find_with_engine(planted, config) > 0


def test_a_goal_that_was_not_run_is_neither_met_nor_missed() -> None:
    goals = [at_least("a", "x", 2, 2), at_most("b", "y", 2, 2.00001, " us"), at_least("c", "z", 2, None)]
    assert [goal.met for goal in goals] == [True, False, None]
    assert [line[:8] for line in verdicts(goals, {"a": "A"}).splitlines()] == ["met    A", "MISSED b", "not run "]


def test_a_record_is_whole_and_says_where_it_comes_from(tmp_path: Path) -> None:
    given = parser("x.py", "What it does.", "less").parse_args(["--quick", "--date", "now", "--into", str(tmp_path)])
    path = path_of(given, "kind")
    assert path == tmp_path / "kind-now.json"
    write(path, {**stamp("now"), "goals": [at_least("a", "", 1, 2)], "odd": math.inf}, "<svg/>")
    found = json.loads(path.read_text())
    assert found["goals"][0]["met"] is True and found["odd"] is None and found["machine"]["cores"] and found["commit"]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["kind-now.json", "kind-now.svg"]


@pytest.mark.parametrize("arguments", [["--quick"], []])
def test_a_quick_run_writes_nothing_unless_it_is_told_where(arguments: list[str]) -> None:
    assert (path_of(parser("x.py", None, "").parse_args(arguments), "kind") is None) == bool(arguments)
