"""Tests leave no process behind, and run in the background as they do in a terminal (``support/processes.py``)."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.support import processes

ROOT = Path(__file__).resolve().parent.parent
LEAVES = """
import subprocess, sys
import pytest
from tests import conftest
conftest.ENDING = 0.2

HERE = [sys.executable, "-c", "import time; time.sleep(1000.5)"]

@pytest.fixture(scope="module")
def shared():
    process = subprocess.Popen(HERE)
    yield process
    process.kill()
    process.wait()

KEPT = []  # one that is forgotten while it runs is a warning, which fails a test in another way

def test_direct():
    KEPT.append(subprocess.Popen(HERE))

def test_orphan(shared):
    code = f"import subprocess, sys; subprocess.Popen({HERE!r}, start_new_session=True)"
    subprocess.run([sys.executable, "-c", code], check=True)

def test_that_fails():
    KEPT.append(subprocess.Popen(HERE))
    assert False

def test_clean(shared):
    subprocess.run([sys.executable, "-c", ""], check=True)
"""
SIGNALS = """
import os, signal, subprocess, sys

def test_children_can_be_interrupted():
    code = "import signal; print(*(signal.getsignal(one) != signal.SIG_IGN for one in (signal.SIGINT, signal.SIGHUP)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).stdout.split() == [b"True", b"True"]

def test_the_tests_themselves_cannot():
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGHUP)
"""


def pytest_on(folder: Path, text: str, *options: str, ignored: bool = False) -> tuple[int, str]:
    """Run these tests, with the hooks of this project, in a pytest of their own."""
    file = folder / "test_inner.py"
    file.write_text(text)
    words = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-c", str(ROOT / "pyproject.toml")]
    words += ["--rootdir", str(folder), "-p", "no:cacheprovider", "-q", "-n", "0", *options, str(file)]
    if ignored:
        words = ["/bin/sh", "-c", 'trap "" INT HUP; exec "$@"', "sh", *words]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    done = processes.run(words, cwd=folder, env=environment)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
def test_what_a_test_leaves_behind_is_ended_and_held_against_it(tmp_path: Path) -> None:
    code, said = pytest_on(tmp_path, LEAVES)
    assert code == 1
    assert "1 failed, 3 passed, 3 errors" in said
    assert said.count("the test left processes behind: ") >= 3
    alive = [
        file for file in Path("/proc").glob("[0-9]*/cmdline") if b"time.sleep(1000.5)" in processes.read_quietly(file)
    ]
    assert not alive


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="there are no such signals")
@pytest.mark.parametrize("ways", [("-n", "0"), ("-n", "1")])
def test_ignored_signals_are_not_handed_down(tmp_path: Path, ways: tuple[str, str]) -> None:
    code, said = pytest_on(tmp_path, SIGNALS, *ways, ignored=True)
    assert (code, "2 passed" in said) == (0, True), said


def test_a_process_that_takes_too_long_ends_with_all_that_it_has_started(tmp_path: Path) -> None:
    late = "import subprocess, sys; print(subprocess.Popen(['sleep', '1000.25']).pid, flush=True); sys.stdin.read()"
    with processes.started([sys.executable, "-c", late], stdin=-1, stdout=-1) as process:
        assert process.stdout is not None
        inner = process.stdout.readline().strip()
        assert Path(f"/proc/{inner}").exists() or sys.platform != "linux"
    processes.eventually(lambda: b"1000.25" not in processes.read_quietly(Path(f"/proc/{inner}/cmdline")))
