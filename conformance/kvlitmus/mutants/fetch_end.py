"""Slips of prefetches that end: commits, polls, aborts, revocations, and the quota."""

from __future__ import annotations

from dataclasses import replace

from kvlitmus.conformance.specimen.fetching import Prefetcher
from kvlitmus.conformance.specimen.works import ENDED, FETCHING, REVOKED, Fetch, Work
from kvlitmus.mutants.hosted import (
    HOSTED,
    LMCACHE,
    NOT_BACK,
    SGLANG,
    TIMED,
    WAITING,
    BelievingHost,
)
from kvlitmus.mutants.registry import mutant
from kvlitmus.spec.interface import PageStore

LOST = ("TIER-01", "TIER-02")
STUCK = ("LIFE-06", "LIFE-07")


@mutant(
    "commit-of-the-hit",
    bugs=("V19", "S64"),
    links=("https://github.com/vllm-project/vllm/pull/26813", SGLANG + "pull/27010"),
    kills=("FETCH-12", "TIER-07", *LOST),
    slot="fetches",
    configs=HOSTED,
)
class CommitOfTheHit(Prefetcher):
    """What hasn't been read yet counts as cached: a commit takes what the query found, not what has arrived."""

    def commit(self, fetch: Fetch) -> None:
        """As if all of it were there."""
        if fetch.stage == FETCHING and fetch.hit is not None:
            fetch.done = fetch.hit
        super().commit(fetch)


@mutant(
    "commit-frees-twice",
    bugs=("H-06", "L01"),
    links=(SGLANG + "pull/16370", LMCACHE + "issues/987"),
    kills=LOST,
    slot="fetches",
    configs=HOSTED,
    beside={"host": BelievingHost},
)
class CommitFreesTwice(Prefetcher):
    """Two prompts share host memory.

    What was in the tree already when a prefetch is committed is freed at once, and put on the release queue with
    everything else.
    """

    def commit(self, fetch: Fetch) -> None:
        before = set(self.host.free_list)
        super().commit(fetch)
        self.host.let_go([page for page in self.host.free_list if page not in before])


@mutant(
    "poll-forgets-who-must-wait",
    bugs=("S13",),
    links=(SGLANG + "pull/9927",),
    kills=("FETCH-07", "FETCH-11", "TIER-12", *LOST),
    slot="fetches",
    configs=WAITING + TIMED,
)
class PollForgetsWhoMustWait(Prefetcher):
    """Prefetches leak until the limiter blocks them all: the poll that says *wait* has forgotten the prefetch."""

    def poll(self, rid: int) -> bool:
        """Popped before it is known whether it may end."""
        fetch = self.ongoing.get(rid)
        done = super().poll(rid)
        if fetch is not None and not done:
            del self.ongoing[rid]
        return done


@mutant(
    "waits-for-all-that-was-found",
    bugs=("D03", "S11"),
    links=("https://github.com/ai-dynamo/dynamo/issues/3730", SGLANG + "pull/9643"),
    kills=("FETCH-11", "LIFE-07"),
    slot="fetches",
    configs=WAITING,
)
class WaitsForAllThatWasFound(Prefetcher):
    """A request waits for ever for a page that storage has lost: complete means as much as was found."""

    def may_stop(self, fetch: Fetch) -> bool:
        """The end of the read isn't enough."""
        return super().may_stop(fetch) and fetch.done == fetch.hit


@mutant(
    "timeout-never-fires",
    bugs=("H-64",),
    links=(SGLANG + "pull/27550",),
    kills=("FETCH-11",),
    slot="fetches",
    configs=TIMED,
)
class TimeoutNeverFires(Prefetcher):
    """A request waits as long as storage takes: the clock is read once, when the prefetch starts."""

    def limit(self, fetch: Fetch) -> float:
        return float("inf")


@mutant(
    "timeout-of-another-cache",
    bugs=("H-12",),
    links=(SGLANG + "pull/16370",),
    kills=("FETCH-11",),
    slot="fetches",
    configs=TIMED,
)
class TimeoutOfAnotherCache(Prefetcher):
    """Requests wait longer or shorter than is configured: two caches of one engine have two formulas."""

    def limit(self, fetch: Fetch) -> float:
        """One second, and a quarter per 1024 units."""
        return 1.0 + 0.25 * (fetch.hit or 0) / 1024


@mutant(
    "stranger-has-to-wait",
    bugs=("H-58", "S11"),
    links=(SGLANG + "pull/9643",),
    kills=("FETCH-11", "LIFE-07"),
    slot="fetches",
    configs=HOSTED,
)
class StrangerHasToWait(Prefetcher):
    """A request whose prefetch was refused is never scheduled: nothing is known of it, so it isn't ready."""

    def poll(self, rid: int) -> bool:
        return rid in self.ongoing and super().poll(rid)


@mutant(
    "added-is-told-twice",
    bugs=(),
    links=(),
    kills=("FETCH-16",),
    slot="fetches",
    configs=HOSTED,
)
class AddedIsToldTwice(Prefetcher):
    """Hit statistics count a prefetch as often as somebody asks; a request with the same number inherits it."""

    def told(self, rid: int) -> int:
        return self.loaded.get(rid, 0)


@mutant(
    "added-includes-what-was-there",
    bugs=(),
    links=(),
    kills=("FETCH-16",),
    slot="fetches",
    configs=HOSTED,
)
class AddedIncludesWhatWasThere(Prefetcher):
    """Storage is credited with hits of the host: what was cached meanwhile counts as added."""

    def commit(self, fetch: Fetch) -> None:
        super().commit(fetch)
        self.loaded[fetch.rid] = fetch.done


