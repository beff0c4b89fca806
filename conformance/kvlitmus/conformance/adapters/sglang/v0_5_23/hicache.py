"""SGLang 0.5.23's hierarchy: ``UnifiedRadixCache`` with a host tier and storage.

Targets: ``hicache_python`` (also the module itself) and ``hicache_rust``, by the tree; and each with its
events told, which are targets of their own because with events SGLang hashes pages when they are inserted.

See :mod:`kvlitmus.conformance.adapters.sglang.v0_5_23.environment` for what is real and what is
replaced, and :mod:`kvlitmus.conformance.adapters.sglang.v0_5_23.jobs` for what runs in the background.

The scheduler's part is played here as SGLang 0.5.23 plays it:

* **After an insert**: ``flush_pending_backups``, as at the end of ``process_batch_result``, node by node.
* **A step** (``tick``): ``check_hicache_events``.  Nobody waits in a queue here, so there are no
  retries of prefetches (``_process_storage_prefetch_retries``).
* **A request arrives** (``prefetch``): ``_prefetch_kvcache``: match, and if the deepest node is backed
  or the root, ``prefetch_from_storage`` with the tokens behind the match.  The key stands for what of
  a request may be matched: SGLang leaves the last token out (``_compute_max_prefix_len``), here that
  token isn't part of the key.
* **Admission** (``poll``): ``check_prefetch_progress``; when it agrees, the request is admitted, which ends
  its time budget (``finish_storage_prefetch_admission``).  ``load_back``: ``init_load_back`` for the match,
  then ``ready_to_load_host_cache``, one batch per load.
* **Abort**: ``finish`` with ``ABORT``, which is ``release_aborted_request``.
* **Flushing** (``reset``): ``flush_cache`` waits until ``is_fully_idle``: waiting requests are aborted,
  copies and puts run to their end with scheduler steps between, then cache and allocator are reset.
  Threads may be busy with aborted prefetches meanwhile.
* **Detaching** happens only when no request waits: those that do are aborted first.  Of the rest of
  ``is_fully_idle`` nothing is waited for: ``StorageAttachment`` says that it takes care of what is under way.
* Attaching a second backend of the same name is answered by SGLang with a change of policies; it
  keeps the first one, so here it counts as refused.

A request id is one of SGLang's handles, at its first attempt: retries of a request use the same.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

from kvlitmus.conformance.adapters.sglang.common import steps
from kvlitmus.conformance.adapters.sglang.common.jobs import Asked
from kvlitmus.conformance.adapters.sglang.common.pools import POLICIES
from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign, Peer
from kvlitmus.conformance.adapters.sglang.common.tiers import HICACHE_PORTS, Hierarchy, Telling, require_hierarchy
from kvlitmus.conformance.adapters.sglang.v0_5_23.environment import (
    BACKEND,
    HICACHE_PLAN,
    MEMORY,
    Backend23,
    KVPool,
    prepare,
)
from kvlitmus.conformance.adapters.sglang.v0_5_23.flat import PROFILE, Unified
from kvlitmus.conformance.adapters.sglang.v0_5_23.jobs import Background
from kvlitmus.conformance.adapters.sglang.v0_5_23.native_snapshot import NativeSnapshot
from kvlitmus.conformance.ports import Config, Hit, Stored
from kvlitmus.spec.interface.tiers import Loaded, Prefetched, TierNode
from kvlitmus.spec.words.units import Key, page_floor

HICACHE_PROFILE = replace(
    PROFILE,
    evict_amount="need",
    reserve="hit",
    backup_parent="chain",
    fill_matched=True,
    load_threshold=10,
    timeout=(1.0, 0.25, 0.0),
    timeout_basis="requested",
    timeout_from="first_poll",
    restored_counts=True,
    commit="tick",
    host_duplicates="reclaimed",
)


class Tiered(Background, Hierarchy, Unified):
    """``UnifiedRadixCache`` with the component FULL, a host tier and storage."""

    plan = HICACHE_PLAN
    backend_class = Backend23

    def __init__(self, core: str, config: Config) -> None:
        require_hierarchy(config)
        self._start_jobs()
        prepare()
        super().__init__(core, config)
        self.kv: KVPool = self.allocator.get_kvcache()
        self.handle_class = self.base.CacheRequestHandle
        self.abort = self.base.CacheRequestOutcome.ABORT
        MEMORY.hicache_write_policy = config.write
        MEMORY.hicache_storage_prefetch_policy = config.stop
        self.cache.init_hicache(SimpleNamespace(host_tokens=config.host_pages * config.page_size), self.params)
        self.controller: Foreign = self.cache.cache_controller
        self.host: Foreign = self.cache.full_kv_pool_host
        self._watch_alloc()

    def _params(self, **more: object) -> Foreign:
        self.allocator._kvcache = KVPool(self.config)  # noqa: SLF001 - allocators are built without KV
        return super()._params(**more, enable_kv_cache_events=self.telling)

    # --- the tree

    def match(self, key: Key) -> Hit:
        """``match_prefix``; the handle is the last resident node's id."""
        found = self._find(key)
        slots = self.cache.path_device_indices(found.last_device_node).tolist()
        return Hit(int(found.device_prefix_len), slots, found.last_device_node, int(found.host_hit_length))

    def insert(
        self, key: Key, slots: Sequence[int], *, protected: int = 0, priority: int = 0, chunked: bool = False
    ) -> Stored:
        """``insert``; pages that were on the host alone take the slots and don't count as cached before."""
        result = self._insert(
            key,
            slots,
            prev_prefix_len=protected,
            inserted_len=page_floor(key.length, self.page_size) if chunked else 0,
            priority=priority,
            track_adopted_ranges=True,
        )
        self._inserted(key, result)
        self.start_backups()
        known = int(result.prefix_len)
        adopted = [start for start, _ in (result.adopted_ranges or {}).get(self.full, ())]
        return Stored(min([known, *adopted]))

    def _inserted(self, key: Key, result: Foreign) -> None:
        """An insert has made this of the key."""

    # --- the host tier, and looking

    def _root(self) -> Foreign:
        return self.cache.tree_core.root_node

    def _device(self) -> tuple[Foreign, Foreign]:
        return self.kv.k, self.kv.v

    def _host_lists(self) -> list[Foreign]:
        return [self.host.free_slots, *self.host.release_slots]

    def load_back(self, key: Key) -> Loaded:
        """``init_load_back`` as ``PrefillAdder.add_one_req`` calls it, then the batch begins."""
        found = self._find(key)
        before = int(found.device_prefix_len)
        request = SimpleNamespace(
            rid="load",
            last_node=found.last_device_node,
            swa_host_hit_length=0,
            mamba_host_hit_length=0,
            kv=SimpleNamespace(mamba_pool_idx=None),
        )
        params = self.base.InitLoadBackParams(
            best_match_node=found.best_match_node, host_hit_length=found.host_hit_length, req=request
        )
        length, node = self.cache.init_load_back(params)
        if not length:
            return Loaded(before, None)
        slots = self.cache.path_device_indices(node).tolist()
        self._start_loads()
        return Loaded(before, slots[before:])

    # --- prefetches

    def _handle(self, rid: int) -> Foreign:
        return self.handle_class(rid=str(rid), attempt_id=0)

    def prefetch(self, rid: int, key: Key) -> Prefetched:
        """``Scheduler._prefetch_kvcache``."""
        cache, handle = self.cache, self._handle(rid)
        found = self._find(key)
        matched = int(found.device_prefix_len) + int(found.host_hit_length)
        node = found.last_host_node
        anchor = self.depth(node)
        before = cache.ongoing_prefetch.get(handle)
        if cache.enable_storage and (cache.is_backuped(node) or cache.is_root(node)):
            tokens = array("q", key.tokens)
            cache.prefetch_from_storage(
                handle,
                node,
                tokens[matched:],
                cache.get_last_hash_value(node),
                None,
                matched_prefix_tokens=tokens[:matched],
                extra_key=key.namespace,
                cache_salt=None,
                storage_hit_end=None,
            )
        info = cache.ongoing_prefetch.get(handle)
        if info is None or info is before:
            return Prefetched(False, matched, 0, anchor)
        self._asked[id(info.operation)] = Asked(info.operation, rid, key, matched)
        return Prefetched(True, matched, len(info.prefetch_key), anchor)

    def poll(self, rid: int) -> bool:
        """``check_prefetch_progress``, and the end of the request's time budget when it is admitted."""
        steps.Time.seconds = self.seconds
        handle = self._handle(rid)
        if not self.cache.check_prefetch_progress(handle):
            return False
        loaded = self.cache.prefetch_loaded_tokens_by_reqid.get(handle, 0)
        self.cache.finish_storage_prefetch_admission(handle, loaded, None)
        return True

    def abandon(self, rid: int) -> None:
        """``finish`` of an aborted request."""
        self.cache.finish(self._handle(rid), self.abort)

    def _abort_all(self) -> None:
        """Every request that waits is aborted."""
        for handle in list(self.cache.ongoing_prefetch):
            self.cache.finish(handle, self.abort)

    # --- storage that comes and goes

    def _attach(self) -> bool:
        """With the thresholds and policies of the configuration."""
        if self.cache.enable_storage:
            return False
        done, why = self.cache.attach_storage_backend(
            BACKEND,
            storage_backend_extra_config_json=json.dumps({"prefetch_threshold": self.config.threshold}),
            hicache_storage_prefetch_policy=self.config.stop,
        )
        if not done:
            raise RuntimeError(why)
        return True

    def detach(self) -> bool:
        """``detach_storage_backend``."""
        if not self.cache.enable_storage:
            return False
        self._abort_all()
        if self.backend is not None:
            self.backend.left = None
        done, why = self.cache.detach_storage_backend()
        if not done:
            raise RuntimeError(why)
        return True

    def reset(self) -> None:
        """``flush_cache``: wait until idle, then ``reset()`` of the cache and ``clear()`` of the allocator."""
        self._abort_all()
        self._run_to_idle()
        self.overtaken()
        steps.Rig.current = self.rig
        if self.backend is not None:
            self.backend.left = None
        super().reset()
        self.forget_background()
        self.allocation.left = None

    def overtaken(self) -> None:
        """What was told while a flush waited is overtaken by the clearing that follows."""
        self.cache.take_events()


