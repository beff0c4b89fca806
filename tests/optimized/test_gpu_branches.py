"""What benchmarks/gpu.py does on CUDA only, without CUDA: on a machine that takes itself for a device.

See ``tests/optimized/support/device.py``.  Times mean nothing; that every branch runs, with the right data, does.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.gpu import (
    ahead,
    baselines,
    ceilings,
    choice,
    copies,
    correct,
    device,
    overlap,
    parent,
    plot,
    report,
    smoke,
)
from benchmarks.gpu.stage import Bench, Record, Stage
from kvlitmus.optimized.data import driver
from kvlitmus.optimized.data.copies import ENGINES
from kvlitmus.optimized.data.kernels import LINK
from tests.optimized.support.device import Library, pretend
from tests.support.processes import LIMIT


@pytest.fixture
def bench() -> Iterator[Bench]:
    """A bench whose machine takes itself for a CUDA device."""
    with pretend() as (made, _):
        yield made


def run(bench: Bench, stages: list[tuple[str, Callable[[Bench], None]]]) -> list[tuple[str, str]]:
    """The stages one after another in this process; how each ended."""
    found = []
    for name, work in stages:
        bench.record.troubles.clear()
        bench.ends = bench.overall = time.monotonic() + LIMIT
        found.append(parent._worked(Stage(name, LIMIT, work), bench))
    bench.record.stages = [
        {"stage": name, "outcome": outcome, "seconds": 0.0, "note": note}
        for (name, _), (outcome, note) in zip(stages, found, strict=True)
    ]
    return found


STAGES: dict[str, Callable[[Bench], None]] = {
    **{f"smoke {engine}": partial(smoke.smoke, engine) for engine in ENGINES},
    "movers": correct.movers,
    "streams": correct.streams,
    "ceilings": ceilings.ceilings,
    **{f"transfers {engine}": partial(copies.transfers, engine) for engine in ENGINES if engine != "torch"},
    "small loads": overlap.small_loads,
    "both ways": copies.both_ways,
    "on device": copies.on_device,
    "submission": overlap.submission,
    "layers": overlap.layers,
    "interference": overlap.interference,
    "quota": overlap.quota,
    "choice": choice.choice,
    "baselines": baselines.baselines,
}


@pytest.mark.nightly
def test_every_stage_does_what_it_does_on_a_device(bench: Bench) -> None:
    assert run(bench, list(STAGES.items())) == [("ok", "")] * len(STAGES)
    record = bench.record
    assert {row["way"] for row in record.of("small loads")} == {"kernel", "dma"} and "together" in record.head
    assert not [check for check in record.checks if check["wrong_cases"]], record.checks
    ways = {(row["direction"], row["way"]) for row in record.of("transfers")}
    assert ways == {(direction, way) for direction in ("h2d", "d2h") for way in ("kernel", "dma", "staged")}
    assert {row["way"] for row in record.of("choice")} == {"kernel", "dma", "2d"}
    assert all(row.get("exact", True) for row in record.of("choice"))
    assert all(set(ways) == {"h2d", "d2h"} for ways in record.head["measured"].values())
    assert len(record.head["measured"]) == len(copies.ROWS)
    measured = {row["way"] for row in record.of("baselines") if "gb_s" in row}
    assert {"index", "loop", "batch"} <= measured and record.head["baselines_wrong"] == []
    rows = {f"{goal.row}, {goal.what}" for goal in record.goals}
    assert len(rows) == len(record.goals) >= 18
    for wanted in (
        "h2d 8 KiB",
        "d2h whole pages",
        "both ways",
        "gather",
        "relayout",
        "SMs",
        "slow-down",
        "submit",
        "first",
        "all",
    ):
        assert any(wanted in row for row in rows), wanted
    said = report.report(record)
    assert "MISSED" in said or "met" in said
    assert plot.plot(record).count("<rect") > 20


def test_a_batch_that_copies_wrongly_is_no_baseline(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    class Half(Library):
        def cudaMemcpyBatchAsync(self, *given: Any) -> int:  # noqa: N802
            return 0

    monkeypatch.setattr(baselines, "runtime", Half)
    baselines.baselines(bench)
    assert {text.split(",")[0] for text in bench.record.head["baselines_wrong"]} == {"batch"}


@pytest.mark.nightly
def test_an_engine_that_fails_costs_the_others_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any) -> None:
        raise driver.DriverError("cuMemcpyBatchAsync failed with CUDA error 801", "cuMemcpyBatchAsync", 801)

    monkeypatch.setattr(driver, "copy_batch", refuse)
    names = ("ceilings", "transfers kernel", "transfers dma", "transfers staged", "choice")
    found = run(bench, [(name, STAGES[name]) for name in names])
    assert [outcome for outcome, _ in found] == ["ok", "ok", "failed", "failed", "failed"]
    assert found[2][1].startswith("RuntimeError: 12 of 12 rows by dma failed, the first of them h2d whole pages of")
    for table in ("transfers", "choice"):
        rows = bench.record.of(table)
        assert {row["way"] for row in rows if "gb_s" not in row} == {"dma", "staged"}
        assert {row["way"] for row in rows if "gb_s" in row} == {"kernel"} | ({"2d"} if table == "choice" else set())
        assert all(row["note"].startswith("failed: ") for row in rows if "gb_s" not in row)
    assert bench.record.head["choice"] == {"to_device": choice.NEVER, "to_host": choice.NEVER}
    assert "failed: " in report.report(bench.record)


def the_driver_says(monkeypatch: pytest.MonkeyPatch, says: Callable[[], Any]) -> None:
    """The driver's program says this; whatever else is started is started."""
    run = subprocess.run

    def asked(command: Sequence[str], **more: Any) -> Any:
        return says() if command[0] == "nvidia-smi" else run(command, **more)

    monkeypatch.setattr(subprocess, "run", asked)


