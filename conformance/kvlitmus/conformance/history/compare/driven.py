"""The calls of a tape, made on another cache.

An operand means what gave it: the other cache gets its own place, handle or job where the first was given one.  Both
are laid side by side meanwhile, so that the other is asked nothing that its caller could not ask: from where they part
on it is asked nothing, until a reset.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.history.compare.likeness import RESET, Play, first_difference, text_of
from kvlitmus.conformance.history.compare.names import Prefixes
from kvlitmus.conformance.ports import Unsupported
from kvlitmus.conformance.support.text import harmless
from kvlitmus.conformance.tape.calls import CALLS, FILLED, LENT, OTHER, TURNS, look_of
from kvlitmus.conformance.tape.changes import Looks
from kvlitmus.conformance.tape.driver import Driver
from kvlitmus.conformance.tape.forms import FormError, Json
from kvlitmus.conformance.tape.lines import Header, Step, TapeReader

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
            SideBySide(checker, header).drive(steps)


class SideBySide(Driver):
    """Two caches side by side: one on a tape, the other there."""

    def __init__(self, checker: Checker, header: Header) -> None:
        super().__init__(checker.adapter)
        self.checker = checker
        self.prefixes = Prefixes()
        self.tape, self.here = Play(header, self.prefixes), Play(header, self.prefixes)
        self.looks = Looks()

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
        if step.call:
            if step.call in NOT_MADE or step.call.startswith("raw_"):
                self.end(step, "such a call can't be made from a tape")
            if getattr(self.adapter, step.call, None) is None:
                self.end(step, "the other cache has no such call")
            args, kwargs = self.meant(step.call, step.args, step.kwargs)
            answer, raised = self.make(step, *self.arguments(step, args, kwargs))
            step = step._replace(args=args, kwargs=kwargs, answer=answer, raised=raised)
        looks = {key: self.looked(key, len(answers)) for key, answers in self.looks.read(step.looks).items()}
        return step._replace(looks={key: told for key, told in looks.items() if told is not None})

    def called(self, step: Step, make: Callable[[], object]) -> tuple[Any, Exception | None]:
        """Make the call of a step, as a call of the suite's."""
        self.checker.announce(text_of(step), step.call)
        return self.attempt(make)

    def attempt(self, make: Callable[[], object]) -> tuple[Any, Exception | None]:
        """Ask the cache that is here."""
        return self.checker.attempt(make)

    def meant(self, method: str, args: list[Json], kwargs: Mapping[str, Json]) -> tuple[list[Json], dict[str, Json]]:
        """Arguments by the numbers that places and jobs have here."""
        given = CALLS[method].by_name(args, kwargs)
        here = {name: self.tape.names.there(name, one, given, self.here.names) for name, one in given.items()}
        return list(here.values())[: len(args)], {name: here[name] for name in kwargs}

    def looked(self, key: str, often: int) -> Json:
        """Look as often as was looked at the other."""
        method, args = look_of(key)
        if method == "peek" or not hasattr(self.adapter, method):
            return None
        here, _ = self.meant(method, args, {})
        seen = [self.look(method, here) for _ in range(often)]
        told: list[Json] = [answer if raised is None else {"raised": raised} for answer, raised in seen]
        return told[0] if len(told) == 1 else {"several": told}
