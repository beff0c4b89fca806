"""Each value of a profile means something: a legal cache declares it and passes, and judged by another it is accused.

The cases are made from the table of legal values.  Where a value has no such cache, or another value accuses nobody,
the tables below say why.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kvlitmus.conformance.generate.schedule import table
from kvlitmus.conformance.ports import Config, Profile, capabilities_of
from kvlitmus.conformance.run.engine import run_item
from kvlitmus.conformance.run.plan import (
    COMPONENT_CONFIGS,
    COMPONENT_HOST_CONFIGS,
    COMPONENT_POLICY_CONFIGS,
    CONFIGS,
    OPS,
    SPARSE_CONFIGS,
    STORE_CONFIGS,
    TIER_CONFIGS,
    configs_of,
    items,
)
from kvlitmus.conformance.run.results import Item, Options
from kvlitmus.conformance.specimen.cache import SpecimenTarget
from kvlitmus.mutants.mutant import Mutant
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.words.profile import PROFILE_VALUES
from kvlitmus.zoo import ZOO, target_of
from tests.support.night import by_turns

SPEC = Path(__file__).parents[3] / "spec" / "kvlitmus" / "spec"

SPECIMEN = SpecimenTarget()
USUAL = SPECIMEN.profile


def usual(name: str, *configs: Config) -> Mutant:
    """The specimen in some configurations."""
    return Mutant(id=name, recipe="as it is", kills=(), target=SPECIMEN, configs=configs)


LEGAL = [
    usual("specimen", *CONFIGS[:2], *(Config(page_size=4, policy=policy) for policy in ("slru", "fifo", "lfu"))),
    usual("specimen in little memory", Config(page_size=1, pages=8), Config(page_size=4, pages=8)),
    usual("specimen as a hierarchy", *TIER_CONFIGS),
    usual("specimen as a page store", *STORE_CONFIGS),
    usual("specimen as a sparse host pool", *SPARSE_CONFIGS[:2]),
    usual("specimen of components", *COMPONENT_CONFIGS, *COMPONENT_POLICY_CONFIGS),
    usual("specimen with components on the host", *COMPONENT_HOST_CONFIGS),
    *(one for one in all_mutants().values() if one.null),
    *(
        Mutant(id=name, recipe="of the zoo", kills=(), target=target_of(name), configs=configs_of(target_of(name))[:3])
        for name in ZOO
    ),
]

TRIED: dict[str, tuple[Any, ...]] = {
    one.name: values if isinstance(values := PROFILE_VALUES[one.name], tuple) else ()
    for one in fields(Profile)
    if one.name in PROFILE_VALUES
} | {one.name: (False, True) for one in fields(Profile) if type(one.default) is bool}
"""The values of each field that are tried; of numbers the usual one and those that legal caches declare."""

NO_CACHE: dict[tuple[str, Any], str] = {}
"""Why no cache of the suite's own declares a value."""

READ_ELSEWHERE: dict[str, str] = {
    "attach": "it decides which calls are made, not what they amount to: the checker has the capability reattach",
    "second_prefetch": "it decides which calls are made, not what they amount to: calls.fetch.prefetch",
    "component_grants": "it decides which calls are made: together of the actions of components, inserts of litmus",
    "component_points": "it decides which calls are made: compute of the actions of components, inserts of litmus",
    "sparse_staged": "the calls on sparse pools hand it to what is known of one (sparse_state.SparseState.keeps)",
    "sparse_grows": "the calls on sparse pools hand it to what is known of one (sparse_state.SparseState.grows)",
    "sparse_ratio": "the calls on sparse pools hand it to what is known of one (sparse_state.SparseState.ratio)",
}
"""Where a field is read that no function of the spec reads."""

NEVER = "what the value excludes is never passed to such a cache, so there is nothing to see"
LEAVE = "the value gives leave, and nobody has to take it"

