"""The job runner: worker processes that a campaign gives jobs to, one at a time, and what becomes of those that die.

The same containment as in a run: what is being played is on disk, a worker that dies or hangs costs
its job a finding of PORT-02, shrunk in fresh workers, and a method that has ended several workers is
not called any more.  Unlike a run, a campaign has no list of items; it makes up the next job when a
worker is free.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kvlitmus.conformance.isolation.crash_triage import CrashTriage, read_plays
from kvlitmus.conformance.isolation.integrity import look
from kvlitmus.conformance.isolation.process import Death, Process, wait
from kvlitmus.conformance.isolation.supervisor import FENCED_AFTER, LOADS
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

    working: the job of each worker, ``None`` while it loads the target.  fenced: methods that are not called
    any more.  unmade: configurations whose making ended a worker, each with what happened.  again: jobs to
    be done once more.
    """

    def __init__(self, pool: WorkerPool, workers: int) -> None:
        self.pool = pool
        self.workers = workers
        self.working: dict[Process, Job | None] = {}
        self.ready: list[Process] = []
        self.killers: Counter[str] = Counter()
        self.shrunk: set[tuple[str, int, str]] = set()
        self.unmade: dict[str, str] = {}
        self.again: deque[Job] = deque()
        self.deaths = 0
        self.failed_loads = 0
        self.done: list[Done] = []

    @property
    def fenced(self) -> list[str]:
        """The methods that are not called any more."""
        return sorted(method for method, times in self.killers.items() if times >= FENCED_AFTER)

    @property
    def busy(self) -> int:
        """How many jobs have been begun and not been done."""
        return len(self.again) + sum(job is not None for job in self.working.values())

    @property
    def worn_out(self) -> bool:
        """Whether too many workers have died."""
        return self.deaths >= MAX_DEATHS

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
        worker.send(do=job.do, item=to_json(job.item), options=to_json(job.options), fenced=self.fenced)

    def forget(self, worker: Process) -> None:
        """A worker is gone, or of no use."""
        del self.working[worker]
        if worker in self.ready:
            self.ready.remove(worker)
        worker.stop(0)

    def look_at_loading(self, worker: Process) -> None:
        """See whether a worker has loaded the target."""
        failed = self.pool.loading_failed(worker)
        if failed is not None:
            self.failed_loads += 1
            self.forget(worker)
            if not self.pool.loaded or self.failed_loads > LOADS:
                raise failed
        elif worker.answer is not None:
            self.ready.append(worker)

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
        self.deaths += 1
        played = read_plays(worker.plays)
        result = ItemResult(item=job.item.id, config=job.item.config.label)
        certain = death.kind != "hang" or job.doubted
        if played.making and not certain:
            self.doubt(job)
            return
        if played.making:
            reason = f"making a fresh cache, or looking at it for the first time, {death.text}"
            self.unmade[job.item.config.label] = result.error = reason
            self.done.append(Done(job=job, result=result))
            return
        limits = self.pool.limits
        triage = CrashTriage(
            self.pool.ready_or_dead,
            self.pool.folder.path,
            call_seconds=limits.call_seconds,
            shrink_seconds=limits.shrink_seconds,
            fenced=frozenset(self.fenced),
            shrunk=self.shrunk,
        )
        found, method = triage.find(job.item, job.options, played, death, certain=certain)
        if found is None:
            self.doubt(job)
            return
        self.killers[method] += bool(method)
        self.done.append(Done(job=job, result=result, died=found))

    def doubt(self, job: Job) -> None:
        """Have a job done once more, as if nothing had been."""
        self.deaths -= 1
        job.doubted = True
        self.again.append(job)

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
        text = harmless(answer.get("failed") or f"a result that makes no sense: {error}", 1_000)
        return Done(job=job, result=ItemResult(item=job.item.id, config=job.item.config.label, error=text))
