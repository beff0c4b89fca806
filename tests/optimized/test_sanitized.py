"""The compiled core under AddressSanitizer and UBSan, over the calls that it is compared by.

The core is built from the tree's sources, and from a copy of them with a bug that only a sanitizer sees.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba")

from kvlitmus.optimized.build_core import PACKAGE, NotBuilt, compiler

ROOT = Path(__file__).resolve().parent.parent.parent
TOOL = ROOT / "tests" / "optimized" / "side_by_side.py"
RIGHT = "size_t room = wanted < more ? more : wanted;"
PLANTED = "size_t room = wanted < more ? more : wanted - 1;"
"""An array that has room for one less than was asked for, where it didn't grow by a quarter."""


def has_sanitizers() -> bool:
    """Whether there is a compiler, with the libraries of its sanitizers."""
    try:
        command = [*compiler(), "-print-file-name=libasan.so"]
    except NotBuilt:
        return False
    found = subprocess.run(command, check=False, capture_output=True, text=True)
    return found.returncode == 0 and Path(found.stdout.strip()).is_absolute()


pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(sys.platform != "linux" or not has_sanitizers(), reason="no compiler with AddressSanitizer"),
]


def sanitized(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOOL), "--sanitize", *options]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_the_core_is_clean_under_the_sanitizers() -> None:
    done = sanitized("--steps", "5000", "--tiers", "2500", "--sparse", "2500", "--components", "5000")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 differences" in done.stdout


def test_what_is_written_behind_an_array_is_seen(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE / "native", tmp_path / "native")
    memory = tmp_path / "native" / "memory.h"
    text = memory.read_text(encoding="utf-8")
    assert RIGHT in text
    memory.write_text(text.replace(RIGHT, PLANTED), encoding="utf-8")
    done = sanitized("--steps", "5000", "--package", str(tmp_path))
    assert done.returncode != 0 and "AddressSanitizer: heap-buffer-overflow" in done.stderr
