"""What a run brought, and its document: the JSON report.

The form of the document is ``schema/report.schema.json``.  Everything that came from somebody
else's cache has been made harmless before it gets here, or is made so here.
"""

from __future__ import annotations

import json
import platform
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from kvlitmus.conformance.checker.explain import harmless
from kvlitmus.conformance.generate.schedule import choices_of
from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.conformance.report.form import (
    BaselineRow,
    ConfigRow,
    EntryRow,
    FindingRow,
    Report,
    RuleRow,
    by_reason,
)
from kvlitmus.conformance.run import baseline as baselines
from kvlitmus.conformance.run.minimise import Short
from kvlitmus.conformance.run.results import REPORT_FORMAT, ItemResult, RuleVerdict, Verdict, to_json
from kvlitmus.conformance.run.verdicts import EXIT_WORDS, NOT_WHOLE, Group, Scope, accepted_of, follows
from kvlitmus.spec.law.rule import Rule

MAX_ITEMS = 3
"""How many of the items that show the same finding are named."""


@dataclass(slots=True, kw_only=True)
class Run:
    """Everything there is to say about one run; ``build`` and ``items`` are digests (``build.py``), where wanted.

    ``unasked``: the configurations that are no part of it for want of a port, by label, each with its reason.
    ``added``: by configuration, how many items are added up in one of the results beside the one that it stands for.
    """

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
    unasked: Mapping[str, str] = field(default_factory=dict)
    build: str = ""
    items: str = ""
    seconds: float = 0.0
    results: list[ItemResult] = field(default_factory=list)
    added: Mapping[str, int] = field(default_factory=dict)
    groups: list[Group] = field(default_factory=list)
    verdicts: list[RuleVerdict] = field(default_factory=list)
    saved: dict[int, Path] = field(default_factory=dict)
    replay: dict[int, str] = field(default_factory=dict)
    baseline: baselines.BaselineMatch | None = None
    exit_code: int = 0

    @property
    def steps(self) -> int:
        """All steps of all items."""
        return sum(result.steps for result in self.results)

    @property
    def played(self) -> int:
        """How many items there are results of."""
        return len(self.results) + sum(self.added.values())

    @property
    def meaning(self) -> str:
        """What the exit code says."""
        return f"{NOT_WHOLE}: {self.scope.lacking}" if self.scope.lacking else EXIT_WORDS[self.exit_code]

    @property
    def left(self) -> str:
        """Of a run that isn't whole how much of it there is, in words."""
        if self.scope.lacking:
            return f"{self.played} of {self.planned} items are there: {self.scope.lacking}"
        return f"interrupted after {self.played} of {self.planned} items"

    def declined(self) -> dict[str, str]:
        """The configurations that the target can't build, by label, each with its reason.

        One in which the suite left everything out that was played so far, for want of a port, is not among them.
        """
        return {
            label: harmless(results[0].unsupported)
            for label, results in self.by_config().items()
            if all(one.unsupported and not one.left_out for one in results)
        }

    def left_out(self) -> dict[str, str]:
        """The configurations that the target isn't judged in for want of a port, by label, each with its reason."""
        nothing = {
            label: harmless(results[0].unsupported)
            for label, results in self.by_config().items()
            if not self.scope.stopped and all(one.unsupported and one.left_out for one in results)
        }
        return {**self.unasked, **nothing}

    def by_config(self) -> dict[str, list[ItemResult]]:
        """The results by the label of their configuration."""
        found: dict[str, list[ItemResult]] = {}
        for result in self.results:
            found.setdefault(result.config, []).append(result)
        return found

    @property
    def known(self) -> dict[str, baselines.Entry]:
        """The rules whose violations the baseline knows, each with an entry that tells of one."""
        return self.baseline.told if self.baseline else {}

    @property
    def accepted(self) -> list[bool]:
        """Of each group, whether the baseline knows it."""
        known = self.baseline.keys if self.baseline else frozenset()
        return accepted_of([Short(one.finding, one.leads) for one in self.groups], known)

    @property
    def follows(self) -> list[int | None]:
        """Of each group, which one it follows from, probably; ``None`` for a headline."""
        return follows([Short(one.finding, one.leads) for one in self.groups], self.accepted)

    def tally(self) -> Counter[str]:
        """How many rules got each verdict; known violations count as ``known``."""
        return Counter("known" if one.rule in self.known else one.verdict.value for one in self.verdicts)


