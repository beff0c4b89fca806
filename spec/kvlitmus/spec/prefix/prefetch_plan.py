"""A prefetch plan as a call: the conversation with the host's memory, and the three lengths between ask and plan.

What is asked and decided is in :mod:`kvlitmus.spec.interface.plans`; what must hold of it, in
:mod:`kvlitmus.spec.prefix.rules.prefetch`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvlitmus.spec.interface.plans import PrefetchAsk, PrefetchPlan
from kvlitmus.spec.law.occasions import occasions_by_answer
from kvlitmus.spec.law.on import On
from kvlitmus.spec.words.units import Slot, Tokens, page_ceil, page_floor


class HostCall(NamedTuple):
    """One call that a plan makes to the host's memory, and the answer.

    ``name``: ``protect``, ``alloc``, ``evict``, ``available``, ``free`` or ``release``;
    ``amount``: slots asked for (or given back).  ``answer``: slots granted, evicted or available;
    ``None`` for a refused allocation and for calls that answer nothing.  ``available``: what was
    available at the moment of the call, asked for or not.
    """

    name: str
    amount: int = 0
    answer: int | None = None
    available: int = 0


class PlanPrefetch(NamedTuple):
    """The call, as a value: plan one prefetch; answers :class:`Planned`."""

    ask: PrefetchAsk

    @property
    def page_size(self) -> int:
        """Units in a page."""
        return self.ask.page_size


class Planned(NamedTuple):
    """What came of a plan: what was decided, and the conversation with the host's memory.

    ``plan``: ``None`` where planning raised.  ``calls``: all calls to the host, in order.  ``held``: the slots that were
    granted and not given back, ``strays``: those that were given back and not held; both ``None`` where the conversation
    is of amounts alone, and slots have no numbers.
    """

    plan: PrefetchPlan | None
    calls: Sequence[HostCall]
    held: tuple[Slot, ...] | None = None
    strays: tuple[Slot, ...] | None = None


def full_length(ask: PrefetchAsk) -> Tokens:
    """The whole pages of the key."""
    return page_floor(ask.key_length, ask.page_size)


def least_length(ask: PrefetchAsk) -> Tokens:
    """The least length that is worth a read: the threshold, and never less than a page."""
    return Tokens(max(ask.threshold, ask.page_size))


def truncated_length(ask: PrefetchAsk, available: int) -> Tokens:
    """The whole pages of what is available, at most the full length; 0 when that isn't worth a read (PREFETCH-08)."""
    length = min(full_length(ask), page_floor(available, ask.page_size))
    return Tokens(length if length >= least_length(ask) else 0)


def deficit(wanted: int, available: int, page_size: int) -> Tokens:
    """How much is lacking, in whole pages; one page where nothing is, for a pool that refuses what it says it has."""
    return Tokens(max(page_size, page_ceil(wanted - available, page_size)))


@occasions_by_answer(PlanPrefetch)
def plan_occasions(_: PlanPrefetch, answer: Planned) -> tuple[On, ...]:
    """A plan is one whether it was decided or raised."""
    return (On.PLAN_PREFETCH,) if answer.plan is not None else (On.PLAN_PREFETCH, On.RAISED)
