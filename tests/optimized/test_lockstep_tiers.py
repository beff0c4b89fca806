"""The optimized hierarchy and the reference's in lock step: tiers, jobs, storage, events, contents.

Contents are real tensors on the CPU; kind of cache, element type and host layout vary with the configuration, and in
one test over all that there are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvlitmus.conformance.adapters.optimized.contents import VARIANTS, Variant
from kvlitmus.conformance.adapters.optimized.target import OptimizedTarget, audited, target
from kvlitmus.conformance.adapters.reference.target import ReferenceTarget
from kvlitmus.conformance.generate.schedule import OP_BYTES, decode, draw
from kvlitmus.conformance.ports import PORTS, Config
from kvlitmus.conformance.run.plan import TIER_CONFIGS, TIERED
from kvlitmus.conformance.specimen.cache import SpecimenTarget
from kvlitmus.conformance.specimen.parts import PROFILE, Parts
from tests.support.configs import TIER_POLICY_CONFIGS
from tests.support.lockstep import CHOICES, BacksUpLater, Found, kinds_of, lockstep
from tests.support.night import by_turns

ALL = (*TIER_CONFIGS, *TIER_POLICY_CONFIGS)
REFERENCE = ReferenceTarget(PROFILE)
KINDS = {config: kinds_of(SpecimenTarget(), REFERENCE, config) for config in ALL}


@pytest.mark.parametrize("config", by_turns(ALL), ids=lambda config: config.label)
def test_they_agree_on_seeded_schedules(config: Config) -> None:
    steps = sum(lockstep(audited, REFERENCE, config, draw(seed, 250, KINDS[config])) for seed in range(1))
    assert steps > 200


@pytest.mark.parametrize("config", TIER_CONFIGS, ids=lambda config: config.label)
def test_everything_that_the_specimen_can_is_compared(config: Config) -> None:
    assert kinds_of(target, REFERENCE, config) == KINDS[config]


@pytest.mark.parametrize("profile", CHOICES)
@pytest.mark.parametrize("config", by_turns(TIER_CONFIGS[:5]), ids=lambda config: config.label)
def test_they_agree_whatever_choices_are_declared(config: Config, profile: str) -> None:
    chosen = CHOICES[profile]
    ops = draw(7, 250, KINDS[config])
    assert lockstep(OptimizedTarget(profile=chosen), ReferenceTarget(chosen), config, ops) > 200


@pytest.mark.parametrize("variant", by_turns(VARIANTS, every=6), ids="-".join)
def test_contents_are_right_in_every_kind_of_pool(variant: Variant) -> None:
    at = VARIANTS.index(variant)
    config = TIER_CONFIGS[at % len(TIER_CONFIGS)]
    ops = draw(100 + at, 120, KINDS[config])
    assert lockstep(OptimizedTarget(variant=variant), REFERENCE, config, ops) > 50


@pytest.mark.parametrize("config", by_turns(TIER_CONFIGS), ids=lambda config: config.label)
@settings(max_examples=5)
@given(data=st.binary(min_size=20 * OP_BYTES, max_size=60 * OP_BYTES))
def test_they_agree_on_any_schedule(config: Config, data: bytes) -> None:
    lockstep(target, REFERENCE, config, decode(data, KINDS[config]))


class AsAble:
    """The reference, of which only those calls are made that the optimized cache has, too."""

    profile = PROFILE

    def make(self, config: Config) -> Any:
        """A fresh one, without the other calls."""
        made, other = REFERENCE.make(config), target.make(config)
        for name in {name for methods in PORTS.values() for name in methods}:
            if not callable(getattr(other, name, None)):
                setattr(made, name, None)
        return made


@pytest.mark.parametrize(("policy", "seed"), by_turns([("mru", 2_000_073), ("fifo", 2_000_061)], every=2))
def test_what_a_judge_can_not_know_is_held_against_nobody(policy: str, seed: int) -> None:
    """A refused prefetch may be a use of the very victim; when a page from storage was created, nobody promised."""
    config = replace(TIERED, policy=policy)
    ops = draw(seed, 250, KINDS[config])
    assert lockstep(target, REFERENCE, config, ops) == lockstep(AsAble(), REFERENCE, config, ops) > 200


def test_a_planted_difference_is_noticed() -> None:
    config = TIER_CONFIGS[0]
    with pytest.raises(Found, match="is not"):
        lockstep(SpecimenTarget(Parts(backups=BacksUpLater)), REFERENCE, config, draw(0, 250, KINDS[config]))


LARGE = (
    replace(TIERED, page_size=1, pages=160, host_pages=120, rate_limit=300, threshold=2),
    replace(TIERED, page_size=1, pages=160, host_pages=60, rate_limit=300, threshold=2, write="write_back"),
    replace(
        TIERED, page_size=2, pages=120, host_pages=100, rate_limit=300, write="write_through_selective", policy="slru"
    ),
)


@pytest.mark.nightly
@pytest.mark.parametrize("config", LARGE, ids=lambda config: config.label)
def test_they_agree_in_larger_hierarchies(config: Config) -> None:
    kinds = tuple(kind for kind in KINDS[TIERED] if kind != "reset")
    steps = sum(lockstep(audited, REFERENCE, config, draw(seed, 1_500, kinds)) for seed in range(10))
    assert steps > 15_000


@pytest.mark.nightly
@pytest.mark.parametrize("config", ALL, ids=lambda config: config.label)
def test_they_agree_for_long(config: Config) -> None:
    for profile in (PROFILE, *CHOICES.values()):
        for seed in range(1_000, 1_100):
            ops = draw(seed, 250, KINDS[config])
            lockstep(OptimizedTarget(profile=profile, audited=True), ReferenceTarget(profile), config, ops)
