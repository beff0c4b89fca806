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
from kvlitmus.reference.prefix.hierarchy import change, pin, under_way, without, works_of
from kvlitmus.spec.interface.tiers import BACKUP, PUT
from kvlitmus.spec.prefix.own_work import Transfer
from kvlitmus.spec.prefix.prefetch_advance import tiers_of
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.words.units import Name


def start_puts(state: State, names: Sequence[Name]) -> State:
    """Begin to put those pages of a path that can be and need be put, one job for each contiguous run of them."""
    if not tiers_of(state).attached:
        return state
    works = works_of(state)
    busy = {name for one in under_way(state, BACKUP, PUT) for name in one.names}
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
    transfers = (*works.transfers, Transfer(serial, PUT, tuple(run)))
    return pin(state._replace(works=works._replace(serial=serial, transfers=transfers)), run)


def accepted(state: State, put: Transfer, pages: int, *, over: bool) -> State:
    """The store has taken ``pages`` more pages of a put, which is ``over`` if it takes no more or has all of them."""
    works, done = works_of(state), put.done + pages
    state = state._replace(works=works._replace(stored=works.stored.union(put.names[put.done : done])))
    return change(state, put._replace(done=done, landed=over or done == len(put.names)))


def acknowledge_puts(state: State, choice: Choice) -> State:
    """Take note of puts that are over: their pages are pinned no longer.

    Pages that were refused are tried again when they are used; or, where the choice is that, now.
    """
    over = [put for put in under_way(state, PUT) if put.landed]
    state = without(state, over)
    for put in over:
        state = pin(state, put.names, -1)
        state = start_puts(state, put.names) if put.id in choice.again else state
    return state


def drop_puts(state: State) -> State:
    """The storage is gone: every put ends where it is, and nothing counts as stored any more."""
    puts = under_way(state, PUT)
    for put in puts:
        state = pin(state, put.names, -1)
    state = without(state, puts)
    return state._replace(works=works_of(state)._replace(stored=frozenset()))
