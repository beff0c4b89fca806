"""Pages that a request holds beside its row, for tokens to come.

A profile may say so (``spare_pages``): an engine that speculates takes memory ahead for tokens that may never be.  A
request takes such pages when it begins or grows, and gives them back when it ends, if it hasn't grown into them.  No
answer names them.  A snapshot shows them as pages that have left every other home; without one, only how many there may be
is known.
"""

from __future__ import annotations

from collections.abc import Collection

from kvlitmus.spec.law.facts import fact
from kvlitmus.spec.prefix import effects
from kvlitmus.spec.prefix.release import waiting_in
from kvlitmus.spec.prefix.seen import Seen
from kvlitmus.spec.prefix.state import RequestState, State
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import PageNo, pages_of


def with_spares(running: RequestState, setting: Setting) -> RequestState:
    """A request that has just begun or grown: it may have taken as many spare pages as it may hold, and grown into some."""
    if not setting.spare_pages:
        return running
    spare = running.spare - pages_of(running.row, setting.size)
    return running._replace(spare=spare, unseen=max(0, setting.spare_pages - len(spare)))


def spares_seen(state: State, setting: Setting, after: Seen) -> State:
    """The pages that a snapshot shows in no home are spare pages of who may have taken some."""
    homeless = setting.usable.difference(after.free, after.cached.values(), state.owners, waiting_in(state))
    return spares_taken(state, homeless)


def spares_taken(state: State, pages: Collection[PageNo]) -> State:
    """Those who may have taken spare pages have taken these, as far as they may, and no others."""
    if not any(running.unseen for running in state.requests.values()):
        return state
    left, requests, owners = sorted(pages), dict(state.requests), state.owners
    for rid, running in state.requests.items():
        own, left = left[: running.unseen], left[running.unseen :]
        requests[rid] = running._replace(spare=running.spare.union(own), unseen=0)
        owners = effects.take(owners, own)
    return state._replace(requests=requests, owners=owners)


def unseen_in(state: State, setting: Setting) -> int:
    """How many spare pages requests may hold that nobody has seen."""
    return sum([running.unseen for running in state.requests.values()]) if setting.spare_pages else 0


@fact(0)
def spares_unseen(then: State, setting: Setting) -> int:
    """How many pages running requests may hold beside their rows that nobody has seen, after the call."""
    return unseen_in(then, setting)
