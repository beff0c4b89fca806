"""A recorder of lives: a cache behind it does what it does, and each step of a job or a prefetch is written down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from kvlitmus.spec.interface import PORTS, Job
from kvlitmus.spec.prefix.rules.job import GONE, state_of
from kvlitmus.spec.words import prefetch_life
from kvlitmus.spec.words.prefetch_life import ABORTED, COMMITTED, CUT_OFF, DROPPED
from kvlitmus.spec.words.transitions import NONE, Step

METHODS = frozenset(method for methods in PORTS.values() for method in methods)
OWN = ("prefetch", "poll", "abandon")
"""The calls on the prefetch of one request."""

ENDED_BY = {"poll": COMMITTED, "abandon": ABORTED, "tick": DROPPED, "detach": CUT_OFF, "reset": CUT_OFF}
"""What has become of a prefetch that is there no more, by the call that ended it."""

Stages = Callable[[Any], Mapping[int, str]]
"""Looks up in a cache the stage of each request's prefetch."""


class Recorder:
    """A cache of a hierarchy with all of its methods, and the steps that were made in them."""

    def __init__(self, cache: Any, stages: Stages) -> None:
        self.cache = cache
        self.stages = stages
        self.jobs_made: Counter[Step] = Counter()
        self.prefetches_made: Counter[Step] = Counter()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.cache, name)
        if name not in METHODS or not callable(found):
            return found

        def called(*given: Any, **named: Any) -> Any:
            jobs, waiting = self.listed(), dict(self.stages(self.cache))
            answer = found(*given, **named)
            self.note_jobs(name, given, jobs)
            self.note_prefetches(name, given, waiting)
            return answer

        return called

    def listed(self) -> dict[int, Job]:
        """The jobs by number."""
        return {job.id: job for job in self.cache.jobs()}

    def note_jobs(self, name: str, given: tuple[Any, ...], before: Mapping[int, Job]) -> None:
        """What the call did to each job; its own advance is told from that of another."""
        after = self.listed()
        for number in before.keys() | after.keys():
            own = name == "advance" and given[0] == number
            then = state_of(before[number]) if number in before else NONE
            now = state_of(after[number]) if number in after else GONE
            kind = (before.get(number) or after[number]).kind
            self.jobs_made[Step(kind, then, f"{name} {given[1].how}" if own else name, now)] += 1

    def note_prefetches(self, name: str, given: tuple[Any, ...], before: Mapping[int, str]) -> None:
        """What the call did to the prefetch of each request; a call for another request is no cause."""
        after = dict(self.stages(self.cache))
        for rid in before.keys() | after.keys():
            cause = f"another's {name}" if name in OWN and given[0] != rid else name
            then, now = before.get(rid, NONE), after.get(rid) or ENDED_BY.get(cause, "lost")
            self.prefetches_made[Step(prefetch_life.KIND, then, cause, now)] += 1
