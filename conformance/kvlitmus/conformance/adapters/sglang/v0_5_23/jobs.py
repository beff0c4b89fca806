"""What runs in the background of SGLang 0.5.23's hierarchy, as jobs, and the memory that it holds.

**Jobs** (:mod:`kvlitmus.conformance.adapters.sglang.common.jobs`).  A query is an operation in ``prefetch_queue`` or,
answered, in ``prefetch_hit_queue``; a fetch one in ``prefetch_buffer``, in the hands of the thread that reads, or one
whose last acknowledgement waits in ``ack_prefetch_queue``; a put one in ``backup_queue``, in hands or in
``ack_backup_queue``.  The thread that only passes acknowledgements on (``prefetch_sync_thread_func``) follows each step
of the reading thread.

**Memory under way.**  A prefetch that the cache knows (``ongoing_prefetch``) holds all it has
allocated; one that the cache has settled already holds what it had not completed then, until its
last acknowledgement is drained (``_drain_ack_prefetch``).  Pages in ``host_mem_release_queue`` too.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from kvlitmus.conformance.adapters.sglang.common import steps
from kvlitmus.conformance.adapters.sglang.common.jobs import About, Jobs, Known, Listed, stay
from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign
from kvlitmus.conformance.ports import Config
from kvlitmus.spec.interface.tiers import FETCH, LOAD, PUT, QUERY, Job, Outcome
from kvlitmus.spec.words.units import Key


class Stage(NamedTuple):
    """Where the operations of one kind are: waiting, in a thread's hands, and over."""

    kind: str
    thread: Foreign
    waiting: list[Foreign]
    over: list[Foreign]


def upto(key: Key, units: int) -> Key:
    """The first units of a key."""
    return key._replace(tokens=key.tokens[: units + int(key.bigram and units > 0)])


class Background(Jobs):
    """Jobs of a cache with SGLang 0.5.23's ``HybridCacheController``."""

    config: Config

    def forget_background(self) -> None:
        """Nothing is under way any more."""
        self._known.clear()
        self._asked.clear()
        self.rig.threads[:] = [thread for thread in self.rig.threads if thread.alive]

    # --- names of things

    def _path(self, node: Foreign) -> Key:
        """The key of everything from the root to the end of a node."""
        node = self.cache.tree_core.node_by_id(node)
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

    # --- jobs

    def _of_backup(self, ack: Foreign) -> About:
        key = self._path(ack.node_ids[-1])
        return key, key.length - ack.num_tokens, -1

    def _load(self, load: Foreign) -> Known | None:
        def about() -> About:
            units = load.num_tokens if hasattr(load, "num_tokens") else len(load.device_indices)
            key = self._path(load.node_ids[-1])
            return key, key.length - units, -1

        return self._know(LOAD, load.node_ids, about)

    def _in_use(self, event: Foreign) -> bool:
        return not event.query()

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

    def _operations(self) -> Listed:
        for stage in self._stages():
            alive, hands = stage.thread.is_alive(), stage.thread.hands
            for operation in stage.over:
                yield self._job(stage.kind, operation, landed=True), stay
            go = partial(self._go_on, stage.thread)
            first = alive
            if hands is not None and alive:
                yield self._job(stage.kind, hands, ready=True), go
                first = False
            for operation in stage.waiting:
                if operation is not None:
                    yield self._job(stage.kind, operation, ready=first), go
                    first = False

    def _job(self, kind: str, operation: Foreign, *, landed: bool = False, ready: bool = False) -> Job:
        known = self._know(kind, operation, partial(self._of_operation, kind, operation))
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

    def _of_operation(self, kind: str, operation: Foreign) -> About:
        if kind == PUT:
            node, _ = self.cache.ongoing_backup[operation.id]
            key = self._path(node)
            return key, key.length - len(operation.host_indices), -1
        asked = self._asked[id(operation)]
        units = len(operation.token_ids) if kind == QUERY else operation.storage_hit_count
        key = upto(asked.key, asked.matched + units)
        return key, key.length - units, asked.rid

    def _go_on(self, thread: steps.Thread, outcome: Outcome) -> None:
        """A thread goes on to its next stop; the one that passes acknowledgements on empties its queue."""
        self._resume(thread, outcome)
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

    def _idle(self) -> bool:
        cache = self.cache
        under_way = (cache.ongoing_write_through, cache.ongoing_load_back, cache.ongoing_prefetch, cache.ongoing_backup)
        return not any(under_way)

    # --- memory

    def _moving(self) -> Iterator[int]:
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
