"""What benchmarks/gpu.py does on CUDA only, without CUDA: streams that do at once what they are given.

Lanes, tickets, events and batches of copies run as on a device, on the streams of ``support/streams.py``; what a
kernel would do is done by loops.  Times mean nothing; that every branch runs, and that its data is right, does.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks import (
    gpu_ahead,
    gpu_baselines,
    gpu_ceilings,
    gpu_choice,
    gpu_copies,
    gpu_correct,
    gpu_device,
    gpu_movers,
    gpu_overlap,
    gpu_plot,
    gpu_report,
)
from benchmarks.gpu_stage import Bench, Record, Stage, run
from kvlitmus.optimized.data import driver
from kvlitmus.optimized.data.pools import HostPool
from tests.optimized.support import streams
from tests.support.processes import LIMIT


class AtOnce(streams.Stream):
    """A stream that has done what it is given before anybody else can look."""

    def push(self, operation: Callable[[], bool]) -> None:
        if not operation():
            raise streams.Deadlock("this can't happen any more, for nothing is submitted later that it waits for")


class Timed(streams.Event):
    """An event with a time."""

    def __init__(self, world: streams.World) -> None:
        super().__init__(world)
        self.at = 0.0

    def record(self, stream: Any = None) -> None:
        super().record(stream or self.world.current)
        self.at = time.perf_counter()

    def elapsed_time(self, other: Timed) -> float:
        return max(1e-3, (other.at - self.at) * 1e3)


class Library:
    """The two calls of the CUDA runtime that the other ways need."""

    def cudaMemcpyBatchAsync(self, *given: Any) -> int:  # noqa: N802
        targets, sources, sizes, count, *_ = given
        arrays = [(ctypes.c_uint64 * count.value).from_address(each.value) for each in (targets, sources, sizes)]
        for target, source, size in zip(*arrays, strict=True):
            ctypes.memmove(target, source, size)
        return 0

    def cudaMemcpy2DAsync(self, *given: Any) -> int:  # noqa: N802
        target, target_pitch, source, source_pitch, width, height, kind, _ = given
        assert kind.value == 4
        for row in range(height.value):
            to, start = target.value + row * target_pitch.value, source.value + row * source_pitch.value
            ctypes.memmove(to, start, width.value)
        return 0


def here(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """``Tensor.to`` for which the device is here."""

    def to(self: torch.Tensor, *given: Any, **more: Any) -> torch.Tensor:
        there = [torch.device("cpu") if isinstance(one, torch.device) else one for one in given]
        return original(self, *there, **more)

    return to


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """A bench whose machine takes itself for a CUDA device."""
    with streams.install(entries=1 << 18, slots=256) as world:
        world.current = AtOnce(world)
        made = SimpleNamespace(name="NVIDIA H200", major=9, minor=0, multi_processor_count=132, total_memory=1 << 37)
        for name, fake in {
            "Stream": lambda device=None, priority=0: AtOnce(world),
            "Event": lambda enable_timing=False: Timed(world),
            "synchronize": lambda device=None: None,
            "empty_cache": lambda: None,
            "_sleep": lambda cycles: None,
            "get_device_properties": lambda number: made,
        }.items():
            monkeypatch.setattr(torch.cuda, name, fake)
        monkeypatch.setattr(torch.Tensor, "to", here(torch.Tensor.to))
        for module in (gpu_movers, gpu_copies, gpu_choice):
            monkeypatch.setattr(
                module, "DevicePool", lambda of, pages, device="cpu", **more: streams.OnDevice(of, pages, **more)
            )
        for module in (gpu_movers, gpu_choice):
            monkeypatch.setattr(module, "HostPool", lambda *given, **more: streams.locked(HostPool(*given, **more)))
        for module in (gpu_baselines, gpu_choice):
            monkeypatch.setattr(module, "runtime", Library)
        machine = gpu_device.Machine("cpu", 5)
        machine.cuda = True
        monkeypatch.setattr(machine, "host_bytes", machine.device_bytes)
        bench = Bench("cuda", True, Record(None, {"dry": False}), Path())
        bench.kept.update(machine=machine, chunk_sizes=[512, 4096])
        yield bench
        monkeypatch.undo()  # before what install has replaced: undone later, it would bring the stand-ins back


STAGES = {
    "movers": gpu_correct.movers,
    "streams": gpu_correct.streams,
    "ceilings": gpu_ceilings.ceilings,
    "transfers": gpu_copies.transfers,
    "both ways": gpu_copies.both_ways,
    "on device": gpu_copies.on_device,
    "submission": gpu_overlap.submission,
    "layers": gpu_overlap.layers,
    "interference": gpu_overlap.interference,
    "quota": gpu_overlap.quota,
    "choice": gpu_choice.choice,
    "baselines": gpu_baselines.baselines,
}


@pytest.mark.slow
def test_every_stage_does_what_it_does_on_a_device(bench: Bench) -> None:
    run(bench, [Stage(name, LIMIT, work) for name, work in STAGES.items()], LIMIT, lambda line: None)
    record = bench.record
    assert [(one["stage"], one["outcome"], one["note"]) for one in record.stages] == [
        (name, "done", "") for name in STAGES
    ]
    assert not [check for check in record.checks if check["wrong_cases"]], record.checks
    ways = {(row["direction"], row["way"]) for row in record.of("transfers")}
    assert ways == {(direction, way) for direction in ("h2d", "d2h") for way in ("kernel", "dma", "staged")}
    assert {row["way"] for row in record.of("choice")} == {"kernel", "dma", "2d"}
    assert all(row.get("exact", True) for row in record.of("choice"))
    measured = {row["way"] for row in record.of("baselines") if "gb_s" in row}
    assert {"index", "loop", "batch"} <= measured and record.head["baselines_wrong"] == []
    rows = {goal.row for goal in record.goals}
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
    said = gpu_report.report(record)
    assert "MISSED" in said or "met" in said
    assert gpu_plot.plot(record).count("<rect") > 20


def test_a_batch_that_copies_wrongly_is_no_baseline(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    class Half(Library):
        def cudaMemcpyBatchAsync(self, *given: Any) -> int:  # noqa: N802
            return 0

    monkeypatch.setattr(gpu_baselines, "runtime", Half)
    gpu_baselines.baselines(bench)
    assert {text.split(",")[0] for text in bench.record.head["baselines_wrong"]} == {"batch"}


@pytest.mark.slow
def test_an_engine_that_fails_costs_the_others_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any) -> None:
        raise driver.DriverError("cuMemcpyBatchAsync failed with CUDA error 801", "cuMemcpyBatchAsync", 801)

    monkeypatch.setattr(driver, "copy_batch", refuse)
    stages = [Stage("ceilings", LIMIT, gpu_ceilings.ceilings), Stage("transfers", LIMIT, gpu_copies.transfers)]
    run(bench, [*stages, Stage("choice", LIMIT, gpu_choice.choice)], LIMIT, lambda line: None)
    assert [one["outcome"] for one in bench.record.stages] == ["done"] * 3
    for table in ("transfers", "choice"):
        rows = bench.record.of(table)
        assert {row["way"] for row in rows if "gb_s" not in row} == {"dma", "staged"} - (
            {"staged"} if table == "choice" else set()
        )
        assert {row["way"] for row in rows if "gb_s" in row} == {"kernel"} | ({"2d"} if table == "choice" else set())
        assert all(row["note"].startswith("failed: ") for row in rows if "gb_s" not in row)
    assert bench.record.head["choice"] == {"to_device": gpu_choice.NEVER, "to_host": gpu_choice.NEVER}
    assert "failed: " in gpu_report.report(bench.record)

    monkeypatch.setattr(
        gpu_copies, "ways", lambda *given, **more: [("dma", {"load_engine": "dma", "backup_engine": "dma"})]
    )
    run(bench, [Stage("transfers", LIMIT, gpu_copies.transfers)], LIMIT, lambda line: None)
    assert bench.record.stages[-1]["note"].startswith(
        "RuntimeError: the engine that the cache uses failed: h2d whole pages"
    )


def test_what_a_device_says_of_itself(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = "580.159, 5, 16, 345 MHz, 700.00 W\n"
    monkeypatch.setattr(subprocess, "run", lambda *given, **more: SimpleNamespace(stdout=answer))
    facts = gpu_device.environment("cuda")
    assert (facts["device"], facts["capability"], facts["sms"]) == ("NVIDIA H200", "9.0", 132)
    assert facts["driver"]["pcie.link.gen.max"] == "5" and facts["versions"]["torch"] == torch.__version__


@pytest.mark.parametrize("trouble", [FileNotFoundError("no nvidia-smi"), subprocess.TimeoutExpired("nvidia-smi", 15)])
def test_a_driver_that_says_nothing_is_no_failure(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    def fail(*given: Any, **more: Any) -> Any:
        raise trouble

    monkeypatch.setattr(subprocess, "run", fail)
    assert "not available" in gpu_device.environment("cuda")["driver"]["nvidia-smi"]


@pytest.mark.slow
def test_kernels_are_compiled_by_other_processes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    triton = pytest.importorskip("triton")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")  # Triton 3.9 warns of its default
    target = triton.backends.compiler.GPUTarget("cuda", 90, 32)
    active = SimpleNamespace(get_current_target=lambda: target)
    monkeypatch.setattr("triton.runtime.driver", SimpleNamespace(active=active))
    bench = Bench("cuda", False, Record(None), Path())
    few = list(gpu_ahead.transfers_of(gpu_overlap.SMALL, "layer_first", 9))
    assert len(list(gpu_ahead.jobs(bench))) > 400
    assert len(set(gpu_ahead.jobs(bench))) > 200
    monkeypatch.setattr(gpu_ahead, "jobs", lambda bench: [*few, *few])
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    bench.ends = bench.overall = time.monotonic() + LIMIT
    gpu_ahead.compile_ahead(bench)
    assert bench.record.head["compiled_ahead"] == "2 of 2 kernels by 2 processes, 0 late"
    assert len(list(tmp_path.rglob("*.cubin"))) == 2


def test_orders_are_fresh_and_random() -> None:
    machine = gpu_device.Machine("cpu", 1)
    one, other = machine.pages(1000), machine.pages(1000)
    assert one.dtype == np.int32 and sorted(one.tolist()) == list(range(1, 1000))
    assert not np.array_equal(one, other)
    assert np.abs(np.diff(one)).mean() > 100
