"""The calls on several ranks, as values, and what they answer.

What happens to one rank alone is a step too (:class:`RankLocal`): it answers nothing, and no rule but those on looks
speaks of it.  A call is made on all ranks of a tree and answered together.
"""

from __future__ import annotations

from typing import NamedTuple

from kvlitmus.spec.interface.ranks import Ask, Decision, Exchange, Local, RankView, World
from kvlitmus.spec.law.occasions import occasion, occasions_by_answer
from kvlitmus.spec.law.on import On

RETURNED, WAITING, LOST, RAISED, ABSENT = "returned", "waiting", "lost", "raised", "absent"
"""How a call on one rank ended: it returned; it waits for what never comes; it said that a rank is lost; it raised; it
was not made, since the rank is gone."""


@occasion(On.RANKS_STEP)
class RankStart(NamedTuple):
    """Begin anew with these ranks; answers what was seen of each."""

    world: World


@occasion(On.RANKS_STEP)
class RankLocal(NamedTuple):
    """Something happens to one rank alone; answers what was seen of each."""

    event: Local


class RankAsk(NamedTuple):
    """A call on all these ranks; answers :class:`Together`."""

    ask: Ask
    ranks: tuple[int, ...]


class Trace(NamedTuple):
    """What one rank did in a call: what it entered, in order, what it decided, and how it ended.

    ``decisions`` is empty where it did not return.  ``why``: what it raised, as text.  ``told``: whether it was told, or noticed,
    that a rank is lost, whatever it made of that.
    """

    rank: int
    entered: tuple[Exchange, ...] = ()
    decisions: tuple[Decision, ...] = ()
    ended: str = RETURNED
    why: str = ""
    told: bool = False


Views = tuple[RankView | None, ...]
"""What was seen of each rank; ``None`` of one that is gone, or where nobody can look."""


class Together(NamedTuple):
    """What all ranks did in a call, and what was seen of each after it.

    ``unread``: the messages, as (from, to), that were sent and not received.
    """

    traces: tuple[Trace, ...]
    views: Views
    unread: tuple[tuple[int, int], ...] = ()


RankCall = RankStart | RankLocal | RankAsk
"""The calls that change what is known of ranks."""

ASKED: dict[str, On] = {
    "match": On.RANKS_MATCH,
    "acks": On.RANKS_ACKS,
    "prefetch": On.RANKS_PREFETCH,
    "hit": On.RANKS_HIT,
    "poll": On.RANKS_POLL,
    "load": On.RANKS_LOAD,
}
"""What ranks are asked, of which rules of its own speak."""


@occasions_by_answer(RankAsk)
def ranks_occasions(call: RankAsk, answer: Together) -> tuple[On, ...]:
    """A call on ranks is one of its kind; where a rank is gone, nothing but that is said of it."""
    if any(trace.ended == ABSENT for trace in answer.traces):
        return (On.RANKS_STEP, On.RANKS_LOST)
    own = ASKED.get(call.ask.what)
    return (On.RANKS_STEP, On.RANKS_ASK) if own is None else (On.RANKS_STEP, On.RANKS_ASK, own)
