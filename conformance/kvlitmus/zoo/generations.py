"""Generations: what was used at about the same time is of one age, and what happens is told in pairs of calls.

There is no clock but a list of sets.  Uses fill the youngest set; after four of them a new one is opened, so that
within a set nobody knows what was used first.  An eviction goes through the sets, oldest first, and takes the highest
page that nothing hangs below.  Pages are chained by their numbers: each knows the page before it, and how many come
after.

A listener hears of nothing after one call, and after the next of what happened in both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvlitmus.conformance.ports import Config, Hit, NodeView, Profile, Sizes, Stored, Unsupported, View
from kvlitmus.spec.interface.tiers import Event
from kvlitmus.spec.words.units import Key, Unit

USES = 4
"""So many uses are of one age."""

TOP = -1
"""The number before the first page of a prompt."""

Link = tuple[str | None, int, tuple[Unit, ...]]
"""What a page is found by: namespace, the page before it, its units."""


class Generations:
    """Chained pages in sets of one age."""

    def __init__(self, config: Config) -> None:
        self.size = config.page_size
        self.pages = range(1, config.pages + 1)
        self.told: list[Event] = []
        self.later = False
        self.identity = 0
        self.reset()

    def reset(self) -> None:
        """Nothing is cached, and that is told."""
        self.free_pages = list(self.pages)
        self.next: dict[Link, int] = {}
        self.link: dict[int, Link] = {}
        self.name: dict[int, int] = {}
        self.after = dict.fromkeys((TOP, *self.pages), 0)
        self.locks = dict.fromkeys(self.pages, 0)
        self.ages: list[set[int]] = [set()]
        self.age_of: dict[int, set[int]] = {}
        self.uses = 0
        self.told.append(Event("cleared", "", None, None, (), None))

    # Memory

    def alloc(self, n: int) -> list[int] | None:
        """From the end of the list."""
        count = n // self.size
        if count > len(self.free_pages):
            return None
        pages = [self.free_pages.pop() for _ in range(count)]
        return self.slots(pages)

    def free(self, slots: Sequence[int]) -> None:
        """To the end of the list."""
        self.free_pages += dict.fromkeys(slot // self.size for slot in slots)

    def available(self) -> int:
        """What the list holds."""
        return len(self.free_pages) * self.size

    def slots(self, pages: Sequence[int]) -> list[int]:
        """The slots of these pages."""
        return [page * self.size + at for page in pages for at in range(self.size)]

    # Ages

    def use(self, pages: Sequence[int]) -> None:
        """One use, of all of these: they are of the youngest age now."""
        self.uses += 1
        if self.uses % USES == 0:
            self.ages = [*filter(None, self.ages), set()]
        for page in pages:
            self.age_of.get(page, set()).discard(page)
            self.ages[-1].add(page)
            self.age_of[page] = self.ages[-1]

    def evict(self, n: int) -> int:
        """Age by age; where a page was the last below another, that one may be next."""
        freed = 0
        while freed < n:
            idle = ([page for page in age if not self.after[page] and not self.locks[page]] for age in self.ages)
            oldest = next(filter(None, idle), None)
            if oldest is None:
                break
            self.drop(max(oldest))
            freed += self.size
        return freed

    def drop(self, page: int) -> None:
        """A page is cached no more."""
        link = self.link.pop(page)
        del self.next[link]
        self.after[link[1]] -= 1
        self.age_of.pop(page).discard(page)
        self.free_pages.append(page)
        self.told.append(Event("removed", "device", self.name.pop(page), None, (), None))

    # Prompts

    def parts(self, key: Key) -> list[tuple[Unit, ...]]:
        """The units of each whole page."""
        units = tuple(key.units)
        return [units[end - self.size : end] for end in range(self.size, len(units) + 1, self.size)]

    def found(self, key: Key) -> Iterator[int]:
        """The cached pages of a prompt, first to last."""
        at = TOP
        for part in self.parts(key):
            page = self.next.get((key.namespace, at, part))
            if page is None:
                return
            yield page
            at = page

    def match(self, key: Key) -> Hit:
        """The handle is the list of pages."""
        pages = list(self.found(key))
        self.use(pages)
        return Hit(len(pages) * self.size, self.slots(pages), pages)

    def insert(
        self, key: Key, slots: Sequence[int], *, protected: int = 0, priority: int = 0, chunked: bool = False
    ) -> Stored:
        """New pages are chained to the last that was there."""
        pages, parts = list(self.found(key)), self.parts(key)
        already = len(pages)
        for index in range(already, len(parts)):
            page, at = slots[index * self.size] // self.size, pages[-1] if pages else TOP
            self.link[page] = link = (key.namespace, at, parts[index])
            self.next[link] = page
            self.after[at] += 1
            self.identity += 1
            self.name[page] = self.identity
            above = self.name[at] if pages else None
            self.told.append(Event("stored", "device", self.identity, above, parts[index], key.namespace))
            pages.append(page)
        self.use(pages)
        return Stored(already * self.size)

    def lock(self, handle: object) -> object:
        """Each page once more."""
        assert isinstance(handle, list)
        for page in handle:
            self.locks[page] += 1
        return tuple(handle)

    def unlock(self, receipt: object) -> None:
        """Each page once less."""
        assert isinstance(receipt, tuple)
        for page in receipt:
            self.locks[page] -= 1

    # What can be seen

    def events(self) -> list[Event]:
        """Nothing, and the next time everything."""
        self.later = not self.later
        if self.later:
            return []
        told, self.told = self.told, []
        return told

    def sizes(self) -> Sizes:
        """A count."""
        locked = sum(1 for page in self.link if self.locks[page])
        return Sizes((len(self.link) - locked) * self.size, locked * self.size)

    def view(self) -> View:
        """A node for each page, those before it first."""
        nodes: list[NodeView] = []
        number = {TOP: -1}
        waiting = list(self.link)
        while waiting:
            page = waiting.pop(0)
            namespace, before, units = self.link[page]
            if before not in number:
                waiting.append(page)
                continue
            number[page] = len(nodes)
            nodes.append(NodeView(number[before], namespace, units, tuple(self.slots([page])), self.locks[page]))
        return View(tuple(self.free_pages), nodes)


class GenerationsTarget:
    """Makes them for one policy: least recently used, as far as anybody knows."""

    profile = Profile(hit_counts="none", tick_uses=USES, event_delay=1)

    def make(self, config: Config) -> Generations:
        """A fresh one."""
        if config.policy != "lru" or config.pool != "device" or config.tiered:
            raise Unsupported("the device, by use")
        return Generations(config)


target = GenerationsTarget()
