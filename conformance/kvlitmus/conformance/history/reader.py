"""A tape as ``kvlitmus check`` reads it: one play, whose calls have their arguments by name.

What the *logger* writes must have the form that is promised: an argument that hasn't is an error of the tape.  What the
*cache* answered may be anything; an answer of another form is handed to the checker as it stands, and the checker says
what it thinks of it (PORT-03).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, NamedTuple, NoReturn

from kvlitmus.conformance.history.arguments import HARMLESS, JUDGED, JUDGED_PORTS, Arguments, arguments
from kvlitmus.conformance.ports import PORTS, Config, Profile
from kvlitmus.conformance.support.text import harmless, shown
from kvlitmus.conformance.tape import lines as tape
from kvlitmus.conformance.tape.calls import CALLS, LOOKS, OTHER, TOLD_ONCE, TURNS, look_of
from kvlitmus.conformance.tape.changes import Looks, Unchanged
from kvlitmus.conformance.tape.forms import FormError, Json
from kvlitmus.conformance.tape.lines import TapeError, TapeReader
from kvlitmus.conformance.tape.operands import Operands
from kvlitmus.conformance.tape.written import raised_in

UNWATCHED = {"page_hashes", "plan_prefetch", "write", "free_group_begin", *HARMLESS, *LOOKS}
"""Calls after which nobody looks: they change nothing, or nothing that could be seen yet."""

ONCE = frozenset({"layers", "sparse_shape", "sparse_buffer", "store_yard"})
"""Looks that always show the same: one is enough."""

AHEAD = 1_000
"""So many lines at most may come before the first that says which looks are made after a call."""

SNAPSHOTS = frozenset({"view", "tiers", "sparse_view", "component_entries"})
TOLD = frozenset({"events", "component_events"})

KINDS = frozenset(
    {"pool", "tree", "hashes", "prefetch", "components", "component_lookup", "component_requests", "sparse"}
)
"""The ports of caches that can be looked at before the first call."""

WRITES = "component_writes"
"""The port of a cache that begins backups by itself, whether anybody looks or not."""


class Raised(NamedTuple):
    """A look that raised."""

    text: str


Seen = Mapping[str, Sequence[object]]
"""What was seen after a call, by the key of the look: each answer as a port gives it, or :class:`Raised`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """How the cache was made, which ports it has, and how it looked when it was fresh.

    ``looks``: what is observed after each call.  ``unjudged``: ports that it has and that can't be judged;
    ``methods``: its calls that make up no port.  ``begins``: whether it was ``fresh``.  ``without``: the calls that the
    tape lacks.  ``complete``: whether it has the looks that it takes to know what calls do.
    """

    config: Config
    profile: Profile
    ports: frozenset[str]
    unjudged: frozenset[str]
    contents: str
    cache: str
    looks: frozenset[str]
    first: Seen
    methods: tuple[str, ...]
    complete: bool
    begins: str
    without: tuple[str, ...]

    @property
    def lacking(self) -> str:
        """For want of what it isn't known what the cache has, in words; empty where it is."""
        if self.begins != "fresh":
            return "the tape begins in the middle"
        if self.without:
            return f"the tape lacks calls of {', '.join(self.without)}"
        return "" if self.complete else "not all looks were made that it takes"

    @property
    def depth(self) -> int:
        """How deep a checker can look."""
        if self.looks & SNAPSHOTS or not self.ports & KINDS:
            return 3
        return 2 if self.looks & TOLD else 1 if self.looks else 0


class Call(NamedTuple):
    """One line: a call, its arguments by name, and its answer, or what it raised; ``look``: what was seen after it.

    A ``method`` that isn't known has no arguments.  ``step``: the line as it stands.  ``lacking``: what was looked at
    before, and not after this call.
    """

    line: int
    method: str
    args: Arguments
    answer: Any
    raised: str | None
    look: Seen
    step: tape.Step
    lacking: frozenset[str] = frozenset()


