"""A prefetch plan: what is asked, what the planner may ask the host for, and what it decides.

What must hold of it is in :mod:`kvlitmus.spec.prefix.rules.prefetch`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

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
