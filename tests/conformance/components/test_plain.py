"""The pools of a cache of components are judged as the plain caches that they are as well."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.checker.explain import allowed_text
from kvlitmus.conformance.checker.guard import Violation
from kvlitmus.conformance.generate.interpreter import Interpreter
from kvlitmus.conformance.generate.schedule import draw, table
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.plan import configs_of
from kvlitmus.conformance.run.verdicts import missing
from kvlitmus.conformance.specimen.cache import SpecimenTarget, component_request_target, component_target
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.spec.law.lifted import Lifted
from kvlitmus.spec.law.plan import knowable
from kvlitmus.spec.law.rule import Rule
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.prefix.components.hierarchy import LAWS, Hierarchy, hierarchies
from kvlitmus.spec.prefix.components.plain import Plain, plain_caches
from kvlitmus.spec.prefix.seen import Seen
from kvlitmus.spec.prefix.state import State

OWN = frozenset(id for id in all_rules() if id.startswith(("COMP-", "CREQ-")))
"""The rules of components."""


class Both(Checker):
    """Judges by the rules of plain caches where those of components are muted."""

    def lifted(self, one: Lifted[State, Seen]) -> None:
        self.own_judge.broken = ()
        super().lifted(one)


def played(
    layout: str, *, depth: int = 3, seeds: int = 1, target: SpecimenTarget = component_target, host: int = 0
) -> dict[str, Counter[str]]:
    """How often each rule of plain caches was judged where its premise was true, by pool and component."""
    found: dict[str, Counter[str]] = {}
    config = Config(
        page_size=4, pages=16, components=layout, host_pages=host, write="asked" if host else "write_through"
    )
    for seed in range(seeds):
        checker = Checker(target.make(config), config, target.profile, depth=depth)
        Interpreter(checker).play(draw(seed, 120, table(checker.capabilities), misuse=True))
        for where, judge in checker.lifts.items():
            found.setdefault(where, Counter()).update(judge.counted({}))
    return found


@functools.cache
def window() -> dict[str, Counter[str]]:
    return played("kv+swa", seeds=2)


def test_the_kv_is_judged_as_a_plain_cache() -> None:
    judged = window()["component kv"]
    assert {"TREE-02", "TREE-08", "POOL-12", "LOCK-01", "EVICT-01", "EVICT-06", "FRAME-01"} <= judged.keys()


def test_of_a_window_nobody_asks_for_a_prefix_that_is_found_from_the_root_on() -> None:
    judged, whole = window()["component swa"], window()["component kv"]
    assert {"TREE-01", "TREE-02", "TREE-05", "TREE-10"} <= whole.keys() - judged.keys()
    assert {"TREE-03", "TREE-07", "TREE-08", "LOCK-01", "EVICT-02", "FRAME-01"} <= judged.keys()


def test_a_pool_of_several_components_is_judged_as_one_and_the_kv_by_itself() -> None:
    judged = played("groups")
    assert {"POOL-07", "POOL-12", "EVICT-02", "EVICT-04", "FRAME-02", "TREE-08"} <= judged["pool blocks"].keys()
    assert {"TREE-02", "TREE-05", "TREE-10", "FRAME-01"} <= judged["component kv"].keys()
    assert not any(id.startswith("POOL-") for id in judged["component kv"].keys() - {"POOL-20"})


def test_the_host_is_judged_as_the_device_is() -> None:
    judged = played("kv+swa", host=12, seeds=2)
    pools = {"POOL-03", "POOL-04", "POOL-05", "POOL-09", "POOL-12"}
    laws = pools | {"TREE-07", "TREE-08", "LOCK-01", "EVICT-02", "EVICT-03", "EVICT-04", "FRAME-01", "FRAME-02"}
    assert laws | {"TREE-05"} <= judged["component kv on the host"].keys()
    assert laws <= judged["component swa on the host"].keys()


def test_without_a_snapshot_answers_and_counters_are_judged() -> None:
    told, counted = (set().union(*played("kv+swa", depth=depth).values()) for depth in (0, 1))
    assert {"TREE-01", "TREE-02", "TREE-03", "TREE-11", "POOL-04", "POOL-07", "POOL-15", "EVICT-21"} <= told
    assert counted - told == {"EVICT-02", "EVICT-24", "POOL-08", "POOL-10", "POOL-22", "TREE-22"} | OF_COUNTERS


def test_a_cache_that_serves_requests_is_judged_as_a_block_table() -> None:
    judged = played("groups", target=component_request_target)
    laws = {"POOL-11", "POOL-12", "TREE-07", "LOCK-01", "REQ-03", "POOL-05", "REQ-07", "REQ-10", "FRAME-02"}
    assert laws <= judged["pool blocks"].keys()
    rows = {"REQ-01", "REQ-02", "POOL-17", "TREE-02", "TREE-03", "TREE-05"}
    assert rows <= judged["component kv"].keys()
    unseen = played("groups", target=component_request_target, depth=0)
    assert rows - {"TREE-05"} <= unseen["component kv"].keys()


def test_where_no_components_are_asked_for_there_are_no_pools() -> None:
    config, other = Config(page_size=4, pages=16), Config(page_size=4, components="kv+swa")
    checker = Checker(component_target.make(other), config, component_target.profile)
    assert plain_caches(checker.setting) == ()


@pytest.mark.parametrize(
    ("mutant", "rules", "where"),
    [
        ("component-hit-of-the-main-pool", ("TREE-02", "EVENT-08"), "component kv"),
        ("component-entries-from-the-end", ("TREE-03",), "component kv"),
        ("component-place-for-two", ("POOL-03",), "pool blocks"),
        ("component-vetoes-the-others", ("TREE-05", "TREE-08", "TREE-09", "TREE-11"), "component kv"),
        ("component-recovery-frees-twice", ("POOL-12", "POOL-14", "TREE-12"), "component swa"),
        ("component-eviction-ignores-locks", ("LOCK-01", "EVICT-03"), "component state"),
        ("component-eviction-stops-early", ("EVICT-01",), "component kv"),
        ("request-moves-its-tail", ("REQ-02",), "component kv"),
    ],
)
def test_what_breaks_a_law_of_all_caches_is_named_by_that_and_by_its_place(
    mutant: str, rules: tuple[str, ...], where: str
) -> None:
    found, checker = broken(mutant)
    assert found.rules == rules
    assert allowed_text(checker.rules[rules[0]], checker.names, found.facts).startswith(f"{where}: ")


def broken(mutant: str) -> tuple[Violation, Checker]:
    """How a mutant breaks a rule of plain caches first, where those of components are muted."""
    one = next(each for each in all_mutants().values() if each.id == mutant)
    for seed in range(9):
        for config in one.configs:
            checker = Both(one.target.make(config), config, one.target.profile, muted=OWN)
            try:
                Interpreter(checker).play(draw(seed, 250, table(checker.capabilities)))
            except Violation as violation:
                return violation, checker
    raise AssertionError(f"{mutant} breaks nothing")


# Which laws of plain caches say nothing of components

OF_PREFIXES = (
    *("pool", "tree", "lock", "evict", "req", "hash", "prefetch", "event", "frame", "misuse"),
    *("tier", "backup", "load", "fetch", "life"),
)
"""The packs by which flat caches and hierarchies are judged."""

OF_COUNTERS = {"LOCK-06", "LOCK-07", "POOL-14", "TREE-19", "TREE-24"}
"""Laws of how many entries a cache says could be evicted, and are protected, below a snapshot."""

NEVER_ASKED = {"MISUSE-04", "MISUSE-10", "REQ-04", "REQ-11", "REQ-15"}
"""Laws for which pools have the ports, though no call on components comes to them, or what they count isn't told."""

