"""A flat hash map of pages: no nodes, no pointers; a page is found under its whole prefix.

The key of an entry is the namespace and every unit up to the end of its page, so a match is one look-up per page and
a split or a merge never happens.  Whether a page is a leaf is found out by looking whether any other begins with it:
slow, and nothing to keep up to date.  Counters are recounted whenever they are asked for.  The free pages are a set;
the lowest one goes first, and there is no reserved page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from kvlitmus.conformance.ports import Config, Hit, NodeView, Profile, Sizes, Stored, Unsupported, View
from kvlitmus.spec.words.units import Key, Unit

Prefix = tuple[str | None, tuple[Unit, ...]]


@dataclass(slots=True)
class Entry:
    """A cached page: where it is, when it was used last, when it came, and how often it is locked."""

    page: int
    used: int
    came: int
    locks: int = 0


class PageMap:
    """Every cached page by its prefix."""

    def __init__(self, config: Config) -> None:
        self.size = config.page_size
        self.pages = config.pages
        self.by_age = config.policy == "fifo"
        self.reset()

    def reset(self) -> None:
        """Nothing is cached."""
        self.entries: dict[Prefix, Entry] = {}
        self.unused = set(range(self.pages))
        self.now = 0

    # Memory

    def alloc(self, n: int) -> list[int] | None:
        """The lowest pages."""
        count = n // self.size
        if count > len(self.unused):
            return None
        pages = sorted(self.unused)[:count]
        self.unused -= set(pages)
        return self.slots(pages)

    def free(self, slots: Sequence[int]) -> None:
        """Back into the set."""
        self.unused |= {slot // self.size for slot in slots}

    def available(self) -> int:
        """What the set holds."""
        return len(self.unused) * self.size

    def slots(self, pages: Sequence[int]) -> list[int]:
        """The slots of these pages."""
        return [page * self.size + at for page in pages for at in range(self.size)]

    # The map

    def prefixes(self, key: Key) -> list[Prefix]:
        """What each whole page of a key is found under."""
        units = tuple(key.units)
        return [(key.namespace, units[:end]) for end in range(self.size, len(units) + 1, self.size)]

    def found(self, prefixes: Sequence[Prefix]) -> int:
        """How many of these are cached, from the first one on; all of them are used now."""
        self.now += 1
        for count, prefix in enumerate(prefixes):
            if prefix not in self.entries:
                return count
            self.entries[prefix].used = self.now
        return len(prefixes)

    def match(self, key: Key) -> Hit:
        """One look-up per page."""
        prefixes = self.prefixes(key)
        covered = prefixes[: self.found(prefixes)]
        return Hit(len(covered) * self.size, self.slots([self.entries[one].page for one in covered]), tuple(covered))

    def insert(
        self, key: Key, slots: Sequence[int], *, protected: int = 0, priority: int = 0, chunked: bool = False
    ) -> Stored:
        """What is missing goes into the map; duplicates are named."""
        prefixes = self.prefixes(key)
        already = self.found(prefixes)
        brought = [slots[at * self.size] // self.size for at in range(len(prefixes))]
        for prefix, page in list(zip(prefixes, brought, strict=True))[already:]:
            self.entries[prefix] = Entry(page, self.now, self.now)
        twice = [
            page
            for prefix, page in list(zip(prefixes, brought, strict=True))[protected // self.size : already]
            if self.entries[prefix].page != page
        ]
        return Stored(already * self.size, self.slots(twice))

    def lock(self, handle: object) -> object:
        """The receipt is the tuple of prefixes itself."""
        assert isinstance(handle, tuple)
        for prefix in handle:
            self.entries[prefix].locks += 1
        return handle

    def unlock(self, receipt: object) -> None:
        """Each prefix of the receipt, once less."""
        assert isinstance(receipt, tuple)
        for prefix in receipt:
            self.entries[prefix].locks -= 1

    def evict(self, n: int) -> int:
        """Leaf by leaf; which are leaves is found out anew each time."""
        freed = 0
        while freed < n:
            inner = {(namespace, units[: -self.size]) for namespace, units in self.entries}
            leaves = [one for one, entry in self.entries.items() if not entry.locks and one not in inner]
            if not leaves:
                break
            self.unused.add(self.entries.pop(self.victim(leaves)).page)
            freed += self.size
        return freed

    def victim(self, leaves: Sequence[Prefix]) -> Prefix:
        """The leaf that came, or was used, the longest time ago."""
        came_or_used = attrgetter("came" if self.by_age else "used")
        return min(leaves, key=lambda prefix: came_or_used(self.entries[prefix]))

    # What can be seen

    def sizes(self) -> Sizes:
        """A recount."""
        locked = sum(1 for entry in self.entries.values() if entry.locks) * self.size
        return Sizes(len(self.entries) * self.size - locked, locked)

    def view(self) -> View:
        """A node for each page, the shortest prefixes first."""
        ordered = sorted(self.entries, key=lambda one: len(one[1]))
        index = {prefix: at for at, prefix in enumerate(ordered)}
        nodes = []
        for namespace, units in ordered:
            entry = self.entries[namespace, units]
            parent = index.get((namespace, units[: -self.size]), -1)
            slots = tuple(self.slots([entry.page]))
            nodes.append(NodeView(parent, namespace, units[-self.size :], slots, entry.locks))
        return View(sorted(self.unused), nodes)


class PageMapTarget:
    """Makes them for two policies."""

    profile = Profile(reserved=0, hit_counts="none")

    def make(self, config: Config) -> PageMap:
        """A fresh one."""
        if config.policy not in ("lru", "fifo") or config.pool != "device" or config.tiered:
            raise Unsupported("a map on the device, by use or by age")
        return PageMap(config)


target = PageMapTarget()
