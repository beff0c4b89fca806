"""SGLang 0.5.13.post1 and 0.5.23 with a window or a state on two ranks, each a process, over real groups (nightly).

What one rank's storage lacks, what doesn't come to it, and how late it is there, is no rank's: both read as much, and
cache as much.  What a release does otherwise is written here as it does it; the rules judge none of it.
"""

from __future__ import annotations

from typing import Any

import pytest

from kvlitmus.conformance.adapters.sglang.v0_5_13.components import COMPONENT_PLAN
from kvlitmus.conformance.adapters.sglang.v0_5_23.component_host import PLAN
from tests.conformance.support.release_python import HOME, printed
from tests.conformance.support.sglang_component_ranks import RANKS, RELEASES, SCENES, SLIPS

PYTHON = {"0.5.13.post1": COMPONENT_PLAN.python, "0.5.23": PLAN.python}


def prefetched(read: int, hit: int = 0, *, waiting: dict[str, int] | None = None, **kept: int) -> dict[str, Any]:
    """A rank has read so many pages and cached these; what waits to be free, and nothing is missing."""
    nothing = dict.fromkeys(kept, 0)
    return {
        "read": read,
        "cached": kept,
        "waiting": nothing | (waiting or {}),
        "missing": nothing,
        "hit": hit * 4,
    }


def polled(*polls: bool, **kept: int) -> dict[str, Any]:
    """What each poll of a rank answered, and what it cached; nothing waits to be free or is missing."""
    nothing = dict.fromkeys(kept, 0)
    return {"polls": [*polls], "cached": kept, "waiting": nothing, "missing": nothing, "hit": 0}


EXPECTED: dict[str, dict[str, list[dict[str, Any]]]] = {
    "0.5.13.post1": {
        "window_of_one_rank": [prefetched(3, 3, kv=3, swa=2)] * RANKS,
        # The least of each rank's longest, for which one of them has no state.
        "states_that_differ": [prefetched(3, kv=3, state=0)] * RANKS,
        "window_that_comes_to_one": [prefetched(4, kv=4, swa=0)] * RANKS,
        "state_that_comes_to_one": [prefetched(3, kv=3, state=0)] * RANKS,
        "kv_that_comes_to_one": [prefetched(3, kv=2, swa=0)] * RANKS,
        "unsaid_by_one": [prefetched(0, kv=0, state=0)] * RANKS,
        # Pages are freed when all ranks have one to free; the one that had less room has none.
        "room_of_one_rank": [prefetched(3, 3, waiting={"kv": 1}, kv=3, swa=2), prefetched(3, 3, kv=3, swa=2)],
        "window_room_of_one_rank": [{"takes": True}, {"takes": False}],
        "clock_of_one": [polled(False, False, True, kv=1, swa=0)] * RANKS,
    },
    "0.5.23": {
        "window_of_one_rank": [prefetched(3, 3, kv=3, swa=2)] * RANKS,
        # The intersection; the least of the largest boundaries is three pages.
        "states_that_differ": [prefetched(2, 2, kv=2, state=1)] * RANKS,
        "window_that_comes_to_one": [prefetched(4, kv=0, swa=0)] * RANKS,
        "state_that_comes_to_one": [prefetched(3, kv=0, state=0)] * RANKS,
        "kv_that_comes_to_one": [prefetched(3, kv=0, swa=0, state=0)] * RANKS,
        "unsaid_by_one": [prefetched(0, kv=0, state=0)] * RANKS,
        # Whoever reads more than the least that was read discards it; who has read no more caches it.
        "room_of_one_rank": [
            prefetched(4, waiting={"kv": 4, "swa": 2}, kv=0, swa=0),
            prefetched(3, 3, kv=3, swa=2),
        ],
        "window_room_of_one_rank": [{"takes": True}, {"takes": False}],
        "clock_of_one": [polled(False, True, kv=0, swa=0)] * RANKS,
    },
}
"""By release and scene what each rank says."""

SEEN = {"hits": "window_of_one_rank", "acks": "state_that_comes_to_one", "ends": "clock_of_one"}
"""By slip the scene in which it is seen."""


def played(release: str, scene: str, slip: str = "") -> list[dict[str, Any]]:
    """What the ranks say, by the release's own interpreter."""
    said: list[dict[str, Any]] = printed(PYTHON[release], "sglang_component_ranks", release, scene, slip)
    return said


def test_each_scene_has_its_answer_and_its_row() -> None:
    assert RELEASES.keys() == EXPECTED.keys() == PYTHON.keys()
    assert all(SCENES.keys() == answers.keys() for answers in EXPECTED.values())
    rows = (HOME / "docs" / "ranks.md").read_text(encoding="utf-8")
    assert [name for name in SCENES if f"| `{name}` |" not in rows] == []
    assert SEEN.keys() == set(SLIPS)


@pytest.mark.nightly
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("release", "scene"), [(release, scene) for release in EXPECTED for scene in EXPECTED[release]]
)
def test_two_ranks_prefetch_as_they_do(release: str, scene: str) -> None:
    assert played(release, scene) == EXPECTED[release][scene]


@pytest.mark.nightly
@pytest.mark.timeout(300)
@pytest.mark.parametrize("release", EXPECTED)
@pytest.mark.parametrize("slip", SEEN)
def test_ranks_that_do_not_agree_are_seen(release: str, slip: str) -> None:
    first, second = played(release, SEEN[slip], slip)
    assert first != second or "ended" in first


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_a_least_that_is_left_out_parts_the_ranks_of_0_5_13_post1() -> None:
    """Of a packed least that one keeps to oneself: the rank to which the state came caches it, the other doesn't."""
    first, second = played("0.5.13.post1", SEEN["acks"], "acks")
    assert [first["cached"]["state"], second["cached"]["state"]] == [1, 0]
