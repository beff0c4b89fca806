#!/usr/bin/env python3
"""The traceability matrix: for each rule what establishes it, computed and never written by hand.

    .venv/bin/python tools/matrix.py            says what is wrong; exit code 1 if anything is

The registers are read, small runs are made, nothing is claimed.  :data:`INTRO` says what the columns are, each a
mapping from rule ids to what was found.  That litmus tests lead where they say is checked by every run, that mutants
are killed by ``kvlitmus mutants``, the proofs by ``tests/proofs`` and ``tests/optimized/test_small_states.py``.

A rule with an empty cell fails, unless ``docs/matrix_reasons.toml`` says why it is empty; a
reason that nothing needs any more fails too.
"""

from __future__ import annotations

import functools
import importlib
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), *(str(ROOT / room) for room in ("spec", "reference", "conformance"))]

from kvlitmus.conformance.adapters.reference import component_requests as reference_requests  # noqa: E402
from kvlitmus.conformance.adapters.reference import components as reference_components  # noqa: E402
from kvlitmus.conformance.adapters.reference import sparse as reference_sparse  # noqa: E402
from kvlitmus.conformance.adapters.reference import store as reference_store  # noqa: E402
from kvlitmus.conformance.adapters.reference import target as reference  # noqa: E402
from kvlitmus.conformance.litmus.registry import all_litmus  # noqa: E402
from kvlitmus.conformance.ports import Config  # noqa: E402
from kvlitmus.conformance.run import plan  # noqa: E402
from kvlitmus.conformance.run.engine import run_item  # noqa: E402
from kvlitmus.conformance.run.results import Item, Options  # noqa: E402
from kvlitmus.conformance.specimen import cache as specimen  # noqa: E402
from kvlitmus.mutants.registry import all_mutants  # noqa: E402
from kvlitmus.spec.law.rule import Rule  # noqa: E402
from kvlitmus.spec.parts import PARTS, all_rules  # noqa: E402
from kvlitmus.spec.prefix.stand_ins import standing_for  # noqa: E402
from tools import results  # noqa: E402

REASONS = ROOT / "docs" / "matrix_reasons.toml"

TITLES = {
    "reference": "reference",
    "litmus": "litmus tests",
    "random": "random schedules",
    "proof": "symbolic or exhaustive",
    "optimized": "the same of the optimized cache",
    "mutant": "mutants it kills",
}
COLUMNS = tuple(TITLES)

INTRO = """# Traceability matrix

For each rule: the function of the reference that shows how it is kept, the litmus tests that lead to it, the
targets whose random schedules evaluated it, the proofs that cover it (lemmas, whose bounds are at the end, or an
enumeration of all states of small caches), those of the optimized cache, of its own source (or its equality with the
reference in all states of small caches), and the known bugs, put back into a correct cache, that it must catch.
The last column is for information: how the rule fared in the committed [results](results/README.md).  The tables
say how many there are of each; a rule's details, below its table, say which.

This page is made from the registers and from runs. An empty cell (–) fails CI unless a reviewed table states the
reason, which is then shown in the rule's details.
"""

FLAT = (Config(page_size=1), Config(page_size=4), Config(page_size=4, pages=8), Config(page_size=4, bigram=True))
COMPONENTS = (*plan.COMPONENT_CONFIGS[:4], *plan.COMPONENT_HOST_CONFIGS[:2], *plan.COMPONENT_STORAGE_CONFIGS[:2])
TARGETS: dict[str, tuple[Any, tuple[Config, ...]]] = {
    "specimen": (
        specimen.target,
        (*FLAT, *plan.TIER_CONFIGS, *plan.STORE_CONFIGS, *plan.SPARSE_CONFIGS, *plan.RANK_CONFIGS),
    ),
    "reference": (reference.target, (*FLAT, *plan.TIER_CONFIGS, *plan.RANK_CONFIGS)),
    "reference-store": (reference_store.target, plan.STORE_CONFIGS),
    "reference-sparse": (reference_sparse.target, plan.SPARSE_CONFIGS),
    "components": (specimen.component_target, COMPONENTS),
    "reference-components": (reference_components.target, COMPONENTS),
    "component-requests": (specimen.component_request_target, plan.REQUEST_CONFIGS[:4]),
    "reference-component-requests": (reference_requests.target, plan.REQUEST_CONFIGS[:4]),
}
"""The targets whose schedules are evidence, and the configurations in which they are played."""
FLAT_SEEDS, TIER_SEEDS = range(4), range(10)
"""A hierarchy has more kinds of operations, so each comes up less often in one schedule; the seed decides which call is
the last one."""
OPS = 250

