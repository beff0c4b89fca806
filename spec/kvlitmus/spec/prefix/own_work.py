"""What a hierarchy itself has to remember, beside what is known of its tiers.

Whoever follows a cache knows what is on which tier, whether storage is attached and how late it is
(:mod:`kvlitmus.spec.prefix.work`).  To go on, a cache needs more, which is shown in part or not at all: its free host
pages, and the **work under way**: copies between the tiers and pages on their way to storage (:class:`Transfer`), and from
it (:class:`Operation`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kvlitmus.spec.words.quick_replace import lean
from kvlitmus.spec.words.units import Name, PageNo, Pages, RequestId, Tokens


@lean
class Transfer(NamedTuple):
    """A copy between the tiers, or to storage, of these pages, one after the other on one path.

    Between the tiers the path to the last one is locked, and a load and a put pin their sources, until a tick has seen
    that it ``landed``, or that it ``failed`` and is over without having copied anything that counts.  A load goes layer
    by layer and a put page by page, ``done`` of them so far.
    """

    id: int
    kind: str
    names: tuple[Name, ...]
    landed: bool = False
    done: int = 0
    failed: bool = False


@lean
class Operation(NamedTuple):
    """One prefetch."""

    job: int
    """The id of the query or fetch under way."""
    rid: RequestId
    """The request that it is for."""
    stage: str
    """See :mod:`kvlitmus.spec.words.prefetch_life`."""
    anchor: Name
    """The last page that was known when it was asked for, or the root of the namespace."""
    names: tuple[Name, ...]
    """The pages it is to read, in order."""
    asked: Tokens
    """How many units of them count against the rate limit."""
    held: tuple[PageNo, ...]
    """The host pages that it holds, for the first of these names."""
    hit: Pages | None
    """How many pages storage has, once it is known."""
    completed: Pages
    """How many were read."""
    live: bool
    """Whether a request waits for it; an operation that isn't live any more ends at its next step."""
    since: float | None
    """When its time began, ``None`` for not yet."""
    counted: Pages = Pages(0)
    """How many of the completed pages the cache knows of, where it takes note of them at ticks."""


@lean
class Works(NamedTuple):
    """The free memory of the host, and the work under way."""

    free: frozenset[PageNo]
    """The free pages of the host."""
    settled: frozenset[Name] = frozenset()
    """The pages on the host whose contents are there."""
    stored: frozenset[Name] = frozenset()
    """Those that the storage is known to have."""
    transfers: tuple[Transfer, ...] = ()
    """The copies and puts under way, in order of submission."""
    operations: tuple[Operation, ...] = ()
    """Likewise the prefetches."""
    postponed: tuple[tuple[Name, ...], ...] = ()
    """The paths that insertions used, of which the next tick begins to back up what is due."""
    release: tuple[PageNo, ...] = ()
    """Host pages that the next tick frees."""
    loaded: Mapping[RequestId, Tokens] = {}
    """What the prefetch of each request has added, until it is told."""
    filled: Mapping[RequestId, Tokens] = {}
    """To how much of what was cached already it gave copies."""
    serial: int = 0
    """How many jobs there were; their numbers are never used again."""
    fault: int | None = None
    """How many more allocations succeed before one fails whatever is free; ``None`` for no such fault."""
    failing: Mapping[str, int] = {}
    """By kind of copy (backup, load, spill), how many more begin before one can't."""
