#!/usr/bin/env python3
"""The results page: what the suite said about other people's caches, and what we make of it.

    .venv/bin/python tools/results.py            says what is wrong or out of date; exit code 1 if anything is
    .venv/bin/python tools/results.py --update   writes docs/results/index.md

The reports in ``docs/results`` are the suite's own; ``classification.toml`` beside them says of each
violation what it is and why.  A violation that nobody classified is an error, and so is a
classification without its violation, a counterexample that no report refers to, and a snippet that
no classification names.  The counterexamples in ``counterexamples/hazards`` belong to the page on known
hazards, which ``tools/hazards.py`` writes: each must be a saved failure, the one that the page shows.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT / room) for room in ("spec", "reference", "conformance")]

from kvlitmus.conformance.report import failures  # noqa: E402
from kvlitmus.conformance.targets import known_targets  # noqa: E402

FOLDER = ROOT / "docs" / "results"
HAZARDS = "hazards"
"""The folder of the known hazards' counterexamples, and the name of their data and page."""
CLASSES = ("bug", "declared choice", "outside the contract", "limit of the adapter")
BROKEN = ("violated", "warned")
MARKS = {"passed": "✓", "violated": "✗", "warned": "!", "not_applicable": "–"}
WIDTH = 150
"""So many characters of a call are shown on the page; the saved counterexample has all."""

Report = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One entry of the classification: rules broken by some targets in the same way, and what that is."""

    title: str
    rules: tuple[str, ...]
    targets: tuple[str, ...]
    kind: str
    releases: str
    reasoning: str
    links: tuple[str, ...]
    snippets: tuple[str, ...]

    @property
    def pairs(self) -> Iterator[tuple[str, str]]:
        """Every (target, rule) that the entry is about."""
        return ((target, rule) for target in self.targets for rule in self.rules)


def reports(folder: Path = FOLDER) -> dict[str, Report]:
    """The committed reports by target, in the order of the table of targets."""
    found: dict[str, Report] = {}
    for path in folder.glob("*.json"):
        data = json.loads(path.read_text(encoding="utf-8"))
        if data.get("kind") == "kvlitmus report":
            found[data["stamps"]["target"]["name"]] = data
    order = {name: at for at, name in enumerate(known_targets())}
    return dict(sorted(found.items(), key=lambda one: order.get(one[0], len(order))))


def classification(folder: Path = FOLDER) -> tuple[list[Judged], str, str]:
    """The entries, and the texts before and after them; raises ``ValueError`` for what has not the form."""
    data = tomllib.loads((folder / "classification.toml").read_text(encoding="utf-8"))
    entries = []
    for number, raw in enumerate(data["violation"], 1):
        try:
            entry = Judged(
                title=raw["title"],
                rules=tuple(raw["rules"]),
                targets=tuple(raw["targets"]),
                kind=raw["class"],
                releases=raw["releases"],
                reasoning=raw["reasoning"].strip(),
                links=tuple(raw.get("links", ())),
                snippets=tuple(raw["snippets"]),
            )
        except KeyError as missing:
            raise ValueError(f"classification.toml, violation {number}: {missing} is missing") from None
        if entry.kind not in CLASSES:
            raise ValueError(f"classification.toml, violation {number}: class must be one of {', '.join(CLASSES)}")
        entries.append(entry)
    return entries, data["introduction"].strip(), data["notes"].strip()


def broken_rules(found: Mapping[str, Report]) -> set[tuple[str, str]]:
    """Every (target, rule) that a report says is broken."""
    return {
        (target, rule["id"]) for target, data in found.items() for rule in data["rules"] if rule["verdict"] in BROKEN
    }


def complaints(found: Mapping[str, Report], entries: Sequence[Judged], folder: Path = FOLDER) -> list[str]:
    """What reports, classification, counterexamples and snippets do not agree about."""
    wrong: list[str] = []
    broken = broken_rules(found)
    said = [pair for entry in entries for pair in entry.pairs]
    wrong += [f"{target}: {rule} is broken, and nobody classified it" for target, rule in sorted(broken - set(said))]
    wrong += [f"{target}: {rule} is classified, but not broken" for target, rule in sorted(set(said) - broken)]
    wrong += [
        f"{target}: {rule} is classified twice" for target, rule in sorted({p for p in said if said.count(p) > 1})
    ]
    for target, data in found.items():
        if data["partial"] or data["exit_code"] not in (0, 1):
            wrong.append(f"{target}: the report is not of a whole run ({data['exit_meaning']})")
    saved = {finding["saved"] for data in found.values() for finding in data["findings"]}
    files = {
        f"docs/results/{path.relative_to(folder)}"
        for path in folder.glob("counterexamples/**/*.json")
        if path.parent.name != HAZARDS
    }
    wrong += [f"{path}: a report refers to it, but it isn't there" for path in sorted(saved - files)]
    wrong += [f"{path}: no report refers to it" for path in sorted(files - saved)]
    snippets = {path.name for path in folder.glob("snippets/*.py")}
    named = {name for entry in entries for name in entry.snippets}
    wrong += [f"snippets/{name}: a classification names it, but it isn't there" for name in sorted(named - snippets)]
    wrong += [f"snippets/{name}: no classification names it" for name in sorted(snippets - named)]
    return wrong


def hazard_complaints(folder: Path = FOLDER) -> list[str]:
    """What the known hazards' data, page and counterexamples do not agree about."""
    data = folder / f"{HAZARDS}.json"
    records: list[dict[str, Any]] = json.loads(data.read_text(encoding="utf-8"))["hazards"] if data.is_file() else []
    shown = {one["counterexample"]: one for one in records if "counterexample" in one}
    files = {f"docs/results/{path.relative_to(folder)}": path for path in folder.glob(f"counterexamples/{HAZARDS}/*")}
    wrong = [f"{path}: hazards.json refers to it, but it isn't there" for path in sorted(shown.keys() - files.keys())]
    wrong += [f"{path}: hazards.json does not refer to it" for path in sorted(files.keys() - shown.keys())]
    for name in sorted(files.keys() & shown.keys()):
        record = shown[name]
        try:
            saved = failures.load(files[name])
        except failures.FailureError as error:
            wrong.append(f"{name}: {error}")
            continue
        told = (record["target"], record["rules"], record["config"], record["calls"])
        if told != (saved.target, list(saved.rules), saved.config.label, list(saved.calls)):
            wrong.append(f"{name}: hazards.json tells of another counterexample")
    path = folder / f"{HAZARDS}.md"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return wrong + [f"hazards.md does not tell of {one['id']}" for one in records if f"**{one['id']}**" not in text]


