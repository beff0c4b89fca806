"""The reference beside a cache, as a page shows it: after each step in what the two differ.

What is a cache's to choose is no difference (:mod:`kvlitmus.conformance.beside`).  Where they first differ they have
parted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kvlitmus.conformance.beside.moments import moments_of
from kvlitmus.conformance.viewer.page import NONE, Play
from kvlitmus.conformance.viewer.plain import answered, short
from kvlitmus.conformance.viewer.scenes import Beside, Drawn, Row, table

ALIKE = "Reference and cache: the same is cached, and the same is free"
APART = "Reference and cache: where they differ after this step"
LOST = "The reference is not shown here: it was followed up to step {}"
LEFT = "Here the reference chose otherwise, as a cache may: from here on it is not shown"
"""What stands above the table, or in its place."""


def shown(header: Mapping[str, Any], steps: Sequence[Mapping[str, Any]], replay: str) -> Play:
    """A finding, to be drawn with the reference beside it; ``replay``: the command that plays it again."""
    return Play(header, steps, replay, beside(header, steps))


def beside(header: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> dict[int, Beside]:
    """By step what the reference answered, and in what it differs; nothing of steps of which that isn't known."""
    first = 1 if steps and "call" in steps[0] else 0
    found: dict[int, Beside] = {}
    for number, moment in moments_of(header, steps).items():
        for step, answer in moment.answers.items():
            one = steps[step - first]
            differs = answer != one.get("answer") or ("raised" in one and answer != {"raised": one["raised"]})
            mine, theirs = (
                answered(str(one.get("call")), two) for two in (answer, one.get("raised", one.get("answer")))
            )
            row = ["answer", mine or "nothing", theirs or "nothing"]
            found[step] = Beside(row[1], differs, drawn([tuple(row)] if differs else []))
        was = found.get(number, Beside())
        rows = [*(tuple(row.cells) for row in (was.table or NONE)["rows"]), *moment.parts]
        found[number] = was._replace(table=table(LEFT, [], []) if moment.left else drawn(rows))
    last = first + len(steps) - 1
    if found and last not in found and not any(one.table and one.table["name"] == LEFT for one in found.values()):
        found[last] = Beside(table=table(LOST.format(max(found)), [], []))
    return found


def drawn(parts: Sequence[tuple[str, ...]]) -> Drawn:
    """In what the two differ; a table without rows where they don't."""
    rows = [
        Row(about, [short(about, 160), short(mine, 200), short(theirs, 200)], odd=True) for about, mine, theirs in parts
    ]
    return table(APART if rows else ALIKE, ["", "reference", "cache"], rows)
