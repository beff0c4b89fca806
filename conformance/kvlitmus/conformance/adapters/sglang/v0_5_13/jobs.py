"""What SGLang's hierarchical caches do in the background, job by job: copies, prefetches, puts.

**Jobs.**  A backup is an acknowledgement that the controller waits for (``ack_write_queue``), a
load likewise (``ack_load_queue``), or an operation that waits for its turn.  A query is an
operation in ``prefetch_queue``, a fetch one in ``prefetch_buffer`` or in the hands of the thread that
serves it, a put one in ``backup_queue``, in hands or in ``ack_backup_queue`` (landed).  Copies share
one stream per direction and operations one thread per kind: the first that hasn't landed is
ready, the rest wait behind it.  What a dead thread had in hand is no job any more, and what waits
for a dead thread is never ready.

**Memory under way.**  A prefetch that the cache knows (``ongoing_prefetch``) holds what it reserved
and has not given to the release queue; one that the cache has settled already, while a thread is
still busy with it, holds what it has not completed.  What only a dead thread knows is lost.

**Flushing.**  ``reset`` is the scheduler's ``flush_cache``, which does nothing before the server
``is_fully_idle``: waiting requests are aborted, copies and puts run to their end with scheduler
steps between, then cache and allocator are reset.  Threads may still be busy with aborted
prefetches, as in a server.  ``detach`` calls the cache as it stands: the cache says that it takes
care of what is under way.
"""

from __future__ import annotations

import itertools
import json
from array import array
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from kvlitmus.conformance.adapters.sglang.common import steps
from kvlitmus.conformance.adapters.sglang.common.hicache import Backend, BackendFactory
from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign
from kvlitmus.conformance.adapters.sglang.common.tiers import Hierarchy
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.ports.tiers import (
    BACKUP,
    DONE,
    FETCH,
    LOAD,
    PUT,
    QUERY,
    Job,
    Outcome,
    PageStore,
    Prefetched,
)
from kvlitmus.spec.units import Key

QUEUES = ("prefetch_queue", "prefetch_buffer", "backup_queue")
"""What the controller's threads take their operations from."""


class Known(NamedTuple):
    """What is remembered of a job: the thing itself, so that its identity stays its own, and what never changes."""

    thing: Foreign
    id: int
    key: Key
    start: int
    rid: int


class Asked(NamedTuple):
    """A prefetch that was started: the operation, the request's key, and where reading begins."""

    operation: Foreign
    key: Key
    matched: int
    rid: int


