"""The calls of a tape, made on another cache.

An operand means what gave it: the other cache gets its own place, handle or job where the first was given one.  Both
are laid side by side meanwhile, so that the other is asked nothing that its caller could not ask: from where they part
on it is asked nothing, until a reset.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.history.likeness import RESET, Play, first_difference, text_of
from kvlitmus.conformance.history.names import Prefixes
from kvlitmus.conformance.ports import Unsupported
from kvlitmus.conformance.support.text import harmless, raised_text
from kvlitmus.conformance.tape.calls import CALLS, FILLED, LENT, OTHER, TURNS, look_of
from kvlitmus.conformance.tape.changes import Looks
from kvlitmus.conformance.tape.forms import FormError, Json
from kvlitmus.conformance.tape.lines import Header, Step, TapeReader
from kvlitmus.conformance.tape.operands import GIVES, TAKES, Operands, at

NOT_MADE = frozenset({TURNS, OTHER, *LENT, *FILLED})
"""Calls that go on after they were made, or use what the suite lends them: a tape doesn't tell all of that."""


class Driven:
    """The program that makes the calls of a file's first play.

    Raises :class:`Unsupported` where it can't go on, though the two have not parted.
    """

    def __init__(self, file: str) -> None:
        self.file = file

    def __call__(self, checker: Checker) -> None:
        """Make them."""
        with TapeReader(self.file) as reader:
            header, steps = next(reader.plays())
            Driver(checker, header).drive(steps)


class Driver:
    """Two caches side by side: one on a tape, the other there."""

    def __init__(self, checker: Checker, header: Header) -> None:
        self.checker = checker
        self.adapter: Any = checker.adapter
        self.prefixes = Prefixes()
        self.tape, self.here = Play(header, self.prefixes), Play(header, self.prefixes)
        self.operands = Operands()
        self.given: dict[str, object] = {}
        self.looks = Looks()
        self.number = 0

    def drive(self, steps: Iterable[Step]) -> None:
        """Make the calls of a play."""
        apart = False
        for step in steps:
            if apart and step.call != RESET:
                self.tape.moment(step)
                self.looks.read(step.looks)
                continue
            try:
                made = self.made(step)
                mine, theirs = self.tape.moment(step), self.here.moment(made)
            except FormError as error:
                self.end(step, f"expected {error.expected}, got {json.dumps(error.got)}")
            if apart:
                if not (self.tape.fresh(mine) and self.here.fresh(theirs)):
                    return
                for play in (self.tape, self.here):
                    play.afresh()
                apart = False
                continue
            parts = first_difference(mine, theirs, self.here.names, self.prefixes)
            apart = parts is not None and not parts.order

    def end(self, step: Step, why: str) -> NoReturn:
        """The play can't go on."""
        raise Unsupported(harmless(f"line {step.line}, {text_of(step)}: {why}"))

    def made(self, step: Step) -> Step:
        """The step of the cache that is here."""
        answer: Json = None
        raised: str | None = None
        args, kwargs = list(step.args), dict(step.kwargs)
        if step.call:
            self.number = self.operands.step = self.number + 1
            args, kwargs, answer, raised = self.called(step)
        looks = {key: self.looked(key, answers) for key, answers in self.looks.read(step.looks).items()}
        seen: dict[str, Json] = {key: told for key, told in looks.items() if told is not None}
        return step._replace(args=args, kwargs=kwargs, answer=answer, raised=raised, looks=seen)

    def called(self, step: Step) -> tuple[list[Json], dict[str, Json], Json, str | None]:
        """Make a call: its arguments and its answer as they are written, or what it raised."""
        if step.call in NOT_MADE or step.call.startswith("raw_"):
            self.end(step, "such a call can't be made from a tape")
        call, method = CALLS[step.call], getattr(self.adapter, step.call, None)
        if method is None:
            self.end(step, "the other cache has no such call")
        names = list(call.parameters)
        by_place = [(names[number] if number < len(names) else "", one) for number, one in enumerate(step.args)]
        whole = {**dict(by_place), **step.kwargs}
        args = [self.meant(step, name, one, whole) for name, one in by_place]
        kwargs = {name: self.meant(step, name, one, whole) for name, one in step.kwargs.items()}
        given, named = call.given(args, kwargs, self.operands)
        things = [names[number] for number in TAKES.get(step.call, ()) if number < len(names)]
        given = [
            self.thing(one) if name in things else value for (name, one), value in zip(by_place, given, strict=True)
        ]
        named |= {name: self.thing(step.kwargs[name]) for name in named if name in things}
        self.checker.announce(text_of(step), step.call)
        answer, error = self.checker.attempt(lambda: method(*given, **named))
        if error is not None:
            return args, kwargs, None, raised_text(error)
        told = call.answered(answer, self.operands)
        if step.call in GIVES and step.raised is None:
            where = GIVES[step.call]
            here: Json = {"@": step.number if where is None else [step.number, where]}
            for name in (json_at(step.answer, where), here):  # what it gave before has that name as well
                self.given[json.dumps(name)] = at(answer, where)
        return args, kwargs, told, None

    def thing(self, told: Json) -> object:
        """The handle or receipt that the cache here gave where the other gave this one."""
        if told is None:
            return None
        try:
            return self.given[json.dumps(told)]
        except KeyError:
            raise FormError("what a step before gave both", told) from None

    def meant(self, step: Step, name: str, told: Json, given: Mapping[str, Json]) -> Json:
        """An argument by the numbers that places and jobs have here; a handle is left out."""
        if name in [list(CALLS[step.call].parameters)[number] for number in TAKES.get(step.call, ())]:
            return None
        return self.tape.names.there(name, told, given, self.here.names)

    def looked(self, key: str, answers: list[Json]) -> Json:
        """Look as often as was looked at the other."""
        method, args = look_of(key)
        if method == "peek" or not hasattr(self.adapter, method):
            return None
        names = list(CALLS[method].parameters)
        here = [self.tape.names.there(names[number], one, {}, self.here.names) for number, one in enumerate(args)]
        given, _ = CALLS[method].given(here, {}, self.operands)
        told: list[Json] = []
        for _ in answers:
            answer, error = self.checker.attempt(lambda: getattr(self.adapter, method)(*given))
            told.append(
                {"raised": raised_text(error)}
                if error is not None
                else CALLS[method].answer.write(answer, self.operands)
            )
        return told[0] if len(told) == 1 else {"several": told}


def json_at(answer: Json, where: str | int | None) -> Json:
    """What stands there in an answer that is written."""
    if where is None or answer is None:
        return answer
    if isinstance(where, str):
        return answer.get(where) if type(answer) is dict else None
    return answer[where] if type(answer) is list and len(answer) > where else None