@mutant(
    "quota-by-hit",
    bugs=("S23", "H-40"),
    links=(SGLANG + "pull/30053", SGLANG + "pull/15439"),
    kills=("FETCH-07", "LIFE-09"),
    slot="fetches",
    configs=HOSTED,
)
class QuotaByHit(Prefetcher):
    """The quota fills up until storage is never read: reserved is what was asked for, returned what was found."""

    def close(self, fetch: Fetch) -> None:
        if fetch.hit is not None:
            fetch.accounted = fetch.hit
        super().close(fetch)


@mutant(
    "quota-kept-by-the-aborted",
    bugs=("S23", "S24", "H-40"),
    links=(SGLANG + "pull/30203", SGLANG + "pull/16369"),
    kills=("FETCH-07", "LIFE-09"),
    slot="fetches",
    configs=HOSTED,
)
class QuotaKeptByTheAborted(Prefetcher):
    """Every aborted request costs a part of the quota for ever."""

    def abandon(self, rid: int) -> None:
        before = self.occupied
        super().abandon(rid)
        self.occupied = before


@mutant(
    "quota-after-adding",
    bugs=("H-65", "S114"),
    links=(SGLANG + "pull/26449",),
    kills=("FETCH-03",),
    slot="fetches",
    configs=tuple(replace(config, rate_limit=5 * config.page_size) for config in HOSTED[:2]),
)
class QuotaAfterAdding(Prefetcher):
    """A long prompt is never read from storage: the quota is compared with what it would be with it."""

    def reserve(self, fetch: Fetch, length: int) -> bool:
        whole = length - length % self.size
        return self.occupied + whole <= self.settings.rate_limit and super().reserve(fetch, length)


@mutant(
    "revoked-keeps-its-anchor",
    bugs=("S11", "L02"),
    links=(SGLANG + "pull/9643", LMCACHE + "issues/1034"),
    kills=("LIFE-08", "TIER-15"),
    slot="fetches",
    configs=HOSTED,
)
class RevokedKeepsItsAnchor(Prefetcher):
    """Host memory fills with what nobody can evict: a prefetch that found nothing leaves its anchor protected."""

    def close(self, fetch: Fetch) -> None:
        if fetch.stage == REVOKED:
            self.tree.pin(fetch.anchor)
        super().close(fetch)


@mutant(
    "aborted-gets-cached",
    bugs=("S24",),
    links=(SGLANG + "pull/16369",),
    kills=("FETCH-15", "FETCH-14"),
    slot="fetches",
    configs=HOSTED,
)
class AbortedGetsCached(Prefetcher):
    """An aborted request still changes the cache: an abort commits what has arrived."""

    def abandon(self, rid: int) -> None:
        if (fetch := self.ongoing.get(rid)) is not None:
            self.commit(fetch)


@mutant(
    "abort-frees-what-is-being-read",
    bugs=("H-41", "V17"),
    links=("https://github.com/vllm-project/vllm/pull/32255", SGLANG + "pull/31296"),
    kills=("TIER-07", *LOST),
    slot="fetches",
    configs=HOSTED,
)
class AbortFreesWhatIsBeingRead(Prefetcher):
    """Another prompt's KV is overwritten: an abort frees memory into which a read still writes."""

    def abandon(self, rid: int) -> None:
        """Free it now; the read goes on into the same pages."""
        fetch = self.ongoing.get(rid)
        pages = list(fetch.pages) if fetch is not None and fetch.stage == FETCHING else []
        super().abandon(rid)
        if fetch is not None and pages:
            self.host.give_back(fetch.pages)
            fetch.pages = []
            self.ghosts[id(fetch)] = pages

    def bury(self, work: Work, fetch: Fetch) -> None:
        for page in self.ghosts.pop(id(fetch), ()):
            self.copier.write(page, (0,) * self.size)
        super().bury(work, fetch)

    @property
    def ghosts(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = self.__dict__.setdefault("ghost_reads", {})
        return found


@mutant(
    "abort-of-a-finished-read-leaks",
    bugs=("S91", "S20"),
    links=(SGLANG + "pull/36926", SGLANG + "pull/12693"),
    kills=LOST,
    slot="fetches",
    configs=HOSTED,
)
class AbortOfAFinishedReadLeaks(Prefetcher):
    """Memory is lost when a request is aborted between the end of its read and its poll."""

    def abandon(self, rid: int) -> None:
        """The reading thread cleans up; but it has ended."""
        fetch = self.ongoing.get(rid)
        if fetch is not None and fetch.stage == ENDED:
            fetch.pages = []
            fetch.done = 0
        super().abandon(rid)


@mutant(
    "drop-below-the-unbacked-leaks",
    bugs=("S112",),
    links=(SGLANG + "pull/37145",),
    kills=LOST,
    slot="fetches",
    configs=NOT_BACK,
)
class DropBelowTheUnbackedLeaks(Prefetcher):
    """What was read and can't be attached belongs to nobody: no path releases it."""

    def commit(self, fetch: Fetch) -> None:
        """The release queue gets nothing of it."""
        waiting = len(self.host.releasing)
        super().commit(fetch)
        del self.host.releasing[waiting:]


@mutant(
    "reads-the-last-page-again",
    bugs=(),
    links=(),
    kills=("FETCH-09", "FETCH-10"),
    slot="fetches",
    configs=HOSTED,
)
class ReadsTheLastPageAgain(Prefetcher):
    """Each batch of a read begins with the last page of the one before it."""

    def read(self, work: Work, store: PageStore, pages: int | None) -> None:
        fetch = work.fetch
        if fetch is not None and not fetch.over and fetch.done:
            self.contents(store, work.names[fetch.done // self.size - 1])
        super().read(work, store, pages)
