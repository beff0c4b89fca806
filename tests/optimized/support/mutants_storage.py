"""Mutants of what goes to storage and comes from it."""

from __future__ import annotations

from typing import Any

from kvlitmus.conformance.run.plan import TIER_CONFIGS, TIERED
from tests.optimized.support.mutants import SELECTIVE, TIERS, TIMED, mutant, without
from tests.support.mutants import Original

# -- put ------------------------------------------------------------------------------------------------------


@mutant(
    "put-goes-on-after-a-refusal",
    "work:_taken",
    like=("put-goes-on-after-a-refusal", "put-leaves-out-the-last-page"),
    configs=(TIERED, TIER_CONFIGS[1]),
)
def put_goes_on_after_a_refusal(original: Original) -> Any:
    """A page that storage doesn't take is passed over, and counts as stored."""

    def taken(store: Any, names: Any, contents: Any) -> int:
        original(store, names, contents)
        return len(names)

    return taken


@mutant(
    "put-begins-before-the-copy",
    "put:Puts.waiting",
    like=("put-begins-before-the-copy",),
    configs=(TIERED, TIER_CONFIGS[6]),
)
def put_begins_before_the_copy(original: Original) -> Any:
    """Pages are put as soon as they have a place on the host, before their contents are there."""

    def waiting(self: Any, run: Any) -> Any:
        from kvlitmus.optimized.branch import SETTLED, STORED

        flags = run.branch.flags
        if flags is None:
            return []
        before = flags.copy()
        flags[run.lo : run.hi][flags[run.lo : run.hi] & STORED == 0] = SETTLED
        found = original(self, run)
        flags[:] = before
        return found

    return waiting


@mutant("put-names-shifted", "put:Puts.start", like=("put-under-the-name-before",), configs=(TIERED, TIER_CONFIGS[6]))
def put_names_shifted(original: Original) -> Any:
    """The list of names of a put begins one page earlier, where there is one."""

    def start(self: Any, runs: Any) -> None:
        names, self.names = self.names, lambda end, lo: names(end, max(0, lo - 1))[: self.tree.depth(end) - lo]
        try:
            original(self, runs)
        finally:
            self.names = names

    return start


# -- fetch ----------------------------------------------------------------------------------------------------


def keeps(original: Original) -> Any:
    """The same, but for what it should have put on the release queue."""

    def call(self: Any, *args: Any, **options: Any) -> Any:
        with without(self.host, "release"):
            return original(self, *args, **options)

    return call


@mutant(
    "hit-tail-never-returned",
    "fetch:Fetches.answered",
    like=("hit-tail-never-returned", "fetch-loses-a-page-of-its-memory"),
    configs=TIERS[:2],
)
def hit_tail_never_returned(original: Original) -> Any:
    """What was reserved for pages that storage hasn't got is forgotten."""
    return keeps(original)


@mutant("miss-leaks-the-rest", "fetch:Fetches.arrived", like=("miss-leaks-the-rest",), configs=TIERS[:2])
def miss_leaks_the_rest(original: Original) -> Any:
    """A read that ends early returns without cleaning up."""
    return keeps(original)


@mutant(
    "abort-of-a-finished-read-leaks",
    "fetch:Fetches.abandon",
    like=("abort-of-a-finished-read-leaks",),
    configs=TIERS[:2],
)
def abort_leaks(original: Original) -> Any:
    """What had been read when a request is aborted belongs to nobody."""
    return keeps(original)


@mutant(
    "commit-of-the-hit",
    "fetch:Fetches.commit",
    like=("commit-of-the-hit",),
    configs=TIERS[:2],
    more=("FETCH-10", "FETCH-14"),
)
def commit_of_the_hit(original: Original) -> Any:
    """A commit takes what the query found, not what has arrived."""

    def commit(self: Any, operation: Any) -> None:
        operation.completed = max(operation.completed, min(operation.hit, len(operation.held)))
        original(self, operation)

    return commit


@mutant(
    "commit-frees-twice",
    "fetch:Fetches.leave",
    like=("commit-frees-twice", "abort-frees-what-is-being-read"),
    configs=TIERS[:2],
)
def commit_frees_twice(original: Original) -> Any:
    """A request that stops waiting frees memory into which a read still writes."""

    def leave(self: Any, operation: Any) -> None:
        original(self, operation)
        if operation.stage == "fetch":
            self.host.release(operation.held)

    return leave


@mutant("aborted-gets-cached", "fetch:Fetches.abandon", like=("aborted-gets-cached",), configs=TIERS[:2])
def aborted_gets_cached(original: Original) -> Any:
    """An abort commits what has arrived."""

    def abandon(self: Any, rid: Any) -> None:
        operation = self.ongoing.get(rid)
        if operation is None:
            original(self, rid)
        else:
            self.commit(operation)

    return abandon


