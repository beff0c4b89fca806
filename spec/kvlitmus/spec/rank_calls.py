"""The calls on several ranks, as values, and what they answer.

What happens to one rank alone is a step too (:class:`RankLocal`): it answers nothing, and no rule but those on looks
speaks of it.  A call is made on all ranks of a tree and answered together.
"""

from __future__ import annotations

from typing import NamedTuple

from kvlitmus.spec.interface.ranks import Ask, Decision, Exchange, Local, RankView, World

RETURNED, WAITING, LOST, RAISED, ABSENT = "returned", "waiting", "lost", "raised", "absent"
"""How a call on one rank ended: it returned; it waits for what never comes; it said that a rank is lost; it raised; it
was not made, since the rank is gone."""


class RankStart(NamedTuple):
    """Begin anew with these ranks; answers what was seen of each."""

    world: World


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
