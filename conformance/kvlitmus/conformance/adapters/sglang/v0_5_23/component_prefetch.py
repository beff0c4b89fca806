"""Prefetches of SGLang 0.5.23's unified cache with a window and states: what storage has comes to the host, on a CPU.

Targets: ``swa_fetched``, ``mamba_fetched`` and ``swa_mamba_fetched``.  The port ``component_prefetch`` speaks of
one tier.  SGLang's prefetches come to the host, so that is the tier here: the pools, the entries, hits, receipts
and evictions are the host's, and the device stays empty.

Real, as published, besides what the targets with host memory have: ``prefetch_from_storage``,
``check_prefetch_progress``, ``release_aborted_request``, ``drain_storage_control_queues`` and what they call;
``StorageAttachment``; the query and the reading of ``HybridCacheController`` with their threads; ``insert_host``
and the commits of the components; ``HiCacheFile.batch_exists_v2``, which says of what is stored how much is usable.
Replaced: the files themselves, of which the suite says which there are and which could be read; CUDA, as in
:mod:`~kvlitmus.conformance.adapters.sglang.v0_5_23.component_host`; the compiled SHA-256, by ``hashlib``.  A page
is read at a time.

What the adapter does:

* **A match** is ``match_prefix``; what it finds on both tiers together is on the host alone.  A **receipt** is
  ``inc_host_lock_ref``.  That locks of the KV the last node, before which nothing can go.  An **eviction** is
  ``evict_host``.
* **An insert** is what a prefetch from the root commits of which all came: ``insert_host`` and the components'
  commits, for each state and each run of a window.  **Places** come from ``alloc`` of the host's pools.
* **A prefetch** is ``prefetch_from_storage`` for the match, the query, and the scheduler step that takes memory.
  SGLang takes it when storage has answered, the port before.  So storage is asked twice: at first it has
  everything, and when the suite says what it has, the same query is asked again, and what is too much is given back
  as SGLang does where it was granted less KV.  A hit for which there is too little KV is cut by SGLang *after* the
  only answer; that is shown in ``tests/conformance/support/sglang_component_fetch.py``, and is no drawn schedule's.
* **The I/O** of each prefetch has a thread of its own, which does what SGLang's does for one after the other, so
  that the suite can end them in any order.  It begins when something is to have come.  What came out of SGLang's
  order (KV from the anchor on, then everything else) is played as its end; what would still be written then the
  adapter takes out of the pools until it is said to have ended.
* **A commit** is a scheduler step and ``check_prefetch_progress`` with the policy ``best_effort``; an **abort** is
  ``release_aborted_request``.  Both give back what the next steps free.
* **A reset** aborts what waits, and lets I/O end, as ``flush_cache`` does.

There is no limit to how much is prefetched at a time.  The threshold is that of the call, and a page at least.

Profile: what the code says.  The anchor's lock holds its window and its state; a commit to which something is
missing is dropped whole (``_check_hybrid_prefetch_result``); near the root a window is what there is of it.

Limits: single process; storage doesn't come and go, and nothing is written to it; what is stored has no contents.
"""

from __future__ import annotations

import itertools
import json
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from kvlitmus.conformance.adapters.sglang.common import steps
from kvlitmus.conformance.adapters.sglang.common.components import CAPABILITIES, PROFILE
from kvlitmus.conformance.adapters.sglang.common.hicache import SRT, BackendFactory
from kvlitmus.conformance.adapters.sglang.common.pools import MEM
from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign, Peer, install
from kvlitmus.conformance.adapters.sglang.v0_5_23.component_host import NEVER, PLAN
from kvlitmus.conformance.adapters.sglang.v0_5_23.environment import BACKEND, Hasher
from kvlitmus.conformance.adapters.sglang.v0_5_23.host_tree import CONTROL, HostTree, Places
from kvlitmus.conformance.ports import Config
from kvlitmus.spec.words.units import Key


@dataclass(eq=False)
class Fetch:
    """A prefetch: SGLang's handle and operation, where its anchor ends, and what of it the suite has said.

    ``reads``: of each component where the entries end that are read, and into which place.  ``ends``: by hash where a
    page ends.  ``came``: what can be read.  ``held``: the places that the adapter keeps out of the pools.  ``final``:
    what hasn't come by now never will.  ``settled``: the suite says that the I/O has ended.
    """

    handle: Foreign
    operation: Foreign
    start: int
    threshold: int
    reads: dict[str, dict[int, int]] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    came: dict[str, set[int]] = field(default_factory=dict)
    held: dict[str, list[int]] = field(default_factory=dict)
    thread: steps.Thread | None = None
    final: bool = False
    settled: bool = False
    over: bool = False


