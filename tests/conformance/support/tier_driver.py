"""A driver of hierarchies that knows little and checks what needs no model: conservation, contents, locks, events.

It is independent of the judge: what it says of the specimen doesn't depend on the rules.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

from kvlitmus.conformance.ports import Config
from kvlitmus.conformance.specimen.prefix.hashing import PageHasher
from kvlitmus.spec.interface.tiers import DONE, Job, Outcome
from kvlitmus.spec.words.units import Key, Unit
from tests.conformance.support.tier_storage import CheckedStore, Path, mark

CHANCES = {
    "begin": 6,
    "grow": 3,
    "publish": 4,
    "end": 6,
    "match": 1,
    "hold": 2,
    "drop": 3,
    "evict": 4,
    "evict_host": 2,
    "load_back": 4,
    "prefetch": 6,
    "poll": 5,
    "abandon": 1,
    "advance": 12,
    "tick": 8,
    "storage": 0.3,
    "lose": 1,
    "stock": 2,
    "fault": 0.5,
    "clock": 1,
    "reset": 0.4,
    "settle": 0.3,
}


class Driver:
    """One cache, driven at random; every call is followed by :meth:`check`."""

    def __init__(self, cache: Any, config: Config, seed: int) -> None:
        self.cache = cache
        self.config = config
        self.size = config.page_size
        self.random = random.Random(seed)
        self.store = CheckedStore(self.config.page_size)
        self.hasher = PageHasher()
        self.requests: dict[int, tuple[Key, list[int], int]] = {}
        self.receipts: list[tuple[object, Path]] = []
        self.next_rid = 0
        self.waiting: list[int] = []
        self.mirror: dict[tuple[str, object], Path] = {}
        self.now = 0.0
        self.seen: Counter[str] = Counter()
        if config.storage == "attached":
            assert cache.attach(self.store)

    # -- operations ----------------------------------------------------------------------------

    def run(self, steps: int) -> None:
        """So many random calls."""
        names, weights = list(CHANCES), list(CHANCES.values())
        for name in self.random.choices(names, weights, k=steps):
            self.seen[name] += 1
            getattr(self, f"do_{name}")()
            self.check()
        self.do_settle()
        self.check()

    def key(self) -> Key:
        """A key with a good chance to share its beginning with others."""
        pages = self.random.randint(0, 6)
        tokens = [self.random.randint(0, 1) for _ in range(pages)]
        flat = tuple(token * 7 + at for token in tokens for at in range(self.size))
        flat += tuple(range(self.random.randint(0, self.size - 1) + self.config.bigram))
        return Key(self.random.choice((None, "tenant")), flat, self.config.bigram)

    def write(self, key: Key, row: Sequence[int], start: int) -> None:
        """Compute the KV of a request's own slots."""
        units = key.units
        for at in range(start, min(len(row), len(units))):
            self.cache.poke([row[at]], [mark((key.namespace, units[: at + 1]))])

    def do_begin(self) -> None:
        """A request arrives."""
        if len(self.requests) > 3:
            return
        key = self.key()
        begun = self.cache.begin(self.next_rid, key)
        if begun is not None:
            self.requests[self.next_rid] = (key, list(begun.row), begun.cached)
            self.write(key, begun.row, begun.cached)
            self.next_rid += 1
            self.seen["began"] += 1

    def do_grow(self) -> None:
        """A request decodes."""
        if self.requests:
            rid = self.random.choice(list(self.requests))
            key, row, cached = self.requests[rid]
            tokens = tuple(self.random.randint(0, 9) for _ in range(self.random.randint(1, self.size + 1)))
            new = self.cache.grow(rid, tokens)
            if new is not None:
                key = key._replace(tokens=key.tokens + tokens)
                self.requests[rid] = (key, row + list(new), cached)
                self.write(key, row + list(new), max(0, len(row) - 1))

    def do_publish(self) -> None:
        """A request caches what it has."""
        if self.requests:
            rid = self.random.choice(list(self.requests))
            begun = self.cache.publish(rid, chunked=self.random.random() < 0.3)
            self.requests[rid] = (self.requests[rid][0], list(begun.row), begun.cached)

    def do_end(self) -> None:
        """A request ends."""
        if self.requests:
            rid = self.random.choice(list(self.requests))
            del self.requests[rid]
            self.cache.end(rid, keep=self.random.random() < 0.8)

    def do_match(self) -> None:
        """Somebody looks."""
        hit = self.cache.match(self.key())
        assert hit.length == len(hit.slots) and hit.host % self.size == 0

    def do_hold(self) -> None:
        """Somebody looks, and holds."""
        key = self.key()
        hit = self.cache.match(key)
        self.receipts.append((self.cache.lock(hit.handle), (key.namespace, key.units[: hit.length])))

    def do_drop(self) -> None:
        """Somebody holds no more."""
        if self.receipts:
            receipt, _ = self.receipts.pop(self.random.randrange(len(self.receipts)))
            self.cache.unlock(receipt)

    def do_evict(self) -> None:
        """Device memory is wanted."""
        before = self.cache.available()
        freed = self.cache.evict(self.random.randint(1, 4) * self.size)
        assert self.cache.available() == before + freed

    def do_evict_host(self) -> None:
        """Host memory is wanted."""
        before = self.cache.host_available()
        freed = self.cache.evict_host(self.random.randint(1, 4) * self.size)
        assert self.cache.host_available() == before + freed

    def do_load_back(self) -> None:
        """What is on the host is wanted on the device."""
        key = self.key()
        hit = self.cache.match(key)
        loaded = self.cache.load_back(key)
        assert loaded.before == hit.length
        after = self.cache.match(key)
        if loaded.slots is None:
            assert after.length <= hit.length
        else:
            assert list(after.slots) == [*hit.slots, *loaded.slots] and after.host == 0
            assert len(loaded.slots) == hit.host
            self.seen["loaded"] += bool(loaded.slots)

    def do_prefetch(self) -> None:
        """A request waits."""
        rid = self.random.choice([1000, 1001, 1002])
        before = self.cache.occupied()
        asked = self.cache.prefetch(rid, self.key())
        assert asked.started or asked.asked == 0
        assert self.cache.occupied() == before + asked.asked
        self.seen["fetching"] += asked.started

    def do_poll(self) -> None:
        """Is it worth waiting?"""
        rid = self.random.choice([1000, 1001, 1002])
        if self.cache.poll(rid):
            added = self.cache.loaded(rid)
            assert added % self.size == 0 and self.cache.loaded(rid) == 0 and self.cache.poll(rid)
            self.seen["fetched"] += bool(added)

    def do_abandon(self) -> None:
        """A waiting request is gone."""
        self.cache.abandon(self.random.choice([1000, 1001, 1002]))

    def do_advance(self) -> None:
        """Something goes on in the background."""
        ready = [job for job in self.cache.jobs() if job.ready]
        if ready:
            job = self.random.choice(ready)
            outcome = self.outcome(job)
            self.store.script(outcome)
            self.cache.advance(job.id, outcome)
            self.store.script(DONE)
            self.seen[job.kind] += 1

    def outcome(self, job: Job) -> Outcome:
        """How it goes on; copies always succeed."""
        if job.kind in ("backup", "load") or self.random.random() < 0.5:
            return DONE
        how = self.random.choice(("part", "short", "fail") if job.kind != "query" else ("short", "fail"))
        return Outcome(how, self.random.randint(0, 3))

    def do_tick(self) -> None:
        """A scheduler step."""
        self.cache.tick()

    def do_storage(self) -> None:
        """Storage comes or goes."""
        if self.config.storage != "none" and not self.cache.attach(self.store):
            assert self.cache.detach()
            if self.random.random() < 0.5:
                self.check()
                self.cache.attach(self.store)

    def do_lose(self) -> None:
        """Storage loses a page, or half of it."""
        if self.store.contents:
            name = self.random.choice(list(self.store.contents))
            if self.random.random() < 0.5:
                del self.store.contents[name]
            else:
                self.store.contents[name] = self.store.contents[name][:-1]

    def do_stock(self) -> None:
        """Another instance has stored a prompt."""
        key = self.key()
        for at, name in enumerate(self.hasher.page_hashes(key, self.size, None)):
            ends = range(at * self.size + 1, (at + 1) * self.size + 1)
            self.store.contents[name] = tuple(mark((key.namespace, key.units[:end])) for end in ends)

    def do_fault(self) -> None:
        """An allocation is going to fail."""
        self.cache.fail_host_alloc(self.random.randint(0, 2))

    def do_clock(self) -> None:
        """Time passes."""
        self.now += self.random.choice((0.5, 1.5, 3.0))
        self.cache.set_clock(self.now)

    def do_reset(self) -> None:
        """Everything is forgotten, once nobody needs it."""
        for rid in list(self.requests):
            del self.requests[rid]
            self.cache.end(rid, keep=False)
        while self.receipts:
            self.cache.unlock(self.receipts.pop()[0])
        self.cache.reset()
        view = self.cache.tiers()
        assert not view.nodes and not view.moving and not self.cache.jobs() and self.cache.occupied() == 0
        assert len(view.free) == self.config.pages and len(view.host_free) == self.config.host_pages
        self.seen["forgot"] += 1

    def do_settle(self) -> None:
        """All jobs are done, everybody is told."""
        for _ in range(20):
            for job in self.cache.jobs():
                if job.ready:
                    self.cache.advance(job.id, DONE)
            for rid in (1000, 1001, 1002):
                self.cache.poll(rid)
            self.cache.tick()
        view = self.cache.tiers()
        assert not self.cache.jobs() and not view.moving and self.cache.occupied() == 0
        assert not [node for node in view.nodes if node.pins]
        self.replay()
        told = {(tier, path) for (tier, _), path in self.mirror.items()}
        shown = {
            (tier, (path[0], path[1][:end]))
            for path, node in self.paths(view)
            for tier, slots in (("device", node.slots), ("host", node.host))
            if slots
            for end in range(len(path[1]) - len(node.units) + self.size, len(path[1]) + 1, self.size)
        }
        assert told == shown

    # -- checks --------------------------------------------------------------------------------

    def paths(self, view: Any) -> list[tuple[Path, Any]]:
        """Each node with the path to its end."""
        found: list[tuple[Path, Any]] = []
        for node in view.nodes:
            above: tuple[Unit, ...] = found[node.parent][0][1] if node.parent >= 0 else ()
            found.append(((node.namespace, above + node.units), node))
        return found

    def check(self) -> None:
        """What holds after every call, whoever did what."""
        view = self.cache.tiers()
        nodes = self.paths(view)
        size = self.size
        host = [page * size + at for page in view.host_free for at in range(size)] + list(view.moving)
        host += [slot for _, node in nodes for slot in node.host or ()]
        assert sorted(host) == list(range(self.config.host_pages * size)), "a host slot has not exactly one home"
        device = [page * size + at for page in view.free for at in range(size)]
        device += [slot for _, node in nodes for slot in node.slots or ()]
        own = {slot // size for _, row, cached in self.requests.values() for slot in row[cached:]}
        device += [page * size + at for page in own for at in range(size)]
        assert sorted(device) == list(range(size, self.config.pages * size + size)), "a device slot has no one home"
        self.check_nodes(view, nodes)
        self.check_sizes(view)
        if self.random.random() < 0.5:
            self.replay()

    def check_nodes(self, view: Any, nodes: list[tuple[Path, Any]]) -> None:
        """The form of the tree, contents, locks."""
        jobs = self.cache.jobs()
        held = Counter(path for _, path in self.receipts)
        held.update((key.namespace, key.units[:cached]) for key, _, cached in self.requests.values())
        held.update((job.key.namespace, job.key.units) for job in jobs if job.kind in ("backup", "load"))
        for (namespace, units), node in nodes:
            start = len(units) - len(node.units)
            assert node.slots or node.host, "a node is on no tier"
            above = view.nodes[node.parent] if node.parent >= 0 else None
            assert not node.slots or above is None or above.slots, "a resident page lies behind one that is not"
            if self.config.write != "write_back":
                assert not node.host or above is None or above.host, "a backed page lies behind one that is not"
            for tier, slots, kind in (("device", node.slots, "load"), ("host", node.host, "backup")):
                moving = [job for job in jobs if job.kind == kind and not job.landed]
                if slots and not any(self.covers(job, namespace, units) for job in moving):
                    expected = [mark((namespace, units[: at + 1])) for at in range(start, len(units))]
                    assert list(self.cache.peek(tier, slots)) == expected, f"wrong contents on the {tier}"
            locks = sum(times for (other, path), times in held.items() if other == namespace and starts(path, units))
            assert node.locks == locks, f"{node.locks} locks where {locks} are held"

    def covers(self, job: Job, namespace: str | None, units: tuple[Unit, ...]) -> bool:
        """Whether a job copies a part of the node that ends here."""
        path = job.key.units
        return job.key.namespace == namespace and starts(path, units) and job.start < len(units)

    def check_sizes(self, view: Any) -> None:
        """The counters."""
        resident = [node for node in view.nodes if node.slots]
        evictable = sum(len(node.units) for node in resident if not node.locks)
        assert tuple(self.cache.sizes()) == (evictable, sum(len(node.units) for node in resident) - evictable)
        assert self.cache.host_available() == len(view.host_free) * self.size

    def replay(self) -> None:
        """What events tell."""
        for event in self.cache.events():
            if event.what == "cleared":
                self.mirror.clear()
            elif event.what == "removed":
                del self.mirror[event.tier, event.page]
            else:
                above: tuple[Unit, ...] = ()
                if event.parent is not None:
                    above = next(self.mirror[t, event.parent][1] for t in TIERS if (t, event.parent) in self.mirror)
                assert (event.tier, event.page) not in self.mirror
                self.mirror[event.tier, event.page] = (event.namespace, above + tuple(event.units))


TIERS = ("device", "host")


def starts(path: tuple[Unit, ...], units: tuple[Unit, ...]) -> bool:
    """Whether a path begins with these units."""
    return path[: len(units)] == units