def scope_of(options: Mapping[str, Any], profile: Profile, capabilities: frozenset[str]) -> Scope:
    """What a run with these options sets out to do with a target."""
    return Scope(
        depth=options["depth"],
        misuse=profile.misuse,
        publish=profile.publish,
        aborted=profile.aborted,
        force_misuse=options["force_misuse"],
        full=options["full"],
        capabilities=capabilities,
    )


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
        "exit_meaning": run.meaning,
        "options": run.options,
        "profile": choices_of(run.profile),
        "capabilities": sorted(run.capabilities),
        "configs": [_config(run, config) for config in run.configs],
        "rules": [_rule(run, one) for one in run.verdicts if one.verdict is not Verdict.NOT_APPLICABLE],
        "not_applicable": by_reason(
            {one.rule: harmless(one.reason, 2_000) for one in run.verdicts if one.verdict is Verdict.NOT_APPLICABLE}
        ),
        "findings": [
            _finding(run, at, one, head, known=known)
            for at, (one, head, known) in enumerate(zip(run.groups, run.follows, run.accepted, strict=True))
        ],
        "reached": sorted({kind for result in run.results for kind in result.reached}),
        "failed": [{"item": one.item, "error": harmless(one.error, 2_000)} for one in run.results if one.error],
        "baseline": _baseline(run.baseline),
        "totals": {
            "verdicts": {verdict.value: run.tally()[verdict.value] for verdict in Verdict}
            | {"known": run.tally()["known"]},
            "items": run.played,
            "items_planned": run.planned,
            "steps": run.steps,
            "seconds": round(run.seconds, 3),
        },
    }


def _config(run: Run, config: Config) -> ConfigRow:
    results = run.by_config().get(config.label, [])
    return {
        "label": config.label,
        **to_json(config),
        "items": len(results) + run.added.get(config.label, 0),
        "steps": sum(result.steps for result in results),
        "declined": run.declined().get(config.label, ""),
    }


def _rule(run: Run, verdict: RuleVerdict) -> RuleRow:
    row: RuleRow = {
        "id": verdict.rule,
        "verdict": verdict.verdict.value,
        "reason": harmless(verdict.reason, 2_000),
        "evaluations": verdict.evaluations,
        "findings": verdict.findings,
    }
    known = run.known.get(verdict.rule)
    if known is not None:
        row["known"] = {"reason": known.reason, "link": known.link, "until": known.until}
    return row


def _finding(run: Run, at: int, group: Group, head: int | None, *, known: bool) -> FindingRow:
    saved = run.saved.get(at)
    told = to_json(replace(group.finding, tape=[]))
    del told["tape"]  # it is saved beside the report
    row = {
        **told,
        "cause": group.cause._asdict(),
        "items": group.items[:MAX_ITEMS],
        "items_total": len(group.items),
        "leads": group.leads,
        "headline": head is None,
        "follows": head,
        "known": known,
        "saved": str(saved) if saved else "",
        "replay": run.replay.get(at, ""),
    }
    return cast("FindingRow", row)


def _baseline(outcome: baselines.BaselineMatch | None) -> BaselineRow | None:
    if outcome is None:
        return None
    return {
        "known": [_entry(entry) for entry in outcome.known],
        "stale": [_entry(entry) for entry in outcome.stale],
        "expired": [_entry(entry) for entry in outcome.expired],
    }


def _entry(entry: baselines.Entry) -> EntryRow:
    return {"rule": entry.rule, "cause": entry.cause}


def dump(data: Any) -> str:
    """A document as text."""
    return json.dumps(data, indent=1, ensure_ascii=True) + "\n"


def dump_report(report: Mapping[str, Any]) -> str:
    """A report as text: a row of a list or of a table in each line, so that a change shows as what it is."""
    fields = [f" {_row(name)}: {_listed(value)}" for name, value in report.items()]
    return "{\n" + ",\n".join(fields) + "\n}\n"


def _listed(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + ",\n".join(f"  {_row(one)}" for one in value) + "\n ]"
    if isinstance(value, dict) and value and all(isinstance(one, dict) for one in value.values()):
        return "{\n" + ",\n".join(f"  {_row(name)}: {_row(one)}" for name, one in value.items()) + "\n }"
    return _row(value)


def _row(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))
