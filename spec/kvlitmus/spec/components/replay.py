"""What somebody knows who replays the events of a cache of components from the beginning.

An event names an entry by its component and its prefix, in full.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kvlitmus.spec.components.calls import At, Telling
from kvlitmus.spec.prefix.listener import DEVICE, HOST, Listener
from kvlitmus.spec.words.quick_replace import lean
from kvlitmus.spec.words.setting import Setting


@lean
class Replayed(NamedTuple):
    """What is on each tier by all events so far, and how often; ``odd``, ``twice``: what is wrong with the last call's, in words."""

    device: Mapping[At, int] = {}
    host: Mapping[At, int] = {}
    odd: tuple[str, ...] = ()
    twice: tuple[str, ...] = ()

    @property
    def tiers(self) -> Mapping[str, Mapping[At, int]]:
        """What is on each tier, and how often."""
        return {DEVICE: self.device, HOST: self.host}


def replayed(told: Replayed, setting: Setting, events: Iterable[Telling]) -> Replayed:
    """What is known after these events too."""
    events = tuple(events)
    if not events:
        return told._replace(odd=(), twice=())
    heard = Listener[At](setting.profile, {DEVICE: told.device} | ({HOST: told.host} if setting.layout.host else {}))
    odd, twice = list[str](), list[str]()
    for one in events:
        if one.what == "cleared":
            heard.cleared()
        elif one.tier not in heard.tiers or one.what not in ("stored", "removed") or one.at is None:
            odd.append("an event of another kind, or of a tier that there is not")
        elif one.what == "stored":
            if heard.stored(one.tier, one.at):
                twice.append(f"stored on the {one.tier}, where it is already: {text_of(setting, one.at)}")
        elif not heard.removed(one.tier, one.at):
            odd.append(f"removed from the {one.tier} without being there: {text_of(setting, one.at)}")
    return Replayed(heard.tiers[DEVICE], heard.tiers.get(HOST, {}), tuple(odd), tuple(twice))


def text_of(setting: Setting, at: At) -> str:
    """An entry in words; its units may be too many or too large to be told."""
    return f"{at[0]} that ends after {len(setting.names.prefix(at[1])[1])} units"
