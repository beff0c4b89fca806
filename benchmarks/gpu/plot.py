"""The picture of a run: shares of the ceilings beside their goals, other ways, bandwidth by number of blocks."""

from __future__ import annotations

from typing import Any

from benchmarks.bars import BLUE, GREEN, GREY, ORANGE, Bar, Panel, svg
from benchmarks.gpu.report import chunk_name
from benchmarks.gpu.stage import Record


def plot(record: Record) -> str:
    """The picture, as SVG."""
    title = f"kvlitmus on {record.head.get('device', '?')}, {record.head.get('date', '?')}"
    if record.head.get("dry"):
        title += " (dry run: these figures mean nothing)"
    panels = [
        Panel("share of the ceiling, %; the mark is the goal", _shares(record), 100.0),
        Panel("GB/s of chunks moved by kvlitmus (green) and by other ways", _ways(record)),
        Panel("GB/s by the number of the kernel's blocks, and what it costs a matrix product", _blocks(record)),
    ]
    return svg(title, panels)


def _colour(row: dict[str, Any]) -> str:
    return {"h2d": BLUE, "d2h": ORANGE}.get(row.get("direction", ""), GREEN)


def _shares(record: Record) -> list[Bar]:
    every = [*record.of("transfers"), *record.of("on device")]
    rows = [row for row in every if row.get("judged") and row.get("share") is not None]
    return [
        Bar(
            f"{row['label']}, {row['way']}",
            100 * row["share"],
            _colour(row),
            100 * row["goal"],
            f"{row['share']:.1%} ({row['gb_s']:.4g} GB/s)",
        )
        for row in rows
    ]


def _ways(record: Record) -> list[Bar]:
    others = [row for row in record.of("baselines") if "gb_s" in row]
    ours = [row for row in record.of("transfers") if row.get("used") and row.get("chunk") and "gb_s" in row]
    rows = sorted([*others, *ours], key=lambda row: (row["direction"] != "h2d", -row["chunk"], -row["gb_s"]))
    return [
        Bar(
            f"{row['direction']} {chunk_name(row['chunk'])}, "
            + (f"kvlitmus ({row['way']})" if row["table"] == "transfers" else row["way"]),
            row["gb_s"],
            GREEN if row["table"] == "transfers" else GREY,
        )
        for row in rows
    ]


def _blocks(record: Record) -> list[Bar]:
    return [
        Bar(
            row["name"],
            row["gb_s"],
            _colour(row),
            None,
            f"{row['gb_s']:.3g}" + (f", product {row['slowed']:+.1%}" if row.get("slowed") is not None else ""),
        )
        for row in record.of("quota")
        if "gb_s" in row
    ]
