"""Budgets: how long a campaign may take, in seconds or in steps."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from time import monotonic

LONGEST = 7 * 24 * 3600
"""The longest campaign, in seconds."""

SEEDS = 1 << 31
"""Seeds are below this."""


@dataclass(slots=True, kw_only=True)
class Budget:
    """Seconds and steps that may be spent; ``None`` for no bound on one of them.  The seconds count from the start."""

    seconds: float | None = None
    steps: int | None = None
    clock: Callable[[], float] = monotonic
    spent: int = 0
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """The seconds count from now."""
        self.began = self.clock()

    def less(self, spent: Mapping[str, float]) -> Budget:
        """What is left of it after so many ``seconds`` and ``steps``: a second and a step at least."""
        seconds = None if self.seconds is None else max(1.0, self.seconds - spent["seconds"])
        steps = None if self.steps is None else max(1, self.steps - int(spent["steps"]))
        return replace(self, seconds=seconds, steps=steps)

    @property
    def elapsed(self) -> float:
        """Seconds since it began."""
        return self.clock() - self.began

    @property
    def over(self) -> bool:
        """Whether nothing is left."""
        out_of_steps = self.steps is not None and self.spent >= self.steps
        return out_of_steps or (self.seconds is not None and self.elapsed >= self.seconds)


def duration(text: str) -> float:
    """A type for argparse: seconds, or such as ``90s``, ``15m``, ``1h30m``."""
    parts = re.fullmatch(r"(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,9})s?)?", text.strip().lower(), re.ASCII)
    if parts is None or not any(parts.groups()):
        raise argparse.ArgumentTypeError(f"{text!r} is no duration such as 90s, 15m or 1h")
    seconds = sum(int(part or 0) * unit for part, unit in zip(parts.groups(), (3600, 60, 1), strict=True))
    if not 1 <= seconds <= LONGEST:
        raise argparse.ArgumentTypeError(f"{text!r} is not between 1s and {LONGEST // 3600}h")
    return float(seconds)
