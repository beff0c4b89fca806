"""What is shown while a run goes on: one moving line on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TextIO

from kvlitmus.conformance.report.style import Style
from kvlitmus.conformance.run.results import ItemResult
from kvlitmus.conformance.support.brief import brief
from kvlitmus.conformance.support.text import harmless

MOVING = 0.1
"""Seconds between two drawings of the moving line."""

STILL = 5.0
"""Seconds between two lines where nothing can move."""


def short(call: str) -> str:
    """A call without its answer, cut to a bearable length."""
    text = brief(call.partition(" → ")[0])
    return text if len(text) <= 48 else text[:47] + "…"


EARLY = 3.0
"""Before so many seconds have passed, nobody can say how long it will take."""

LITMUS = 12
"""How many operations of a schedule a litmus test costs, about."""


def left(spent: float, done: float, total: float) -> str:
    """How long it will take, by what was done so far; empty where that is a guess."""
    if spent < EARLY or done * 20 < total or done >= total:
        return ""
    seconds = spent / done * (total - done)
    return f"about {seconds / 60:.0f} min left" if seconds > 90 else f"about {max(1.0, seconds):.0f} s left"


class Progress:
    """Shows how far a run has come.  ``work``: how much each item costs, by its id, about."""

    def __init__(
        self,
        stream: TextIO,
        style: Style,
        items: int,
        clock: Callable[[], float] = time.monotonic,
        work: Mapping[str, int] | None = None,
    ) -> None:
        self.work = work or {}
        self.total, self.worked = sum(self.work.values()), 0
        self.stream = stream
        self.style = style
        self.items = items
        self.clock = clock
        self.started = self.shown = clock()
        self.done = self.steps = 0
        self.drawn = False
        self.name, self.began = "", 0.0
        self.parts, self.most = 0, 0.0
        self.seen: set[str] = set()

    def add(self, result: ItemResult) -> None:
        """One more item is done; rules that it is the first to break are named at once."""
        self.done += 1
        self.worked += self.work.get(result.item, 0)
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

    def part(self, result: ItemResult) -> ItemResult:
        """One more of such is done."""
        self.parts += 1
        self.tick()
        return result

    def add_sum(self, items: int, steps: int) -> None:
        """So many more items are done, of which nothing is to be told."""
        self.done += items
        self.steps += steps
        self.worked = self.total * self.done // max(1, self.items)
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

    def stage(self, name: str, most: float) -> None:
        """From now on it is something else that takes time, and no more than so many seconds."""
        self.name, self.most = name, most
        self.began = self.clock()
        self.shown = 0.0 if self.style.live else self.began
        self.tick()

    def text(self, now: float) -> str:
        """Where things stand."""
        if self.name:
            return (
                f"  {self.name} counterexamples: {self.parts} done, {now - self.began:.0f} s (at most {self.most:.0f})"
            )
        spent = max(now - self.started, 1e-9)
        parts = [
            f"{self.done}/{self.items} items",
            left(spent, self.worked, self.total),
            f"{self.steps:,} steps",
            f"{self.steps / spent:,.0f} steps/s",
            f"{spent:.1f} s",
        ]
        return "  " + "  ".join(filter(None, parts))

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
