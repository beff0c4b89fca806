"""Requests on groups of blocks over one pool, as vLLM serves them.

Nobody evicts or inserts but requests.  One has a table of blocks for each group.  What it has computed gets its keys
at once, and equal blocks are all kept (``component_copies``).  Blocks that nobody holds wait in one line, tails before
heads, and are taken from its front when the free list is empty.  The last unit of a request is always computed
(``match_cap``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kvlitmus.conformance.ports import Config, Profile, Unsupported
from kvlitmus.spec.interface.components import ComponentEvent
from kvlitmus.spec.words.layouts import layout_of
from kvlitmus.spec.words.shapes import Chunk, Component, Derived, Point, Window
from kvlitmus.spec.words.units import Key
from kvlitmus.zoo.block_groups import BlockGroups, BlockKey

PROFILE = replace(Profile(), component_cascade="none", component_copies="kept", match_cap="len-1")
CONFIGS = (
    Config(page_size=4, pages=24, components="groups"),
    Config(page_size=1, pages=20, components="groups"),
    Config(page_size=2, pages=40, components="groups+chunk"),
    Config(page_size=1, pages=12, components="blocks+swa"),
)


@dataclass(eq=False)
class Table:
    """A request: its key, how many units of it are computed, and its blocks, by group and where they end."""

    key: Key
    units: int
    blocks: dict[str, dict[int, int]]


class BlockRequests(BlockGroups):
    """Keys with all their blocks, blocks with how often they are held, and the line of those that nobody holds."""

    def component_reset(self) -> None:
        """All blocks are free, and no request runs."""
        super().component_reset()
        self.equal: dict[BlockKey, list[int]] = {}

    # Hits

    def has(self, group: Component, key: Key, end: int) -> bool:
        """Whether some block is cached that ends after so many units of a key."""
        return (group.name, key.namespace, key.units[:end]) in self.equal

    def behind(self, group: Component, key: Key, length: int) -> list[int]:
        """The oldest blocks of a group that a hit of this length needs."""
        return [self.equal[group.name, key.namespace, key.units[:end]][0] for end in self.ends(group, length)]

    def component_match(self, key: Key) -> tuple[int, dict[str, list[int]], object]:
        """The last unit is left out."""
        length, hit, _ = super().component_match(key._replace(tokens=key.tokens[:-1]))
        return length, hit, None

    # Requests

    def component_start(self, key: Key, chunk: int) -> tuple[object, int, dict[str, dict[int, int]]] | None:
        """Hold the hit, then get blocks for the chunk; or neither."""
        length, hit, _ = self.component_match(key)
        blocks = {
            group.name: dict(zip(self.ends(group, length), hit[group.name], strict=True)) for group in self.groups
        }
        table = Table(key, length, blocks)
        found = [block for row in blocks.values() for block in row.values()]
        waiting = sum(block in self.line for block in found)
        if self.lacks(table, chunk) > len(self.free) + len(self.line) - waiting:
            return None
        for block in found:
            self.hold(block)
        self.fill(table, chunk)
        return table, length, {name: dict(row) for name, row in blocks.items()}

    def component_grow(self, receipt: object, chunk: int) -> tuple[bool, dict[str, dict[int, int]]]:
        """Let go of what is left behind, then get blocks for the chunk."""
        assert isinstance(receipt, Table)
        after = min(receipt.units + chunk, len(receipt.key.units))
        for group in self.groups:
            row = receipt.blocks[group.name]
            self.release([row.pop(end) for end in set(row) - set(self.spanned(group, receipt.units, after))])
        granted = self.lacks(receipt, chunk) <= len(self.free) + len(self.line)
        if granted:
            self.fill(receipt, chunk)
        return granted, {name: dict(row) for name, row in receipt.blocks.items()}

    def component_finish(self, receipt: object) -> None:
        """Let go of everything, tails first."""
        assert isinstance(receipt, Table)
        for row in receipt.blocks.values():
            self.release([row[end] for end in sorted(row, reverse=True)])

    def spanned(self, group: Component, before: int, after: int) -> list[int]:
        """Where the blocks of a group end that the units between two lengths are computed with."""
        shape, unit = group.shape, group.unit
        last = (after + unit - 1) // unit * unit
        if isinstance(shape, Point):
            return [end for end in (before, last) if end]
        start = 0
        if isinstance(shape, Window):
            start = max(0, before - shape.reach)
        elif isinstance(shape, Chunk):
            start = before - before % shape.size
        return list(range(start - start % unit + unit, last + 1, unit))

    def lacking(self, table: Table, chunk: int) -> dict[str, list[int]]:
        """Where the blocks of each group end that a request has to get for a chunk."""
        after = min(table.units + chunk, len(table.key.units))
        return {
            group.name: [end for end in self.spanned(group, table.units, after) if end not in table.blocks[group.name]]
            for group in self.groups
        }

    def lacks(self, table: Table, chunk: int) -> int:
        """How many these are."""
        return sum(map(len, self.lacking(table, chunk).values()))

    def fill(self, table: Table, chunk: int) -> None:
        """Get the blocks for a chunk; what is whole then gets its keys."""
        for name, ends in self.lacking(table, chunk).items():
            table.blocks[name].update((end, self.take()) for end in ends)
        table.units = min(table.units + chunk, len(table.key.units))
        for name, row in table.blocks.items():
            for end, block in row.items():
                if end <= self.computed(table) and block not in self.keys:
                    at = (name, table.key.namespace, table.key.units[:end])
                    self.keys[block] = at
                    equal = self.equal.setdefault(at, [])
                    self.tell(ComponentEvent("stored", "device", *at), len(equal))
                    equal.append(block)

    def computed(self, table: Table) -> int:
        """Up to where the whole blocks of a request get their keys."""
        return table.units

    # Blocks

    def take(self) -> int:
        """A free block, or the first in the line, which loses its key."""
        if not self.free:
            block = next(iter(self.line))
            del self.line[block]
            at = self.keys.pop(block)
            self.equal[at].remove(block)
            self.tell(ComponentEvent("removed", "device", *at), len(self.equal[at]))
            if not self.equal[at]:
                del self.equal[at]
            self.free.append(block)
        block = self.free.pop(0)
        self.held[block] = 1
        return block

    def tell(self, event: ComponentEvent, others: int) -> None:
        """Listeners count: they hear of each block, whatever ``others`` have its key."""
        self.events.append(event)

    def hold(self, block: int) -> None:
        """Count up, and out of the line."""
        self.held[block] = self.held.get(block, 0) + 1
        self.line.pop(block, None)

    def release(self, blocks: Iterable[int]) -> None:
        """Count down; to the back of the line with those that nobody holds, or to the free list without a key."""
        for block in blocks:
            self.held[block] -= 1
            if not self.held[block]:
                if block in self.keys:
                    self.line[block] = None
                else:
                    self.free.append(block)

    # Looks

    def component_free_places(self) -> dict[str, list[int]]:
        """The list."""
        return {self.groups[0].pool: self.free[:]}

    def component_entries(self) -> list[tuple[str, str | None, tuple[object, ...], int]]:
        """Every block that has a key."""
        return [(*at, block) for block, at in self.keys.items()]


class BlockRequestsTarget:
    """Layouts of one pool alone."""

    profile = PROFILE
    configs = CONFIGS
    capabilities = ("component_lookup", "component_requests", "component_events", "component_view")
    kind = BlockRequests

    def make(self, config: Config) -> Served:
        """Fresh groups over a fresh pool."""
        layout = layout_of(config.components, config.page_size, config.pages)
        if len(layout.places) != 1 or config.bigram:
            raise Unsupported("groups of blocks of tokens share one pool")
        if any(isinstance(group.shape, Derived) for group in layout.components):
            raise Unsupported("no group is derived from another")
        return Served(self.kind(layout.components, *layout.places.values()))


class Served:
    """The groups as requests see them: no calls but theirs."""

    def __init__(self, blocks: BlockRequests) -> None:
        self.component_match = blocks.component_match
        self.component_start = blocks.component_start
        self.component_grow = blocks.component_grow
        self.component_finish = blocks.component_finish
        self.component_reset = blocks.component_reset
        self.component_events = blocks.component_events
        self.component_free_places = blocks.component_free_places
        self.component_entries = blocks.component_entries


target = BlockRequestsTarget()
