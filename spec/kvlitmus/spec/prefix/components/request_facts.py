"""The facts of caches that serve requests by themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from kvlitmus.spec.law.facts import UNKNOWN, Unknown, fact
from kvlitmus.spec.law.on import On
from kvlitmus.spec.prefix.calls import Begin, Grow
from kvlitmus.spec.prefix.components.calls import Holding
from kvlitmus.spec.prefix.components.state import end_name, grown, longest_hit, places_of, published, started, stored_by
from kvlitmus.spec.prefix.listener import DEVICE
from kvlitmus.spec.prefix.page import At, Place, Stored
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.words.layouts import Layout
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.shapes import Need, Run, fits, needed, working

GRANTED = (On.COMPONENT_START, On.COMPONENT_GROW)
"""A request gets what it asks for."""

REFUSED = (On.REFUSED_COMPONENT_START, On.REFUSED_COMPONENT_GROW)
"""It does not."""

REQUEST_CALLS = (*GRANTED, *REFUSED, On.COMPONENT_FINISH)
"""All calls of requests."""


@fact(0)
def request_held(answer: Holding) -> Mapping[str, Mapping[int, int]]:
    """What the request holds after the call: of each component its places, by where they end."""
    return answer.held


@fact(0)
def request_working(layout: Layout, state: State, call: Begin | Grow, answer: Holding) -> Mapping[str, Collection[int]]:
    """Where the entries end, of each component, that the units of this chunk are computed with."""
    if isinstance(call, Begin):
        before, after = answer.length, started(call, answer).computed
    else:
        before, after = state.requests[call.rid].computed, grown(state, call, answer).computed
    return {one.name: working(one, before, after) for one in layout.components}


@fact(0)
def request_fits(setting: Setting, layout: Layout, state: State, call: Begin | Grow, answer: object) -> bool | Unknown:
    """Whether there was room for what was refused: places that no running request holds, cached or free."""
    if setting.profile.component_copies == "one" and state.copies:
        return UNKNOWN
    if isinstance(call, Begin):
        length = certain_hit(setting, state, call)
        if isinstance(length, Unknown):
            return UNKNOWN
        more = first_needs(layout, state, call, length)
    else:
        assert isinstance(answer, Holding)
        one = grown(state, call, answer)
        # What the request gives back is room for it, unless others hold it too.
        state = state._replace(requests={**state.requests, call.rid: one})
        after = min(one.computed + call.tokens, len(one.path.names))
        more = [
            Need(each, len(set(working(each, one.computed, after)) - one.held.get(each.name, {}).keys()))
            for each in layout.components
        ]
    held = Counter(pool for pool, _ in in_use(setting, layout, state))
    return fits(more, {pool: many - held[pool] for pool, many in layout.places.items()})


def in_use(setting: Setting, layout: Layout, state: State) -> frozenset[Place]:
    """The places that requests hold, and those of cached runs that they go on from.

    Where one entry is cached of what two requests compute, the other's own place is before what it has cached itself,
    and the cached one can't go, for a run is closed towards the root.
    """
    used = frozenset[Place]().union(*[places_of(layout, one.held) for one in state.requests.values()])
    if setting.profile.component_copies == "one":
        stored = frozenset[Stored]().union(*[stored_by(one) for one in state.requests.values()])
        runs = {one.name: one.pool for one in layout.components if isinstance(one.shape, Run)}
        there = state.places(DEVICE)
        used |= {(runs[at[0]], there[at]) for at, _ in stored if at[0] in runs and at in there}
    return used


def certain_hit(setting: Setting, state: State, call: Begin) -> int | Unknown:
    """The length of the hit that a refused request would have had; unknown where evictions weren't seen."""
    lengths = {longest_hit(setting, call.path, held) for held in (state.places(DEVICE), state.certain(DEVICE))}
    return lengths.pop() if len(lengths) == 1 else UNKNOWN


def first_needs(layout: Layout, state: State, call: Begin, length: int) -> list[Need]:
    """How many places a request takes that begins with a hit of this length: new ones, and of the hit what nobody holds.

    An entry of which there are copies counts, for the one that is found may be one that nobody holds.
    """
    after = call.at_once(length)
    used = frozenset[Stored]().union(*[stored_by(one) for one in state.requests.values()])
    needs, there = [], state.places(DEVICE)
    for each in layout.components:
        found = set(needed(each, length) or ())
        many = len(set(working(each, length, after)) - found)
        for end in found:
            at = (each.name, end_name(call.path, end))
            many += (at, there.get(at)) not in used or any(one == at for one, _ in state.copies)
        needs.append(Need(each, many))
    return needs


@fact(0)
def request_moved(layout: Layout, state: State, call: Grow, answer: Holding) -> Collection[tuple[str, int]]:
    """Where entries of the request end that are in other places than before the call."""
    before, held = state.requests[call.rid].held, answer.held
    return [
        (one.name, end)
        for one in layout.components
        for end, place in before.get(one.name, {}).items()
        if held.get(one.name, {}).get(end, place) != place
    ]


@fact(3, ports=("component_view",))
def request_unpublished(
    layout: Layout, state: State, call: Begin | Grow, answer: Holding, component_held: Mapping[At, int]
) -> Collection[At]:
    """What the largest boundary needs that the request has computed, and is not cached."""
    one = started(call, answer) if isinstance(call, Begin) else grown(state, call, answer)
    return sorted(published(layout, one) - component_held.keys())