class Storage:
    """What is attached: ``there`` are the names of its files, all that are asked for if ``None``.

    ``names``: by SGLang's pools what the suite calls them.  ``fetch``: whose I/O goes on.
    """

    def __init__(self, module: Foreign, names: Mapping[Foreign, str]) -> None:
        self.names = names
        self.files: Foreign = object.__new__(module.HiCacheFile)
        self.files._get_component_key = lambda key, pool="kv": f"{key}.{pool}"  # noqa: SLF001 - names, without a folder
        self.files._collect_existing_component_keys = self.existing  # noqa: SLF001
        self.there: set[str] | None = None
        self.fetch: Foreign = None

    def existing(self, keys: Sequence[str], transfers: Sequence[Foreign] | None = None) -> set[str]:
        """The files that there are of these pages."""
        pools = ["kv", *(transfer.name for transfer in transfers or ())]
        names = {f"{key}.{pool}.bin" for key in keys for pool in pools}
        return names if self.there is None else names & self.there

    def batch_exists_v2(self, keys: Sequence[str], transfers: Foreign = None, extra_info: Foreign = None) -> Foreign:
        """What ``HiCacheFile`` says."""
        return self.files.batch_exists_v2(keys, transfers, extra_info)

    def batch_exists(self, keys: Sequence[str], extra_info: Foreign = None) -> int:
        """The same of KV alone."""
        return int(self.files.batch_exists_v2(keys, None, extra_info).kv_hit_pages)

    def batch_get(self, keys: Sequence[str], targets: Sequence[Foreign], _sizes: object = None) -> list[Foreign]:
        """Pages of KV, ``None`` for one that never comes."""
        return [page if self.arrives([("kv", key)]) else None for key, page in zip(keys, targets, strict=True)]

    def batch_get_v2(self, transfers: Sequence[Foreign], extra_info: Foreign = None) -> dict[str, list[bool]]:
        """Of each other pool which entries have come."""
        wants = [(self.names[one.name], key) for one in transfers for key in one.keys]
        self.arrives(wants)
        fetch = self.fetch
        return {
            one.name: [fetch.ends[key] in fetch.came.get(self.names[one.name], ()) for key in one.keys]
            for one in transfers
        }

    def arrives(self, wants: Sequence[tuple[str, str]]) -> bool:
        """Wait until all of these have come or never will; whether they have."""
        fetch, thread = self.fetch, steps.here()
        while True:
            there = all(fetch.ends[key] in fetch.came.get(name, ()) for name, key in wants)
            if there or fetch.final or thread is None:
                return there
            thread.stop()

    def register_mem_host_pool_v2(self, *_args: object) -> None:
        """Nothing to prepare."""

    def register_mem_pool_host(self, mem_pool_host: object) -> None:
        """Nothing to prepare."""

    def on_host_pools_registered(self) -> None:
        """Nothing to prepare."""

    def get_stats(self) -> None:
        """Nothing to tell."""


