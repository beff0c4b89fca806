"""What can be told of the difference between two moments: which pages came and went, and which contents were copied.

An **event** is no deed of its own.  It is the difference between two moments, so events and state can't disagree:
whoever replays them has exactly the pages that are on each tier.  A host copy is told of when its backup has been
acknowledged; until then it may hold anything.

Nor is a **copy**: contents move where a copy between the tiers has landed, and where an eviction took a page from the
device that has a copy on the host since.
"""

from __future__ import annotations

from typing import NamedTuple

from kvlitmus.reference.prefix.hierarchy import DEVICE, HOST, record, under_way, works_of
from kvlitmus.spec.interface.tiers import BACKUP
from kvlitmus.spec.prefix.state import State, Tier
from kvlitmus.spec.prefix.work import COPIES
from kvlitmus.spec.words.units import Name, PageNo

STORED, REMOVED = "stored", "removed"


class PageChange(NamedTuple):
    """One page ``stored`` on a tier or ``removed`` from it; ``parent``: the page before it, or the root."""

    what: str
    tier: str
    name: Name
    parent: Name


class Moved(NamedTuple):
    """Contents to be copied: from a page of the tier ``source`` to a page of the other one."""

    source: str
    at: PageNo
    to: PageNo


def on_host(state: State) -> frozenset[Name]:
    """The pages that the world may know to be on the host."""
    unacknowledged = [name for one in under_way(state, BACKUP) for name in one.names]
    return frozenset(state.host.pages) - frozenset(unacknowledged)


def changes(before: State, after: State) -> tuple[PageChange, ...]:
    """What there is to tell between two moments: removals from the leaves up, then what is stored, parents first."""
    told: list[PageChange] = []
    sides = [(HOST, on_host(before), on_host(after))]
    if before.device is not after.device:
        sides.insert(0, (DEVICE, frozenset(before.device.pages), frozenset(after.device.pages)))
    for tier, had, has in sides:
        told += [
            PageChange(REMOVED, tier, name, record(before, name).parent) for name in sorted(had - has, reverse=True)
        ]
    for tier, had, has in sides:
        told += [PageChange(STORED, tier, name, record(after, name).parent) for name in sorted(has - had)]
    return tuple(told)


def cached_changes(before: Tier, after: Tier) -> tuple[PageChange, ...]:
    """The same for a flat cache, which has no tier but the device."""
    had, has = before.pages, after.pages
    gone, come = sorted(had.keys() - has.keys(), reverse=True), sorted(has.keys() - had.keys())
    return (
        *[PageChange(REMOVED, DEVICE, name, had[name].parent) for name in gone],
        *[PageChange(STORED, DEVICE, name, has[name].parent) for name in come],
    )


def moves(before: State, after: State) -> tuple[Moved, ...]:
    """The copies that a call has made between the tiers."""
    old, new = works_of(before), works_of(after)
    over = {one.id for one in old.transfers if one.landed}
    landed = [one for one in under_way(after, *COPIES) if one.landed and not one.failed and one.id not in over]
    moved: list[Moved] = []
    for one in landed:
        for name in one.names:
            device, host = after.device.pages[name].page, after.host.pages[name].page
            moved.append(Moved(DEVICE, device, host) if one.kind == BACKUP else Moved(HOST, host, device))
    for name, copy in after.host.pages.items():
        left = name in before.device.pages and name not in after.device.pages
        if left and name in new.settled and name not in before.host.pages:
            moved.append(Moved(DEVICE, before.device.pages[name].page, copy.page))
    return tuple(moved)