Found = dict[str, list[str]]


@dataclass
class Evidence:
    """What was found: column → rule → texts, the bounds of the lemmas, and what is wrong with the evidence itself."""

    cells: dict[str, Found] = field(default_factory=lambda: {column: {} for column in COLUMNS})
    bounds: dict[str, str] = field(default_factory=dict)
    targets: Found = field(default_factory=dict)
    times: Counter[str] = field(default_factory=Counter)
    complaints: list[str] = field(default_factory=list)

    def add(self, column: str, rules: Mapping[str, Rule], id: str, text: str, where: str) -> None:
        """Note that a rule is covered; a rule that isn't there is a complaint."""
        if id not in rules:
            self.complaints.append(f"{where} names {id}, which is no rule")
        elif text not in self.cells[column].setdefault(id, []):
            self.cells[column][id].append(text)


def ordered_rules() -> dict[str, Rule]:
    """Every rule, part by part, whatever order the parts were imported in."""
    places = {f"kvlitmus.spec.{part}": at for at, part in enumerate(PARTS)}
    return dict(sorted(all_rules().items(), key=lambda one: places[one[1].predicate.__module__]))


def collect(rules: Mapping[str, Rule]) -> Evidence:
    """All evidence for these rules; deterministic, some seconds."""
    found = Evidence()
    find_references(rules, found)
    for test in all_litmus().values():
        for id in test.rules:
            found.add("litmus", rules, id, test.id, f"litmus test {test.id}")
    for mutant in all_mutants().values():
        for id in mutant.kills:
            found.add("mutant", rules, id, mutant.id, f"mutant {mutant.id}")
    play_schedules(rules, found)
    find_proofs(rules, found)
    read_reports(rules, found, results.FOLDER)
    return found


def find_references(rules: Mapping[str, Rule], found: Evidence) -> None:
    """Import the function of the reference that each rule names."""
    for rule in rules.values():
        if not rule.reference:
            continue
        module, _, name = rule.reference.rpartition(".")
        try:
            getattr(importlib.import_module(f"kvlitmus.reference.{module}"), name)
        except (ImportError, AttributeError, ValueError):
            found.complaints.append(f"{rule.id} names the reference's {rule.reference}, which isn't there")
        else:
            found.add("reference", rules, rule.id, rule.reference, "")


def play_schedules(rules: Mapping[str, Rule], found: Evidence) -> None:
    """Play random schedules and note which rules were evaluated; a violation or an error is a complaint."""
    for name, (target, configs) in TARGETS.items():
        for config in configs:
            for seed in TIER_SEEDS if config.tiered else FLAT_SEEDS:
                item = Item(kind="random", config=config, seed=seed, ops=OPS)
                result = run_item(target, item, Options(reruns=0, shrink_trials=0))
                for trouble in (result.error, result.unsupported, *(one.call for one in result.findings)):
                    if trouble:
                        found.complaints.append(f"{name}, {item.id}: {trouble}")
                found.times += result.evaluated
                for id, times in result.evaluated.items():
                    if times:
                        found.add("random", rules, id, name, f"{name}, {item.id}")


