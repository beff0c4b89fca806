"""The pages of the site that are made of the results of `tools/results.py`.

On the results page: what was judged, verdicts group by group, and each kind of violation.  On `docs/upstream.md`: what
SGLang's releases make of its statements, the last column of its tables.  Statements, rules, models and tests are chosen
by hand there; the column says which target breaks a rule, in which it holds, and which rules no target is judged by.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kvlitmus.conformance.run.targets import known_targets
from kvlitmus.spec.law.rule import in_force
from kvlitmus.spec.parts import all_rules

Report = dict[str, Any]
Pair = tuple[str, str]
"""A target and a rule."""

BROKEN = ("violated", "warned")
MARKS = {"passed": "✓", "violated": "✗", "warned": "!", "not_applicable": "–"}
WIDTH = 150
"""So many characters of a call are shown on the page; the saved counterexample has all."""

GROUPS = (
    ("Trees on the device", ("", "-sorted", "-requests", "-python", "-python-requests", "-rust", "-rust-requests")),
    ("Hierarchies", ("-hicache", "-unified-hicache", "-hicache-rust")),
    ("Pools", ("-device-pool", "-device-pool-triton", "-host-pool")),
    ("Storage in files", ("-file", "-file-metadata")),
    ("Sparse host memory", ("-hisparse",)),
    ("Block tables", ("vllm-0.33.0-flat",)),
    ("KV cache groups", ("vllm-0.33.0", "vllm-0.33.0-eagle")),
    ("Several components", ("-swa", "-mamba", "-swa-mamba")),
    ("Several components, a class for each kind", ("-swa-radix", "-mamba-radix", "-hi-mamba")),
    ("Several components with host memory", ("-swa-hosted", "-mamba-hosted", "-swa-mamba-hosted")),
    (
        "Several components with a compiled tree",
        (
            *("-swa-rust", "-mamba-rust", "-swa-mamba-rust"),
            *("-swa-hosted-rust", "-mamba-hosted-rust", "-swa-mamba-hosted-rust"),
        ),
    ),
    ("Prefetches of several components", ("-swa-fetched", "-mamba-fetched", "-swa-mamba-fetched")),
    ("Several ranks", ("-ranks",)),
)
"""The tables of verdicts, each narrow enough to be read, by the ends of SGLang's names or by whole names."""

RELEASES = ("sglang-0.5.13.post1", "sglang-0.5.23")
ALL_RELEASES = (*RELEASES, "vllm-0.33.0")


def targets_of(ends: Sequence[str]) -> list[str]:
    """The targets of a table, the older release first; a name that is whole stands for itself."""
    named = [f"{release}{end}" if end[:1] in ("", "-") else end for release in RELEASES for end in ends]
    return list(dict.fromkeys(named))


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One entry of the classification: rules broken by some targets in the same way, and what that is.

    ``said``: their ids as they are written, ``rules``: those that are in force.
    """

    title: str
    rules: tuple[str, ...]
    targets: tuple[str, ...]
    kind: str
    reach: str
    releases: str
    reasoning: str
    links: tuple[str, ...]
    snippets: tuple[str, ...]
    said: tuple[str, ...] = ()

    @property
    def pairs(self) -> Iterable[Pair]:
        """Every (target, rule) that the entry is about."""
        return ((target, rule) for target in self.targets for rule in self.rules)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the page is made of.

    ``reports`` by target; ``stale``: why a target's report says nothing about this tree; ``searched``: what long
    searches broke (``fuzz``, ``hazards``), by target and rule, each with the finding; ``unjudged``: what a report calls
    passed though it can't tell, by target and rule, each with the reason.
    """

    reports: Mapping[str, Report]
    stale: Mapping[str, Sequence[str]]
    searched: Mapping[str, Mapping[Pair, Mapping[str, Any]]] = field(default_factory=dict)
    campaigns: Sequence[Mapping[str, Any]] = ()
    unjudged: Mapping[Pair, str] = field(default_factory=dict)

    @property
    def fresh(self) -> dict[str, Report]:
        """The reports that count."""
        return {target: data for target, data in self.reports.items() if target not in self.stale}

    @property
    def broken(self) -> set[Pair]:
        """Every (target, rule) that a report that counts, or a search, says is broken."""
        return broken_rules(self.fresh) | {pair for pairs in self.searched.values() for pair in pairs}


def broken_rules(found: Mapping[str, Report]) -> set[Pair]:
    """Every (target, rule) that a report says is broken."""
    return {
        (target, in_force(rule["id"]))
        for target, data in found.items()
        for rule in data["rules"]
        if rule["verdict"] in BROKEN
    }


