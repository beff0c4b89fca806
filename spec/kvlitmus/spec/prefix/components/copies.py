"""What a copy between device and host may take, of a cache of components: the arithmetic of backups and loads back.

A copy is for one boundary.  It takes what the boundary needs of every component and the tier lacks that it goes to, and
by the profile what else there is on its path.  Below a snapshot it is not known for certain what a tier lacks, so a plan
has two bounds; and where a load back was refused, there is one plan for each boundary that it may have been asked of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from kvlitmus.spec.prefix.calls import Path
from kvlitmus.spec.prefix.components.calls import Copying
from kvlitmus.spec.prefix.components.state import (
    by_pool,
    end_name,
    ends_of,
    lacking_in,
    longest,
    needed_by,
    on_path,
    spared_for,
)
from kvlitmus.spec.prefix.listener import DEVICE, HOST
from kvlitmus.spec.prefix.page import At
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work_calls import BackUp, LoadBack, Write
from kvlitmus.spec.words.layouts import Layout
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.shapes import admit, step_of

CopyCall = BackUp | LoadBack


class CopyPlan(NamedTuple):
    """For one boundary what a copy must take (``least``) and what it may take (``most``), and all that the boundary needs.

    ``spared``: what the copy may protect of either tier while it makes room, by the profile all on its path.  ``parts``:
    whether it may make room for each boundary on its path in turn, as a backup by its path does.
    """

    boundary: int
    least: frozenset[At]
    most: frozenset[At]
    needs: frozenset[At]
    spared: frozenset[At]
    parts: bool


def plan_for(setting: Setting, state: State, path: Path, boundary: int, *, load: bool) -> CopyPlan:
    """The plan of a copy for this boundary."""
    needs = needed_by(setting, path, boundary)
    to, source = (DEVICE, HOST) if load else (HOST, DEVICE)
    most, by_path = needs, setting.profile.component_extent == "path"
    if by_path:
        most |= on_path(setting.layout, path, boundary) & state.places(source).keys()
    spared = spared_for(setting, path, boundary)
    least = needs - state.places(to).keys()
    return CopyPlan(boundary, least, most - state.certain(to), needs, spared, by_path and not load)


def due_in_storage(setting: Setting, call: Write) -> frozenset[At]:
    """What the boundary of a write needs and storage lacks."""
    units = len(call.path.names)
    stored = {(name, end_name(call.path, end)) for name, some in call.stored.items() for end in some if end <= units}
    return needed_by(setting, call.path, call.length) - stored


def copy_plans(setting: Setting, state: State, call: CopyCall, answer: Copying) -> Sequence[CopyPlan]:
    """The plans that a copy may have had; none where there may be nothing behind the hit to load."""
    if isinstance(call, BackUp):
        return [plan_for(setting, state, call.path, call.length, load=False)]
    if answer.places is not None:
        return [plan_for(setting, state, call.path, answer.boundary, load=True)]
    least = largest_together(setting, state, call.path)
    ends = ends_of(setting, call.path, possible(state))
    step, units = step_of(setting.layout.components), len(call.path.names)
    return [
        plan_for(setting, state, call.path, boundary, load=True)
        for boundary in range(max(least, call.start + step - call.start % step), units + 1, step)
        if admit(boundary, units, step, setting.profile.match_cap) and not lacking_in(setting, ends, boundary)
    ]


def possible(state: State) -> frozenset[At]:
    """Everything that may be cached on one of both tiers."""
    return frozenset(state.places(DEVICE)) | state.places(HOST).keys()


def largest_together(setting: Setting, state: State, path: Path) -> int:
    """The largest admitted boundary of a key that is valid for all components over both tiers, for certain."""
    certain = frozenset(state.certain(DEVICE) | state.certain(HOST))
    return longest(setting, path, certain, cap=setting.profile.match_cap)


def copy_needs(setting: Setting, state: State, call: CopyCall, answer: Copying) -> frozenset[At]:
    """What the boundary of a copy needs, whichever it may have been: a copy spares it itself."""
    plans = copy_plans(setting, state, call, answer)
    return frozenset.intersection(*[plan.needs for plan in plans]) if plans else frozenset()


def copy_wants(plans: Sequence[CopyPlan]) -> Mapping[str, int]:
    """How many entries of each component a copy may want memory for."""
    wants = Counter[str]()
    for plan in plans:
        wants |= counted(plan.most)
    return wants


def counted(some: Collection[At]) -> Counter[str]:
    """How many entries of each component these are."""
    return Counter([name for name, _ in some])


def short_pools(layout: Layout, counts: Mapping[str, int], available: Mapping[str, int]) -> frozenset[str]:
    """The pools that have fewer free places than so many entries need."""
    return frozenset(pool for pool, many in by_pool(layout, counts).items() if many > available.get(pool, 0))


def refusable(
    setting: Setting,
    plan: CopyPlan,
    loose: Collection[At],
    available: Mapping[str, int],
    freed: Mapping[str, int],
) -> bool:
    """Whether a copy of this plan may be refused: it may have nothing to take, or some pool is short after one eviction, or would be.

    ``loose``: what is certainly cached on the tier that it goes to, and nothing protects.  ``available``: what was free
    before; ``freed``: what was evicted for the copy.
    """
    if not plan.least:
        return True
    layout = setting.layout
    wants = counted(plan.least if setting.profile.component_extent == "boundary" else plan.most)
    evicted = by_pool(layout, freed)
    could = evicted_for(layout, wants, counted([at for at in loose if at not in plan.spared]), parts=plan.parts)
    for pool, many in by_pool(layout, counted(plan.most)).items():
        had = available.get(pool, 0)
        # Who knows beforehand that it would not be enough need not evict anything for it.
        if max(had + evicted.get(pool, 0), had + could.get(pool, 0)) < many:
            return True
    return False


def evicted_for(layout: Layout, wants: Mapping[str, int], free: Mapping[str, int], *, parts: bool) -> Mapping[str, int]:
    """How many places of each pool evictions for a copy surely make free, which take of each component as many entries as it wants.

    Who makes room in parts may spend what is free on parts for which there is enough of each component, and lack it where
    one component of a shared pool has too little: there nothing is sure.
    """
    could = {name: min(many, free.get(name, 0)) for name, many in wants.items()}
    if parts:
        pools = {name: layout.named(name).pool for name in wants}
        lacking = {pools[name] for name, many in wants.items() if could[name] < many}
        shared = {pool for pool in lacking if list(pools.values()).count(pool) > 1}
        could = {name: many for name, many in could.items() if pools[name] not in shared}
    return by_pool(layout, could)
