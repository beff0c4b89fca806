"""Mutants of prefetches from storage: how much is planned, how they begin, what is read, and how they end.

The plan by itself is judged in :mod:`~kvlitmus.mutants.prefix.prefetch`; here its mutants meet a host
pool with a release queue, other prefetches, and what was planned is carried out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kvlitmus.conformance.specimen.prefix.fetch import Prefetcher
from kvlitmus.conformance.specimen.prefix.host import HostPool
from kvlitmus.conformance.specimen.prefix.works import ENDED, FETCHING, REVOKED, Fetch, TieredNode, Work
from kvlitmus.mutants.hosted import BIGRAM, HOSTED, LMCACHE, NOT_BACK, SGLANG, TIMED, WAITING, BelievingHost
from kvlitmus.mutants.prefix.prefetch import (
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
from kvlitmus.spec.interface import PageStore
from kvlitmus.spec.words.units import Key

ADAPTIVE, MAMBA = SGLANG + "pull/16370", SGLANG + "pull/26945"
TIGHT = tuple(replace(config, host_pages=min(config.host_pages, 8)) for config in HOSTED)
"""Little host memory, so that prefetches are cut short."""

LOST = ("POOL-12",)
STUCK = ("LIFE-06", "LIFE-07")

# -- the plan ----------------------------------------------------------------------------------------


@mutant(
    "fetch-is-longer-than-its-memory",
    bugs=("H-01",),
    links=(ADAPTIVE,),
    kills=("FETCH-03", "FETCH-04", "POOL-12", "FETCH-08"),
    configs=TIGHT,
)
class FetchIsLongerThanItsMemory(UntruncatedKey):
    """A prefetch that was cut short for want of memory asks storage for its full length."""


@mutant(
    "fetch-without-memory",
    bugs=("H-02",),
    links=(ADAPTIVE, MAMBA),
    kills=("FETCH-04", "FETCH-03"),
    configs=TIGHT,
)
class FetchWithoutMemory(GoesOnWithoutSlots):
    """Whether the third allocation succeeded is not looked at: a prefetch sets out with no memory at all."""


@mutant(
    "fetch-loses-a-page-of-its-memory",
    bugs=("H-01",),
    links=(ADAPTIVE,),
    kills=("FETCH-04", "POOL-12"),
    configs=HOSTED,
)
class FetchLosesAPageOfItsMemory(ForgetsTheLastPage):
    """One page of what was allocated is handed to nobody: host memory shrinks with every prefetch."""


@mutant(
    "fetch-that-gives-up-keeps-its-anchor",
    bugs=("H-02",),
    links=(ADAPTIVE,),
    kills=("LIFE-08", "TIER-15", "FETCH-02"),
    configs=TIGHT,
)
class FetchThatGivesUpKeepsItsAnchor(AnchorKept):
    """A prefetch that finds no memory leaves its anchor protected, and nothing can ever evict it."""


@mutant(
    "fetch-quota-off-by-one",
    bugs=("H-65",),
    links=(SGLANG + "pull/26449",),
    kills=("FETCH-01",),
    configs=tuple(replace(config, rate_limit=4 * config.page_size) for config in HOSTED[:4]),
)
class FetchQuotaOffByOne(QuotaOffByOne):
    """A quota that is exactly filled lets one more prefetch through."""


@mutant(
    "fetch-threshold-exceeded",
    links=(ADAPTIVE,),
    kills=("FETCH-03",),
    configs=HOSTED,
)
class FetchThresholdExceeded(ThresholdExceeded):
    """A prefetch of exactly the threshold is refused."""


@mutant(
    "fetch-threshold-forgotten",
    links=(ADAPTIVE,),
    kills=("FETCH-03",),
    configs=tuple(config for config in TIGHT if config.threshold > config.page_size),
)
class FetchThresholdForgotten(ThresholdForgotten):
    """A prefetch that was cut short goes on with less than it is worth."""


@mutant(
    "fetch-makes-no-room",
    bugs=("S82",),
    links=(ADAPTIVE,),
    kills=("FETCH-03",),
    configs=TIGHT,
)
class FetchMakesNoRoom(TruncatesBeforeEvicting):
    """Prefetches get shorter and shorter as the host fills up with what nobody uses."""


@mutant(
    "fetch-evicts-before-its-gates",
    bugs=("H-09",),
    links=(ADAPTIVE,),
    kills=("FETCH-02",),
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


# -- the beginning, and the read ---------------------------------------------------------------------


@mutant(
    "prefetch-overwrites-its-namesake",
    bugs=("H-05", "S104"),
    links=(SGLANG + "pull/40262",),
    kills=("FETCH-01", "FETCH-07", *LOST),
)
class PrefetchOverwritesItsNamesake(Prefetcher):
    """A request that is queued again starts a second prefetch; of the first one nobody knows any more."""

    def start(self, rid: int, key: Key, storage_on: bool) -> tuple[bool, int, int, int]:
        self.ongoing.pop(rid, None)
        return super().start(rid, key, storage_on)


@mutant(
    "stale-revocation-ends-the-next",
    bugs=("H-05", "S104"),
    links=(SGLANG + "pull/40262",),
    kills=("FETCH-07", "LIFE-08", "TIER-12", "POOL-12", "FETCH-11", "FETCH-13", "FETCH-12", "FETCH-02"),
)
class StaleRevocationEndsTheNext(Prefetcher):
    """A request that is queued again loses its second prefetch to the end of the first.

    The query of a prefetch that nobody waits for any more is revoked, and the revocation is noted under the
    request's number.
    """

    def bury(self, work: Work, fetch: Fetch) -> None:
        super().bury(work, fetch)
        if work.kind == "query":
            self.stale.append(fetch.rid)

    def drop_revoked(self) -> None:
        for rid in self.stale:
            if rid in self.ongoing:
                self.close(self.ongoing[rid])
        self.stale.clear()
        super().drop_revoked()

    @property
    def stale(self) -> list[int]:
        """The numbers of requests whose prefetches were revoked."""
        found: list[int] = self.__dict__.setdefault("stale_numbers", [])
        return found


@mutant(
    "prefetch-behind-a-gap",
    bugs=("H-08",),
    links=(SGLANG + "pull/16370",),
    kills=("FETCH-05",),
    configs=NOT_BACK,
)
class PrefetchBehindAGap(Prefetcher):
    """Storage has the prompt and is never hit: names are chained from a page that is not the one before."""

    def fits(self, matched: int, depth: int) -> bool:
        return True


@mutant("prefetch-of-what-the-host-has", kills=("FETCH-06",))
class PrefetchOfWhatTheHostHas(Prefetcher):
    """Storage is read for what the host has already: a prefetch begins where the device's prefix ends."""

    def anchor(self, node: TieredNode) -> TieredNode:
        """The last resident node that is backed."""
        while node.parent is not None and not (node.host and node.pages):
            node = node.parent
        return node

    def depth(self, node: TieredNode) -> int:
        while node.parent is not None and not node.pages:
            node = node.parent
        return super().depth(node)


