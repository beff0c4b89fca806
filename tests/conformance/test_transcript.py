"""Transcripts: what was called, written down as operations that can be shrunk."""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

import pytest

from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.generate.schedule import Op, draw, table
from kvlitmus.conformance.generate.shrink import Case
from kvlitmus.conformance.generate.transcript import COMPOSITE, Scribe, Transcript
from kvlitmus.conformance.litmus.registry import all_litmus
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run import engine
from kvlitmus.conformance.run.engine import Scheduled
from kvlitmus.conformance.run.plan import TIER_CONFIGS
from kvlitmus.conformance.run.results import Item, Options
from kvlitmus.conformance.specimen.cache import target
from kvlitmus.mutants.registry import all_mutants
from tests.support.night import by_turns

OPTIONS = Options(shrink_trials=0)
MANY = re.compile(r" ×(\d+)$")


ALL_OF_THE_HOST = re.compile(r"evict_host\(\d+\)")
"""Who empties the host asks for as much as there is, or for more."""

ENDED = "everything delivered, and a few ticks"


def called(checker: Checker) -> list[str]:
    """All calls; those that are one line for a reader, one by one."""
    calls: list[str] = []
    for line in checker.history:
        times = MANY.search(line)
        calls += [ALL_OF_THE_HOST.sub("evict_host", MANY.sub("", line))] * (int(times[1]) if times else 1)
    return [call for call in calls if call != ENDED]


def written_of(config: Config, ops: Sequence[Op]) -> tuple[list[str], tuple[Op, ...]]:
    """The calls of a schedule, and the schedule in which each of them has an operation."""
    scheduled = Scheduled(ops)
    transcript = Transcript(scheduled, lambda: len(scheduled.began) - 1)
    checker, violation = engine.play(target, config, OPTIONS, transcript)
    assert violation is None
    return called(checker), transcript.spelt_out(ops)


@pytest.mark.parametrize("config", by_turns(TIER_CONFIGS), ids=lambda config: config.label)
def test_a_schedule_that_is_spelt_out_makes_the_same_calls(config: Config) -> None:
    kinds = table(engine.make_checker(target, config, OPTIONS).capabilities)
    for seed in range(3):
        calls, spelt = written_of(config, draw(seed, 60, kinds))
        assert not COMPOSITE & {op.kind for op in spelt} - {"fail"}
        again, _ = engine.play(target, config, OPTIONS, Scheduled(spelt))
        assert called(again)[: len(calls)] == calls


STORED = [Op("begin", 0, 2), Op("finish"), Op("deliver"), Op("call_back", 0, 3), Op("tick"), Op("poll", 0, 255)]


def test_what_is_composite_is_written_call_by_call() -> None:
    calls, spelt = written_of(TIER_CONFIGS[0], STORED)
    assert len(calls) > len(spelt) > len(STORED)
    assert {"advance", "tick", "evict", "evict_host", "prefetch"} < {op.kind for op in spelt}


def methods(checker: Checker) -> list[str]:
    """What was called, but for who asked and for what."""
    return [call.partition("(")[0] for call in called(checker)]


@pytest.mark.parametrize(
    "name",
    [
        "fetch/what-was-stored-is-read-back",
        "fetch/a-query-that-finds-too-little-revokes",
        "load/a-quota-counts-the-whole-path",
        "life/a-detach-ends-what-is-under-way",
    ],
)
def test_a_litmus_test_that_is_written_down_makes_the_same_calls(name: str) -> None:
    transcript = Transcript(all_litmus()[name].program)
    checker, violation = engine.play(target, TIER_CONFIGS[0], OPTIONS, transcript)
    ops = next(transcript.variants())
    again, broken = engine.play(target, TIER_CONFIGS[0], OPTIONS, Scheduled(ops))
    assert (violation, broken) == (None, None)
    made = methods(checker)
    assert methods(again)[: len(made)] == made


def test_a_page_that_storage_loses_is_sought_among_those_that_are_stored() -> None:
    transcript = Transcript(all_litmus()["fetch/a-query-counts-up-to-the-first-gap"].program)
    engine.play(target, TIER_CONFIGS[0], OPTIONS, transcript)
    variants = list(transcript.variants())
    assert len(set(variants)) > 8 and all(len(one) == len(variants[0]) for one in variants)


@pytest.mark.nightly
def test_a_litmus_test_that_finds_a_bug_is_shrunk_as_a_schedule() -> None:
    one = all_mutants()["anchor-not-pinned"]
    item = Item(kind="transcript", config=one.configs[0], name="tier/the-anchor-outlives-an-emptied-host")
    muted = frozenset(
        rule for rule in engine.make_checker(one.target, item.config, OPTIONS).rules if rule not in one.kills
    )
    (raw,) = engine.run_item(one.target, item, Options(muted=muted, reruns=0, shrink_trials=0)).findings
    (found,) = engine.run_item(one.target, item, Options(muted=muted, reruns=0, shrink_trials=600)).findings
    assert found.rules[0] in one.kills and not found.litmus
    assert len(found.calls) < len(raw.calls)
    case = Case(found.config, tuple(found.schedule))
    (again,) = engine.run_item(
        one.target,
        Item(kind="schedule", config=case.config, schedule=case.ops),
        Options(muted=muted, reruns=0, shrink_trials=0),
    ).findings
    assert again.calls == found.calls


@pytest.mark.parametrize(("seconds", "leaps"), [(63.3, [3, 2, 1, 0, 0]), (2.0, [2]), (0.5, [0, 0]), (0.0, [])])
def test_time_passes_in_as_many_leaps_as_it_takes_and_no_more(seconds: float, leaps: list[int]) -> None:
    written: list[Op] = []
    scribe = SimpleNamespace(write=written.append, checker=SimpleNamespace(below=SimpleNamespace(clock=0.0)))

    Scribe.note_set_clock(cast("Scribe", scribe), seconds)

    assert written == [Op("clock", leap) for leap in leaps]
