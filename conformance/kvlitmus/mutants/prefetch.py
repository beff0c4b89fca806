"""Slips of the prefetch plan, and legal variations of it.

The first three are what the adaptive length of upstream's PR #16370 got wrong in its first
release or left open; the others turn one decision of the plan each.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.conformance.specimen.prefetch import PrefetchPlanner
from kvlitmus.mutants.slip import Slip, register
from kvlitmus.spec.prefetch_plan import NO_MEMORY, RATE_LIMITED, TOO_SHORT, HostPool, PrefetchAsk, PrefetchPlan

_SGLANG = "https://github.com/sgl-project/sglang/pull/"
ADAPTIVE = _SGLANG + "16370"
MAMBA = _SGLANG + "26945"


class UntruncatedKey(PrefetchPlanner):
    """The key is cut off in one variable, and the read and the quota are made from another: the read runs past its
    slots.
    """

    def start(self, ask: PrefetchAsk, wanted: int, length: int, slots: Sequence[int]) -> PrefetchPlan:
        return super().start(ask, wanted, wanted, slots)


class UntruncatedQuota(PrefetchPlanner):
    """Only the quota forgets the truncation: it fills up with memory that was never taken."""

    def start(self, ask: PrefetchAsk, wanted: int, length: int, slots: Sequence[int]) -> PrefetchPlan:
        return super().start(ask, wanted, length, slots)._replace(accounted=wanted)


class UntruncatedHashes(PrefetchPlanner):
    """Only the hashes forget the truncation: the storage is asked for pages that have no memory."""

    def start(self, ask: PrefetchAsk, wanted: int, length: int, slots: Sequence[int]) -> PrefetchPlan:
        return super().start(ask, wanted, length, slots)._replace(hashed_pages=wanted // ask.page_size)


class UncheckedLastAllocation(PrefetchPlanner):
    """The truncated allocation is taken to succeed; when it fails, planning dies on the missing slots and the anchor
    stays protected for ever.
    """

    def last_alloc(self, host: HostPool, length: int) -> Sequence[int] | None:
        slots = host.alloc(length)
        return [*slots]  # type: ignore[misc]


class GoesOnWithoutSlots(PrefetchPlanner):
    """The truncated allocation is not checked, and an empty reservation goes to the reader as if it were full."""

    def last_alloc(self, host: HostPool, length: int) -> Sequence[int] | None:
        return host.alloc(length) or ()


class FollowsWhatIsAvailable(PrefetchPlanner):
    """The truncated length is what is available, without asking whether that is more than was wanted; the surplus
    belongs to nobody.
    """

    def shorten(self, ask: PrefetchAsk, wanted: int, host: HostPool) -> int:
        available = host.available()
        length = available - available % ask.page_size
        return length if length >= ask.threshold else 0


class EvictsTheFullLength(PrefetchPlanner):
    """Evicts the whole request instead of what is lacking: host data are destroyed that nobody needed to lose."""

    def evict(self, host: HostPool, wanted: int, ask: PrefetchAsk) -> None:
        host.evict(wanted)


class EvictsAgain(PrefetchPlanner):
    """Evicts once more for the truncated allocation."""

    def last_alloc(self, host: HostPool, length: int) -> Sequence[int] | None:
        host.evict(length)
        return host.alloc(length)


class TruncatesBeforeEvicting(PrefetchPlanner):
    """Settles for what is free and never evicts: prefetches get shorter as the host fills up."""

    def evict(self, host: HostPool, wanted: int, ask: PrefetchAsk) -> None:
        pass


class AnchorUnprotected(PrefetchPlanner):
    """The anchor is never protected: the plan's own eviction can delete the node under which the result will be
    attached.
    """

    def plan_prefetch(self, ask: PrefetchAsk, host: HostPool) -> PrefetchPlan:
        return super().plan_prefetch(ask, _Unpinned(host))


class _Unpinned:
    """A host pool whose anchor can't be protected."""

    def __init__(self, host: HostPool) -> None:
        self.alloc, self.free, self.available, self.evict = host.alloc, host.free, host.available, host.evict

    def protect(self) -> None:
        pass

    def release(self) -> None:
        pass


class AnchorKept(PrefetchPlanner):
    """Giving up for want of memory returns early and leaves the anchor protected: nothing can ever evict it."""

    def give_up(self, host: HostPool) -> PrefetchPlan:
        return PrefetchPlan(NO_MEMORY)


