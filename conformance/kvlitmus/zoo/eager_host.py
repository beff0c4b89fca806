"""An eager host: whatever is inserted has its copy in host memory before the call returns.

A hierarchy of one object per page, and no work in the background: copies are made on the spot, so there is nothing to
advance and no tick.  A page on the device that has left it is still found on the host; a load back brings it again, on
the spot.  When the host is full, what is on it alone and was used least recently makes room, from the ends of prefixes;
when that isn't enough, the rest of a path has no copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kvlitmus.conformance.ports import Config, Hit, Profile, Sizes, Stored, Unsupported
from kvlitmus.spec.interface import Loaded, TierNode, TierView
from kvlitmus.spec.words.units import Key, Unit


@dataclass(eq=False)
class PageObject:
    """A page: its units, where it is on either tier, when it was used, how often it is locked, and what follows."""

    above: PageObject | None
    namespace: str | None
    units: tuple[Unit, ...]
    device: int | None = None
    host: int | None = None
    used: int = 0
    locks: int = 0
    below: dict[tuple[Unit, ...], PageObject] = field(default_factory=dict)

    def all(self) -> Iterator[PageObject]:
        """Everything that follows, parents first."""
        for page in self.below.values():
            yield page
            yield from page.all()


class EagerHost:
    """Two pools of slots with contents, and the pages."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.size = config.page_size
        self.device_slots = [0] * (config.pages + 1) * self.size
        self.host_slots = [0] * config.host_pages * self.size
        self.reset()

    def reset(self) -> None:
        """Nothing is anywhere."""
        self.device_free = list(range(1, self.config.pages + 1))
        self.host_free = list(range(self.config.host_pages))
        self.roots: dict[str | None, PageObject] = {}
        self.clock = 0

    # The device's pool

    def alloc(self, n: int) -> list[int] | None:
        """From the front."""
        if n > self.available():
            return None
        return self.slots([self.device_free.pop(0) for _ in range(n // self.size)])

    def free(self, slots: Sequence[int]) -> None:
        """To the back."""
        self.device_free += dict.fromkeys(slot // self.size for slot in slots)

    def available(self) -> int:
        """What is free on the device."""
        return len(self.device_free) * self.size

    def slots(self, pages: Sequence[int]) -> list[int]:
        """The slots of these pages."""
        return [page * self.size + at for page in pages for at in range(self.size)]

    # Pages

    def known(self) -> list[PageObject]:
        """All pages, parents first."""
        return [page for root in self.roots.values() for page in root.all()]

    def path(self, key: Key) -> list[PageObject]:
        """What is known of a key, on either tier; used now."""
        self.clock += 1
        units, found = tuple(key.units), []
        at = self.roots.setdefault(key.namespace, PageObject(None, key.namespace, ()))
        for start in range(0, len(units) - self.size + 1, self.size):
            page = at.below.get(units[start : start + self.size])
            if page is None:
                break
            page.used = self.clock
            found.append(page)
            at = page
        return found

    def match(self, key: Key) -> Hit:
        """What is on the device, and how much is behind it on the host."""
        path = self.path(key)
        here = [page for page in path if page.device is not None]
        slots = self.slots([page.device for page in here if page.device is not None])
        return Hit(len(slots), slots, here, (len(path) - len(here)) * self.size)

    def insert(
        self, key: Key, slots: Sequence[int], *, protected: int = 0, priority: int = 0, chunked: bool = False
    ) -> Stored:
        """What isn't on the device takes what was brought; then all of the path is copied."""
        path = self.path(key)
        already = sum(1 for page in path if page.device is not None)
        at = path[-1] if path else self.roots[key.namespace]
        for start in range(len(path) * self.size, key.length - self.size + 1, self.size):
            units = tuple(key.units[start : start + self.size])
            at.below[units] = PageObject(at, key.namespace, units, used=self.clock)
            at = at.below[units]
            path.append(at)
        for number, page in enumerate(path):
            if page.device is None:
                page.device = slots[number * self.size] // self.size
        self.copy(path)
        return Stored(already * self.size)

    def copy(self, path: Sequence[PageObject]) -> None:
        """Give the host what it lacks of a path, as far as it has room."""
        for page in path:
            if page.host is None:
                if not self.host_free and not self.drop(1):
                    return
                assert page.device is not None
                page.host = self.host_free.pop()
                self.host_slots[page.host * self.size : (page.host + 1) * self.size] = self.device_slots[
                    page.device * self.size : (page.device + 1) * self.size
                ]

    def lock(self, handle: object) -> object:
        """Every page of the path."""
        assert isinstance(handle, list)
        for page in handle:
            page.locks += 1
        return handle

    def unlock(self, receipt: object) -> None:
        """Once less."""
        assert isinstance(receipt, list)
        for page in receipt:
            page.locks -= 1

    def evict(self, n: int) -> int:
        """Make room on the device; what has a copy stays known."""
        return self.leave(-(-n // self.size), ()) * self.size

    def leave(self, count: int, spared: Sequence[PageObject]) -> int:
        """So many pages leave the device, the least recently used first, none before what follows it there."""
        left = 0
        while left < count:
            ends = [
                page
                for page in self.known()
                if page.device is not None
                and not page.locks
                and page not in spared
                and all(one.device is None for one in page.below.values())
            ]
            if not ends:
                break
            page = self.victim(ends)
            assert page.device is not None
            self.device_free.append(page.device)
            page.device = None
            if page.host is None:
                self.forget(page)
            left += 1
        return left

    def victim(self, ends: Sequence[PageObject]) -> PageObject:
        """The least recently used one."""
        return min(ends, key=lambda one: one.used)

    def forget(self, page: PageObject) -> None:
        """A page that is nowhere; nothing follows it."""
        assert page.above is not None
        del page.above.below[page.units]

    # The host

    def host_available(self) -> int:
        """What is free on the host."""
        return len(self.host_free) * self.size

    def evict_host(self, n: int) -> int:
        """Drop what is on the host alone, from the ends of prefixes."""
        return self.drop(-(-n // self.size)) * self.size

    def drop(self, count: int) -> int:
        """The same in pages."""
        dropped = 0
        while dropped < count:
            ends = [page for page in self.known() if page.device is None and not page.below]
            if not ends:
                break
            page = self.victim(ends)
            assert page.host is not None
            self.host_free.append(page.host)
            self.forget(page)
            dropped += 1
        return dropped

    def load_back(self, key: Key) -> Loaded:
        """Copy what is on the host alone to the device, where there is room for all of it."""
        path = self.path(key)
        here = [page for page in path if page.device is not None]
        missing = path[len(here) :]
        self.leave(len(missing) - len(self.device_free), path)
        if not missing or len(missing) > len(self.device_free):
            return Loaded(len(here) * self.size, None)
        for page in missing:
            page.device = self.device_free.pop(0)
            assert page.host is not None
            self.device_slots[page.device * self.size : (page.device + 1) * self.size] = self.host_slots[
                page.host * self.size : (page.host + 1) * self.size
            ]
        return Loaded(len(here) * self.size, self.slots([page.device for page in missing if page.device is not None]))

    # What can be seen

    def poke(self, slots: Sequence[int], values: Sequence[int]) -> None:
        """Write on the device."""
        for slot, value in zip(slots, values, strict=True):
            self.device_slots[slot] = value

    def peek(self, tier: str, slots: Sequence[int]) -> list[int]:
        """Read on either tier."""
        held = self.device_slots if tier == "device" else self.host_slots
        return [held[slot] for slot in slots]

    def sizes(self) -> Sizes:
        """Counted anew."""
        here = [page for page in self.known() if page.device is not None]
        locked = sum(1 for page in here if page.locks)
        return Sizes((len(here) - locked) * self.size, locked * self.size)

    def tiers(self) -> TierView:
        """A node for each page."""
        pages = self.known()
        index = {id(page): at for at, page in enumerate(pages)}
        nodes = [
            TierNode(
                index.get(id(page.above), -1),
                page.namespace,
                page.units,
                None if page.device is None else tuple(self.slots([page.device])),
                None if page.host is None else tuple(self.slots([page.host])),
                page.locks,
            )
            for page in pages
        ]
        return TierView(list(self.device_free), nodes, list(self.host_free))


class EagerHostTarget:
    """Makes them: by use, with a host, without storage."""

    profile = Profile(hit_counts="none")
    configs = (
        Config(page_size=1, pages=16, host_pages=20),
        Config(page_size=4, pages=12, host_pages=8),
        Config(page_size=2, pages=12, host_pages=30, bigram=True),
    )

    def make(self, config: Config) -> EagerHost:
        """A fresh one."""
        if not config.tiered or config.policy != "lru" or config.write != "write_through" or config.storage != "none":
            raise Unsupported("a hierarchy by use, written through, without storage")
        return EagerHost(config)


target = EagerHostTarget()
