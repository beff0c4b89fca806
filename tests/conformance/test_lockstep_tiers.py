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
from kvlitmus.conformance.checker.calls.prefix import request, tier
from kvlitmus.conformance.generate.schedule import OP_BYTES, Op, decode, draw
from kvlitmus.conformance.litmus.prefix.load import demoted, fill
from kvlitmus.conformance.litmus.prefix.scenes import step
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.plan import TIER_CONFIGS
from kvlitmus.conformance.specimen.cache import SpecimenTarget
from kvlitmus.conformance.specimen.parts import PROFILE, Parts
from kvlitmus.spec.interface.tiers import FAILED, LOAD, Outcome
from kvlitmus.spec.parts import all_rules
from tests.support.configs import TIER_POLICY_CONFIGS
from tests.support.lockstep import CHOICES, BacksUpLater, Found, judge_of, kinds_of, lockstep
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


@pytest.mark.parametrize("outcome", [None, FAILED], ids=["under way", "failed"])
@pytest.mark.parametrize("held", [False, True], ids=["given up", "made again"])
@pytest.mark.parametrize("order", [1, -1], ids=["specimen first", "reference first"])
def test_a_request_is_retracted_with_what_a_load_is_still_to_bring(
    outcome: Outcome | None, held: bool, order: int
) -> None:
    """What a request shares was still being loaded, and both copied to the host what was in the slots before.

    A load that failed is made again where another request holds its pages, and given up where none does.  Of contents
    the first one alone is judged.
    """
    first, second = (SpecimenTarget(), ReferenceTarget(PROFILE))[::order]
    checker = judge_of(first, second, TIER_CONFIGS[0])
    key = demoted(checker)
    fill(checker)
    request.end(checker, 1, keep=False)
    tier.load_back(checker, key)
    request.begin(checker, 1, key)
    if outcome is not None:
        step(checker, LOAD, outcome)
    if held:
        request.begin(checker, 2, key)
        tier.tick(checker)
    request.retract(checker, 1)
    tier.settle(checker)
    assert request.resume(checker, 1)
    request.end(checker, 1, keep=True)
    tier.settle(checker)


def test_a_planted_difference_is_noticed() -> None:
    config = TIER_CONFIGS[0]
    specimen = SpecimenTarget(Parts(backups=BacksUpLater))
    schedules = [draw(seed, 250, KINDS[config]) for seed in range(6)]
    with pytest.raises(Found, match="is not"):
        lockstep_all(config, schedules, specimen, frozenset(all_rules()))


@pytest.mark.nightly
@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.label)
def test_specimen_and_reference_agree_for_long(config: Config) -> None:
    for profile in (PROFILE, *CHOICES.values()):
        schedules = [draw(seed, 250, KINDS[config]) for seed in range(1_000, 1_100)]
        lockstep_all(config, schedules, SpecimenTarget(profile=profile))
