"""The reference as the oracle of another hierarchy: given the choices that it was seen to make, it must be where it is.

A :class:`TieredOracle` is a judge that keeps a state of the reference beside the cache.  What a snapshot shows of a
hierarchy is less than what it needs to go on, so the reference's state isn't read off anew at every step, as for flat
caches: the reference makes every call too, with the cache's choices, and all that a snapshot shows must be the same.

Two things can't be seen, and are followed by a renaming (:meth:`TieredOracle.renamed`): which of the pages that a
prefetch holds is for which of its names, and which number a cache gives to a job.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kvlitmus.reference.prefix.choose import Choice
from kvlitmus.reference.prefix.hierarchy import alone_of, empty_hierarchy, host_of, jobs_of, moving, occupied
from kvlitmus.reference.prefix.perform import choice_of, free_pages, perform, sizes
from kvlitmus.spec.interface import Hit
from kvlitmus.spec.interface.tiers import FETCH, Job, Loaded, Prefetched
from kvlitmus.spec.law.step import Step
from kvlitmus.spec.prefix.calls import Compute
from kvlitmus.spec.prefix.host_state import Operation
from kvlitmus.spec.prefix.release import waiting_in
from kvlitmus.spec.prefix.seen import TierSeen
from kvlitmus.spec.prefix.state import State
from kvlitmus.spec.prefix.tier_calls import Advance, Attach, Settled
from kvlitmus.spec.words.names import page_names
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import PageNo
from tests.support.oracle import Differs, Oracle, said


class TieredOracle(Oracle):
    """A judge of a hierarchy, at depth 3, that asks the reference at every step."""

    def forget(self) -> None:
        super().forget()
        if not hasattr(self, "reference"):
            self.reference = empty_hierarchy(self.setting)
            self.numbers: dict[int, int] = {}
            if self.config.storage == "attached":
                self.reference = perform(self.reference, self.setting, Attach(True, 0)).after

    def compute(self, call: Compute) -> None:
        super().compute(call)
        goes_on = Choice(waiting=waiting_in(self.reference))
        self.reference = perform(self.reference, self.setting, call, goes_on).after

    def compare(self, seen: Step[Any], state: State) -> None:
        call = seen.call
        if isinstance(call, Settled):
            return
        if isinstance(call, Advance):
            call = call._replace(job=self.numbers[call.job])
        choice = choice_of(seen, state, self.setting)
        if choice.ended is not None:
            ended, again = ({self.numbers[job] for job in jobs} for jobs in (choice.ended, choice.again))
            choice = choice._replace(ended=ended, again=again)
        try:
            step = perform(self.reference, self.setting, call, choice)
        except (ValueError, KeyError) as illegal:
            raise Differs(f"{self.history[-1]}: {illegal!r}") from illegal
        before, self.reference = self.reference, step.after
        self.reference = self.renamed(before, seen.after)
        self.number(seen.after)
        self.hold("the answer", said_below(step, self.setting), said_below(seen, self.setting))
        self.hold_snapshot(seen.after)

    def hold(self, what: str, expected: object, got: object) -> None:
        """Raise :class:`Differs` where the two are not equal."""
        if expected != got:
            raise Differs(f"{self.history[-1]}: {what}: expected {expected}, got {got}")

    def hold_snapshot(self, after: TierSeen) -> None:
        """All that a snapshot shows is as in the reference's state."""
        own, host = self.reference, host_of(self.reference)
        pages = {**own.tree.pages, **alone_of(own)}
        self.hold("the tree", {name: page.parent for name, page in pages.items()}, after.parent_names)
        self.hold("the cached pages", {name: page.page for name, page in own.tree.pages.items()}, after.cached)
        self.hold("the host copies", {name: copy.page for name, copy in host.copies.items()}, after.hosted)
        self.hold("the free pages", free_pages(own, self.setting), after.free)
        self.hold("the host's free pages", host.free, frozenset(after.host_free))
        self.hold("what is moving", sorted(moving(own)), sorted(after.moving))
        self.hold("the counters", after.sizes and sizes(own, self.setting), after.sizes)
        if after.occupied is not None:
            self.hold("what prefetches occupy", occupied(own), after.occupied)
        self.hold("what is to fail", frozenset(host.failing), after.failing)
        found = {number: self.job_seen(job) for number, job in after.jobs.items()}
        cache = {mine: number for number, mine in self.numbers.items()}
        self.hold("the jobs", {cache.get(one.id, -one.id): one[1:] for one in jobs_of(own)}, found)
        for node in after.tier_nodes:
            pins = max([host.copies[name].pins for name in node.named.pages if name in host.copies], default=0)
            if node.pins is not None and node.named.pages:
                self.hold(f"pins of {node.named.pages}", pins, node.pins)
        self.compare_counts(own, after)

    def job_seen(self, job: Job) -> tuple[object, ...]:
        """A job of the cache as the reference lists it, without its number."""
        names = page_names(self.names.of(job.key.namespace, job.key.units), self.size)[job.start // self.size :]
        done = job.done // self.size if job.kind == FETCH else 0
        return job.kind, names, job.rid, done, job.landed, job.failed

    def number(self, after: TierSeen) -> None:
        """Jobs that are listed for the first time are the reference's new ones, in order of submission."""
        known = set(self.numbers.values())
        fresh = [one for one in jobs_of(self.reference) if one.id not in known]
        for number in sorted(after.jobs.keys() - self.numbers.keys()):
            alike = [one for one in fresh if one[1:4] == self.job_seen(after.jobs[number])[:3]]
            if alike:
                self.numbers[number] = alike[0].id
                fresh.remove(alike[0])

    def renamed(self, before: State, after: TierSeen) -> State:
        """The reference's state with the cache's numbers for pages of the host.

        Pages that were free, or that an eviction freed in the same call, may be others than the reference took, and of
        those in the hands of work under way nobody sees which is for what; a page of one kind never stands for one of
        the other.
        """
        own, host = self.reference, host_of(self.reference)
        other = {
            copy.page: after.hosted[name]
            for name, copy in host.copies.items()
            if name in after.hosted and copy.page != after.hosted[name]
        }
        places = {name: copy.page for name, copy in host.copies.items()}
        gone = [copy.page for name, copy in host_of(before).copies.items() if places.get(name) != copy.page]
        free, hands = host_of(before).free.union(gone), frozenset(moving(before))
        sides = ((host.free, frozenset(after.host_free)), (frozenset(moving(own)), frozenset(after.moving)))
        for kind in (free, hands):
            for mine, theirs in sides:
                left = sorted((mine - theirs - other.keys()) & kind)
                right = sorted((theirs - mine - frozenset(other.values())) & kind)
                other.update(zip(left, right, strict=False))
        alike = all({mine, theirs} <= free or {mine, theirs} <= hands for mine, theirs in other.items())
        if not other or not alike or len(frozenset(other.values())) < len(other):
            return own
        lost = sorted(other.keys() - other.values())
        other.update(zip(sorted(frozenset(other.values()) - other.keys()), lost, strict=True))

        def of(pages: Iterable[PageNo]) -> list[PageNo]:
            return [other.get(page, page) for page in pages]

        def held(one: Operation) -> Operation:
            return one._replace(held=tuple(of(one.held)))

        return own._replace(
            host=host._replace(
                free=frozenset(of(host.free)),
                copies={
                    name: copy._replace(page=other.get(copy.page, copy.page)) for name, copy in host.copies.items()
                },
                operations=tuple(map(held, host.operations)),
                release=tuple(of(host.release)),
            )
        )


def said_below(step: Step[Any], setting: Setting) -> object:
    """An answer without what is a cache's own affair."""
    answer = step.answer
    if isinstance(answer, Hit):
        return said(step, setting), answer.host
    if isinstance(answer, Loaded):
        return answer.before, None if answer.slots is None else tuple(answer.slots)
    return answer[:3] if isinstance(answer, Prefetched) else said(step, setting)
