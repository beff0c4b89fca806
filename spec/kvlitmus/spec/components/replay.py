"""What somebody knows who replays the events of a cache of components from the beginning.

An event names an entry by its component and its prefix, in full.
"""

from __future__ import annotations

from collections.abc import Iterable

from kvlitmus.spec.components.calls import (
    Telling,
)
from kvlitmus.spec.prefix.listener import DEVICE, HOST, Listener
from kvlitmus.spec.prefix.page import At
from kvlitmus.spec.prefix.parts import Amiss, Replayed
from kvlitmus.spec.words.setting import Setting


def replayed(told: Replayed, setting: Setting, events: Iterable[Telling]) -> Replayed:
    """What is known after these events too."""
    events = tuple(events)
    if not events:
        return told._replace(odd=(), twice=()) if told.odd or told.twice else told
    heard = Listener[At](setting.profile, {DEVICE: told.device} | ({HOST: told.host} if setting.layout.host else {}))
    odd, twice = list[Amiss](), list[Amiss]()
    for one in events:
        if one.what == "cleared":
            heard.cleared()
        elif one.tier not in heard.tiers or one.what not in ("stored", "removed") or one.at is None:
            odd.append(Amiss("", None, "an event of another kind, or of a tier that there is not"))
        elif one.what == "stored":
            if heard.stored(one.tier, one.at):
                text = f"stored on the {one.tier}, where it is already: {text_of(setting, one.at)}"
                twice.append(Amiss(one.tier, one.at, text))
        elif not heard.removed(one.tier, one.at):
            text = f"removed from the {one.tier} without being there: {text_of(setting, one.at)}"
            odd.append(Amiss(one.tier, one.at, text))
    return Replayed(heard.tiers[DEVICE], heard.tiers.get(HOST, {}), tuple(odd), tuple(twice))


def text_of(setting: Setting, at: At) -> str:
    """An entry in words; its units may be too many or too large to be told."""
    return f"{at[0]} that ends after {len(setting.names.prefix(at[1])[1])} units"
