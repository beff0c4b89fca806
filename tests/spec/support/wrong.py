"""Steps of a cache that is wrong in one value: a correct step once more, with something else answered or shown.

A :class:`TellingChecker` tells what was said of each step, of whichever cache.

A :class:`WrongChecker` plays as usual.  It notes what the cache answered and what it showed when it was looked at, and
judges each step a few times more from the same state, each time as if one of these values had been another: one more
or less, one that another step had in this place, an entry of a list left out, twice, or in another order.  Any cache
could have answered or shown that.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from typing import Any

from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.checker.guard import Violation
from kvlitmus.conformance.checker.harness_store import HarnessStore
from kvlitmus.spec.misuse.calls import Aftermath, Lookups, MisuseCall
from kvlitmus.spec.prefix.components.calls import PoolsSeen
from kvlitmus.spec.prefix.components.steps import step
from kvlitmus.spec.prefix.seen import Record, Seen, TierSeen
from kvlitmus.spec.prefix.state import State

TIMES = ((200, 8), (1_000, 4), (5_000, 1))
"""How often a step is judged once more: the fewer were on its occasions at its depth, the more often."""

KEPT = 24
"""So many values of each place are kept, to be put there in other steps."""

Place = tuple[str, ...]
"""Where a value stands: in the answer to a kind of call, or in what a kind of look shows; then names of fields."""


class Wrong:
    """Values as they aren't: drawn from a seed, and from what was seen in the same place before."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.seen: dict[Place, list[Any]] = {}
        self.tried: Counter[object] = Counter()

    def note(self, place: Place, value: Any) -> None:
        """Remember what stood somewhere, and in its parts."""
        values = self.seen.setdefault(place, [])
        if not any(one is value for one in values):
            if len(values) < KEPT:
                values.append(value)
            else:
                values[self.draw.randrange(KEPT)] = value
        parts = _parts(value)
        for name, part in parts.items():
            self.note((*place, name), part)
        if type(value) in (list, tuple) and value:
            self.note((*place, "each"), self.draw.choice(value))

    def other(self, place: Place, value: Any) -> Any:
        """Another value than this for this place."""
        draw, seen = self.draw, self.seen.get(place, ())
        parts = _parts(value)
        if seen and draw.random() < (0.15 if parts else 0.3):
            return draw.choice(seen)
        if parts:
            name = draw.choice(sorted(parts))
            return _with(value, name, self.other((*place, name), parts[name]))
        if type(value) is bool:
            return not value
        if type(value) is int:
            return draw.choice((value + 1, max(0, value - 1), 0, 2 * value))
        if type(value) in (list, tuple) and value:
            return type(value)(self.others(place, list(value)))
        if isinstance(value, frozenset) and value:
            return value - {draw.choice(sorted(value, key=repr))}
        if isinstance(value, dict) and value:
            gone = draw.choice(sorted(value, key=repr))
            return {key: one for key, one in value.items() if key != gone}
        return draw.choice(seen) if seen else value

    def others(self, place: Place, values: list[Any]) -> list[Any]:
        """A list with one entry left out, twice, exchanged, or another."""
        at, way = self.draw.randrange(len(values)), self.draw.randrange(5)
        if way == 0:
            del values[at]
        elif way == 1:
            values.insert(at, values[at])
        elif way == 2:
            to = self.draw.randrange(len(values))
            values[at], values[to] = values[to], values[at]
        else:
            values[at] = self.other((*place, "each"), values[at])
        return values


def _parts(value: Any) -> dict[str, Any]:
    """The fields of a value that has any; what a cache hands out to be handed back has none."""
    if not type(value).__module__.startswith("kvlitmus.spec."):
        return {}
    if hasattr(value, "_fields"):
        return {name: getattr(value, name) for name in value._fields}
    if is_dataclass(value):
        return {one.name: getattr(value, one.name) for one in fields(value)}
    return {}


def _with(value: Any, name: str, part: Any) -> Any:
    """The same value with another field."""
    return value._replace(**{name: part}) if hasattr(value, "_fields") else replace(value, **{name: part})


TOLD = 10
"""How a process ends in which something else is said."""


class Told:
    """What was said of each step of a play; ends the process where it is not what was said then, if that is known."""

    def __init__(self, then: Sequence[int] | None = None) -> None:
        self.said: list[int] = []
        self.then = then

    def note(self, what: object) -> None:
        """Note what was said of a step."""
        self.said.append(hash(what))
        if self.then is not None and self.then[: len(self.said)][-1:] != self.said[-1:]:
            os._exit(TOLD)


class TellingChecker(Checker):
    """A checker that tells what was said of each step: which rules were judged, broken, unknown, or had no premise."""

    told: Told

    def judge(self, occasions: tuple[str, ...], inputs: tuple[Any, ...], unknown: frozenset[str]) -> None:
        """Judge a step, and tell."""
        broken: tuple[str, ...] = ()
        try:
            super().judge(occasions, inputs, unknown)
        except Violation as violation:
            broken = tuple(violation.rules)
            raise
        finally:
            judge = self.own_judge
            self.told.note((judge.tally.plan.rules, broken, tuple(judge.not_judged), tuple(judge.tally.idle)))


