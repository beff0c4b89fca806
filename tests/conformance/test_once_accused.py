"""Legal caches in the schedules in which a long night once accused one of them: they stay silent.

`tools/night.py` plays as many as CI has no time for.  What it finds is mended, and its schedule is kept here.
"""

from __future__ import annotations

import pytest

from kvlitmus.conformance.checker.calls.prefix import request, tier, tree
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.litmus.keys import prompt
from kvlitmus.conformance.litmus.prefix.scenes import computed
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.engine import play, run_item
from kvlitmus.conformance.run.plan import COMPONENT_HOST_CONFIGS, OPS, RANK_CONFIGS, TIER_CONFIGS
from kvlitmus.conformance.run.results import Item, Options
from kvlitmus.mutants.registry import all_mutants

WRITE_BACK = tuple(one for one in TIER_CONFIGS if one.write == "write_back")
SMALL, PAGE1 = WRITE_BACK

LOST_WITH_THEIR_PARENT = (
    ("drops-what-cannot-be-spilled", PAGE1, 38, 3),
    ("drops-what-cannot-be-spilled", SMALL, 66, 3),
    ("a-failed-spill-loses-the-page", SMALL, 66, 3),
    ("a-failed-spill-loses-the-page", SMALL, 78, 3),
)
"""EVICT-05: of pages that were lost with the page above them nobody knows whether they could still be chosen."""

LOADED_TWICE = (("null-rank-notes-copies-in-every-call", RANK_CONFIGS[0], 9272, 3),)
"""POOL-01: a page was computed while it was loaded; once the load is noted, what that had is free for the same call."""

NO_PART_OF_ITS_OWN = (("component-backups-evict-nodes-for-each-part", COMPONENT_HOST_CONFIGS[1], 4161, 0),)
"""COMP-13: the end of a backup by its path lacked nothing, so that no part was begun that protects it."""


@pytest.mark.parametrize(
    ("id", "config", "seed", "depth"), [*LOST_WITH_THEIR_PARENT, *LOADED_TWICE, *NO_PART_OF_ITS_OWN]
)
def test_a_legal_cache_is_not_accused_again(id: str, config: Config, seed: int, depth: int) -> None:
    item = Item(kind="random", config=config, seed=seed, ops=OPS)
    result = run_item(all_mutants()[id].target, item, Options(depth=depth, reruns=0, shrink_trials=0))
    assert not result.error and result.steps > 150
    assert [one.rules for one in result.findings] == []


def due_before_it_left(checker: Checker) -> None:
    """What an insertion has made due leaves the device, and comes again by a chunk, which makes nothing due."""
    key = prompt(checker, "ab")
    computed(checker, key)
    tree.evict(checker, checker.capacity)
    request.begin(checker, 1, key)
    request.publish(checker, 1, chunked=True)
    tier.tick(checker)
    assert checker.below.paths == () and checker.below.left == frozenset()


@pytest.mark.parametrize("depth", range(4))
def test_a_backup_is_not_owed_to_what_has_left(depth: int) -> None:
    one = all_mutants()["nothing-counts-and-backups-wait"]
    _, violation = play(one.target, one.configs[0], Options(depth=depth), due_before_it_left)
    assert violation is None
