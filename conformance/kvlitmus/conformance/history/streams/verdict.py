"""What came of a stream, as a report in the form of every other run's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kvlitmus.conformance.history.streams.judge import CAPABILITIES, EVENTS, ORDER, WHOLE, StreamJudge
from kvlitmus.conformance.history.verdict import OPTIONS, groups_of, places_of
from kvlitmus.conformance.report import document
from kvlitmus.conformance.run.results import ItemResult, RuleVerdict, Verdict
from kvlitmus.conformance.run.verdicts import EXIT_WORDS, Scope, conclude, exit_code
from kvlitmus.spec.law.rule import Rule

JUDGED = {*WHOLE, ORDER}
"""What can be judged from a stream."""

BESIDE = "a stream tells what is cached, and not what was asked and answered"
UNCOUNTED = "a stream doesn't say how many copies there are"
UNNUMBERED = "the batches have no numbers"
NO_WHOLE = "no group of whole prefixes is told"
NEVER_LED = "no event led there"

VIOLATED_WORDS = "a rule is violated"
TORN_WORDS = "what there is holds, but the stream breaks off"
GAP_WORDS = "what was captured holds, but not all of it was captured"
EMPTY_WORDS = "the stream has no event that could be judged"


def of_events(rule: Rule) -> bool:
    """Whether a rule is about events, so that a report on a stream says something of it."""
    return rule.pack == "event"


def report(
    judge: StreamJudge, rules: Mapping[str, Rule], *, file: str, version: str, date: str, seconds: float
) -> document.Run:
    """The run that a stream was, with a verdict on each rule."""
    outcome = judge.outcome
    result = ItemResult(
        item=f"events:{file}",
        config="",
        steps=outcome.batches,
        evaluated=outcome.evaluated,
        idle=outcome.idle,
        findings=[one.finding for one in outcome.findings],
        capabilities=sorted(CAPABILITIES),
        seconds=seconds,
    )
    scope = Scope(depth=EVENTS, full=False, partial=outcome.interrupted, capabilities=CAPABILITIES)
    groups = groups_of(outcome.findings, result.item)
    verdicts = [accounted(one, judge) for one in conclude(rules, [result], groups, scope)]
    return document.Run(
        target=file,
        target_name="a stream of KV events",
        target_version="",
        python="",
        profile=judge.setting.profile,
        capabilities=CAPABILITIES,
        configs=(),
        rules=rules,
        options={**OPTIONS, "steps": outcome.batches, "depth": EVENTS},
        scope=scope,
        version=version,
        date=date,
        planned=1,
        seconds=seconds,
        results=[result],
        groups=groups,
        verdicts=verdicts,
        exit_code=code_of(verdicts, result, scope, judge),
    )


def accounted(one: RuleVerdict, judge: StreamJudge) -> RuleVerdict:
    """The verdict with a stream's own reasons for a rule that was never evaluated."""
    if one.verdict in (Verdict.VIOLATED, Verdict.WARNED, Verdict.PASSED):
        return one
    if one.rule == "EVENT-04":
        one.verdict, one.reason = Verdict.NOT_APPLICABLE, UNCOUNTED
    elif one.rule not in JUDGED:
        one.verdict, one.reason = Verdict.NOT_APPLICABLE, BESIDE
    elif one.rule == ORDER and not any(one.known for one in judge.publishers.values()):
        one.verdict, one.reason = Verdict.NOT_APPLICABLE, UNNUMBERED
    elif one.rule in WHOLE and judge.publishers and not judge.wholes:
        one.verdict, one.reason = Verdict.NOT_APPLICABLE, NO_WHOLE
    elif one.verdict is Verdict.NOT_EXERCISED:
        one.reason = NEVER_LED
    return one


def missing(judge: StreamJudge) -> int:
    """How many batches were not captured, by their numbers."""
    return sum(one.missing for one in judge.publishers.values())


def code_of(verdicts: list[RuleVerdict], result: ItemResult, scope: Scope, judge: StreamJudge) -> int:
    """The exit code: as of every run, and 4 for a stream that breaks off, has gaps, or tells nothing."""
    code = exit_code(verdicts, [result], scope)
    if code == 0 and (judge.outcome.torn or missing(judge) or not judge.outcome.events):
        return 4
    return code


def meaning(run: document.Run, judge: StreamJudge) -> str:
    """What the exit code means here."""
    if run.exit_code == 1:
        return VIOLATED_WORDS
    if run.exit_code == 4 and not judge.outcome.events:
        return EMPTY_WORDS
    if run.exit_code == 4 and judge.outcome.torn:
        return TORN_WORDS
    if run.exit_code == 4 and missing(judge):
        return GAP_WORDS
    return EXIT_WORDS[run.exit_code]


def notes(judge: StreamJudge, unit: str) -> Iterator[str]:
    """What was not heard, and what was heard twice; ``unit``: what is counted in the file."""
    for publisher in judge.publishers.values():
        for gap in publisher.gaps:
            whose = f" of {gap.publisher}" if gap.publisher else ""
            numbers = f"batch {gap.first}" if gap.first == gap.last else f"batches {gap.first} to {gap.last}"
            was = "was" if gap.first == gap.last else "were"
            yield f"{numbers}{whose} {was} not captured; from {unit} {gap.line} on only what is certain is judged"
        if publisher.again:
            yield f"{publisher.again:,} batch{'es' * (publisher.again != 1)} sent again, and passed over"
        if publisher.late:
            yield f"{publisher.late:,} batch{'es' * (publisher.late != 1)} came after later ones, and were passed over"
        if publisher.restarts:
            yield f"the publisher began anew {publisher.restarts:,} time{'s' * (publisher.restarts != 1)}"


def as_data(run: document.Run, judge: StreamJudge) -> dict[str, object]:
    """The report as plain data: that of every run, and under ``events`` what a mirror holds and where things are."""
    outcome = judge.outcome
    events = {
        "lines_judged": outcome.last,
        "batches": outcome.batches,
        "events": outcome.events,
        "torn": outcome.torn,
        "stopped": outcome.stopped,
        "missing": missing(judge),
        "gaps": [gap._asdict() for one in judge.publishers.values() for gap in one.gaps],
        "mirror": [
            {"publisher": name, "group": group, "tier": tier, "blocks": blocks}
            for name, one in judge.publishers.items()
            for group, tier, blocks in one.holds()
        ],
        "findings": places_of(outcome.findings),
    }
    return {**document.document(run), "exit_meaning": meaning(run, judge), "events": events}
