"""Runs in shards: divided anyhow, played by anybody, interrupted and resumed, they make the report of one run."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import pickle
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from kvlitmus.conformance.cli import main
from kvlitmus.conformance.isolation.integrity import JudgeChanged
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run import minimise, plan
from kvlitmus.conformance.run.engine import run_item
from kvlitmus.conformance.run.results import Item, ItemResult, Options
from kvlitmus.conformance.run.targets import resolve_target
from kvlitmus.conformance.shards import Summary, folder, shard, spread
from kvlitmus.conformance.shards.executors import WorkerLost
from kvlitmus.conformance.shards.folder import Plan, common, missing, part_of, parts_of
from kvlitmus.conformance.specimen.cache import target
from tests.conformance.support.command_line import BROKEN, Capture
from tests.test_layout import ROOT

LITTLE = ["--config", "page_size=1,policy=lru,bigram=false,pool=device,host_pages=0", "--pack", "lock", "--jobs", "1"]
LITTLE += ["--color", "never", "--no-litmus", "--steps", "500"]
BOTH = [*LITTLE, "--config", "page_size=4,policy=lru,bigram=false,pool=device,pages=32,host_pages=0"]
"""Two configurations, so that schedules are dealt in another order than they stand."""


@pytest.fixture(autouse=True)
def _folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settled(monkeypatch, tmp_path)


def settled(patch: pytest.MonkeyPatch, here: Path) -> None:
    """A folder, a date, and no more trials to shrink than there must be: they are the same ones everywhere."""
    patch.chdir(here)
    patch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    patch.setattr(minimise, "TRIALS", 0)


def report_of(*words: str) -> tuple[int, Any]:
    """A command's exit code and its report, but for timings."""
    return main([*words, "--report", "r.json"]), report_in("r.json")


def report_in(file: str) -> Any:
    """A report, but for timings."""
    data: Any = json.loads(Path(file).read_text())
    del data["totals"]["seconds"]
    return data


def verdicts(data: Any) -> dict[str, str]:
    return {row["id"]: row["verdict"] for row in data["rules"]}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, Any]:
    """What a run in one go comes to."""
    with pytest.MonkeyPatch.context() as patch:
        settled(patch, tmp_path_factory.mktemp("whole"))
        return report_of("run", BROKEN, *BOTH)


# -- a run in shards -------------------------------------------------------------------------------------------------


def test_merged_shards_are_one_run(whole: tuple[int, Any], capsys: Capture) -> None:
    """The same report, counterexamples and all; a shard that is there isn't played again; one that lacks is told."""
    assert main(["run", BROKEN, *BOTH, "--shard", "1/2", "--out", "shards"]) == 0
    capsys.readouterr()
    assert main(["merge", "shards", "--color", "never"]) == 130
    out, err = capsys.readouterr()
    told = "shard 2/2 is missing, or was not played to its end"
    assert f"2 of 4 items are there: {told}" in out and "interrupted" not in out
    assert out.endswith(f"exit 130: not the whole run: {told}\n")
    line = f"kvlitmus run {BROKEN} --shard 2/2 --out shards"
    assert err == f"kvlitmus: {told}; with the options of the others: {line}; then merge again\n"
    code, part = report_of("merge", "shards", "--junit", "r.xml")
    assert (code, part["partial"], part["exit_meaning"]) == (130, True, f"not the whole run: {told}")
    assert f"not the whole run: {told}; 2 of 4 items are there" in Path("r.xml").read_text()
    assert main(["run", BROKEN, *BOTH, "--shard", "2/2", "--out", "shards"]) == 0
    assert main(["run", BROKEN, *BOTH, "--shard", "2/2", "--out", "shards"]) == 0
    assert "shard 2/2: nothing is missing" in capsys.readouterr().out
    assert report_of("merge", "shards", "--target", BROKEN, "--jobs", "1") == whole
    assert whole[0] == 1 and whole[1]["totals"]["items"] == 4
    unshrunk = "it was not shrunk"
    assert unshrunk not in {one["not_minimal"] for one in whole[1]["findings"]}
    code, met = report_of("merge", "shards")  # a file starts nothing
    assert code == 1 and {one["not_minimal"] for one in met["findings"]} == {unshrunk}
    assert verdicts(met) == verdicts(whole[1])


DRIVER = """
import sys
from kvlitmus.conformance.cli import main
from kvlitmus.conformance.run import minimise
minimise.TRIALS = 0
{first}
sys.exit(main(sys.argv[1:]))
"""


