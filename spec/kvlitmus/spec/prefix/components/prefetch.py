"""Prefetches of several components: what a cache owes that fetches KV, and what goes with it, from storage.

A prefetch starts at a boundary that is cached, its **anchor**, and fetches what storage has of the key behind it, in five steps: it
reserves memory for all components at once or is refused (COMP-20 to COMP-23, and COMP-13 of what is evicted for it); it is told what storage has, and says up to
which boundary it reads, what into which place (COMP-26, COMP-27); the I/O ends; what came is committed (COMP-28),
or the prefetch is aborted.  I/O may go on after a commit or an abort; what it may write is given back when it has
ended, and not before (POOL-04, COMP-29).

The anchor is protected as what a receipt covers is: COMP-12, COMP-13 and LOCK-01 say it.  It is the KV that is protected, so that what is
committed goes on from it; a state or a window at the same prefix may be evicted meanwhile, unless the cache protects its paths.  What was committed is judged as all that
is cached: where a window was lost the KV stays, and no hit may end there (TREE-02, COMP-16).

The arithmetic is in :mod:`kvlitmus.spec.prefix.components.fetch`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from kvlitmus.spec.law.facts import UNKNOWN, Unknown, fact
from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import rule
from kvlitmus.spec.prefix.components.calls import Reading, Reserved
from kvlitmus.spec.prefix.components.fetch import asked, fetched, least_length, reserved_length, restored
from kvlitmus.spec.prefix.components.state import by_pool, commit_end, held_by, origin_of, pool_places
from kvlitmus.spec.prefix.components.tree import fetchable_whole
from kvlitmus.spec.prefix.listener import DEVICE
from kvlitmus.spec.prefix.page import Place
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work import Fetch
from kvlitmus.spec.prefix.work_calls import Abandon, Commit, Fetched, Found, Prefetch
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.shapes import step_of, summed

FetchCall = Found | Commit | Abandon | Fetched
"""The calls on a prefetch that is under way."""


# What is reserved


@fact(0)
def component_fetch_full(setting: Setting, state: State, call: Prefetch[int]) -> int:
    """How many units in whole steps the key has behind the anchor; none that could be fetched while storage is away."""
    return fetchable_whole(setting.layout, state, call)


@fact(0)
def component_fetch_least(setting: Setting, call: Prefetch[int]) -> int:
    """With how many units a prefetch is worth it: the threshold, and one step at least."""
    return least_length(setting.layout, call.threshold)


@fact(0)
def component_fetch_step(setting: Setting) -> int:
    """How far apart boundaries are, in units."""
    return step_of(setting.layout.components)


@fact(0)
def component_fetch_length(setting: Setting, answer: Reserved) -> int:
    """For how many units the prefetch reserved KV; 0: it was refused."""
    return len((answer.places or {}).get(setting.layout.base.name, ())) * setting.layout.base.unit


@fact(0)
def component_fetch_reserved(answer: Reserved) -> Mapping[str, int]:
    """How many places the prefetch reserved, by component."""
    return {name: len(some) for name, some in (answer.places or {}).items()}


@fact(0)
def component_fetch_needs(setting: Setting, call: Prefetch[int], component_fetch_length: int) -> Mapping[str, int]:
    """How many places a prefetch of this length needs, by component."""
    needs = asked(setting.layout, origin_of(setting, call.start), component_fetch_length)
    return {need.component.name: need.entries for need in needs}


@fact(1, ports=("component_counters",))
def component_fetch_room(
    setting: Setting, state: State, component_freed: Mapping[str, int]
) -> Mapping[str, int] | Unknown:
    """The free places of each pool when the prefetch reserved its own: those before the call, and what was evicted for it."""
    if DEVICE not in state.free:
        return UNKNOWN
    freed = by_pool(setting.layout, component_freed)
    return {pool: many + freed[pool] for pool, many in state.free[DEVICE].items()}


@fact(1, ports=("component_counters",))
def component_fetch_length_due(
    setting: Setting,
    call: Prefetch[int],
    component_fetch_full: int,
    component_fetch_least: int,
    component_fetch_room: Mapping[str, int],
) -> int:
    """For how many units there is memory, of all components; 0: the prefetch is to be refused, as while storage is away."""
    origin = origin_of(setting, call.start)
    return reserved_length(setting.layout, origin, component_fetch_full, component_fetch_least, component_fetch_room)


@fact(1, ports=("component_counters",))
def component_fetch_spared(
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
    full = asked(setting.layout, origin, component_fetch_full)
    anchor = held_by(setting, call.path, call.start)
    counts = Counter(name for name, _ in state.certain(DEVICE) - state.needed(DEVICE) - anchor)
    possible = Counter(name for name, _ in state.places(DEVICE).keys() - state.covered(DEVICE))
    could = dict(state.free.get(DEVICE, {}))
    base, unsure = setting.layout.base.pool, 0
    for need in full:
        least = min(need.entries, counts[need.component.name])
        could[need.component.pool] += least
        if need.component.pool == base:
            unsure += max(0, min(need.entries, possible[need.component.name]) - least)
    ample = {pool: max(many, component_fetch_room[pool]) for pool, many in could.items()}
    # With more room for KV a prefetch may be refused, where a longer one needs a window: what may be cached counts, too.
    rooms = ({**ample, base: ample[base] + more} for more in range(unsure + 1))
    due = min(
        reserved_length(setting.layout, origin, component_fetch_full, component_fetch_least, room) for room in rooms
    )
    if due <= component_fetch_length:
        return []
    pools = {setting.layout.base.pool} if component_fetch_length else set(ample)
    needs = summed(asked(setting.layout, origin, due))
    return [pool for pool in needs if pool in pools and component_fetch_room[pool] < needs[pool]]


# What prefetches have


@fact(0)
def component_fetch(state: State, call: FetchCall) -> Fetch:
    """The prefetch as it was before the call."""
    return state.fetches[call.rid]


# What is read


@fact(0)
def component_fetch_boundary_due(setting: Setting, component_fetch: Fetch, call: Found) -> int:
    """The largest boundary that all components can restore for which the prefetch has memory."""
    least = least_length(setting.layout, component_fetch.threshold)
    origin, taken = origin_of(setting, component_fetch.start), component_fetch.taken
    return restored(setting.layout, origin, component_fetch.length, least, taken, call.stored)


@fact(0)
def component_fetch_reads(answer: Reading) -> Mapping[str, Mapping[int, int]]:
    """What is read: of each component where the entries end, and into which places."""
    return answer.places or {}


@fact(0)
def component_fetch_reads_due(
    setting: Setting, component_fetch: Fetch, component_boundary: int
) -> Mapping[str, Sequence[int]]:
    """Where the entries end, by component, that the boundary needs of what the prefetch has memory for.

    A boundary beyond the key needs no more than the key has.
    """
    most, origin = len(component_fetch.path.names), origin_of(setting, component_fetch.start)
    return {
        one.name: tuple(fetched(one, origin, min(component_boundary, most)))
        if one.name in component_fetch.taken
        else ()
        for one in setting.layout.components
    }


@fact(0)
def component_fetch_strangers(
    setting: Setting,
    component_fetch: Fetch,
    component_fetch_reads: Mapping[str, Mapping[int, int]],
    answer: Reading,
) -> Collection[Place]:
    """The places that are read into though the prefetch doesn't have them, gives them back, or reads into them twice."""
    reads = [
        (setting.layout.named(name).pool, one) for name, some in component_fetch_reads.items() for one in some.values()
    ]
    mine = component_fetch.reserved - pool_places(setting.layout, answer.returned)
    return [place for place in reads if place not in mine or reads.count(place) > 1]


