"""Matches that end at nodes: a node is used as a whole or not at all.

A tree of runs, each with one hash and one use count for all of it, as of a cache that moves runs and not pages.  A key
that leaves a run in its middle finds only what comes before the run.  What is inserted then does cut it: the part that
both have in common becomes a run of its own, and is found from then on.  An eviction takes whole runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvlitmus.conformance.ports import Config, Hit, NodeView, Profile, Stored, Unsupported, View
from kvlitmus.spec.words.units import Key, Unit


class Run:
    """Units in whole pages, and where they are."""

    def __init__(self, above: Run | None, units: tuple[Unit, ...], pages: tuple[int, ...], used: int) -> None:
        self.above = above
        self.units = units
        self.pages = pages
        self.used = used
        self.locks = 0
        self.after: list[Run] = []

    def along(self) -> Iterator[Run]:
        """From here to the root, which is left out."""
        at = self
        while at.above is not None:
            yield at
            at = at.above

    def all(self) -> Iterator[Run]:
        """Everything after it, parents first."""
        for run in self.after:
            yield run
            yield from run.all()


class NodeEnds:
    """Runs, and a free list in the order of numbers."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.size = config.page_size
        self.reset()

    def reset(self) -> None:
        """No runs."""
        self.idle = set(range(1, self.config.pages + 1))
        self.roots: dict[str | None, Run] = {}
        self.time = 0

    def alloc(self, n: int) -> tuple[int, ...] | None:
        """The lowest numbers."""
        pages = sorted(self.idle)[: n // self.size]
        if len(pages) * self.size < n:
            return None
        self.idle -= set(pages)
        return self.slots(pages)

    def free(self, slots: Sequence[int]) -> None:
        """Idle again."""
        self.idle |= {slot // self.size for slot in slots}

    def available(self) -> int:
        """All that are idle."""
        return len(self.idle) * self.size

    def slots(self, pages: Sequence[int]) -> tuple[int, ...]:
        """The slots of these pages."""
        return tuple(page * self.size + at for page in pages for at in range(self.size))

    def common(self, run: Run, units: tuple[Unit, ...]) -> int:
        """How many whole pages a run has in common with these units."""
        same = 0
        for mine, other in zip(run.units, units, strict=False):
            if mine != other:
                break
            same += 1
        return same // self.size

    def reach(self, key: Key) -> tuple[Run, tuple[Unit, ...]]:
        """The last run that the key covers as a whole, and what is left of the key; all on the way is used now."""
        self.time += 1
        at, left = self.roots.setdefault(key.namespace, Run(None, (), (), 0)), tuple(key.units)
        while True:
            run = next((one for one in at.after if left[: len(one.units)] == one.units), None)
            if run is None:
                return at, left
            run.used = self.time
            at, left = run, left[len(run.units) :]

    def match(self, key: Key) -> Hit:
        """Whole runs."""
        run, _ = self.reach(key)
        pages = [page for one in reversed(list(run.along())) for page in one.pages]
        return Hit(len(pages) * self.size, self.slots(pages), run)

    def insert(
        self, key: Key, slots: Sequence[int], *, protected: int = 0, priority: int = 0, chunked: bool = False
    ) -> Stored:
        """Cut the run that the key leaves in its middle, and hang the rest below."""
        at, left = self.reach(key)
        cut = max(at.after, key=lambda one: self.common(one, left), default=None)
        if cut is not None and self.common(cut, left):
            at = self.halve(cut, self.common(cut, left))
            at.used = self.time
        whole = key.length - key.length % self.size
        already = sum(len(run.units) for run in at.along())
        if already < whole:
            pages = tuple(slot // self.size for slot in slots[already : whole : self.size])
            at.after.append(Run(at, tuple(key.units[already:whole]), pages, self.time))
        return Stored(already)

    def halve(self, run: Run, pages: int) -> Run:
        """The upper part of a run becomes one of its own."""
        assert run.above is not None
        upper = Run(run.above, run.units[: pages * self.size], run.pages[:pages], run.used)
        upper.locks = run.locks
        run.above.after[run.above.after.index(run)] = upper
        upper.after.append(run)
        run.above, run.units, run.pages = upper, run.units[pages * self.size :], run.pages[pages:]
        return upper

    def lock(self, handle: object) -> object:
        """Along the path."""
        assert isinstance(handle, Run)
        for run in handle.along():
            run.locks += 1
        return handle

    def unlock(self, receipt: object) -> None:
        """Along the path."""
        assert isinstance(receipt, Run)
        for run in receipt.along():
            run.locks -= 1

    def evict(self, n: int) -> int:
        """Whole runs, the least recently used first."""
        freed = 0
        while freed < n:
            ends = [run for root in self.roots.values() for run in root.all() if not run.after and not run.locks]
            if not ends:
                break
            victim = min(ends, key=lambda one: one.used)
            assert victim.above is not None
            victim.above.after.remove(victim)
            self.idle |= set(victim.pages)
            freed += len(victim.units)
        return freed

    def view(self) -> View:
        """Runs are nodes."""
        nodes: list[NodeView] = []
        index: dict[int, int] = {}
        for namespace, root in self.roots.items():
            for run in root.all():
                parent = index.get(id(run.above), -1)
                index[id(run)] = len(nodes)
                nodes.append(NodeView(parent, namespace, run.units, self.slots(run.pages), run.locks))
        return View(sorted(self.idle), nodes)


class NodeEndsTarget:
    """Makes them, by use."""

    profile = Profile(match_ends="node", evict_granularity="node", hit_counts="none")

    def make(self, config: Config) -> NodeEnds:
        """A fresh one."""
        if config.policy != "lru" or config.pool != "device" or config.tiered:
            raise Unsupported("runs on the device, by use")
        return NodeEnds(config)


target = NodeEndsTarget()
