"""What the page on recorded traces shows works as it stands there."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from kvlitmus.conformance.history.lines import CALL, HEADER
from tests.test_layout import ROOT
from tests.test_tutorial import missing, run

TEXT = (ROOT / "docs" / "check.md").read_text(encoding="utf-8")
LOGGER = ROOT / "docs" / "examples" / "trace_logger.py"
_BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)


def test_the_page_can_be_followed(tmp_path: Path) -> None:
    shutil.copy(LOGGER, tmp_path)
    done = []
    for language, title, body in _BLOCK.findall(TEXT):
        done.append(language)
        if language == "console":
            first, *shown = body.splitlines()
            printed, code = run(first.removeprefix("$ "), tmp_path)
            assert missing(shown, printed) == [], printed
            (exit_line,) = [line for line in shown if line.startswith("exit ")]
            assert exit_line.startswith(f"exit {code}: ")
        else:
            (tmp_path / title).write_text(body, encoding="utf-8")
        if language == "python":
            subprocess.run([sys.executable, title], cwd=tmp_path, check=True)
    assert sorted(done) == ["console"] * 3 + ["jsonl"] + ["python"] * 2


def test_the_page_tells_every_field() -> None:
    for field in (HEADER | CALL) - {"kind", "format"}:
        assert f"`{field}`" in TEXT, field


def test_the_logger_is_short_and_needs_the_standard_library_alone() -> None:
    lines = [line for line in LOGGER.read_text(encoding="utf-8").splitlines() if line.strip()]
    imported = {line.split()[1].partition(".")[0] for line in lines if re.match(r"(?:import|from) ", line)}
    assert imported <= sys.stdlib_module_names
    assert len(lines) <= 80