class QuotaAlwaysFull(PrefetchPlanner):
    """The quota is a fraction of host size minus device size, nothing where they are equal: every prefetch is refused,
    and storage is never read.
    """

    def gate(self, ask: PrefetchAsk, wanted: int) -> str | None:
        quota = max(0, int(0.8 * (ask.capacity - ask.capacity)))
        return super().gate(ask._replace(capacity=quota), wanted)


class QuotaAfterAdding(PrefetchPlanner):
    """The quota is looked at as if this prefetch were counted already: a long key never passes."""

    def gate(self, ask: PrefetchAsk, wanted: int) -> str | None:
        refusal = super().gate(ask, wanted)
        return RATE_LIMITED if refusal is None and ask.occupied + wanted > ask.capacity else refusal


class QuotaOffByOne(PrefetchPlanner):
    """A quota that is exactly filled lets one more prefetch through, and a quota of nothing lets one through."""

    def gate(self, ask: PrefetchAsk, wanted: int) -> str | None:
        return super().gate(ask._replace(capacity=ask.capacity + 1), wanted)


class ThresholdExceeded(PrefetchPlanner):
    """A length of exactly the threshold is refused."""

    def gate(self, ask: PrefetchAsk, wanted: int) -> str | None:
        refusal = super().gate(ask, wanted)
        return TOO_SHORT if refusal is None and wanted == ask.threshold else refusal


class ThresholdForgotten(PrefetchPlanner):
    """After truncation the threshold is not looked at again: reads of a page or two that cost more than they save."""

    def shorten(self, ask: PrefetchAsk, wanted: int, host: HostPool) -> int:
        return super().shorten(ask._replace(threshold=0), wanted, host)


class ThresholdBeforeRounding(PrefetchPlanner):
    """The threshold is compared with the key as it is, not with its whole pages."""

    def gate(self, ask: PrefetchAsk, wanted: int) -> str | None:
        return super().gate(ask, ask.key_length if wanted else 0)


class UnalignedTruncation(PrefetchPlanner):
    """The truncated length is what is available, not rounded down to whole pages."""

    def shorten(self, ask: PrefetchAsk, wanted: int, host: HostPool) -> int:
        length = min(wanted, host.available())
        return length if length >= ask.threshold else 0


class KeepsTheEnd(PrefetchPlanner):
    """Truncation keeps the last units of the key: the hash chain and the anchor no longer fit to what is read."""

    def start(self, ask: PrefetchAsk, wanted: int, length: int, slots: Sequence[int]) -> PrefetchPlan:
        return super().start(ask, wanted, length, slots)._replace(key_start=wanted - length)


class ForgetsTheLastPage(PrefetchPlanner):
    """One page of what was allocated is handed to nobody: host memory shrinks with every prefetch."""

    def start(self, ask: PrefetchAsk, wanted: int, length: int, slots: Sequence[int]) -> PrefetchPlan:
        return super().start(ask, wanted, length, slots[: length - ask.page_size])


class StorageGateForgotten(PrefetchPlanner):
    """Whether storage is on is not asked: memory is taken for a read that will never come."""

    def gate(self, ask: PrefetchAsk, wanted: int) -> str | None:
        return super().gate(ask._replace(storage_on=True), wanted)


class SilentRefusal(PrefetchPlanner):
    """Every refusal gives the same reason, so that nobody learns why storage is never read."""

    def plan_prefetch(self, ask: PrefetchAsk, host: HostPool) -> PrefetchPlan:
        plan = super().plan_prefetch(ask, host)
        return plan if plan.refusal is None else plan._replace(refusal="not started")


class LooksFirst(PrefetchPlanner):
    """Looks at what is available before it allocates, as later releases do, and so needs fewer allocations."""

    def plan_prefetch(self, ask: PrefetchAsk, host: HostPool) -> PrefetchPlan:
        wanted = self.wanted(ask)
        refusal = self.gate(ask, wanted)
        if refusal is not None:
            return PrefetchPlan(refusal)
        host.protect()
        slots = host.alloc(wanted) if host.available() >= wanted else None
        if slots is not None:
            return self.start(ask, wanted, wanted, slots)
        self.evict(host, wanted, ask)
        length = self.shorten(ask, wanted, host)
        slots = host.alloc(length) if length else None
        return self.give_up(host) if slots is None else self.start(ask, wanted, length, slots)


class NamesSlotsBackwards(PrefetchPlanner):
    """Uses the slots that it was granted in another order."""

    def start(self, ask: PrefetchAsk, wanted: int, length: int, slots: Sequence[int]) -> PrefetchPlan:
        return super().start(ask, wanted, length, [*reversed(slots)])


