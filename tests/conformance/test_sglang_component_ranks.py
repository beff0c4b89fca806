"""SGLang 0.5.23 with a window or a state on two ranks, each a process, over a real gloo group (nightly).

What one rank's storage lacks, or what doesn't come to it, is no rank's: both read as much, cache as much, and give the
rest back.
"""

from __future__ import annotations

from typing import Any

import pytest

from kvlitmus.conformance.adapters.sglang.v0_5_23 import component_prefetch
from tests.conformance.support.release_python import HOME, printed
from tests.conformance.support.sglang_component_ranks import RANKS, SCENES, SLIPS

EXPECTED: dict[str, tuple[int, dict[str, int]]] = {
    "window_of_one_rank": (3, {"kv": 3, "swa": 2}),
    "states_that_differ": (2, {"kv": 2, "state": 1}),  # the least of the largest boundaries is three pages
    "window_that_comes_to_one": (4, {"kv": 0, "swa": 0}),
    "state_that_comes_to_one": (3, {"kv": 0, "state": 0}),
    "kv_that_comes_to_one": (3, {"kv": 0, "swa": 0, "state": 0}),
    "unsaid_by_one": (0, {"kv": 0, "state": 0}),
}
"""By scene how many pages both ranks read, and what both have cached then."""

SEEN = {"hits": "window_of_one_rank", "acks": "state_that_comes_to_one"}
"""By slip the scene in which it is seen."""


def played(scene: str, slip: str = "") -> list[dict[str, Any]]:
    """What the ranks say, by the release's own interpreter."""
    said: list[dict[str, Any]] = printed(
        component_prefetch.swa_fetched.plan.python, "sglang_component_ranks", scene, slip
    )
    return said


def test_each_scene_has_its_answer_and_its_row() -> None:
    assert SCENES.keys() == EXPECTED.keys()
    rows = (HOME / "docs" / "ranks.md").read_text(encoding="utf-8")
    assert [name for name in SCENES if f"| `{name}` |" not in rows] == []
    assert SEEN.keys() == set(SLIPS)


@pytest.mark.nightly
@pytest.mark.timeout(300)
@pytest.mark.parametrize("scene", EXPECTED)
def test_two_ranks_prefetch_alike(scene: str) -> None:
    read, cached = EXPECTED[scene]
    one = {"read": read, "cached": cached, "hit": cached["kv"] * 4, "missing": dict.fromkeys(cached, 0)}
    assert played(scene) == [one] * RANKS


@pytest.mark.nightly
@pytest.mark.timeout(300)
@pytest.mark.parametrize("slip", SEEN)
def test_ranks_that_do_not_agree_are_seen(slip: str) -> None:
    first, second = played(SEEN[slip], slip)
    assert first != second or "ended" in first
