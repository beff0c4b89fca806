"""Calls on a hierarchy of any size, each as a case."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvlitmus.spec.prefix import calls, work_calls
from kvlitmus.spec.words.units import Tokens
from tests.proofs.prefix.any_hierarchy import Hierarchy
from tests.proofs.prefix.any_size import RID, Cache, Case, Situation
from tests.proofs.prefix.flat_calls import alloc, begin, free, grow, lock, match, of_request, unlock

TIERED = ("sound", "locked", "pinned")


def evict(cache: Cache) -> Situation:
    """A page goes from the device, whichever may: a backed one to the host alone."""
    return Situation(cache.state, calls.Evict(Tokens(1)))


def evict_host(cache: Cache) -> Situation:
    """A page goes from the host, whichever may."""
    return Situation(cache.state, work_calls.EvictHost(Tokens(1)))


def case(name: str, make: Callable[[Any], Situation], *more: str) -> Case:
    """One of them."""
    return Case(f"{name}, tiered", make, keeps=(*TIERED, *more), kind=Hierarchy)


TIER_CASES = [
    case("begin of 1 page", begin(1, 1)),
    case("grow of 1 page", grow(1, 0)),
    case("abort of 1 page", of_request(calls.End(RID, False), 1, 0)),
    case("alloc of 1 page", alloc(1)),
    case("free of 2 pages", free(calls.Free, 2)),
    *[case(f"match of {pages} pages", match(pages)) for pages in (1, 2)],
    case("lock", lock),
    case("unlock", unlock),
    case("evict of 1 page", evict, "room"),
    case("evict of 1 page of the host", evict_host, "room"),
]
