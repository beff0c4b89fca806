"""All histories: what every correct cache may have done that answered as another was seen to.

A schedule is played on a cache, at some depth of observation.  Then, from the empty cache on, each state that a
correct cache may be in is called the same, with every choice that the rules leave it (how many pages it evicts, which
free pages it hands out), and those go on that would have answered the same and show the same.  Where none goes on, what
was seen differs from every legal completion.  Choices multiply, so pools and schedules are small, and a schedule with
too many is given up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from typing import Any, NamedTuple

from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.checker.guard import Violation
from kvlitmus.conformance.generate.interpreter import Interpreter
from kvlitmus.conformance.generate.schedule import WEIGHTS, draw, table
from kvlitmus.conformance.ports import Config
from kvlitmus.reference.prefix.choose import Choice, available, free_pages, least_valuable, sizes
from kvlitmus.reference.prefix.perform import DECIDE, perform
from kvlitmus.spec.parts import all_rules
from kvlitmus.spec.prefix import calls, effects
from kvlitmus.spec.prefix.advance import expect, opened_by
from kvlitmus.spec.prefix.page import Tier
from kvlitmus.spec.prefix.state import State, empty_state
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name, PageNo, pages_in_order, pages_of

KINDS = frozenset(WEIGHTS) - {"extend", "decode", "hashes", "plan"}
"""The operations of which the reference knows every choice."""

BEGINNING = calls.Begin | calls.Fork | calls.Resume
TAKING = BEGINNING | calls.Grow
"""Calls that take memory, and evict for it."""

OPS = 60
"""Operations in one schedule."""

MOST = 400
"""So many histories are followed; a schedule that has more is given up."""


class Noted(NamedTuple):
    """One call, its answer, what was known after it, and what was shown: as deep as the checker looked."""

    call: Any
    answer: Any
    known: State
    available: int | None
    sizes: tuple[int, int] | None
    told: Set[Name] | None
    cached: dict[Name, PageNo] | None


class Noting(Checker):
    """A checker that keeps what was shown and known after each call."""

    noted: list[Noted]

    def _observe(self, call: Any, answer: Any, expected: State, found: Any, row_found: Any) -> None:
        super()._observe(call, answer, expected, found, row_found)
        seen, told = self.before, self.state.told
        events, cached = None if told is None else frozenset(told.device), seen.cached if seen.seen else None
        self.noted.append(Noted(call, answer, self.state, seen.available, seen.sizes, events, cached))


class Differs(Exception):
    """No correct cache can have answered, and shown, what was seen."""


def noted(target: Any, config: Config, depth: int, seed: int, *, judged: bool = True) -> tuple[Setting, list[Noted]]:
    """What a short schedule brings to light at this depth; without rules, unless it is to be judged.

    Raises :class:`Differs` where the cache raises, or answers in another form than was promised.
    """
    muted = frozenset() if judged else frozenset(id for id in all_rules() if not id.startswith("PORT-"))
    checker = Noting(target.make(config), config, target.profile, depth=depth, muted=muted)
    checker.noted = []
    kinds = tuple(kind for kind in table(checker.capabilities) if kind in KINDS)
    caller = Interpreter(checker)
    for op in draw(seed, OPS, kinds):
        try:
            caller.do(*op[:4])
        except Violation as violation:
            if judged:
                raise
            raise Differs(violation.call) from violation
    return checker.setting, checker.noted


def room(state: State, after: State, setting: Setting, call: Any, answer: Any) -> Sequence[int]:
    """How many pages a correct cache may evict for this call."""
    unlocked = sum(not page.locks for page in after.device.pages.values())
    slack = setting.profile.evict_slack
    if isinstance(call, calls.Evict):
        return [answer // setting.size]
    if not isinstance(call, TAKING):
        return [0]
    free = len(free_pages(state, setting))
    if isinstance(call, BEGINNING):
        opened = pages_of(answer.row[answer.cached :], setting.size)
    else:
        opened = opened_by(state.requests[call.rid].row, answer, setting)
    lack = len(opened) - free
    if lack + slack <= 0:
        return [0]
    whole = least_valuable(after.device, lack, setting)
    return range(max(0, lack), min(max(lack + slack, len(whole)), unlocked) + 1)


def all_histories(setting: Setting, steps: Sequence[Noted]) -> Iterator[tuple[Noted, list[State]]]:
    """After each step the states of all correct caches that would have answered so; ends where there are too many.

    Raises :class:`Differs` where there is none.
    """
    setting = Setting(setting.config, setting.profile, 3, setting.capabilities, setting.names)
    states = [empty_state()]
    for step in steps:
        found: dict[Any, State] = {}
        for state in states:
            for then in successors(state, setting, step.call, step.answer):
                if shows(then, setting, step):
                    found[frozenset(then.device.pages.items())] = then
        states = list(found.values())
        if not states:
            raise Differs(f"{step.call} → {step.answer}")
        if len(states) > MOST:
            return
        yield step, states


def shows(state: State, setting: Setting, step: Noted) -> bool:
    """Whether a cache in this state shows what was shown."""
    return (
        (step.available is None or step.available == available(state, setting))
        and (step.sizes is None or tuple(step.sizes) == sizes(state, setting))
        and (step.told is None or step.told == state.device.pages.keys())
        and (step.cached is None or step.cached == {name: page.page for name, page in state.device.pages.items()})
    )


def successors(state: State, setting: Setting, call: Any, answer: Any) -> Iterator[State]:
    """The states of correct caches after this call, if they answer so."""
    if type(call) not in DECIDE:
        yield expect(state, setting, call, answer)
        return
    touched = expect(state, setting, call, answer)
    if answer is None and isinstance(call, TAKING):
        yield from refusals(state, touched, setting, call)
        return
    granted = pages_granted(state, setting, call, answer)
    for many in room(state, touched, setting, call, answer):
        victims = first_to_go(touched.device, many, setting)
        if len(victims) == many:
            try:
                step = perform(state, setting, call, Choice(victims, granted))
            except ValueError:
                continue
            if isinstance(call, calls.Lock) or same_answer(step.answer, answer):
                yield step.after


def refusals(state: State, touched: State, setting: Setting, call: Any) -> Iterator[State]:
    """The same of a refused request: anything may have gone in the attempt, and what it found may have been held."""
    found = [page for page in call.path.pages if page in state.device.pages] if isinstance(call, calls.Begin) else []
    held = effects.lock(touched.device, found[-1]) if found else touched.device
    for tree in (touched.device, held):
        for many in range(len(tree.pages) + 1):
            victims = first_to_go(tree, many, setting)
            if len(victims) == many:
                yield touched._replace(device=effects.remove(touched.device, victims))


def first_to_go(tree: Tier, many: int, setting: Setting) -> tuple[Name, ...]:
    """So many pages, in the order in which they are evicted page by page."""
    profile = replace(setting.profile, evict_granularity="page")
    return least_valuable(tree, many, Setting(setting.config, profile, 3, setting.capabilities))


def pages_granted(state: State, setting: Setting, call: Any, answer: Any) -> tuple[PageNo, ...] | None:
    """The pages that a call was granted, as the choice of another cache."""
    size = setting.size
    if answer is None:
        return None
    if isinstance(call, calls.Alloc):
        return pages_in_order(answer, size)
    if isinstance(call, BEGINNING):
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
