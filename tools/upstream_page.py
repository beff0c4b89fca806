"""What SGLang's releases make of the statements of `docs/upstream.md`: the last column of its tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tools.results_page import Evidence, Judged

HEADING = "| statement | rules | model | shown by | on SGLang |"
RULE = re.compile(r"[A-Z]+-\d\d")
ENGINE = "sglang-"
"""The column is about SGLang: what another engine's cache keeps or breaks says nothing there."""


def filled(text: str, found: Evidence, entries: Sequence[Judged]) -> str:
    """The page with the verdicts of the reports in each row of its tables."""
    lines = []
    for line in text.splitlines():
        if line.startswith("| ") and line != HEADING:
            statement, rules, model, shown, _ = [cell.strip() for cell in line.strip("|").split("|")]
            said = verdicts(RULE.findall(rules), found, entries)
            line = f"| {statement} | {rules} | {model} | {shown} | {said} |"
        lines.append(line)
    return "\n".join(lines) + "\n"


def verdicts(rules: Sequence[str], found: Evidence, entries: Sequence[Judged]) -> str:
    """Which of these rules some target breaks, which hold wherever they are judged, and which nobody judges."""
    said: dict[str, list[str]] = {"broken": [], "holds": [], "stale": [], "not judged": []}
    for rule in rules:
        number = broken_by(rule, found, entries)
        how = "broken" if number else verdict(rule, found)
        said[how].append(f"[{rule}](results/index.md#{number})" if number else rule)
    return "; ".join(f"{how}: {', '.join(some)}" for how, some in said.items() if some)


def broken_by(rule: str, found: Evidence, entries: Sequence[Judged]) -> int:
    """The number of the first kind of violation by which a target, with a report that counts, breaks a rule; or 0."""
    broken = {pair for pair in found.broken if pair[1] == rule and pair[0] not in found.stale and ours(pair[0])}
    numbers = (number for number, entry in enumerate(entries, 1) if not broken.isdisjoint(entry.pairs))
    return next(numbers, 0)


def ours(target: str) -> bool:
    """Whether a target is a cache of SGLang."""
    return target.startswith(ENGINE)


def verdict(rule: str, found: Evidence) -> str:
    """What reports say of a rule that none has seen broken."""

    def said(targets: Iterable[str]) -> set[str]:
        return {
            one["verdict"]
            for target in targets
            if ours(target)
            for one in found.reports[target]["rules"]
            if one["id"] == rule and (target, rule) not in found.unjudged
        }

    if "passed" in said(found.fresh):
        return "holds"
    return "stale" if said(found.stale) - {"not_applicable"} else "not judged"
