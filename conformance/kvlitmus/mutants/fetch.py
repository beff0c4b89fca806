"""Slips of prefetches that begin: where, by which names, how much, and what is read."""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.conformance.specimen.fetching import Prefetcher
from kvlitmus.conformance.specimen.works import Fetch, TieredNode, Work
from kvlitmus.mutants.hosted import (
    BIGRAM,
    HOSTED,
    NOT_BACK,
    SGLANG,
    WAITING,
)
from kvlitmus.mutants.registry import mutant
from kvlitmus.spec.interface import PageStore
from kvlitmus.spec.units import Key

LOST = ("TIER-01", "TIER-02")
STUCK = ("LIFE-06", "LIFE-07")


@mutant(
    "prefetch-overwrites-its-namesake",
    bugs=("H-05", "S104"),
    links=(SGLANG + "pull/40262",),
    kills=("FETCH-01", "FETCH-07", *LOST),
    slot="fetches",
    configs=HOSTED,
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
    kills=("FETCH-07", "LIFE-08", "TIER-12", "TIER-02", "FETCH-11", "FETCH-13", "FETCH-15", "FETCH-02"),
    slot="fetches",
    configs=HOSTED,
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
    slot="fetches",
    configs=NOT_BACK,
)
class PrefetchBehindAGap(Prefetcher):
    """Storage has the prompt and is never hit: names are chained from a page that is not the one before."""

    def fits(self, matched: int, depth: int) -> bool:
        return True


@mutant(
    "prefetch-of-what-the-host-has",
    bugs=(),
    links=(),
    kills=("FETCH-06",),
    slot="fetches",
    configs=HOSTED,
)
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
    kills=("TIER-12", "TIER-14", *LOST),
    slot="fetches",
    configs=HOSTED,
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
    slot="fetches",
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
    slot="fetches",
    configs=HOSTED,
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
    slot="fetches",
    configs=HOSTED,
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
    links=(),
    kills=("FETCH-08",),
    slot="fetches",
    configs=HOSTED,
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
    bugs=(),
    links=(),
    kills=("FETCH-08",),
    slot="fetches",
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
    slot="fetches",
    configs=HOSTED,
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
    slot="fetches",
    configs=HOSTED,
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
    slot="fetches",
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
    kills=("FETCH-10", "TIER-07"),
    slot="fetches",
    configs=HOSTED,
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
    kills=("FETCH-10", "TIER-07", "FETCH-12"),
    slot="fetches",
    configs=HOSTED,
)
class FailedPageCounts(Prefetcher):
    """Noise is served as KV: a page that doesn't come is skipped, and counted."""

    def contents(self, store: PageStore, name: str) -> tuple[int, ...] | None:
        return super().contents(store, name) or (0,) * self.size
