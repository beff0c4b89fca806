"""What runs in the background of SGLang 0.5.23's hierarchy, as jobs, and the memory that it holds.

**Jobs.**  A backup is an acknowledgement that the controller waits for (``ack_write_queue``), a
load likewise, or an operation that waits for its turn (``load_queue``).  A query is an operation in
``prefetch_queue`` or, answered, in ``prefetch_hit_queue``; a fetch one in ``prefetch_buffer``, in the
hands of the thread that reads, or one whose last acknowledgement waits in ``ack_prefetch_queue``; a put
one in ``backup_queue``, in hands or in ``ack_backup_queue``.  Copies share one stream per direction and
operations one thread per kind: the first that hasn't landed is ready, the rest wait behind it.
The thread that only passes acknowledgements on (``prefetch_sync_thread_func``) follows each step of
the reading thread.  What a dead thread had in hand is no job any more, and what waits for a dead
thread is never ready.

**Memory under way.**  A prefetch that the cache knows (``ongoing_prefetch``) holds all it has
allocated; one that the cache has settled already holds what it had not completed then, until its
last acknowledgement is drained (``_drain_ack_prefetch``).  Pages in ``host_mem_release_queue`` too.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from kvlitmus.conformance.adapters.sglang.common import steps
from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign
from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.ports.tiers import BACKUP, DONE, FETCH, LOAD, PUT, QUERY, Job, Outcome
from kvlitmus.spec.units import Key


class Known(NamedTuple):
    """What is remembered of a job: the thing itself, which must not be forgotten, and what never changes."""

    thing: Foreign
    id: int
    kind: str
    key: Key
    start: int
    rid: int = -1


class Asked(NamedTuple):
    """A prefetch that was started."""

    operation: Foreign
    rid: int
    key: Key
    matched: int


class Stage(NamedTuple):
    """Where the operations of one kind are: waiting, in a thread's hands, and over."""

    kind: str
    thread: Foreign
    waiting: list[Foreign]
    over: list[Foreign]


def upto(key: Key, units: int) -> Key:
    """The first units of a key."""
    return key._replace(tokens=key.tokens[: units + int(key.bigram and units > 0)])