def driven(*words: str, first: str = "") -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, which the executor's machinery ends with; settled as this one is."""
    program = [sys.executable, "-c", DRIVER.format(first=first), *words]
    return subprocess.run(program, capture_output=True, text=True, check=False)


@pytest.mark.nightly
@pytest.mark.parametrize("executor", ["processes", "ray", "dask"])
def test_merged_shards_of_an_executor_are_one_run(executor: str, whole: tuple[int, Any]) -> None:
    """Ray and Dask are no part of what tests need by day: 240 MB, and seconds to start."""
    if executor != "processes":
        pytest.importorskip({"dask": "distributed"}.get(executor, executor), reason=f"no {executor}")
    words = ["run", BROKEN, *BOTH, "--on", executor, "--shards", "2", "--out", "shards", "--report", "r.json"]
    done = driven(*words)
    assert (done.returncode, report_in("r.json")) == whole, done.stdout + done.stderr
    assert [path.name for path in sorted(Path("shards").iterdir())] == ["run-0-3-2.jsonl.gz", "run-1-4-2.jsonl.gz"]


@pytest.mark.nightly
@pytest.mark.parametrize("executor", ["ray", "dask"])
def test_a_worker_of_an_executor_that_is_killed_loses_nothing(
    executor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is ended while it plays one of two shards, whatever the executor does about that."""
    pytest.importorskip({"dask": "distributed"}.get(executor, executor), reason=f"no {executor}")
    with monkeypatch.context() as patch:
        notes = kill(patch, tmp_path)
        words = [f"{KILLING}:once", *SOME, "--on", executor, "--shards", "2", "--report", "r.json"]
        done = driven("run", *words, first=f"import os; os.environ['KVLITMUS_KILL'] = f'{{os.getpid()}}:{notes}'")
    assert done.returncode == 0, done.stdout + done.stderr
    assert (report_in("r.json")["totals"]["items"], report_in("r.json")["failed"]) == (3, [])
    assert notes.read_text() == "killed\n"


# -- parts of a plan -------------------------------------------------------------------------------------------------


def test_what_is_missing_is_all_that_was_not_played() -> None:
    """Whoever has played what: parts and halves of parts, by any division."""
    rng = random.Random(1)
    for _ in range(300):
        items, done = rng.randrange(1, 60), []
        for part in parts_of(items, rng.randrange(1, 9)):
            half = part[: len(part) // 2]
            done += [part] if rng.random() < 0.4 else [half] if half and rng.random() < 0.5 else []
        again = [one for part in parts_of(items, rng.randrange(1, 9)) for one in missing(part, done)]
        played = [at for part in (*done, *again) for at in part]
        assert sorted(played) == list(range(items))


def default_plan(steps: int = plan.STEPS) -> list[Item]:
    return plan.items(plan.configs_of(target), target.profile, steps=steps)


@pytest.mark.parametrize("steps", [0, 500, plan.STEPS])
def test_each_item_is_dealt_once_and_schedules_of_one_configuration_in_a_row(steps: int) -> None:
    items = default_plan(steps)
    dealt = Plan.of({}, items)
    places = [dealt.place(at) for at in range(len(items))]
    assert sorted(places) == list(range(len(items)))
    assert places[: dealt.first] == list(range(dealt.first)), "tests and vectors as they stand"
    drawn = [items[at].config.label for at in places[dealt.first :]]
    assert list(dict.fromkeys(drawn)) == [label for label, _ in itertools.groupby(drawn)]


def unevenness(costs: list[int], shards: int) -> float:
    """How much longer the longest shard is than all on average."""
    sums = [sum(costs[at] for at in part) for part in parts_of(len(costs), shards)]
    return max(sums) / (sum(sums) / shards)


def test_shards_take_about_as_many_steps() -> None:
    """Of the built-in cache, by what a short schedule of each configuration takes, and tests on average."""
    options = Options(shrink_trials=0)
    each = {
        config: run_item(target, Item(kind="random", config=config, seed=1, ops=40), options).steps * plan.OPS // 40
        for config in plan.configs_of(target)
    }
    assert max(each.values()) > 1.4 * min(each.values())
    for steps, shards, most in ((plan.STEPS, 4, 1.05), (100_000, 4, 1.01), (100_000, 16, 1.02), (100_000, 32, 1.03)):
        items = default_plan(steps)
        dealt = Plan.of({}, items)
        costs = [each[one.config] if one.kind == "random" else 33 for one in items]
        assert unevenness([costs[dealt.place(at)] for at in range(len(items))], shards) < most
        assert steps == plan.STEPS or shards < 16 or unevenness(costs, shards) > 1.05, "as they stand they don't"


@pytest.mark.nightly
def test_four_shards_of_the_default_plan_take_as_many_steps() -> None:
    items, options = default_plan(), Options(shrink_trials=0)
    dealt = Plan.of({}, items)
    costs = [run_item(target, items[dealt.place(at)], options).steps for at in range(len(items))]
    assert unevenness(costs, 4) <= 1.15


def test_common_numbers_are_counted_without_counting_them() -> None:
    rng = random.Random(2)
    for _ in range(2_000):
        one, other = (range(at := rng.randrange(40), at + rng.randrange(1, 60), rng.randrange(1, 13)) for _ in "12")
        assert common(one, other) == len({*one} & {*other}), (one, other)
    assert common(range(1, 1 << 40, 2), range(0, 1 << 40, 4)) == 0


@pytest.mark.parametrize("word", ["0/3", "4/3", "1", "1/0", "-1/3", "1/3/5", "x/3", "1/99999999"])
def test_a_shard_that_there_is_not_is_refused(word: str, capsys: Capture) -> None:
    with pytest.raises(ValueError, match="expected I/N"):
        part_of(word)
    assert main(["run", f"--shard={word}", "--out", "o"]) == 2
    assert "expected I/N with I from 1 to N, such as 3/16" in capsys.readouterr().err


# -- workers that die ------------------------------------------------------------------------------------------------


class Fragile:
    """An executor whose workers die as they are told to: ``dies`` is asked for each part that is begun."""

    lost: tuple[type[BaseException], ...] = (WorkerLost,)
    cores = at_once = 3

    def __init__(self, dies: Callable[[range], bool]) -> None:
        self.dies = dies
        self.begun: list[range] = []

    def begin(self, part: range) -> Future[Summary]:
        self.begun.append(part)
        future: Future[Summary] = Future()
        if self.dies(part):
            future.set_exception(WorkerLost("signal 9"))
        else:
            future.set_result(Summary(items=len(part)))
        return future

    def submit(self, *_: Any, **words: Any) -> Any:
        raise AssertionError

    def close(self) -> None:
        """Nothing to do."""

    def spread(self, parts: list[range]) -> list[spread.Done]:
        return list(spread.spread(self, parts, self.begin))


def test_a_killer_is_isolated_by_a_retry_and_halving() -> None:
    """It alone is told as lost; it is played by itself last, and everything else is played once."""
    fragile = Fragile(lambda part: 37 in part)
    done = fragile.spread(parts_of(64, 4))
    assert [(one.part, one.lost) for one in done if one.summary is None] == [(range(37, 41, 4), "signal 9")]
    assert sorted(at for one in done for at in one.part) == list(range(64))
    assert fragile.begun[-1] == range(37, 41, 4)
    assert len([part for part in fragile.begun if 37 in part]) == 2 + 4 + 1  # a retry, 16 to 1, once more alone


def test_a_worker_that_dies_once_costs_a_try() -> None:
    mourned: set[range] = set()

    def dies(part: range) -> bool:
        fresh = part not in mourned
        mourned.add(part)
        return fresh

    fragile = Fragile(dies)
    done = fragile.spread(parts_of(7, 3))
    assert all(one.summary is not None for one in done) and sum(len(one.part) for one in done) == 7
    assert len(fragile.begun) == 6


def test_an_error_of_a_shard_ends_all() -> None:
    class Failing(Fragile):
        def begin(self, part: range) -> Future[Summary]:
            future: Future[Summary] = Future()
            future.set_exception(ZeroDivisionError("no"))
            return future

    with pytest.raises(ZeroDivisionError):
        Failing(lambda _: False).spread(parts_of(3, 3))


def kill(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Spare this process, and note who was ended."""
    notes = tmp_path / "killed"
    monkeypatch.setenv("KVLITMUS_KILL", f"{os.getpid()}:{notes}")
    return notes


KILLING = str(ROOT / "tests/conformance/support/killing.py")
SOME = ["--pack", "lock", "--no-litmus", "--steps", "250", "--jobs", "2", "--color", "never"]


def test_a_worker_killed_in_the_middle_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = kill(monkeypatch, tmp_path)
    code, data = report_of("run", f"{KILLING}:once", *SOME, "--on", "processes", "--shards", "1")
    assert (code, data["totals"]["items"], data["failed"]) == (0, 3, [])
    assert len(notes.read_text().splitlines()) == 1


@pytest.mark.nightly
def test_an_item_that_nobody_survives_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = kill(monkeypatch, tmp_path)
    words = ["run", f"{KILLING}:always", *SOME, "--on", "processes", "--shards", "1", "--out", "shards"]
    code, data = report_of(*words)
    assert code == 3
    assert data["failed"] == [
        {"item": "random:seed=0 [page=16 lru]", "error": "nobody survived playing it: its process ended by signal 9"}
    ]
    assert [one["steps"] > 0 for one in data["configs"]] == [True, True, False]
    killed = notes.read_text()
    assert len(killed.splitlines()) == 5  # of three items, again, of two, of one beside others, alone
    assert report_of(*words) == (code, data) and notes.read_text() == killed


# -- what ends early -------------------------------------------------------------------------------------------------


def items_of(many: int) -> list[Item]:
    return [Item(kind="random", config=Config(), seed=seed, ops=1) for seed in range(many)]


def results(items: list[Item], *places: int) -> Iterator[ItemResult]:
    yield from (ItemResult(item=items[at].id, config=items[at].config.label, steps=1) for at in places)


def test_an_interrupted_shard_keeps_what_it_played(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """All up to the first item that is missing; the same command plays the rest."""

    def interrupted(_: Any, items: list[Item], *words: Any, **more: Any) -> Iterator[ItemResult]:
        yield from results(items, 0, 2)
        raise KeyboardInterrupt

    words = ["run", *LITTLE, "--steps", "1000", "--shard", "1/1", "--out", "shards"]
    with monkeypatch.context() as patch:
        patch.setattr(shard_module(), "run_items", interrupted)
        assert main(words) == 130
    out, err = capsys.readouterr()
    assert "shard 1/1: 1 items, 1 steps" in out and "interrupted; the same command plays what is missing" in err
    assert [path.name for path in Path("shards").iterdir()] == ["run-0-1-1.jsonl.gz"]


def test_a_judge_that_was_changed_makes_a_run_worthless(monkeypatch: pytest.MonkeyPatch) -> None:
    def changed(_: Any, items: list[Item], *words: Any, **more: Any) -> Iterator[ItemResult]:
        yield from results(items, *range(len(items)))
        raise JudgeChanged("somebody did")

    monkeypatch.setattr(shard_module(), "run_items", changed)
    assert main(["run", *LITTLE, "--shard", "1/1", "--out", "shards"]) == 0
    code, data = report_of("merge", "shards")
    assert code == 3
    assert {one["reason"] for one in data["rules"]} == {"the judge was changed: somebody did"}


def shard_module() -> Any:
    """The module, which has the name of its function."""
    import importlib

    return importlib.import_module("kvlitmus.conformance.shards.shard")


# -- files -----------------------------------------------------------------------------------------------------------


def written(tmp_path: Path, part: range = range(0, 4, 2), **head: Any) -> Path:
    """A shard of two items."""
    items = items_of(4)
    summary = Summary()
    for at, result in enumerate(results(items, *part)):
        result.error = "no" * at
        summary.add(result)
    return folder.write(tmp_path, folder.Plan(head={"version": "1", **head}, items=4), part, summary)


def test_a_shard_is_read_as_it_was_written(tmp_path: Path) -> None:
    part, summary = folder.read(written(tmp_path))
    assert (part, summary.items, list(summary.results), summary.many.total()) == (range(0, 4, 2), 2, [1], 1)
    assert folder.played([tmp_path]).missing == ["2/2"]


def test_shards_of_another_run_and_shards_twice_are_refused(tmp_path: Path) -> None:
    written(tmp_path)
    other = written(tmp_path, range(1, 5, 2), version="2")
    with pytest.raises(folder.ShardError, match=r'run-1-4-2.*of another run than .*run-0-3-2.*version "2", expected'):
        folder.played([tmp_path])
    other.unlink()
    written(tmp_path, range(2, 3))
    with pytest.raises(folder.ShardError, match=r"it has items that .* has, too"):
        folder.played([tmp_path])


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


@pytest.mark.parametrize(
    ("line", "field", "value", "said"),
    [
        (0, "kind", "kvlitmus tape", r"line 1: expected a kvlitmus shard of format 1 \(got \["),
        (0, "part", [0, 9, 1], r"line 1: expected a part of 4 items \(got \[0, 9, 1\]"),
        (0, "part", [0, 4], r"line 1: expected 'part', 3 whole numbers"),
        (0, "part", [0, 4, 0], "line 1: expected a part of 4 items"),
        (0, "items", "many", "line 1: expected 'items'"),
        (0, "dealt", [0], "line 1: expected 'dealt', 2 whole numbers"),
        (0, "dealt", [1, 2], r"line 1: expected 'dealt' to fit 4 items \(got \[1, 2\]"),
        (1, "at", 1, "line 2: expected 'at', a further one of the items"),
        (1, "result", {}, "line 2: "),
        (2, "items", 3, "line 3: expected 'at'"),
        (2, "items", 2, "expected the results of 2 items .got 3."),
        (2, "result", {"item": "", "config": "", "steps": "x", "findings": []}, "line 3: expected whole numbers"),
    ],
)
def test_a_damaged_shard_is_told_by_its_line(tmp_path: Path, line: int, field: str, value: Any, said: str) -> None:
    path = written(tmp_path)
    rows = rows_of(path)
    rows[line][field] = value
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    with pytest.raises(folder.ShardError, match=said):
        folder.read(path)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"text", "ot a gzipped file"),
        (gzip.compress(b"{}", mtime=0), "line 1: expected a kvlitmus shard"),
        (gzip.compress(b"[1]", mtime=0), "line 1: expected an object, got list"),
        (gzip.compress(b"\xff", mtime=0), "line 1: "),
        (gzip.compress(b"[" * 200_000, mtime=0), "line 1: nested too deeply"),
        (gzip.compress(b"{}\n" * 99_999, mtime=0)[:60], "torn after line"),
    ],
)
def test_what_is_no_shard_is_told(tmp_path: Path, data: bytes, said: str, capsys: Capture) -> None:
    path = tmp_path / "run-0-4-1.jsonl.gz"
    path.write_bytes(data)
    with pytest.raises(folder.ShardError, match=said):
        list(folder.lines_of(path)) and folder.read(path)
    assert main(["merge", str(tmp_path)]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_folder_keeps_to_its_run(tmp_path: Path, capsys: Capture) -> None:
    written(tmp_path)
    assert main(["run", *LITTLE, "--shard", "1/2", "--out", str(tmp_path)]) == 2
    assert "it has shards of another run" in capsys.readouterr().err


# -- the command line ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--shard", "1/2"], "--shard needs --out"),
        (["--shard", "1/2", "--out", "o", "--on", "processes"], "choose one"),
        (["--shards", "3"], "are for --on"),
        (["--out", "o"], "are for --on"),
        (["--on", "processes", "-x"], "-x and --record are for a run in one piece"),
        (["--shard", "1/2", "--out", "o", "--report", "r.json"], "to 'kvlitmus merge'"),
        (["--on", "slurm"], "expected processes, ray, ray:ADDRESS, dask or dask:ADDRESS (got 'slurm')"),
    ],
)
def test_what_makes_no_sense_together_is_refused(words: list[str], said: str, capsys: Capture) -> None:
    assert main(["run", *LITTLE, *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(("name", "module"), [("ray", "ray"), ("dask", "distributed")])
def test_an_executor_that_is_not_installed_says_how(
    name: str, module: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    assert main(["run", *LITTLE, "--on", name]) == 2
    assert f"pip install 'kvlitmus[{name}]'" in capsys.readouterr().err


def test_a_shard_lists_its_items(capsys: Capture) -> None:
    assert main(["run", *LITTLE, "--list", "--shard", "2/2", "--out", "o"]) == 0
    out = capsys.readouterr().out
    assert "seed=1 " in out and "seed=0 " not in out and out.endswith("1 items\n")


def test_a_folder_without_shards_is_told(capsys: Capture) -> None:
    assert main(["merge", "."]) == 2
    assert "no shards there, which are called run-*.jsonl.gz" in capsys.readouterr().err
    assert main(["merge", "nowhere"]) == 2
    assert "expected a folder with shards" in capsys.readouterr().err


def test_the_function_says_what_items_came_to() -> None:
    """Plain data, whoever calls it: what an executor carries from one process to another is the same there."""
    found = shard(resolve_target("specimen"), items_of(2), Options(shrink_trials=0))
    assert (found.items, found.results, found.changed, list(found.many.values())) == (2, {}, "", [2])
    assert found.steps == sum(one.steps for one in found.sums.values()) > 1
    assert pickle.loads(pickle.dumps(found)) == found
