"""What SGLang's releases make of the statements of `docs/upstream.md`: the last column of its tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tools.results_page import Evidence, Judged

HEADING = "| statement | rules | model | shown by | on SGLang |"
RULE = re.compile(r"[A-Z]+-\d\d")
ENGINE = "sglang-"
"""The column is about SGLang: what another engine's cache keeps or breaks says nothing there."""
STATES = "## The same with a recurrent state"
"""The part that is about states: what a cache breaks by its window says nothing there."""


def filled(text: str, found: Evidence, entries: Sequence[Judged]) -> str:
    """The page with the verdicts of the reports in each row of its tables."""
    lines, part = [], ""
    for line in text.splitlines():
        part = line if line.startswith("## ") else part
        if line.startswith("| ") and line != HEADING:
            statement, rules, model, shown, _ = [cell.strip() for cell in line.strip("|").split("|")]
            said = verdicts(RULE.findall(rules), found, entries, part)
            line = f"| {statement} | {rules} | {model} | {shown} | {said} |"
        lines.append(line)
    return "\n".join(lines) + "\n"


def verdicts(rules: Sequence[str], found: Evidence, entries: Sequence[Judged], part: str) -> str:
    """Which of these rules some target of a part breaks, which hold wherever they are judged, which nobody judges."""
    said: dict[str, list[str]] = {"broken": [], "holds": [], "stale": [], "not judged": []}
    for rule in rules:
        number = broken_by(rule, found, entries, part)
        how = "broken" if number else verdict(rule, found, part)
        said[how].append(f"[{rule}](results/index.md#{number})" if number else rule)
    return "; ".join(f"{how}: {', '.join(some)}" for how, some in said.items() if some)


def broken_by(rule: str, found: Evidence, entries: Sequence[Judged], part: str) -> int:
    """The number of the first kind of violation by which a target, with a report that counts, breaks a rule; or 0."""
    broken = {pair for pair in found.broken if pair[1] == rule and pair[0] not in found.stale and tells(*pair, part)}
    numbers = (number for number, entry in enumerate(entries, 1) if not broken.isdisjoint(entry.pairs))
    return next(numbers, 0)


def tells(target: str, rule: str, part: str) -> bool:
    """Whether a target says something of a rule there: one of SGLang, and where it is about states without windows."""
    return target.startswith(ENGINE) and not (part == STATES and rule.startswith("COMP-") and "-swa" in target)


def verdict(rule: str, found: Evidence, part: str) -> str:
    """What reports say of a rule that none has seen broken."""

    def said(targets: Iterable[str]) -> set[str]:
        return {
            one["verdict"]
            for target in targets
            if tells(target, rule, part)
            for one in found.reports[target]["rules"]
            if one["id"] == rule and (target, rule) not in found.unjudged
        }

    if "passed" in said(found.fresh):
        return "holds"
    return "stale" if said(found.stale) - {"not_applicable"} else "not judged"
