"""Components: what a cache owes that keeps several kinds of state for a prefix.

A prefix is of use only as far as **every** component has what it needs there.  A cache that reports more lets a model
read what nobody wrote; one that reports less computes again what it has.  So a hit ends at the largest admitted
boundary that is valid for all components (TREE-02), and names exactly the entries that this boundary needs
(TREE-03).

Memory is granted for all components at once or for none (POOL-01, POOL-07, POOL-08).  An insert fills what is missing,
**tombstones** (prefixes whose KV is cached while another component's entry is gone) included, and leaves the rest to the
caller (TREE-08, TREE-09, TREE-11).  A receipt says of each component which entries it covers, and covers what its boundary needs
(COMP-10).  Components are evicted one by one; what goes with what is a choice of the profile (COMP-12, COMP-13).

What each pool of each tier owes as a plain cache, the rules of plain caches say (:mod:`~kvlitmus.spec.prefix.components.plain`):
that what is granted is nobody's, that a place has one home, that what is protected stays, that KV is closed towards the
root.  What is left is what several components owe together, on the device as on the host: COMP-15, COMP-16 and COMP-19, of
snapshots.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial

from kvlitmus.spec.law.actions import calls_on
from kvlitmus.spec.law.facts import UNKNOWN, Unknown, fact
from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import rule
from kvlitmus.spec.prefix.calls import Begin, End, Evict, Grow, Insert, Lock, Reset
from kvlitmus.spec.prefix.components.calls import Counts, Holding, JointCall, PoolsSeen, Taken
from kvlitmus.spec.prefix.components.copies import copy_plans, copy_wants, short_pools
from kvlitmus.spec.prefix.components.evictions import freed_most, rightly_gone, taken_for
from kvlitmus.spec.prefix.components.fetch import asked, least_length
from kvlitmus.spec.prefix.components.state import (
    brought_by,
    fetch_whole,
    fresh_of,
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
from kvlitmus.spec.prefix.page import At, Stored
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work_calls import (
    BackUp,
    EvictHost,
    LoadBack,
    Prefetch,
)
from kvlitmus.spec.words.layouts import Layout
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.shapes import Chunk, Window, step_of

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
def component_cover_due(setting: Setting, call: Lock) -> Mapping[str, Collection[int]]:
    """The ends of the entries that the locked boundary needs, by component."""
    path = path_to(setting, call.at)
    return {
        one.name: frozenset(needed_ends(path, one, len(path.names), setting.profile.window_root))
        for one in setting.layout.components
    }


@fact(0)
def component_cover_beyond(
    setting: Setting,
    state: State,
    component_cover: Mapping[str, Collection[int]],
    component_cover_due: Mapping[str, Collection[int]],
) -> Mapping[str, Collection[int]]:
    """The ends that the receipt covers though neither its boundary needs them nor, by node, an entry that it needs is of their node."""
    beyond = {name: set(ends) - set(component_cover_due.get(name, ())) for name, ends in component_cover.items()}
    if setting.profile.evict_granularity == "node":
        for one in setting.layout.components:
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
def component_evictable(setting: Setting, state: State, call: Evict[Counts] | EvictHost[Counts]) -> Mapping[str, int]:
    """How many entries of each component are certainly on the tier, and may not be spared."""
    counts = Counter(name for name, _ in loose_on(setting, state, tier_of(state, call)))
    return {one.name: counts[one.name] for one in setting.layout.components}


@fact(0)
def component_freed_most(
    setting: Setting, state: State, call: JointCall, answer: object
) -> Mapping[str, int] | Unknown:
    """How many entries of each component the call may evict from its tier, as the profile says what goes with what.

    An eviction as many as it is asked for, as far as nothing protects them for certain.  Others none of pools that have room,
    else one eviction of what they need: a prefetch below its threshold, or while storage is away, nothing, a backup by its path so much for each boundary.
    """
    tier, wants, times = tier_of(state, call), _evicted_for(setting, state, call, answer), 1
    if isinstance(call, Evict | EvictHost):
        loose = Counter(name for name, _ in frozenset(state.places(tier)).difference(*state.holds(tier)))
        return {name: min(many, loose[name]) for name, many in freed_most(setting, state, wants).items()}
    if isinstance(call, Prefetch) and fetchable_whole(setting.layout, state, call) < least_length(
        setting.layout, call.threshold
    ):
        return freed_most(setting, state, {})
    available = state.free.get(tier)
    if available is None:
        return UNKNOWN
    short = short_pools(setting.layout, wants, available)
    wants = {name: many for name, many in wants.items() if setting.layout.named(name).pool in short}
    if isinstance(call, BackUp) and setting.profile.component_extent == "path":
        times = max(1, call.length // step_of(setting.layout.components))
    return freed_most(setting, state, wants, times)


# Snapshots


def cached_now(component_held: Mapping[At, int], after: PoolsSeen) -> frozenset[Stored]:
    """Everything that is cached after a call, with its places."""
    return frozenset(component_held.items()) | after.copies


def of_request(state: State, then: State, call: Begin | Grow | End) -> frozenset[Stored]:
    """The whole entries that the request of a call holds: after it, or before it ends."""
    one = (state if isinstance(call, End) else then).requests.get(call.rid)
    return frozenset() if one is None else stored_by(one)


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
    component_known: State,
) -> Collection[At] | Unknown:
    """What came to a tier, or to another place there, though the call did not bring it there."""
    if isinstance(call, Begin | Grow | End):
        own = of_request(state, component_known, call)
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
    brought: Mapping[At, int] = brought_by(setting, state, call, answer) if tier_of(state, call) == tier else {}
    new = frozenset[At]()
    if isinstance(call, Insert):
        new = refilled(state, setting, call, brought.keys() - there.keys())
    return [
        at
        for at, entry in held.items()
        if there.get(at) != entry and (brought.get(at) != entry or (at in there and at not in new))
    ]


@fact(3, ports=("component_view",))
def component_vanished(
    setting: Setting,
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
        fresh, spare = (
            frozenset(fresh_of(setting.layout, state, call, answer)),
            _spare(setting.layout, state, call, answer, pools.free),
        )
        return [at for at, _ in lost - taken_for(setting, state, lost, fresh, spare)]
    if isinstance(call, Reset):
        return []
    found = []
    for tier, held in on_tiers(pools):
        gone = [at for at in state.certain(tier) if at not in held]
        if gone:
            wants = _evicted_for(setting, state, call, answer) if tier_of(state, call) == tier else {}
            right = rightly_gone(setting, state, wants, gone)
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


@fact(3, ports=("component_view",))
def component_orphans(setting: Setting, pools: PoolsSeen) -> Collection[At] | Unknown:
    """Entries of other components on a tier where the KV of their prefixes isn't, where the profile says that they go with it."""
    if pools.held is None:
        return UNKNOWN
    if setting.profile.component_cascade == "none":
        return []
    base = setting.layout.base.name
    return [
        one
        for tier, held in on_tiers(pools)
        for one in told_of(tier, [(name, at) for name, at in held if name != base and (base, at) not in held])
    ]


