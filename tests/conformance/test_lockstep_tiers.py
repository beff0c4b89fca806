"""Specimen and reference side by side, with a host tier and storage: the same schedule, the same outcomes.

Two implementations that have nothing in common but the specification, one mutable and one a value, must agree on
everything that doesn't depend on which slots were taken: which prefixes are on which tier and in which nodes, how
often each was used and what protects it, what is under way and how far, what is free, what counts against the rate
limit, and what every call answered.

Where a choice is open (which pages the host keeps when there isn't room for all that leaves the device under
write-back, or that a tick and not an advance takes note of a revoked prefetch), both make the same one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvlitmus.conformance.adapters.reference.target import ReferenceTarget
from kvlitmus.conformance.generate.schedule import OP_BYTES, Op, decode, draw
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.plan import TIER_CONFIGS
from kvlitmus.conformance.specimen.cache import SpecimenTarget
from kvlitmus.conformance.specimen.parts import PROFILE, Parts
from kvlitmus.spec.parts import all_rules
from tests.support.configs import TIER_POLICY_CONFIGS
from tests.support.lockstep import CHOICES, BacksUpLater, Found, kinds_of, lockstep
from tests.support.night import by_turns

CONFIGS = (*TIER_CONFIGS, *TIER_POLICY_CONFIGS)

KINDS = {config: kinds_of(SpecimenTarget(), ReferenceTarget(PROFILE), config) for config in CONFIGS}


def lockstep_all(
    config: Config,
    schedules: Iterable[Sequence[Op]],
    specimen: SpecimenTarget,
    muted: frozenset[str] = frozenset(),
) -> int:
    """Play several schedules on specimen and reference; returns the number of steps that were compared."""
    reference = ReferenceTarget(specimen.profile)
    return sum(lockstep(specimen, reference, config, ops, muted=muted) for ops in schedules)


@pytest.mark.parametrize("config", by_turns(CONFIGS), ids=lambda config: config.label)
def test_specimen_and_reference_agree_on_seeded_schedules(config: Config) -> None:
    steps = lockstep_all(config, [draw(seed, 250, KINDS[config]) for seed in range(2)], SpecimenTarget())
    assert steps > 400


@pytest.mark.parametrize("profile", CHOICES)
@pytest.mark.parametrize("config", by_turns(TIER_CONFIGS[:5]), ids=lambda config: config.label)
def test_they_agree_whatever_choices_are_declared(config: Config, profile: str) -> None:
    specimen = SpecimenTarget(profile=CHOICES[profile])
    assert lockstep_all(config, [draw(7, 250, KINDS[config])], specimen) > 200


@pytest.mark.parametrize("config", by_turns(TIER_CONFIGS), ids=lambda config: config.label)
@settings(max_examples=5)
@given(data=st.binary(min_size=20 * OP_BYTES, max_size=60 * OP_BYTES))
def test_specimen_and_reference_agree_on_any_schedule(config: Config, data: bytes) -> None:
    lockstep_all(config, [decode(data, KINDS[config])], SpecimenTarget())


def test_a_planted_difference_is_noticed() -> None:
    config = TIER_CONFIGS[0]
    specimen = SpecimenTarget(Parts(backups=BacksUpLater))
    schedules = [draw(seed, 250, KINDS[config]) for seed in range(6)]
    with pytest.raises(Found, match="is not"):
        lockstep_all(config, schedules, specimen, frozenset(all_rules()))


@pytest.mark.nightly
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.label)
def test_specimen_and_reference_agree_for_long(config: Config) -> None:
    for profile in (PROFILE, *CHOICES.values()):
        schedules = [draw(seed, 250, KINDS[config]) for seed in range(1_000, 1_100)]
        lockstep_all(config, schedules, SpecimenTarget(profile=profile))
