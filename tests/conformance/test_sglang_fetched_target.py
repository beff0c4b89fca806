"""The targets of SGLang 0.5.23's prefetches with a window and states: what they declare and refuse.

With the environment of the release (nightly): what litmus tests and drawn schedules break, slips in its functions that
they see, and by a few calls in SGLang's own order what it does otherwise than the port says.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import pytest

from kvlitmus.conformance.adapters.sglang.v0_5_23 import component_prefetch, components
from kvlitmus.conformance.adapters.sglang.v0_5_23.component_prefetch import ComponentPrefetch
from kvlitmus.conformance.ports import Profile, Unsupported, capabilities_of
from kvlitmus.conformance.run import plan
from kvlitmus.conformance.run.targets import load_target, resolve_target
from tests.conformance.support.release_python import HOME, printed, run
from tests.conformance.support.sglang_component_fetch import SCENES
from tests.conformance.support.sglang_fetched_target import SLIPS

NAMES = ("swa", "mamba", "swa_mamba")


@pytest.mark.parametrize("name", NAMES)
def test_what_a_target_declares_its_adapter_has(name: str) -> None:
    target, device = getattr(component_prefetch, f"{name}_fetched"), getattr(components, name)
    assert capabilities_of(ComponentPrefetch) == target.capabilities
    assert target.capabilities == device.capabilities - {"component_sizes"} | {"component_prefetch"}
    assert plan.configs_of(target) == target.configs
    assert {config.components for config in target.configs} == {config.components for config in device.configs}
    known = f"sglang-0.5.23-{name.replace('_', '-')}-fetched"
    assert load_target(resolve_target(known, python=sys.executable)) is target


@pytest.mark.parametrize("name", NAMES)
def test_it_chooses_what_the_device_does_and_three_things_more(name: str) -> None:
    """But that on the host a window's places don't come with those of KV."""
    choices = {"component_extent": "path", "component_shortfall": "dropped", "component_fetch_window": "root"}
    usual = {one: getattr(Profile(), one) for one in ("component_grants", "component_refill")}
    target, device = getattr(component_prefetch, f"{name}_fetched"), getattr(components, name)
    assert target.profile == replace(device.profile, **usual, **choices)


@pytest.mark.parametrize("name", NAMES)
def test_without_the_release_the_command_that_makes_it_is_named(name: str) -> None:
    target = getattr(component_prefetch, f"{name}_fetched")
    with pytest.raises(Unsupported, match=r"tools/peers 0\.5\.23"):
        target.make(target.configs[0])
    for other in ({"host_pages": 8}, {"storage": "attached"}):
        with pytest.raises(Unsupported, match="the pools of this target are the host's"):
            ComponentPrefetch(replace(target.configs[0], **other))


def test_nothing_of_torch_or_sglang_is_imported_with_the_scenes() -> None:
    code = "import sys, tests.conformance.support.sglang_component_fetch; "
    done = run("-c", f"{code}print(sorted({{'torch', 'sglang'}} & sys.modules.keys()))", cwd=HOME)
    assert done.stdout.strip() == "[]", done.stderr


def played(name: str, steps: int, slip: str = "") -> dict[str, Any]:
    """The rules that are broken, by the release's own interpreter."""
    python = component_prefetch.swa_fetched.plan.python
    found = printed(python, "sglang_fetched_target", f"{name}_fetched", str(steps), slip)
    broken: dict[str, Any] = found
    return broken


BROKEN = {
    "swa": {"COMP-21", "COMP-22", "COMP-26", "COMP-27"},
    "mamba": set[str](),
    "swa_mamba": {"COMP-26", "COMP-27"},
}
"""What each target breaks: a window behind an anchor, and one that is sized before the KV is cut."""


@pytest.mark.nightly
@pytest.mark.timeout(1000)
@pytest.mark.parametrize("name", NAMES)
def test_litmus_tests_and_drawn_schedules_break_what_is_known(name: str) -> None:
    assert played(name, 6_000).keys() == BROKEN[name]


SEEN = {
    "kept": ("mamba", {"COMP-28", "COMP-29"}),
    "part": ("swa", {"COMP-15", "COMP-29"}),
    "moved": ("mamba", {"COMP-15", "COMP-29"}),
    "first": ("mamba", {"COMP-27"}),
    "least": ("swa_mamba", {"COMP-26"}),
    "lost": ("mamba", {"COMP-29"}),
    "early": ("mamba", {"COMP-29"}),
    "loose": ("mamba", {"COMP-13"}),
    "halfway": ("mamba", {"COMP-21"}),
}
"""By slip where it is planted, and rules that it breaks."""


def test_each_slip_is_planted() -> None:
    assert SLIPS.keys() == SEEN.keys()


@pytest.mark.nightly
@pytest.mark.parametrize("slip", SEEN)
def test_a_slip_in_its_own_functions_is_accused(slip: str) -> None:
    name, rules = SEEN[slip]
    assert rules <= played(name, 500, slip).keys()


EXPECTED: dict[str, Any] = {
    "late_memory": [True, False],
    "all_or_nothing": [{"kv": 0, "state": 0}, True],
    "cut_after": [3, {"kv": 0, "state": 0}, 3],  # two pages could have been restored
    "sized_before": [{"kv": 1, "swa": 2}, False],
    "short_behind": [4, 4, {"kv": 2, "swa": 1}],  # the window's page was read, too
    "held_hit": 0,
    "gone_storage": [True, {"kv": 3, "swa": 2, "state": 1}],  # nobody gives them back any more
}


def test_each_scene_has_its_answer_and_its_row() -> None:
    assert SCENES.keys() == EXPECTED.keys()
    rows = (HOME / "docs" / "components.md").read_text(encoding="utf-8")
    assert [name for name in SCENES if f"| `{name}` |" not in rows] == []


@pytest.mark.nightly
@pytest.mark.parametrize("scene", EXPECTED)
def test_what_the_port_says_otherwise(scene: str) -> None:
    assert printed(component_prefetch.swa_fetched.plan.python, "sglang_component_fetch", scene) == EXPECTED[scene]
