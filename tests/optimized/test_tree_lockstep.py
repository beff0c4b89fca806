"""The optimized tree equals the reference, call by call, for every policy, with and without a host tier."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numba")

from kvlitmus.optimized import levels, tree
from kvlitmus.optimized.branch import Branch
from kvlitmus.optimized.policy import POLICIES
from kvlitmus.optimized.residency import Residency
from tests.optimized.support.twins import Twins, play

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
@pytest.mark.parametrize("policy", POLICIES)
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
@pytest.mark.parametrize("policy", ["lfu", "priority", "fifo"])
def test_deep_trees_equal_the_reference(policy: str, mode: str) -> None:
    """Paths of many branches, branches of many nodes."""
    sizes: dict[str, Any] = {"host_pages": 40, **MODES[mode]}
    data = random.Random(f"deep {policy} {mode}").randbytes(8 * 120)
    play(Twins(1, policy, pages=60, reach=20, **sizes), data)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("mode", MODES)
def test_very_long_runs_equal_the_reference(mode: str) -> None:
    for seed in range(2_000):
        source = random.Random(f"night {mode} {seed}")
        policy = source.choice(list(POLICIES))
        play(twins(policy, mode, source.randrange(len(SHAPES))), source.randbytes(8 * 100))


def _no_cut(self: levels.Nodes, position: int) -> None:
    """A boundary that is forgotten."""


def _touches_too_little(level: levels.Level, end: int, value: int, n: int) -> levels.Level:
    """A use that leaves the first page out."""
    return levels.set_range(level, 1, end, value, n) if end > 1 else level


def _counts_all(self: tree.Tree, branch: Branch, end: int, already: int, priority: int, counts: bool) -> None:
    """A hit of what came back from the host, whatever the choice is."""
    COUNT(self, branch, end, 1 << 30, priority, counts)


def _whole_node(self: Residency, branch: Branch, most: int) -> int:
    """An eviction that takes more than it is asked for."""
    return LEAVE(self, branch, 1 << 30)


COUNT, LEAVE = tree.Tree._count, Residency.leave_device
PLANTED: dict[str, tuple[Any, str, Any]] = {
    "a boundary is forgotten": (levels.Nodes, "cut", _no_cut),
    "a use leaves a page out": (levels, "set_prefix", _touches_too_little),
    "a page that comes back counts": (tree.Tree, "_count", _counts_all),
    "an eviction takes whole nodes": (Residency, "leave_device", _whole_node),
}


def play_many() -> None:
    for seed in range(60):
        play(twins("lfu", "write_through", 0), random.Random(seed).randbytes(8 * 60))


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_difference_is_seen(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, name, wrong = PLANTED[planted]
    monkeypatch.setattr(where, name, wrong)
    with pytest.raises((AssertionError, ValueError)):
        play_many()
