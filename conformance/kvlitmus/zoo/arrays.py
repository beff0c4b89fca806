"""Arrays everywhere: every number and every sequence that it answers with is numpy's.

The pool is a mask, the cached pages are columns of a table, and what looks like a loop elsewhere is a comparison of a
column here: a leaf is a row that stands in no other row's parent column, a victim the row where the use is least.  A
path is found row by row, by the digest of parent and units.  Without numpy there is no such cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvlitmus.conformance.ports import Begun, Config, Hit, NodeView, Profile, Sizes, Stored, Unsupported, View
from kvlitmus.spec.words.units import Key

NONE = -1
COLUMNS = ("parent", "page", "used", "locks", "live")


class Arrays:
    """The mask and the columns."""

    def __init__(self, config: Config) -> None:
        import numpy

        self.np: Any = numpy
        self.config = config
        self.size = config.page_size
        self.reset()

    def reset(self) -> None:
        """Every page free, every row dead."""
        np, many = self.np, self.config.pages
        self.mask = np.ones(many + 1, dtype=bool)
        self.mask[0] = False
        self.column: dict[str, Any] = {name: np.zeros(many, dtype=np.int64) for name in COLUMNS}
        self.units: list[Any] = [None] * many
        self.spaces: list[str | None] = [None] * many
        self.rows: dict[tuple[Any, bytes], int] = {}
        self.now = np.int64(0)
        self.requests: dict[int, tuple[Key, Any, Any]] = {}

    def alloc(self, n: int) -> Any:
        """Where the mask is set first."""
        pages = self.np.flatnonzero(self.mask)[: n // self.size]
        if len(pages) * self.size < n:
            return None
        self.mask[pages] = False
        return self.slots(pages)

    def free(self, slots: Sequence[int]) -> None:
        """Set the mask."""
        self.mask[self.np.asarray(slots, dtype=self.np.int64) // self.size] = True

    def available(self) -> Any:
        """The sum of the mask."""
        return self.mask.sum() * self.size

    def slots(self, pages: Any) -> Any:
        """An array of slots."""
        pages = self.np.asarray(pages, dtype=self.np.int64)
        return (pages[:, None] * self.size + self.np.arange(self.size)).reshape(-1)

    def cut(self, key: Key) -> Any:
        """The key's units, a row for each whole page."""
        pages = key.length // self.size
        units = self.np.asarray(key.units[: pages * self.size], dtype=self.np.int64)
        return units.reshape(pages, self.size * (1 + key.bigram))

    def find(self, key: Key) -> Any:
        """The rows of a key, which are used now."""
        found: list[int] = []
        for units in self.cut(key):
            row = self.rows.get((found[-1] if found else key.namespace, units.tobytes()))
            if row is None:
                break
            found.append(row)
        self.now = self.now + 1
        rows = self.np.asarray(found, dtype=self.np.int64)
        self.column["used"][rows] = self.now
        return rows

    def match(self, key: Key) -> Hit:
        """Numbers of numpy in everything."""
        rows = self.find(key)
        slots = self.slots(self.column["page"][rows])
        return Hit(self.np.int64(len(slots)), slots, rows)

    def insert(
        self, key: Key, slots: Sequence[int], *, protected: int = 0, priority: int = 0, chunked: bool = False
    ) -> Stored:
        """New rows where the table has dead ones."""
        brought = self.np.asarray(slots, dtype=self.np.int64)
        rows, _ = self.add(key, brought[:: self.size] // self.size)
        already = self.np.int64(rows * self.size)
        old = self.slots(self.column["page"][self.find(key)])[protected:already]
        mine = brought[protected:already]
        return Stored(already, mine[mine != old])

    def add(self, key: Key, pages: Any) -> tuple[int, Any]:
        """How many rows there were, and all of them."""
        rows = list(self.find(key))
        already = len(rows)
        for number, units in enumerate(self.cut(key)[already:], already):
            row = self.np.flatnonzero(self.column["live"] == 0)[0]
            above = rows[-1] if rows else NONE
            for name, value in zip(COLUMNS, (above, pages[number], self.now, 0, 1), strict=True):
                self.column[name][row] = value
            self.units[row], self.spaces[row] = units, key.namespace
            self.rows[above if rows else key.namespace, units.tobytes()] = row
            rows.append(row)
        return already, self.np.asarray(rows, dtype=self.np.int64)

    def lock(self, handle: object) -> object:
        """Add one in a column."""
        self.column["locks"][handle] += 1
        return handle

    def unlock(self, receipt: object) -> None:
        """Take it off again."""
        self.column["locks"][receipt] -= 1

    def evict(self, n: int) -> Any:
        """The row that is used least recently, of those that live, are in nobody's parent column and aren't locked."""
        np, column, freed = self.np, self.column, self.np.int64(0)
        while freed < n:
            live = column["live"] == 1
            ends = live & (column["locks"] == 0) & ~np.isin(np.arange(len(live)), column["parent"][live])
            if not ends.any():
                break
            row = np.flatnonzero(ends)[column["used"][ends].argmin()]
            column["live"][row] = 0
            above = column["parent"][row]
            del self.rows[self.spaces[row] if above == NONE else above, self.units[row].tobytes()]
            self.mask[column["page"][row]] = True
            freed = freed + self.size
        return freed

    # Requests: key, row of slots, rows of the table

    def begin(self, rid: int, key: Key) -> Begun | None:
        """Concatenate what is cached and what is new."""
        rows = self.find(key)
        self.lock(rows)
        slots = self.slots(self.column["page"][rows])
        own = self.room(-(-len(key.tokens) // self.size) * self.size - len(slots))
        if own is None:
            self.unlock(rows)
            return None
        row = self.np.concatenate([slots, own])[: len(key.tokens)]
        self.requests[rid] = (key, row, rows)
        return Begun(row, self.np.int64(len(slots)))

    def room(self, n: int) -> Any:
        """Slots, after an eviction of what lacks."""
        self.evict(n - int(self.available()))
        return self.alloc(n)

    def grow(self, rid: int, tokens: Sequence[int]) -> Any:
        """The rest of the last page, and new ones."""
        key, row, rows = self.requests[rid]
        rest = -len(row) % self.size
        own = self.room(-(-max(0, len(tokens) - rest) // self.size) * self.size)
        if own is None:
            return None
        tail = row[-1] + 1 + self.np.arange(rest) if rest else own[:0]
        new = self.np.concatenate([tail, own])[: len(tokens)]
        key = key._replace(tokens=(*key.tokens, *tokens))
        self.requests[rid] = (key, self.np.concatenate([row, new]), rows)
        return new

    def publish(self, rid: int, *, chunked: bool) -> Begun:
        """What is cached in other pages is taken from there, and the own ones are given back."""
        key, row, rows = self.requests[rid]
        own = row[:: self.size] // self.size
        _, all_rows = self.add(key, own)
        pages = self.column["page"][all_rows]
        self.mask[own[: len(pages)][own[: len(pages)] != pages]] = True
        self.lock(all_rows)
        self.unlock(rows)
        row = self.np.concatenate([self.slots(pages), row[len(pages) * self.size :]])
        self.requests[rid] = (key, row, all_rows)
        return Begun(row, self.np.int64(len(pages) * self.size))

    def end(self, rid: int, *, keep: bool) -> None:
        """What isn't cached is free."""
        if keep:
            self.publish(rid, chunked=False)
        _, row, rows = self.requests.pop(rid)
        self.free(row[len(rows) * self.size :])
        self.unlock(rows)

    # What can be seen

    def sizes(self) -> Sizes:
        """Two sums."""
        live, locked = self.column["live"] == 1, self.column["locks"] > 0
        return Sizes((live & ~locked).sum() * self.size, (live & locked).sum() * self.size)

    def view(self) -> View:
        """The live rows, layer by layer."""
        column = self.column
        nodes: list[NodeView] = []
        layer = list(self.np.flatnonzero((column["live"] == 1) & (column["parent"] == NONE)))
        index: dict[int, int] = {}
        while layer:
            for row in layer:
                units = self.units[row]
                shown = tuple(tuple(pair) for pair in units.reshape(-1, 2)) if self.config.bigram else tuple(units)
                parent = index.get(int(column["parent"][row]), NONE)
                slots = tuple(self.slots(column["page"][row : row + 1]))
                index[int(row)] = len(nodes)
                nodes.append(NodeView(parent, self.spaces[row], shown, slots, column["locks"][row]))
            layer = list(self.np.flatnonzero((column["live"] == 1) & self.np.isin(column["parent"], layer)))
        return View(self.np.flatnonzero(self.mask), nodes)


class ArraysTarget:
    """Makes them where numpy is."""

    profile = Profile(hit_counts="none")

    def make(self, config: Config) -> Arrays:
        """A fresh one."""
        if config.policy != "lru" or config.pool != "device" or config.tiered:
            raise Unsupported("columns on the device, by use")
        try:
            return Arrays(config)
        except ImportError:
            raise Unsupported("numpy is not installed") from None


target = ArraysTarget()
