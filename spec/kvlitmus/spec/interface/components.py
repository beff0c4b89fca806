"""The interface of a cache of components: several kinds of state for one prefix, each in a pool.

It is asked for with ``Config(components=NAME)``, the name of a layout
(:data:`~kvlitmus.spec.words.layouts.LAYOUTS`), which says the components and the places of each pool.  An **entry** is a place
of its component's pool, a plain integer; it stands for ``unit`` tokens, and belongs to the prefix that ends with it.
The caller owns what it allocated until an insert takes it, or it is given back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from kvlitmus.spec.interface.cache import Sizes
from kvlitmus.spec.words.units import Key


class ComponentLookup(Protocol):
    """What every cache of components has, whether it serves requests by itself or not.

    All mappings are by the name of a component, unless said otherwise.
    """

    def component_match(self, key: Key) -> tuple[int, Mapping[str, Sequence[int]], object]:
        """The longest usable prefix, in units; of each component the entries that it needs there, in the order of the prefix; and a handle.

        The handle is good for :meth:`Components.component_lock`, until the next call that changes the cache; without
        locks nobody asks for it.
        """

    def component_reset(self) -> None:
        """Forget everything: what is cached, owned, locked, and running."""


class Components(Protocol):
    """A cache of components whose caller allocates, inserts, locks and evicts."""

    def component_alloc(self, wants: Mapping[str, int]) -> Mapping[str, Sequence[int]] | None:
        """So many entries of each of these components, or ``None``, with nothing taken."""

    def component_free(self, given: Mapping[str, Sequence[int]]) -> None:
        """Give entries back that the caller owns."""

    def component_insert(self, key: Key, entries: Mapping[str, Mapping[int, int]]) -> Mapping[str, Sequence[int]]:
        """Cache entries of a key: for each component where an entry ends, in units, and its place.

        Answers those that are left to the caller.  Whoever inserts brings the KV of everything behind the last hit, whose
        prefix is locked or was just found.
        """

    def component_lock(self, handle: object) -> tuple[object, Mapping[str, Sequence[int]]]:
        """Protect what a hit needs: a receipt, and of each component the ends of the entries that it covers, in units."""

    def component_unlock(self, receipt: object) -> None:
        """Give a receipt back, and with it the protection of exactly what it covers."""

    def component_evict(self, wants: Mapping[str, int]) -> Mapping[str, int]:
        """Free so many entries of each of these components; how many were freed of each, of those that went with them too."""


class ComponentRequests(Protocol):
    """A cache that serves requests by itself: it finds, protects, allocates, evicts, caches and releases.

    A request for a key begins with its hit and computes the rest in chunks, whose ends are common multiples of all
    alignments, or the end of the key.  After each call it says what the request holds: of each component its places
    by where they end, in units.  What it has computed may be found by others from then on.
    """

    def component_start(self, key: Key, chunk: int) -> tuple[object, int, Mapping[str, Mapping[int, int]]] | None:
        """Begin a request: its receipt, the length of its hit, and its places, for the hit and for ``chunk`` units behind it.

        The key has a unit at least, and ``chunk`` is positive.  ``None``: there is no room, and nothing has changed.
        """

    def component_grow(self, receipt: object, chunk: int) -> tuple[bool, Mapping[str, Mapping[int, int]]]:
        """Go on with ``chunk`` units more: whether there was room, and the request's places.

        What it needs no more is given back either way.
        """

    def component_finish(self, receipt: object) -> None:
        """End a request; what it computed stays cached, what isn't cached is free."""


