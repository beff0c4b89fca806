"""Disturbances: foreign effects, done to a specimen behind a call that it has just answered.

They are the self-test of the table of actions (:mod:`kvlitmus.spec.law.actions`).
:mod:`kvlitmus.mutants.prefix.disturbances` has ways to bring about each effect.  A :class:`DisturbingChecker` plays as
usual; behind each call it takes copies of the specimen, disturbs each in one way, and has the step judged as if the
call had done that.  In a cell that is *unchanged* the frame must be broken.  In a cell that is governed it depends: an
effect without its cause, too much of it, on the wrong subject.

These are no mutants: they are generated from the table, have no origin in a real cache, and are reported apart.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.checker.guard import Violation
from kvlitmus.mutants.prefix.disturbances import (
    DISTURBANCES,
    FLAT,
    FLAT_WRONG,
    WRONG_SUBJECTS,
    Disturb,
    drop_all,
    drop_copy,
    drop_foreign,
    drop_newest,
    drop_oldest,
)
from kvlitmus.spec.law.actions import ACTIONS, Group, What
from kvlitmus.spec.law.on import On
from kvlitmus.spec.prefix.frame.explain import changes, explain
from kvlitmus.spec.prefix.judged_step import Look, causes_in
from kvlitmus.spec.prefix.seen import Seen, TierSeen
from kvlitmus.spec.prefix.state import State

UNREACHED: dict[On, str] = {
    On.GROUP_CLOSED: "it is the end of a free group in a recorded trace; no cache is there to be disturbed",
    On.COMMIT: "the specimen commits when a request polls, not at a tick",
    On.SETTLED: "it is no call: it sums up the ticks before it, and nothing can happen meanwhile",
}
"""Occasions on which no specimen can be disturbed, each with the reason."""


# -- disturbing ------------------------------------------------------------------------------------

UNCHANGED, NO_CAUSE, TOO_MUCH, WRONG = CASES = "unchanged", "without a cause", "too much", "wrong subject"
"""The cases of a disturbance: the call may not have the effect; it may, but had no cause; it had it already; it may,
but not on that."""

SUMS: dict[Group, tuple[str, ...]] = {
    Group.LOCKS: ("LOCK-02", "LOCK-04"),
    Group.USES: ("TREE-13", "TREE-14"),
}
"""Groups of which snapshots show sums, and the rules that work out what they must be: there these are the frame."""


def guarded(rule: str, what: What) -> bool:
    """Whether a rule guards the cells of this effect that are unchanged."""
    return rule in SUMS.get(what.group, ()) or rule.startswith("FRAME-")


class Trial(NamedTuple):
    """One disturbance behind one kind of call: the occasion, the effect, how it was brought about, and the case."""

    on: On
    what: What
    how: str
    case: str


class Findings:
    """How often each trial was made, by which rules it was noticed, and calls after which it wasn't."""

    def __init__(self) -> None:
        self.made: Counter[Trial] = Counter()
        self.noticed: dict[Trial, Counter[str]] = {}
        self.silent: dict[Trial, list[str]] = {}

    def note(self, trial: Trial, rules: tuple[str, ...], calls: list[str]) -> None:
        """A trial was made, and these rules were broken."""
        self.made[trial] += 1
        self.noticed.setdefault(trial, Counter()).update(rules)
        if not rules:
            self.silent.setdefault(trial, calls)


def text_of(way: Disturb) -> str:
    """How an effect is brought about, in words."""
    return (way.__doc__ or "").strip()


class Legal(NamedTuple):
    """Why an effect that nobody notices is legal on these occasions, in these ways (any, if none is given)."""

    what: tuple[What, ...]
    on: tuple[On, ...]
    why: str
    ways: tuple[str, ...] = ()


ROOM_MADE = (On.REFUSED_BEGIN, On.REFUSED_GROW, On.REFUSED_LOAD_BACK)
SPILLING = (On.EVICT, On.BEGIN, On.GROW, On.LOAD_BACK, *ROOM_MADE, On.OUT_OF_MEMORY)
PREFETCH_ENDS = (On.QUERY, On.ZOMBIE, On.TICK, On.ABANDON, On.DETACH, On.DETACHED, On.POLL)

LEGAL: tuple[Legal, ...] = (
    Legal(
        (What.EVICT, What.DEMOTE),
        ROOM_MADE,
        "memory was short: what is lacking may go, and what the refused call had found, too",
    ),
    Legal((What.EVICT, What.DEMOTE), (On.OUT_OF_MEMORY,), "how much room was made before memory ran out nobody says"),
    Legal(
        (What.DROP,),
        (*SPILLING, On.INSERT, On.PUBLISH, On.FINISH, On.PREFETCH, On.REFUSED_PREFETCH),
        "the host was short: what is lacking for what was wanted there may go, the least valuable first",
        tuple(text_of(way) for way in (drop_oldest, drop_newest, drop_all, drop_foreign)),
    ),
    Legal(
        (What.DROP,),
        (On.INSERT, On.PUBLISH, On.FINISH),
        "room was made on the host: the page was there alone then, and was cached on the device by the same call",
        (text_of(drop_copy),),
    ),
    Legal(
        (What.BEGIN_JOB,),
        (On.INSERT, On.PUBLISH, On.FINISH, On.TICK, *SPILLING),
        "a cache need not remember what storage has: what was cached or has landed may be put once more",
        ("A put begins that nobody has asked for.",),
    ),
    Legal(
        (What.UNPIN,),
        PREFETCH_ENDS,
        "a prefetch that is revoked, or that nobody waits for, protects nothing: a cache may take note of it later",
    ),
    Legal(
        (What.ASK,),
        (On.ZOMBIE, On.QUERY),
        "a query may ask for as many names as it has pages, its last one perhaps in part",
    ),
    Legal(
        (What.ASK, What.PUT),
        (On.RESET, On.DETACH),
        "threads are let finish: what is in the tree may be put, and asked for first",
    ),
)
"""What is legal in governed cells, though it was brought about by a disturbance."""


