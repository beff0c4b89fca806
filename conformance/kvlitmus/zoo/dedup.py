"""A cache that owns its duplicates: it frees them itself, and says so to nobody.

Keys are cut into pages and each page is interned, so a prefix is a chain of small integers; the table from (chain so
far, page) to the next integer is all the tree there is.  Matches count as uses, inserts don't; the least often used
page goes first.  Requests are its own, since it wants to count them: one that begins is a use, one that is published
isn't.  Of the prompt's last token nothing is ever reused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from kvlitmus.conformance.ports import Begun, Config, Hit, NodeView, Profile, Sizes, Stored, Unsupported, View
from kvlitmus.spec.words.units import Key, Unit

ROOT = -1


@dataclass(slots=True)
class Link:
    """One interned prefix that is cached: the one before it, its own units, where it is and what it is worth."""

    before: int
    units: tuple[Unit, ...]
    namespace: str | None
    page: int
    uses: int = 0
    last: int = 0


@dataclass(slots=True)
class Job:
    """A request: its key and row, and the chain of links that it holds."""

    key: Key
    row: list[int]
    chain: list[int]


class Dedup:
    """The table of links, and a free list that is used from its end."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.size = config.page_size
        self.frequent = config.policy == "lfu"
        self.reset()

    def reset(self) -> None:
        """An empty table."""
        self.stack = list(range(1, self.config.pages + 1))
        self.next: dict[tuple[object, tuple[Unit, ...]], int] = {}
        self.links: dict[int, Link] = {}
        self.below: Counter[int] = Counter()
        self.held: Counter[int] = Counter()
        self.jobs: dict[int, Job] = {}
        self.clock = self.serial = 0

    def alloc(self, n: int) -> list[int] | None:
        """From the end of the list."""
        return None if n > self.available() else self.slots([self.stack.pop() for _ in range(n // self.size)])

    def free(self, slots: Sequence[int]) -> None:
        """To the end of the list."""
        self.stack += dict.fromkeys(slot // self.size for slot in slots)

    def available(self) -> int:
        """The list."""
        return len(self.stack) * self.size

    def slots(self, pages: Sequence[int]) -> list[int]:
        """The slots of these pages."""
        return [page * self.size + at for page in pages for at in range(self.size)]

    # The table

    def cut(self, key: Key, length: int | None = None) -> list[tuple[Unit, ...]]:
        """The whole pages of a key."""
        units = tuple(key.units)[:length]
        return [units[at : at + self.size] for at in range(0, len(units) - self.size + 1, self.size)]

    def chain(self, namespace: str | None, pages: Sequence[tuple[Unit, ...]], uses: int) -> list[int]:
        """The links along these pages, used now."""
        self.clock += 1
        at: object = namespace
        found: list[int] = []
        for units in pages:
            link = self.next.get((at, units))
            if link is None:
                break
            self.links[link].last = self.clock
            self.links[link].uses += uses
            found.append(link)
            at = link
        return found

    def match(self, key: Key) -> Hit:
        """Counts."""
        chain = self.chain(key.namespace, self.cut(key, max(0, key.length - 1)), 1)
        return Hit(len(chain) * self.size, self.slots([self.links[link].page for link in chain]), tuple(chain))

    def add(self, key: Key, pages: Sequence[tuple[Unit, ...]], brought: Sequence[int], kept: int) -> list[int]:
        """Make the missing links with what was brought; free what is there already, but for the first ``kept``."""
        chain = self.chain(key.namespace, pages, 0)
        already = len(chain)
        for units, page in zip(pages[already:], brought[already:], strict=True):
            before = chain[-1] if chain else ROOT
            self.serial += 1
            self.next[before if chain else key.namespace, units] = self.serial
            self.links[self.serial] = Link(before, units, key.namespace, page, 0, self.clock)
            self.below[before] += 1
            chain.append(self.serial)
        own = {self.links[link].page for link in chain}
        self.stack += [page for page in brought[kept:already] if page not in own]
        return chain

    def insert(
        self, key: Key, slots: Sequence[int], *, protected: int = 0, priority: int = 0, chunked: bool = False
    ) -> Stored:
        """Nothing is left to the caller."""
        pages = self.cut(key)
        before = self.serial
        self.add(key, pages, [slots[at * self.size] // self.size for at in range(len(pages))], protected // self.size)
        return Stored((len(pages) - (self.serial - before)) * self.size, ())

    def lock(self, handle: object) -> object:
        """A chain of links is held as a whole."""
        assert isinstance(handle, tuple)
        self.held.update(handle)
        return handle

    def unlock(self, receipt: object) -> None:
        """Once less."""
        assert isinstance(receipt, tuple)
        self.held.subtract(receipt)

    def evict(self, n: int) -> int:
        """The least used end of a chain, again and again."""
        freed = 0
        while freed < n:
            ends = [one for one in self.links if not self.below[one] and not self.held[one]]
            if not ends:
                break
            victim = min(ends, key=self.worth)
            link = self.links.pop(victim)
            del self.next[link.namespace if link.before == ROOT else link.before, link.units]
            self.below[link.before] -= 1
            self.stack.append(link.page)
            freed += self.size
        return freed

    def worth(self, number: int) -> tuple[int, int]:
        """Uses before recency, or recency alone."""
        link = self.links[number]
        return (link.uses if self.frequent else 0, link.last)

    # Requests

    def room(self, pages: int) -> list[int] | None:
        """Pages from the list, made free first."""
        self.evict((pages - len(self.stack)) * self.size)
        return [self.stack.pop() for _ in range(pages)] if pages <= len(self.stack) else None

    def begin(self, rid: int, key: Key) -> Begun | None:
        """A use of what is found."""
        chain = self.chain(key.namespace, self.cut(key, max(0, key.length - 1)), 1)
        self.held.update(chain)
        own = self.room(-(-len(key.tokens) // self.size) - len(chain))
        if own is None:
            self.held.subtract(chain)
            return None
        row = self.slots([self.links[link].page for link in chain] + own)[: len(key.tokens)]
        self.jobs[rid] = Job(key, row, chain)
        return Begun(tuple(row), len(chain) * self.size)

    def grow(self, rid: int, tokens: Sequence[int]) -> list[int] | None:
        """Own slots."""
        job = self.jobs[rid]
        before, after = len(job.row), len(job.row) + len(tokens)
        own = self.room(-(-after // self.size) - -(-before // self.size))
        if own is None:
            return None
        rest = range(job.row[-1] + 1, job.row[-1] + 1 + -before % self.size) if job.row else ()
        new = [*rest, *self.slots(own)][: len(tokens)]
        job.row += new
        job.key = job.key._replace(tokens=(*job.key.tokens, *tokens))
        return new

    def publish(self, rid: int, *, chunked: bool) -> Begun:
        """Go on with the table's slots."""
        job = self.jobs[rid]
        pages = self.cut(job.key)
        chain = self.add(
            job.key, pages, [job.row[at * self.size] // self.size for at in range(len(pages))], len(job.chain)
        )
        self.held.update(chain)
        self.held.subtract(job.chain)
        job.chain = chain
        shared = self.slots([self.links[link].page for link in chain])
        job.row[: len(shared)] = shared
        return Begun(tuple(job.row), len(shared))

    def end(self, rid: int, *, keep: bool) -> None:
        """Publish, where it is kept, then free the rest."""
        if keep:
            self.publish(rid, chunked=False)
        job = self.jobs.pop(rid)
        self.free(job.row[len(job.chain) * self.size :])
        self.held.subtract(job.chain)

    # What can be seen

    def sizes(self) -> Sizes:
        """Counted anew."""
        held = sum(1 for link in self.links if self.held[link]) * self.size
        return Sizes(len(self.links) * self.size - held, held)

    def view(self) -> View:
        """A node for each link; a link is younger than the one before it."""
        index = {number: at for at, number in enumerate(self.links)}
        return View(
            self.stack,
            [
                NodeView(
                    index.get(link.before, -1),
                    link.namespace,
                    link.units,
                    tuple(self.slots([link.page])),
                    self.held[number],
                    link.uses,
                )
                for number, link in self.links.items()
            ],
        )


class DedupTarget:
    """Makes them for two policies."""

    profile = Profile(duplicates="cache_frees", hit_counts="match", match_cap="len-1")

    def make(self, config: Config) -> Dedup:
        """A fresh one."""
        if config.policy not in ("lru", "lfu") or config.pool != "device" or config.tiered:
            raise Unsupported("a table on the device, by recency or by frequency")
        return Dedup(config)


target = DedupTarget()
