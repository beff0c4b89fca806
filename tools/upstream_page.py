"""The page on upstream's changes, `docs/upstream.md`: its links, and what SGLang's releases make of its statements.

Statements, rules, models and tests are chosen by hand.  Here their names become links, and the last column is
written from the reports: which target breaks a rule, in which it holds, and which rules no target is judged by.
``tools/results.py --update`` writes the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kvlitmus.spec.parts import all_rules
from tools.results_page import GROUPS, Evidence, Judged, broken_rules, short, targets_of

HEADING = "| statement | rules | model | shown by | on SGLang |"
RULE = re.compile(r"\b[A-Z]+-\d\d\b")
MODEL = re.compile(r"`(\w+)\.(\w+)`")
TEST = re.compile(r"`([\w/]+\.py)`")
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
UNLINKED = re.compile(r"(?<![\[\w/-])[A-Z]+-\d\d\b(?!\]\()")
"""A rule's id that is no link yet."""
PLAIN_TEST = re.compile(r"(?<!\[)`(tests/[\w/]+\.py)`(?!\])")
"""A test that is no link yet."""
INDEX = "results/index.md"
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
    """The page with its links, and with the verdicts of the reports in each row of its tables."""
    lines, part = [], ""
    for line in text.splitlines():
        part = line if line.startswith("## ") else part
        if line.startswith("| ") and line != HEADING:
            line = row(line, found, entries, part)
        lines.append(linked(line))
    return "\n".join(lines) + "\n"


def row(line: str, found: Evidence, entries: Sequence[Judged], part: str) -> str:
    """A statement with links to its rules, models and tests, and with its verdicts."""
    statement, *named, _ = [cell.strip() for cell in line.strip("|").split("|")]
    rules, models, tests = [LINK.sub(r"\1", cell) for cell in named]
    ids = RULE.findall(rules)
    cells = [statement, ", ".join(rule_link(id) for id in ids)]
    cells.append(", ".join(model_link(module, name) for module, name in MODEL.findall(models)))
    cells.append(", ".join(map(test_link, TEST.findall(tests))))
    return f"| {' | '.join([*cells, verdicts(ids, found, entries, part)])} |"


def linked(line: str) -> str:
    """A line in which every rule and every test is a link."""
    line = PLAIN_TEST.sub(lambda one: test_link(one[1]), line)
    return UNLINKED.sub(lambda one: rule_link(one[0]) if one[0] in all_rules() else one[0], line)


def rule_link(id: str) -> str:
    """A rule, with a link to its place on the pages of rules."""
    return f"[{id}](rules/{all_rules()[id].pack}.md#{id.lower()})"


def model_link(module: str, name: str) -> str:
    """A function of the reference, with a link to its source; the site turns it into one to its page."""
    return f"[`{module}.{name}`](../reference/kvlitmus/reference/{module}.py#{name})"


def test_link(path: str) -> str:
    """A test, with a link to it; the site has no such page, and turns it into code."""
    return f"[`{path}`](../{path})"


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
