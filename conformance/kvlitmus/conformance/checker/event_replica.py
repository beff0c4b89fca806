"""The suite's books about events: what somebody knows who replays them all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvlitmus.conformance.ports.tiers import Event
from kvlitmus.conformance.support.text import shown
from kvlitmus.spec.units import Name

if TYPE_CHECKING:
    from kvlitmus.conformance.checker.checker import Checker


class EventReplica:
    """A consumer of events."""

    def __init__(self, checker: Checker) -> None:
        self.checker = checker
        self.forget()

    def forget(self) -> None:
        """Nothing was told yet."""
        self.told: dict[str, set[Name]] = {"device": set(), "host": set()}
        self.pages: dict[object, Name] = {}

    def facts(self, facts: dict[str, Any]) -> None:
        """Replay what is new."""
        odd: list[str] = []
        for row in self.checker.look("events"):
            self.replay(Event(*row), odd)
        facts["odd_events"] = odd
        facts["told_device"], facts["told_host"] = map(frozenset, self.told.values())

    def replay(self, event: Event, odd: list[str]) -> None:
        """One event; what makes no sense is put down as odd."""
        if event.what == "cleared":
            self.forget()
            return
        if event.what not in ("stored", "removed") or event.tier not in self.told:
            odd.append(f"no such event: {shown(event)}")
            return
        told = self.told[event.tier]
        if event.what == "removed":
            name = self.pages.get(event.page)
            if name is None or name not in told:
                odd.append(f"removed from the {event.tier} without being there: {shown(event.page)}")
            else:
                told.discard(name)
            return
        names = self.checker.names
        start = names.root(event.namespace) if event.parent is None else self.pages.get(event.parent)
        if start is None:
            odd.append(f"stored below a page that was never told: {shown(event)}")
            return
        units = tuple(event.units)
        if len(units) != self.checker.size:
            odd.append(f"a page of {len(units)} units: {shown(event)}")
            return
        name = names.extend(start, units)[-1]
        self.pages[event.page] = name
        told.add(name)
