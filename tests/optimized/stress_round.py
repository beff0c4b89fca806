"""One round of the stress: a cache over small pools, its scheduler, and the request streams that it serves."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvlitmus.optimized.cache import CacheConfig
from kvlitmus.optimized.data.pools import DevicePool, HostPool
from kvlitmus.optimized.data.transfer import TorchMover
from kvlitmus.optimized.hierarchy import HierarchicalCache
from kvlitmus.optimized.runner import Threads
from kvlitmus.optimized.storage.base import Identity, PageStore
from kvlitmus.optimized.storage.file import FileStore
from kvlitmus.optimized.tree import Place
from tests.optimized.pausing import PausingMover
from tests.optimized.stress_check import Unsound, at_rest, stored_pages
from tests.optimized.stress_world import (
    Contents,
    HastyMover,
    Prints,
    Troubled,
    Without,
    WrongContents,
    delay,
    lagging,
    prints_of,
    shape_of,
)

STREAMS = 6
NAMESPACES: tuple[Hashable, ...] = (None, None, "tenant")
PATIENCE = 60.0
"""After so many seconds work that doesn't end is taken for work that never ends."""


class Setting(NamedTuple):
    """What a round is like."""

    seed: int
    page_size: int
    pages: int
    host_pages: int
    write: str
    stop: str
    policy: str
    layout: str
    kind: str
    threads: int
    rate: float
    lag: float
    planted: str = ""
    device: str = "cpu"


def drawn(seed: int, planted: str, device: str = "cpu") -> Setting:
    """A setting; pools hold two requests at least, and far from all that is going on."""
    draw = random.Random(seed)
    return Setting(
        seed=seed,
        page_size=draw.choice((1, 2, 4)),
        pages=draw.choice((40, 56, 80)),
        host_pages=draw.choice((24, 48, 96)),
        write=draw.choice(("write_through", "write_through", "write_through_selective", "write_back")),
        stop=draw.choice(("best_effort", "wait_complete", "timeout")),
        policy=draw.choice(("lru", "lru", "lfu", "fifo", "slru", "priority")),
        layout=draw.choice(("layer_first", "page_first", "page_first_direct", "page_head")),
        kind=draw.choice(("mha", "mha", "mla")),
        threads=draw.choice((1, 2, 4)),
        rate=draw.choice((0.0, 0.05, 0.2)),
        lag=draw.choice((0.0, 0.002, 0.01)),
        planted=planted,
        device=device,
    )


class Stream:
    """A request: what it asks for, and how far it is."""

    def __init__(self, rid: int, namespace: Hashable, tokens: list[int]) -> None:
        self.rid = rid
        self.namespace = namespace
        self.tokens = tokens
        self.prints: Prints = prints_of(namespace, tokens)
        self.running = False
        self.patience = 0
        self.polls = 0
        self.refused = 0


