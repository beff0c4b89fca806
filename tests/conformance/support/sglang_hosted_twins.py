"""SGLang's two trees side by side, with host memory for all components: ``LAYOUT WRITE SEED STEPS [SLIP]``, as JSON.

The tree in Python and the compiled one, which servers use, get the same calls in the same order, over the same kind of
pools.  After each call they must say the same: hits, places, what was evicted, what is free on both tiers and what is
evictable.  What a hit names must hold what belongs to its prefix.

Run by the interpreter of the release's environment.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from kvlitmus.conformance.ports import Config
from kvlitmus.spec.words.units import Key
from tests.conformance.support.sglang_hosted import Hosted
from tests.conformance.support.sglang_hosted_slips import plant

SIZE = 4


class Compiled(Hosted):
    """With the compiled tree."""

    core = "rust"


class Held(NamedTuple):
    """A request between its admission and its end, on one side."""

    receipt: Any
    row: list[int]
    entries: dict[str, dict[int, int]]
    own: int | None


class Side:
    """One of the two: the calls that a scheduler makes, by what every tree answers."""

    def __init__(self, cache: Hosted) -> None:
        self.cache, self.tree = cache, cache.cache
        self.running: dict[int, Held] = {}

    def find(self, key: Key) -> Any:
        """``match_prefix``."""
        return self.tree.match_prefix(self.cache.base.MatchPrefixParams(key=self.cache._key(key)))

    def loaded(self) -> None:
        """Every load back that has begun ends."""
        self.tree.ready_to_load_host_cache()
        for ack in self.cache.controller.ack_load_queue:
            ack.finish_event.synchronize()

    def begin(self, number: int, key: Key, window: int) -> list[Any]:
        """A request is admitted; its hit, and the places that it gets."""
        cache, asked = self.cache, key._replace(tokens=key.tokens[:-1])
        admitted = cache.load(asked)
        said: list[Any] = [admitted.best, admitted.hit, admitted.own]
        self.loaded()
        receipt = cache._lock(admitted.node)
        row = self.tree.path_device_indices(admitted.node).tolist()[: admitted.hit]
        said += [row, self.holds(key, admitted.hit, row, admitted.node)]
        many = key.length // SIZE - admitted.hit // SIZE
        wants = {name: {"kv": many, "swa": min(many, window), "state": 1}[name] for name in cache.names}
        free = cache.component_available()
        lack = {name: max(0, wanted - free[name]) for name, wanted in wants.items()}
        if any(lack.values()):
            said.append(cache.component_evict(lack))
        granted = cache.component_alloc(wants)
        said.append(granted)
        if granted is None:
            self.release(receipt, admitted.own)
            return said
        ends = [admitted.hit + (at + 1) * SIZE for at in range(many)]
        entries = {name: dict(zip(ends[-wants[name] :], granted[name], strict=True)) for name in cache.names}
        cache.compute(key.units, entries)
        self.running[number] = Held(receipt, row, entries, admitted.own)
        return said

    def holds(self, key: Key, hit: int, row: list[int], node: Any) -> bool:
        """Whether a hit's rows hold what belongs to its prefix, on the device, of every component."""
        cache, units = self.cache, key.units
        wanted = {"kv": (row, [units[: at + 1] for at in range(hit)])}
        if "swa" in cache.names:
            index = cache.allocator.full_to_swa_index_mapping
            first = max(0, hit - (cache.window or 0))
            wanted["swa"] = ([int(index[at]) for at in row[first:]], [units[: at + 1] for at in range(first, hit)])
        if "state" in cache.names and hit:
            value = self.tree.tree_core.get_component_device_value(node, cache.types["state"])
            wanted["state"] = (value.tolist(), [units[:hit]])
        return all(
            cache.contents(name, rows, host=False) == [(number, -number) for number in map_numbers(cache, name, due)]
            for name, (rows, due) in wanted.items()
        )

    def release(self, receipt: Any, own: int | None) -> None:
        """A request gives its lock and its own state back."""
        self.cache.component_unlock(receipt)
        if own is not None:
            self.cache.states.free(self.cache._tensor([own]))

    def end(self, number: int, key: Key, *, flush: bool) -> list[Any]:
        """A request's pages are cached, and its lock goes."""
        cache, held = self.cache, self.running.pop(number)
        brought, window = held.entries["kv"], held.entries.get("swa", {})
        states = list(held.entries.get("state", {}).values())
        params = cache.base.InsertParams(
            key=cache._key(key),
            value=cache._tensor([*held.row, *cache._slots([brought[end] for end in sorted(brought)])]),
            mamba_value=cache._tensor(states) if states else None,
            prev_prefix_len=len(held.row),
        )
        if "swa" in cache.names:
            cache._from(params, min(window) - SIZE)
        result = self.tree.insert(params)
        if states and result.mamba_exist:
            cache.states.free(cache._tensor(states))
        if flush:
            self.tree.flush_pending_backups()
        self.release(held.receipt, held.own)
        return [int(result.prefix_len), bool(result.mamba_exist)]

    def land(self) -> None:
        """The first backup that runs ends."""
        for ack in self.cache.controller.ack_write_queue[:1]:
            ack.finish_event.synchronize()

    def states(self) -> int:
        """How many states a request could have."""
        return 9 if self.cache.states is None else self.cache.states.available_size() + self.tree.mamba_evictable_size()

    def settle(self) -> None:
        """Every copy ends, and the scheduler looks."""
        self.tree.flush_pending_backups()
        self.loaded()
        self.cache.controller.l2_transfer_engine.device_to_host_stream.synchronize()
        self.tree.check_hicache_events()

    def said(self) -> list[Any]:
        """What can be seen from outside after any call."""
        tree, cache = self.tree, self.cache
        if not tree.ongoing_load_back:
            tree.sanity_check()
        sizes = [tree.full_evictable_size(), tree.full_protected_size()]
        if "swa" in cache.names:
            sizes += [tree.swa_evictable_size(), tree.swa_protected_size()]
        if "state" in cache.names:
            sizes += [tree.mamba_evictable_size(), tree.mamba_protected_size()]
        host = {name: len(rows) for name, rows in cache.free_host().items()}
        return [cache.component_available(), host, sizes, len(tree.ongoing_write_through), len(tree.ongoing_load_back)]


