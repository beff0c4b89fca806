"""Reports that were saved as JSON, read back: for other forms of the same report, and for comparing two.

A file is read with a limit on its size and a check of every field that a reader here uses, so that
a torn file, somebody else's JSON and a report of another form are told apart, in one line that
names the field.  Fields that other versions have in addition do no harm.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NotRequired, get_args, get_origin, get_type_hints, is_typeddict

from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.report.brief import whole
from kvlitmus.conformance.report.form import BaselineRow, Report, RuleRow, in_span
from kvlitmus.conformance.report.style import Style
from kvlitmus.conformance.report.terminal import Stated, told
from kvlitmus.conformance.run.cause import Cause
from kvlitmus.conformance.run.failures import FailureError, read_json
from kvlitmus.conformance.run.results import REPORT_FORMAT, Finding, Verdict
from kvlitmus.conformance.run.verdicts import Group, shortest
from kvlitmus.conformance.support.text import harmless, shown

MAX_BYTES = 64 << 20
"""A larger file is no report."""

NAMES = {
    dict: "an object",
    list: "a list",
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}


class ReportError(Exception):
    """A file that is no report of this form; the text names the file and the field."""


def load(path: Path) -> Report:
    """Read a saved report, also one in brief; raises :class:`ReportError`."""
    try:
        return checked(whole(read_json(path, MAX_BYTES), path.parent))
    except FailureError as error:
        raise ReportError(str(error)) from None
    except ValueError as error:
        raise ReportError(f"{path}: {error}") from None


def checked(data: Any) -> Report:
    """A report from plain data; raises ``ValueError`` that names the field."""
    kind = data.get("kind") if isinstance(data, dict) else None
    if kind != "kvlitmus report":
        what = f"its 'kind' is {shown(kind, 60)}" if kind is not None else "it has no 'kind'"
        raise ValueError(f"this is no report: {what}; 'kvlitmus run --report FILE.json' writes one")
    form = data.get("format")
    if type(form) is not int or form != REPORT_FORMAT:
        raise ValueError(
            f"a report of another form: 'format' is {shown(form, 40)}, this kvlitmus reads {REPORT_FORMAT}; "
            "judge the target again with this version, or read the file with the version that wrote it"
        )
    _check(data, Report, "")
    report: Report = data
    for name, value in report["options"].items():
        if name == "full" and type(value) is not bool:
            raise ValueError("'options.full' must be true or false")
    _check_rules(report)
    return report


def _check_rules(report: Report) -> None:
    verdicts = {one.value for one in Verdict}
    seen: set[str] = set()
    for at, rule in enumerate(report["rules"]):
        if rule["verdict"] not in verdicts:
            raise ValueError(f"'rules[{at}].verdict' must be a verdict (got {shown(rule['verdict'], 40)})")
        if rule["id"] in seen:
            raise ValueError(f"'rules[{at}].id': {shown(rule['id'], 40)} is listed twice")
        if any(not 0 <= number < len(report["findings"]) for number in rule["findings"]):
            raise ValueError(f"'rules[{at}].findings' names a finding that is not there")
        if rule["findings"] and not any(rule["id"] in report["findings"][one]["rules"] for one in rule["findings"]):
            raise ValueError(f"'rules[{at}].findings' names findings that are about other rules")
        known: Any = rule.get("known")
        if known is not None and not (isinstance(known, dict) and all(type(text) is str for text in known.values())):
            raise ValueError(f"'rules[{at}].known' must be null or an object of texts")
        seen.add(rule["id"])
    for at, why in enumerate(report["not_applicable"]):
        for span in why["rules"]:
            try:
                ids = in_span(span)
            except ValueError as error:
                raise ValueError(f"'not_applicable[{at}].rules': {error}") from None
            if not seen.isdisjoint(ids):
                raise ValueError(f"'not_applicable[{at}].rules': {shown(span, 40)} is listed twice")
            seen.update(ids)
    baseline = report.get("baseline")
    if baseline is not None:
        if not isinstance(baseline, dict):
            raise ValueError("'baseline' must be null or an object")
        _check(baseline, BaselineRow, "baseline")


def _check(value: Any, form: Any, at: str) -> None:
    """Hold a value against the form of it: a type, lists of one, or a ``TypedDict``."""
    kind = dict if is_typeddict(form) else get_origin(form) or form
    fits = type(value) in (int, float) if kind is float else type(value) is kind
    if not fits:
        raise ValueError(f"'{at}' must be {NAMES[kind]} (got {type(value).__name__})")
    if kind in (int, float) and not 0 <= value < 1e18:
        raise ValueError(f"'{at}' must not be negative, nor beyond 1e18 (got {shown(value, 40)})")
    if is_typeddict(form):
        for name, inner in get_type_hints(form, include_extras=True).items():
            if get_origin(inner) is NotRequired:
                continue
            where = f"{at}.{name}" if at else name
            if name not in value:
                raise ValueError(f"'{where}' is missing")
            _check(value[name], inner, where)
    elif kind is list:
        for number, one in enumerate(value):
            _check(one, get_args(form)[0], f"{at}[{number}]")


def groups(report: Report) -> list[Group]:
    """The findings of a report, as far as it takes to choose among them and to show them; all texts are harmless."""
    return [
        Group(
            finding=Finding(
                rules=[harmless(id, 40) for id in one["rules"]],
                item=harmless(one["item"]),
                config=Config(),
                call=harmless(one["call"]),
                calls=list(map(harmless, one["calls"])),
                allowed=harmless(one["allowed"], 2_000),
                seen={harmless(name, 80): harmless(text, 2_000) for name, text in one["seen"].items()},
                detail=harmless(one["detail"], 2_000),
                minimal=harmless(one.get("minimal", "")),
                not_minimal=harmless(one.get("not_minimal", "")),
                after=[harmless(id, 40) for id in one.get("after", [])],
                parted=[harmless(text) for text in one.get("parted", [])],
            ),
            cause=Cause(harmless(one["cause"]["id"], 40), harmless(one["cause"]["about"])),
            items=[one["item"]] * one["items_total"],
            leads=one["leads"],
        )
        for one in report["findings"]
    ]


def explained(report: Report, rule: RuleRow) -> list[str]:
    """The shortest counterexample of a rule, in plain lines without control characters; none if it has none."""
    at = shortest(groups(report), rule["id"])
    return [] if at is None else counterexample(report, at, [rule["id"]])


def counterexample(report: Report, at: int, rules: Sequence[str] = ()) -> list[str]:
    """A counterexample in plain lines: for these rules, or for the one that matters most."""
    one = groups(report)[at]
    texts = {id: Stated.by_id(id) for id in one.finding.rules}
    return list(told(one, rules, texts, PLAIN, replay=harmless(report["findings"][at]["replay"], 1_000)))


PLAIN = Style(symbols=False, width=10_000)
"""Lines for files: without colours, and each text in one line."""
