"""The release queue of the device: what is given back and not yet free.

A profile may say that a cache collects what it is given back (``release_delay``): by a free, at the end of a group or of a
request, or as duplicates.  Or the next call that takes memory collects it (``release_moment``).  Else each call that gives something back may put some of it on the free list, and at the latest,
so many such calls after it was given back, a page must be there.  No other call but a reset touches the queue: an
allocation that finds the free list too short makes room or is refused, as if the queue weren't there.

Where a filter of the cache's own decides what a request leaves (``admission``), what is given back is what isn't cached
afterwards: it is known when the cache was seen (:func:`queued_as_seen`), and without a snapshot all of it may wait.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from kvlitmus.spec.law.facts import fact
from kvlitmus.spec.prefix.calls import TAKING, End, EndGroup, Free, FreeInGroup, Reset, Retract, TakeBack
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work_calls import PlainCall
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import PageNo

NONE: frozenset[PageNo] = frozenset()


def queued(state: State, then: State, setting: Setting, call: PlainCall) -> State:
    """What may wait after a call: what it gave back, and what was given back by the last few such calls before it.

    Without a snapshot nobody knows whether what a request brought was a duplicate.  If it wasn't, nothing was given
    back, and what waits goes on to do so; so it is counted with what was given back last.
    """
    delay = setting.profile.release_delay
    if setting.reclaims:
        return reclaimed(state, then, call)
    if not delay or setting.table or isinstance(call, Reset):
        return then
    given = given_back_by(state, then)
    leaving = then.leaving
    if given and (setting.seen or gives_back(call) or not leaving):
        leaving = (*leaving, frozenset(given))[-delay:]
    elif given:
        leaving = (*leaving[:-1], leaving[-1] | given)
    return without(then._replace(leaving=leaving), then.owners.keys())


def queued_as_seen(state: State, then: State, setting: Setting, call: PlainCall, free: AbstractSet[PageNo]) -> State:
    """The same after the cache was seen; ``free``: what is on its free list."""
    return without(queued(state, then, setting, call), free)


def given_back_by(state: State, then: State) -> frozenset[PageNo]:
    """The pages that a call has given back: nobody owns them any more, and they aren't known to be cached."""
    given = frozenset(state.owners.keys() - then.owners.keys())
    unsure = then.device.doubt.unsure
    return given and given - {page.page for name, page in then.device.pages.items() if name not in unsure}


def reclaimed(state: State, then: State, call: PlainCall) -> State:
    """The same where a call that gets memory has reclaimed all that waits."""
    if isinstance(call, Reset) or (isinstance(call, TAKING) and then.owners.keys() - state.owners.keys()):
        return then._replace(leaving=())
    given = given_back_by(state, then)
    return then._replace(leaving=(waiting_in(then) | given,)) if given else then


def at_hand(free: frozenset[PageNo], state: State, call: PlainCall) -> frozenset[PageNo]:
    """What is on the free list when a call begins to take memory, where it reclaims first what waits."""
    return free | waiting_in(state) if isinstance(call, TAKING) else free


def gives_back(call: PlainCall) -> bool:
    """Whether all that a call releases is given back, whatever is cached."""
    return isinstance(call, Free | FreeInGroup | EndGroup | TakeBack | Retract) or (
        isinstance(call, End) and not call.keep
    )


def without(state: State, pages: AbstractSet[PageNo]) -> State:
    """These pages don't wait: they are seen on the free list, or in use."""
    if all(batch.isdisjoint(pages) for batch in state.leaving):
        return state
    return state._replace(leaving=tuple([batch - pages for batch in state.leaving]))


def waiting_in(state: State) -> frozenset[PageNo]:
    """The pages that may wait."""
    return frozenset().union(*state.leaving) if state.leaving else NONE


@fact(0, before="waiting_before")
def waiting_after(then: State) -> frozenset[PageNo]:
    """Pages that may wait in a release queue after the call."""
    return waiting_in(then)


def released(
    before: AbstractSet[PageNo],
    given: AbstractSet[PageNo],
    after: AbstractSet[PageNo],
    waited: AbstractSet[PageNo],
    waits: AbstractSet[PageNo],
) -> bool:
    """Whether a free list grew as it must by what was ``given`` back: at once, unless that ``waits``, and by some of what ``waited``."""
    return before <= after and given <= after | waits and after <= before | given | waited
