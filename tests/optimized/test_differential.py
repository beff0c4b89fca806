"""``tools/differential.py``: what it plays, what it says, what it leaves behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).resolve().parent.parent.parent / "tools" / "differential.py"
BUG = "kvlitmus.mutants.run:by_name.hits_never_counted"


def run(*options: str) -> subprocess.CompletedProcess[str]:
    """Run the tool as somebody would in a checkout."""
    return subprocess.run([sys.executable, str(TOOL), *options], capture_output=True, text=True, check=False)


def test_it_plays_as_many_steps_as_wanted(tmp_path: Path) -> None:
    summary = tmp_path / "summary.json"
    done = run("--first", "specimen", "--steps", "2000", "--config", "pages=8", "--json", str(summary))
    assert done.returncode == 0, done.stderr
    told = json.loads(summary.read_text())
    assert told["steps"] >= 2_000 and told["differences"] == [] and not told["stopped"]
    assert told["by_config"] == {"page=4 lru pages=8": {"steps": told["steps"], "schedules": told["schedules"]}}
    assert f"{told['steps']:,} steps" in done.stdout and "0 differences" in done.stdout


def test_steps_are_told_by_core(tmp_path: Path) -> None:
    """A hierarchy is left out: its core is the one in Python, whatever is there."""
    summary = tmp_path / "summary.json"
    options = ("--steps", "300", "--json", str(summary))
    done = run("--core", "python", "--config", "pages=20 host=16 write_back storage=attached best_effort", *options)
    assert done.returncode == 0, done.stderr
    told = json.loads(summary.read_text())
    assert told["steps_by_core"] == {"python": told["steps"]} and told["command"].endswith(str(summary))
    done = run("--core", "native", "--config", "pages=20 host=16 write_back storage=attached best_effort", *options)
    assert done.returncode == 2 and "with optimized on its core native" in done.stdout


def test_a_difference_is_shrunk_and_can_be_played_again() -> None:
    done = run("--first", BUG, "--steps", "2000", "--config", "page=4 slru", "--shrink", "2")
    assert done.returncode == 1
    assert "TREE-13 broken" in done.stdout or "a node differs" in done.stdout
    again = run("--first", BUG, "--replay", "page=4 slru", "0", "--shrink", "0.1")
    assert again.returncode == 1 and "calls, the last ones" in again.stdout


def test_an_interruption_says_how_far_it_came(tmp_path: Path) -> None:
    summary = tmp_path / "summary.json"
    command = [sys.executable, str(TOOL), "--first", "specimen", "--config", "pages=8", "--every", "0.1", "--json"]
    going = subprocess.Popen([*command, str(summary)], stdout=subprocess.PIPE, text=True)
    try:
        assert going.stdout is not None
        while " 0 steps" in (line := " " + going.stdout.readline()):
            assert line.strip()
        going.send_signal(signal.SIGINT)
        assert going.wait() == 130
        assert "stopped" in going.stdout.read()
    finally:
        going.kill()
        going.wait()
        if going.stdout is not None:
            going.stdout.close()
    assert json.loads(summary.read_text())["stopped"]


def test_a_configuration_that_there_is_not() -> None:
    done = run("--config", "no such")
    assert done.returncode == 2 and "page=4 lru" in done.stdout
