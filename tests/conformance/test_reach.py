"""What the default run draws comes to every cell of the ledger, to both sides of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import pytest

from kvlitmus.conformance.run import plan
from kvlitmus.conformance.run.engine import run_item
from kvlitmus.conformance.run.results import Options
from kvlitmus.conformance.run.targets import load_target, resolve_target
from kvlitmus.mutants.freedoms import USED_BY
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.spec.law.on import On
from kvlitmus.spec.ledger.cells import Column, Family, Line, Refusal
from kvlitmus.spec.ledger.read import LEDGER

OFTEN = 3
"""So often the default run has to come to each side of a cell."""

TARGETS = {
    "specimen": (Family.FLAT, Family.TIERS, Family.PURE, Family.STORES, Family.SPARSE, Family.RANKS),
    "components": (Family.COMPONENTS,),
    "component-requests": (Family.REQUESTS,),
}
"""By which default run the rows of a family are played."""

BY_PROGRAMS = {
    **dict.fromkeys(("raw_insert", "raw_free", "raw_begin", "raw_prefetch"), "odd arguments, by litmus tests"),
    "poke": "the suite writes what pages hold, by litmus tests",
    **dict.fromkeys(
        ("store_damage", "store_reopen", "store_other", "store_rank"), "what befalls a store, by litmus tests"
    ),
}
"""Calls that no schedule draws, each with the reason."""

DECLARED = {
    "LIFE-15": "a request has to ask after a reset what was added before: by a litmus test",
}
"""Rules of cells that drawn steps of the default profile don't come to, each with the reason."""


class Came(NamedTuple):
    """What a run came to: steps by their occasion, and by rule how often its premise was true."""

    steps: Counter[str]
    judged: Counter[str]


def drawn(target: str, depths: Sequence[int]) -> Came:
    """The drawn part of the default run of a target, or of a legal variation, at these depths; it breaks no rule."""
    cache = all_mutants()[target].target if target in all_mutants() else load_target(resolve_target(target))
    came = Came(Counter(), Counter())
    for depth in depths:
        for item in plan.items(plan.configs_of(cache), cache.profile):
            if item.kind == "random":
                result = run_item(cache, item, Options(depth=depth, reruns=0, shrink_trials=0, taped=False))
                assert not result.findings, item.id
                came.steps.update(result.reached)
                came.judged.update(result.evaluated)
    return came


def sides(line: Line, steps: Counter[str]) -> dict[str, int]:
    """How often each side of a row came about: that it was granted, and that it was refused, where steps tell."""
    refused = [on for on in line.occasions if "refused" in on]
    told = {"done": [on for on in line.occasions if on not in refused]}
    if line.refusal is not Refusal.NEVER and refused:
        told["refused"] = refused
    return {side: sum(steps[on] for on in ons) for side, ons in told.items() if ons}


def refused_by_others(line: Line) -> bool:
    """Whether a call that a target grants always is refused often by the legal variations whose affair that is."""
    others = [one for free in line.cells[Column.REFUSED].free for one in USED_BY[free]]
    return any(sides(line, drawn(one, (3,)).steps)["refused"] >= OFTEN for one in others if one in all_mutants())


def test_a_side_that_never_came_about_is_told() -> None:
    line = next(one for one in LEDGER if one.name == "alloc")
    assert sides(line, Counter({On.ALLOC: 2})) == {"done": 2, "refused": 0}
    assert sides(next(one for one in LEDGER if one.name == "unlock"), Counter({On.UNLOCK: 4})) == {"done": 4}


@pytest.mark.nightly
@pytest.mark.parametrize("target", TARGETS)
def test_the_default_run_comes_to_both_sides_of_each_cell(target: str) -> None:
    came = drawn(target, (3, 1))
    rows = [one for one in LEDGER if one.family in TARGETS[target] and not one.look and one.call not in BY_PROGRAMS]

    few = {
        (line.family, line.name, side)
        for line in rows
        for side, many in sides(line, came.steps).items()
        if many < OFTEN and not (many == 0 and side == "refused" and refused_by_others(line))
    }
    assert few == set()

    cells = {(line.family, line.name, column): cell for line in rows for column, cell in line.cells.items()}
    idle = {where: id for where, cell in cells.items() for id in cell.rules if came.judged[id] < OFTEN}
    assert {where: id for where, id in idle.items() if id not in DECLARED} == {}
