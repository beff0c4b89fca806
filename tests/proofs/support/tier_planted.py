"""Slips put into the transitions of the hierarchy, to show that the enumeration looks: each must be found."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from kvlitmus.reference import fetch, tier
from kvlitmus.reference.hierarchy import Hierarchy, pin
from kvlitmus.spec.policies import WRITE_BACK
from kvlitmus.spec.prefetch_life import ENDED, REVOKED
from kvlitmus.spec.units import Name, PageNo, RequestId
from tests.proofs.support.tier_bench import Model, Scope
from tests.proofs.support.tier_scopes import ONE, ONE_PATH


class Planted(NamedTuple):
    """A slip, a scope in which it shows, and the rules and laws of which one must name it."""

    model: type[Model]
    broken: tuple[str, ...]
    scope: Scope = ONE


class HostEvictionOverlooksPins(Model):
    """An eviction of the host takes what is being read, and what a prefetch begins behind."""

    def evict_host(self, now: Hierarchy, pages: int) -> tuple[Hierarchy, int]:
        bare = {name: copy._replace(pins=0) for name, copy in now.host.copies.items()}
        after, freed = super().evict_host(now._replace(host=now.host._replace(copies=bare)), pages)
        left = {name: now.host.copies[name] for name in after.host.copies}
        return after._replace(host=after.host._replace(copies=left)), freed


class AbortReturnsItsMemoryTwice(Model):
    """An abort returns all memory of the prefetch, also what the job under way will return."""

    def abandon(self, now: Hierarchy, rid: RequestId) -> Hierarchy:
        own = fetch.find(now, rid)
        after = super().abandon(now, rid)
        return after if own is None else fetch.release(after, own.held[own.completed :])


class DetachForgetsTheAnchor(Model):
    """A detach ends prefetches without unpinning where they begin."""

    def detach(self, now: Hierarchy) -> tuple[Hierarchy, bool]:
        after, accepted = super().detach(now)
        anchors = [one.anchor for one in now.operations if one.live]
        return (pin(after, anchors) if accepted else after), accepted


class DetachReturnsWhatTheQueueHas(Model):
    """A detach returns the memory of a prefetch directly, and leaves it in the release queue too."""

    def detach(self, now: Hierarchy) -> tuple[Hierarchy, bool]:
        after, accepted = super().detach(now)
        return (tier.free(after, after.release) if accepted else after), accepted


class CommitKeepsDuplicates(Model):
    """What was read of pages that were cached meanwhile is never freed."""

    def poll(self, now: Hierarchy, rid: RequestId) -> tuple[Hierarchy, bool]:
        after, over = super().poll(now, rid)
        pool = after.host.pool._replace(free=now.host.pool.free)
        return after._replace(host=after.host._replace(pool=pool)), over


class CommitHangsBelowWhatIsNotBacked(Model):
    """A commit doesn't look whether the page before has a host copy."""

    def poll(self, now: Hierarchy, rid: RequestId) -> tuple[Hierarchy, bool]:
        after, over = super().poll(now._replace(choices=now.choices._replace(write=WRITE_BACK)), rid)
        return after._replace(choices=now.choices), over


class LoadDoesNotPin(Model):
    """The host pages that a load reads from are not protected."""

    def load_back(
        self, now: Hierarchy, root: Name, names: tuple[Name, ...]
    ) -> tuple[Hierarchy, int, tuple[PageNo, ...] | None]:
        after, before, pages = super().load_back(now, root, names)
        return pin(after, names[before : before + len(pages or ())], -1), before, pages


class TickAcknowledgesWhatHasNotLanded(Model):
    """Every copy counts as landed at the next tick."""

    def tick(self, now: Hierarchy) -> Hierarchy:
        landed = tuple([one._replace(landed=True) for one in now.transfers])
        return super().tick(now._replace(transfers=landed))


class TickForgetsToUnlock(Model):
    """The path of a backup stays locked after its acknowledgement."""

    def tick(self, now: Hierarchy) -> Hierarchy:
        after = super().tick(now)
        pages = {
            name: page._replace(locks=now.cache.tree.pages[name].locks) for name, page in after.cache.tree.pages.items()
        }
        return after._replace(cache=after.cache._replace(tree=after.cache.tree._replace(pages=pages)))


class ARevocationMeetsTheNext(Model):
    """A revocation ends whatever prefetch its request has by then."""

    def tick(self, now: Hierarchy) -> Hierarchy:
        revoked = {one.rid for one in now.operations if one.stage == REVOKED}
        after = super().tick(now)
        for one in after.operations:
            if one.rid in revoked and one.live:
                after = fetch.drop(pin(after, [one.anchor], -1), one)
        return after