# Rules

LOOKED_AT = ("component_view",)
EVERY = calls_on("component")
"""All calls on a cache of components."""

GRANTED = (On.COMPONENT_START, On.COMPONENT_GROW)
"""A request gets what it asks for."""

REFUSED = (On.REFUSED_COMPONENT_START, On.REFUSED_COMPONENT_GROW)
"""It does not."""

CALLS = tuple([one for one in EVERY if one not in (*GRANTED, *REFUSED, On.COMPONENT_FINISH)])
"""All of them but those of requests."""

look_rule = partial(rule, on=EVERY, needs=LOOKED_AT)


@rule(
    "COMP-10",
    on=On.COMPONENT_LOCK,
    source="R-SWA-01, R-MA-01, R-LK-07; design; sglang#28161",
    reference="prefix.components.tree.lock",
    allowed="at least {component_cover_due}, and nothing of {component_cover_beyond}",
)
def a_receipt_covers_what_its_boundary_needs(
    component_cover: Mapping[str, Collection[int]],
    component_cover_due: Mapping[str, Collection[int]],
    component_cover_beyond: Mapping[str, Collection[int]],
) -> bool:
    """A receipt MUST cover, of every component, exactly the entries that the locked boundary needs: what a window has left
    behind can be evicted while the path is locked. By node it may cover the rest of a node of which the boundary needs
    something.
    """
    covered = all(set(due) <= set(component_cover.get(name, ())) for name, due in component_cover_due.items())
    return covered and not component_cover_beyond


