"""Requests over SGLang's cache with host memory for all components: ``LAYOUT WRITE SEED STEPS [SLIP]``, as JSON.

A walk is drawn: requests begin (match, load back, lock, allocate, compute) and end (insert, unlock), streams go on,
the scheduler looks for copies that have ended, and memory is evicted on both tiers.  After each step this must hold:

* SGLang's own ``sanity_check`` passes, where no load back is under way.
* Each row of each pool is free, cached once, or a request's.
* What is cached holds what belongs to its prefix, on both tiers, unless a copy is still writing there.
* After a load back what the request goes on from is usable, and no load back is refused where nobody holds anything
  and there is enough to load.
* With write-through nothing leaves the host but by an eviction there, or for a backup.

Run by the interpreter of the release's environment.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from kvlitmus.conformance.ports import Config
from kvlitmus.spec.words.units import Key
from tests.conformance.support import sglang_hosted_slips as slips
from tests.conformance.support.sglang_hosted import Hosted

SIZE = 4


class Fault(AssertionError):
    """Something that must hold doesn't."""


class WalkedRequest(NamedTuple):
    """A request between its admission and its end."""

    key: Key
    receipt: Any
    entries: dict[str, dict[int, int]]
    states: list[int]


class Walk:
    """One walk."""

    def __init__(self, cache: Hosted, seed: int) -> None:
        self.cache, self.draw = cache, random.Random(seed)
        self.running: list[WalkedRequest] = []
        self.keys: list[tuple[int, ...]] = [()]
        self.all = cache.hosted.places["kv"] * SIZE
        # A server admits so few requests that each can have three states: its own, and two that are cached.
        self.most = cache.hosted.places.get("state", 9) // 3 or 1
        self.coming: dict[int, dict[str, list[int]]] = {}
        self.seen = {
            "loads": 0,
            "backups": 0,
            "served": 0,
            "refused": 0,
            "windows alone": 0,
            "states alone": 0,
            "idle loads": 0,
        }
        self.trace: list[str] = []
        self.on_host: set[tuple[float, int]] = set()
        self._watch()

    def _watch(self) -> None:
        """Which rows a load back is written to; how many copies there are."""
        controller = self.cache.controller
        load, write = controller.load, controller.write

        def loading(*args: Any, **kwargs: Any) -> Any:
            answer = load(*args, **kwargs)
            if answer is not None:
                operation = controller.load_queue[-1]
                rows: dict[str, list[int]] = {"kv": operation.device_indices.tolist()}
                for transfer in operation.pool_transfers or []:
                    name = next(name for name, pool in self.cache.pools.items() if pool == transfer.name)
                    rows[name] = [*rows.get(name, []), *transfer.device_indices.tolist()]
                self.coming[operation.node_ids[0]] = rows
                self.seen["loads"] += 1
                self.seen["windows alone"] += not rows["kv"] and bool(rows.get("swa"))
                self.seen["states alone"] += not rows["kv"] and bool(rows.get("state"))
            return answer

        def writing(*args: Any, **kwargs: Any) -> Any:
            answer = write(*args, **kwargs)
            self.seen["backups"] += answer is not None
            return answer

        controller.load, controller.write = loading, writing

    # --- steps

    def begin(self) -> None:
        """A request is admitted: it loads, locks, gets rows and computes."""
        cache, draw = self.cache, self.draw
        base = draw.choice(self.keys)
        pages = [*base[: draw.randint(0, len(base))], *(draw.randint(1, 3) for _ in range(draw.randint(0, 3)))][:6]
        if not pages or len(self.running) == self.most:
            return
        key = Key(None, tuple(page for page in pages for _ in range(SIZE)), False)
        self.trace.append(f"begin {pages}")
        self._states()
        idle = not self.running and cache.cache.evictable_size() + cache.component_available()["kv"] * SIZE == self.all
        admitted = cache.load(key._replace(tokens=key.tokens[:-1]))
        hit, states = admitted.hit, [] if admitted.own is None else [admitted.own]
        if cache.cache.has_free_load_back_slot():
            cache.cache.ready_to_load_host_cache()
        receipt = cache._lock(admitted.node)
        again, _, _ = cache.component_match(key._replace(tokens=key.tokens[:-1]))
        if again != hit:
            raise Fault(f"a request was admitted with a hit of {hit} units, and {again} are usable")
        if idle and admitted.must and hit != admitted.best:
            raise Fault(f"{admitted.best} units could be loaded, nobody holds anything, and {hit} are there")
        self.seen["idle loads"] += idle and admitted.must
        entries = self._granted(len(pages) - hit // SIZE, hit)
        if entries is None:
            self.seen["refused"] += 1
            self._give_back(receipt, states)
            return
        cache.compute(key.units, entries)
        self.running.append(WalkedRequest(key, receipt, entries, states))
        self.keys.append(tuple(pages))
        self.seen["served"] += 1

    def _states(self) -> None:
        """Where backups hold the states that a request needs, it comes when they have ended: else SGLang raises."""
        cache = self.cache
        if cache.states is None or cache.states.available_size() + cache.cache.mamba_evictable_size() >= 3:
            return
        cache.cache.flush_pending_backups()
        cache.controller.l2_transfer_engine.device_to_host_stream.synchronize()
        cache.cache.check_hicache_events()

    def _granted(self, many: int, hit: int) -> dict[str, dict[int, int]] | None:
        """Rows for so many pages behind a hit; whatever nobody holds makes room."""
        cache = self.cache
        window = many if self.draw.random() < 0.7 else max(1, min(many, 2))
        wants = {name: {"kv": many, "swa": window, "state": 1}[name] for name in cache.names}
        free = cache.component_available()
        lack = {name: max(0, wanted - free[name]) for name, wanted in wants.items()}
        if any(lack.values()):
            cache.component_evict(lack)
        granted = cache.component_alloc(wants)
        if granted is None:
            return None
        ends = [hit + (at + 1) * SIZE for at in range(many)]
        return {name: dict(zip(ends[-wants[name] :], granted[name], strict=True)) for name in cache.names}

    def _loaded(self) -> None:
        """What a request computes waits for its load back."""
        self.cache.cache.ready_to_load_host_cache()
        for ack in self.cache.controller.ack_load_queue:
            ack.finish_event.synchronize()

    def _give_back(self, receipt: Any, states: list[int]) -> None:
        self._loaded()
        self.cache.component_unlock(receipt)
        if states:
            self.cache.states.free(self.cache._tensor(states))

    def end(self) -> None:
        """A request has computed, which waited for its load back: what it has is cached, and its lock goes."""
        if not self.running:
            return
        request = self.running.pop(self.draw.randrange(len(self.running)))
        self.trace.append(f"end {list(request.key.tokens[::SIZE])}")
        self._loaded()
        self.cache.component_insert(request.key, request.entries)
        if self.draw.random() < 0.7:
            self.cache.cache.flush_pending_backups()
        self._give_back(request.receipt, request.states)

    def slide(self) -> None:
        """A request has computed a window of its own, and needs that of its prefix no more."""
        if self.running and "swa" in self.cache.names:
            request = self.draw.choice(self.running)
            if len(request.entries["swa"]) >= 2:
                self.trace.append(f"slide {list(request.key.tokens[::SIZE])}")
                self._loaded()
                self.cache.cache.release_swa(request.receipt)

    def look(self) -> None:
        """A step of the scheduler."""
        self.trace.append("tick")
        self.cache.cache.check_hicache_events()

    def go(self) -> None:
        """A stream does what is next."""
        engine = self.cache.controller.l2_transfer_engine
        stream = self.draw.choice([engine.device_to_host_stream, engine.host_to_device_stream])
        self.trace.append("stream")
        if stream.work:
            stream.step()

    def evict(self) -> None:
        """Somebody needs room on the device."""
        wants = {self.draw.choice(self.cache.names): self.draw.randint(1, 4)}
        self.trace.append(f"evict {wants}")
        self.cache.component_evict(wants)

    def evict_host(self) -> None:
        """Somebody needs room on the host, as a prefetch does."""
        name = self.draw.choice(self.cache.names)
        many = self.draw.randint(1, 2) * (1 if name == "state" else SIZE)
        self.trace.append(f"evict_host {name} {many}")
        self.cache.cache.evict_host(many, self.cache.types[name])

    def settle(self) -> None:
        """Everything ends."""
        self.trace.append("settle")
        while self.running:
            self.end()
        self.cache.cache.flush_pending_backups()
        for stream in (
            self.cache.controller.l2_transfer_engine.device_to_host_stream,
            self.cache.controller.l2_transfer_engine.host_to_device_stream,
        ):
            stream.synchronize()
        self.look()

    def again(self) -> None:
        """Nobody holds anything, the device has room, and a request comes."""
        self.settle()
        self.cache.component_evict({"kv": self.draw.randint(2, self.cache.hosted.places["kv"])})
        self.begin()

    # --- what must hold

    def check(self, move: Callable[[], None]) -> None:
        """After each step."""
        cache = self.cache
        if not cache.cache.ongoing_load_back:  # as the scheduler calls it, where nothing is under way
            cache.cache.sanity_check()
        self.coming = {node: rows for node, rows in self.coming.items() if node in cache.cache.ongoing_load_back}
        homes: dict[tuple[str, bool], list[int]] = {}
        on_host: set[tuple[float, int]] = set()
        for name, host, rows, due, written in self._cached(cache._root(), ()):
            homes.setdefault((name, host), []).extend(rows)
            if host:
                on_host.update(zip(due, rows, strict=True))
            moving = {row for coming in self.coming.values() for row in coming.get(name, ())}
            if not (written if host else moving & set(rows)):
                found = cache.contents(name, rows, host=host)
                if found != [(number, -number) for number in due]:
                    where = "host" if host else "device"
                    raise Fault(f"{name} on the {where} holds {found} where {due} belongs")
        self._homes(homes)
        if move not in (self.end, self.evict_host, self.settle, self.again) and not cache.cache.is_write_back:
            gone = self.on_host - on_host
            if gone:
                raise Fault(f"{sorted(gone)} left the host, and nobody evicted anything there")
        self.on_host = on_host

    def _cached(self, node: Any, units: tuple[object, ...]) -> Iterator[tuple[str, bool, list[int], list[float], bool]]:
        """Of each node and component the rows on each tier, what they must hold, and whether a backup writes there."""
        cache = self.cache
        for child in node.children.values():
            whole = (*units, *child.key)
            for name in cache.names:
                data = child.component_data[cache.types[name]]
                ends = [len(whole)] if name == "state" else range(len(units) + 1, len(whole) + 1)
                due = [cache.number(name, whole[:end]) for end in ends]
                written = child.write_through_pending_id is not None
                for host, rows in ((False, data.value), (True, data.host_value)):
                    if rows is not None:
                        yield name, host, rows.tolist(), due, written
            yield from self._cached(child, whole)

    def _homes(self, homes: dict[tuple[str, bool], list[int]]) -> None:
        """Each row is free, cached once, or a request's."""
        cache = self.cache
        free = cache.component_free_places()
        held: dict[str, list[int]] = {name: [] for name in cache.names}
        for request in self.running:
            for name, rows in request.entries.items():
                held[name].extend(rows.values() if name == "state" else cache._slots(list(rows.values())))
            if request.states:
                held["state"].extend(request.states)
        host = cache.free_host()
        for name in cache.names:
            pages = free[name] if name == "state" else cache._slots(free[name])
            first = 1 if name == "state" else SIZE
            size = cache.hosted.places[name] * (1 if name == "state" else SIZE)
            everything = sorted([*pages, *held[name], *homes.get((name, False), [])])
            if everything != list(range(first, first + size)):
                raise Fault(f"{name} on the device: {everything} are free, cached or held")
            size = cache.group.get_pool(cache.pools[name]).size
            everything = sorted([*host[name], *homes.get((name, True), [])])
            if everything != list(range(size)):
                raise Fault(f"{name} on the host: {everything} are free or cached")

    def run(self, steps: int) -> dict[str, Any]:
        """So many steps; answers what was seen, and a fault with its last steps."""
        moves = [self.begin] * 8 + [self.end] * 5 + [self.look] * 3 + [self.go] * 6 + [self.evict] * 2
        moves += [self.evict_host, self.settle, self.slide, self.again]
        for _ in range(steps):
            try:
                move = self.draw.choice(moves)
                move()
                self.check(move)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is what was found
                return {"fault": f"{type(error).__name__}: {error}", "trace": self.trace[-40:], **self.seen}
        return {"fault": None, **self.seen}


def made(layout: str, write: str, seed: int) -> Hosted:
    """A cache; how large it is on each tier goes by the seed."""
    least, most = (16, 32) if "state" in layout else (12, 18)
    draw = random.Random(seed)
    pages, host_pages = draw.randint(least, most), draw.randint(8, 32)
    return Hosted(Config(page_size=SIZE, pages=pages, components=layout), write, host_pages)


def main(layout: str, write: str, seed: str, steps: str, slip: str = "") -> dict[str, Any]:
    """Walk."""
    cache = made(layout, write, int(seed))
    if slip:
        slips.plant(cache, slip)
    return Walk(cache, int(seed)).run(int(steps))


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
