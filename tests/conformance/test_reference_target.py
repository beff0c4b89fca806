"""The reference under the judge: random schedules in all its variants, without an alarm."""

from __future__ import annotations

import itertools

import pytest

from kvlitmus.conformance.adapters.reference import target as reference
from kvlitmus.conformance.adapters.reference.target import ReferenceTarget
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.generate.interpreter import Interpreter
from kvlitmus.conformance.generate.schedule import draw, table
from kvlitmus.conformance.ports import Config, Unsupported
from kvlitmus.spec.words.policies import POLICIES
from tests.support.policies import with_policy

TARGETS = {"page": reference.target, "node": reference.node_target, "capped": reference.capped_target}
CONFIGS = [
    Config(page_size=size, policy=policy, bigram=bigram)
    for size, policy, bigram in itertools.product((1, 4), POLICIES, (False, True))
]
EVERYTHING = pytest.mark.parametrize(("target", "config"), list(itertools.product(TARGETS.values(), CONFIGS)))


def steps_without_alarm(target: ReferenceTarget, config: Config, seeds: range, ops: int = 200) -> int:
    """Play seeded schedules; a broken rule raises."""
    steps = 0
    for seed in seeds:
        checker = Checker(target.make(config), config, target.profile)
        interpreter = Interpreter(checker)
        interpreter.play([op for op in draw(seed, ops, table(checker.capabilities)) if op.kind in interpreter.actions])
        steps += checker.steps
    return steps


@EVERYTHING
def test_random_schedules_raise_no_alarm(target: ReferenceTarget, config: Config) -> None:
    assert steps_without_alarm(target, config, range(1), 120) > 70


@pytest.mark.nightly
@EVERYTHING
def test_long_random_schedules_raise_no_alarm(target: ReferenceTarget, config: Config) -> None:
    assert steps_without_alarm(target, config, range(1_000, 1_100)) > 20_000


def test_a_policy_that_does_not_exist_is_declined() -> None:
    with pytest.raises(Unsupported, match="random"):
        reference.target.make(with_policy("random"))
