"""Requests on components: what a cache owes that serves them by itself, as vLLM's KV cache manager does.

Such a cache has no call that evicts or inserts.  A request begins with the longest prefix that it can use, gets places for
what it is about to compute, and goes on in chunks; whatever nobody holds makes room for it.  What it has computed can be
found by others at once.  Hits are judged as those of a match (TREE-02, TREE-03), what is cached by COMP-15 to
COMP-19; here stands what is owed to the request itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from kvlitmus.spec.law.facts import UNKNOWN, Unknown, fact
from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import rule
from kvlitmus.spec.prefix.calls import Begin, Grow
from kvlitmus.spec.prefix.components.calls import Holding
from kvlitmus.spec.prefix.components.state import end_name, longest_hit, places_of, published, served, stored_by
from kvlitmus.spec.prefix.components.tree import GRANTED, REFUSED
from kvlitmus.spec.prefix.listener import DEVICE
from kvlitmus.spec.prefix.page import At, Place, Stored
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.words.layouts import Layout
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.shapes import Need, Run, fits, needed, working


@fact(0)
def request_held(answer: Holding) -> Mapping[str, Mapping[int, int]]:
    """What the request holds after the call: of each component its places, by where they end."""
    return answer.held


@fact(0)
def request_working(
    setting: Setting, state: State, call: Begin | Grow, answer: Holding
) -> Mapping[str, Collection[int]]:
    """Where the entries end, of each component, that the units of this chunk are computed with."""
    before = answer.length if isinstance(call, Begin) else state.requests[call.rid].computed
    after = served(state, call, answer).computed
    return {one.name: working(one, before, after) for one in setting.layout.components}


@fact(0)
def request_fits(setting: Setting, state: State, call: Begin | Grow, answer: object) -> bool | Unknown:
    """Whether there was room for what was refused: places that no running request holds, cached or free."""
    if setting.profile.component_copies == "one" and state.copies:
        return UNKNOWN
    if isinstance(call, Begin):
        length = certain_hit(setting, state, call)
        if isinstance(length, Unknown):
            return UNKNOWN
        more = first_needs(setting.layout, state, call, length)
    else:
        assert isinstance(answer, Holding)
        one = served(state, call, answer)
        # What the request gives back is room for it, unless others hold it too.
        state = state._replace(requests={**state.requests, call.rid: one})
        after = min(one.computed + call.tokens, len(one.path.names))
        more = [
            Need(each, len(set(working(each, one.computed, after)) - one.held.get(each.name, {}).keys()))
            for each in setting.layout.components
        ]
    held = Counter(pool for pool, _ in in_use(setting, state))
    return fits(more, {pool: many - held[pool] for pool, many in setting.layout.places.items()})


def in_use(setting: Setting, state: State) -> frozenset[Place]:
    """The places that requests hold, and those of cached runs that they go on from.

    Where one entry is cached of what two requests compute, the other's own place is before what it has cached itself,
    and the cached one can't go, for a run is closed towards the root.
    """
    used = frozenset[Place]().union(*[places_of(setting.layout, one.held) for one in state.requests.values()])
    if setting.profile.component_copies == "one":
        stored = frozenset[Stored]().union(*[stored_by(one) for one in state.requests.values()])
        runs = {one.name: one.pool for one in setting.layout.components if isinstance(one.shape, Run)}
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
def request_moved(setting: Setting, state: State, call: Grow, answer: Holding) -> Collection[tuple[str, int]]:
    """Where entries of the request end that are in other places than before the call."""
    before, held = state.requests[call.rid].held, answer.held
    return [
        (one.name, end)
        for one in setting.layout.components
        for end, place in before.get(one.name, {}).items()
        if held.get(one.name, {}).get(end, place) != place
    ]


@fact(3, ports=("component_view",))
def request_unpublished(
    setting: Setting, state: State, call: Begin | Grow, answer: Holding, component_held: Mapping[At, int]
) -> Collection[At]:
    """What the largest boundary needs that the request has computed, and is not cached."""
    return sorted(published(setting.layout, served(state, call, answer)) - component_held.keys())


# Rules


# New of components: what a chunk reads goes by the shape, and a window leaves something behind while its request
# runs; of the KV it is the row (REQ-01).
@rule(
    "CREQ-01",
    on=GRANTED,
    source="R-SC-02, R-SWA-01, R-SWA-07, R-MA-01; design",
    reference="prefix.components.requests.start",
    allowed="{request_working}",
)
def a_request_holds_what_it_computes_with(
    request_held: Mapping[str, Mapping[int, int]], request_working: Mapping[str, Collection[int]]
) -> bool:
    """A request that is granted a chunk MUST hold, of every component, exactly what this chunk or a later one reads, and
    what the chunk is written to. It holds neither what its window has left behind, nor a state that was gone on from.
    """
    names = request_working.keys() | request_held.keys()
    return all(request_held.get(name, {}).keys() == set(request_working.get(name, ())) for name in names)


# REQ-14 and REQ-15 know one pool; here any of them may be the one that is short.
@rule(
    "CREQ-03",
    on=REFUSED,
    source="R-SC-02; design",
    reference="prefix.components.requests.start",
    allowed="room: what no running request holds is enough",
)
def a_refusal_means_that_requests_hold_the_rest(request_fits: bool) -> bool:
    """A request MUST be refused only if some pool has fewer places that no running request holds, cached ones among them, than it needs more."""
    return not request_fits


# REQ-02 goes by what slots hold, which is followed of the KV alone.
@rule(
    "CREQ-05",
    on=(On.COMPONENT_GROW, On.REFUSED_COMPONENT_GROW),
    source="design",
    reference="prefix.components.requests.grow",
    allowed="what it held, where it was",
)
def what_a_request_holds_stays_where_it_is(request_moved: Collection[tuple[str, int]]) -> bool:
    """What a request goes on holding MUST stay in its place."""
    return not request_moved


# REQ-03 speaks of a beginning; here each chunk has to be found, of every component.
@rule(
    "CREQ-06",
    on=GRANTED,
    needs=("component_view",),
    source="R-SWA-04, R-MA-02; design",
    reference="prefix.components.requests.grow",
    allowed="everything that the largest boundary needs that was computed",
)
def what_a_request_has_computed_can_be_found(request_unpublished: Collection[At]) -> bool:
    """What the largest boundary needs that a running request has computed MUST be cached."""
    return not request_unpublished
