"""The ports: what a cache offers to the suite, piece by piece.

An adapter is any object with some of these methods.  Nothing needs to be inherited, and the
presence of a method *is* the capability; a cache that has no tree simply has no ``match``.
Slots are plain integers; a returned sequence may be a list, a tuple or anything else that
iterates (an adapter for tensors returns ``tensor.tolist()``).

What makes adapters is a **target**: an object (often a module) with

``make(config) -> adapter``
    builds a fresh cache, or raises :class:`Unsupported` with a reason;
``profile``
    a :class:`Profile`: the legal choices that this cache makes;
``capabilities`` (optional)
    names the ports that the adapters will have, so that they are known before construction;
    without it one adapter is built to look;
``configs`` (optional)
    the configurations in which it is judged, instead of the suite's usual ones;
``version`` (optional)
    a line that reports show.

State is fresh per schedule: by ``reset()`` where the adapter has one, else by a new adapter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from kvlitmus.conformance.choices import CONFIG, PROFILE, checked
from kvlitmus.conformance.store_ports import STORE_PORTS
from kvlitmus.conformance.tier_ports import EVENT_PORTS, TIER_PORTS
from kvlitmus.spec.prefetch_plan import HostPool, PrefetchAsk, PrefetchPlan
from kvlitmus.spec.units import Key


class Unsupported(Exception):
    """Raised by ``make`` when a configuration can't be built; the reason is reported as *not applicable*."""


@checked("config", CONFIG)
@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What a target is asked to build; ``ValueError`` for what isn't legal (:mod:`~kvlitmus.conformance.choices`).

    ``pages`` counts usable pages (the reserved unit is on top).  ``pool`` says whether the pool
    to judge is the ``device``'s or the ``host``'s; a host pool comes without a tree.  With ``store`` a page
    store is judged alone (:mod:`~kvlitmus.conformance.store_ports`), without pool and tree.

    A hierarchy has ``host_pages`` > 0 usable pages of host memory and a ``write`` policy:
    ``write_through`` (a page is backed up when it is inserted), ``write_through_selective`` (at its second
    use) or ``write_back`` (when it is evicted).  ``storage``: ``none``, ``attached`` from the beginning, or
    attached ``later``.  For its prefetches: the ``stop`` policy (``best_effort``, ``wait_complete``,
    ``timeout``), the ``threshold`` in units below which none is worth it, and the ``rate_limit`` in
    units that running prefetches may occupy.
    """

    page_size: int = 1
    pages: int = 32
    policy: str = "lru"
    bigram: bool = False
    pool: str = "device"
    host_pages: int = 0
    write: str = "write_through"
    storage: str = "none"
    stop: str = "best_effort"
    threshold: int = 0
    rate_limit: int = 0

    @property
    def tiered(self) -> bool:
        """Whether there is a host tier below the device pool."""
        return self.host_pages > 0

    @property
    def label(self) -> str:
        """A short name such as ``page=4 lru``, stable across versions."""
        words = [f"page={self.page_size}", self.policy]
        if self.pages != 32:
            words.append(f"pages={self.pages}")
        if self.bigram:
            words.append("bigram")
        if self.pool != "device":
            words.append(self.pool)
        if self.tiered:
            words += [f"host={self.host_pages}", self.write]
        if self.storage != "none":
            words += [f"storage={self.storage}", self.stop]
        return " ".join(words)


@checked("profile", PROFILE)
@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The legal choices that decide outcomes; declared, so that nobody has to guess.  Raises as :class:`Config` does.

    reserved: pages at the start of the pool that are never handed out (0 or 1).
    align: what an allocation does with a size that is no multiple of the page: ``reject``
        (raises) or ``round_up``.
    evict_granularity: an eviction removes whole ``node`` s or single ``page`` s.
    evict_moment: memory is only taken from the tree in an explicit ``evict`` (``call``), or also
        inside an allocation (``alloc``).
    match_cap: a match may cover the whole key (``full``) or leaves one token to compute
        (``len-1``).
    duplicates: after an insert of what was cached already, the slots brought in vain are freed
        by the caller (``caller_frees``), by the cache (``cache_frees``), or stay the caller's
        (``kept``).
    publish: pages become matchable by an explicit call (``explicit``) or when they are allocated
        (``at_alloc``).
    hit_counts: what raises the count used by LFU and SLRU: ``insert`` (a new node starts with 1),
        ``match``, or ``none``.
    lock_touches: whether taking a lock counts as a use for recency.
    split_created: whether the upper half of a split node keeps the creation time (``keeps``) or
        gets a new one (``renews``); FIFO and FILO follow it.
    slru_hits: how many hits put a page into the protected segment of SLRU.
    clock: recency comes from a ``counter`` or from a ``wall`` clock that the adapter orders.
    misuse: what happens to a call that the contract forbids: ``reject`` (raises), ``ignore``
        (nothing changes), or ``undefined`` (not judged).

    Of hierarchies:

    attach: storage comes and goes at ``any_time``, or is attached ``at_start`` for good.
    reserve: a prefetch takes host memory when it is asked for (``submit``) or when storage has told
        how much it has (``hit``).
    backup_parent: what happens to a page whose parent isn't backed when it is due for backup: it waits
        (``skip``), or its ancestors go first (``chain``).
    fill_matched: whether a commit gives what it read to pages that are on the device alone.
    load_threshold: fewer units than these are not worth a load back.
    timeout: base, seconds per 1024 units, and most seconds (0: no limit) that a prefetch may take
        under the stop policy ``timeout``.
    timeout_basis: the units that count are those found in storage (``hit``) or those ``requested``.
    timeout_from: time runs from the ``submit`` or from the ``first_poll``.
    restored_counts: whether the insert that brings a page back to the device counts as a hit.
    commit: what a fetch has read counts at once, and gets into the tree when the request polls (``poll``);
        or it counts from the next tick on, which also commits a fetch that has ended (``tick``).
    host_duplicates: under write-back an eviction of the host leaves the host copies of pages that are on the device
        too (``kept``), or may drop them first (``reclaimed``).
    second_prefetch: what comes of a prefetch for a request that waits for one already: it is ``refused``, or nobody
        may ask (``undefined``).

    Of the names of pages:

    hash_scheme: the scheme by which pages are named in storage (:mod:`kvlitmus.spec.schemes`): ``kvlitmus-2`` and
        ``sglang-1`` are known, and judged byte by byte; under any other name only what every scheme owes is judged.

    Of page stores:

    store_put: of two values put under one key, the ``first`` or the ``last`` is kept, or ``either``.
    store_checks: a read makes sure of all ``bytes`` of an object, or of its ``length`` alone.
    """

    reserved: int = 1
    align: str = "reject"
    evict_granularity: str = "page"
    evict_moment: str = "call"
    match_cap: str = "full"
    duplicates: str = "caller_frees"
    publish: str = "explicit"
    hit_counts: str = "insert"
    lock_touches: bool = False
    split_created: str = "keeps"
    slru_hits: int = 2
    clock: str = "counter"
    misuse: str = "undefined"
    attach: str = "any_time"
    reserve: str = "submit"
    backup_parent: str = "skip"
    fill_matched: bool = False
    load_threshold: int = 0
    timeout: tuple[float, float, float] = (2.0, 0.1, 30.0)
    timeout_basis: str = "hit"
    timeout_from: str = "submit"
    restored_counts: bool = False
    commit: str = "poll"
    host_duplicates: str = "kept"
    second_prefetch: str = "refused"
    hash_scheme: str = "other"
    store_put: str = "either"
    store_checks: str = "bytes"


