"""Is the second cache the first?  Two records of one item, where they part, and what the rules say of that.

Each record is judged by itself, by the rules of this tree and the profile of its cache.  Where they part

* one of them breaks a rule there, or further on in the same play, that the other doesn't: a **difference in law**;
* or with a field of the other's profile one of them would break a rule there, or the caller would ask otherwise: that
  is the **legal choice**;
* or the rules leave it open: a **freedom**.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from kvlitmus.conformance.history import likeness
from kvlitmus.conformance.history.again import Again, Played, Record
from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.conformance.run import engine
from kvlitmus.conformance.run.results import Finding, Options

LAW, CHOICE, FREEDOM, UNJUDGED = KINDS = ("difference in law", "legal choice", "freedom", "not judged")

FREEDOMS: Mapping[str, str] = {
    "order": "the order of what is listed",
    "victims": "which of several legal victims goes",
    "places": "which free place is taken",
    "call": "what the caller makes of an earlier answer",
}
"""What rules leave open, by what differs."""

NEVER = 1 << 62

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
    the profile; ``freedom``: of a freedom, which.  ``both``: rules that both break, where both plays end.
    """

    item: str
    steps: int = 0
    parting: likeness.Parting | None = None
    kind: str = ""
    breach: Breach | None = None
    fields: list[str] = field(default_factory=list)
    freedom: str = ""
    both: list[str] = field(default_factory=list)

    @property
    def why(self) -> str:
        """What the parting is, in a line; equal lines are one cause."""
        if self.breach is not None:
            return f"{self.breach.side} breaks {', '.join(self.breach.rules)}"
        return self.freedom or ", ".join(self.fields)

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {**asdict(self), "why": self.why}


class Watched(Again):
    """A recorded item of which it is known how far it was judged."""

    def __init__(self, record: Record, profile: Profile) -> None:
        super().__init__(record)
        self.profile = profile
        self._played: list[Played] = []

    def make(self, config: Config) -> Played:
        """The cache as it was recorded, from the beginning."""
        played = super().make(config)
        self._played.append(played)
        return played

    @property
    def step(self) -> int:
        """The number of the last step that was asked for."""
        return max((one.at for one in self._played), default=0)


def judged(record: Record, profile: Profile, options: Options) -> tuple[Finding | None, str, int]:
    """What a record breaks first, judged by a profile; else why it can't be judged further; and in which step."""
    watched = Watched(record, profile)
    forced = record.plays[0][0].force_misuse
    plain = replace(options, reruns=0, shrink_trials=0, record="", force_misuse=forced)
    result = engine.run_item(watched, record.item, plain)
    return next(iter(result.findings), None), result.error or result.unsupported, watched.step


Broken = Sequence[str] | None
"""The rules that a cache broke in an item; ``None`` where nobody has judged it yet."""


def compared(a: Record, b: Record, options: Options, broken: tuple[Broken, Broken] = (None, None)) -> Compared:
    """Two records of one item, side by side; ``broken``: what came of them when they were played."""
    play = a.plays[0]
    others = [(likeness.parting(play, one), one) for one in b.plays]
    found, other = next(
        (one for one in others if one[0] is None), max(others, key=lambda one: one[0].step if one[0] else 0)
    )
    outcome = Compared(item=a.item.id, steps=min(len(play[1]), len(other[1])), parting=found)
    if found is None:
        one, two = broken
        if one is None or two is None or list(one) == list(two):
            outcome.both = list(one or ())
            return outcome
        last = play[1][-1]
        found = outcome.parting = likeness.Parting(step=last.number, call=likeness.text_of(last), what="end")
    breaches = [
        breach_of(side, one, options) if said is None or said else None
        for side, one, said in (("A", a, broken[0]), ("B", b, broken[1]))
    ]
    why(outcome, found, (a, b), breaches, options)
    return outcome


def breach_of(side: str, record: Record, options: Options) -> Breach | None:
    """What a cache breaks first, by its own profile."""
    finding, _, step = judged(record, record.plays[0][0].profile, options)
    if finding is None:
        return None
    return Breach(
        side=side, step=step, rules=finding.rules, call=finding.call, allowed=finding.allowed, seen=finding.seen
    )


def why(
    outcome: Compared,
    found: likeness.Parting,
    records: tuple[Record, Record],
    breaches: Sequence[Breach | None],
    options: Options,
) -> None:
    """Say whether a parting is a choice of the profile, a freedom, or a difference in law."""
    broken = [one for one in breaches if one is not None]
    at_once = [one for one in broken if one.step <= found.step]
    if at_once:
        outcome.kind, outcome.breach = LAW, min(at_once, key=lambda one: one.step)
        return
    outcome.fields = chosen(records, found.step, options)
    if outcome.fields:
        outcome.kind = CHOICE
    elif len(broken) == 1 or (broken and broken[0].rules != broken[1].rules):
        outcome.kind, outcome.breach = LAW, min(broken, key=lambda one: one.step)
    elif found.what == "end":
        outcome.kind, outcome.freedom = UNJUDGED, "one of the plays ends there"
    else:
        outcome.kind, outcome.freedom = FREEDOM, freedom(found)


def chosen(records: tuple[Record, Record], step: int, options: Options) -> list[str]:
    """The fields of the profiles that decide: with the other's value one of the plays would not be legal.

    Those by which it ends in this step or before; if there are none, the one by which it ends first: what a cache has
    done shows later then.
    """
    profiles = [record.plays[0][0].profile for record in records]
    own = [judged(record, profile, options) for record, profile in zip(records, profiles, strict=True)]
    ends = [at if finding is not None or error else NEVER for finding, error, at in own]
    found: list[tuple[int, str]] = []
    for one in fields(Profile):
        values = [getattr(profile, one.name) for profile in profiles]
        if values[0] == values[1]:
            continue
        first = NEVER
        for record, profile, value, end in zip(records, profiles, reversed(values), ends, strict=True):
            try:
                other = replace(profile, **{one.name: value})
            except ValueError:  # fields that go together
                continue
            finding, error, at = judged(record, other, options)
            if (finding is not None or error) and at < end:
                first = min(first, at)
        if first < NEVER:
            found.append((first, f"{one.name}: {values[0]!r} of A, {values[1]!r} of B"))
    at_once = [text for at, text in found if at <= step]
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
