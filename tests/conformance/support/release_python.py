"""Python in a process of its own, for tests of adapters: the checkout's, or that of a release's environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HOME = Path(__file__).resolve().parents[3]
ROOMS = os.pathsep.join(str(HOME / room) for room in ("spec", "reference", "optimized", "conformance", "."))


def run(
    *command: str, interpreter: str = sys.executable, seconds: int = 900, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own, with the rooms and the checkout on the path."""
    return subprocess.run(
        [interpreter, *command],
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": ROOMS},
    )


def printed(python: str, script: str, *arguments: str) -> Any:
    """What a script of this folder prints last, run by a release's interpreter; without that the test is skipped."""
    interpreter = HOME / python
    if not interpreter.exists():
        pytest.skip(f"run tools/peers {Path(python).parts[1].removeprefix('sglang-')} first")
    done = run("-m", f"tests.conformance.support.{script}", *arguments, interpreter=str(interpreter), cwd=HOME)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])
