"""The facts that rules of host memory of components speak of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from kvlitmus.spec.components.calls import (
    After,
    At,
    ComponentBackUp,
    ComponentCall,
    ComponentCopied,
    ComponentEvictHost,
    ComponentLoad,
    ComponentReset,
    Copying,
)
from kvlitmus.spec.components.copies import (
    CopyCall,
    CopyPlan,
    copy_needs,
    copy_plans,
    copy_wants,
    copying_of,
    host_loose,
    largest_together,
    plan_for,
    possible,
    refusable,
    short_pools,
)
from kvlitmus.spec.components.evictions import freed_most, rightly_gone
from kvlitmus.spec.components.state import (
    ComponentState,
    Copy,
    Place,
    at_places,
    copied_to,
    copying,
    end_name,
    ends_at,
    lacking_at,
    needed_by,
    pool_places,
)
from kvlitmus.spec.components.tree_facts import pools_of
from kvlitmus.spec.law.facts import UNKNOWN, Unknown, fact
from kvlitmus.spec.words.layouts import Layout
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.shapes import Run, admit, step_of, valid

COUNTED = ("component_host_counters",)
LOOKED_AT = ("component_host_view",)

# What a copy takes


@fact(0)
def component_copy_boundary(answer: After) -> int:
    """The boundary that a copy is for."""
    return copying_of(answer).boundary


@fact(0)
def component_copy_takes(answer: After) -> Mapping[str, Collection[int]]:
    """Where the entries end that a copy takes, by component."""
    return {name: frozenset(some) for name, some in (copying_of(answer).places or {}).items() if some}


def copy_plan(setting: Setting, state: ComponentState, call: CopyCall, boundary: int) -> CopyPlan:
    """The plan of a copy that has begun: a backup's is for its hit, a load's for the boundary that it said."""
    if isinstance(call, ComponentBackUp):
        return plan_for(setting, state, call.path, call.length, load=False)
    return plan_for(setting, state, call.path, boundary, load=True)


def may_stop(setting: Setting, state: ComponentState, call: CopyCall, answer: After, plan: CopyPlan) -> bool:
    """Whether a backup may take what an earlier boundary needs: it goes by its path, and there may be too little room for all."""
    if setting.profile.component_extent == "boundary" or isinstance(call, ComponentLoad):
        return False
    available, freed = state.host_available, copying_of(answer).freed
    return available is None or refusable(setting, plan, host_loose(setting, state), available, freed)


def last_brought(setting: Setting, state: ComponentState, call: CopyCall, brought: Collection[At]) -> int:
    """The last boundary that the device certainly has of which a backup brings the KV: what it stops after; 0 for none."""
    layout, root = setting.layout, setting.profile.window_root
    ends = {one.name: ends_at(call.path, one.name, state.certain) for one in layout.components}
    step = step_of(layout.components)
    return max(
        [
            end
            for end in ends_at(call.path, layout.base.name, frozenset(brought))
            if end % step == 0 and all(valid(one, end, ends[one.name], root) for one in layout.components)
        ],
        default=0,
    )


@fact(0)
def component_copy_least(
    setting: Setting, state: ComponentState, call: CopyCall, answer: After, component_copy_boundary: int
) -> Mapping[str, Collection[int]]:
    """Where the entries end that its boundary needs and the tier that it goes to certainly lacks; if it may stop earlier, and does, of the last boundary of which it brings the KV."""
    plan = copy_plan(setting, state, call, component_copy_boundary)
    least, brought = plan.least, copied_to(call.path, copying_of(answer)).keys()
    if not least <= brought and may_stop(setting, state, call, answer, plan):
        boundary = last_brought(setting, state, call, brought)
        least = needed_by(setting, call.path, boundary) - state.host.keys()
    return {one.name: ends_at(call.path, one.name, least) for one in setting.layout.components}


@fact(0)
def component_copy_most(
    setting: Setting, state: ComponentState, call: CopyCall, component_copy_boundary: int
) -> Mapping[str, Collection[int]]:
    """Where the entries end that a copy may take and the tier that it goes to may lack: what its boundary needs, or all on its path."""
    most = copy_plan(setting, state, call, component_copy_boundary).most
    return {one.name: ends_at(call.path, one.name, most) for one in setting.layout.components}


@fact(0)
def component_load_admitted(
    setting: Setting, layout: Layout, call: ComponentLoad, component_copy_boundary: int
) -> bool:
    """Whether a load back is for an admitted boundary of the key, behind the hit."""
    step, cap = step_of(layout.components), setting.profile.match_cap
    return component_copy_boundary > call.start and admit(component_copy_boundary, len(call.path.names), step, cap)


@fact(0)
def component_load_lacking(
    layout: Layout, window_root: str, state: ComponentState, call: ComponentLoad, component_copy_boundary: int
) -> Sequence[str]:
    """The components of which both tiers together certainly don't have what the boundary of a load back needs."""
    return lacking_at(layout, call.path, component_copy_boundary, possible(state), window_root)


