"""Host memory of components: backups and loads back, on the reference's cache of components.

The host is a tier whose receipts are the running copies, so what evicts on the device evicts on it.  Where several
things are right, one eviction takes as many entries as the copy does of each component whose pool is short.
"""

from __future__ import annotations

from collections.abc import Collection

from kvlitmus.reference.prefix.components.prefetch import by_component
from kvlitmus.reference.prefix.components.tree import cached, folded, lowest, make_room, noted
from kvlitmus.spec.interface.tiers import BACKUP, LOAD
from kvlitmus.spec.prefix.components.calls import Copying, Entries, Taken
from kvlitmus.spec.prefix.components.copies import CopyPlan, largest_together, plan_for
from kvlitmus.spec.prefix.components.state import at_places, copied_to, ends_of, tier_of
from kvlitmus.spec.prefix.listener import DEVICE, HOST
from kvlitmus.spec.prefix.page import At
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work import Copy
from kvlitmus.spec.prefix.work_calls import BackUp, Copied, LoadBack
from kvlitmus.spec.words.setting import Setting


def begun(state: State, setting: Setting, call: BackUp | LoadBack, boundary: int) -> tuple[State, Copying]:
    """Protect what the boundary needs, make room once on the tier that it goes to, and take all places or none."""
    tier, plan = tier_of(state, call), plan_for(setting, state, call.path, boundary, load=isinstance(call, LoadBack))
    if not plan.most:
        return state, Taken(None, boundary=boundary)
    guarded = state._replace(under_way={**state.under_way, call.number: guard(state, plan, tier)})
    ends = {name: sorted(some) for name, some in ends_of(setting, call.path, plan.most).items()}
    wants = {name: len(some) for name, some in ends.items()}
    roomy, freed = make_room(guarded, setting, wants, tier)
    roomy = roomy._replace(under_way=state.under_way)
    places = lowest(roomy, setting, wants, tier)
    if places is None:
        return roomy, Taken(None, freed, boundary)
    answer = Taken({name: dict(zip(some, places[name], strict=True)) for name, some in ends.items()}, freed, boundary)
    then = folded(roomy, setting, call, answer)
    if setting.profile.component_landing == "begun":
        then = landed(then, tier, copied_to(call.path, answer))
    return then, answer


def guard(state: State, plan: CopyPlan, tier: str) -> Copy:
    """A copy to a tier that protects what it is for, and takes nothing yet."""
    device, host = ((plan.needs | plan.most) & state.places(one).keys() for one in (DEVICE, HOST))
    return Copy(LOAD if tier == DEVICE else BACKUP, {}, device, host)


def back_up(state: State, setting: Setting, call: BackUp) -> tuple[State, Copying]:
    """Copy to the host what the hit needs and the host lacks."""
    return begun(state, setting, call, call.length)


def load(state: State, setting: Setting, call: LoadBack) -> tuple[State, Copying]:
    """Copy to the device what it lacks for the largest boundary of both tiers together, if that is behind the hit."""
    boundary = largest_together(setting, state, call.path)
    if boundary <= call.start:
        return state, Taken(None, boundary=boundary)
    return begun(state, setting, call, boundary)


def copied(state: State, setting: Setting, call: Copied) -> tuple[State, Entries]:
    """What a copy brought is cached where it is missing; the rest is free, and everything if it failed."""
    tier, places = tier_of(state, call), state.under_way[call.number].places
    there = state.places(tier)
    left = {at: place for at, place in places.items() if not call.ok or at in there}
    returned = by_component(setting.layout, at_places(setting.layout, left))
    return landed(folded(state, setting, call, returned), tier, places.keys() - left.keys()), returned


def landed(state: State, tier: str, fresh: Collection[At]) -> State:
    """What a copy has brought to a tier was used just now, and is as old as where it came from."""
    there, source, now = cached(state, tier), cached(state, DEVICE if tier == HOST else HOST), state.device.clock
    pages = {}
    for at in fresh:
        made, hits = (source[at].created, source[at].hits) if at in source else (now, 0)
        pages[at] = there[at]._replace(touched=now, created=made, hits=hits)
    return noted(state, tier, pages)


COPIES = {BackUp: back_up, LoadBack: load, Copied: copied}
"""How these calls are performed."""