def map_numbers(cache: Hosted, name: str, due: list[Any]) -> list[float]:
    """What some prefixes' rows must hold."""
    return [cache.number(name, units) for units in due]


class Twins:
    """Both, and the calls that are drawn."""

    def __init__(self, layout: str, write: str, seed: int) -> None:
        self.draw = random.Random(seed)
        least, most = (16, 32) if "state" in layout else (12, 18)
        config = Config(page_size=SIZE, pages=self.draw.randint(least, most), components=layout)
        host = self.draw.randint(8, 32)
        self.sides = [Side(made(config, write, host)) for made in (Hosted, Compiled)]
        self.most = self.sides[0].cache.hosted.places.get("state", 9) // 3 or 1
        self.running: dict[int, Key] = {}
        self.keys: list[tuple[int, ...]] = [()]
        self.number = 0
        self.seen = {"served": 0, "loads": 0}

    def both(self, call: Callable[[Side], Any]) -> tuple[Any, Any]:
        """The same call on both sides."""
        first, second = (call(side) for side in self.sides)
        return first, second

    def begin(self) -> tuple[Any, Any]:
        """A request."""
        draw = self.draw
        base = draw.choice(self.keys)
        pages = [*base[: draw.randint(0, len(base))], *(draw.randint(1, 3) for _ in range(draw.randint(0, 3)))][:6]
        if not pages or len(self.running) == self.most:
            return None, None
        if self.sides[0].states() < 3:
            self.both(Side.settle)
        key = Key(None, tuple(page for page in pages for _ in range(SIZE)), False)
        window, self.number = draw.choice((2, 6, 6)), self.number + 1
        said = self.both(lambda side: side.begin(self.number, key, window))
        self.seen["loads"] += bool(self.sides[0].tree.ongoing_load_back)
        if said[0] == said[1] and not said[0][4]:
            return said[0], "the hit holds something else"
        if self.number in self.sides[0].running:
            self.running[self.number] = key
            self.keys.append(tuple(pages))
            self.seen["served"] += 1
        return said

    def end(self) -> tuple[Any, Any]:
        """One of them."""
        if not self.running:
            return None, None
        number = self.draw.choice(list(self.running))
        key, flush = self.running.pop(number), self.draw.random() < 0.7
        return self.both(lambda side: side.end(number, key, flush=flush))

    def slide(self) -> tuple[Any, Any]:
        """A request needs the window of its prefix no more."""
        wide = [one for one, held in self.sides[0].running.items() if len(held.entries.get("swa", ())) >= 2]
        if not wide:
            return None, None
        number = self.draw.choice(wide)
        return self.both(lambda side: side.tree.release_swa(side.running[number].receipt))

    def evict(self) -> tuple[Any, Any]:
        """Somebody needs room on the device."""
        wants = {self.draw.choice(self.sides[0].cache.names): self.draw.randint(1, 4)}
        return self.both(lambda side: side.cache.component_evict(wants))

    def evict_host(self) -> tuple[Any, Any]:
        """Somebody needs room on the host."""
        name = self.draw.choice(self.sides[0].cache.names)
        many = self.draw.randint(1, 2) * (1 if name == "state" else SIZE)
        return self.both(lambda side: side.tree.evict_host(many, side.cache.types[name]))

    def run(self, steps: int) -> dict[str, Any]:
        """So many calls; what was seen, and where they part."""
        moves: list[Callable[[], tuple[Any, Any]]] = [self.begin] * 8 + [self.end] * 5 + [self.evict] * 2
        moves += [self.evict_host, self.slide, lambda: self.both(Side.settle)]
        moves += [lambda: self.both(lambda side: side.tree.check_hicache_events())] * 3
        moves += [lambda: self.both(Side.land)] * 4
        for at in range(steps):
            move = self.draw.choice(moves)
            for first, second in (move(), self.both(Side.said)):
                if first != second:
                    name = getattr(move, "__name__", "a copy")
                    return {"fault": f"step {at}, {name}: {first} in Python, {second} compiled", **self.seen}
        return {"fault": None, **self.seen}


def main(layout: str, write: str, seed: str, steps: str, slip: str = "") -> dict[str, Any]:
    """Both; a slip is planted in the tree in Python."""
    twins = Twins(layout, write, int(seed))
    if slip:
        plant(twins.sides[0].cache, slip)
    return twins.run(int(steps))


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