class Alone(NamedTuple):
    """Why the frame is the only law of these effects where they are governed: what it says there, or what is open."""

    what: tuple[What, ...]
    why: str


BY_FRAME_ALONE: tuple[Alone, ...] = (
    Alone(
        (What.PIN, What.UNPIN),
        "unchanged by nature: FRAME-05 counts, node by node, the jobs and prefetches that began or ended, and a node "
        "is protected as often; what is protected for too long shows when everything has settled, too (LIFE-08), and "
        "what was let go too early when it is dropped (TIER-11, TIER-12)",
    ),
    Alone(
        (What.BEGIN_JOB, What.GO_ON),
        "unchanged by nature: FRAME-06 names for each kind of job the pages or the request that it may be for, and the "
        "one job that goes on; a job of anything else has no cause, and a law could only say that again",
    ),
    Alone(
        (What.ASK, What.READ, What.PUT),
        "unchanged by nature: FRAME-07 names the job that may go to storage, and for how many pages",
    ),
    Alone(
        (What.PLACE, What.RESTORE),
        "open: FRAME-01 says that only pages of the key come to the device; for publications and load backs no law "
        "says so beside it, as TREE-08 does for insertions",
    ),
    Alone(
        (What.DROP,),
        "open: where the suite has asked an allocation of the host to fail, EVICT-06 lets a page go whatever was "
        "wanted; FRAME-03 notices it where nothing was",
    ),
)
"""Effects of which some trials in governed cells are noticed by the frame alone."""


def alone_because(trial: Trial) -> str:
    """Why no law but the frame notices a trial in a governed cell; empty where nobody says."""
    return next((one.why for one in BY_FRAME_ALONE if trial.what in one.what), "")


def legal_because(trial: Trial) -> str:
    """Why a silent trial in a governed cell is legal; empty where it isn't."""
    if trial.case == UNCHANGED:
        return ""
    for what, on, why, ways in LEGAL:
        if trial.what in what and trial.on in on and (not ways or trial.how in ways):
            return why
    return ""


def trials(look: Look, *, tiered: bool) -> Iterator[tuple[Trial, Disturb]]:
    """The disturbances that can be tried behind a step."""
    rows = [on for on in look.occasions if on in ACTIONS]
    causes = causes_in(look.occasions, look.setting.profile)
    seen = {one.what for one in explain(look)}
    for what, ways in (DISTURBANCES if tiered else FLAT).items():
        case = UNCHANGED if what not in causes else TOO_MUCH if what in seen else NO_CAUSE
        for way in ways:
            yield Trial(rows[-1], what, text_of(way), case), way
    for what, ways in (WRONG_SUBJECTS if tiered else FLAT_WRONG).items():
        case = UNCHANGED if what not in causes else WRONG
        for way in ways:
            yield Trial(rows[-1], what, text_of(way), case), way


def subjects(look: Look, what: What) -> set[Any]:
    """What an effect was seen to happen to."""
    return {one for found, many in changes(look, what.group) if found is what for one in many}


def disturbing(findings: Findings, *, most: int = 2) -> type[Checker]:
    """A checker that disturbs copies of the specimen behind its calls, each trial ``most`` times."""

    class DisturbingChecker(Checker):
        def _observe(self, call: Any, answer: Any, expected: State, found: Any, row_found: Any) -> None:
            adapter, state, before = self.adapter, self.state, self.before
            untouched = self.copied(adapter)
            step = (call, answer, expected, found, row_found)
            super()._observe(*step)
            then, after = self.state, self.before
            kept = (then, after)
            look = Look(self.setting, state, expected, then, call, answer, before, after)
            spare = None  # one copy serves those that can't be made here
            for trial, disturb in trials(look, tiered=self.store is not None):
                if findings.made[trial] >= most:
                    continue
                spare = spare or self.copied(untouched)
                self.adapter, self.state, self.before = spare, state, before
                self.tell_again(after)
                if disturb(self.adapter):
                    spare = None
                    rules = self.broken_by(*step)
                    shown = Look(self.setting, state, expected, then, call, answer, before, self.before)
                    if trial.what.group in SUMS or subjects(shown, trial.what) - subjects(look, trial.what):
                        findings.note(trial, rules, self.history[-6:])
            if self.store is not None:
                self.store.record()
            self.adapter = adapter
            self.state, self.before = kept

        def copied(self, adapter: Any) -> Any:
            """A copy of a specimen, with the same storage."""
            return copy.deepcopy(adapter, {id(self.store): self.store})

        def tell_again(self, after: Seen) -> None:
            """Storage shows once more what the call has asked it."""
            if self.store is not None and isinstance(after, TierSeen):
                self.store.record()
                self.store.asked += after.record.asked
                self.store.got += after.record.got
                self.store.puts += after.record.puts

        def broken_by(self, *step: Any) -> tuple[str, ...]:
            """The rules that are broken when the step is judged as it was disturbed."""
            try:
                super()._observe(*step)
            except Violation as violation:
                return violation.rules
            return ()

    return DisturbingChecker
