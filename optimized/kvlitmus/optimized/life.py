"""The calls of a scheduler, and what follows from each on the host.

On the device every call does what it does without a host.  :class:`TieredCache` adds what follows: pages that come
back, backups that are due, puts that are outstanding; and it puts the parts together, the tree that knows which page is
on which tier and the state machines of what is under way.
"""

from __future__ import annotations

import functools
import operator
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from kvlitmus.optimized import inputs
from kvlitmus.optimized.arrays import PageArray
from kvlitmus.optimized.backup import USES, Backups
from kvlitmus.optimized.cache import CacheConfig, FlatCache, Parts, parts_of, python_pool
from kvlitmus.optimized.cores import PYTHON, core_of
from kvlitmus.optimized.event import HOST, STORED, CacheEvent
from kvlitmus.optimized.fetch import STOPS, Fetches, FetchSettings
from kvlitmus.optimized.host import HostTier
from kvlitmus.optimized.inputs import integers
from kvlitmus.optimized.late import LateWork
from kvlitmus.optimized.load import Loaded, Loads
from kvlitmus.optimized.mover import Mover, NullMover
from kvlitmus.optimized.pool import Numbers, PagePool
from kvlitmus.optimized.prefetch import PrefetchPlanner
from kvlitmus.optimized.put import Puts
from kvlitmus.optimized.request import Running
from kvlitmus.optimized.rows import Rows
from kvlitmus.optimized.storage.base import PageStore
from kvlitmus.optimized.tree import Inserted, Place, Run, Tree
from kvlitmus.optimized.work import BACKUP, LOAD, Runner, Stepped, Work, WorkTable

NOBODY = 0
"""No thread's number."""

SECONDS = 30.0
"""How long a reset waits for what is under way, if it isn't told."""

_Given = ParamSpec("_Given")
_Answer = TypeVar("_Answer")
_Cache = TypeVar("_Cache", bound="TieredCache")


def scheduled(
    method: Callable[Concatenate[_Cache, _Given], _Answer],
) -> Callable[Concatenate[_Cache, _Given], _Answer]:
    """A call of the scheduler's thread, made or not begun, with what it changed told at its end."""

    @functools.wraps(method)
    def call(cache: _Cache, /, *given: _Given.args, **named: _Given.kwargs) -> _Answer:
        if cache.owner_id is not None:
            cache.own()
        calls = cache.calls
        outer = calls.torn and calls.refuse()
        calls.changed, calls.torn = outer and calls.changed, True
        try:
            answer = method(cache, *given, **named)
            if cache.log is not None:
                cache.log.end_call()
        except BaseException as error:
            calls.ended(error, outer)
            raise
        calls.torn = outer
        return answer

    return call


@dataclass(frozen=True, slots=True, kw_only=True)
class TierParts(Parts):
    """The classes that a hierarchy is made of."""

    host_pool: type[PagePool] = field(default_factory=python_pool)
    host: type[HostTier] = HostTier
    works: type[WorkTable] = WorkTable
    backups: type[Backups] = Backups
    loads: type[Loads] = Loads
    puts: type[Puts] = Puts
    fetches: type[Fetches] = Fetches
    planner: type[PrefetchPlanner] = PrefetchPlanner
    late: type[LateWork] = LateWork


def tier_parts_of(core: str) -> TierParts:
    """The parts that make up a hierarchy on a core; only that one is imported."""
    parts = parts_of(core)
    made = TierParts(core=core, pool=parts.pool, host_pool=parts.pool, tree=parts.tree, requests=parts.requests)
    if core == PYTHON:
        return made
    from kvlitmus.optimized import compiled_copies as compiled

    return replace(made, backups=compiled.CompiledBackups, loads=compiled.CompiledLoads, puts=compiled.CompiledPuts)


def check(config: CacheConfig) -> None:
    """Raise ``ValueError`` for a configuration that no hierarchy can have."""
    known = {
        "write": USES,
        "stop": STOPS,
        "timeout_basis": ("hit", "requested"),
        "timeout_from": ("submit", "first_poll"),
    }
    for word, choices in known.items():
        inputs.one_of(word, getattr(config, word), choices)
    inputs.whole("host_pages", config.host_pages, 1)


