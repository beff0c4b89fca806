"""The file store and kill -9: whatever moment a writer dies at, what is read is a miss or exactly right."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).with_name("crash.py")
BAD = ("wrong", "lost", "damaged", "uncounted", "remains")


def killed(kills: int, *, seed: int = 0, planted: str = "") -> tuple[int, dict[str, int]]:
    """Run the script, without site packages; its exit code and what it found."""
    command = [sys.executable, "-S", str(SCRIPT), "--kills", str(kills), "--seed", str(seed), "--planted", planted]
    environment = {"PYTHONPATH": os.pathsep.join(str(ROOT / room) for room in ("spec", "optimized"))}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    assert found["kills"] >= kills
    assert found["midway"] > kills / 4, "most kills must meet a writer in the middle of a put"
    return done.returncode, found


def test_no_wrong_page_after_kills() -> None:
    status, found = killed(25)
    assert ({name: found[name] for name in BAD}, status) == (dict.fromkeys(BAD, 0), 0)
    assert found["pages"] > 50


@pytest.mark.parametrize(("planted", "shows"), [("in-place", "damaged"), ("unchecked", "wrong"), ("early", "lost")])
def test_a_store_that_does_less_is_found(planted: str, shows: str) -> None:
    for seed in range(8):  # which moment a kill hits is up to the machine
        status, found = killed(25, seed=seed, planted=planted)
        if found[shows] > 0:
            assert status == 1
            return
    pytest.fail(f"{planted} never showed: {found}")


@pytest.mark.nightly
def test_no_wrong_page_after_a_thousand_kills() -> None:
    status, found = killed(1_000, seed=1)
    assert ({name: found[name] for name in BAD}, status) == (dict.fromkeys(BAD, 0), 0)
    assert found["leftovers"] > 10 and found["pages"] > 5_000