class Round:
    """One cache and its scheduler."""

    def __init__(self, setting: Setting, folder: Path) -> None:
        self.setting = setting
        self.draw = random.Random(setting.seed)
        self.counts: Counter[str] = Counter()
        size, kind = setting.page_size, setting.kind
        shape = shape_of(size, kind=kind)
        device = DevicePool(shape, setting.pages + 1, device=setting.device)
        host = HostPool(shape, setting.host_pages, layout=setting.layout)  # type: ignore[arg-type]
        self.device, self.host = Contents(device), Contents(host)
        mover = HastyMover if setting.planted == "hasty" else PausingMover
        self.mover = mover(device, host, stepped=False, pause=lagging(setting.seed, setting.lag))
        self.runner = Threads(self.mover, threads=setting.threads, batch=self.draw.choice((1, 3, 16)))
        self.cache = HierarchicalCache(
            CacheConfig(
                page_size=size,
                pages=setting.pages,
                host_pages=setting.host_pages,
                policy=setting.policy,
                write=setting.write,
                stop=setting.stop,
                rate_limit=setting.host_pages * size,
                timeout=(0.002, 0.01, 0.05),
            ),
            self.mover,
            self.runner,
        )
        self.files = FileStore(folder, Identity(model="stress", layout=shape.text, page_size=size))
        self.store = Troubled(
            self.files,
            self.host,
            seed=setting.seed,
            rate=setting.rate,
            delay=0.02,
            swaps=setting.planted == "swap",
        )
        self.cache.attach(self.store)
        self.plant()
        self.rids = iter(range(1 << 60))
        self.streams: list[Stream] = []
        self.histories: list[tuple[Hashable, list[int]]] = []

    def plant(self) -> None:
        """Forget a rule of upkeep, where that is planted."""
        cache: Any = self.cache
        if self.setting.planted == "unpinned-load":
            cache.loads.tree = Without(cache.tree, "pin", "unpin")
        elif self.setting.planted == "unlocked-backup":
            cache.backups.tree = Without(cache.tree, "lock", "unlock")
        elif self.setting.planted == "unpinned-put":
            cache.puts.tree = Without(cache.tree, "pin", "unpin")
        elif self.setting.planted == "early-release":
            orphan = cache.fetches.orphan

            def too_early(operation: Any) -> None:
                cache.fetches.host.release(operation.held)
                operation.held = operation.held[:0]
                orphan(operation)

            cache.fetches.orphan = too_early

    # -- the scheduler -------------------------------------------------------------------------

    def step(self) -> None:
        """One step: some stream goes on, or something else happens."""
        draw = self.draw.random()
        self.counts["steps"] += 1
        if self.setting.device != "cpu" and self.draw.random() < 0.1:
            delay(self.mover, self.draw)
        if draw < 0.25:
            self.cache.tick()
        elif draw < 0.40 and len(self.streams) < STREAMS:
            self.arrive()
        elif draw < 0.96:
            if self.streams:
                stream = self.draw.choice(self.streams)
                (self.run if stream.running else self.wait)(stream)
        else:
            self.disturb()
        if self.store.complaints:
            raise WrongContents(self.store.complaints[0])

    def arrive(self) -> None:
        """A request comes: a conversation goes on, or branches off, or begins."""
        namespace, before = self.draw.choice(NAMESPACES), [self.draw.randrange(3)]
        if self.histories and self.draw.random() < 0.85:
            namespace, before = self.draw.choice(self.histories)
        most = self.setting.pages * self.setting.page_size // 3
        if len(before) > most - 4 or self.draw.random() < 0.2:
            before = before[: self.draw.randrange(1, len(before) + 1)]
        before = before[: most - 4]
        tokens = before + [
            self.draw.randrange(50) for _ in range(self.draw.randrange(1, 2 * self.setting.page_size + 9))
        ]
        stream = Stream(next(self.rids), namespace, tokens[:most])
        self.streams.append(stream)
        if self.draw.random() < 0.8:
            started = self.cache.prefetch(stream.rid, self.array(stream.tokens), namespace).started
            self.counts["prefetches"] += started
            # Under best effort the first poll takes what has come so far, so it had better not come at once.
            stream.patience = self.draw.randrange(12) if started else 0

    def wait(self, stream: Stream) -> None:
        """A request waits for its prefetch, and begins when it may."""
        if self.draw.random() < 0.03:
            self.cache.abandon(stream.rid)
            self.streams.remove(stream)
            self.counts["abandoned"] += 1
            return
        if stream.patience:
            stream.patience -= 1
            return
        if not self.cache.poll(stream.rid):
            stream.polls += 1
            self.counts["polls"] += 1
            if stream.polls % 8 == 0:
                time.sleep(0.001)
            return
        loaded = self.cache.loaded(stream.rid)
        self.counts["pages_prefetched"] += loaded // self.setting.page_size
        self.begin(stream)

    def begin(self, stream: Stream) -> None:
        """Bring back what is on the host, and compute what is not cached."""
        tokens = self.array(stream.tokens)
        back = self.cache.load_back(tokens, stream.namespace)
        self.counts["loads"] += back.work is not None
        self.counts["pages_loaded"] += len(back.pages) if back.pages is not None else 0
        begun = self.cache.begin(stream.rid, tokens, stream.namespace)
        if begun is None:
            self.counts["no_room"] += 1
            stream.refused += 1
            if stream.refused > 20:
                self.streams.remove(stream)
                self.counts["given_up"] += 1
            return
        stream.running = True
        self.counts["begun"] += 1
        self.counts["tokens_cached"] += begun.cached
        self.counts["tokens_computed"] += len(tokens) - begun.cached
        prefix = slice(begun.cached)
        self.use(begun.row[prefix], stream.prints[prefix], begun.place, f"prefix of request {stream.rid}")
        self.device.write(begun.row[begun.cached :], stream.prints[begun.cached :])

    def run(self, stream: Stream) -> None:
        """A request goes on: it computes with all its slots, grows, is published, ends or is aborted."""
        request = self.cache.requests.running[stream.rid]
        draw = self.draw.random()
        self.use(request.row, stream.prints, request.place, f"row of request {stream.rid}")
        if draw < 0.4:
            new = [self.draw.randrange(50) for _ in range(self.draw.randrange(1, 5))]
            slots = self.cache.grow(stream.rid, self.array(new))
            if slots is None:
                self.counts["no_room"] += 1
                self.end(stream, keep=False)
                return
            stream.tokens = stream.tokens + new
            stream.prints = prints_of(stream.namespace, stream.tokens)
            self.device.write(slots, stream.prints[-len(new) :])
            if len(stream.tokens) > self.setting.pages * self.setting.page_size // 3:
                self.end(stream, keep=True)
        elif draw < 0.6:
            self.cache.publish(stream.rid, chunked=self.draw.random() < 0.5)
            self.counts["published"] += 1
        elif draw < 0.9:
            self.end(stream, keep=self.draw.random() < 0.85)

    def end(self, stream: Stream, *, keep: bool) -> None:
        """A request ends."""
        self.cache.end(stream.rid, keep=keep)
        self.streams.remove(stream)
        self.counts["ended" if keep else "aborted"] += 1
        if keep:
            self.histories.append((stream.namespace, stream.tokens))
            if len(self.histories) > 40:
                del self.histories[self.draw.randrange(40)]

    def disturb(self) -> None:
        """Something that a scheduler does now and then."""
        what = self.draw.randrange(20)
        size = self.setting.page_size
        if what < 6:
            self.counts["evicted"] += self.cache.evict(self.draw.randrange(1, 17) * size) // size
        elif what < 14:
            self.counts["evicted_host"] += self.cache.evict_host(self.draw.randrange(1, 17) * size) // size
        elif what < 17 or self.cache.store is None:
            if self.cache.store is None:
                self.cache.attach(self.store)
            elif self.draw.random() < 0.3:
                self.cache.detach()
                self.counts["detached"] += 1
        elif what < 19:
            time.sleep(0.003)
        elif self.draw.random() < 0.1:
            self.cache.reset()
            self.plant()
            self.streams.clear()
            self.counts["resets"] += 1

    def use(self, slots: NDArray[np.int64], prints: Prints, place: Place, what: str) -> None:
        """Compute with these slots, as a model would: layer by layer, waiting for the loads that bring it."""
        loads = [work.id for work in self.cache.loads_on(place)]
        for layer in range(self.mover.layers):
            for job in loads:
                self.cache.wait_layer(job, layer)
            self.device.check(slots, prints, what, layer)
        self.counts["tokens_checked"] += len(slots)

    def array(self, tokens: Sequence[int]) -> NDArray[np.int32]:
        """Tokens as the cache takes them."""
        return np.array(tokens, np.int32)

    # -- the end -------------------------------------------------------------------------------

    def rest(self) -> None:
        """End all requests, wait until nothing is under way, and look at everything."""
        while self.streams:
            stream = self.streams[0]
            if stream.running:
                self.end(stream, keep=True)
            else:
                self.cache.abandon(stream.rid)
                self.streams.remove(stream)
        until = time.monotonic() + PATIENCE
        while self.cache.jobs():
            self.cache.tick()
            time.sleep(0.001)
            if time.monotonic() > until:
                raise Unsound(f"work that never ends: {[(work.id, work.kind) for work in self.cache.jobs()]}")
        self.cache.tick()
        self.counts["pages_at_rest"] += at_rest(self.cache, self.device, self.host, prints_of)

    def stop(self) -> None:
        """End the threads of a round in which something was wrong."""
        self.runner.close(5.0)
        self.mover.close()

    def close(self) -> None:
        """Close the cache; what storage should have must be there, and be right when a fresh cache reads it back."""
        size = self.setting.page_size
        if self.cache.store is None:
            self.cache.attach(self.store)
        lost = self.cache.close(30.0)
        self.mover.close()
        if not self.setting.rate and lost:
            raise Unsound(f"{len(lost)} pages were not written to a storage that refuses nothing")
        missing = self.cache.puts.missing()
        if missing != len(lost):
            raise Unsound(f"storage lacks {missing} pages, and a close has told of {len(lost)}")
        self.counts["not_stored"] += missing
        expected = stored_pages(self.cache, prints_of)
        for name, prints in expected:
            (page,) = self.files.get([name], self.mover.page_bytes)
            if page is None:
                raise Unsound(f"page {name[:8]}, which storage has accepted, is not there")
            found = self.host.tokens_of(page)
            if found is None or (found != prints).any():
                raise WrongContents(f"page {name[:8]} in storage has wrong contents")
        self.counts["stored"] += self.files.usage().pages
        for fault in self.runner.faults:
            raise fault
        self.counts.update({f"storage_{name}": many for name, many in self.store.counts.items()})
        self.counts["read_back"] += read_back(self.setting, self.files, self.histories[-10:]) // size


