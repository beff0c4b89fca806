"""Litmus tests of hierarchies call nothing that the ports rule out, whatever there is room for and worth doing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.engine import run_item
from kvlitmus.conformance.run.plan import TIER_CONFIGS, items
from kvlitmus.conformance.run.results import Options
from kvlitmus.conformance.specimen.cache import SpecimenTarget

OPTIONS = Options(reruns=0, shrink_trials=0)


def alarms(target: SpecimenTarget, config: Config) -> set[tuple[str, str]]:
    """What litmus tests say of a legal cache: each that finds something broken, or fails."""
    results = [run_item(target, item, OPTIONS) for item in items([config], target.profile, steps=0)]
    found = {(one.item, rule) for one in results for finding in one.findings for rule in finding.rules}
    return found | {(one.item, one.error) for one in results if one.error}


@pytest.mark.parametrize(("pages", "host_pages"), [(1, 8), (2, 1), (4, 4)])
@pytest.mark.parametrize("config", TIER_CONFIGS[1:4], ids=lambda config: config.label)
def test_there_is_hardly_any_room(config: Config, pages: int, host_pages: int) -> None:
    """A request that doesn't begin for want of memory is neither published nor ended."""
    assert alarms(SpecimenTarget(), replace(config, pages=pages, host_pages=host_pages)) == set()