def find_proofs(rules: Mapping[str, Rule], found: Evidence) -> None:
    """Ask the proofs: the lemmas with their bounds, and what the quick enumerations evaluated."""
    from tests.proofs.support import coverage

    for column, proven in (("proof", coverage.by_lemmas()), ("optimized", coverage.by_optimized_proofs())):
        for id, lemmas in proven.items():
            for name, bounds in lemmas:
                found.add(column, rules, id, f"`{name}`", f"lemma {name}")
                found.bounds[name] = bounds
    for column, text, evaluated in (
        ("proof", "all states of small caches", coverage.by_enumeration()),
        ("optimized", "equal to the reference in all states of small caches", coverage.by_optimized_enumeration()),
    ):
        for id, times in evaluated.items():
            if times:
                found.add(column, rules, id, text, "the enumeration")


def read_reports(rules: Mapping[str, Rule], found: Evidence, folder: Path) -> None:
    """How each rule fared where somebody's cache was judged; a rule of another version is left out."""
    for name, data in results.reports(folder).items():
        for row in data["rules"]:
            if row["id"] in rules and row["verdict"] not in ("not_applicable", "not_exercised"):
                found.targets.setdefault(row["id"], []).append(f"{name}: {row['verdict']}")


class Reason(NamedTuple):
    """Why a cell may be empty."""

    rule: str
    cell: str
    text: str


def read_reasons(text: str) -> tuple[list[Reason], list[str]]:
    """The reasons of the table, and what is wrong with its form."""
    reasons: list[Reason] = []
    complaints: list[str] = []
    for at, entry in enumerate(tomllib.loads(text).get("reason", []), 1):
        rules, cell, why = entry.get("rules"), entry.get("cell"), str(entry.get("reason", "")).strip()
        if entry.keys() != {"rules", "cell", "reason"} or not isinstance(rules, list) or not rules or not why:
            complaints.append(f"reason {at}: expected rules (a list), cell and reason (got {sorted(entry)})")
        elif cell not in COLUMNS:
            complaints.append(f"reason {at}: there is no cell {cell!r}; there are {', '.join(COLUMNS)}")
        else:
            reasons += [Reason(str(rule), cell, " ".join(why.split())) for rule in rules]
    return reasons, complaints


def check(rules: Mapping[str, Rule], found: Evidence, reasons: Sequence[Reason]) -> list[str]:
    """Empty cells without a reason, reasons that are stale, unknown or given twice, and trouble with the evidence."""
    complaints = list(found.complaints)
    given = {(reason.rule, reason.cell) for reason in reasons}
    for id in rules:
        complaints += [
            f"{id}: nothing under '{TITLES[column]}', and docs/matrix_reasons.toml does not say why"
            for column in COLUMNS
            if not found.cells[column].get(id) and (id, column) not in given
        ]
    for id, column in sorted(given):
        if id not in rules:
            complaints.append(f"matrix_reasons.toml names {id}, which is no rule")
        elif found.cells[column].get(id):
            complaints.append(
                f"matrix_reasons.toml excuses {id} for '{column}', where there is something now: remove it"
            )
    if len(given) < len(reasons):
        complaints.append("matrix_reasons.toml excuses the same cell twice")
    return complaints


def render(rules: Mapping[str, Rule], found: Evidence, reasons: Sequence[Reason]) -> str:
    """The page."""
    lines = [INTRO, *_summary(rules, found)]
    excused = {(reason.rule, reason.cell): reason.text for reason in reasons}
    for pack in dict.fromkeys(rule.pack for rule in rules.values()):
        mine = [rule for rule in rules.values() if rule.pack == pack]
        lines += ["", f"## {pack}", "", *_table(mine, found, excused)]
    lines += ["", "## Lemmas and their bounds", "", "| lemma | holds for |", "|---|---|"]
    lines += [f"| `{name}` | {bounds} |" for name, bounds in sorted(found.bounds.items())]
    return "\n".join(lines) + "\n"


def _summary(rules: Mapping[str, Rule], found: Evidence) -> list[str]:
    lines = ["| of " + str(len(rules)) + " rules | covered | excused |", "|---|---|---|"]
    for column in COLUMNS:
        covered = sum(1 for id in rules if found.cells[column].get(id))
        lines.append(f"| {TITLES[column]} | {covered} | {len(rules) - covered} |")
    return lines


