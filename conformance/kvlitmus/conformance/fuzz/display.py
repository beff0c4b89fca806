"""What is shown while a campaign goes on: one moving line on a terminal, findings and messages anywhere."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import TextIO

from kvlitmus.conformance.fuzz.campaign import Campaign
from kvlitmus.conformance.fuzz.dedupe import Distinct
from kvlitmus.conformance.report.progress import MOVING, left, short
from kvlitmus.conformance.report.style import Style
from kvlitmus.conformance.support.text import harmless


class Display:
    """Shows a campaign on a stream.  quiet: findings and messages are not shown either."""

    def __init__(
        self,
        stream: TextIO,
        style: Style,
        *,
        quiet: bool = False,
        about: str = "",
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.stream = stream
        self.style = style
        self.quiet = quiet
        self.about = about
        self.clock = clock
        self.shown = 0.0
        self.drawn = False

    def say(self, text: str) -> None:
        """A message that stays."""
        if not self.quiet:
            self.clear()
            self.stream.write(self.style.cut(f"  {self.about}{harmless(text, 500)}") + "\n")
            self.stream.flush()

    def found(self, distinct: Distinct) -> None:
        """A distinct finding that was not known."""
        finding = distinct.finding
        mark = self.style.paint(self.style.symbol("bad"), "red")
        rules = "+".join(finding.rules)
        many = len(finding.calls)
        if not self.quiet:
            self.clear()
            line = f"  {mark} {self.about}{rules} broken by {short(finding.call)} in {many} call{'s' * (many != 1)}"
            self.stream.write(self.style.cut(f"{line}: {distinct.path.name}") + "\n")
            self.stream.flush()

    def tick(self, campaign: Campaign) -> None:
        """Draw the moving line, if there is one and it is time again."""
        now = self.clock()
        if self.quiet or not self.style.live or now - self.shown < MOVING:
            return
        self.shown = now
        text = f"  {self.about}{standing(campaign)}"
        self.stream.write("\r\x1b[K" + self.style.paint(text[: self.style.width - 1], "dim"))
        self.stream.flush()
        self.drawn = True

    def clear(self) -> None:
        """Take the moving line away."""
        if self.drawn:
            self.stream.write("\r\x1b[K")
            self.stream.flush()
            self.drawn = False


class Quietly(Display):
    """Shows a canary's campaign: that it was found is no alarm, and the summary says it."""

    def found(self, distinct: Distinct) -> None:
        """The canary was found."""


def standing(campaign: Campaign) -> str:
    """Where a campaign stands, in one line."""
    tally, spent = campaign.tally, campaign.elapsed
    made = tally.steps + tally.replayed
    found = [one for one in campaign.known.distinct.values() if not one.gone]
    new = sum(one.new for one in found)
    budget = campaign.budget
    parts = [
        clock_text(spent) + ("" if budget.seconds is None else f" of {clock_text(budget.seconds)}"),
        *([] if budget.steps is None else filter(None, [left(spent, budget.spent, budget.steps)])),
        f"{made:,} steps",
        f"{made / max(spent, 1e-9):,.0f}/s",
        f"corpus {len(campaign.corpus.entries):,}",
        f"features {len(campaign.corpus.hits):,}",
        f"findings {len(found)}" + (f" ({new} new)" if new else ""),
    ]
    if campaign.shrinks or campaign.open:
        parts.append(f"shrinking {len(campaign.open)}")
    return "  ".join(parts)


def clock_text(seconds: float) -> str:
    """Seconds as ``m:ss`` or ``h:mm:ss``."""
    whole = int(seconds)
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"