@fact(0)
def component_load_least(setting: Setting, state: ComponentState, call: ComponentLoad) -> int:
    """The largest admitted boundary of the key that is valid for all components over both tiers, for certain."""
    return largest_together(setting, state, call.path)


@fact(0)
def component_copy_in_use(layout: Layout, state: ComponentState, call: CopyCall, answer: After) -> Collection[Place]:
    """Places that a copy got though they are somebody's on that tier, or that it got twice."""
    given, load = copying_of(answer), isinstance(call, ComponentLoad)
    held, certain = (state.places, state.certain) if load else (state.host, state.host_certain)
    evicted = {name for name, many in given.freed.items() if many}
    # What may have been evicted for the copy may be granted to it.
    covered = state.covered if load else state.host_covered
    cached = {at: held[at] for at in certain if at in covered or at[0] not in evicted}
    used = at_places(layout, cached) | copying(layout, state, load=load)
    if load:
        used |= state.owned | state.fetching
    got = [(layout.named(name).pool, one) for name, some in (given.places or {}).items() for one in some.values()]
    return [place for place, times in Counter(got).items() if times > 1 or place in used]


# Room


@fact(0)
def component_copy_freed(answer: After) -> Mapping[str, int]:
    """How many entries were evicted for a copy, by component."""
    return copying_of(answer).freed


def may_wait(setting: Setting, state: ComponentState, call: ComponentBackUp) -> bool:
    """Whether a backup may be refused because another one runs: by nodes, one has a node to itself until it has ended."""
    if setting.profile.component_extent == "boundary" or not call.length:
        return False
    end = setting.layout.base.name, end_name(call.path, call.length)
    return any(end in one.needs for one in state.under_way.values() if not one.load)


@fact(1, ports=("component_counters", *COUNTED))
def component_copy_refusable(setting: Setting, state: ComponentState, call: CopyCall, answer: After) -> bool | Unknown:
    """Whether a copy may be refused: there may be nothing to take, some pool is short after one eviction, or it may wait for another."""
    available = state.available if isinstance(call, ComponentLoad) else state.host_available
    if available is None:
        return UNKNOWN
    if isinstance(call, ComponentLoad):
        if largest_together(setting, state, call.path) <= call.start:
            return True
        # Who asks goes on from the hit, and may hold it while room is made.
        loose = state.certain - state.needed - needed_by(setting, call.path, call.start)
    else:
        if may_wait(setting, state, call):
            return True
        loose = host_loose(setting, state)
    freed = copying_of(answer).freed
    return any(refusable(setting, plan, loose, available, freed) for plan in copy_plans(setting, state, call, answer))


