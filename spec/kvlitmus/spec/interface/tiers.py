"""The interface of a hierarchical cache: a host tier and storage below the device pool.

They come on top of :mod:`kvlitmus.spec.interface.cache`, piece by piece as there: the presence of a
method is the capability.

**Who moves.**  One logical scheduler thread calls the adapter.  Whatever the cache does in the
background (copies, queries, fetches, puts) is a **job**: it is listed by :meth:`Steps.jobs`, and
goes on only when the suite says so by :meth:`Steps.advance`.  What a job has done takes effect
where the cache polls for it, in :meth:`Steps.tick`.  A cache with threads of its own satisfies
this by holding its threads at its storage and copy calls.

**What is stored.**  The suite brings the storage, a :class:`PageStore`, by
:meth:`Lifecycle.attach`.  Contents are plain integers, one per slot: what :meth:`Data.poke` wrote
into a device slot is what a backup copies to the host, a put hands to the store (one tuple per
page), a fetch brings back, a load copies to the device, and :meth:`Data.peek` shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kvlitmus.spec.words.units import Key

BACKUP, LOAD, QUERY, FETCH, PUT = JOB_KINDS = ("backup", "load", "query", "fetch", "put")
"""Device to host, host to device, what does storage have, storage to host, host to storage."""

SPILL, SPILLED = "spill", "spilled"
"""The copy to the host that an eviction makes under write-back: it can't be begun, or it fails once it is."""

COPY_FAILURES = (BACKUP, LOAD, SPILL, SPILLED)
"""What can be asked to fail by :meth:`CopyFaults.fail_copy`."""


class TierNode(NamedTuple):
    """One node of a tree whose pages are on the device, on the host, or both.

    ``parent``, ``namespace``, ``units``, ``locks``, ``hits`` and ``priority`` as in
    :class:`~kvlitmus.spec.interface.cache.NodeView`.  ``slots`` and ``host``: where the units are on
    the device and on the host, ``None`` where they are not.  A copy that is under way to a tier
    counts as being there already.  ``pins``: how many things protect the host copy (prefetches
    that begin below this node, puts that read from it, loads); ``None`` where that can't be seen.
    """

    parent: int
    namespace: str | None
    units: tuple[int | tuple[int, int], ...]
    slots: tuple[int, ...] | None
    host: tuple[int, ...] | None
    locks: int | None = None
    hits: int | None = None
    priority: int | None = None
    pins: int | None = None


class TierView(NamedTuple):
    """A full snapshot of a hierarchical cache.

    ``free``, ``host_free``: the pages on the free lists of the device and the host, as they stand.
    ``nodes``: the tree, parents first; the root is not a node.  ``moving``: every host slot that is
    neither free nor a node's because work in flight holds it: reserved by a prefetch, waiting in a
    release queue, in the hands of a thread.  A slot listed twice has two owners.
    """

    free: Sequence[int]
    nodes: Sequence[TierNode]
    host_free: Sequence[int]
    moving: Sequence[int] = ()


class Job(NamedTuple):
    """Work in the background.

    ``id``: never used twice by one cache.  ``kind``: one of :data:`JOB_KINDS`.  ``key``: the prefix
    at whose end the job's units end; ``start``: how many units of it come before the job's own.
    ``rid``: the request of a query or fetch, else -1.  ``done``: how many units a fetch has
    completed.  ``landed``: the work itself is over, and only the next tick's notice is missing.
    ``ready``: whether it can be advanced now (not landed, and not behind another job in one queue).
    ``failed``: whether it is over without success: what was to be copied isn't there, and who waits for it computes.
    """

    id: int
    kind: str
    key: Key
    start: int
    rid: int = -1
    done: int = 0
    landed: bool = False
    ready: bool = True
    failed: bool = False


class Outcome(NamedTuple):
    """How a job goes on when it is advanced.

    ``done``: to its end, as the store answers.  ``part``: a fetch or put goes on for ``pages``
    pages and stays under way (or ends, when nothing is left).  ``short``: a query finds at most
    ``pages`` pages; the store has ``pages`` more pages for a fetch and then a miss; it accepts
    ``pages`` more pages of a put and then refuses one.  ``fail``: the same, but at that point the store
    raises an exception.  Copies between device and host know ``done`` alone; a load that has layers
    also ``part``: it copies ``pages`` more layers.  Where copies can fail (:class:`CopyFaults`) they know ``fail``,
    too: the copy ends where it is, and what it was to fill holds anything.
    """

    how: str = "done"
    pages: int = 0


