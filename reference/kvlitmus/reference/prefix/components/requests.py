"""Requests on components: one correct cache that serves them, over :mod:`~kvlitmus.reference.prefix.components.tree`.

Of what a request holds a part is cached, which a receipt of its own covers; the rest is its own.  Where there is no
room, what is worth least is evicted, one entry at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from kvlitmus.reference.prefix.components.tree import (
    evict,
    evictable,
    filled,
    folded,
    free_places,
    lowest,
    match,
    next_to_go,
    short_of,
)
from kvlitmus.spec.prefix.calls import Begin, End, Evict, Grow, Match
from kvlitmus.spec.prefix.components.calls import Entries, Holding
from kvlitmus.spec.prefix.components.state import needed_ends, serving, stored_by
from kvlitmus.spec.prefix.listener import DEVICE
from kvlitmus.spec.prefix.page import At
from kvlitmus.spec.prefix.state import RequestState, State
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.shapes import Need, fits, working


def room(state: State, setting: Setting, wants: Mapping[str, int]) -> tuple[State, Entries | None]:
    """So many places of each component, for which others are evicted; ``None``: there is no room."""
    layout, covered = setting.layout, state.covered(DEVICE)
    loose = Counter({pool: len(free) for pool, free in free_places(state, setting).items()})
    loose.update([layout.named(at[0]).pool for at in state.places(DEVICE) if at not in covered])
    if not fits([Need(layout.named(name), many) for name, many in wants.items()], loose):
        return state, None
    while (granted := lowest(state, setting, wants)) is None:
        state = evict_one(state, setting, wants)
    return state, granted


def evict_one(state: State, setting: Setting, wants: Mapping[str, int]) -> State:
    """Evict the entry that is worth least, of a pool that is short."""
    short = short_of(state, setting, wants)
    names = [one.name for one in setting.layout.components if one.pool in short]
    choices = [at for name in names for at in evictable(state, setting, name)]
    victim = next_to_go(state, setting, choices)
    # The victim is the first of its component, too.
    return evict(state, setting, Evict({victim[0]: 1}))[0]


def start(state: State, setting: Setting, call: Begin) -> tuple[State, Holding | None]:
    """Find the hit, protect it, get places for the chunk, and cache what is whole."""
    then, hit = match(state, setting, Match(call.path))
    root, held = setting.profile.window_root, {}
    for one in setting.layout.components:
        ends = needed_ends(call.path, one, hit.length, root)
        held[one.name] = dict(zip(ends, hit.entries[one.name], strict=True))
    request = serving(call.path, hit.length, held)
    then, granted = go_on(then, setting, call.rid, request, call.at_once(hit.length))
    return (then, Holding(hit.length, then.requests[call.rid].held)) if granted else (state, None)


def grow(state: State, setting: Setting, call: Grow) -> tuple[State, Holding]:
    """Give back what is not needed any more, get places for the chunk, and cache what is whole."""
    request = state.requests[call.rid]
    after = min(request.computed + call.tokens, len(request.path.names))
    then, granted = go_on(state, setting, call.rid, request, after)
    return then, Holding(0, then.requests[call.rid].held, granted)


def go_on(state: State, setting: Setting, rid: int, request: RequestState, after: int) -> tuple[State, bool]:
    """A request of which so much is computed, or, where there is no room, without what it needs no more."""
    need = {one.name: working(one, request.computed, after) for one in setting.layout.components}
    held = {name: {end: at for end, at in some.items() if end in need[name]} for name, some in request.held.items()}
    state = holding(state, setting, rid, request._replace(held=held))
    missing = {name: [end for end in ends if end not in held[name]] for name, ends in need.items()}
    state, granted = room(state, setting, {name: len(ends) for name, ends in missing.items() if ends})
    if granted is None:
        return state, False
    new = {name: dict(zip(missing[name], some, strict=True)) for name, some in granted.items()}
    request = request._replace(
        computed=after, held={name: {**some, **new.get(name, {})} for name, some in held.items()}
    )
    # What is cached already stays its own.
    return holding(filled(state, setting, own(state, request))[0], setting, rid, request), True


def own(state: State, request: RequestState) -> Mapping[At, int]:
    """What is whole of what a request holds, and is not cached there."""
    there = state.places(DEVICE)
    return {at: place for at, place in stored_by(request) if there.get(at) != place}


def holding(state: State, setting: Setting, rid: int, request: RequestState) -> State:
    """A receipt covers what a request holds that is cached, and the cached KV of all that it has computed."""
    base, alone = setting.layout.base.name, own(state, request)
    covered = frozenset(at for at, _ in stored_by(request) if at not in alone or at[0] == base)
    return state._replace(requests={**state.requests, rid: request}, covers={**state.covers, rid: covered})


def finish(state: State, setting: Setting, call: End) -> tuple[State, None]:
    """What is cached stays, unprotected; what was the request's own is free."""
    if call.rid not in state.requests:
        raise ValueError(f"request {call.rid} does not run")
    covers = {number: at for number, at in state.covers.items() if number != call.rid}
    return folded(state._replace(covers=covers), setting, call, None), None


REQUESTS = {Begin: start, Grow: grow, End: finish}
"""How these calls are performed."""
