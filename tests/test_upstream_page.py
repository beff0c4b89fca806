"""The page on upstream changes: what it names exists and is a link, and each rule of a change stands under it."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvlitmus.spec.parts import all_rules
from tests.test_docs import anchors, links
from tools import results, results_page

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "upstream.md").read_text(encoding="utf-8")
CHANGES = dict(re.findall(r"\[sglang#(\d+)\].*?\n(.*?)(?=\n## |\Z)", PAGE, re.DOTALL))
"""The text under each change, by its number."""
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| statement")
]
LINKS = re.compile(r"\[`?([^\]`]+)`?\]\(([^)]+)\)")


def named(cell: str) -> list[str]:
    """What the links of a cell are called."""
    return [name for name, _ in LINKS.findall(cell)]


def loose_ends(text: str) -> Iterator[str]:
    """Functions of the reference and tests that are no link, rules that aren't there, links that lead nowhere."""
    plain = LINKS.sub("", text)
    yield from (id for id in re.findall(r"\b(?!R-)[A-Z]{2,}-\d\d\b", plain) if id not in all_rules())
    yield from re.findall(r"`[a-z_]+\.[a-z_]+`|`?tests/[\w/]+\.py`?", plain)
    for link in links(text):
        goal, _, anchor = link.partition("#")
        path = ROOT / "docs" / goal
        if not path.is_file() or (anchor and anchor not in places(path)):
            yield link


def places(path: Path) -> set[str]:
    """What a link may lead to in a file: anchors of a page, functions of a module."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return {one.name for one in ast.parse(text).body if isinstance(one, ast.FunctionDef)}
    return anchors(text)


def test_the_page_speaks_of_the_changes() -> None:
    assert sorted(CHANGES) == ["16370", "23606", "26945", "27264"]
    assert len(ROWS) > 20
    assert {line for line in PAGE.splitlines() if line.startswith("## ")} == results_page.PARTS.keys()


def test_all_that_is_named_is_a_link_and_every_link_leads_somewhere() -> None:
    assert list(loose_ends(PAGE)) == []


@pytest.mark.parametrize(
    "planted",
    [
        "COMP-99",
        "`prefetch.gate`",
        "`tests/test_docs.py`",
        "[`prefetch.gate`](../reference/kvlitmus/reference/prefix/prefetch.py#gone)",
        "[0.5.13](results/gone.json)",
    ],
)
def test_a_loose_end_is_found(planted: str) -> None:
    assert len(list(loose_ends(f"{PAGE}\n{planted}\n"))) == 1


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_a_row_names_what_exists(row: list[str]) -> None:
    _, rules, models, tests = row
    ids = rules.split(", ")
    assert set(ids) <= all_rules().keys() and len(set(ids)) == len(ids)
    for model in named(models):
        module, _, name = model.rpartition(".")
        assert callable(getattr(importlib.import_module(f"kvlitmus.reference.{module}"), name))
    assert all((ROOT / path).is_file() for path in named(tests))
    assert named(models) and named(tests)


@pytest.fixture(scope="module")
def verdicts() -> dict[str, str]:
    """What stands in the last column on the site, by statement."""
    lines = results.for_site(PAGE, "upstream.md").splitlines()
    cells = [line.strip("|").split("|") for line in lines if line.startswith("| ")]
    return {row[0].strip(): row[4].strip() for row in cells}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_a_verdict_names_its_target_and_links_to_its_report_or_search(row: list[str], verdicts: dict[str, str]) -> None:
    said = verdicts[row[0]]
    assert {one for one in named(said) if one in all_rules()} == set(row[1].split(", "))
    for one in said.split("; "):
        kind, _, rules = one.partition(": ")
        goals = [goal for _, goal in LINKS.findall(kind)]
        assert bool(goals) != kind.startswith("not judged"), one
        assert all(re.match(r"results/(sglang-[\w.-]+|fuzz)\.json$|results/hazards\.md$", goal) for goal in goals), one
        assert all(goal.startswith("results/README.md#") for _, goal in LINKS.findall(rules)), one


@pytest.mark.parametrize("number", sorted(CHANGES))
def test_each_rule_that_comes_from_a_change_stands_under_it(number: str) -> None:
    of_it = {one.id for one in all_rules().values() if f"sglang#{number}" in one.source}
    assert of_it <= set(re.findall(r"[A-Z]+-\d\d", CHANGES[number])), number
