"""What the parts of the optimized cache need: nothing, numpy and numba, or torch."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.test_layout import ROOT

_IMPORT_CONTROL_PLANE = """
import importlib, pkgutil, sys
import kvlitmus.optimized as package
from kvlitmus.optimized.cores import lacking
for one in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
    if not one.ispkg and not (one.name.endswith((".compiled", "._core")) and lacking()):
        importlib.import_module(one.name)
print(sorted({"torch", "triton", "redis"} & sys.modules.keys()))
"""


def test_the_page_store_runs_on_the_standard_library_alone() -> None:
    code = "import sys; sys.path[:0] = sys.argv[1:]\nimport kvlitmus.optimized, kvlitmus.optimized.storage.file"
    command = [sys.executable, "-I", "-S", "-W", "error", "-c", code, str(ROOT / "spec"), str(ROOT / "optimized")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_control_plane_runs_without_torch() -> None:
    command = [sys.executable, "-c", _IMPORT_CONTROL_PLANE]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(ROOT / room) for room in ("spec", "optimized"))}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