@mutant(
    "quota-kept-by-the-aborted",
    "fetch:Fetches.abandon",
    "fetch:Fetches.detach",
    like=("quota-kept-by-the-aborted", "detach-keeps-the-quota"),
    configs=TIERS[:2],
)
def quota_kept_by_the_aborted(original: Original) -> Any:
    """Every aborted request costs a part of the quota for ever."""

    def call(self: Any, *args: Any) -> None:
        occupied = self.occupied
        original(self, *args)
        self.occupied = occupied

    return call


@mutant(
    "prefetch-overwrites-its-namesake",
    "fetch:Fetches.submit",
    like=("prefetch-overwrites-its-namesake",),
    configs=TIERS[:2],
)
def prefetch_overwrites_its_namesake(original: Original) -> Any:
    """A request that is queued again starts a second prefetch; of the first one nobody knows any more."""

    def submit(self: Any, rid: Any, *args: Any) -> Any:
        self.ongoing.pop(rid, None)
        return original(self, rid, *args)

    return submit


@mutant(
    "second-release-of-an-anchor",
    "fetch:Fetches.quit",
    like=("second-release-of-an-anchor",),
    configs=TIERS[:2],
    more=("FRAME-05", "TIER-11", "EVICT-03"),
)
def second_release_of_an_anchor(original: Original) -> Any:
    """An anchor on which others wait, too, is released for all of them."""

    def quit(self: Any, operation: Any) -> None:
        original(self, operation)
        branch, end = operation.anchor[:2]
        if end and branch.pins is not None and branch.pins[end - 1]:
            self.tree.unpin_place(operation.anchor)

    return quit


@mutant("timeout-never-fires", "fetch:Fetches.may_stop", like=("timeout-never-fires",), configs=TIMED)
def timeout_never_fires(original: Original) -> Any:
    """A request waits as long as storage takes."""
    return lambda self, operation, elapsed: original(self, operation, 0.0)


@mutant("timeout-of-another-cache", "fetch:Fetches.limit", like=("timeout-of-another-cache",), configs=TIMED)
def timeout_of_another_cache(original: Original) -> Any:
    """Two caches of one engine have two formulas: here the limit grows with what was asked for, twice as fast."""
    return lambda self, operation: 2 * original(self, operation)


@mutant("added-is-told-twice", "fetch:Fetches.told", like=("added-is-told-twice",), configs=TIERS[:2])
def added_is_told_twice(original: Original) -> Any:
    """Hit statistics count a prefetch as often as somebody asks."""
    return lambda self, rid: self.loaded.get(rid, 0)


@mutant("failed-page-counts", "work:_got", like=("failed-page-counts", "short-page-counts"), configs=TIERS[:2])
def failed_page_counts(original: Original) -> Any:
    """A page that doesn't come, or comes short, counts as read."""

    def got(store: Any, names: Any, size: int) -> Any:
        found = [page if page is not None else bytes(size) for page in original(store, names, size)]
        return found or [bytes(size) for _ in names]

    return got


@mutant("short-hit-goes-on", "fetch:Fetches.revoke", like=("short-hit-goes-on",), configs=(TIERED,))
def short_hit_goes_on(original: Original) -> Any:
    """Reads of a page or two are made that cost more than they save."""

    def revoke(self: Any, operation: Any) -> None:
        if not operation.hit:
            original(self, operation)
            return
        self.host.release(operation.held[operation.hit :])
        operation.held, operation.names = operation.held[: operation.hit], operation.names[: operation.hit]
        operation.stage = "fetch"
        self.works.remove(operation.work)
        self.begin("fetch", operation)

    return revoke


@mutant(
    "commit-below-the-unbacked",
    "tree:Tree.has_host_copy",
    like=("commit-below-the-unbacked", "prefetch-behind-a-gap"),
    configs=(TIERED, TIER_CONFIGS[1], *SELECTIVE),
)
def commit_below_the_unbacked(original: Original) -> Any:
    """Pages from storage hang below a page that the host doesn't have."""
    return lambda self, place: True


@mutant(
    "fetch-threshold-exceeded",
    "prefetch:PrefetchPlanner.gate",
    like=("fetch-threshold-exceeded", "prefetch-threshold-exceeded", "fetch-quota-off-by-one"),
    configs=TIERS[:2],
)
def fetch_threshold_exceeded(original: Original) -> Any:
    """A prefetch of exactly the threshold is refused."""
    return lambda self, ask: original(self, ask._replace(threshold=ask.threshold + 1))
