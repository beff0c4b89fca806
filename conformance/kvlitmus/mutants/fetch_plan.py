"""Slips of the prefetch plan, in a cache that really has the memory that it plans with.

The plan by itself is judged in :mod:`~kvlitmus.mutants.prefetch`; here its slips meet a host
pool with a release queue, other prefetches, and what was planned is carried out.
"""

from __future__ import annotations

from dataclasses import replace

from kvlitmus.conformance.specimen.fetching import Prefetcher
from kvlitmus.conformance.specimen.host import HostPool
from kvlitmus.conformance.specimen.works import Fetch
from kvlitmus.mutants.hosted import HOSTED, SGLANG
from kvlitmus.mutants.prefetch import (
    AnchorKept,
    ForgetsTheLastPage,
    GoesOnWithoutSlots,
    QuotaOffByOne,
    ThresholdExceeded,
    ThresholdForgotten,
    TruncatesBeforeEvicting,
    UntruncatedKey,
)
from kvlitmus.mutants.registry import mutant

ADAPTIVE, MAMBA = SGLANG + "pull/16370", SGLANG + "pull/26945"
TIGHT = tuple(replace(config, host_pages=min(config.host_pages, 8)) for config in HOSTED)
"""Little host memory, so that prefetches are cut short."""


@mutant(
    "fetch-is-longer-than-its-memory",
    bugs=("H-01",),
    links=(ADAPTIVE,),
    kills=("FETCH-03", "FETCH-04", "TIER-02", "FETCH-08"),
    slot="prefetch",
    configs=TIGHT,
)
class FetchIsLongerThanItsMemory(UntruncatedKey):
    """A prefetch that was cut short for want of memory asks storage for its full length."""


@mutant(
    "fetch-without-memory",
    bugs=("H-02",),
    links=(ADAPTIVE, MAMBA),
    kills=("FETCH-04", "FETCH-03"),
    slot="prefetch",
    configs=TIGHT,
)
class FetchWithoutMemory(GoesOnWithoutSlots):
    """Whether the third allocation succeeded is not looked at: a prefetch sets out with no memory at all."""


@mutant(
    "fetch-loses-a-page-of-its-memory",
    bugs=("H-01",),
    links=(ADAPTIVE,),
    kills=("FETCH-04", "TIER-02"),
    slot="prefetch",
    configs=HOSTED,
)
class FetchLosesAPageOfItsMemory(ForgetsTheLastPage):
    """One page of what was allocated is handed to nobody: host memory shrinks with every prefetch."""


@mutant(
    "fetch-that-gives-up-keeps-its-anchor",
    bugs=("H-02",),
    links=(ADAPTIVE,),
    kills=("LIFE-08", "TIER-15", "FETCH-02"),
    slot="prefetch",
    configs=TIGHT,
)
class FetchThatGivesUpKeepsItsAnchor(AnchorKept):
    """A prefetch that finds no memory leaves its anchor protected, and nothing can ever evict it."""


@mutant(
    "fetch-quota-off-by-one",
    bugs=("H-65",),
    links=(SGLANG + "pull/26449",),
    kills=("FETCH-01",),
    slot="prefetch",
    configs=tuple(replace(config, rate_limit=4 * config.page_size) for config in HOSTED[:4]),
)
class FetchQuotaOffByOne(QuotaOffByOne):
    """A quota that is exactly filled lets one more prefetch through."""


@mutant(
    "fetch-threshold-exceeded",
    bugs=(),
    links=(ADAPTIVE,),
    kills=("FETCH-03",),
    slot="prefetch",
    configs=HOSTED,
)
class FetchThresholdExceeded(ThresholdExceeded):
    """A prefetch of exactly the threshold is refused."""


@mutant(
    "fetch-threshold-forgotten",
    bugs=(),
    links=(ADAPTIVE,),
    kills=("FETCH-03",),
    slot="prefetch",
    configs=tuple(config for config in TIGHT if config.threshold > config.page_size),
)
class FetchThresholdForgotten(ThresholdForgotten):
    """A prefetch that was cut short goes on with less than it is worth."""


@mutant(
    "fetch-makes-no-room",
    bugs=("S82",),
    links=(ADAPTIVE,),
    kills=("FETCH-03",),
    slot="prefetch",
    configs=TIGHT,
)
class FetchMakesNoRoom(TruncatesBeforeEvicting):
    """Prefetches get shorter and shorter as the host fills up with what nobody uses."""


@mutant(
    "fetch-evicts-before-its-gates",
    bugs=("H-09",),
    links=(ADAPTIVE,),
    kills=("FETCH-02",),
    slot="fetches",
    configs=TIGHT,
)
class FetchEvictsBeforeItsGates(Prefetcher):
    """Host data are destroyed for prefetches that are then refused: room is made before the gates are asked."""

    def reserve(self, fetch: Fetch, length: int) -> bool:
        self.tree.pin(fetch.anchor)
        self.tree.evict_host(length - self.host.available())
        self.tree.unpin(fetch.anchor)
        return super().reserve(fetch, length)


@mutant(
    "release-queue-counts-as-free",
    bugs=("H-03",),
    links=(ADAPTIVE,),
    kills=("TIER-09",),
    slot="host",
    configs=HOSTED,
)
class ReleaseQueueCountsAsFree(HostPool):
    """Allocations fail that were promised: what waits in the release queue is reported as available."""

    def available(self) -> int:
        return super().available() + len(self.releasing) * self.page_size


@mutant(
    "second-release-of-an-anchor",
    bugs=("L06", "H-57"),
    links=("https://github.com/LMCache/LMCache/pull/3004",),
    kills=("FETCH-17", "LIFE-08"),
    slot="fetches",
    configs=HOSTED,
)
class SecondReleaseOfAnAnchor(Prefetcher):
    """An abort that comes after the commit releases the anchor once more, and with it somebody else's protection."""

    def close(self, fetch: Fetch) -> None:
        super().close(fetch)
        self.closed[fetch.rid] = fetch

    def abandon(self, rid: int) -> None:
        fetch = self.closed.pop(rid, None)
        if fetch is not None and rid not in self.ongoing and fetch.anchor.parent is not None:
            self.tree.unpin(fetch.anchor)
        super().abandon(rid)

    @property
    def closed(self) -> dict[int, Fetch]:
        found: dict[int, Fetch] = self.__dict__.setdefault("closed_fetches", {})
        return found
