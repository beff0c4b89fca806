"""A tape as ``kvlitmus check`` reads it: one play, whose calls have their arguments by name.

What the *logger* writes must have the form that is promised: an argument that hasn't is an error of the tape.  What the
*cache* answered may be anything; an answer of another form is handed to the checker as it stands, and the checker says
what it thinks of it (PORT-03).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from kvlitmus.conformance.history.forms import JUDGED, JUDGED_PORTS, LOOKS, Arguments, arguments
from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.conformance.support.text import harmless
from kvlitmus.conformance.tape import lines as tape
from kvlitmus.conformance.tape.calls import CALLS, look_of
from kvlitmus.conformance.tape.calls import LOOKS as ALL_LOOKS
from kvlitmus.conformance.tape.changes import Looks
from kvlitmus.conformance.tape.forms import FormError, Json
from kvlitmus.conformance.tape.lines import TapeError, TapeReader
from kvlitmus.conformance.tape.operands import Operands

UNWATCHED = {"page_hashes", "plan_prefetch", "write", "free_group_begin", *LOOKS}
"""Calls after which nobody looks: they change nothing, or nothing that could be seen yet."""


class Raised(NamedTuple):
    """A look that raised."""

    text: str


Seen = Mapping[str, object]
"""What was seen after a call, by the method that looks: as a port gives it, or :class:`Raised`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """How the cache was made, which ports it has, and how it looked when it was fresh.

    ``looks``: what is observed after each call.  ``unjudged``: ports that it has and that can't be judged yet.
    """

    config: Config
    profile: Profile
    ports: frozenset[str]
    unjudged: frozenset[str]
    contents: str
    cache: str
    looks: frozenset[str]
    first: Seen

    @property
    def depth(self) -> int:
        """How deep a checker can look."""
        return 3 if "view" in self.looks else 1 if self.looks else 0


class Call(NamedTuple):
    """One line: a call, its arguments by name, and its answer, or what it raised; ``look``: what was seen after it.

    A ``method`` that isn't known has no arguments.
    """

    line: int
    method: str
    args: Arguments
    answer: Any
    raised: str | None
    look: Seen


class Reader:
    """One pass over one tape; its header and the looks at the fresh cache are read at once.

    ``torn``, ``done`` and ``size`` as :class:`~kvlitmus.conformance.tape.lines.TapeReader` has them.
    """

    def __init__(self, file: str, *, ignore_unknown: bool = False) -> None:
        self.tape = TapeReader(file, ignore_unknown=ignore_unknown)
        self.size = self.tape.size
        self.ignore_unknown = ignore_unknown
        self._looks = Looks()
        self._operands = Operands(strict=True)
        self._lines = iter(self.tape)
        self._waiting: list[tape.Header | tape.Step] = []
        self._grouped = False
        self._last: Seen = {}
        try:
            self.header = self.opened()
        except TapeError:
            self.close()
            raise

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, if it is one."""
        self.tape.close()

    @property
    def torn(self) -> tuple[int, str] | None:
        """In which line and how the file was cut short, if it was."""
        return self.tape.torn

    @property
    def done(self) -> int:
        """How many bytes of the file were read."""
        return self.tape.done

    def __iter__(self) -> Iterator[Call]:
        """The calls, in order."""
        while True:
            found = self._waiting.pop() if self._waiting else next(self._lines, None)
            if found is None:
                return
            if isinstance(found, tape.Header):
                self.tape.wrong("a tape of one play", "the header of another play")
            yield self.call(found)

    def opened(self) -> Header:
        """The header, with the looks at the fresh cache in the line behind it."""
        said = self.tape.header
        missing = {"config", "ports"} - said.data.keys()
        if missing:
            self.tape.wrong(f"{min(missing)!r} in the header", "none")
        first: Seen = {}
        found = next(self._lines, None)
        if isinstance(found, tape.Step) and not found.number:
            first = self.seen(found.looks)
        elif found is not None:
            self._waiting.append(found)
        looks, self._last = frozenset(first), first
        for look, port in (("available", "pool"), ("sizes", "counters"), ("view", "inspect")):
            if look in looks and port not in said.ports:
                self.tape.odd(f"the port {port!r} among the ports, since {look!r} is looked at", sorted(said.ports))
        for look, port in (("available", "pool"), ("sizes", "counters")):
            if looks and look not in looks and port in said.ports:
                self.tape.wrong(f"a look at {look!r}, beside {' and '.join(map(repr, sorted(looks)))}", "none")
        ports = said.ports - ({"inspect"} if "view" not in looks else set()) - (set() if looks else {"counters"})
        return Header(
            config=said.config,
            profile=said.profile,
            ports=ports & JUDGED_PORTS,
            unjudged=ports - JUDGED_PORTS,
            contents=said.contents,
            cache=harmless(said.cache or said.target),
            looks=looks,
            first=first,
        )

    def seen(self, looks: dict[str, Json]) -> Seen:
        """What was looked at, as far as it can be judged."""
        found: dict[str, object] = {}
        try:
            for key, (told, *_) in self._looks.read(looks).items():
                method, _ = look_of(key)
                if method not in ALL_LOOKS and not self.ignore_unknown:
                    self.tape.odd(f"looks among {', '.join(sorted(ALL_LOOKS))}", method)
                if method in LOOKS:
                    raised = type(told) is dict and told.keys() == {"raised"}
                    found[method] = Raised(str(told["raised"])) if raised else CALLS[method].told(told, self._operands)  # type: ignore[index, call-overload]
        except FormError as error:
            self.tape.odd(error.expected, error.got)
        return found

    def call(self, step: tape.Step) -> Call:
        """The call of a step."""
        self._operands.step = step.number
        look = self.seen(step.looks)
        method, raised = step.call, step.raised
        if method not in JUDGED:
            if not self.ignore_unknown:
                self.tape.odd(f"one of the calls {', '.join(JUDGED)} (or --ignore-unknown)", method)
            return Call(step.line, method, {}, None, raised, look)
        try:
            named = arguments(method, step.args, step.kwargs, self._operands)
            answer = None if raised is not None else CALLS[method].told(step.answer, self._operands)
        except FormError as error:
            self.tape.odd(error.expected, error.got)
        if method in ("free_group_begin", "free_group_end"):
            self._grouped = method == "free_group_begin"
        if self._grouped:  # within a group nobody knows what is free: what was seen before it may stand for it
            look = {**self._last, **look}
        self._last = look
        missing = self.header.looks - look.keys() if raised is None and method not in UNWATCHED else ()
        if missing:
            self.tape.wrong(f"a look at {min(missing)!r} on this line, since the fresh cache was looked at", "none")
        return Call(step.line, method, named, answer, raised, look)