DONE = Outcome()

FAILED = Outcome("fail")


class Prefetched(NamedTuple):
    """What came of asking for a prefetch.

    ``started``; ``matched``: how many units of the key were found cached, on either tier, so that
    the prefetch begins behind them; ``asked``: how many units it set out to read (0 if refused).
    ``anchor``: at how many units the node ends below which it will attach what it reads, and from
    which it chains the names that it asks for; ``None`` where that can't be seen.
    """

    started: bool
    matched: int
    asked: int
    anchor: int | None = None


class Loaded(NamedTuple):
    """The answer to a load back: ``slots`` on the device for the units that were on the host alone, in order.

    ``slots`` is ``None`` when the cache declined or memory was short; ``before``: units that were on
    the device already.
    """

    before: int
    slots: Sequence[int] | None


class Event(NamedTuple):
    """What a cache tells the world about one page.

    ``what``: ``stored``, ``removed`` or ``cleared`` (everything, everywhere).  ``tier``: ``device`` or ``host``.
    ``page``: how the cache names the page, ``parent``: how it names the page before (``None`` at a
    root), both for ``stored``; ``units``: the page's own, for ``stored``; ``namespace`` likewise.
    """

    what: str
    tier: str = ""
    page: object = None
    parent: object = None
    units: Sequence[int | tuple[int, int]] = ()
    namespace: str | None = None


class PageStore(Protocol):
    """The storage that the suite brings: pages by name; the cache calls it, from any of its jobs."""

    def exists(self, names: Sequence[str]) -> int:
        """How many of these pages are stored, counted from the first one to the first that is not; may raise."""

    def get(self, name: str) -> tuple[int, ...] | None:
        """The contents of a page, one number per slot, or ``None``; may raise, and may be too short."""

    def put(self, name: str, contents: Sequence[int]) -> bool:
        """Store a page; ``False`` when the store refuses; may raise."""


class HostTier(Protocol):
    """A pool in host memory below the tree."""

    def host_available(self) -> int:
        """How many slots of the host pool could be handed out now."""

    def evict_host(self, n: int) -> int | None:
        """Drop host copies of at least ``n`` slots that nothing needs; how many, or ``None`` where it isn't told."""

    def load_back(self, key: Key) -> Loaded:
        """Bring what is cached of the key on the host alone back to the device: all of it, or nothing.

        The slots count as the tree's at once; their contents are right when the job has landed.
        """


class Layers(Protocol):
    """Loads that arrive layer by layer, so that a forward pass can begin before the last one is there."""

    def layers(self) -> int:
        """How many layers a load copies, one after the other."""

    def layers_ready(self, job: int) -> int:
        """How many layers of this load may be read, from the first one on; none when it has failed."""


class Quota(Protocol):
    """Loads that know a limit."""

    def load_back_within(self, key: Key, quota: int) -> Loaded:
        """As :meth:`HostTier.load_back`, unless more units would be loaded and newly locked than the quota says."""


class TierInspect(Protocol):
    """The full snapshot (depth 3) of a hierarchical cache; it takes the place of ``view``."""

    def tiers(self) -> TierView:
        """Everything, as it stands; it must change nothing."""


class Steps(Protocol):
    """Control over what happens in the background."""

    def jobs(self) -> Sequence[Job]:
        """All work under way, in the order in which it was started; it must change nothing."""

    def advance(self, job: int, outcome: Outcome) -> None:
        """Let one job go on.  What storage raises is the cache's to contain: this must not raise it."""

    def tick(self) -> None:
        """What a scheduler does once per step: take note of what has landed, release what is over."""


