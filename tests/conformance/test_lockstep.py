"""Specimen and reference side by side: the same schedule, the same outcomes.

Two independent implementations of one specification, both under the judge, must agree on
everything but the numbers of their slots: lengths of matches, what an insert finds, how much an
eviction frees and which prefixes it takes, who is refused, what is available, the counters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvlitmus.conformance.adapters.reference.target import ReferenceTarget
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.generate.interpreter import Interpreter
from kvlitmus.conformance.generate.schedule import OP_BYTES, Op, decode, draw, table
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.specimen.cache import SpecimenTarget
from kvlitmus.conformance.specimen.parts import PROFILE, Parts
from kvlitmus.conformance.specimen.tree import Node, RadixTree
from kvlitmus.spec.names import Names

CONFIGS = (
    *(Config(page_size=size, policy=policy) for size in (1, 4) for policy in ("lru", "lfu", "slru")),
    *(Config(page_size=4, policy=policy) for policy in ("mru", "fifo", "filo", "priority")),
    Config(page_size=4, bigram=True),
    Config(page_size=2, pages=6),
)
TOLD = (
    "asked", "match_length", "reported_already", "reported_evicted", "row_cached", "vanished",
    "available_after", "evictable", "protected", "locked_names", "locked_count", "missing_before",
)  # fmt: skip
"""The facts of a step that name no slot."""


class Listener(Checker):
    """A judge that remembers what each step came to, in words that two caches can share."""

    def forget(self) -> None:
        super().forget()
        self.told: list[tuple[object, ...]] = getattr(self, "told", [])

    wants_facts = True

    def note_facts(self, occasions: tuple[str, ...], facts: dict[str, Any]) -> None:
        cached = frozenset(self.before.cached)
        nodes = frozenset((node.info.names, node.locks, node.hits, node.priority) for node in self.before.nodes)
        self.told.append((occasions, [facts[name] for name in TOLD if name in facts], cached, nodes))


def told(target: Any, config: Config, ops: Sequence[Op]) -> list[tuple[object, ...]]:
    """What a schedule comes to on a target."""
    checker = Listener(target.make(config), config, target.profile, names=Names())
    interpreter = Interpreter(checker)
    interpreter.play([op for op in ops if op.kind in interpreter.actions])
    return checker.told


def assert_alike(config: Config, ops: Sequence[Op], specimen: SpecimenTarget) -> int:
    """Play a schedule on both; returns the number of steps that were compared."""
    one, other = told(specimen, config, ops), told(ReferenceTarget(PROFILE), config, ops)
    for at, (left, right) in enumerate(zip(one, other, strict=True)):
        assert left == right, f"step {at}: {left} is not {right}"
    return len(one)


def assert_all_alike(config: Config, schedules: Sequence[Sequence[Op]], specimen: SpecimenTarget) -> int:
    """Play several schedules on both; returns the number of steps that were compared."""
    return sum(assert_alike(config, ops, specimen) for ops in schedules)


def kinds_of(config: Config) -> tuple[str, ...]:
    """The operations that both can do."""
    judges = [Checker(target.make(config), config, PROFILE) for target in (SpecimenTarget(), ReferenceTarget(PROFILE))]
    shared = judges[0].capabilities & judges[1].capabilities
    return tuple(kind for kind in table(shared) if kind in Interpreter(judges[0]).actions)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.label)
def test_specimen_and_reference_agree_on_seeded_schedules(config: Config) -> None:
    kinds = kinds_of(config)
    steps = assert_all_alike(config, [draw(seed, 200, kinds) for seed in range(6)], SpecimenTarget())
    assert steps > 1_000


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.label)
@settings(max_examples=15)
@given(data=st.binary(min_size=20 * OP_BYTES, max_size=60 * OP_BYTES))
def test_specimen_and_reference_agree_on_any_schedule(config: Config, data: bytes) -> None:
    assert_alike(config, decode(data, kinds_of(config)), SpecimenTarget())


class TrimsWholeLeaves(RadixTree):
    """Evicts whole leaves; legal where the profile says so, and not what the reference does."""

    def pages_to_trim(self, leaf: Node, n: int) -> int:
        return len(leaf.pages)


def test_a_planted_difference_is_noticed() -> None:
    config = Config(page_size=4)
    specimen = SpecimenTarget(Parts(tree=TrimsWholeLeaves), replace(PROFILE, evict_granularity="node"))
    schedules = [draw(seed, 200, kinds_of(config)) for seed in range(20)]
    with pytest.raises((AssertionError, ValueError)):
        assert_all_alike(config, schedules, specimen)


@pytest.mark.nightly
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.label)
def test_specimen_and_reference_agree_for_long(config: Config) -> None:
    kinds = kinds_of(config)
    for seed in range(1_000, 1_400):
        assert_alike(config, draw(seed, 250, kinds), SpecimenTarget())