def page(readme: str, found: Evidence, entries: Sequence[Judged]) -> str:
    """The results page: what is written by hand, then what follows from the reports."""
    lines = [readme.rstrip(), "", "## What was judged", "", *targets_table(found), ""]
    lines += ["## Verdicts", "", *legend(found), ""]
    for title, ends in GROUPS:
        targets = [name for name in targets_of(ends) if name in found.reports]
        if targets:
            lines += [f"### {title}", "", *verdict_table(found, targets), ""]
    lines += ["## Finding by finding", ""]
    for number, entry in enumerate(entries, 1):
        lines += section(number, entry, found)
    return "\n".join(lines) + "\n"


def short(target: str) -> str:
    """A target's name in a narrow column."""
    return target.removeprefix("sglang-").replace("0.5.13.post1", "0.5.13").replace("-", " ", 1).replace("-", "‑")


def targets_table(found: Evidence) -> list[str]:
    """What each target is, how much of it was judged, and the tally."""
    about = known_targets()
    lines = ["| target | what it is | calls judged | passed | violated | not applicable |", "|---|---|---|---|---|---|"]
    for name, data in found.reports.items():
        tally, totals = data["totals"]["verdicts"], data["totals"]
        row = f"| [{name}]({name}.json) | {about.get(name, '')}, {len(data['configs'])} configurations "
        if name in found.stale:
            lines.append(f"{row}| **stale**: {'; '.join(found.stale[name])} | | | |")
        else:
            warned = f" + {tally['warned']} warned" if tally["warned"] else ""
            lines.append(
                f"{row}| {totals['steps']:,} | {tally['passed']} | {tally['violated']}{warned} "
                f"| {tally['not_applicable']} |"
            )
    return lines


def legend(found: Evidence) -> list[str]:
    """What the marks mean, and what the searches were."""
    lines = [
        "✓ passed, ✗ violated, ! warned (a SHOULD is broken), – not applicable, *stale*: judged by another build,",
        "*blocked*: nothing could be judged before another rule was broken.",
        "Beside each ✓: how often the rule was evaluated. ✗ᶠ: the run above passed it, and a fuzz campaign broke it;",
        "✗ʰ: the search for a [known hazard](hazards.md) did.",
    ]
    lines.append("")
    lines += [
        f"- Fuzzed: `{one['target']}` in {one['configs']} configurations, {one['steps']:,} steps in {one['plays']:,} "
        f"schedules, seed {one['seed']}, one worker."
        for one in found.campaigns
    ]
    if not found.campaigns:
        lines.append("No campaign of this build is on record.")
    lines += ["", "What neither broke may still be broken: a ✓ is worth its steps."]
    return lines


def count(times: int) -> str:
    """A number that fits a cell."""
    return str(times) if times < 1000 else f"{times / 1000:.1f}k" if times < 10_000 else f"{times // 1000}k"


def cell(found: Evidence, target: str, rule: str) -> str:
    """What the table says of a rule and a target."""
    if target in found.stale:
        return "stale"
    row = next((one for one in found.reports[target]["rules"] if one["id"] == rule), None)
    if row is None:
        return "–"
    if (target, rule) in found.unjudged:
        return "–*"
    if row["verdict"] == "passed":
        for mark, kind in (("✗ᶠ", "fuzz"), ("✗ʰ", "hazards")):
            if (target, rule) in found.searched.get(kind, {}):
                return mark
        return f"✓ {count(row['evaluations'])}"
    verdict: str = row["verdict"]
    return MARKS.get(verdict, verdict.replace("_", " "))


def verdict_table(found: Evidence, targets: Sequence[str]) -> list[str]:
    """Rule × target of one group; rules that apply to none of them are named below the table."""
    if all(target in found.stale for target in targets):
        return [f"All stale: {', '.join(f'`{target}`' for target in targets)}."]
    rules = all_rules()
    lines = [f"| rule | {' | '.join(map(short, targets))} |", "|---|" + "---|" * len(targets)]
    nowhere: list[str] = []
    for id, rule in rules.items():
        cells = [cell(found, target, id) for target in targets]
        if set(cells) <= {"–", "stale"}:
            nowhere.append(id)
        else:
            lines.append(f"| [{id}](../rules/{rule.pack}.md#{id.lower()}) {rule.title} | {' | '.join(cells)} |")
    lines.append("")
    lines += [
        f"\\* {rule} is not judged on `{target}`: {why}"
        for (target, rule), why in found.unjudged.items()
        if target in targets
    ]
    if nowhere:
        packs = dict.fromkeys(id.partition("-")[0] for id in nowhere)
        told = [f"{pack} ({sum(id.startswith(pack + '-') for id in nowhere)})" for pack in packs]
        lines += ["", f"Not applicable to any of them, rules by part: {', '.join(told)}."]
    return lines


