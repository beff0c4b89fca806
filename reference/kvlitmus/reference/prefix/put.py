"""Host to storage: pages that were backed up are put, so that others can find them and a restart doesn't lose them.

A put begins when a backup has been acknowledged, if storage is attached then.  Its pages go one by one in the order
of the prefix, each under the name that its hash chain gives it; where the store refuses or raises, the put ends, for
what would follow is of no use without what precedes it.  Pages that are not stored yet are tried again when an insert
uses them: those that were refused, and those that are older than the storage.

The host copies that a put reads from are pinned from its beginning to the tick that notices its end.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.reference.prefix.choose import Choice
from kvlitmus.reference.prefix.hierarchy import pin, works_of
from kvlitmus.spec.interface.tiers import BACKUP
from kvlitmus.spec.prefix.own_work import Put
from kvlitmus.spec.prefix.prefetch_advance import tiers_of
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.words.units import Name, Pages


def start_puts(state: State, names: Sequence[Name]) -> State:
    """Begin to put those pages of a path that can be and need be put, one job for each contiguous run of them."""
    if not tiers_of(state).attached:
        return state
    works = works_of(state)
    busy = {name for put in works.puts for name in put.names}
    busy |= {name for transfer in works.transfers if transfer.kind == BACKUP for name in transfer.names}
    run: list[Name] = []
    for name in names:
        if name in works.settled and name not in works.stored and name not in busy:
            run.append(name)
        elif run:
            state, run = _start(state, run), []
    return _start(state, run) if run else state


def _start(state: State, run: Sequence[Name]) -> State:
    works = works_of(state)
    serial = works.serial + 1
    return pin(state._replace(works=works._replace(serial=serial, puts=(*works.puts, Put(serial, tuple(run))))), run)


def accepted(state: State, job: int, pages: int, *, over: bool) -> State:
    """The store has taken ``pages`` more pages of a put, which is ``over`` if it takes no more or has all of them."""
    works = works_of(state)
    puts = []
    stored = works.stored
    for put in works.puts:
        if put.id == job:
            done = Pages(put.done + pages)
            stored = stored.union(put.names[put.done : done])
            puts.append(put._replace(done=done, landed=over or done == len(put.names)))
        else:
            puts.append(put)
    return state._replace(works=works._replace(stored=stored, puts=tuple(puts)))


def acknowledge_puts(state: State, choice: Choice) -> State:
    """Take note of puts that are over: their pages are pinned no longer.

    Pages that were refused are tried again when they are used; or, where the choice is that, now.
    """
    works = works_of(state)
    over = [put for put in works.puts if put.landed]
    state = state._replace(works=works._replace(puts=tuple([put for put in works.puts if not put.landed])))
    for put in over:
        state = pin(state, put.names, -1)
        state = start_puts(state, put.names) if put.id in choice.again else state
    return state


def drop_puts(state: State) -> State:
    """The storage is gone: every put ends where it is, and nothing counts as stored any more."""
    for put in works_of(state).puts:
        state = pin(state, put.names, -1)
    return state._replace(works=works_of(state)._replace(puts=(), stored=frozenset()))
