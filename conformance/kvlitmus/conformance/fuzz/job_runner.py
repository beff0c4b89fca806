"""The job runner: worker processes that a campaign gives jobs to, one at a time, and what becomes of those that die.

The same containment as in a run: what is being played is on disk, a worker that dies or hangs costs
its job a finding of PORT-02, shrunk in fresh workers, and a method that has ended several workers is
not called any more.  Unlike a run, a campaign has no list of items; it makes up the next job when a
worker is free.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kvlitmus.conformance.isolation.crash_triage import Deaths
from kvlitmus.conformance.isolation.integrity import look
from kvlitmus.conformance.isolation.process import Death, Process, wait
from kvlitmus.conformance.isolation.worker_pool import WorkerPool
from kvlitmus.conformance.run.results import Finding, Item, ItemResult, Options, result_from_json, to_json
from kvlitmus.conformance.support.text import harmless

MAX_DEATHS = 60
"""After so many dead workers a campaign ends: it would do nothing but bury them."""


@dataclass(slots=True, kw_only=True)
class Job:
    """What a worker is to do: ``do`` is ``fuzz`` or ``item``; ``note`` is the campaign's own business.

    doubted: a worker hung over it, and none did when the same was played again.
    """

    do: str
    item: Item
    options: Options
    note: Any = None
    doubted: bool = False


@dataclass(slots=True, kw_only=True)
class Done:
    """What became of a job.  died: the finding of the worker's death; ``reached`` and ``where``: features."""

    job: Job
    result: ItemResult
    died: Finding | None = None
    reached: list[int] = field(default_factory=list)
    where: list[int] = field(default_factory=list)
    texts: dict[int, str] = field(default_factory=dict)


class JobRunner:
    """The workers of one target.

    working: the job of each worker, ``None`` while it loads the target.  again: jobs to be done once more.
    """

    def __init__(self, pool: WorkerPool, workers: int) -> None:
        self.pool = pool
        self.workers = workers
        self.working: dict[Process, Job | None] = {}
        self.ready: list[Process] = []
        self.deaths = Deaths(pool)
        self.again: deque[Job] = deque()
        self.done: list[Done] = []

    @property
    def busy(self) -> int:
        """How many jobs have been begun and not been done."""
        return len(self.again) + sum(job is not None for job in self.working.values())

    @property
    def worn_out(self) -> bool:
        """Whether too many workers have died."""
        return self.deaths.count >= MAX_DEATHS

    def turn(self, give: Callable[[], Job | None]) -> list[Done]:
        """Give jobs to free workers, wait a little, and return what has been done.  ``give`` may have none."""
        while len(self.working) < self.workers and not self.worn_out:
            self.working[self.pool.launch(judging=True)] = None
        for worker in list(self.ready):
            job = self.again.popleft() if self.again else give()
            if job is None:
                break
            self.ready.remove(worker)
            self.send(worker, job)
        wait(list(self.working), 0.1)
        for worker, at in list(self.working.items()):
            if at is not None:
                self.look_at_working(worker, at)
            elif worker not in self.ready:
                self.look_at_loading(worker)
            elif worker.ended() is not None:
                self.forget(worker)
        done, self.done = self.done, []
        return done

    def send(self, worker: Process, job: Job) -> None:
        """Give a worker its job."""
        self.working[worker] = job
        fenced = sorted(self.deaths.fenced)
        worker.send(do=job.do, item=to_json(job.item), options=to_json(job.options), fenced=fenced)

    def forget(self, worker: Process) -> None:
        """A worker is gone, or of no use."""
        del self.working[worker]
        if worker in self.ready:
            self.ready.remove(worker)
        worker.stop(0)

    def look_at_loading(self, worker: Process) -> None:
        """See whether a worker has loaded the target."""
        loaded = self.pool.has_loaded(worker)
        if loaded:
            self.ready.append(worker)
        elif loaded is False:
            self.forget(worker)

    def look_at_working(self, worker: Process, job: Job) -> None:
        """Take what a worker has done, or see that it is dead."""
        if worker.answer is not None:
            self.done.append(done_of(job, worker.answer))
            self.working[worker] = None
            self.ready.append(worker)
            return
        death = worker.death(self.pool.limits.call_seconds)
        if death is not None:
            self.forget(worker)
            self.bury(worker, job, death)

    def bury(self, worker: Process, job: Job, death: Death) -> None:
        """A worker has died: find out why.  A hang that did not occur again is not believed the first time."""
        fenced = self.deaths.fenced
        cause = self.deaths.cause(worker, job.item, job.options, death, doubted=job.doubted, fenced=fenced)
        if cause is None:
            job.doubted = True
            self.again.append(job)
            return
        result = ItemResult(item=job.item.id, config=job.item.config.label, error=cause.reason)
        self.done.append(Done(job=job, result=result, died=cause.finding))

    def look(self) -> None:
        """Look at the judge of every worker that has nothing to do; raises :class:`JudgeChanged`."""
        for worker in self.ready:
            look(worker)

    def stop(self) -> None:
        """Let all workers go."""
        for worker in list(self.working):
            self.forget(worker)


def done_of(job: Job, answer: dict[str, Any]) -> Done:
    """What a worker's answer says; one that makes no sense is an error of the harness."""
    try:
        return Done(
            job=job,
            result=result_from_json(answer["result"]),
            reached=[int(number) for number in answer.get("reached", [])],
            where=[int(at) for at in answer.get("where", [])],
            texts={int(number): harmless(text) for number, text in answer.get("texts", {}).items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        text = harmless(answer.get("failed") or f"a result that can't be read: {error}", 1_000)
        return Done(job=job, result=ItemResult(item=job.item.id, config=job.item.config.label, error=text))
