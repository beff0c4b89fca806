"""What is kept is worth its bytes: on both tiers the page goes first that saves least, by use, length and age (GDSF).

A page that was used often saves much each time, and what stands far behind in a prompt costs more to compute again,
since it attends to all before it.  What leaves raises the floor from which later pages count, so that what was used
often once doesn't stay for ever.  Each tier has a floor of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kvlitmus.conformance.ports import Config
from kvlitmus.spec.words.units import Key
from kvlitmus.zoo.eager_host import EagerHost, EagerHostTarget, PageObject

COST = 10
"""A page costs so much to compute, and one more for each page before it."""


class CostHost(EagerHost):
    """An eager host with a floor for each tier."""

    def reset(self) -> None:
        """No page was used."""
        super().reset()
        self.floor = {"device": 0, "host": 0}
        self.credit: dict[int, tuple[int, int, int]] = {}

    def path(self, key: Key) -> list[PageObject]:
        """A use counts from the floors of now."""
        found = super().path(key)
        for page in found:
            uses, _, _ = self.credit.get(id(page), (0, 0, 0))
            self.credit[id(page)] = uses + 1, self.floor["device"], self.floor["host"]
        return found

    def worth(self, page: PageObject) -> int:
        """What it saves, above the floor of the tier that it would leave."""
        uses, device, host = self.credit.get(id(page), (0, 0, 0))
        depth, above = 0, page.above
        while above is not None:
            depth, above = depth + 1, above.above
        return (host if page.device is None else device) + uses * (COST + depth)

    def victim(self, ends: Sequence[PageObject]) -> PageObject:
        """The one that is worth least; among equals the one that was used least recently."""
        page = min(ends, key=lambda one: (self.worth(one), one.used))
        self.floor["host" if page.device is None else "device"] = self.worth(page)
        return page

    def forget(self, page: PageObject) -> None:
        """Its uses go with it."""
        super().forget(page)
        self.credit.pop(id(page), None)


class CostHostTarget(EagerHostTarget):
    """Makes them, with a host, without storage."""

    profile = replace(EagerHostTarget.profile, evict_order="own")

    def make(self, config: Config) -> CostHost:
        """A fresh one."""
        super().make(config)
        return CostHost(config)


target = CostHostTarget()
