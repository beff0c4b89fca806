"""A hierarchy of the optimized cache and one of the reference, driven by the same calls and compared after each.

The optimized one is called as an engine calls it, with arrays.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from kvlitmus.conformance.adapters.reference.target import ReferenceTarget
from kvlitmus.conformance.adapters.reference.tiers import TieredReference
from kvlitmus.conformance.checker.harness_store import HarnessStore
from kvlitmus.conformance.ports import Config, Profile
from kvlitmus.optimized.cache import CacheConfig
from kvlitmus.optimized.hierarchy import HierarchicalCache
from kvlitmus.optimized.testing import (
    BACKUP,
    HOST_PAGES,
    LOAD,
    SPILL,
    SPILLED,
    Faults,
    FaultyMover,
    FaultyTicket,
    SetClock,
    faulty_parts,
)
from kvlitmus.reference.prefix.hierarchy import alone_of
from kvlitmus.spec.interface.tiers import Job, Outcome
from kvlitmus.spec.words.units import Key
from tests.optimized.support.hierarchy_look import Look
from tests.optimized.support.hierarchy_sides import LAYERS, ArrayMover, ScriptedStore, fingerprint


class Pair(Look):
    """Both caches, and the calls that are made to them; each compares what both answer, ``compare`` what they are."""

    def __init__(self, config: Config, seed: int) -> None:
        self.config, self.size, self.rng = config, config.page_size, random.Random(seed)
        profile: Profile = ReferenceTarget().profile
        self.one = TieredReference(config, profile)
        self.mover = ArrayMover(config.page_size, config.pages + 1, config.host_pages)
        words = ("page_size", "pages", "policy", "bigram", "host_pages", "write", "stop", "threshold", "rate_limit")
        own = CacheConfig(**{word: getattr(config, word) for word in words})
        self.faults, self.clock_two = Faults(), SetClock()
        mover = FaultyMover(self.mover, self.faults, self.mover.spoil)
        parts = faulty_parts(self.faults)
        self.two = HierarchicalCache(own, mover, events=True, clock=self.clock_two, parts=parts)
        self.stores = HarnessStore(config.page_size), ScriptedStore()
        self.attached = False
        self.rows: dict[int, tuple[tuple[int, ...], Any, Key]] = {}
        self.retracted: dict[int, Key] = {}
        self.receipts: list[tuple[Any, Any]] = []
        self.keys: list[Key] = [Key(None, (), config.bigram)]
        self.seconds = 0.0
        self.rid = 0
        self.waiting: list[int] = []

    # -- keys ----------------------------------------------------------------------------------

    def key(self) -> Key:
        """A key that often shares a prefix with an earlier one."""
        rng, old = self.rng, self.rng.choice(self.keys[-12:])
        tokens = old.tokens[: rng.randint(0, len(old.tokens))] if rng.random() < 0.5 else old.tokens
        tokens += tuple([rng.randint(1, 2) for _ in range(rng.randint(0, 4 * self.size))])
        namespace = old.namespace if rng.random() < 0.9 else rng.choice([None, "a"])
        key = Key(namespace, tokens[: 9 * self.size], self.config.bigram)
        self.keys.append(key)
        return key

    def poke(self, key: Key, start: int, mine: Any, theirs: Any) -> None:
        """Compute the contents of the tokens from ``start`` on."""
        values = [fingerprint(key.namespace, key.tokens[: at + 1]) for at in range(start, start + len(mine))]
        self.one.poke(mine, values)
        for layer in range(LAYERS):
            self.mover.device[layer, np.asarray(theirs, np.int64)] = np.asarray(values, np.int64) * 4 + layer

    # -- calls ---------------------------------------------------------------------------------

    def insert(self) -> None:
        key = self.key()
        need = -(-len(key.tokens) // self.size)
        short = need * self.size - self.one.available()
        if short > 0:
            assert self.one.evict(short) == self.size * len(self.two.evict(short))
        mine, theirs = self.one.alloc(need * self.size), self.two.pool.take(need)
        assert (mine is None) == (theirs is None)
        if mine is None or theirs is None:
            return
        row = self.two.pool.slots(theirs)
        self.poke(key, 0, mine[: len(key.tokens)], row[: len(key.tokens)])
        whole = key.length // self.size
        priority, chunked = self.rng.choice([0, 0, 1, 3]), self.rng.random() < 0.2
        stored = self.one.insert(key, mine, priority=priority, chunked=chunked)
        ours = self.two.insert(key.tokens, theirs[:whole], key.namespace, priority=priority, chunked=chunked)
        assert stored.already == ours.already * self.size
        self.one.free([*(stored.to_free or ()), *mine[whole * self.size :]])
        self.two.pool.give_back(np.concatenate((theirs[: ours.already], theirs[whole:])))

    def match(self) -> None:
        key = self.key()
        hit, ours = self.one.match(key), self.two.match(key.tokens, key.namespace)
        assert (hit.length, hit.host) == (len(ours.pages) * self.size, ours.behind * self.size)
        if self.rng.random() < 0.4:
            self.receipts.append((self.one.lock(hit.handle), self.two.lock(ours.place)))

    def unlock(self) -> None:
        if self.receipts:
            mine, theirs = self.receipts.pop(self.rng.randrange(len(self.receipts)))
            self.one.unlock(mine)
            self.two.unlock(theirs)

    def begin(self) -> None:
        key, rid = self.key(), self.rng.randint(1, 6)
        if rid not in self.rows and rid not in self.retracted:
            mine, theirs = self.one.begin(rid, key), self.two.begin(rid, key.tokens, key.namespace)
            assert (mine is None) == (theirs is None)
            if mine is not None and theirs is not None:
                assert mine.cached == theirs.cached
                self.poke(key, mine.cached, mine.row[mine.cached :], theirs.row[mine.cached :])
                self.rows[rid] = tuple(mine.row), theirs, key

    def fork(self) -> None:
        rid = self.rng.randint(1, 6)
        if self.rows and rid not in self.rows and rid not in self.retracted:
            of = self.rng.choice(list(self.rows))
            self.same_row(rid, self.one.fork(rid, of), self.two.fork(rid, of), self.rows[of][2])

    def same_row(self, rid: int, mine: Any, theirs: Any, key: Key) -> None:
        """A request runs over a copy of a row on both sides, or on neither; what is in it, is as it should be."""
        assert (mine is None) == (theirs is None)
        if mine is not None:
            assert mine.cached == theirs.cached
            values = [fingerprint(key.namespace, key.tokens[: at + 1]) for at in range(len(mine.row))]
            held = self.mover.device[:, theirs.row[mine.cached :]] // 4
            assert (held == np.asarray(values[mine.cached :], np.int64)).all()
            self.rows[rid] = tuple(mine.row), theirs, key

    def retract(self) -> None:
        if self.rows:
            rid = self.rng.choice(list(self.rows))
            assert self.one.retract(rid) and self.two.retract(rid)
            self.retracted[rid] = self.rows.pop(rid)[2]

    def resume(self) -> None:
        """A retracted request runs again, or now and then is aborted."""
        if not self.retracted:
            return
        rid, key = self.rng.choice(list(self.retracted.items()))
        if self.rng.random() < 0.2:
            self.one.discard(rid)
            self.two.discard(rid)
            del self.retracted[rid]
            return
        self.same_row(rid, self.one.resume(rid), self.two.resume_request(rid), key)
        if rid in self.rows:
            del self.retracted[rid]

    def grow(self) -> None:
        if self.rows:
            rid = self.rng.choice(list(self.rows))
            row, running, key = self.rows[rid]
            tokens = [self.rng.randint(1, 2) for _ in range(self.rng.randint(1, 2 * self.size))]
            mine, theirs = self.one.grow(rid, tokens), self.two.grow(rid, tokens)
            assert (mine is None) == (theirs is None)
            if mine is not None and theirs is not None:
                longer = key._replace(tokens=key.tokens + tuple(tokens))
                self.poke(longer, len(row), mine, theirs)
                self.rows[rid] = row + tuple(mine), running, longer
                self.keys.append(longer)

    def publish(self) -> None:
        if self.rows:
            rid, chunked = self.rng.choice(list(self.rows)), self.rng.random() < 0.5
            mine, theirs = self.one.publish(rid, chunked=chunked), self.two.publish(rid, chunked=chunked)
            assert mine.cached == theirs.cached
            self.rows[rid] = tuple(mine.row), theirs, self.rows[rid][2]

    def end(self) -> None:
        if self.rows:
            rid, keep = self.rng.choice(list(self.rows)), self.rng.random() < 0.7
            del self.rows[rid]
            self.one.end(rid, keep=keep)
            self.two.end(rid, keep=keep)

    def evict(self) -> None:
        n = self.rng.randint(0, 5 * self.size)
        assert self.one.evict(n) == self.size * len(self.two.evict(n))

    def evict_host(self) -> None:
        n = self.rng.randint(0, 3 * self.size)
        assert self.one.evict_host(n) == self.two.evict_host(n)

    def evict_all(self) -> None:
        """All that can go leaves the device."""
        assert self.one.evict(99 * self.size) == self.size * len(self.two.evict(99 * self.size))

    def forget(self) -> None:
        """All that can go leaves the device and the host; what is in storage stays there."""
        self.evict_all()
        assert self.one.evict_host(99 * self.size) == self.two.evict_host(99 * self.size)

    def read_ahead(self) -> None:
        """Prefetch a key of which storage has some."""
        firsts = [(key, self.one.page_hashes(key, self.size, None)[:1]) for key in self.keys]
        stored = [key for key, first in firsts if first and first[0] in self.stores[0].contents]
        if stored:
            self.prefetch(self.rng.choice(stored))

    def load_back(self) -> None:
        key = self.key() if self.rng.random() < 0.3 else self.rng.choice(self.keys)
        if self.rng.random() < 0.7 and alone_of(self.one.state):
            key = self.one.key_of(self.rng.choice(sorted(alone_of(self.one.state))))
        quota = self.rng.choice([None, None, None, self.rng.randint(0, 12 * self.size)])
        mine, theirs = self.one.load_back(key, quota), self.two.load_back(key.tokens, key.namespace, quota=quota)
        assert mine.before == theirs.before * self.size
        assert (mine.slots is None) == (theirs.pages is None)
        if mine.slots is not None and theirs.pages is not None:
            assert len(mine.slots) == len(theirs.pages) * self.size

    def prefetch(self, key: Key | None = None) -> None:
        """Prefetch a key, and perhaps let it go on at once: whether storage has something of it or not."""
        rng = self.rng
        key, rid = key or rng.choice([*self.keys[-20:], self.key()]), rng.randint(1, 4)
        mine, theirs = self.one.prefetch(rid, key), self.two.prefetch(rid, key.tokens, key.namespace)
        assert mine[:3] == (theirs.started, theirs.matched * self.size, theirs.asked)
        if not mine.started or rng.random() < 0.4:
            return
        self.keys += [key, key]
        job = self.one.jobs()[-1].id
        self.step(job, Outcome())
        if self.one.jobs()[-1].id > job and rng.random() < 0.8:
            self.step(job + 1, Outcome("part", rng.randint(1, 2)))
        if rng.random() < 0.5:
            rng.choice((self.insert, self.clock, self.forget))()
            assert self.one.poll(rid) == self.two.poll(rid)

    def poll(self) -> None:
        rid = self.rng.randint(1, 4)
        if self.rng.random() < 0.3:
            self.clock()
        assert self.one.poll(rid) == self.two.poll(rid)

    def loaded(self) -> None:
        rid = self.rng.randint(1, 4)
        assert self.one.loaded(rid) == self.two.loaded(rid)

    def abandon(self) -> None:
        rid = self.rng.randint(1, 4)
        self.one.abandon(rid)
        self.two.abandon(rid)

    def advance(self) -> None:
        jobs = [job for job in self.one.jobs() if job.ready]
        if jobs:
            job = self.rng.choice(jobs)
            self.step(job.id, self.outcome(job))

    def step(self, job: int, outcome: Outcome) -> None:
        """Let a job go on, on both sides alike."""
        self.one.advance(job, outcome)
        store = self.stores[1]
        store.left = outcome.pages if outcome.how in ("short", "fail") else None
        store.raises = outcome.how == "fail"
        work = self.two.works.works[job]
        if outcome.how == "fail" and isinstance(work.ticket, FaultyTicket):
            work.ticket.fail()
        self.two.advance(job, outcome.pages if outcome.how == "part" else None)
        store.left, store.raises = None, False

    def outcome(self, job: Job) -> Outcome:
        hows = {"query": ("done", "short", "fail"), "load": ("done", "part", "fail"), "backup": ("done", "fail")}
        how = self.rng.choice(("done", *hows.get(job.kind, ("done", "part", "short", "fail"))))
        return Outcome(how, self.rng.randint(0, 3)) if how != "done" else Outcome()

    def tick(self) -> None:
        self.one.tick()
        self.two.tick()

    def attach(self) -> None:
        assert self.one.attach(self.stores[0]) == self.two.attach(self.stores[1])
        self.attached = True

    def detach(self) -> None:
        assert self.one.detach() == self.two.detach()
        self.attached = False

    def lose(self) -> None:
        """Some pages vanish from storage."""
        for name in self.rng.sample(sorted(self.stores[0].contents), min(2, len(self.stores[0].contents))):
            del self.stores[0].contents[name], self.stores[1].pages[name]

    def spoil(self) -> None:
        """A page in storage is too short."""
        if self.stores[0].contents:
            name = self.rng.choice(sorted(self.stores[0].contents))
            self.stores[0].contents[name] = self.stores[0].contents[name][:-1]
            self.stores[1].pages[name] = self.stores[1].pages[name][:-1]

    def clock(self) -> None:
        self.seconds += self.rng.choice([0.0, 0.5, 2.0, 5.0, 40.0])
        self.one.set_clock(self.seconds)
        self.clock_two.seconds = self.seconds

    def fault(self) -> None:
        after = self.rng.randint(0, 3)
        self.one.fail_host_alloc(after)
        self.faults.fail(HOST_PAGES, after)

    def misfire(self) -> None:
        """A copy of some kind can't begin, or a spill fails once it is."""
        kind, after = self.rng.choice((BACKUP, LOAD, SPILL, SPILLED)), self.rng.randint(0, 2)
        self.one.fail_copy(kind, after)
        self.faults.fail(kind, after)

    def reset(self) -> None:
        self.one.reset()
        self.two.reset(abort=True)
        self.faults.clear()
        self.rows, self.retracted, self.receipts = {}, {}, []


CALLS: tuple[tuple[Callable[[Pair], None], int], ...] = (
    (Pair.insert, 12),
    (Pair.match, 5),
    (Pair.unlock, 6),
    (Pair.begin, 6),
    (Pair.fork, 3),
    (Pair.retract, 3),
    (Pair.resume, 4),
    (Pair.grow, 5),
    (Pair.publish, 5),
    (Pair.end, 6),
    (Pair.evict, 8),
    (Pair.evict_host, 2),
    (Pair.forget, 2),
    (Pair.load_back, 8),
    (Pair.read_ahead, 10),
    (Pair.prefetch, 3),
    (Pair.poll, 8),
    (Pair.loaded, 2),
    (Pair.abandon, 2),
    (Pair.advance, 30),
    (Pair.tick, 14),
    (Pair.attach, 6),
    (Pair.detach, 1),
    (Pair.lose, 1),
    (Pair.spoil, 1),
    (Pair.clock, 3),
    (Pair.fault, 2),
    (Pair.misfire, 3),
    (Pair.reset, 0),
)
"""The calls and how often each is made."""
