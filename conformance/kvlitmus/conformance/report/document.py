"""What a run brought, and its document: the JSON report.

The form of the document is ``schema/report.schema.json``.  Everything that came from somebody
else's cache has been made harmless before it gets here, or is made so here.
"""

from __future__ import annotations

import json
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from kvlitmus.conformance.checker.explain import harmless
from kvlitmus.conformance.generate.schedule import describe
from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.conformance.report.build import digest_of
from kvlitmus.conformance.report.form import BaselineRow, ConfigRow, Coverage, FindingRow, ItemRow, Report, RuleRow
from kvlitmus.conformance.run import baseline as baselines
from kvlitmus.conformance.run.minimise import Short
from kvlitmus.conformance.run.results import REPORT_FORMAT, ItemResult, RuleVerdict, Verdict, to_json
from kvlitmus.conformance.run.verdicts import EXIT_WORDS, Group, Scope, causes
from kvlitmus.spec.rule import Rule

MAX_ITEMS = 50
"""How many of the items that show the same finding are named."""


@dataclass(slots=True, kw_only=True)
class Run:
    """Everything there is to say about one run; ``build`` and ``items`` are digests (``build.py``), where wanted."""

    target: str
    target_name: str
    target_version: str
    python: str
    profile: Profile
    capabilities: frozenset[str]
    configs: tuple[Config, ...]
    rules: Mapping[str, Rule]
    options: dict[str, object]
    scope: Scope
    version: str
    date: str
    planned: int
    build: str = ""
    items: str = ""
    seconds: float = 0.0
    results: list[ItemResult] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    verdicts: list[RuleVerdict] = field(default_factory=list)
    saved: dict[int, Path] = field(default_factory=dict)
    replay: dict[int, str] = field(default_factory=dict)
    baseline: baselines.Outcome | None = None
    exit_code: int = 0

    @property
    def steps(self) -> int:
        """All steps of all items."""
        return sum(result.steps for result in self.results)

    def declined(self) -> dict[str, str]:
        """The configurations that the target can't build, by label, each with its reason.

        One whose litmus tests alone were left out, for want of a capability, is not among them.
        """
        reasons: dict[str, list[str]] = {}
        for result in self.results:
            reasons.setdefault(result.config, []).append(result.unsupported)
        return {label: harmless(texts[-1]) for label, texts in reasons.items() if all(texts)}

    @property
    def known(self) -> dict[str, baselines.Entry]:
        """The violated rules that the baseline knows."""
        return {entry.rule: entry for entry in self.baseline.known} if self.baseline else {}

    @property
    def causes(self) -> list[int | None]:
        """Of each group, which one it follows from, probably; ``None`` for a headline."""
        return causes([Short(one.finding, one.leads) for one in self.groups], self.known)

    def tally(self) -> Counter[str]:
        """How many rules got each verdict; known violations count as ``known``."""
        return Counter("known" if one.rule in self.known else one.verdict.value for one in self.verdicts)


def document(run: Run) -> Report:
    """The report as plain data."""
    return {
        "kind": "kvlitmus report",
        "format": REPORT_FORMAT,
        "stamps": {
            "kvlitmus": run.version,
            "python": run.python or platform.python_version(),
            "platform": platform.platform(),
            "date": run.date,
            "build": run.build,
            "items": run.items,
            "target": {
                "name": harmless(run.target_name),
                "version": harmless(run.target_version),
                "reference": harmless(run.target),
            },
        },
        "partial": run.scope.partial,
        "exit_code": run.exit_code,
        "exit_meaning": EXIT_WORDS[run.exit_code],
        "options": run.options,
        "profile": describe(run.profile),
        "capabilities": sorted(run.capabilities),
        "configs": [_config(run, config) for config in run.configs],
        "rules": [_rule(run, verdict) for verdict in run.verdicts],
        "findings": [
            _finding(run, at, one, head) for at, (one, head) in enumerate(zip(run.groups, run.causes, strict=True))
        ],
        "coverage": _coverage(run.results),
        "items": [_item(result) for result in run.results],
        "baseline": _baseline(run.baseline),
        "totals": {
            "verdicts": {verdict.value: run.tally()[verdict.value] for verdict in Verdict}
            | {"known": run.tally()["known"]},
            "items": len(run.results),
            "items_planned": run.planned,
            "steps": run.steps,
            "seconds": round(run.seconds, 3),
        },
    }


def _config(run: Run, config: Config) -> ConfigRow:
    results = [result for result in run.results if result.config == config.label]
    return {
        "label": config.label,
        **to_json(config),
        "items": len(results),
        "steps": sum(result.steps for result in results),
        "declined": run.declined().get(config.label, ""),
    }


def _rule(run: Run, verdict: RuleVerdict) -> RuleRow:
    rule = run.rules[verdict.rule]
    known = run.known.get(rule.id)
    return {
        "id": rule.id,
        "title": rule.title,
        "text": rule.text,
        "pack": rule.pack,
        "strength": rule.strength.value,
        "kind": rule.kind.value,
        "depth": rule.depth,
        "source": rule.source,
        "digest": digest_of(rule),
        "verdict": verdict.verdict.value,
        "reason": harmless(verdict.reason, 2_000),
        "evaluations": verdict.evaluations,
        "findings": verdict.findings,
        "known": {"reason": known.reason, "link": known.link, "until": known.until} if known else None,
    }


def _finding(run: Run, at: int, group: Group, follows: int | None) -> FindingRow:
    saved = run.saved.get(at)
    row = {
        **to_json(group.finding),
        "items": group.items[:MAX_ITEMS],
        "items_total": len(group.items),
        "leads": group.leads,
        "headline": follows is None,
        "follows": follows,
        "saved": str(saved) if saved else "",
        "replay": run.replay.get(at, ""),
    }
    return cast("FindingRow", row)


def _coverage(results: Sequence[ItemResult]) -> Coverage:
    reached: Counter[str] = Counter()
    evaluated: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    idle: Counter[str] = Counter()
    for result in results:
        reached.update(result.reached)
        evaluated.update(result.evaluated)
        unknown.update(result.unknown)
        idle.update(result.idle)
    return {
        "reached": dict(sorted(reached.items())),
        "evaluated": dict(sorted(evaluated.items())),
        "unknown": dict(sorted(unknown.items())),
        "idle": dict(sorted(idle.items())),
    }


def _item(result: ItemResult) -> ItemRow:
    return {
        "item": result.item,
        "config": result.config,
        "steps": result.steps,
        "seconds": round(result.seconds, 4),
        "findings": len(result.findings),
        "error": harmless(result.error, 2_000),
        "declined": harmless(result.unsupported, 2_000),
        "unexercised": result.unexercised,
    }


def _baseline(outcome: baselines.Outcome | None) -> BaselineRow | None:
    if outcome is None:
        return None
    return {
        "known": [entry.rule for entry in outcome.known],
        "stale": [entry.rule for entry in outcome.stale],
        "expired": [entry.rule for entry in outcome.expired],
    }


def dump(data: Any) -> str:
    """A document as text."""
    return json.dumps(data, indent=1, ensure_ascii=True) + "\n"
