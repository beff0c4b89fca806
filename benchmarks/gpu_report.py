"""What a run is told as: a table to read, and a plot (SVG, without any library)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.gpu_stage import Record

KIB = 1024


def chunk_name(chunk: int) -> str:
    """A chunk size as one says it."""
    if chunk >= 1 << 20:
        return f"{chunk / (1 << 20):g} MiB"
    return f"{chunk / KIB:g} KiB" if chunk >= KIB else f"{chunk} B"


def report(record: Record) -> str:
    """Checks, ceilings, rows and goals, as text."""
    head = record.head
    lines = [f"kvlitmus on {head.get('device', '?')}, {head.get('date', '?')}, {_versions(head)}", ""]
    if head.get("dry"):
        lines += ["DRY RUN on CPU tensors of tiny sizes: no figure below means anything", ""]
    lines += (
        _checks(record) + _ceilings(record) + _transfers(record) + _baselines(record) + _choice(record) + _quota(record)
    )
    lines += _rest(record)
    lines += ["", f"{'goal':66} {'measured':>10}  {'wanted':>9}"]
    lines += [
        f"{'met' if goal.met else 'MISSED':7}{goal.row:59} {goal.measured:10.3f}  {goal.wanted:>9} {goal.unit}"
        for goal in record.goals
    ]
    lines += [
        "",
        "stages: " + ", ".join(f"{one['stage']} {one['outcome']} {one['seconds']:.0f} s" for one in record.stages),
    ]
    return "\n".join(lines)


def _versions(head: dict[str, Any]) -> str:
    versions = head.get("versions", {})
    return f"torch {versions.get('torch', '?')}, triton {versions.get('triton', '?')}, Python {head.get('python', '?')}"


def _checks(record: Record) -> list[str]:
    lines = ["correctness                                                     cases   wrong"]
    for one in record.checks:
        lines.append(f"  {one['check']:58} {one['cases']:8,} {one['wrong_cases']:7,}  {one['note']}")
        lines += [f"      WRONG {case}" for case in one["wrong"][:5]]
    return [*lines, ""]


def _ceilings(record: Record) -> list[str]:
    lines = ["ceiling (GB/s of payload)     median    best   worst"]
    lines += [
        f"  {row['name'] + ' ' + row['moment']:26} {row['gb_s']:8.2f} {row['best_gb_s']:7.2f} {row['worst_gb_s']:7.2f}"
        for row in record.of("ceilings")
    ]
    return [*lines, ""]


def _transfers(record: Record) -> list[str]:
    lines = ["transfer, random pages                  way        GB/s   share of ceiling   GB moved"]
    for row in [*record.of("transfers"), *record.of("on device"), *record.of("both ways")]:
        if "gb_s" not in row:
            lines.append(f"  {row['name']:38} {row.get('note', '')}")
            continue
        lines.append(
            f"  {row['name']:38} {row.get('way', ''):8} {row['gb_s']:8.2f} {row['share']:12.1%}"
            f"{row['bytes'] / 1e9:16.3f}"
        )
    return [*lines, ""]


def _baselines(record: Record) -> list[str]:
    lines = ["the same chunks, moved otherwise            GB/s"]
    for row in record.of("baselines"):
        name = f"{row['direction']} {chunk_name(row['chunk'])}, {row['way']}"
        lines.append(f"  {name:38} {row['gb_s']:9.2f}" if "gb_s" in row else f"  {name:38} {row['note']}")
    return [*lines, ""]


def _choice(record: Record) -> list[str]:
    lines = ["kernel and copy engine by chunk size       way          GB/s"]
    for row in record.of("choice"):
        said = f"{row['way']:8} {row['gb_s']:10.2f}" if "gb_s" in row else row["note"]
        lines.append(f"  {row['name']:40} {said}{'' if row.get('exact', True) else '  NOT EXACT'}")
    return [*lines, f"  the copy engine is never slower from these bytes on: {record.head.get('choice', {})}", ""]


def _quota(record: Record) -> list[str]:
    lines = ["blocks of the kernel                        GB/s   matmul slowed by"]
    for row in record.of("quota"):
        slowed = f"{row['slowed']:8.1%}" if row.get("slowed") is not None else "       -"
        lines.append(f"  {row['name']:38} {row['gb_s']:9.2f} {slowed}")
    return [*lines, ""]


def _rest(record: Record) -> list[str]:
    lines = ["submission, layers, interference"]
    for row in [*record.of("submission"), *record.of("layers"), *record.of("interference")]:
        facts = ", ".join(
            f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
            for key, value in row.items()
            if key not in ("table", "name", "seconds")
        )
        lines.append(f"  {row['name']}: {facts}")
    return lines


COLOURS = ("#2b6cb0", "#dd6b20", "#718096", "#38a169", "#805ad5", "#d53f8c")


def plot(record: Record) -> str:
    """Three panels: shares of the ceiling beside their goals, the other ways, and bandwidth by number of blocks."""
    panels = [_shares(record), _ways(record), _curve(record)]
    width = 980
    height = 30 + 330 * len(panels)
    title = f"kvlitmus on {record.head.get('device', '?')}, {record.head.get('date', '?')}"
    if record.head.get("dry"):
        title += " (dry run: these figures mean nothing)"
    body = [_text(20, 22, title, 15)]
    for at, panel in enumerate(panels):
        body.append(f'<g transform="translate(0,{40 + 330 * at})">{panel}</g>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">'
        f'<rect width="{width}" height="{height}" fill="white"/>{"".join(body)}</svg>\n'
    )


def _text(x: float, y: float, words: str, size: int = 11, anchor: str = "start") -> str:
    safe = words.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" text-anchor="{anchor}">{safe}</text>'


def _axis(title: str, top: float, unit: str) -> list[str]:
    marks = [_text(60, 12, title, 13)]
    for step in range(5):
        y = 270 - 240 * step / 4
        marks.append(f'<line x1="60" x2="960" y1="{y:.0f}" y2="{y:.0f}" stroke="#e2e8f0"/>')
        marks.append(_text(54, y + 4, f"{top * step / 4:g}{unit}", 10, "end"))
    return marks


def _bars(bars: Sequence[tuple[str, float, int, float | None]], top: float) -> list[str]:
    """Bars of (label, height, colour, goal); a goal is a line across its bar."""
    marks = []
    room = 900 / max(1, len(bars))
    for at, (label, value, colour, goal) in enumerate(bars):
        x = 60 + room * at
        tall = 240 * min(value, top) / top
        marks.append(
            f'<rect x="{x + room * 0.1:.1f}" y="{270 - tall:.1f}" width="{room * 0.8:.1f}" height="{tall:.1f}" '
            f'fill="{COLOURS[colour % len(COLOURS)]}"/>'
        )
        marks.append(_text(x + room / 2, 264 - tall, f"{value:.3g}", 10, "middle"))
        if goal is not None:
            y = 270 - 240 * min(goal, top) / top
            marks.append(f'<line x1="{x:.1f}" x2="{x + room:.1f}" y1="{y:.1f}" y2="{y:.1f}" stroke="black"/>')
        for line, words in enumerate(label.split("|")):
            marks.append(_text(x + room / 2, 284 + 12 * line, words, 9, "middle"))
    return marks


def _shares(record: Record) -> str:
    rows = [row for row in [*record.of("transfers"), *record.of("on device")] if row.get("judged")]
    bars = [
        (
            f"{row['label']}|{row['way']}",
            100 * row["share"],
            0 if row.get("direction") == "h2d" else 1,
            100 * row["goal"],
        )
        for row in rows
    ]
    return "".join([*_axis("share of the ceiling, %, and the goal (line)", 120, "%"), *_bars(bars, 120)])


def _ways(record: Record) -> str:
    rows = [row for row in record.of("baselines") if "gb_s" in row]
    ours = [row for row in record.of("transfers") if row.get("judged") and row.get("chunk")]
    bars: list[tuple[str, float, int, float | None]] = []
    for row in sorted([*rows, *ours], key=lambda row: (row["direction"], -row["chunk"], -row["gb_s"])):
        mine = row["table"] == "transfers"
        label = f"{row['direction']}|{chunk_name(row['chunk'])}|{'kvlitmus' if mine else row['way']}"
        bars.append((label, row["gb_s"], 3 if mine else 2, None))
    top = 1.15 * max((bar[1] for bar in bars), default=1.0)
    return "".join([*_axis("GB/s of chunks moved by other ways, and by kvlitmus (green)", top, ""), *_bars(bars, top)])


def _curve(record: Record) -> str:
    rows = record.of("quota")
    top = 1.15 * max((row["gb_s"] for row in rows), default=1.0)
    bars: list[tuple[str, float, int, float | None]] = [
        (
            f"{row['direction']}|{chunk_name(row['chunk'])}|{row['blocks']} blocks"
            + (f"|matmul +{row['slowed']:.1%}" if row.get("slowed") is not None else ""),
            row["gb_s"],
            0 if row["direction"] == "h2d" else 1,
            None,
        )
        for row in rows
    ]
    return "".join([*_axis("GB/s by the kernel's number of blocks", top, ""), *_bars(bars, top)])
