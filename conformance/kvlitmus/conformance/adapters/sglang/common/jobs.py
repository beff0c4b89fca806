"""What happens in the background of SGLang's hierarchies, as jobs: what the adapters of all releases share.

A backup is an acknowledgement that the controller waits for (``ack_write_queue``), a load likewise
(``ack_load_queue``), or an operation that waits for its turn (``load_queue``).  Copies share one stream per direction
and operations one thread per kind: the first that hasn't landed is ready, the rest wait behind it.  What a dead thread
had in hand is no job any more, and what waits for a dead thread is never ready.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple, TypeAlias

from kvlitmus.conformance.adapters.sglang.common import steps
from kvlitmus.conformance.adapters.sglang.common.hicache import Backend
from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign
from kvlitmus.spec.interface.tiers import BACKUP, DONE, LOAD, PUT, Job, Outcome
from kvlitmus.spec.words.units import Key


class Known(NamedTuple):
    """What is remembered of a job: the thing itself, so that its identity stays its own, and what never changes."""

    thing: Foreign
    id: int
    key: Key
    start: int
    rid: int = -1


class Asked(NamedTuple):
    """A prefetch that was started: the operation, the request and its key, and where reading begins."""

    operation: Foreign
    rid: int
    key: Key
    matched: int


About: TypeAlias = tuple[Key, int, int]
"""What a job is about: a key, where it begins, and a request (-1: none)."""

Listed: TypeAlias = Iterator[tuple[Job, Callable[[Outcome], None]]]
"""Jobs, and how each goes on."""


class Jobs:
    """The background of a cache with SGLang's ``HiCacheController``, held still."""

    cache: Foreign
    controller: Foreign

    def _start_jobs(self) -> None:
        """Nothing is under way; to be called before a cache is made, for that may start threads."""
        self.rig = steps.Rig()
        steps.close_with(self, self.rig)
        self.backend: Backend | None = None
        self._ids = itertools.count(1)
        self._known: dict[tuple[str, int], Known] = {}
        self._asked: dict[int, Asked] = {}

    # --- what differs from release to release

    def _path(self, node: Foreign) -> Key:
        """The key of everything from the root to the end of a node."""
        raise NotImplementedError

    def _of_backup(self, ack: Foreign) -> About:
        """What a backup is about."""
        raise NotImplementedError

    def _load(self, load: Foreign) -> Known | None:
        """What is known of a load, an acknowledgement or a waiting operation; ``None`` for one that never began."""
        raise NotImplementedError

    def _operations(self) -> Listed:
        """Queries, fetches and puts."""
        raise NotImplementedError

    def _in_use(self, event: Foreign) -> bool:
        """Whether a load still needs one of the controller's load events."""
        raise NotImplementedError

    def _idle(self) -> bool:
        """What ``Scheduler.is_fully_idle`` asks of the cache."""
        raise NotImplementedError

    # --- jobs

    def _know(self, kind: str, thing: Foreign, about: Callable[[], About]) -> Known:
        """What is known of this job; a new one gets the next number."""
        known = self._known.get((kind, id(thing)))
        if known is None:
            key, start, rid = about()
            known = self._known[kind, id(thing)] = Known(thing, next(self._ids), key, start, rid)
        return known

    def jobs(self) -> list[Job]:
        """Everything under way, in the order in which it was started."""
        listed = sorted(job for job, _ in self._listed())
        numbers = {job.id for job in listed}
        self._known = {name: known for name, known in self._known.items() if known.id in numbers}
        wanted = {id(known.thing) for known in self._known.values()}
        self._asked = {number: asked for number, asked in self._asked.items() if number in wanted}
        return listed

    def _listed(self) -> Listed:
        """Everything under way, and how it goes on."""
        yield from self._backups()
        yield from self._loads()
        yield from self._operations()

    def _backups(self) -> Listed:
        ready = True
        for ack in self.controller.ack_write_queue:
            known = self._know(BACKUP, ack.node_ids, partial(self._of_backup, ack))
            landed = ack.finish_event.query()
            job = Job(known.id, BACKUP, known.key, known.start, landed=landed, ready=ready and not landed)
            yield job, partial(_land, ack.finish_event)
            ready = ready and landed

    def _loads(self) -> Listed:
        ready = True
        begun = [(ack, ack.finish_event) for ack in self.controller.ack_load_queue]
        for load, event in [*begun, *((operation, None) for operation in self.controller.load_queue)]:
            known = self._load(load)
            if known is None:
                continue
            landed = event is not None and event.query()
            going = ready and event is not None and not landed
            yield Job(known.id, LOAD, known.key, known.start, landed=landed, ready=going), partial(_land, event)
            ready = ready and landed

    def advance(self, job: int, outcome: Outcome) -> None:
        """One job goes on: its stream up to its event, or its thread to its next stop."""
        for listed, go in list(self._listed()):
            if listed.id == job and listed.ready:
                go(outcome)
                return

    def _resume(self, thread: steps.Thread | None, outcome: Outcome) -> None:
        """Let a thread go on to its next stop; what the store answers meanwhile is the store's business."""
        if thread is None:
            return
        if self.backend is not None:
            self.backend.left = outcome.pages if outcome.how == "part" else None
        thread.resume()

    def _start_loads(self) -> None:
        """``ready_to_load_host_cache``, one batch per load.

        A batch waits for its loads, so no more than the controller's three load events are in use
        at a time; a load for which none is left waits for a scheduler step.
        """
        counter, queue = self.controller.layer_done_counter, self.controller.load_queue
        while queue:
            if self._in_use(counter.events[(counter.producer_index + 1) % counter.num_counters].finish_event):
                return
            rest = queue[1:]
            del queue[1:]
            self.cache.ready_to_load_host_cache()
            queue.extend(rest)

    def tick(self) -> None:
        """``check_hicache_events``, and what the next batches would start."""
        self.cache.check_hicache_events()
        self._start_loads()

    def _run_to_idle(self) -> None:
        """Scheduler steps, until the cache is idle, or nothing goes on any more."""
        while not self._idle():
            ready = [go for job, go in self._listed() if job.ready and job.kind in (BACKUP, LOAD, PUT)]
            landed = any(job.landed for job, _ in self._listed())
            for go in ready:
                go(DONE)
            self.tick()
            if not ready and not landed:
                return


def _land(event: steps.Event, _outcome: Outcome) -> None:
    """Run a stream up to an event."""
    event.synchronize()


def stay(_outcome: Outcome) -> None:
    """A landed job doesn't go on."""
