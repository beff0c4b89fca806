"""The table of provenance, ``docs/map.md``: its column of rules follows from what the rules say of themselves."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from kvlitmus.spec.rule import Rule

TABLE = Path(__file__).resolve().parent.parent / "docs" / "map.md"
PROPOSAL = re.compile(r"R-[A-Z][A-Z0-9]*-\d\d")
RULES_CELL = 3
"""Which cell of a row, from 0 on, lists the rules."""


def sources(rules: Mapping[str, Rule]) -> dict[str, list[str]]:
    """The rules that come from each proposal."""
    found: dict[str, list[str]] = {}
    for rule in rules.values():
        for proposal in PROPOSAL.findall(rule.source):
            found.setdefault(proposal, []).append(rule.id)
    return found


def renewed(text: str, rules: Mapping[str, Rule]) -> str:
    """The table with its column of rules as it should be; fates and reasons are left to people."""
    found = sources(rules)
    lines = text.splitlines()
    for at, line in enumerate(lines):
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if cells and PROPOSAL.fullmatch(cells[0]):
            cells[RULES_CELL] = ", ".join(found.get(cells[0], [])) or "–"
            lines[at] = f"| {' | '.join(cells)} |".replace("|  |", "| |")
    return "\n".join(lines) + "\n"
