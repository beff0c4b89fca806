"""The page about sparse host memory: its adapter passes as it stands there, and every port is described."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kvlitmus.spec.interface.sparse import SPARSE_PORTS
from tests.support.pages import DOCS, follow
from tests.test_layout import ROOT

PAGE = (DOCS / "sparse.md").read_text(encoding="utf-8")

UNDER_O = """
assert False, "this is not looked at"
from kvlitmus.conformance.adapters.reference.sparse import target as reference
from kvlitmus.conformance.run import engine, plan
from kvlitmus.conformance.run.results import Options
from kvlitmus.conformance.specimen.cache import target as specimen
for one in (specimen, reference):
    for item in plan.items(plan.SPARSE_CONFIGS[:2], one.profile, steps=plan.OPS):
        result = engine.run_item(one, item, Options(shrink_trials=0))
        if result.findings or result.error or result.unexercised:
            raise SystemExit(f"{item.id}: {result}")
print("kept")
"""


def test_the_adapter_of_the_page_passes(tmp_path: Path) -> None:
    assert follow(PAGE, tmp_path) == ["kvlitmus run my_rows"]


@pytest.mark.nightly
def test_the_adapter_passes_a_full_run(tmp_path: Path) -> None:
    assert follow(PAGE, tmp_path, processes=True)


def test_what_a_page_of_ports_lists_is_there() -> None:
    for methods in SPARSE_PORTS.values():
        assert all(f"`{method}`" in PAGE or f"def {method}(" in PAGE for method in methods)


def test_no_check_is_an_assert() -> None:
    """Under ``python -O`` all is refused that must be, and every rule is kept."""
    done = subprocess.run(
        [sys.executable, "-O", "-c", UNDER_O], capture_output=True, text=True, cwd=ROOT, timeout=300, check=False
    )
    assert done.stdout.strip() == "kept", done.stdout + done.stderr
