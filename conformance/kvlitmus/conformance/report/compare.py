"""Two reports compared: what differs in the set-up, then rule by rule what became of the verdict.

A verdict got **worse** if it fell on the ladder :data:`LADDER`, from *passed* at the top to
*violated* at the bottom; so a rule that passed and can't be judged any more is worse too, because
coverage must not vanish unseen.  A violation is **fixed** only if the rule was judged again and
passed: one that is merely not seen any more (blocked, not applicable, not exercised) is *no longer
shown*, which is neither worse nor fixed.  A rule that only one report has is *new* or *vanished*;
a new one is worse if it is violated, a vanished one if it had passed.  Numbers (steps, evaluations,
seconds) are figures: they are shown and decide nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from kvlitmus.conformance.report import outcomes
from kvlitmus.conformance.report.form import EMPTY, Report, RuleRow, rows
from kvlitmus.conformance.report.saved import explained
from kvlitmus.conformance.report.terminal import Stated
from kvlitmus.conformance.run.results import whole_profile
from kvlitmus.conformance.support.text import harmless
from kvlitmus.spec.law.rule import in_force

FORMAT = 1
"""The version of the comparison's JSON form, ``schema/diff.schema.json``."""

LADDER = {
    "passed": 6,
    "not_applicable": 5,
    "known": 4,
    "warned": 3,
    "not_exercised": 2,
    "inconclusive": 2,
    "blocked": 2,
    "harness_error": 1,
    "violated": 0,
}
"""Verdicts from good to bad; *known* is a violation that the baseline excuses."""

STAMPS: tuple[Literal["kvlitmus", "python", "platform"], ...] = ("kvlitmus", "python", "platform")
CHOSEN: Mapping[Literal["profile", "options"], Callable[[Mapping[str, object]], Mapping[str, object]]] = {
    "profile": whole_profile,
    "options": dict,
}
"""What was chosen, with what a report leaves out of it."""
TOTALS: tuple[Literal["items", "steps", "seconds"], ...] = ("items", "steps", "seconds")
OVERDUE: tuple[Literal["stale", "expired"], ...] = ("stale", "expired")

BROKEN = ("violated", "warned", "known")

CHANGES = ("newly violated", "worse", "vanished", "no longer shown", "fixed", "better", "changed", "new")
"""What can have become of a rule, in the order in which it is shown."""


