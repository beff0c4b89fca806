"""benchmarks/gpu.py without a GPU: its stages in a dry run, what it says of failures, and that it sees wrong data."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.gpu import command as gpu
from benchmarks.gpu import movers, preflight, programs, report
from benchmarks.gpu.device import Machine
from benchmarks.gpu.movers import World
from benchmarks.gpu.stage import (
    CORRECT,
    INCORRECT,
    INTERRUPTED,
    NO_DEVICE,
    Bench,
    Record,
    Skip,
)
from benchmarks.record import at_least, at_most
from kvlitmus.optimized.data import driver
from kvlitmus.optimized.data.transfer import TorchMover
from tests.optimized.support.device import pretend
from tests.optimized.support.pausing import PausingMover

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = [sys.executable, str(ROOT / "benchmarks" / "gpu.py")]
ROOMS = os.pathsep.join(("spec", "reference", "optimized", "conformance"))
without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="what is said where there is no CUDA device")


def place() -> dict[str, str]:
    """The environment of the one command in its description, from the checkout."""
    return {**os.environ, "PYTHONPATH": ROOMS, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


@pytest.mark.nightly
def test_a_dry_run_takes_every_stage(tmp_path: Path) -> None:
    command = [*SCRIPT, "--dry-run", "--out", str(tmp_path), "--date", "2026-01-02"]
    done = subprocess.run(command, cwd=ROOT, env=place(), capture_output=True, text=True, check=False)
    assert done.returncode == CORRECT, done.stdout + done.stderr
    data = json.loads((tmp_path / "gpu-2026-01-02-dry.json").read_text())
    assert [stage["stage"] for stage in data["stages"]] == [stage.name for stage in gpu.stages(dry=True)]
    assert {stage["outcome"] for stage in data["stages"]} == {"ok"}
    assert data["versions"]["torch"] == torch.__version__ and data["device"] == "cpu" and data["missing"] == []
    assert data["date"] == "2026-01-02" and data["began"].startswith("20")
    tables = (
        "ceilings",
        "transfers",
        "both ways",
        "on device",
        "small loads",
        "submission",
        "layers",
        "interference",
        "quota",
        "choice",
        "baselines",
    )
    assert {row["table"] for row in data["rows"]} == set(tables)
    assert sum(check["cases"] for check in data["checks"]) >= 30
    assert not any(check["wrong_cases"] for check in data["checks"])
    assert data["dry"] is True and data["goals"] == [] and data["goals_not_judged"] >= 16
    assert "DRY RUN" in done.stdout and "MISSED" not in done.stdout and "met " not in done.stdout
    drawn = ElementTree.fromstring((tmp_path / "gpu-2026-01-02-dry.svg").read_text())
    assert drawn.tag.endswith("svg") and len(list(drawn.iter())) > 100
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gpu-2026-01-02-dry.json", "gpu-2026-01-02-dry.svg"]


@without_gpu
def test_without_a_device_it_says_so_and_writes_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [*SCRIPT, "--out", str(tmp_path / "there")], cwd=ROOT, env=place(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (NO_DEVICE, "")
    assert done.stdout.splitlines()[-1] == "not run: no CUDA device" and ": ok" not in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.nightly
def test_what_an_interruption_leaves_is_a_whole_record(tmp_path: Path) -> None:
    stages = "ceilings,transfers torch,baselines"
    command = [*SCRIPT, "--dry-run", "--out", str(tmp_path), "--date", "x", "--only", stages]
    process = subprocess.Popen(command, cwd=ROOT, env=place(), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("-- transfers torch"):
            process.send_signal(signal.SIGTERM)
            break
    rest = process.stdout.read()
    process.stdout.close()
    assert process.wait() == INTERRUPTED, rest
    data = json.loads((tmp_path / "gpu-x-dry.json").read_text())
    outcomes = {stage["stage"]: stage["outcome"] for stage in data["stages"]}
    assert outcomes == {"preflight": "ok", "ceilings": "ok", "transfers torch": "interrupted"}
    assert data["rows"]
    assert "baselines" not in rest.split("stages:")[-1]


@pytest.mark.nightly
def test_no_such_stage() -> None:
    done = subprocess.run(
        [*SCRIPT, "--dry-run", "--only", "cielings"], cwd=ROOT, env=place(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stdout.startswith("no such stage: cielings; there are preflight, smoke torch, smoke kernel, kernels")


def bench_of(path: Path | None = None) -> Bench:
    return Bench("cpu", True, Record(path, {"dry": False}), ROOT)


def test_goals() -> None:
    assert at_least("row", "", 0.9, 0.9).met and not at_least("row", "", 0.9, 0.89).met
    assert at_most("row", "", 20, 20.0, " us").met and not at_most("row", "", 20, 20.1, " us").met
    record = bench_of().record
    record.goal(at_least("bandwidth", "", 0.97, 0.5))
    record.goal(at_most("time", "", 20, 3, " us"))
    said = report.report(record)
    assert "MISSED bandwidth" in said and "met    time" in said and "DRY" not in said
    assert record.code() == CORRECT, "a goal that is missed is no error"


@pytest.mark.parametrize("attempt", ["round_trip", "layer_by_layer", "late_producer", "dropped", "crowded"])
@pytest.mark.parametrize("fault", ["pages", "bytes"])
def test_wrong_copies_are_seen(monkeypatch: pytest.MonkeyPatch, attempt: str, fault: str) -> None:
    """A mover that takes the wrong pages, or spoils a byte that it should not touch."""

    class Wrong(TorchMover):
        def load(self, host_pages: Any, device_pages: Any) -> Any:
            return self._wrong(super().load, self.device_pool, host_pages, device_pages)

        def backup(self, device_pages: Any, host_pages: Any) -> Any:
            return self._wrong(super().backup, self.host_pool, device_pages, host_pages)

        def _wrong(self, call: Any, target: Any, here: Any, there: Any) -> Any:
            if fault == "pages":
                return call(np.roll(here, 1), there)
            ticket = call(here, there)
            ticket.wait()
            target.canonical()[int(there[0]), :, 1, 0, 0, 0] ^= 1
            return ticket

    monkeypatch.setattr(movers, "TorchMover", Wrong)
    machine = Machine("cpu", 3)
    make, layout = movers.DRY[1]
    world = World.make(machine, make(), layout, pages=40)
    assert getattr(world, attempt)(machine) != ""
    world.close()


def test_a_layer_that_is_said_to_be_ready_too_soon_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine("cpu", 4)
    world = World.make(machine, movers.DRY[0][0](), "layer_first", pages=40)
    world.close()
    slow = PausingMover(world.device, world.host, stepped=False, pause=lambda layer: time.sleep(0.05))
    world.mover = slow
    assert world.layer_by_layer(machine) == ""
    kind = type(slow.load(np.array([1], np.int32), np.array([2], np.int32)))
    monkeypatch.setattr(kind, "layers_ready", lambda self: self.layers)
    assert "layer 0 was said to be ready by host and was not" in world.layer_by_layer(machine)
    world.close()


def test_pytest_is_given_the_files_with_tests_marked_gpu() -> None:
    command = programs.pytest_command(ROOT)
    assert command[1:3] == ["-m", "pytest"] and "gpu" in command
    files = [part for part in command if part.startswith("tests/")]
    assert "tests/optimized/test_gpu.py" in files
    assert not any("sglang" in file for file in files)


@pytest.mark.nightly
def test_installed_packages_of_the_same_names_are_in_nobodys_way(tmp_path: Path) -> None:
    """A folder without ``__init__.py`` would give way to them, wherever they are on the path."""
    for name in ("benchmarks", "tests", "examples"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('somebody else is here')\n")
    environment = place() | {"PYTHONPATH": os.pathsep.join([str(tmp_path), ROOMS])}
    command = [*SCRIPT, "--dry-run", "--only", "kernels"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == CORRECT, done.stderr

    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), str(ROOT)])
    command = [sys.executable, "-c", "import benchmarks.gpu.stage, tests.schemas, examples"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "somebody else is here" in done.stderr
    posts = programs.signposts(ROOT)
    environment["PYTHONPATH"] = os.pathsep.join([posts, environment["PYTHONPATH"]])
    command[-1] = "import benchmarks.gpu.stage, tests.conftest, examples; print(benchmarks.gpu.stage.__file__)"
    done = subprocess.run(["env", *command], cwd="/", env=environment, capture_output=True, text=True, check=False)
    shutil.rmtree(posts)
    assert done.stdout.strip() == str(ROOT / "benchmarks" / "gpu" / "stage.py"), done.stderr


def test_programs_are_judged_by_their_exit_codes() -> None:
    bench = bench_of()
    programs.judge(bench, "one", 0)
    assert bench.record.code() == CORRECT
    with pytest.raises(RuntimeError, match="exit code 3"):
        programs.judge(bench, "two", 3)
    assert bench.record.code() == CORRECT, "it says nothing of the data; that the stage failed is said by its outcome"
    with pytest.raises(RuntimeError, match="exit code 1"):
        programs.judge(bench, "three", 1)
    assert bench.record.code() == INCORRECT


def test_a_program_is_run_to_its_end(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """In this process's group, so that whoever ends that ends it, with its output where the stage's goes."""
    code = "import os; print(os.getpgrp(), os.environ['KVLITMUS_DEVICE']); raise SystemExit(1)"
    monkeypatch.setattr(programs, "suite_command", lambda: [sys.executable, "-c", code])
    bench = bench_of()
    with pytest.raises(RuntimeError, match="exit code 1"):
        programs.program(bench, "suite")
    assert capfd.readouterr().out.split() == [str(os.getpgrp()), "cpu"]
    monkeypatch.setattr(programs, "suite_command", lambda: None)
    with pytest.raises(Skip):
        programs.program(bench, "suite")


def test_what_is_missing_is_said_in_a_line_each(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name in ("triton", "pytest") else find(name, *more)
    )

    def fail(bench: Bench) -> list[str]:
        raise OSError("no such file")

    monkeypatch.setattr(preflight, "memory", fail)
    bench = bench_of()
    preflight.preflight(bench)
    missing = bench.record.head["missing"]
    assert [line.partition(":")[0] for line in missing] == ["triton", "pytest", "fail could not be looked at"]
    assert all(f"missing: {line}" in report.report(bench.record) for line in missing)


@pytest.mark.parametrize("lacks", [(), ("cuStreamWaitValue32_v2",), driver.BATCHES])
def test_the_drivers_calls_are_found_out_by_making_them(lacks: tuple[str, ...]) -> None:
    with pretend() as (bench, world):
        world.cuda.before = lambda name: 801 if name in lacks else 0
        world.cuda.absent = lacks
        said = preflight.driver_calls(bench)
        facts = bench.record.head["driver_calls"]
    assert facts["batch"] == (None if lacks == driver.BATCHES else "cuMemcpyBatchAsync_v2")
    assert facts["values_in_streams"] == (lacks != ("cuStreamWaitValue32_v2",))
    assert len(said) == bool(lacks)


@pytest.mark.nightly
def test_kernels_of_other_shapes_compile_for_hopper(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    triton = pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from benchmarks.gpu.kernels import kinds_of, register, simple

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")  # Triton 3.9 warns of its default
    for kernel, fixed, warps in (
        (register, {"ROWS": 32, "WORDS": 256, "PER": 16}, 32),
        (simple, {"WORDS": 4096, "BLOCK": 1024}, 8),
    ):
        signature = kinds_of(kernel, fixed) | dict.fromkeys(fixed, "constexpr")
        made = triton.compile(
            ASTSource(kernel, signature, fixed), target=GPUTarget("cuda", 90, 32), options={"num_warps": warps}
        )
        assert ".target sm_90a" in made.asm["ptx"] and "ld.global" in made.asm["ptx"]