PLAYED_TWICE = {"EVICT-07"}
"""Laws of two caches, whose steps are no pool's."""

PAGE = Path(__file__).parents[3] / "docs/components.md"


def every_pool() -> Iterator[Plain]:
    """The pools of caches of components and of requests, in all of their configurations."""
    for target in (component_target, component_request_target):
        for config in configs_of(target):
            yield from plain_caches(Checker(target.make(config), config, target.profile).setting)


def every_hierarchy() -> Iterator[Hierarchy]:
    """The pools of caches of components on both tiers, in all of their configurations."""
    for config in configs_of(component_target):
        setting = Checker(component_target.make(config), config, component_target.profile).setting
        yield from hierarchies(setting, plain_caches(setting))


def may_be_judged(rule: Rule, pools: list[Plain], both: list[Hierarchy]) -> bool:
    """Whether a law can be judged of one of these pools, by its ports and by the facts that can be told of it."""
    if rule.id in LAWS:
        return any(not missing(rule, one.setting.capabilities) for one in both)
    return any(
        not missing(rule, one.setting.capabilities)
        and all(knowable(name, one.hidden - {"usable"}, one.setting.capabilities) for name in rule.facts)
        for one in pools
    )


def listed(text: str) -> list[str]:
    """The rules that the first column of the table names, ranges spelled out."""
    found = []
    for row in re.findall(r"^\| ([A-Z]+-\d\d[^|]*) \|", text, re.MULTILINE):
        for pack, first, last in re.findall(r"([A-Z]+)-(\d\d)(?: to [A-Z]+-(\d\d))?", row):
            numbers = range(int(first), int(last or first) + 1)
            found += [f"{pack}-{number:02}" for number in numbers if f"{pack}-{number:02}" in all_rules()]
    return found


def test_each_law_of_plain_caches_is_judged_of_components_or_listed_with_its_reason() -> None:
    section = PAGE.read_text("utf-8").split("### Laws of plain caches that say nothing here")[1].split("\n## ")[0]
    pools, both = list(every_pool()), list(every_hierarchy())
    laws = [one for one in all_rules().values() if one.pack in OF_PREFIXES]
    judged = {one.id for one in laws if may_be_judged(one, pools, both)} - NEVER_ASKED | PLAYED_TWICE
    names = listed(section)
    assert len(names) == len(set(names))
    assert {one.id for one in laws} - judged == set(names)


def test_laws_that_no_call_comes_to_are_not_judged() -> None:
    """What is left out by hand stays silent: of a target that rejects misuse, in schedules that end with it."""
    counts = sum(
        (sum(played(name, seeds=2).values(), Counter[str]()) for name in ("kv+swa+state", "groups")), Counter()
    )
    assert NEVER_ASKED.isdisjoint(counts)
    assert {"MISUSE-02", "MISUSE-08"} <= counts.keys()
