"""Legal caches in the schedules in which a long night once accused one of them: they stay silent.

`tools/night.py` plays as many as CI has no time for.  What it finds is mended, and its schedule is kept here.
"""

from __future__ import annotations

import pytest

from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.engine import run_item
from kvlitmus.conformance.run.plan import OPS, TIER_CONFIGS
from kvlitmus.conformance.run.results import Item, Options
from kvlitmus.mutants.registry import all_mutants

WRITE_BACK = tuple(one for one in TIER_CONFIGS if one.write == "write_back")
SMALL, PAGE1 = WRITE_BACK

LOST_WITH_THEIR_PARENT = (
    ("drops-what-cannot-be-spilled", PAGE1, 38),
    ("drops-what-cannot-be-spilled", SMALL, 66),
    ("a-failed-spill-loses-the-page", SMALL, 66),
    ("a-failed-spill-loses-the-page", SMALL, 78),
)
"""EVICT-05: of pages that were lost with the page above them nobody knows whether they could still be chosen."""


@pytest.mark.parametrize(("id", "config", "seed"), LOST_WITH_THEIR_PARENT)
def test_a_legal_cache_is_not_accused_again(id: str, config: Config, seed: int) -> None:
    item = Item(kind="random", config=config, seed=seed, ops=OPS)
    result = run_item(all_mutants()[id].target, item, Options(reruns=0, shrink_trials=0))
    assert not result.error and result.steps > 150
    assert [one.rules for one in result.findings] == []