class ComponentPrefetch(HostTree):
    """The port ``component_prefetch``; its pools are the host's."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        load = install(PLAN)
        load(f"{SRT}.managers.cache_controller").STORAGE_BATCH_SIZE = 1
        load(f"{MEM}.cpp_utils.native_hash")._load_native_hash_module = lambda: Hasher  # noqa: SLF001
        self.ack = load(CONTROL).PrefetchAck
        self.handles = itertools.count(1)
        self.fetches: list[Fetch] = []
        self.backend = Storage(self.storage, {pool: name for name, pool in self.pools.items()})
        made: Foreign = self.backend
        BackendFactory.made = made
        done, why = self.cache.attach_storage_backend(
            BACKEND,
            storage_backend_extra_config_json=json.dumps({"prefetch_threshold": self.page}),
            hicache_storage_prefetch_policy="best_effort",
        )
        if not done:
            raise RuntimeError(why)
        self.controller.prefetch_capacity_limit = NEVER
        for entry in self.group.entries:
            entry.host_pool.pin_memory = False

    def component_reset(self) -> None:
        """As ``flush_cache`` does: who waits is aborted, and what is read ends first."""
        for fetch in [one for one in self.fetches if not one.over]:
            self.component_prefetch_abort(fetch)
        for fetch in list(self.fetches):
            self.component_prefetch_settled(fetch)
        super().component_reset()
        self.fetches.clear()

    # --- prefetches

    def released(self, work: Callable[[], object]) -> Places:
        """What became free while this was done."""
        before = {name: set(some) for name, some in self.component_free_places().items()}
        work()
        self.look()
        return {
            name: [place for place in some if place not in before[name]]
            for name, some in self.component_free_places().items()
        }

    def component_prefetch(
        self, handle: Foreign, key: Key, threshold: int
    ) -> tuple[Fetch | None, Places, dict[str, int]]:
        """``prefetch_from_storage``, of a storage that has everything, and the step that takes memory for it."""
        cache, control = self.cache, self.controller
        name = self.base.CacheRequestHandle(rid=str(next(self.handles)), attempt_id=0)
        start, before = self.depth(handle), self._held()
        cache.prefetch_threshold = max(threshold, self.page)
        self.backend.there = None
        cache.prefetch_from_storage(
            name,
            handle,
            array("q", key.tokens[start:]),
            cache.get_last_hash_value(handle),
            None,
            matched_prefix_tokens=array("q", key.tokens[:start]),
            extra_key=key.namespace,
            cache_salt=None,
            storage_hit_end=None,
        )
        while control.prefetch_queue.queue:
            control.prefetch_thread.resume()
        self.look()
        evicted = self._gone(before)
        if name not in cache.ongoing_prefetch:
            return None, {}, evicted
        (operation,) = control.prefetch_buffer.queue
        control.prefetch_buffer.queue.clear()
        fetch = Fetch(name, operation, start, cache.prefetch_threshold)
        self.fetches.append(fetch)
        return fetch, self.staged(operation), evicted

    def staged(self, operation: Foreign) -> Places:
        """The places that a prefetch has."""
        places = {"kv": self._to_places("kv", operation.host_indices)}
        for one in operation.pool_transfers or ():
            name = self.backend.names[one.name]
            places[name] = [] if one.host_indices is None else self._to_places(name, one.host_indices)
        return places

    def component_prefetch_found(
        self, fetch: Fetch, stored: Mapping[str, Sequence[int]]
    ) -> tuple[int, dict[str, dict[int, int]], Places]:
        """Storage is asked again; below the threshold nothing is read, and what was taken stays until the end."""
        operation = fetch.operation
        fetch.ends = {one: fetch.start + (at + 1) * self.page for at, one in enumerate(operation.all_hash_values)}
        files = {end: one for one, end in fetch.ends.items()}
        self.backend.there = {
            f"{files[end]}.{self.pools[name]}.bin" for name, ends in stored.items() for end in ends if end in files
        }
        _, hit = self.controller._storage_hit_query(operation)  # noqa: SLF001 - as the query's thread does
        hit = self.controller._sync_prefetch_hit_query(operation, hit)  # noqa: SLF001 - likewise
        if hit < fetch.threshold:
            return fetch.start, {}, {}
        hit = min(hit, len(operation.host_indices))
        back = self.released(partial(self.cut, fetch, hit))
        staged = self.staged(operation)
        keys = {self.backend.names[one.name]: one.keys for one in operation.pool_transfers or ()}
        fetch.reads = {
            name: {fetch.ends[key]: place for key, place in zip(some, staged[name], strict=True)}
            for name, some in ({"kv": operation.hash_value} | keys).items()
        }
        return fetch.start + hit, fetch.reads, back

    def cut(self, fetch: Fetch, hit: int) -> None:
        """A prefetch is of so many units, as where SGLang gets less KV than it asked for; what is behind is free."""
        operation, control = fetch.operation, self.controller
        rows, pages = operation.host_indices, hit // self.page
        operation.storage_hit_count, operation.hash_value = hit, operation.all_hash_values[:pages]
        operation.host_indices = rows[:hit]
        info = self.cache.ongoing_prefetch[fetch.handle]
        self.cache.ongoing_prefetch[fetch.handle] = info._replace(host_indices=rows[:hit])
        control.append_host_mem_release(rows[hit:])
        # What the reading thread asks when all KV is there; it asks again then.
        control._sync_trailing_keys(operation.pool_transfers or [], operation.hash_value, pages)  # noqa: SLF001

    def play(self, fetch: Fetch, came: Mapping[str, Sequence[int]], *, final: bool) -> None:
        """The I/O goes on until something is missing, or to its end."""
        fetch.came, fetch.final = {name: set(ends) for name, ends in came.items()}, final
        self.backend.fetch = fetch
        if fetch.thread is None:
            steps.Rig.current = self.rig
            fetch.thread = steps.Thread(partial(self.io, fetch.operation))
            fetch.thread.start()
        elif fetch.thread.alive:
            fetch.thread.resume()
        if fetch.thread.error is not None:
            raise fetch.thread.error

    def io(self, operation: Foreign) -> None:
        """What ``prefetch_io_aux_func`` does for one operation."""
        control = self.controller
        try:
            control._page_transfer(operation)  # noqa: SLF001
        finally:
            control.prefetch_sync_queue.put(self.ack(rid=operation.request_id, completed_req=True, operation=operation))

    def component_prefetch_settled(self, fetch: Fetch) -> Places:
        """The I/O has ended."""
        fetch.settled = True
        if not fetch.over:
            return {}

        def end() -> None:
            self.play(fetch, {}, final=True)
            self.component_free(fetch.held)
            fetch.held = {}

        back = self.released(end)
        self.forget(fetch)
        return back

    def forget(self, fetch: Fetch) -> None:
        """It is over, and its I/O has ended."""
        if fetch in self.fetches:
            self.fetches.remove(fetch)

    def component_prefetch_commit(self, fetch: Fetch, came: Mapping[str, Sequence[int]]) -> tuple[int, Places]:
        """A scheduler step and ``check_prefetch_progress``."""
        if not fetch.reads:
            return fetch.start, self.component_prefetch_abort(fetch)
        final = fetch.settled or not self.in_order(fetch, came)
        self.grafted = 0

        def commit() -> None:
            self.play(fetch, came, final=final)
            self.look()
            assert self.cache.check_prefetch_progress(fetch.handle)

        back = self.released(commit)
        fetch.over = True
        if fetch.settled:
            self.forget(fetch)
        elif final:
            self.hold(fetch)
            back = {name: [one for one in some if one not in fetch.held[name]] for name, some in back.items()}
        return fetch.start + self.grafted, back

    def in_order(self, fetch: Fetch, came: Mapping[str, Sequence[int]]) -> bool:
        """Whether it can have come before the rest: KV from the anchor on, and then all else at once."""
        reads = sorted(fetch.reads["kv"])
        many = sum(end in came.get("kv", ()) for end in reads)
        others = [end in came.get(name, ()) for name, some in fetch.reads.items() if name != "kv" for end in some]
        if set(reads[:many]) != {*reads} & {*came.get("kv", ())}:
            return False
        return not any(others) or (many == len(reads) and all(others))

    def hold(self, fetch: Fetch) -> None:
        """Take what has not come out of the pools, in which it is free: the suite's I/O may still write it."""
        for name in self.names:
            reads = fetch.reads.get(name, {})
            fetch.held[name] = [place for end, place in reads.items() if end not in fetch.came.get(name, ())]
            pool, kept = self.pools[name], set(self._to_rows(name, fetch.held[name]).tolist())
            if kept:
                rows = self.group.alloc(int(self.group.available_size(pool)), pool=pool)
                self.group.free(self._tensor([row for row in rows.tolist() if row not in kept]), pool=pool)

    def component_prefetch_abort(self, fetch: Fetch) -> Places:
        """``release_aborted_request``."""

        def abort() -> None:
            running = bool(fetch.reads) and not fetch.settled
            if running:
                self.play(fetch, {}, final=False)
            self.cache.release_aborted_request(fetch.handle)
            if not running:
                self.play(fetch, {}, final=True)

        back = self.released(abort)
        fetch.over = True
        if not fetch.reads or fetch.settled:
            self.forget(fetch)
        return back


_target = partial(
    Peer,
    plan=PLAN,
    capabilities=CAPABILITIES - {"component_sizes"} | {"component_prefetch"},
    build=ComponentPrefetch,
    policies=("lru",),
)


_FETCHED = replace(PROFILE, component_extent="path", component_shortfall="dropped", component_fetch_window="root")
_WINDOW = Config(page_size=4, pages=16, components="kv+swa")
_STATE = replace(_WINDOW, components="kv+state")

swa_fetched = _target(
    profile=_FETCHED,
    configs=(_WINDOW, replace(_WINDOW, page_size=16, pages=12), replace(_WINDOW, pages=12, bigram=True)),
)
mamba_fetched = _target(
    profile=replace(_FETCHED, component_points="end"), configs=(_STATE, replace(_STATE, page_size=1))
)
swa_mamba_fetched = _target(
    profile=replace(_FETCHED, component_points="end"),
    configs=(replace(_WINDOW, components="kv+swa+state"), replace(_WINDOW, pages=12, components="kv+swa+state")),
)
