"""Is the second cache the first?  Two records of one item, where they part, and what the rules say of that.

Each record is judged by itself, by the rules of this tree and the profile of its cache.  Where they part

* one of them breaks a rule there, or further on in the same play, that the other doesn't: a **difference in law**;
* or with a field of the other's profile one of them would break a rule there, or the caller would ask otherwise: that
  is the **legal choice**;
* or the rules leave it open: a **freedom**.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from kvlitmus.conformance.checker.checker import Checker
from kvlitmus.conformance.generate.schedule import describe
from kvlitmus.conformance.history.checker import TraceChecker
from kvlitmus.conformance.history.compare import likeness
from kvlitmus.conformance.history.compare.likeness import NEVER, Likeness
from kvlitmus.conformance.history.playback import OF_A_RANK
from kvlitmus.conformance.history.reader import Reader
from kvlitmus.conformance.isolation.current_run import CurrentRun
from kvlitmus.conformance.ports import Profile
from kvlitmus.conformance.run import engine
from kvlitmus.conformance.run.results import Finding, Options, to_json
from kvlitmus.conformance.tape.calls import look_of
from kvlitmus.conformance.tape.forms import Json
from kvlitmus.conformance.tape.lines import Header, Step, TapeError, TapeReader, encoded
from kvlitmus.conformance.tape.played import Again, Record
from kvlitmus.spec.parts import all_rules

LAW, CHOICE, FREEDOM, UNJUDGED = KINDS = ("difference in law", "legal choice", "freedom", "not judged")

FREEDOMS: Mapping[str, str] = {
    "order": "the order of what is listed",
    "victims": "which of several legal victims goes",
    "places": "which free place is taken",
    "call": "what the caller makes of an earlier answer",
}
"""What rules leave open, by what differs."""

LOOKED_AT: Mapping[str, str] = {"counters": "sizes", "inspect": "view"}
"""Ports that are judged by a look after each call."""

PLACES = frozenset({"slots", "host", "told", "row", "places", "left"})
"""Where places stand in what is compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """Rules that one cache breaks at a step, with the words of the finding; ``side``: ``A`` or ``B``."""

    side: str
    step: int
    rules: list[str]
    call: str
    allowed: str
    seen: dict[str, str]


@dataclass(slots=True, kw_only=True)
class Compared:
    """What came of one item: ``parting`` is ``None`` where the plays are alike to their end.

    ``kind``: one of :data:`KINDS`.  ``breach``: of a difference in law.  ``fields``: of a legal choice, the fields of
    the profile; ``freedom``: of a freedom, which.  ``both``: rules that both break before they part; of plays that are
    alike, rules by which both end.  ``later``: where they part again after they were together.  ``steps`` of ``of``
    steps were compared, in ``plays`` plays; ``apart``: why not all.
    """

    item: str
    steps: int = 0
    of: int = 0
    plays: int = 1
    parting: likeness.Parting | None = None
    kind: str = ""
    breach: Breach | None = None
    fields: list[str] = field(default_factory=list)
    freedom: str = ""
    both: list[str] = field(default_factory=list)
    later: list[Compared] = field(default_factory=list)
    apart: str = ""

    @property
    def why(self) -> str:
        """What the parting is, in a line; equal lines are one cause."""
        if self.breach is not None:
            return f"{self.breach.side} breaks {', '.join(self.breach.rules)}"
        return self.freedom or ", ".join(self.fields)

    def as_json(self) -> dict[str, object]:
        """Plain data."""
        return {**asdict(self), "why": self.why}


def judged(record: Record, profile: Profile, options: Options, since: int = 0) -> tuple[Finding | None, str, int]:
    """What a record breaks first after a step, judged by a profile; else why it ends; and in which step."""
    if record.item.kind == "tape":
        return traced(record, profile, options, since)
    watched = Again(record, profile)
    forced = record.plays[0][0].force_misuse
    plain = replace(options, reruns=0, shrink_trials=0, record="", force_misuse=forced)
    every = frozenset(all_rules())

    class Late(Checker):
        """Passes over whatever is broken up to that step."""

        def judge(self, occasions: tuple[str, ...], inputs: tuple[Any, ...], unknown: frozenset[str]) -> None:
            self.muted = every if watched.step <= since else plain.muted
            super().judge(occasions, inputs, unknown)

    result = engine.run_item(watched, record.item, plain, CurrentRun(checker_type=Late))
    return next(iter(result.findings), None), result.error or result.unsupported, watched.step


