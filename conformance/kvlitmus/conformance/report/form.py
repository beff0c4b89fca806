"""The form of a report: what of ``schema/report.schema.json`` is read again, as types.

A report that is read back must have all that is required here, in these types; what reports of some versions lack is
marked so, and what they have in addition does no harm (:mod:`~kvlitmus.conformance.report.saved`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NotRequired, TypedDict

from kvlitmus.spec.parts import all_rules


class TargetRow(TypedDict):
    """What was judged."""

    name: str
    version: str
    reference: str


class Stamps(TypedDict):
    """With what, where and when."""

    kvlitmus: str
    python: str
    platform: str
    date: str
    build: NotRequired[str]
    items: NotRequired[str]
    target: TargetRow


class ConfigRow(TypedDict):
    """A configuration: what was played in it, or why the target declined it.  The fields of ``Config`` stand beside."""

    label: str
    items: int
    steps: int
    declined: str


class KnownRow(TypedDict):
    """What the baseline says of a violation that it knows."""

    reason: str
    link: str
    until: str


class CauseRow(TypedDict):
    """What a finding is known by, and the same in words."""

    id: str
    about: str


class RuleRow(TypedDict):
    """The verdict on a rule; ``findings`` by their numbers.  What the rule says, the spec says."""

    id: str
    verdict: str
    reason: str
    evaluations: int
    findings: list[int]
    known: NotRequired[KnownRow | None]


class NotApplicableRow(TypedDict):
    """Why rules don't apply to the target; of rules in a row the first and the last number (``TREE-01..05``)."""

    reason: str
    rules: list[str]


class FindingRow(TypedDict):
    """A counterexample.  The other fields of ``Finding`` stand beside."""

    rules: list[str]
    cause: CauseRow
    item: str
    call: str
    calls: list[str]
    allowed: str
    seen: dict[str, str]
    detail: str
    minimal: NotRequired[str]
    not_minimal: NotRequired[str]
    after: NotRequired[list[str]]
    parted: NotRequired[list[str]]
    items: NotRequired[list[str]]
    items_total: int
    leads: bool
    headline: bool
    follows: NotRequired[int | None]
    known: bool
    saved: NotRequired[str]
    replay: str


class FailedRow(TypedDict):
    """An item that failed outside of any judged call."""

    item: str
    error: str


class EntryRow(TypedDict):
    """An entry of the baseline."""

    rule: str
    cause: str


class BaselineRow(TypedDict):
    """The entries of the baseline, by what became of them."""

    known: list[EntryRow]
    stale: list[EntryRow]
    expired: list[EntryRow]


EMPTY: BaselineRow = {"known": [], "stale": [], "expired": []}
"""What there is to say of no baseline."""


class Totals(TypedDict):
    """Sums."""

    verdicts: NotRequired[dict[str, int]]
    items: int
    items_planned: int
    steps: int
    seconds: float


class Report(TypedDict):
    """A report: under ``rules`` those that apply; :func:`rows` has all."""

    kind: NotRequired[str]
    format: NotRequired[int]
    stamps: Stamps
    partial: bool
    exit_code: int
    exit_meaning: str
    options: dict[str, object]
    profile: dict[str, object]
    capabilities: list[str]
    configs: list[ConfigRow]
    rules: list[RuleRow]
    not_applicable: list[NotApplicableRow]
    findings: list[FindingRow]
    reached: list[str]
    failed: list[FailedRow]
    baseline: NotRequired[BaselineRow | None]
    totals: Totals


SPAN = re.compile(r"([A-Z]+)-([0-9]{1,4})(?:\.\.([0-9]{1,4}))?")
"""Ids of rules in a row."""


def rows(report: Report) -> list[RuleRow]:
    """The verdicts on all rules that were judged, on those that don't apply too, in the order of the spec."""
    found = {row["id"]: row for row in report["rules"]}
    for id, reason in by_rule(report["not_applicable"]).items():
        row: RuleRow = {"id": id, "verdict": "not_applicable", "reason": reason, "evaluations": 0, "findings": []}
        found.setdefault(id, row)
    return [found[id] for id in dict.fromkeys([*(id for id in all_rules() if id in found), *found])]


def by_rule(rows: Iterable[NotApplicableRow]) -> dict[str, str]:
    """Why rules don't apply, rule by rule in the order of the spec."""
    why = {id: row["reason"] for row in rows for span in row["rules"] for id in in_span(span)}
    return {id: why[id] for id in dict.fromkeys([*(id for id in all_rules() if id in why), *why])}


def by_reason(why: Mapping[str, str]) -> list[NotApplicableRow]:
    """Why rules don't apply, as a report says it: reason by reason."""
    found: dict[str, list[str]] = {}
    for id, reason in why.items():
        found.setdefault(reason, []).append(id)
    return [{"reason": reason, "rules": spans(ids)} for reason, ids in found.items()]


def spans(ids: Iterable[str], sign: str = "..") -> list[str]:
    """Ids of rules, three and more in a row shortened."""
    parts: list[list[str]] = []
    for id in ids:
        prefix, _, number = id.partition("-")
        last = parts[-1][-1] if parts else ""
        if last.partition("-")[0] == prefix and int(last.partition("-")[2]) + 1 == int(number):
            parts[-1].append(id)
        else:
            parts.append([id])
    return [
        one for part in parts for one in ([f"{part[0]}{sign}{part[-1].partition('-')[2]}"] if len(part) > 2 else part)
    ]


def in_span(span: str) -> list[str]:
    """The ids of rules in a row; raises ``ValueError`` for what is none."""
    found = SPAN.fullmatch(span)
    if found is None:
        raise ValueError(f"ids of rules are like TREE-01 or TREE-01..05 (got {span!r})")
    prefix, first, last = found.groups(default=found[2])
    return [f"{prefix}-{number:0{len(first)}}" for number in range(int(first), int(last) + 1)]