class LooksTwice(PrefetchPlanner):
    """Asks what is available more often than it needs to, also when a gate is shut."""

    def plan_prefetch(self, ask: PrefetchAsk, host: HostPool) -> PrefetchPlan:
        host.available()
        return super().plan_prefetch(ask, host)


SLIPS: tuple[Slip[PrefetchPlanner], ...] = (
    Slip(
        "prefetch-untruncated-key",
        UntruncatedKey,
        ("H-01",),
        (ADAPTIVE,),
        ("PREFETCH-11", "PREFETCH-13", "PREFETCH-14"),
    ),
    Slip("prefetch-untruncated-quota", UntruncatedQuota, ("H-01",), (ADAPTIVE,), ("PREFETCH-14",)),
    Slip("prefetch-untruncated-hashes", UntruncatedHashes, ("H-01",), (ADAPTIVE,), ("PREFETCH-13",)),
    Slip("prefetch-unchecked-allocation", UncheckedLastAllocation, ("H-02",), (ADAPTIVE, MAMBA), ("PREFETCH-15",)),
    Slip(
        "prefetch-goes-on-without-slots",
        GoesOnWithoutSlots,
        ("H-02",),
        (ADAPTIVE, MAMBA),
        ("PREFETCH-10", "PREFETCH-11", "PREFETCH-14"),
    ),
    Slip("prefetch-follows-available", FollowsWhatIsAvailable, ("H-03",), (ADAPTIVE,), ("PREFETCH-05",)),
    Slip("prefetch-evicts-full-length", EvictsTheFullLength, ("H-09",), (ADAPTIVE,), ("PREFETCH-18",)),
    Slip("prefetch-evicts-again", EvictsAgain, (), (MAMBA,), ("PREFETCH-09",)),
    Slip("prefetch-truncates-first", TruncatesBeforeEvicting, (), (ADAPTIVE,), ("PREFETCH-07",)),
    Slip(
        "prefetch-anchor-unprotected",
        AnchorUnprotected,
        ("S10",),
        (_SGLANG + "9601", _SGLANG + "9648"),
        ("PREFETCH-06", "PREFETCH-16"),
    ),
    Slip("prefetch-anchor-kept", AnchorKept, (), (ADAPTIVE,), ("PREFETCH-15",)),
    Slip("prefetch-quota-always-full", QuotaAlwaysFull, ("S114",), (_SGLANG + "26449",), ("PREFETCH-04",)),
    Slip("prefetch-quota-after-adding", QuotaAfterAdding, ("H-65",), (_SGLANG + "26449",), ("PREFETCH-04",)),
    Slip("prefetch-quota-off-by-one", QuotaOffByOne, ("H-65",), (_SGLANG + "26449",), ("PREFETCH-03",)),
    Slip("prefetch-threshold-exceeded", ThresholdExceeded, (), (ADAPTIVE,), ("PREFETCH-04",)),
    Slip("prefetch-threshold-forgotten", ThresholdForgotten, (), (ADAPTIVE,), ("PREFETCH-08", "PREFETCH-10")),
    Slip("prefetch-threshold-before-rounding", ThresholdBeforeRounding, (), (ADAPTIVE,), ("PREFETCH-02",)),
    Slip("prefetch-unaligned-truncation", UnalignedTruncation, (), (ADAPTIVE,), ("PREFETCH-05",)),
    Slip("prefetch-keeps-the-end", KeepsTheEnd, (), (ADAPTIVE,), ("PREFETCH-12",)),
    Slip("prefetch-forgets-a-page", ForgetsTheLastPage, (), (ADAPTIVE,), ("PREFETCH-17",)),
    Slip("prefetch-storage-gate", StorageGateForgotten, (), (ADAPTIVE,), ("PREFETCH-01",)),
    Slip(
        "prefetch-silent-refusal",
        SilentRefusal,
        (),
        ("https://github.com/sgl-project/sglang/issues/26886", _SGLANG + "25520"),
        ("PREFETCH-19",),
    ),
)
"""Every slip, in the order of the plan; ``R-…`` and ``H-…`` are proposals and hazards of the project's map of
upstream.
"""

VARIATIONS: tuple[Slip[PrefetchPlanner], ...] = (
    Slip("null-prefetch-looks-first", LooksFirst),
    Slip("null-prefetch-slots-backwards", NamesSlotsBackwards),
    Slip("null-prefetch-looks-twice", LooksTwice),
)
"""Legal variations: no rule may object."""

register(SLIPS, VARIATIONS, slot="prefetch")