def traced(record: Record, profile: Profile, options: Options, since: int) -> tuple[Finding | None, str, int]:
    """The same of a play that names no item, by what a trace tells."""
    (header, steps), *_ = record.plays
    everywhere = {key for key in steps[0].looks if look_of(key)[0] not in OF_A_RANK} if steps else set[str]()
    missing = {key for key in everywhere for one in steps[1:] if key not in one.looks}
    ports = sorted(port for port in header.ports if LOOKED_AT.get(port) not in missing)
    lines: list[Mapping[str, object]] = [{**header.data, "profile": to_json(describe(profile)), "ports": ports}]
    for one in steps:
        looks = {key: told for key, told in one.looks.items() if key not in missing}
        lines.append({**one.data, "looks": looks})
    numbers = {line: one.number for line, one in enumerate(steps, 2)}
    try:
        with TapeReader("play", data=b"".join(map(encoded, lines))) as tape:
            reader = Reader(tape)
            trace = TraceChecker(reader, depth=options.depth)
            trace.checker.muted = frozenset(all_rules()) if since else options.muted
            for line in trace.run(reader):
                if numbers.get(line, 0) >= since:
                    trace.checker.muted = options.muted
    except TapeError as error:
        return None, f"expected {error.expected}, got {error.got}", 0
    found = next(iter(trace.outcome.findings), None)
    if found is None and trace.outcome.lacking:
        return None, trace.outcome.lacking, 0
    at = numbers.get(found.line if found is not None else trace.outcome.last, 0)
    return None if found is None else found.finding, trace.outcome.error or trace.outcome.stopped, at


Plays = tuple[Header, Sequence[Step]]


def compared(
    a: Record,
    b: Record,
    options: Options,
    ended: tuple[Sequence[str], Sequence[str]] = ((), ()),
    cut: str = "",
) -> Compared:
    """Two records of one item, side by side.

    ``ended``: rules by which they ended when they were played; ``cut``: why not all calls of the first could be made.
    """
    pairs = list(paired(a.plays, b.plays))
    outcome = Compared(
        item=a.item.id,
        steps=sum(found.steps for _, found in pairs),
        of=sum(max((one.number for one in steps), default=0) for (_, steps), _ in pairs),
        plays=len(pairs),
        apart=next((found.apart for _, found in pairs if found.apart), ""),
    )
    partings = [one for _, found in pairs for one in found.partings if not (cut and one.what == "end")]
    outcome.apart = outcome.apart or cut
    if not partings and list(ended[0]) != list(ended[1]):
        last, last_b = (record.plays[0][1][-1] for record in (a, b))
        text = likeness.text_of(last)
        partings.append(likeness.Parting(step=last.number, step_b=last_b.number, call=text, what="end"))
    if not partings and contents(a) != contents(b):
        partings += in_contents(a, b, options)
    if not partings:
        outcome.both = list(ended[0])
    for at, found in enumerate(partings):
        one = outcome if at == 0 else Compared(item=outcome.item)
        one.parting = found
        why(one, found, (a, b), options)
        if one is not outcome:
            outcome.later.append(one)
    return outcome


def contents(record: Record) -> list[tuple[int, str, Json]]:
    """What was read of slots, as it is written: what lies in them is not compared, and rules may speak of it."""
    return [
        (step.number, key, told)
        for _, steps in record.plays
        for step in steps
        for key, told in step.looks.items()
        if look_of(key)[0] == "peek"
    ]


def in_contents(a: Record, b: Record, options: Options) -> Iterator[likeness.Parting]:
    """Where plays that look alike part all the same: one breaks a rule by what lies in its slots."""
    (one, _, at), (two, _, at_b) = (judged(record, record.plays[0][0].profile, options) for record in (a, b))
    if (one and one.rules, at) == (two and two.rules, at_b) or (one is None and two is None):
        return
    step = min(number for number, found in ((at, one), (at_b, two)) if found is not None)
    call = next((likeness.text_of(known) for _, steps in a.plays for known in steps if known.number == step), "")
    yield likeness.Parting(step=step, step_b=step, call=call, what="contents")


def paired(a: Sequence[Plays], b: Sequence[Plays]) -> Iterator[tuple[Plays, Likeness]]:
    """Each play of the first with the play of the second that goes on longest alike.

    Of plays that are the same a record keeps one, so one may answer for several.
    """
    left = list(b)
    for play in a:
        best: tuple[Likeness, Plays] | None = None
        for other in sorted(b, key=lambda one: all(one is not waiting for waiting in left)):
            found = likeness.likeness(play, other)
            if best is None or found.alike > best[0].alike:
                best = found, other
            if not found.partings:
                break
        if best is not None:
            left = [one for one in left if one is not best[1]]
            yield play, best[0]
    for other in left:
        found = max((likeness.likeness(play, other) for play in a), key=lambda one: one.alike)
        yield other, found


