"""Requests on components: what a chunk is computed with; every state of small caches, and planted slips."""

from __future__ import annotations

import pytest

from kvlitmus.reference.prefix.components.perform import perform
from kvlitmus.reference.prefix.components.tree import free_places
from kvlitmus.spec.prefix.calls import Begin, End, Grow
from kvlitmus.spec.prefix.components.calls import JointCall
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.shapes import Chunk, Component, Derived, Point, Run, Window, working
from tests.proofs.support.request_explore import QUICK, Explorer, quick

SHAPES = (Run(), Window(1), Window(2), Window(3), Chunk(2), Chunk(3), Point(), Derived("kv"))


def by_tokens(component: Component, before: int, after: int) -> set[int]:
    """Where the entries end that the tokens between two lengths are computed with, said of every token by itself."""
    shape, unit = component.shape, component.unit
    ends = set()
    for token in range(after):
        seen = token >= before
        if isinstance(shape, Run | Derived):
            seen = True
        elif isinstance(shape, Window):
            seen = seen or token >= before - shape.reach
        elif isinstance(shape, Chunk):
            seen = seen or token // shape.size == before // shape.size
        if seen:
            ends.add((token // unit + 1) * unit)
    return ends


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if not isinstance(shape, Point)], ids=str)
@pytest.mark.parametrize("unit", [1, 2])
def test_a_chunk_is_computed_with_what_its_tokens_see(shape: object, unit: int) -> None:
    component = Component("one", shape, "pool", unit, unit)  # type: ignore[arg-type]
    for before in range(0, 8, unit):
        for after in range(before + 1, 10):
            assert set(working(component, before, after)) == by_tokens(component, before, after), (before, after)


def test_a_state_is_gone_on_from_and_left_behind() -> None:
    state = Component("state", Point(), "pool", 2, 2)
    assert working(state, 0, 4) == (4,)
    assert working(state, 4, 8) == (4, 8)
    assert working(state, 4, 5) == (4, 6)


@pytest.mark.parametrize("name", QUICK)
def test_every_state_keeps_the_rules(name: str) -> None:
    report = quick(name)

    assert not report.broken, (report.broken, report.call)
    assert report.states > 30, "and it is no small thing"
    rules = {f"CREQ-{number:02}" for number in (1, 3, 5, 6)}
    assert rules <= report.evaluated.keys(), "every rule about requests is judged"


def unprotected(cache: State, setting: Setting, call: JointCall) -> tuple[State, object]:
    """A slip: a request that begins, or goes on, gets the places of what the others hold, as if that were loose."""
    if not isinstance(call, Begin | Grow):
        return perform(cache, setting, call)
    mine = {call.rid: cache.requests[call.rid]} if isinstance(call, Grow) else {}
    then, answer = perform(cache._replace(requests=mine, covers={}), setting, call)
    requests, covers = {**cache.requests, **then.requests}, {**cache.covers, **then.covers}
    return then._replace(requests=requests, covers=covers), answer


def leaking(cache: State, setting: Setting, call: JointCall) -> tuple[State, object]:
    """A slip: what a request did not publish is lost when it ends."""
    then, answer = perform(cache, setting, call)
    if isinstance(call, End):
        before, after = (
            {(pool, one) for pool, some in free_places(state, setting).items() for one in some}
            for state in (cache, then)
        )
        return then._replace(owned=then.owned | after - before), answer
    return then, answer


@pytest.mark.parametrize(
    ("slip", "rules"), [(unprotected, {"LOCK-01", "CREQ-03", "POOL-04"}), (leaking, {"POOL-12"})], ids=["held", "leak"]
)
def test_a_planted_slip_is_found(slip: object, rules: set[str]) -> None:
    report = Explorer(QUICK["windows"], slip).run()  # type: ignore[arg-type]

    assert set(report.broken) & rules, (report.broken, report.call)
