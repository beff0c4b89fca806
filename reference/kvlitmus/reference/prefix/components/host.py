"""Host memory of components: backups and loads back, on the reference's cache of components.

The host is a tier whose receipts are the running copies, so what evicts on the device evicts on it.  Where several
things are right, one eviction takes as many entries as the copy does of each component whose pool is short.
"""

from __future__ import annotations

from collections.abc import Collection

from kvlitmus.reference.prefix.components.prefetch import by_component
from kvlitmus.reference.prefix.components.tree import cached, folded, lowest, make_room, noted
from kvlitmus.spec.interface.tiers import BACKUP, LOAD
from kvlitmus.spec.prefix.calls import Path
from kvlitmus.spec.prefix.components.calls import Copying, Entries, Taken
from kvlitmus.spec.prefix.components.state import at_places, copied_to, ends_at, needed_by, on_path, tier_of
from kvlitmus.spec.prefix.listener import DEVICE, HOST
from kvlitmus.spec.prefix.page import At
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work import Copy
from kvlitmus.spec.prefix.work_calls import BackUp, Copied, LoadBack
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.shapes import largest


def begun(state: State, setting: Setting, call: BackUp | LoadBack, boundary: int) -> tuple[State, Copying]:
    """Protect what the boundary needs, make room once on the tier that it goes to, and take all places or none."""
    load, tier = isinstance(call, LoadBack), tier_of(state, call)
    needs = reach_of(state, setting, call.path, boundary, load=load)
    taken = needs - state.places(tier).keys()
    if not taken:
        return state, Taken(None, boundary=boundary)
    guarded = state._replace(under_way={**state.under_way, call.number: guard(state, needs, load=load)})
    ends = {one.name: sorted(ends_at(call.path, one.name, taken)) for one in setting.layout.components}
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


def guard(state: State, needs: frozenset[At], *, load: bool) -> Copy:
    """A copy that protects this, and takes nothing yet."""
    device, host = (needs & state.places(tier).keys() for tier in (DEVICE, HOST))
    return Copy(LOAD if load else BACKUP, {}, device, host)


def reach_of(state: State, setting: Setting, path: Path, boundary: int, *, load: bool) -> frozenset[At]:
    """What a copy is for: what its boundary needs, and by the profile what else there is to bring of its path."""
    needs = needed_by(setting, path, boundary)
    if setting.profile.component_extent == "boundary":
        return needs
    read, written = (state.places(tier).keys() for tier in ((HOST, DEVICE) if load else (DEVICE, HOST)))
    return needs | (on_path(setting.layout, path, boundary) & read - written)


def back_up(state: State, setting: Setting, call: BackUp) -> tuple[State, Copying]:
    """Copy to the host what the hit needs and the host lacks."""
    return begun(state, setting, call, call.length)


def load(state: State, setting: Setting, call: LoadBack) -> tuple[State, Copying]:
    """Copy to the device what it lacks for the largest boundary of both tiers together, if that is behind the hit."""
    boundary = together(state, setting, call.path)
    if boundary <= call.start:
        return state, Taken(None, boundary=boundary)
    return begun(state, setting, call, boundary)


def together(state: State, setting: Setting, path: Path) -> int:
    """The largest admitted boundary of a key that both tiers together make valid."""
    components, profile = setting.layout.components, setting.profile
    there = state.places(DEVICE).keys() | state.places(HOST).keys()
    ends = {one.name: ends_at(path, one.name, there) for one in components}
    return largest(components, len(path.names), ends.__getitem__, root=profile.window_root, cap=profile.match_cap)


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
