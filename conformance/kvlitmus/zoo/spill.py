"""Write-back in columns: pages are rows of parallel lists, and the host is written only when the device needs room.

A page leaves the device by being spilled: it is copied to the host in that very call, and only if the host has no room
left it is forgotten.  What was loaded again keeps its copy on the host as long as there is room: copies of what is on
the device too are the first to be reclaimed, as the profile says.  A row is found by its parent's row and its own
units; rows are used again.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvlitmus.conformance.ports import Config, Hit, Profile, Stored, Unsupported
from kvlitmus.spec.interface import Loaded, TierNode, TierView
from kvlitmus.spec.words.units import Key, Unit

NOWHERE = -1


class Spill:
    """The columns: parent, units, namespace, place on the device, place on the host, last use, locks, children."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.size = config.page_size
        self.memory = {"device": [0] * (config.pages * self.size), "host": [0] * (config.host_pages * self.size)}
        self.reset()

    def reset(self) -> None:
        """No rows."""
        self.unused = {"device": set(range(self.config.pages)), "host": set(range(self.config.host_pages))}
        self.parent: list[int] = []
        self.units: list[tuple[Unit, ...]] = []
        self.space: list[str | None] = []
        self.device: list[int] = []
        self.host: list[int] = []
        self.used: list[int] = []
        self.locks: list[int] = []
        self.children: list[int] = []
        self.spare: list[int] = []
        self.row_of: dict[tuple[object, tuple[Unit, ...]], int] = {}
        self.clock = 0

    # Pools

    def take(self, tier: str, count: int) -> list[int] | None:
        """The highest pages of a pool."""
        if count > len(self.unused[tier]):
            return None
        pages = sorted(self.unused[tier], reverse=True)[:count]
        self.unused[tier].difference_update(pages)
        return pages

    def alloc(self, n: int) -> list[int] | None:
        """On the device."""
        pages = self.take("device", n // self.size)
        return None if pages is None else self.slots(pages)

    def free(self, slots: Sequence[int]) -> None:
        """On the device."""
        self.unused["device"].update(slot // self.size for slot in slots)

    def available(self) -> int:
        """On the device."""
        return len(self.unused["device"]) * self.size

    def host_available(self) -> int:
        """On the host."""
        return len(self.unused["host"]) * self.size

    def slots(self, pages: Sequence[int]) -> list[int]:
        """The slots of these pages."""
        return [page * self.size + at for page in pages for at in range(self.size)]

    def copy(self, row: int, start: str, end: str) -> None:
        """The contents of a row's page from one tier to the other."""
        places = {"device": self.device[row] * self.size, "host": self.host[row] * self.size}
        for at in range(self.size):
            self.memory[end][places[end] + at] = self.memory[start][places[start] + at]

    # Rows

    def follow(self, key: Key) -> list[int]:
        """The rows of a key; used now."""
        self.clock += 1
        rows: list[int] = []
        for start in range(0, key.length - self.size + 1, self.size):
            above: object = rows[-1] if rows else (key.namespace,)
            row = self.row_of.get((above, tuple(key.units[start : start + self.size])))
            if row is None:
                break
            self.used[row] = self.clock
            rows.append(row)
        return rows

    def add(self, above: int, units: tuple[Unit, ...], namespace: str | None, page: int) -> int:
        """A new row, in an old place if there is one."""
        if not self.spare:
            for column in (self.parent, self.device, self.host, self.used, self.locks, self.children):
                column.append(0)
            self.units.append(())
            self.space.append(None)
            self.spare.append(len(self.parent) - 1)
        row = self.spare.pop()
        self.parent[row], self.units[row], self.space[row], self.device[row] = above, units, namespace, page
        self.host[row], self.used[row], self.locks[row], self.children[row] = NOWHERE, self.clock, 0, 0
        self.row_of[(namespace,) if above < 0 else above, units] = row
        if above >= 0:
            self.children[above] += 1
        return row

    def remove(self, row: int) -> None:
        """Forget a row that nothing follows, and what it has on the host."""
        above = self.parent[row]
        del self.row_of[(self.space[row],) if above < 0 else above, self.units[row]]
        if above >= 0:
            self.children[above] -= 1
        if self.host[row] >= 0:
            self.unused["host"].add(self.host[row])
        self.spare.append(row)

    def rows(self) -> list[int]:
        """All rows in order of use."""
        return sorted(self.row_of.values(), key=lambda row: self.used[row])

    def match(self, key: Key) -> Hit:
        """On the device, and behind that on the host."""
        rows = self.follow(key)
        here = [row for row in rows if self.device[row] >= 0]
        slots = self.slots([self.device[row] for row in here])
        return Hit(len(slots), slots, tuple(here), (len(rows) - len(here)) * self.size)

    def insert(
        self, key: Key, slots: Sequence[int], *, protected: int = 0, priority: int = 0, chunked: bool = False
    ) -> Stored:
        """Nothing is copied; what is on the host alone is on the device again in what was brought."""
        rows = self.follow(key)
        already = sum(1 for row in rows if self.device[row] >= 0)
        for number in range(key.length // self.size):
            page = slots[number * self.size] // self.size
            if number == len(rows):
                units = tuple(key.units[number * self.size : (number + 1) * self.size])
                rows.append(self.add(rows[-1] if rows else NOWHERE, units, key.namespace, page))
            elif self.device[rows[number]] < 0:
                self.device[rows[number]] = page
        return Stored(already * self.size)

    def lock(self, handle: object) -> object:
        """Each row."""
        assert isinstance(handle, tuple)
        for row in handle:
            self.locks[row] += 1
        return handle

    def unlock(self, receipt: object) -> None:
        """Each row."""
        assert isinstance(receipt, tuple)
        for row in receipt:
            self.locks[row] -= 1

    # Room

    def evict(self, n: int) -> int:
        """Spill, the least recently used first."""
        return self.spill(-(-n // self.size), ()) * self.size

    def spill(self, count: int, spared: Sequence[int]) -> int:
        """So many pages leave the device."""
        left = 0
        while left < count:
            above = {self.parent[row] for row in self.row_of.values() if self.device[row] >= 0}
            ends = (row for row in self.rows() if self.device[row] >= 0 and not self.locks[row])
            row = next((row for row in ends if row not in above and row not in spared), None)
            if row is None:
                break
            if self.host[row] < 0 and (self.unused["host"] or self.clear(1, (row, *spared))):
                (self.host[row],) = self.take("host", 1) or (NOWHERE,)
                self.copy(row, "device", "host")
            self.unused["device"].add(self.device[row])
            self.device[row] = NOWHERE
            if self.host[row] < 0:
                self.remove(row)
            left += 1
        return left

    def evict_host(self, n: int) -> int:
        """Reclaim, then forget."""
        return self.clear(-(-n // self.size), ()) * self.size

    def clear(self, count: int, spared: Sequence[int]) -> int:
        """So many pages leave the host: first those that are on the device too, then the ends of prefixes."""
        left = 0
        while left < count:
            rows = [row for row in self.rows() if self.host[row] >= 0 and row not in spared]
            twice = next((row for row in rows if self.device[row] >= 0), None)
            if twice is not None:
                self.unused["host"].add(self.host[twice])
                self.host[twice] = NOWHERE
            else:
                end = next((row for row in rows if not self.children[row]), None)
                if end is None:
                    break
                self.remove(end)
            left += 1
        return left

    def load_back(self, key: Key) -> Loaded:
        """All that is on the host alone, or nothing."""
        rows = self.follow(key)
        missing = [row for row in rows if self.device[row] < 0]
        before = (len(rows) - len(missing)) * self.size
        self.spill(len(missing) - len(self.unused["device"]), rows)
        pages = self.take("device", len(missing)) if missing else None
        if pages is None:
            return Loaded(before, None)
        for row, page in zip(missing, pages, strict=True):
            self.device[row] = page
            self.copy(row, "host", "device")
        return Loaded(before, self.slots(pages))

    # What can be seen

    def poke(self, slots: Sequence[int], values: Sequence[int]) -> None:
        """On the device."""
        for slot, value in zip(slots, values, strict=True):
            self.memory["device"][slot] = value

    def peek(self, tier: str, slots: Sequence[int]) -> list[int]:
        """On either tier."""
        return [self.memory[tier][slot] for slot in slots]

    def tiers(self) -> TierView:
        """The rows, parents first."""
        order: list[int] = []
        layer = [row for row in self.row_of.values() if self.parent[row] < 0]
        while layer:
            order += layer
            layer = [row for row in self.row_of.values() if self.parent[row] in layer]
        index = {row: at for at, row in enumerate(order)}
        nodes = [
            TierNode(
                index.get(self.parent[row], -1),
                self.space[row],
                self.units[row],
                tuple(self.slots([self.device[row]])) if self.device[row] >= 0 else None,
                tuple(self.slots([self.host[row]])) if self.host[row] >= 0 else None,
                self.locks[row],
            )
            for row in order
        ]
        return TierView(sorted(self.unused["device"]), nodes, sorted(self.unused["host"]))


class SpillTarget:
    """Makes them: by use, written back, without storage."""

    profile = Profile(reserved=0, hit_counts="none", host_duplicates="reclaimed")
    configs = (
        Config(page_size=1, pages=16, host_pages=10, write="write_back"),
        Config(page_size=4, pages=12, host_pages=4, write="write_back"),
        Config(page_size=2, pages=12, host_pages=30, write="write_back", bigram=True),
    )

    def make(self, config: Config) -> Spill:
        """A fresh one."""
        if not config.tiered or config.policy != "lru" or config.write != "write_back" or config.storage != "none":
            raise Unsupported("a hierarchy by use, written back, without storage")
        return Spill(config)


target = SpillTarget()
