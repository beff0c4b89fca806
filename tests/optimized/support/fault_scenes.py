"""What a caller does while something fails: scenarios over a :class:`tests.optimized.support.fault_desk.Desk`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from tests.optimized.support.fault_desk import AHEAD, ALL, SIZE, Desk

Scenario = Callable[[Desk], None]

KEY = (1, 2, 3, 4, 5, 6, 7, 8)
"""Four pages of two."""

OTHER = (1, 2, 3, 4, 9, 9, 8, 8, 7, 7)
"""Shares two of these, and has three more."""


def backs_up(desk: Desk) -> None:
    """Nodes are backed up at their use, and put."""
    desk.compute(KEY)
    desk.settle(1)
    desk.compute(OTHER)
    desk.compute(KEY)
    desk.settle()


def backs_up_below(desk: Desk) -> None:
    """A node is backed up below one whose own backup is under way, and read from storage below that."""
    desk.keep(KEY)
    desk.cache.evict(ALL)
    desk.cache.evict_host(ALL)
    desk.compute(KEY[:4])
    desk.cache.prefetch(AHEAD, list(KEY))
    for _ in range(3):
        for work in desk.cache.jobs():
            if work.kind in ("query", "fetch") and not work.landed:
                desk.cache.advance(work.id)
    desk.cache.poll(AHEAD)
    desk.compute(OTHER)
    desk.settle()


def loads_back(desk: Desk) -> None:
    """What was evicted comes back, with a request on top that waits for it, and one that begins meanwhile."""
    desk.keep(KEY)
    desk.cache.evict(ALL)
    desk.cache.load_back(list(KEY))
    first = desk.begin((*KEY, 11, 12, 13))
    second = desk.begin(KEY)
    desk.cache.tick()
    for rid in (first, second):
        if rid is not None:
            desk.end(rid, keep=True)
    desk.settle()


def loads_under_a_request(desk: Desk) -> None:
    """A load is under way, and a request has the pages before anything of it has come; then another load follows."""
    desk.keep(KEY)
    desk.keep(OTHER)
    desk.cache.evict(ALL)
    desk.cache.load_back(list(KEY[:4]))
    receipt = desk.cache.lock(desk.cache.match(list(KEY[:4])).place)
    try:
        desk.cache.load_back(list(OTHER))
        for work in desk.cache.jobs():
            if not work.landed:
                desk.cache.advance(work.id)
        desk.cache.tick()
    finally:
        desk.cache.unlock(receipt)
    desk.compute(OTHER)
    desk.settle()


def reads_ahead(desk: Desk) -> None:
    """What is in storage alone is read ahead, cached on the host, and loaded."""
    desk.keep(KEY)
    desk.cache.evict(ALL)
    desk.cache.evict_host(ALL)
    desk.cache.prefetch(AHEAD, list(KEY))
    for _ in range(4):
        for work in desk.cache.jobs():
            if not work.landed:
                desk.cache.advance(work.id, 1 if work.kind == "fetch" else None)
        desk.cache.tick()
    desk.cache.poll(AHEAD)
    desk.cache.load_back(list(KEY))
    desk.compute(KEY)
    desk.settle()


def makes_room(desk: Desk) -> None:
    """More than the device and the host can hold: evictions on both."""
    for first in range(1, 6):
        desk.compute([first, *KEY[1:]])
        desk.settle(1)
    desk.cache.load_back([1, *KEY[1:]])
    desk.compute([1, *KEY[1:], 3, 3])
    desk.cache.evict_host(2 * SIZE)
    desk.settle()


def grows(desk: Desk) -> None:
    """A request grows, is published, and ends."""
    rid = desk.begin(KEY[:3])
    if rid is None:
        return
    for token in (4, 5, 6, 7, 8, 9):
        desk.extend(rid, (token,))
        desk.cache.publish(rid, chunked=token % 2 == 0)
    desk.end(rid, keep=True)
    desk.settle()


def forks(desk: Desk) -> None:
    """Beams over one prompt, each of which goes on by itself, as far as there is room."""
    first = desk.begin(KEY[:5])
    if first is None:
        return
    desk.cache.publish(first, chunked=True)
    desk.extend(first, (6, 7))
    for token in (8, 9, 10):
        rid = desk.fork(first)
        if rid is not None:
            desk.extend(rid, (token,))
    for rid in list(desk.rows):
        desk.check_row(rid)
        desk.end(rid, keep=rid % 2 == 0)
    desk.settle()


def retracts(desk: Desk) -> None:
    """A request gives up the device while a load brings what it shares, another one takes its place, it comes back."""
    desk.keep(KEY[:4])
    desk.cache.evict(ALL)
    desk.cache.load_back(list(KEY[:4]))
    rid = desk.begin(KEY[:5], waits=False)
    if rid is None:
        return
    desk.retract(rid)
    desk.settle()
    desk.compute(OTHER)
    for tokens in ((6,), (7, 8)):
        if rid in desk.rows or desk.resume(rid):
            desk.extend(rid, tokens)
            desk.retract(rid)
    if rid in desk.rows:
        desk.end(rid, keep=True)
    else:
        desk.cache.discard(rid)
    desk.settle()


def starts_anew(desk: Desk) -> None:
    """A reset, and a close, while everything is under way."""
    desk.keep(KEY)
    desk.cache.evict(ALL)
    desk.cache.load_back(list(KEY))
    desk.compute(OTHER)
    desk.cache.prefetch(AHEAD, [*KEY, 5, 5])
    desk.cache.reset(abort=True)
    desk.mirror.clear()
    desk.cache.events()
    desk.compute(KEY)
    desk.cache.evict(ALL)
    desk.cache.close()


SCENARIOS: tuple[Scenario, ...] = (
    *(backs_up, backs_up_below, loads_back, loads_under_a_request),
    *(reads_ahead, makes_room, grows, forks, retracts, starts_anew),
)
WRITES = ("write_through", "write_through_selective", "write_back")


def played(scenario: Scenario, write: str, number: int | None) -> Desk:
    """A scenario in which the operation with this number fails."""
    desk = Desk(write)
    if number is not None:
        desk.faults.fail_number(number)
    play(scenario, desk)
    return desk


def play(scenario: Scenario, desk: Desk) -> None:
    """Play a scenario, up to a call that says that memory is short: then it has changed nothing."""
    with contextlib.suppress(MemoryError):
        scenario(desk)
