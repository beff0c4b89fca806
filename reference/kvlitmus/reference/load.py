"""Host to device: what is cached on the host alone is brought back before it is computed with.

A **load back** is all or nothing: every page behind the resident prefix comes back, or none does.  Its pages are
resident at once, in slots whose contents arrive when the copy lands; until a tick acknowledges it the path is locked,
and the host copies that it reads from are pinned.  The host copies stay.

A load whose copy can't begin is declined.  One that has failed is noted by the tick like one that has landed, and given
up: its pages are on the host alone again.  Where somebody depends on them (a lock, a resident page below) they
are loaded again instead, by another job.

Room is made with both already protected: under write-back an eviction on the device may evict on the host, and would
otherwise take the very pages that are about to be read.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.reference import tier
from kvlitmus.reference.backup import land
from kvlitmus.reference.hierarchy import Hierarchy, Transfer, begins, lock, pin, unlock
from kvlitmus.reference.perform import hand_out
from kvlitmus.spec.interface.tiers import LOAD
from kvlitmus.spec.units import Name, PageNo, Pages, Tokens

LAYERS = 3
"""How many layers a load copies, one after the other."""


def load_back(
    now: Hierarchy,
    root: Name,
    names: Sequence[Name],
    choice: Sequence[Name] | None = None,
    *,
    quota: Tokens | None = None,
) -> tuple[Hierarchy, Pages, tuple[PageNo, ...] | None]:
    """Bring what a key has on the host alone to the device: pages resident before, and the new device pages.

    ``None`` instead of pages when they are fewer units than is worth a copy, when device memory is short, or when the
    copy can't begin; then nothing has changed but recency and what was evicted.  The choice is what is evicted.
    A ``quota`` limits how many units are loaded and newly locked together.
    """
    now, there, behind = tier.match_all(now, names)
    before = Pages(len(there))
    size = now.setting.size
    locked = sum(not now.cache.tree.pages[name].locks for name in names[:before])
    if behind * size < now.choices.load_threshold or (quota is not None and (behind + locked) * size > quota):
        return now, before, None
    if not behind:
        return now, before, ()
    end = names[before - 1] if before else root
    sources = tuple(names[before : before + behind])
    now = pin(lock(now, end), sources)
    short = behind - len(now.free)
    if short > 0:
        now, _, _ = tier.evict(now, Tokens(short * size), choice)
    now = unlock(now, end)
    pages = hand_out(now.free, behind, None)
    if pages is None:
        return pin(now, sources, -1), before, None
    now, can = begins(now, LOAD)
    if not can:
        return pin(now, sources, -1), before, None
    return _start(now, sources, pages), before, pages


def _start(now: Hierarchy, sources: Sequence[Name], pages: Sequence[PageNo]) -> Hierarchy:
    """The pages are resident, locked, and their copy is under way; their sources are pinned already."""
    resident = dict(now.cache.tree.pages)
    alone = dict(now.host.alone)
    for name, page in zip(sources, pages, strict=True):
        resident[name] = alone.pop(name)._replace(page=page)
    cache = now.cache._replace(tree=now.cache.tree._replace(pages=resident))
    serial = now.serial + 1
    transfers = (*now.transfers, Transfer(serial, LOAD, tuple(sources)))
    host = now.host._replace(alone=alone)
    return lock(now._replace(cache=cache, host=host, transfers=transfers, serial=serial), sources[-1])


def copy_layers(now: Hierarchy, job: int, layers: int) -> Hierarchy:
    """So many more layers of a load are copied and may be read; with the last of :data:`LAYERS` it has landed."""
    done = 0
    transfers = []
    for transfer in now.transfers:
        if transfer.id == job:
            done = min(LAYERS, transfer.layers + layers)
            transfer = transfer._replace(layers=done)
        transfers.append(transfer)
    now = now._replace(transfers=tuple(transfers))
    return land(now, job) if done == LAYERS else now


def acknowledge_loads(now: Hierarchy) -> Hierarchy:
    """Take note of the loads that are over, up to the first that is not: unlock the path, unpin the sources."""
    over: list[Transfer] = []
    for transfer in now.transfers:
        if transfer.kind == LOAD:
            if not transfer.landed:
                break
            over.append(transfer)
    now = now._replace(transfers=tuple([transfer for transfer in now.transfers if transfer not in over]))
    for transfer in over:
        released = pin(unlock(now, transfer.names[-1]), transfer.names, -1)
        if not transfer.failed:
            now = released
        elif _needed(released, transfer.names):
            now = tier.again(now, transfer)
        else:
            now = tier.leave_device(released, transfer.names[::-1])
    return now


def _needed(now: Hierarchy, names: Sequence[Name]) -> bool:
    """Whether a lock covers these pages of one path, or a resident page hangs below one of them."""
    resident = now.cache.tree.pages
    below = (page.parent in names and name not in names for name, page in resident.items())
    return any(resident[name].locks for name in names) or any(below)
