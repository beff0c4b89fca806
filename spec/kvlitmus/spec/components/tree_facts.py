"""The facts that rules of components speak of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import cast

from kvlitmus.spec.components.advance import known_after, made_room
from kvlitmus.spec.components.calls import (
    After,
    At,
    Committed,
    ComponentAbort,
    ComponentAlloc,
    ComponentCall,
    ComponentCommit,
    ComponentCopied,
    ComponentDetach,
    ComponentEvict,
    ComponentFinish,
    ComponentFree,
    ComponentGrow,
    ComponentHit,
    ComponentInsert,
    ComponentLoad,
    ComponentLock,
    ComponentMatch,
    ComponentPrefetch,
    ComponentReset,
    ComponentSettled,
    ComponentStart,
    Copying,
    Entries,
    Holding,
    Reading,
    Reserved,
)
from kvlitmus.spec.components.copies import copy_needs, copy_plans, copy_wants, copying_of
from kvlitmus.spec.components.evictions import freed_most, rightly_gone, taken_for
from kvlitmus.spec.components.fetch import asked
from kvlitmus.spec.components.state import (
    ComponentState,
    Place,
    Stored,
    commit_brings,
    copied_to,
    copying,
    ends_at,
    fresh_places,
    lacking_at,
    needed_at,
    origin_of,
    places_of,
    pool_places,
    refilled,
    stored_by,
    unfollowed_at,
)
from kvlitmus.spec.law.facts import UNKNOWN, Unknown, fact
from kvlitmus.spec.words.layouts import Layout
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.shapes import Chunk, Need, Run, Window, admit, fits, largest, needed, step_of
from kvlitmus.spec.words.units import Name


@fact(0)
def layout(setting: Setting) -> Layout:
    """The components that the cache is asked to keep, and the places of their pools."""
    return setting.layout


@fact(0)
def window_root(setting: Setting) -> str:
    """The window's meaning near the root, as the profile declares it."""
    return setting.profile.window_root


@fact(0)
def component_known(setting: Setting, state: ComponentState, call: ComponentCall, answer: After) -> ComponentState:
    """What is known of the cache after the call, by calls and answers, and by a snapshot where there is one."""
    return known_after(state, setting, call, answer)


# Hits


@fact(0)
def component_length(answer: After) -> int:
    """The length of the hit."""
    assert isinstance(answer.answer, ComponentHit | Holding)
    return answer.answer.length


@fact(0)
def component_admitted(
    setting: Setting, layout: Layout, call: ComponentMatch | ComponentStart, component_length: int
) -> bool:
    """Whether the hit ends at a common multiple of what the components are aligned to, within the key and the profile's cap."""
    step = step_of(layout.components)
    return admit(component_length, len(call.path.names), step, setting.profile.match_cap)


@fact(0)
def component_lacking(
    setting: Setting,
    layout: Layout,
    window_root: str,
    state: ComponentState,
    call: ComponentMatch | ComponentStart,
    component_length: int,
) -> Sequence[str]:
    """The components that certainly don't have what the end of the hit needs, or go on behind it where the last entries are dropped."""
    lacking = lacking_at(layout, call.path, component_length, state.places, window_root)
    return [*lacking, *unfollowed_at(setting, call.path, component_length, state.places)]


@fact(0)
def component_least(
    setting: Setting, layout: Layout, window_root: str, state: ComponentState, call: ComponentMatch | ComponentStart
) -> int:
    """The largest admitted boundary of the key that is valid for all components for certain."""
    ends = {one.name: ends_at(call.path, one.name, state.certain) for one in layout.components}
    cap, drop = setting.profile.match_cap, setting.profile.component_drop
    return largest(layout.components, len(call.path.names), ends.__getitem__, root=window_root, cap=cap, drop=drop)


@fact(0)
def component_hit_entries(
    layout: Layout, window_root: str, component_length: int, answer: After
) -> Mapping[str, Sequence[int]]:
    """The entries of the hit, by component; of a request what it holds of them."""
    if isinstance(answer.answer, ComponentHit):
        return answer.answer.entries
    assert isinstance(answer.answer, Holding)
    return {
        one.name: [
            answer.answer.held[one.name][end]
            for end in needed(one, component_length, window_root) or ()
            if end in answer.answer.held.get(one.name, {})
        ]
        for one in layout.components
    }


