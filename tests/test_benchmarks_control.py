"""The benchmarks of the control plane: how they take time, how they judge, and a small run without any peer."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("numba")

from benchmarks import timing
from benchmarks.bars import GREEN, RED
from benchmarks.control import cold
from benchmarks.control import command as control
from benchmarks.control import page as control_page
from benchmarks.control.chats import Chat, comb, stripped
from benchmarks.control.components import REACH, OursWithComponents, with_components
from benchmarks.control.goals import CORES, NEW, OLD, TIERS, WITH_COMPONENTS, goals
from benchmarks.control.order import PAGE, PAGES, Both, compare
from benchmarks.control.ours import OurRequests, OurRequestsWithTiers, Ours, OursWithTiers, cores
from benchmarks.control.report import TITLES, picture, table
from benchmarks.control.rows import QUICK, SMALL_POOL, Peers, Row, Scale
from benchmarks.control.trace import CAPACITIES
from benchmarks.record import Goal, machine, verdicts
from benchmarks.timing import Action, Stat, measure
from kvlitmus.conformance.ports import Config
from kvlitmus.optimized.cores import lacking
from tests.test_layout import ROOT


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "benchmarks" / script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def stat(least: float, median: float | None = None) -> dict[str, float]:
    return {"least": least, "median": median or least, "mean": least, "rounds": 3}


def test_contenders_take_turns_and_the_order_changes() -> None:
    seen: list[str] = []
    actions = {name: Action(lambda name=name: seen.append(name), after=lambda: None) for name in "abc"}  # type: ignore[misc]
    found = measure(actions, rounds=4)
    assert "".join(seen) == "abcbcacababc"
    assert all(one.rounds == 4 for one in found.values())


def test_preparation_is_outside_of_the_clock() -> None:
    def wait() -> None:
        time.sleep(0.01)

    found = measure({"a": Action(lambda: None, before=wait, after=wait)}, rounds=1)
    assert found["a"].median < 1_000


def test_a_noisy_series_is_tried_again_and_the_quietest_attempt_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = iter([{"a": Stat(1, 5, 5, 3)}, {"a": Stat(1, 3, 3, 3)}, {"a": Stat(1, 4, 4, 3)}])
    monkeypatch.setattr(timing, "_attempt", lambda _actions, _rounds: next(attempts))
    found = measure({}, rounds=3, judged=("a",))
    assert found["a"] == Stat(1, 3, 3, 3)
    assert found["a"].noisy
    assert not Stat(1, 2, 2, 3).noisy


def _judged(runs: dict[str, Any], row: str, what: str) -> Goal:
    (found,) = [goal for goal in goals(runs) if goal.row == row and goal.what == what]
    return found


def test_goals_are_judged_by_figures_of_one_process() -> None:
    one = {"32k": {"ours": stat(10), "rust": stat(31), "python": stat(49), "floor": stat(3)}}
    runs = {NEW: {"match-32k": {"cells": one, "facts": {}}}, OLD: {"match-32k": {"cells": {"32k": {"ours": stat(1)}}}}}
    assert _judged(runs, "match-32k", "times the Rust core") == Goal(
        "match-32k", "times the Rust core", "≥ 3", 3.1, True
    )
    assert _judged(runs, "match-32k", "times the Python core").met is False
    assert _judged(runs, "match-32k", "above the compare floor").measured == 7


def test_what_was_not_run_is_neither_met_nor_missed() -> None:
    assert {goal.met for goal in goals({})} == {None}
    assert {goal.met for goal in goals({NEW: {"match-32k": {"failed": "no such thing"}}})} == {None}
    assert _judged({NEW: {"order": {"facts": {"victims": 0, "different": []}}}}, "order", _ORDER).met is None
    assert _judged({NEW: {"order": {"facts": {"victims": 9, "different": []}}}}, "order", _ORDER).met is True
    assert _judged({NEW: {"order": {"facts": {"victims": 9, "different": ["lru"]}}}}, "order", _ORDER).met is False


_ORDER = "policies with other victims than the reference"


def test_hits_are_the_reference_s_or_the_goal_is_missed() -> None:
    def runs(hits: int) -> dict[str, Any]:
        seen = {"mean": 1.0, "hit_tokens": hits}
        return {NEW: {"trace": {"facts": {"3000000": {"expected": 640, "ours": seen, "python": {"mean": 16.0}}}}}}

    what = "hit tokens besides the reference's, 3M tokens"
    assert _judged(runs(640), "trace", what).met is True
    assert _judged(runs(704), "trace", what).met is False
    assert _judged(runs(640), "trace", "times the Python core, 3M tokens").measured == 16


def test_the_trace_is_judged_by_the_faster_of_our_ways_against_each_core() -> None:
    seen = {"ours": 30.0, "ours, begin and end": 20.0, "rust": 240.0, "python": 900.0}
    facts = {"expected": 64, **{name: {"mean": mean, "hit_tokens": 64} for name, mean in seen.items()}}
    runs = {NEW: {"trace": {"facts": {"50000000": facts}}}}
    rust, python = (_judged(runs, "trace", f"times the {core} core, 50M tokens") for core in ("Rust", "Python"))
    assert (rust.measured, rust.met) == (12, True)
    assert (python.measured, python.met) == (45, False)


def test_a_tree_that_forks_is_judged_at_the_length_where_it_is_worst() -> None:
    fast, slow = {"ours": stat(1), "rust": stat(9)}, {"ours": stat(9), "rust": stat(10)}
    cells = {"10 turns, match": fast, "500 turns, match": slow, "10 turns, insert": fast}
    runs = {NEW: {"comb": {"cells": cells}}}
    assert _judged(runs, "comb", "match: times the Rust core, at the worst length").met is False
    assert _judged(runs, "comb", "insert: times the Rust core, at the worst length").measured == 9
    assert _judged(runs, "comb", "lock and unlock: times the Rust core, at the worst length").met is None


def test_the_compiled_core_must_not_be_slower_than_ours_in_python() -> None:
    def runs(compiled: float) -> dict[str, Any]:
        return {NEW: {"lock": {"cells": {"x": {"ours": stat(compiled), "ours, in Python": stat(10)}}}}}

    assert _judged(runs(9), "lock", "times our core in Python").met is True
    assert _judged(runs(11), "lock", "times our core in Python").met is False
    assert _judged({NEW: {"lock": {"cells": {"x": {"ours": stat(1)}}}}}, "lock", "times our core in Python").met is None


def test_a_chat_leaves_a_dead_end_at_each_turn() -> None:
    made = stripped(6)
    for before, after in pairwise([*made.cached, made.asked]):
        length = min(len(before), len(after))
        common = int(np.argmax(before[:length] != after[:length]))
        assert 0 < common < length - 64, "its thinking is in no later prompt"


@pytest.mark.parametrize("make", [comb, stripped])
def test_of_a_tree_that_forks_what_is_asked_for_is_found(make: Callable[[int], Chat]) -> None:
    made, cache = make(5), Ours(64, 64 * 1024)
    assert all(cache.add(tokens) for tokens in made.cached), "each turn caches something"
    found = cache.matched(made.asked)
    assert 5 * 64 <= found <= len(made.asked) < found + 7 * 64


@pytest.mark.parametrize("kind", [Ours, OurRequests])
def test_a_request_is_served_whole(kind: type[Ours]) -> None:
    cache = kind(4, 28)
    units = np.arange(16, dtype=np.int32)
    assert [cache.serve(units), cache.serve(units), cache.serve(units + 100), cache.serve(units)] == [0, 16, 0, 12]
    assert cache.cache.sizes()[1] == 0, "nothing stays locked"


@pytest.mark.parametrize("kind", [OursWithTiers, OurRequestsWithTiers])
def test_a_request_with_tiers_loads_back_what_has_left_the_device(kind: type[OursWithTiers]) -> None:
    cache = kind(4, 28, 64)
    units = np.arange(16, dtype=np.int32)
    found = []
    for asked in (units, units, units + 100, units):
        found.append(cache.serve(asked))
        cache.settle()
    assert found == [0, 16, 0, 16], "the fourth page of the first prompt was on the host alone"
    assert cache.cache.sizes()[1] == 0 and not cache.cache.jobs(), "nothing stays locked, or under way"


def test_a_whole_request_begins_its_backups_and_leaves_their_end_to_the_clock_s_outside() -> None:
    cache, head = OursWithTiers(4, 64), np.arange(8)
    cache.add(head)
    action = cache.request(head, iter([np.arange(100, 104)]), 1)
    assert action.before is not None and action.after is not None and action.clock is time.thread_time_ns
    action.before()
    assert action.run() == 8 and len(cache.cache.jobs()) == 1
    action.after()
    assert not cache.cache.jobs() and cache.matched(np.concatenate([head, np.arange(100, 104)])) == 12


def test_hierarchies_are_judged_by_one_another_at_the_worst_tree() -> None:
    ours, theirs = TIERS

    def cell(mine: float, other: float) -> dict[str, Any]:
        return {"ours": stat(1), "ours, with tiers": stat(1), ours: stat(mine), "rust": stat(1), theirs: stat(other)}

    cells = {"comb 0, 10 turns, match": cell(1, 7), "stripped 2, 500 turns, match": cell(10, 40)}
    means = {"ours": 9.0, "ours, with tiers": 15.0, ours: 20.0, theirs: 600.0}
    facts = {"room": {name: {"mean": mean} for name, mean in means.items()}}
    runs = {NEW: {"tiers": {"cells": cells}, "trace-tiers": {"facts": facts}}}
    match = _judged(runs, "tiers", "match: times the Rust core with its host tier, at the worst length")
    assert (match.measured, match.met) == (4, False)
    whole, with_tiers, without = (goal for goal in goals(runs) if goal.row == "trace-tiers")
    assert [goal.measured for goal in (whole, with_tiers, without)] == [30, 15, 9]
    assert [goal.met for goal in goals({}) if goal.row in ("tiers", "trace-tiers")] == [None] * 6


def test_a_cache_with_tiers_has_what_is_timed_on_the_host_too() -> None:
    cache, head = OursWithTiers(4, 64), np.arange(8)
    assert cache.add(head) == 2
    action = cache.grow(head, iter([np.arange(100, 108), np.arange(200, 208)]), 1)
    for _ in range(2):
        assert action.before is not None and action.after is not None
        action.before()
        action.run()
        assert len(cache.cache.jobs()) == 1, "the call begins a backup"
        action.after()
    assert cache.cache.host_available() == 64 - 24 and not cache.cache.jobs()
    assert (cache.name, cache.cache.core) == ("ours, with tiers", "python" if lacking() else "native")


needs_core = pytest.mark.skipif(bool(lacking()), reason="caches of components are in the compiled core alone")


@needs_core
@pytest.mark.parametrize("kind", WITH_COMPONENTS)
def test_a_request_of_components_is_served_whole_and_evicts_what_it_needs(kind: str) -> None:
    cache = OursWithComponents(kind, 16 * 64)
    one, other = np.arange(640), np.arange(640) + 1000
    assert [cache.serve(asked) for asked in (one, one, other, other)] == [0, 640, 0, 640]
    assert not cache.cache.sizes()[1].any(), "nothing stays locked"
    held = cache.cache.sizes()[0] + cache.cache.available()
    assert held.tolist() == [16] * len(held), "nothing is lost"


@needs_core
@pytest.mark.parametrize("kind", WITH_COMPONENTS)
def test_of_a_chat_whose_prompts_are_cached_each_is_found_where_it_goes_on(kind: str) -> None:
    made, cache = stripped(4, prompts=True), OursWithComponents(kind, 64 * 1024)
    assert [len(one) for one in made.cached[1::2]] == [len(one) for one in stripped(4).cached], "the same chat"
    assert all(cache.add(tokens) for tokens in made.cached), "each caches something"
    assert cache.matched(made.asked) == len(made.cached[-2]), "up to the last prompt, which has a state and its window"
    assert len(made.asked) > REACH


@needs_core
def test_rows_of_components_run_and_are_judged_at_the_worst_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    row = with_components(Peers(None), Scale(slow_rounds=1, times=1, turns=(2,), seeds=1), "window")
    assert len(row.cells) == 2 * 3 + 1 and all(set(series) == {"ours"} for series in row.cells.values())
    kept = iter([{"ours": Stat(1, 1, 1, 1), "rust": Stat(rust, rust, rust, 1)} for rust in (7, 4, 9)])
    monkeypatch.setattr("benchmarks.control.rows.measure", lambda *_given, **_more: next(kept))
    worst = Row("states")
    for _ in range(3):
        worst.add_worst("comb, 10 turns, match", {}, 1)
    cells = {name: {one: stat(x.least) for one, x in series.items()} for name, series in worst.cells.items()}
    runs = {NEW: {"states": {"cells": cells}}}
    match = _judged(runs, "states", "match: times the Rust core, at the worst length")
    assert (match.measured, match.met) == (4, False)
    assert {goal.met for goal in goals({}) if goal.row in WITH_COMPONENTS} == {None}


def test_the_suite_takes_caches_as_large_as_those_that_are_measured() -> None:
    for scale in (Scale(), QUICK):
        for pages in (scale.pool, SMALL_POOL, scale.leaves + 256, *(capacity // 64 for capacity in CAPACITIES)):
            assert Config(page_size=1, pages=pages).pages == pages


def test_the_cost_of_starting_is_that_of_a_process_that_serves() -> None:
    assert cold.seconds("import time\nwhile time.process_time() < 0.2: pass", {}) >= 0.2
    with pytest.raises(RuntimeError, match="exit code 3"):
        cold.seconds("raise SystemExit(3)", {})


def test_the_table_says_what_was_not_run_and_what_was_noisy() -> None:
    runs = {NEW: {"lock": {"cells": {"x": {"ours": stat(1, 2.5)}}, "facts": {}}, "sha": {"failed": "because"}}}
    text = table(runs, ["lock", "sha", "evict"])
    assert "noisy" in text
    assert "not run: because" in text
    assert text.endswith(f"{TITLES['evict']}  (process with none)\n    not run")
    assert verdicts([Goal("lock", "w", "≥ 3", None, None)]).startswith("not run")


def test_the_picture_is_drawn() -> None:
    some = [Goal("lock", "times", "≥ 50", 100.0, True), Goal("evict", "times", "≤ 1.5", 3.0, False)]
    bars = [each for each in ElementTree.fromstring(picture(some, "title")).iter() if each.get("height") == "13"]
    assert [each.get("fill") for each in bars] == [GREEN, RED]
    assert [each.get("width") for each in bars] == ["540.0", "180.0"], "decades, from half of the least on"
    assert picture([], "title") == ""


@pytest.mark.nightly
def test_victims_are_compared_and_a_difference_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    found = compare(150)
    assert found["different"] == []
    assert found["victims"] > 100
    made = Both.__init__

    def wrong(self: Both, policy: str, seed: int, core: str) -> None:
        made(self, policy, seed, core)
        if policy == "lru":
            self.ours = Ours(PAGE, PAGES * PAGE, "mru", core)

    monkeypatch.setattr(Both, "__init__", wrong)
    assert compare(150)["different"] == [f"lru{CORES[core]}" for core in cores()]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rows", "nonsense"], "no such row: nonsense"),
        (["--rows", ","], "no such row: (none)"),
        (["--trace", "/nowhere.jsonl"], "expected a file that can be read"),
        (["--quick", "--page"], "--page shows results that are written"),
        (["--update", "/nowhere/control.json"], "control.json can't be updated: it is no result of this script"),
    ],
)
def test_usage_errors_are_one_line(arguments: list[str], message: str) -> None:
    done = run("control.py", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.nightly
def test_a_small_run_without_any_peer(tmp_path: Path) -> None:
    trace = ROOT / "tests" / "data" / "small_trace.jsonl"
    nowhere = ["--peers", str(tmp_path / "nowhere")]
    done = run("control.py", "--quick", "--into", str(tmp_path), "--date", "now", "--trace", str(trace), *nowhere)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert f"not run: SGLang {NEW}" in done.stderr
    found = json.loads((tmp_path / "control-now.json").read_text())
    rows = found["runs"]["alone"]["rows"]
    assert sorted(rows) == sorted(TITLES)
    assert {name for name, row in rows.items() if "failed" in row} == (set(WITH_COMPONENTS) if lacking() else set())
    by_name = {(goal["row"], goal["what"]): goal["met"] for goal in found["goals"]}
    assert by_name["match-32k", "times the Rust core"] is None
    assert by_name["trace", "hit tokens besides the reference's, 3M tokens"] is True
    assert by_name["order", _ORDER] is True
    assert rows["trace"]["facts"]["3000000"]["ours"]["hit_tokens"] > 0
    assert set(rows["pair"]["facts"]["ours"]) == {"alone", "pair"}
    assert rows["cold"]["facts"]["ours"]["cold"] > rows["cold"]["facts"]["the interpreter alone"]["cold"] > 0
    assert set(rows["memory"]["facts"]["bytes_per_page"]) == {"long prompts", "conversations", "forks"}


def test_the_page_is_written_from_results_and_says_which_core_ran(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, result = tmp_path / "speed.md", tmp_path / "control-now.json"
    page.write_text(f"before\n{control_page.START}old figures\n{control_page.END}after\n")
    rows = {"comb": {"cells": {"10 turns, match": {"ours": stat(1), "ours, in Python": stat(2, 5)}}, "facts": {}}}
    data = {
        "date": "now",
        "commit": "a1b2c3d",
        "machine": {"cpu": "a processor", "cores": 2},
        "load_before": [0.5],
        "goals": [],
        "runs": {NEW: {"versions": {"core": "native"}, "rows": rows}},
    }
    result.write_text(json.dumps(data))
    monkeypatch.setattr(control_page, "PAGE", page)
    control_page.write(result)
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "old figures" not in text
    assert "runs on its core `native`" in text and "now, commit `a1b2c3d`,\na processor" in text
    (not_run,) = [line for line in text.splitlines() if line.startswith("Not run: ")]
    assert TITLES["sha"] in not_run and TITLES["comb"] not in not_run
    assert "kvlitmus 1.00 (1.00) · kvlitmus, in Python 2.00 (5.00, *noisy*)" in text


def _seen(least: float) -> dict[str, Any]:
    return {"cells": {"x": {"ours": stat(least), "rust": stat(100)}}, "facts": {}}


def test_rows_are_measured_anew_beside_others_and_say_so() -> None:
    versions = {"core": "native"}
    rows = {"lock": _seen(1), "comb": _seen(2), "evict": _seen(3)}
    old = {"date": "d", "commit": "a", "goals": [], "runs": {NEW: {"versions": versions, "rows": rows}}}
    stamp = {"date": "e", "commit": "b+", "load_before": [1.5, 1, 1], "command": "c"}
    later = {NEW: {"versions": versions, "rows": {"lock": _seen(4), "evict": {"failed": "it broke"}}}}
    found = control.renewed(old, later, stamp)
    assert (found["date"], found["commit"]) == ("d", "a"), "of the whole"
    row = found["runs"][NEW]["rows"]
    assert row["lock"]["anew"] == {**stamp, "versions": versions} and row["lock"]["cells"]["x"]["ours"]["least"] == 4
    assert row["evict"] == _seen(3) and row["comb"] == _seen(2), "what failed replaces nothing"
    judged = {(goal["row"], goal["what"]): goal["measured"] for goal in found["goals"]}
    assert judged["lock", "times the Rust core"] == 25
    (line,) = control_page.anew(found["runs"])
    assert line == f"Measured after the others (e, commit `b+`, load average 1.5): {TITLES['lock']}."


def test_rows_of_another_machine_stay_out(tmp_path: Path) -> None:
    path = tmp_path / "control-now.json"
    path.write_text(json.dumps({"machine": machine()}))
    assert control.not_renewable(path) == ""
    path.write_text(json.dumps({"machine": {**machine(), "cpu": "another"}}))
    assert "another machine" in control.not_renewable(path)


def test_the_page_shows_what_was_measured() -> None:
    path = control_page.newest()
    text = control_page.PAGE.read_text(encoding="utf-8")
    assert control_page.replaced(text, control_page.rendered(json.loads(path.read_text()), path.name)) == text
