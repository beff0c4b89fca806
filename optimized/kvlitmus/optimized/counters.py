"""Counters: what a cache has done since it was made, as numbers.

They are kept in any case, for an addition is cheap, and a reset of the cache doesn't set them back.  Whoever publishes
them reads :meth:`~kvlitmus.optimized.cache.FlatCache.stats`, from any thread, as :mod:`kvlitmus.optimized.prometheus`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(slots=True)
class WorkCount:
    """The work of one kind.

    ``begun``: jobs and copies; ``over``: those of them that the cache has taken note of, ``failed`` ones among them.
    ``pages``: how many were copied, read or taken.  ``seconds``: the sum over those that are over, each from its begin
    to that note, which is a tick's.  What a reset gave up was begun and is never over.
    """

    begun: int = 0
    over: int = 0
    failed: int = 0
    pages: int = 0
    seconds: float = 0.0


class Served(NamedTuple):
    """What became of requests and pages.

    ``requests``: that have begun, forks and resumed ones left out; ``tokens``: of these, when they began;
    ``hits``: how many of those tokens were cached on the device.  ``evicted``, ``evicted_host``: pages that were taken
    from the cache of either tier to make room, or because the caller asked for it.
    """

    requests: int = 0
    tokens: int = 0
    hits: int = 0
    evicted: int = 0
    evicted_host: int = 0

    def after(self, earlier: Served) -> Served:
        """The same, counted on from what was before a reset."""
        return Served(*map(int.__add__, self, earlier))


class Stats(NamedTuple):
    """What a cache says of itself.

    ``served``: since it was made.  ``running``: requests now; ``free``, ``free_host``: pages now.  ``work``: by kind
    (backup, load, query, fetch, put), since it was made; ``waiting``: how many of each kind are under way now.
    ``page_bytes``: of a page in storage and in copies, 0 where nothing is copied.
    """

    served: Served
    running: int
    free: int
    free_host: int
    work: Mapping[str, WorkCount]
    waiting: Mapping[str, int]
    page_bytes: int
