"""SGLang 0.5.13.post1's hierarchies: the scheduler's part, prefetches and storage, and what happens meanwhile.

**Jobs** (:mod:`kvlitmus.conformance.adapters.sglang.common.jobs`).  A query is an operation in ``prefetch_queue``, a
fetch one in ``prefetch_buffer`` or in the hands of the thread that serves it, a put one in ``backup_queue``, in hands
or in ``ack_backup_queue`` (landed).

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

import contextlib
import itertools
import json
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import SimpleNamespace

from kvlitmus.conformance.adapters.sglang.common import steps
from kvlitmus.conformance.adapters.sglang.common.jobs import About, Asked, Known, Listed, stay
from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign
from kvlitmus.conformance.adapters.sglang.common.tiers import Hierarchy, require_hierarchy
from kvlitmus.conformance.adapters.sglang.v0_5_13.environment import PLAN, device_pool, modules, server_args
from kvlitmus.conformance.ports import Config, Hit, Stored, Unsupported
from kvlitmus.spec.interface.tiers import FETCH, LOAD, PUT, QUERY, Job, Loaded, Prefetched
from kvlitmus.spec.words.units import Key

QUEUES = ("prefetch_queue", "prefetch_buffer", "backup_queue")
"""What the controller's threads take their operations from."""


