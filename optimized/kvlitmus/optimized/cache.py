"""One cache without tiers: pool, tree and requests together, arrays in and arrays out.

:class:`FlatCache` is what a scheduler calls.  **Tokens** are integer arrays; a key is some tokens and a namespace
(LoRA id, cache salt; ``None`` for the default one).  **Pages** are arrays of page numbers of the device pool: slots
``page * page_size`` and following.  What is done with KV belongs to whoever computes; the cache only says where it is.

All methods belong to one thread, the scheduler's.
"""

from __future__ import annotations

import operator
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kvlitmus.optimized import cores, inputs
from kvlitmus.optimized.arrays import PageArray
from kvlitmus.optimized.branch import Found, Inserted, Match, Place, Run, Units
from kvlitmus.optimized.calls import Calls, called
from kvlitmus.optimized.counters import Served, Stats
from kvlitmus.optimized.hashing import PathNames, pack_bigrams
from kvlitmus.optimized.inputs import StaleHandle, integers
from kvlitmus.optimized.policy import POLICIES
from kvlitmus.optimized.request import RequestTable, Running
from kvlitmus.optimized.slots import Numbers

if TYPE_CHECKING:
    from kvlitmus.optimized.event import CacheEvent, EventLog
    from kvlitmus.optimized.pool import PagePool
    from kvlitmus.optimized.tree import Tree


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheConfig:
    """What a cache is to be like.

    ``pages`` of ``page_size`` slots, besides the ``reserved`` ones at the start that are never handed out; the eviction
    ``policy``; whether keys are ``bigram`` s; ``dtype``: ``int32`` or ``int64`` tokens (bigrams are always of 64 bits).

    A hierarchy has ``host_pages`` and a ``write`` policy (``write_through``, ``write_through_selective``,
    ``write_back``).  Its prefetches have a ``stop`` policy (``best_effort``, ``wait_complete``, ``timeout``), a
    ``threshold`` in units below which none is worth it, and a ``rate_limit`` in units that running ones may occupy; a
    ``timeout`` is base, seconds per 1024 units and most seconds (0: none), of the units ``requested`` or found in
    storage (``hit``), from the ``submit`` or the ``first_poll`` on.  Fewer than ``load_threshold`` units are not worth
    a load; ``restored_counts``: whether the insert that brings a page back from the host is a hit.  ``core``: whose
    pool and tree these are (see :mod:`kvlitmus.optimized.cores`).

    Raises ``ValueError`` for what can't be, naming the field, what was expected and what was got.
    """

    page_size: int = 1
    pages: int = 32
    reserved: int = 1
    policy: str = "lru"
    bigram: bool = False
    dtype: str = "int32"
    host_pages: int = 0
    write: str = "write_through"
    stop: str = "best_effort"
    threshold: int = 0
    rate_limit: int = 0
    timeout: tuple[float, float, float] = (2.0, 0.1, 30.0)
    timeout_basis: str = "hit"
    timeout_from: str = "submit"
    load_threshold: int = 0
    restored_counts: bool = False
    core: str = cores.AUTO

    def __post_init__(self) -> None:
        own: dict[str, object] = {  # as Python's numbers: those of NumPy wrap around
            "page_size": inputs.whole("page_size", self.page_size, 1),
            "reserved": (reserved := inputs.whole("reserved", self.reserved, 0)),
            "pages": inputs.whole("pages", self.pages, 1, inputs.MOST_PAGES - reserved),
            "timeout": inputs.seconds("timeout", self.timeout, 3),
        }
        for name in ("host_pages", "threshold", "rate_limit", "load_threshold"):
            own[name] = inputs.whole(name, getattr(self, name), 0)
        for name, value in own.items():
            object.__setattr__(self, name, value)
        inputs.one_of("policy", self.policy, POLICIES)
        inputs.one_of("core", self.core, cores.CORES)
        inputs.one_of("dtype", self.dtype, ("int32", "int64"))
        for name in ("bigram", "restored_counts"):
            inputs.flag(name, getattr(self, name))

    @property
    def unit_dtype(self) -> str:
        """The type of the tree's units."""
        return "int64" if self.bigram else self.dtype


def python_pool() -> type[PagePool]:
    """The Python core's pool: imported when it is asked for."""
    from kvlitmus.optimized.pool import PagePool

    return PagePool


