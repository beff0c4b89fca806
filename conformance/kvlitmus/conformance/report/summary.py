"""The report in short, as Markdown: for the summary of a CI job (``$GITHUB_STEP_SUMMARY``) or a comment.

What passed is counted; what did not is named, and for each broken rule the shortest counterexample
is folded away below.  :mod:`~kvlitmus.conformance.report.markdown` is the whole page.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from kvlitmus.conformance.report.form import Report, RuleRow, rows
from kvlitmus.conformance.report.markdown import escape, fenced
from kvlitmus.conformance.report.outcomes import CaseOutcome, of_rule, of_run
from kvlitmus.conformance.report.terminal import Stated
from kvlitmus.conformance.run.cause import pack_of
from kvlitmus.conformance.support import files

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
"""The environment variable that names the file to which the steps of a GitHub job append."""

MOST_EXAMPLES = 20
"""Maximum number of counterexamples that are shown; a summary may have a megabyte at most."""

MOST_NAMED = 12
"""Maximum number of skipped rules that are named for one reason."""

MOST_LINES = 80
"""A longer counterexample is shown with its middle left out."""

MARKS = {
    "failed": "❌",
    "error": "💥",
    "known": "➖",
    "warned": "⚠️",
    "skipped": "⏭️",
    "passed": "✅",
}


def render(report: Report) -> str:
    """The summary."""
    outcomes = [(rule, of_rule(report, rule)) for rule in rows(report)]
    run = of_run(report)
    lines = [*_head(report, outcomes, run), "", *_packs(outcomes), "", *_noteworthy(outcomes)]
    lines += [*_examples(outcomes), *_skipped(outcomes)]
    return "\n".join(lines).rstrip() + "\n"


def is_shared(path: Path) -> bool:
    """Whether this is the file that ``GITHUB_STEP_SUMMARY`` names."""
    shared = os.environ.get(STEP_SUMMARY, "")
    return bool(shared) and path.exists() and path.samefile(shared)


def write(path: Path, text: str) -> None:
    """Write a summary; raises ``OSError``.

    The file that ``GITHUB_STEP_SUMMARY`` names belongs to all steps of a job, so it is appended to;
    any other one is replaced.
    """
    if is_shared(path):
        with path.open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text if path.stat().st_size == 0 else f"\n{text}")
    else:
        files.write(path, text)


def _head(report: Report, outcomes: list[tuple[RuleRow, CaseOutcome]], run: CaseOutcome) -> Iterator[str]:
    target, totals = report["stamps"]["target"], report["totals"]
    worst = next((kind for kind in MARKS if kind in {run.kind, *(one.kind for _, one in outcomes)}), "passed")
    mark = MARKS[worst if worst in ("failed", "error") else "passed"]
    yield f"## {mark} kvlitmus: {escape(target['name'], 200)} {escape(target['version'], 200)}".rstrip()
    yield ""
    yield f"**Exit {report['exit_code']}: {escape(report['exit_meaning'])}.**"
    if run.kind == "error":
        yield ""
        yield f"{MARKS['error']} The run itself: {escape(run.message)}."
    yield ""
    yield (
        f"{counted(totals['steps'], 'step')} in {counted(totals['items'], 'item')}, "
        f"{counted(len(report['configs']), 'configuration')}, "
        f"{totals['seconds']:.1f} s; kvlitmus {escape(report['stamps']['kvlitmus'], 80)}, "
        f"{escape(report['stamps']['date'], 40)}."
    )


def counted(number: int, what: str) -> str:
    """A number of things."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def _packs(outcomes: list[tuple[RuleRow, CaseOutcome]]) -> Iterator[str]:
    """A row per pack with its rules by outcome."""
    names = [kind for kind in reversed(MARKS) if any(one.kind == kind for _, one in outcomes)]
    yield f"| pack | {' | '.join(f'{MARKS[kind]} {kind}' for kind in names)} |"
    yield f"|---|{'---:|' * len(names)}"
    packs: dict[str, Counter[str]] = {}
    for rule, outcome in outcomes:
        packs.setdefault(pack_of(rule["id"]), Counter())[outcome.kind] += 1
    for pack, counted in packs.items():
        yield f"| {escape(pack, 80)} | {' | '.join(str(counted[kind] or '') for kind in names)} |"


def _noteworthy(outcomes: list[tuple[RuleRow, CaseOutcome]]) -> Iterator[str]:
    """A row per rule that failed, warned, or could not be decided."""
    rows = [(rule, one) for rule, one in outcomes if one.kind in ("failed", "error", "warned", "known")]
    if not rows:
        return
    yield "| rule | | what it says |"
    yield "|---|---|---|"
    for rule, one in sorted(rows, key=lambda row: list(MARKS).index(row[1].kind)):
        why = f" ({escape(one.message, 300)})" if one.kind in ("error", "known") else ""
        text = escape(Stated.by_id(rule["id"]).text)
        yield f"| {escape(rule['id'], 40)} | {MARKS[one.kind]} {one.kind} | {text}{why} |"
    yield ""


def _skipped(outcomes: list[tuple[RuleRow, CaseOutcome]]) -> Iterator[str]:
    """Why rules were skipped, folded away: what was not judged must not read as passed, nor hide what was."""
    reasons: dict[str, list[str]] = {}
    for rule, one in outcomes:
        if one.kind == "skipped":
            reasons.setdefault(one.message, []).append(escape(rule["id"], 40))
    if reasons:
        yield f"<details><summary>{counted(sum(map(len, reasons.values())), 'rule')} skipped, and why</summary>"
        yield ""
    for reason, ids in sorted(reasons.items(), key=lambda row: -len(row[1])):
        more = f" and {len(ids) - MOST_NAMED} more" if len(ids) > MOST_NAMED else ""
        yield f"- {MARKS['skipped']} {escape(reason, 300)}: {', '.join(ids[:MOST_NAMED])}{more}"
    if reasons:
        yield from ("", "</details>", "")


def cut(lines: list[str]) -> list[str]:
    """Lines that fit: the middle of many is left out, and so is the end of a long one."""
    half = MOST_LINES // 2
    if len(lines) > MOST_LINES:
        lines = [*lines[:half], f"    … {len(lines) - MOST_LINES} lines, in the report …", *lines[-half:]]
    return [line[:1_000] for line in lines]


def _examples(outcomes: list[tuple[RuleRow, CaseOutcome]]) -> Iterator[str]:
    """The counterexamples, folded away."""
    broken = [(rule, one) for rule, one in outcomes if one.kind in ("failed", "warned") and one.text]
    for rule, one in broken[:MOST_EXAMPLES]:
        yield f"<details><summary>{escape(rule['id'], 40)}: {escape(Stated.by_id(rule['id']).title)}</summary>"
        yield ""
        yield fenced(cut(one.text.split("\n")))
        yield ""
        yield "</details>"
        yield ""
    if len(broken) > MOST_EXAMPLES:
        yield f"{len(broken) - MOST_EXAMPLES} more counterexamples are in the report."
        yield ""