class Stepped(Hierarchy):
    """A hierarchy whose background is held still."""

    names: Iterator[int] = itertools.count(1)

    def __init__(self, config: Config) -> None:
        self.seconds = 0.0
        self.backend: Backend | None = None
        self._ids = itertools.count(1)
        self._known: dict[object, Known] = {}
        self._asked: dict[int, Asked] = {}
        super().__init__(config)

    # --- what differs from cache to cache

    def _backup_units(self, node_id: int) -> tuple[Foreign, int]:
        """The last node of a backup that is under way, and how many units it copies."""
        raise NotImplementedError

    def _put_node(self, operation: Foreign) -> Foreign:
        """The last node of a put."""
        raise NotImplementedError

    def _attach(self) -> bool:
        """Attach the backend that the factory is going to make."""
        raise NotImplementedError

    # --- what there is to do

    def _operations(self, queue: str) -> list[Foreign]:
        """What waits in one of the controller's queues."""
        waiting = getattr(self.controller, queue, None)
        return [] if waiting is None else [item for item in waiting.queue if item is not None]

    def _served_operations(self, queue: str) -> list[Foreign]:
        """What waits for a thread; after a detach there is none any more, and what is left is forgotten."""
        return self._operations(queue) if self.controller.enable_storage else []

    def _in_hands(self, *, alive: bool) -> list[Foreign]:
        """What living threads, or dead ones, have in hand."""
        return [t.hands for t in self.rig.threads if t.hands is not None and t.alive is alive]

    def _path(self, node: Foreign) -> Key:
        """The key of everything from the root to the end of a node."""
        path = []
        while node is not self.cache.root_node:
            path.append(node.key)
            node = node.parent
        tokens: list[int] = []
        for key in reversed(path):
            tokens.extend(key.token_ids[1:] if tokens and self.config.bigram else key.token_ids)
        return Key(path[0].extra_key if path else None, tuple(tokens), self.config.bigram)

    def _know(self, name: object, thing: Foreign, made: Callable[[Foreign], tuple[Key, int, int]]) -> Known:
        """What is known of this job; new ones get the next number."""
        known = self._known.get(name)
        if known is None:
            key, start, rid = made(thing)
            known = self._known[name] = Known(thing, next(self._ids), key, start, rid)
        return known

    def _of_backup(self, ack: Foreign) -> tuple[Key, int, int]:
        node, units = self._backup_units(ack.node_ids[-1])
        key = self._path(node)
        return key, key.length - units, -1

    def _of_put(self, operation: Foreign) -> tuple[Key, int, int]:
        key = self._path(self._put_node(operation))
        return key, key.length - len(operation.host_indices), -1

    def _of_prefetch(self, operation: Foreign) -> tuple[Key, int, int]:
        asked = self._asked[id(operation)]
        end = asked.matched + len(operation.host_indices) + int(self.config.bigram)
        return asked.key._replace(tokens=asked.key.tokens[:end]), asked.matched, asked.rid

    def _begun_load(self, node: Foreign, units: int) -> None:
        key = self._path(node)
        self._known[LOAD, node.id] = Known(node, next(self._ids), key, key.length - units, -1)

    def jobs(self) -> list[Job]:
        """Everything under way, in the order in which it was started."""
        listed = [job for job, _ in self._listed()]
        numbers = {job.id for job in listed}
        for name, known in list(self._known.items()):
            if known.id not in numbers:
                del self._known[name]
        wanted = {id(known.thing) for known in self._known.values()}
        self._asked = {number: asked for number, asked in self._asked.items() if number in wanted}
        return sorted(listed)

    def _listed(self) -> Iterator[tuple[Job, Callable[[Outcome], None]]]:
        """Everything under way, and how it goes on."""
        yield from self._backups()
        yield from self._loads()
        yield from self._served(QUERY, "prefetch_queue", "", self._of_prefetch)
        yield from self._served(FETCH, "prefetch_buffer", "", self._of_prefetch)
        yield from self._served(PUT, "backup_queue", "ack_backup_queue", self._of_put)

    def _backups(self) -> Iterator[tuple[Job, Callable[[Outcome], None]]]:
        ready = True
        for ack in self.controller.ack_write_queue:
            known = self._know((BACKUP, id(ack)), ack, self._of_backup)
            event = ack.finish_event
            job = Job(known.id, BACKUP, known.key, known.start, landed=event.query())
            yield job._replace(ready=ready and not job.landed), partial(_land, event)
            ready = ready and job.landed

    def _loads(self) -> Iterator[tuple[Job, Callable[[Outcome], None]]]:
        ready = True
        events = {ack.node_ids[-1]: ack.finish_event for ack in self.controller.ack_load_queue}
        waiting = {operation.node_ids[-1]: None for operation in self.controller.load_queue}
        for number, event in (events | waiting).items():
            known = self._known.get((LOAD, number))
            if known is None:  # the cache raised while it began this load
                continue
            job = Job(known.id, LOAD, known.key, known.start, landed=event is not None and event.query())
            go = ready and not job.landed and event is not None
            yield job._replace(ready=go), partial(_land, event)
            ready = ready and job.landed

    def _served(
        self, kind: str, queue: str, done: str, made: Callable[[Foreign], tuple[Key, int, int]]
    ) -> Iterator[tuple[Job, Callable[[Outcome], None]]]:
        """The operations of one queue: landed ones, those in a thread's hands, those that wait."""
        waiting = getattr(self.controller, queue, None)
        if waiting is None:
            return
        for operation in self._operations(done) if done else ():
            known = self._know((kind, id(operation)), operation, made)
            yield Job(known.id, kind, known.key, known.start, known.rid, landed=True, ready=False), _nothing
        queued = self._served_operations(queue)
        served: list[tuple[Foreign, steps.Thread | None]] = [
            *((operation, self.rig.holder(operation)) for operation in self._in_hands(alive=True)),
            *self._left_over(),
            # A queue is served by an idle thread from its beginning.
            *((operation, self.rig.idle(waiting) if operation is queued[0] else None) for operation in queued),
        ]
        for operation, thread in served:
            if self._kind(operation) != kind:
                continue
            known = self._know((kind, id(operation)), operation, made)
            units = operation.completed_tokens
            job = Job(known.id, kind, known.key, known.start, known.rid, done=units, ready=thread is not None)
            yield job, partial(self._resume, thread)

    def _left_over(self) -> list[tuple[Foreign, steps.Thread | None]]:
        """What waits for a thread in a queue that the controller has replaced, as a reset does to reads."""
        current = [getattr(self.controller, queue, None) for queue in QUEUES]
        return [
            (operation, None if at else thread)
            for thread in self.rig.threads
            if thread.alive and thread.queue is not None and not any(thread.queue is queue for queue in current)
            for at, operation in enumerate(item for item in thread.queue.queue if item is not None)
        ]

    def _kind(self, operation: Foreign) -> str:
        """What a thread does that has this in hand."""
        if not hasattr(operation, "request_id"):
            return PUT
        return FETCH if operation.hash_value else QUERY

    def _resume(self, thread: steps.Thread | None, outcome: Outcome) -> None:
        """Let a thread go on to its next stop; what the store answers meanwhile is the store's business."""
        if thread is None:
            return
        if self.backend is not None:
            self.backend.left = outcome.pages if outcome.how == "part" else None
        thread.resume()

    def advance(self, job: int, outcome: Outcome) -> None:
        """Let one job go on."""
        for listed, go in list(self._listed()):
            if listed.id == job and listed.ready:
                go(outcome)
                return

    def tick(self) -> None:
        """``check_hicache_events``, and what the next batches would start."""
        self.cache.check_hicache_events()
        self._start_loads()

    def _moving(self) -> Iterator[int]:
        for page in self._operations("host_mem_release_queue"):
            yield from page.tolist()
        ongoing = {id(info[3]): info[3] for info in self.cache.ongoing_prefetch.values()}
        held = {
            id(operation): operation
            for operation in (
                *self._served_operations("prefetch_queue"),
                *self._served_operations("prefetch_buffer"),
                *self._in_hands(alive=True),
                *(operation for operation, _thread in self._left_over()),
            )
            if self._kind(operation) != PUT
        }
        for operation in held.values():
            slots = operation.host_indices.tolist()
            yield from slots if id(operation) in ongoing else slots[operation.completed_tokens :]
        dead = {id(operation) for operation in self._in_hands(alive=False)}
        revoked = self._operations("prefetch_revoke_queue")
        for operation in ongoing.values():
            if id(operation) in held or (not operation.hash_value and operation.request_id in revoked):
                continue
            slots = operation.host_indices.tolist()
            over = operation.hash_value and id(operation) not in dead
            yield from slots[: operation.completed_tokens] if over else slots

    # --- prefetching

    def prefetch(self, rid: int, key: Key) -> Prefetched:
        """``Scheduler._prefetch_kvcache``: match; if what was found is backed up, ``prefetch_from_storage``."""
        if not self.cache.enable_storage:
            return Prefetched(False, 0, 0)
        steps.Time.seconds = self.seconds
        found = self._match(key)
        last, matched = found.last_host_node, len(found.device_indices) + int(found.host_hit_length)
        before = self.cache.ongoing_prefetch.get(str(rid))
        tokens = array("q", key.tokens[matched:])
        if tokens and (last.backuped or last is self.cache.root_node):
            self.cache.prefetch_from_storage(str(rid), last, tokens, last.get_last_hash_value(), None)
        after = self.cache.ongoing_prefetch.get(str(rid))
        if after is None or after is before:
            return Prefetched(False, matched, 0)
        operation = after[3]
        self._asked[id(operation)] = Asked(operation, key, matched, rid)
        return Prefetched(True, matched, len(operation.host_indices), self._path(last).length)

    def poll(self, rid: int) -> bool:
        """``check_prefetch_progress``, which the scheduler asks before it admits a request."""
        steps.Time.seconds = self.seconds
        return not self.cache.enable_storage or bool(self.cache.check_prefetch_progress(str(rid)))

    def loaded(self, rid: int) -> int:
        """``pop_prefetch_loaded_tokens``."""
        return int(self.cache.pop_prefetch_loaded_tokens(str(rid)))

    def abandon(self, rid: int) -> None:
        """``Scheduler.abort_request``: ``release_aborted_request``, without storage ``terminate_prefetch``."""
        if self.cache.enable_storage:
            self.cache.release_aborted_request(str(rid))
        else:
            self.cache.terminate_prefetch(str(rid))

    def occupied(self) -> int:
        """``prefetch_tokens_occupied``."""
        return int(getattr(self.controller, "prefetch_tokens_occupied", 0))

    def set_clock(self, seconds: float) -> None:
        """What ``time.monotonic()`` tells the timeouts."""
        self.seconds = seconds

    # --- storage that comes and goes

    def _extra_config(self) -> str:
        """The storage options, as a server gets them."""
        return json.dumps({"prefetch_threshold": self.config.threshold})

    def attach(self, store: PageStore) -> bool:
        """``attach_storage_backend``; the rate limit is the configured one instead of what the sizes give."""
        backend = Backend(store, self.page_size)
        steps.Rig.current, BackendFactory.made = self.rig, backend
        if not self._attach():
            return False
        self.backend = backend
        self.controller.prefetch_capacity_limit = self.config.rate_limit
        return True

    def detach(self) -> bool:
        """``detach_storage_backend``."""
        if not self.cache.enable_storage:
            return False
        done, _message = self.cache.detach_storage_backend()
        return bool(done)

    def _idle(self) -> bool:
        """What ``Scheduler.is_fully_idle`` asks of the cache."""
        cache = self.cache
        storage = cache.enable_storage and (cache.ongoing_prefetch or cache.ongoing_backup)
        return not (cache.ongoing_write_through or cache.ongoing_load_back or storage)

    def reset(self) -> None:
        """``Scheduler.flush_cache``, once the server is idle; a server that never gets idle is flushed as it is."""
        steps.Rig.current = self.rig
        for rid in list(self.cache.ongoing_prefetch):
            self.abandon(int(rid))
        while not self._idle():
            todo = [go for job, go in self._listed() if job.ready and job.kind in (BACKUP, LOAD, PUT)]
            landed = any(job.landed for job, _ in self._listed())
            if not todo and not landed:
                break
            for go in todo:
                go(DONE)
            self.tick()
        self.cache.reset()
        super().reset()
        self._known.clear()


def _land(event: steps.Event, _outcome: Outcome) -> None:
    """Run a stream up to an event."""
    event.synchronize()


def _nothing(_outcome: Outcome) -> None:
    """A landed job doesn't go on."""