class WrongChecker(TellingChecker):
    """A checker that judges each step a few times more, each time with one value changed."""

    wrong: Wrong
    noted: list[tuple[tuple[Any, ...], Any]] | None = None
    """What looks showed since the step began, while they are noted."""
    shown: dict[tuple[Any, ...], list[Any]] | None = None
    """What looks are to show instead, while a step is judged once more."""

    def times(self) -> range:
        """How often the step that was just judged is judged once more."""
        tried, occasions = self.wrong.tried, (self.own_judge.tally.occasions, self.depth)
        times = next((times for below, times in TIMES if tried[occasions] < below), 0)
        tried[occasions] += times
        return range(times)

    def look(self, method: str, *args: Any) -> Any:
        """Look at the cache, or at what it might have shown."""
        key = (method, repr(args))
        if self.shown is not None:
            left = self.shown.get(key)
            return super().look(method, *args) if left is None else left.pop(0) if len(left) > 1 else left[0]
        found = super().look(method, *args)
        if self.noted is not None:
            self.noted.append((key, list(found) if type(found) is list else found))
        return found

    def poke(self, call: Any, answer: Any) -> None:
        """What the caller computes is in its slots already when a step is judged once more."""
        if self.shown is None:
            super().poke(call, answer)

    def step(self, call: Any, answer: Any) -> None:
        """Judge a step, and then steps that are almost the same."""
        state, before, store, kept = self.state, self.before, self.store, self.kept
        self.noted = []
        try:
            super().step(call, answer)
        finally:
            noted, self.noted = self.noted, None
        after = self.before
        record = after.record if isinstance(after, TierSeen) else None
        place = (type(call).__name__,)
        self.remember(place, answer, noted)
        if record is not None:
            self.wrong.note(("record",), record)
        was = (self.state, self.before, self.distrusted, self.passed_over, self.parted)
        self.kept = type(kept)()
        for _ in self.times():
            told, looks, stored = self.other(place, answer, noted, record)
            self.state, self.before = state, before
            self.distrusted, self.passed_over, self.parted = was[2], dict(was[3]), list(was[4])
            self.shown = looks
            if store is not None and stored is not None:
                self.store = Shown(store, stored)
            with suppress(Exception):  # broken rules, and what is no step at all
                super().step(call, told)
            self.shown = None
        self.state, self.before, self.distrusted, self.passed_over, self.parted = was
        self.store, self.kept = store, kept

    def remember(self, place: Place, answer: Any, noted: Sequence[tuple[tuple[Any, ...], Any]]) -> None:
        """Note what was answered and shown."""
        self.wrong.note((*place, "answer"), answer)
        for (method, _), value in noted:
            self.wrong.note(("look", method), value)

    def other(
        self, place: Place, answer: Any, noted: Sequence[tuple[tuple[Any, ...], Any]], record: Record | None
    ) -> tuple[Any, dict[tuple[Any, ...], list[Any]], Record | None]:
        """An answer, what is shown, and what storage saw, one or two of them otherwise than they were."""
        draw = self.wrong.draw
        values = [value for _, value in noted]
        for _ in range(draw.choice((1, 1, 2))):
            at = draw.randrange(-3, len(values)) if values else -1
            if at == -1 and record is not None:
                record = self.wrong.other(("record",), record)
            elif at < 0:
                answer = self.wrong.other((*place, "answer"), answer)
            else:
                values[at] = self.wrong.other(("look", noted[at][0][0]), values[at])
        looks: dict[tuple[Any, ...], list[Any]] = {}
        for (key, _), value in zip(noted, values, strict=True):
            looks.setdefault(key, []).append(value)
        return answer, looks, record

    def answered(
        self, call: Any, answer: Any, state: Any = None, pools: PoolsSeen | None = None, known: State | None = None
    ) -> None:
        """Judge a call after which nothing else is observed, and then other answers to it, and looks of components."""
        super().answered(call, answer, state, pools, known)
        place, look = (type(call).__name__, "answer"), (type(call).__name__, "pools")
        self.wrong.note(place, answer)
        if pools is not None:
            self.wrong.note(look, pools)
        for _ in self.times():
            told, looked = answer, pools
            if pools is not None and self.wrong.draw.randrange(2):
                looked = self.wrong.other(look, pools)
            else:
                told = self.wrong.other(place, answer)
            self.once_more(self.judged_alone, call, told, state, looked)

    def judged_alone(self, call: Any, answer: Any, state: Any, pools: PoolsSeen | None) -> None:
        """Judge a call by its answer, and by what is known of components after that."""
        known = None if pools is None else step(state, self.setting, call, answer, pools).then
        super().answered(call, answer, state, pools, known)

    def misused(self, call: MisuseCall, answer: Aftermath | Lookups, state: State, before: Seen, after: Seen) -> None:
        """Judge a call that broke the contract, and then others that went otherwise, or left something else."""
        super().misused(call, answer, state, before, after)
        place = (type(call).__name__, "answer")
        self.wrong.note(place, answer)
        for _ in self.times():
            self.once_more(super().misused, call, self.wrong.other(place, answer), state, before, after)
            self.noted = []
            self.observe_now()
            noted, self.noted = self.noted, None
            for (method, _), value in noted:
                self.wrong.note(("look", method), value)
            told, self.shown, _ = self.other(place, answer, noted, None)
            with suppress(Exception):  # it hasn't the form
                self.once_more(super().misused, call, told, state, before, self.observe_now())
            self.shown = None

    def once_more(self, judged: Callable[..., None], *args: Any) -> None:
        """Judge a step of which nothing is kept."""
        was = (self.distrusted, dict(self.passed_over))
        with suppress(Exception):  # broken rules, and what is no step at all
            judged(*args)
        self.distrusted, self.passed_over = was


class Shown(HarnessStore):
    """A storage with the same pages that has on record what it is told to have."""

    def __init__(self, store: HarnessStore, told: Record) -> None:
        super().__init__(store.page_size)
        self.contents, self.told = store.contents, told

    def record(self) -> Record:
        """What it was told."""
        return self.told
