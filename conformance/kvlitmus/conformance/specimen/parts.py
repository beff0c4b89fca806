"""What a specimen is made of: one class for each part, which a mutant may replace, and its profile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kvlitmus.conformance.specimen.backup import BackupQueue
from kvlitmus.conformance.specimen.component_host import ComponentCopier
from kvlitmus.conformance.specimen.component_prefetch import ComponentFetcher
from kvlitmus.conformance.specimen.component_requests import ComponentRequestTable
from kvlitmus.conformance.specimen.component_storing import ComponentWriter
from kvlitmus.conformance.specimen.component_writes import ComponentPolicy
from kvlitmus.conformance.specimen.components import ComponentJournal, ComponentPools, ComponentTree
from kvlitmus.conformance.specimen.fetching import Prefetcher
from kvlitmus.conformance.specimen.hashing import PageHasher
from kvlitmus.conformance.specimen.host import Copier, HostPool
from kvlitmus.conformance.specimen.loading import Loader
from kvlitmus.conformance.specimen.pool import PagedPool
from kvlitmus.conformance.specimen.prefetch import PrefetchPlanner
from kvlitmus.conformance.specimen.putting import PutQueue
from kvlitmus.conformance.specimen.ranked import RankCache
from kvlitmus.conformance.specimen.requests import RequestTable
from kvlitmus.conformance.specimen.sparse import RowTable
from kvlitmus.conformance.specimen.store import PageShelf
from kvlitmus.conformance.specimen.tiers import TierTree
from kvlitmus.conformance.specimen.tree import RadixTree
from kvlitmus.conformance.specimen.works import WorkTable
from kvlitmus.spec.profile import Profile

PROFILE = Profile(misuse="reject", hash_scheme="kvlitmus-2", store_put="first", component_order="policy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a specimen is made of; a mutant replaces one or more of them.

    ``host`` to ``puts`` are the parts of a hierarchy, where ``tiers`` takes the place of ``tree``; ``ranked`` is one
    rank of several.
    ``component_pools``, ``component_tree``, ``component_journal``, ``component_fetches``, ``component_copies``,
    ``component_policies`` and ``component_writes`` (to storage) are those of a cache of components,
    ``component_requests`` that of its requests.  ``cache`` and
    ``tiered`` take the place of the whole, flat and as a hierarchy; ``None``: the usual one.
    """

    pool: type[PagedPool] = PagedPool
    tree: type[RadixTree] = RadixTree
    requests: type[RequestTable] = RequestTable
    hashing: type[PageHasher] = PageHasher
    prefetch: type[PrefetchPlanner] = PrefetchPlanner
    store: type[PageShelf] = PageShelf
    sparse: type[RowTable] = RowTable
    host: type[HostPool] = HostPool
    copier: type[Copier] = Copier
    works: type[WorkTable] = WorkTable
    tiers: type[TierTree] = TierTree
    backups: type[BackupQueue] = BackupQueue
    loads: type[Loader] = Loader
    fetches: type[Prefetcher] = Prefetcher
    puts: type[PutQueue] = PutQueue
    component_pools: type[ComponentPools] = ComponentPools
    component_tree: type[ComponentTree] = ComponentTree
    component_journal: type[ComponentJournal] = ComponentJournal
    component_fetches: type[ComponentFetcher] = ComponentFetcher
    component_copies: type[ComponentCopier] = ComponentCopier
    component_policies: type[ComponentPolicy] = ComponentPolicy
    component_writes: type[ComponentWriter] = ComponentWriter
    component_requests: type[ComponentRequestTable] = ComponentRequestTable
    ranked: type[RankCache] = RankCache
    cache: type[Any] | None = None
    tiered: type[Any] | None = None