class Stepped(Hierarchy):
    """A hierarchy of this release whose background is held still."""

    plan = PLAN
    names: Iterator[int] = itertools.count(1)

    def __init__(self, config: Config) -> None:
        require_hierarchy(config)
        if config.host_pages < 2:
            raise Unsupported("HostKVCache has at least two pages")
        self._start_jobs()
        self.modules = modules()
        super().__init__(config)
        self.kv: Foreign = device_pool(config)
        self.allocator._kvcache = self.kv  # noqa: SLF001 - what its constructor would have been given
        self._build()

    # --- what differs from cache to cache

    def _make_cache(self) -> Foreign:
        """The cache, with its controller."""
        raise NotImplementedError

    def _host_pool(self) -> Foreign:
        """The host pool that holds KV."""
        raise NotImplementedError

    def _load_back(self, found: Foreign) -> Foreign:
        """``init_load_back``: the device slots of what comes back."""
        raise NotImplementedError

    def _backup_units(self, node_id: int) -> tuple[Foreign, int]:
        """The last node of a backup that is under way, and how many units it copies."""
        raise NotImplementedError

    def _put_node(self, operation: Foreign) -> Foreign:
        """The last node of a put."""
        raise NotImplementedError

    # --- building

    def _build(self) -> None:
        steps.Rig.current = self.rig
        self.cache: Foreign = self._make_cache()
        self.controller: Foreign = self.cache.cache_controller
        self.host: Foreign = self._host_pool()
        self._watch_alloc()

    @contextlib.contextmanager
    def _sized(self) -> Iterator[SimpleNamespace]:
        """The options of a server, by which the host pool gets its configured size.

        It has int(ratio * size) // page_size + 1 pages, and must be the larger one: meanwhile the device pool has one.
        """
        options, size = server_args(self.config), self.kv.size
        self.kv.size, options.hicache_ratio = self.config.page_size, self.config.host_pages - 0.5
        yield options
        self.kv.size = size

    # --- the tree

    def match(self, key: Key) -> Hit:
        """``match_prefix``; the handle is the last resident node."""
        found = self._find(key)
        slots = found.device_indices.tolist()
        return Hit(len(slots), slots, found.last_device_node, int(found.host_hit_length))

    def insert(
        self, key: Key, slots: Sequence[int], *, protected: int = 0, priority: int = 0, chunked: bool = False
    ) -> Stored:
        """``insert``."""
        del protected  # the tree doesn't ask
        return Stored(int(self._insert(key, slots, priority=priority, chunked=chunked).prefix_len))

    def load_back(self, key: Key) -> Loaded:
        """``PrefillAdder.add_one_req``: match, lock the resident part, ``init_load_back``; then the batch begins."""
        found = self._find(key)
        before = len(found.device_indices)
        if not found.host_hit_length:
            return Loaded(before, None)
        resident = found.last_device_node
        locked = self.cache.inc_lock_ref(resident)
        loaded = self._load_back(found)
        self.cache.dec_lock_ref(resident, locked.to_dec_params())
        if len(loaded):
            node, path = found.best_match_node, self._path(found.best_match_node)
            self._known[LOAD, node.id] = Known(node, next(self._ids), path, path.length - len(loaded))
        self._start_loads()
        return Loaded(before, loaded.tolist() if len(loaded) else None)

    # --- looking

    def _root(self) -> Foreign:
        return self.cache.root_node

    def _device(self) -> tuple[Foreign, Foreign]:
        return self.kv.k_buffer[0], self.kv.v_buffer[0]

    def _host_lists(self) -> list[Foreign]:
        return [self.host.free_slots]

    # --- what there is to do

    def _queued(self, queue: str) -> list[Foreign]:
        """What waits in one of the controller's queues."""
        waiting = getattr(self.controller, queue, None)
        return [] if waiting is None else [item for item in waiting.queue if item is not None]

    def _served_operations(self, queue: str) -> list[Foreign]:
        """What waits for a thread; after a detach there is none any more, and what is left is forgotten."""
        return self._queued(queue) if self.controller.enable_storage else []

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

    def _of_backup(self, ack: Foreign) -> About:
        node, units = self._backup_units(ack.node_ids[-1])
        key = self._path(node)
        return key, key.length - units, -1

    def _of_put(self, operation: Foreign) -> About:
        key = self._path(self._put_node(operation))
        return key, key.length - len(operation.host_indices), -1

    def _of_prefetch(self, operation: Foreign) -> About:
        asked = self._asked[id(operation)]
        end = asked.matched + len(operation.host_indices) + int(self.config.bigram)
        return asked.key._replace(tokens=asked.key.tokens[:end]), asked.matched, asked.rid

    def _load(self, load: Foreign) -> Known | None:
        return self._known.get((LOAD, load.node_ids[-1]))

    def _in_use(self, event: Foreign) -> bool:
        return any(ack.finish_event is event for ack in self.controller.ack_load_queue)

    def _operations(self) -> Listed:
        yield from self._served(QUERY, "prefetch_queue", "", self._of_prefetch)
        yield from self._served(FETCH, "prefetch_buffer", "", self._of_prefetch)
        yield from self._served(PUT, "backup_queue", "ack_backup_queue", self._of_put)

    def _served(self, kind: str, queue: str, done: str, about: Callable[[Foreign], About]) -> Listed:
        """The operations of one queue: landed ones, those in a thread's hands, those that wait."""
        waiting = getattr(self.controller, queue, None)
        if waiting is None:
            return
        for operation in self._queued(done) if done else ():
            known = self._know(kind, operation, partial(about, operation))
            yield Job(known.id, kind, known.key, known.start, known.rid, landed=True, ready=False), stay
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
            known = self._know(kind, operation, partial(about, operation))
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

    def _moving(self) -> Iterator[int]:
        for page in self._queued("host_mem_release_queue"):
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
        revoked = self._queued("prefetch_revoke_queue")
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
        found = self._find(key)
        last, matched = found.last_host_node, len(found.device_indices) + int(found.host_hit_length)
        before = self.cache.ongoing_prefetch.get(str(rid))
        tokens = array("q", key.tokens[matched:])
        if tokens and (last.backuped or last is self.cache.root_node):
            self.cache.prefetch_from_storage(str(rid), last, tokens, last.get_last_hash_value(), None)
        after = self.cache.ongoing_prefetch.get(str(rid))
        if after is None or after is before:
            return Prefetched(False, matched, 0)
        operation = after[3]
        self._asked[id(operation)] = Asked(operation, rid, key, matched)
        return Prefetched(True, matched, len(operation.host_indices), self._path(last).length)

    def poll(self, rid: int) -> bool:
        """``check_prefetch_progress``, which the scheduler asks before it admits a request."""
        steps.Time.seconds = self.seconds
        return not self.cache.enable_storage or bool(self.cache.check_prefetch_progress(str(rid)))

    def _handle(self, rid: int) -> str:
        return str(rid)

    def abandon(self, rid: int) -> None:
        """``Scheduler.abort_request``: ``release_aborted_request``, without storage ``terminate_prefetch``."""
        if self.cache.enable_storage:
            self.cache.release_aborted_request(str(rid))
        else:
            self.cache.terminate_prefetch(str(rid))

    # --- storage that comes and goes

    def _extra_config(self) -> str:
        """The storage options, as a server gets them."""
        return json.dumps({"prefetch_threshold": self.config.threshold})

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
        self._run_to_idle()
        super().reset()
        self._known.clear()
