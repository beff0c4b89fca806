"""SGLang 0.5.23's unified cache with a window and states, and host memory for all of them (nightly).

What it does there otherwise than the port ``component_host`` says by itself is shown here by a few calls of the
published code; some of it the profile of its targets declares.  Drawn walks of requests, copies and evictions look at
contents and at whose each row is, and the suite judges the device with host memory behind it.  Slips that are planted
in SGLang's functions are seen.
"""

from __future__ import annotations

from typing import Any

import pytest

from kvlitmus.conformance.adapters.sglang.v0_5_23 import components
from tests.conformance.support import sglang_hosted
from tests.conformance.support.release_python import HOME, printed, run
from tests.conformance.support.sglang_component_host import SCENES
from tests.conformance.support.sglang_hosted_slips import SLIPS

LAYOUTS = ("kv+swa", "kv+state", "kv+swa+state")
POLICIES = ("write_through", "write_through_selective", "write_back")


def played(script: str, *arguments: str) -> Any:
    """What a script beside this file prints last, run by the release's own interpreter."""
    return printed(components.swa.plan.python, script, *arguments)


EXPECTED: dict[str, Any] = {
    "beginning": [{"kv": 2, "swa": 2}, 8],  # both are there when the copy begins
    "shared": {"kv": 1, "swa": 1},  # of a window of two pages one is still being copied, and isn't copied again
    "chained": {"kv": 4, "swa": 4},  # the boundary needs two pages of the window
    "halfway": {"kv": 2, "swa": 2},  # a backup that fails leaves its first node
    "host_room": [0, 8],  # what is on the device too can't be evicted from the host
    "whole_nodes": 4,  # the boundary needs two pages of the window
    "own_window": [12, 0, 8],  # of twelve tokens none are usable any more, and those of another key are
    "tail_first": [True, False],  # the tail is on the host, and what is before it on the device alone
    "late_window": [1, 0],  # one of two pages that the boundary needs; no hit can end there afterwards
    "own_state": [1, 1],  # one for the node, one for the request
    "no_state": "Cannot alloc mamba for load_back",
}


def test_each_scene_has_its_answer_and_its_row() -> None:
    assert SCENES.keys() == EXPECTED.keys()
    rows = (HOME / "docs" / "components.md").read_text(encoding="utf-8")
    assert [name for name in SCENES if f"| `{name}` |" not in rows] == []


def test_nothing_of_torch_or_sglang_is_imported_with_the_scenes() -> None:
    code = f"import sys, {sglang_hosted.__name__}; print(sorted({{'torch', 'sglang'}} & sys.modules.keys()))"
    done = run("-c", code, cwd=HOME)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.nightly
@pytest.mark.parametrize("scene", EXPECTED)
def test_what_the_port_says_otherwise(scene: str) -> None:
    assert played("sglang_component_host", scene) == EXPECTED[scene]


@pytest.mark.nightly
@pytest.mark.timeout(300)
@pytest.mark.parametrize("write", POLICIES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_is_cached_holds_what_belongs_there_on_both_tiers(layout: str, write: str) -> None:
    seen = played("sglang_hosted_walk", layout, write, "7", "1500")
    assert seen["fault"] is None, seen
    assert min(seen["loads"], seen["backups"], seen["idle loads"]) > 0, seen
    assert seen["windows alone"] or "swa" not in layout
    assert seen["states alone"] or "state" not in layout


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("slip", "layout", "write", "seed", "seen"),
    [
        ("order", "kv+swa", "write_through", "1", "swa on the host holds"),
        ("unlocked", "kv+swa", "write_through", "1", "swa on the host holds"),
        ("unmapped", "kv+swa", "write_through", "1", "swa on the device: "),
        ("half", "kv+swa", "write_back", "1", "are usable"),
        ("unpinned", "kv+swa", "write_back", "0", "are usable"),
        ("shared", "kv+state", "write_through", "1", "state on the host"),
    ],
)
def test_a_slip_in_its_own_functions_is_seen(slip: str, layout: str, write: str, seed: str, seen: str) -> None:
    assert seen in (played("sglang_hosted_walk", layout, write, seed, "2000", slip)["fault"] or "nothing")


@pytest.mark.nightly
@pytest.mark.timeout(300)
@pytest.mark.parametrize("write", POLICIES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_compiled_tree_says_what_the_one_in_python_says(layout: str, write: str) -> None:
    """Servers use the compiled one, and the targets with components read the nodes of the other."""
    seen = played("sglang_hosted_twins", layout, write, "3", "1500")
    assert seen["fault"] is None, seen
    assert min(seen["served"], seen["loads"]) > 0, seen


@pytest.mark.nightly
@pytest.mark.parametrize("slip", ["half", "everywhere"])
def test_where_the_trees_part_it_is_seen(slip: str) -> None:
    assert "in Python" in (played("sglang_hosted_twins", "kv+swa", "write_through", "3", "600", slip)["fault"] or "")


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("write", ["write_through", "write_back"])
@pytest.mark.parametrize("name", ["swa", "mamba", "swa_mamba"])
def test_on_the_device_it_keeps_the_rules_with_host_memory_behind_it(name: str, write: str) -> None:
    assert played("sglang_hosted_judged", name, write, "3000") == {}


@pytest.mark.nightly
@pytest.mark.parametrize(("slip", "rules"), [("everywhere", {"TREE-02"}), ("left", {"COMP-12", "COMP-16"})])
def test_a_slip_behind_the_device_is_accused(slip: str, rules: set[str]) -> None:
    assert rules <= played("sglang_hosted_judged", "swa", "write_through", "600", slip).keys()


def test_every_slip_is_planted_by_a_test() -> None:
    assert SLIPS.keys() == {"order", "unlocked", "unmapped", "half", "unpinned", "shared", "everywhere", "left"}
