"""Locks that end late: what was given back, and may protect for some calls more.

A profile may say so (``unlock_delay``): an engine that runs a step ahead ends a lock when the step that reads under it
is over.  Who gives one back is an unlock, a request that is refused, one that publishes and goes on with the lock on a longer path,
and one that ends: it has read all that it leaves in the cache.  The lock protects until the end of so many later calls at
most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from kvlitmus.spec.law.facts import fact
from kvlitmus.spec.prefix.calls import (
    OF_REQUESTS,
    Begin,
    Compute,
    End,
    Fork,
    Grow,
    Publish,
    Reset,
    Resume,
    Retract,
    Unlock,
)
from kvlitmus.spec.prefix.effects import path
from kvlitmus.spec.prefix.page import Tier
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work_calls import PlainCall
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import Name, Tokens


def given_back(state: State, then: State, setting: Setting, call: PlainCall) -> State:
    """What is remembered after a call of the locks that were given back: those of the last few calls, this one included."""
    if isinstance(call, Compute | Reset):  # the cache isn't told of the one, and forgets by the other
        return then
    covered, before = covered_by(state, then, call), state.unlocking
    if "composed" in setting.capabilities and isinstance(call, Grow | Publish) and before:  # it may have made no call
        return then._replace(unlocking=(*before[:-1], before[-1] + covered))
    return then._replace(unlocking=(*before, covered)[-setting.unlock_delay :])


def covered_by(state: State, then: State, call: PlainCall) -> tuple[Name, ...]:
    """The pages that are covered by the lock which a call gave back, if it did; at most."""
    if isinstance(call, Unlock):
        return path(state.device, state.receipts[call.receipt])
    if isinstance(call, Begin | Resume) and call.rid not in then.requests:
        pages = call.path.pages
    elif isinstance(call, End) and call.keep:
        pages = state.requests[call.rid].path.pages
    else:
        of = call.rid if isinstance(call, (*OF_REQUESTS, Retract)) else call.of if isinstance(call, Fork) else None
        return () if of is None else path(state.device, state.requests[of].locked)
    return tuple([name for name in pages if name in then.device.pages])


def late_locks(state: State, tree: Tier) -> Mapping[Name, int]:
    """How many locks that were given back each page may have still."""
    if not any(state.unlocking):
        return {}
    return Counter([name for covered in state.unlocking for name in covered if name in tree.pages])


def still_locked(state: State, ended: Collection[Name] = ()) -> Tier:
    """The tree with these locks, too, of a cache that ends them as late as it may; without those on pages where they have ``ended``."""
    pages = dict(state.device.pages)
    for name, times in late_locks(state, state.device).items():
        if name not in ended:
            pages[name] = pages[name]._replace(locks=pages[name].locks + times)
    return state.device._replace(pages=pages)


@fact(0, before="late_before")
def late_after(then: State) -> Mapping[Name, int]:
    """How many locks that were given back each page may have still, after the call."""
    return late_locks(then, then.device)


@fact(0)
def late_count(then: State, setting: Setting, late_after: Mapping[Name, int]) -> Tokens:
    """Units of cached pages that nothing protects but, perhaps, a lock that was given back, after the call."""
    return Tokens(sum(not then.device.pages[name].locks for name in late_after) * setting.size)
