"""The free-running cache under stress: no slot ever holds what it shouldn't, and what is planted is found."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.optimized import stress
from tests.test_layout import ROOT

HAPPENS = (
    *("loads", "pages_loaded", "prefetches", "pages_prefetched", "evicted", "evicted_host", "no_room", "published"),
    *("abandoned", "aborted", "ended", "detached", "storage_put", "storage_get", "storage_exists", "storage_raised"),
    *("failed_backup", "failed_backup_late", "failed_load", "failed_load_late", "failed_branch", "loads_failed"),
    *("tokens_cached", "tokens_checked", "pages_at_rest", "read_back", "stored"),
)
"""What must have happened in a run, or it has tested little."""


def stressed(*options: str) -> tuple[int, dict[str, Any]]:
    """Run the command in a process of its own; its exit code and what it found."""
    command = [sys.executable, "-m", "tests.optimized.stress", *options]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def sound(*options: str, seed: int = 0) -> None:
    """Nothing is wrong, and enough happens to say so: where the machine is busy, in some more runs."""
    happened: set[str] = set()
    for number in itertools.count(seed, 1000):
        status, found = stressed(*options, "--seed", str(number))
        assert (found["wrong"], status) == ({}, 0)
        happened |= {name for name in HAPPENS if found.get(name)}
        if happened == set(HAPPENS):
            break


@pytest.mark.slow
@pytest.mark.nightly
def test_contents_are_right_whatever_happens() -> None:
    sound("--seconds", "6", "--round", "3")


@pytest.mark.nightly
def test_contents_are_right_for_minutes() -> None:
    sound("--minutes", "5", seed=1000)


@pytest.mark.parametrize(
    "planted", ["hasty", *(pytest.param(one, marks=pytest.mark.nightly) for one in ("swap", "unpinned-put"))]
)
def test_a_planted_fault_is_found(planted: str) -> None:
    status, found = stressed("--seconds", "1200", "--round", "1", "--planted", planted)
    assert status == 1
    # A page that is put and not pinned may go meanwhile: the core refuses its branch before anybody reads the page.
    shows = ("WrongContents", "StaleHandle") if planted == "unpinned-put" else "WrongContents"
    assert found["wrong"]["what"].startswith(shows), found["wrong"]


@pytest.mark.nightly
@pytest.mark.parametrize("planted", [name for name in stress.PLANTED if name])
def test_every_planted_fault_is_found(planted: str) -> None:
    status, found = stressed("--seconds", "1200", "--round", "3", "--seed", "50", "--planted", planted)
    assert status == 1
    assert found["wrong"]


@pytest.mark.gpu
def test_contents_are_right_on_cuda() -> None:
    """With streams that are held up at random."""
    sound("--seconds", "60", "--round", "6", "--device", "cuda")


@pytest.mark.gpu
def test_a_planted_fault_is_found_on_cuda() -> None:
    status, found = stressed("--seconds", "60", "--round", "6", "--device", "cuda", "--planted", "hasty")
    assert status == 1
    assert "WrongContents" in found["wrong"]["what"], found["wrong"]
