"""Mutants of the lives of storage, of events and copies; legal variations of hierarchies."""

from __future__ import annotations

from typing import Any

import numpy as np

from kvlitmus.conformance.run.plan import TIER_CONFIGS
from tests.optimized.support.mutants import FLAT, SELECTIVE, TIERS, mutant, nothing, without
from tests.support.mutants import Original

# -- lives and events -----------------------------------------------------------------------------------------


@mutant(
    "attach-replaces-storage",
    "hierarchy:HierarchicalCache.attach",
    like=("attach-replaces-storage",),
    configs=(*SELECTIVE, TIER_CONFIGS[6]),
)
def attach_replaces_storage(original: Original) -> Any:
    """A second attach takes the place of the first."""

    def attach(self: Any, store: Any) -> bool:
        self.store = None
        return bool(original(self, store))

    return attach


@mutant("detach-leaves-puts", "put:Puts.detach", like=("detach-leaves-puts",), configs=(*SELECTIVE, TIER_CONFIGS[6]))
def detach_leaves_puts(original: Original) -> Any:
    """Puts go on after a detach."""

    def detach(self: Any) -> None:
        self.store = None

    return detach


@mutant("commit-is-not-told", "tree:Tree.insert_host", like=("commit-is-not-told",), configs=TIERS[:2])
def commit_is_not_told(original: Original) -> Any:
    """Routers never learn of what was read from storage."""

    def insert_host(self: Any, *args: Any) -> Any:
        with without(self, "tell"):
            return original(self, *args)

    return insert_host


@mutant("load-is-not-told", "residency:Residency.make_resident", like=("load-is-not-told",), configs=TIERS[:2])
def load_is_not_told(original: Original) -> Any:
    """Routers believe that a prefix is on the host alone when it is on the device again."""

    def make_resident(self: Any, *args: Any) -> None:
        tell, self.tell = self.tell, None
        original(self, *args)
        self.tell = tell

    return make_resident


@mutant(
    "eviction-is-not-told",
    "residency:Residency.leave_device",
    like=("eviction-is-not-told",),
    configs=(FLAT[0], *TIERS[:2]),
    more=("EVENT-01",),
)
def eviction_is_not_told(original: Original) -> Any:
    """Routers send requests to where a prefix is no more: nobody is told what was evicted."""

    def leave_device(self: Any, branch: Any, most: int) -> int:
        tell, self.tell = self.tell, None
        gone: int = original(self, branch, most)
        self.tell = tell
        return gone

    return leave_device


@mutant(
    "part-of-an-insert-is-not-told",
    "event:EventLog.tell",
    like=("part-of-an-insert-is-not-told",),
    more=("EVENT-01",),
)
def part_of_an_insert_is_not_told(original: Original) -> Any:
    """Routers never send a request to where its prefix is: of what continues a cached prefix they aren't told."""

    def tell(self: Any, what: str, tier: str, run: Any) -> None:
        if what != "stored" or not run.branch.base + run.lo:
            original(self, what, tier, run)

    return tell


@mutant(
    "reset-is-not-told",
    "event:EventLog.clear",
    like=("reset-is-not-told", "reset-of-a-flat-cache-is-not-told"),
    configs=(FLAT[0], *TIERS[:2]),
)
def reset_is_not_told(original: Original) -> Any:
    """Routers go on sending requests for what was flushed."""
    return nothing


# -- copies ---------------------------------------------------------------------------------------------------


@mutant("copies-in-another-order", "data.transfer:TorchMover.backup", like=("copies-in-another-order",), configs=TIERS)
def copies_in_another_order(original: Original) -> Any:
    """Sources are sorted for the copy engine, targets are not."""

    def backup(self: Any, device_pages: Any, host_pages: Any) -> Any:
        return original(self, np.sort(device_pages)[::-1].copy(), host_pages)

    return backup


@mutant(
    "copies-forget-a-page", "data.transfer:TorchMover.load", like=("load-copies-the-first-page-only",), configs=TIERS
)
def copies_forget_a_page(original: Original) -> Any:
    """Behind the first page of what is loaded back there is noise."""
    return lambda self, host_pages, device_pages: original(self, host_pages[:1], device_pages[:1])


@mutant(
    "wrong-stride",
    "data.copies:nest",
    like=("copy-forgets-the-last-slot",),
    configs=TIERS,
    more=("TIER-08", "BACKUP-06", "FETCH-10"),
)
def wrong_stride(original: Original) -> Any:
    """The stride of tokens in the host's layout is taken for that of heads: rows come to other places."""

    def nest(shape: Any, source: Any, target: Any, **how: Any) -> Any:
        wrong = target._replace(token=target.layer, layer=target.token)
        return original(shape, source, wrong, **how)

    return nest


# -- legal variations -----------------------------------------------------------------------------------------


@mutant("null-acks-one-per-tick", "backup:Backups.acks", configs=TIERS[:2])
def acks_one_per_tick(original: Original) -> Any:
    """However many copies have landed, a tick takes note of two: the others wait for the next ones."""

    def acks(self: Any) -> None:
        for _ in range(2):
            if self.queue and self.queue[0].landed:
                self.end(self.queue.popleft())

    return acks


@mutant("null-known-pages-released-late", "fetch:Fetches.commit", configs=TIERS[:2])
def known_pages_released_late(original: Original) -> Any:
    """What a commit finds in the tree already goes to the release queue like everything else that comes back."""

    def commit(self: Any, operation: Any) -> None:
        self.host.pool.give_back = self.host.release
        try:
            original(self, operation)
        finally:
            del self.host.pool.give_back

    return commit
