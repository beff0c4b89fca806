"""Mutants of the host tier: residency, backups, loads."""

from __future__ import annotations

from typing import Any

from kvlitmus.conformance.run.plan import TIER_CONFIGS, TIERED
from tests.optimized.support.mutants import BACK, SELECTIVE, TIERS, mutant, nothing, without
from tests.support.mutants import Original

# -- host -----------------------------------------------------------------------------------------------------


@mutant(
    "pins-are-ignored",
    "residency:Residency._pin",
    like=("host-eviction-ignores-pins", "load-sources-not-pinned", "put-source-not-pinned", "anchor-not-pinned"),
    configs=(TIERED, *BACK),
)
def pins_are_ignored(original: Original) -> Any:
    """Host copies are freed while a load, a put or a prefetch needs them."""
    return nothing


@mutant(
    "anchor-not-pinned",
    "residency:Residency.pin_place",
    "residency:Residency.unpin_place",
    like=("anchor-not-pinned", "prefetch-anchor-unprotected"),
    configs=(TIERED, TIER_CONFIGS[1]),
)
def anchor_not_pinned(original: Original) -> Any:
    """The page below which a prefetch will be attached may be evicted meanwhile."""
    return nothing


@mutant(
    "host-evicts-inner-pages",
    "residency:host_tip",
    like=("host-eviction-takes-inner-nodes", "commit-replaces-the-branch"),
    configs=TIERS,
)
def host_evicts_inner_pages(original: Original) -> Any:
    """The host evicts pages that others hang below."""

    def tip(branch: Any) -> int:
        hanging, branch.all_at = branch.all_at, None
        try:
            return int(original(branch))
        finally:
            branch.all_at = hanging

    return tip


@mutant(
    "host-evictions-never-counted",
    "residency:Residency.leave_host",
    like=("host-evictions-never-counted",),
    configs=TIERS,
)
def host_evictions_never_counted(original: Original) -> Any:
    """One eviction empties the whole host tier: nobody counts what has gone."""

    def leave_host(self: Any, branch: Any, most: int) -> int:
        original(self, branch, most)
        return 0

    return leave_host


@mutant(
    "host-parent-never-a-candidate",
    "residency:Residency.shorten",
    "residency:Residency.unpin",
    like=("host-parent-never-a-candidate", "host-eviction-stops-at-the-first-node", "half-an-allocation-is-lost"),
    configs=TIERS,
    more=("BACKUP-01", "FETCH-03"),
)
def host_parent_never_a_candidate(original: Original) -> Any:
    """What becomes evictable on the host because something else has gone isn't looked at."""

    def call(self: Any, *args: Any) -> None:
        with without(self.host_victims, "offer"):
            original(self, *args)

    return call


@mutant(
    "restored-counts-as-duplicate",
    "tree:Tree.insert_behind",
    like=("restored-counts-as-duplicate", "revived-counts-as-duplicate"),
    configs=TIERS,
)
def restored_counts_as_duplicate(original: Original) -> Any:
    """Pages that come back from the host in the caller's slots are told to be duplicates, which the caller frees."""

    def insert_behind(self: Any, place: Any, units: Any, pages: Any, **how: Any) -> Any:
        branch, end = self.walk(place.branch, place.end, units[: len(pages) * self.page_size])
        inserted = original(self, place, units, pages, **how)
        return inserted._replace(already=max(inserted.already, branch.base + end))

    return insert_behind


@mutant("restored-never-counted", "residency:Residency.come_back", like=("restored-never-counted",), configs=TIERS)
def restored_never_counted(original: Original) -> Any:
    """What comes back to the device isn't counted as evictable."""

    def make_resident(self: Any, runs: Any, pages: Any) -> None:
        evictable = self.evictable
        original(self, runs, pages)
        self.evictable = evictable

    return make_resident


# -- backup ---------------------------------------------------------------------------------------------------


@mutant("ack-before-the-copy", "backup:Backups.acks", like=("ack-before-the-copy",), configs=TIERS[:2])
def ack_before_the_copy(original: Original) -> Any:
    """Every tick acknowledges whatever was queued, landed or not."""

    def acks(self: Any) -> None:
        for work in self.queue:
            work.landed = True
        original(self)

    return acks


@mutant("acks-in-any-order", "backup:Backups.acks", like=("acks-in-any-order",), configs=TIERS[:2])
def acks_in_any_order(original: Original) -> Any:
    """A copy is acknowledged before one that was started earlier."""

    def acks(self: Any) -> None:
        for work in [one for one in self.queue if one.landed]:
            self.queue.remove(work)
            self.finish(work)

    return acks


@mutant("ack-keeps-the-lock", "backup:Backups.finish", like=("ack-keeps-the-lock",), configs=TIERS[:2])
def ack_keeps_the_lock(original: Original) -> Any:
    """What was ever backed up can never be evicted again."""

    def finish(self: Any, work: Any) -> None:
        with without(self.tree, "unlock"):
            original(self, work)

    return finish


@mutant(
    "backup-takes-no-lock",
    "backup:Backups.start",
    "backup:Backups.finish",
    like=("backup-takes-no-lock",),
    configs=TIERS[:2],
)
def backup_takes_no_lock(original: Original) -> Any:
    """A page is evicted and used again while its copy is under way."""

    def call(self: Any, what: Any) -> Any:
        with without(self.tree, "lock", "unlock"):
            return original(self, what)

    return call


