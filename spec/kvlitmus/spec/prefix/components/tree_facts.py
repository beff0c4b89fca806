"""The facts that rules of components speak of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import cast

from kvlitmus.spec.law.facts import UNKNOWN, Unknown, fact
from kvlitmus.spec.prefix.calls import Begin, End, Evict, Grow, Insert, Lock, Reset
from kvlitmus.spec.prefix.components.advance import known_after
from kvlitmus.spec.prefix.components.calls import Brought, Counts, Entries, Holding, JointCall, PoolsSeen, Taken
from kvlitmus.spec.prefix.components.copies import copy_plans, copy_wants, short_pools
from kvlitmus.spec.prefix.components.evictions import freed_most, rightly_gone, taken_for
from kvlitmus.spec.prefix.components.fetch import asked, least_length
from kvlitmus.spec.prefix.components.state import (
    commit_brings,
    copied_to,
    fresh_places,
    loose_on,
    needed_ends,
    origin_of,
    path_to,
    places_of,
    refilled,
    stored_by,
    tier_of,
)
from kvlitmus.spec.prefix.listener import DEVICE, HOST
from kvlitmus.spec.prefix.page import At, Place, Stored
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work_calls import (
    Abandon,
    BackUp,
    Commit,
    Copied,
    Detach,
    EvictHost,
    Fetched,
    LoadBack,
    Prefetch,
)
from kvlitmus.spec.words.layouts import Layout
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.shapes import Chunk, Window, step_of


@fact(0)
def layout(setting: Setting) -> Layout:
    """The components that the cache is asked to keep, and the places of their pools."""
    return setting.layout


@fact(0)
def window_root(setting: Setting) -> str:
    """The window's meaning near the root, as the profile declares it."""
    return setting.profile.window_root


@fact(0)
def component_known(setting: Setting, state: State, call: JointCall, answer: object, pools: PoolsSeen) -> State:
    """What is known of the cache after the call, by calls and answers, and by a snapshot where there is one."""
    return known_after(state, setting, call, answer, pools)


# Pools


def pools_of(layout: Layout, counts: Mapping[str, int]) -> Counter[str]:
    """Counts of entries by component as counts of places by pool."""
    found: Counter[str] = Counter()
    for name, many in counts.items():
        found[layout.named(name).pool] += many
    return found


def given_back(call: JointCall, answer: object) -> Entries:
    """The places that a prefetch or a copy gave back in this call, or several did when storage went away, by component."""
    if isinstance(answer, Taken):
        return answer.returned
    gives = isinstance(call, Abandon | Fetched | Detach | Copied)
    return cast("Entries", answer) if gives else {}


# Work


@fact(0)
def component_boundary(answer: Taken[object]) -> int:
    """The boundary that a copy is for, up to which a prefetch reads, or where the KV ends that it has cached."""
    return answer.boundary


# Locks


@fact(0)
def component_cover(answer: Mapping[str, Sequence[int]]) -> Mapping[str, Collection[int]]:
    """The ends of the entries that the receipt covers, by component."""
    return {name: frozenset(ends) for name, ends in answer.items()}


@fact(0)
def component_cover_due(
    setting: Setting, layout: Layout, window_root: str, call: Lock
) -> Mapping[str, Collection[int]]:
    """The ends of the entries that the locked boundary needs, by component."""
    path = path_to(setting, call.at)
    return {one.name: frozenset(needed_ends(path, one, len(path.names), window_root)) for one in layout.components}


@fact(0)
def component_cover_beyond(
    setting: Setting,
    layout: Layout,
    state: State,
    component_cover: Mapping[str, Collection[int]],
    component_cover_due: Mapping[str, Collection[int]],
) -> Mapping[str, Collection[int]]:
    """The ends that the receipt covers though neither its boundary needs them nor, by node, an entry that it needs is of their node."""
    beyond = {name: set(ends) - set(component_cover_due.get(name, ())) for name, ends in component_cover.items()}
    if setting.profile.evict_granularity == "node":
        for one in layout.components:
            due = component_cover_due.get(one.name, ())
            if isinstance(one.shape, Window | Chunk) and due:
                more = state.longest - 1 if len(beyond.get(one.name, ())) < state.longest else 0
                beyond[one.name] = beyond.get(one.name, set()) - {
                    min(due) - back * one.unit for back in range(1, 1 + more)
                }
    return {name: ends for name, ends in beyond.items() if ends}


# Evictions


