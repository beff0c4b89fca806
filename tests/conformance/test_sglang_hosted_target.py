"""The targets of SGLang 0.5.23's unified cache with host memory for its components: what they declare and refuse.

With the environment of the release (nightly): what drawn schedules break, and slips in its functions that they see.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import pytest

from kvlitmus.conformance.adapters.sglang.v0_5_23 import component_host, components
from kvlitmus.conformance.adapters.sglang.v0_5_23.component_host import ComponentHost
from kvlitmus.conformance.ports import Unsupported, capabilities_of
from kvlitmus.conformance.run import plan
from kvlitmus.conformance.run.targets import load_target, resolve_target
from tests.conformance.support.release_python import printed
from tests.conformance.support.sglang_hosted_target import OWN

NAMES = ("swa", "mamba", "swa_mamba")


@pytest.mark.parametrize("name", NAMES)
def test_what_a_target_declares_its_adapter_has(name: str) -> None:
    target, device = getattr(component_host, f"{name}_hosted"), getattr(components, name)
    assert capabilities_of(ComponentHost) == target.capabilities
    assert target.capabilities > device.capabilities
    assert plan.configs_of(target) == target.configs
    assert {config.components for config in target.configs} == {config.components for config in device.configs}
    assert all(config.host_pages and config.write == "asked" for config in target.configs)
    known = f"sglang-0.5.23-{name.replace('_', '-')}-hosted"
    assert load_target(resolve_target(known, python=sys.executable)) is target


@pytest.mark.parametrize("name", NAMES)
def test_host_memory_adds_three_choices(name: str) -> None:
    choices = {"component_landing": "begun", "component_extent": "path", "component_host_spares": "device"}
    target, device = getattr(component_host, f"{name}_hosted"), getattr(components, name)
    assert target.profile == replace(device.profile, **choices)


@pytest.mark.parametrize("name", NAMES)
def test_without_the_release_the_command_that_makes_it_is_named(name: str) -> None:
    target = getattr(component_host, f"{name}_hosted")
    with pytest.raises(Unsupported, match=r"tools/peers 0\.5\.23"):
        target.make(target.configs[0])
    for other in ({"host_pages": 0}, {"write": "write_through"}, {"storage": "attached"}):
        with pytest.raises(Unsupported, match="backs up what it is asked to"):
            ComponentHost(replace(target.configs[0], **other))


def played(name: str, steps: int, slip: str = "") -> dict[str, Any]:
    """The rules that are broken, by the release's own interpreter."""
    found = printed(component_host.swa_hosted.plan.python, "sglang_hosted_target", name, str(steps), slip)
    broken: dict[str, Any] = found
    return broken


@pytest.mark.nightly
@pytest.mark.timeout(1000)
@pytest.mark.parametrize("name", NAMES)
def test_litmus_tests_and_drawn_schedules_break_nothing(name: str) -> None:
    assert played(f"{name}_hosted", 6_000) == {}


SEEN = {
    "stateless": ("mamba_hosted", {"COMP-32"}),
    "kept": ("swa_hosted", {"EVICT-02", "POOL-12"}),
    "held": ("swa_hosted", {"COMP-12"}),
    "tall": ("swa_hosted", {"EVICT-02", "POOL-12"}),
    "alone": ("swa_hosted", {"COMP-19", "COMP-32"}),
    "loose": ("swa_hosted", {"COMP-13"}),
    "half": ("swa_hosted", {"COMP-32"}),
    "unlocked": ("swa_hosted", {"COMP-13"}),
    "everywhere": ("swa_hosted", {"TREE-02"}),
    "left": ("swa_hosted", {"COMP-12", "COMP-16"}),
    "unmapped": ("swa_hosted", {"POOL-12"}),
    "shared": ("mamba_hosted", {"COMP-15"}),
}
"""By slip where it is planted, and rules that it breaks."""


def test_each_slip_is_planted() -> None:
    assert OWN.keys() <= SEEN.keys()


@pytest.mark.nightly
@pytest.mark.parametrize("slip", SEEN)
def test_a_slip_in_its_own_functions_is_accused(slip: str) -> None:
    name, rules = SEEN[slip]
    assert rules <= played(name, 500, slip).keys()
