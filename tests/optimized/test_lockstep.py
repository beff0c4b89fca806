"""The optimized cache and the reference in lock step: the same schedule, the same outcomes, after every call.

What is compared is said in :mod:`tests.support.differential`.  Here are the flat configurations;
``kvlitmus run tests.support.both:optimized`` plays as many steps as wanted.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvlitmus.conformance.adapters.optimized.target import audited, target
from kvlitmus.conformance.adapters.reference.target import ReferenceTarget
from kvlitmus.conformance.generate.schedule import OP_BYTES, Op, decode, draw
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.plan import CONFIGS
from kvlitmus.conformance.specimen.cache import SpecimenTarget
from kvlitmus.conformance.specimen.parts import PROFILE, Parts
from kvlitmus.conformance.specimen.prefix.tree import Node, RadixTree
from tests.support.configs import TIGHT_CONFIGS
from tests.support.lockstep import Found, kinds_of, lockstep, shortest
from tests.support.night import by_turns

pytestmark = pytest.mark.usefixtures("each_core")

ALL = (*CONFIGS, *TIGHT_CONFIGS)
REFERENCE = ReferenceTarget(PROFILE)
KINDS = {config: kinds_of(SpecimenTarget(), REFERENCE, config) for config in ALL}
"""What can be done; the optimized cache has the same capabilities, which a test makes sure of."""


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(config, id=config.label, marks=[pytest.mark.nightly] * (place % 4 > 0))
        for place, config in enumerate(ALL)
    ],
)
def test_they_agree_on_seeded_schedules(config: Config) -> None:
    steps = sum(lockstep(audited, REFERENCE, config, draw(seed, 250, KINDS[config])) for seed in range(2))
    assert steps > 400


@pytest.mark.parametrize("config", ALL, ids=lambda config: config.label)
def test_everything_that_the_specimen_can_is_compared(config: Config) -> None:
    assert kinds_of(target, REFERENCE, config) == KINDS[config]


@pytest.mark.parametrize("config", by_turns(ALL), ids=lambda config: config.label)
@settings(max_examples=10)
@given(data=st.binary(min_size=20 * OP_BYTES, max_size=60 * OP_BYTES))
def test_they_agree_on_any_schedule(config: Config, data: bytes) -> None:
    lockstep(target, REFERENCE, config, decode(data, KINDS[config]))


class OneEvictedTooMany(RadixTree):
    """Evicts a page more than is asked for."""

    def pages_to_trim(self, leaf: Node, n: int) -> int:
        return min(len(leaf.pages), super().pages_to_trim(leaf, n) + 1)


def planted() -> tuple[Config, SpecimenTarget, Sequence[Op]]:
    """A cache that differs, in a way that no rule forbids where it is asked for whole nodes."""
    return Config(page_size=4), SpecimenTarget(Parts(tree=OneEvictedTooMany)), draw(3, 250, KINDS[Config(page_size=4)])


def test_a_planted_difference_is_noticed() -> None:
    config, differs, ops = planted()
    with pytest.raises(Found, match="is not"):
        lockstep(differs, REFERENCE, config, ops)


def test_a_difference_is_shrunk() -> None:
    config, differs, ops = planted()
    found = shortest(differs, REFERENCE, config, ops, seconds=60.0)
    assert found is not None
    assert len(found.ops) < 8


LARGE = tuple(Config(page_size=1, pages=250, policy=policy) for policy in ("lfu", "lru", "mru", "priority", "slru"))


def played_long(config: Config, seed: int) -> int:
    """A long schedule without resets on a cache of hundreds of pages: arrays move, heaps are made again."""
    kinds = tuple(kind for kind in KINDS[ALL[0]] if kind != "reset")
    return lockstep(audited, REFERENCE, config, draw(seed, 1_500, kinds))


def test_they_agree_in_a_larger_cache() -> None:
    assert played_long(LARGE[0], 5) > 1_500


@pytest.mark.nightly
@pytest.mark.parametrize("config", LARGE, ids=lambda config: config.label)
def test_they_agree_in_larger_caches(config: Config) -> None:
    assert sum(played_long(config, seed) for seed in range(10)) > 15_000


@pytest.mark.nightly
@pytest.mark.parametrize("config", ALL, ids=lambda config: config.label)
def test_they_agree_for_long(config: Config) -> None:
    for seed in range(1_000, 1_400):
        lockstep(audited, REFERENCE, config, draw(seed, 250, KINDS[config]))
