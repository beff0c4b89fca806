"""The plot of a run: horizontal bars in SVG, without any library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from benchmarks.gpu.report import chunk_name
from benchmarks.gpu.stage import Record

BLUE, ORANGE, GREY, GREEN = "#2b6cb0", "#dd6b20", "#a0aec0", "#38a169"
WIDTH, LEFT, ROOM, LINE = 1060, 330, 540, 18
"""Of the whole, of the labels, of the longest bar, of a row; in the units of the picture."""


class Bar(NamedTuple):
    """One bar; ``goal`` is a mark across it, ``said`` is written behind it, by default its length."""

    label: str
    value: float
    colour: str
    goal: float | None = None
    said: str = ""


def plot(record: Record) -> str:
    """Shares of the ceilings beside their goals, the other ways, and bandwidth by number of blocks."""
    title = f"kvlitmus on {record.head.get('device', '?')}, {record.head.get('date', '?')}"
    if record.head.get("dry"):
        title += " (dry run: these figures mean nothing)"
    panels = [
        ("share of the ceiling, %; the mark is the goal", _shares(record), 100.0),
        ("GB/s of chunks moved by kvlitmus (green) and by other ways", _ways(record), 0.0),
        ("GB/s by the number of the kernel's blocks, and what it costs a matrix product", _blocks(record), 0.0),
    ]
    body, y = [_text(16, 26, title, 16)], 40
    for heading, bars, top in panels:
        drawn, height = _panel(heading, bars, top)
        body.append(f'<g transform="translate(0,{y})">{drawn}</g>')
        y += height + 16
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" font-family="sans-serif">'
        f'<rect width="{WIDTH}" height="{y}" fill="white"/>{"".join(body)}</svg>\n'
    )


def _panel(heading: str, bars: Sequence[Bar], least: float) -> tuple[str, int]:
    """The bars below each other, and how high they are together."""
    longest = max([least, *(bar.value for bar in bars), *(bar.goal or 0.0 for bar in bars)]) or 1.0
    marks = [_text(16, 20, heading, 13)]
    for at, bar in enumerate(bars):
        y = 32 + LINE * at
        length = ROOM * max(0.0, bar.value) / longest
        marks.append(_text(LEFT - 8, y + 12, bar.label, 11, "end"))
        marks.append(f'<rect x="{LEFT}" y="{y + 2}" width="{length:.1f}" height="{LINE - 5}" fill="{bar.colour}"/>')
        if bar.goal is not None:
            x = LEFT + ROOM * bar.goal / longest
            marks.append(f'<rect x="{x:.1f}" y="{y}" width="2" height="{LINE - 1}" fill="black"/>')
        behind = LEFT + max(length, ROOM * (bar.goal or 0.0) / longest) + 6
        marks.append(_text(behind, y + 12, bar.said or f"{bar.value:.3g}", 11))
    return "".join(marks), 40 + LINE * len(bars)


def _text(x: float, y: float, words: str, size: int = 11, anchor: str = "start") -> str:
    safe = words.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" text-anchor="{anchor}">{safe}</text>'


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
