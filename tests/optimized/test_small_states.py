"""The optimized cache beside the reference in every state of small caches, flat ones and hierarchies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kvlitmus.conformance.adapters.optimized.target import target
from kvlitmus.conformance.specimen.cache import SpecimenTarget
from kvlitmus.conformance.specimen.parts import Parts
from kvlitmus.conformance.specimen.prefix.backup import BackupQueue
from kvlitmus.conformance.specimen.prefix.tree import Node, RadixTree
from kvlitmus.conformance.specimen.prefix.works import TieredNode
from tests.optimized.support.small_scopes import FLAT, QUICK, QUICK_TIERED, TIERED
from tests.optimized.support.small_states import Beside
from tests.optimized.support.small_tiers import BesideTiers
from tests.proofs.support.explore import Scope
from tests.support.differential import Difference
from tests.support.night import by_turns

pytestmark = pytest.mark.proof


def beside(scope: Scope, made: Any = target) -> Beside:
    """A search with a cache of this target beside the reference."""
    return Beside(scope, lambda: made.make(scope.config))


@pytest.mark.parametrize("name", by_turns(QUICK, every=2))
def test_the_optimized_cache_is_equal_in_every_state(name: str) -> None:
    report = beside(FLAT[name]).search()
    print(f"{name}: {report.line()}")
    assert report.complete and report.transitions > 1_000


@pytest.mark.nightly
@pytest.mark.parametrize("name", QUICK_TIERED)
def test_the_optimized_hierarchy_is_equal_in_every_state(name: str) -> None:
    report = BesideTiers(TIERED[name], target.make).search()
    print(f"{name}: {report.line()}")
    assert report.complete and report.transitions > 5_000


@pytest.mark.nightly
@pytest.mark.parametrize("name", [name for name in FLAT if name not in QUICK])
def test_the_optimized_cache_is_equal_in_every_state_of_larger_caches(name: str) -> None:
    report = beside(FLAT[name]).search()
    print(f"{name}: {report.line()}")
    assert report.complete


@pytest.mark.nightly
@pytest.mark.parametrize("name", [name for name in TIERED if name not in QUICK_TIERED])
def test_the_optimized_hierarchy_is_equal_in_every_state_of_larger_ones(name: str) -> None:
    report = BesideTiers(TIERED[name], target.make).search()
    print(f"{name}: {report.line()}")
    assert report.complete


class WholeLeaves(RadixTree):
    """Evicts whole leaves, whatever is asked for."""

    def pages_to_trim(self, leaf: Node, n: int) -> int:
        return len(leaf.pages)


class BacksUpLater(BackupQueue):
    """Backs a node up one use later, as no write policy of the configuration says."""

    def due(self, node: TieredNode) -> bool:
        return super().due(node) and node.uses > self.uses


def test_a_planted_difference_is_found() -> None:
    with pytest.raises(Difference, match="is not"):
        beside(FLAT["tenants"], SpecimenTarget(Parts(tree=WholeLeaves))).search()


def test_a_planted_difference_between_hierarchies_is_found() -> None:
    scope = TIERED["pages of two, filled"]
    with pytest.raises(Difference, match="after"):
        BesideTiers(scope, SpecimenTarget(Parts(backups=BacksUpLater)).make).search()


def test_a_configuration_says_what_the_scope_says() -> None:
    config = TIERED["selective, faults"].config
    assert config.write == "write_through_selective" and config.tiered and config.storage == "attached"
    keys: Sequence[object] = TIERED["selective, faults"].keys
    assert keys
