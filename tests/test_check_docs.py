"""What the page on recorded traces shows works as it stands there."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from kvlitmus.conformance.tape.lines import HEADER, STEP
from tests.support.pages import DOCS, follow

TEXT = (DOCS / "check.md").read_text(encoding="utf-8")
TAPE = (DOCS / "tape.md").read_text(encoding="utf-8")
LOGGER = DOCS / "examples" / "trace_logger.py"


def test_the_page_can_be_followed(tmp_path: Path) -> None:
    done = [command.split()[0] for command in follow(TEXT, tmp_path)]
    assert sorted(done) == ["kvlitmus"] * 3 + ["python"] * 2


def test_the_page_tells_every_field() -> None:
    for field in HEADER | STEP:
        assert f"`{field}`" in TAPE, field


def test_the_page_on_tapes_can_be_followed(tmp_path: Path) -> None:
    assert [command.split()[0] for command in follow(TAPE, tmp_path)] == ["kvlitmus", "python"]


def test_the_logger_is_short_and_needs_the_standard_library_alone() -> None:
    lines = [line for line in LOGGER.read_text(encoding="utf-8").splitlines() if line.strip()]
    imported = {line.split()[1].partition(".")[0] for line in lines if re.match(r"(?:import|from) ", line)}
    assert imported <= sys.stdlib_module_names
    assert len(lines) <= 80
