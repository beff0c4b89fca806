"""Legal choices together: what a profile declares in two fields, and in one field under every policy, accuses nobody.

Each null mutant alone is played in the configurations where its part is known to matter.  A rule may go by one field
and forget another one, so here are all pairs of null mutants that replace different parts and declare different
fields, put together; and each that declares something, in configurations in which every two policies, sizes and kinds
of storage come together.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from typing import Any, NamedTuple

import pytest

from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.conformance.run.engine import run_item
from kvlitmus.conformance.run.plan import TIERED
from kvlitmus.conformance.run.results import Item, Options
from kvlitmus.conformance.specimen.cache import SpecimenTarget
from kvlitmus.conformance.specimen.parts import PROFILE, Parts
from kvlitmus.mutants.mutant import Mutant
from kvlitmus.mutants.registry import all_mutants, mutant_of
from kvlitmus.spec.words.policies import POLICIES, STOPS, WRITES

OPS = 200
BY_DAY = 80
"""Every eightieth case is played by day, others in each module's order; all of them at night."""

DECLARING = [one for one in all_mutants().values() if one.null and one.profile != PROFILE]

ROOMS: Mapping[str, tuple[Any, ...]] = {"pages": (12, 20), "bigram": (False, True), "page_size": (1, 2, 4)}
FLAT: Mapping[str, tuple[Any, ...]] = {"policy": tuple(POLICIES), **ROOMS}
TIERS: Mapping[str, tuple[Any, ...]] = {
    **FLAT,
    "write": WRITES,
    "stop": STOPS,
    "storage": ("none", "attached", "later"),
    "host_pages": (6, 16),
}
"""What configurations differ in; every two values of two fields are in one of :func:`covering`."""


def covering(values: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Few choices of a value for each name, in which every two values of two names come together."""
    drawn, rows = random.Random(1), list[dict[str, Any]]()
    pairs = itertools.combinations(values, 2)
    left = {((a, x), (b, y)) for a, b in pairs for x in values[a] for y in values[b]}
    while left:
        row = dict(min(left, key=repr))
        for name in drawn.sample([*values], len(values)):
            if name not in row:
                row[name] = max(
                    drawn.sample([*values[name]], len(values[name])),
                    key=lambda value: sum(pair in left for pair in pairs_of({**row, name: value})),
                )
        left -= pairs_of({name: row[name] for name in values})
        rows.append(row)
    return rows


def pairs_of(row: Mapping[str, Any]) -> set[tuple[tuple[str, Any], tuple[str, Any]]]:
    """All pairs of a row, each in the order of the names."""
    known = [(name, row[name]) for name in TIERS if name in row]
    return set(itertools.combinations(known, 2))


class Case(NamedTuple):
    """What is played: the mutants whose parts and profile are put together, in one configuration."""

    id: str
    mutants: tuple[Mutant, ...]
    config: Config


def tiered(one: Mutant) -> bool:
    """Whether it is of a hierarchy."""
    return one.configs[0].tiered


def config_of(row: Mapping[str, Any]) -> Config:
    """A configuration with these values, in which prefetches are worth it where there is storage."""
    if "write" not in row:
        return Config(**row)
    units = 0 if row["storage"] == "none" else row["page_size"]
    return replace(TIERED, **row, threshold=2 * units, rate_limit=16 * units)


def in_configurations() -> Iterator[Case]:
    """Each null mutant of flat caches and hierarchies under every policy, and under the write policies it is for."""
    rows = {False: [config_of(row) for row in covering(FLAT)], True: [config_of(row) for row in covering(TIERS)]}
    for one in DECLARING:
        if not any(config.apart for config in one.configs):
            writes = {config.write for config in one.configs}
            for config in rows[tiered(one)]:
                if config.write in writes or not tiered(one):
                    yield Case(f"{one.id} {config.label}", (one,), config)


def in_pairs() -> Iterator[Case]:
    """Every two null mutants that can be put together, in one of the configurations that both are for."""
    for at, (one, other) in enumerate(itertools.combinations(DECLARING, 2)):
        configs = [config for config in one.configs if config in other.configs]
        if configs and go_together(one, other):
            yield Case(f"{one.id} {other.id}", (one, other), configs[at % len(configs)])


def go_together(one: Mutant, other: Mutant) -> bool:
    """Whether they share no part and no field.

    Nor do a cache that serves requests on components and one that inserts go together.
    """
    pairs = zip(own(one.id), own(other.id), strict=True)
    return type(one.target) is type(other.target) and all(a.keys().isdisjoint(b) for a, b in pairs)


def together(one: Mutant, *others: Mutant) -> SpecimenTarget:
    """A specimen with the parts of all, which declares what all declare."""
    parts, declared = own(one.id)
    for other in others:
        parts, declared = parts | own(other.id)[0], declared | own(other.id)[1]
    made: type[SpecimenTarget] = type(one.target)
    return made(Parts(**parts), replace(PROFILE, **declared))


@cache
def own(id: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parts and the declarations of a mutant that are not the usual ones."""
    one = all_mutants()[id]
    return differences(Parts(), one.target.parts), differences(PROFILE, one.profile)


def differences(usual: Any, own: Any) -> dict[str, Any]:
    """In what a dataclass differs from the usual one."""
    return {
        one.name: getattr(own, one.name) for one in fields(usual) if getattr(own, one.name) != getattr(usual, one.name)
    }


CASES = [*in_pairs(), *in_configurations()]

FOUND = {
    "room-for-all-on-both-tiers page=2 filo pages=20 host=6 write_back storage=later wait_complete",
    "what-is-freed-waits requests-leave-two-pages",
}
"""What nights have found: a copy that fails had made room for itself, and others make it again (EVICT-06); what a
filter keeps out of the cache waits to be free too (POOL-12).
"""


@pytest.mark.parametrize(
    ("at", "case"),
    [
        pytest.param(at, case, id=case.id, marks=[pytest.mark.nightly] * (at % BY_DAY != 0 and case.id not in FOUND))
        for at, case in enumerate(CASES)
    ],
)
def test_legal_choices_together_raise_no_alarm(at: int, case: Case) -> None:
    item = Item(kind="random", config=case.config, seed=at, ops=OPS)

    result = run_item(together(*case.mutants), item, Options(reruns=0, shrink_trials=0))

    assert not result.findings, (case.config, result.findings)
    assert not result.error
    assert result.steps


def test_every_two_fields_that_are_declared_apart_come_together() -> None:
    """So do every two values of a configuration."""
    assert len(CASES) > 1_000
    for values in (FLAT, TIERS):
        rows = covering(values)
        for (a, xs), (b, ys) in itertools.combinations(values.items(), 2):
            assert {(row[a], row[b]) for row in rows} == set(itertools.product(xs, ys))
        assert len(rows) < 2 * 7 * 3


def test_a_pair_is_accused_where_one_choice_is_not_declared() -> None:
    """What is put together does what both do: declared by half, it breaks a rule."""
    waits, commits = (mutant_of(f"legal.{module}", id) for module, id in HALVES)
    assert go_together(waits, commits)
    both = together(waits, commits)
    for field in ("backup_moment", "commit"):
        half = SpecimenTarget(both.parts, replace(both.profile, **{field: getattr(Profile(), field)}))
        items = [Item(kind="random", config=config, seed=7, ops=OPS) for config in commits.configs[:3]]
        assert any(run_item(half, item, Options(reruns=0, shrink_trials=0)).findings for item in items), field


HALVES = (("prefix.tier", "backups-begin-at-the-tick"), ("choices", "commits-at-the-tick"))