class Prefetching(Protocol):
    """Reading from storage into the host tier, ahead of a request."""

    def prefetch(self, rid: int, key: Key) -> Prefetched:
        """Match the key, and begin to read what follows from storage; or refuse.

        A request that waits for a prefetch already must not ask for another before a poll has answered ``True`` or
        it was abandoned, unless the profile says that the cache refuses (``second_prefetch``): an engine gives
        no two requests that are alive the same id.
        """

    def poll(self, rid: int) -> bool:
        """Whether the request need not wait any more; if so what was read is cached. ``True`` for unknown requests."""

    def loaded(self, rid: int) -> int:
        """How many units the request's prefetch has added to the cache; told once, then 0.

        Asked right after the poll that has answered that the request need not wait, before the request asks for
        another prefetch: what is told of two prefetches at once is not specified.
        """

    def abandon(self, rid: int) -> None:
        """The waiting request is aborted: its prefetch ends, and nothing of it is cached."""

    def occupied(self) -> int:
        """How many units the running prefetches count against the rate limit."""


class RawPrefetching(Protocol):
    """Prefetches of arrays; a cache that has this port has :class:`~kvlitmus.spec.interface.cache.Raw`, too."""

    def raw_prefetch(self, rid: int, tokens: object, namespace: str | None) -> Prefetched:
        """A prefetch of the key with these tokens."""


class Lifecycle(Protocol):
    """Storage that comes and goes."""

    def attach(self, store: PageStore) -> bool:
        """Use this storage from now on; ``False`` when it is refused (one is attached already)."""

    def detach(self) -> bool:
        """Use no storage any more; what is under way to and from it ends."""


class Clock(Protocol):
    """Time, for timeouts."""

    def set_clock(self, seconds: float) -> None:
        """It is this late now; never earlier than before."""


class Faults(Protocol):
    """Allocations that fail."""

    def fail_host_alloc(self, after: int) -> None:
        """Of the host allocations to come, the one after the next ``after`` finds no memory, whatever is free."""


class CopyFaults(Protocol):
    """Copies between device and host that fail: under way, by :meth:`Steps.advance`, and where they are to begin.

    A copy that failed is noted by the next tick like one that has landed, in the order of submission, and its job
    ends there.  The cache may begin it again at once, as another job; else nothing of it is left.
    """

    def fail_copy(self, kind: str, after: int) -> None:
        """Of the copies of this kind (:data:`COPY_FAILURES`) to come, the one after the next ``after`` fails.

        A backup, load or spill fails where it is to begin: who moves contents raises.  The call in which that
        happens must not.
        """

    def failing(self) -> Sequence[str]:
        """The kinds of which a copy is still to fail, each once; it must change nothing."""


class MemoryFaults(Protocol):
    """Memory for the cache's own records that runs out in the middle of a call."""

    def fail_memory(self, after: int | None) -> None:
        """Of the times at which the cache takes memory, the one after the next ``after`` raises ``MemoryError``.

        The call in which it does may pass that on.  ``None``: nothing fails any more.
        """


class Data(Protocol):
    """Contents of slots."""

    def poke(self, slots: Sequence[int], values: Sequence[int]) -> None:
        """Write one number into each of these device slots, as computing KV would."""

    def peek(self, tier: str, slots: Sequence[int]) -> Sequence[int]:
        """What is in these slots of the ``device`` or the ``host``; anything for a slot that was never written."""


class Events(Protocol):
    """What is told to the world (depth 2)."""

    def events(self) -> Sequence[Event]:
        """What happened since the last call, in order.

        A flat cache has told of a change when the call that made it returns, or as many calls later as its profile lets
        events lag.
        """


TIER_PORTS: dict[str, tuple[str, ...]] = {
    "host": ("host_available", "evict_host", "load_back"),
    "layers": ("layers", "layers_ready"),
    "quota": ("load_back_within",),
    "tiers": ("tiers",),
    "steps": ("jobs", "advance", "tick"),
    "prefetching": ("prefetch", "poll", "loaded", "abandon", "occupied"),
    "raw_prefetching": ("raw_prefetch",),
    "lifecycle": ("attach", "detach"),
    "clock": ("set_clock",),
    "faults": ("fail_host_alloc",),
    "copy_faults": ("fail_copy", "failing"),
    "memory_faults": ("fail_memory",),
    "data": ("poke", "peek"),
}
"""Those of a hierarchy: capability → the methods that make it up."""

EVENT_PORTS: dict[str, tuple[str, ...]] = {"events": ("events",)}
"""What flat caches may have as well."""