class TieredRust(Tiered):
    """The same with the compiled tree, of which a native snapshot shows the nodes."""

    def __init__(self, core: str, config: Config) -> None:
        super().__init__(core, config)
        self.snapshot = NativeSnapshot(self.cache.tree_core, self.full, bigram=config.bigram)

    def _find(self, key: Key) -> Foreign:
        found = super()._find(key)
        resident = int(found.device_prefix_len)
        for node, end in (
            (found.last_device_node, resident),
            (found.best_match_node, resident + int(found.host_hit_length)),
        ):
            if end:
                self.snapshot.learn(node, key.units[:end])
        return found

    def _inserted(self, key: Key, result: Foreign) -> None:
        end = page_floor(key.length, self.page_size)
        if end:
            self.snapshot.learn(result.last_device_node, key.units[:end])

    def _path(self, node: Foreign) -> Key:
        self.snapshot.look()
        return self._key_of(self.cache.tree_core.prefetch_anchor_info(node)[0], self.snapshot.paths.get(node, ()))

    def _tier_nodes(self) -> list[TierNode]:
        return self.snapshot.nodes()

    def reset(self) -> None:
        """Forget who lived in the tree too."""
        super().reset()
        self.snapshot.forget()


class LoraNames(Telling):
    """Events that tell namespaces: each is an adapter (LoRA) whose name is known, as the scheduler makes it known."""

    params: Foreign

    def _key(self, key: Key) -> Foreign:
        if key.namespace is not None:
            request = SimpleNamespace(lora_id=key.namespace, extra_key=key.namespace)
            self.params.kv_event_lora_names.register(request, key.namespace)
        made: Foreign = super()._key(key)  # type: ignore[misc]
        return made


