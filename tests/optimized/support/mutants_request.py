"""Mutants of eviction, names and requests; legal variations of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.run.plan import TIER_CONFIGS
from tests.optimized.support.mutants import FLAT_PAGED, HITS, TIERS, mutant, without
from tests.support.mutants import Original

# -- evict ----------------------------------------------------------------------------------------------------


@mutant("parent-never-a-candidate", "residency:Residency.not_resident", like=("parent-never-a-candidate",))
def parent_never_a_candidate(original: Original) -> Any:
    """A branch whose last child has just gone is not looked at."""

    def not_resident(self: Any, branch: Any) -> None:
        with without(self.victims, "offer"):
            original(self, branch)

    return not_resident


@mutant(
    "tip-retreats-once", "residency:Residency.leave_device", like=("mirrors-are-skipped", "parent-never-a-candidate")
)
def tip_retreats_once(original: Original) -> Any:
    """What is left of a branch after its tip has gone is not offered again."""

    def leave_device(self: Any, branch: Any, most: int) -> int:
        with without(self.victims, "offer"):
            gone: int = original(self, branch, most)
        self.victims.drop(branch)
        return gone

    return leave_device


@mutant(
    "locked-is-evicted",
    "branch:Branch.protected",
    "residency:device_tip",
    like=("pinned-is-evicted", "bulk-path-ignores-locks", "two-ideas-of-evictable"),
)
def locked_is_evicted(original: Original) -> Any:
    """Whether somebody holds a page isn't looked at."""
    if original.__name__ == "protected":
        return lambda self: 0

    def tip(branch: Any) -> int:
        locks, branch.locks = branch.locks, None
        try:
            return int(original(branch))
        finally:
            branch.locks = locks

    return tip


@mutant(
    "inner-page-is-evicted", "residency:device_tip", like=("inner-node-becomes-a-gap", "parent-stays-among-the-leaves")
)
def inner_page_is_evicted(original: Original) -> Any:
    """A branch gives its tip although another one hangs there."""

    def tip(branch: Any) -> int:
        hanging, branch.resident_at = branch.resident_at, None
        try:
            return int(original(branch))
        finally:
            branch.resident_at = hanging

    return tip


@mutant("evicted-never-counted", "residency:Residency.leave_device", like=("evicted-never-counted",))
def evicted_never_counted(original: Original) -> Any:
    """An eviction doesn't count what it frees, and goes on."""

    def leave_device(self: Any, branch: Any, most: int) -> int:
        return min(1, int(original(self, branch, self.pool.pages))) if most > 1 else int(original(self, branch, 2))

    return leave_device


@mutant("flush-forgets-one-leaf-a-time", "cache:FlatCache.flush", like=("flush-forgets-one-leaf-a-time",))
def flush_forgets_one_leaf_a_time(original: Original) -> Any:
    """A flush takes the page at the tip of each prompt, and what was before it stays."""
    return lambda self: len(self.evict(len(self.tree.roots) * self.config.page_size)) * self.config.page_size


@mutant("stale-offer-is-believed", "evict:Victims.offer", like=("branch-before-others", "split-renews-the-rest"))
def stale_offer_is_believed(original: Original) -> Any:
    """An offer is taken for what it said when it was made: what was used since goes first."""

    def offer(self: Any, branch: Any) -> None:
        if not self.holds(branch):
            original(self, branch)

    return offer


@mutant(
    "use-under-mru-is-no-news",
    "tree:Tree.match",
    like=("branch-before-others", "split-renews-the-rest"),
    configs=(Config(page_size=4, policy="mru"),),
)
def use_under_mru_is_no_news(original: Original) -> Any:
    """Under MRU a use makes a page worth less, and a match doesn't tell the heap."""

    def match(self: Any, namespace: Any, units: Any) -> Any:
        with without(self.victims, "offer"):
            return original(self, namespace, units)

    return match


# -- names ----------------------------------------------------------------------------------------------------


@mutant(
    "digests-outlive-their-pages",
    "branch:Branch.truncate",
    like=("put-under-the-name-before", "put-restarts-the-chain", "query-restarts-the-chain"),
    configs=TIERS,
)
def digests_outlive_their_pages(original: Original) -> Any:
    """The storage names of a branch stay when its tip goes; what grows there next is stored under them."""

    def truncate(self: Any, end: int, page_size: int) -> None:
        digests, self.digests = self.digests, None
        original(self, end, page_size)
        self.digests = digests

    return truncate


