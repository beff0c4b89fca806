"""What came of a trace, as a report in the form of every other run's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TypedDict

from kvlitmus.conformance.history.again import JudgedSteps
from kvlitmus.conformance.history.checker import TraceChecker
from kvlitmus.conformance.history.playback import CONTENT_FACTS
from kvlitmus.conformance.history.reader import Header
from kvlitmus.conformance.history.state import JudgedTrace, Located
from kvlitmus.conformance.report import document
from kvlitmus.conformance.run.cause import cause_of
from kvlitmus.conformance.run.results import ItemResult, RuleVerdict, Verdict
from kvlitmus.conformance.run.verdicts import EXIT_WORDS, Group, Scope, conclude, exit_code
from kvlitmus.spec.law.rule import Rule

ABSENT = {
    "PORT-02": "a call that never came back has no line in a trace",
    "PORT-04": "a trace holds copies of what was passed and answered",
}
"""Rules that no trace can tell anything about."""

HOLDS, BROKEN, INCOMPLETE = 0, 1, 4
"""Exit codes of a recorded run."""

RECORD_WORDS = {
    HOLDS: "every rule that was evaluated holds, on all steps",
    BROKEN: "a rule is violated",
    INCOMPLETE: "what was judged holds, but not every step was judged",
}

VIOLATED_WORDS = "a rule is violated"
ENDED_WORDS = "what was judged holds, but judging ended before the trace did"
EMPTY_WORDS = "the trace has no call that could be judged"
BREACH_WORDS = "the recorded engine broke the contract, so judging ended early"
PARTLY_WORDS = "what could be judged holds, but the trace doesn't tell all"
TORN_WORDS = "what there is holds, but the trace breaks off"


OPTIONS: dict[str, object] = {
    "seed": 0,
    "force_misuse": False,
    "rule": [],
    "pack": [],
    "strength": None,
    "litmus": False,
    "first": False,
    "full": False,
}
"""What a run is asked for, as far as a trace has nothing of it."""


def report(
    trace_checker: TraceChecker, rules: Mapping[str, Rule], *, file: str, version: str, date: str, seconds: float
) -> document.Run:
    """The run that a trace was, with a verdict on each rule."""
    outcome, header, checker = trace_checker.outcome, trace_checker.header, trace_checker.checker
    result = ItemResult(
        item=f"trace:{file}",
        config=header.config.label,
        steps=checker.steps,
        evaluated=checker.counted(),
        reached=checker.reached,
        findings=[one.finding for one in outcome.findings],
        error=outcome.error,
        capabilities=sorted(checker.capabilities),
        seconds=seconds,
    )
    for id in ("PORT-01", "PORT-03"):
        result.evaluated[id] += checker.steps
    scope = Scope(
        depth=checker.depth,
        misuse=header.profile.misuse,
        full=False,
        partial=outcome.interrupted,
        capabilities=checker.capabilities,
    )
    groups = groups_of(outcome.findings, result.item)
    verdicts = [accounted(one, rules[one.rule], header, outcome) for one in conclude(rules, [result], groups, scope)]
    return document.Run(
        target=file,
        target_name=header.cache or "a recorded cache",
        target_version="",
        python="",
        profile=header.profile,
        capabilities=checker.capabilities,
        configs=(header.config,),
        rules=rules,
        options={**OPTIONS, "steps": checker.steps, "depth": checker.depth},
        scope=scope,
        version=version,
        date=date,
        planned=1,
        seconds=seconds,
        results=[result],
        groups=groups,
        verdicts=verdicts,
        exit_code=code_of(verdicts, result, scope, outcome),
    )


def groups_of(findings: Sequence[Located], item: str) -> list[Group]:
    """The findings of one file, each a cause of its own; the first leads, the others may follow from it."""
    return [
        Group(finding=one.finding, cause=cause_of(one.finding), items=[item], leads=at == 0)
        for at, one in enumerate(findings)
    ]


class Place(TypedDict):
    """Where in a file a finding is: see :class:`~kvlitmus.conformance.history.state.Located`."""

    line: int
    lines: list[int]
    before: int


def places_of(findings: Sequence[Located]) -> list[Place]:
    """Where in the file the findings are, as plain data."""
    return [{"line": one.line, "lines": one.lines, "before": one.before} for one in findings]


def accounted(one: RuleVerdict, rule: Rule, header: Header, outcome: JudgedTrace) -> RuleVerdict:
    """The verdict with a trace's own reasons for a rule that was never evaluated."""
    if one.verdict not in (Verdict.NOT_EXERCISED, Verdict.BLOCKED, Verdict.NOT_APPLICABLE) and rule.id not in ABSENT:
        return one
    if one.verdict in (Verdict.VIOLATED, Verdict.WARNED) or (one.verdict is Verdict.PASSED and rule.id not in ABSENT):
        return one
    reason = ABSENT.get(rule.id, "")
    if rule.pack == "misuse":
        reason = "nobody breaks the contract on purpose in a trace"
    elif rule.on == ("again",):
        reason = "it takes the same calls on a second cache"
    elif "stray_slots" in rule.facts:
        reason = "a trace tells how many host slots a plan got, and not which"
    elif one.verdict is not Verdict.NOT_APPLICABLE and unknown(rule, header):
        reason = "the trace doesn't record what was written"
    if reason:
        one.verdict, one.reason = Verdict.NOT_APPLICABLE, reason
    elif one.verdict is Verdict.NOT_EXERCISED:
        one.reason = "no call of the trace led there"
        if outcome.lacking:
            one.reason += ", or what it speaks of can't be known of it"
        if outcome.broken_off:
            one.reason += ", up to the breach of the contract"
    return one


