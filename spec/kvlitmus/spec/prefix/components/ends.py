"""What ends gives back what it had: a prefetch, a copy, and all prefetches when storage goes away.

It keeps what it attaches, and what I/O may still write.  Of what is cached by then nobody needs a second place.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence

from kvlitmus.spec.law.facts import fact
from kvlitmus.spec.law.on import On
from kvlitmus.spec.law.rule import rule
from kvlitmus.spec.prefix.components.state import at_places, brought_by, given_back, tier_of, written
from kvlitmus.spec.prefix.page import At, Place
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work import Fetch
from kvlitmus.spec.prefix.work_calls import Abandon, Commit, Copied, Detach, Fetched, Found
from kvlitmus.spec.words.layouts import Layout
from kvlitmus.spec.words.setting import Setting

End = Fetched | Commit | Abandon | Copied | Detach
"""The calls with which something ends."""

ENDS = (
    On.COMPONENT_FOUND,
    On.COMPONENT_SETTLED,
    On.COMPONENT_COMMIT,
    On.COMPONENT_ABORT,
    On.COMPONENT_COPIED,
    On.COMPONENT_DETACH,
)
"""With these something ends; when storage has said what it has, a prefetch may give back what it won't read."""


def rest_of(layout: Layout, fetch: Fetch, came: Mapping[str, Collection[int]]) -> frozenset[Place]:
    """What a prefetch has that its I/O may not write any more, if these entries came."""
    return fetch.reserved - written(layout, fetch, came)


def left_over(layout: Layout, state: State, call: End) -> frozenset[Place]:
    """The places that are over with a call; some of them may be cached by then."""
    match call:
        case Copied():
            return at_places(layout, state.under_way[call.number].places)
        case Commit():
            return rest_of(layout, state.fetches[call.rid], call.came)
        case Abandon():
            return rest_of(layout, state.fetches[call.rid], {})
        case Fetched():
            fetch = state.fetches[call.rid]
            return fetch.reserved if fetch.over else frozenset()
        case Detach():
            given_up = [rest_of(layout, one, {}) for one in state.fetches.values() if not one.over]
            return frozenset[Place]().union(*given_up)


@fact(0)
def component_returned(setting: Setting, call: End | Found, answer: object) -> Sequence[Place]:
    """The places that the call gave back, as often as it did."""
    given = given_back(call, answer)
    return [(setting.layout.named(name).pool, place) for name, some in given.items() for place in some]


@fact(0)
def component_returned_least(setting: Setting, state: State, call: End | Found) -> Collection[Place]:
    """The places that the call must give back: what is over, and isn't for what may be missing."""
    if isinstance(call, Found):
        return frozenset()
    return _without_missing(setting, state, call, state.certain(tier_of(state, call)))


@fact(0)
def component_returned_most(setting: Setting, state: State, call: End | Found) -> Collection[Place]:
    """The places that the call may give back: what is over, and isn't for what is certainly missing."""
    if isinstance(call, Found):
        return state.fetches[call.rid].reserved
    return _without_missing(setting, state, call, state.places(tier_of(state, call)))


def _without_missing(setting: Setting, state: State, call: End, there: Container[At]) -> frozenset[Place]:
    """The places that are over with a call, without those for what isn't there."""
    brought = brought_by(setting, state, call, None)
    missing = {at: place for at, place in brought.items() if at not in there}
    return left_over(setting.layout, state, call) - at_places(setting.layout, missing)


# A plain cache names no places that work under way gives back: POOL-12 counts them.
@rule(
    "COMP-29",
    on=ENDS,
    source="R-SWA-03, R-SWA-04, R-SWA-05, R-MA-05, R-MA-06, R-SC-05, R-WB-04, R-LIFE-04; sglang#27264",
    reference="prefix.components.prefetch.commit",
    allowed="at least {component_returned_least}, at most {component_returned_most}, each once",
)
def what_ends_gives_back_what_it_does_not_leave(
    component_returned: Sequence[Place],
    component_returned_least: Collection[Place],
    component_returned_most: Collection[Place],
) -> bool:
    """The end of a prefetch, of its I/O, of a copy or of storage MUST give back, each once, exactly the places that it
    had and neither attaches to what is missing nor may still write. A part of a window is never attached, nor a state
    to a boundary that it was not stored for, nor anything by a copy that has failed.
    """
    given = set(component_returned)
    return len(given) == len(component_returned) and (
        set(component_returned_least) <= given <= set(component_returned_most)
    )
