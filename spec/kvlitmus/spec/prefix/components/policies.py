"""Write policies of components: which backups a cache begins by itself, and what it must not lose.

As for caches of KV, a boundary is backed up when it is inserted (write-through), when it is used a second time (selective), or
when something of it is evicted from the device (write-back).  A backup that the cache begins by itself owes what one owes that
it was asked for (COMP-32 and the rules after it): it takes the window and the state with the KV, and all or nothing.

What differs is who decides.  With write-back the copy is waited for, since what it saves is gone when the call returns; so
these backups are judged before the call, as having ended, and the others after it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from kvlitmus.spec.law.facts import UNKNOWN, Unknown, fact
from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import rule
from kvlitmus.spec.prefix.calls import Evict, Insert, Lock, Match, Path
from kvlitmus.spec.prefix.components import tree as _tree  # noqa: F401 - what these are worked out from
from kvlitmus.spec.prefix.components.advance import expect_components
from kvlitmus.spec.prefix.components.calls import Begun, Brought, ComponentHit, JointCall, PoolsSeen, Taken
from kvlitmus.spec.prefix.components.copies import counted, plan_for, refusable
from kvlitmus.spec.prefix.components.state import (
    by_pool,
    end_name,
    lacking_at,
    longest,
    loose_on,
    needed_by,
    path_to,
)
from kvlitmus.spec.prefix.components.steps import host_free
from kvlitmus.spec.prefix.components.tree import CALLS
from kvlitmus.spec.prefix.listener import DEVICE, HOST
from kvlitmus.spec.prefix.page import At
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work_calls import BackUp, Commit, LoadBack, Prefetch, Write
from kvlitmus.spec.words.layouts import KV
from kvlitmus.spec.words.policies import SELECTIVE, WRITE_BACK, WRITE_THROUGH
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.shapes import step_of
from kvlitmus.spec.words.units import Name

BY_ITSELF = ("component_writes",)
"""The port of a cache that backs up by itself."""


@fact(0, ports=BY_ITSELF)
def component_begun(pools: PoolsSeen) -> Sequence[Begun]:
    """The backups that the cache has begun by itself with the call."""
    return pools.begun


@fact(0, ports=BY_ITSELF)
def component_policy(setting: Setting) -> str:
    """The policy by which the cache backs up by itself."""
    return setting.config.write


@fact(0, ports=BY_ITSELF)
def component_begun_untimely(
    setting: Setting, state: State, call: JointCall, answer: object, component_begun: Sequence[Begun]
) -> Collection[int]:
    """The lengths of the prefixes whose backup the call is no occasion for, by the policy."""
    if setting.config.write == WRITE_BACK:
        return [] if evicts(call, answer) else [one.call.length for one in component_begun]
    return [one.call.length for one in component_begun if not occasion(setting, state, call, answer, one)]


def evicts(call: JointCall, answer: object) -> bool:
    """Whether a call has evicted something from the device."""
    freed = answer.freed if isinstance(answer, Taken) else answer
    return isinstance(call, Evict | LoadBack | Prefetch) and any(freed.values())  # type: ignore[attr-defined]


def occasion(setting: Setting, state: State, call: JointCall, answer: object, one: Begun) -> bool:
    """Whether a call uses a prefix, for the first time or, with the selective policy, once more."""
    used = used_path(setting, state, call, answer)
    if used is None or setting.config.write not in (WRITE_THROUGH, SELECTIVE):
        return False
    path, length = used
    end = one.call.path.names[-1]
    if one.call.length > length or end_name(path, one.call.length) != end:
        return False
    return setting.config.write == WRITE_THROUGH or end in state.device.pages


def used_path(setting: Setting, state: State, call: JointCall, answer: object) -> tuple[Path, int] | None:
    """The key that a call inserts, finds, or goes on from, and up to where."""
    if isinstance(call, Insert):
        return call.path, len(call.path.names)
    if isinstance(call, Match):
        assert isinstance(answer, ComponentHit)
        return call.path, answer.length
    if isinstance(call, Lock):
        path = path_to(setting, call.at)
        return path, len(path.names)
    if isinstance(call, BackUp | Write):
        return call.path, call.length
    if isinstance(call, LoadBack | Prefetch):
        return call.path, call.start
    if isinstance(call, Commit):
        assert isinstance(answer, Taken)
        return state.fetches[call.rid].path, answer.boundary
    return None


@fact(0, ports=BY_ITSELF)
def component_begun_of_nothing(
    setting: Setting,
    state: State,
    component_known: State,
    component_begun: Sequence[Begun],
) -> Collection[int]:
    """The lengths of the prefixes that are backed up though no boundary of the device can end there."""
    if not component_begun:
        return []
    before = setting.config.write == WRITE_BACK
    there = (state if before else component_known).places(DEVICE)
    odd = []
    for one in component_begun:
        path, length = one.call.path, one.call.length
        if lacking_at(setting, path, length, there) or length % step_of(setting.layout.components):
            odd.append(length)
    return odd


@fact(1, ports=("component_host_counters", *BY_ITSELF))
def component_due_missed(
    setting: Setting, state: State, component_known: State, call: Insert[Brought], pools: PoolsSeen
) -> Collection[int] | Unknown:
    """The boundary that the insert has made due, if it is neither on the host nor on its way, and no backup of it was refused for want of room."""
    if pools.host_available is None:
        return UNKNOWN
    boundary = due(setting, state, component_known, call.path)
    end = end_name(call.path, boundary)
    if not boundary or any(one.call.path.names[-1] == end for one in pools.begun):
        return []
    then = with_begun(setting, component_known, pools.begun)
    needs = needed_by(setting, call.path, boundary)
    on_its_way = frozenset[At]().union(*[one.places for one in then.under_way.values() if not one.load])
    if not needs - then.places(HOST).keys() - on_its_way:
        return []
    plan = plan_for(setting, then, call.path, boundary, load=False)
    return [] if refusable(setting, plan, loose_on(setting, then, HOST), then.free[HOST], {}) else [boundary]


def due(setting: Setting, state: State, known: State, path: Path) -> int:
    """The largest boundary of a key that is certainly there after an insert, if the policy wants it on the host."""
    boundary = longest(setting, path, known.certain(DEVICE))
    write = setting.config.write
    if write == WRITE_THROUGH or (write == SELECTIVE and end_name(path, boundary) in state.used):
        return boundary
    return 0


def with_begun(setting: Setting, known: State, begun: Sequence[Begun]) -> State:
    """What is known when these backups have begun too, and how many places of the host are free then."""
    for one in begun:
        counted = host_free(setting, known, one.call, one.answer) or {}
        known = expect_components(known, setting, one.call, one.answer)._replace(free={**known.free, HOST: counted})
    return known


@fact(3, ports=("component_view", "component_host_view", *BY_ITSELF))
def component_lost(
    setting: Setting,
    state: State,
    component_known: State,
    pools: PoolsSeen,
) -> Collection[Name] | Unknown:
    """The prefixes that ended with a boundary of the device before the call and neither tier makes valid after it, though the host has had room for them all the time."""
    if pools.host_held is None:
        return UNKNOWN
    if setting.config.write != WRITE_BACK:
        return []
    certain = state.certain(DEVICE)
    if not certain - component_known.places(DEVICE).keys():
        return []
    tried = {one.call.path.names[-1] for one in pools.begun}
    # What was evicted from the host may have made room too late: there was at least what is free now, less that.
    late = dict.fromkeys(setting.layout.host, 0)
    for one in pools.begun:
        for pool, many in by_pool(setting.layout, one.answer.freed).items():
            late[pool] += many
    there = {**component_known.places(DEVICE), **component_known.places(HOST)}
    lost = []
    for component, name in certain:
        if component != KV or name in tried:
            continue
        path = path_to(setting, name)
        length = len(path.names)
        needs = needed_by(setting, path, length)
        if needs <= there.keys() or length % step_of(setting.layout.components):
            continue
        before = not lacking_at(setting, path, length, certain)
        lacking = counted(plan_for(setting, state, path, length, load=False).most - component_known.places(HOST).keys())
        room = all(
            many <= len(pools.host_free[pool]) - late[pool] for pool, many in by_pool(setting.layout, lacking).items()
        )
        if before and room and not needs <= state.places(HOST).keys():
            lost.append(name)
    return lost


# Rules


WRITES = ("component_host", *BY_ITSELF)
EVICTS = (
    On.COMPONENT_EVICT,
    On.COMPONENT_LOAD,
    On.REFUSED_COMPONENT_LOAD,
    On.COMPONENT_PREFETCH,
    On.REFUSED_COMPONENT_PREFETCH,
)
"""The calls that may evict from the device."""

begun_rule = partial(rule, reference="prefix.components.writes.perform")


# BACKUP-02 speaks of pages of a path; a backup here is for a boundary, and each call may begin one.
@begun_rule(
    "COMP-53",
    on=CALLS,
    needs=WRITES,
    source="R-WB-01, R-WB-02",
    allowed="with {component_policy} none of other prefixes than it says",
)
def a_backup_begins_by_itself_when_the_policy_says(
    component_policy: str,  # noqa: ARG001 - the sentence names it
    component_begun_untimely: Collection[int],
) -> bool:
    """A cache MUST begin backups by itself only as its policy says, and none where it backs up what it is asked to.
    With write-through it backs up a prefix that the call inserts, finds, or goes on from. With the selective policy
    that prefix was cached before. With write-back the call evicts from the device.
    """
    return not component_begun_untimely


# New of components: a boundary is backed up whole.
@begun_rule(
    "COMP-54",
    on=CALLS,
    needs=WRITES,
    source="R-WB-03, R-SWA-08, R-MA-07",
    allowed="boundaries that the device can have for every component",
)
def a_backup_is_of_a_boundary_of_the_device(component_begun_of_nothing: Collection[int]) -> bool:
    """A backup that a cache begins by itself MUST be for a boundary at which the device has what every component needs: with write-back before the call, otherwise after it."""
    return not component_begun_of_nothing


# BACKUP-01 speaks of pages of a path; here the last boundary is due, of every component.
@begun_rule(
    "COMP-55",
    on=On.COMPONENT_INSERT,
    needs=(*WRITES, "component_host_counters"),
    source="R-WB-01, R-SWA-08, R-MA-07",
    allowed="a backup of the boundary that is due, or that it was refused",
)
def what_an_insert_makes_due_is_backed_up(component_due_missed: Collection[int]) -> bool:
    """After an insert the last boundary of its key MUST be on the host or on its way there for every component, if the
    policy makes it due. With write-through it always is, with the selective policy when an insert goes through it for
    the second time while it is whole on the device. It may be missing where there is no room for it after one eviction
    of what nothing protects.
    """
    return not component_due_missed


# New of components: what leaves the device may be what another component needs there.
@begun_rule(
    "COMP-56",
    on=EVICTS,
    needs=(*WRITES, "component_view", "component_host_view"),
    source="R-WB-01, R-SWA-07, R-MA-03",
    allowed="boundaries for which the host has no room",
)
def write_back_loses_no_boundary_that_the_host_has_room_for(component_lost: Collection[Name]) -> bool:
    """With write-back a call MUST NOT evict from the device what a boundary needs, of any component, without that boundary being valid over both tiers afterwards, if the host has had free places for all that it lacked."""
    return not component_lost