class Difference(NamedTuple):
    """Something that the two reports state differently."""

    what: str
    a: str
    b: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What became of one rule; ``a`` and ``b`` are verdicts, empty where a report does not have the rule."""

    rule: str
    title: str
    change: str
    worse: bool
    a: str
    b: str
    reason: str
    text: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Comparison:
    """Everything there is to say about two reports."""

    a: dict[str, str]
    b: dict[str, str]
    setup: list[Difference] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    figures: list[Difference] = field(default_factory=list)
    run: list[str] = field(default_factory=list)
    same: int = 0

    @property
    def worse(self) -> int:
        """How many things got worse: rules, and what concerns the run as a whole."""
        return sum(one.worse for one in self.changes) + len(self.run)

    @property
    def exit_code(self) -> int:
        """0: the same, or only better; 1: something got worse."""
        return int(self.worse > 0)


def compare(a: Report, b: Report) -> Comparison:
    """Compare an earlier report with a later one."""
    found = Comparison(a=_stamp(a), b=_stamp(b))
    found.setup = list(setup(a, b))
    before, after = map(by_rule, (a, b))
    for id in dict.fromkeys([*after, *before]):
        change = changed(before.get(id), after.get(id), b)
        if change is None:
            found.same += 1
        else:
            found.changes.append(change)
    found.changes.sort(key=lambda one: CHANGES.index(one.change))
    found.figures = list(figures(a, b))
    found.run = list(troubles(a, b))
    return found


def by_rule(report: Report) -> dict[str, RuleRow]:
    """What a report says of each rule; where a rule says by now what others said, the worst that was said of them."""
    found: dict[str, RuleRow] = {}
    for row in rows(report):
        id = in_force(row["id"])
        if id not in found or LADDER.get(said(row), 0) < LADDER.get(said(found[id]), 0):
            found[id] = row
    return found


def said(rule: RuleRow) -> str:
    """The verdict on a rule; a violation that the baseline knows is *known*."""
    known = rule["verdict"] in ("violated", "warned") and rule.get("known")
    return "known" if known else str(rule["verdict"])


def changed(before: RuleRow | None, after: RuleRow | None, b: Report) -> Change | None:
    """What became of a rule, or ``None`` if its verdict is the same."""
    was, now = (said(rule) if rule else "" for rule in (before, after))
    if was == now:
        return None
    name, worse = "better", False
    if not was:
        name, worse = ("newly violated", True) if now == "violated" else ("new", False)
    elif not now:
        name, worse = "vanished", was == "passed"
    elif now == "violated":
        name, worse = "newly violated", True
    elif was in BROKEN and now not in (*BROKEN, "passed"):
        name = "no longer shown"
    elif was in BROKEN and now == "passed":
        name = "fixed"
    elif LADDER[now] < LADDER[was]:
        name, worse = "worse", True
    elif LADDER[now] == LADDER[was] or {was, now} == {"known", "warned"}:
        name = "changed"
    shown = after if after is not None else before
    assert shown is not None
    return Change(
        rule=harmless(shown["id"], 40),
        title=Stated.by_id(shown["id"]).title,
        change=name,
        worse=worse,
        a=was,
        b=now,
        reason=harmless(after["reason"], 2_000) if after else "",
        text=tuple(explained(b, after)) if after and worse and now in BROKEN else (),
    )


def setup(a: Report, b: Report) -> Iterator[Difference]:
    """What was judged, by what and how, as far as it differs; a reader must know before comparing verdicts."""
    yield from _differ("target", *(_target(one) for one in (a, b)))
    for name in STAMPS:
        yield from _differ(name, a["stamps"][name], b["stamps"][name])
    for what, whole in CHOSEN.items():
        for key in dict.fromkeys([*a[what], *b[what]]):
            yield from _differ(f"{what} {key}", *(_value(whole(one[what]), key) for one in (a, b)))
    yield from _lists("capabilities", set(a["capabilities"]), set(b["capabilities"]))
    yield from _lists("configurations", *({one["label"] for one in report["configs"]} for report in (a, b)))
    yield from _lists(
        "declined", *({one["label"] for one in report["configs"] if one["declined"]} for report in (a, b))
    )
    yield from _differ("build of the judge and the target", *(one["stamps"].get("build", "") for one in (a, b)))


def figures(a: Report, b: Report) -> Iterator[Difference]:
    """Numbers that changed; they decide nothing."""
    for name in TOTALS:
        yield from _differ(name, f"{a['totals'][name]:,}", f"{b['totals'][name]:,}")
    totals = [sum(rule["evaluations"] for rule in report["rules"]) for report in (a, b)]
    yield from _differ("evaluations of rules", f"{totals[0]:,}", f"{totals[1]:,}")
    yield from _differ("counterexamples", str(len(a["findings"])), str(len(b["findings"])))
    yield from _lists("kinds of calls reached", *(set(report["reached"]) for report in (a, b)))


def troubles(a: Report, b: Report) -> Iterator[str]:
    """What got worse beside the verdicts: a run that was interrupted, items that failed, a baseline out of date."""
    if b["partial"] and not a["partial"]:
        yield f"the second run: {outcomes.left(b)}"
    failed = [{one["item"]: one["error"] for one in report["failed"]} for report in (a, b)]
    fresh = [item for item in failed[1] if item not in failed[0]]
    if fresh:
        more = f", and {len(fresh) - 1} more" if len(fresh) > 1 else ""
        yield f"items fail that did not: {harmless(fresh[0])}: {harmless(failed[1][fresh[0]])}{more}"
    for name in OVERDUE:
        listed = [{(one["rule"], one["cause"]) for one in (report.get("baseline") or EMPTY)[name]} for report in (a, b)]
        if listed[1] - listed[0]:
            entries = ", ".join(harmless(" ".join(one), 80) for one in sorted(listed[1] - listed[0]))
            yield f"entries of the baseline are {name} that were not: {entries}"


def _differ(what: str, a: object, b: object) -> Iterator[Difference]:
    if a != b:
        yield Difference(harmless(what, 100), harmless(a), harmless(b))


def _lists(what: str, a: set[str], b: set[str]) -> Iterator[Difference]:
    """What only one of two sets has."""
    if a != b:
        only = [", ".join(harmless(one, 80) for one in sorted(mine - other)) for mine, other in ((a, b), (b, a))]
        yield Difference(what, f"only: {only[0]}" if only[0] else "", f"only: {only[1]}" if only[1] else "")


def _value(data: Mapping[str, object], key: str) -> str:
    return harmless(data[key]) if key in data else "(not stated)"


def _target(report: Report) -> str:
    target = report["stamps"]["target"]
    return harmless(f"{target['name']} {target['version']}".strip())


def _stamp(report: Report) -> dict[str, str]:
    stamps = report["stamps"]
    return {
        "target": _target(report),
        "kvlitmus": harmless(stamps["kvlitmus"], 80),
        "date": harmless(stamps["date"], 40),
        "exit_code": str(report["exit_code"]),
        "exit_meaning": harmless(report["exit_meaning"]),
    }


def document(found: Comparison) -> dict[str, Any]:
    """The comparison as plain data."""
    return {
        "kind": "kvlitmus diff",
        "format": FORMAT,
        "a": found.a,
        "b": found.b,
        "setup": [one._asdict() for one in found.setup],
        "changes": [
            {
                "rule": one.rule,
                "title": one.title,
                "change": one.change,
                "worse": one.worse,
                "a": one.a,
                "b": one.b,
                "reason": one.reason,
                "text": list(one.text),
            }
            for one in found.changes
        ],
        "run": found.run,
        "figures": [one._asdict() for one in found.figures],
        "totals": {"same": found.same, "worse": found.worse, "changed": len(found.changes)},
        "exit_code": found.exit_code,
    }
