"""Components of the compiled core: every rule is kept at each depth, in lock step with the reference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

pytest.importorskip("kvlitmus.optimized._core", reason="no core")

from kvlitmus.conformance.adapters.optimized import components as optimized
from kvlitmus.conformance.adapters.optimized.components import TARGETS
from kvlitmus.conformance.adapters.reference import components as reference
from kvlitmus.conformance.ports import Config, Unsupported
from kvlitmus.conformance.run import engine, plan
from kvlitmus.conformance.run.results import ItemResult, Options
from kvlitmus.conformance.run.targets import TargetError, load_target, resolve_target
from kvlitmus.optimized import cores
from kvlitmus.optimized.components import ComponentConfig, Kind, component_tree
from kvlitmus.reference.prefix.components import tree as model
from tests.optimized.support.component_pair import PairTarget

WRITES = tuple(one for one in plan.COMPONENT_WRITE_CONFIGS if one.write != "write_back")
CONFIGS = plan.COMPONENT_CONFIGS + plan.COMPONENT_POLICY_CONFIGS + plan.COMPONENT_HOST_CONFIGS + WRITES
EACH = [(name, depth) for name in TARGETS for depth in range(4)]
BY_DAY = Config(page_size=1, pages=12, components="kv+swa+state")
ON_HOST = Config(page_size=1, pages=12, host_pages=8, write="asked", components="kv+swa+state")


def judged(one: Any, depth: int, steps: int, configs: Sequence[Config], *, litmus: bool = True) -> Iterator[ItemResult]:
    """A run, item by item, none of which breaks a rule."""
    for item in plan.items(configs, one.profile, steps=steps, litmus=litmus):
        result = engine.run_item(one, item, Options(shrink_trials=0, depth=depth))
        assert not result.error and not result.findings, result
        yield result


def rules_of(results: Iterator[ItemResult]) -> tuple[set[str], int]:
    """The rules that were asked about where it matters, and how many steps there were."""
    asked, steps = set[str](), 0
    for result in results:
        asked |= {rule for rule, many in result.evaluated.items() if many}
        steps += result.steps
    return asked, steps


def test_it_keeps_every_rule() -> None:
    assert rules_of(judged(TARGETS["target"], 3, plan.OPS, [BY_DAY]))[1] > 500


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "depth"), EACH)
def test_it_keeps_every_rule_that_the_reference_is_asked_about(name: str, depth: int) -> None:
    asked, _ = rules_of(judged(TARGETS[name], depth, plan.OPS, CONFIGS))
    twin = reference.ReferenceComponentTarget(TARGETS[name].profile)
    assert TARGETS[name].capabilities == set(twin.capabilities)
    assert asked == rules_of(judged(twin, depth, plan.OPS, CONFIGS))[0]


def test_it_agrees_with_the_reference_on_litmus_tests_and_schedules() -> None:
    some = [one for one in plan.COMPONENT_CONFIGS if one.components == "groups" or one.bigram][:2]
    assert rules_of(judged(PairTarget(TARGETS["target"].profile), 0, plan.OPS, [BY_DAY]))[1] > 500
    assert rules_of(judged(PairTarget(TARGETS["leaf"].profile), 0, plan.OPS, some, litmus=False))[1] > 200


def test_host_memory_keeps_every_rule_and_agrees_with_the_reference() -> None:
    asked, steps = rules_of(judged(PairTarget(TARGETS["target"].profile), 3, plan.OPS, [ON_HOST]))
    assert {"COMP-32", "COMP-36", "COMP-12", "COMP-29", "COMP-63", "LOAD-11"} <= asked and steps > 300
    some = [one for one in plan.COMPONENT_HOST_CONFIGS if one.components == "groups"]
    some += WRITES[1:2]
    assert rules_of(judged(PairTarget(TARGETS["later"].profile), 0, plan.OPS, some, litmus=False))[1] > 200


@pytest.mark.nightly
@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.label)
@pytest.mark.parametrize("name", TARGETS)
def test_it_agrees_with_the_reference_for_long(name: str, config: Config) -> None:
    _, steps = rules_of(judged(PairTarget(TARGETS[name].profile), 0, 20_000, [config]))
    assert steps > 16_000


def test_a_difference_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference is another one here: an eviction takes what ends first of entries that are worth the same."""
    monkeypatch.setattr(model, "next_to_go", lambda state, setting, choices, tier="device": max(choices))
    pair = PairTarget(TARGETS["target"].profile)
    found = set[str]()
    for item in plan.items([BY_DAY], pair.profile, steps=1):
        result = engine.run_item(pair, item, Options(shrink_trials=0, depth=0))
        found |= {rule for one in result.findings for rule in one.rules}
        if found:
            break
    assert found == {"PORT-01"}, "an answer is an error where the two differ"


def test_where_there_is_no_core_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_target(resolve_target("optimized-components")) is TARGETS["target"]
    for other in (plan.CONFIGS[0], *plan.COMPONENT_WRITE_CONFIGS[2:3], *plan.COMPONENT_STORAGE_CONFIGS[:1]):
        with pytest.raises(Unsupported):
            optimized.target.make(other)
    monkeypatch.setattr(cores, "lacking", lambda: "nobody built it")
    with pytest.raises(TargetError, match="native core alone, and there is none: nobody built it"):
        load_target(resolve_target("optimized-components"))
    with pytest.raises(ValueError, match="needs the native core, and there is none: nobody built it"):
        component_tree(ComponentConfig(components=(Kind("run", 0, 16, 16),), places=(4,)))