# What is committed and given back


@fact(0)
def component_fetch_end_due(setting: Setting, component_fetch: Fetch, call: Commit) -> int:
    """Before the first entry that didn't come, of the KV or of what is derived from it; nowhere, where all is dropped then."""
    return commit_end(setting, component_fetch, call.came)


# Rules


ASKED = (On.COMPONENT_PREFETCH, On.REFUSED_COMPONENT_PREFETCH)

reserve_rule = partial(rule, reference="prefix.components.prefetch.prefetch")


# FETCH-03 counts pages of one pool; a length here goes by the steps between boundaries of all components.
@reserve_rule(
    "COMP-20",
    on=On.COMPONENT_PREFETCH,
    source="R-MA-05; sglang#26945",
    allowed="a multiple of {component_fetch_step} units, from {component_fetch_least} to {component_fetch_full}",
)
def a_prefetch_takes_whole_steps_behind_its_anchor(
    component_fetch_length: int, component_fetch_step: int, component_fetch_least: int, component_fetch_full: int
) -> bool:
    """A prefetch MUST reserve KV for whole steps between boundaries, for no more than the key has behind the anchor, and for no less than the threshold. While storage is away it MUST NOT begin."""
    return (
        component_fetch_length % component_fetch_step == 0
        and component_fetch_least <= component_fetch_length <= component_fetch_full
    )


