"""z3 shows what calls keep of a cache of any size, on the source of reference and spec; each planted slip is found.

A slip is looked for among small caches, and its counterexample is played with Python's own sets and maps before it
counts.  The rewritten source is the source: it plays real steps under the judge.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest

from kvlitmus.conformance.adapters.reference import flat
from kvlitmus.conformance.adapters.reference.target import target
from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.generate.interpreter import Interpreter
from kvlitmus.conformance.generate.schedule import draw, table
from kvlitmus.conformance.ports import Config
from kvlitmus.reference.prefix.perform import DECIDE
from kvlitmus.spec.parts import all_rules

z3 = pytest.importorskip("z3")
from tests.proofs.prefix.any_size import EFFECTS, PERFORM, REWRITTEN, Cache, Case  # noqa: E402 - needs z3
from tests.proofs.prefix.any_size_lemmas import (  # noqa: E402 - needs z3
    BY_NAME,
    LEMMAS,
    RESTS_ON,
    SMALL,
    SOURCE,
    TIER_LEMMAS,
    TURN,
    TURN_SLIPS,
    found,
    is_met,
    refuted,
)
from tests.proofs.prefix.flat_calls import CASES  # noqa: E402 - needs z3
from tests.proofs.support.rewriting import Modules  # noqa: E402 - needs z3
from tests.proofs.support.search import explore  # noqa: E402 - needs z3
from tests.proofs.support.source import Slip  # noqa: E402 - needs z3
from tests.proofs.support.unknown import Unbounded, UnknownMap, World  # noqa: E402 - needs z3

pytestmark = pytest.mark.proof

BY_DAY = {
    "alloc of 1 pages",
    "Free of 2 pages",
    "reset",
    "match of 2 pages",
    "insert of 1 pages",
    "lock",
    "unlock",
    "evict of 1",
    "begin of 1 page that evicts 1",
    "grow of 1 pages, 1 cached",
    "Publish(None, False) of 2 pages, 1 cached",
    "End(True, None) of 2 pages, 1 cached",
    "evict of 1 page, tiered",
    "evict of 1 page of the host, tiered",
    "take back of 2 pages, 1 cached, up to 1",
    "fork of 2 pages, 1 cached",
    "Retract() of 2 pages, 1 cached",
    "resume of 1 pages",
    "discard",
    "End(False, None) of 2 pages, 1 cached",
}
"""Of each call one case; the others are for the night."""

assert BY_NAME.keys() >= BY_DAY
ALL = [
    pytest.param(case, id=name, marks=[pytest.mark.nightly] * (name not in BY_DAY)) for name, case in BY_NAME.items()
]
ALL_LEMMAS = {**LEMMAS, **TIER_LEMMAS}
SECOND = sorted(BY_DAY)[1::2]
TO_THE_END = [
    pytest.param(case, id=name, marks=[pytest.mark.nightly] * (name not in BY_DAY or name in SECOND))
    for name, case in BY_NAME.items()
]
SLIPS = [
    pytest.param(name, slip, BY_NAME[case], id=f"{name}{at}", marks=[pytest.mark.nightly] * (at > 0))
    for name, lemma in ALL_LEMMAS.items()
    for at, (slip, case) in enumerate(lemma.slips.items())
]


@pytest.mark.parametrize("case", ALL)
def test_the_call_keeps_a_cache_of_any_size_sound(case: Case) -> None:
    assert refuted(case) is None


@pytest.mark.parametrize("case", TO_THE_END)
def test_there_is_a_small_cache_on_which_it_comes_to_its_end(case: Case) -> None:
    assert is_met(case)


@pytest.mark.parametrize(("lemma", "slip", "case"), SLIPS)
def test_the_slip_is_found_and_real(lemma: str, slip: Slip, case: Case) -> None:
    refutes = found(lemma, slip, case)
    assert refutes is not None and refutes.numbers


def test_every_call_that_is_decided_has_a_case() -> None:
    called = {type(case.make(Cache(World([]), case.size, **case.profile)).call) for case in CASES}
    assert called == DECIDE.keys()


def test_lemmas_name_rules() -> None:
    assert all(lemma.rules and set(lemma.rules) <= all_rules().keys() for lemma in ALL_LEMMAS.values())
    assert all(lemma.slips for lemma in ALL_LEMMAS.values())


# What the contracts rest on


@pytest.mark.parametrize("name", RESTS_ON)
def test_what_contracts_rest_on_holds(name: str) -> None:
    assert explore(lambda run: RESTS_ON[name](TURN, run), World)[0] is None


@pytest.mark.parametrize("slip", TURN_SLIPS)
def test_another_turn_is_refuted(slip: Slip) -> None:
    modules = Modules([EFFECTS], {}, slip, turns=TURN.turns)
    assert explore(lambda run: RESTS_ON["one turn of lock"](modules, run), SMALL)[0] is not None


# Nothing is unrolled


@pytest.mark.parametrize(
    ("function", "why"),
    [("path", "a while"), ("nodes", "a loop over the items"), ("below", "a while"), ("demote", "a loop over a map")],
)
def test_a_loop_over_an_unknown_size_is_refused(function: str, why: str) -> None:
    modules = Modules(REWRITTEN, {})
    run = modules.kit.run = World([])
    tree = Cache(run).state.device
    some: Any = tree.pages
    assert isinstance(some, UnknownMap)
    arguments = {"path": (run.element("at"),), "nodes": (), "below": (some.keys(),), "demote": (tree, some)}
    with pytest.raises(Unbounded, match=why):
        getattr(modules[EFFECTS], function)(tree, *arguments[function])


# The rewritten source is the source


@pytest.mark.parametrize(
    "config",
    [Config(), Config(page_size=4, pages=16), pytest.param(Config(policy="slru"), marks=pytest.mark.nightly)],
    ids=lambda config: config.label,
)
def test_the_rewritten_source_plays_real_steps(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flat, "perform", SOURCE[PERFORM].perform)
    SOURCE.kit.run = World([])
    checker = Checker(target.make(config), config, target.profile)
    interpreter = Interpreter(checker)
    interpreter.play([op for op in draw(1, 250, table(checker.capabilities)) if op.kind in interpreter.actions])
    assert sum(checker.counted().values()) > 1000
    assert sys.modules[PERFORM].perform is not vars(flat)["perform"]
