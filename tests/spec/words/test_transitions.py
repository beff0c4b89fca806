"""The tables of states against what caches do: every step that is made is legal, and every legal one is made."""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from kvlitmus.conformance.adapters.reference.target import ReferenceTarget
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.checker.guard import Violation
from kvlitmus.conformance.generate.interpreter import Interpreter
from kvlitmus.conformance.generate.schedule import draw, table
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.plan import TIER_CONFIGS
from kvlitmus.conformance.specimen.cache import SpecimenTarget
from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.conformance.specimen.prefix import works
from kvlitmus.reference.prefix.hierarchy import works_of
from kvlitmus.spec.interface import JOB_KINDS, Outcome
from kvlitmus.spec.prefix.rules.job import ADVANCES, GONE, JOBS, LANDED, UNDER_WAY
from kvlitmus.spec.words.names import Names
from kvlitmus.spec.words.prefetch_life import ENDED, ENDS, FETCH, KIND, PREFETCHES, QUERY, REVOKED, STAGES
from kvlitmus.spec.words.transitions import NONE, Step, Table, Transition
from tests.spec.support.recorder import Recorder, Stages

TABLES = {"jobs": JOBS, "prefetches": PREFETCHES}
SPECIMENS = {works.QUERYING: QUERY, works.FETCHING: FETCH, works.ENDED: ENDED, works.REVOKED: REVOKED}


def of_reference(cache: Any) -> Mapping[int, str]:
    """The stages of the reference's prefetches."""
    return {one.rid: one.stage for one in works_of(cache.state).operations if one.live}


def of_specimen(cache: Any) -> Mapping[int, str]:
    """The stages of the specimen's prefetches."""
    return {rid: SPECIMENS[one.stage] for rid, one in cache.fetches.ongoing.items()}


CACHES: dict[str, tuple[Any, Stages]] = {
    "reference": (ReferenceTarget(profile=PROFILE), of_reference),
    "reference, memory at the hit": (ReferenceTarget(profile=replace(PROFILE, reserve="hit")), of_reference),
    "specimen": (SpecimenTarget(profile=PROFILE), of_specimen),
}

MORE: tuple[dict[str, int], ...] = (
    {"prefetch": 50, "advance": 120, "abandon": 8, "poll": 10, "detach": 8, "attach": 20, "reset": 10},
    {"prefetch": 50, "advance": 120, "abandon": 25, "poll": 10, "detach": 25, "attach": 60, "reset": 10},
    {"load_back": 100, "evict": 40, "fail": 40, "advance": 60, "reset": 16, "begin": 20, "publish": 10},
    {"begin_ahead": 40, "compute": 60, "publish": 60, "tick": 40, "advance": 100, "finish": 20, "load_back": 40},
    {"begin": 40, "fork": 80, "save": 60, "bring_back": 80, "publish": 60, "tick": 40, "advance": 80},
)
"""How much more often some calls are drawn, so that what is rare occurs."""

OPS = 400
ROUNDS = 12
"""How many schedules are drawn for each mixture, configuration and cache, at night."""

FIRST: tuple[tuple[str, int, int, int], ...] = (
    ("reference", 6, 0, 1),
    ("reference", 3, 2, 1),
    ("reference", 3, 2, 5),
    ("reference", 1, 1, 0),
    ("reference", 1, 2, 1),
    ("reference", 4, 3, 1),
    ("reference", 4, 4, 0),
    ("reference", 5, 1, 0),
    ("reference, memory at the hit", 1, 2, 0),
    ("reference, memory at the hit", 3, 0, 0),
    ("reference, memory at the hit", 6, 3, 2),
    ("specimen", 6, 0, 0),
)
"""Schedules that together make every step: the cache, the places of configuration and mixture, and the seed."""


def record(name: str, config: Config, more: Mapping[str, int], seed: int, ops: int = OPS) -> Recorder:
    """The steps of one drawn schedule."""
    target, stages = CACHES[name]
    recorder = Recorder(target.make(config), stages)
    checker = Checker(recorder, config, target.profile, names=Names())
    kinds = table(checker.capabilities) + tuple(kind for kind, weight in more.items() for _ in range(weight))
    Interpreter(checker).play(draw(seed, ops, kinds))
    return recorder


def illegal(made: Mapping[Step, int], states: Table) -> list[Step]:
    """The steps that the table doesn't have."""
    return [step for step in made if not states.is_legal(step)]


def unmade(made: Mapping[Step, int], states: Table) -> list[Step]:
    """The steps of the table that nobody made, though some cache here is said to."""
    return [step for step, one in states.steps.items() if not one.elsewhere and step not in made]


def recorded(schedules: Iterable[tuple[str, int, int, int]], ops: int = OPS) -> dict[str, Counter[Step]]:
    """The steps that these schedules come to; ``AssertionError`` for one that isn't legal."""
    made: dict[str, Counter[Step]] = {name: Counter() for name in TABLES}
    for name, config, more, seed in schedules:
        recorder = record(name, TIER_CONFIGS[config], MORE[more], seed, ops)
        for states, steps in (("jobs", recorder.jobs_made), ("prefetches", recorder.prefetches_made)):
            assert illegal(steps, TABLES[states]) == [], (name, TIER_CONFIGS[config].label, seed)
            made[states] += steps
    return made


