"""Policies: what is worth keeping.

A policy gives each page a **key**; the page with the smallest key is evicted first.  Keys are
compared leaf by leaf, never between a page and its own children: a child goes before its parent
whatever the keys say (EVICT-05).  The name of the page makes the order total, so that two
caches that saw the same calls choose the same victim.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvlitmus.reference.tree import Page

Worth = tuple[int, ...]

SLRU_HITS = 2
"""How many hits put a page into the protected segment of SLRU, unless the profile says otherwise."""


def lru(page: Page) -> Worth:
    """Least recently used first."""
    return (page.touched,)


def mru(page: Page) -> Worth:
    """Most recently used first."""
    return (-page.touched,)


def lfu(page: Page) -> Worth:
    """Least often used first; among equals the least recently used."""
    return (page.hits, page.touched)


def fifo(page: Page) -> Worth:
    """Oldest first."""
    return (page.created,)


def filo(page: Page) -> Worth:
    """Youngest first."""
    return (-page.created,)


def priority(page: Page) -> Worth:
    """Lowest priority first; among equals the least recently used."""
    return (page.priority, page.touched)


def slru(page: Page) -> Worth:
    """Pages on probation before protected ones (:data:`SLRU_HITS` hits or more); then the least recently used."""
    return (int(page.hits >= SLRU_HITS), page.touched)


POLICIES: dict[str, Callable[[Page], Worth]] = {
    "lru": lru,
    "lfu": lfu,
    "fifo": fifo,
    "mru": mru,
    "filo": filo,
    "priority": priority,
    "slru": slru,
}
"""All policies by name."""
