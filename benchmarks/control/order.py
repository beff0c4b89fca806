"""Whether the optimized cache evicts what the reference's twin evicts, page by page, for every policy."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np

from benchmarks.control.goals import CORES
from benchmarks.control.ours import Ours, cores
from kvlitmus.conformance.ports import Config
from kvlitmus.spec.words.units import Key

POLICIES = ("lru", "lfu", "fifo", "mru", "filo", "priority", "slru")
PAGE = 4
PAGES = 96
LONGEST = 24
"""Pages of the longest prompt."""


class Both:
    """The specimen, which is step for step what the reference is, and the optimized cache, fed the same."""

    def __init__(self, policy: str, seed: int, core: str) -> None:
        from kvlitmus.conformance.specimen.cache import target

        self.random = random.Random(seed)
        self.theirs: Any = target.make(Config(page_size=PAGE, pages=PAGES, policy=policy))
        self.ours = Ours(PAGE, PAGES * PAGE, policy, core)
        self.prompts: list[tuple[int, ...]] = [()]
        self.victims = 0

    def prompt(self) -> tuple[int, ...]:
        """An old prompt, or one that goes on from part of an old one."""
        old = self.random.choice(self.prompts)
        if self.random.random() < 0.4 and old:
            return old
        cut = self.random.randrange(len(old) // PAGE + 1) * PAGE
        new = old[:cut] + tuple(self.random.choices(range(3), k=PAGE * self.random.randint(1, 6)))
        new = new[: LONGEST * PAGE]
        self.prompts = [*self.prompts[-60:], new]
        return new

    def step(self) -> bool:
        """One use of both caches, after evicting what is missing one page at a time; whether they agreed."""
        tokens = self.prompt()
        key, units = Key(None, tokens), np.array(tokens, np.int32)
        hit = self.theirs.match(key)
        found = self.ours.tree.match(None, units)
        if hit.length != found.resident * PAGE:
            return False
        if self.random.random() < 0.3:
            return True
        receipt = self.theirs.lock(hit.handle)
        self.ours.tree.lock(found.place)
        missing = len(tokens) // PAGE - found.resident
        if not self.make_room(missing):
            return False
        mine = np.concatenate([self.ours.tree.path_pages(found.place), self.ours.pool.take(missing)])
        priority = self.random.randrange(3)
        self.theirs.insert(
            key, [*hit.slots, *self.theirs.alloc(missing * PAGE)], protected=hit.length, priority=priority
        )
        self.ours.tree.insert(None, units, mine, priority=priority)
        self.theirs.unlock(receipt)
        self.ours.tree.unlock(found.place)
        return True

    def make_room(self, missing: int) -> bool:
        """Evict page by page until so many are free; whether both caches lost the same prompts' pages each time."""
        while self.ours.pool.free_count < missing:
            if self.theirs.evict(PAGE) != self.ours.tree.evict(1) * PAGE:
                return False
            self.victims += 1
            if self.theirs_holds() != self.ours_holds():
                return False
        return True

    def theirs_holds(self) -> set[tuple[int, ...]]:
        """The prefixes that the specimen holds, by its nodes."""
        nodes = self.theirs.view().nodes
        paths: list[tuple[int, ...]] = []
        for node in nodes:
            paths.append((paths[node.parent] if node.parent >= 0 else ()) + tuple(node.units))
        return {path[:end] for path in paths for end in range(PAGE, len(path) + 1, PAGE)}

    def ours_holds(self) -> set[tuple[int, ...]]:
        """The prefixes that the optimized cache holds, of all that it could hold; asking changes nothing."""
        held: set[tuple[int, ...]] = set()
        for tokens in self.known():
            resident = self.ours.tree.find(None, np.array(tokens, np.int32)).resident
            held.update(tokens[:end] for end in range(PAGE, resident * PAGE + 1, PAGE))
        return held

    def known(self) -> set[tuple[int, ...]]:
        """What was inserted and may still be there: prompts of late, and what the specimen holds."""
        return {*self.prompts, *self.theirs_holds()}


def compare(steps: int) -> dict[str, Any]:
    """Play ``steps`` uses under each policy on each core; how many victims there were, and where they differed."""
    victims, different = 0, []
    for core, (number, policy) in itertools.product(cores(), enumerate(POLICIES)):
        both = Both(policy, number, core)
        if not all(both.step() for _ in range(steps)):
            different.append(f"{policy}{CORES[core]}")
        victims += both.victims
    return {"steps": steps * len(POLICIES) * len(cores()), "victims": victims, "different": different}
