"""Mutants of the transitions of the hierarchy, to show that the enumeration looks: each must be found."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from kvlitmus.mutants.mutant import Mutant, recipe_of
from kvlitmus.reference.prefix import fetch, tier
from kvlitmus.reference.prefix.hierarchy import alone_of, pin, under_way, works_of
from kvlitmus.spec.interface.tiers import LOAD, PUT, Outcome
from kvlitmus.spec.law.step import Step
from kvlitmus.spec.prefix import calls
from kvlitmus.spec.prefix.own_work import Operation, Works
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.work_calls import Abandon, Advance, Detach, EvictHost, LoadBack, Poll, Tick
from kvlitmus.spec.words.policies import WRITE_BACK
from kvlitmus.spec.words.prefetch_life import ENDED, FETCH, QUERY, REVOKED
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import RequestId
from tests.proofs.support.tier_bench import Model, Scope
from tests.proofs.support.tier_scopes import ONE, ONE_PATH


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted(Mutant):
    """A mutant of the reference of hierarchies, and a scope in which it shows."""

    scope: Scope


def planted(model: type[Wrong], kills: tuple[str, ...], scope: Scope = ONE) -> Planted:
    """A model with a bug, and the rules and laws of which one must name it."""
    name = model.__name__
    return Planted(id=name, recipe=recipe_of(name, model), kills=kills, target=model, scope=scope)


class Wrong(Model):
    """Does something else at calls of one kind."""

    at: type

    def perform(self, now: State, setting: Setting, call: Any) -> Step[State]:
        return self.wrong(now, setting, call) if type(call) is self.at else super().perform(now, setting, call)

    def wrong(self, now: State, setting: Setting, call: Any) -> Step[State]:
        """The step that it makes instead; unless said otherwise the right one, and something afterwards."""
        step = super().perform(now, setting, call)
        return step._replace(after=self.afterwards(step))

    def afterwards(self, step: Step[State]) -> State:
        """What it does after the right step."""
        return step.after

    def right(self, now: State, setting: Setting, call: Any) -> Step[State]:
        """What the reference does."""
        return super().perform(now, setting, call)


def with_works(state: State, works: Works) -> State:
    """The state with other work under way."""
    return state._replace(works=works)


class HostEvictionOverlooksPins(Wrong):
    """An eviction of the host takes what is being read, and what a prefetch begins behind."""

    at = EvictHost

    def wrong(self, now: State, setting: Setting, call: EvictHost[int]) -> Step[State]:
        host = now.host
        bare = {name: copy._replace(locks=0) for name, copy in host.pages.items()}
        step = self.right(now._replace(host=host._replace(pages=bare)), setting, call)
        left = {name: host.pages[name] for name in step.after.host.pages}
        return step._replace(after=step.after._replace(host=host._replace(pages=left)))


class AbortReturnsItsMemoryTwice(Wrong):
    """An abort returns all memory of the prefetch, also what the job under way will return."""

    at = Abandon

    def afterwards(self, step: Step[State]) -> State:
        own = fetch.find(step.before, step.call.rid)
        return step.after if own is None else fetch.release(step.after, own.held[own.completed :])


class DetachForgetsTheAnchor(Wrong):
    """A detach ends prefetches without unpinning where they begin."""

    at = Detach

    def afterwards(self, step: Step[State]) -> State:
        anchors = [one.anchor for one in works_of(step.before).operations if one.live]
        return pin(step.after, anchors) if step.answer else step.after


class DetachReturnsWhatTheQueueHas(Wrong):
    """A detach returns the memory of a prefetch directly, and leaves it in the release queue too."""

    at = Detach

    def afterwards(self, step: Step[State]) -> State:
        ends = step.answer
        return tier.free(step.after, works_of(step.after).release) if ends else step.after


class CommitKeepsDuplicates(Wrong):
    """What was read of pages that were cached meanwhile is never freed."""

    at = Poll

    def afterwards(self, step: Step[State]) -> State:
        return with_works(step.after, works_of(step.after)._replace(free=works_of(step.before).free))


class CommitHangsBelowWhatIsNotBacked(Wrong):
    """A commit doesn't look whether the page before has a host copy."""

    at = Poll

    def wrong(self, now: State, setting: Setting, call: Poll) -> Step[State]:
        return self.right(now, replace(setting, config=replace(setting.config, write=WRITE_BACK)), call)


class LoadDoesNotPin(Wrong):
    """The host pages that a load reads from are not protected."""

    at = LoadBack

    def afterwards(self, step: Step[State]) -> State:
        before = {one.id for one in under_way(step.before, LOAD)}
        begun = [one for one in under_way(step.after, LOAD) if one.id not in before]
        return pin(step.after, [name for one in begun for name in one.names], -1)


class TickAcknowledgesWhatHasNotLanded(Wrong):
    """Every copy counts as landed at the next tick."""

    at = Tick

    def wrong(self, now: State, setting: Setting, call: Tick) -> Step[State]:
        works = works_of(now)
        landed = tuple([one._replace(landed=one.kind != PUT or one.landed) for one in works.transfers])
        return self.right(with_works(now, works._replace(transfers=landed)), setting, call)


class TickForgetsToUnlock(Wrong):
    """The path of a backup stays locked after its acknowledgement."""

    at = Tick

    def afterwards(self, step: Step[State]) -> State:
        before, tree = step.before.device.pages, step.after.device
        pages = {name: page._replace(locks=before[name].locks) for name, page in tree.pages.items()}
        return step.after._replace(device=tree._replace(pages=pages))


