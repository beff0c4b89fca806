"""The report as Markdown, for a page or a pull request; whatever a cache handed out is shown as text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kvlitmus.conformance.checker.explain import harmless
from kvlitmus.conformance.report.document import Run
from kvlitmus.conformance.report.terminal import LOOK, Stated, headlines, one_line, said, where, words
from kvlitmus.conformance.run.verdicts import main_rule
from kvlitmus.conformance.support.brief import brief


def escape(text: object, limit: int = 2_000) -> str:
    """A text that Markdown shows as it is: no markup, no HTML, no links, no mentions."""
    plain = harmless(text, limit).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return (
        re.sub(r"([\\`*_\[\]|~#!])", r"\\\1", plain)
        .replace("@", "&#64;")
        .replace("://", "&#58;//")
        .replace("www.", "www&#46;")
    )


def fenced(lines: list[str]) -> str:
    """A block of code that its own content can't end."""
    body = "\n".join(lines)
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", body)), default=0))
    return f"{fence}text\n{body}\n{fence}"


def render(run: Run) -> str:
    """The whole page."""
    return (
        "\n".join([*_head(run), "", *_counterexamples(run), *_notes(run), "## Rules", "", *_table(run)]).rstrip() + "\n"
    )


def _head(run: Run) -> Iterator[str]:
    tally = run.tally()
    yield f"# kvlitmus: {escape(run.target_name)} {escape(run.target_version)}".rstrip()
    yield ""
    yield (
        f"kvlitmus {escape(run.version)}, {escape(run.date)}, {len(run.configs)} configurations, "
        f"{run.steps:,} steps in {run.played} items, depth {run.scope.depth}."
    )
    yield ""
    yield ", ".join(f"**{tally[name]} {words(name)}**" for name in LOOK if tally[name]) + "."
    yield ""
    yield f"Exit {run.exit_code}: {run.meaning}."
    if run.scope.partial:
        yield ""
        yield f"Interrupted after {run.played} of {run.planned} items."


def _table(run: Run) -> Iterator[str]:
    yield "| rule | strength | verdict | evaluations | what it says |"
    yield "|---|---|---|---:|---|"
    for verdict in run.verdicts:
        rule = run.rules[verdict.rule]
        kind = words(said(run, verdict))
        reason = f": {escape(verdict.reason, 300)}" if verdict.reason else ""
        yield f"| {rule.id} | {rule.strength.value} | {kind}{reason} | {verdict.evaluations:,} | {escape(rule.text)} |"


def _counterexamples(run: Run) -> Iterator[str]:
    for head in headlines(run):
        yield from _counterexample(run, head.at)
        if head.more:
            yield "Also broken, probably by the same cause:"
            yield ""
            yield from (f"- {escape(one_line(run, at, rules))}" for at, rules in head.more.items())
            yield ""


def _counterexample(run: Run, at: int) -> Iterator[str]:
    finding, cause = run.groups[at].finding, run.groups[at].cause
    main = Stated.by_id(main_rule(finding.rules))
    yield f"## {cause.id}: {escape(main.title)} ({main.id})"
    yield ""
    yield f"{escape(cause.about)}."
    yield ""
    yield escape(main.text)
    yield ""
    if finding.detail:
        yield f"Seen: {escape(finding.detail)}"
    else:
        yield f"Allowed: {escape(brief(finding.allowed))}"
        yield ""
        yield from (f"- seen: {escape(fact)} = {escape(brief(text))}" for fact, text in finding.seen.items())
    yield ""
    calls = [f"{number:>3} {brief(harmless(call))}" for number, call in enumerate(finding.calls or [finding.call], 1)]
    yield fenced([*calls[:-1], f"{calls[-1]}   <-- breaks {', '.join(finding.rules)}"])
    yield ""
    if finding.parted:
        yield f"State and cache first disagreed after {escape('; '.join(finding.parted))}."
        yield ""
    if finding.shortness:
        yield f"Shrunk: {escape(finding.shortness)}."
        yield ""
    yield f"Found by {escape(where(run.groups[at]))}."
    if at in run.replay:
        yield ""
        yield fenced([harmless(run.replay[at], 1_000)])
    yield ""


def _notes(run: Run) -> Iterator[str]:
    failed = [result for result in run.results if result.error]
    if failed:
        yield "## Failed items"
        yield ""
        yield from (f"- {escape(result.item)}: {escape(result.error)}" for result in failed[:20])
        yield ""
    if run.baseline and run.baseline.fails:
        yield "## Baseline"
        yield ""
        yield from (f"- {entry.cause} ({entry.rule}): stale, it was not met" for entry in run.baseline.stale)
        yield from (
            f"- {entry.cause} ({entry.rule}): expired at {escape(entry.until)}" for entry in run.baseline.expired
        )
        yield ""