class TieredEvents(LoraNames, Tiered):
    """With its tree in Python, and its events told."""


class TieredRustEvents(LoraNames, TieredRust):
    """With its compiled tree, and its events told."""


_STORED = Config(
    page_size=4, pages=16, host_pages=24, storage="attached", stop="wait_complete", threshold=8, rate_limit=64
)

HICACHE_CONFIGS = (
    Config(page_size=1, pages=32, host_pages=48),
    Config(page_size=4, pages=16, host_pages=24),
    Config(page_size=4, pages=16, host_pages=24, write="write_through_selective"),
    Config(page_size=4, pages=16, host_pages=24, write="write_back"),
    _STORED,
    replace(_STORED, stop="best_effort"),
    replace(_STORED, stop="timeout"),
    replace(_STORED, write="write_through_selective"),
    replace(_STORED, write="write_back"),
    replace(_STORED, storage="later"),
    replace(_STORED, bigram=True),
    replace(_STORED, policy="slru"),
    replace(_STORED, page_size=1, pages=32, host_pages=48),
)

_target = partial(Peer, plan=HICACHE_PLAN, profile=HICACHE_PROFILE, configs=HICACHE_CONFIGS, policies=POLICIES)
_quiet = partial(_target, capabilities=HICACHE_PORTS)
_telling = partial(_target, capabilities=HICACHE_PORTS | {"events"})

hicache_python = _quiet(build=partial(Tiered, "python"))
hicache_python_events = _telling(build=partial(TieredEvents, "python"))
hicache_rust = _quiet(build=partial(TieredRust, "rust"))
hicache_rust_events = _telling(build=partial(TieredRustEvents, "rust"))

profile = hicache_python.profile
capabilities = hicache_python.capabilities
make = hicache_python.make
