"""The ledger in words: as Markdown, as plain data, and cell by cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kvlitmus.conformance.report.markdown import escape
from kvlitmus.mutants.freedoms import USED_BY
from kvlitmus.spec.law.actions import Row
from kvlitmus.spec.ledger.cells import Cell, Column, Family, Line
from kvlitmus.spec.ledger.read import FREEDOMS, LEDGER, NO_CALLS, also, depths, gaps
from kvlitmus.spec.parts import all_rules

SAYS = """Each call of each kind of cache raises the same questions. A cell names the rules that answer one, each with
the depths of observation at which it, or one that says the same from less, is judged. *Later* are rules that see it
behind a later call. *Own affair* is what a cache may decide, and a legal cache that decides otherwise is named. A
*gap* is what no rule says, though one should."""


def rule_text(id: str) -> str:
    """A rule and its depths."""
    return f"{id} ({', '.join(map(str, depths(all_rules()[id], all_rules())))})"


def parts(cell: Cell) -> Iterator[tuple[str, str]]:
    """What a cell says, part by part, each with its label."""
    if cell.rules:
        yield "", ", ".join(map(rule_text, cell.rules))
    if cell.later:
        yield "later", ", ".join(map(rule_text, cell.later))
    for name in cell.free:
        yield "own affair", f"{FREEDOMS[name].meaning} ({', '.join(USED_BY[name])})"
    if cell.gap:
        yield "gap", cell.gap
    if cell.without:
        yield "–", cell.without


def cell_text(cell: Cell) -> str:
    """A cell in one line."""
    return "; ".join(f"{label}: {text}" if label not in ("", "–") else text for label, text in parts(cell))


def effects_text(row: Row) -> str:
    """The effects that a call may have, each with its causes."""
    said = [f"{what.value} ({', '.join(dict.fromkeys(one.cause.value for one in why))})" for what, why in row.items()]
    return ", ".join(said) or "nothing"


def plain(line: Line) -> dict[str, Any]:
    """A row as plain data."""
    return {
        "family": line.family.value,
        "call": line.call,
        "how": line.how,
        "occasions": list(line.occasions),
        "looks": line.look,
        "may_change": {what.value: [one.cause.value for one in why] for what, why in line.changes.items()},
        "cells": {column.value: cell._asdict() for column, cell in line.cells.items()},
        "also": also(line, all_rules()),
    }


def columns_page() -> Iterator[str]:
    """The table of questions, and that of freedoms."""
    yield from ("## Questions", "", "| column | asks |", "|---|---|")
    yield from (f"| {column.value} | {column.meaning} |" for column in Column)
    yield from ("", "## Own affairs", "", "| what a cache may decide | which legal cache does |", "|---|---|")
    yield from (f"| {one.meaning} | {', '.join(USED_BY[one.name])} |" for one in FREEDOMS.values())
    yield from ("", "## Gaps", "")
    found = [f"- `{line.name}` ({line.family.value}), {column.value}: {text}." for line, column, text in gaps()]
    yield from found or ["There are none."]


def family_page(lines: Sequence[Line]) -> Iterator[str]:
    """The rows of one family."""
    yield f"| call | {' | '.join(column.value for column in Column)} | may change | also judged |"
    yield "|---" * (len(Column) + 3) + "|"
    for line in lines:
        cells = " | ".join(escape(cell_text(line.cells[column])) for column in Column)
        beside = ", ".join(also(line, all_rules())) or "–"
        yield f"| `{line.name}` | {cells} | {'it looks' if line.look else effects_text(line.changes)} | {beside} |"


def page() -> str:
    """All of it as a page."""
    lines = ["# Which rule answers what", "", SAYS, "", *columns_page()]
    for family in Family:
        lines += ["", f"## {family.value[0].upper()}{family.value[1:]}", ""]
        lines += family_page([line for line in LEDGER if line.family is family])
    lines += ["", "## Occasions of no row", "", "| occasion | why |", "|---|---|"]
    lines += [f"| `{on}` | {why} |" for on, why in NO_CALLS.items()]
    return "\n".join(lines) + "\n"
