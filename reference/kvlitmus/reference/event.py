"""What a cache tells the world: which pages came to a tier and which left it.

An event is no deed of its own.  It is the difference between two moments, so events and state can't disagree:
whoever replays them has exactly the pages that are on each tier.  A host copy is told of when its backup has been
acknowledged; until then it may hold anything.
"""

from __future__ import annotations

from typing import NamedTuple

from kvlitmus.reference.hierarchy import DEVICE, HOST, Hierarchy
from kvlitmus.spec.interface.tiers import BACKUP
from kvlitmus.spec.state import Tree
from kvlitmus.spec.units import Name

STORED, REMOVED = "stored", "removed"


class Told(NamedTuple):
    """One page ``stored`` on a tier or ``removed`` from it; ``parent``: the page before it, or the root."""

    what: str
    tier: str
    name: Name
    parent: Name


def on_host(now: Hierarchy) -> frozenset[Name]:
    """The pages that the world may know to be on the host."""
    unacknowledged = [name for transfer in now.transfers if transfer.kind == BACKUP for name in transfer.names]
    return frozenset(now.host.copies) - frozenset(unacknowledged)


def changes(before: Hierarchy, after: Hierarchy) -> tuple[Told, ...]:
    """What there is to tell between two moments: removals from the leaves up, then what is stored, parents first."""
    told: list[Told] = []
    sides = [(HOST, on_host(before), on_host(after))]
    if before.cache.tree is not after.cache.tree:
        sides.insert(0, (DEVICE, frozenset(before.cache.tree.pages), frozenset(after.cache.tree.pages)))
    for tier, had, has in sides:
        told += [Told(REMOVED, tier, name, parent_of(before, name)) for name in sorted(had - has, reverse=True)]
    for tier, had, has in sides:
        told += [Told(STORED, tier, name, parent_of(after, name)) for name in sorted(has - had)]
    return tuple(told)


def cached_changes(before: Tree, after: Tree) -> tuple[Told, ...]:
    """The same for a flat cache, which has no tier but the device."""
    had, has = before.pages, after.pages
    gone, come = sorted(had.keys() - has.keys(), reverse=True), sorted(has.keys() - had.keys())
    return (
        *[Told(REMOVED, DEVICE, name, had[name].parent) for name in gone],
        *[Told(STORED, DEVICE, name, has[name].parent) for name in come],
    )


def parent_of(now: Hierarchy, name: Name) -> Name:
    """The page before this one, or the root of its namespace."""
    page = now.cache.tree.pages.get(name) or now.host.alone[name]
    return page.parent