class ComponentPrefetch(Protocol):
    """Fetching what storage has of a key behind a hit, of all components at once.

    Storage is the suite's: it says what is there and what came.  A prefetch is begun, told what storage has, and committed or
    aborted; its I/O runs from the answer of :meth:`component_prefetch_found` until :meth:`component_prefetch_settled`, which may
    be before or after the commit.
    """

    def component_prefetch(
        self, handle: object, key: Key, threshold: int
    ) -> tuple[object | None, Mapping[str, Sequence[int]], Mapping[str, int]]:
        """Reserve memory for what may be stored of a key behind a hit, and protect the KV of the hit.

        Answers the prefetch, or ``None`` where it is refused; the places reserved; and how many entries of each component
        were evicted for it.  It is refused if fewer than ``threshold`` units can be fetched.
        """

    def component_prefetch_found(
        self, fetch: object, stored: Mapping[str, Sequence[int]]
    ) -> tuple[int, Mapping[str, Mapping[int, int]], Mapping[str, Sequence[int]]]:
        """Storage has entries that end there, in units from the root; a component that isn't named has none.

        Answers the boundary up to which is read; of each component where the entries end that are, and into which place; and
        places that are given back already.  Where nothing is worth it the boundary is that of the hit, and nothing is read.
        """

    def component_prefetch_settled(self, fetch: object) -> Mapping[str, Sequence[int]]:
        """The I/O has ended and writes no more; the places that are given back now, of a prefetch that is over."""

    def component_prefetch_commit(
        self, fetch: object, came: Mapping[str, Sequence[int]]
    ) -> tuple[int, Mapping[str, Sequence[int]]]:
        """Cache what came, by component where the entries end; a component that isn't named has none.

        Answers where the KV ends that was cached, and the places given back: all but those attached and those that I/O may
        still write.  The prefetch is over.
        """

    def component_prefetch_abort(self, fetch: object) -> Mapping[str, Sequence[int]]:
        """Give a prefetch up; the places given back, all but those that I/O may still write."""


class ComponentHost(Protocol):
    """Host memory for all components: backups, and loads back from it.

    It is there with ``Config(components=NAME, host_pages=N)``.  The copying is the suite's: it says when a copy has ended, and
    whether it succeeded.  Until then what a copy is written to is neither cached nor free, and what its boundary needs stays
    where it is, on both tiers.
    """

    def component_back_up(
        self, handle: object
    ) -> tuple[object | None, Mapping[str, Mapping[int, int]], Mapping[str, int]]:
        """Copy to the host what a hit needs, of every component, as far as the host lacks it.

        Answers the copy, or ``None`` where it is refused or there is nothing to copy; of each component the places on the host, by
        where the entries end, in units; and how many entries of each component were evicted from the host for it.
        """

    def component_load(
        self, handle: object, key: Key
    ) -> tuple[object | None, int, Mapping[str, Mapping[int, int]], Mapping[str, int]]:
        """Copy to the device what it lacks for the longest prefix of a key that both tiers have together, behind a hit.

        Answers the copy, or ``None`` where it is refused or there is nothing behind the hit to load; the boundary that it is for, in
        units; of each component the places on the device by where the entries end; and how many entries of each component
        were evicted from the device for it.
        """

    def component_copied(self, copy: object, ok: bool) -> Mapping[str, Sequence[int]]:
        """A copy has ended: what it brought is cached on its tier, or, unless ``ok``, nothing is; the places that are given back.

        That is everything, if it failed, and otherwise what was brought for entries that are there by now.
        """

    def component_evict_host(self, wants: Mapping[str, int]) -> Mapping[str, int]:
        """Free so many entries of each of these components on the host; how many were freed of each, of those that went with them too."""


class ComponentBegun(NamedTuple):
    """A backup that a cache has begun by itself; it is for one boundary, and takes what :meth:`ComponentHost.component_back_up` would.

    ``copy``: ``None`` where it has ended already, or was refused.  ``namespace``, ``units``: all units of its prefix.  ``places``: of
    each component those on the host by where the entries end, in units; none of one that was refused.  ``evicted``: how many
    entries of each component were evicted from the host for it.
    """

    copy: object | None
    namespace: str | None
    units: Sequence[object]
    places: Mapping[str, Mapping[int, int]]
    evicted: Mapping[str, int]


class ComponentWrites(Protocol):
    """Backups that a cache begins by itself, as ``Config.write`` says."""

    def component_begun(self) -> Sequence[ComponentBegun]:
        """The backups that the call just made has begun by itself, in order; asked for once after each call.

        With ``write_back`` they come before the call, which evicts what they have saved, and have ended; otherwise they
        come after it.  One that has ended had ended before the next began.  A copy that is under way ends with
        :meth:`ComponentHost.component_copied`.
        """


