"""The interface of a flat cache: a pool of slots, a prefix tree, locks, eviction, requests; what they answer.

Slots and counts are integers, of whatever class (Python's, numpy's); a returned sequence may be a
list, a tuple or anything else that iterates.  A protocol is a **port**: a cache has it by having its methods, and nothing needs to be inherited.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kvlitmus.spec.interface.plans import HostPool, PrefetchAsk, PrefetchPlan
from kvlitmus.spec.words.units import Key


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
    because the cache did not take them.  ``None`` leaves it to the profile: with ``duplicates="caller_frees"`` these are
    the slots from ``protected`` to ``already``, else none.
    """

    already: int
    to_free: Sequence[int] | None = None


class Begun(NamedTuple):
    """The answer to ``begin`` and ``publish``: the request's slots, the first ``cached`` of them the tree's.

    Where the profile says that matches end inside a page, what is behind the last whole page is a copy in the request's own.
    """

    row: Sequence[int]
    cached: int


class Sizes(NamedTuple):
    """The tree's own counters, in units: what could be evicted, and what locks protect."""

    evictable: int
    protected: int


ORPHAN = -2
"""The parent of a node that the cache still lists, though the node above it is not in the tree any more."""


class NodeView(NamedTuple):
    """One node of the tree.

    ``parent`` is the index of the parent in :attr:`View.nodes` (parents come first), or -1 for a
    node directly under the root of its ``namespace``, or :data:`ORPHAN` where the node above it is gone: a cache that
    lists its nodes from a table can say so.  ``units`` and ``slots`` are the node's own,
    equally long; those of an orphan may begin with all units before it, by which it is known.  ``locks``, ``hits`` and ``priority`` are ``None`` where they can't be seen.
    """

    parent: int
    namespace: str | None
    units: tuple[int | tuple[int, int], ...]
    slots: tuple[int, ...]
    locks: int | None = None
    hits: int | None = None
    priority: int | None = None


class View(NamedTuple):
    """The free list as it stands (page numbers), and the nodes."""

    free: Sequence[int]
    nodes: Sequence[NodeView] = ()