class Reader:
    """One pass over one tape; its header and the looks at the fresh cache are read at once.

    ``done`` and ``size`` as :class:`~kvlitmus.conformance.tape.lines.TapeReader` has them.
    """

    def __init__(self, reader: TapeReader) -> None:
        self.tape = reader
        self.size = reader.size
        self.ignore_unknown = reader.ignore_unknown
        self._looks = Looks()
        self.operands = Operands(strict=True)
        self._lines = iter(self.tape)
        self._waiting: list[tape.Header | tape.Step] = []
        self._grouped = False
        self._last: Seen = {}
        self._decoded = Unchanged[object]()
        self.header = self.opened()

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
                raise TapeError(self.tape.file, found.line, "a tape of one play", "the header of another play")
            yield self.call(found)

    def opened(self) -> Header:
        """The header, with the looks at the fresh cache in the line behind it."""
        said = self.tape.header
        missing = {"config", "ports"} - said.data.keys()
        if missing:
            self.tape.wrong(f"{min(missing)!r} in the header", "none")
        first: Seen = {}
        looks: set[str] = set()
        found = next(self._lines, None)
        if isinstance(found, tape.Step) and not found.number:
            first = self.seen(found.looks, found.line)
            looks = {look_of(key)[0] for key in first}
            for look in sorted(looks):
                if not any(look in PORTS[port] for port in said.ports & PORTS.keys()):
                    port = next(port for port in PORTS if look in PORTS[port])
                    self.tape.odd(f"the port {port!r} among the ports, since {look!r} is looked at", sorted(said.ports))
        elif found is not None:
            self._waiting.append(found)
        if (
            first or said.begins != "fresh" or not said.ports & {"pool", "sparse"}
        ):  # some looks are made after calls alone
            looks |= {look_of(key)[0] for one in self.ahead() for key in one.looks} & LOOKS
        looks, self._last = {one for one in looks if not CALLS[one].parameters}, first
        unseen = {
            port
            for port in (said.ports & PORTS.keys()) - {WRITES}
            if LOOKS.issuperset(PORTS[port]) and not all(one in looks or CALLS[one].parameters for one in PORTS[port])
        }
        ports = said.ports - unseen
        lacking = {one for port in ports & JUDGED_PORTS for one in PORTS[port] if one in LOOKS - looks - ONCE}
        lacking = {one for one in lacking if not CALLS[one].parameters}
        complete = not lacking or (not looks and lacking <= {"available"})
        return Header(
            config=said.config,
            profile=said.profile,
            ports=ports & JUDGED_PORTS,
            unjudged=ports - JUDGED_PORTS,
            contents=said.contents,
            cache=harmless(said.cache or said.target),
            looks=frozenset(looks),
            first=first,
            methods=tuple([one for one in said.methods if one in JUDGED]),
            complete=complete,
            begins=said.begins,
            without=said.without,
        )

    def ahead(self) -> Iterator[tape.Step]:
        """The steps up to the first one after which somebody looked; they are read later."""
        begun = self._waiting[::-1]
        for one in chain(list(begun), islice(self._lines, AHEAD)):
            if one not in begun:
                self._waiting.insert(0, one)
            if isinstance(one, tape.Step):
                yield one
                if one.looks:
                    return

    def seen(self, looks: dict[str, Json], line: int) -> Seen:
        """What was looked at, as far as it can be judged."""
        found: dict[str, list[object]] = {}
        try:
            for key, told in self._looks.read(looks).items():
                method, _ = look_of(key)
                if method in LOOKS:
                    found[key] = [self.decoded(key, method, one) for one in told]
                elif not self.ignore_unknown:
                    raise FormError(f"looks among {', '.join(sorted(LOOKS))}", method)
        except FormError as error:
            self.odd(line, error)
        return found

    def odd(self, line: int, error: FormError) -> NoReturn:
        """Raise for what stands in a line."""
        raise TapeError(self.tape.file, line, error.expected, shown(error.got, tape.SHOWN)) from None

    def decoded(self, key: str, method: str, told: Json) -> object:
        """A look as a port gives it; the very value of the look before, where nothing has changed."""

        def read(told: Json) -> object:
            if (raised := raised_in(told)) is not None:
                return Raised(raised)
            return CALLS[method].told(told, self.operands)

        return self._decoded.of(key, told, read)

    def call(self, step: tape.Step) -> Call:
        """The call of a step."""
        self.operands.step = step.number
        look = self.seen(step.looks, step.line)
        method, raised = step.call, step.raised
        if method not in JUDGED:
            if method not in CALLS and not self.ignore_unknown:
                names = [one for port in PORTS if port in self.header.ports for one in PORTS[port] if one not in LOOKS]
                self.odd(step.line, FormError(f"one of the calls {', '.join(names)} (or --ignore-unknown)", method))
            return Call(step.line, method, {}, None, raised, look, step)
        try:
            named = arguments(method, step.args, step.kwargs, self.operands)
            later = raised is not None or method in (TURNS, OTHER)
            answer = None if later else CALLS[method].told(step.answer, self.operands)
        except FormError as error:
            self.odd(step.line, error)
        if method in ("free_group_begin", "free_group_end"):
            self._grouped = method == "free_group_begin"
        if self._grouped:  # within a group nobody knows what is free: what was seen before it may stand for it
            look = {**{key: seen for key, seen in self._last.items() if key not in TOLD_ONCE}, **look}
        self._last = look
        watched = raised is None and method not in UNWATCHED and not method.startswith("store_")
        lacking = self.header.looks - look.keys() - ONCE if watched else frozenset()
        return Call(step.line, method, named, answer, raised, look, step, lacking)


def call_text(call: Call) -> str:
    """A call as it was recorded."""
    given = ", ".join(f"{name}={list(value) if type(value) is tuple else value}" for name, value in call.args.items())
    end = "" if call.raised is None else f" → raised {call.raised}"
    return harmless(f"{call.method}({given}){end}")
