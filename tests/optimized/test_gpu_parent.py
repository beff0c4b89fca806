"""The parent of benchmarks/gpu.py: whatever a stage does, the others run, and there is a table."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu import command as gpu
from benchmarks.gpu import programs
from benchmarks.gpu.stage import CORRECT, HARNESS, INCORRECT, INTERRUPTED, Record, Stage, budget
from tests.support import processes
from tests.support.processes import eventually

ROOT = Path(__file__).resolve().parents[2]


def ran(*arguments: str) -> Any:
    """What a program of ``staged_runs`` answers."""
    roots = [str(ROOT / room) for room in (".", "spec", "reference", "optimized", "conformance")]
    place = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": os.pathsep.join(roots)}
    place.pop("TRITON_INTERPRET", None)
    command = [sys.executable, "-m", "tests.optimized.support.staged_runs", *arguments]
    done = processes.run(command, cwd=ROOT, env=place)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("names", "outcomes", "code"),
    [
        ("right,right", ["ok", "ok"], CORRECT),
        ("skips,right", ["not run", "ok"], HARNESS),
        ("fails,crashes,exits,right", ["failed", "failed", "failed", "ok"], HARNESS),
        ("fails,wrong,right", ["failed", "failed", "ok"], INCORRECT),
        ("right,interrupts,right", ["ok", "interrupted"], INTERRUPTED),
    ],
)
def test_a_stage_that_ends_badly_costs_the_others_nothing(
    tmp_path: Path, names: str, outcomes: list[str], code: int
) -> None:
    found = ran("works", str(tmp_path), names)
    assert [stage["outcome"] for stage in found["stages"]] == outcomes
    assert found["code"] == code
    assert len(found["checks"]) == names.count("right") - (code == INTERRUPTED) + names.count("wrong")
    notes = {stage["stage"].split()[1]: stage["note"] for stage in found["stages"]}
    wanted = {
        "skips": "not possible here",
        "fails": "RuntimeError: it broke",
        "crashes": "ended by signal 11; it last said: about to crash",
        "exits": "exit code 134; it last said: as CUDA's own abort does",
        "wrong": "WRONG DATA: something else: the second",
        "interrupts": "the run was interrupted",
        "right": "",
    }
    assert notes == {name: wanted[name] for name in notes}
    assert all(name in found["report"] for name in names.split(",")[: len(outcomes)])
    written = json.loads((tmp_path / "record.json").read_text())
    assert written["stages"] == found["stages"] and written["rows"] == found["rows"]
    assert len(found["rows"]) == names.count("fails"), "what a stage had found before it broke is in the record"


def test_a_stage_that_hangs_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    found = ran("works", str(tmp_path), "hangs,right")
    assert [stage["outcome"] for stage in found["stages"]] == ["hung", "ok"]
    first = found["stages"][0]
    assert first["note"].startswith("killed after ") and "it last said: started " in first["note"]
    assert len(found["rows"]) == 2 and found["code"] == HARNESS
    left = [int(line.split()[1]) for line in first["output"].splitlines() if line.startswith("started")]
    assert len(left) == 2
    eventually(lambda: not any(_there(number) for number in left), "a program that a stage has started lives on")


def _there(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["hang", "fail", "poison"])
def test_every_stage_may_hang_fail_or_lose_the_context(kind: str) -> None:
    """At its fifth call of the driver or the runtime; there is a table with the rest each time."""
    found = ran("faults", kind)
    assert [one["stage"] for one in found] == [stage.name for stage in gpu.stages(dry=True)]
    for one in found:
        assert one["outcome"] == ("hung" if kind == "hang" else "failed"), one
        assert one["note"] and one["other"] == "ok" and one["rows"] >= 4 and one["code"] in (HARNESS, INCORRECT), one


def test_the_limits_add_up_to_less_than_the_whole() -> None:
    assert budget(gpu.stages(dry=False)) <= gpu.LIMIT - 10 <= 660
    three = [Stage(name, 5.0 * at, lambda bench: None, group="x" if at else "") for at, name in enumerate("abc", 1)]
    assert budget(three) == 15.0


def test_ceilings_and_copies_come_before_what_is_long() -> None:
    """The smoke of each engine first, with twenty seconds; stress and suite last."""
    chosen = gpu.stages(dry=False)
    names = [stage.name for stage in chosen]
    assert len(set(names)) == len(names) and names[0] == "preflight"
    engines = ("kernel", "dma", "staged", "torch")
    assert names[1:5] == [f"smoke {engine}" for engine in engines]
    assert all(stage.seconds <= 20 for stage in chosen[1:5])
    assert names.index("ceilings") < names.index("transfers kernel") < names.index("stress")
    assert {stage.name for stage in chosen if stage.group == gpu.LAST} == set(names[-7:-1])
    assert names[-1] == programs.TESTS and not chosen[-1].group
    for engine in engines[:3]:
        assert f"smoke {engine}" in next(stage for stage in chosen if stage.name == f"transfers {engine}").needs


def test_an_engine_whose_smoke_failed_is_not_measured() -> None:
    from benchmarks.gpu import parent

    record = Record(None)
    stage = Stage("transfers dma", 1.0, lambda bench: None, needs=("preflight", "smoke dma"))
    for outcome, note, why in (
        ("ok", "", ""),
        ("hung", "killed after 20 s", "smoke dma hung: killed after 20 s"),
        ("not run", "", "smoke dma not run"),
    ):
        record.stages = [{"stage": "smoke dma", "outcome": outcome, "note": note}]
        assert parent.missing(record, stage) == why


def test_not_run_never_reads_as_passed() -> None:
    """Neither in the exit code nor in the table."""
    record = Record(None)
    record.stages = [
        {"stage": "one", "outcome": "ok", "seconds": 1.0, "note": ""},
        {"stage": "two", "outcome": "not run", "seconds": 0.0, "note": "the run's time was used up"},
    ]
    from benchmarks.gpu import report

    said = report.report(record)
    assert record.code() == HARNESS
    assert "1 of 2 stages are ok" in said and "two: not run, the run's time was used up" in said
