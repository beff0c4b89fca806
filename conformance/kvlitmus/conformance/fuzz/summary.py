"""The summary of a campaign: a document, and a few lines for people.

The form of the document is ``schema/fuzz.schema.json``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kvlitmus.conformance.fuzz.came import Came, Played
from kvlitmus.conformance.fuzz.canary import Canary
from kvlitmus.conformance.fuzz.dedupe import Distinct
from kvlitmus.conformance.fuzz.features import FAMILIES
from kvlitmus.conformance.fuzz.store import Store
from kvlitmus.conformance.run import failures
from kvlitmus.conformance.run.cause import cause_of
from kvlitmus.conformance.run.minimise import Short
from kvlitmus.conformance.run.verdicts import accepted_of, follows
from kvlitmus.conformance.support import ending
from kvlitmus.conformance.support.text import harmless
from kvlitmus.spec.law.rule import Strength
from kvlitmus.spec.parts import all_rules

FORMAT = 1

MOST = 1e18
"""A larger figure in a journal is none."""

EXIT_WORDS = {
    0: "nothing was found that fails",
    1: "a rule is violated, or the baseline is out of date",
    3: "the adapter or the harness failed",
    4: "inconclusive",
    **dict.fromkeys(ending.CODES, ending.INTERRUPTED),
}


@dataclass(slots=True, kw_only=True)
class CampaignSession:
    """Everything there is to say about one session of a campaign.

    campaign: ``None`` if it was interrupted before the target's turn.  canary: ``None`` if there was to be none;
    ``canary_wanted`` tells that from one that was interrupted.  known: what the baseline knows, rules by their causes.
    broken_off: why the campaign could not go on, such as a full disk.  unwritten: reports that could not be written.
    changed: whether it is that the judge was changed.
    """

    target: str
    target_version: str
    python: str
    version: str
    date: str
    settings: dict[str, Any]
    store: Store
    campaign: Played | None = None
    canary: Canary | None = None
    canary_wanted: bool = True
    interrupted: bool = False
    known: frozenset[tuple[str, str]] = frozenset()
    expired: tuple[str, ...] = ()
    earlier: dict[str, float] = field(default_factory=dict)
    broken_off: str = ""
    unwritten: dict[str, str] = field(default_factory=dict)
    changed: bool = False

    @property
    def distinct(self) -> list[Distinct]:
        """All distinct findings that still occur, the new ones first."""
        found = [] if self.campaign is None else [one for one in self.campaign.found() if not one.gone]
        return sorted(found, key=lambda one: (not one.new, not one.leads, one.finding.rules, one.path.name))

    @property
    def accepted(self) -> list[bool]:
        """Of each distinct finding, whether the baseline knows it."""
        return accepted_of([Short(one.finding, one.leads) for one in self.distinct], self.known)

    @property
    def follows(self) -> list[int | None]:
        """Of each distinct finding, which one it follows from, probably; ``None`` for a headline."""
        return follows([Short(one.finding, one.leads) for one in self.distinct], self.accepted)

    @property
    def open(self) -> list[Path]:
        """Findings that are on disk as they were met: there was no time to shrink them."""
        return [] if self.campaign is None else list(self.campaign.open)

    def replayed(self, path: Path) -> str:
        """The line that plays a finding again."""
        return failures.replay_line(path, self.settings.get("python") or "", self.target)

    @property
    def exit_code(self) -> int:
        """The exit code, by the same order as a run's."""
        if self.interrupted:
            return ending.exit_code()
        if self.changed:
            return 3
        if self.expired or self.open or any(self.fails(one) for one in self.distinct):
            return 1
        came = None if self.campaign is None else self.campaign.came()
        if self.broken_off or self.unwritten or (came is not None and (came.tally.errors or came.worn_out)):
            return 3
        unsure = self.canary_wanted and (self.canary is None or not self.canary.found)
        return 4 if unsure or came is None or not came.tally.steps else 0

    @property
    def exit_meaning(self) -> str:
        """What the exit code means here."""
        nothing = self.campaign is None or not self.campaign.came().tally.steps
        why = "nothing of the target was played" if nothing else "the canary was not found"
        if self.exit_code == 3 and self.broken_off:
            return "it could not go on, or isn't whole, as told above"
        return EXIT_WORDS[self.exit_code] + (f": {why}" if self.exit_code == 4 else "")

    def accepts(self, one: Distinct) -> bool:
        """Whether the baseline knows a finding."""
        return next(known for other, known in zip(self.distinct, self.accepted, strict=True) if other is one)

    def fails(self, one: Distinct) -> bool:
        """Whether a finding fails the night: it breaks a MUST that no baseline knows."""
        rules = all_rules()
        return any(rules[id].strength is Strength.MUST for id in one.finding.rules) and not self.accepts(one)


