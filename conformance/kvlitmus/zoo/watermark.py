"""A desk that keeps a reserve: nobody new is let in who would leave too little for those who are here.

Whoever is here may use all of it, so that a request that grows is stopped less often in its middle.  What could be
cleared away counts as part of the reserve, and is left where it is.
"""

from __future__ import annotations

from dataclasses import replace

from kvlitmus.conformance.ports import Config
from kvlitmus.zoo.desk import Desk, DeskTarget

RESERVE = 2
"""So many pages."""


class Watermark(Desk):
    """A desk with a reserve."""

    def admit(self, count: int) -> list[int] | None:
        """Pages, if the reserve is left: what is empty, and what nobody stands on."""
        idle = sum(1 for standing in self.standing.values() if not standing)
        return self.room(count) if len(self.empty) + idle - count >= RESERVE else None


class WatermarkTarget(DeskTarget):
    """Makes them, by use."""

    profile = replace(DeskTarget.profile, watermark=RESERVE)
    configs = (Config(page_size=1, pages=8), Config(page_size=4, pages=8), Config(page_size=4, pages=16))

    def make(self, config: Config) -> Watermark:
        """A fresh one."""
        super().make(config)
        return Watermark(config)


target = WatermarkTarget()
