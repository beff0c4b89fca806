"""Prefetches of several components, on the reference's cache of components.

Where several things would be right, one eviction takes as many entries as the prefetch needs of each component whose
pool is short, and what is not read is kept until the prefetch is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import cast

from kvlitmus.reference.prefix.components.tree import CALLS, Cache, evict, give, insert
from kvlitmus.spec.prefix.calls import Evict, Insert
from kvlitmus.spec.prefix.components.calls import Entries, JointCall, Reading, Reserved, Taken
from kvlitmus.spec.prefix.components.fetch import Origin, asked, fetched, least_length, reserved_length, restored
from kvlitmus.spec.prefix.components.state import (
    anchor_of,
    commit_brings,
    commit_end,
    fetch_whole,
    origin_of,
    pool_places,
    written,
)
from kvlitmus.spec.prefix.page import At, Place
from kvlitmus.spec.prefix.work import Fetch
from kvlitmus.spec.prefix.work_calls import Abandon, Commit, Fetched, Found, Prefetch
from kvlitmus.spec.words.layouts import Layout
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.shapes import fits, summed


def counts(cache: Cache) -> Mapping[str, int]:
    """How many places of each pool are free."""
    return {pool: len(free) for pool, free in cache.free.items()}


def prefetch(cache: Cache, setting: Setting, call: Prefetch[int]) -> tuple[Cache, Reserved]:
    """Protect the anchor, make room once, and reserve memory for all components, or for none."""
    layout = setting.layout
    anchor = anchor_of(layout, call.path, call.start)
    whole, least = fetch_whole(layout, call), least_length(layout, call.threshold)
    origin = origin_of(setting, call.start)
    if whole < least:
        return cache, Taken(None)
    guard = Fetch(call.path, call.start, 0, call.threshold, anchor, frozenset(), frozenset(), call.start)
    roomy, freed = make_room(cache._replace(fetches={**cache.fetches, call.rid: guard}), setting, origin, whole)
    length = reserved_length(layout, origin, whole, least, counts(roomy))
    if not length:
        return roomy._replace(fetches=cache.fetches), Taken(None, freed)
    free = dict(roomy.free)
    places: dict[str, tuple[int, ...]] = {}
    for need in asked(layout, origin, length):
        pool = need.component.pool
        places[need.component.name] = tuple(sorted(free[pool])[: need.entries])
        free[pool] -= frozenset(places[need.component.name])
    taken = frozenset(name for name, some in places.items() if some)
    fetch = guard._replace(length=length, reserved=pool_places(layout, places), taken=taken)
    return roomy._replace(free=free, fetches={**cache.fetches, call.rid: fetch}), Taken(places, freed)


def make_room(cache: Cache, setting: Setting, origin: Origin, length: int) -> tuple[Cache, Mapping[str, int]]:
    """Evict once, of each component whose pool is short as many entries as the prefetch needs."""
    needs, available = asked(setting.layout, origin, length), counts(cache)
    if fits(needs, available):
        return cache, {}
    small = {pool for pool, many in summed(needs).items() if many > available[pool]}
    wants = {need.component.name: need.entries for need in needs if need.component.pool in small}
    return evict(cache, setting, Evict(wants))


def found(cache: Cache, setting: Setting, call: Found) -> tuple[Cache, Reading]:
    """Read up to the largest boundary that all components can restore, each entry into the lowest place left."""
    fetch, layout = cache.fetches[call.rid], setting.layout
    least = least_length(layout, fetch.threshold)
    origin = origin_of(setting, fetch.start)
    boundary = restored(layout, origin, fetch.length, least, fetch.taken, call.stored)
    rest = {pool: sorted(place for at, place in fetch.reserved if at == pool) for pool in layout.places}
    reads: dict[str, dict[int, int]] = {}
    for one in layout.components:
        ends = fetched(one, origin, boundary) if one.name in fetch.taken else ()
        reads[one.name] = {end: rest[one.pool].pop(0) for end in ends}
    then = fetch._replace(boundary=boundary, reads=reads, answered=True, running=any(reads.values()))
    return cache._replace(fetches={**cache.fetches, call.rid: then}), Taken(reads, boundary=boundary)


def settled(cache: Cache, setting: Setting, call: Fetched) -> tuple[Cache, Entries]:
    """Of a prefetch that is over the rest is free now."""
    fetch = cache.fetches[call.rid]._replace(running=False)
    if not fetch.over:
        return cache._replace(fetches={**cache.fetches, call.rid: fetch}), {}
    return given_up(cache, setting, call.rid, fetch.reserved, fetch._replace(reserved=frozenset()))


def not_over(cache: Cache, number: int) -> Fetch:
    """A prefetch; raises ``ValueError`` for one that was committed or aborted (MISUSE-02)."""
    fetch = cache.fetches.get(number)
    if fetch is None or fetch.over:
        raise ValueError(f"prefetch {number} is over, or never began")
    return fetch


def commit(cache: Cache, setting: Setting, call: Commit) -> tuple[Cache, Reading]:
    """Fill what is missing with what came, and give the rest back that I/O does not write."""
    fetch = not_over(cache, call.rid)
    end = commit_end(setting, fetch, call.came)
    return landed(cache, setting, call, end, commit_brings(setting, fetch, call.came))


def landed(cache: Cache, setting: Setting, call: Commit, end: int, brought: Mapping[At, int]) -> tuple[Cache, Reading]:
    """A commit up to ``end`` has these entries for the cache, by where they belong."""
    fetch, layout = cache.fetches[call.rid], setting.layout
    then, left = insert(cache, setting, Insert(fetch.path, brought))
    kept = {(layout.named(at[0]).pool, place) for at, place in brought.items()} - pool_places(layout, left)
    busy = written(layout, fetch, call.came)
    over = fetch._replace(reserved=busy, anchor=frozenset(), over=True)
    then, returned = given_up(then, setting, call.rid, fetch.reserved - kept - busy, over)
    return then, Taken({}, boundary=end, returned=returned)


def abort(cache: Cache, setting: Setting, call: Abandon) -> tuple[Cache, Entries]:
    """Give everything back that I/O does not write."""
    fetch = not_over(cache, call.rid)
    busy = written(setting.layout, fetch, {})
    over = fetch._replace(reserved=busy, anchor=frozenset(), over=True)
    return given_up(cache, setting, call.rid, fetch.reserved - busy, over)


def given_up(
    cache: Cache, setting: Setting, number: int, places: Iterable[Place], fetch: Fetch
) -> tuple[Cache, Entries]:
    """These places of a prefetch are free; it is forgotten when its I/O has ended."""
    returned = by_component(setting.layout, places)
    then = give(cache, setting, [(name, one) for name, some in returned.items() for one in some])
    rest = {at: one for at, one in cache.fetches.items() if at != number}
    return then._replace(fetches={**rest, number: fetch} if fetch.running else rest), returned


def by_component(layout: Layout, places: Iterable[Place]) -> dict[str, tuple[int, ...]]:
    """Places of pools as entries of components; of several that share a pool the first one is named."""
    names: dict[str, str] = {}
    for one in layout.components:
        names.setdefault(one.pool, one.name)
    found: dict[str, tuple[int, ...]] = {}
    for pool, place in sorted(places):
        found[names[pool]] = (*found.get(names[pool], ()), place)
    return found


Perform = Callable[[Cache, Setting, object], tuple[Cache, object]]

FETCHES = {
    Prefetch: prefetch,
    Found: found,
    Fetched: settled,
    Commit: commit,
    Abandon: abort,
}
PERFORM = cast("Mapping[type, Perform]", {**CALLS, **FETCHES})
"""Of each call how it is performed."""


def perform(cache: Cache, setting: Setting, call: JointCall) -> tuple[Cache, object]:
    """The cache after a call, and the answer."""
    return PERFORM[type(call)](cache._replace(ticks=cache.ticks + 1), setting, call)