@fact(0)
def component_hit_due(
    layout: Layout,
    window_root: str,
    state: ComponentState,
    call: ComponentMatch | ComponentStart,
    component_length: int,
) -> Mapping[str, Sequence[Collection[int]]]:
    """For what the end of the hit needs, by component, the entries that may be stored there (none: nothing was)."""
    return {
        one.name: tuple(places_at(state, at) for at in needed_at(call.path, one, component_length, window_root))
        for one in layout.components
    }


def places_at(state: ComponentState, at: At) -> Collection[int]:
    """The places in which an entry may be cached; mostly one."""
    first = state.places.get(at)
    more = [place for one, place in state.copies if one == at]
    return more if first is None else [first, *more]


# Pools


@fact(0)
def component_wants(call: ComponentAlloc) -> Mapping[str, int]:
    """How many entries of each component are asked for."""
    return call.wants


@fact(0)
def component_granted(answer: After) -> Mapping[str, Sequence[int]]:
    """The entries that were granted, by component, to the caller or for a prefetch."""
    given = answer.answer.places if isinstance(answer.answer, Reserved) else answer.answer
    assert isinstance(given, Mapping)
    return given


@fact(0)
def component_in_use(
    setting: Setting,
    layout: Layout,
    state: ComponentState,
    call: object,
    answer: After,
    component_granted: Mapping[str, Sequence[int]],
) -> Collection[tuple[str, int]]:
    """Granted places that are the caller's or a running copy's already, are certainly cached, or were granted twice."""
    if isinstance(call, ComponentPrefetch) and isinstance(answer.answer, Reserved):
        state = made_room(state, setting, call, answer.answer)
    pools = {one.name: one.pool for one in layout.components}
    used = {(pools[at[0]], state.places[at]) for at in state.certain} | state.owned | copying(layout, state, load=True)
    granted = [(pools[name], entry) for name, some in component_granted.items() for entry in some]
    return [place for place, times in Counter(granted).items() if times > 1 or place in used]


def pools_of(layout: Layout, counts: Mapping[str, int]) -> Counter[str]:
    """Counts of entries by component as counts of places by pool."""
    found: Counter[str] = Counter()
    for name, many in counts.items():
        found[layout.named(name).pool] += many
    return found


def given_back(call: object, answer: object) -> Entries:
    """The places that a prefetch gave back in this call, or several did when storage went away, by component."""
    if isinstance(answer, Reading | Committed):
        return answer.returned
    return cast("Entries", answer) if isinstance(call, ComponentAbort | ComponentSettled | ComponentDetach) else {}


@fact(1, ports=("component_counters",))
def component_available(answer: After) -> Mapping[str, int] | Unknown:
    """The free places of each pool after the call."""
    return UNKNOWN if answer.available is None else answer.available


@fact(1, ports=("component_counters",))
def component_available_due(
    setting: Setting, layout: Layout, state: ComponentState, call: object, answer: After
) -> Mapping[str, int] | Unknown:
    """The free places that each pool must have after the call, as the ones before it and the answer say."""
    before, given = state.available, answer.answer
    if before is None or answer.available is None:
        return UNKNOWN
    if isinstance(call, ComponentReset):
        return dict(layout.places)
    change: Counter[str] = Counter()
    if isinstance(call, ComponentAlloc) and isinstance(given, Mapping):
        change.subtract(pool for pool, _ in pool_places(layout, given))
    elif isinstance(call, ComponentFree):
        change.update(pool for pool, _ in pool_places(layout, call.given))
    elif isinstance(call, ComponentEvict) and isinstance(given, Mapping):
        change.update(pools_of(layout, given))
    elif isinstance(call, ComponentInsert) and isinstance(given, Mapping):
        freed_by_insert = _freed_by_insert(setting, state, call, given)
        if freed_by_insert is None:
            return UNKNOWN
        change.update(pool for pool, _ in freed_by_insert)
    elif isinstance(call, ComponentLoad) and isinstance(given, Copying):
        change.update(pools_of(layout, given.freed))
        change.subtract(layout.named(name).pool for name, some in (given.places or {}).items() for _ in some)
    elif isinstance(call, ComponentCopied) and isinstance(given, Mapping):
        if state.under_way[call.number].load:
            change.update(pool for pool, _ in pool_places(layout, given))
    elif isinstance(given, Reserved):
        change.update(pools_of(layout, given.freed))
        change.subtract(pool for pool, _ in pool_places(layout, given.places or {}))
    else:
        change.update(pool for pool, _ in pool_places(layout, given_back(call, given)))
    return {pool: many + change[pool] for pool, many in before.items()}