def assert_all_are_made(made: Mapping[str, Counter[Step]]) -> None:
    """Every step of the tables, but those that no cache here is said to make."""
    assert {name: unmade(made[name], states) for name, states in TABLES.items()} == {"jobs": [], "prefetches": []}
    for name, states in TABLES.items():
        elsewhere = [step for step, one in states.steps.items() if one.elsewhere and step in made[name]]
        assert elsewhere == [], "what one of these caches does isn't done elsewhere alone"


def test_every_step_that_is_made_is_legal_and_every_legal_step_is_made() -> None:
    """Schedules that are known to suffice; the nightly test plays each cache in each configuration."""
    assert_all_are_made(recorded(FIRST))


@pytest.mark.nightly
def test_all_schedules_make_legal_steps_only() -> None:
    places = itertools.product(CACHES, range(len(TIER_CONFIGS)), range(len(MORE)), range(ROUNDS))
    assert_all_are_made(recorded(places))


@pytest.mark.parametrize("name", CACHES)
def test_a_few_steps_are_legal(name: str) -> None:
    recorder = record(name, TIER_CONFIGS[1], MORE[0], 0, 200)
    assert illegal(recorder.jobs_made, JOBS) == illegal(recorder.prefetches_made, PREFETCHES) == []
    assert len(recorder.jobs_made) > 20 and len(recorder.prefetches_made) > 10


# -- the tables themselves --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TABLES)
def test_a_table_speaks_of_its_states_and_of_all_of_them(name: str) -> None:
    states = TABLES[name]
    named = {state for step in states.steps for state in (step.before, step.after)}
    assert named == set(states.states)
    assert len(states.steps) == sum(len(one.steps()) for one in states.transitions), "no step stands twice"


def test_whatever_begins_can_end_and_nothing_goes_on_after_its_end() -> None:
    for states, kinds, ends in ((JOBS, JOB_KINDS, {GONE}), (PREFETCHES, (KIND,), set(ENDS))):
        for kind in kinds:
            goals = {state: {one.after for one in states.steps if one[:2] == (kind, state)} for state in states.states}
            reached = {NONE}
            while more := {after for state in reached for after in goals[state]} - reached:
                reached |= more
            for state in reached:
                assert bool(goals[state]) == (state not in ends), (kind, state)
    assert {NONE, *STAGES, *ENDS} == set(PREFETCHES.states)


def test_a_job_stays_as_it_is_in_every_call_but_its_own_advance() -> None:
    assert JOBS.is_legal(Step("backup", UNDER_WAY, "tick", UNDER_WAY))
    assert not JOBS.is_legal(Step("backup", UNDER_WAY, "tick", LANDED))
    assert not any(JOBS.is_legal(Step("backup", UNDER_WAY, cause, UNDER_WAY)) for cause in ADVANCES)


# -- what is wrong is found -------------------------------------------------------------------------------


class Hasty:
    """A cache whose copies count as landed at the next tick, whether they are or not."""

    def __init__(self, cache: Any) -> None:
        self.cache = cache

    def __getattr__(self, name: str) -> Any:
        return getattr(self.cache, name)

    def tick(self) -> None:
        """Land everything first."""
        for job in self.cache.jobs():
            if job.kind == "backup" and not job.landed:
                self.cache.advance(job.id, Outcome())
        self.cache.tick()


def test_a_copy_that_counts_as_landed_too_early_makes_an_illegal_step() -> None:
    class Target:
        profile = PROFILE

        def make(self, config: Config) -> Hasty:
            return Hasty(SpecimenTarget(profile=PROFILE).make(config))

    target, config = Target(), TIER_CONFIGS[0]
    recorder = Recorder(target.make(config), of_specimen)
    checker = Checker(recorder, config, target.profile, names=Names())
    with contextlib.suppress(Violation):  # the rules see it, too
        Interpreter(checker).play(draw(0, 200, table(checker.capabilities)))
    assert Step("backup", UNDER_WAY, "tick", GONE) in illegal(recorder.jobs_made, JOBS)


def test_a_table_that_lacks_a_step_and_one_that_has_too_many_are_found() -> None:
    made = record("specimen", TIER_CONFIGS[1], MORE[0], 0, 200).jobs_made
    lands = Step("backup", UNDER_WAY, "advance done", LANDED)
    assert lands in made
    less = Table(JOBS.states, tuple(one for one in JOBS.transitions if lands not in one.steps()), ADVANCES)
    assert lands in illegal(made, less)
    never = Transition(("backup",), (LANDED,), ("match",), GONE, "A match takes note of a copy.")
    assert Step("backup", LANDED, "match", GONE) in unmade(
        made, Table(JOBS.states, (*JOBS.transitions, never), ADVANCES)
    )
