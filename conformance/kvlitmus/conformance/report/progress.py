"""What is shown while a run goes on: one moving line on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

from kvlitmus.conformance.report.brief import brief
from kvlitmus.conformance.report.style import Style
from kvlitmus.conformance.results import ItemResult
from kvlitmus.conformance.text import harmless

MOVING = 0.1
"""Seconds between two drawings of the moving line."""

STILL = 5.0
"""Seconds between two lines where nothing can move."""


def short(call: str) -> str:
    """A call without its answer, cut to a bearable length."""
    text = brief(call.partition(" → ")[0])
    return text if len(text) <= 48 else text[:47] + "…"


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
        self.name, self.began = "", 0.0
        self.seen: set[str] = set()

    def add(self, result: ItemResult) -> None:
        """One more item is done; rules that it is the first to break are named at once."""
        self.done += 1
        self.steps += result.steps
        for finding in result.findings[:1]:
            for rule in finding.rules:
                if rule not in self.seen:
                    self.seen.add(rule)
                    mark = self.style.paint(self.style.symbol("bad"), "red")
                    self.say(f"  {mark} {rule} broken by {short(finding.call)} in {result.item}")
        if result.error and "error" not in self.seen:
            self.seen.add("error")
            self.say(
                f"  {self.style.paint(self.style.symbol('warn'), 'yellow')} {result.item}: {harmless(result.error)}"
            )
        self.tick()

    def tick(self) -> None:
        """Show where things stand, if it is time again."""
        now = self.clock()
        if now - self.shown < (MOVING if self.style.live else STILL):
            return
        self.shown = now
        text = self.text(now)
        if self.style.live:
            self.stream.write("\r\x1b[K" + self.style.paint(text[: self.style.width - 1], "dim"))
            self.drawn = True
        else:
            self.stream.write(text + "\n")
        self.stream.flush()

    def stage(self, name: str) -> None:
        """From now on it is something else that takes time."""
        self.name = name
        self.began = self.clock()
        self.shown = 0.0 if self.style.live else self.began
        self.tick()

    def text(self, now: float) -> str:
        """Where things stand."""
        if self.name:
            return f"  {self.name} counterexamples  {now - self.began:.1f} s"
        spent = max(now - self.started, 1e-9)
        return (
            f"  {self.done}/{self.items} items  {self.steps:,} steps  {self.steps / spent:,.0f} steps/s  {spent:.1f} s"
        )

    def say(self, line: str) -> None:
        """A line that stays."""
        self.clear()
        self.stream.write(self.style.cut(line) + "\n")
        self.stream.flush()

    def clear(self) -> None:
        """Take the moving line away."""
        if self.drawn:
            self.stream.write("\r\x1b[K")
            self.drawn = False