class ResetForgetsTheReleaseQueue(Model):
    """What waits to be freed is freed again after a reset."""

    def reset(self, now: Hierarchy) -> Hierarchy:
        return super().reset(now)._replace(release=now.release)


class TheTailOfAQueryIsLost(Model):
    """What was reserved beyond what storage has is not returned."""

    def answer(self, now: Hierarchy, job: int, hit: int) -> Hierarchy:
        return super().answer(now, job, hit)._replace(release=now.release)


class DemotionLosesTheCopy(Model):
    """A page that leaves the device leaves the host too."""

    def evict(self, now: Hierarchy, slots: int) -> tuple[Hierarchy, int]:
        after, freed = super().evict(now, slots)
        gone = [name for name in now.cache.tree.pages if name in after.host.alone]
        pages = [after.host.copies[name].page for name in gone]
        alone = {name: page for name, page in after.host.alone.items() if name not in gone}
        copies = {name: copy for name, copy in after.host.copies.items() if name not in gone}
        return tier.free(after._replace(host=after.host._replace(alone=alone, copies=copies)), pages), freed


class MatchOverlooksTheHost(Model):
    """A match tells nothing of what is on the host."""

    def match(self, now: Hierarchy, names: tuple[Name, ...]) -> tuple[Hierarchy, int, int]:
        after, there, _ = super().match(now, names)
        return after, there, 0


class AnEndedReadStopsNothing(Model):
    """A read that storage cut short goes on being waited for."""

    def poll(self, now: Hierarchy, rid: RequestId) -> tuple[Hierarchy, bool]:
        own = fetch.find(now, rid)
        if own is not None and own.stage == ENDED and own.completed < (own.hit or 0):
            return now, False
        return super().poll(now, rid)


class AReadCountsAPageTooMany(Model):
    """A read that is cut short counts the page that did not come."""

    def read(self, now: Hierarchy, job: int, pages: int, over: bool) -> Hierarchy:
        own = fetch.of_job(now, job)
        return super().read(now, job, min(pages + over, len(own.names) - own.completed), over)


class AReadForgetsItsLastPage(Model):
    """What the last step of a read has brought is not counted."""

    def read(self, now: Hierarchy, job: int, pages: int, over: bool) -> Hierarchy:
        own = fetch.of_job(now, job)
        last = own.live and own.completed + pages == own.hit
        return super().read(now, job, 0, True) if last else super().read(now, job, pages, over)


class AQuotaIsLoosened(Model):
    """What a load newly locks is added to its quota instead of taken off."""

    def load_within(
        self, now: Hierarchy, root: Name, names: tuple[Name, ...], quota: int
    ) -> tuple[Hierarchy, int, tuple[PageNo, ...] | None]:
        locked = [name for name in names if name in now.cache.tree.pages and not now.cache.tree.pages[name].locks]
        return super().load_within(now, root, names, quota + 2 * len(locked) * now.setting.size)


PLANTED = (
    Planted(AQuotaIsLoosened, ("LOAD-07",), replace(ONE, quotas=(1,))),
    Planted(AReadCountsAPageTooMany, ("what was read is there",)),
    Planted(AReadForgetsItsLastPage, ("what storage gave is counted",)),
    Planted(HostEvictionOverlooksPins, ("TIER-11", "TIER-12", "TIER-14")),
    Planted(AbortReturnsItsMemoryTwice, ("TIER-01",)),
    Planted(DetachForgetsTheAnchor, ("pins are those of holders", "LIFE-08"), replace(ONE, lives=True)),
    Planted(DetachReturnsWhatTheQueueHas, ("TIER-01",), replace(ONE, lives=True)),
    Planted(CommitKeepsDuplicates, ("TIER-02",)),
    Planted(CommitHangsBelowWhatIsNotBacked, ("TIER-06", "FETCH-16")),
    Planted(LoadDoesNotPin, ("pins are those of holders",)),
    Planted(TickAcknowledgesWhatHasNotLanded, ("BACKUP-03", "TIER-07")),
    Planted(TickForgetsToUnlock, ("locks are those of holders", "LIFE-08")),
    Planted(ARevocationMeetsTheNext, ("TIER-02",), ONE_PATH),
    Planted(ResetForgetsTheReleaseQueue, ("TIER-01", "LIFE-01"), replace(ONE, lives=True)),
    Planted(TheTailOfAQueryIsLost, ("TIER-02",)),
    Planted(DemotionLosesTheCopy, ("TIER-13",)),
    Planted(MatchOverlooksTheHost, ("TIER-10",)),
    Planted(
        AnEndedReadStopsNothing,
        ("FETCH-11", "LIFE-06", "LIFE-07"),
        replace(ONE, choices=ONE.choices._replace(stop="wait_complete")),
    ),
)