class Hit(NamedTuple):
    """The answer to a match.

    ``length`` units are cached, in ``slots`` (``None`` where the cache doesn't tell);
    ``handle`` names the place for :meth:`Locks.lock` until the next call that changes the tree.
    ``host``: how many further units are cached on the host alone; ``None`` where it isn't told.
    """

    length: int
    slots: Sequence[int] | None = None
    handle: object = None
    host: int | None = None


class Stored(NamedTuple):
    """The answer to an insert.

    ``already`` units were cached before.  ``to_free``: the slots that the caller has to free
    because the cache did not take them; ``None`` when the profile says who does.
    """

    already: int
    to_free: Sequence[int] | None = None


class Begun(NamedTuple):
    """The answer to ``begin`` and ``publish``: the request's slots, the first ``cached`` of them the tree's."""

    row: Sequence[int]
    cached: int


class Sizes(NamedTuple):
    """The tree's own counters, in units: what could be evicted, and what locks protect."""

    evictable: int
    protected: int


class NodeView(NamedTuple):
    """One node of the tree.

    ``parent`` is the index of the parent in :attr:`View.nodes` (parents come first), or -1 for a
    node directly under the root of its ``namespace``.  ``units`` and ``slots`` are the node's own,
    equally long.  ``locks``, ``hits`` and ``priority`` are ``None`` where they can't be seen.
    """

    parent: int
    namespace: str | None
    units: tuple[int | tuple[int, int], ...]
    slots: tuple[int, ...]
    locks: int | None = None
    hits: int | None = None
    priority: int | None = None


class View(NamedTuple):
    """A full snapshot: the pages on the free list, as they stand, and the nodes of the tree."""

    free: Sequence[int]
    nodes: Sequence[NodeView] = ()


class Pool(Protocol):
    """A pool of slots."""

    def alloc(self, n: int) -> Sequence[int] | None:
        """Hand out ``n`` slots in whole pages, or ``None`` when there are not enough."""

    def free(self, slots: Sequence[int]) -> None:
        """Take back the pages that these slots lie in: whole pages, each once; a part of one is misuse."""

    def available(self) -> int:
        """How many slots could be handed out now."""


