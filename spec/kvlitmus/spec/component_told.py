"""What somebody knows who replays the events of a cache of components from the beginning.

An event names an entry by its component and its prefix, in full.  Where equal entries are all kept
(``component_copies``), each may be told; what is known is then how many of them there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kvlitmus.spec.component_calls import At, Telling
from kvlitmus.spec.setting import Setting

DEVICE, HOST = "device", "host"


class Replayed(NamedTuple):
    """What is on each tier by all events so far, and how often; ``odd``, ``twice``: what is wrong with the last call's, in words."""

    device: Mapping[At, int] = {}
    host: Mapping[At, int] = {}
    odd: tuple[str, ...] = ()
    twice: tuple[str, ...] = ()


def replayed(told: Replayed, setting: Setting, events: Iterable[Telling]) -> Replayed:
    """What is known after these events too."""
    events = tuple(events)
    if not events:
        return told._replace(odd=(), twice=())
    tiers = {DEVICE: dict(told.device), HOST: dict(told.host)}
    odd, twice = list[str](), list[str]()
    for one in events:
        if one.what == "cleared":
            tiers = {DEVICE: {}, HOST: {}}
            continue
        there = tiers.get(one.tier)
        if there is None or one.what not in ("stored", "removed") or one.at is None:
            odd.append(f"no such event: {one.what} on {one.tier}")
            continue
        text = f"{one.at[0]} of {setting.names.prefix(one.at[1])[1]}"
        had = there.get(one.at, 0)
        if one.what == "stored":
            if had:
                twice.append(f"stored on the {one.tier}, where it is already: {text}")
            there[one.at] = had + 1
        elif had:
            there[one.at] = had - 1
            if had == 1:
                del there[one.at]
        else:
            odd.append(f"removed from the {one.tier} without being there: {text}")
    return Replayed(tiers[DEVICE], tiers[HOST], tuple(odd), tuple(twice))
