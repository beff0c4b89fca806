"""What the adapter says of HiSparse's swap-in is what the published CUDA kernel does, played on the CPU (nightly)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.support.release_python import run
from tests.conformance.test_sglang_hisparse import PYTHON

SCRIPT = Path(__file__).parent / "support" / "sglang_hisparse_kernel.py"


def played(*arguments: str) -> dict[str, Any]:
    """What the script says, run by the release's own interpreter."""
    if not PYTHON.exists() or not shutil.which("c++"):
        pytest.skip("the release's environment and a C++ compiler are needed")
    done = run(str(SCRIPT), *arguments, interpreter=str(PYTHON), seconds=600)
    assert done.returncode == 0, done.stderr[-2000:]
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


@pytest.mark.nightly
@pytest.mark.timeout(700)
def test_the_kernel_and_the_adapter_decide_alike() -> None:
    seen = played()
    overwritten = seen.pop("overwritten")
    assert seen == {"cases": 240, "differences": [], "count": 0}
    assert overwritten == {"distinct": [], "twice": [], "-1": [0], "newest twice": [0]}, "H-52: the place of token 9"


@pytest.mark.nightly
@pytest.mark.timeout(700)
def test_a_difference_would_be_seen() -> None:
    seen = played("slip")
    assert any("top_k_device_locs" in one for one in seen["differences"])
    assert any("lru_slots" in one for one in seen["differences"])
