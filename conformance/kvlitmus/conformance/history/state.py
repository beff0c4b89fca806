"""What is known of a trace while it is judged, and what came of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from kvlitmus.conformance.checker.calls.prefix.hashing import Answered
from kvlitmus.conformance.checker.explain import allowed_text, seen_texts
from kvlitmus.conformance.checker.guard import Violation
from kvlitmus.conformance.history.contract import Breach
from kvlitmus.conformance.history.handles import Places
from kvlitmus.conformance.history.playback import Playback, RecordedChecker
from kvlitmus.conformance.history.reader import Call, Reader, call_text
from kvlitmus.conformance.run.results import Finding
from kvlitmus.conformance.support.text import harmless
from kvlitmus.conformance.tape.answers import NotRecorded
from kvlitmus.conformance.tape.lines import Step, TapeError
from kvlitmus.spec.prefix.seen import TierSeen

Act = Callable[["TraceState", Sequence[Call]], None]
"""What is done with a call, or with all calls of a group."""

FRESH = 2
"""The line with the looks at a fresh cache."""

MAX_MISUSE = 100
"""So many breaches of the contract are told; the others are counted."""


@dataclass(slots=True, kw_only=True)
class Located:
    """A finding and where it is: the line of the call that broke the rules, and the line of each call that is shown.

    ``before``: how many calls came before those that are shown.
    """

    finding: Finding
    line: int
    lines: list[int]
    before: int


@dataclass(slots=True, kw_only=True)
class Misuse:
    """A breach of the contract by the recorded engine.  ``harmless``: judging could go on."""

    line: int
    kind: str
    call: str
    text: str
    harmless: bool
    lines: list[int] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class JudgedTrace:
    """What came of a trace.  ``stopped`` says why judging ended before the trace did, in words; ``last`` is the last
    line that was judged.  ``total``: the calls up to there; ``judged``: those that were judged; ``partly``: those of
    them that were by what is certain where not all is known: from where on, and for want of what, says ``lacking``.
    """

    findings: list[Located] = field(default_factory=list)
    misuse: list[Misuse] = field(default_factory=list)
    misuses: int = 0
    ignored: dict[str, int] = field(default_factory=dict)
    total: int = 0
    judged: int = 0
    partly: int = 0
    lacking: str = ""
    last: int = 1
    stopped: str = ""
    error: str = ""
    torn: str = ""
    interrupted: bool = False

    @property
    def broken_off(self) -> bool:
        """Whether the engine broke the contract so that judging ended."""
        return any(not one.harmless for one in self.misuse)


class TraceState:
    """One trace so far.  Raises :class:`TapeError` for one whose beginning is no fresh cache."""

    def __init__(
        self,
        reader: Reader,
        *,
        depth: int = 3,
        muted: frozenset[str] = frozenset(),
        keep_going: bool = False,
        window: int = 20,
    ) -> None:
        self.file = file = reader.tape.file
        self.header = header = reader.header
        self.keep_going = keep_going
        self.window = window
        self.outcome = JudgedTrace()
        self.playback = Playback(header, reader.operands)
        self.call = Call(1, "", {}, None, None, {}, Step(1, 0, "", [], {}, None, None, [], {}, {}))
        self.places = Places()
        self.hashed: deque[Answered] = deque(maxlen=8)
        self.detached = self.ticked = False
        self.begun = not header.lacking
        self.outcome.lacking = harmless(header.lacking)
        make = partial(
            RecordedChecker, self.playback, header, depth=min(depth, header.depth), muted=muted, found=self.found
        )
        try:
            try:
                self.checker = make(blind=bool(header.lacking))
            except NotRecorded as error:
                self.outcome.lacking = harmless(error)
                self.checker = make(blind=True)
        except Violation as violation:
            raise TapeError(file, FRESH, "what a fresh cache shows, in the promised form", violation.detail) from None
        if not self.checker.blind:
            self.check_fresh()

    def check_fresh(self) -> None:
        """A trace begins with an empty cache, unless it says that it doesn't: what was there before can't be judged."""
        seen, capacity = self.checker.before, self.checker.capacity
        expected = "a trace that begins with a fresh cache"
        middle = '; the tape of a cache that is in use already has "begins": "middle" in its header'
        if seen.available is not None and seen.available != capacity:
            raise TapeError(self.file, FRESH, f"{expected}: {capacity} slots available", f"{seen.available}{middle}")
        cached = seen.cached_listed or (seen.sizes or (0, 0)) != (0, 0)
        entries = [self.header.first.get(one, ()) for one in ("component_entries", "component_host_entries")]
        if cached or (isinstance(seen, TierSeen) and (seen.tier_nodes or seen.jobs)) or any(map(any, entries)):
            raise TapeError(self.file, FRESH, f"{expected}: nothing cached", f"something cached{middle}")

    def act_of(self, method: str) -> Act | None:
        """What is done with a call, or with all those of a group; nothing with one that can't be judged."""
        raise NotImplementedError

    @property
    def at(self) -> int:
        """The line that is being judged."""
        return max(self.call.line, self.playback.line)

    def found(self, violation: Violation) -> bool:
        """Note a violation, explained; whether to go on."""
        checker = self.checker
        rules = [id for id in violation.rules if id not in checker.muted]
        if not rules:
            return self.keep_going
        rule = checker.rules[rules[0]]
        shown = checker.history[-self.window :]
        finding = Finding(
            rules=rules,
            item=f"trace:{harmless(self.file)}",
            config=self.header.config,
            call=harmless(violation.call),
            calls=[harmless(call) for call in shown],
            allowed=allowed_text(rule, checker.names, violation.facts),
            seen=seen_texts(rule, checker.names, violation.facts),
            detail=harmless(violation.detail),
            drawn_steps=checker.steps,
            steps=checker.steps,
        )
        lines = checker.lines[-self.window :]
        line = lines[-1] if lines else self.at
        self.outcome.findings.append(
            Located(finding=finding, line=line, lines=lines, before=checker.steps - len(shown))
        )
        return self.keep_going

    def misused(self, breach: Breach, *, harmless: bool) -> None:
        """Note a breach, with the calls before it."""
        self.outcome.misuses += 1
        if len(self.outcome.misuse) < MAX_MISUSE:
            checker = self.checker
            self.outcome.misuse.append(
                Misuse(
                    line=self.call.line,
                    kind=breach.kind,
                    call=call_text(self.call),
                    text=breach.text,
                    harmless=harmless,
                    lines=checker.lines[-self.window + 1 :],
                    calls=list(checker.history[-self.window + 1 :]),
                )
            )
