"""What is told late: where events may lag, what has to be remembered of the calls before.

A profile may let events lag (``event_delay``): those of one call are told together, in order, and at most so many calls
after it.  Whoever replays them then knows, after each call, what was cached after that call or after one of these few
before it; never a mixture, and never less for good.  And what was found cached must have been told so many calls later.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from kvlitmus.spec.prefix.seen import Seen, TierSeen
from kvlitmus.spec.words.quick_replace import lean
from kvlitmus.spec.words.units import Name


class Contents(NamedTuple):
    """What was on each tier after a call.  ``busy``: work was under way, of which nobody knows how much was told."""

    device: frozenset[Name] = frozenset()
    host: frozenset[Name] = frozenset()
    busy: bool = False


@lean
class Late(NamedTuple):
    """What is remembered of the calls before, as many of them as events may lag, and of the last one.

    ``contents``: what was cached, where there are snapshots; ``found``: what a match or a beginning request found cached.
    ``due``: of what was found, what must have been told by now.
    """

    contents: tuple[Contents, ...] = (Contents(),)
    found: tuple[frozenset[Name], ...] = ()
    due: frozenset[Name] = frozenset()


def followed(late: Late, delay: int, after: Seen, busy: bool, found: Collection[Name], forgets: bool) -> Late:
    """What is remembered after one call more, which ``found`` this; one that ``forgets`` is a reset.

    ``delay``: so many calls events may lag.
    """
    waits = max(0, delay - 1)  # what is found was stored by an earlier call
    waiting = (*(() if forgets else late.found), frozenset(found))
    due = waiting[0] if len(waiting) > waits else frozenset()
    contents = late.contents
    if after.seen:
        hosted = frozenset(after.hosted) if isinstance(after, TierSeen) else frozenset()
        contents = (*contents, Contents(frozenset(after.cached), hosted, busy))[-1 - delay :]
    return Late(contents, waiting[-waits:] if waits else (), due)
