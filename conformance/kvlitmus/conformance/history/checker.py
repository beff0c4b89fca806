"""The checker: takes the lines of a trace one after the other and has them judged.

For each line the caller is judged first (:mod:`~kvlitmus.conformance.history.contract`), then the cache, by the
same functions (:mod:`kvlitmus.conformance.checker.calls`) that make the calls of every other run.  A call that raised
leaves the cache in a state that nobody knows, and so does a breach of the contract: there the judging ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kvlitmus.conformance.checker.guard import Violation
from kvlitmus.conformance.history import actions
from kvlitmus.conformance.history.contract import Breach, Contradiction
from kvlitmus.conformance.history.lines import Call
from kvlitmus.conformance.history.state import TraceState
from kvlitmus.conformance.support.text import harmless, raised_text
from kvlitmus.conformance.tape.lines import TapeError

MAX_GROUP = 100_000
"""The most calls between the beginning and the end of a free group."""


class TraceChecker(TraceState):
    """Judges one trace.  Raises :class:`TapeError` for one whose beginning is no fresh cache."""

    def run(self, calls: Iterable[Call]) -> Iterator[int]:
        """Judge all calls, as far as they can be; yields the number of each line that is done."""
        calls = iter(calls)
        try:
            for call in calls:
                if not self.step(call, calls):
                    return
                self.outcome.last = self.playback.line = max(call.line, self.playback.line)
                yield call.line
        except KeyboardInterrupt:
            self.outcome.interrupted = True

    def step(self, call: Call, following: Iterator[Call]) -> bool:
        """Judge one call, or one free group; whether to go on."""
        self.call = call
        act = actions.ACTIONS.get(call.method)
        if act is None or call.args.get("host", ()) is None:
            self.outcome.ignored[call.method] = self.outcome.ignored.get(call.method, 0) + 1
            return True
        waiting = [call]
        if call.method == "free_group_begin":
            waiting = self.group(call, following)
        try:
            act(self, waiting)
        except Breach as breach:
            return self.breached(breach)
        except Violation as violation:
            self.ended_by(violation)
            return False
        except Contradiction as error:
            self.outcome.error = f"line {error.line}: {error.text}"
            return False
        except (TapeError, KeyboardInterrupt):
            raise
        except Exception as error:  # noqa: BLE001 - a trace may say anything; what upsets the judge must not be a verdict
            self.outcome.error = f"line {self.at}: {call.method} upsets the judge: {raised_text(error)}"
            return False
        self.checker.forget_calls(self.window)
        if call.method == "free_group_begin" and waiting[-1].method != "free_group_end":
            self.outcome.stopped = f"line {call.line}: the trace ends within the free group that begins here"
            return False
        return True

    def ended_by(self, violation: Violation) -> None:
        """Say why nothing later is judged: a rule is broken, or what a call has done isn't known."""
        if any(id.startswith("PORT-") for id in violation.rules):
            self.found(violation)
            rules, detail = ", ".join(violation.rules), harmless(violation.detail, 100)
            why = f"{rules}: {detail}; what the call left behind isn't known"
        else:
            why = "a rule is broken (--keep-going judges on by the others)"
        self.outcome.stopped = f"line {self.at}: {why}"
        self.outcome.last = self.at

    def group(self, call: Call, following: Iterator[Call]) -> list[Call]:
        """The calls of a free group, from its beginning to its end, or to that of the trace."""
        waiting = [call]
        for one in following:
            waiting.append(one)
            if one.method == "free_group_end":
                return waiting
            if len(waiting) > MAX_GROUP:
                raise TapeError(self.file, one.line, f"a free group of at most {MAX_GROUP:,} calls", "more")
        return waiting

    def breached(self, breach: Breach) -> bool:
        """Note that the engine broke the contract; whether its profile says what that does."""
        raised = self.call.raised is not None
        tolerated = self.header.profile.misuse == ("reject" if raised else "ignore")
        self.misused(breach, harmless=tolerated)
        if tolerated:
            return True
        self.outcome.stopped = (
            f"line {self.call.line}: the engine broke the contract, and what the cache did then is its own affair"
        )
        return False
