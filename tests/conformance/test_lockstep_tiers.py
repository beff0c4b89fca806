"""Specimen and reference side by side, with a host tier and storage: the same schedule, the same outcomes.

Two implementations that have nothing in common but the specification, one mutable and one a value, must agree on
everything that doesn't depend on which slots were taken: which prefixes are on which tier and in which nodes, how
often each was used and what protects it, what is under way and how far, what is free, what counts against the rate
limit, and what every call answered.

Where a choice is open (which pages the host keeps when there isn't room for all that leaves the device under
write-back, or that a tick and not an advance takes note of a revoked prefetch), both make the same one.
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
from kvlitmus.conformance.run.plan import TIER_CONFIGS, TIER_POLICY_CONFIGS
from kvlitmus.conformance.specimen.backup import BackupQueue
from kvlitmus.conformance.specimen.cache import SpecimenTarget
from kvlitmus.conformance.specimen.parts import PROFILE, Parts
from kvlitmus.conformance.specimen.works import TieredNode
from kvlitmus.spec.facts import INPUTS
from kvlitmus.spec.names import Names
from kvlitmus.spec.rule import all_rules
from kvlitmus.spec.seen import TierSeen

TOLD = (
    "asked", "match_length", "reported_already", "reported_evicted", "row_cached", "vanished", "available_after",
    "evictable", "protected", "locked_names", "locked_count", "missing_before", "load_before", "load_wanted",
    "fetch_matched", "fetch_asked", "begun", "gate", "poll_answer", "told_loaded", "occupied_now", "host_available",
)  # fmt: skip
"""The facts of a step that name no slot."""

PROFILES = {
    "": PROFILE,
    "timeouts": replace(PROFILE, timeout_from="first_poll", timeout_basis="requested", timeout=(0.5, 64.0, 0.0)),
    "thresholds": replace(PROFILE, load_threshold=5, restored_counts=True),
}


CONFIGS = (*TIER_CONFIGS, *TIER_POLICY_CONFIGS)

AFTER = list(INPUTS).index("after")


class Listener(Checker):
    """A judge that remembers what each step came to, in words that two caches can share."""

    def forget(self) -> None:
        super().forget()
        self.told: list[tuple[object, ...]] = getattr(self, "told", [])

    wants_facts = True

    def judge(self, occasions: tuple[str, ...], inputs: Any, unknown: frozenset[str]) -> None:
        self.facts: dict[str, Any] = {}
        super().judge(occasions, inputs, unknown)
        seen = inputs[AFTER]
        if not isinstance(seen, TierSeen):
            return
        nodes = {(node.named.pages, node.slots is None, node.host is None) for node in seen.tier_nodes}
        counts = {(node.info.names, node.locks, node.hits, node.priority) for node in seen.nodes}
        jobs = [job._replace(id=0) for job in seen.jobs.values()]
        amounts = (len(seen.host_free), len(seen.moving))
        facts = [self.facts[name] for name in TOLD if name in self.facts]
        self.told.append((occasions, facts, nodes, counts, jobs, amounts))

    def note_facts(self, occasions: tuple[str, ...], facts: dict[str, Any]) -> None:
        self.facts = facts


def told(
    target: Any, config: Config, ops: Sequence[Op], muted: frozenset[str] = frozenset()
) -> list[tuple[object, ...]]:
    """What a schedule comes to on a target."""
    checker = Listener(target.make(config), config, target.profile, names=Names(), muted=muted)
    interpreter = Interpreter(checker)
    interpreter.play([op for op in ops if op.kind in interpreter.actions])
    return checker.told


def assert_alike(
    config: Config, ops: Sequence[Op], specimen: SpecimenTarget, muted: frozenset[str] = frozenset()
) -> int:
    """Play a schedule on both; returns the number of steps that were compared."""
    one = told(specimen, config, ops, muted)
    other = told(ReferenceTarget(specimen.profile), config, ops, muted)
    for at, (left, right) in enumerate(zip(one, other, strict=True)):
        assert left == right, f"step {at}: {left} is not {right}"
    return len(one)


def assert_all_alike(
    config: Config, schedules: Sequence[Sequence[Op]], specimen: SpecimenTarget, muted: frozenset[str] = frozenset()
) -> int:
    """Play several schedules on both; returns the number of steps that were compared."""
    return sum(assert_alike(config, ops, specimen, muted) for ops in schedules)


def kinds_of(config: Config) -> tuple[str, ...]:
    """The operations that both can do."""
    judges = [Checker(target.make(config), config, PROFILE) for target in (SpecimenTarget(), ReferenceTarget(PROFILE))]
    shared = judges[0].capabilities & judges[1].capabilities
    return tuple(kind for kind in table(shared) if kind in Interpreter(judges[0]).actions)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.label)
def test_specimen_and_reference_agree_on_seeded_schedules(config: Config) -> None:
    kinds = kinds_of(config)
    steps = assert_all_alike(config, [draw(seed, 250, kinds) for seed in range(2)], SpecimenTarget())
    assert steps > 400


@pytest.mark.parametrize("profile", [name for name in PROFILES if name])
@pytest.mark.parametrize("config", TIER_CONFIGS[:5], ids=lambda config: config.label)
def test_they_agree_whatever_choices_are_declared(config: Config, profile: str) -> None:
    specimen = SpecimenTarget(profile=PROFILES[profile])
    assert assert_alike(config, draw(7, 250, kinds_of(config)), specimen) > 200


@pytest.mark.parametrize("config", TIER_CONFIGS, ids=lambda config: config.label)
@settings(max_examples=5)
@given(data=st.binary(min_size=20 * OP_BYTES, max_size=60 * OP_BYTES))
def test_specimen_and_reference_agree_on_any_schedule(config: Config, data: bytes) -> None:
    assert_alike(config, decode(data, kinds_of(config)), SpecimenTarget())


class BacksUpLater(BackupQueue):
    """Backs a node up one use later, as no write policy of the configuration says."""

    def due(self, node: TieredNode) -> bool:
        return super().due(node) and node.hits > self.uses


def test_a_planted_difference_is_noticed() -> None:
    config = TIER_CONFIGS[0]
    specimen = SpecimenTarget(Parts(backups=BacksUpLater))
    schedules = [draw(seed, 250, kinds_of(config)) for seed in range(6)]
    with pytest.raises(AssertionError, match="is not"):
        assert_all_alike(config, schedules, specimen, frozenset(all_rules()))


@pytest.mark.nightly
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.label)
def test_specimen_and_reference_agree_for_long(config: Config) -> None:
    kinds = kinds_of(config)
    for profile in PROFILES.values():
        schedules = [draw(seed, 250, kinds) for seed in range(1_000, 1_100)]
        assert_all_alike(config, schedules, SpecimenTarget(profile=profile))
