"""A hierarchy some of whose parts fail, what its caller holds of it, and what must be true of it whatever failed.

Contents are numbers in numpy (:mod:`tests.optimized.support.hierarchy_sides`).  What a copy leaves that has failed is
spoiled, so a page that counts as copied and isn't shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kvlitmus.optimized.audit import audit
from kvlitmus.optimized.branch import BUSY, SETTLED, Run
from kvlitmus.optimized.cache import CacheConfig
from kvlitmus.optimized.hierarchy import HierarchicalCache, TierParts
from kvlitmus.optimized.mover import Mover
from kvlitmus.optimized.request import Running
from kvlitmus.optimized.testing import Faults, FaultyMover, SetClock, faulty_parts
from kvlitmus.optimized.tree import Place
from kvlitmus.optimized.work import LOAD
from tests.optimized.support.hierarchy_sides import LAYERS, ArrayMover, ScriptedStore, fingerprint
from tests.optimized.support.homes import assert_one_home_each

SIZE = 2
ALL = 99 * SIZE
"""More slots than there are."""

AHEAD = 77
"""The request that something is read ahead for."""


class Desk:
    """A stepped cache of pages of two tokens, over a store, and the requests that run."""

    def __init__(
        self,
        write: str = "write_through",
        *,
        pages: int = 8,
        host_pages: int = 8,
        stored: bool = True,
        parts: TierParts | None = None,
        wrap: Callable[[FaultyMover], Mover] | None = None,
    ) -> None:
        config = CacheConfig(
            page_size=SIZE, pages=pages, host_pages=host_pages, write=write, stop="wait_complete", rate_limit=1000
        )
        self.faults = Faults()
        self.contents = ArrayMover(SIZE, pages + 1, host_pages)
        self.mover = FaultyMover(self.contents, self.faults, self.contents.spoil)
        mover = self.mover if wrap is None else wrap(self.mover)
        self.cache = HierarchicalCache(
            config, mover, events=True, clock=SetClock(), parts=faulty_parts(self.faults, parts)
        )
        self.store = ScriptedStore()
        if stored:
            self.cache.attach(self.store)
        self.rows: dict[int, Running] = {}
        self.mirror: set[tuple[str, str]] = set()
        self.rids = iter(range(1, 1000))

    # -- what a caller does --------------------------------------------------------------------

    def begin(self, tokens: Sequence[int], *, waits: bool = True) -> int | None:
        """Begin a request and compute what isn't cached; its id.  It ``waits`` for loads of what is.

        A load that has failed is found where its layers are waited for: the request is ended, and comes again.
        """
        rid = next(self.rids)
        running = self.cache.begin(rid, list(tokens))
        if running is None:
            return None
        self.rows[rid] = running
        try:
            for work in self.cache.loads_on(running.place) if waits else ():
                if work.error is None and not work.landed:
                    self.cache.advance(work.id)
                for layer in range(LAYERS):
                    self.cache.wait_layer(work.id, layer)
        except RuntimeError:
            self.end(rid, keep=False)
            self.cache.tick()
            return self.begin(tokens)
        found = self.contents.device[:, running.row[: running.cached]]
        assert not waits or found.tolist() == self.values(tokens[: running.cached]).tolist(), (
            "the shared prefix holds something else"
        )
        self.contents.device[:, running.row[running.cached :]] = self.values(tokens)[:, running.cached :]
        return rid

    def fork(self, of: int) -> int | None:
        """A second request over the row of one, with what is in it; its id."""
        rid = next(self.rids)
        return rid if self.runs(rid, self.cache.fork(rid, of)) else None

    def retract(self, rid: int) -> None:
        """A request gives up the device, if it can."""
        if self.cache.retract(rid):
            del self.rows[rid]

    def resume(self, rid: int) -> bool:
        """It runs again, with what was in its row."""
        return self.runs(rid, self.cache.resume_request(rid))

    def runs(self, rid: int, running: Running | None) -> bool:
        """Whether a request runs, whose row holds what belongs there."""
        if running is not None:
            self.rows[rid] = running
            self.check_row(rid)
        return running is not None

    def check_row(self, rid: int) -> None:
        """The row of a request holds what belongs there."""
        running = self.rows[rid]
        right = self.values(running.tokens.tolist())
        assert self.contents.device[:, running.row].tolist() == right.tolist(), "a row holds something else"

    def extend(self, rid: int, tokens: Sequence[int]) -> None:
        """A request goes on with these tokens, if there is room."""
        slots = self.cache.grow(rid, list(tokens))
        if slots is not None:
            self.contents.device[:, slots] = self.values(self.rows[rid].tokens.tolist())[:, -len(slots) :]

    def end(self, rid: int, *, keep: bool) -> None:
        """End a request."""
        self.cache.end(rid, keep=keep)
        del self.rows[rid]

    def compute(self, tokens: Sequence[int]) -> None:
        """One request from begin to end."""
        rid = self.begin(tokens)
        if rid is not None:
            self.end(rid, keep=True)

    def keep(self, tokens: Sequence[int]) -> None:
        """Use these tokens as often as any policy asks, and have them where it wants them."""
        for _ in range(2):
            self.compute(tokens)
        self.settle()

    def settle(self, rounds: int = 3) -> None:
        """So many times everything under way goes to its end, and a tick."""
        for _ in range(rounds):
            for work in self.cache.jobs():
                if not work.landed:
                    self.cache.advance(work.id)
            self.cache.tick()

    def values(self, tokens: Sequence[int]) -> Any:
        """What belongs in the slots of these tokens, by layer."""
        prints = np.asarray([fingerprint(None, list(tokens[: at + 1])) for at in range(len(tokens))], np.int64)
        return prints[None] * 4 + np.arange(LAYERS)[:, None]

    # -- what must be true ---------------------------------------------------------------------

    def check(self) -> None:
        """Counters and links are right, each page has one owner, and what counts as copied holds what belongs there."""
        audit(self.cache.tree)
        self.check_owners()
        self.check_contents()
        self.check_holds()
        self.check_events()

    def check_owners(self) -> None:
        """Each page of either pool is at one place."""
        cache = self.cache
        own = [page for row in self.rows.values() for page in (row.row[row.cached :: SIZE] // SIZE).tolist()]
        assert_one_home_each(cache, own, pages=cache.pool.pages, host_pages=cache.host.pool.pages)

    def check_contents(self) -> None:
        """Each resident page holds what belongs there, but those of loads under way; each settled host copy does."""
        tree = self.cache.tree.opened()
        loading = {
            (run.branch.uid, at)
            for work in self.cache.jobs()
            if work.kind == LOAD and (work.error is not None or not work.landed)
            for run in work.runs
            for at in range(run.lo, run.hi)
        }
        for branch in tree.branches():
            tokens = tree.path_units(Place(branch, branch.n)).tolist()
            for at in range(branch.n):
                end = (branch.base + at + 1) * SIZE
                right = self.values(tokens[:end])[:, end - SIZE :].tolist()
                if at < branch.dev and (branch.uid, at) not in loading:
                    assert self.page(self.contents.device, branch.dev_pages[at]) == right, "a device page is wrong"
                if branch.host_pages is not None and branch.flags is not None and branch.flags[at] & SETTLED:
                    assert self.page(self.contents.host, branch.host_pages[at]) == right, "a host page is wrong"

    def page(self, pool: Any, page: int) -> Any:
        """What is in a page, by layer."""
        return pool[:, int(page) * SIZE : (int(page) + 1) * SIZE].tolist()

    def check_holds(self) -> None:
        """Locks, pins and busy flags are those of requests, works and anchors, and of nobody else."""
        jobs = self.cache.jobs()
        pinned: Counter[tuple[int, int]] = Counter()
        busy: set[tuple[int, int]] = set()
        for work in jobs:
            pages = [(run.branch.uid, at) for run in work.runs for at in range(run.lo, run.hi)]
            if work.kind in ("load", "put"):
                pinned.update(pages)
            if work.kind in ("backup", "put") and not work.cancelled:
                busy.update(pages)
        for operation in self.cache.fetches.ongoing.values():
            if operation.anchor.end:
                pinned[operation.anchor.branch.uid, operation.anchor.end - 1] += 1
        locks = len(self.rows) + sum(work.kind in ("backup", "load") for work in jobs)
        if not locks:
            assert self.cache.tree.protected == 0, "something is locked by nobody"
        for branch in self.cache.tree.opened().branches():
            if branch.pins is None or branch.flags is None:
                continue
            for at in range(branch.n):
                assert int(branch.pins[at]) == pinned[branch.uid, at], "a page is pinned by nobody"
                assert bool(branch.flags[at] & BUSY) == ((branch.uid, at) in busy), "a page is busy with nothing"

    def check_events(self) -> None:
        """Whoever replays the events has the pages that are on the tiers."""
        for told in self.cache.events():
            if told.what in ("cleared", "overflow"):
                self.mirror.clear()
            elif told.what == "stored":
                assert (told.tier, told.page) not in self.mirror
                self.mirror.add((told.tier, told.page))
            else:
                self.mirror.remove((told.tier, told.page))
        there = set()
        arriving = {(run.branch, at) for run in self.cache.arriving() for at in range(run.lo, run.hi)}
        for branch in self.cache.tree.branches():
            names = self.cache.names.names(self.cache.tree.place(branch, branch.n), branch.base)
            copies = self.cache.tree.host_run(Run(branch, 0, branch.n))
            there |= {("device", name) for name in names[: branch.dev]}
            there |= {
                ("host", name) for at, name in enumerate(names) if copies[at] >= 0 and (branch, at) not in arriving
            }
        assert self.mirror == there, "the events tell something else than there is"

    def still_works(self, tokens: Sequence[int]) -> None:
        """Requests end, jobs end, a fresh request is served, everything can go and come again, whatever happened."""
        self.faults.clear()
        for rid in list(self.rows):
            self.end(rid, keep=False)
        self.cache.abandon(AHEAD)
        self.check()
        for round_ in range(8):
            self.settle(1)
            self.check()
            assert round_ < 7 or not self.cache.jobs(), f"jobs never end: {[work.kind for work in self.cache.jobs()]}"
        self.compute(tokens)
        self.settle()
        self.check()
        found = self.cache.match(list(tokens))
        assert len(found.pages) == len(tokens) // SIZE, "a fresh request is not cached"
        resident = self.cache.sizes()[0]
        assert SIZE * len(self.cache.evict(ALL)) == resident and self.cache.sizes() == (0, 0), (
            "something can't be evicted"
        )
        self.check()
        self.settle()
        self.cache.evict_host(ALL)
        self.check()
        assert self.cache.host_available() == self.cache.config.host_pages * SIZE, "the host doesn't become free"
        self.compute(tokens)
        self.cache.reset(abort=True)
        self.mirror.clear()
        self.cache.events()
        assert self.cache.available() == self.cache.config.pages * SIZE
        self.compute(tokens)
        self.check()
        self.cache.close()
        self.check()
        assert not self.cache.jobs()
