"""The optimized tree equals the reference, call by call, for every policy, with and without a host tier."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numba")

from kvlitmus.mutants.mutant import recipe_of
from kvlitmus.optimized import levels
from kvlitmus.optimized.policy import POLICIES
from tests.optimized.support.mutants import PACKAGE
from tests.optimized.support.twins import Twins, play
from tests.support.mutants import Patched, assert_killed, fails
from tests.support.night import by_turns

MODES: dict[str, dict[str, Any]] = {
    "flat": {"host_pages": 0},
    "write_through": {"write": "write_through"},
    "write_back": {"write": "write_back"},
}
SHAPES = [  # page size, device pages, host pages, bigrams, whether restored pages count as hit
    (1, 14, 9, False, False),
    (2, 14, 9, False, True),
    (4, 20, 5, False, False),
    (2, 8, 9, True, False),
    (1, 6, 14, True, True),
]


def twins(policy: str, mode: str, shape: int) -> Twins:
    size, pages, host_pages, bigram, restored = SHAPES[shape]
    given_by_mode: dict[str, Any] = {"host_pages": host_pages, **MODES[mode]}
    return Twins(size, policy, pages=pages, bigram=bigram, restored_counts=restored, **given_by_mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("policy", by_turns(POLICIES, every=2))
@settings(max_examples=25)
@given(shape=st.integers(0, len(SHAPES) - 1), data=st.binary(min_size=8 * 10, max_size=8 * 40))
def test_every_call_has_the_outcome_of_the_reference(policy: str, mode: str, shape: int, data: bytes) -> None:
    play(twins(policy, mode, shape), data)


@pytest.mark.parametrize("mode", MODES)
def test_long_runs_equal_the_reference(mode: str) -> None:
    for seed, policy in enumerate(POLICIES):
        source = random.Random(f"{mode} {seed}")
        play(twins(policy, mode, seed % len(SHAPES)), source.randbytes(8 * 150))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("policy", by_turns(["lfu", "priority", "fifo"]))
def test_deep_trees_equal_the_reference(policy: str, mode: str) -> None:
    """Paths of many branches, branches of many nodes."""
    sizes: dict[str, Any] = {"host_pages": 40, **MODES[mode]}
    data = random.Random(f"deep {policy} {mode}").randbytes(8 * 120)
    play(Twins(1, policy, pages=60, reach=20, **sizes), data)


@pytest.mark.nightly
@pytest.mark.parametrize("mode", MODES)
def test_very_long_runs_equal_the_reference(mode: str) -> None:
    for seed in range(2_000):
        source = random.Random(f"night {mode} {seed}")
        policy = source.choice(list(POLICIES))
        play(twins(policy, mode, source.randrange(len(SHAPES))), source.randbytes(8 * 100))


def no_cut(original: Any) -> Any:
    """A boundary is forgotten."""
    return lambda self, position: None


def touches_too_little(original: Any) -> Any:
    """A use leaves the first page out."""
    return lambda level, end, value, n: levels.set_range(level, 1, end, value, n) if end > 1 else level


def counts_all(original: Any) -> Any:
    """What comes back from the host counts as a hit, whatever the choice is."""
    return lambda self, branch, end, already, priority, counts: original(self, branch, end, 1 << 30, priority, counts)


def whole_nodes(original: Any) -> Any:
    """An eviction takes more than it is asked for."""
    return lambda self, branch, most: original(self, branch, 1 << 30)


LOCK_STEP = "the lock step"
MUTANTS = [
    Patched(id=id, recipe=recipe_of(id, change), kills=(LOCK_STEP,), patches={f"{PACKAGE}.{place}": change})
    for id, place, change in (
        ("no-cut", "levels:Nodes.cut", no_cut),
        ("touches-too-little", "levels:set_prefix", touches_too_little),
        ("counts-all", "tree:Tree._count", counts_all),
        ("whole-nodes", "residency:Residency.leave_device", whole_nodes),
    )
]


def play_many() -> None:
    for seed in range(60):
        play(twins("lfu", "write_through", 0), random.Random(seed).randbytes(8 * 60))


@pytest.mark.parametrize("one", MUTANTS, ids=lambda one: one.id)
def test_a_mutant_is_seen(one: Patched) -> None:
    assert_killed(one, fails(LOCK_STEP, play_many, ValueError))
