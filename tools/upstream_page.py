"""What SGLang's releases make of the statements of `docs/upstream.md`: the last column of its tables, on the site.

Statements, rules, models and tests are chosen by hand.  The column is written from the reports: which target breaks a
rule, in which it holds, and which rules no target is judged by.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tools.results_page import GROUPS, Evidence, Judged, broken_rules, short, targets_of

HEADING = "| statement | rules | model | shown by |"
RULE = re.compile(r"\b[A-Z]+-\d\d\b")
INDEX = "results/README.md"
ENGINE = "sglang-"
"""The column is about SGLang: what another engine's cache keeps or breaks says nothing there."""
STATES = "## The same with a recurrent state"
PARTS = {
    "## A prefetch that takes what memory there is": (("-hicache", "-ranks"), ()),
    STATES: (("-mamba", "-state-commits", "-ranks"), ("-swa",)),
    "## Host memory of sparse attention in pages": (("-hisparse",), ()),
    "## Ranks that agree on what came with the KV": (("-ranks", "-swa"), ()),
}
"""By their names, the targets that say something of a part's statements: one of these in them, and none of those."""
KINDS = ("broken", "holds", "stale", "not judged")


def filled(text: str, found: Evidence, entries: Sequence[Judged]) -> str:
    """The page with the verdicts of the reports in each row of its tables."""
    lines, part = [], ""
    for line in text.splitlines():
        part = line if line.startswith("## ") else part
        if line == HEADING:
            line += " on SGLang |"
        elif line.startswith("|---"):
            line += "---|"
        elif line.startswith("| "):
            rules = RULE.findall(line.split(" | ")[1])
            line += f" {verdicts(rules, found, entries, part)} |"
        lines.append(line)
    return "\n".join(lines) + "\n"


def verdicts(rules: Sequence[str], found: Evidence, entries: Sequence[Judged], part: str) -> str:
    """What the targets of a part make of these rules; those of which the same targets say the same stand together."""
    said: dict[tuple[str, str], list[str]] = {}
    for rule in rules:
        by: dict[tuple[str, str], list[str]] = {}
        for target in judges(found, part):
            kind = verdict(target, rule, found)
            if kind != "not judged":
                goal = f"#{broken_by(target, rule, entries)}" if kind == "broken" else ""
                by.setdefault((kind, goal), []).append(target)
        for (kind, goal), targets in by.items():
            where = ", ".join(target_link(target, rule, found) for target in targets)
            said.setdefault((kind, where), []).append(f"[{rule}]({INDEX}{goal or table_of(targets[0])})")
        if not by:
            said.setdefault(("not judged", ""), []).append(f"[{rule}]({INDEX}#verdicts)")
    ordered = sorted(said.items(), key=lambda one: KINDS.index(one[0][0]))
    return "; ".join(f"{kind}{' in ' if where else ''}{where}: {', '.join(some)}" for (kind, where), some in ordered)


def judges(found: Evidence, part: str) -> Iterator[str]:
    """The targets that say something of a part's statements: those with a report, and those of the searches."""
    searched = {target for pairs in found.searched.values() for target, _ in pairs}
    some, none = PARTS.get(part, ((ENGINE,), ()))
    for target in (*found.reports, *sorted(searched - found.reports.keys())):
        if target.startswith(ENGINE) and any(one in target for one in some) and not any(one in target for one in none):
            yield target


def verdict(target: str, rule: str, found: Evidence) -> str:
    """What a target's report says of a rule, or a search that broke it."""
    rows = found.reports[target]["rules"] if target in found.reports else ()
    said = next((one["verdict"] for one in rows if one["id"] == rule), "not_applicable")
    if target in found.stale:
        return "not judged" if said == "not_applicable" else "stale"
    if (target, rule) in found.broken:
        return "broken"
    return "holds" if said == "passed" and (target, rule) not in found.unjudged else "not judged"


def broken_by(target: str, rule: str, entries: Sequence[Judged]) -> str:
    """The anchor of the first kind of violation by which a target breaks a rule."""
    numbers = (str(number) for number, entry in enumerate(entries, 1) if (target, rule) in entry.pairs)
    return next(numbers, "verdicts")


def table_of(target: str) -> str:
    """The anchor of the table in which a target has its column."""
    titles = (title for title, ends in GROUPS if target in targets_of(ends))
    return f"#{next(titles, 'verdicts').lower().replace(' ', '-')}"


def target_link(target: str, rule: str, found: Evidence) -> str:
    """A target with a link to its report, and to the search that broke the rule where the report doesn't say so."""
    report = f"[{short(target)}](results/{target}.json)" if target in found.reports else short(target)
    if (target, rule) in broken_rules(found.fresh) or target in found.stale:
        return report
    pages = {"fuzz": "results/fuzz.json", "hazards": "results/hazards.md"}
    marks = [f"[{kind}]({pages[kind]})" for kind, pairs in found.searched.items() if (target, rule) in pairs]
    return f"{report} ({', '.join(marks)})" if marks else report