def test_what_a_device_says_of_itself(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = "580.159, 5, 16, 345 MHz, 700.00 W\n"
    the_driver_says(monkeypatch, lambda: SimpleNamespace(stdout=answer))
    facts = device.environment("cuda")
    assert (facts["device"], facts["capability"], facts["sms"]) == ("NVIDIA H200", "9.0", 132)
    assert facts["driver"]["pcie.link.gen.max"] == "5" and facts["versions"]["torch"] == torch.__version__


@pytest.mark.parametrize("trouble", [FileNotFoundError("no nvidia-smi"), subprocess.TimeoutExpired("nvidia-smi", 15)])
def test_a_driver_that_says_nothing_is_no_failure(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    def fail() -> Any:
        raise trouble

    the_driver_says(monkeypatch, fail)
    assert "not available" in device.environment("cuda")["driver"]["nvidia-smi"]


@pytest.mark.nightly
def test_kernels_are_compiled_by_other_processes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    triton = pytest.importorskip("triton")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")  # Triton 3.9 warns of its default
    target = triton.backends.compiler.GPUTarget("cuda", 90, 32)
    monkeypatch.setattr(ahead, "target_of", lambda device: target)
    bench = Bench("cuda", False, Record(None), Path())
    few = list(ahead.transfers_of(overlap.SMALL, "layer_first", 9, LINK))
    assert len(list(ahead.jobs(bench))) > 400
    assert len(set(ahead.jobs(bench))) > 200
    monkeypatch.setattr(ahead, "jobs", lambda bench: [*few, *few])
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    bench.ends = bench.overall = time.monotonic() + LIMIT
    ahead.compile_ahead(bench)
    assert bench.record.head["compiled_ahead"] == "2 of 2 kernels by 2 processes, 0 late"
    assert len(list(tmp_path.rglob("*.cubin"))) == 2


def test_orders_are_fresh_and_random() -> None:
    machine = device.Machine("cpu", 1)
    one, other = machine.pages(1000), machine.pages(1000)
    assert one.dtype == np.int32 and sorted(one.tolist()) == list(range(1, 1000))
    assert not np.array_equal(one, other)
    assert np.abs(np.diff(one)).mean() > 100
