"""The programs in ``examples/`` run as files, from any folder."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_layout import ROOT

LESS = {
    "component_cache.py": "--steps 60 --no-litmus --page-size 4 --jobs 1",
    "flat_cache.py": "--steps 60 --no-litmus --page-size 4 --jobs 1",
    "serve.py": "--users 1 --rounds 2",
    "transformer.py": "",
}
"""Each program with words by which it does less than by itself."""
HOLDS = "exit 0: every rule that applies holds"
ENDS = {"component_cache.py": HOLDS, "flat_cache.py": HOLDS, "serve.py": '"worst": ', "transformer.py": ""}
"""What each prints at its end."""


def test_every_program_is_tried() -> None:
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == LESS.keys() == ENDS.keys()


def test_the_flat_cache_judges_itself(tmp_path: Path) -> None:
    assert ENDS["flat_cache.py"] in as_a_process("flat_cache.py", tmp_path)


@pytest.mark.parametrize("name", ["serve.py", "transformer.py"])
def test_a_program_runs_as_a_file(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process, which has torch already, by what a file finds: its own folder, and what is installed."""
    elsewhere = [path for path in sys.path if Path(path or ".").resolve() != ROOT]
    monkeypatch.setattr(sys, "path", [str(ROOT / "examples"), *elsewhere])
    monkeypatch.setattr(sys, "argv", [name, *LESS[name].split()])
    for module in [one for one in sys.modules if one.split(".")[0] == "examples"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "exit", int)  # 0, or a TypeError for a message
    runpy.run_path(str(ROOT / "examples" / name), run_name="__main__")
    assert ENDS[name] in capsys.readouterr().out


@pytest.mark.nightly
@pytest.mark.parametrize("name", LESS)
def test_a_program_runs_as_a_reader_runs_it(name: str, tmp_path: Path) -> None:
    assert ENDS[name] in as_a_process(name, tmp_path)


def as_a_process(name: str, folder: Path) -> str:
    """What a program prints."""
    line = [sys.executable, str(ROOT / "examples" / name), *LESS[name].split()]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