@fact(1, ports=("component_counters", *COUNTED))
def component_copy_freed_most(
    setting: Setting, layout: Layout, state: ComponentState, call: CopyCall, answer: After
) -> Mapping[str, int] | Unknown:
    """How many entries of each component one eviction for a copy may take, or by its path one for each boundary of a backup: none of pools that have room."""
    available = state.available if isinstance(call, ComponentLoad) else state.host_available
    if available is None:
        return UNKNOWN
    wants = copy_wants(copy_plans(setting, state, call, answer))
    short = short_pools(layout, wants, available)
    mine = {name: many for name, many in wants.items() if layout.named(name).pool in short}
    times = 1
    if isinstance(call, ComponentBackUp) and setting.profile.component_extent == "path":
        times = max(1, call.length // step_of(layout.components))
    return freed_most(setting, layout, state, mine, times)


# Evictions from the host


@fact(0)
def component_host_asked(call: ComponentEvictHost) -> Mapping[str, int]:
    """How many entries of each component are to be freed on the host."""
    return call.wants


@fact(0)
def component_host_freed(answer: After) -> Mapping[str, int]:
    """How many entries of each component were freed on the host."""
    assert isinstance(answer.answer, Mapping)
    return answer.answer


@fact(0)
def component_host_evictable(setting: Setting, layout: Layout, state: ComponentState) -> Mapping[str, int]:
    """How many entries of each component are certainly cached on the host, and must go there: no copy and no write needs them, and they may not be spared for what the device has."""
    counts = Counter(name for name, _ in host_loose(setting, state))
    return {one.name: counts[one.name] for one in layout.components}


@fact(0)
def component_host_most(
    setting: Setting, layout: Layout, state: ComponentState, call: ComponentEvictHost
) -> Mapping[str, int]:
    """How many entries of each component the eviction may take from the host: what may be there unprotected, and what goes with what."""
    counts = Counter(name for name, _ in state.host.keys() - state.host_covered)
    along = freed_most(setting, layout, state, call.wants)
    return {one.name: min(counts[one.name], along[one.name]) for one in layout.components}


# Ends of copies


@fact(0)
def component_copy(state: ComponentState, call: ComponentCopied) -> Copy:
    """The copy that has ended, as it was before."""
    return state.under_way[call.number]


@fact(0)
def component_copy_returned(layout: Layout, answer: After) -> Collection[Place]:
    """The places that a copy gave back."""
    assert isinstance(answer.answer, Mapping)
    return pool_places(layout, answer.answer)


@fact(0)
def component_copy_left(
    layout: Layout, state: ComponentState, call: ComponentCopied, component_copy: Copy
) -> Collection[Place]:
    """The places that a copy must give back: all if it failed, and else what was brought for what is certainly cached there."""
    certain = state.certain if component_copy.load else state.host_certain
    return at_places(layout, {at: place for at, place in component_copy.places.items() if not call.ok or at in certain})


@fact(0)
def component_copy_left_most(
    layout: Layout, state: ComponentState, call: ComponentCopied, component_copy: Copy
) -> Collection[Place]:
    """The places that a copy may give back: all if it failed, and else what was brought for what may be cached there."""
    there = state.places if component_copy.load else state.host
    return at_places(layout, {at: place for at, place in component_copy.places.items() if not call.ok or at in there})


# Counters and snapshots


@fact(1, ports=COUNTED)
def component_host_available(answer: After) -> Mapping[str, int] | Unknown:
    """The free places of each pool of the host after the call."""
    return UNKNOWN if answer.host_available is None else answer.host_available


@fact(1, ports=COUNTED)
def component_host_available_due(
    layout: Layout, state: ComponentState, call: ComponentCall, answer: After
) -> Mapping[str, int] | Unknown:
    """The free places that each pool of the host must have after the call, as the ones before it and the answer say."""
    if state.host_available is None or answer.host_available is None:
        return UNKNOWN
    return host_available_after(layout, state.host_available, state, call, answer.answer)


def host_available_after(
    layout: Layout, before: Mapping[str, int], state: ComponentState, call: ComponentCall, given: object
) -> Mapping[str, int]:
    """The free places that each pool of the host must have after a call that was answered so."""
    if isinstance(call, ComponentReset):
        return dict(layout.host)
    change: Counter[str] = Counter()
    if isinstance(call, ComponentBackUp) and isinstance(given, Copying):
        change.update(pools_of(layout, given.freed))
        change.subtract(layout.named(name).pool for name, some in (given.places or {}).items() for _ in some)
    elif isinstance(call, ComponentCopied) and isinstance(given, Mapping):
        if not state.under_way[call.number].load:
            change.update(pool for pool, _ in pool_places(layout, given))
    elif isinstance(call, ComponentEvictHost) and isinstance(given, Mapping):
        change.update(pools_of(layout, given))
    return {pool: many + change[pool] for pool, many in before.items()}


@fact(3, ports=LOOKED_AT)
def component_host_held(answer: After) -> Mapping[At, int] | Unknown:
    """Every entry that is cached on the host, by where it belongs."""
    return UNKNOWN if answer.view is None or answer.view.host_held is None else answer.view.host_held


@fact(3, ports=LOOKED_AT)
def component_host_appeared(
    setting: Setting, state: ComponentState, call: ComponentCall, answer: After, component_host_held: Mapping[At, int]
) -> Collection[At]:
    """What came to the host, or to another place there, though no backup of it has just ended well, or begun where that is when it counts."""
    landed: Mapping[At, int] = {}
    if isinstance(call, ComponentCopied) and call.ok and not state.under_way[call.number].load:
        landed = state.under_way[call.number].places
    elif isinstance(call, ComponentBackUp) and setting.profile.component_landing == "begun":
        landed = copied_to(call.path, copying_of(answer))
    return [
        at
        for at, place in component_host_held.items()
        if state.host.get(at) != place and (at in state.host or landed.get(at) != place)
    ]


@fact(3, ports=LOOKED_AT)
def component_host_vanished(
    setting: Setting,
    layout: Layout,
    state: ComponentState,
    call: ComponentCall,
    answer: After,
    component_host_held: Mapping[At, int],
) -> Collection[At]:
    """What left the host though the call may not take it: anything but by an eviction there that may take it, or a reset."""
    gone = [at for at in state.host_certain if at not in component_host_held]
    if isinstance(call, ComponentReset) or not gone:
        return []
    wants: Mapping[str, int] = {}
    if isinstance(call, ComponentEvictHost):
        wants = call.wants
    elif isinstance(call, ComponentBackUp):
        wants = copy_wants(copy_plans(setting, state, call, answer))
    right = rightly_gone(setting, layout, state, wants, gone)
    return [at for at in gone if at not in right]


@fact(3, ports=LOOKED_AT)
def component_host_unprotected(
    setting: Setting, state: ComponentState, call: ComponentCall, answer: After, component_host_held: Mapping[At, int]
) -> Collection[At]:
    """What left the host though the boundary of a copy or a write needs it, of the copy that is asked for too."""
    covered = state.host_covered
    if isinstance(call, ComponentBackUp):
        covered |= copy_needs(setting, state, call, answer) & state.host_certain
    return [at for at in covered if at not in component_host_held]


@fact(3, ports=LOOKED_AT)
def component_host_homes(
    layout: Layout, component_known: ComponentState, answer: After
) -> Mapping[str, Sequence[int]] | Unknown:
    """For each pool of the host the places that have not exactly one home: free, cached or a backup's; and places beyond its number."""
    view = answer.view
    if view is None or view.host_held is None:
        return UNKNOWN
    homes: Counter[Place] = Counter((pool, place) for pool, free in view.host_free.items() for place in free)
    homes.update(copying(layout, component_known, load=False))
    homes.update((layout.named(name).pool, place) for (name, _), place in view.host_held.items())
    odd: dict[str, list[int]] = {}
    for pool, places in layout.host.items():
        mine = [place for at, place in homes if at == pool]
        wrong = sorted(place for place in mine if homes[pool, place] != 1)
        if wrong or len(mine) != places:
            odd[pool] = wrong or sorted(mine)
    return odd


@fact(3, ports=LOOKED_AT)
def component_host_gaps(setting: Setting, layout: Layout, component_host_held: Mapping[At, int]) -> Collection[At]:
    """Entries of a run that are on the host though the one before them is not."""
    runs = {one.name: one.unit for one in layout.components if isinstance(one.shape, Run)}
    names, found = setting.names, []
    for component, name in component_host_held:
        if component in runs:
            above = name
            for _ in range(runs[component]):
                above = names.parent(above)
            if names.prefix(above)[1] and (component, above) not in component_host_held:
                found.append((component, name))
    return found


@fact(3, ports=LOOKED_AT)
def component_host_orphans(setting: Setting, layout: Layout, component_host_held: Mapping[At, int]) -> Collection[At]:
    """Entries of other components on the host whose KV isn't there, where the profile says that they go with it."""
    if setting.profile.component_cascade == "none":
        return []
    base = layout.base.name
    return [(name, at) for name, at in component_host_held if name != base and (base, at) not in component_host_held]