Found = tuple[Finding | None, str, int]
"""What a cache breaks, or why judging ended, and in which step."""


def breach_of(side: str, found: Found) -> Breach | None:
    """What a cache breaks, with the words of the finding."""
    finding, _, step = found
    if finding is None:
        return None
    return Breach(
        side=side, step=step, rules=finding.rules, call=finding.call, allowed=finding.allowed, seen=finding.seen
    )


def broken_by(
    records: tuple[Record, Record], parting: likeness.Parting, options: Options
) -> tuple[list[int], list[Found], list[str]]:
    """Since when they are judged, what each breaks from there on, and what both broke in the same steps before."""
    both: dict[str, None] = {}
    since, ends = [parting.since, parting.since_b], (parting.step, parting.step_b)
    while True:
        found = [
            judged(record, record.plays[0][0].profile, options, after)
            for record, after in zip(records, since, strict=True)
        ]
        (one, _, at), (two, _, at_b) = found
        together = at - parting.since == at_b - parting.since_b
        if one is None or two is None or one.rules != two.rules or not together or at >= ends[0] or at <= since[0]:
            return since, found, list(both)
        both.update(dict.fromkeys(one.rules))
        since = [at, at_b]


def why(outcome: Compared, parting: likeness.Parting, records: tuple[Record, Record], options: Options) -> None:
    """Say whether a parting is a choice of the profile, a freedom, or a difference in law."""
    since, found, outcome.both = broken_by(records, parting, options)
    steps = (parting.step, parting.step_b)
    breaches = [breach_of(side, one) for side, one in zip("AB", found, strict=True)]
    untils = (parting.until or NEVER, parting.until_b or NEVER)
    if records[0].item.kind == "tape":  # what an engine did later, it did in another state
        untils = steps
    broken = [one for one, until in zip(breaches, untils, strict=True) if one is not None and one.step <= until]
    at_once = [one for one, step in zip(breaches, steps, strict=True) if one is not None and one.step <= step]
    if at_once:
        outcome.kind, outcome.breach = LAW, min(at_once, key=lambda one: one.step)
        return
    outcome.fields = chosen(records, since, steps, found, options)
    unjudged = [
        f"{side}: {text}" for side, (_, text, at), end in zip("AB", found, steps, strict=True) if text and at < end
    ]
    if outcome.fields:
        outcome.kind = CHOICE
    elif len(broken) == 1 or (broken and broken[0].rules != broken[1].rules):
        outcome.kind, outcome.breach = LAW, min(broken, key=lambda one: one.step)
    elif parting.what == "end":
        outcome.kind, outcome.freedom = UNJUDGED, "one of the plays ends there"
    elif unjudged:
        outcome.kind, outcome.freedom = UNJUDGED, unjudged[0]
    else:
        outcome.kind, outcome.freedom = FREEDOM, freedom(parting)


def chosen(
    records: tuple[Record, Record],
    since: Sequence[int],
    steps: Sequence[int],
    own: Sequence[Found],
    options: Options,
) -> list[str]:
    """The fields of the profiles that decide: with the other's value one of the plays would not be legal.

    Those by which it ends in this step or before; if there are none, the one by which it ends first: what a cache has
    done shows later then.  ``own``: what each comes to by its own profile.
    """
    profiles = [record.plays[0][0].profile for record in records]
    ends = [at if finding is not None or error else NEVER for finding, error, at in own]
    found: list[tuple[int, str]] = []
    for one in fields(Profile):
        values = [getattr(profile, one.name) for profile in profiles]
        if values[0] == values[1]:
            continue
        first = NEVER
        for side, (record, profile, value) in enumerate(zip(records, profiles, reversed(values), strict=True)):
            try:
                other = replace(profile, **{one.name: value})
            except ValueError:  # fields that go together
                continue
            finding, error, at = judged(record, other, options, since[side])
            if (finding is not None or error) and at < ends[side]:
                first = min(first, at - steps[side])
        if first < NEVER:
            found.append((first, f"{one.name}: {values[0]!r} of A, {values[1]!r} of B"))
    at_once = [text for late, text in found if late <= 0]
    return at_once or [text for _, text in sorted(found)[:1]]


def freedom(found: likeness.Parting) -> str:
    """What the rules leave open."""
    if found.order:
        return f"{FREEDOMS['order']} ({found.what})"
    if found.victims:
        return FREEDOMS["victims"]
    if found.what == "call":
        return FREEDOMS["call"]
    if not PLACES.isdisjoint(found.where.split(" / ")):
        return FREEDOMS["places"]
    place = f"{found.what}, {found.where}" if found.where and "tree" not in found.where else found.what
    return f"no rule decides it: {place} after {found.call.partition('(')[0]}"