def section(number: int, entry: Judged, found: Evidence) -> list[str]:
    """One classified violation: the rules, the shortest counterexample, the class with its reasons."""
    rules = all_rules()
    lines = [f'<a id="{number}"></a>', "", f"### {number}. {entry.title}", ""]
    lines += [f"**{entry.kind}**, {entry.reach} · {entry.releases}", ""]
    lines += [f"> **{rule}** {rules[rule].text}" + ("\n>" if rule != entry.rules[-1] else "") for rule in entry.rules]
    best = shortest(entry, found)
    if best is not None:
        lines += ["", *counterexample(*best), ""]
    lines += [entry.reasoning, ""] if best is not None else ["", entry.reasoning, ""]
    if entry.links:
        lines += ["Upstream: " + ", ".join(f"<{link}>" for link in entry.links), ""]
    lines += ["Shown by " + ", ".join(shown_by(target, entry, found) for target in entry.targets) + ".", ""]
    if best is not None:
        lines += replay(best[0]["saved"])
    scripts = ", ".join(f"[`snippets/{name}`](snippets/{name})" for name in entry.snippets)
    lines += [f"- without kvlitmus: {scripts}" if scripts else "- without kvlitmus: no script", ""]
    return lines


def shown_by(target: str, entry: Judged, found: Evidence) -> str:
    """A target that shows it, and by what, if not by its report."""
    if target not in found.reports:
        return f"`{target}` (not judged yet)"
    if target in found.stale:
        return f"`{target}` (stale)"
    if any(rule["id"] in entry.rules and rule["findings"] for rule in found.reports[target]["rules"]):
        return f"`{target}`"
    kinds = [kind for kind, pairs in found.searched.items() if any((target, rule) in pairs for rule in entry.rules)]
    return f"`{target}` ({' and '.join(kinds)})" if kinds else f"`{target}`"


def counterexample(finding: Mapping[str, Any], target: str, label: str) -> list[str]:
    """A counterexample as calls."""
    why = f" (not minimal: {finding['not_minimal']})" if finding.get("not_minimal") else ""
    lines = [f"The shortest counterexample{why}, on `{target}` with `{label}`:", "", "```text"]
    last = len(finding["calls"])
    for at, call in enumerate(finding["calls"], 1):
        lines.append(f"{'▶' if at == last else ' '} {at:2} {call if len(call) <= WIDTH else call[:WIDTH] + ' …'}")
    if finding["allowed"]:
        lines.append(f"allowed: {finding['allowed']}")
    seen = finding["detail"] or ", ".join(
        f"{name.replace('_', ' ')} = {value}" for name, value in finding["seen"].items()
    )
    return [*lines, f"seen:    {seen}", "```"]


def replay(saved: str) -> list[str]:
    """How a counterexample is played again, and where it is: on the site, drawn step by step."""
    return [f"- replay: `kvlitmus replay {saved}` ([step by step]({saved.removeprefix('docs/results/')}))"]


def shortest(entry: Judged, found: Evidence) -> tuple[Mapping[str, Any], str, str] | None:
    """The shortest finding of an entry, the target that showed it, and its configuration; reports before searches."""
    options: list[tuple[int, int, str, Mapping[str, Any], str]] = []
    for target in entry.targets:
        if target in found.fresh:
            data = found.fresh[target]
            labels = {config_key(config, data["findings"]): config["label"] for config in data["configs"]}
            for finding in data["findings"]:
                if set(finding["rules"]) & set(entry.rules):
                    label = labels.get(json.dumps(finding["config"], sort_keys=True), "")
                    options.append((0, len("".join(finding["calls"])), target, finding, label))
        for pairs in found.searched.values():
            for rule in entry.rules:
                if (target, rule) in pairs:
                    finding = pairs[target, rule]
                    options.append((1, len("".join(finding["calls"])), target, finding, str(finding["label"])))
    if not options:
        return None
    _, _, target, finding, label = min(options, key=lambda one: one[:3])
    return finding, target, label


def config_key(config: Mapping[str, Any], findings: Sequence[Mapping[str, Any]]) -> str:
    """A configuration of a report in the form of its findings'."""
    fields = findings[0]["config"] if findings else {}
    return json.dumps({name: config[name] for name in fields}, sort_keys=True)


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


def upstream(text: str, found: Evidence, entries: Sequence[Judged]) -> str:
    """The page on upstream with a last column in its tables: the verdicts of the reports on SGLang."""
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
