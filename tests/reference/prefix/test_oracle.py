"""The reference is the oracle: given the choices of a cache, it answers as the cache did, and is in the same state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvlitmus import zoo
from kvlitmus.conformance.generate.interpreter import Interpreter
from kvlitmus.conformance.generate.schedule import OP_BYTES, Op, decode, draw, table
from kvlitmus.conformance.ports import Config, Unsupported
from kvlitmus.conformance.ports.choices import POLICIES
from kvlitmus.conformance.run.plan import TIER_CONFIGS, configs_of
from kvlitmus.conformance.specimen.cache import SpecimenTarget
from kvlitmus.conformance.specimen.parts import Parts
from kvlitmus.conformance.specimen.prefix.fetch import Prefetcher
from kvlitmus.conformance.specimen.prefix.works import Fetch, Work
from kvlitmus.mutants.mutant import Mutant
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.spec.words.names import Names
from tests.support import night
from tests.support.configs import TIER_POLICY_CONFIGS
from tests.support.oracle import Differs, Oracle
from tests.support.tier_oracle import TieredOracle


def made(name: str, config: Config) -> bool:
    """Whether a cache of the zoo takes a configuration."""
    try:
        zoo.target_of(name).make(config)
    except Unsupported:
        return False
    return True


def followed(config: Config) -> bool:
    """Whether it is of a kind that this oracle follows; the others have references of their own."""
    return config.pool == "device" and not config.apart


FLAT = (
    *(Config(page_size=size, policy=policy, pages=pages) for policy in POLICIES for size, pages in ((1, 8), (4, 12))),
    Config(page_size=4, bigram=True),
    Config(page_size=2, pages=6),
)
TIERED = (*TIER_CONFIGS, *TIER_POLICY_CONFIGS)
CONFIGS = (*FLAT, *TIERED)
SEEDS = range(3)
"""Of legal variations and the zoo."""
TURNS = pytest.mark.parametrize("seeds", [range(1), pytest.param(range(1, 3), marks=pytest.mark.nightly)], ids=str)
"""One schedule by day in each configuration, and others at night."""
OPERATIONS = 150
EACH = 134
"""So many steps at least are compared of each schedule of the specimen's."""
LEGAL = {
    f"{one.id}-{config.label}": (one, config)
    for one in all_mutants().values()
    for config in one.configs
    if one.null and followed(config)
}
"""Legal variations of the specimen, with each configuration in which they are tried."""


def by_turns(caches: Mapping[str, str]) -> Iterator[Any]:
    """Each cache in one configuration by day, which is another one from each to the next; the others at night."""
    for place, id in enumerate(dict.fromkeys(caches.values())):
        names = [name for name, cache in caches.items() if cache == id]
        for name in names:
            yield pytest.param(name, marks=[pytest.mark.nightly] * (name != names[place % len(names)]))


class RevokedLate(Prefetcher):
    """That a prefetch isn't worth going on is noted by the tick after the next one."""

    noted: Sequence[Fetch] = ()

    def drop_revoked(self) -> None:
        """Those that were revoked before the last tick are gone."""
        late = [one for one in self.revoked if one not in self.noted and self.ongoing.get(one.rid) is one]
        jobs = {number: work for number, work in self.works.works.items() if work.fetch in late}
        self.revoked = [one for one in self.revoked if one not in late]
        super().drop_revoked()
        self.revoked, self.noted = list(late), late
        self.works.works = dict(sorted((self.works.works | jobs).items()))


class RevokedAtOnce(Prefetcher):
    """A prefetch that isn't worth going on is over when its query is answered, not with the next tick."""

    def revoke(self, work: Work, fetch: Fetch) -> None:
        """There is too little, and that was it."""
        super().revoke(work, fetch)
        self.drop_revoked()


NOT_FOLLOWED = {
    "starve": "whether a call that found no memory for its records counts as a use is nobody's promise",
    "group": "of a hierarchy nobody sees what an open group keeps from being free",
}
"""Operations on hierarchies that the reference doesn't follow."""

ZOO = {
    f"{name}-{config.label}": (name, config)
    for name in zoo.ZOO
    for config in configs_of(zoo.target_of(name))
    if followed(config) and made(name, config)
}
"""Whole caches of the zoo, with each configuration that they take."""

LOOKS_FIRST = "host-plan-looks-first"
"""It asks how much is free before it allocates, so a fault meets another allocation: it is played without any."""

NOTICED = (
    "abort-releases-nothing", "duplicates-freed-by-both", "ended-early-keeps-all", "keys-from-tokens-only",
    "locked-yet-evictable", "match-without-split", "parent-never-a-candidate", "refusal-keeps-pages",
    "row-not-remapped", "split-forgets-locks", "ties-by-address", "evictable-by-raw-length",
)  # fmt: skip
"""Mutants that show in ordinary calls on a flat cache."""