NOT_ACCUSED: dict[tuple[str, Any, Any], str] = {
    ("align", "round_up", "reject"): NEVER,
    ("least_key", 0, 3): NEVER,
    ("vocabulary", 1 << 32, 3): NEVER,
    ("namespaces", "text", "none"): NEVER,
    ("namespaces", "text", "parts"): NEVER,
    ("attach", "any_time", "at_start"): NEVER,
    ("second_prefetch", "refused", "undefined"): NEVER,
    ("evict_granularity", "page", "node"): LEAVE,
    ("component_order", "policy", "own"): LEAVE,
    ("evict_moment", "call", "alloc"): LEAVE,
    ("evict_order", "policy", "own"): LEAVE,
    ("match_ends", "page", "node"): LEAVE,
    ("match_ends", "page", "inside"): LEAVE,
    ("clock", "counter", "wall"): LEAVE,
    ("clock", "wall", "counter"): "its adapter orders it, so that it counts as a counter does",
    **{("tick_uses", 1, uses): LEAVE for uses in (3, 4)},
    **{("event_delay", 0, calls): LEAVE for calls in (1, 2)},
    ("release_delay", 0, 2): LEAVE,
    ("release_moment", "given", "taken"): LEAVE,
    ("unlock_delay", 0, 2): LEAVE,
    ("spare_pages", 0, 2): LEAVE,
    ("backup_filter", "none", "own"): LEAVE,
    ("backup_moment", "insert", "tick"): LEAVE,
    ("evict_slack", 0, 2): LEAVE,
    ("watermark", 0, 2): LEAVE,
    ("expiry", "never", "lookup"): LEAVE,
    ("admission", "all", "own"): LEAVE,
    ("evict_amount", "lack", "need"): LEAVE,
    ("evict_batch", 1, 3): LEAVE,
    ("load_threshold", 0, 6): LEAVE,
    ("host_duplicates", "kept", "reclaimed"): LEAVE,
    ("store_put", "first", "either"): LEAVE,
    **{("store_room", "endless", other): LEAVE for other in ("refuses", "evicts")},
    ("table_gaps", "none", "left"): LEAVE,
    ("copy_acks", "in_order", "any_order"): LEAVE,
    ("fill_matched", False, True): LEAVE,
    ("store_checks", "bytes", "length"): LEAVE,
    **{("component_cascade", one, two): LEAVE for one, two in (("base", "leaf"), ("base", "later"), ("leaf", "later"))},
    ("component_copies", "one", "kept"): LEAVE,
    ("component_extent", "boundary", "path"): LEAVE,
    ("component_host_spares", "nothing", "device"): LEAVE,
    ("component_grants", "each", "paired"): NEVER,
    ("component_grants", "each", "whole"): NEVER,
    ("component_grants", "paired", "whole"): NEVER,
    ("component_points", "any", "end"): NEVER,
    ("misuse", "reject", "undefined"): "nothing is judged then",
    ("reserve", "submit", "hit"): "when a late reservation is made is left open, so an early one is one",
    ("duplicates", "caller_frees", "kept"): "the slots are the caller's either way; whether he has to free them is his",
    ("backup_parent", "skip", "chain"): "a page was used as often as those below it: the one above is due first",
    ("backup_parent", "chain", "skip"): "a page was used as often as those below it: the one above is due first",
}
"""Why a cache that declares a value is not accused, or can't be, when it is judged by another."""

FIRST_SEED = {"timeout_basis": 12, "timeout_from": 3, "refused_begin": 170}
"""Where the schedules begin that tell values apart which few schedules do."""


SHOWN_BY = {
    ("aborted", "dropped"): "arrays",  # which isn't told how far an aborted request has come
    ("hit_counts", "match"): "matches-count-as-hits",
    ("hit_counts", "none"): "leaves-grow",
    ("timeout_basis", "hit"): "waits-for-what-was-found",
    ("store_put", "first"): "specimen as a page store",
    ("misuse", "undefined"): "misuse-is-undefined",
    ("restored_counts", False): "specimen as a hierarchy",
    ("refused_begin", "renews"): "specimen in little memory",
    ("event_copies", "each"): "block_copies",
    ("copy_locks", "counted"): "specimen as a hierarchy",
    ("sparse_count", "empty"): "specimen as a sparse host pool",
    ("sparse_staged", "first"): "specimen as a sparse host pool",
    ("sparse_grows", "page"): "specimen as a sparse host pool",
    ("sparse_ratio", 1): "specimen as a sparse host pool",
    ("window_root", "shorter"): "specimen of components",
    ("component_cascade", "base"): "specimen of components",
    ("component_grants", "each"): "specimen of components",
    ("component_refill", "fills"): "specimen of components",
    ("component_points", "any"): "specimen of components",
    ("component_order", "policy"): "specimen of components",
    ("component_drop", "none"): "specimen of components",
    ("component_shortfall", "kept"): "specimen of components",
    ("component_fetch_window", "whole"): "specimen of components",
    ("component_landing", "ended"): "specimen with components on the host",
    ("component_extent", "boundary"): "specimen with components on the host",
    ("component_host_spares", "nothing"): "specimen with components on the host",
}
"""The cache that shows the meaning of a value where those that differ least from the usual one don't."""


def value_cases() -> Iterator[tuple[str, Any]]:
    """Each field with each of its values."""
    for name, values in TRIED.items():
        declared = sorted({getattr(one.profile, name) for one in LEGAL})
        yield from ((name, value) for value in (values or declared))


VALUES = list(value_cases())


@cache
def declaring(name: str, value: Any) -> list[Mutant]:
    """The legal caches that declare a value, those first that depart from the usual one in it alone."""
    found = [one for one in LEGAL if getattr(one.profile, name) == value]
    shown = SHOWN_BY.get((name, value), "")
    return sorted(found, key=lambda one: (one.id != shown, differences(one.profile)))


def differences(profile: Profile) -> int:
    """In how many fields a profile is not the specimen's."""
    return sum(getattr(profile, one.name) != getattr(USUAL, one.name) for one in fields(profile))


