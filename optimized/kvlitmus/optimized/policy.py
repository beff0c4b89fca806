"""Policies: what a page at the tip of a branch is worth.

Each policy makes two numbers of what is known of a page, compared one after the other; the page with the smallest goes
first.  Two pages that could be evicted at the same moment never have the same: a tick belongs to one path, and of a
path only the end can go.
"""

from __future__ import annotations

from collections.abc import Callable

from kvlitmus.optimized.branch import Branch
from kvlitmus.optimized.levels import value_at

SLRU_HITS = 2
"""How many hits put a page into the protected segment of SLRU."""

Worth = Callable[[Branch, int], tuple[int, int]]


def lru(branch: Branch, position: int) -> tuple[int, int]:
    """Least recently used first."""
    return value_at(branch.touched, position), 0


def mru(branch: Branch, position: int) -> tuple[int, int]:
    """Most recently used first."""
    return -value_at(branch.touched, position), 0


def lfu(branch: Branch, position: int) -> tuple[int, int]:
    """Least often used first; among equals the least recently used."""
    return branch.hits_at(position), value_at(branch.touched, position)


def fifo(branch: Branch, position: int) -> tuple[int, int]:
    """Oldest first."""
    return value_at(branch.created, position), 0


def filo(branch: Branch, position: int) -> tuple[int, int]:
    """Youngest first."""
    return -value_at(branch.created, position), 0


def priority(branch: Branch, position: int) -> tuple[int, int]:
    """Lowest priority first; among equals the least recently used."""
    return value_at(branch.priority, position), value_at(branch.touched, position)


def slru(branch: Branch, position: int) -> tuple[int, int]:
    """Pages on probation before those with :data:`SLRU_HITS` hits or more; then the least recently used."""
    return int(branch.hits_at(position) >= SLRU_HITS), value_at(branch.touched, position)


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