def page(found: Mapping[str, Report], entries: Sequence[Judged], introduction: str, notes: str) -> str:
    """The results page."""
    lines = ["# Results", "", introduction, "", "## What was judged", "", *targets_table(found), ""]
    lines += ["## Verdicts", "", *verdict_table(found), "", "## What is broken, and what we make of it", ""]
    lines += [
        "| | rules | class | shown by |",
        "|---|---|---|---|",
        *(
            f"| [{entry.title}](#{anchor(number, entry.title)}) | {', '.join(entry.rules)} | **{entry.kind}** "
            f"| {len(entry.targets)} target{'s' * (len(entry.targets) > 1)} |"
            for number, entry in enumerate(entries, 1)
        ),
        "",
    ]
    for number, entry in enumerate(entries, 1):
        lines += section(number, entry, found)
    return "\n".join([*lines, notes]) + "\n"


def targets_table(found: Mapping[str, Report]) -> list[str]:
    """What each target is, how much of it was judged, and the tally."""
    about = known_targets()
    lines = ["| | target | what it is | configurations | calls judged | seconds | passed | violated | not applicable |"]
    lines.append("|---|---|---|---|---|---|---|---|---|")
    for letter, (name, data) in zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", found.items(), strict=False):
        tally, totals = data["totals"]["verdicts"], data["totals"]
        lines.append(
            f"| {letter} | [{name}]({name}.json) | {about.get(name, '')} | {len(data['configs'])} "
            f"| {totals['steps']:,} | {totals['seconds']:.0f} "
            f"| {tally['passed']} | {tally['violated']} | {tally['not_applicable']} |"
        )
    return lines


