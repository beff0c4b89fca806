"""What a specimen is made of: one class for each part, which a mutant may replace, and its profile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kvlitmus.conformance.specimen.components.claims import ComponentClaims
from kvlitmus.conformance.specimen.components.host import ComponentCopier
from kvlitmus.conformance.specimen.components.prefetch import ComponentFetcher
from kvlitmus.conformance.specimen.components.requests import ComponentRequestTable
from kvlitmus.conformance.specimen.components.storing import ComponentWriter
from kvlitmus.conformance.specimen.components.tree import ComponentJournal, ComponentPools, ComponentTree
from kvlitmus.conformance.specimen.components.writes import ComponentPolicy
from kvlitmus.conformance.specimen.prefix.backup import BackupQueue
from kvlitmus.conformance.specimen.prefix.fetch import Prefetcher
from kvlitmus.conformance.specimen.prefix.hashing import PageHasher
from kvlitmus.conformance.specimen.prefix.host import Copier, HostPool
from kvlitmus.conformance.specimen.prefix.load import Loader
from kvlitmus.conformance.specimen.prefix.pool import PagedPool
from kvlitmus.conformance.specimen.prefix.prefetch import PrefetchPlanner
from kvlitmus.conformance.specimen.prefix.put import PutQueue
from kvlitmus.conformance.specimen.prefix.request import RequestTable
from kvlitmus.conformance.specimen.prefix.tier import TierTree
from kvlitmus.conformance.specimen.prefix.tree import RadixTree
from kvlitmus.conformance.specimen.prefix.works import WorkTable
from kvlitmus.conformance.specimen.ranks import RankCache
from kvlitmus.conformance.specimen.sparse import RowTable
from kvlitmus.conformance.specimen.stores import PageShelf
from kvlitmus.spec.words.profile import Profile

PROFILE = Profile(misuse="reject", hash_scheme="kvlitmus-2", store_put="first", component_order="policy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a specimen is made of; a mutant replaces one or more of them."""

    pool: type[PagedPool] = PagedPool
    """The free list."""
    tree: type[RadixTree] = RadixTree
    """The prefix tree."""
    requests: type[RequestTable] = RequestTable
    """The running requests."""
    hashing: type[PageHasher] = PageHasher
    """The names of pages."""
    prefetch: type[PrefetchPlanner] = PrefetchPlanner
    """Plans of prefetches."""
    store: type[PageShelf] = PageShelf
    """A page store, judged alone."""
    sparse: type[RowTable] = RowTable
    """A sparse host pool, judged alone."""
    host: type[HostPool] = HostPool
    """Of a hierarchy: the host's pool."""
    copier: type[Copier] = Copier
    """Of a hierarchy: copies between device and host."""
    works: type[WorkTable] = WorkTable
    """Of a hierarchy: what is under way."""
    tiers: type[TierTree] = TierTree
    """Of a hierarchy: the tree, in the place of ``tree``."""
    backups: type[BackupQueue] = BackupQueue
    """Of a hierarchy: what is backed up."""
    loads: type[Loader] = Loader
    """Of a hierarchy: what is loaded back."""
    fetches: type[Prefetcher] = Prefetcher
    """Of a hierarchy: what is read from storage."""
    puts: type[PutQueue] = PutQueue
    """Of a hierarchy: what is written to storage."""
    component_pools: type[ComponentPools] = ComponentPools
    """Of a cache of components: the pools."""
    component_tree: type[ComponentTree] = ComponentTree
    """Of a cache of components: the tree."""
    component_journal: type[ComponentJournal] = ComponentJournal
    """Of a cache of components: what is told of it."""
    component_claims: type[ComponentClaims] = ComponentClaims
    """Of a cache of components: what callers own."""
    component_fetches: type[ComponentFetcher] = ComponentFetcher
    """Of a cache of components: prefetches."""
    component_copies: type[ComponentCopier] = ComponentCopier
    """Of a cache of components: copies between the tiers."""
    component_policies: type[ComponentPolicy] = ComponentPolicy
    """Of a cache of components: what is backed up by itself."""
    component_writes: type[ComponentWriter] = ComponentWriter
    """Of a cache of components: writes to storage."""
    component_requests: type[ComponentRequestTable] = ComponentRequestTable
    """Of a cache of components: its requests."""
    ranked: type[RankCache] = RankCache
    """One rank of several."""
    components: type[Any] | None = None
    """Takes the place of the whole, as a cache of components; ``None``: the usual one."""
    cache: type[Any] | None = None
    """Takes the place of the whole, as a flat cache; ``None``: the usual one."""
    tiered: type[Any] | None = None
    """Takes the place of the whole, as a hierarchy; ``None``: the usual one."""
