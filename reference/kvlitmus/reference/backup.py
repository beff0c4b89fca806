"""Device to host: which pages are backed up, when, and what protects them meanwhile.

Under **write-through** a page is due when an insert uses it for the first time, under **selective write-through**
for the second time; under write-back nothing is due (see :mod:`~kvlitmus.reference.tier`).  Backed pages are
prefix-closed: a page waits until its parent is backed, or, where the choice is ``chain``, takes its ancestors along.

A page gets its host slots when its backup is *submitted*, and counts as backed from then on; the contents are there
when the copy has *landed*.  In between the device slots must stay what they are: the path to the end of the run is
locked, until a tick *acknowledges* the copy.  Acknowledgements come in the order of submission: a copy that has not
landed holds up those behind it.

A copy can *fail*.  If it can't begin, the page waits for its next use as if host memory were short.  If it fails under
way, the tick that comes to it frees its host slots: the page is not backed, and due again.  Where something depends on
the host copy (a copy below it, a pin) it is copied again instead, by another job.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from kvlitmus.reference import tier
from kvlitmus.reference.hierarchy import DEVICE, HOST, Hierarchy, Moved, Transfer, begins, lock, unlock
from kvlitmus.reference.put import start_puts
from kvlitmus.spec import policies
from kvlitmus.spec.interface.tiers import BACKUP
from kvlitmus.spec.units import Name


def due(now: Hierarchy, names: Sequence[Name]) -> tuple[tuple[Name, ...], ...]:
    """The nodes of this path, all resident, that are to be backed up now, parents first.

    What isn't backed is the end of the path; how much of it is due is the policy's: :func:`kvlitmus.spec.policies.due`.
    """
    copies, resident = now.host.copies, now.cache.tree.pages
    nodes: list[list[Name]] = []
    for name in names:
        if name not in copies:
            if resident[name].first or not nodes:
                nodes.append([])
            nodes[-1].append(name)
    hot = [policies.hot(now.choices.write, resident[node[0]].hits) for node in nodes]
    return tuple([tuple(node) for node in nodes[: policies.due(hot, now.choices.backup_parent)]])


def used(now: Hierarchy, names: Sequence[Name]) -> Hierarchy:
    """What follows from an insert that uses these pages, all resident: backups that are due, puts that are outstanding.

    A node for which there isn't enough host memory, or whose copy can't begin, waits for its next use, and so does what
    is below it.  What follows a page that isn't backed up could not be found in storage, so it waits, too.
    """
    for node in due(now, names):
        now, pages = tier.allocate_or_evict(now, len(node))
        if pages is None:
            break
        now, can = begins(now, BACKUP)
        if not can:
            now = tier.free(now, pages)
            break
        now = tier.back(now, node, pages, settled=False, stored=False)
        serial = now.serial + 1
        transfers = (*now.transfers, Transfer(serial, BACKUP, node))
        now = lock(now._replace(transfers=transfers, serial=serial), node[-1])
    backed = list(takewhile(lambda name: name in now.host.copies, names))
    return start_puts(now, backed)


def land(now: Hierarchy, job: int) -> Hierarchy:
    """A copy between the tiers has reached its end; the copies of its contents are to be made now."""
    transfers, moved = [], list(now.moved)
    copies, resident = dict(now.host.copies), now.cache.tree.pages
    for transfer in now.transfers:
        if transfer.id == job:
            for name in transfer.names:
                copy, page = copies[name], resident[name].page
                if transfer.kind == BACKUP:
                    moved.append(Moved(DEVICE, page, copy.page))
                    copies[name] = copy._replace(settled=True)
                else:
                    moved.append(Moved(HOST, copy.page, page))
            transfers.append(transfer._replace(landed=True))
        else:
            transfers.append(transfer)
    host = now.host._replace(copies=copies)
    return now._replace(host=host, transfers=tuple(transfers), moved=tuple(moved))


def fail(now: Hierarchy, job: int) -> Hierarchy:
    """A copy between the tiers has failed: it is over, no layer of it counts, what it was to fill holds anything."""
    over = [one._replace(landed=True, failed=True, layers=0) if one.id == job else one for one in now.transfers]
    return now._replace(transfers=tuple(over))


def acknowledge_backups(now: Hierarchy) -> Hierarchy:
    """Take note of the backups that are over, up to the first that is not: unlock, and begin to put."""
    over: list[Transfer] = []
    for transfer in now.transfers:
        if transfer.kind == BACKUP:
            if not transfer.landed:
                break
            over.append(transfer)
    now = now._replace(transfers=tuple([transfer for transfer in now.transfers if transfer not in over]))
    for transfer in over:
        if transfer.failed and _needed(now, transfer.names):
            now = tier.again(now, transfer)
            continue
        now = unlock(now, transfer.names[-1])
        now = tier.unback(now, transfer.names) if transfer.failed else start_puts(now, transfer.names)
    return now


def _needed(now: Hierarchy, names: Sequence[Name]) -> bool:
    """Whether something depends on the host copies of these pages of one path: a pin, or a host copy below them."""
    copies, resident, alone = now.host.copies, now.cache.tree.pages, now.host.alone
    below = ((resident.get(name) or alone[name]).parent in names and name not in names for name in copies)
    return any(copies[name].pins for name in names) or any(below)