class ComponentStorage(Protocol):
    """Storage behind the host: what is written to it from the host, and that it comes and goes.

    It is asked for with ``Config(components=NAME, host_pages=N, storage="attached")``, or ``"later"``, of a cache that
    prefetches as well.  Storage and its I/O are the suite's: it says what is there, when a write has ended, and whether it
    succeeded.  A reset forgets the writes, and leaves storage attached or not, as it is.
    """

    def component_attach(self) -> None:
        """Storage is there from now on; it wasn't before."""

    def component_detach(self) -> Mapping[str, Sequence[int]]:
        """Storage goes away, and every prefetch that isn't over is given up; the places given back, all but those that I/O may still write.

        Those are given back by :meth:`ComponentPrefetch.component_prefetch_settled`.  Copies between device and host go on, and
        writes that are under way still read host memory.
        """

    def component_write(
        self, handle: object, stored: Mapping[str, Sequence[int]]
    ) -> tuple[object | None, Mapping[str, Sequence[int]]]:
        """Write to storage, from the host, what the boundary of a hit needs and storage lacks.

        ``stored``: of each component where the entries of the key end, in units, that storage has; one that isn't named has none.
        Answers the write, or ``None`` where it is refused or there is nothing to write; and of each component where the entries end
        that are written.  What the boundary needs stays on the host until the write has ended.
        """

    def component_written(self, write: object, ok: bool) -> None:
        """A write has ended, ``ok`` or not; it reads nothing any more."""


class ComponentHostCounters(Protocol):
    """Counters of the host's pools."""

    def component_available_host(self) -> Mapping[str, int]:
        """How many places of each pool of the host are free."""


class ComponentHostView(Protocol):
    """A snapshot of the host."""

    def component_free_host(self) -> Mapping[str, Sequence[int]]:
        """The free places of each pool of the host, by the name of the pool."""

    def component_host_entries(self) -> Sequence[tuple[str, str | None, Sequence[object], int]]:
        """Every entry that is cached on the host, as :meth:`ComponentView.component_entries` says them of the device."""


class ComponentEvent(NamedTuple):
    """What a cache tells the world about one entry.

    ``what``: ``stored``, ``removed`` or ``cleared`` (everything, everywhere).  ``tier``: ``device`` or ``host``.
    ``component``, ``namespace``, ``units``: the entry, as :meth:`ComponentView.component_entries` names it: all units of the
    prefix that ends with it.
    """

    what: str
    tier: str = ""
    component: str = ""
    namespace: str | None = None
    units: Sequence[object] = ()


class ComponentEvents(Protocol):
    """What is told to the world of entries (depth 2)."""

    def component_events(self) -> Sequence[ComponentEvent]:
        """What happened since the last call, in order; a call has told of its changes when it returns.

        Where equal entries are all kept (``component_copies``), an entry is told as often as it comes, and goes when it was
        removed as often.
        """


class ComponentCounters(Protocol):
    """Counters of the pools."""

    def component_available(self) -> Mapping[str, int]:
        """How many places of each pool are free, by the name of the pool."""


class ComponentSizes(Protocol):
    """The cache's own counters of its entries on the device (depth 1)."""

    def component_sizes(self) -> Mapping[str, Sizes]:
        """Of each component how many entries could be evicted, and how many receipts protect.

        Whether a copy or a prefetch protects an entry in this sense, is the cache's own affair.
        """


class ComponentView(Protocol):
    """A snapshot."""

    def component_free_places(self) -> Mapping[str, Sequence[int]]:
        """The free places of each pool, by the name of the pool."""

    def component_entries(self) -> Sequence[tuple[str, str | None, Sequence[object], int]]:
        """Every cached entry: its component, the namespace and the units of the prefix that ends with it, and its place.

        Twice for one prefix only where the profile says so (``component_copies``).
        """


COMPONENT_PORTS: dict[str, tuple[str, ...]] = {
    "component_lookup": ("component_match", "component_reset"),
    "components": (
        "component_alloc",
        "component_free",
        "component_insert",
        "component_lock",
        "component_unlock",
        "component_evict",
    ),
    "component_prefetch": (
        "component_prefetch",
        "component_prefetch_found",
        "component_prefetch_settled",
        "component_prefetch_commit",
        "component_prefetch_abort",
    ),
    "component_host": ("component_back_up", "component_load", "component_copied", "component_evict_host"),
    "component_writes": ("component_begun",),
    "component_storage": ("component_attach", "component_detach", "component_write", "component_written"),
    "component_host_counters": ("component_available_host",),
    "component_host_view": ("component_free_host", "component_host_entries"),
    "component_events": ("component_events",),
    "component_requests": ("component_start", "component_grow", "component_finish"),
    "component_counters": ("component_available",),
    "component_sizes": ("component_sizes",),
    "component_view": ("component_free_places", "component_entries"),
}
"""Those of a cache of components: capability → the methods that make it up."""