@mutant("write-back-does-not-wait", "backup:Backups.copied", like=("write-back-does-not-wait",), configs=BACK)
def write_back_does_not_wait(original: Original) -> Any:
    """An eviction frees device pages while their copies are still queued."""
    return lambda self, run, pages: bool(self.mover.backup(self.tree.device_run(run), pages))


@mutant(
    "chunks-count-as-uses", "life:TieredCache.publish", like=("chunks-count-as-uses",), configs=(*TIERS[:2], *SELECTIVE)
)
def chunks_count_as_uses(original: Original) -> Any:
    """A prompt that is computed in chunks counts as many uses of its beginning."""
    return lambda self, rid, *, chunked=False, upto=None: original(self, rid, chunked=False, upto=upto)


@mutant("selective-is-not", "tree:Tree.due", like=("selective-is-not",), configs=SELECTIVE)
def selective_is_not(original: Original) -> Any:
    """The first use is enough."""
    return lambda self, place, lo, uses: self.nodes(place, lo)


@mutant(
    "child-before-its-parent",
    "backup:Backups.used",
    like=("child-before-its-parent",),
    configs=(*TIERS[:2], *SELECTIVE, TIER_CONFIGS[6]),
)
def child_before_its_parent(original: Original) -> Any:
    """Whether the page before is backed isn't asked."""

    def used(self: Any, place: Any) -> int:
        backed = int(self.tree.backed(place, self.closed))
        if not self.uses:
            return backed
        for node in self.tree.nodes(place, backed):
            if node.branch.hits_at(node.lo) >= self.uses and not node.branch.has_copy(node.lo):
                self.start(node)
        return backed

    return used


@mutant(
    "backup-makes-no-room",
    "backup:Backups.start",
    like=("backup-makes-no-room",),
    configs=(TIER_CONFIGS[5], TIER_CONFIGS[6], TIERED),
)
def backup_makes_no_room(original: Original) -> Any:
    """Once the host is full nothing is backed up any more, although nothing on it is in use."""

    def start(self: Any, node: Any) -> bool:
        return self.host.pool.free_count >= node.hi - node.lo and bool(original(self, node))

    return start


# -- load -----------------------------------------------------------------------------------------------------


@mutant("load-takes-no-lock", "load:Loads.start", "load:Loads.finish", like=("load-takes-no-lock",), configs=TIERS)
def load_takes_no_lock(original: Original) -> Any:
    """Pages are evicted and used again while the copy into them is under way."""

    def call(self: Any, *args: Any) -> Any:
        with without(self.tree, "lock", "unlock"):
            return original(self, *args)

    return call


@mutant("load-unlocks-early", "load:Loads.acks", like=("load-noted-before-it-has-landed",), configs=TIERS)
def load_unlocks_early(original: Original) -> Any:
    """A load counts as over at the next tick, landed or not."""

    def acks(self: Any) -> None:
        while self.queue:
            self.finish(self.queue.popleft())

    return acks


@mutant(
    "failed-load-keeps-its-pins",
    "load:Loads.load_back",
    like=("failed-load-keeps-its-pins",),
    configs=(TIERED, TIER_CONFIGS[1], TIER_CONFIGS[4]),
)
def failed_load_keeps_its_pins(original: Original) -> Any:
    """A load that finds no room leaves its sources pinned."""

    def load_back(self: Any, *args: Any) -> Any:
        with without(self.tree, "unpin"):
            return original(self, *args)

    return load_back


@mutant(
    "failed-load-keeps-its-lock",
    "load:Loads.load_back",
    like=("failed-load-keeps-its-lock",),
    configs=(TIERED, TIER_CONFIGS[1]),
)
def failed_load_keeps_its_lock(original: Original) -> Any:
    """The lock that protects a path while room is made for a load isn't given back."""

    def load_back(self: Any, *args: Any) -> Any:
        with without(self.tree, "unlock"):
            return original(self, *args)

    return load_back


@mutant("load-makes-no-room", "load:Loads.room", like=("load-makes-no-room",), configs=TIERS[:2])
def load_makes_no_room(original: Original) -> Any:
    """Once the device is full nothing is loaded, although nothing there is in use."""
    return lambda self, pages: self.pool.take(pages)


@mutant(
    "load-evicts-its-own-path",
    "load:Loads.room",
    like=("load-evicts-its-own-path",),
    configs=TIERS,
    more=("PORT-01", "LOCK-01", "TREE-05"),
)
def load_evicts_its_own_path(original: Original) -> Any:
    """To make room, the beginning of the very prompt is evicted."""

    def room(self: Any, pages: int) -> Any:
        short = pages - self.pool.free_count
        if short > 0:
            locks = {branch: branch.locks for branch in self.tree.branches() if branch.locks}
            for branch in locks:
                branch.locks = None
                self.tree.victims.offer(branch)
            self.tree.evict(short)
            for branch, held in locks.items():
                branch.locks = held
        return self.pool.take(pages)

    return room


@mutant("next-layer-told-ready", "life:TieredCache.layers_ready", like=("next-layer-told-ready",), configs=TIERS)
def next_layer_told_ready(original: Original) -> Any:
    """A layer may be read while its copy is under way."""
    return lambda self, job: min(self.layers(), original(self, job) + 1)


@mutant("quota-widened-by-what-is-locked", "load:Loads.cost", like=("quota-widened-by-what-is-locked",), configs=TIERS)
def quota_widened(original: Original) -> Any:
    """The units that a load newly locks are taken off what it needs."""
    return lambda self, end, behind: 2 * behind - original(self, end, behind)
