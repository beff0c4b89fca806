"""Litmus tests call nothing that the ports rule out or that a cache hasn't got, whatever there is room for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.isolation.current_run import CurrentRun, MethodMask
from kvlitmus.conformance.litmus.prefix.scenes import letters
from kvlitmus.conformance.litmus.registry import all_litmus
from kvlitmus.conformance.ports import PORTS, Config
from kvlitmus.conformance.run.engine import make_checker, play, run_item
from kvlitmus.conformance.run.plan import CONFIGS, TIER_CONFIGS, items
from kvlitmus.conformance.run.results import Item, Options
from kvlitmus.conformance.specimen.cache import SpecimenTarget
from kvlitmus.conformance.specimen.parts import PROFILE
from tests.support.night import by_turns

OPTIONS = Options(reruns=0, shrink_trials=0)


def alarms(target: Any, config: Config) -> set[tuple[str, str]]:
    """What litmus tests say of a legal cache: each that finds something broken, or fails."""
    results = [run_item(target, item, OPTIONS) for item in items([config], target.profile, steps=0)]
    found = {(one.item, rule) for one in results for finding in one.findings for rule in finding.rules}
    return found | {(one.item, one.error) for one in results if one.error}


@pytest.mark.parametrize(("pages", "host_pages"), [(1, 8), (2, 1), (4, 4)])
@pytest.mark.parametrize("config", by_turns(TIER_CONFIGS[1:4]), ids=lambda config: config.label)
def test_there_is_hardly_any_room(config: Config, pages: int, host_pages: int) -> None:
    """A request that doesn't begin for want of memory is neither published nor ended."""
    assert alarms(SpecimenTarget(), replace(config, pages=pages, host_pages=host_pages)) == set()


@pytest.mark.parametrize("threshold", by_turns([256, 1 << 30], every=2))
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


class Noting(Checker):
    """A checker that notes which methods it was asked to call."""

    def __init__(self, *args: Any, **named: Any) -> None:
        self.asked: set[str] = set()
        super().__init__(*args, **named)

    def call(self, text: str, method: str, *args: Any, **kwargs: Any) -> Any:
        self.asked.add(method)
        return super().call(text, method, *args, **kwargs)


NEEDED: dict[str, tuple[str, ...]] = {**PORTS, "lookup": ("match",), "reattach": PORTS["lifecycle"]}
"""The methods that a test may call which has such a need."""


@pytest.mark.parametrize(
    "config", by_turns([*CONFIGS[1:3], *TIER_CONFIGS[2:4]], every=2), ids=lambda config: config.label
)
def test_a_litmus_test_calls_what_it_needs_alone(config: Config) -> None:
    """A cache may lack any port that a litmus test doesn't say that it needs."""
    beyond: dict[str, set[str]] = {}
    for item in items([config], PROFILE, steps=0):
        if item.kind == "litmus":
            test, run = all_litmus()[item.name], CurrentRun()
            run.checker_type = Noting
            checker, _ = play(SpecimenTarget(), config, OPTIONS, test.program, run)
            assert isinstance(checker, Noting)
            allowed = {method for port in test.needs for method in NEEDED.get(port, ())}
            if config.storage == "attached":
                allowed |= {"attach"}
            beyond[test.id] = checker.asked - allowed
    assert {id: asked for id, asked in beyond.items() if asked} == {}


class Blind:
    """The specimen, without a look at the contents of its slots."""

    profile = PROFILE

    def make(self, config: Config) -> Any:
        return MethodMask(SpecimenTarget().make(config), frozenset(PORTS["data"]))


@pytest.mark.parametrize(
    "config", by_turns([replace(TIER_CONFIGS[0], storage="none"), *TIER_CONFIGS[2:4]]), ids=lambda one: one.label
)
def test_contents_need_not_be_seen(config: Config) -> None:
    """What a load brings, and what is put, is believed to be what belongs there."""
    assert alarms(Blind(), config) == set()
    drawn = [Item(kind="random", config=config, seed=seed, ops=120) for seed in range(3)]
    results = [run_item(Blind(), item, OPTIONS) for item in drawn]
    assert [finding.rules for one in results for finding in one.findings] == []