def totals(lines: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """What all sessions in a journal add up to."""
    total = {"sessions": 0.0, "steps": 0.0, "plays": 0.0, "seconds": 0.0}
    last: Mapping[str, Any] = {}

    def number(name: str) -> float:
        value = last.get(name, 0)
        return float(value) if isinstance(value, int | float) and 0 <= value < MOST else 0.0

    for line in [*lines, {"what": "began"}]:
        if line.get("what") == "began":
            for name, source in (("steps", "steps"), ("plays", "plays"), ("seconds", "elapsed")):
                total[name] += number(source)
            total["sessions"] += 1
            last = {}
        elif line.get("what") in ("beat", "ended"):
            last = line
    total["sessions"] -= 1
    return total


def document(outcome: CampaignSession) -> dict[str, Any]:
    """All of it as plain data."""
    data: dict[str, Any] = {
        "kind": "kvlitmus fuzz",
        "format": FORMAT,
        "kvlitmus": outcome.version,
        "date": outcome.date,
        "target": {"name": outcome.target, "version": outcome.target_version, "python": outcome.python},
        "settings": outcome.settings,
        "folder": str(outcome.store.folder),
        "exit_code": outcome.exit_code,
        "interrupted": outcome.interrupted,
        "canary": None if outcome.canary is None else {**asdict(outcome.canary), "found": outcome.canary.found},
        "findings": [
            _finding(outcome, one) | {"headline": head is None, "follows": head}
            for one, head in zip(outcome.distinct, outcome.follows, strict=True)
        ],
        "unshrunk": [str(path) for path in outcome.open],
        "expired": list(outcome.expired),
        "torn": outcome.store.torn,
        "broken_off": outcome.broken_off,
        "earlier": {name: round(number, 3) for name, number in outcome.earlier.items()},
    }
    if outcome.campaign is not None:
        data |= _played(outcome.campaign.came())
    return data


def _finding(outcome: CampaignSession, one: Distinct) -> dict[str, Any]:
    finding = one.finding
    return {
        "rules": finding.rules,
        "cause": cause_of(finding)._asdict(),
        "file": str(one.path),
        "replay": outcome.replayed(one.path),
        "config": finding.config.label,
        "call": finding.call,
        "calls": len(finding.calls),
        "allowed": finding.allowed,
        "detail": finding.detail,
        "seen": finding.seen,
        "hits": one.hits,
        "new": one.new,
        "leads": one.leads,
        "steady": one.steady,
        "fails": outcome.fails(one),
    }


def _played(came: Came) -> dict[str, Any]:
    tally, spent = came.tally, max(came.seconds, 1e-9)
    return {
        "session": {
            "seconds": round(spent, 3),
            "plays": tally.plays,
            "steps": tally.steps,
            "replayed_steps": tally.replayed,
            "steps_per_second": round((tally.steps + tally.replayed) / spent, 1),
        },
        "corpus": {
            "entries": len(came.entries),
            "kept": tally.kept,
            "loaded": tally.loaded,
            "redundant": tally.redundant,
            "features": came.features,
            "by_family": {name: len(came.reached.get(name, ())) for name in FAMILIES},
        },
        "rules": {
            "evaluated": sum(1 for id in all_rules() if tally.evaluated[id]),
            "never": [id for id in all_rules() if not tally.evaluated[id]],
            "resting": came.resting,
            "further": dict(came.further),
        },
        "fenced": came.fenced,
        "dead_workers": came.deaths,
        "declined": {label: harmless(reason) for label, reason in tally.declined.items()},
        "errors": [{"text": harmless(text, 1_000), "times": times} for text, times in tally.errors.most_common(10)],
    } | ({"shards": came.shards} if came.shards else {})


def lines(outcome: CampaignSession, *, every: bool = False) -> Iterator[str]:
    """A few lines for people.  ``every``: what follows from another finding is told as that one is."""
    if outcome.campaign is not None:
        yield from _standing(outcome, outcome.campaign.came())
    yield from _canary(outcome)
    heads = outcome.follows
    for at, one in enumerate(outcome.distinct):
        if heads[at] is not None and not every:
            continue
        kind = "new" if one.new else "known"
        notes = [kind, f"{len(one.finding.calls)} calls", f"met {one.hits} time{'s' * (one.hits != 1)}"]
        notes += ["follows from another"] * (not one.leads) + ["not seen again"] * (not one.steady)
        notes += [] if outcome.fails(one) else ["in the baseline" if outcome.accepts(one) else "SHOULD"]
        cause = cause_of(one.finding)
        yield f"  {cause.id}: {'+'.join(one.finding.rules)} ({', '.join(notes)})"
        yield f"    {cause.about}"
        yield f"    {outcome.replayed(one.path)}"
    rest = [one for one, head in zip(outcome.distinct, heads, strict=True) if head is not None and not every]
    if rest:
        yield "  also broken, probably by the same cause (--all tells more of each):"
    for one in rest:
        long = f"{'new, ' * one.new}{len(one.finding.calls)} calls"
        yield f"    {'+'.join(one.finding.rules)} ({long}): {outcome.replayed(one.path)}"
    for path in outcome.open:
        yield f"  not shrunk, out of time: {outcome.replayed(path)}"
    for entry in outcome.expired:
        yield f"  baseline: the entry of {entry} has expired"
    if outcome.store.torn:
        many = outcome.store.torn
        told = f"{many} damaged file{'s' * (many != 1)} set aside in {harmless(outcome.store.folder / 'aside')}"
        yield f"  {told}, {len(outcome.store.left)} left out" if outcome.store.left else f"  {told}"
    if outcome.broken_off:
        yield f"  failed: {outcome.broken_off}; what was announced is on disk"
    for why in outcome.unwritten.values():
        yield f"  can't be written: {why}"
    yield f"exit {outcome.exit_code}: {outcome.exit_meaning}"


def _standing(outcome: CampaignSession, came: Came) -> Iterator[str]:
    tally = came.tally
    spent = max(came.seconds, 1e-9)
    made = tally.steps + tally.replayed
    shards = f" in {came.shards} shard{'s' * (came.shards != 1)}" if came.shards else ""
    yield (
        f"{made:,} steps in {tally.plays + tally.loaded:,} plays, {spent:.1f} s{shards}, {made / spent:,.0f} steps/s; "
        f"corpus {len(came.entries):,} ({tally.kept} new), {came.features:,} features, "
        f"{sum(1 for id in all_rules() if tally.evaluated[id])} of {len(all_rules())} rules evaluated"
    )
    if outcome.earlier.get("sessions"):
        before = outcome.earlier
        yield f"  before: {before['sessions']:.0f} sessions, {before['steps']:,.0f} steps, {before['seconds']:,.0f} s"
    if came.resting:
        yield f"  muted for now, since nothing new was found: {', '.join(came.resting)}"
    for rule, times in came.further.items():
        yield f"  {rule}: {times} more distinct findings, not saved"
    if came.fenced:
        yield f"  not called any more, after {came.deaths} workers have died: {', '.join(came.fenced)}"
    for text, times in tally.errors.most_common(3):
        yield f"  {times} plays failed: {harmless(text)}"


def _canary(outcome: CampaignSession) -> Iterator[str]:
    bird = outcome.canary
    if bird is not None and bird.found:
        yield f"  canary {bird.name}: found by {bird.rule} after {bird.steps:,} steps, {bird.seconds:.1f} s"
    elif bird is not None:
        yield f"  canary {bird.name}: NOT found in {bird.steps:,} steps, {bird.seconds:.1f} s"
