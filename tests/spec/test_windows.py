"""What windows say of unseen evictions, held against all histories that a correct cache can have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.generate.interpreter import Interpreter
from kvlitmus.conformance.generate.schedule import draw, table
from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.conformance.specimen.cache import SpecimenTarget
from kvlitmus.conformance.specimen.parts import PROFILE, Parts
from kvlitmus.mutants.legal.flat import EvictsAhead, WholeNodesGo
from kvlitmus.reference.choose import Choice, available, free_pages, least_valuable
from kvlitmus.reference.perform import perform
from kvlitmus.spec import calls, effects
from kvlitmus.spec.advance import expect, opened_by
from kvlitmus.spec.page import Tree
from kvlitmus.spec.policies import POLICIES
from kvlitmus.spec.setting import Setting
from kvlitmus.spec.state import State, empty_state
from kvlitmus.spec.units import Name, PageNo, pages_in_order, pages_of

KINDS = {"alloc", "free", "match", "insert", "lock", "unlock", "evict", "begin", "grow", "publish", "finish", "abort"}
OPS = 60
"""Operations in one schedule."""

MOST = 400
"""So many histories are followed; a schedule that has more is given up."""


class Noted(NamedTuple):
    """One call, what it answered, and what was known after it."""

    call: Any
    answer: Any
    known: State
    available: int | None


class Noting(Checker):
    """A checker that keeps what was known after each call."""

    noted: list[Noted]

    def _observe(self, call: Any, answer: Any, expected: State, found: Any, row_found: Any) -> None:
        super()._observe(call, answer, expected, found, row_found)
        self.noted.append(Noted(call, answer, self.state, self.before.available))


def noted(parts: Parts, profile: Profile, config: Config, depth: int, seed: int) -> tuple[Setting, list[Noted]]:
    """What a short schedule brings to light at this depth."""
    checker = Noting(SpecimenTarget(parts, profile).make(config), config, profile, depth=depth)
    checker.noted = []
    kinds = tuple(kind for kind in table(checker.capabilities) if kind in KINDS)
    caller = Interpreter(checker)
    for kind, a, b, c in draw(seed, OPS, kinds):
        caller.do(kind, a, b, c)
    return checker.setting, checker.noted


def room(state: State, after: State, setting: Setting, call: Any, answer: Any) -> Sequence[int]:
    """How many pages a correct cache may evict for this call."""
    unlocked = sum(not page.locks for page in after.tree.pages.values())
    slack = setting.profile.evict_slack
    if isinstance(call, calls.Evict):
        return [answer // setting.size]
    if not isinstance(call, calls.Begin | calls.Grow):
        return [0]
    free = len(free_pages(state, setting))
    if isinstance(call, calls.Begin):
        opened = pages_of(answer.row[answer.cached :], setting.size)
    else:
        opened = opened_by(state.requests[call.rid].row, answer, setting)
    lack = len(opened) - free
    if lack + slack <= 0:
        return [0]
    whole = least_valuable(after.tree, lack, setting)
    return range(max(0, lack), min(max(lack + slack, len(whole)), unlocked) + 1)


def all_histories(setting: Setting, steps: Sequence[Noted]) -> Iterator[tuple[Noted, list[State]]]:
    """After each step the states of all correct caches that would have answered so."""
    setting = Setting(setting.config, setting.profile, 3, setting.capabilities, setting.names)
    states = [empty_state()]
    for step in steps:
        call, answer, _, seen = step
        found: dict[Any, State] = {}
        for state in states:
            for then in successors(state, setting, call, answer):
                if seen is None or seen == available(then, setting):
                    found[frozenset(then.tree.pages.items())] = then
        states = list(found.values())
        assert states, f"no correct cache answers {answer} to {call}"
        if len(states) > MOST:
            return
        yield step, states


def successors(state: State, setting: Setting, call: Any, answer: Any) -> Iterator[State]:
    """The states of correct caches after this call, if they answer so."""
    touched = expect(state, setting, call, answer)
    if answer is None and isinstance(call, calls.Begin | calls.Grow):
        yield from refusals(state, touched, setting, call)
        return
    granted = pages_granted(state, setting, call, answer)
    for many in room(state, touched, setting, call, answer):
        victims = first_to_go(touched.tree, many, setting)
        if len(victims) == many:
            try:
                step = perform(state, setting, call, Choice(victims, granted))
            except ValueError:
                continue
            if isinstance(call, calls.Lock) or same_answer(step.answer, answer):
                yield step.after


def refusals(state: State, touched: State, setting: Setting, call: calls.Begin | calls.Grow) -> Iterator[State]:
    """The same of a refused request: anything may have gone in the attempt, and what it found may have been held."""
    found = [page for page in call.path.pages if page in state.tree.pages] if isinstance(call, calls.Begin) else []
    held = effects.lock(touched.tree, found[-1]) if found else touched.tree
    for tree in (touched.tree, held):
        for many in range(len(tree.pages) + 1):
            victims = first_to_go(tree, many, setting)
            if len(victims) == many:
                yield touched._replace(tree=effects.remove(touched.tree, victims))


def first_to_go(tree: Tree, many: int, setting: Setting) -> tuple[Name, ...]:
    """So many pages, in the order in which they are evicted page by page."""
    profile = replace(setting.profile, evict_granularity="page")
    return least_valuable(tree, many, Setting(setting.config, profile, 3, setting.capabilities))


def pages_granted(state: State, setting: Setting, call: Any, answer: Any) -> tuple[PageNo, ...] | None:
    size = setting.size
    if answer is None:
        return None
    if isinstance(call, calls.Alloc):
        return pages_in_order(answer, size)
    if isinstance(call, calls.Begin):
        return pages_in_order(answer.row[answer.cached :], size)
    if isinstance(call, calls.Grow):
        row = state.requests[call.rid].row
        return pages_in_order(answer[-len(row) % size :], size)
    return None


def same_answer(one: Any, other: Any) -> bool:
    """Whether two answers say the same; handles and receipts are the cache's own affair."""
    if hasattr(one, "handle"):
        return bool(one.length == other.length and tuple(one.slots) == tuple(other.slots))
    if hasattr(one, "row"):
        return bool(one.cached == other.cached and tuple(one.row) == tuple(other.row))
    if hasattr(one, "already"):
        return bool(one.already == other.already)
    if one is None or other is None or isinstance(one, int):
        return bool(one == other)
    return tuple(one) == tuple(other)


