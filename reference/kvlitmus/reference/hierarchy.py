"""The whole hierarchy as one value: device and host, and everything under way between them and storage.

A **page** of the cache is on the device, on the host, or on both; nowhere else, for a page that is on
neither is not cached.  What is on the device is a :class:`~kvlitmus.spec.state.State`, exactly as without a
host: the flat calls on it are :func:`~kvlitmus.reference.perform.perform`'s.  Beside it, :class:`Host` keeps which
pages have a **host copy**, and for pages that are on the host *alone* what the device's tree has forgotten: parent,
recency, hits, priority.

**Work under way** is part of the value: copies between the tiers (:class:`Transfer`), pages on their way to
storage (:class:`Put`) and from it (:class:`Operation`).  Nothing here moves by itself.  That a copy has
landed, what the store answered, how late it is: all of it comes in as arguments of transitions.

**Contents** are outside: a list of numbers per pool, kept by whoever drives the model.  The model says
which copies are to be made, in order, in :attr:`Hierarchy.moved`.

The transitions are in :mod:`~kvlitmus.reference.tier` (what is on which tier),
:mod:`~kvlitmus.reference.backup` (device to host), :mod:`~kvlitmus.reference.load` (host to device),
:mod:`~kvlitmus.reference.put` (host to storage), :mod:`~kvlitmus.reference.fetch` (storage to host) and
:mod:`~kvlitmus.reference.life` (the calls of a scheduler).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kvlitmus.reference.perform import free_pages
from kvlitmus.reference.pool import Pool, empty_pool
from kvlitmus.spec import effects
from kvlitmus.spec.policies import BEST_EFFORT, WRITE_THROUGH
from kvlitmus.spec.setting import Setting
from kvlitmus.spec.state import Page, State, empty_state
from kvlitmus.spec.units import FREE, Name, PageNo, Pages, RequestId, Tokens

DEVICE, HOST = "device", "host"
"""The tiers that have slots."""

NOWHERE = PageNo(-1)
"""Where on the device a page is that is on the host alone."""


class Choices(NamedTuple):
    """The legal choices of this hierarchy.

    ``write``, ``stop``, ``threshold`` (units), ``rate_limit`` (units) as in a configuration; the rest as in a
    profile: ``reserve`` (submit, hit), ``backup_parent`` (skip, chain), ``fill_matched``, ``load_threshold`` (units),
    ``timeout`` (base, seconds per 1024 units, maximum or 0), ``timeout_basis`` (hit, requested), ``timeout_from``
    (submit, first_poll), ``restored_counts``.
    """

    write: str = WRITE_THROUGH
    stop: str = BEST_EFFORT
    threshold: int = 0
    rate_limit: int = 0
    reserve: str = "submit"
    backup_parent: str = "skip"
    fill_matched: bool = False
    load_threshold: int = 0
    timeout: tuple[float, float, float] = (2.0, 0.1, 30.0)
    timeout_basis: str = "hit"
    timeout_from: str = "submit"
    restored_counts: bool = False


class HostCopy(NamedTuple):
    """The copy of a page on the host.

    ``page``: where it is.  ``pins``: how many prefetches begin below it, and loads and puts read from it.
    ``settled``: whether its contents are there.  ``stored``: whether the storage is known to have it.
    """

    page: PageNo
    pins: int = 0
    settled: bool = False
    stored: bool = False


class Host(NamedTuple):
    """The host's memory: its pool, the copies in it, and what is known of pages that are on the host ``alone``.

    ``fault``: how many more allocations succeed before one fails whatever is free; ``None`` for no such fault.
    """

    pool: Pool
    copies: Mapping[Name, HostCopy]
    alone: Mapping[Name, Page]
    fault: int | None = None


class Transfer(NamedTuple):
    """A copy between the tiers: of these pages, one after the other on one path.

    The path to the last one is locked, and a load pins its sources, until a tick has seen that it ``landed``, or that
    it ``failed`` and is over without having copied anything that counts.  A load goes layer by layer, ``layers`` of
    them so far.
    """

    id: int
    kind: str
    names: tuple[Name, ...]
    landed: bool = False
    layers: int = 0
    failed: bool = False


class Put(NamedTuple):
    """Pages on their way to storage, ``done`` of them so far, pinned until a tick has seen that it ``landed``."""

    id: int
    names: tuple[Name, ...]
    done: Pages = Pages(0)
    landed: bool = False


class Operation(NamedTuple):
    """One prefetch.

    ``job``: the id of the query or fetch under way; ``stage``: see :mod:`~kvlitmus.reference.fetch`.  ``anchor``: the
    last page that was known when it was asked for, or the root of the namespace.  ``names``: the pages it is to read,
    in order; ``asked`` units of them count against the rate limit.  ``held``: the host pages that it holds, for the
    first of these names.  ``hit``: how many pages storage has, once it is known; ``completed``: how many were read.
    ``live``: whether a request waits for it; an operation that isn't live any more ends at its next step.
    ``since``: when its time began, ``None`` for not yet.
    """

    job: int
    rid: RequestId
    stage: str
    anchor: Name
    names: tuple[Name, ...]
    asked: Tokens
    held: tuple[PageNo, ...]
    hit: Pages | None
    completed: Pages
    live: bool
    since: float | None


class Moved(NamedTuple):
    """Contents to be copied: from a page of the tier ``source`` to a page of the other one."""

    source: str
    at: PageNo
    to: PageNo


class Hierarchy(NamedTuple):
    """One hierarchy at one moment.

    ``cache``: what is on the device, and the requests; ``setting``: what was asked for and declared, for it.
    ``transfers``, ``puts`` and ``operations`` are in order of submission.  ``release``: host pages that the next tick
    frees.  ``loaded``: what the prefetch of each request has added, until it is told.  ``storage``: whether one is
    attached.  ``now``: how late it is, in seconds.  ``serial``: how many jobs there were; their numbers are never used
    again.  ``moved``: the copies to make, in order; emptied by who has made them.  ``failing``: by kind of copy
    (backup, load, spill), how many more begin before one can't.
    """

    cache: State
    host: Host
    choices: Choices
    setting: Setting
    transfers: tuple[Transfer, ...] = ()
    puts: tuple[Put, ...] = ()
    operations: tuple[Operation, ...] = ()
    release: tuple[PageNo, ...] = ()
    loaded: Mapping[RequestId, Tokens] = {}
    storage: bool = False
    now: float = 0.0
    serial: int = 0
    moved: tuple[Moved, ...] = ()
    failing: Mapping[str, int] = {}

    @property
    def free(self) -> frozenset[PageNo]:
        """The free pages of the device."""
        return free_pages(self.cache, self.setting)


def empty_hierarchy(setting: Setting, choices: Choices) -> Hierarchy:
    """A hierarchy in which every page of both pools is free."""
    host = Host(empty_pool(setting.config.host_pages, setting.size, 0), {}, {})
    return Hierarchy(empty_state(), host, choices, setting)


def lock(now: Hierarchy, name: Name) -> Hierarchy:
    """Protect the path to a resident page; the root needs no protection."""
    return now._replace(cache=now.cache._replace(tree=effects.lock(now.cache.tree, name)))


def unlock(now: Hierarchy, name: Name) -> Hierarchy:
    """Give one protection of the path to this page back.

    Raises ``ValueError`` when it isn't protected.
    """
    page = now.cache.tree.pages.get(name)
    if page is not None and page.locks < 1:
        raise ValueError(f"page {name} is not locked", name)
    return now._replace(cache=now.cache._replace(tree=effects.lock(now.cache.tree, name, -1)))


def host_homes(now: Hierarchy) -> dict[PageNo, str]:
    """Where each page of the host is at home: ``free``, ``cached`` (a host copy) or ``moving`` (work under way).

    Raises ``ValueError`` when a page has two homes or none.
    """
    copies = [copy.page for copy in now.host.copies.values()]
    found = [*now.host.pool.free, *copies, *moving(now)]
    if len(found) != len(now.host.pool.usable) or set(found) != now.host.pool.usable:
        twice = sorted(page for page, count in Counter(found).items() if count > 1)
        lost = sorted(now.host.pool.usable.difference(found))
        raise ValueError(f"host pages without exactly one home: twice {twice}, lost {lost}", twice, lost)
    homes = dict.fromkeys(now.host.pool.free, FREE)
    return homes | dict.fromkeys(copies, "cached") | dict.fromkeys(moving(now), "moving")


def moving(now: Hierarchy) -> tuple[PageNo, ...]:
    """The host pages in the hands of work under way: held by prefetches, or waiting to be freed."""
    return (*[page for operation in now.operations for page in operation.held], *now.release)


def occupied(now: Hierarchy) -> Tokens:
    """What the prefetches that requests wait for count against the rate limit."""
    return Tokens(sum([operation.asked for operation in now.operations if operation.live]))


def pin(now: Hierarchy, names: Iterable[Name], by: int = 1) -> Hierarchy:
    """Protect the host copies of these pages once more (or once less) against eviction; roots need no protection.

    Raises ``ValueError`` when a protection is given back that there isn't.
    """
    copies = dict(now.host.copies)
    for name in names:
        copy = copies.get(name)
        if copy is not None:
            if copy.pins + by < 0:
                raise ValueError(f"page {name} is not pinned", name)
            copies[name] = copy._replace(pins=copy.pins + by)
    return now._replace(host=now.host._replace(copies=copies))


def begins(now: Hierarchy, kind: str) -> tuple[Hierarchy, bool]:
    """Whether a copy of this kind can begin now; what is to fail comes nearer."""
    left = now.failing.get(kind)
    if left is None:
        return now, True
    rest = {other: after for other, after in now.failing.items() if other != kind}
    return now._replace(failing={**rest, kind: left - 1} if left else rest), bool(left)
