"""The device a run measures on: CUDA events and pinned memory, or, in a dry run, CPU tensors and the host's clock."""

from __future__ import annotations

import gc
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.record import versions

GB = 1e9
"""Bandwidths are in GB/s of payload, counted once; sizes with KiB, MiB and GiB are powers of two."""
GIB = 1 << 30
MIB = 1 << 20
KIB = 1 << 10


PACKAGES = ("triton", "numba", "numpy", "hypothesis", "pytest")


class Machine:
    """Clock, memory and streams of the device under test."""

    def __init__(self, device: str, seed: int) -> None:
        self.device = torch.device(device)
        self.cuda = self.device.type == "cuda"
        self.rng = np.random.default_rng(seed)

    def sync(self) -> None:
        """Wait for everything that was submitted to the device."""
        if self.cuda:
            torch.cuda.synchronize(self.device)

    def events(self, work: Callable[[], object]) -> float:
        """Seconds between two events on the current stream around ``work``."""
        if not self.cuda:
            return self.wall(work)
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        self.sync()
        start.record()
        work()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3

    def wall(self, work: Callable[[], object]) -> float:
        """Seconds of the host's clock from the call to the end of everything it has submitted."""
        self.sync()
        started = time.perf_counter()
        work()
        self.sync()
        return time.perf_counter() - started

    def host_bytes(self, count: int) -> torch.Tensor:
        """Pinned (on CUDA) host memory with random contents: the first touch is not what is measured."""
        memory = torch.empty(count, dtype=torch.uint8, pin_memory=self.cuda)
        self.fill(memory)
        return memory

    def fill(self, memory: torch.Tensor) -> None:
        """Random bytes into memory of either side; made on the device, where that takes no time."""
        flat = memory.view(-1).view(torch.uint8)
        piece = 256 * MIB
        for at in range(0, flat.numel(), piece):
            part = flat[at : at + piece]
            made = torch.empty(-(-part.numel() // 8), dtype=torch.int64, device=self.device).random_()
            part.copy_(made.view(torch.uint8)[: part.numel()])

    def device_bytes(self, count: int) -> torch.Tensor:
        """Device memory with random contents."""
        memory = torch.empty(count, dtype=torch.uint8, device=self.device)
        self.fill(memory)
        return memory

    def pages(self, pages: int, reserved: int = 1) -> np.ndarray[Any, np.dtype[np.int32]]:
        """A fresh random order of all pages but the reserved ones: page lists of a real cache are scattered."""
        return (self.rng.permutation(pages - reserved) + reserved).astype(np.int32)

    def alive(self) -> None:
        """Raise ``RuntimeError`` if the device's context is lost, or plain copies are wrong."""
        try:
            self.sync()
            there = torch.arange(1000, device=self.device)
            whole = bool((there.cpu() == torch.arange(1000)).all())
        except RuntimeError as error:
            raise RuntimeError(f"the context was lost: {str(error).partition(chr(10))[0]}") from error
        if not whole:
            raise RuntimeError("a plain copy to the device and back is wrong")

    def free(self) -> None:
        """Give device memory back to the driver between stages."""
        if self.cuda:
            gc.collect()
            torch.cuda.empty_cache()


def repeat(measure: Callable[[], float], count: int, warm: int = 1) -> list[float]:
    """``count`` measurements after ``warm`` that are thrown away."""
    for _ in range(warm):
        measure()
    return [measure() for _ in range(count)]


def summary(seconds: list[float], payload: int) -> dict[str, Any]:
    """Median, best and worst of a row, and the bandwidth of the median."""
    middle = statistics.median(seconds)
    return {
        "bytes": payload,
        "seconds": [round(one, 7) for one in seconds],
        "median_s": middle,
        "gb_s": payload / middle / GB,
        "best_gb_s": payload / min(seconds) / GB,
        "worst_gb_s": payload / max(seconds) / GB,
    }


def _driver() -> dict[str, str]:
    """What the driver says of the card and its link; it is only asked, and nothing is set."""
    asked = "driver_version,pcie.link.gen.max,pcie.link.width.current,clocks.sm,power.limit"
    command = ["nvidia-smi", f"--query-gpu={asked}", "--format=csv,noheader"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=15, check=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        return {"nvidia-smi": f"not available: {error}"}
    return dict(zip(asked.split(","), (part.strip() for part in said.splitlines()[0].split(",")), strict=False))


def environment(device: str) -> dict[str, Any]:
    """What was run on what: enough to compare two records."""
    facts: dict[str, Any] = {
        "platform": platform.platform(),
        "versions": {**versions(*PACKAGES), "torch": str(torch.__version__), "cuda": str(torch.version.cuda)},
        "cores": os.cpu_count(),
        "device": device,
    }
    if device == "cuda":
        properties = torch.cuda.get_device_properties(0)
        facts["device"] = properties.name
        facts["capability"] = f"{properties.major}.{properties.minor}"
        facts["sms"] = properties.multi_processor_count
        facts["memory_gib"] = round(properties.total_memory / GIB, 1)
        facts["driver"] = _driver()
        facts["numa_nodes"] = len(list(Path("/sys/devices/system/node").glob("node[0-9]*")))
        facts["l2_mib"] = round(getattr(properties, "L2_cache_size", 0) / MIB, 1)
    return facts