def _table(rules: Sequence[Rule], found: Evidence, excused: Mapping[tuple[str, str], str]) -> list[str]:
    """A line for each rule, and behind them its details."""
    lines = [f"| rule | {' | '.join(COLUMNS)} | judged caches |"]
    lines.append("|---|" + "---:|" * len(COLUMNS) + "---|")
    for rule in rules:
        cells = [
            str(len(found.cells[column].get(rule.id, ())) or ("–" if (rule.id, column) in excused else "**missing**"))
            for column in COLUMNS
        ]
        judged = Counter(one.rpartition(": ")[2] for one in found.targets.get(rule.id, []))
        verdicts = ", ".join(f"{many} {verdict}" for verdict, many in sorted(judged.items()))
        link = f"[{rule.id}](rules/{rule.pack}.md#{rule.id.lower()})"
        lines.append(f"| {link} {rule.title} | {' | '.join(cells)} | {verdicts} |")
    for rule in rules:
        lines += ["", f'<details markdown="1"><summary>{rule.id}</summary>', "", *_details(rule, found, excused)]
        lines += ["", "</details>"]
    return lines


def _details(rule: Rule, found: Evidence, excused: Mapping[tuple[str, str], str]) -> Iterator[str]:
    """What covers a rule, column by column, and why a column is empty."""
    for column in COLUMNS:
        texts = found.cells[column].get(rule.id, [])
        if column == "mutant":
            texts = sorted(texts)  # they are registered in the order in which their modules are imported
        listed = ", ".join(text if column in ("proof", "optimized") else f"`{text}`" for text in texts)
        yield f"- {TITLES[column]}: {listed or '– ' + excused.get((rule.id, column), '**missing**')}"
    if fewer := standing_for(rule.id):
        yield f"- said with less to see by: {', '.join(dict.fromkeys(f'`{one.rule}`' for one in fewer))}"
    yield f"- evaluated in random schedules: {found.times[rule.id]:,} times{where(rule)}"
    if judged := found.targets.get(rule.id):
        yield f"- judged caches: {', '.join(judged)}"


def where(rule: Rule) -> str:
    """When an evaluation of a rule counts."""
    return f", where there was something to say: {rule.premise_text}" if rule.premise else ""


@functools.cache
def page() -> str:
    """The page, computed once: half a minute."""
    rules = ordered_rules()
    return render(rules, collect(rules), read_reasons(REASONS.read_text(encoding="utf-8"))[0])


PROPOSAL = re.compile(r"R-[A-Z][A-Z0-9]*-\d\d")


def sources(rules: Mapping[str, Rule]) -> dict[str, list[str]]:
    """The rules that come from each proposal of ``docs/map.md``, as they say themselves."""
    found: dict[str, list[str]] = {}
    for rule in rules.values():
        for proposal in PROPOSAL.findall(rule.source):
            found.setdefault(proposal, []).append(rule.id)
    return found


def with_rules(text: str) -> str:
    """A page on which each table of proposals has a column more: the rules that came of them."""
    found, lines, inside = sources(ordered_rules()), [], False
    for line in text.splitlines():
        cells = line.split("|")
        inside = line.startswith("| proposal |") or (inside and len(cells) > 1)
        if inside:
            name = cells[1].strip()
            shown = {"proposal": " rules ", "---": "---"}.get(name) or f" {', '.join(found.get(name, [])) or '–'} "
            line = "|".join([*cells[:4], shown, *cells[4:]])
        lines.append(line)
    return "\n".join(lines) + "\n"


def main() -> int:
    """Check; 1 when something is wrong."""
    rules = ordered_rules()
    reasons, complaints = read_reasons(REASONS.read_text(encoding="utf-8"))
    complaints += check(rules, collect(rules), reasons)
    sys.stdout.write("".join(f"{complaint}\n" for complaint in complaints))
    sys.stdout.write(f"matrix: {len(rules)} rules, {len(reasons)} excused cells, {len(complaints)} complaints\n")
    return 1 if complaints else 0


if __name__ == "__main__":
    raise SystemExit(main())
