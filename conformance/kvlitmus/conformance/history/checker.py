"""The checker: takes the lines of a trace one after the other and has them judged.

For each line the caller is judged first (:mod:`~kvlitmus.conformance.history.contract`), then the cache, by the
same functions (:mod:`kvlitmus.conformance.checker.calls`) that make the calls of every other run.  A call that raised
leaves the cache in a state that nobody knows, and so does a breach of the contract: there the judging ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kvlitmus.conformance.checker.guard import Violation
from kvlitmus.conformance.history import families, unseen
from kvlitmus.conformance.history.arguments import HARMLESS
from kvlitmus.conformance.history.contract import Breach, Contradiction
from kvlitmus.conformance.history.following import Following
from kvlitmus.conformance.history.reader import Call
from kvlitmus.conformance.history.state import Act, TraceState
from kvlitmus.conformance.support.text import harmless, raised_text
from kvlitmus.conformance.tape.answers import NotRecorded
from kvlitmus.conformance.tape.calls import CALLS, TURNS
from kvlitmus.conformance.tape.lines import TapeError

MAX_GROUP = 100_000
"""The most calls between the beginning and the end of a free group."""


class TraceChecker(TraceState):
    """Judges one trace.  Raises :class:`TapeError` for one whose beginning is no fresh cache."""

    def run(self, lines: Iterable[Call]) -> Iterator[int]:
        """Judge all calls, as far as they can be; yields the number of each line that is done."""
        calls = Following(lines)
        try:
            for call in calls:
                if not self.step(call, calls):
                    return
                self.outcome.last = self.playback.line = max(call.line, self.playback.line)
                yield call.line
        except KeyboardInterrupt:
            self.outcome.interrupted = True

    def step(self, call: Call, following: Following[Call]) -> bool:
        """Judge one call, or one free group; whether to go on."""
        self.call = call
        self.outcome.total += 1
        if self.outcome.total == 1 and self.attached_already(call):
            return True
        act = families.ACTIONS.get(call.method)
        if act is None or (call.method == "plan_prefetch" and call.args["host"] is None):
            return self.passed_over(call)
        if call.lacking:
            self.loses_sight(f"nobody looked at {min(call.lacking)} after it")
        waiting = [call]
        if call.method == "free_group_begin" and not self.checker.blind:
            waiting = self.group(call, following)
        evaluations, blind = self.checker.evaluations, self.checker.blind
        self.playback.unseen = ""
        try:
            if call.method == TURNS and self.begun:
                waiting = families.asked_together(self, call, following)
            (unseen.act if blind else act)(self, waiting)
        except Breach as breach:
            return self.breached(breach)
        except Violation as violation:
            self.ended_by(violation)
            return False
        except NotRecorded as error:
            self.outcome.stopped = f"line {self.at}: {error}"
            return False
        except Contradiction as error:
            self.outcome.error = f"line {error.line}: {error.text}"
            return False
        except (TapeError, KeyboardInterrupt):
            raise
        except Exception as error:  # noqa: BLE001 - a trace may say anything; what upsets the judge must not be a verdict
            self.outcome.error = f"line {self.at}: {call.method} upsets the judge: {raised_text(error)}"
            return False
        self.outcome.total += len(waiting) - 1
        judged = len(waiting) if not blind or self.checker.evaluations > evaluations else 0
        self.outcome.judged += judged
        self.outcome.partly += judged if blind or self.playback.unseen else 0
        self.outcome.lacking = self.outcome.lacking or self.playback.unseen
        self.checker.forget_calls(self.window)
        if call.method == "free_group_begin" and not blind and waiting[-1].method != "free_group_end":
            self.outcome.stopped = f"line {call.line}: the trace ends within the free group that begins here"
            return False
        return True

    def attached_already(self, call: Call) -> bool:
        """Storage was there from the beginning, where there is some; whether the first call attached it unseen."""
        checker = self.checker
        if checker.blind or checker.store is None or checker.config.storage != "attached":
            return False
        if call.method != "attach":
            checker.state = checker.state._replace(tiers=checker.below._replace(attached=True))
        elif call.lacking:
            self.playback.waiting.append(call)
            checker.attached_before()
            self.outcome.judged += 1
            return True
        return False

    def act_of(self, method: str) -> Act | None:
        """See :class:`TraceState`."""
        return unseen.act if self.checker.blind and method in families.ACTIONS else families.ACTIONS.get(method)

    def passed_over(self, call: Call) -> bool:
        """A call that can't be judged; what it did isn't known, if it may have changed anything."""
        self.outcome.ignored[call.method] = self.outcome.ignored.get(call.method, 0) + 1
        if call.method in CALLS and call.method not in HARMLESS and call.method != "plan_prefetch":
            self.loses_sight(f"what {call.method} does isn't known")
            self.playback.seen = call.look
            self.checker.before = self.checker.observe_now()
        return True

    def loses_sight(self, why: str) -> None:
        """From here on it isn't known any more what the cache has: judged is what is certain without that."""
        if not self.checker.blind:
            self.outcome.lacking = f"line {self.call.line}: {why}"
            self.checker.blinded()

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
