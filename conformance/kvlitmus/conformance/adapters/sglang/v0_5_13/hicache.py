"""SGLang 0.5.13.post1's ``HiRadixCache``: device, host and storage tiers, on a CPU.

Targets: ``hiradix`` (also the module itself), and ``hiradix_events``, the same with its events told.
They are two because with events SGLang hashes every page when it is inserted, without them only
while storage is attached; what later becomes of pages that have no hash is judged by the first.

The cache is built by its own constructor.  That one insists on a host pool larger than the device
pool; it is told of a device pool of one page, so that every size can be judged.  Everything that
it is told about hardware is in :mod:`kvlitmus.conformance.adapters.sglang.v0_5_13.environment`.

Profile: what the code says.  A prefetch reserves when it is asked for; a node whose parent isn't
backed up waits; a load back of fewer than 10 units isn't worth it; a prefetch may take 2 s, and 0.1 s
more per 1024 tokens found, at most 30 s; an insert that brings an evicted node back counts no hit.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from kvlitmus.conformance.adapters.sglang.common.pools import POLICIES
from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign, Peer
from kvlitmus.conformance.adapters.sglang.common.tiers import HICACHE_PORTS, Telling
from kvlitmus.conformance.adapters.sglang.v0_5_13.environment import PLAN
from kvlitmus.conformance.adapters.sglang.v0_5_13.flat import PROFILE
from kvlitmus.conformance.adapters.sglang.v0_5_13.jobs import Stepped
from kvlitmus.conformance.ports import Config
from kvlitmus.spec.interface.tiers import TierNode


class HiRadix(Stepped):
    """``HiRadixCache`` with its controller, host pool and storage threads."""

    def _make_cache(self) -> Foreign:
        params = self._params(enable_kv_cache_events=self.telling)
        with self._sized() as options:
            cache = self.modules.hiradix.HiRadixCache(params, options)
        cache.token_to_kv_pool_host.pin_memory = False
        timeout, modules = cache.is_prefetch_timeout, self.modules

        def timed(operation: Foreign) -> bool:
            # The module asks one clock for recency and for timeouts.
            modules.hiradix.time = modules.late
            try:
                return bool(timeout(operation))
            finally:
                modules.hiradix.time = modules.counted

        cache.is_prefetch_timeout = timed
        return cache

    def _host_pool(self) -> Foreign:
        return self.cache.token_to_kv_pool_host

    def _tier_node(self, parent: int, node: Foreign) -> TierNode:
        return self._shown(parent, node, node, node.host_ref_counter)

    def _backup_units(self, node_id: int) -> tuple[Foreign, int]:
        node, units, _published = self.cache.ongoing_write_through[node_id]
        return node, units

    def _put_node(self, operation: Foreign) -> Foreign:
        return self.cache.ongoing_backup[operation.id]

    def _load_back(self, found: Foreign) -> Foreign:
        params = self.base.InitLoadBackParams(
            best_match_node=found.best_match_node, host_hit_length=found.host_hit_length
        )
        return self.cache.init_load_back(params)[0]

    def _attach(self) -> bool:
        # Every backend has a name of its own, so that a second one is another one.
        done, _message = self.cache.attach_storage_backend(f"litmus-{next(self.names)}", self._extra_config(), "litmus")
        return bool(done)


class HiRadixEvents(Telling, HiRadix):
    """The same, with its events told."""


HICACHE_PROFILE = replace(
    PROFILE,
    evict_amount="need",
    reserve="submit",
    backup_parent="skip",
    fill_matched=False,
    load_threshold=10,
    timeout=(2.0, 0.1, 30.0),
    timeout_basis="hit",
    timeout_from="submit",
    restored_counts=False,
    second_prefetch="undefined",  # the tokenizer manager refuses an id that is in use; the cache doesn't look
)


def hicache_configs(*policies: str) -> tuple[Config, ...]:
    """The configurations in which a hierarchy is judged: the host pool is the larger one, as SGLang wants it."""
    through = Config(page_size=4, pages=24, host_pages=32)
    stored = replace(through, storage="attached", threshold=8, rate_limit=64)
    return (
        through,
        replace(through, page_size=1),
        replace(through, page_size=16, pages=8, host_pages=12),
        replace(through, write="write_through_selective"),
        replace(through, write="write_back"),
        replace(through, write="write_back", pages=8, host_pages=10),
        *(replace(through, policy=policy) for policy in policies),
        *(replace(stored, stop=stop) for stop in ("best_effort", "wait_complete", "timeout")),
        replace(stored, page_size=1),
        replace(stored, write="write_through_selective"),
        replace(stored, write="write_back"),
        replace(stored, bigram=True),
        replace(stored, storage="later"),
    )


_target = partial(
    Peer, plan=PLAN, profile=HICACHE_PROFILE, configs=hicache_configs("lfu", "priority"), policies=POLICIES
)

hiradix = _target(build=HiRadix, capabilities=HICACHE_PORTS)
hiradix_events = _target(build=HiRadixEvents, capabilities=HICACHE_PORTS | {"events"})

profile = hiradix.profile
capabilities = hiradix.capabilities
make = hiradix.make