@mutant(
    "tenant-not-in-the-name",
    "hashing:seed",
    like=("tenant-not-in-the-name", "hash-namespace-ignored"),
    configs=(Config(page_size=4), *TIERS),
)
def tenant_not_in_the_name(original: Original) -> Any:
    """The namespace is no part of the names in storage."""
    return lambda namespace, page_size, bigram: original(None, page_size, bigram=bigram)


@mutant(
    "names-of-the-bigrams-swapped",
    "hashing:encode",
    like=("put-names-raw-tokens", "hash-tokens-for-bigrams", "hash-big-endian"),
    configs=(Config(page_size=4, bigram=True), TIER_CONFIGS[5]),
)
def names_of_the_bigrams_swapped(original: Original) -> Any:
    """The two tokens of a bigram are hashed in the order in which they are packed."""

    def encode(units: Any, *, bigram: bool) -> bytes:
        return np.ascontiguousarray(units.astype("<i8")).tobytes() if bigram else original(units, bigram=bigram)

    return encode


# -- requests -------------------------------------------------------------------------------------------------


@mutant(
    "abort-releases-nothing",
    "request:RequestTable.give_back",
    like=("abort-releases-nothing", "tail-page-stranded", "frontier-of-raw-tokens"),
)
def abort_releases_nothing(original: Original) -> Any:
    """What a request owns alone when it ends is nobody's afterwards."""
    return lambda self, request, start, end: None


@mutant(
    "refused-keeps-its-lock",
    "request:RequestTable.room",
    like=("lock-before-capacity", "refused-keeps-its-slot"),
    configs=(Config(page_size=4, pages=8), Config(page_size=1, pages=10)),
    more=("LOCK-03",),
)
def refused_keeps_its_lock(original: Original) -> Any:
    """A request for which there is no room leaves its prefix locked."""

    def room(self: Any, pages: int) -> Any:
        found = original(self, pages)
        if found is None and pages > 0:
            tree = self.tree
            locked = [branch for branch in tree.branches() if branch.locks and branch.locks[-1] & 1]
            if locked:
                tree.lock(type(tree.found(locked[-1], 0).place)(locked[-1], locked[-1].locks[-1] >> 1))
        return found

    return room


@mutant("aborted-yet-cached", "request:RequestTable.end", like=("aborted-yet-cached",))
def aborted_yet_cached(original: Original) -> Any:
    """What an aborted request was to compute is cached all the same."""
    return lambda self, rid, keep: original(self, rid, keep=True)


@mutant(
    "growing-drops-the-namespace",
    "request:RequestTable.grow",
    like=("growing-drops-the-namespace",),
    more=("REQ-04", "TREE-02", "TREE-03", "REQ-07"),
)
def growing_drops_the_namespace(original: Original) -> Any:
    """A request that grows forgets whose it is, where nothing of it is cached yet."""

    def grow(self: Any, rid: Any, tokens: Any) -> Any:
        slots = original(self, rid, tokens)
        request = self.running[rid]
        if not request.cached:
            self.tree.unlock(request.place)
            request.namespace = None
            request.place = type(request.place)(self.tree.root(None), 0)
        return slots

    return grow


@mutant("fork-without-a-lock", "request:RequestTable.fork", like=("fork-without-a-lock",))
def fork_without_a_lock(original: Original) -> Any:
    """The prompt of all beams may be evicted when the first beam ends: a fork doesn't count."""

    def fork(self: Any, rid: Any, of: Any, *copy: Any) -> Any:
        running = original(self, rid, of, *copy)
        if running is not None:
            self.tree.unlock(running.place)
            running.place = type(running.place)(self.tree.root(running.namespace), 0)
        return running

    return fork


@mutant(
    "fork-copies-one-page-too-few",
    "data.transfer:copy_pages",
    like=("copied-after-the-pages-are-gone",),
    configs=TIERS,
)
def fork_copies_one_page_too_few(original: Original) -> Any:
    """The last page of a prompt, which is not full, isn't copied for a beam."""
    return lambda pool, sources, targets: original(pool, sources[:-1], targets[:-1])


