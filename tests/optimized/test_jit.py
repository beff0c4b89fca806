"""Compiled functions: kept beside their source, and compiled all the same where nothing can be kept."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from kvlitmus.optimized.jit import jitted

SOURCE = "def double(number: int) -> int:\n    return 2 * number\n"


def test_machine_code_is_kept_beside_the_source(tmp_path: Path) -> None:
    path = tmp_path / "doubles.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("doubles", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    double: Any = jitted(module.double)
    assert double(21) == 42 and double.targetoptions["nogil"]
    assert list((tmp_path / "__pycache__").glob("doubles.double*.nbi"))


def test_where_nothing_can_be_kept_it_is_compiled_all_the_same() -> None:
    names: dict[str, Any] = {}
    exec(compile(SOURCE, "/no/such/folder/doubles.py", "exec"), names)
    double = jitted(names["double"])
    assert double(21) == 42 and double.targetoptions["nogil"]
    assert double.signatures
