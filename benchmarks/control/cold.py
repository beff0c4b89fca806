"""What the control plane costs a process before it has served its first request: CPU time, without torch.

A process of its own imports the flat cache and serves one request.  *cold*: nothing that was compiled at run time is
kept from before, as on a machine where it runs for the first time; *kept*: it is.  Python's own compiled modules are
there in both, as after an installation.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping

from benchmarks.control.goals import CORES
from benchmarks.control.ours import cores, environment
from benchmarks.record import ROOT

FIRST = """
import sys
import numpy as np
from kvlitmus.optimized.cache import CacheConfig, FlatCache
cache = FlatCache(CacheConfig(page_size=64, pages=64))
prompt = np.arange(4000, dtype=np.int32)
assert cache.begin(0, prompt).cached == 0
cache.end(0, keep=True)
assert len(cache.match(prompt).pages) == 62
assert len(cache.evict(64)) == 1
assert "torch" not in sys.modules
"""
ALONE = {"the interpreter alone": "pass", "NumPy alone": "import numpy"}


def seconds(code: str, environment: Mapping[str, str]) -> float:
    """The CPU time of a process that runs this code; raises ``RuntimeError`` where it fails."""
    rooms = os.pathsep.join(str(ROOT / room) for room in ("spec", "optimized"))
    child = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": rooms, **environment},
        stdout=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"the first request failed with exit code {child.returncode}")
    return used.ru_utime + used.ru_stime


def measure(rounds: int) -> dict[str, dict[str, float]]:
    """Seconds of CPU time, the least of the rounds: what is started, cold or kept, and each core in turn."""
    seen: dict[str, dict[str, list[float]]] = {}

    def note(name: str, kind: str, value: float) -> None:
        seen.setdefault(name, {}).setdefault(kind, []).append(value)

    for core in cores():  # so that Python's own compiled modules are there
        with tempfile.TemporaryDirectory(prefix="kvlitmus-") as folder:
            seconds(FIRST, {"NUMBA_CACHE_DIR": folder, **environment(core)})
    for _ in range(rounds):
        for name, code in ALONE.items():
            note(name, "cold", seconds(code, {}))
        for core in cores():
            with tempfile.TemporaryDirectory(prefix="kvlitmus-") as folder:
                for kind in ("cold", "kept"):
                    note(f"ours{CORES[core]}", kind, seconds(FIRST, {"NUMBA_CACHE_DIR": folder, **environment(core)}))
    return {name: {kind: round(min(values), 3) for kind, values in kinds.items()} for name, kinds in seen.items()}
