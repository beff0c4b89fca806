"""Mutants of lifecycles: what survives a reset, a detach, or the loss of storage, and what does not."""

from __future__ import annotations

from kvlitmus.conformance.specimen.hierarchy import TieredSpecimen
from kvlitmus.conformance.specimen.prefix.fetch import Prefetcher
from kvlitmus.conformance.specimen.prefix.host import HostPool
from kvlitmus.conformance.specimen.prefix.put import PutQueue
from kvlitmus.conformance.specimen.prefix.works import Fetch, TieredNode
from kvlitmus.mutants.hosted import SGLANG, BelievingHost
from kvlitmus.mutants.registry import mutant
from kvlitmus.spec.interface.tiers import PageStore
from kvlitmus.spec.words.units import Key


@mutant(
    "reset-keeps-the-release-queue",
    bugs=("H-04",),
    links=(SGLANG + "pull/20746",),
    kills=("LIFE-01", "POOL-12"),
    beside=(BelievingHost,),
)
class ResetKeepsTheReleaseQueue(TieredSpecimen):
    """After a reset there are more free host pages than memory: what waited to be released is released again."""

    def reset(self) -> None:
        """The pool is new, the queue is not."""
        waiting = self.host.releasing if self.tree is not None else []
        super().reset()
        self.host.releasing += waiting


@mutant(
    "reset-keeps-prefetches",
    bugs=("H-04", "S36"),
    links=(SGLANG + "pull/20746",),
    kills=("LIFE-01", "FETCH-07", "POOL-12"),
    beside=(BelievingHost,),
)
class ResetKeepsPrefetches(TieredSpecimen):
    """Prefetches from before a reset write into memory that is somebody else's now."""

    def reset(self) -> None:
        before = self.fetches if self.tree is not None else None
        works = [work for work in self.works.works.values() if work.fetch is not None]
        super().reset()
        if before is not None:
            self.fetches.ongoing = before.ongoing
            self.fetches.zombies = before.zombies
            self.fetches.occupied = before.occupied
            self.works.works.update({work.id: work for work in works})


@mutant(
    "reset-keeps-the-quota",
    bugs=("H-04", "H-40"),
    links=(SGLANG + "pull/30053",),
    kills=("FETCH-07", "LIFE-09"),
)
class ResetKeepsTheQuota(TieredSpecimen):
    """Every reset with a prefetch under way costs a part of the quota for ever."""

    def reset(self) -> None:
        """The counter isn't part of the state."""
        occupied = self.fetches.occupied if self.tree is not None else 0
        super().reset()
        self.fetches.occupied = occupied


@mutant("reset-is-not-told", kills=("EVENT-01", "EVENT-02", "EVENT-03"))
class ResetIsNotTold(TieredSpecimen):
    """Routers go on sending requests for what was flushed."""

    def reset(self) -> None:
        super().reset()
        self.tree.told.clear()


@mutant("reset-keeps-what-was-added", kills=("LIFE-15",))
class ResetKeepsWhatWasAdded(TieredSpecimen):
    """A request counts pages as read from storage that a reset has taken away since."""

    def reset(self) -> None:
        """What nobody was told yet is told after the reset."""
        loaded = self.fetches.loaded if self.tree is not None else {}
        super().reset()
        self.fetches.loaded = loaded


@mutant("reset-clears-storage", kills=("LIFE-02",))
class ResetClearsStorage(TieredSpecimen):
    """A flush of one process costs all the others what they have in storage: it clears the backend, too.

    Backends have a call for that; the suite's storage keeps its pages in a dictionary.
    """

    def reset(self) -> None:
        super().reset()
        getattr(self.store, "contents", {}).clear()


class RemembersAll(Prefetcher):
    """Prefetches that remember all that they ever reserved."""

    def begin(self, fetch: Fetch) -> None:
        super().begin(fetch)
        self.reserved.setdefault(fetch.rid, list(fetch.pages))

    def close(self, fetch: Fetch) -> None:
        super().close(fetch)
        self.reserved.pop(fetch.rid, None)

    @property
    def reserved(self) -> dict[int, list[int]]:
        """What each prefetch under way has reserved."""
        found: dict[int, list[int]] = self.__dict__.setdefault("ever_reserved", {})
        return found


