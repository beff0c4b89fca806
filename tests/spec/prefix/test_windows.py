"""What windows say of unseen evictions, held against all histories that a correct cache can have."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.specimen.cache import SpecimenTarget
from kvlitmus.conformance.specimen.parts import PROFILE, Parts
from kvlitmus.mutants.legal.prefix.flat import EvictsAhead, WholeNodesGo
from kvlitmus.spec.prefix import calls
from kvlitmus.spec.words.policies import POLICIES
from tests.spec.support.histories import all_histories, noted
from tests.support.night import by_turns

SMALL = Config(page_size=1, pages=8)
PAGED = Config(page_size=2, pages=12)
AHEAD = replace(PROFILE, evict_slack=2)
NODES = replace(PROFILE, evict_granularity="node")
SEEDS = range(3)
CACHES = {
    "strict": SpecimenTarget(Parts(), PROFILE),
    "ahead": SpecimenTarget(Parts(requests=EvictsAhead), AHEAD),
    "nodes": SpecimenTarget(Parts(tree=WholeNodesGo), NODES),
}


def compared(cache: str, config: Config, depth: int) -> tuple[int, int, list[str]]:
    """Of how many pages it was known whether they are there, of how many it could be, and what was claimed wrongly.

    Without counters a refused request may have evicted any number of pages, and what a schedule shows after that isn't
    counted.
    """
    said = could = 0
    wrong = []
    for seed in SEEDS:
        setting, steps = noted(CACHES[cache], config, depth, seed)
        refused = False
        for step, states in all_histories(setting, steps):
            known = step.known
            there = frozenset(known.device.pages) - known.device.doubt.fallen
            certain = there - known.device.doubt.open
            always = frozenset.intersection(*(frozenset(state.device.pages) for state in states))
            ever = frozenset.union(*(frozenset(state.device.pages) for state in states))
            if not certain <= always or not ever <= there:
                wrong.append(f"{step.call}: {certain - always} are not certain, {ever - there} are possible")
            refused |= depth == 0 and step.answer is None and isinstance(step.call, calls.Begin | calls.Grow)
            if not refused:
                said += len(known.device.pages) - len(there - certain)
                could += len(known.device.pages) - len(ever - always)
    return said, could, wrong


@pytest.mark.parametrize("depth", [0, 1])
@pytest.mark.parametrize("config", [SMALL, PAGED], ids=["page=1", "page=2"])
@pytest.mark.parametrize("policy", by_turns(POLICIES))
@pytest.mark.parametrize("cache", CACHES)
def test_what_is_certain_is_so_in_every_history(cache: str, policy: str, config: Config, depth: int) -> None:
    said, could, wrong = compared(cache, replace(config, policy=policy), depth)

    assert not wrong
    assert 0 < said <= could
    if cache == "strict" or depth == 1:
        assert said == could, "all is known that can be"


@pytest.mark.parametrize("cache", CACHES)
def test_events_leave_no_doubt(cache: str) -> None:
    for seed in SEEDS:
        _, steps = noted(CACHES[cache], SMALL, 2, seed)

        assert any(isinstance(step.call, calls.Evict) for step in steps)
        assert all(not step.known.device.doubt.unsure for step in steps)
        assert all(step.known.device.pages.keys() == step.told for step in steps)
