"""Horizontal bars in SVG, without any library."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

BLUE, ORANGE, GREY, GREEN, RED = "#2b6cb0", "#dd6b20", "#a0aec0", "#38a169", "#b4413c"
WIDTH, LEFT, ROOM, LINE = 1060, 330, 540, 18
"""Of the whole, of the labels, of the longest bar, of a row; in the units of the picture."""


class Bar(NamedTuple):
    """One bar; ``goal`` is a mark across it, ``said`` is written behind it, by default its length."""

    label: str
    value: float
    colour: str
    goal: float | None = None
    said: str = ""


@dataclass(frozen=True)
class Panel:
    """Bars below each other.  least: how long the scale is at least.  log: whether a decade is always as long."""

    heading: str
    bars: Sequence[Bar]
    least: float = 0.0
    log: bool = False

    def drawn(self) -> tuple[str, int]:
        """The panel, and how high it is."""
        ends = [end for bar in self.bars for end in (bar.value, bar.goal) if end is not None and end > 0]
        longest, shortest = max([self.least, *ends], default=0.0) or 1.0, min(ends, default=1.0) / 2
        marks = [_text(16, 20, self.heading, 13)]

        def length(value: float) -> float:
            if self.log:
                return ROOM * max(0.0, math.log(max(value, shortest) / shortest) / math.log(longest / shortest))
            return ROOM * max(0.0, value) / longest

        for at, bar in enumerate(self.bars):
            y, x = 32 + LINE * at, length(bar.value)
            marks.append(_text(LEFT - 8, y + 12, bar.label, 11, "end"))
            marks.append(f'<rect x="{LEFT}" y="{y + 2}" width="{x:.1f}" height="{LINE - 5}" fill="{bar.colour}"/>')
            if bar.goal is not None:
                mark = length(bar.goal)
                marks.append(f'<rect x="{LEFT + mark:.1f}" y="{y}" width="2" height="{LINE - 1}" fill="black"/>')
                x = max(x, mark)
            marks.append(_text(LEFT + x + 6, y + 12, bar.said or f"{bar.value:.3g}", 11))
        return "".join(marks), 40 + LINE * len(self.bars)


def svg(title: str, panels: Sequence[Panel]) -> str:
    """The whole picture."""
    body, y = [_text(16, 26, title, 16)], 40
    for panel in panels:
        drawn, height = panel.drawn()
        body.append(f'<g transform="translate(0,{y})">{drawn}</g>')
        y += height + 16
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" font-family="sans-serif">'
        f'<rect width="{WIDTH}" height="{y}" fill="white"/>{"".join(body)}</svg>\n'
    )


def _text(x: float, y: float, words: str, size: int = 11, anchor: str = "start") -> str:
    safe = words.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" text-anchor="{anchor}">{safe}</text>'
