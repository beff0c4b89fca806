"""What evictions of a tier can take.

A page goes after everything below it.  So what stays is what is held, with all that is above it: on the device what is
locked; on the host what work reads from, where a prefetch begins, and what is on the device too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kvlitmus.spec.interface.tiers import SPILL, SPILLED
from kvlitmus.spec.prefix.prefetch_advance import tiers_of
from kvlitmus.spec.prefix.seen import TierSeen
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.words.policies import WRITE_BACK
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name


def with_above(state: State, names: Iterable[Name]) -> set[Name]:
    """These pages, those that are on a tier, with all that is above them."""
    device, host = state.device.pages, state.host.pages
    found: set[Name] = set()
    for name in names:
        while name not in found and (page := device.get(name) or host.get(name)) is not None:
            found.add(name)
            name = page.parent
    return found


def droppable(state: State, seen: TierSeen, spared: Collection[Name] = (), *, nodes: bool = True) -> set[Name]:
    """The pages that evictions of the host can drop one by one; ``spared`` ones and what is held left out.

    Work holds pages, but a cache may protect the whole node that they are in: with ``nodes`` what
    shares a node with a page that is held counts as held too, and so do anchors until the tick that
    takes note of a revocation.
    """
    tiers = tiers_of(state)
    held = {*tiers.held_sources(), *tiers.prefetches.anchors(revoked=nodes), *spared}
    if nodes:
        for node in seen.tier_nodes:
            if not held.isdisjoint(node.named.pages):
                held.update(node.named.pages)
    return state.host.pages.keys() - with_above(state, (*held, *state.device.pages))


def reclaimable(state: State, setting: Setting) -> set[Name]:
    """The pages whose host copies may go though they are on the device too (``host_duplicates``): nothing reads them."""
    if setting.profile.host_duplicates != "reclaimed" or setting.config.write != WRITE_BACK:
        return set()
    return (state.host.pages.keys() & state.device.pages.keys()) - tiers_of(state).held_sources().keys()


def certainly_evictable(state: State, setting: Setting, seen: TierSeen, spared: Collection[Name] = ()) -> int:
    """How many pages an eviction of the device can take for certain.

    Under write-back a page without a host copy goes only if the host has room for one; when it
    may not have room for all of them, or a copy is to fail, nothing is certain.  The host copies of ``spared``
    pages stay.
    """
    unlocked = [name for name, page in state.device.pages.items() if not page.locks]
    if setting.config.write != WRITE_BACK:
        return len(unlocked)
    tiers = tiers_of(state)
    bare = sum(1 for name in unlocked if name not in state.host.pages)
    room = seen.host_free_count + len(droppable(state, seen, spared))
    certain = bare <= room and tiers.fault is None and tiers.failing.isdisjoint((SPILL, SPILLED))
    return len(unlocked) if certain else 0
