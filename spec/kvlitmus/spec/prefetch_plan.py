"""The words of a prefetch plan: what is asked, what is decided, and the three lengths between.

What a plan is for, and what must hold of it, is in :mod:`kvlitmus.spec.prefetch`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kvlitmus.spec.units import Slot, Tokens, page_ceil, page_floor

STORAGE_OFF = "storage off"
TOO_SHORT = "too short"
RATE_LIMITED = "rate limited"
NO_MEMORY = "no memory"


class PrefetchAsk(NamedTuple):
    """What a prefetch is asked to do, and what its gates look at.

    ``key_length``: units of the key that the tree doesn't hold.  ``threshold``: the least length
    worth a read.  ``occupied``: what the prefetches under way account for; ``capacity``: their
    quota.  All in units, none negative but ``capacity``, which upstream computes as a difference.
    ``prefix_keys``: the names in storage of the pages before this key, the first one first, for a storage that places a
    page by what precedes it.
    """

    key_length: int
    page_size: int
    threshold: int
    storage_on: bool = True
    occupied: int = 0
    capacity: int = 1 << 30
    prefix_keys: Sequence[str] = ()


class PrefetchPlan(NamedTuple):
    """What was decided.

    ``refusal`` is ``None`` for a prefetch that starts, else one of the four above.  ``slots``:
    the host slots that it reserved.  ``key_start``, ``key_length``: which units of the asked key
    the read covers.  ``hashed_pages``: how many page hashes it will ask the storage for.
    ``accounted``: what it adds to the quota.  ``prefix_keys``: the names that storage will be given as those of the pages
    before the read; ``None`` from a planner that leaves them to others.
    """

    refusal: str | None
    slots: Sequence[int] = ()
    key_start: int = 0
    key_length: int = 0
    hashed_pages: int = 0
    accounted: int = 0
    prefix_keys: Sequence[str] | None = None


class HostPool(Protocol):
    """The host memory as a prefetch plan sees it."""

    def alloc(self, n: int) -> Sequence[int] | None:
        """``n`` slots, or ``None``."""

    def free(self, slots: Sequence[int]) -> None:
        """Take slots back."""

    def available(self) -> int:
        """How many slots could be handed out now."""

    def evict(self, n: int) -> int:
        """Make ``n`` more slots available, or as many as can be; returns how many."""

    def protect(self) -> None:
        """Protect the anchor, under which the result will be attached, against eviction."""

    def release(self) -> None:
        """End one protection of the anchor."""


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
