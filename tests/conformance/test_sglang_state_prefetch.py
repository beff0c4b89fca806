"""Prefetches with a state of SGLang 0.5.13.post1's ``HiMambaRadixCache``, as published (sglang#26945).

Without SGLang what the scenes are; with the environment of the release (nightly) what each says, beside what the rules
say of it, and slips in the published functions that the scenes notice.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from kvlitmus.conformance.adapters.sglang.common import state_commits
from kvlitmus.spec.prefix.components.fetch import Origin, attached, reserved_length
from kvlitmus.spec.words.layouts import layout_of
from tests.conformance.support.release_python import HOME, printed, run
from tests.conformance.support.sglang_state_cache import PAGE, THRESHOLD
from tests.conformance.support.sglang_state_prefetch import SCENES, SLIPS, TRUNCATIONS

LAYOUT = layout_of("kv+state", PAGE, 16)


@cache
def answers(*slips: str) -> dict[str, Any]:
    """What all scenes say."""
    found: dict[str, Any] = printed(state_commits.PLAN.python, "sglang_state_prefetch", *slips)
    return found


def due(length: int, room: int, states: int) -> int:
    """How many tokens a prefetch is granted by the rules (COMP-22)."""
    return reserved_length(LAYOUT, Origin(0), length, THRESHOLD, {"kv": room // PAGE, "state": states})


def test_the_truncations_are_those_of_the_proofs_and_of_the_map() -> None:
    """Those of ``test_the_table_of_truncations``; table b.7 says the same."""
    assert [due(length, room, 1) for length, room in TRUNCATIONS] == [0, 8, 0, 16, 12, 8, 0, 12, 0]
    assert [due(length, room, 0) for length, room in TRUNCATIONS] == [0] * len(TRUNCATIONS)


def test_nothing_of_torch_or_sglang_is_imported_with_the_scenes() -> None:
    code = "import sys, tests.conformance.support.sglang_state_prefetch; "
    done = run("-c", f"{code}print(sorted({{'torch', 'sglang'}} & sys.modules.keys()))", cwd=HOME)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.nightly
def test_kv_is_cut_to_whole_pages_and_one_state_is_taken_or_nothing() -> None:
    """COMP-20 to COMP-22, POOL-01: what is taken, what is accounted for, and what is left in the pools."""
    wanted = []
    for length, room in TRUNCATIONS:
        for states in (0, 1, 2):
            tokens = due(length, room, states)
            one = int(tokens > 0)
            wanted.append([tokens, tokens, one, tokens, room - tokens, states - one])
    assert answers()["table"] == wanted


@pytest.mark.nightly
def test_the_anchor_is_held_by_a_prefetch_that_begins_and_by_no_other() -> None:
    """COMP-13, LOCK-01, PREFETCH-15: a refusal leaves KV and state of the anchor as loose as they were."""
    wanted = []
    for length, room in TRUNCATIONS:
        tokens = due(length, room, 1)
        wanted.append([tokens, 1, 1, False] if tokens else [0, 0, 0, True])
    assert answers()["anchored"] == wanted


CUT = ["kv: take 16", "kv: evict 16", "kv: take 16", "kv: look"]
EXPECTED: dict[str, Any] = {
    "order": {
        "room for all": ["kv: take 16", "state: take 1"],
        "room after an eviction": [*CUT[:3], "state: take 1"],
        "cut": [*CUT, "kv: take 8", "state: take 1"],
        "no state": [*CUT, "kv: take 8", "state: take 1", "state: evict 1", "state: take 1", "kv: give back 8"],
        "a state after an eviction": ["kv: take 16", "state: take 1", "state: evict 1", "state: take 1"],
        "too little": CUT,
    },
    "position": [8, 8, 8, 8, 3, 0],
    "state_behind": [False, 11, 1, 0],  # storage is asked for what is left of the key, and has no state in it
    "no_state": [False, [4, 0], [12, 0], 0, 1, 1, 1, 1, False],  # what was evicted stays gone
    "own_state": [16, 16, 1, False, 8, 0, 0],  # the state may be evicted for the prefetch itself
    "protected": [[1, 0], [1, 1], [0], [0, 0]],  # the rules leave the state loose while it runs, too
    "nothing": {"short": [[], 0, 0], "away": [[], 0, 0], "limit": [[], 0, 0]},
    "third_fails": [False, 8, 1, 0, 0],
    "room_comes": [16, 40, 1, 24, 0, 16],  # the rules: sixteen rows
    "above_on_host": [16, 16, 8],  # the rules: nothing is evicted beyond what is needed, by whole nodes
    "above_on_device": [16, 8, 8],  # the rules: sixteen are taken
}


def test_each_scene_has_its_answer_and_the_page_names_it() -> None:
    assert SCENES.keys() == EXPECTED.keys() | {"table", "anchored", "commits"}
    page = (HOME / "docs" / "components.md").read_text(encoding="utf-8")
    assert [name for name in SCENES if f"`{name}`" not in page] == []


@pytest.mark.nightly
@pytest.mark.parametrize("scene", EXPECTED)
def test_what_a_prefetch_does(scene: str) -> None:
    assert answers()[scene] == EXPECTED[scene]


@pytest.mark.nightly
def test_what_becomes_of_the_state_that_was_read() -> None:
    """Table b.8, which is of windows, said of a state: it comes with its KV, and not without it.

    Where all KV is cached by then and the state missing, the rules attach it (COMP-29); here it is given back.
    """
    ends = tuple(range(PAGE, 4 * PAGE + 1, PAGE))
    came = {"kv": ends, "state": (16,)}
    assert attached(LAYOUT, Origin(0), 16, 16, came)["state"] == (16,)
    assert attached(LAYOUT, Origin(0), 16, 16, {**came, "state": ()})["state"] == ()
    assert answers()["commits"] == {
        "new": [16, 16, 3],
        "lost": [16, 0, 4],
        "cached": [16, 0, 4],
        "part": [16, 16, 3],
    }


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_drawn_schedules_find_that_a_missing_state_is_given_back() -> None:
    """COMP-29, in the target whose commits are the published ones, after shrinking too."""
    assert printed(state_commits.PLAN.python, "sglang_drawn_hazards", "0.5.13.post1", "given back", "20") > 0


SEEN = {
    "as_many_states": {"table", "commits"},
    "second_eviction": {"order", "third_fails"},
    "state_protected": {"anchored", "own_state", "protected"},
    "kv_kept": {"table", "order", "no_state"},
    "key_not_cut": {"position"},
    "anchor_kept": {"anchored", "no_state", "third_fails"},
    "no_threshold": {"table", "anchored", "nothing"},
}
"""By slip scenes that notice it."""


def test_each_slip_is_planted() -> None:
    assert SLIPS.keys() == SEEN.keys()


@pytest.mark.nightly
@pytest.mark.parametrize("slip", SEEN)
def test_a_slip_in_the_published_functions_is_noticed(slip: str) -> None:
    said = answers(slip)
    assert {name for name in SEEN[slip] if said[name] == answers()[name]} == set()
