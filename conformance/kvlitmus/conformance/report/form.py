"""The form of a report: what of ``schema/report.schema.json`` is read again, as types.

A report that is read back must have all that is required here, in these types; what reports of some versions lack is
marked so, and what they have in addition does no harm (:mod:`~kvlitmus.conformance.report.saved`).
"""

from __future__ import annotations

from typing import NotRequired, TypedDict


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


class RuleRow(TypedDict):
    """A rule and the verdict on it; ``findings`` by their numbers."""

    id: str
    title: str
    text: str
    pack: str
    strength: str
    kind: NotRequired[str]
    depth: NotRequired[int]
    source: NotRequired[str]
    digest: str
    verdict: str
    reason: str
    evaluations: int
    findings: list[int]
    known: NotRequired[KnownRow | None]


class FindingRow(TypedDict):
    """A counterexample.  The other fields of ``Finding`` stand beside."""

    rules: list[str]
    item: str
    call: str
    calls: list[str]
    allowed: str
    seen: dict[str, str]
    detail: str
    not_minimal: NotRequired[str]
    after: NotRequired[list[str]]
    parted: NotRequired[list[str]]
    items: NotRequired[list[str]]
    items_total: int
    leads: bool
    headline: NotRequired[bool]
    follows: NotRequired[int | None]
    saved: NotRequired[str]
    replay: str


class Coverage(TypedDict):
    """How often there was each occasion, and how often each rule was evaluated, unknown, or had nothing to say."""

    reached: dict[str, int]
    evaluated: dict[str, int]
    unknown: NotRequired[dict[str, int]]
    idle: NotRequired[dict[str, int]]


class ItemRow(TypedDict):
    """What came of an item."""

    item: str
    config: NotRequired[str]
    steps: NotRequired[int]
    seconds: NotRequired[float]
    findings: NotRequired[int]
    error: str
    declined: NotRequired[str]
    unexercised: NotRequired[list[str]]


class BaselineRow(TypedDict):
    """Rules of the baseline, by what became of their entries."""

    known: list[str]
    stale: list[str]
    expired: list[str]


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
    """A report."""

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
    findings: list[FindingRow]
    coverage: Coverage
    items: list[ItemRow]
    baseline: NotRequired[BaselineRow | None]
    totals: Totals
