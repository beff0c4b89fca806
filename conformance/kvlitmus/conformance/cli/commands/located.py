"""What is shown of a file that is judged line by line: how far it is, and what was found where."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Protocol, TextIO

from kvlitmus.conformance.history.state import Located
from kvlitmus.conformance.report import document, terminal
from kvlitmus.conformance.report.style import Style
from kvlitmus.conformance.run.cause import cause_of
from kvlitmus.conformance.support.brief import brief

STEP = 256
"""Maximum number of lines that are judged between two looks at the clock."""


Steps = tuple[str, str]
"""What is judged one after the other: the word for one, and for several."""

CALLS = ("call", "calls")

BATCHES = ("batch", "batches")


class Measured(Protocol):
    """A file that is being read: how many bytes of it were, and how many it has (0 where nobody knows)."""

    size: int

    @property
    def done(self) -> int:
        """How many bytes were read."""


class Progress:
    """How far a long file is judged, on stderr: a moving line on a terminal, a line now and then elsewhere."""

    def __init__(self, stream: TextIO, reader: Measured, units: str) -> None:
        self.stream = stream
        self.reader = reader
        self.units = units
        self.live = stream.isatty()
        self.began = self.shown = time.monotonic()

    def show(self, line: int) -> None:
        """So many lines, or batches, are judged."""
        moment = time.monotonic()
        if moment - self.shown < (0.2 if self.live else 5.0):
            return
        self.shown = moment
        part = f" ({self.reader.done / self.reader.size:.0%})" if self.reader.size else ""
        text = f"{line:,} {self.units}{part}, {line / (moment - self.began):,.0f} {self.units}/s"
        print(f"\r\x1b[K{text}" if self.live else text, end="" if self.live else "\n", file=self.stream, flush=True)

    def clear(self) -> None:
        """Nothing more to show."""
        if self.live:
            print("\r\x1b[K", end="", file=self.stream, flush=True)

    def follow(self, counts: Iterable[int]) -> None:
        """Show how far it is while ``counts`` says how many are judged, and clear that in the end."""
        try:
            for count in counts:
                if count % STEP == 0:
                    self.show(count)
        finally:
            self.clear()


def explained(
    run: document.Run, one: Located, style: Style, *, leads: bool, unit: str = "line", steps: Steps = CALLS
) -> Iterator[str]:
    """A finding: the rules, what was allowed and seen, and the calls up to it with their lines (or other units)."""
    finding = one.finding
    yield terminal.caused(cause_of(finding), style)
    for id in finding.rules:
        yield from terminal.stated(run.rules[id], style, "red" if run.rules[id].strength.value == "MUST" else "yellow")
    yield ""
    yield from terminal.explained(finding, finding.rules, run.rules, style)
    yield ""
    yield from window(one.lines, finding.calls, one.before, style, unit, steps)
    yield ""
    yield from terminal.labelled(
        "found in", f"{run.target}:{one.line}" if unit == "line" else f"{run.target}, {unit} {one.line}", style
    )
    if not leads:
        text = "only seen after other broken rules had been muted; it may follow from them"
        yield from terminal.labelled("note", text, style)


def window(
    lines: list[int], calls: list[str], before: int, style: Style, unit: str = "line", steps: Steps = CALLS
) -> Iterator[str]:
    """The last calls, each with its line; the last one is the one that matters."""
    if before > 0:
        yield style.paint(f"  {style.symbol('ellipsis')} {before:,} {steps[before != 1]} before", "dim")
    digits = len(str(max(lines, default=0)))
    for at, (line, call) in enumerate(zip(lines, calls, strict=True), 1):
        here = at == len(calls)
        head = f"  {style.symbol('here') if here else ' '} {unit} {line:>{digits}}: "
        rows = style.wrap(brief(call), " " * (len(head) + 2), head)
        yield from (style.paint(row, "bold") if here else row for row in rows)
