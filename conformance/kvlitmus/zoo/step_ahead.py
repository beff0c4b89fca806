"""A scheduler that runs a step ahead: what it gives back is still being read by the step that is under way.

Requests stand on pages, each found under its whole prefix in one dictionary.  Who leaves them puts them on a shelf for
the current step; each call is a step, and a shelf is cleared when the step after the next begins.  Until then its
pages count as used, so whoever needs room leaves them alone.  What a request had for itself is free at once: nobody
reads it any more who could mind.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kvlitmus.conformance.ports import Begun, Config, Hit, NodeView, Profile, Sizes, Stored, Unsupported, View
from kvlitmus.spec.words.units import Key, Unit

STEPS = 2
"""So many steps begin before what was left is nobody's."""

Prefix = tuple[str | None, tuple[Unit, ...]]


@dataclass(slots=True)
class Shared:
    """A cached page: where it is, who reads it, and in which step it was used last."""

    page: int
    readers: int = 0
    used: int = 0


@dataclass(slots=True)
class Reader:
    """A request: its key, its pages, and how many of them are shared."""

    key: Key
    pages: list[int]
    shared: int = 0


class StepAhead:
    """Pages by prefix, and the shelves."""

    def __init__(self, config: Config) -> None:
        self.size = config.page_size
        self.count = config.pages
        self.reset()

    def reset(self) -> None:
        """No step has begun."""
        self.step = 0
        self.spare = list(range(self.count, 0, -1))
        self.shared: dict[Prefix, Shared] = {}
        self.readers: dict[int, Reader] = {}
        self.shelves: deque[list[Prefix]] = deque([[] for _ in range(STEPS)])

    def begin_step(self) -> None:
        """The oldest shelf is cleared."""
        self.step += 1
        for prefix in self.shelves.popleft():
            self.shared[prefix].readers -= 1
        self.shelves.append([])

    def prefixes(self, key: Key, upto: int | None = None) -> list[Prefix]:
        """What each whole page of a key is found under."""
        units = tuple(key.units)[:upto]
        return [(key.namespace, units[:end]) for end in range(self.size, len(units) + 1, self.size)]

    def leave(self, prefixes: Iterable[Prefix]) -> None:
        """Onto the shelf of this step."""
        self.shelves[-1].extend(prefixes)

    def read(self, prefixes: Sequence[Prefix]) -> None:
        """One reader more; all are used by this step."""
        for prefix in prefixes:
            self.shared[prefix].readers += 1
            self.shared[prefix].used = self.step

    def clear(self, count: int) -> int:
        """Make so many pages spare, as far as there are pages that nobody reads; how many that were."""
        cleared = 0
        while cleared < count:
            above = {(space, units[: -self.size]) for space, units in self.shared}
            idle = [one for one, its in self.shared.items() if not its.readers and one not in above]
            if not idle:
                break
            self.spare.append(self.shared.pop(min(idle, key=lambda one: self.shared[one].used)).page)
            cleared += 1
        return cleared

    def take(self, count: int) -> list[int] | None:
        """Spare pages, after what lacks was cleared."""
        self.clear(count - len(self.spare))
        return [self.spare.pop() for _ in range(count)] if count <= len(self.spare) else None

    def alloc(self, n: int) -> list[int] | None:
        """Spare pages; nothing is cleared for them."""
        self.begin_step()
        pages = self.take(n // self.size) if n <= self.available() else None
        return None if pages is None else self.slots(pages)

    def free(self, slots: Sequence[int]) -> None:
        """Spare again."""
        self.begin_step()
        self.spare += [slot // self.size for slot in slots[:: self.size]]

    def available(self) -> int:
        """What is spare."""
        return len(self.spare) * self.size

    def slots(self, pages: Sequence[int]) -> list[int]:
        """The slots of these pages."""
        return [page * self.size + at for page in pages for at in range(self.size)]

    def row(self, reader: Reader) -> list[int]:
        """A slot for each token."""
        return self.slots(reader.pages)[: len(reader.key.tokens)]

    def found(self, key: Key) -> list[Prefix]:
        """The cached pages of a key, in order."""
        prefixes = self.prefixes(key)
        return prefixes[: next((at for at, one in enumerate(prefixes) if one not in self.shared), len(prefixes))]

    def begin(self, rid: int, key: Key) -> Begun | None:
        """What others have computed, and spare pages."""
        self.begin_step()
        found = self.found(key)
        self.read(found)
        own = self.take(-(-len(key.tokens) // self.size) - len(found))
        if own is None:
            self.leave(found)
            return None
        self.readers[rid] = reader = Reader(key, [self.shared[one].page for one in found] + own, len(found))
        return Begun(self.row(reader), len(found) * self.size)

    def grow(self, rid: int, tokens: Sequence[int]) -> list[int] | None:
        """The rest of the last page, then spare ones."""
        self.begin_step()
        reader = self.readers[rid]
        before = len(reader.key.tokens)
        own = self.take(-(-(before + len(tokens)) // self.size) - len(reader.pages))
        if own is None:
            return None
        reader.pages += own
        reader.key = reader.key._replace(tokens=(*reader.key.tokens, *tokens))
        return self.row(reader)[before:]

    def publish(self, rid: int, *, chunked: bool) -> Begun:
        """All whole pages are shared; the request reads the whole path anew, and leaves what it has read until now."""
        self.begin_step()
        reader = self.readers[rid]
        before = reader.shared
        prefixes = self.share(reader)
        self.read(prefixes[:before])
        self.leave(prefixes[:before])
        return Begun(self.row(reader), reader.shared * self.size)

    def share(self, reader: Reader) -> list[Prefix]:
        """Read all whole pages of a request from the cache; of two for one prefix the first stays."""
        prefixes = self.prefixes(reader.key)
        for at in range(reader.shared, len(prefixes)):
            known = self.shared.get(prefixes[at])
            if known is None:
                self.shared[prefixes[at]] = Shared(reader.pages[at])
            else:
                self.spare.append(reader.pages[at])
                reader.pages[at] = known.page
        self.read(prefixes[reader.shared :])
        for prefix in prefixes:
            self.shared[prefix].used = self.step
        reader.shared = len(prefixes)
        return prefixes

    def end(self, rid: int, *, keep: bool) -> None:
        """Share what is whole, or nothing more; what is read is left, the rest is spare."""
        self.begin_step()
        reader = self.readers.pop(rid)
        if keep:
            self.share(reader)
        self.leave(self.prefixes(reader.key)[: reader.shared])
        self.spare += reader.pages[reader.shared :]

    def match(self, key: Key) -> Hit:
        """What is cached; the handle is all of it."""
        self.begin_step()
        found = self.found(key)
        for prefix in found:
            self.shared[prefix].used = self.step
        return Hit(len(found) * self.size, self.slots([self.shared[one].page for one in found]), found)

    def insert(
        self, key: Key, slots: Sequence[int], *, protected: int = 0, priority: int = 0, chunked: bool = False
    ) -> Stored:
        """What is missing is shared from now on; duplicates are named."""
        self.begin_step()
        prefixes, already = self.prefixes(key), len(self.found(key))
        brought = [slot // self.size for slot in slots[: len(prefixes) * self.size : self.size]]
        for prefix, page in list(zip(prefixes, brought, strict=True))[already:]:
            self.shared[prefix] = Shared(page)
        for prefix in prefixes:
            self.shared[prefix].used = self.step
        old = list(zip(prefixes, brought, strict=True))[protected // self.size : already]
        twice = [page for prefix, page in old if self.shared[prefix].page != page]
        return Stored(already * self.size, self.slots(twice))

    def lock(self, handle: object) -> object:
        """A reader without a request."""
        self.begin_step()
        assert isinstance(handle, list)
        for prefix in handle:
            self.shared[prefix].readers += 1
        return handle

    def unlock(self, receipt: object) -> None:
        """It leaves."""
        self.begin_step()
        assert isinstance(receipt, list)
        self.leave(receipt)

    def evict(self, n: int) -> int:
        """Clear so much."""
        self.begin_step()
        return self.clear(-(-n // self.size)) * self.size

    def sizes(self) -> Sizes:
        """What nobody reads, and what somebody does or did a step ago."""
        read = sum(1 for one in self.shared.values() if one.readers)
        return Sizes((len(self.shared) - read) * self.size, read * self.size)

    def view(self) -> View:
        """A node for each page, the shortest prefixes first."""
        ordered = sorted(self.shared, key=lambda one: len(one[1]))
        index = {prefix: at for at, prefix in enumerate(ordered)}
        nodes = []
        for space, units in ordered:
            one = self.shared[space, units]
            slots = tuple(range(one.page * self.size, (one.page + 1) * self.size))
            parent = index.get((space, units[: -self.size]), -1)
            nodes.append(NodeView(parent, space, units[-self.size :], slots, one.readers))
        return View(list(self.spare), nodes)


class StepAheadTarget:
    """Makes them, by use."""

    profile = Profile(hit_counts="none", unlock_delay=STEPS)
    configs = (Config(page_size=1, pages=8), Config(page_size=4, pages=8), Config(page_size=4, pages=16))

    def make(self, config: Config) -> StepAhead:
        """A fresh one."""
        if config.policy != "lru" or config.pool != "device" or config.tiered or config.apart:
            raise Unsupported("requests on the device, by use")
        return StepAhead(config)


target = StepAheadTarget()
