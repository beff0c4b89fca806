"""Prefetches of several components, on the reference's cache of components.

Where several things would be right, one eviction takes as many entries as the prefetch needs of each component whose
pool is short, and what is not read is kept until the prefetch is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kvlitmus.reference.prefix.components.tree import filled, folded, free_places, lowest, make_room
from kvlitmus.spec.prefix.components.advance import over
from kvlitmus.spec.prefix.components.calls import Entries, Reading, Reserved, Taken
from kvlitmus.spec.prefix.components.fetch import asked, fetched, least_length, reserved_length, restored
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
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work import Fetch
from kvlitmus.spec.prefix.work_calls import Abandon, Commit, Fetched, Found, Prefetch
from kvlitmus.spec.words.layouts import Layout
from kvlitmus.spec.words.setting import Setting


def prefetch(state: State, setting: Setting, call: Prefetch[int]) -> tuple[State, Reserved]:
    """Protect the anchor, make room once, and reserve memory for all components, or for none.

    Nothing is fetched while storage is away.
    """
    layout, origin = setting.layout, origin_of(setting, call.start)
    whole, least = fetch_whole(layout, call), least_length(layout, call.threshold)
    if whole < least or state.attached is False:
        return state, Taken(None)
    anchor = anchor_of(layout, call.path, call.start)
    guard = Fetch(call.path, call.start, 0, call.threshold, anchor, frozenset(), frozenset(), call.start)
    wants = {need.component.name: need.entries for need in asked(layout, origin, whole)}
    roomy, freed = make_room(state._replace(fetches={**state.fetches, call.rid: guard}), setting, wants)
    roomy = roomy._replace(fetches=state.fetches)
    available = {pool: len(some) for pool, some in free_places(roomy, setting).items()}
    length = reserved_length(layout, origin, whole, least, available)
    if not length:
        return roomy, Taken(None, freed)
    needs = {need.component.name: need.entries for need in asked(layout, origin, length)}
    answer = Taken(lowest(roomy, setting, needs), freed)
    return folded(roomy, setting, call, answer), answer


def found(state: State, setting: Setting, call: Found) -> tuple[State, Reading]:
    """Read up to the largest boundary that all components can restore, each entry into the lowest place left."""
    fetch, layout = state.fetches[call.rid], setting.layout
    least = least_length(layout, fetch.threshold)
    origin = origin_of(setting, fetch.start)
    boundary = restored(layout, origin, fetch.length, least, fetch.taken, call.stored)
    rest = {pool: sorted(place for at, place in fetch.reserved if at == pool) for pool in layout.places}
    reads: dict[str, dict[int, int]] = {}
    for one in layout.components:
        ends = fetched(one, origin, boundary) if one.name in fetch.taken else ()
        reads[one.name] = {end: rest[one.pool].pop(0) for end in ends}
    answer = Taken(reads, boundary=boundary)
    return folded(state, setting, call, answer), answer


def settled(state: State, setting: Setting, call: Fetched) -> tuple[State, Entries]:
    """Of a prefetch that is over the rest is free now."""
    fetch = state.fetches[call.rid]
    returned = by_component(setting.layout, fetch.reserved if fetch.over else ())
    return folded(state, setting, call, returned), returned


def not_over(state: State, number: int) -> Fetch:
    """A prefetch; raises ``ValueError`` for one that was committed or aborted (MISUSE-02)."""
    fetch = state.fetches.get(number)
    if fetch is None or fetch.over:
        raise ValueError(f"prefetch {number} is over, or never began")
    return fetch


def commit(state: State, setting: Setting, call: Commit) -> tuple[State, Reading]:
    """Fill what is missing with what came, and give the rest back that I/O does not write."""
    fetch = not_over(state, call.rid)
    end = commit_end(setting, fetch, call.came)
    return landed(state, setting, call, end, commit_brings(setting, fetch, call.came))


def landed(state: State, setting: Setting, call: Commit, end: int, brought: Mapping[At, int]) -> tuple[State, Reading]:
    """A commit up to ``end`` has these entries for the cache, by where they belong."""
    fetch, layout = state.fetches[call.rid], setting.layout
    then, left = filled(state, setting, brought)
    kept = {(layout.named(at[0]).pool, place) for at, place in brought.items()} - pool_places(layout, left)
    returned = by_component(layout, fetch.reserved - kept - written(layout, fetch, call.came))
    return over(then, setting, call.rid, call.came), Taken({}, boundary=end, returned=returned)


def abort(state: State, setting: Setting, call: Abandon) -> tuple[State, Entries]:
    """Give everything back that I/O does not write."""
    fetch = not_over(state, call.rid)
    returned = by_component(setting.layout, fetch.reserved - written(setting.layout, fetch, {}))
    return folded(state, setting, call, returned), returned


def by_component(layout: Layout, places: Iterable[Place]) -> dict[str, tuple[int, ...]]:
    """Places of pools as entries of components; of several that share a pool the first one is named."""
    names: dict[str, str] = {}
    for one in layout.components:
        names.setdefault(one.pool, one.name)
    found: dict[str, tuple[int, ...]] = {}
    for pool, place in sorted(places):
        found[names[pool]] = (*found.get(names[pool], ()), place)
    return found


FETCHES = {
    Prefetch: prefetch,
    Found: found,
    Fetched: settled,
    Commit: commit,
    Abandon: abort,
}
"""How these calls are performed."""
