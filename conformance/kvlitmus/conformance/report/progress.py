"""What is shown while a run goes on: one moving line on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

from kvlitmus.conformance.report.style import Style
from kvlitmus.conformance.results import ItemResult

MOVING = 0.1
"""Seconds between two drawings of the moving line."""

STILL = 5.0
"""Seconds between two lines where nothing can move."""


class Progress:
    """Shows how far a run has come."""

    def __init__(self, stream: TextIO, style: Style, items: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.stream = stream
        self.style = style
        self.items = items
        self.clock = clock
        self.started = self.shown = clock()
        self.done = self.steps = 0
        self.drawn = False
        self.seen: set[str] = set()

    def add(self, result: ItemResult) -> None:
        """One more item is done; rules that it is the first to break are named at once."""
        self.done += 1
        self.steps += result.steps
        for finding in result.findings:
            for rule in finding.rules:
                if rule not in self.seen:
                    self.seen.add(rule)
                    mark = self.style.paint(self.style.symbol("bad"), "red")
                    self.say(f"  {mark} {rule} broken by {finding.call.partition(' → ')[0]:.60}  in {result.item}")
        if result.error and "error" not in self.seen:
            self.seen.add("error")
            self.say(f"  {self.style.paint(self.style.symbol('warn'), 'yellow')} {result.item}: {result.error}")
        self.tick()

    def tick(self) -> None:
        """Show where things stand, if it is time again."""
        now = self.clock()
        if now - self.shown < (MOVING if self.style.live else STILL):
            return
        self.shown = now
        spent = max(now - self.started, 1e-9)
        text = (
            f"  {self.done}/{self.items} items  {self.steps:,} steps  {self.steps / spent:,.0f} steps/s  {spent:.1f} s"
        )
        if self.style.live:
            self.stream.write("\r\x1b[K" + self.style.paint(text[: self.style.width - 1], "dim"))
            self.drawn = True
        else:
            self.stream.write(text + "\n")
        self.stream.flush()

    def say(self, line: str) -> None:
        """A line that stays."""
        self.clear()
        self.stream.write(line + "\n")
        self.stream.flush()

    def clear(self) -> None:
        """Take the moving line away."""
        if self.drawn:
            self.stream.write("\r\x1b[K")
            self.drawn = False