# New of components: by its shape each needs another amount for the same length.
@reserve_rule(
    "COMP-21",
    on=On.COMPONENT_PREFETCH,
    source="R-SC-02, R-SWA-02, R-MA-05; sglang#26945, sglang#27264",
    allowed="{component_fetch_needs}",
)
def a_prefetch_reserves_what_each_component_needs(
    component_fetch_reserved: Mapping[str, int], component_fetch_needs: Mapping[str, int]
) -> bool:
    """A prefetch that starts MUST have of every component exactly what its length needs: of a window all entries, or none where it is shorter; one state; index keys as many as KV.

    From the root a shorter window is taken as far as it goes, where the profile says so.  Only the KV is cut short.  How many states are reserved does not depend on that.
    """
    return all(component_fetch_reserved.get(name, 0) == many for name, many in component_fetch_needs.items()) and (
        component_fetch_reserved.keys() <= component_fetch_needs.keys()
    )


# FETCH-03 knows one pool; here all of them grant, or none, and the KV alone is cut short.
@reserve_rule(
    "COMP-22",
    on=ASKED,
    needs=("component_counters",),
    source="R-SC-02, R-MA-05, R-SWA-02; sglang#26945",
    allowed="{component_fetch_length_due} units; 0: a refusal",
)
def a_prefetch_is_admitted_as_a_whole(component_fetch_length: int, component_fetch_length_due: int) -> bool:
    """A prefetch MUST be granted its full length where all pools have room for it. Else it MUST be granted the largest
    length that the pool of the KV has room for, if this reaches the threshold and all other pools have what it needs.
    It MUST be refused otherwise, and while storage is away. What several components need of one pool is summed.
    """
    return component_fetch_length == component_fetch_length_due


# FETCH-03 knows one pool; room is made here in each, for what each shape needs.
@reserve_rule(
    "COMP-23",
    on=ASKED,
    needs=("component_counters",),
    source="R-SWA-02, R-MA-05; sglang#26945",
    allowed="an eviction first; in {component_fetch_spared} there was more to be had",
)
def a_prefetch_makes_room_before_it_takes_less(component_fetch_spared: Sequence[str]) -> bool:
    """A prefetch MUST NOT be cut short or refused for want of room that one eviction of what it needs can make."""
    return not component_fetch_spared


# FETCH-08 knows one run; the intersection of what several components can restore is new.
@rule(
    "COMP-26",
    on=On.COMPONENT_FOUND,
    source="R-L3-05, R-L3-06, R-SC-03, R-L3-04, R-BK-06; sglang#27264",
    reference="prefix.components.prefetch.found",
    allowed="{component_fetch_boundary_due}",
)
def a_prefetch_reads_up_to_what_all_can_restore(component_boundary: int, component_fetch_boundary_due: int) -> bool:
    """A prefetch MUST read up to the largest boundary that all components can restore for which it has memory, and nothing where that is below the threshold.

    That is the intersection of what they can restore; the least of what each could do alone may be restorable by none.
    A component of which storage says nothing has nothing there.
    """
    return component_boundary == component_fetch_boundary_due


# FETCH-09 reads from the first page on; a window reads its last entries, a state one.
@rule(
    "COMP-27",
    on=On.COMPONENT_FOUND,
    source="R-SC-04, R-SWA-04, R-MA-06; sglang#26945",
    reference="prefix.components.prefetch.found",
    allowed="{component_fetch_reads_due}, each into a place of its own that the prefetch keeps",
)
def a_prefetch_reads_what_its_boundary_needs(
    component_fetch_reads: Mapping[str, Mapping[int, int]],
    component_fetch_reads_due: Mapping[str, Sequence[int]],
    component_fetch_strangers: Collection[Place],
) -> bool:
    """A prefetch MUST read of each component exactly the entries that its boundary needs, a window's last ones and the state of the boundary itself, each into a place of its own that it keeps."""
    if component_fetch_strangers or component_fetch_reads.keys() - component_fetch_reads_due.keys():
        return False
    return all(
        sorted(component_fetch_reads.get(name, ())) == list(ends) for name, ends in component_fetch_reads_due.items()
    )


# FETCH-12 and FETCH-13 know one run; what is derived from the KV ends it too.
@rule(
    "COMP-28",
    on=On.COMPONENT_COMMIT,
    source="R-SC-01, R-SC-03, R-SC-06, R-PFT-08",
    reference="prefix.components.prefetch.commit",
    allowed="{component_fetch_end_due}",
)
def a_commit_ends_before_what_is_missing(component_boundary: int, component_fetch_end_due: int) -> bool:
    """A commit MUST cache the KV up to the first entry that did not come, of it or of what is derived from it, whatever
    became of the other components. Where the profile drops all then, it caches nothing if anything that is read did not
    come. A component of which nothing is said has no entries that came.
    """
    return component_boundary == component_fetch_end_due
