"""The prefetch plan, as one would write it to be read.

The host's memory is not called from here.  A plan is a conversation: :func:`plan_prefetch`
*yields* each call that it wants made and is *sent* the answer, so that it stays a pure function
of the answers.  Who holds the conversation may be a real pool, a script, or a proof that sends
unknown numbers (:func:`converse`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

from kvlitmus.spec.interface.plans import NO_MEMORY, RATE_LIMITED, STORAGE_OFF, TOO_SHORT, PrefetchAsk, PrefetchPlan
from kvlitmus.spec.prefix.prefetch_plan import deficit, full_length, least_length, truncated_length


class Call(NamedTuple):
    """A call that the plan wants made: see :class:`~kvlitmus.spec.prefix.prefetch_plan.HostCall` for names and
    answers.
    """

    name: str
    amount: int = 0


Answer = Sequence[int] | int | None
"""Slots (or ``None``) to ``alloc``, a count to ``evict`` and ``available``, ``None`` to the rest."""

Conversation = Generator[Call, Answer, PrefetchPlan]


def plan_prefetch(ask: PrefetchAsk) -> Conversation:
    """Plan one prefetch: the gates, the memory, and what follows from how much there is (PREFETCH-01 … PREFETCH-21)."""
    refusal = gate(ask)
    if refusal is not None:
        return PrefetchPlan(refusal)
    yield Call("protect")
    length, slots = yield from reserve(ask)
    if slots is None:
        yield Call("release")
        return PrefetchPlan(NO_MEMORY)
    return start(ask, length, slots)


def gate(ask: PrefetchAsk) -> str | None:
    """The reason why no prefetch may be tried, ``None`` if there is none.

    The quota is looked at *before* this prefetch is added to it, so the last one may overshoot.
    """
    if not ask.storage_on:
        return STORAGE_OFF
    if full_length(ask) < least_length(ask):
        return TOO_SHORT
    if ask.occupied >= ask.capacity:
        return RATE_LIMITED
    return None


def reserve(ask: PrefetchAsk) -> Generator[Call, Answer, tuple[int, Sequence[int] | None]]:
    """Host memory for the full length, else for the whole pages there are, else none: a length and its slots."""
    length: int = full_length(ask)
    slots = yield from _allocate(length)
    if slots is None:
        available = yield from _count(Call("available"))
        yield from _count(Call("evict", deficit(length, available, ask.page_size)))
        slots = yield from _allocate(length)
    if slots is None:
        available = yield from _count(Call("available"))
        length = truncated_length(ask, available)
        if length:
            slots = yield from _allocate(length)
    return length, slots


def start(ask: PrefetchAsk, length: int, slots: Sequence[int]) -> PrefetchPlan:
    """The plan of a prefetch that has memory: everything in it follows from the length that was reserved."""
    return PrefetchPlan(
        None,
        slots=slots,
        key_start=0,
        key_length=length,
        hashed_pages=length // ask.page_size,
        accounted=length,
        prefix_keys=ask.prefix_keys,
    )


def converse(plan: Conversation, reply: Callable[[Call], Answer]) -> PrefetchPlan:
    """Hold the conversation to its end, with ``reply`` answering each call."""
    try:
        call = next(plan)
        while True:
            call = plan.send(reply(call))
    except StopIteration as end:
        result: PrefetchPlan = end.value
        return result


def _allocate(length: int) -> Generator[Call, Answer, Sequence[int] | None]:
    slots = yield Call("alloc", length)
    assert not isinstance(slots, int)
    return slots


def _count(call: Call) -> Generator[Call, Answer, int]:
    count = yield call
    assert isinstance(count, int)
    return count
