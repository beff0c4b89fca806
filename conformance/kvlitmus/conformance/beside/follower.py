"""The reference beside a flat cache or a hierarchy: given the choices that it was seen to make, it must be where it is.

What a snapshot shows of a hierarchy is less than what the reference needs to go on, so its state isn't read off anew at
every step: the reference makes every call too, with the cache's choices.

Two things can't be seen, and are followed by a renaming (:meth:`Follower.renamed`): which of the pages that a
prefetch holds is for which of its names, and which number a cache gives to a job.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kvlitmus.reference.prefix.choose import Choice
from kvlitmus.reference.prefix.hierarchy import empty_hierarchy, jobs_of, moving, works_of
from kvlitmus.reference.prefix.perform import choice_of, perform
from kvlitmus.spec.interface import Begun, Hit
from kvlitmus.spec.interface.tiers import FETCH, Job, Loaded, Prefetched
from kvlitmus.spec.law.step import Step
from kvlitmus.spec.prefix.advance import follow
from kvlitmus.spec.prefix.calls import Compute, Insert, Lock
from kvlitmus.spec.prefix.own_work import Operation
from kvlitmus.spec.prefix.release import waiting_in
from kvlitmus.spec.prefix.rules.tree import left_to_caller
from kvlitmus.spec.prefix.seen import Seen, TierSeen
from kvlitmus.spec.prefix.state import State, empty_state
from kvlitmus.spec.prefix.work_calls import Advance, Attach
from kvlitmus.spec.words.names import page_names
from kvlitmus.spec.words.setting import Setting
from kvlitmus.spec.words.units import PageNo


class Follower:
    """The reference's state beside a cache; ``numbers``: its jobs, by the cache's numbers for them."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.numbers: dict[int, int] = {}
        self.state = empty_hierarchy(setting) if setting.config.tiered else empty_state()
        if setting.config.tiered and setting.config.storage == "attached":
            self.state = perform(self.state, setting, Attach()).after

    def compute(self, call: Compute) -> None:
        """The caller computes more of a request."""
        self.state = perform(self.state, self.setting, call, Choice(waiting=waiting_in(self.state))).after

    def make(self, seen: Step[Any], known: State) -> Step[State]:
        """The reference's own step where the cache made ``seen``; ``known``: what was known of the cache before.

        Raises ``ValueError`` or ``KeyError`` where no correct cache chooses so, and is left as it was then.
        """
        choice = choice_of(seen, known, self.setting)
        if choice.ended is not None:
            ended, again = ({self.numbers[job] for job in jobs} for jobs in (choice.ended, choice.again))
            choice = choice._replace(ended=ended, again=again)
        return self.perform(seen, choice)

    def perform(self, seen: Step[Any], choice: Choice | None = None) -> Step[State]:
        """The same with another choice; without one the reference chooses."""
        call = seen.call
        if isinstance(call, Advance):
            call = call._replace(job=self.numbers[call.job])
        step = perform(self.state, self.setting, call, choice)
        before, self.state = self.state, step.after
        if isinstance(seen.after, TierSeen):
            self.state = self.renamed(before, seen.after)
            self.number(seen.after)
        step = step._replace(after=self.state)
        if self.setting.table and isinstance(seen.after, Seen) and seen.after.seen:
            self.state = follow(self.state, self.setting, seen.after)
        return step

    def job_seen(self, job: Job) -> tuple[object, ...]:
        """A job of the cache as the reference lists it, without its number."""
        size = self.setting.size
        names = page_names(self.setting.names.of(job.key.namespace, job.key.units), size)[job.start // size :]
        done = job.done // size if job.kind == FETCH else 0
        return job.kind, names, job.rid, done, job.landed, job.failed

    def number(self, after: TierSeen) -> None:
        """Jobs that are listed for the first time are the reference's new ones, in order of submission."""
        known = set(self.numbers.values())
        fresh = [one for one in jobs_of(self.state) if one.id not in known]
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
        own, works = self.state, works_of(self.state)
        other = {
            copy.page: after.hosted[name]
            for name, copy in own.host.pages.items()
            if name in after.hosted and copy.page != after.hosted[name]
        }
        places = {name: copy.page for name, copy in own.host.pages.items()}
        gone = [copy.page for name, copy in before.host.pages.items() if places.get(name) != copy.page]
        free, hands = works_of(before).free.union(gone), frozenset(moving(before))
        sides = ((works.free, frozenset(after.host_free)), (frozenset(moving(own)), frozenset(after.moving)))
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

        pages = {name: copy._replace(page=other.get(copy.page, copy.page)) for name, copy in own.host.pages.items()}
        return own._replace(
            host=own.host._replace(pages=pages),
            works=works._replace(
                free=frozenset(of(works.free)),
                operations=tuple(map(held, works.operations)),
                release=tuple(of(works.release)),
            ),
        )


def said(step: Step[Any], setting: Setting) -> object:
    """An answer without what is a cache's own affair: handles, receipts, the form of what the contract says anyway."""
    call, answer = step.call, step.answer
    if isinstance(answer, Hit):
        return answer.length, None if answer.slots is None else tuple(answer.slots)
    if isinstance(answer, Begun):
        return tuple(answer.row), answer.cached
    if isinstance(call, Insert):
        return answer.already, sorted(left_to_caller(setting, call, answer))
    return None if isinstance(call, Lock) else answer


def said_below(step: Step[Any], setting: Setting) -> object:
    """The same of a hierarchy."""
    answer = step.answer
    if isinstance(answer, Hit):
        return said(step, setting), answer.host
    if isinstance(answer, Loaded):
        return answer.before, None if answer.slots is None else tuple(answer.slots)
    return answer[:3] if isinstance(answer, Prefetched) else said(step, setting)