@mutant(
    "anchor-not-pinned",
    bugs=("S10",),
    links=(SGLANG + "pull/9601", SGLANG + "pull/9648"),
    kills=("TIER-12", "EVICT-03", *LOST),
)
class AnchorNotPinned(Prefetcher):
    """What was read is attached to a node that isn't in the tree any more: the host has evicted the anchor."""

    def begin(self, fetch: Fetch) -> None:
        """Protected as long as the plan is made."""
        super().begin(fetch)
        self.tree.unpin(fetch.anchor)

    def close(self, fetch: Fetch) -> None:
        self.tree.pin(fetch.anchor)
        super().close(fetch)


@mutant(
    "query-of-raw-tokens",
    bugs=("S31", "H-61"),
    links=(SGLANG + "pull/17193", SGLANG + "pull/19570"),
    kills=("BACKUP-04",),
    configs=BIGRAM,
)
class QueryOfRawTokens(Prefetcher):
    """With speculative decoding nothing is ever found: bigrams are hashed on writing, and tokens on asking."""

    def names(self, fetch: Fetch) -> Sequence[str]:
        """As if the key were a plain one."""
        first = fetch.start // self.size
        return self.hasher.page_hashes(fetch.key._replace(bigram=False), self.size, None)[first : first + fetch.hashed]


@mutant(
    "query-restarts-the-chain",
    bugs=("H-14",),
    links=(SGLANG + "pull/16370",),
    kills=("BACKUP-04", "BACKUP-05"),
)
class QueryRestartsTheChain(Prefetcher):
    """The KV of other positions is read: names of what follows a cached prefix are chained from nothing."""

    def names(self, fetch: Fetch) -> Sequence[str]:
        """From the first page that is asked for."""
        key = fetch.key._replace(tokens=fetch.key.tokens[fetch.start :])
        return self.hasher.page_hashes(key, self.size, None)[: fetch.hashed]