@mutant("retracted-keeps-its-lock", "request:RequestTable.retract", like=("retracted-keeps-its-lock",))
def retracted_keeps_its_lock(original: Original) -> Any:
    """Memory stays short whoever is retracted: what the request shared is protected on."""

    def retract(self: Any, rid: Any, *save: Any) -> bool:
        self.tree.lock(self.running[rid].place)
        return bool(original(self, rid, *save))

    return retract


@mutant(
    "retracted-before-its-load-has-landed",
    "rows:Rows.save",
    like=("retracted-before-its-load-has-landed",),
    configs=TIERS,
)
def retracted_before_its_load_has_landed(original: Original) -> Any:
    """A request resumes with garbage: it was copied to the host while a load was still filling what it shares."""
    return lambda self, pages: self.mover.save(pages, np.full(len(pages), -1, np.int32))


@mutant("row-not-remapped", "request:RequestTable.publish", like=("row-not-remapped",))
def row_not_remapped(original: Original) -> Any:
    """After publishing a request goes on with its own pages, also with those that were freed as duplicates."""

    def publish(self: Any, rid: Any, *, chunked: bool, upto: Any = None) -> Any:
        before = self.running[rid].row.copy()
        running = original(self, rid, chunked=chunked, upto=upto)
        running.row[:] = before
        return running

    return publish


@mutant(
    "published-chunks-keep-their-lock",
    "request:RequestTable.publish",
    like=("chunk-matched-again", "one-flag-keeps-the-lock"),
    more=("LOCK-02", "LOCK-03", "LOCK-04"),
)
def published_chunks_keep_their_lock(original: Original) -> Any:
    """Each chunk of a prompt leaves the lock of the chunk before it behind."""

    def publish(self: Any, rid: Any, *, chunked: bool, upto: Any = None) -> Any:
        if chunked:
            with without(self.tree, "unlock"):
                return original(self, rid, chunked=chunked, upto=upto)
        return original(self, rid, chunked=chunked, upto=upto)

    return publish


@mutant(
    "computed-part-ignored",
    "request:RequestTable.computed",
    like=("computed-part-ignored", "ended-early-keeps-all", "part-page-rounded-up"),
)
def computed_part_ignored(original: Original) -> Any:
    """However much a caller has computed, all of a request is published."""
    return staticmethod(lambda request, upto: request.length)


# -- legal variations -----------------------------------------------------------------------------------------


@mutant("null-lowest-pages-first", "pool:PagePool.take", configs=(*FLAT_PAGED, TIER_CONFIGS[3]))
def lowest_pages_first(original: Original) -> Any:
    """Which free page is taken is nobody's promise: here the lowest."""

    def take(self: Any, count: int) -> Any:
        self.stack[: self.free_count] = -np.sort(-self.stack[: self.free_count])
        return original(self, count)

    return take


@mutant("null-heap-made-anew", "evict:Victims.best", configs=(*HITS, TIER_CONFIGS[0]))
def heap_made_anew(original: Original) -> Any:
    """Before each victim the heap is made again of what the tips are worth now."""

    def best(self: Any) -> Any:
        for branch in self.branches.values():
            self.drop(branch)
            self.offer(branch)
        return original(self)

    return best


@mutant("null-no-digests-kept", "hashing:PathNames.names", configs=TIERS)
def no_digests_kept(original: Original) -> Any:
    """Nothing is remembered of names: they are hashed from the root each time."""

    def names(self: Any, place: Any, lo: int = 0) -> Any:
        for branch in self.paths.branches():
            branch.digests = None
        return original(self, place, lo)

    return names


@mutant("null-page-by-page", "residency:Residency.leave_device", configs=(*FLAT_PAGED, TIER_CONFIGS[0]))
def page_by_page(original: Original) -> Any:
    """Each single page is chosen anew: more work, the same victims."""
    return lambda self, branch, most: original(self, branch, 1)


@mutant("null-ends-early-by-publishing", "request:RequestTable.end", configs=(*FLAT_PAGED, TIER_CONFIGS[0]))
def ends_early_by_publishing(original: Original) -> Any:
    """A request that ends before it is computed is published up to there, then aborted: what is left is the same."""

    def end(self: Any, rid: Any, keep: Any) -> Any:
        if isinstance(keep, bool):
            return original(self, rid, keep=keep)
        place = self.publish(rid, chunked=False, upto=keep).place
        original(self, rid, keep=False)
        return place

    return end
