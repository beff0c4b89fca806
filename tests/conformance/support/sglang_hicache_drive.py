"""Drive a hierarchy of SGLang at random and check after each call that nothing is lost, owned twice, or wrong.

Run by the interpreter of a release's own environment; the test beside this file starts it.
Usage: sglang_hicache_drive.py MODULE TARGET STEPS, with kvlitmus and this checkout on the path.  The
store never raises, there is one namespace, no request is asked for twice, and nothing is detached or
reset; a run ends where a page on the host alone hangs below one without a host copy.  What is known
to go wrong after such things has a script of its own.  Prints a line of JSON.
"""

from __future__ import annotations

import importlib
import json
import random
import sys
import time
from collections import Counter
from typing import Any

from kvlitmus.conformance.ports import Config
from kvlitmus.spec.interface.tiers import DONE, FETCH, PUT, QUERY, Outcome
from kvlitmus.spec.words.units import Key
from tests.conformance.support.sglang_hicache_scene import Scene


class Drive:
    """Random calls."""

    def __init__(self, target: Any, config: Config, seed: int) -> None:
        self.scene = Scene(target, config)
        self.adapter = self.scene.adapter
        self.config = config
        self.random = random.Random(seed)
        self.receipts: list[object] = []
        self.waiting: list[int] = []
        self.rid = 0
        self.seen: Counter[str] = Counter()

    def key(self) -> Key:
        """A key that shares prefixes with others."""
        size = self.config.page_size
        length = size * self.random.randint(1, 5) + self.random.randrange(size)
        blocks = [self.random.randint(0, 1) for _ in range(length // size + 1)]
        tokens = [100 * block + at for block in blocks for at in range(size)]
        return Key(None, tuple(tokens[: length + int(self.config.bigram)]), self.config.bigram)

    def outcome(self, kind: str) -> Outcome:
        """How a job goes on."""
        hows = {QUERY: ("done", "short"), FETCH: ("done", "part", "short"), PUT: ("done", "part", "short")}
        how = "done" if self.random.random() < 0.6 else self.random.choice(hows.get(kind, ("done",)))
        return DONE if how == "done" else Outcome(how, self.random.randint(0, 2))

    def step(self) -> str:
        """One call; returns its name."""
        name = self.random.choice(
            ["insert"] * 4 + ["advance"] * 5 + ["tick"] * 2 + ["prefetch", "poll"] * 2
            + ["match", "lock", "unlock", "unlock", "evict", "evict_host", "load_back", "load_back"]
            + ["abandon", "fault", "clock", "forget", "restore"]
        )  # fmt: skip
        adapter, key = self.adapter, self.key()
        if name == "insert":
            self.scene.insert(key)
        elif name == "advance":
            ready = self.scene.ready()
            if ready:
                job = self.random.choice(ready)
                self.scene.advance(job, self.outcome(job.kind))
                self.seen[job.kind] += 1
        elif name == "lock":
            self.receipts.append(adapter.lock(adapter.match(key).handle))
        elif name == "unlock" and self.receipts:
            adapter.unlock(self.receipts.pop(self.random.randrange(len(self.receipts))))
        elif name in ("evict", "evict_host"):
            getattr(adapter, name)(self.random.randint(1, self.config.pages * self.config.page_size))
        elif name == "load_back":
            self.seen["loaded back"] += adapter.load_back(key).slots is not None
        elif name == "prefetch":
            self.rid += 1
            if adapter.prefetch(self.rid, key).started:
                self.waiting.append(self.rid)
        elif name == "poll" and self.waiting:
            rid = self.random.choice(self.waiting)
            if adapter.poll(rid):
                self.waiting.remove(rid)
                self.seen["committed"] += adapter.loaded(rid) > 0
        elif name == "abandon" and self.waiting:
            adapter.abandon(self.waiting.pop())
        elif name == "forget":
            self.forget()
        elif name == "restore":
            self.restore(key)
        elif name == "match":
            adapter.match(key)
        elif name == "tick":
            adapter.tick()
        elif name == "fault":
            adapter.fail_host_alloc(self.random.randint(0, 2))
        elif name == "clock":
            adapter.set_clock(adapter.seconds + self.random.random())
        return name

    def forget(self) -> None:
        """Evict everything that may go."""
        everything = self.config.pages * self.config.page_size
        self.adapter.evict(everything)
        self.adapter.evict_host(2 * everything)

    def restore(self, key: Key) -> None:
        """Forget, and read a key from storage as far as it has it."""
        self.forget()
        self.rid += 1
        if not self.adapter.prefetch(self.rid, key).started:
            return
        self.waiting.append(self.rid)
        for kind in (QUERY, FETCH):
            for job in self.scene.ready(kind):
                self.scene.advance(job)
                self.seen[kind] += 1


def main(module: str, attribute: str, steps: str) -> None:
    """Drive every configuration of the target, and print what was seen."""
    target = getattr(importlib.import_module(module), attribute)
    seen: Counter[str] = Counter()
    faults: list[str] = []
    calls, begun = 0, time.perf_counter()
    for number, config in enumerate(target.configs):
        for seed in range(2):
            drive = Drive(target, config, 1000 * number + seed)
            for _ in range(int(steps)):
                name = drive.step()
                calls += 1
                if found := drive.scene.faults():
                    faults.append(f"{config.label}, seed {seed}, after {name}: {found[:3]}")
                if found or drive.scene.hanging():
                    break
            seen.update(drive.seen)
    print(json.dumps({"calls": calls, "faults": faults, "seen": seen, "seconds": time.perf_counter() - begun}))


if __name__ == "__main__":
    main(*sys.argv[1:])
