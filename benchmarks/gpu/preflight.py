"""What this machine has of what a run needs; what is missing is said in one line each.

The first stage of a run.  Without a device it ends the run; what else is missing costs the stages that need it, and
they say so.
"""

from __future__ import annotations

import importlib.util
import os
import resource
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.gpu.device import environment
from benchmarks.gpu.stage import Bench
from kvlitmus.optimized.data.driver import BATCHES

PACKAGES = {
    "triton": "no engine 'kernel' and no 'staged'; 'torch' serves in their place",
    "numba": "short page tables are checked by the interpreter: submitting takes longer",
    "hypothesis": "the tests marked gpu can't run",
    "pytest": "the tests marked gpu can't run",
}
"""What is not there costs this."""
MEMORY = 12 << 30
"""Bytes of device memory that the stages need."""


def preflight(bench: Bench) -> None:
    """Say what this machine is and what it lacks.  Raises ``RuntimeError`` where nothing can be measured."""
    record = bench.record
    if not bench.dry:
        import torch

        if not torch.cuda.is_available():
            record.head["no_device"] = True
            raise RuntimeError(f"torch {torch.__version__} finds no CUDA device")
    record.head.update(environment(bench.device))
    lacking = record.head["missing"] = []
    looks: list[Callable[[Bench], list[str]]] = [packages, tools, memory]
    if not bench.dry:
        looks += [device, driver_calls]
    for look in looks:
        try:
            lacking += look(bench)
        except Exception as error:  # noqa: BLE001  what can't be found out is said, too
            lacking.append(f"{look.__name__} could not be looked at: {type(error).__name__}: {error}")
    for line in lacking:
        print(f"missing: {line}")
    if importlib.util.find_spec("kvlitmus") is None:
        raise RuntimeError("kvlitmus can't be imported: PYTHONPATH must name the four rooms")


def packages(_: Bench) -> list[str]:
    """Python and its packages."""
    said = [] if sys.version_info >= (3, 11) else ["Python 3.11 or later"]
    return said + [f"{name}: {cost}" for name, cost in PACKAGES.items() if importlib.util.find_spec(name) is None]


def tools(bench: Bench) -> list[str]:
    """Programs that are called.  A C compiler is none of them."""
    said = []
    if not bench.dry and shutil.which("nvidia-smi") is None:
        said.append("nvidia-smi: the record doesn't say which driver and which link")
    return said


def memory(bench: Bench) -> list[str]:
    """Locked memory of the host, memory of the device, room for what is compiled."""
    import torch

    said = []
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if not bench.dry and 0 <= soft < 4 << 30 and os.geteuid() != 0:
        said.append(f"ulimit -l is {soft} bytes: host memory of some GiB may not be lockable")
    if not bench.dry:
        free, _ = torch.cuda.mem_get_info()
        if free < MEMORY:
            said.append(f"device memory: {free / (1 << 30):.1f} GiB are free, {MEMORY >> 30} wanted")
    if shutil.disk_usage(os.environ.get("TRITON_CACHE_DIR") or Path.home()).free < 1 << 30:
        said.append("1 GiB of disk for compiled kernels")
    return said


def device(_: Bench) -> list[str]:
    """What the kernels are made for."""
    import torch

    major, minor = torch.cuda.get_device_capability(0)
    return [] if (major, minor) >= (8, 0) else [f"compute capability 8.0 or later (this is {major}.{minor})"]


def driver_calls(bench: Bench) -> list[str]:
    """The driver's calls that have a slower way round: found out by making them."""
    from kvlitmus.optimized.data import driver, flags

    said: list[str] = []
    facts: dict[str, Any] = bench.record.head.setdefault("driver_calls", {})
    driver.context_of(0).bind()
    facts["batch"] = next((name for name in BATCHES if driver.has(name)), None)
    if facts["batch"] is None:
        said.append("cuMemcpyBatchAsync (CUDA 12.8): the copy engine is given one copy at a time")
    import torch

    there = flags.LayerFlags(1, 1, torch.device("cuda", 0), counters=False)
    there.probe(torch.cuda.Stream().cuda_stream)
    torch.cuda.synchronize()
    facts["values_in_streams"] = there.in_streams
    if not there.in_streams:
        said.append("values in streams (cuStreamWaitValue32): all layers of a load are waited for together")
    return said
