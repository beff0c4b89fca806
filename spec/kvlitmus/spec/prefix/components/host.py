"""Host memory of components: what a cache owes that backs up KV, and what goes with it, and loads it back.

A **copy** goes from the device to the host, a backup, or from the host to the device, a load back.  It is for one boundary,
and takes what that needs of every component and the tier lacks that it goes to (COMP-32): a backup that forgets the window
has saved nothing, and a load back restores all of a window or isn't begun.  A load back is for the largest boundary that both tiers
can make valid together (LOAD-11), wherever each entry is: a state alone is worth one, if it makes a longer prefix usable.

Memory is granted for all components at once or for none, after one eviction from that tier at most (COMP-36, COMP-13).
While a copy is under way what its boundary needs stays where it is, on both tiers (LOCK-01), and what it is written to is
neither cached nor free.  When it has ended, what it brought is cached, unless it failed or somebody else was first (COMP-29).
By the profile it may be cached from the beginning, and a copy may go by its path: take, and protect, what else there is of that.

On the host too KV is kept only with what is before it, and other components only beside KV (TREE-05, COMP-19): whatever
becomes of the device, what is on the host can be loaded.  It would not be enough for the entry before to be on the device, where it
may be evicted at any time.

The arithmetic is in :mod:`kvlitmus.spec.prefix.components.copies`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kvlitmus.spec.interface.tiers import BACKUP
from kvlitmus.spec.law.facts import fact
from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import rule
from kvlitmus.spec.prefix.components import tree as _tree  # noqa: F401 - what these are worked out from
from kvlitmus.spec.prefix.components.calls import Copying, Taken
from kvlitmus.spec.prefix.components.copies import (
    CopyCall,
    CopyPlan,
    copy_plans,
    due_in_storage,
    largest_together,
    refusable,
)
from kvlitmus.spec.prefix.components.state import (
    copied_to,
    end_name,
    ends_at,
    ends_of,
    free_least,
    lacking_in,
    loose_on,
    needed_by,
    tier_of,
)
from kvlitmus.spec.prefix.listener import DEVICE, HOST
from kvlitmus.spec.prefix.page import At
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work_calls import BackUp, LoadBack, Write
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.shapes import step_of

# What a copy takes


@fact(0)
def component_copy_takes(answer: Taken[Collection[int]]) -> Mapping[str, Collection[int]]:
    """Where the entries end that a copy takes, by component."""
    return {name: frozenset(some) for name, some in (answer.places or {}).items() if some}


def may_stop(setting: Setting, state: State, call: CopyCall, answer: Copying, plan: CopyPlan) -> bool:
    """Whether a backup may take what an earlier boundary needs: it goes by its path, and there may be too little room for all."""
    if setting.profile.component_extent == "boundary" or isinstance(call, LoadBack):
        return False
    available, freed = state.free.get(HOST), answer.freed
    return available is None or refusable(setting, plan, loose_on(setting, state, HOST), available, freed)


def last_brought(setting: Setting, state: State, call: CopyCall, brought: Collection[At]) -> int:
    """The last boundary that the device certainly has of which a backup brings the KV: what it stops after; 0 for none."""
    layout, ends = setting.layout, ends_of(setting, call.path, state.certain(DEVICE))
    step = step_of(layout.components)
    return max(
        [
            end
            for end in ends_at(call.path, layout.base.name, frozenset(brought))
            if end % step == 0 and not lacking_in(setting, ends, end)
        ],
        default=0,
    )


@fact(0)
def component_copy_least(
    setting: Setting, state: State, call: CopyCall | Write, answer: Copying
) -> Mapping[str, Collection[int]]:
    """Where the entries end that its boundary needs and the tier that it goes to certainly lacks, or storage; if it may stop earlier, and does, of the last boundary of which it brings the KV."""
    if isinstance(call, Write):
        return ends_of(setting, call.path, due_in_storage(setting, call))
    (plan,) = copy_plans(setting, state, call, answer)
    least, brought = plan.least, copied_to(call.path, answer).keys()
    if not least <= brought and may_stop(setting, state, call, answer, plan):
        boundary = last_brought(setting, state, call, brought)
        least = needed_by(setting, call.path, boundary) - state.places(HOST).keys()
    return ends_of(setting, call.path, least)


@fact(0)
def component_copy_most(
    setting: Setting, state: State, call: CopyCall | Write, answer: Copying
) -> Mapping[str, Collection[int]]:
    """Where the entries end that a copy may take and the tier that it goes to may lack: what its boundary needs, or all on its path; a write what storage lacks."""
    if isinstance(call, Write):
        return ends_of(setting, call.path, due_in_storage(setting, call))
    return ends_of(setting, call.path, copy_plans(setting, state, call, answer)[0].most)


# Room


def may_wait(setting: Setting, state: State, call: BackUp) -> bool:
    """Whether a backup may be refused because another one runs: by nodes, one has a node to itself until it has ended."""
    if setting.profile.component_extent == "boundary" or not call.length:
        return False
    end = setting.layout.base.name, end_name(call.path, call.length)
    return any(end in one.needs for one in state.under_way.values() if one.kind == BACKUP)


@fact(0, ports=("component_counters", "component_host_counters"))
def component_copy_refusable(setting: Setting, state: State, call: CopyCall, answer: Copying) -> bool:
    """Whether a copy may be refused: there may be nothing to take, some pool is short after one eviction, or it may wait for another."""
    available = free_least(setting.layout, state, tier_of(state, call))
    if isinstance(call, LoadBack):
        if largest_together(setting, state, call.path) <= call.start:
            return True
        # Who asks goes on from the hit, and may hold it while room is made.
        loose = state.certain(DEVICE) - state.needed(DEVICE) - needed_by(setting, call.path, call.start)
    else:
        if may_wait(setting, state, call):
            return True
        loose = loose_on(setting, state, HOST)
    freed = answer.freed
    return any(refusable(setting, plan, loose, available, freed) for plan in copy_plans(setting, state, call, answer))


# Rules


BEGUN = (On.COMPONENT_BACK_UP, On.COMPONENT_LOAD)
REFUSED = (On.REFUSED_COMPONENT_BACK_UP, On.REFUSED_COMPONENT_LOAD)


# LOAD-01 and BACKUP-01 know one run, and BACKUP-07 puts page by page; by its shape each component takes something else.
@rule(
    "COMP-32",
    on=(*BEGUN, On.COMPONENT_WRITE),
    needs=("component_host",),
    source="R-SWA-08, R-MA-07; design",
    reference="prefix.components.host.begun",
    allowed="at least {component_copy_least}, at most {component_copy_most}",
)
def a_copy_takes_what_its_boundary_needs_and_is_lacking_where_it_goes(
    component_copy_takes: Mapping[str, Collection[int]],
    component_copy_least: Mapping[str, Collection[int]],
    component_copy_most: Mapping[str, Collection[int]],
) -> bool:
    """A copy or a write MUST take, of every component, exactly the entries that its boundary needs and that are lacking where
    it goes. Of a window that is all that is missing, and of states the boundary's own. Where the profile says that copies
    go by their path, a copy takes also others on it that the other tier has. A backup that might have been refused may stop
    earlier then, with all that the last boundary needs of which it brings the KV.
    """
    if component_copy_takes.keys() - component_copy_least.keys():
        return False
    return all(
        set(least) <= set(component_copy_takes.get(name, ())) <= set(component_copy_most[name])
        for name, least in component_copy_least.items()
    )


# LOAD-03 knows one pool; here any of them may be the one that is short.
@rule(
    "COMP-36",
    on=REFUSED,
    needs=("component_counters", "component_host_counters"),
    source="R-SC-02, R-MA-07, R-HOST-10",
    reference="prefix.components.host.begun",
    allowed="a copy: there is something to take, and room for it",
)
def a_refused_copy_has_nothing_to_take_or_no_room(component_copy_refusable: bool) -> bool:
    """A copy MUST be refused only if there is nothing to take, or some pool is too small for what all components
    together need. One eviction makes room first, of what nothing protects and the hit that is gone on from doesn't
    need. How much there is to take is no reason. Where the profile says that copies go by their path, what they take
    and protect is that of all of it. A backup may then make room for each boundary on it in turn, or be refused while
    another one runs on a path through its boundary.
    """
    return component_copy_refusable