@mutant(
    "query-without-the-tenant",
    bugs=("S30",),
    links=(SGLANG + "pull/17265",),
    kills=("BACKUP-04", "BACKUP-05"),
)
class QueryWithoutTheTenant(Prefetcher):
    """A tenant finds nothing of its own, or somebody else's: the query leaves out what the put includes."""

    def names(self, fetch: Fetch) -> Sequence[str]:
        first = fetch.start // self.size
        return self.hasher.page_hashes(fetch.key._replace(namespace=None), self.size, None)[
            first : first + fetch.hashed
        ]


@mutant(
    "query-counts-behind-gaps",
    bugs=("H-20",),
    kills=("FETCH-08",),
)
class QueryCountsBehindGaps(Prefetcher):
    """A prefetch sets out to read more than can be read: pages are counted one by one, with gaps between them."""

    def found(self, store: PageStore, names: Sequence[str]) -> int:
        """How many, not how many in a row; asked again when the run was too short."""
        first = super().found(store, names)
        rest = names[first + 1 :]
        return first + 1 if rest and super().found(store, rest) else first


@mutant(
    "short-hit-goes-on",
    kills=("FETCH-08",),
    configs=tuple(config for config in HOSTED if config.threshold > config.page_size),
)
class ShortHitGoesOn(Prefetcher):
    """Reads of a page or two that cost more than they save: the threshold is not looked at after the query."""

    def query(self, work: Work, store: PageStore) -> None:
        before = self.settings
        self.settings = before._replace(threshold=0)
        super().query(work, store)
        self.settings = before


