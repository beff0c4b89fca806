"""What is drawn of a sparse host pool: its pages by row, the rows, and the buffers on the device."""

from __future__ import annotations

from collections.abc import Mapping

from kvlitmus.conformance.tape.calls import look_of
from kvlitmus.conformance.tape.forms import FormError, Json
from kvlitmus.conformance.viewer.holders import pages
from kvlitmus.conformance.viewer.plain import fields, number, numbers, pairs, part, span, told
from kvlitmus.conformance.viewer.scenes import Call, Drawn, Job, Looks, Pool, Row, square, table


class Sparse:
    """A sparse host pool."""

    def __init__(self, config: Mapping[str, Json]) -> None:
        self.size = max(1, number(config.get("page_size"), 1))
        self.every: set[int] = set()
        self.began: dict[str, list[tuple[str, int]]] = {"copy": [], "transfer": []}
        self.length: dict[str, str] = {}

    def follow(self, call: Call) -> None:
        """A call was made and answered."""
        row = told(call.given.get("row"))
        if call.name in ("sparse_stage", "sparse_prealloc") and not call.refused and call.answer is not None:
            kind = "copy" if call.name == "sparse_stage" else "transfer"
            self.began[kind].append((row, call.number))
        if "length" in call.given:
            self.length[row] = told(call.given["length"])
        if call.name in ("sparse_free", "sparse_abort", "sparse_retract"):
            self.length.pop(row, None)

    def draw(self, looks: Looks) -> tuple[list[Pool], list[Drawn], list[Job]]:
        """What is there now."""
        view = fields(looks.get("sparse_view"))
        rows = [(told(row), numbers(slots)) for row, slots in pairs(view.get("rows"))]
        jobs = self.jobs("copy", looks.get("sparse_copying")) + self.jobs("transfer", looks.get("sparse_transferring"))
        homes: dict[int, list[tuple[str, str]]] = {}
        for page in pages(numbers(view.get("free")), self.size):
            homes.setdefault(page, []).append(("free", ""))
        for row, slots in rows:
            for page in pages(slots, self.size):
                homes.setdefault(page, []).append(("request", f"row {row}"))
        self.every |= homes.keys()
        stale = looks.stale("sparse_view")
        empty = "unseen" if stale else "flight" if jobs else "none"
        squares = [square(page, homes.get(page, []), empty=empty) for page in sorted(self.every)]
        shown = [
            Row(row, [f"row {row}", self.length.get(row, ""), str(len(slots)), span(pages(slots, self.size))])
            for row, slots in rows
        ]
        tables = [table("Rows", ["row", "length", "slots", "pages"], shown)]
        buffers = [
            Row(row, [f"row {row}", span(slots)]) for row, slots in by_row(looks, "sparse_device_buffer") if slots
        ]
        if buffers:
            tables.append(table("Buffers on the device", ["row", "slots"], buffers))
        pools: list[Pool] = [{"name": f"Host pool{stale}", "squares": squares}] if view else []
        return pools, tables, jobs

    def jobs(self, kind: str, under_way: Json) -> list[Job]:
        """The copies or transfers that have not ended."""
        found: list[Job] = []
        for one in numbers(under_way):
            row, step = self.began[kind][one] if 0 <= one < len(self.began[kind]) else ("?", 0)
            found.append((f"{kind} {one}", kind, "under way", f"row {row}, since step {step}"))
        return found


def by_row(looks: Looks, method: str) -> list[tuple[str, list[int]]]:
    """What a look showed of each row."""
    found = []
    for key, value in looks.items():
        try:
            name, args = look_of(key)
        except FormError:
            continue
        if name == method:
            found.append((told(part(args, 0)), numbers(value)))
    return found