def _freed_by_insert(
    setting: Setting, state: ComponentState, call: ComponentInsert, given: Entries
) -> frozenset[Place] | None:
    """The places that an insert frees by the profile; ``None``: it isn't known whether it had to."""
    layout = setting.layout
    left = pool_places(layout, given)
    pool = layout.base.pool
    new = refilled(state, setting, call, call.brought)
    replaced = [at for at in new if (pool, call.brought[at]) not in left and at in state.places]
    if any(at not in state.certain for at in replaced):
        return None
    freed = left if setting.profile.duplicates == "cache_frees" else frozenset[Place]()
    return freed | {(pool, state.places[at]) for at in replaced}


@fact(1, ports=("component_counters",))
def component_short(layout: Layout, state: ComponentState, call: ComponentAlloc) -> bool | Unknown:
    """Whether some pool had fewer free places than were asked of it, all components together."""
    if state.available is None:
        return UNKNOWN
    return not fits([Need(layout.named(name), many) for name, many in call.wants.items()], state.available)


# Inserts


@fact(0)
def component_left(layout: Layout, answer: After) -> Collection[tuple[str, int]]:
    """The places that the insert left to the caller."""
    assert isinstance(answer.answer, Mapping)
    return pool_places(layout, answer.answer)


@fact(0)
def component_duplicates(
    setting: Setting, layout: Layout, state: ComponentState, call: ComponentInsert
) -> Collection[tuple[str, int]]:
    """The places that were brought for what is certainly cached already, and stays where it is."""
    new = refilled(state, setting, call, call.brought.keys() - state.certain)
    return {
        (layout.named(at[0]).pool, entry) for at, entry in call.brought.items() if at in state.certain and at not in new
    }


@fact(0)
def component_perhaps(
    setting: Setting, layout: Layout, state: ComponentState, call: ComponentInsert
) -> Collection[tuple[str, int]]:
    """The places that were brought for what may be cached already, and may stay where it is."""
    new = refilled(state, setting, call, call.brought.keys() - state.places.keys(), state.needed)
    return {
        (layout.named(at[0]).pool, entry) for at, entry in call.brought.items() if at in state.places and at not in new
    }


# Locks


@fact(0)
def component_cover(answer: After) -> Mapping[str, Collection[int]]:
    """The ends of the entries that the receipt covers, by component."""
    assert isinstance(answer.answer, Mapping)
    return {name: frozenset(ends) for name, ends in answer.answer.items()}


@fact(0)
def component_cover_due(layout: Layout, window_root: str, call: ComponentLock) -> Mapping[str, Collection[int]]:
    """The ends of the entries that the locked boundary needs, by component."""
    at = {name: end for end, name in enumerate(call.path.names, 1)}
    return {
        one.name: frozenset(at[name] for _, name in needed_at(call.path, one, call.length, window_root))
        for one in layout.components
    }