class Judged:
    """A legal cache, judged by another profile than its own."""

    def __init__(self, one: Mutant, profile: Profile) -> None:
        self.one = one
        self.profile = profile

    def make(self, config: Config) -> Any:
        """A fresh one, which knows nothing of it."""
        return self.one.target.make(config)


def alarms(target: Any, one: Mutant, profile: Profile, depth: int, seeds: range, *, litmus: bool = False) -> set[str]:
    """What is found broken by a few schedules in each configuration, and by litmus tests."""
    options = Options(depth=depth, reruns=0, shrink_trials=0)
    todo = [Item(kind="random", config=config, seed=seed, ops=OPS) for seed in seeds for config in one.configs]
    broken: set[str] = set()
    for item in itertools.chain(todo, items(one.configs, profile, steps=0) if litmus else ()):
        result = run_item(target, item, options)
        broken.update(rule for finding in result.findings for rule in finding.rules)
        broken.update(["error: " + result.error] if result.error else [])
        if broken:
            break
    return broken


@pytest.mark.parametrize("name", TRIED)
def test_a_field_has_values_enough_and_is_read_by_the_oracle(name: str) -> None:
    assert len({value for field, value in VALUES if field == name}) >= 2
    readers = [path.name for path in sorted(SPEC.rglob("*.py")) if path.name != "profile.py" and reads(path, name)]
    assert readers or READ_ELSEWHERE.get(name), f"nobody reads profile.{name}"
    assert not (readers and name in READ_ELSEWHERE)


@cache
def attributes_of(path: Path) -> frozenset[str]:
    """The attributes that a module reads, by name."""
    tree = ast.parse(path.read_text())
    return frozenset(node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute))


def reads(path: Path, name: str) -> bool:
    """Whether a module reads an attribute of this name."""
    return name in attributes_of(path)


@pytest.mark.parametrize(("name", "value"), VALUES, ids=str)
def test_a_legal_cache_declares_it_and_is_among_those_that_are_played(name: str, value: Any) -> None:
    """That all of those pass at every depth is shown in tests/conformance/test_zoo.py and test_mutants.py."""
    found = declaring(name, value)
    assert bool(found) != ((name, value) in NO_CACHE), (name, value)
    for one in found[:1] if value != getattr(USUAL, name) else ():
        assert one.null or one.id in ZOO
        assert table(capabilities_of(one.target.make(one.configs[0])))


@pytest.mark.parametrize(
    ("name", "value", "other"),
    by_turns(
        [
            (name, value, other)
            for name, value in VALUES
            for other in [other for field, other in VALUES if field == name and other != value]
            if getattr(USUAL, name) in (value, other)
            and (name, value, other) not in NOT_ACCUSED
            and (name, value) not in NO_CACHE
        ]
    ),
    ids=str,
)
def test_judged_by_another_value_it_is_accused(name: str, value: Any, other: Any) -> None:
    broken: set[str] = set()
    seeds = range(start := FIRST_SEED.get(name, 0), start + 4)
    for one in declaring(name, value)[:6]:
        profile = replace(one.profile, **{name: other})
        broken |= alarms(Judged(one, profile), one, profile, 3, seeds, litmus=True)
        if broken:
            break
    assert broken, f"a cache of {name}={value!r} passes for one of {other!r}"


DECIDED_BY = {
    "POOL-01": "align",
    "POOL-06": "reserved",
    "POOL-08": "evict_moment",
    "POOL-14": "evict_moment",
    "POOL-20": "evict_moment",
    "TREE-01": "match_ends",
    "TREE-02": "match_cap",
    "TREE-10": "match_cap",
    "TREE-11": "duplicates",
    "TREE-12": "duplicates",
    "TREE-13": "hit_counts",
    "TREE-04": "expiry",
    "TREE-05": "table_gaps",
    "LOCK-02": "unlock_delay",
    "LOCK-04": "copy_locks",
    "TREE-24": "unlock_delay",
    "REQ-04": "admission",
    "REQ-14": "watermark",
    "BACKUP-03": "copy_acks",
    "EVENT-02": "event_copies",
    "EVENT-04": "event_copies",
    "SPARSE-31": "copy_acks",
    "STORE-04": "store_room",
    "STORE-06": "store_put",
    "STORE-17": "store_room",
}
"""Rules whose explanation names the field of the profile that decides."""


@pytest.mark.parametrize("id", DECIDED_BY)
def test_an_explanation_names_the_field_that_decides(id: str) -> None:
    assert DECIDED_BY[id] in all_rules()[id].allowed


def test_reasons_are_for_values_that_there_are() -> None:
    assert {(name, value) for name, value in NO_CACHE} <= set(VALUES)
    assert all((name, value) in VALUES and (name, other) in VALUES for name, value, other in NOT_ACCUSED)
    assert set(READ_ELSEWHERE) <= set(TRIED)