@mutant(
    "hit-tail-never-returned",
    bugs=("S07",),
    links=(SGLANG + "pull/8901",),
    kills=LOST,
)
class HitTailNeverReturned(Prefetcher):
    """Host memory shrinks with every prefetch that finds a part: what was reserved for the rest is forgotten."""

    def take_hit(self, work: Work, fetch: Fetch, names: Sequence[str], hit: int) -> None:
        fetch.pages = fetch.pages[: hit // self.size]
        super().take_hit(work, fetch, names, hit)


@mutant(
    "miss-leaks-the-rest",
    bugs=("S07",),
    links=(SGLANG + "pull/8901",),
    kills=LOST,
)
class MissLeaksTheRest(Prefetcher):
    """Host memory shrinks with every page that storage has lost: a read that ends early returns without cleaning up."""

    def end(self, work: Work, fetch: Fetch) -> None:
        """Keep what has arrived, forget the rest."""
        fetch.pages = fetch.pages[: fetch.done // self.size]
        super().end(work, fetch)


@mutant(
    "exception-ends-all-reading",
    bugs=("H-07", "S100"),
    links=(SGLANG + "pull/39269",),
    kills=(*STUCK, "FETCH-11"),
    configs=WAITING,
)
class ExceptionEndsAllReading(Prefetcher):
    """Requests wait for ever.

    What storage raises ends the thread that reads: this prefetch never ends, and no later one either.
    """

    dead = False

    def read(self, work: Work, store: PageStore, pages: int | None) -> None:
        if not self.dead:
            super().read(work, store, pages)

    def contents(self, store: PageStore, name: str) -> tuple[int, ...] | None:
        """The thread dies of what it isn't prepared for."""
        try:
            contents = store.get(name)
        except OSError:
            self.dead = True
            return None
        return contents if contents is not None and len(contents) >= self.size else None

    def end(self, work: Work, fetch: Fetch) -> None:
        if not self.dead:
            super().end(work, fetch)


@mutant(
    "short-page-counts",
    bugs=("H-11", "D01"),
    links=("https://github.com/ai-dynamo/dynamo/issues/15079",),
    kills=("FETCH-10", "TIER-08"),
)
class ShortPageCounts(Prefetcher):
    """Wrong KV is served: a page of which storage has a part only counts as read."""

    def contents(self, store: PageStore, name: str) -> tuple[int, ...] | None:
        try:
            contents = store.get(name)
        except OSError:
            return None
        return None if contents is None else (*contents, *[0] * (self.size - len(contents)))


@mutant(
    "failed-page-counts",
    bugs=("D01", "K03"),
    links=("https://github.com/ai-dynamo/dynamo/issues/15079",),
    kills=("FETCH-10", "TIER-08", "FETCH-12"),
)
class FailedPageCounts(Prefetcher):
    """Noise is served as KV: a page that doesn't come is skipped, and counted."""

    def contents(self, store: PageStore, name: str) -> tuple[int, ...] | None:
        return super().contents(store, name) or (0,) * self.size


# -- the end -----------------------------------------------------------------------------------------


@mutant(
    "commit-of-the-hit",
    bugs=("V19", "S64"),
    links=("https://github.com/vllm-project/vllm/pull/26813", SGLANG + "pull/27010"),
    kills=("FETCH-12", "TIER-08", *LOST),
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
    beside=(BelievingHost,),
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
    configs=TIMED,
)
class TimeoutOfAnotherCache(Prefetcher):
    """Requests wait longer or shorter than is configured: two caches of one engine have two formulas."""

    def limit(self, fetch: Fetch) -> float:
        """One second, and a quarter per 1024 units."""
        return 1.0 + 0.25 * (fetch.hit or 0) / 1024


@mutant("abandoned-read-is-cached", kills=("FETCH-12",))
class AbandonedReadIsCached(Prefetcher):
    """The cache fills with what aborted requests wanted: a read that nobody waits for is committed at its end."""

    def read(self, work: Work, store: PageStore, pages: int | None) -> None:
        """As if somebody had waited, where the anchor is still there."""
        fetch = work.fetch
        assert fetch is not None
        anchored = fetch.anchor.parent is None or fetch.anchor.host
        if fetch.over and anchored and fetch.done == 0 and len(fetch.pages) == len(work.names):
            found = [self.contents(store, name) for name in work.names]
            if None not in found:
                for page, contents in zip(fetch.pages, found, strict=True):
                    self.copier.write(page, contents or ())
                units = fetch.key.units[fetch.start : fetch.start + len(found) * self.size]
                known, _ = self.tree.insert_host(fetch.anchor, units, fetch.pages)
                fetch.pages = fetch.pages[:known]
        super().read(work, store, pages)


@mutant("timeout-forgets-the-units", bugs=("H-12",), kills=("FETCH-11",), configs=TIMED)
class TimeoutForgetsTheUnits(Prefetcher):
    """Long prefetches are cut off: a request waits as long for many pages as for none."""

    def limit(self, fetch: Fetch) -> float:
        """The base alone."""
        return self.settings.timeout[0]


@mutant(
    "stranger-has-to-wait",
    bugs=("H-58", "S11"),
    links=(SGLANG + "pull/9643",),
    kills=("FETCH-11", "LIFE-07"),
)
class StrangerHasToWait(Prefetcher):
    """A request whose prefetch was refused is never scheduled: nothing is known of it, so it isn't ready."""

    def poll(self, rid: int) -> bool:
        return rid in self.ongoing and super().poll(rid)


@mutant("added-is-told-twice", kills=("FETCH-16",))
class AddedIsToldTwice(Prefetcher):
    """Hit statistics count a prefetch as often as somebody asks; a request with the same number inherits it."""

    def told(self, rid: int) -> int:
        return self.loaded.get(rid, 0)


@mutant("added-includes-what-was-there", kills=("FETCH-16",))
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
    kills=("FETCH-12", "FETCH-14"),
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
    kills=("TIER-08", *LOST),
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
    configs=NOT_BACK,
)
class DropBelowTheUnbackedLeaks(Prefetcher):
    """What was read and can't be attached belongs to nobody: no path releases it."""

    def commit(self, fetch: Fetch) -> None:
        """The release queue gets nothing of it."""
        waiting = len(self.host.releasing)
        super().commit(fetch)
        del self.host.releasing[waiting:]


@mutant("reads-the-last-page-again", kills=("FETCH-09", "FETCH-10"))
class ReadsTheLastPageAgain(Prefetcher):
    """Each batch of a read begins with the last page of the one before it."""

    def read(self, work: Work, store: PageStore, pages: int | None) -> None:
        fetch = work.fetch
        if fetch is not None and not fetch.over and fetch.done:
            self.contents(store, work.names[fetch.done // self.size - 1])
        super().read(work, store, pages)


@mutant("fetch-ends-with-its-first-part", kills=("FETCH-20",))
class FetchEndsWithItsFirstPart(Prefetcher):
    """Long prompts are read in part though storage has all of them: what came in time is taken for all that comes."""

    def read(self, work: Work, store: PageStore, pages: int | None) -> None:
        super().read(work, store, pages)
        fetch = work.fetch
        if fetch is not None and not fetch.over and fetch.stage == FETCHING:
            self.end(work, fetch)
