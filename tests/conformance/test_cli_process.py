"""The command line as a process: help, pipes, Ctrl-C, terminals that can't do everything."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from kvlitmus.conformance.cli import COMMANDS, main
from kvlitmus.conformance.support.version import version as kvlitmus_version
from tests.conformance.support.command_line import BROKEN, ONE, Capture, command

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")


def test_help_and_version_are_quick_and_teach() -> None:
    def computed() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    best = 9.0
    for _ in range(5):
        began = computed()
        done = subprocess.run(command("--help"), capture_output=True, text=True, check=True)
        best = min(best, computed() - began)
    assert "examples:" in done.stdout
    assert all(re.search(rf"^    {name}\s", done.stdout, re.MULTILINE) for name in COMMANDS)
    assert best < 0.3
    version = subprocess.run(command("--version"), capture_output=True, text=True, check=True)
    assert version.stdout == f"kvlitmus {kvlitmus_version()}\n"


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_explains_itself(name: str, capsys: Capture) -> None:
    assert main([name, "--help"]) == 0
    assert "usage: kvlitmus " + name in capsys.readouterr().out


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from kvlitmus.conformance.cli import main; main(['--help']); "
        "print([m for m in sys.modules if m.startswith('kvlitmus.spec.law') or 'engine' in m or 'hypothesis' in m])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    words = command("run", *ONE, "--steps", "0", "--pack", "lock")
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 141
    assert b"Traceback" not in err
    assert b"Exception ignored" not in err


def test_ctrl_c_leaves_a_valid_partial_report() -> None:
    seen: set[str] = set()

    def items_begun() -> set[str]:
        for path in Path(".kvlitmus/running").glob("*/worker-1.item"):
            with suppress(OSError, ValueError):  # it may not be there yet, or half written
                seen.add(json.loads(path.read_text())["item"]["name"])
        return seen

    process = subprocess.Popen(
        command("run", *ONE, "--report", "p.json", "--steps", "100000"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("judging "):
            break
    while len(items_begun()) < 2:  # then one of them is done
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "interrupted after " in out
    data = json.loads(Path("p.json").read_text())
    assert (data["partial"], data["exit_code"]) == (True, 130)
    assert 0 < data["totals"]["items"] < data["totals"]["items_planned"]


def test_an_ascii_terminal_gets_ascii() -> None:
    env = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    words = command("run", BROKEN, *ONE, "--steps", "0", "--rule", "LOCK-02")
    done = subprocess.run(words, capture_output=True, env=env, check=False)
    assert done.returncode == 1, done.stderr
    assert b"X lock" in done.stdout
    assert b"Traceback" not in done.stderr


def test_no_color_is_heeded(capsys: Capture) -> None:
    words = ["run", BROKEN, *ONE[:-2], "--steps", "0", "--rule", "LOCK-02"]
    for more, colored in (([], False), (["--color", "always"], True)):
        assert main([*words, *more]) == 1
        assert ("\x1b[" in capsys.readouterr().out) is colored


def test_the_module_kvlitmus_is_the_command(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kvlitmus", "rules", "TREE-03"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("TREE-03 ")
