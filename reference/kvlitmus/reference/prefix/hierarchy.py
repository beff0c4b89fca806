"""A hierarchy: device and host, and everything under way between them and storage.

A **page** of the cache is on the device, on the host, or on both; nowhere else, for a page that is on
neither is not cached.  The state is a flat cache's :class:`~kvlitmus.spec.prefix.state.State`.
``host`` has the pages of the host, as ``tree`` has those of the device; of a page that is on both the device has the
use (recency, hits, priority).  ``tiers`` has what is known of storage and of time; ``works`` has the free memory of the
host and the **work under way**.

Nothing here moves by itself.  That a copy has landed, what the store answered, how late it is: all of it comes in as
calls.  **Contents** are outside: a list of numbers per pool, kept by whoever drives the reference.  Which copies are to
be made shows in the difference of two states (:func:`~kvlitmus.reference.prefix.event.moves`).

The parts are in :mod:`~kvlitmus.reference.prefix.tier` (what is on which tier),
:mod:`~kvlitmus.reference.prefix.backup` (device to host), :mod:`~kvlitmus.reference.prefix.load` (host to device),
:mod:`~kvlitmus.reference.prefix.put` (host to storage), :mod:`~kvlitmus.reference.prefix.fetch` (storage to host) and
:mod:`~kvlitmus.reference.prefix.life` (ticks, and the lives of cache and storage); all of them are called by
:func:`~kvlitmus.reference.prefix.perform.perform`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from kvlitmus.spec.interface.tiers import FETCH, QUERY
from kvlitmus.spec.prefix import effects
from kvlitmus.spec.prefix.own_work import Transfer, Works
from kvlitmus.spec.prefix.page import Page
from kvlitmus.spec.prefix.state import State, empty_state
from kvlitmus.spec.prefix.work import Tiers
from kvlitmus.spec.words.prefetch_life import ANSWERED, ENDED, REVOKED
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import FREE, Name, PageNo, Tokens

DEVICE, HOST = "device", "host"
"""The tiers that have slots."""


def host_pages(setting: Setting) -> frozenset[PageNo]:
    """All pages of the host."""
    return frozenset(map(PageNo, range(setting.config.host_pages)))


def empty_hierarchy(setting: Setting) -> State:
    """A hierarchy in which every page of both pools is free, without storage."""
    return empty_state()._replace(tiers=Tiers(), works=Works(host_pages(setting)))


def works_of(state: State) -> Works:
    """The free memory of the host of a hierarchy, and the work under way."""
    assert state.works is not None
    return state.works


def under_way(state: State, *kinds: str) -> tuple[Transfer, ...]:
    """The copies and puts of these kinds that are under way."""
    return tuple([one for one in works_of(state).transfers if one.kind in kinds])


def change(state: State, transfer: Transfer) -> State:
    """One of them is now like this."""
    works = works_of(state)
    transfers = tuple([transfer if one.id == transfer.id else one for one in works.transfers])
    return state._replace(works=works._replace(transfers=transfers))


def without(state: State, over: Collection[Transfer]) -> State:
    """The same when these are under way no more."""
    works, ids = works_of(state), {one.id for one in over}
    return state._replace(works=works._replace(transfers=tuple([one for one in works.transfers if one.id not in ids])))


def alone_of(state: State) -> Mapping[Name, Page]:
    """The pages that are on the host alone."""
    return {name: page for name, page in state.host.pages.items() if name not in state.device.pages}


def record(state: State, name: Name) -> Page:
    """What is known of a cached page, on whichever tier it is."""
    return state.device.pages.get(name) or state.host.pages[name]


def lock(state: State, name: Name) -> State:
    """Protect the path to a resident page; the root needs no protection."""
    return state._replace(device=effects.lock(state.device, name))


def unlock(state: State, name: Name) -> State:
    """Give one protection of the path to this page back.

    Raises ``ValueError`` when it isn't protected.
    """
    page = state.device.pages.get(name)
    if page is not None and page.locks < 1:
        raise ValueError(f"page {name} is not locked", name)
    return state._replace(device=effects.lock(state.device, name, -1))


def host_homes(state: State, setting: Setting) -> dict[PageNo, str]:
    """Where each page of the host is at home: ``free``, ``cached`` (a host copy) or ``moving`` (work under way).

    Raises ``ValueError`` when a page has two homes or none.
    """
    works, usable = works_of(state), host_pages(setting)
    copies = [copy.page for copy in state.host.pages.values()]
    found = [*works.free, *copies, *moving(state)]
    if len(found) != len(usable) or set(found) != usable:
        twice = sorted(page for page, count in Counter(found).items() if count > 1)
        lost = sorted(usable.difference(found))
        raise ValueError(f"host pages without exactly one home: twice {twice}, lost {lost}", twice, lost)
    homes = dict.fromkeys(works.free, FREE)
    return homes | dict.fromkeys(copies, "cached") | dict.fromkeys(moving(state), "moving")


def moving(state: State) -> tuple[PageNo, ...]:
    """The host pages in the hands of work under way: held by prefetches, or waiting to be freed."""
    works = works_of(state)
    return (*[page for operation in works.operations for page in operation.held], *works.release)


class Listed(NamedTuple):
    """A job under way."""

    id: int
    """Its number."""
    kind: str
    """One of :data:`~kvlitmus.spec.interface.tiers.JOB_KINDS`."""
    names: tuple[Name, ...]
    """Its pages."""
    rid: int = -1
    """The request that it is for; -1 for none."""
    completed: int = 0
    """How many pages of a fetch are completed."""
    landed: bool = False
    """Whether it has reached its end."""
    failed: bool = False
    """Whether it failed."""


def jobs_of(state: State) -> list[Listed]:
    """The jobs under way, in order of submission."""
    works = works_of(state)
    found = [Listed(one.id, one.kind, one.names, landed=one.landed, failed=one.failed) for one in works.transfers]
    for own in works.operations:
        if own.stage != ENDED:
            kind = FETCH if own.stage == FETCH else QUERY
            found.append(Listed(own.job, kind, own.names, own.rid, own.completed, own.stage in (ANSWERED, REVOKED)))
    return sorted(found)


def occupied(state: State) -> Tokens:
    """What the prefetches that requests wait for count against the rate limit."""
    return Tokens(sum([operation.asked for operation in works_of(state).operations if operation.live]))


def pin(state: State, names: Iterable[Name], by: int = 1) -> State:
    """Protect the host copies of these pages once more (or once less) against eviction; roots need no protection.

    Raises ``ValueError`` when a protection is given back that there isn't.
    """
    copies = dict(state.host.pages)
    for name in names:
        copy = copies.get(name)
        if copy is not None:
            if copy.locks + by < 0:
                raise ValueError(f"page {name} is not pinned", name)
            copies[name] = copy._replace(locks=copy.locks + by)
    return state._replace(host=state.host._replace(pages=copies))


def begins(state: State, kind: str) -> tuple[State, bool]:
    """Whether a copy of this kind can begin now; what is to fail comes nearer."""
    works = works_of(state)
    left = works.failing.get(kind)
    if left is None:
        return state, True
    rest = {other: after for other, after in works.failing.items() if other != kind}
    return state._replace(works=works._replace(failing={**rest, kind: left - 1} if left else rest)), bool(left)