@mutant(
    "detach-frees-whole-reservations",
    bugs=("H-06",),
    links=(SGLANG + "pull/20746",),
    kills=("POOL-12",),
    beside=(BelievingHost,),
)
class DetachFreesWholeReservations(RemembersAll):
    """Two prompts share host memory: a detach frees all that a prefetch had reserved, given back or not."""

    def detach(self) -> None:
        """From the first page to the last."""
        for fetch in self.ongoing.values():
            fetch.pages = list(self.reserved.get(fetch.rid, fetch.pages))
        super().detach()


@mutant(
    "detach-forgets-the-dying",
    bugs=("S36", "H-06"),
    links=(SGLANG + "pull/20746",),
    kills=("POOL-12",),
)
class DetachForgetsTheDying(Prefetcher):
    """Memory is lost with a detach: reads whose requests have gone are not waited for, and never clean up."""

    def detach(self) -> None:
        self.zombies.clear()
        super().detach()


@mutant(
    "detach-keeps-anchors",
    bugs=("L02",),
    links=("https://github.com/LMCache/LMCache/issues/1034",),
    kills=("LIFE-08", "TIER-15"),
)
class DetachKeepsAnchors(Prefetcher):
    """Host memory fills with what nobody can evict: a detach frees the memory of prefetches, not their anchors."""

    def detach(self) -> None:
        for fetch in self.ongoing.values():
            self.tree.pin(fetch.anchor)
        super().detach()


@mutant(
    "detach-keeps-the-quota",
    bugs=("S23",),
    links=(SGLANG + "pull/15439",),
    kills=("FETCH-07", "LIFE-09"),
)
class DetachKeepsTheQuota(Prefetcher):
    """After storage was exchanged it is never read again: the quota is that of prefetches which ended with the old."""

    def detach(self) -> None:
        occupied = self.occupied
        super().detach()
        self.occupied = occupied


@mutant(
    "detach-leaves-puts",
    bugs=("S36",),
    links=(SGLANG + "pull/20746",),
    kills=("LIFE-05",),
)
class DetachLeavesPuts(PutQueue):
    """Puts go on after a detach, to a storage that isn't there."""

    def detach(self) -> None:
        """Nobody asks for them."""


@mutant("detach-leaves-the-last-put", kills=("LIFE-05",))
class DetachLeavesTheLastPut(PutQueue):
    """One job stays listed for ever: a detach ends all puts but the one that was begun last."""

    def detach(self) -> None:
        for work in [work for work in self.works.works.values() if work.kind == "put"][:-1]:
            self.finish(work)
        self.host.stored = bytearray(len(self.host.stored))


@mutant("detach-drops-the-host", kills=("LIFE-04",))
class DetachDropsTheHost(TieredSpecimen):
    """With its storage a cache loses what it had on the host."""

    def detach(self) -> bool:
        done = super().detach()
        self.tree.evict_host(self.config.host_pages * self.config.page_size)
        return done


@mutant("attach-replaces-storage", kills=("LIFE-03",))
class AttachReplacesStorage(TieredSpecimen):
    """Work in flight asks one storage and tells another: a second attach takes the place of the first."""

    def attach(self, store: PageStore) -> bool:
        self.store = store
        return True


@mutant("reset-keeps-a-host-page", kills=("TIER-32", "LIFE-01", "POOL-12"))
class ResetKeepsAHostPage(TieredSpecimen):
    """The host is a page shorter after each reset: what a job that it ended had taken is never given back."""

    def reset(self) -> None:
        began = self.tree is None
        super().reset()
        if not began:
            self.host.take(1)


@mutant("release-queue-keeps-a-page", bugs=("H-05",), links=(SGLANG + "pull/20746",), kills=("LIFE-16",))
class ReleaseQueueKeepsAPage(HostPool):
    """The host is a page short as long as nothing else is released: the last page of the release queue stays there."""

    def drain(self) -> None:
        if self.releasing:
            *pages, last = self.releasing
            self.releasing = [last]
            self.give_back(pages)


@mutant("detached-storage-is-still-written", bugs=("H-06",), kills=("LIFE-17",))
class DetachedStorageIsStillWritten(TieredSpecimen):
    """Pages go where nobody looks for them: who writes has a reference of its own to storage, and keeps it."""

    former: PageStore | None = None

    def detach(self) -> bool:
        former = self.store
        done = super().detach()
        self.former = former if done else self.former
        return done

    def backed(self, nodes: list[TieredNode], key: Key, start: int) -> None:
        super().backed(nodes, key, start)
        if self.store is None and self.former is not None:
            pages = [page for node in nodes for page in node.host]
            for name, page in zip(self.puts.names(key, start), pages, strict=False):
                self.former.put(name, self.copier.read(page))
