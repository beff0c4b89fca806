"""Drive a real SGLang cache at random through its adapter and check that the adapter tells the truth.

Run by the interpreter of a release's own environment, which has no pytest; the test beside this
file starts it.  Usage: sglang_drive.py MODULE TARGET STEPS, with kvlitmus on the path.  Every
call is legal; after each, every page must be free, cached or owned, exactly once, and the
counters must be what the snapshot amounts to.  Prints a line of JSON.
"""

from __future__ import annotations

import importlib
import json
import random
import sys
import time
from typing import Any

from kvlitmus.conformance.ports import Config, View
from kvlitmus.spec.words.units import Key, page_floor, pages_needed

PAGES = 24


class Drive:
    """One adapter, what the caller owns, and the checks."""

    def __init__(self, target: Any, config: Config, seed: int) -> None:
        self.adapter: Any = target.make(config)
        self.profile = target.profile
        self.config = config
        self.size = config.page_size
        self.random = random.Random(seed)
        self.owned: list[list[int]] = []
        self.receipts: list[object] = []
        self.live: dict[int, tuple[Key, list[int], int]] = {}
        self.last_rid = 0
        self.calls = 0
        self.seconds = 0.0

    def call(self, name: str, *arguments: Any, **named: Any) -> Any:
        self.calls += 1
        begun = time.perf_counter()
        answer = getattr(self.adapter, name)(*arguments, **named)
        self.seconds += time.perf_counter() - begun
        return answer

    def has(self, name: str) -> bool:
        return hasattr(self.adapter, name)

    def key(self) -> Key:
        """A key that shares prefixes with other keys, of any length, in one of four namespaces."""
        trunk = self.random.randint(0, 2) * 1000
        tokens = [
            trunk + position + (10_000 * self.random.randint(1, 2) if self.random.random() < 0.6 / self.size else 0)
            for position in range(self.random.randint(0, 5 * self.size + 1))
        ]
        namespace = self.random.choice([None, None, "a", ""])
        return Key(namespace, tuple(tokens), self.config.bigram)

    def pages(self, slots: list[int]) -> list[int]:
        return sorted({slot // self.size for slot in slots})

    def slots(self, pages: list[int]) -> list[int]:
        return [page * self.size + at for page in pages for at in range(self.size)]

    def check(self) -> View:
        view: View = self.adapter.view()
        cached = []
        for node in view.nodes:
            assert node.units and len(node.units) == len(node.slots) and len(node.units) % self.size == 0, node
            for start in range(0, len(node.slots), self.size):
                run = list(node.slots[start : start + self.size])
                assert run == self.slots([run[0] // self.size]), node
                cached.append(run[0] // self.size)
        mine = [page for pages in self.owned for page in pages]
        for _, row, shared in self.live.values():
            mine += self.pages(row[shared:])
        first = self.profile.reserved
        assert sorted([*view.free, *cached, *mine]) == list(range(first, first + PAGES)), (view, mine)
        assert self.adapter.available() == len(view.free) * self.size
        if self.has("sizes"):
            unlocked = sum(len(node.slots) for node in view.nodes if node.locks == 0)
            everything = sum(len(node.slots) for node in view.nodes)
            assert self.adapter.sizes() == (unlocked, everything - unlocked)
        if getattr(self.adapter, "probe", None) is not None:
            assert self.content(self.adapter.view()) == self.content(view), "looking changed something"
        return view

    def paths(self, view: View) -> list[tuple[str | None, tuple[Any, ...]]]:
        """For each node its namespace and the units from the root to its end."""
        paths: list[tuple[str | None, tuple[Any, ...]]] = []
        for node in view.nodes:
            namespace, above = paths[node.parent] if node.parent >= 0 else (node.namespace, ())
            paths.append((namespace, above + node.units))
        return paths

    def content(self, view: View) -> set[tuple[Any, ...]]:
        """The nodes, whatever their order."""
        return {(*path, node.slots, node.locks) for path, node in zip(self.paths(view), view.nodes, strict=True)}

    def cached_length(self, view: View, key: Key) -> int:
        """What the snapshot says of a key, for comparison with what a match says."""
        best = 0
        for namespace, units in self.paths(view):
            if namespace == key.namespace:
                pairs = zip(units, key.units, strict=False)
                same = next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(units), len(key.units)))
                best = max(best, same)
        return page_floor(best, self.size)

    def match(self, view: View) -> None:
        key = self.key()
        hit = self.call("match", key)
        assert hit.length == self.cached_length(view, key) == len(hit.slots)
        if len(self.receipts) < 6 and self.random.random() < 0.4:
            self.receipts.append(self.call("lock", hit.handle))

    def store(self, view: View) -> None:
        """What a scheduler does: match, lock, allocate the rest, insert, unlock; or insert all anew."""
        key, aware = self.key(), self.random.random() < 0.7
        whole = page_floor(key.length, self.size)
        hit = self.call("match", key)
        receipt = self.call("lock", hit.handle)
        prefix = list(hit.slots) if aware else []
        fresh = self.call("alloc", whole - len(prefix)) if whole > len(prefix) else []
        if fresh is None:
            self.call("evict", whole)
        else:
            chunked = self.random.random() < 0.2
            stored = self.call(
                "insert",
                key,
                prefix + fresh,
                protected=len(prefix),
                priority=self.random.randint(0, 2),
                chunked=chunked,
            )
            assert stored.already == hit.length == self.cached_length(view, key)
            vain = (prefix + fresh)[len(prefix) : stored.already]
            if vain and self.profile.duplicates == "caller_frees":
                self.call("free", vain)
        self.call("unlock", receipt)

    def pool(self) -> None:
        """Allocate, continue and free pages of the caller's own."""
        kind = self.random.random()
        wanted = self.random.randint(1, 3 * self.size)
        if kind < 0.4 and self.owned:
            self.call("free", self.slots(self.owned.pop(self.random.randrange(len(self.owned)))))
        elif kind < 0.7 or not self.has("alloc_extend"):
            slots = self.call("alloc", pages_needed(wanted, self.size) * self.size)
            if slots is not None:
                self.owned.append(self.pages(slots))
        elif pages_needed(wanted + 1, self.size) * self.size <= self.adapter.available():
            slots = self.call("alloc_extend", [0], [wanted], [-1])
            slots += self.call("alloc_decode", [wanted + 1], [slots[-1]])
            assert len(set(slots)) == wanted + 1
            self.owned.append(self.pages(slots))

    def evict(self, view: View) -> None:
        unlocked = sum(len(node.slots) for node in view.nodes if node.locks == 0)
        asked = self.random.randint(1, 4 * self.size)
        freed = self.call("evict", asked)
        assert freed >= min(asked, unlocked)
        assert freed == (len(self.adapter.view().free) - len(view.free)) * self.size

    def request(self) -> None:
        """Begin, grow, publish or end a request."""
        kind = self.random.random()
        if kind < 0.35 or not self.live:
            key = self.key()
            self.last_rid += 1
            begun = self.call("begin", self.last_rid, key) if key.tokens else None
            if begun is not None:
                assert len(begun.row) == len(key.tokens)
                self.live[self.last_rid] = (key, list(begun.row), begun.cached)
            elif self.adapter.available() < 8 * self.size:
                self.call("evict", 4 * self.size)
            return
        rid = self.random.choice(list(self.live))
        key, row, shared = self.live[rid]
        if kind < 0.6 and len(row) < 20 * self.size:
            tokens = tuple(self.random.choices(range(4), k=self.random.choice([1, 1, self.size])))
            slots = self.call("grow", rid, tokens)
            if slots is not None:
                self.live[rid] = (key._replace(tokens=key.tokens + tokens), row + list(slots), shared)
        elif kind < 0.8:
            begun = self.call("publish", rid, chunked=self.random.random() < 0.5)
            assert begun.cached == page_floor(key.length, self.size)
            self.live[rid] = (key, list(begun.row), begun.cached)
        else:
            del self.live[rid]
            self.call("end", rid, keep=self.random.random() < 0.6)

    def step(self, view: View) -> None:
        kind = self.random.random()
        if not self.has("match"):
            self.pool()
        elif self.has("begin") and kind < 0.6:
            self.request()
        elif kind < 0.25:
            self.match(view)
        elif kind < 0.6:
            self.store(view)
        elif kind < 0.75:
            self.pool()
        elif kind < 0.85 and self.receipts:
            self.call("unlock", self.receipts.pop(self.random.randrange(len(self.receipts))))
        else:
            self.evict(view)

    def finish(self) -> None:
        """Give everything back: nothing may be left locked, and a reset empties the tree."""
        for rid in self.live:
            self.call("end", rid, keep=False)
        self.live.clear()
        for receipt in self.receipts:
            self.call("unlock", receipt)
        for pages in self.owned:
            self.call("free", self.slots(pages))
        self.owned.clear()
        assert all(node.locks == 0 for node in self.check().nodes)
        self.adapter.reset()
        assert not self.check().nodes


def main(module: str, name: str, steps: int) -> None:
    target = getattr(importlib.import_module(f"kvlitmus.conformance.adapters.sglang.{module}.flat"), name)
    summary = {"calls": 0, "seconds": 0.0, "configurations": 0}
    for size in (1, 4, 16, 64):
        for bigram in (False, True):
            for policy in ("lru", "lfu", "fifo", "mru", "filo", "priority", "slru") if not bigram else ("lru",):
                config = Config(page_size=size, pages=PAGES, policy=policy, bigram=bigram, pool=target.pool)
                drive = Drive(target, config, seed=size * 100 + len(policy))
                for _ in range(steps):
                    drive.step(drive.check())
                drive.finish()
                summary["calls"] += drive.calls
                summary["seconds"] += drive.seconds
                summary["configurations"] += 1
    print(json.dumps(summary))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