NOTICED_BELOW = (
    "demotion-takes-both-copies", "demoted-parent-never-a-candidate", "restored-never-counted",
    "split-keeps-the-host-list", "ack-before-the-copy", "ack-keeps-the-lock", "selective-is-not",
    "write-back-loses-what-does-not-fit", "load-sources-not-pinned", "load-drops-its-source",
    "fetch-loses-a-page-of-its-memory", "anchor-not-pinned", "revoked-keeps-its-anchor", "put-forgets-the-head",
    "failed-load-counts-as-landed", "reset-keeps-prefetches",
)  # fmt: skip
"""Mutants that show in ordinary calls on a hierarchy."""


def play(target: Any, config: Config, schedules: Sequence[Sequence[Op]], *, judges: bool = True) -> int:
    """Play schedules on a target before the oracle; returns how many steps were compared.

    ``judges``: whether the rules are evaluated as well.  Legal variations and the zoo are judged elsewhere.
    """
    compared = 0
    for ops in schedules:
        oracle = oracle_of(target, config)
        oracle.judges = judges
        Interpreter(oracle).play(ops)
        compared += oracle.compared
    return compared


def oracle_of(target: Any, config: Config) -> Oracle:
    """An oracle of a fresh cache."""
    kind = TieredOracle if config.tiered else Oracle
    return kind(target.make(config), config, target.profile, names=Names())


def kinds_of(target: Any, config: Config, without: Sequence[str] = ()) -> tuple[str, ...]:
    """The operations that the target can do, each as often as it is drawn."""
    oracle = oracle_of(target, config)
    left_out = (*without, *NOT_FOLLOWED) if config.tiered else without
    kinds = [kind for kind in table(oracle.capabilities) if kind in Interpreter(oracle).actions]
    return tuple(kind for kind in kinds if kind not in left_out)


def drawn(target: Any, config: Config, seeds: Sequence[int] = SEEDS, without: Sequence[str] = ()) -> list[list[Op]]:
    """Schedules for a target."""
    kinds = kinds_of(target, config, without)
    return [list(draw(seed, OPERATIONS, kinds)) for seed in seeds]


@TURNS
@pytest.mark.parametrize("config", night.by_turns(CONFIGS[::-1], [one.label for one in CONFIGS[::-1]], every=2))
def test_the_specimen_does_what_the_reference_does(config: Config, seeds: range) -> None:
    specimen = SpecimenTarget()
    assert play(specimen, config, drawn(specimen, config, seeds)) > EACH * len(seeds)


@pytest.mark.parametrize("config", night.by_turns(CONFIGS, [config.label for config in CONFIGS], every=4))
@settings(max_examples=5)
@given(data=st.binary(min_size=20 * OP_BYTES, max_size=60 * OP_BYTES))
def test_the_specimen_does_what_the_reference_does_on_any_schedule(config: Config, data: bytes) -> None:
    specimen = SpecimenTarget()
    play(specimen, config, [decode(data, kinds_of(specimen, config))])


@TURNS
@pytest.mark.parametrize("config", night.by_turns(CONFIGS, [config.label for config in CONFIGS], every=2))
def test_the_optimized_cache_does_what_the_reference_does(config: Config, seeds: range) -> None:
    pytest.importorskip("numba")
    from kvlitmus.conformance.adapters.optimized.target import target

    assert play(target, config, drawn(target, config, seeds)) > EACH * len(seeds)


@pytest.mark.parametrize("seeds", [range(1), pytest.param(range(2), marks=pytest.mark.nightly)], ids=str)
@pytest.mark.parametrize("name", [*by_turns({name: one.id for name, (one, _) in LEGAL.items()})])
def test_a_legal_cache_does_what_the_reference_does_with_its_choices(name: str, seeds: range) -> None:
    legal, config = LEGAL[name]
    without = ("fault",) if legal.id == LOOKS_FIRST else ()
    assert play(legal.target, config, drawn(legal.target, config, seeds, without), judges=False) > 100 * len(seeds)


@pytest.mark.parametrize("kind", [RevokedLate, RevokedAtOnce])
@pytest.mark.parametrize("config", [one for one in TIER_CONFIGS if one.storage != "none"], ids=lambda one: one.label)
def test_when_a_revoked_prefetch_is_noted_is_a_choice(config: Config, kind: type[Prefetcher]) -> None:
    target = SpecimenTarget(Parts(fetches=kind))
    assert play(target, config, drawn(target, config, range(2))) > 300, "no rule is broken either"


@pytest.mark.parametrize("name", [*by_turns({name: cache for name, (cache, _) in ZOO.items()})])
def test_a_cache_of_the_zoo_does_what_the_reference_does_with_its_choices(name: str) -> None:
    cache, config = ZOO[name]
    target = zoo.target_of(cache)
    assert play(target, config, drawn(target, config, range(3)), judges=False) > 200


@pytest.mark.parametrize("id", night.by_turns([*NOTICED, *NOTICED_BELOW], every=2))
def test_a_planted_slip_is_noticed_without_a_rule(id: str) -> None:
    planted: Mutant = all_mutants()[id]
    with pytest.raises(Differs):
        play_all(planted)


def play_all(planted: Mutant) -> None:
    """Play schedules on a mutant in each of its configurations, judged by no rule."""
    for config in planted.configs:
        play(planted.target, config, drawn(planted.target, config, range(8)), judges=False)