@fact(0)
def component_cover_beyond(
    setting: Setting,
    layout: Layout,
    state: ComponentState,
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
def component_asked(call: ComponentEvict) -> Mapping[str, int]:
    """How many entries of each component are to be freed."""
    return call.wants


@fact(0)
def component_freed(answer: After) -> Mapping[str, int]:
    """How many entries of each component were freed."""
    assert isinstance(answer.answer, Mapping)
    return answer.answer


@fact(0)
def component_evictable(layout: Layout, state: ComponentState) -> Mapping[str, int]:
    """How many entries of each component are certainly cached, and covered by no receipt."""
    free = state.certain - state.needed
    counts = Counter(name for name, _ in free)
    return {one.name: counts[one.name] for one in layout.components}


@fact(0)
def component_most(layout: Layout, state: ComponentState) -> Mapping[str, int]:
    """How many entries of each component may be cached, and are covered by no receipt."""
    counts = Counter(name for name, _ in state.places.keys() - state.covered)
    return {one.name: counts[one.name] for one in layout.components}


@fact(0)
def component_freed_most(
    setting: Setting, layout: Layout, state: ComponentState, call: ComponentEvict
) -> Mapping[str, int]:
    """How many entries of each component the eviction may take, as the profile says what goes with what."""
    return freed_most(setting, layout, state, call.wants)


# Snapshots


def cached_now(component_held: Mapping[At, int], answer: After) -> frozenset[Stored]:
    """Everything that is cached after a call, with its places."""
    return frozenset(component_held.items()) | (frozenset() if answer.view is None else answer.view.copies)


def of_request(
    setting: Setting, state: ComponentState, call: ComponentStart | ComponentGrow | ComponentFinish, answer: After
) -> frozenset[Stored]:
    """The whole entries that the request of a call holds: after it, or before it ends."""
    then = state if isinstance(call, ComponentFinish) else known_after(state, setting, call, answer)
    return stored_by(then.running[call.receipt]) if call.receipt in then.running else frozenset()


def fresh_of(
    layout: Layout, state: ComponentState, call: ComponentStart | ComponentGrow | ComponentFinish, answer: After
) -> Sequence[Place]:
    """The places that a request got by a call."""
    if not isinstance(answer.answer, Holding):
        return ()
    before = state.running[call.receipt].held if isinstance(call, ComponentGrow) else {}
    return fresh_places(layout, before, answer.answer)


def _spare(
    setting: Setting, state: ComponentState, call: ComponentStart | ComponentGrow | ComponentFinish, answer: After
) -> Counter[str]:
    """The places of each pool that are free after a call of a request, without those that it gave back."""
    assert answer.view is not None
    free = {(pool, place) for pool, places in answer.view.free.items() for place in places}
    if call.receipt in state.running and isinstance(answer.answer, Holding):
        before, after = (
            places_of(setting.layout, one) for one in (state.running[call.receipt].held, answer.answer.held)
        )
        free -= before - after
    return Counter(pool for pool, _ in free)


@fact(3, ports=("component_view",))
def component_held(answer: After) -> Mapping[At, int] | Unknown:
    """Every cached entry, by where it belongs."""
    return UNKNOWN if answer.view is None else answer.view.held


@fact(3, ports=("component_view",))
def component_appeared(
    setting: Setting,
    state: ComponentState,
    call: ComponentCall,
    answer: After,
    component_held: Mapping[At, int],
) -> Collection[At] | Unknown:
    """What came into the cache, or to another place in it, though the call did not bring it there."""
    if isinstance(call, ComponentStart | ComponentGrow | ComponentFinish):
        return [
            at for at, _ in cached_now(component_held, answer) - state.stored - of_request(setting, state, call, answer)
        ]
    brought: Mapping[At, int] = {}
    new = frozenset[At]()
    if isinstance(call, ComponentInsert):
        brought = call.brought
        new = refilled(state, setting, call, brought.keys() - state.places.keys())
    elif isinstance(call, ComponentCommit):
        brought = commit_brings(setting, state.fetches[call.number], call.came)
    elif isinstance(call, ComponentCopied) and call.ok and state.under_way[call.number].load:
        brought = state.under_way[call.number].places
    elif isinstance(call, ComponentLoad) and setting.profile.component_landing == "begun":
        brought = copied_to(call.path, copying_of(answer))
    return [
        at
        for at, entry in component_held.items()
        if state.places.get(at) != entry and (brought.get(at) != entry or (at in state.places and at not in new))
    ]


@fact(3, ports=("component_view",))
def component_vanished(
    setting: Setting,
    layout: Layout,
    state: ComponentState,
    call: ComponentCall,
    answer: After,
    component_held: Mapping[At, int],
) -> Collection[At]:
    """What left the cache though the call may not take it: anything but by an eviction that may take it, or a reset.

    An eviction for a prefetch or a load back may take what it needs memory for.  A request that gets places may evict what was in
    them, and what goes with that, until it has them.
    """
    if isinstance(call, ComponentStart | ComponentGrow | ComponentFinish):
        lost = state.stored - cached_now(component_held, answer)
        fresh = frozenset(fresh_of(layout, state, call, answer))
        return [at for at, _ in lost - taken_for(setting, state, lost, fresh, _spare(setting, state, call, answer))]
    gone = [at for at in state.certain if at not in component_held]
    if isinstance(call, ComponentReset) or not gone:
        return []
    wants: Mapping[str, int] = call.wants if isinstance(call, ComponentEvict) else {}
    if isinstance(call, ComponentPrefetch):
        whole = fetch_whole(layout, call)
        needs = asked(layout, origin_of(setting, call.start), whole)
        wants = {need.component.name: need.entries for need in needs}
    elif isinstance(call, ComponentLoad):
        wants = copy_wants(copy_plans(setting, state, call, answer))
    right = rightly_gone(setting, layout, state, wants, gone)
    return [at for at in gone if at not in right]


def fetch_whole(layout: Layout, call: ComponentPrefetch) -> int:
    """How many units in whole steps the key has behind the anchor of a prefetch."""
    length = len(call.path.names) - call.start
    return length - length % step_of(layout.components)


@fact(3, ports=("component_view",))
def component_unprotected(
    setting: Setting, state: ComponentState, call: ComponentCall, answer: After, component_held: Mapping[At, int]
) -> Collection[At]:
    """What left the cache though a receipt covers it, or a request holds it."""
    if isinstance(call, ComponentReset):
        return []
    if isinstance(call, ComponentStart | ComponentGrow):
        then = known_after(state, setting, call, answer)
        held = frozenset[Stored]().union(*[stored_by(one) for one in then.running.values()])
        lost = (held & state.stored) - cached_now(component_held, answer)
        # What a request got only now was nobody's, even if it was cached for the prefix that it is for again.
        fresh = frozenset(fresh_of(setting.layout, state, call, answer))
        return [at for at, place in lost if (setting.layout.named(at[0]).pool, place) not in fresh]
    covered = state.covered
    if isinstance(call, ComponentLoad):
        covered |= copy_needs(setting, state, call, answer) & state.certain
    return [at for at in covered if at not in component_held]


@fact(3, ports=("component_view",))
def component_gaps(setting: Setting, layout: Layout, component_held: Mapping[At, int]) -> Collection[At]:
    """Entries of a run that are cached though the one before them is not."""
    runs = {one.name: one.unit for one in layout.components if isinstance(one.shape, Run)}
    names = setting.names

    def before(component: str, name: Name) -> Name:
        for _ in range(runs[component]):
            name = names.parent(name)
        return name

    found = []
    for component, name in component_held:
        if component in runs:
            above = before(component, name)
            if names.prefix(above)[1] and (component, above) not in component_held:
                found.append((component, name))
    return found


@fact(3, ports=("component_view",))
def component_orphans(setting: Setting, layout: Layout, component_held: Mapping[At, int]) -> Collection[At]:
    """Entries of other components at prefixes whose KV isn't cached, where the profile says that they go with it."""
    if setting.profile.component_cascade == "none":
        return []
    base = layout.base.name
    return [(name, at) for name, at in component_held if name != base and (base, at) not in component_held]


@fact(3, ports=("component_view",))
def component_homes(
    layout: Layout, component_known: ComponentState, answer: After
) -> Mapping[str, Sequence[int]] | Unknown:
    """For each pool the places that have not exactly one home: free, cached, the caller's, a prefetch's or a copy's; and places beyond its number."""
    view = answer.view
    if view is None:
        return UNKNOWN
    then = component_known
    pools = {one.name: one.pool for one in layout.components}
    homes: Counter[tuple[str, int]] = Counter(then.owned)
    homes.update(then.fetching)
    homes.update(copying(layout, then, load=True))
    homes.update((pool, entry) for pool, free in view.free.items() for entry in free)
    cached = [(pools[name], entry) for (name, _), entry in (*view.held.items(), *view.copies)]
    homes.update(cached)
    # What a request has computed is cached while the request holds it; what is not yet, or not, cached is its own.
    homes.update(frozenset[Place]().union(*[places_of(layout, one.held) for one in then.running.values()]) - {*cached})
    odd: dict[str, list[int]] = {}
    for pool, places in layout.places.items():
        mine = [entry for at, entry in homes if at == pool]
        wrong = sorted(entry for entry in mine if homes[pool, entry] != 1)
        if wrong or len(mine) != places:
            odd[pool] = wrong or sorted(mine)
    return odd
