"""Mutants of the prefetch plan, and legal variations of it.

The first three are what the adaptive length of upstream's PR #16370 got wrong in its first
release or left open; the others turn one decision of the plan each.  ``H-…`` are
hazards of the project's map of upstream.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.conformance.specimen.prefix.prefetch import PrefetchPlanner
from kvlitmus.mutants.registry import mutant, null_mutant
from kvlitmus.spec.interface.plans import NO_MEMORY, RATE_LIMITED, TOO_SHORT, HostPool, PrefetchAsk, PrefetchPlan

_SGLANG = "https://github.com/sgl-project/sglang/pull/"
ADAPTIVE = _SGLANG + "16370"
MAMBA = _SGLANG + "26945"


@mutant(
    "prefetch-untruncated-key",
    bugs=("H-01",),
    links=(ADAPTIVE,),
    kills=("PREFETCH-11", "PREFETCH-13", "PREFETCH-14"),
)
class UntruncatedKey(PrefetchPlanner):
    """The key is cut off in one variable, and the read and the quota are made from another: the read runs past its
    slots.
    """

    def start(self, ask: PrefetchAsk, wanted: int, length: int, slots: Sequence[int]) -> PrefetchPlan:
        return super().start(ask, wanted, wanted, slots)


@mutant("prefetch-untruncated-quota", bugs=("H-01",), links=(ADAPTIVE,), kills=("PREFETCH-14",))
class UntruncatedQuota(PrefetchPlanner):
    """Only the quota forgets the truncation: it fills up with memory that was never taken."""

    def start(self, ask: PrefetchAsk, wanted: int, length: int, slots: Sequence[int]) -> PrefetchPlan:
        return super().start(ask, wanted, length, slots)._replace(accounted=wanted)


@mutant("prefetch-untruncated-hashes", bugs=("H-01",), links=(ADAPTIVE,), kills=("PREFETCH-13",))
class UntruncatedHashes(PrefetchPlanner):
    """Only the hashes forget the truncation: the storage is asked for pages that have no memory."""

    def start(self, ask: PrefetchAsk, wanted: int, length: int, slots: Sequence[int]) -> PrefetchPlan:
        return super().start(ask, wanted, length, slots)._replace(hashed_pages=wanted // ask.page_size)


@mutant("prefetch-unchecked-allocation", bugs=("H-02",), links=(ADAPTIVE, MAMBA), kills=("PREFETCH-15",))
class UncheckedLastAllocation(PrefetchPlanner):
    """The truncated allocation is taken to succeed; when it fails, planning dies on the missing slots and the anchor
    stays protected for ever.
    """

    def last_alloc(self, host: HostPool, length: int) -> Sequence[int] | None:
        slots = host.alloc(length)
        return [*slots]  # type: ignore[misc]


@mutant(
    "prefetch-goes-on-without-slots",
    bugs=("H-02",),
    links=(ADAPTIVE, MAMBA),
    kills=("PREFETCH-10", "PREFETCH-11", "PREFETCH-14"),
)
class GoesOnWithoutSlots(PrefetchPlanner):
    """The truncated allocation is not checked, and an empty reservation goes to the reader as if it were full."""

    def last_alloc(self, host: HostPool, length: int) -> Sequence[int] | None:
        return host.alloc(length) or ()


@mutant("prefetch-follows-available", bugs=("H-03",), links=(ADAPTIVE,), kills=("PREFETCH-05",))
class FollowsWhatIsAvailable(PrefetchPlanner):
    """The truncated length is what is available, without asking whether that is more than was wanted; the surplus
    belongs to nobody.
    """

    def shorten(self, ask: PrefetchAsk, wanted: int, host: HostPool) -> int:
        available = host.available()
        length = available - available % ask.page_size
        return length if length >= ask.threshold else 0


@mutant("prefetch-evicts-full-length", bugs=("H-09",), links=(ADAPTIVE,), kills=("PREFETCH-18",))
class EvictsTheFullLength(PrefetchPlanner):
    """Evicts the whole request instead of what is lacking: host data are destroyed that nobody needed to lose."""

    def evict(self, host: HostPool, wanted: int, ask: PrefetchAsk) -> None:
        host.evict(wanted)


@mutant("prefetch-evicts-again", links=(MAMBA,), kills=("PREFETCH-09",))
class EvictsAgain(PrefetchPlanner):
    """Evicts once more for the truncated allocation."""

    def last_alloc(self, host: HostPool, length: int) -> Sequence[int] | None:
        host.evict(length)
        return host.alloc(length)


@mutant("prefetch-truncates-first", links=(ADAPTIVE,), kills=("PREFETCH-07",))
class TruncatesBeforeEvicting(PrefetchPlanner):
    """Settles for what is free and never evicts: prefetches get shorter as the host fills up."""

    def evict(self, host: HostPool, wanted: int, ask: PrefetchAsk) -> None:
        pass


@mutant(
    "prefetch-anchor-unprotected",
    bugs=("S10",),
    links=(_SGLANG + "9601", _SGLANG + "9648"),
    kills=("PREFETCH-06", "PREFETCH-16"),
)
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


@mutant("prefetch-anchor-kept", links=(ADAPTIVE,), kills=("PREFETCH-15",))
class AnchorKept(PrefetchPlanner):
    """Giving up for want of memory returns early and leaves the anchor protected: nothing can ever evict it."""

    def give_up(self, host: HostPool) -> PrefetchPlan:
        return PrefetchPlan(NO_MEMORY)


@mutant("prefetch-quota-always-full", bugs=("S114",), links=(_SGLANG + "26449",), kills=("PREFETCH-04",))
class QuotaAlwaysFull(PrefetchPlanner):
    """The quota is a fraction of host size minus device size, nothing where they are equal: every prefetch is refused,
    and storage is never read.
    """

    def gate(self, ask: PrefetchAsk, wanted: int) -> str | None:
        quota = max(0, int(0.8 * (ask.capacity - ask.capacity)))
        return super().gate(ask._replace(capacity=quota), wanted)


@mutant("prefetch-quota-after-adding", bugs=("H-65",), links=(_SGLANG + "26449",), kills=("PREFETCH-04",))
class QuotaAfterAdding(PrefetchPlanner):
    """The quota is looked at as if this prefetch were counted already: a long key never passes."""

    def gate(self, ask: PrefetchAsk, wanted: int) -> str | None:
        refusal = super().gate(ask, wanted)
        return RATE_LIMITED if refusal is None and ask.occupied + wanted > ask.capacity else refusal


@mutant("prefetch-quota-off-by-one", bugs=("H-65",), links=(_SGLANG + "26449",), kills=("PREFETCH-01",))
class QuotaOffByOne(PrefetchPlanner):
    """A quota that is exactly filled lets one more prefetch through, and a quota of nothing lets one through."""

    def gate(self, ask: PrefetchAsk, wanted: int) -> str | None:
        return super().gate(ask._replace(capacity=ask.capacity + 1), wanted)


@mutant("prefetch-threshold-exceeded", links=(ADAPTIVE,), kills=("PREFETCH-04",))
class ThresholdExceeded(PrefetchPlanner):
    """A length of exactly the threshold is refused."""

    def gate(self, ask: PrefetchAsk, wanted: int) -> str | None:
        refusal = super().gate(ask, wanted)
        return TOO_SHORT if refusal is None and wanted == ask.threshold else refusal


@mutant("prefetch-threshold-forgotten", links=(ADAPTIVE,), kills=("PREFETCH-08", "PREFETCH-10"))
class ThresholdForgotten(PrefetchPlanner):
    """After truncation the threshold is not looked at again: reads of a page or two that cost more than they save."""

    def shorten(self, ask: PrefetchAsk, wanted: int, host: HostPool) -> int:
        return super().shorten(ask._replace(threshold=0), wanted, host)


@mutant("prefetch-threshold-before-rounding", links=(ADAPTIVE,), kills=("PREFETCH-01",))
class ThresholdBeforeRounding(PrefetchPlanner):
    """The threshold is compared with the key as it is, not with its whole pages."""

    def gate(self, ask: PrefetchAsk, wanted: int) -> str | None:
        return super().gate(ask, ask.key_length if wanted else 0)


@mutant("prefetch-unaligned-truncation", links=(ADAPTIVE,), kills=("PREFETCH-05",))
class UnalignedTruncation(PrefetchPlanner):
    """The truncated length is what is available, not rounded down to whole pages."""

    def shorten(self, ask: PrefetchAsk, wanted: int, host: HostPool) -> int:
        length = min(wanted, host.available())
        return length if length >= ask.threshold else 0


@mutant("prefetch-keeps-the-end", links=(ADAPTIVE,), kills=("PREFETCH-12",))
class KeepsTheEnd(PrefetchPlanner):
    """Truncation keeps the last units of the key: the hash chain and the anchor no longer fit to what is read."""

    def start(self, ask: PrefetchAsk, wanted: int, length: int, slots: Sequence[int]) -> PrefetchPlan:
        return super().start(ask, wanted, length, slots)._replace(key_start=wanted - length)


@mutant("prefetch-truncated-prefix", bugs=("H-15",), links=(ADAPTIVE,), kills=("PREFETCH-21",))
class TruncatedPrefix(PrefetchPlanner):
    """The names of the pages before the key are cut to the truncated length as if they were the key's own: storage
    looks for the rest where nobody has put it.
    """

    def start(self, ask: PrefetchAsk, wanted: int, length: int, slots: Sequence[int]) -> PrefetchPlan:
        plan = super().start(ask, wanted, length, slots)
        return plan if length == wanted else plan._replace(prefix_keys=ask.prefix_keys[: length // ask.page_size])


@mutant("prefetch-shifted-prefix", bugs=("H-15",), links=(ADAPTIVE,), kills=("PREFETCH-21",))
class ShiftedPrefix(PrefetchPlanner):
    """What truncation takes from the key's end is taken from the beginning of the prefix too, as if both were one list
    of a fixed length.
    """

    def start(self, ask: PrefetchAsk, wanted: int, length: int, slots: Sequence[int]) -> PrefetchPlan:
        plan = super().start(ask, wanted, length, slots)
        return plan._replace(prefix_keys=ask.prefix_keys[(wanted - length) // ask.page_size :])


@mutant("prefetch-forgets-a-page", links=(ADAPTIVE,), kills=("PREFETCH-17",))
class ForgetsTheLastPage(PrefetchPlanner):
    """One page of what was allocated is handed to nobody: host memory shrinks with every prefetch."""

    def start(self, ask: PrefetchAsk, wanted: int, length: int, slots: Sequence[int]) -> PrefetchPlan:
        return super().start(ask, wanted, length, slots[: length - ask.page_size])


@mutant("prefetch-storage-gate", links=(ADAPTIVE,), kills=("PREFETCH-01",))
class StorageGateForgotten(PrefetchPlanner):
    """Whether storage is on is not asked: memory is taken for a read that will never come."""

    def gate(self, ask: PrefetchAsk, wanted: int) -> str | None:
        return super().gate(ask._replace(storage_on=True), wanted)


@mutant(
    "prefetch-silent-refusal",
    links=("https://github.com/sgl-project/sglang/issues/26886", _SGLANG + "25520"),
    kills=("PREFETCH-19",),
)
class SilentRefusal(PrefetchPlanner):
    """Every refusal gives the same reason, so that nobody learns why storage is never read."""

    def plan_prefetch(self, ask: PrefetchAsk, host: HostPool) -> PrefetchPlan:
        plan = super().plan_prefetch(ask, host)
        return plan if plan.refusal is None else plan._replace(refusal="not started")


@mutant("prefetch-gives-up-what-it-was-granted", links=(ADAPTIVE,), kills=("PREFETCH-20",))
class GivesUpWhatItWasGranted(PrefetchPlanner):
    """A truncated prefetch gets its memory, gives it back and doesn't start: whenever the host is nearly full, storage
    is not read.
    """

    def last_alloc(self, host: HostPool, length: int) -> Sequence[int] | None:
        slots = host.alloc(length)
        if slots is not None:
            host.free(slots)
        return None


@null_mutant("null-prefetch-looks-first")
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


@null_mutant("null-prefetch-slots-backwards")
class NamesSlotsBackwards(PrefetchPlanner):
    """Uses the slots that it was granted in another order."""

    def start(self, ask: PrefetchAsk, wanted: int, length: int, slots: Sequence[int]) -> PrefetchPlan:
        return super().start(ask, wanted, length, [*reversed(slots)])


@null_mutant("null-prefetch-leaves-the-prefix-to-others")
class LeavesThePrefixToOthers(PrefetchPlanner):
    """Says nothing of the pages before the key: its storage finds a page by its name alone."""

    def start(self, ask: PrefetchAsk, wanted: int, length: int, slots: Sequence[int]) -> PrefetchPlan:
        return super().start(ask, wanted, length, slots)._replace(prefix_keys=None)


@null_mutant("null-prefetch-looks-twice")
class LooksTwice(PrefetchPlanner):
    """Asks what is available more often than it needs to, also when a gate is shut."""

    def plan_prefetch(self, ask: PrefetchAsk, host: HostPool) -> PrefetchPlan:
        host.available()
        return super().plan_prefetch(ask, host)
