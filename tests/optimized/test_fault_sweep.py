"""Copies and allocations that fail: the first, then the second, and so on until nothing is left that could.

Each scenario is played once for each operation in it that can fail, which then does; the scenario goes on as callers
do, and at the end everything must be as if that had never been tried
(:meth:`tests.optimized.support.fault_desk.Desk.still_works`).
"""

from __future__ import annotations

import importlib
import traceback
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from kvlitmus.mutants.mutant import Mutant
from kvlitmus.optimized import testing
from kvlitmus.optimized.cores import lacking
from tests.optimized.support.fault_desk import Desk
from tests.optimized.support.fault_scenes import SCENARIOS, WRITES, Scenario, play, played, starts_anew
from tests.optimized.support.mutants_faults import FAULTS
from tests.support.mutants import assert_killed
from tests.support.night import by_turns


def sweep(scenario: Scenario, write: str) -> int:
    """Let each operation of a scenario fail that can; how many there were."""
    number = 0
    while True:
        desk = played(scenario, write, number)
        if not desk.faults.struck:
            return number
        try:
            desk.check()
            desk.still_works((6, 6, 6, 5, 5, 5))
        except BaseException as error:
            error.add_note(f"operation {number} failed: {desk.faults.struck[0]}")
            raise
        number += 1


BY_CORES = [
    (scenario, core)
    for at, scenario in enumerate(SCENARIOS)
    for core in (("python", "native") if at % 2 else ("native", "python"))
]


@pytest.mark.usefixtures("each_core")
@pytest.mark.parametrize("write", by_turns(WRITES))
@pytest.mark.parametrize(("scenario", "each_core"), by_turns(BY_CORES, every=2), indirect=["each_core"])
def test_whatever_fails_the_cache_goes_on(scenario: Scenario, write: str) -> None:
    assert sweep(scenario, write) >= 8, "hardly anything could fail"


@pytest.mark.skipif(bool(lacking()), reason="no core")
@pytest.mark.parametrize("write", by_turns(WRITES))
@pytest.mark.parametrize("scenario", by_turns(SCENARIOS, every=2))
def test_whatever_fails_around_the_calls_of_the_core_the_cache_goes_on(
    scenario: Scenario, write: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies begin in one call each here, in the midst of which the mover raises."""
    monkeypatch.setattr(testing.Faults, "by_steps", False)
    assert sweep(scenario, write) >= 5, "hardly anything could fail"


def test_everything_that_can_fail_does_in_some_scenario() -> None:
    counts: Counter[str] = Counter()
    for scenario in SCENARIOS:
        for write in WRITES:
            counts += played(scenario, write, None).faults.counts
    assert [kind for kind in testing.KINDS if not counts[kind]] == []


class Scarce:
    """Numpy, but that one of the arrays that are made finds no memory."""

    MAKERS = ("array", "empty", "zeros", "full", "concatenate", "asarray", "resize", "arange")

    def __init__(self, number: int) -> None:
        self.left = number
        self.struck: list[traceback.FrameSummary] = []

    def __getattr__(self, name: str) -> Any:
        made = getattr(np, name)
        return partial(self.make, made) if name in self.MAKERS else made

    def make(self, made: Callable[..., Any], *args: Any, **options: Any) -> Any:
        self.left -= 1
        if self.left == -1:
            self.struck = traceback.extract_stack()[-3:-1]
            raise MemoryError("planted: no memory for an array")
        return made(*args, **options)


PLACES = ("branch", "evict", "paths", "residency", "tree", "request", "backup", "load", "put", "fetch", "host")
"""The modules of the control plane whose arrays are scarce."""


def sweep_arrays(scenario: Scenario, write: str) -> int:
    """Let each array of a scenario find no memory; how many there were."""
    number = 0
    while True:
        desk, scarce = Desk(write), Scarce(number)
        with pytest.MonkeyPatch.context() as patched:
            for place in PLACES:
                module = importlib.import_module(f"kvlitmus.optimized.{place}")
                if hasattr(module, "np"):
                    patched.setattr(module, "np", scarce)
            play(scenario, desk)
        if not scarce.struck:
            return number
        try:
            desk.check()
            desk.still_works((6, 6, 6, 5, 5, 5))
        except BaseException as error:
            error.add_note(f"array {number} found no memory: {scarce.struck}")
            raise
        number += 1


@pytest.mark.usefixtures("python_core")
@pytest.mark.parametrize("write", by_turns(WRITES))
@pytest.mark.parametrize("scenario", by_turns([one for one in SCENARIOS if one is not starts_anew], every=2))
def test_whatever_array_finds_no_memory_the_cache_goes_on(scenario: Scenario, write: str) -> None:
    assert sweep_arrays(scenario, write) >= 10, "hardly any memory was taken"


DENSE, SPARSE = 16, 5
"""Each of so many first allocations is the last one, and every fifth of the others."""


def sweep_core(scenario: Scenario, write: str) -> int:
    """Let all that the compiled core allocates after so much of it find no memory; how much there was."""
    from kvlitmus.optimized import _core

    number = 0
    while True:
        desk = Desk(write)
        _core.fail_after(number)
        try:
            play(scenario, desk)
        finally:
            left = _core.fail_after(-1)
        if left > 0:
            return number
        try:
            desk.check()
            desk.still_works((6, 6, 6, 5, 5, 5))
        except BaseException as error:
            error.add_note(f"the core found no memory after {number} allocations")
            raise
        number += 1 if number < DENSE else SPARSE


@pytest.mark.skipif(bool(lacking()), reason="no core")
@pytest.mark.parametrize("write", by_turns(WRITES))
@pytest.mark.parametrize("scenario", by_turns([one for one in SCENARIOS if one is not starts_anew], every=2))
def test_whenever_the_core_finds_no_memory_the_cache_goes_on(scenario: Scenario, write: str) -> None:
    assert sweep_core(scenario, write) >= 10, "hardly any memory was taken"


# -- the sweep itself -------------------------------------------------------------------------------


@pytest.mark.usefixtures("python_core")
@pytest.mark.parametrize("mutant", by_turns(FAULTS.values(), [one.id for one in FAULTS.values()], every=5))
def test_a_defect_is_found_by_the_sweep(mutant: Mutant) -> None:
    assert_killed(mutant, the_sweep)


def the_sweep(_: Mutant) -> tuple[str, ...]:
    """Whether the sweep finds that something is wrong."""
    return ("the sweep",) if any(finds(scenario, write) for scenario in SCENARIOS for write in WRITES) else ()


def finds(scenario: Scenario, write: str) -> bool:
    """Whether a scenario shows that something is wrong."""
    try:
        sweep(scenario, write)
        if scenario is not starts_anew:
            sweep_arrays(scenario, write)
    except Exception:  # noqa: BLE001  whatever goes wrong shows it
        return True
    return False
