"""Policies: what a page at the tip of a branch is worth.

Each policy makes one number of what is known of a page; the page with the smallest number is evicted first.  Where a
policy compares two things, the first is in the upper bits: ticks need fewer than :data:`TICK_BITS`.  Two pages that
could be evicted at the same moment never have the same number: a tick belongs to one path, and of a path only the end
can go.

All numbers but those of :data:`FALLING` can only rise while a page is used, so eviction may note them late.
"""

from __future__ import annotations

from collections.abc import Callable

from kvlitmus.optimized.branch import Branch
from kvlitmus.optimized.levels import value_at

TICK_BITS = 48
"""How many bits a tick has: 90 years of 100,000 calls a second."""

SLRU_HITS = 2
"""How many hits put a page into the protected segment of SLRU."""

Worth = Callable[[Branch, int], int]


def lru(branch: Branch, position: int) -> int:
    """Least recently used first."""
    return value_at(branch.touched, position)


def mru(branch: Branch, position: int) -> int:
    """Most recently used first."""
    return -value_at(branch.touched, position)


def lfu(branch: Branch, position: int) -> int:
    """Least often used first; among equals the least recently used."""
    return (branch.hits_at(position) << TICK_BITS) + value_at(branch.touched, position)


def fifo(branch: Branch, position: int) -> int:
    """Oldest first."""
    return value_at(branch.created, position)


def filo(branch: Branch, position: int) -> int:
    """Youngest first."""
    return -value_at(branch.created, position)


def priority(branch: Branch, position: int) -> int:
    """Lowest priority first; among equals the least recently used."""
    return (value_at(branch.priority, position) << TICK_BITS) + value_at(branch.touched, position)


def slru(branch: Branch, position: int) -> int:
    """Pages on probation before those with :data:`SLRU_HITS` hits or more; then the least recently used."""
    kept = branch.hits_at(position) >= SLRU_HITS
    return (kept << TICK_BITS) + value_at(branch.touched, position)


POLICIES: dict[str, Worth] = {
    "lru": lru,
    "mru": mru,
    "lfu": lfu,
    "fifo": fifo,
    "filo": filo,
    "priority": priority,
    "slru": slru,
}
"""All policies by name."""

FALLING = frozenset({"mru"})
"""Policies under which a use makes a page worth less."""
