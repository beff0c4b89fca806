"""The page on upstream changes: what it names exists, and each rule that comes from one of them stands under it."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from kvlitmus.spec.rule import all_rules

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "upstream.md").read_text(encoding="utf-8")
CHANGES = dict(re.findall(r"\[sglang#(\d+)\].*?\n(.*?)(?=\n## |\Z)", PAGE, re.DOTALL))
"""The text under each change, by its number."""
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| statement")
]


def test_the_page_speaks_of_the_changes() -> None:
    assert sorted(CHANGES) == ["16370", "23606", "26945", "27264"]
    assert len(ROWS) > 20


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_a_row_names_what_exists(row: list[str]) -> None:
    _, rules, model, shown, said = row
    assert set(rules.split(", ")) <= all_rules().keys()
    module, name = model.strip("`").split(".")
    assert callable(getattr(importlib.import_module(f"kvlitmus.reference.{module}"), name))
    assert (ROOT / shown.strip("`")).is_file()
    assert sorted(re.findall(r"[A-Z]+-\d\d", said)) == sorted(rules.split(", ")), "tools/results.py --update"


@pytest.mark.parametrize("number", sorted(CHANGES))
def test_each_rule_that_comes_from_a_change_stands_under_it(number: str) -> None:
    of_it = {one.id for one in all_rules().values() if f"sglang#{number}" in one.source}
    assert of_it <= set(re.findall(r"[A-Z]+-\d\d", CHANGES[number])), number