class TieredCache(FlatCache):
    """A cache over device and host, with everything that is under way beside it.

    ``mover`` copies contents (none: nothing is copied); its pools are as large as the configuration says.  With a
    ``runner`` the cache is free-running, without it is stepped.  ``events``: see :class:`FlatCache`.  ``clock``: what
    time it is, in seconds.
    """

    def __init__(
        self,
        config: CacheConfig,
        mover: Mover | None = None,
        runner: Runner | None = None,
        *,
        events: bool | int = False,
        clock: Callable[[], float] = time.monotonic,
        parts: TierParts | None = None,
    ) -> None:
        check(config)
        self.tier_parts = parts or tier_parts_of(core_of(config.core))
        self.mover = mover if mover is not None else NullMover(stepped=runner is None)
        self.stepped = runner is None
        self.runner = runner if runner is not None else Stepped()
        self.owner: threading.Thread | None = None
        self.owner_id = None if self.stepped else NOBODY
        self.works = self.tier_parts.works()
        self.late = self.tier_parts.late()
        self.store: PageStore | None = None
        self.now = clock
        super().__init__(config, self.tier_parts, events=events)

    def reset(self, timeout: float = SECONDS, *, abort: bool = False) -> Sequence[Work]:
        """Forget everything but the storage that is attached, what time it is, and how many jobs there were.

        While requests run, see :meth:`FlatCache.reset`.  Free-running, it waits until no copy is under way and no
        thread uses a page, at most so many seconds.  Returns the works that were still at it then: they are
        **abandoned**.  Their pages belong to neither pool until a tick sees that they are over, for a copy or a thread
        that comes late may still read or write them.  An interrupt ends the wait, and the reset is made all the same.
        """
        fresh = not hasattr(self, "tree")
        threads = not self.stepped
        if not fresh and threads:
            self.own()
        until = time.monotonic() + timeout
        self.may_reset(abort=abort)
        config, parts = self.config, self.tier_parts
        pool = parts.pool(config.pages, config.page_size, config.reserved)
        host = parts.host_pool(config.host_pages, config.page_size, 0)
        tree = self.make_tree(pool, host)  # what takes memory is there before anything ends
        try:
            if not fresh and threads:
                self.late.give_up([*self.works, *self.backups.spilling], self.runner, until)
        finally:  # Ctrl-C ends the wait, not the reset: what is under way has been told to end
            self.begin_anew(tree, host)
            if self.log is not None and not fresh:
                self.log.clear()
            self.calls = tree.calls
        return list(self.late.works.values())

    def begin_anew(self, tree: Tree, host: PagePool) -> None:
        """Use this tree and its pools, with nothing under way."""
        config, parts, threads = self.config, self.tier_parts, not self.stepped
        self.tear()
        self.works.clear()
        self.late.withhold(tree.pool, host)
        self.plant(tree)
        self.host = parts.host(host, self.tree)
        self.backups = parts.backups(self.tree, self.host, self.mover, self.works, config.write)
        self.loads = parts.loads(self.tree, self.pool, self.mover, self.works, config.load_threshold)
        self.rows = Rows(self.mover, self.works, self.loads)
        self.puts = parts.puts(self.tree, self.works, self.names.names, self.runner, threads=threads)
        self.fetches = parts.fetches(
            self.host,
            self.works,
            parts.planner(),
            self.names.names_behind,
            self.runner,
            self.settings(),
            threads=threads,
        )
        self.fetches.store = self.puts.store = self.store
        if self.tree.write_back:
            self.tree.spill = self.backups.spill
        self.backups.backed = self.backed

    # -- whose thread --------------------------------------------------------------------------

    def own(self) -> None:
        """Free-running: this call belongs to the scheduler's thread, which is the first one that made any.

        Raises ``RuntimeError``, with nothing changed, in another thread while that one lives.
        """
        if self.owner_id is not None and self.owner_id != threading.get_ident():
            self.claim()

    def claim(self) -> None:
        """This thread is the scheduler's, if no other is."""
        mine = threading.current_thread()
        if self.owner is not None and self.owner.is_alive():
            raise RuntimeError(
                f"this cache is the thread's {self.owner.name!r}: {mine.name!r} may not call it (see hand_over)"
            )
        self.owner, self.owner_id = mine, mine.ident

    def hand_over(self) -> None:
        """The next thread that calls is the scheduler's; said by the one that was, between two calls."""
        self.own()
        if not self.stepped:
            self.owner, self.owner_id = None, NOBODY

    # -- what a configuration says -------------------------------------------------------------

    def settings(self) -> FetchSettings:
        """What the configuration says of prefetches."""
        config = self.config
        return FetchSettings(
            config.threshold,
            config.rate_limit,
            config.stop,
            config.timeout,
            config.timeout_basis,
            config.timeout_from,
        )

    # -- what follows from what ----------------------------------------------------------------

    def used(self, place: Place) -> None:
        """An insert has used the path to this place: what is due is backed up, what is outstanding is put."""
        tree = self.tree
        try:
            backed = self.backups.used(place)
            if self.store is not None and backed:
                self.puts.outstanding(tree.runs(tree.ascend(place, backed)))
        except MemoryError as error:  # the insert has been made; what didn't begin waits for its next use
            self.works.fault(BACKUP, error)

    def arriving(self) -> Sequence[Run]:
        """The pages whose host copies are not told of yet: of backups that are not acknowledged."""
        return [run for work in self.backups.queue for run in work.runs]

    def backed(self, runs: Sequence[Run]) -> None:
        """These pages have their contents on the host."""
        if self.log is not None:
            for run in runs:
                self.log.tell(STORED, HOST, run)
        self.puts.outstanding(runs)

    # -- the calls of a flat cache, and what follows on the host -------------------------------

    @scheduled
    def insert(
        self,
        tokens: Numbers,
        pages: Numbers,
        namespace: Hashable = None,
        *,
        priority: int = 0,
        chunked: bool = False,
    ) -> Inserted:
        """See :meth:`FlatCache.insert`; what the path uses is backed up as the write policy says, unless chunked."""
        given = integers("pages", pages)
        inserted = self.tree.insert(namespace, self.named(tokens), given, priority=priority, counts=not chunked)
        if not chunked:
            self.used(inserted.place)
        return inserted

    @scheduled
    def insert_behind(
        self, place: Place, tokens: Numbers, pages: Numbers, *, priority: int = 0, chunked: bool = False
    ) -> Inserted:
        """See :meth:`FlatCache.insert_behind`; the whole path counts as used."""
        given = integers("pages", pages)
        inserted = self.tree.insert_behind(place, self.named(tokens), given, priority=priority, counts=not chunked)
        if not chunked:
            self.used(inserted.place)
        return inserted

    @scheduled
    def evict(self, n: int) -> PageArray:
        """See :meth:`FlatCache.evict`; pages with host copies live on there."""
        return self.tree.evict_pages(-(-operator.index(n) // self.config.page_size))

    def flush(self) -> int:
        """Of caches without a host: what is to become of host copies, and of work under way, nobody has said yet.

        Raises ``NotImplementedError``, and changes nothing; :meth:`reset` forgets all.
        """
        raise NotImplementedError("a hierarchy can't be flushed: reset it")

    @scheduled
    def begin(self, rid: Hashable, tokens: Numbers, namespace: Hashable = None, *, priority: int = 0) -> Running | None:
        """See :meth:`FlatCache.begin`."""
        return self.requests.begin(rid, namespace, inputs.tokens(tokens), inputs.priority(priority))

    @scheduled
    def fork(self, rid: Hashable, of: Hashable) -> Running | None:
        """See :meth:`FlatCache.fork`; what is in the other's slots is copied, after all that was computed so far.

        Nothing has begun where it can't be copied, as without enough memory.
        """
        return self.requests.fork(rid, of, self.rows.copy)

    @scheduled
    def retract(self, rid: Hashable) -> bool:
        """See :meth:`FlatCache.retract`; what is in its row is kept on the host, beside the host's pool.

        Of a page that a load is still to bring that is what it brings.  ``False`` where it can't be kept: then the
        request runs on.
        """
        return self.requests.retract(rid, self.rows.save)

    @scheduled
    def resume_request(self, rid: Hashable) -> Running | None:
        """See :meth:`FlatCache.resume_request`; its row holds what it held, for all that is computed from here on."""
        return self.requests.resume(rid, self.rows.restore)

    @scheduled
    def discard(self, rid: Hashable) -> None:
        """See :meth:`FlatCache.discard`; what was kept of it is let go."""
        del self.requests.retracted[rid]

    @scheduled
    def grow(self, rid: Hashable, tokens: Numbers) -> NDArray[np.int64] | None:
        """See :meth:`FlatCache.grow`."""
        return self.requests.grow(rid, inputs.tokens(tokens))

    @scheduled
    def take_back(self, rid: Hashable, n: int) -> int:
        """See :meth:`FlatCache.take_back`."""
        return self.requests.take_back(rid, n)

    @scheduled
    def publish(self, rid: Hashable, *, chunked: bool = False, upto: int | None = None) -> Running:
        """See :meth:`FlatCache.publish`; what it uses is backed up, unless chunked."""
        running = self.requests.publish(rid, chunked=chunked, upto=upto)
        if not chunked:
            self.used(running.place)
        return running

    @scheduled
    def end(self, rid: Hashable, *, keep: bool | int) -> None:
        """See :meth:`FlatCache.end`; what it uses is backed up, if it is kept."""
        place = self.requests.end(rid, keep=keep)
        if keep is not False:
            self.used(place)

    # -- host tier -----------------------------------------------------------------------------

    def host_available(self) -> int:
        """How many host slots could be handed out now."""
        if self.calls.torn:
            self.calls.refuse()
        return self.host.pool.available()

    @scheduled
    def evict_host(self, n: int) -> int:
        """Free at least ``n`` host slots of pages that are there alone, or as many as can be; how many became free."""
        size = self.config.page_size
        return self.tree.evict_host(-(-operator.index(n) // size)) * size

    @scheduled
    def load_back(self, tokens: Numbers, namespace: Hashable = None, *, quota: int | None = None) -> Loaded:
        """Bring what is cached of a key on the host alone back to the device: all of it, or nothing.

        The pages are the tree's at once.  Whoever computes with them waits for their layers:
        :meth:`layers_ready`, :meth:`wait_layer`.
        """
        return self.loads.load_back(namespace, self.units(tokens), quota)

    def layers(self) -> int:
        """How many layers a load copies, one after the other."""
        return self.mover.layers

    def layers_ready(self, job: int) -> int:
        """How many layers of a load may be read, from the first one on; 0 for a job that is no load under way."""
        work = self.works.under_way(job)
        if work is None or work.kind != LOAD or work.error is not None:
            return 0
        assert work.ticket is not None
        return work.layers if self.stepped else work.ticket.layers_ready()

    def wait_layer(self, job: int, layer: int) -> None:
        """What is computed from here on comes after this layer of a load; nothing to wait for when it is over.

        Of a load that is made again, as another job, it is that job's layer.

        Raises ``RuntimeError`` where the layer will not come, because the load has failed: what its pages hold is
        anybody's guess.  A request with such pages is ended without ``keep``, and begun anew after the next tick.
        """
        work = self.works.under_way(job)
        if work is None:
            return
        if work.error is not None:
            raise RuntimeError(f"load {job} has failed: layer {layer} will not come", job) from work.error
        if work.ticket is not None:
            work.ticket.wait_layer(layer)

    # -- observation ---------------------------------------------------------------------------

    @scheduled
    def events(self) -> Sequence[CacheEvent]:
        """See :meth:`FlatCache.events`."""
        self.calls.changed = True
        return self.log.take() if self.log is not None else ()