class Pool(Protocol):
    """A pool of slots."""

    def alloc(self, n: int) -> Sequence[int] | None:
        """Hand out ``n`` slots in whole pages, or ``None`` when there are not enough."""

    def free(self, slots: Sequence[int]) -> None:
        """Take back the pages that these slots lie in: whole pages, each once; a part of one is misuse."""

    def available(self) -> int:
        """How many slots could be handed out now: those that are free; where allocations evict, what they could evict
        may be counted too.
        """


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

        There is a slot for each unit of these pages at least; slots behind them stay the caller's.
        The first ``protected`` slots are the tree's own already, from an earlier match.
        ``chunked`` says that this continues the same request and is no new use.
        """


class Locks(Protocol):
    """Protection against eviction."""

    def lock(self, handle: object) -> object:
        """Protect the path to the matched place; returns the receipt.  Where nothing was matched, the path is empty."""

    def unlock(self, receipt: object) -> None:
        """Give the receipt back."""


class Evict(Protocol):
    """Making room."""

    def evict(self, n: int) -> int:
        """Free at least ``n`` slots, in whole pages, of what is cached and unlocked, if there is so much; returns how many."""


class Requests(Protocol):
    """The life of a request.  The suite composes these from the parts above where an adapter lacks them."""

    def begin(self, rid: int, key: Key) -> Begun | None:
        """Match, lock, and allocate slots for the rest of the key; ``None`` without memory; then only evictions and uses stay."""

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


class TakeBack(Protocol):
    """Tokens that are taken back from the end of a running request: rejected drafts, an edited answer."""

    def take_back(self, rid: int, n: int) -> int:
        """Forget the last ``n`` tokens, none of which is in the part that the request shares.

        The pages behind what is left come free; returns how many slots that is.
        """


class Fork(Protocol):
    """A second request over the row of a running one: beams, several samples of one prompt.

    A cache that would compute the last page anew doesn't fork: its caller begins another request with the same tokens.
    """

    def fork(self, rid: int, of: int) -> Begun | None:
        """Begin ``rid`` with all that the running request ``of`` has: it shares what that shares, in the same slots, and
        gets copies of its other slots in pages of its own; ``None`` without memory, and then only evictions stay.
        """


class Retract(Protocol):
    """Requests that give up the device for a while: their KV is copied to the host, and comes back with them."""

    def retract(self, rid: int) -> bool:
        """Copy the KV of a running request to memory of the host, all of its row, and end it on the device as an abort does.

        When this returns the copy is made, or read from pages that stay as they are until it is.  Of a page that a load
        is still filling, the copy holds what the load brings.  ``False`` where the host has no room for it, or such a
        load is to land first; then nothing has changed, and the request runs on.
        """

    def resume(self, rid: int) -> Begun | None:
        """Let a retracted request run again: it has a slot for each of its tokens, with the KV that it had, and what is
        cached by now it may share; ``None`` without memory, and then it stays on the host, and only evictions stay.
        """

    def discard(self, rid: int) -> None:
        """Abort a retracted request: its memory of the host is free."""


FORMS = ("own", "narrow", "floats", "flags", "rows", "single")
"""The forms of an array (:meth:`Raw.raw_array`); those from the third on are no sequence of integers."""


class Raw(Protocol):
    """The tree and the pool, with arrays as the cache's own callers have them: each is passed on as it is.

    An adapter neither looks at them nor converts or copies them; ``tokens`` are those of a whole key.
    """

    def raw_array(self, values: Sequence[int], form: str) -> object:
        """These values as callers pass them (``own``); as integers of fewer bits (``narrow``); or as what is no sequence
        of integers: ``floats``, ``flags`` (truth values), ``rows`` (two dimensions), ``single`` (none).  ``None`` where
        a caller has no such thing.
        """

    def raw_match(self, tokens: object, namespace: str | None) -> Hit:
        """A match of this key.

        The slots are the very sequence that the cache hands out, or, where it hands out the numbers of pages, one
        that writes into these; the suite writes into it, where it lets itself be written into.
        """

    def raw_insert(self, tokens: object, slots: object, namespace: str | None) -> Stored:
        """An insert of this key."""

    def raw_free(self, slots: object) -> None:
        """A free of these slots."""


class RawRequests(Protocol):
    """Requests that begin with the same arrays; a cache that has this port has :class:`Raw`, too."""

    def raw_begin(self, rid: int, tokens: object, namespace: str | None) -> Begun | None:
        """The beginning of a request with this prompt."""


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


class Flush(Protocol):
    """A reset that running requests outlive: after new weights, or before a measurement."""

    def flush(self) -> bool:
        """Forget all that is cached and that nobody protects; what requests and receipts protect stays, and can be found.

        A cache may refuse (``False``) while anybody has pages of the device; then nothing has changed.  Whoever must not
        find what was computed before retracts or ends the requests first.
        """


CACHE_PORTS: dict[str, tuple[str, ...]] = {
    "pool": ("alloc", "free", "available"),
    "extend": ("alloc_extend", "alloc_decode"),
    "group": ("free_group_begin", "free_group_end"),
    "tree": ("match", "insert"),
    "locks": ("lock", "unlock"),
    "evict": ("evict",),
    "requests": ("begin", "grow", "publish", "end"),
    "partial": ("publish_upto", "end_upto"),
    "take_back": ("take_back",),
    "fork": ("fork",),
    "retract": ("retract", "resume", "discard"),
    "raw": ("raw_array", "raw_match", "raw_insert", "raw_free"),
    "raw_requests": ("raw_begin",),
    "counters": ("sizes",),
    "inspect": ("view",),
    "reset": ("reset",),
    "flush": ("flush",),
    "hashes": ("page_hashes",),
    "prefetch": ("plan_prefetch",),
}
"""Those of a flat cache: capability → the methods that make it up."""
