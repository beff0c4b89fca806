"""Litmus tests of hierarchies call nothing that the ports rule out, whatever there is room for and worth doing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvlitmus.conformance.litmus.scenes import letters
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.engine import make_checker, run_item
from kvlitmus.conformance.run.plan import TIER_CONFIGS, items
from kvlitmus.conformance.run.results import Options
from kvlitmus.conformance.specimen.cache import SpecimenTarget
from kvlitmus.conformance.specimen.parts import PROFILE

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


@pytest.mark.parametrize("threshold", [256, 1 << 30])
def test_no_prompt_is_worth_a_prefetch_or_a_load(threshold: int) -> None:
    """Prompts have no more pages than there is room for, and one, however many it takes to be worth something."""
    target = SpecimenTarget(profile=replace(PROFILE, load_threshold=threshold))
    assert alarms(target, replace(TIER_CONFIGS[1], threshold=threshold)) == set()


@pytest.mark.parametrize("size", [1, 4])
def test_prompts_may_have_many_pages(size: int) -> None:
    """Letters go on behind those of the alphabet, one page each, all of them different."""
    config = Config(page_size=size, pages=800)
    key = letters(make_checker(SpecimenTarget(), config, OPTIONS), 700)
    pages = {key.tokens[at : at + size] for at in range(0, len(key.tokens), size)}
    assert len(key.tokens) == 700 * size and len(pages) == 700