def python_tree() -> type[Tree]:
    """The Python core's tree: imported when it is asked for."""
    from kvlitmus.optimized.tree import Tree

    return Tree


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The classes that a cache is made of: the Python core's; whoever tries a variant replaces one.

    ``core``: whose pool and tree they are, or stem from.
    """

    core: str = cores.PYTHON
    pool: type[PagePool] = field(default_factory=python_pool)
    tree: type[Tree] = field(default_factory=python_tree)
    requests: type[RequestTable] = RequestTable
    names: type[PathNames] = PathNames


def parts_of(core: str) -> Parts:
    """The parts that make up a core; only that one is imported."""
    if core == cores.PYTHON:
        return Parts()
    from kvlitmus.optimized import compiled

    native: Any = compiled  # it has the same methods
    return Parts(core=core, pool=native.CompiledPool, tree=native.CompiledTree, requests=native.CompiledRequests)


class Receipt:
    """What a lock is worth: one unlock of one path, in the tree that it was taken in.

    So there is one of it: ``TypeError`` for whoever would copy it, or send it to another process.
    """

    __slots__ = ("place", "tree")

    def __init__(self, place: Place, tree: Tree) -> None:
        self.place: Place | None = place
        self.tree = tree

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError("a receipt is worth one unlock, so it can't be copied")


class FlatCache:
    """One cache; fresh at first and after :meth:`reset`.

    ``core``: which core it has (see :mod:`kvlitmus.optimized.cores`); ``parts`` have theirs.  ``events``: whether
    :meth:`events` has any, or how many may wait for it.
    """

    def __init__(self, config: CacheConfig, parts: Parts | None = None, *, events: bool | int = False) -> None:
        self.config = config
        self.log: EventLog | None = None
        if events is not False:
            from kvlitmus.optimized.event import LIMIT, EventLog  # it names pages, for which numba is needed

            self.log = EventLog(LIMIT if events is True else inputs.whole("events", events, 0))
        own = parts is not None and parts.core == cores.PYTHON
        self.core = cores.core_of(config.core, "it has parts of its own" if own else "")
        self.parts = parts or parts_of(self.core)
        self.earlier = Served()
        self.reset()

    def reset(self, *, abort: bool = False) -> Sequence[object]:
        """Forget everything; returns what could not be ended, of which there is nothing here.

        Slots that are in use would be handed out again.  So it raises ``ValueError``, and changes nothing, while
        requests run; with ``abort`` they are ended first, and nobody may write into their slots any more.  Retracted
        ones are forgotten.  Places and receipts from before are refused from now on.
        """
        self.may_reset(abort=abort)
        pool = self.parts.pool(self.config.pages, self.config.page_size, self.config.reserved)
        tree = self.make_tree(pool, None)
        fresh = not hasattr(self, "tree")
        self.tear()
        self.plant(tree)
        if self.log is not None and not fresh:
            self.log.clear()
        self.calls = tree.calls
        return ()

    def tear(self) -> None:
        """From here on nothing is of use, until the cache has the calls of a fresh tree."""
        calls = Calls()
        calls.torn = True
        self.calls = calls

    def may_reset(self, *, abort: bool) -> None:
        """Raise ``ValueError`` where requests run, unless they are to be aborted."""
        running = self.requests.running if hasattr(self, "requests") else {}
        if running and not abort:
            one = next(iter(running))
            raise ValueError(f"{len(running)} requests are running, {one!r} among them: end them, or reset(abort=True)")

    def make_tree(self, pool: PagePool, host: PagePool | None) -> Tree:
        """A fresh tree over this device pool and, where there is one, a host pool."""
        config = self.config
        return self.parts.tree(
            config.page_size,
            config.policy,
            pool,
            host=host,
            write_back=host is not None and config.write == "write_back",
            restored_counts=config.restored_counts,
            dtype=config.unit_dtype,
        )

    def plant(self, tree: Tree) -> None:
        """Use this tree, and its pool."""
        if hasattr(self, "requests"):
            self.earlier = self.served()
        self.pool = tree.pool
        self.tree = tree
        self.names = self.parts.names(tree, bigram=self.config.bigram)
        self.requests = self.parts.requests(self.pool, tree, bigram=self.config.bigram)
        if self.log is not None:
            self.log.follow(tree, self.names.names, self.arriving)

    def arriving(self) -> Sequence[Run]:
        """The pages whose host copies are not told of yet."""
        return ()

    def units(self, tokens: Numbers) -> Units:
        """The units of a key: its tokens, or its bigrams, one fewer.

        Raises ``ValueError`` for a token that doesn't fit, and for what is no sequence of integers.
        """
        bigram = self.config.bigram
        if not bigram and self.tree.takes(tokens):
            return tokens
        given = integers("tokens", tokens)
        return pack_bigrams(given) if bigram else self.tree.units_of(given)

    def named(self, tokens: Numbers) -> Units:
        """The same of tokens that are to be cached: each must have a name in storage (see :func:`inputs.tokens`)."""
        if not self.config.bigram and self.tree.takes_tokens(tokens):
            return tokens
        return self.units(inputs.tokens(tokens))

    # -- pool ----------------------------------------------------------------------------------

    def available(self) -> int:
        """How many slots could be handed out now."""
        if self.calls.torn:
            self.calls.refuse()
        return self.pool.available()

    def alloc(self, n: int) -> NDArray[np.int64] | None:
        """``n`` slots in whole pages, or ``None``; see :meth:`PagePool.alloc`."""
        if self.calls.torn:
            self.calls.refuse()
        return self.pool.alloc(n)

    def free(self, slots: Numbers) -> None:
        """Take slots back; see :meth:`PagePool.free`."""
        if self.calls.torn:
            self.calls.refuse()
        self.pool.free(integers("slots", slots))

    # -- tree ----------------------------------------------------------------------------------

    def match(self, tokens: Numbers, namespace: Hashable = None) -> Match:
        """The longest cached prefix of a key, in whole pages; it is used now."""
        if self.calls.torn:
            self.calls.refuse()
        return self.tree.match_pages(namespace, self.units(tokens))

    def resume(self, place: Place, tokens: Numbers) -> Found:
        """What is cached behind a place that the caller keeps locked: of a key that goes on with these tokens.

        Only these are looked at.  (For bigrams the first of them is the last token of the prefix.)
        """
        if self.calls.torn:
            self.calls.refuse()
        return self.tree.resume(place, self.units(tokens))

    def insert(
        self,
        tokens: Numbers,
        pages: Numbers,
        namespace: Hashable = None,
        *,
        priority: int = 0,
        chunked: bool = False,
    ) -> Inserted:
        """Cache the pages of a key, one for each whole page of its units.

        Of those that were cached ``already`` the caller's are not used and stay the caller's; the others are the
        tree's from now on.  A ``chunked`` insert is no hit.

        Raises ``ValueError``, and changes nothing, where one of these others is free, named twice, no page of the pool,
        or in the tree already.
        """
        if self.calls.torn:
            self.calls.refuse()
        given = integers("pages", pages)
        return self.tree.insert(namespace, self.named(tokens), given, priority=priority, counts=not chunked)

    def insert_behind(
        self, place: Place, tokens: Numbers, pages: Numbers, *, priority: int = 0, chunked: bool = False
    ) -> Inserted:
        """:meth:`insert` for a caller that keeps a place locked: tokens and pages are those that follow it.

        ``already`` counts from the root all the same.  (For bigrams the first token is the last one of the prefix.)
        """
        if self.calls.torn:
            self.calls.refuse()
        given = integers("pages", pages)
        return self.tree.insert_behind(place, self.named(tokens), given, priority=priority, counts=not chunked)

    def lock(self, place: Place) -> Receipt:
        """Protect the path to a place; the receipt gives the protection back, once.

        A place is good for as long as what it names is cached.  Raises :class:`StaleHandle`, a ``ValueError``, after
        that, after a :meth:`reset`, and for one of another cache.
        """
        if self.calls.torn:
            self.calls.refuse()
        receipt = Receipt(place, self.tree)
        self.tree.lock(place)
        return receipt

    def unlock(self, receipt: Receipt) -> None:
        """Give a protection back.

        Raises ``ValueError`` for a receipt that was given back already, and :class:`StaleHandle` for one of another
        cache or from before a :meth:`reset`.
        """
        calls = self.calls
        outer = calls.torn and calls.refuse()
        if receipt.place is None:
            raise ValueError("this receipt was given back already")
        if receipt.tree is not self.tree:
            raise StaleHandle("this receipt is of another cache, or from before a reset")
        calls.changed, calls.torn = outer and calls.changed, True
        try:
            self.tree.release(receipt.place)
            receipt.place = None
        except BaseException as error:
            calls.ended(error, outer)
            raise
        calls.torn = outer

    def evict(self, n: int) -> PageArray:
        """Make ``n`` slots free, the least valuable pages first, or as many as are not locked; the pages that are now.

        They are in ascending order, and the pool's again, which hands them out.
        """
        if self.calls.torn:
            self.calls.refuse()
        return self.tree.evict_pages(-(-operator.index(n) // self.config.page_size))

    def flush(self) -> int:
        """Forget all that is cached and not locked; how many slots became free.

        Requests go on, and what they and receipts have locked can still be found.  After new weights, say: whoever must
        not find it ends these first.
        """
        if self.calls.torn:
            self.calls.refuse()
        return self.tree.evict(self.tree.evictable) * self.config.page_size

    def sizes(self) -> tuple[int, int]:
        """How many cached slots could be evicted, and how many are protected."""
        if self.calls.torn:
            self.calls.refuse()
        return self.tree.evictable * self.config.page_size, self.tree.protected * self.config.page_size

    # -- requests ------------------------------------------------------------------------------

    def begin(self, rid: Hashable, tokens: Numbers, namespace: Hashable = None, *, priority: int = 0) -> Running | None:
        """Start a request: its cached prefix is locked, the rest allocated; ``None`` without enough memory.

        ``priority``: of what it will cache, see :meth:`insert`.
        """
        calls = self.calls
        outer = calls.torn and calls.refuse()
        given, priority = inputs.tokens(tokens), inputs.priority(priority)
        calls.changed, calls.torn = outer and calls.changed, True
        try:
            running = self.requests.begin(rid, namespace, given, priority)
        except BaseException as error:
            calls.ended(error, outer)
            raise
        calls.torn = outer
        return running

    @called
    def fork(self, rid: Hashable, of: Hashable) -> Running | None:
        """Start a request over the row of a running one: another beam, another sample of one prompt.

        It shares what that shares, and has slots of its own for the rest, into which the caller copies what is in the
        other's; ``None`` without enough memory.
        """
        return self.requests.fork(rid, of)

    @called
    def retract(self, rid: Hashable) -> bool:
        """A request gives up the device for a while: it is ended as by an abort, and its tokens are kept.

        The caller has copied what is in its row, if it is to find that again: see :meth:`resume_request`.
        """
        return self.requests.retract(rid)

    @called
    def resume_request(self, rid: Hashable) -> Running | None:
        """A retracted request runs again, in slots of its own; ``None`` without enough memory, and it stays retracted.

        The caller copies what was in its row into the new one.
        """
        return self.requests.resume(rid)

    @called
    def discard(self, rid: Hashable) -> None:
        """Abort a retracted request; raises ``KeyError`` where there is none of this id."""
        del self.requests.retracted[rid]

    def grow(self, rid: Hashable, tokens: Numbers) -> NDArray[np.int64] | None:
        """Slots for further tokens of a request, or ``None``."""
        calls = self.calls
        outer = calls.torn and calls.refuse()
        given = inputs.tokens(tokens)
        calls.changed, calls.torn = outer and calls.changed, True
        try:
            slots = self.requests.grow(rid, given)
        except BaseException as error:
            calls.ended(error, outer)
            raise
        calls.torn = outer
        return slots

    def take_back(self, rid: Hashable, n: int) -> int:
        """Forget the last ``n`` tokens of a request, none of which it shares; how many slots came free."""
        calls = self.calls
        outer = calls.torn and calls.refuse()
        calls.changed, calls.torn = outer and calls.changed, True
        try:
            freed = self.requests.take_back(rid, n)
        except BaseException as error:
            calls.ended(error, outer)
            raise
        calls.torn = outer
        return freed

    def publish(self, rid: Hashable, *, chunked: bool = False, upto: int | None = None) -> Running:
        """Cache what a request has computed: its first ``upto`` units, or all; it goes on with the tree's slots."""
        calls = self.calls
        outer = calls.torn and calls.refuse()
        calls.changed, calls.torn = outer and calls.changed, True
        try:
            running = self.requests.publish(rid, chunked=chunked, upto=upto)
        except BaseException as error:
            calls.ended(error, outer)
            raise
        calls.torn = outer
        return running

    def end(self, rid: Hashable, *, keep: bool | int) -> None:
        """Finish a request, of which all is computed or the first ``keep`` units; or abort it: it owns nothing then."""
        calls = self.calls
        outer = calls.torn and calls.refuse()
        calls.changed, calls.torn = outer and calls.changed, True
        try:
            self.requests.end(rid, keep=keep)
        except BaseException as error:
            calls.ended(error, outer)
            raise
        calls.torn = outer

    # -- observation ---------------------------------------------------------------------------

    def served(self) -> Served:
        """What became of requests and pages since the cache was made."""
        requests, tree = self.requests, self.tree
        now = Served(requests.begun, requests.tokens, requests.hits, tree.evicted, tree.evicted_host)
        return now.after(self.earlier)

    def stats(self) -> Stats:
        """What was counted since the cache was made, and how much there is of it now; from any thread."""
        return Stats(self.served(), len(self.requests.running), self.pool.free_count, 0, {}, {}, 0)

    @called
    def events(self) -> Sequence[CacheEvent]:
        """What happened since the last call, in order; nothing where events were not asked for."""
        if self.log is None:
            return ()
        self.calls.changed = True
        return self.log.take()
