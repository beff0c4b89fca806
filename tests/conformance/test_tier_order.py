"""Victims in a hierarchy are held against the policy only where what each page is worth is known.

Two schedules on which a correct cache was once blamed: the page whose worth was unknown was itself the one that went,
and a page that a commit had cached was created when nobody could see it.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvlitmus.conformance.run.engine import run_item
from kvlitmus.conformance.run.plan import TIERED
from kvlitmus.conformance.run.results import Item, ItemResult, Options
from kvlitmus.conformance.specimen.cache import SpecimenTarget, target
from kvlitmus.conformance.specimen.parts import Parts
from kvlitmus.conformance.specimen.prefix.tier import TierTree
from tests.support.night import by_turns


class NewestFirst(TierTree):
    """Evicts what is worth most."""

    def __init__(self, *given: object, **named: object) -> None:
        super().__init__(*given, **named)  # type: ignore[arg-type]
        worth = self.worth
        self.worth = lambda node: tuple(-number for number in worth(node))


def played(one: SpecimenTarget, policy: str, seed: int) -> ItemResult:
    item = Item(kind="random", config=replace(TIERED, policy=policy), seed=seed, ops=250)
    return run_item(one, item, Options(reruns=0, shrink_trials=0))


@pytest.mark.parametrize(("policy", "seed"), by_turns([("mru", 2000063), ("fifo", 2000061)], every=2))
def test_nobody_is_blamed_for_an_order_that_can_not_be_known(policy: str, seed: int) -> None:
    assert played(target, policy, seed).findings == []


@pytest.mark.parametrize("policy", by_turns(["lru", "mru", "fifo", "lfu"], every=2))
def test_a_wrong_order_is_seen_all_the_same(policy: str) -> None:
    wrong = SpecimenTarget(Parts(tiers=NewestFirst))
    found = [finding.rules for seed in range(6) for finding in played(wrong, policy, seed).findings]
    assert found
    # What is worth most goes first on both tiers: each is blamed for its own order, and for nothing else.
    assert {rule for rules in found for rule in rules} == {"EVICT-05"}
