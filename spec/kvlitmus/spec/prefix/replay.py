"""The replica: what somebody knows who replays the events of a cache from the beginning.

A router is told of pages by ids that the cache chooses.  Of an id it knows which prefix it stands for, once it was told
the page's units, the page before it, and the namespace; and on which tiers that page is.  What of a step's events
can't be replayed, or says what was said, is put down, in words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kvlitmus.spec.interface.tiers import Event
from kvlitmus.spec.prefix.listener import DEVICE, HOST, Listener
from kvlitmus.spec.prefix.state import Amiss, EventMirror
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name

Shown = Callable[[object], str]


class Replica:
    """What was told so far, while the events of a step are replayed.

    Everything was heard here.  Who heard a part says so by what it ``may_have`` missed.
    """

    def __init__(self, told: EventMirror, setting: Setting, shown: Shown) -> None:
        self.setting, self.shown = setting, shown
        self.size = setting.size
        self.heard = Listener[Name](setting.profile, {DEVICE: told.device, HOST: told.host})
        self.pages, self.roots = dict(told.pages), dict(told.roots)
        self.odd: list[Amiss] = []
        self.twice: list[Amiss] = []
        self.renamed: list[str] = []
        self.strays: list[str] = []
        self.orphans: list[str] = []

    def told(self) -> EventMirror:
        """What is known after these events."""
        told = EventMirror(self.heard.tiers[DEVICE], self.heard.tiers[HOST], self.pages, self.roots)
        told = told._replace(odd=tuple(self.odd), twice=tuple(self.twice), renamed=tuple(self.renamed))
        return told._replace(strays=tuple(self.strays), orphans=tuple(self.orphans))

    def take(self, event: Event) -> None:
        """One event more."""
        if event.what == "cleared":
            self.heard.cleared()
            self.pages, self.roots = {}, {}
        elif event.what not in ("stored", "removed") or event.tier not in self.heard.tiers:
            self.odd.append(Amiss(event.tier, f"no such event: {self.shown(event)}"))
        elif event.what == "removed":
            self.removed(event)
        else:
            self.stored(event)

    def may_have(self, page: object, tier: str = "") -> bool:
        """Whether a page may be there, on this tier or on any, though nothing that was heard says so."""
        return False

    def missed(self, page: object) -> Name | None:
        """What stands for a page that may have been told unheard; ``None`` where it can't have been."""
        return None

    def named(self, start: Name, event: Event) -> Name:
        """The name of a page that is told behind this one."""
        return self.setting.names.extend(start, tuple(event.units))[-1]

    def somewhere(self, name: Name | None) -> bool:
        """Whether this page is on any tier."""
        return any(name in there for there in self.heard.tiers.values())

    def page(self, id: object) -> str:
        """A page by its prefix, as the events told it, and by the id that the cache chose."""
        if id not in self.pages:
            return f"an unknown page, with id {self.shown(id)}"
        namespace, units = self.setting.names.prefix(self.pages[id])
        where = "" if namespace is None else f" of {self.shown(namespace)}"
        return f"the page at the end of {self.shown(list(units))}{where}, with id {self.shown(id)}"

    def removed(self, event: Event) -> None:
        """A page has left a tier."""
        name = self.pages.get(event.page)
        there = name is not None and self.heard.removed(event.tier, name)
        if not there and not self.may_have(event.page, event.tier):
            self.odd.append(
                Amiss(event.tier, f"removed from the {event.tier} without being there: {self.page(event.page)}")
            )

    def stored(self, event: Event) -> None:
        """A page is on a tier."""
        root = self.setting.names.root(event.namespace)
        start = root if event.parent is None else self.pages.get(event.parent)
        if start is None:
            start = self.missed(event.parent)
        if start is None:
            self.odd.append(Amiss(event.tier, f"stored below a page that was never told: {self.shown(event)}"))
            return
        if len(event.units) != self.size:
            self.odd.append(Amiss(event.tier, f"a page of {len(event.units)} units: {self.shown(event)}"))
            return
        name = self.named(start, event)
        if event.parent is not None:
            if self.roots.get(start, root) != root:
                self.strays.append(f"in another namespace than the page before it: {self.shown(event)}")
            if not self.somewhere(start) and not self.may_have(event.parent):
                self.orphans.append(f"stored below a page that is on no tier: {self.shown(event)}")
        old = self.pages.get(event.page)
        if old is not None and old != name and self.somewhere(old):
            self.renamed.append(
                f"this id stands for another page, which is there, {self.page(event.page)}: {self.shown(event)}"
            )
        self.pages[event.page] = name
        self.roots[name] = root if event.parent is None else self.roots.get(start, root)
        if self.heard.stored(event.tier, name):
            self.twice.append(
                Amiss(event.tier, f"stored on the {event.tier}, where it is already: {self.shown(event)}")
            )


def replay(told: EventMirror, setting: Setting, events: Iterable[Event], shown: Shown = repr) -> EventMirror:
    """What is known after these events too, and what is wrong with them."""
    events = tuple(events)
    if not events and told.faultless:
        return told
    replica = Replica(told, setting, shown)
    for event in events:
        replica.take(event)
    return replica.told()