class Extend(Protocol):
    """Allocation that continues a request's last page."""

    def alloc_extend(self, before: Sequence[int], after: Sequence[int], last: Sequence[int]) -> Sequence[int] | None:
        """Slots for positions ``before[i] .. after[i]-1`` of each request ``i``, concatenated.

        ``last[i]`` is the slot of position ``before[i] - 1``, or -1 for an empty request.
        """

    def alloc_decode(self, after: Sequence[int], last: Sequence[int]) -> Sequence[int] | None:
        """One slot for each request: the position ``after[i] - 1``."""


class FreeGroup(Protocol):
    """Frees that take effect together."""

    def free_group_begin(self) -> None:
        """From now on frees are collected."""

    def free_group_end(self) -> None:
        """All collected frees take effect."""


class PrefixTree(Protocol):
    """A map from prefixes to slots."""

    def match(self, key: Key) -> Hit:
        """The longest cached prefix of the key, in whole pages."""

    def insert(
        self, key: Key, slots: Sequence[int], *, protected: int = 0, priority: int = 0, chunked: bool = False
    ) -> Stored:
        """Cache the whole pages of the key under the given slots, one per unit.

        The first ``protected`` slots are the tree's own already, from an earlier match.
        ``chunked`` says that this continues the same request and is no new use.
        """


class Locks(Protocol):
    """Protection against eviction."""

    def lock(self, handle: object) -> object:
        """Protect the path to the matched place; returns the receipt."""

    def unlock(self, receipt: object) -> None:
        """Give the receipt back."""


class Evict(Protocol):
    """Making room."""

    def evict(self, n: int) -> int:
        """Free at least ``n`` slots of what is cached and unlocked, if there is so much; returns how many."""


class Requests(Protocol):
    """The life of a request.  The suite composes these from the parts above where an adapter lacks them."""

    def begin(self, rid: int, key: Key) -> Begun | None:
        """Match, lock, and allocate slots for the rest of the key; ``None``, and nothing changed, without memory."""

    def grow(self, rid: int, tokens: Sequence[int]) -> Sequence[int] | None:
        """Slots for further tokens; ``None`` when memory is short."""

    def publish(self, rid: int, *, chunked: bool) -> Begun:
        """Cache all of the request, which is computed; it goes on, with the tree's slots for what is cached."""

    def end(self, rid: int, *, keep: bool) -> None:
        """Finish (``keep``: cache all of it, which is computed) or abort; the request owns nothing afterwards."""


class PartlyComputed(Protocol):
    """Requests computed up to a unit (from what is cached to the row's length); composed, too, where there are none."""

    def publish_upto(self, rid: int, upto: int, *, chunked: bool) -> Begun:
        """Cache the whole pages of the first ``upto`` units; all else stays the request's own, in the same slots."""

    def end_upto(self, rid: int, upto: int) -> None:
        """Finish: cache the whole pages of the first ``upto`` units, free all else that is the request's own."""


class Counters(Protocol):
    """The tree's counters (depth 1)."""

    def sizes(self) -> Sizes:
        """What the tree says could be evicted and is protected."""


class Inspect(Protocol):
    """The full snapshot (depth 3)."""

    def view(self) -> View:
        """Everything, as it stands; it must change nothing."""


class Hashes(Protocol):
    """The keys under which pages are stored."""

    def page_hashes(self, key: Key, page_size: int, prior: str | None) -> Sequence[str]:
        """The hashes of the key's whole pages, chained from ``prior``; raises for a token beyond 32 bits."""


class Prefetch(Protocol):
    """The plan of a prefetch, before anything is read."""

    def plan_prefetch(self, ask: PrefetchAsk, host: HostPool) -> PrefetchPlan:
        """Reserve memory of ``host``, which the suite provides, for a read; or refuse and leave nothing behind."""


class Resettable(Protocol):
    """A fresh state without a new adapter."""

    def reset(self) -> None:
        """Forget everything."""


@runtime_checkable
class Target(Protocol):
    """What makes adapters."""

    profile: Profile

    def make(self, config: Config) -> object:
        """A fresh cache, or :class:`Unsupported`."""


PORTS: dict[str, tuple[str, ...]] = {
    "pool": ("alloc", "free", "available"),
    "extend": ("alloc_extend", "alloc_decode"),
    "group": ("free_group_begin", "free_group_end"),
    "tree": ("match", "insert"),
    "locks": ("lock", "unlock"),
    "evict": ("evict",),
    "requests": ("begin", "grow", "publish", "end"),
    "partial": ("publish_upto", "end_upto"),
    "counters": ("sizes",),
    "inspect": ("view",),
    "reset": ("reset",),
    "hashes": ("page_hashes",),
    "prefetch": ("plan_prefetch",),
    **EVENT_PORTS,
    **TIER_PORTS,
    **STORE_PORTS,
}
"""Capability → the methods that make it up."""


def capabilities_of(adapter: object) -> frozenset[str]:
    """The capabilities that an adapter has, by the presence of all methods of a port."""
    has = frozenset(
        port for port, methods in PORTS.items() if all(callable(getattr(adapter, name, None)) for name in methods)
    )
    return has | {"inspect"} if "tiers" in has else has
