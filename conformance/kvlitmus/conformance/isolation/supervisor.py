"""The supervisor: spreads items of work over worker processes, and outlives what happens in them.

Adapter and judge share a worker; here is no adapter, so here is known what an honest judge says (:mod:`.integrity`).
Each worker has one item at a
time, which is on disk before it is sent.  A worker that dies, or in which no call is made for too
long, is a verdict on the target: its item gets a finding of PORT-02, shrunk in fresh workers, and
is judged once more without the method that did it; all other items go on.  A method that has
killed several workers is not called any more.

A hang is believed only when it occurs again in a fresh worker with twice the time, or a second time
in the same item: what a machine does to a process once is no verdict on a cache.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from kvlitmus.conformance.isolation.crash_triage import Deaths
from kvlitmus.conformance.isolation.integrity import JudgeChanged, look
from kvlitmus.conformance.isolation.process import Death, Process, wait
from kvlitmus.conformance.isolation.worker_pool import Limits, TargetInfo, WorkerPool, probe
from kvlitmus.conformance.run.results import Finding, Item, ItemResult, Options, result_from_json, to_json
from kvlitmus.conformance.run.targets import TargetError, TargetRef
from kvlitmus.conformance.support.text import harmless

__all__ = ["Event", "JudgeChanged", "Limits", "TargetError", "TargetInfo", "probe", "run_items"]

ATTEMPTS = 4
"""How often one item is judged, each time without the methods that killed its worker before."""


ALONE_SECONDS = 1.0
"""How long the first worker judges by itself: many runs are over by then, and starting another costs as much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that a display of progress may want: ``kind`` is ``started``, ``progress``, ``finished``,
    ``died``, ``doubted`` (a hang that did not occur again; the item is judged once more), ``shrinking`` or
    ``output`` (what the adapter printed, made harmless, in ``text``).

    ``index`` counts the items from 0, of ``total``; ``steps`` are the calls made in this item so far.
    """

    kind: str
    item: str
    index: int
    total: int
    steps: int = 0
    text: str = ""


def run_items(
    ref: TargetRef,
    items: Sequence[Item],
    options: Options,
    *,
    jobs: int = 1,
    limits: Limits | None = None,
    on_event: Callable[[Event], None] | None = None,
    state: Path | None = None,
    pool: WorkerPool | None = None,
) -> Iterator[ItemResult]:
    """The result of every item, in the order of the items, whatever ``jobs`` is.

    A worker that dies or hangs costs its item a finding of PORT-02, and nothing else.  Raises
    :class:`TargetError` when no worker can be started at all, and, when all results have been told,
    :class:`JudgeChanged` if a worker's judge isn't what it was: then they are worth nothing.  On
    ``KeyboardInterrupt`` inside the iterator the finished results are still yielded, then it is raised
    again; closing the iterator stops the workers.  ``pool``: one that is there already, and whose limits hold.
    """
    if not items:
        return
    if pool is None:
        with WorkerPool(ref, limits or Limits(), state) as pool:
            yield from run_items(ref, items, options, jobs=jobs, on_event=on_event, pool=pool)
        return
    run = Run(pool, items, options, max(1, min(jobs, len(items), 256)), on_event or _nobody_listens)
    told = 0
    try:
        while told < len(items):
            while told not in run.results:
                run.turn()
            told += 1
            yield run.results.pop(told - 1)
        if run.changed is not None:
            raise run.changed
    except KeyboardInterrupt:
        pool.stop()
        yield from (run.results[at] for at in sorted(run.results))
        raise
    finally:
        pool.stop(but=pool.spare)


def _nobody_listens(_: Event) -> None:
    pass


class Run:
    """One run: which worker has which item, what has come of it, what has gone wrong so far.

    working: the item of each worker, ``None`` while it loads the target.  began: when the first item was given.
    again: items to be judged once more.  found: findings of items that killed their workers.  fenced: the methods that
    an item must do without.  doubted: items of which a worker hung, and none did when the same was played again.
    judged: the rules that each worker has judged.  changed: that the judge in one of them isn't what it was.
    """

    def __init__(
        self, pool: WorkerPool, items: Sequence[Item], options: Options, jobs: int, tell: Callable[[Event], None]
    ) -> None:
        self.pool = pool
        self.items = items
        self.options = options
        self.jobs = jobs
        self.listener = tell
        self.results: dict[int, ItemResult] = {}
        self.next = 0
        self.began: float | None = None
        self.again: deque[int] = deque()
        self.working: dict[Process, int | None] = {}
        self.found: dict[int, list[Finding]] = {}
        self.fenced: dict[int, frozenset[str]] = {}
        self.deaths = Deaths(pool)
        self.doubted: set[int] = set()
        self.judged: dict[Process, set[str]] = {}
        self.changed: JudgeChanged | None = None

    def tell(self, kind: str, at: int, *, steps: int = 0, text: str = "") -> None:
        """Tell the listener."""
        item = self.items[at].id
        self.listener(Event(kind=kind, item=item, index=at, total=len(self.items), steps=steps, text=text))

    def turn(self) -> None:
        """Wait a little, and do what is to be done."""
        while len(self.working) < self.jobs and (self.again or self.next < len(self.items)):
            if len(self.working) > len(self.items) - self.next + len(self.again):
                break
            if self.working and not self.goes_on():
                break
            worker, self.pool.spare = self.pool.spare, None
            if worker is None:
                self.working[self.pool.launch(judging=True)] = None
            else:
                self.give(worker)
        wait(list(self.working), 0.1)
        for worker, at in list(self.working.items()):
            if at is None:
                self.look_at_loading(worker)
            else:
                self.look_at_working(worker, at)

    def goes_on(self) -> bool:
        """Whether there is enough to do that another worker is worth its start."""
        return self.began is not None and monotonic() - self.began > ALONE_SECONDS

    def look_at_loading(self, worker: Process) -> None:
        """Give a worker its first item once the target is loaded."""
        loaded = self.pool.has_loaded(worker)
        if loaded:
            self.give(worker)
        elif loaded is False:
            self.let_go(worker)

    def look_at_working(self, worker: Process, at: int) -> None:
        """Take a worker's result, or see that it is dead."""
        if worker.answer is not None:
            if worker.printed:
                self.tell("output", at, text=worker.printed_text())
            result = self.result_of(at, worker.answer)
            self.judged.setdefault(worker, set()).update(result.evaluated)
            self.finish(at, result)
            self.give(worker)
            return
        death = worker.death(self.pool.limits.call_seconds)
        if death is not None:
            self.bury(worker, at, death)
        elif worker.steps != worker.told_steps:
            worker.told_steps = worker.steps
            self.tell("progress", at, steps=worker.steps)

    # -- items ---------------------------------------------------------------------------------

    def give(self, worker: Process) -> None:
        """Give a worker the next item, or let it go."""
        while True:
            if self.again:
                at = self.again.popleft()
            elif self.next < len(self.items):
                at, self.next = self.next, self.next + 1
            else:
                self.let_go(worker)
                return
            why_not = self.why_not(self.items[at])
            if not why_not:
                break
            self.finish(at, self.empty(at, error=why_not))
        self.fenced[at] = self.fenced.get(at, frozenset()) | self.deaths.fenced
        command = {
            "item": to_json(self.items[at]),
            "options": to_json(self.options),
            "fenced": sorted(self.fenced[at]),
        }
        path = self.pool.folder.path / f"worker-{worker.number}.item"
        path.write_text(json.dumps({"target": self.pool.ref.name, **command}))
        self.working[worker] = at
        self.began = monotonic() if self.began is None else self.began
        worker.told_steps = 0
        worker.send(do="item", **command)
        self.tell("started", at)

    def why_not(self, item: Item) -> str:
        """Why an item isn't run, if it isn't."""
        if item.config.label in self.deaths.unmade:
            return f"not run: {self.deaths.unmade[item.config.label]}"
        if self.deaths.count >= self.pool.limits.deaths:
            return f"not run: {self.deaths.count} worker processes have died already"
        return ""

    def let_go(self, worker: Process) -> None:
        """A worker has nothing more to do; before it goes, its judge is looked at."""
        del self.working[worker]
        if worker in self.judged and self.changed is None:
            try:
                look(worker, self.judged[worker])
            except JudgeChanged as error:
                self.changed = error
            else:
                if self.pool.keeps and not self.working:
                    self.pool.spare = worker
                    return
        worker.stop(0.0)

    def empty(self, at: int, *, error: str = "") -> ItemResult:
        """A result that says nothing about the rules."""
        return ItemResult(item=self.items[at].id, config=self.items[at].config.label, error=error)

    def result_of(self, at: int, answer: dict[str, Any]) -> ItemResult:
        """The result in a worker's answer."""
        try:
            result = result_from_json(answer["result"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            return self.empty(
                at, error=harmless(answer.get("failed") or f"a result that can't be read: {error}", 1_000)
            )
        if self.fenced.get(at) and result.unsupported:
            result.unsupported = ""  # the target has it; it is the suite that does without
        return result

    def finish(self, at: int, result: ItemResult) -> None:
        """An item is done."""
        result.findings[:0] = self.found.pop(at, [])
        self.fenced.pop(at, None)
        self.results[at] = result
        self.tell("finished", at, steps=result.steps)

    # -- deaths --------------------------------------------------------------------------------

    def bury(self, worker: Process, at: int, death: Death) -> None:
        """A worker has died: find out why, and go on without what did it."""
        del self.working[worker]
        self.tell("died", at, steps=worker.steps, text=death.text)
        cause = self.deaths.cause(
            worker,
            self.items[at],
            self.options,
            death,
            doubted=at in self.doubted,
            fenced=self.fenced.get(at, frozenset()),
            shrinking=lambda: self.tell("shrinking", at),
        )
        if cause is None:  # the item is judged once more as if nothing had been
            self.doubted.add(at)
            self.again.append(at)
            self.tell("doubted", at)
            return
        if cause.finding is None:
            self.finish(at, self.empty(at, error=cause.reason))
            return
        self.found.setdefault(at, []).append(cause.finding)
        if cause.method and len(self.found[at]) < ATTEMPTS:
            self.fenced[at] = self.fenced.get(at, frozenset()) | {cause.method}
            self.again.append(at)
        else:
            self.finish(at, self.empty(at))