def unknown(rule: Rule, header: Header) -> bool:
    """Whether a rule is about the contents of slots, and the trace doesn't tell them."""
    return header.contents == "unknown" and not set(CONTENT_FACTS).isdisjoint(rule.facts)


def code_of(verdicts: list[RuleVerdict], result: ItemResult, scope: Scope, outcome: JudgedTrace) -> int:
    """The exit code: as of every run, and 1 for a breach of the contract, 4 for a trace that breaks off."""
    code = exit_code(verdicts, [result], scope)
    if code in (0, 4) and outcome.broken_off:
        return 1
    if code == 0 and (outcome.torn or outcome.stopped or outcome.lacking or not result.steps):
        return 4
    return code


def meaning(run: document.Run, outcome: JudgedTrace) -> str:
    """What the exit code means here."""
    violated = any(one.verdict is Verdict.VIOLATED for one in run.verdicts)
    if run.exit_code == 1:
        return VIOLATED_WORDS if violated else BREACH_WORDS
    if run.exit_code == 4 and (outcome.torn or outcome.stopped or not run.steps):
        return TORN_WORDS if outcome.torn else ENDED_WORDS if outcome.stopped else EMPTY_WORDS
    if run.exit_code == 4 and outcome.lacking:
        return PARTLY_WORDS
    return EXIT_WORDS[run.exit_code]


def as_data(run: document.Run, outcome: JudgedTrace) -> dict[str, object]:
    """The report as plain data: that of every run, and under ``trace`` where in the file things are."""
    trace = {
        "lines_judged": outcome.last,
        "calls": outcome.total,
        "judged": outcome.judged,
        "partly": outcome.partly,
        "lacking": outcome.lacking,
        "ignored": dict(sorted(outcome.ignored.items())),
        "stopped": outcome.stopped,
        "torn": outcome.torn,
        "findings": places_of(outcome.findings),
        "misuse": [asdict(one) for one in outcome.misuse],
        "misuses": outcome.misuses,
        "kinds_of_misuse": dict(Counter(one.kind for one in outcome.misuse)),
    }
    return {**document.document(run), "exit_meaning": meaning(run, outcome), "trace": trace}


# -- a run that was recorded -------------------------------------------------------------------------------------------


def record(
    outcome: JudgedSteps,
    rules: Mapping[str, Rule],
    *,
    file: str,
    depth: int,
    version: str,
    date: str,
    seconds: float,
) -> document.Run:
    """The run that was recorded, with a verdict on each rule by what its steps show."""
    header = outcome.header
    capabilities = frozenset(port for one in outcome.results for port in one.capabilities)
    scope = Scope(depth=depth, misuse=header.profile.misuse, full=False, capabilities=capabilities)
    groups = [
        Group(finding=one.finding, cause=cause_of(one.finding), items=[one.finding.item], leads=not one.finding.after)
        for one in outcome.findings
    ]
    whole = outcome.judged == outcome.total > 0 and not outcome.torn
    return document.Run(
        target=file,
        target_name=header.target or header.cache or "a recorded cache",
        target_version=str(header.data.get("version", "")),
        python="",
        profile=header.profile,
        capabilities=capabilities,
        configs=tuple(outcome.configs.values()),
        rules=rules,
        options={**OPTIONS, "steps": outcome.steps, "depth": depth, "force_misuse": header.force_misuse},
        scope=scope,
        version=version,
        date=date,
        planned=outcome.items,
        seconds=seconds,
        results=outcome.results,
        groups=groups,
        verdicts=conclude(rules, outcome.results, groups, scope),
        exit_code=BROKEN if rules.keys() & outcome.broken.keys() else HOLDS if whole else INCOMPLETE,
    )


def record_as_data(run: document.Run, outcome: JudgedSteps) -> dict[str, object]:
    """The report as plain data: that of every run, and under ``record`` where in the file things are."""
    told = {
        "judged": outcome.judged,
        "total": outcome.total,
        "torn": outcome.torn,
        "ended": [{"item": item, **one._asdict()} for item, one in outcome.ended.items()],
        "findings": places_of(outcome.findings),
    }
    return {**document.document(run), "exit_meaning": RECORD_WORDS[run.exit_code], "record": told}
