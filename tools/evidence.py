"""What establishes each rule, computed: the registers are read, small runs are made, nothing is claimed.

Six columns, each a mapping from rule ids to what was found:

* ``reference``: the function of the reference that the rule names, imported;
* ``litmus``: the litmus tests that say they lead there (that they do is checked by every run);
* ``random``: the targets whose lawful random schedules evaluated the rule, a few thousand steps each;
* ``proof``: the lemmas that say they prove it, with their bounds, and the enumerations that evaluated it;
* ``optimized``: the same of the optimized cache: proofs of its own source, and the enumerations in which it is equal to
  the reference in every state (that they hold is checked by ``tests/proofs/test_optimized_symbolic.py`` and
  ``tests/optimized/test_small_states.py``);
* ``mutant``: the mutants that the rule is to kill (that it does is checked by ``kvlitmus mutants``).

``targets`` is for information: how the rule fared in the committed reports; ``times``: how often those schedules
evaluated it, where its premise was true.
"""

from __future__ import annotations

import importlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvlitmus.conformance.adapters.reference import component_requests as reference_requests
from kvlitmus.conformance.adapters.reference import components as reference_components
from kvlitmus.conformance.adapters.reference import sparse as reference_sparse
from kvlitmus.conformance.adapters.reference import store as reference_store
from kvlitmus.conformance.adapters.reference import target as reference
from kvlitmus.conformance.litmus.registry import all_litmus
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.engine import run_item
from kvlitmus.conformance.run.plan import (
    COMPONENT_CONFIGS,
    COMPONENT_HOST_CONFIGS,
    COMPONENT_STORAGE_CONFIGS,
    RANK_CONFIGS,
    REQUEST_CONFIGS,
    SPARSE_CONFIGS,
    STORE_CONFIGS,
    TIER_CONFIGS,
)
from kvlitmus.conformance.run.results import Item, Options
from kvlitmus.conformance.specimen import cache as specimen
from kvlitmus.mutants.registry import all_mutants
from kvlitmus.spec.parts import PARTS, all_rules
from kvlitmus.spec.rule import Rule

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"
COLUMNS = ("reference", "litmus", "random", "proof", "optimized", "mutant")

FLAT = (Config(page_size=1), Config(page_size=4), Config(page_size=4, pages=8), Config(page_size=4, bigram=True))
TARGETS: dict[str, tuple[Any, tuple[Config, ...]]] = {
    "specimen": (specimen.target, (*FLAT, *TIER_CONFIGS, *STORE_CONFIGS, *SPARSE_CONFIGS, *RANK_CONFIGS)),
    "reference": (reference.target, (*FLAT, *TIER_CONFIGS, *RANK_CONFIGS)),
    "reference-store": (reference_store.target, STORE_CONFIGS),
    "reference-sparse": (reference_sparse.target, SPARSE_CONFIGS),
    "components": (
        specimen.component_target,
        (*COMPONENT_CONFIGS[:4], *COMPONENT_HOST_CONFIGS[:2], *COMPONENT_STORAGE_CONFIGS[:2]),
    ),
    "reference-components": (
        reference_components.target,
        (*COMPONENT_CONFIGS[:4], *COMPONENT_HOST_CONFIGS[:2], *COMPONENT_STORAGE_CONFIGS[:2]),
    ),
    "component-requests": (specimen.component_request_target, REQUEST_CONFIGS[:4]),
    "reference-component-requests": (reference_requests.target, REQUEST_CONFIGS[:4]),
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
    read_reports(rules, found, RESULTS)
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


def reports(folder: Path) -> Iterator[dict[str, Any]]:
    """The committed reports, by the name of their target."""
    for path in sorted(folder.rglob("*.json")):
        data = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(data, dict) and data.get("kind") == "kvlitmus report":
            yield data


def read_reports(rules: Mapping[str, Rule], found: Evidence, folder: Path) -> None:
    """How each rule fared where somebody's cache was judged; a rule of another version is left out."""
    for data in reports(folder):
        stamp = data["stamps"]["target"]
        for row in data["rules"]:
            if row["id"] in rules and row["verdict"] not in ("not_applicable", "not_exercised"):
                found.targets.setdefault(row["id"], []).append(f"{stamp['name']}: {row['verdict']}")
