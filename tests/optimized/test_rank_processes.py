"""Ranks in processes of their own, which reduce over gloo: unequal speed, unequal memory, and one that dies."""

from __future__ import annotations

import json
import os
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

pytest.importorskip("numba", reason="the extra 'optimized' is not installed")
pytest.importorskip("torch", reason="the extra 'optimized' is not installed")

from tests.support.processes import LIMIT, started

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("many", [2, pytest.param(4, marks=pytest.mark.nightly)])
def test_ranks_over_gloo_answer_alike_and_outlive_one_that_dies(many: int, tmp_path: Path) -> None:
    """The last rank has the fewest pages and the fastest copies; the others are told when it is gone."""
    path = os.pathsep.join([str(ROOT), *sys.path])
    command = [sys.executable, "-m", "tests.optimized.support.gloo_rank"]
    with ExitStack() as stack:
        ranks = [
            stack.enter_context(
                started(
                    [*command, str(rank), str(many), str(tmp_path / "store")],
                    stdout=-1,
                    cwd=ROOT,
                    env={**os.environ, "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": path},
                )
            )
            for rank in range(many)
        ]
        said = [json.loads(one.communicate(timeout=LIMIT)[0]) for one in ranks]
    *others, lost = said
    for answers, seen, *_ in others:
        assert answers == lost[0]
        assert seen == lost[1]
    assert [rest for _, _, *rest in others] == [["RuntimeError", 0, 0]] * (many - 1)
    assert {what for what, answer in lost[0] if answer} >= {"compute", "prefetch", "poll", "evict"}