class Background:
    """Jobs of a cache with SGLang 0.5.23's ``HybridCacheController``."""

    config: Config
    cache: Foreign
    controller: Foreign
    root: Foreign

    def start_background(self) -> None:
        """Nothing is under way."""
        self.rig = steps.Rig()
        steps.close_with(self, self.rig)
        self.backend: Foreign = None
        self._ids = itertools.count(1)
        self.forget_background()

    def forget_background(self) -> None:
        """Nothing is under way any more."""
        self._known: dict[tuple[str, int], Known] = {}
        self._asked: dict[int, Asked] = {}
        self.loads: list[tuple[Foreign, Key]] = []
        self.rig.threads[:] = [thread for thread in self.rig.threads if thread.alive]

    def remember_prefetch(self, operation: Foreign, rid: int, key: Key, matched: int) -> None:
        """This was started for that request."""
        self._asked[id(operation)] = Asked(operation, rid, key, matched)

    # --- names of things

    def path(self, node_id: Foreign) -> Key:
        """The key of everything from the root to the end of a node."""
        node = self.cache.tree_core.node_by_id(node_id)
        keys = []
        while node.parent is not None:
            keys.append(node.key)
            node = node.parent
        return self._key_of(keys[-1].extra_key if keys else None, tuple(unit for key in reversed(keys) for unit in key))

    def _key_of(self, namespace: str | None, units: tuple[Foreign, ...]) -> Key:
        tokens = (*(first for first, _ in units), units[-1][1]) if self.config.bigram and units else units
        return Key(namespace, tokens, self.config.bigram)

    def depth(self, node_id: Foreign) -> int:
        """How many units there are from the root to the end of a node."""
        (way,) = self.cache.tree_core.collect_path_info([node_id])
        return int(way[-1].path_end) if way else 0

    def _know(self, kind: str, thing: Foreign, key: Key | None, units: int, rid: int = -1) -> Known:
        """What is known of this job; new ones get the next number."""
        name = (kind, id(thing))
        known = self._known.get(name)
        if known is None:
            assert key is not None
            known = self._known[name] = Known(thing, next(self._ids), kind, key, key.length - units, rid)
        return known

    # --- jobs

    def jobs(self) -> list[Job]:
        """Everything under way, in the order in which it was started."""
        found = sorted([*self._backups(), *self._loads(), *self._operations()])
        here = {job.id for job in found}
        self._known = {name: known for name, known in self._known.items() if known.id in here}
        return found

    def _backups(self) -> Iterator[Job]:
        ready = True
        for ack in self.controller.ack_write_queue:
            known = self._known.get((BACKUP, id(ack.node_ids)))
            if known is None:
                known = self._know(BACKUP, ack.node_ids, self.path(ack.node_ids[-1]), ack.num_tokens)
            landed = ack.finish_event.query()
            yield Job(known.id, BACKUP, known.key, known.start, landed=landed, ready=ready and not landed)
            ready = ready and landed

    def _loads(self) -> Iterator[Job]:
        started = [(ack.node_ids, ack.num_tokens, ack.finish_event) for ack in self.controller.ack_load_queue]
        queued = [(load.node_ids, len(load.device_indices), None) for load in self.controller.load_queue]
        ready = True
        for nodes, units, event in [*started, *queued]:
            known = self._known.get((LOAD, id(nodes)))
            if known is None:
                known = self._know(LOAD, nodes, self.path(nodes[-1]), units)
            landed = event is not None and event.query()
            going = ready and event is not None and not landed
            yield Job(known.id, LOAD, known.key, known.start, landed=landed, ready=going)
            ready = ready and landed

    def _stages(self) -> list[Stage]:
        """The operations of the storage threads."""
        control = self.controller
        if getattr(control, "prefetch_queue", None) is None:
            return []
        settled = [ack.operation for ack in control.ack_prefetch_queue.queue if ack.completed_req]
        stages = [
            Stage(QUERY, control.prefetch_thread, control.prefetch_queue.queue, control.prefetch_hit_queue.queue),
            Stage(FETCH, control.prefetch_io_aux_thread, control.prefetch_buffer.queue, settled),
            Stage(PUT, control.backup_thread, control.backup_queue.queue, control.ack_backup_queue.queue),
        ]
        # Threads that were told to stop leave what nobody will take up again.
        return [stage for stage in stages if stage.thread.is_alive() or stage.thread.error is not None]

    def _operations(self) -> Iterator[Job]:
        """Queries, fetches and puts."""
        for stage in self._stages():
            alive, hands = stage.thread.is_alive(), stage.thread.hands
            for operation in stage.over:
                yield self._job(stage.kind, operation, landed=True)
            first = alive
            if hands is not None and alive:
                yield self._job(stage.kind, hands, ready=True)
                first = False
            for operation in stage.waiting:
                if operation is not None:
                    yield self._job(stage.kind, operation, ready=first)
                    first = False

    def _job(self, kind: str, operation: Foreign, *, landed: bool = False, ready: bool = False) -> Job:
        known = self._known.get((kind, id(operation)))
        if known is None:
            known = self._know_operation(kind, operation)
        done = self._arrived(operation) if kind == FETCH else 0
        return Job(known.id, kind, known.key, known.start, known.rid, done, landed, ready)

    def _arrived(self, operation: Foreign) -> int:
        """What a fetch has read: what the cache counts, or the acknowledgements that wait for a scheduler step tell."""
        waiting = [
            ack.completed_tokens
            for ack in self.controller.ack_prefetch_queue.queue
            if ack.operation is operation and ack.completed_tokens is not None
        ]
        return int(max([operation.completed_tokens, *waiting]))

    def _know_operation(self, kind: str, operation: Foreign) -> Known:
        if kind == PUT:
            node, _ = self.cache.ongoing_backup[operation.id]
            return self._know(PUT, operation, self.path(node), len(operation.host_indices))
        asked = self._asked[id(operation)]
        units = len(operation.token_ids) if kind == QUERY else operation.storage_hit_count
        return self._know(kind, operation, upto(asked.key, asked.matched + units), units, asked.rid)

    def advance(self, job: int, outcome: Outcome) -> None:
        """One job goes on: its stream up to its event, or its thread to its next stop."""
        known = next((known for known in self._known.values() if known.id == job), None)
        if known is None:
            raise ValueError(f"there is no job {job}")
        if known.kind in (BACKUP, LOAD):
            acks = self.controller.ack_write_queue if known.kind == BACKUP else self.controller.ack_load_queue
            ack = next(ack for ack in acks if ack.node_ids is known.thing)
            ack.finish_event.synchronize()
            return
        thread = next(stage.thread for stage in self._stages() if stage.kind == known.kind)
        self.backend.left = outcome.pages if outcome.how == "part" else None
        thread.resume()
        self._pass_on()

    def _pass_on(self) -> None:
        """The thread that passes acknowledgements on empties its queue."""
        control = self.controller
        while control.prefetch_sync_queue.queue and control.prefetch_sync_thread.is_alive():
            control.prefetch_sync_thread.resume()

    def start_backups(self) -> None:
        """``flush_pending_backups``, one submission per node.

        SGLang merges what is queued into one copy; here each node is acknowledged by itself, as it is
        when its insert is the only one of a batch.
        """
        queue = self.controller.write_queue
        while queue:
            rest = queue[1:]
            del queue[1:]
            self.cache.flush_pending_backups()
            queue.extend(rest)

    def start_loads(self) -> None:
        """``ready_to_load_host_cache``, one batch per load.

        A batch waits for its loads, so no more than the controller's three load events are in use
        at a time; a load for which none is left waits for a scheduler step.
        """
        counter, queue = self.controller.layer_done_counter, self.controller.load_queue
        while queue:
            event = counter.events[(counter.producer_index + 1) % counter.num_counters].finish_event
            if not event.query():
                return
            rest = queue[1:]
            del queue[1:]
            self.cache.ready_to_load_host_cache()
            queue.extend(rest)

    def tick(self) -> None:
        """``check_hicache_events``; then loads that had to wait begin."""
        self.cache.check_hicache_events()
        self.start_loads()

    def run_to_idle(self) -> None:
        """Scheduler steps, until nothing keeps ``is_fully_idle`` from agreeing, or nothing goes on any more."""
        while any(
            (
                self.cache.ongoing_write_through,
                self.cache.ongoing_load_back,
                self.cache.ongoing_prefetch,
                self.cache.ongoing_backup,
            )
        ):
            ready = [job for job in self.jobs() if job.ready and job.kind in (BACKUP, LOAD, PUT)]
            landed = any(job.landed for job in self.jobs())
            for job in ready:
                self.advance(job.id, DONE)
            self.tick()
            if not ready and not landed:
                return

    # --- memory

    def moving(self) -> Iterator[int]:
        """The host slots that work in flight holds, each as often as it is held."""
        control = self.controller
        if control.host_mem_release_queue is None:
            return
        for page in control.host_mem_release_queue.queue:
            yield from page.tolist()
        ongoing = {id(info.operation): info for info in self.cache.ongoing_prefetch.values()}
        for info in ongoing.values():
            if info.host_indices is not None:
                yield from info.host_indices.tolist()
        for stage in self._stages():
            if stage.kind == FETCH:
                hands = [stage.thread.hands] if stage.thread.is_alive() else []
                for operation in (*stage.waiting, *hands, *stage.over):
                    if operation is not None and id(operation) not in ongoing:
                        yield from operation.host_indices[operation.completed_tokens :].tolist()