class ARevocationMeetsTheNext(Wrong):
    """A revocation ends whatever prefetch its request has by then."""

    at = Tick

    def afterwards(self, step: Step[State]) -> State:
        revoked = {one.rid for one in works_of(step.before).operations if one.stage == REVOKED}
        after = step.after
        for one in works_of(after).operations:
            if one.rid in revoked and one.live:
                after = fetch.drop(pin(after, [one.anchor], -1), one)
        return after


class ResetForgetsTheReleaseQueue(Wrong):
    """What waits to be freed is freed again after a reset."""

    at = calls.Reset

    def afterwards(self, step: Step[State]) -> State:
        return with_works(step.after, works_of(step.after)._replace(release=works_of(step.before).release))


class TheTailOfAQueryIsLost(Wrong):
    """What was reserved beyond what storage has is not returned."""

    at = Advance

    def afterwards(self, step: Step[State]) -> State:
        before = works_of(step.before)
        asks = any(one.job == step.call.job and one.stage == QUERY for one in before.operations)
        return with_works(step.after, works_of(step.after)._replace(release=before.release)) if asks else step.after


class DemotionLosesTheCopy(Wrong):
    """A page that leaves the device leaves the host too."""

    at = calls.Evict

    def afterwards(self, step: Step[State]) -> State:
        alone = alone_of(step.after)
        return tier.unback(step.after, [name for name in step.before.device.pages if name in alone])


class MatchOverlooksTheHost(Wrong):
    """A match tells nothing of what is on the host."""

    at = calls.Match

    def wrong(self, now: State, setting: Setting, call: calls.Match) -> Step[State]:
        step = self.right(now, setting, call)
        return step._replace(answer=step.answer._replace(host=0))


class AnEndedReadStopsNothing(Wrong):
    """A read that storage cut short goes on being waited for."""

    at = Poll

    def wrong(self, now: State, setting: Setting, call: Poll) -> Step[State]:
        own = fetch.find(now, RequestId(call.rid))
        if own is not None and own.stage == ENDED and own.completed < (own.hit or 0):
            return Step(call, False, now, now)
        return self.right(now, setting, call)


class AReadCountsAPageTooMany(Wrong):
    """A read that is cut short counts the page that did not come."""

    at = Advance

    def wrong(self, now: State, setting: Setting, call: Advance) -> Step[State]:
        if reads(now, call) and call.outcome.how == "short":
            call = call._replace(outcome=Outcome("short", call.outcome.pages + 1))
        return self.right(now, setting, call)


class AReadForgetsItsLastPage(Wrong):
    """What the last step of a read has brought is not counted."""

    at = Advance

    def wrong(self, now: State, setting: Setting, call: Advance) -> Step[State]:
        own = reads(now, call)
        if own is not None and own.live and own.completed + call.outcome.pages == own.hit:
            call = call._replace(outcome=Outcome("short", 0))
        return self.right(now, setting, call)


def reads(now: State, call: Advance) -> Operation | None:
    """The prefetch whose read goes on."""
    return next((one for one in works_of(now).operations if one.job == call.job and one.stage == FETCH), None)


class AQuotaIsLoosened(Wrong):
    """What a load newly locks is added to its quota instead of taken off."""

    at = LoadBack

    def wrong(self, now: State, setting: Setting, call: LoadBack) -> Step[State]:
        if call.quota is not None:
            resident = now.device.pages
            locked = [name for name in call.path.pages if name in resident and not resident[name].locks]
            call = call._replace(quota=call.quota + 2 * len(locked) * setting.size)
        return self.right(now, setting, call)


PLANTED = (
    planted(AQuotaIsLoosened, ("LOAD-07",), replace(ONE, quotas=(1,))),
    planted(AReadCountsAPageTooMany, ("what was read is there",)),
    planted(AReadForgetsItsLastPage, ("what storage gave is counted",)),
    planted(HostEvictionOverlooksPins, ("TIER-11", "TIER-12", "EVICT-03")),
    planted(AbortReturnsItsMemoryTwice, ("POOL-12",)),
    planted(DetachForgetsTheAnchor, ("pins are those of holders", "LIFE-08"), replace(ONE, lives=True)),
    planted(DetachReturnsWhatTheQueueHas, ("POOL-12",), replace(ONE, lives=True)),
    planted(CommitKeepsDuplicates, ("POOL-12",)),
    planted(CommitHangsBelowWhatIsNotBacked, ("TREE-05", "FETCH-16")),
    planted(LoadDoesNotPin, ("pins are those of holders",)),
    planted(TickAcknowledgesWhatHasNotLanded, ("BACKUP-03", "TIER-08")),
    planted(TickForgetsToUnlock, ("locks are those of holders", "LIFE-08")),
    planted(ARevocationMeetsTheNext, ("POOL-12",), ONE_PATH),
    planted(ResetForgetsTheReleaseQueue, ("POOL-12", "LIFE-01"), replace(ONE, lives=True)),
    planted(TheTailOfAQueryIsLost, ("POOL-12",)),
    planted(DemotionLosesTheCopy, ("EVICT-06", "TIER-13")),
    planted(MatchOverlooksTheHost, ("TIER-10",)),
    planted(
        AnEndedReadStopsNothing,
        ("FETCH-11", "LIFE-06", "LIFE-07"),
        replace(ONE, asked=replace(ONE.asked, stop="wait_complete")),
    ),
)
