"""Specimen and reference side by side: the same schedule, the same outcomes.

Two independent implementations of one specification, both under the judge, must agree on
everything but the numbers of their slots: lengths of matches, what an insert finds, how much an
eviction frees and which prefixes it takes, who is refused, what is available, the counters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvlitmus.conformance.adapters.reference.target import ReferenceTarget
from kvlitmus.conformance.generate.schedule import OP_BYTES, Op, decode, draw
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.specimen.cache import SpecimenTarget
from kvlitmus.conformance.specimen.parts import PROFILE, Parts
from kvlitmus.conformance.specimen.prefix.tree import Node, RadixTree
from tests.support.lockstep import Found, kinds_of, lockstep
from tests.support.night import by_turns

CONFIGS = (
    *(Config(page_size=size, policy=policy) for size in (1, 4) for policy in ("lru", "lfu", "slru")),
    *(Config(page_size=4, policy=policy) for policy in ("mru", "fifo", "filo", "priority")),
    Config(page_size=4, bigram=True),
    Config(page_size=2, pages=6),
)
REFERENCE = ReferenceTarget(PROFILE)
KINDS = {config: kinds_of(SpecimenTarget(), REFERENCE, config) for config in CONFIGS}


def lockstep_all(config: Config, schedules: Iterable[Sequence[Op]], specimen: SpecimenTarget) -> int:
    """Play several schedules on specimen and reference; returns the number of steps that were compared."""
    return sum(lockstep(specimen, REFERENCE, config, ops) for ops in schedules)


@pytest.mark.parametrize("config", by_turns(CONFIGS, every=2), ids=lambda config: config.label)
def test_specimen_and_reference_agree_on_seeded_schedules(config: Config) -> None:
    steps = lockstep_all(config, [draw(seed, 200, KINDS[config]) for seed in range(3)], SpecimenTarget())
    assert steps > 500


@pytest.mark.parametrize("config", by_turns(CONFIGS), ids=lambda config: config.label)
@settings(max_examples=15)
@given(data=st.binary(min_size=20 * OP_BYTES, max_size=60 * OP_BYTES))
def test_specimen_and_reference_agree_on_any_schedule(config: Config, data: bytes) -> None:
    lockstep(SpecimenTarget(), REFERENCE, config, decode(data, KINDS[config]))


class TrimsWholeLeaves(RadixTree):
    """Evicts whole leaves; legal where the profile says so, and not what the reference does."""

    def pages_to_trim(self, leaf: Node, n: int) -> int:
        return len(leaf.pages)


def test_a_planted_difference_is_noticed() -> None:
    config = Config(page_size=4)
    specimen = SpecimenTarget(Parts(tree=TrimsWholeLeaves), replace(PROFILE, evict_granularity="node"))
    schedules = [draw(seed, 200, KINDS[config]) for seed in range(20)]
    with pytest.raises(Found, match="is not"):
        lockstep_all(config, schedules, specimen)


@pytest.mark.nightly
@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.label)
def test_specimen_and_reference_agree_for_long(config: Config) -> None:
    lockstep_all(config, (draw(seed, 250, KINDS[config]) for seed in range(1_000, 1_400)), SpecimenTarget())