def verdict_table(found: Mapping[str, Report]) -> list[str]:
    """Rule × target; rules that apply to none of them are named below the table."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: len(found)]
    verdicts: dict[str, dict[str, str]] = {}
    titles: dict[str, str] = {}
    for target, data in found.items():
        for rule in data["rules"]:
            titles[rule["id"]] = rule["title"]
            verdicts.setdefault(rule["id"], {})[target] = rule["verdict"]
    lines = ["✓ passed, ✗ violated, ! warned (a SHOULD is broken), – not applicable.", ""]
    lines += [f"| rule | | {' | '.join(letters)} |", "|---|---|" + "---|" * len(letters)]
    nowhere: list[str] = []
    for id, by_target in sorted(verdicts.items(), key=lambda one: in_order(one[0])):
        # A report that is older than a rule says nothing about it.
        given = [by_target.get(target, "not_applicable") for target in found]
        if set(given) == {"not_applicable"}:
            nowhere.append(id)
        else:
            marks = " | ".join(MARKS.get(one, one.replace("_", " ")) for one in given)
            lines.append(f"| [{id}](../rules/{part_of(id)}.md#{id.lower()}) | {titles[id]} | {marks} |")
    if nowhere:
        packs = sorted({id.partition("-")[0] for id in nowhere})
        lines += [
            "",
            f"Not applicable to any of them: {', '.join(packs)} ({len(nowhere)} rules); no target offers those ports.",
        ]
    return lines


def anchor(number: int, title: str) -> str:
    """The anchor that a heading ``number. title`` gets, here and on most hosts."""
    plain = re.sub(r"[^\w\s-]", "", f"{number}. {title}".lower())
    return re.sub(r"\s+", "-", plain.strip())


def in_order(id: str) -> int:
    """Where a rule stands in the spec."""
    from kvlitmus.spec.rule import all_rules

    return list(all_rules()).index(id)


def part_of(id: str) -> str:
    """The page on which a rule is rendered."""
    from kvlitmus.spec.rule import all_rules

    return all_rules()[id].pack


def section(number: int, entry: Judged, found: Mapping[str, Report]) -> list[str]:
    """One classified violation: the rules, the shortest counterexample, the class with its reasons."""
    finding, target, texts = shortest(entry, found)
    lines = [
        f'<a id="{number}"></a>',
        "",
        f"### {number}. {entry.title}",
        "",
        f"**{entry.kind}** · {entry.releases}",
        "",
    ]
    lines += [f"> **{rule}** {texts[rule]}" + ("\n>" if rule != entry.rules[-1] else "") for rule in entry.rules]
    lines += ["", f"The shortest counterexample, on `{target}` with {finding['config_label']}:", "", "```text"]
    last = len(finding["calls"])
    for at, call in enumerate(finding["calls"], 1):
        lines.append(f"{'▶' if at == last else ' '} {at:2} {call if len(call) <= WIDTH else call[:WIDTH] + ' …'}")
    if finding["allowed"]:
        lines.append(f"allowed: {finding['allowed']}")
    seen = finding["detail"] or ", ".join(
        f"{name.replace('_', ' ')} = {value}" for name, value in finding["seen"].items()
    )
    lines += [f"seen:    {seen}", "```", "", entry.reasoning, ""]
    if entry.links:
        lines += ["Upstream: " + ", ".join(f"<{link}>" for link in entry.links), ""]
    lines += ["Shown by " + ", ".join(f"`{name}`" for name in entry.targets) + ".", ""]
    relative = finding["saved"].removeprefix("docs/results/")
    lines += [f"- replay: `kvlitmus replay {finding['saved']}` ([file]({relative}))"]
    scripts = ", ".join(f"[`snippets/{name}`](snippets/{name})" for name in entry.snippets)
    lines += [f"- without kvlitmus: {scripts}", ""]
    return lines


def shortest(entry: Judged, found: Mapping[str, Report]) -> tuple[dict[str, Any], str, dict[str, str]]:
    """The shortest finding of an entry, the target that showed it, and the sentences of the rules."""
    options = [
        (len("".join(finding["calls"])), target, finding)
        for target in entry.targets
        for finding in found[target]["findings"]
        if set(finding["rules"]) & set(entry.rules)
    ]
    _, target, finding = min(options, key=lambda one: one[:2])
    labels = {
        json.dumps({k: c[k] for k in finding["config"]}, sort_keys=True): c["label"] for c in found[target]["configs"]
    }
    label = labels.get(json.dumps(finding["config"], sort_keys=True), "")
    texts = {rule["id"]: rule["text"] for rule in found[target]["rules"]}
    return {**finding, "config_label": f"`{label}`"}, target, texts


def main(arguments: Sequence[str]) -> int:
    """The command line; returns the exit code."""
    found = reports()
    try:
        entries, introduction, notes = classification()
    except ValueError as error:
        print(error)
        return 1
    wrong = complaints(found, entries) + hazard_complaints()
    for complaint in wrong:
        print(complaint)
    if wrong:
        return 1
    text, index = page(found, entries, introduction, notes), FOLDER / "index.md"
    if "--update" in arguments:
        index.write_text(text, encoding="utf-8")
    elif not index.is_file() or index.read_text(encoding="utf-8") != text:
        print("docs/results/index.md is out of date: tools/results.py --update")
        return 1
    print(f"{len(found)} reports, {len(broken_rules(found))} violations, {len(entries)} kinds of them, all classified")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
