"""Groups of blocks over one pool, as vLLM keeps KV of full attention, windows, chunks and recurrent states.

There is no tree.  A block is found by its group and by the whole prefix that ends with it.  Each group looks for its
own longest hit in its own way, and cuts the length for the next one, round and round until all agree.  A lock counts up
each block.  Blocks that nobody holds wait in one line, tails before heads, and go from its front; each goes alone
(``component_cascade`` is ``none``).  Block 0 is never handed out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from kvlitmus.conformance.ports import Config, Profile, Unsupported
from kvlitmus.spec.interface import Sizes
from kvlitmus.spec.interface.components import ComponentEvent
from kvlitmus.spec.words.layouts import Layout, layout_of
from kvlitmus.spec.words.shapes import Chunk, Component, Derived, Point, Window
from kvlitmus.spec.words.units import Key

PROFILE = replace(Profile(), component_cascade="none")
CONFIGS = (
    Config(page_size=4, pages=16, components="groups"),
    Config(page_size=1, pages=20, components="groups"),
    Config(page_size=2, pages=24, components="groups+chunk"),
)

BlockKey = tuple[str, str | None, tuple[object, ...]]
"""What a block is found by: its group, and the namespace and units of the prefix that ends with it."""


class BlockGroups:
    """Blocks by key, keys by block, how often each block is held, and the line of those that nobody holds."""

    def __init__(self, groups: Sequence[Component], blocks: int) -> None:
        self.groups = groups
        self.group_of = {group.name: group for group in groups}
        self.blocks = blocks
        self.step = math.lcm(*[group.align for group in groups])
        self.events: list[ComponentEvent] = []
        self.component_reset()

    def component_reset(self) -> None:
        """All blocks are free."""
        self.events.append(ComponentEvent("cleared"))
        self.free = list(range(1, self.blocks + 1))
        self.found: dict[BlockKey, int] = {}
        self.keys: dict[int, BlockKey] = {}
        self.held: dict[int, int] = {}
        self.line: dict[int, None] = {}

    def component_alloc(self, wants: Mapping[str, int]) -> dict[str, list[int]] | None:
        """Blocks are blocks: all that is asked for comes off the one list, or nothing does."""
        if sum(wants.values()) > len(self.free):
            return None
        return {name: [self.free.pop(0) for _ in range(many)] for name, many in wants.items()}

    def component_free(self, given: Mapping[str, Sequence[int]]) -> None:
        """Back to the list."""
        for blocks in given.values():
            self.free += blocks

    # Hits

    def has(self, group: Component, key: Key, end: int) -> bool:
        """Whether the block is cached that ends after so many units of a key."""
        return (group.name, key.namespace, key.units[:end]) in self.found

    def component_match(self, key: Key) -> tuple[int, dict[str, list[int]], object]:
        """What is behind the length on which all groups agree."""
        length = self.agreed(key)
        hit = {group.name: self.behind(group, key, length) for group in self.groups}
        return length, hit, hit

    def agreed(self, key: Key) -> int:
        """Cut the length, group by group, until a whole round leaves it as it is."""
        length, before = len(key.units) - len(key.units) % self.step, -1
        while length != before:
            before = length
            for group in self.groups:
                length = self.longest(group, key, length)
        return length

    def longest(self, group: Component, key: Key, most: int) -> int:
        """The longest hit of one group that is no longer than that."""
        if isinstance(group.shape, Window):
            return self.longest_window(group, group.shape.reach, key, most)
        if isinstance(group.shape, Point | Chunk):
            ends = range(most, 0, -self.step)
            return next((end for end in ends if all(self.has(group, key, at) for at in self.ends(group, end))), 0)
        whole = 0
        while whole < most and self.has(group, key, whole + group.unit):
            whole += group.unit
        return whole - whole % self.step

    def longest_window(self, group: Component, reach: int, key: Key, most: int) -> int:
        """Go from the end towards the root until a run of blocks is as long as the window, or has come to the root."""
        last = 0
        for end in range(most, 0, -group.unit):
            if not self.has(group, key, end):
                last = 0
            elif last or end % self.step == 0:
                last = last or end
                if last - (end - group.unit) >= reach:
                    return last
        return last

    def ends(self, group: Component, length: int) -> range:
        """Where the blocks of a group end that a hit of this length needs."""
        shape, unit = group.shape, group.unit
        if isinstance(shape, Point):
            return range(length, length + 1 if length else length)
        start = 0
        if isinstance(shape, Window):
            start = max(0, length - shape.reach)
        elif isinstance(shape, Chunk):
            start = length // shape.size * shape.size
        return range(start // unit * unit + unit, length + 1, unit)

    def behind(self, group: Component, key: Key, length: int) -> list[int]:
        """The blocks of a group that a hit of this length needs."""
        return [self.found[group.name, key.namespace, key.units[:end]] for end in self.ends(group, length)]

    # What comes, is held, and goes

    def component_insert(self, key: Key, entries: Mapping[str, Mapping[int, int]]) -> dict[str, list[int]]:
        """Blocks get their keys, unless another has it; then the whole key was used."""
        left: dict[str, list[int]] = {name: [] for name in entries}
        for name, blocks in entries.items():
            for end, block in blocks.items():
                at = (name, key.namespace, key.units[:end])
                if at in self.found:
                    left[name].append(block)
                else:
                    self.found[at], self.keys[block] = block, at
                    self.events.append(ComponentEvent("stored", "device", *at))
        prefixes = [
            (group.name, key.namespace, key.units[:end]) for end in range(len(key.units) + 1) for group in self.groups
        ]
        self.wait(self.found[at] for at in prefixes if at in self.found)
        return left

    def wait(self, blocks: Iterable[int]) -> None:
        """Those of these blocks that nobody holds go to the back of the line, the longest prefix first."""
        for block in sorted(blocks, key=lambda one: -len(self.keys[one][2])):
            if not self.held.get(block):
                self.line.pop(block, None)
                self.line[block] = None

    def component_lock(self, handle: object) -> tuple[object, dict[str, list[int]]]:
        """Count up, and out of the line."""
        assert isinstance(handle, dict)
        for block in (block for blocks in handle.values() for block in blocks):
            self.held[block] = self.held.get(block, 0) + 1
            self.line.pop(block, None)
        return handle, {name: [len(self.keys[block][2]) for block in blocks] for name, blocks in handle.items()}

    def component_unlock(self, receipt: object) -> None:
        """Count down, and into the line again."""
        assert isinstance(receipt, dict)
        blocks = [block for some in receipt.values() for block in some]
        for block in blocks:
            self.held[block] -= 1
        self.wait(blocks)

    def component_evict(self, wants: Mapping[str, int]) -> dict[str, int]:
        """The first of each group in the line."""
        freed = {}
        for name, many in wants.items():
            gone = [block for block in self.line if self.keys[block][0] == name][:many]
            for block in gone:
                self.events.append(ComponentEvent("removed", "device", *self.keys[block]))
                del self.line[block], self.found[self.keys.pop(block)]
            self.free += gone
            freed[name] = len(gone)
        return freed

    # Looks

    def component_events(self) -> list[ComponentEvent]:
        """Keys that blocks got and lost."""
        told, self.events = self.events, []
        return told

    def component_available(self) -> dict[str, int]:
        """The length of the list."""
        return {self.groups[0].pool: len(self.free)}

    def component_sizes(self) -> dict[str, Sizes]:
        """Blocks with a key that wait in the line, and those that somebody holds."""
        keyed = [(at[0], block in self.line) for block, at in self.keys.items()]
        return {one.name: Sizes(keyed.count((one.name, True)), keyed.count((one.name, False))) for one in self.groups}

    def component_free_places(self) -> dict[str, list[int]]:
        """The list."""
        return {self.groups[0].pool: self.free[:]}

    def component_entries(self) -> list[tuple[str, str | None, tuple[object, ...], int]]:
        """Every block that has a key."""
        return [(*at, block) for at, block in self.found.items()]


class BlockGroupsTarget:
    """Layouts of one pool alone."""

    profile = PROFILE
    configs: tuple[Config, ...] = CONFIGS
    capabilities: tuple[str, ...] = (
        "component_lookup",
        "components",
        "component_counters",
        "component_sizes",
        "component_events",
        "component_view",
    )

    def make(self, config: Config) -> BlockGroups:
        """Fresh groups over a fresh pool."""
        layout = layout_for(config)
        return BlockGroups(layout.components, *layout.places.values())


def beginning(key: Key, length: int) -> Key:
    """The first units of a key, of bigrams with the token that the last of them ends in."""
    return key._replace(tokens=key.tokens[: length + key.bigram])


def key_of(at: BlockKey) -> Key:
    """The prefix that a block belongs to, of tokens or of bigrams, as a key."""
    _, namespace, units = at
    pairs = [one for one in units if isinstance(one, tuple)]
    if pairs:
        return Key(namespace, (*[first for first, _ in pairs], pairs[-1][1]), bigram=True)
    return Key(namespace, tuple(one for one in units if isinstance(one, int)))


def layout_for(config: Config) -> Layout:
    """The layout of a configuration; raises ``Unsupported`` where its groups don't share one pool."""
    layout = layout_of(config.components, config.page_size, config.pages, config.host_pages)
    if len(layout.places) != 1:
        raise Unsupported("groups of blocks share one pool")
    if any(isinstance(group.shape, Derived) for group in layout.components):
        raise Unsupported("no group is derived from another")
    return layout


target = BlockGroupsTarget()
