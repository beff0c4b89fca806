"""The rule-based state machine: correct caches survive it, wrong ones don't.

Shrinking is left out here: it takes Hypothesis longer than everything else in this file.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from kvlitmus.conformance.adapters.reference.target import target as reference
from kvlitmus.conformance.checker.guard import Violation
from kvlitmus.conformance.generate.machine import Driver, machine
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.specimen.cache import SpecimenTarget
from kvlitmus.conformance.specimen.parts import Parts
from kvlitmus.conformance.specimen.prefix.request import RequestTable, SpecimenRequest
from kvlitmus.conformance.specimen.prefix.tree import Node, RadixTree
from tests.support.night import by_turns

# What is drawn depends on the modules that are loaded: Hypothesis takes their constants. A few examples may be short.
FEW = settings(max_examples=16, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck))
MORE = settings(FEW, max_examples=300, phases=[Phase.generate], report_multiple_bugs=False)
LONG = settings(FEW, max_examples=2_000, stateful_step_count=100, derandomize=False)
CONFIGS = (Config(), Config(page_size=4), Config(page_size=4, policy="slru", bigram=True))
TARGETS = {"specimen": SpecimenTarget(), "reference": reference}


class KeepsTheTail(RequestTable):
    """The tail of an ended request is not freed."""

    def free_tail(self, request: SpecimenRequest, start: int) -> None:
        """Forgotten."""


class SplitForgetsLocks(RadixTree):
    """The upper half of a split node is not locked."""

    def split(self, node: Node, pages: int) -> Node:
        upper = super().split(node, pages)
        upper.locks = 0
        return upper


@pytest.mark.parametrize("config", by_turns(CONFIGS, every=2), ids=lambda config: config.label)
@pytest.mark.parametrize("name", TARGETS)
def test_a_correct_cache_survives(name: str, config: Config) -> None:
    drivers: list[Driver] = []
    run_state_machine_as_test(machine(TARGETS[name], config, drivers.append), settings=FEW)
    judged = {rule for driver in drivers for rule, count in driver.checker.counted().items() if count}
    assert sum(driver.checker.steps for driver in drivers) > 200
    assert {"POOL-12", "TREE-02", "TREE-08", "LOCK-04", "REQ-01", "REQ-07"} <= judged


@pytest.mark.parametrize(
    ("parts", "rule"), [(Parts(requests=KeepsTheTail), "POOL-12"), (Parts(tree=SplitForgetsLocks), "LOCK-04")]
)
def test_a_planted_slip_is_found(parts: Parts, rule: str) -> None:
    with pytest.raises(Violation) as caught:
        run_state_machine_as_test(machine(SpecimenTarget(parts), Config(page_size=4)), settings=MORE)
    assert rule in caught.value.rules


@pytest.mark.nightly
@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.label)
@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_a_correct_cache_survives_for_long(target: Any, config: Config) -> None:
    run_state_machine_as_test(machine(target, config), settings=LONG)