@fact(0)
def component_asked(call: Evict[Counts] | EvictHost[Counts]) -> Mapping[str, int]:
    """How many entries of each component are to be freed."""
    return call.asked


@fact(0)
def component_freed(answer: Taken[object] | Mapping[str, int]) -> Mapping[str, int]:
    """How many entries of each component were evicted."""
    return answer.freed if isinstance(answer, Taken) else answer


@fact(0)
def component_evictable(
    setting: Setting, layout: Layout, state: State, call: Evict[Counts] | EvictHost[Counts]
) -> Mapping[str, int]:
    """How many entries of each component are certainly on the tier, and may not be spared."""
    counts = Counter(name for name, _ in loose_on(setting, state, tier_of(state, call)))
    return {one.name: counts[one.name] for one in layout.components}


@fact(0)
def component_freed_most(
    setting: Setting, layout: Layout, state: State, call: JointCall, answer: object
) -> Mapping[str, int] | Unknown:
    """How many entries of each component the call may evict from its tier, as the profile says what goes with what.

    An eviction as many as it is asked for, as far as nothing protects them for certain.  Others none of pools that have room,
    else one eviction of what they need: a prefetch below its threshold, or while storage is away, nothing, a backup by its path so much for each boundary.
    """
    tier, wants, times = tier_of(state, call), _evicted_for(setting, state, call, answer), 1
    if isinstance(call, Evict | EvictHost):
        loose = Counter(name for name, _ in frozenset(state.places(tier)).difference(*state.holds(tier)))
        return {name: min(many, loose[name]) for name, many in freed_most(setting, layout, state, wants).items()}
    if isinstance(call, Prefetch) and fetchable_whole(layout, state, call) < least_length(layout, call.threshold):
        return freed_most(setting, layout, state, {})
    available = state.free.get(tier)
    if available is None:
        return UNKNOWN
    short = short_pools(layout, wants, available)
    wants = {name: many for name, many in wants.items() if layout.named(name).pool in short}
    if isinstance(call, BackUp) and setting.profile.component_extent == "path":
        times = max(1, call.length // step_of(layout.components))
    return freed_most(setting, layout, state, wants, times)


# Snapshots


def cached_now(component_held: Mapping[At, int], after: PoolsSeen) -> frozenset[Stored]:
    """Everything that is cached after a call, with its places."""
    return frozenset(component_held.items()) | after.copies


def of_request(
    setting: Setting, state: State, call: Begin | Grow | End, answer: object, pools: PoolsSeen
) -> frozenset[Stored]:
    """The whole entries that the request of a call holds: after it, or before it ends."""
    then = state if isinstance(call, End) else known_after(state, setting, call, answer, pools)
    return stored_by(then.requests[call.rid]) if call.rid in then.requests else frozenset()


def fresh_of(layout: Layout, state: State, call: Begin | Grow | End, answer: object) -> Sequence[Place]:
    """The places that a request got by a call."""
    if not isinstance(answer, Holding):
        return ()
    before = state.requests[call.rid].held if isinstance(call, Grow) else {}
    return fresh_places(layout, before, answer)


def _spare(
    layout: Layout, state: State, call: Begin | Grow | End, answer: object, free: Mapping[str, Sequence[int]]
) -> Counter[str]:
    """The places of each pool that are free after a call of a request, without those that it gave back."""
    left = {(pool, place) for pool, places in free.items() for place in places}
    if call.rid in state.requests and isinstance(answer, Holding):
        left -= places_of(layout, state.requests[call.rid].held) - places_of(layout, answer.held)
    return Counter(pool for pool, _ in left)


@fact(3, ports=("component_view",))
def component_held(pools: PoolsSeen) -> Mapping[At, int] | Unknown:
    """Every cached entry, by where it belongs."""
    return UNKNOWN if pools.held is None else pools.held


def on_tiers(after: PoolsSeen) -> Iterator[tuple[str, Mapping[At, int]]]:
    """What is cached on each tier that was looked at."""
    if after.held is not None:
        yield DEVICE, after.held
    if after.host_held is not None:
        yield HOST, after.host_held


def told_of(tier: str, entries: Iterable[At]) -> list[At]:
    """Entries for a reader, who is told which of them are on the host."""
    return [(f"{name} on the host", at) for name, at in entries] if tier == HOST else list(entries)


@fact(3, ports=("component_view",))
def component_appeared(
    setting: Setting,
    state: State,
    call: JointCall,
    answer: object,
    pools: PoolsSeen,
    component_held: Mapping[At, int],
) -> Collection[At] | Unknown:
    """What came to a tier, or to another place there, though the call did not bring it there."""
    if isinstance(call, Begin | Grow | End):
        own = of_request(setting, state, call, answer, pools)
        return [at for at, _ in cached_now(component_held, pools) - state.stored - own]
    return [
        one
        for tier, held in on_tiers(pools)
        for one in told_of(tier, _appeared(setting, state, call, answer, tier, held))
    ]


def _appeared(
    setting: Setting, state: State, call: JointCall, answer: object, tier: str, held: Mapping[At, int]
) -> list[At]:
    there = state.places(tier)
    if held == there:
        return []
    brought: Mapping[At, int] = _brought(setting, state, call, answer) if tier_of(state, call) == tier else {}
    new = frozenset[At]()
    if isinstance(call, Insert):
        new = refilled(state, setting, call, brought.keys() - there.keys())
    return [
        at
        for at, entry in held.items()
        if there.get(at) != entry and (brought.get(at) != entry or (at in there and at not in new))
    ]


def _brought(setting: Setting, state: State, call: JointCall, answer: object) -> Mapping[At, int]:
    """What a call brings to its tier, and where."""
    if isinstance(call, Insert):
        brought: Brought = call.slots
        return brought
    if isinstance(call, Commit):
        return commit_brings(setting, state.fetches[call.rid], call.came)
    if isinstance(call, Copied) and call.ok:
        return state.under_way[call.number].places
    if isinstance(call, LoadBack | BackUp) and setting.profile.component_landing == "begun":
        assert isinstance(answer, Taken)
        return copied_to(call.path, answer)
    return {}


@fact(3, ports=("component_view",))
def component_vanished(
    setting: Setting,
    layout: Layout,
    state: State,
    call: JointCall,
    answer: object,
    pools: PoolsSeen,
    component_held: Mapping[At, int],
) -> Collection[At]:
    """What left a tier though the call may not take it: anything but by an eviction there that may take it, or a reset.

    An eviction for a prefetch or a copy may take what it needs memory for.  A request that gets places may evict what was in
    them, and what goes with that, until it has them.
    """
    if isinstance(call, Begin | Grow | End):
        lost = state.stored - cached_now(component_held, pools)
        fresh, spare = frozenset(fresh_of(layout, state, call, answer)), _spare(layout, state, call, answer, pools.free)
        return [at for at, _ in lost - taken_for(setting, state, lost, fresh, spare)]
    if isinstance(call, Reset):
        return []
    found = []
    for tier, held in on_tiers(pools):
        gone = [at for at in state.certain(tier) if at not in held]
        if gone:
            wants = _evicted_for(setting, state, call, answer) if tier_of(state, call) == tier else {}
            right = rightly_gone(setting, layout, state, wants, gone)
            found += told_of(tier, [at for at in gone if at not in right])
    return found


def _evicted_for(setting: Setting, state: State, call: JointCall, answer: object) -> Mapping[str, int]:
    """How many entries of each component a call may evict from its tier."""
    if isinstance(call, Evict | EvictHost):
        wants: Counts = call.asked
        return wants
    if isinstance(call, Prefetch):
        needs = asked(setting.layout, origin_of(setting, call.start), fetch_whole(setting.layout, call))
        return {need.component.name: need.entries for need in needs}
    if isinstance(call, LoadBack | BackUp):
        assert isinstance(answer, Taken)
        return copy_wants(copy_plans(setting, state, call, answer))
    return {}


def fetchable_whole(layout: Layout, state: State, call: Prefetch[int]) -> int:
    """How many units in whole steps a prefetch may reserve at most: all behind its anchor, and none while storage is away."""
    return 0 if state.attached is False else fetch_whole(layout, call)


def fetch_whole(layout: Layout, call: Prefetch[int]) -> int:
    """How many units in whole steps the key has behind the anchor of a prefetch."""
    length = len(call.path.names) - call.start
    return length - length % step_of(layout.components)


@fact(3, ports=("component_view",))
def component_orphans(setting: Setting, layout: Layout, pools: PoolsSeen) -> Collection[At] | Unknown:
    """Entries of other components on a tier where the KV of their prefixes isn't, where the profile says that they go with it."""
    if pools.held is None:
        return UNKNOWN
    if setting.profile.component_cascade == "none":
        return []
    base = layout.base.name
    return [
        one
        for tier, held in on_tiers(pools)
        for one in told_of(tier, [(name, at) for name, at in held if name != base and (base, at) not in held])
    ]
