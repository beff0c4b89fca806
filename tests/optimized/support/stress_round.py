"""One round of the stress: a cache over small pools, its scheduler, and the request streams that it serves."""

from __future__ import annotations

import contextlib
import random
import time
from collections import Counter
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvlitmus.optimized.cache import CacheConfig
from kvlitmus.optimized.data.pools import DevicePool, HostPool
from kvlitmus.optimized.data.transfer import TorchMover
from kvlitmus.optimized.hierarchy import HierarchicalCache
from kvlitmus.optimized.put import Puts
from kvlitmus.optimized.runner import Threads
from kvlitmus.optimized.storage.base import Identity, PageStore
from kvlitmus.optimized.storage.file import FileStore
from kvlitmus.optimized.testing import KINDS, SLOTS, FaultError, Faults, FaultyMover, faulty_parts
from kvlitmus.optimized.tree import Place
from tests.optimized.support.pausing import PausingMover
from tests.optimized.support.stress_check import Unsound, at_rest, stored_pages
from tests.optimized.support.stress_setting import Setting, Stream
from tests.optimized.support.stress_world import (
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
FAILURES = tuple([kind for kind in KINDS if kind != SLOTS])
"""What fails: slots can't, for a stress looks at them itself."""

PATIENCE = 60.0
"""After so many seconds work that doesn't end is taken for work that never ends."""


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
        self.copies = mover(device, host, stepped=False, pause=lagging(setting.seed, setting.lag))
        self.faults = Faults()
        self.mover = FaultyMover(self.copies, self.faults, self.spoil)
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
            parts=faulty_parts(self.faults),
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
            cache.puts.__class__ = Puts  # step by step
            cache.puts.tree = Without(cache.tree, "pin", "unpin")
        elif self.setting.planted == "kept-load":
            cache.loads.fail = cache.loads.finish
        elif self.setting.planted == "early-release":
            orphan = cache.fetches.orphan

            def too_early(operation: Any) -> None:
                cache.fetches.host.release(operation.held)
                operation.held = operation.held[:0]
                orphan(operation)

            cache.fetches.orphan = too_early

    def spoil(self, tier: str, pages: NDArray[np.int32]) -> None:
        """A copy to these pages has failed."""
        (self.device if tier == "device" else self.host).spoil(pages)

    # -- the scheduler -------------------------------------------------------------------------

    def step(self) -> None:
        """One step: some stream goes on, or something else happens."""
        draw = self.draw.random()
        self.counts["steps"] += 1
        if self.draw.random() < self.setting.failures:
            self.faults.fail(self.draw.choice(FAILURES), self.draw.randrange(3))
        if self.setting.device != "cpu" and self.draw.random() < 0.1:
            delay(self.copies, self.draw)
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
        try:
            begun = self.cache.begin(stream.rid, tokens, stream.namespace)
        except MemoryError:
            begun = None
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
        if not self.use(begun.row[prefix], stream.prints[prefix], begun.place, f"prefix of request {stream.rid}"):
            self.cache.end(stream.rid, keep=False)  # and begun anew, some steps later
            stream.running = False
            return
        self.device.write(begun.row[begun.cached :], stream.prints[begun.cached :])

    def run(self, stream: Stream) -> None:
        """A request goes on: it computes with all its slots, grows, is published, ends or is aborted."""
        request = self.cache.requests.running[stream.rid]
        draw = self.draw.random()
        if not self.use(request.row, stream.prints, request.place, f"row of request {stream.rid}"):
            self.end(stream, keep=False)
        elif draw < 0.4:
            new = [self.draw.randrange(50) for _ in range(self.draw.randrange(1, 5))]
            slots = self.grown(stream.rid, new)
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
            with contextlib.suppress(MemoryError):
                self.cache.publish(stream.rid, chunked=self.draw.random() < 0.5)
                self.counts["published"] += 1
        elif draw < 0.9:
            self.end(stream, keep=self.draw.random() < 0.85)

    def grown(self, rid: int, new: Sequence[int]) -> NDArray[np.int64] | None:
        """Slots for more tokens, if there is memory of any kind."""
        try:
            return self.cache.grow(rid, self.array(new))
        except MemoryError:
            return None

    def end(self, stream: Stream, *, keep: bool) -> None:
        """A request ends; without being kept, where there is no memory for that."""
        try:
            self.cache.end(stream.rid, keep=keep)
        except MemoryError:
            keep = False
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
            self.counts["evicted"] += len(self.cache.evict(self.draw.randrange(1, 17) * size))
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
            self.cache.reset(abort=True)
            self.plant()
            self.streams.clear()
            self.counts["resets"] += 1

    def use(self, slots: NDArray[np.int64], prints: Prints, place: Place, what: str) -> bool:
        """Compute with these slots, as a model would: layer by layer, waiting for the loads that bring it.

        Whether that went well: not, where a load has failed.
        """
        loads = [work.id for work in self.cache.loads_on(place)]
        for layer in range(self.mover.layers):
            for job in loads:
                try:
                    self.cache.wait_layer(job, layer)
                except RuntimeError:
                    self.counts["loads_failed"] += 1
                    return False
            self.device.check(slots, prints, what, layer)
        self.counts["tokens_checked"] += len(slots)
        return True

    def array(self, tokens: Sequence[int]) -> NDArray[np.int32]:
        """Tokens as the cache takes them."""
        return np.array(tokens, np.int32)

    # -- the end -------------------------------------------------------------------------------

    def rest(self) -> None:
        """End all requests, wait until nothing is under way, and look at everything."""
        self.faults.clear()
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
        self.copies.close()

    def close(self) -> None:
        """Close the cache; what storage should have must be there, and be right when a fresh cache reads it back."""
        size = self.setting.page_size
        if self.cache.store is None:
            self.cache.attach(self.store)
        lost = self.cache.close(30.0)
        self.copies.close()
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
            if not isinstance(fault, FaultError):
                raise fault
        self.counts.update([f"failed_{kind}" for kind in self.faults.struck])
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