# EVICT-01 and EVICT-21 count what may be spared, and pools that several components share, as untold.
@rule(
    "COMP-12",
    on=(On.COMPONENT_EVICT, On.COMPONENT_EVICT_HOST),
    source="R-MA-03; design",
    reference="prefix.components.tree.evict",
    allowed="of each component what was asked for, as far as {component_evictable} are there unprotected",
)
def an_eviction_frees_what_is_asked_for(
    component_asked: Mapping[str, int],
    component_freed: Mapping[str, int],
    component_evictable: Mapping[str, int],
) -> bool:
    """An eviction MUST free of each component as many entries as were asked for, or all that are on the tier and that no
    receipt, prefetch, copy or write may protect. From the host it may spare, by the profile, what the device has too.
    """
    return all(
        component_freed.get(name, 0) >= min(many, component_evictable.get(name, 0))
        for name, many in component_asked.items()
    )


# EVICT-06 and EVICT-21 know nothing that goes with an entry of another component.
@rule(
    "COMP-13",
    on=(
        *(On.COMPONENT_EVICT, On.COMPONENT_EVICT_HOST, On.COMPONENT_PREFETCH, On.REFUSED_COMPONENT_PREFETCH),
        *(On.COMPONENT_BACK_UP, On.REFUSED_COMPONENT_BACK_UP, On.COMPONENT_LOAD, On.REFUSED_COMPONENT_LOAD),
    ),
    source="R-MA-03, R-EV-08, R-SWA-02, R-SC-02; sglang#26945",
    reference="prefix.components.tree.evict",
    allowed="no more than {component_freed_most}",
)
def no_more_is_evicted_than_is_asked_for(
    component_freed: Mapping[str, int], component_freed_most: Mapping[str, int]
) -> bool:
    """A call MUST NOT evict more of a component than it asks for and than is unprotected, or than it needs of a pool without room for that: there is no second eviction.
    A prefetch below its threshold, or while storage is away, needs nothing, and a backup by its path may evict for each boundary on it. What goes
    with an entry of another component by the profile comes on top; by node that is the rest of a node.
    """
    return all(freed <= component_freed_most.get(name, 0) for name, freed in component_freed.items())


# FRAME-01 has no call where a request gives back what its window has left behind.
@look_rule(
    "COMP-15",
    source="R-SWA-04, R-MA-02, R-MA-06, R-WB-05",
    reference="prefix.components.tree.insert",
    allowed="only what an insert, a commit, a copy or a request brings, where it brings it",
)
def entries_appear_only_as_they_are_brought(component_appeared: Collection[At]) -> bool:
    """An entry MUST come to a tier only by an insert, a commit or a copy that brings it there for that very prefix, or by
    a request that holds it for that. A copy has landed by then, or begun where the profile says that this counts. An
    entry MUST NOT move.
    """
    return not component_appeared


# FRAME-01 knows nothing that goes with an entry of another component.
@look_rule(
    "COMP-16",
    source="R-SWA-04, R-MA-02, R-EV-08",
    reference="prefix.components.tree.evict",
    allowed="entries leave by evictions that may take them, to requests that get their places, and by resets",
)
def entries_vanish_only_by_evictions(component_vanished: Collection[At]) -> bool:
    """An entry MUST leave a tier only by an eviction there of its component, by a request that gets its place, or by a
    reset. An eviction for a prefetch or a copy is one, too. It takes along what goes by the profile with an entry of
    the same prefix, and by node the rest of the node.
    """
    return not component_vanished


@look_rule(
    "COMP-19",
    source="R-SWA-07, R-MA-03, R-DEV-10, R-EV-08, R-HT-02",
    reference="prefix.components.tree.evict",
    allowed="entries of other components only beside KV",
)
def other_components_go_with_the_kv(component_orphans: Collection[At]) -> bool:
    """Unless the profile says that components are evicted each alone, an entry MUST be on a tier only while the KV of its prefix is there."""
    return not component_orphans