def read_back(setting: Setting, files: PageStore, histories: Sequence[tuple[Hashable, list[int]]]) -> int:
    """A restart: a fresh cache over the same storage finds what was stored, with the right contents.

    Returns how many tokens it had not to compute.
    """
    shape = shape_of(setting.page_size, kind=setting.kind)
    device = DevicePool(shape, setting.pages + 1, device=setting.device)
    host = HostPool(shape, setting.host_pages)
    mover = TorchMover(device, host, stepped=False)
    config = CacheConfig(
        page_size=setting.page_size,
        pages=setting.pages,
        host_pages=setting.host_pages,
        stop="wait_complete",
        rate_limit=setting.host_pages * setting.page_size,
    )
    contents, found = Contents(device), 0
    cache = HierarchicalCache(config, mover, Threads(mover, threads=2))
    cache.attach(files)
    for rid, (namespace, tokens) in enumerate(histories):
        key = np.array(tokens, np.int32)
        cache.prefetch(rid, key, namespace)
        while not cache.poll(rid):
            cache.tick()
        back = cache.load_back(key, namespace)
        begun = cache.begin(rid, key, namespace)
        if begun is not None:
            if back.work is not None:
                for layer in range(mover.layers):
                    cache.wait_layer(back.work.id, layer)
            contents.check(begun.row[: begun.cached], prints_of(namespace, tokens)[: begun.cached], "after a restart")
            found += begun.cached
            cache.end(rid, keep=False)
        cache.tick()
    cache.close()
    mover.close()
    return found
