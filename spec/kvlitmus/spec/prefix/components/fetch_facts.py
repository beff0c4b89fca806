"""The facts that rules of prefetches of several components speak of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from kvlitmus.spec.law.facts import UNKNOWN, Unknown, fact
from kvlitmus.spec.prefix.components.calls import Entries, Reading, Reserved, Taken
from kvlitmus.spec.prefix.components.fetch import asked, fetched, least_length, reserved_length, restored
from kvlitmus.spec.prefix.components.state import commit_end, held_by, origin_of, pool_places
from kvlitmus.spec.prefix.components.tree_facts import fetchable_whole, pools_of
from kvlitmus.spec.prefix.listener import DEVICE
from kvlitmus.spec.prefix.page import Place
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work import Fetch
from kvlitmus.spec.prefix.work_calls import Abandon, Commit, Fetched, Found, Prefetch
from kvlitmus.spec.words.layouts import Layout
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.shapes import step_of, summed

FetchCall = Found | Commit | Abandon | Fetched
"""The calls on a prefetch that is under way."""


# What is reserved


@fact(0)
def component_fetch_full(layout: Layout, state: State, call: Prefetch[int]) -> int:
    """How many units in whole steps the key has behind the anchor; none that could be fetched while storage is away."""
    return fetchable_whole(layout, state, call)


@fact(0)
def component_fetch_least(layout: Layout, call: Prefetch[int]) -> int:
    """With how many units a prefetch is worth it: the threshold, and one step at least."""
    return least_length(layout, call.threshold)


@fact(0)
def component_fetch_step(layout: Layout) -> int:
    """How far apart boundaries are, in units."""
    return step_of(layout.components)


@fact(0)
def component_fetch_length(layout: Layout, answer: Reserved) -> int:
    """For how many units the prefetch reserved KV; 0: it was refused."""
    return len((answer.places or {}).get(layout.base.name, ())) * layout.base.unit


@fact(0)
def component_fetch_reserved(answer: Reserved) -> Mapping[str, int]:
    """How many places the prefetch reserved, by component."""
    return {name: len(some) for name, some in (answer.places or {}).items()}


@fact(0)
def component_fetch_needs(
    setting: Setting, layout: Layout, call: Prefetch[int], component_fetch_length: int
) -> Mapping[str, int]:
    """How many places a prefetch of this length needs, by component."""
    needs = asked(layout, origin_of(setting, call.start), component_fetch_length)
    return {need.component.name: need.entries for need in needs}


@fact(1, ports=("component_counters",))
def component_fetch_room(
    layout: Layout, state: State, component_freed: Mapping[str, int]
) -> Mapping[str, int] | Unknown:
    """The free places of each pool when the prefetch reserved its own: those before the call, and what was evicted for it."""
    if DEVICE not in state.free:
        return UNKNOWN
    freed = pools_of(layout, component_freed)
    return {pool: many + freed[pool] for pool, many in state.free[DEVICE].items()}


@fact(1, ports=("component_counters",))
def component_fetch_length_due(
    setting: Setting,
    layout: Layout,
    call: Prefetch[int],
    component_fetch_full: int,
    component_fetch_least: int,
    component_fetch_room: Mapping[str, int],
) -> int:
    """For how many units there is memory, of all components; 0: the prefetch is to be refused, as while storage is away."""
    origin = origin_of(setting, call.start)
    return reserved_length(layout, origin, component_fetch_full, component_fetch_least, component_fetch_room)


@fact(1, ports=("component_counters",))
def component_fetch_spared(
    layout: Layout,
    state: State,
    call: Prefetch[int],
    setting: Setting,
    component_fetch_full: int,
    component_fetch_least: int,
    component_fetch_length: int,
    component_fetch_room: Mapping[str, int],
) -> Sequence[str]:
    """The pools that were too small for the prefetch though one eviction could have made room in them for a longer one.

    Who sees beforehand that it would not be enough needn't evict for nothing: room that makes the prefetch no longer is not
    missed, nor is any that leaves it refused, as where a longer one needs a window for which there is no room.
    """
    if component_fetch_length == component_fetch_full:
        return []
    origin = origin_of(setting, call.start)
    full = asked(layout, origin, component_fetch_full)
    anchor = held_by(setting, call.path, call.start)
    counts = Counter(name for name, _ in state.certain(DEVICE) - state.needed(DEVICE) - anchor)
    possible = Counter(name for name, _ in state.places(DEVICE).keys() - state.covered(DEVICE))
    could = dict(state.free.get(DEVICE, {}))
    base, unsure = layout.base.pool, 0
    for need in full:
        least = min(need.entries, counts[need.component.name])
        could[need.component.pool] += least
        if need.component.pool == base:
            unsure += max(0, min(need.entries, possible[need.component.name]) - least)
    ample = {pool: max(many, component_fetch_room[pool]) for pool, many in could.items()}
    # With more room for KV a prefetch may be refused, where a longer one needs a window: what may be cached counts, too.
    rooms = ({**ample, base: ample[base] + more} for more in range(unsure + 1))
    due = min(reserved_length(layout, origin, component_fetch_full, component_fetch_least, room) for room in rooms)
    if due <= component_fetch_length:
        return []
    pools = {layout.base.pool} if component_fetch_length else set(ample)
    needs = summed(asked(layout, origin, due))
    return [pool for pool in needs if pool in pools and component_fetch_room[pool] < needs[pool]]


# What prefetches have


@fact(0)
def component_fetch(state: State, call: FetchCall) -> Fetch:
    """The prefetch as it was before the call."""
    return state.fetches[call.rid]


@fact(0)
def component_fetch_returned(answer: Reading | Entries) -> Entries:
    """The places that the prefetch gave back, by component."""
    return answer.returned if isinstance(answer, Taken) else answer


# What is read


@fact(0)
def component_fetch_boundary_due(setting: Setting, layout: Layout, component_fetch: Fetch, call: Found) -> int:
    """The largest boundary that all components can restore for which the prefetch has memory."""
    least = least_length(layout, component_fetch.threshold)
    origin, taken = origin_of(setting, component_fetch.start), component_fetch.taken
    return restored(layout, origin, component_fetch.length, least, taken, call.stored)


@fact(0)
def component_fetch_reads(answer: Reading) -> Mapping[str, Mapping[int, int]]:
    """What is read: of each component where the entries end, and into which places."""
    return answer.places or {}


@fact(0)
def component_fetch_reads_due(
    setting: Setting, layout: Layout, component_fetch: Fetch, component_boundary: int
) -> Mapping[str, Sequence[int]]:
    """Where the entries end, by component, that the boundary needs of what the prefetch has memory for.

    A boundary beyond the key needs no more than the key has.
    """
    most, origin = len(component_fetch.path.names), origin_of(setting, component_fetch.start)
    return {
        one.name: tuple(fetched(one, origin, min(component_boundary, most)))
        if one.name in component_fetch.taken
        else ()
        for one in layout.components
    }


@fact(0)
def component_fetch_strangers(
    layout: Layout,
    component_fetch: Fetch,
    component_fetch_reads: Mapping[str, Mapping[int, int]],
    component_fetch_returned: Entries,
) -> Collection[Place]:
    """The places that are read into though the prefetch doesn't have them, gives them back, or reads into them twice."""
    reads = [(layout.named(name).pool, one) for name, some in component_fetch_reads.items() for one in some.values()]
    mine = component_fetch.reserved - pool_places(layout, component_fetch_returned)
    return [place for place in reads if place not in mine or reads.count(place) > 1]


# What is committed and given back


@fact(0)
def component_fetch_end_due(setting: Setting, component_fetch: Fetch, call: Commit) -> int:
    """Before the first entry that didn't come, of the KV or of what is derived from it; nowhere, where all is dropped then."""
    return commit_end(setting, component_fetch, call.came)
