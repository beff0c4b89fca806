"""What SGLang's storage in files answers for a prefetch of several components, of two releases.

Target: ``hits_13``, 0.5.13.post1.  ``hits_23``, 0.5.23, is for tests alone: near the root that release reads a
shorter window and uses it, which the ports can't say.

Real is ``HiCacheFile.batch_exists_v2``: of pages that are stored of each pool it says how many are usable.  The
pools are those of ``UnifiedRadixCache``: a window and a state are asked for by their last pages
(``TRAILING_PAGES``), with as many placeholders as the window has pages.  Which files exist is listed by the adapter,
in place of the folder.

All else is the suite's reference: tree, pools, admission, reading and commit.  So a rule that a run passes says
nothing of SGLang, and only COMP-26 can be broken by it: up to where is read.  As in SGLang's controller, a hit below
the threshold is none.

Limits: one rank; the key is asked for from its anchor on, whose own components storage is not asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from kvlitmus.conformance.adapters.reference.components import ReferenceComponents
from kvlitmus.conformance.adapters.sglang.common.file import PLAN_13, PLAN_23
from kvlitmus.conformance.adapters.sglang.common.pools import MEM
from kvlitmus.conformance.adapters.sglang.common.stubs import Foreign, Peer, Plan, install
from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.spec.prefix.components.fetch import Origin, fetched, least_length, window_pages
from kvlitmus.spec.prefix.work import Fetch
from kvlitmus.spec.words.shapes import Window

PROFILE = Profile()
CAPABILITIES = frozenset(
    {
        "components",
        "component_lookup",
        "component_prefetch",
        "component_counters",
        "component_sizes",
        "component_events",
        "component_view",
    }
)
CONFIGS = (
    Config(page_size=4, pages=16, components="kv+swa+state"),
    Config(page_size=4, pages=16, components="kv+swa"),
)
POOLS = {"swa": "swa", "state": "mamba"}
"""What SGLang calls the pools of a layout, in the order in which it asks for them."""


class StorageHits(ReferenceComponents):
    """The reference, which reads as far as ``batch_exists_v2`` says."""

    def __init__(self, config: Config, plan: Plan) -> None:
        super().__init__(config, PROFILE)
        self.module: Foreign = install(plan)(f"{MEM}.hicache_storage")
        self.there: set[str] = set()
        self.store: Foreign = object.__new__(self.module.HiCacheFile)
        self.store._get_component_key = lambda key, pool="kv": f"{key}.{pool}"  # noqa: SLF001 - names, without a folder
        self.store._collect_existing_component_keys = lambda *_: self.there  # noqa: SLF001

    def component_prefetch_found(
        self, fetch: object, stored: Mapping[str, Sequence[int]]
    ) -> tuple[int, Mapping[str, Mapping[int, int]], dict[str, tuple[int, ...]]]:
        """Read up to the published answer, each entry into the lowest place left."""
        assert isinstance(fetch, int)
        layout, mine = self.setting.layout, self.cache.fetches[fetch]
        boundary = mine.start + self.hit(mine, stored) * self.setting.config.page_size
        if boundary - mine.start < least_length(layout, mine.threshold):
            boundary = mine.start
        rest = {pool: sorted(place for at, place in mine.reserved if at == pool) for pool in layout.places}
        reads: dict[str, dict[int, int]] = {}
        for one in layout.components:
            ends = fetched(one, Origin(mine.start), boundary) if one.name in mine.taken else ()
            reads[one.name] = {end: rest[one.pool].pop(0) for end in ends}
        then = mine._replace(boundary=boundary, reads=reads, answered=True, running=any(reads.values()))
        self.cache = self.cache._replace(fetches={**self.cache.fetches, fetch: then})
        return boundary, reads, {}

    def hit(self, fetch: Fetch, stored: Mapping[str, Sequence[int]]) -> int:
        """How many pages behind the anchor ``batch_exists_v2`` finds usable."""
        page, layout = self.setting.config.page_size, self.setting.layout
        self.there = {
            f"{end // page}.{POOLS.get(name, name)}.bin" for name, ends in stored.items() for end in ends if end > 0
        }
        keys = [str((fetch.start + at) // page) for at in range(page, fetch.length + 1, page)]
        transfers = []
        for name, pool in POOLS.items():
            if name in fetch.taken:
                shape = layout.named(name).shape
                many = window_pages(shape.reach, page) if isinstance(shape, Window) else 1
                policy = self.module.PoolHitPolicy.TRAILING_PAGES
                transfers.append(
                    self.module.PoolTransfer(name=pool, keys=["__placeholder__"] * many, hit_policy=policy)
                )
        return int(self.store.batch_exists_v2(keys, transfers).kv_hit_pages)


_target = partial(Peer, profile=PROFILE, capabilities=CAPABILITIES, configs=CONFIGS, policies=("lru",))

hits_13 = _target(plan=PLAN_13, build=partial(StorageHits, plan=PLAN_13))
hits_23 = _target(plan=PLAN_23, build=partial(StorageHits, plan=PLAN_23))
