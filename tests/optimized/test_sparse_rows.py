"""Sparse rows of the compiled core: every rule is kept at each depth, in lock step with the reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("kvlitmus.optimized._core", reason="no core")

from kvlitmus.conformance.adapters.optimized import sparse as optimized
from kvlitmus.conformance.adapters.optimized.sparse import TARGETS
from kvlitmus.conformance.ports import Config, Unsupported
from kvlitmus.conformance.run import plan
from kvlitmus.conformance.run.targets import TargetError, load_target, resolve_target
from kvlitmus.optimized import cores
from kvlitmus.optimized.sparse import SparseConfig, sparse_rows
from kvlitmus.spec.sparse.buffer import SparseBuffer, acknowledged
from kvlitmus.spec.sparse.state import SparseState, Staged
from tests.conformance.test_sparse import RULES, SMALL, broken, judged
from tests.optimized.support.sparse_pair import PairTarget

EACH = [(name, depth) for name in TARGETS for depth in range(4)]
BY_DAY = [("target", 0)]


def reached(one: Any, depth: int, steps: int, configs: Sequence[Config]) -> int:
    """Judge a target, which breaks nothing and is asked about every rule; how many steps there were."""
    counts, many = Counter[str](), 0
    for result in judged(one, depth, steps, configs):
        assert broken(result) == set(), result.findings
        counts.update(result.evaluated)
        many += result.steps
    assert {id for id in RULES if counts[id]} == {id for id, rule in RULES.items() if rule.depth <= depth}
    return many


@pytest.mark.parametrize(
    ("name", "depth"), [pytest.param(*one, marks=[pytest.mark.nightly] * (one not in BY_DAY)) for one in EACH]
)
def test_it_keeps_every_rule_at_each_depth(name: str, depth: int) -> None:
    reached(TARGETS[name], depth, plan.OPS, SMALL if (name, depth) in BY_DAY else plan.SPARSE_CONFIGS)


def test_it_agrees_with_the_reference_on_all_litmus_tests_and_a_schedule() -> None:
    assert reached(PairTarget(TARGETS["target"].profile), 3, plan.OPS, SMALL) > 3_000


@pytest.mark.nightly
@pytest.mark.parametrize("config", plan.SPARSE_CONFIGS, ids=lambda config: config.label)
@pytest.mark.parametrize("name", TARGETS)
def test_it_agrees_with_the_reference_for_long(name: str, config: Config) -> None:
    pair = PairTarget(TARGETS[name].profile)
    steps = 5_000 if config.page_size > 16 else 40_000
    many = 0
    for result in judged(pair, 0, steps, [config]):
        assert broken(result) == set(), result.findings
        many += result.steps
    assert many > 0.8 * steps


def another_buffer(pool: SparseState, one: Staged) -> SparseBuffer:
    """What another legal cache has in its buffer."""
    return acknowledged(pool.room, pool.hosted(one.length), "nothing")


def test_a_difference_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference is another one here: its buffers hold nothing of a prompt that was staged."""
    monkeypatch.setattr("kvlitmus.reference.sparse.first_buffer", another_buffer)
    found = {
        rule for result in judged(PairTarget(TARGETS["target"].profile), 0, 0, SMALL[:1]) for rule in broken(result)
    }
    assert found == {"PORT-01"}, "an answer is an error where the two differ"


def test_where_there_is_no_core_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_target(resolve_target("optimized-sparse")) is TARGETS["target"]
    with pytest.raises(Unsupported):
        optimized.target.make(plan.CONFIGS[0])
    monkeypatch.setattr(cores, "lacking", lambda: "nobody built it")
    with pytest.raises(TargetError, match="native core alone, and there is none: nobody built it"):
        load_target(resolve_target("optimized-sparse"))
    with pytest.raises(ValueError, match="sparse rows need the native core, and there is none: nobody built it"):
        sparse_rows(SparseConfig())
