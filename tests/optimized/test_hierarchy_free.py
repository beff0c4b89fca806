"""The free-running hierarchy under all kinds of interleavings: no page with two users, no wrong contents anywhere.

What threads and streams do is done by the test, one small step at a time (``support/hierarchy_late.py``); the same
with real threads is a stress test of its own.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kvlitmus.optimized.audit import audit
from kvlitmus.optimized.cache import CacheConfig
from kvlitmus.optimized.fetch import Fetches
from kvlitmus.optimized.hashing import page_hashes
from kvlitmus.optimized.hierarchy import HierarchicalCache, TierParts
from kvlitmus.optimized.put import Puts
from kvlitmus.optimized.request import Running
from kvlitmus.optimized.tree import STORED, Place
from kvlitmus.optimized.work import FETCH, PUT
from tests.optimized.support.hierarchy_late import LateMover, LateRunner, move
from tests.optimized.support.hierarchy_sides import LAYERS, ScriptedStore, fingerprint
from tests.optimized.support.homes import assert_one_home_each, host_copies
from tests.support.night import by_turns

WRITES = ("write_through", "write_through_selective", "write_back")


class Free:
    """A free-running cache, what its caller holds, and what must be true of it after each call."""

    def __init__(self, seed: int, write: str, *, steady: bool, parts: TierParts | None = None) -> None:
        self.rng = rng = random.Random(seed)
        self.size, self.steady = rng.choice([1, 2]), steady
        pages, host = rng.choice([10, 16, 30]), rng.choice([6, 12, 40])
        config = CacheConfig(
            page_size=self.size,
            pages=pages,
            host_pages=host,
            write=write,
            stop=rng.choice(["best_effort", "wait_complete", "timeout"]),
            timeout=(0.0, 0.0, 0.0),
            rate_limit=1000,
            policy=rng.choice(["lru", "mru", "fifo"]),
        )
        self.mover = LateMover(self.size, pages + 1, host)
        self.runner = LateRunner(self.mover, rng)
        self.cache = HierarchicalCache(config, self.mover, self.runner, parts=parts)
        self.store = ScriptedStore()
        self.cache.attach(self.store)
        self.rows: dict[int, Running] = {}
        self.keys: list[list[int]] = [[]]
        self.names: dict[str, tuple[int, ...]] = {}

    # -- calls ---------------------------------------------------------------------------------

    def key(self) -> list[int]:
        rng, old = self.rng, self.rng.choice(self.keys[-8:])
        tokens = old[: rng.randint(0, len(old))] + [rng.randint(1, 2) for _ in range(rng.randint(1, 4 * self.size))]
        self.keys.append(tokens[: 9 * self.size])
        for at, name in enumerate(page_hashes(np.asarray(self.keys[-1]), self.size)):
            self.names[name] = self.values(self.keys[-1][: (at + 1) * self.size], at * self.size)
        return self.keys[-1]

    def values(self, tokens: list[int], start: int) -> tuple[int, ...]:
        return tuple([fingerprint(None, tokens[: at + 1]) for at in range(start, len(tokens))])

    def compute(self, tokens: list[int], start: int, slots: Any) -> None:
        for layer in range(LAYERS):
            self.mover.device[layer, np.asarray(slots, np.int64)] = np.asarray(self.values(tokens, start)) * 4 + layer

    def begin(self) -> None:
        rid, tokens = self.rng.randint(1, 5), self.key()
        if rid not in self.rows:
            self.cache.load_back(tokens)
            running = self.cache.begin(rid, tokens)
            if running is not None:
                self.wait_for_loads(running)
                self.compute(tokens, running.cached, running.row[running.cached :])
                self.rows[rid] = running

    def wait_for_loads(self, running: Running) -> None:
        """What an engine does layer by layer: here, the shared slots are read as they come."""
        for work in self.cache.jobs():
            if work.kind == "load":
                for layer in range(LAYERS):
                    self.cache.wait_layer(work.id, layer)
        found = self.mover.device[:, running.row[: running.cached]]
        expected = np.asarray(self.values(running.tokens.tolist()[: running.cached], 0), np.int64) * 4
        for layer in range(LAYERS):
            assert found[layer].tolist() == (expected + layer).tolist(), "the shared prefix has other contents"

    def publish(self) -> None:
        if self.rows:
            self.cache.publish(self.rng.choice(list(self.rows)), chunked=self.rng.random() < 0.3)

    def end(self) -> None:
        if self.rows:
            rid = self.rng.choice(list(self.rows))
            del self.rows[rid]
            self.cache.end(rid, keep=self.rng.random() < 0.8)

    def evict(self) -> None:
        self.cache.evict(self.rng.randint(1, 6 * self.size))

    def evict_host(self) -> None:
        self.cache.evict_host(self.rng.randint(1, 4 * self.size))

    def prefetch(self) -> None:
        self.cache.prefetch(self.rng.randint(1, 3), self.rng.choice([*self.keys[-15:], self.key()]))

    def poll(self) -> None:
        self.cache.poll(self.rng.randint(1, 3))

    def abandon(self) -> None:
        self.cache.abandon(self.rng.randint(1, 3))

    def tick(self) -> None:
        self.cache.tick()

    def background(self) -> None:
        """What runs by itself runs a little."""
        for _ in range(self.rng.randint(1, 4)):
            lane = self.rng.choice(self.mover.lanes)
            if self.rng.random() < 0.6:
                self.runner.go()
            elif lane:
                move(lane)

    def storage(self) -> None:
        if self.steady:
            return
        self.cache.detach()
        self.check()
        if self.rng.random() < 0.8:
            self.store = ScriptedStore() if self.rng.random() < 0.5 else self.store
            self.cache.attach(self.store)

    def reset(self) -> None:
        if not self.steady:
            self.cache.reset(abort=True)
            self.rows = {}
            assert not self.runner.works and not any(self.mover.lanes)

    # -- what must be true ---------------------------------------------------------------------

    def check(self) -> None:
        own = [page for row in self.rows.values() for page in (row.row[row.cached :: self.size] // self.size).tolist()]
        assert_one_home_each(self.cache, own, pages=self.cache.pool.pages, host_pages=self.cache.host.pool.pages)
        moving, kept = set(self.cache.moving().tolist()), set(host_copies(self.cache))
        for work, at in self.runner.works.values():
            pages = set(work.host_pages[at:].tolist())
            if work.kind == FETCH:
                assert pages <= moving, "a thread may write to a page that is somebody else's"
            elif work.kind == PUT:
                assert pages <= kept, "a thread reads a page that may be somebody else's"
        for name, page in self.store.pages.items():
            assert self.whole(np.frombuffer(page, np.int64).reshape(LAYERS, -1)) == self.names[name]
        audit(self.cache.tree)
        self.check_pins()
        self.check_contents()

    def check_pins(self) -> None:
        """Each pin is that of a load, of a put whose thread is not done, or of an anchor."""
        pinned: Counter[tuple[int, int]] = Counter()
        for work in self.cache.jobs():
            if work.kind in ("load", "put"):
                pinned.update([(run.branch.uid, at) for run in work.runs for at in range(run.lo, run.hi)])
        anchors = [operation.anchor for operation in self.cache.fetches.ongoing.values()]
        pinned.update([(branch.uid, end - 1) for branch, end, _ in anchors if end])
        for branch in self.cache.tree.opened().branches():
            for at in range(branch.n):
                there = int(branch.pins[at]) if branch.pins is not None and branch.has_copy(at) else 0
                assert there == pinned.pop((branch.uid, at), 0)
        assert not pinned

    def check_contents(self) -> None:
        """What is said to be somewhere is there."""
        tree, size = self.cache.tree.opened(), self.size
        loads = [work for work in self.cache.jobs() if work.kind == "load"]
        loading = {(run.branch.uid, at) for work in loads for run in work.runs for at in range(run.lo, run.hi)}
        for branch in tree.branches():
            tokens = tree.path_units(Place(branch, branch.n)).tolist()
            for at in range(branch.n):
                end = (branch.base + at + 1) * size
                expected = self.values(tokens[:end], end - size)
                if at < branch.dev and (branch.uid, at) not in loading:
                    assert self.read(self.mover.device, branch.dev_pages[at]) == expected
                if branch.has_copy(at) and branch.flags is not None and branch.flags[at] & 1:
                    assert branch.host_pages is not None
                    assert self.read(self.mover.host, branch.host_pages[at]) == expected

    def read(self, pool: Any, page: int) -> tuple[int, ...]:
        return self.whole(pool[:, int(page) * self.size : (int(page) + 1) * self.size])

    def whole(self, part: Any) -> tuple[int, ...]:
        assert all((part[layer] == part[0] + layer).all() for layer in range(LAYERS)), "layers of different contents"
        return tuple((part[0] // 4).tolist())


CALLS: tuple[tuple[Callable[[Free], None], int], ...] = (
    (Free.begin, 14),
    (Free.publish, 4),
    (Free.end, 8),
    (Free.evict, 6),
    (Free.evict_host, 4),
    (Free.prefetch, 12),
    (Free.poll, 6),
    (Free.abandon, 3),
    (Free.tick, 14),
    (Free.background, 30),
    (Free.storage, 1),
    (Free.reset, 1),
)


def play(seed: int, write: str, *, steady: bool, steps: int = 300, parts: TierParts | None = None) -> Free:
    free = Free(seed, write, steady=steady, parts=parts)
    calls, weights = zip(*CALLS, strict=True)
    for _ in range(steps):
        free.rng.choices(calls, weights)[0](free)
        free.check()
    for rid in list(free.rows):
        free.cache.end(rid, keep=True)
    assert free.cache.close() == []
    assert not free.cache.jobs() and not free.cache.occupied() and not len(free.cache.fetches.holding())
    free.rows = {}
    free.check()
    return free


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("seed", by_turns(range(5), every=2))
def test_no_interleaving_mixes_pages_up(seed: int, write: str) -> None:
    play(seed, write, steady=False)


@pytest.mark.nightly
@pytest.mark.parametrize("write", WRITES)
def test_no_interleaving_does_so_for_long(write: str) -> None:
    for seed in range(1000, 1200):
        play(seed, write, steady=False, steps=500)


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("seed", by_turns(range(2)))
def test_a_close_loses_nothing(seed: int, write: str) -> None:
    free = play(100 + seed, write, steady=True)
    for branch in free.cache.tree.opened().branches():
        if branch.host_pages is not None and branch.flags is not None:
            copies = branch.host_pages[: branch.n] >= 0
            assert (branch.flags[: branch.n][copies] & STORED).all(), "a host copy that storage has not got"
    assert free.store.pages


class HastyFetches(Fetches):
    """Gives pages back while a thread may still write to them."""

    def leave(self, operation: Any) -> None:
        super().leave(operation)
        self.host.release(operation.held)
        operation.held = operation.held[:0]


class HastyPuts(Puts):
    """Unpins pages while a thread may still read them."""

    def detach(self) -> None:
        self.threads = False
        super().detach()


@pytest.mark.parametrize("parts", [TierParts(fetches=HastyFetches), TierParts(puts=HastyPuts)])
def test_who_lets_go_too_early_is_found(parts: TierParts) -> None:
    for seed in range(60):
        try:
            play(seed, WRITES[seed % 3], steady=False, parts=parts)
        except (AssertionError, KeyError):  # a page with two users, or a late report of a work that is gone
            return
    pytest.fail("nothing was found")