SMALL = Config(page_size=1, pages=8)
PAGED = Config(page_size=2, pages=12)
AHEAD = replace(PROFILE, evict_slack=2)
NODES = replace(PROFILE, evict_granularity="node")
SEEDS = range(3)
CACHES: dict[str, tuple[Parts, Profile]] = {
    "strict": (Parts(), PROFILE),
    "ahead": (Parts(requests=EvictsAhead), AHEAD),
    "nodes": (Parts(tree=WholeNodesGo), NODES),
}


def compared(cache: str, config: Config, depth: int) -> tuple[int, int, list[str]]:
    """Of how many pages it was known whether they are there, of how many it could be, and what was claimed wrongly.

    Without counters a refused request may have evicted any number of pages, and what a schedule shows after that isn't
    counted.
    """
    parts, profile = CACHES[cache]
    said = could = 0
    wrong = []
    for seed in SEEDS:
        setting, steps = noted(parts, profile, config, depth, seed)
        refused = False
        for step, states in all_histories(setting, steps):
            known = step.known
            there = frozenset(known.tree.pages) - known.doubt.fallen
            certain = there - known.doubt.open
            always = frozenset.intersection(*(frozenset(state.tree.pages) for state in states))
            ever = frozenset.union(*(frozenset(state.tree.pages) for state in states))
            if not certain <= always or not ever <= there:
                wrong.append(f"{step.call}: {certain - always} are not certain, {ever - there} are possible")
            refused |= depth == 0 and step.answer is None and isinstance(step.call, calls.Begin | calls.Grow)
            if not refused:
                said += len(known.tree.pages) - len(there - certain)
                could += len(known.tree.pages) - len(ever - always)
    return said, could, wrong


@pytest.mark.parametrize("depth", [0, 1])
@pytest.mark.parametrize("config", [SMALL, PAGED], ids=["page=1", "page=2"])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("cache", CACHES)
def test_what_is_certain_is_so_in_every_history(cache: str, policy: str, config: Config, depth: int) -> None:
    said, could, wrong = compared(cache, replace(config, policy=policy), depth)

    assert not wrong
    assert 0 < said <= could
    if cache == "strict" or depth == 1:
        assert said == could, "all is known that can be"
