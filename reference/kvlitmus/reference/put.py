"""Host to storage: pages that were backed up are put, so that others can find them and a restart doesn't lose them.

A put begins when a backup has been acknowledged, if storage is attached then.  Its pages go one by one in the order
of the prefix, each under the name that its hash chain gives it; where the store refuses or raises, the put ends, for
what would follow is of no use without what precedes it.  Pages that are not stored yet are tried again when an insert
uses them: those that were refused, and those that are older than the storage.

The host copies that a put reads from are pinned from its beginning to the tick that notices its end.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.reference.hierarchy import Hierarchy, Put, pin
from kvlitmus.spec.interface.tiers import BACKUP
from kvlitmus.spec.units import Name, Pages


def start_puts(now: Hierarchy, names: Sequence[Name]) -> Hierarchy:
    """Begin to put those pages of a path that can be and need be put, one job for each contiguous run of them."""
    if not now.storage:
        return now
    busy = {name for put in now.puts for name in put.names}
    busy |= {name for transfer in now.transfers if transfer.kind == BACKUP for name in transfer.names}
    run: list[Name] = []
    for name in names:
        copy = now.host.copies.get(name)
        if copy is not None and copy.settled and not copy.stored and name not in busy:
            run.append(name)
        elif run:
            now, run = _start(now, run), []
    return _start(now, run) if run else now


def _start(now: Hierarchy, run: Sequence[Name]) -> Hierarchy:
    serial = now.serial + 1
    return pin(now._replace(serial=serial, puts=(*now.puts, Put(serial, tuple(run)))), run)


def accepted(now: Hierarchy, job: int, pages: int, *, over: bool) -> Hierarchy:
    """The store has taken ``pages`` more pages of a put, which is ``over`` if it takes no more or has all of them."""
    puts = []
    copies = dict(now.host.copies)
    for put in now.puts:
        if put.id == job:
            done = Pages(put.done + pages)
            for name in put.names[put.done : done]:
                copies[name] = copies[name]._replace(stored=True)
            puts.append(put._replace(done=done, landed=over or done == len(put.names)))
        else:
            puts.append(put)
    return now._replace(host=now.host._replace(copies=copies), puts=tuple(puts))


def acknowledge_puts(now: Hierarchy) -> Hierarchy:
    """Take note of puts that are over: their pages are pinned no longer."""
    for put in now.puts:
        if put.landed:
            now = pin(now, put.names, -1)
    return now._replace(puts=tuple([put for put in now.puts if not put.landed]))


def drop_puts(now: Hierarchy) -> Hierarchy:
    """The storage is gone: every put ends where it is, and nothing counts as stored any more."""
    for put in now.puts:
        now = pin(now, put.names, -1)
    copies = {name: copy._replace(stored=False) for name, copy in now.host.copies.items()}
    return now._replace(puts=(), host=now.host._replace(copies=copies))
