"""The reference with a host tier and storage, and its variants, under the judge."""

from __future__ import annotations

import time

import pytest

from kvlitmus.conformance.adapters.reference import target as reference
from kvlitmus.conformance.adapters.reference.target import ReferenceTarget
from kvlitmus.conformance.adapters.reference.tiers import TieredReference
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.generate.interpreter import Interpreter
from kvlitmus.conformance.generate.schedule import draw, table
from kvlitmus.conformance.ports import Config, capabilities_of
from kvlitmus.conformance.run.plan import TIER_CONFIGS
from kvlitmus.spec.interface.tiers import DONE, TIER_PORTS
from tests.support.night import by_turns

TARGETS = {
    name: getattr(reference, name)
    for name in ("target", "node_target", "capped_target", "late_target", "filling_target")
}


def play(target: ReferenceTarget, config: Config, seed: int, ops: int = 250) -> int:
    """Play a schedule under the judge; returns the number of its steps."""
    checker = Checker(target.make(config), config, target.profile)
    interpreter = Interpreter(checker)
    interpreter.play([op for op in draw(seed, ops, table(checker.capabilities)) if op.kind in interpreter.actions])
    return checker.steps


def test_a_configuration_with_a_host_has_the_ports_of_a_hierarchy_and_one_without_has_none() -> None:
    hierarchy, cache = reference.target.make(TIER_CONFIGS[0]), reference.target.make(Config())
    tiered, flat = capabilities_of(hierarchy), capabilities_of(cache)
    assert {*TIER_PORTS} <= tiered and not hasattr(hierarchy, "view")
    assert not flat & {*TIER_PORTS} and hasattr(cache, "view")
    assert "flush" in flat and "flush" not in tiered
    assert flat <= tiered | {"inspect", "flush"}  # a flush is of flat caches: nothing says what becomes of copies


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("config", by_turns(TIER_CONFIGS), ids=lambda config: config.label)
def test_no_rule_is_broken_whatever_choices_are_declared(name: str, config: Config) -> None:
    play(TARGETS[name], config, seed=11)


def test_what_is_asked_of_an_unknown_or_landed_job_is_an_error() -> None:
    cache = reference.target.make(TIER_CONFIGS[0])
    assert isinstance(cache, TieredReference)
    with pytest.raises(ValueError, match="can't go on"):
        cache.advance(1, DONE)


@pytest.mark.nightly
def test_three_thousand_steps_a_second_are_fully_judged() -> None:
    for config in TIER_CONFIGS:
        play(reference.target, config, 0)
    started = time.process_time()
    steps = sum(play(reference.target, config, seed) for config in TIER_CONFIGS for seed in range(20))
    rate = steps / (time.process_time() - started)
    print(f"{rate:,.0f} steps a second")
    assert rate > 3_000
