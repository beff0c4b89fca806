"""The calls of a tape, made on another cache.

A handle or receipt means the step that gave it: where the cache on the tape was given one of its own, the other is
given its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from kvlitmus.conformance.support.text import raised_text
from kvlitmus.conformance.tape.calls import CALLS, Call
from kvlitmus.conformance.tape.forms import FormError, Json
from kvlitmus.conformance.tape.lines import Step
from kvlitmus.conformance.tape.operands import GIVES, TAKES, Operands, at

Told = tuple[Json, str | None]
"""An answer as it is written, or what was raised."""


class Driver:
    """Makes the calls of one play on a cache.

    Places and jobs are numbers, which whoever drives translates before; handles and receipts are translated here.
    """

    def __init__(self, adapter: object) -> None:
        self.adapter: Any = adapter
        self.operands = Operands()
        self._given: dict[str, tuple[object, str]] = {}

    def attempt(self, make: Callable[[], object]) -> tuple[Any, Exception | None]:
        """Ask the cache: what it answered, or raised."""
        try:
            return make(), None
        except Exception as error:  # noqa: BLE001 - whatever it is, that is how the cache refuses
            return None, error

    def arguments(
        self, step: Step, args: Sequence[Json], kwargs: Mapping[str, Json]
    ) -> tuple[list[object], dict[str, object]]:
        """The arguments of a step, with this cache's own handles.

        ``args``, ``kwargs``: with its own numbers, as they are written.  Raises :class:`FormError` for what has none.
        """
        call = CALLS[step.call]
        taken = [number for number in TAKES.get(step.call, ()) if number < len(args)]
        named = call.takes & kwargs.keys()
        given = call.given(
            [None if number in taken else one for number, one in enumerate(args)],
            {name: None if name in named else one for name, one in kwargs.items()},
            self.operands,
        )
        for number in taken:
            given[0][number] = self._thing(args[number])
        given[1].update({name: self._thing(kwargs[name]) for name in named})
        return given

    def _thing(self, told: Json) -> object:
        """The handle or receipt that this cache gave where the other gave this one; none for none."""
        known = self._given.get(json.dumps(told))
        if known is None and told is not None:
            raise FormError("what a step before gave both", told)
        return known and known[0]

    def giver(self, told: Json) -> str:
        """The call that gave a handle or receipt; empty where none did."""
        known = self._given.get(json.dumps(told))
        return known[1] if known is not None else ""

    def known_as(self, told: object, thing: object, call: str) -> None:
        """Another cache's handle or receipt means this one here, which ``call`` gave."""
        self._given[json.dumps(told)] = thing, call

    def make(self, step: Step, given: Sequence[object], named: Mapping[str, object]) -> Told:
        """Make the call of a step with these arguments."""
        self.operands.step = step.number
        answer, error = self.called(step, partial(getattr(self.adapter, step.call), *given, **named))
        if error is None and step.raised is None and step.call in GIVES:
            where = GIVES[step.call]
            for told in (at(step.answer, where, written=True), self.operands.here(where)):  # either may name it
                self.known_as(told, at(answer, where), step.call)
        return self._written(CALLS[step.call], answer, error)

    def called(self, step: Step, make: Callable[[], object]) -> tuple[Any, Exception | None]:
        """Make the call of a step."""
        return self.attempt(make)

    def look(self, method: str, args: Sequence[Json]) -> Told:
        """Look at the cache; the arguments with its own numbers."""
        given, _ = CALLS[method].given(args, {}, self.operands)
        return self._written(CALLS[method], *self.attempt(partial(getattr(self.adapter, method), *given)))

    def _written(self, call: Call, answer: object, error: Exception | None) -> Told:
        return (call.answered(answer, self.operands), None) if error is None else (None, raised_text(error))
