"""Reports in brief: what is kept of a report where its counterexamples lie beside it, as in ``docs/results``.

A report stands alone.  One in brief says nothing that is said elsewhere: a finding leaves out what its counterexample
says in the same words, and a rule that doesn't apply the reason, where it follows from what the target offers and
declares.  Which rules those are it says.  :func:`whole` is the way back; both forms are read by
:func:`~kvlitmus.conformance.report.saved.load`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kvlitmus.conformance.report.document import scope_of
from kvlitmus.conformance.report.form import Report, by_reason, by_rule
from kvlitmus.conformance.run import failures
from kvlitmus.conformance.run.results import ItemResult, profile_from_json, to_json
from kvlitmus.conformance.run.verdicts import inapplicable
from kvlitmus.conformance.support.text import harmless
from kvlitmus.spec.parts import all_rules

KIND = "kvlitmus report in brief"


def brief(report: Report, folder: Path) -> dict[str, Any]:
    """A report in brief, which will be in this folder; raises :class:`FailureError` without its counterexamples."""
    findings = []
    for one in report["findings"]:
        said = said_by(one.get("saved", ""), folder)
        kept = {name: value for name, value in one.items() if name not in said or said[name] != value}
        findings.append({**kept, "saved": one.get("saved", "")})
    why = by_rule(report["not_applicable"])
    known = reasons(report, why)
    left = by_reason({id: "" if known.get(id) == reason else reason for id, reason in why.items()})
    return {**report, "kind": KIND, "findings": findings, "not_applicable": left}


def whole(data: Any, folder: Path) -> Any:
    """The report of one in brief, which was in this folder; anything else as it is.

    Raises ``ValueError`` for what has not the form, and :class:`FailureError` without its counterexamples.
    """
    kind = data.get("kind") if isinstance(data, dict) else None
    if kind != KIND:
        return data
    try:
        findings = [{**said_by(one["saved"], folder), **one} for one in data["findings"]]
        why = by_rule(data["not_applicable"])
        known = reasons(data, why)
    except (AttributeError, KeyError, OSError, TypeError):
        raise ValueError("this is no report in brief: it has not the form of one") from None
    rest = by_reason({id: reason or known.get(id, "") for id, reason in why.items()})
    return {**data, "kind": "kvlitmus report", "findings": findings, "not_applicable": rest}


def said_by(saved: str, folder: Path) -> dict[str, Any]:
    """What a counterexample says of its finding.  Its path goes from this folder, or from one that this is in."""
    if not saved:
        return {}
    path = next((path for one in (folder, *folder.absolute().parents) if (path := one / saved).is_file()), Path(saved))
    one = failures.load(path)
    about = {"config": to_json(one.config), "schedule": to_json(one.schedule), "litmus": one.litmus}
    return {**one.finding, **about, "replay": failures.replay_line(Path(saved))}


def reasons(report: Report, ids: Iterable[str]) -> dict[str, str]:
    """Why these rules don't apply, as far as it follows from what the target offers and declares."""
    try:
        scope = scope_of(report["options"], profile_from_json(report["profile"]), frozenset(report["capabilities"]))
    except (TypeError, ValueError):  # a profile in words that this version doesn't have
        return {}
    played = [ItemResult(item="", config=one["label"]) for one in report["configs"] if not one["declined"]]
    return {id: harmless(inapplicable(all_rules()[id], played, scope), 2_000) for id in ids if id in all_rules()}
