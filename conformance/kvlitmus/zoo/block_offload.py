"""Groups of blocks with host memory, as an offloading connector keeps it: a second table of keys, and no tree.

On the host a block is found by the same key as on the device.  All keys there wait in one line, tails before heads,
and what a copy needs is passed over.  For a copy as many blocks go as are missing, of whichever group stands first in
the line, and nothing goes where that would not be enough.  A load back asks the groups once more, of both tables at
once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kvlitmus.conformance.ports import Config
from kvlitmus.spec.interface.components import ComponentEvent
from kvlitmus.spec.words.shapes import Component
from kvlitmus.spec.words.units import Key
from kvlitmus.zoo.block_groups import BlockGroups, BlockGroupsTarget, BlockKey, beginning, key_of, layout_for

CONFIGS = (
    Config(page_size=4, pages=20, host_pages=24, components="groups"),
    Config(page_size=1, pages=20, host_pages=12, components="groups"),
    Config(page_size=2, pages=24, host_pages=20, components="groups+chunk"),
)


@dataclass(eq=False)
class Offload:
    """A copy: which way it goes, the prefix that it is for, its blocks by key, and what it holds on each tier."""

    load: bool
    key: Key
    blocks: dict[BlockKey, int]
    device: list[int] = field(default_factory=list)
    host: list[BlockKey] = field(default_factory=list)


class BlockOffload(BlockGroups):
    """A table for each tier; of the host's keys besides how often each is needed, and the line of all."""

    def __init__(self, groups: Sequence[Component], blocks: int, host_blocks: int) -> None:
        self.host_blocks = host_blocks
        self.both = False
        super().__init__(groups, blocks)

    def component_reset(self) -> None:
        """All blocks of both tiers are free."""
        super().component_reset()
        self.host_free = list(range(self.host_blocks))
        self.host: dict[BlockKey, int] = {}
        self.pins: Counter[BlockKey] = Counter()

    def has(self, group: Component, key: Key, end: int) -> bool:
        """Whether a block is cached on the device, or, while both tables are asked, on either tier."""
        return super().has(group, key, end) or (self.both and (group.name, key.namespace, key.units[:end]) in self.host)

    # Copies

    def needs(self, key: Key) -> list[BlockKey]:
        """The keys that a hit of a whole key needs, group by group."""
        return [
            (group.name, key.namespace, key.units[:end])
            for group in self.groups
            for end in self.ends(group, len(key.units))
        ]

    def component_back_up(self, handle: object) -> tuple[Offload | None, dict[str, dict[int, int]], dict[str, int]]:
        """What a hit needs gets blocks of the host, as far as it has none."""
        assert isinstance(handle, dict)
        run = handle[self.groups[0].name]
        if not run:
            return None, {}, {}
        copy, freed = self.offload(key_of(self.keys[run[-1]]), load=False)
        return copy, told(copy), freed

    def component_load(
        self, handle: object, key: Key
    ) -> tuple[Offload | None, int, dict[str, dict[int, int]], dict[str, int]]:
        """What both tables have together gets blocks of the device, as far as it has none."""
        assert isinstance(handle, dict)
        self.both = True
        length = self.agreed(key)
        self.both = False
        if length <= len(handle[self.groups[0].name]) * self.groups[0].unit:
            return None, 0, {}, {}
        copy, freed = self.offload(beginning(key, length), load=True)
        return copy, length if copy else 0, told(copy), freed

    def offload(self, key: Key, *, load: bool) -> tuple[Offload | None, dict[str, int]]:
        """Hold what is needed; if the line can give what is missing, take it, else let everything go again."""
        needs = self.needs(key)
        missing = [at for at in needs if at not in (self.found if load else self.host)]
        copy = Offload(load, key, {})
        self.hold(copy, needs)
        short = len(missing) - len(self.free if load else self.host_free)
        gone = self.first(Counter(name for name, _, _ in missing), short, load=load)
        if not missing or len(gone) < short:
            self.let_go(copy)
            return None, {}
        freed = self.drop(gone, load=load)
        free = self.free if load else self.host_free
        copy.blocks = {at: free.pop(0) for at in missing}
        return copy, freed

    def hold(self, copy: Offload, needs: Iterable[BlockKey]) -> None:
        """Nothing that a copy needs is in a line."""
        for at in needs:
            if at in self.found:
                copy.device.append(self.found[at])
                self.held[self.found[at]] = self.held.get(self.found[at], 0) + 1
                self.line.pop(self.found[at], None)
            if at in self.host:
                copy.host.append(at)
                self.pins[at] += 1

    def let_go(self, copy: Offload) -> None:
        """It waits again."""
        for block in copy.device:
            self.held[block] -= 1
        self.wait(copy.device)
        self.pins.subtract(copy.host)

    def first(self, wants: Mapping[str, int], short: int, *, load: bool) -> list[BlockKey]:
        """The first in a line, as many as are missing, and no more of a group than are taken of it."""
        left = Counter(wants)
        gone: list[BlockKey] = []
        for at in self.loose(load=load):
            if len(gone) < short and left[at[0]]:
                left[at[0]] -= 1
                gone.append(at)
        return gone

    def loose(self, *, load: bool) -> Sequence[BlockKey]:
        """All that nothing holds on the device, or on the host, in the order in which it goes."""
        return [self.keys[block] for block in self.line] if load else [at for at in self.host if not self.pins[at]]

    def drop(self, gone: Sequence[BlockKey], *, load: bool) -> dict[str, int]:
        """They are cached no more on that tier; how many of each group."""
        for at in gone:
            self.events.append(ComponentEvent("removed", "device" if load else "host", *at))
            if not load:
                self.host_free.append(self.host.pop(at))
                continue
            block = self.found.pop(at)
            del self.line[block], self.keys[block]
            self.free.append(block)
        return dict(Counter(name for name, _, _ in gone))

    def component_copied(self, copy: object, ok: bool) -> dict[str, list[int]]:
        """Blocks get their keys, unless another has it or the copy has failed; the others go back to their list."""
        assert isinstance(copy, Offload)
        self.let_go(copy)
        left: dict[str, list[int]] = {}
        for at, block in copy.blocks.items():
            if not ok or at in (self.found if copy.load else self.host):
                left.setdefault(at[0], []).append(block)
                (self.free if copy.load else self.host_free).append(block)
                continue
            self.events.append(ComponentEvent("stored", "device" if copy.load else "host", *at))
            if copy.load:
                self.found[at], self.keys[block] = block, at
            else:
                self.host[at] = block
        self.use(copy.key)
        return left

    def use(self, key: Key) -> None:
        """All keys of a prefix go to the back of both lines, tails before heads."""
        prefixes = [
            (group.name, key.namespace, key.units[:end])
            for end in range(len(key.units), 0, -1)
            for group in self.groups
        ]
        self.wait(self.found[at] for at in prefixes if at in self.found)
        for at in prefixes:
            if at in self.host:
                self.host[at] = self.host.pop(at)

    def component_evict_host(self, wants: Mapping[str, int]) -> dict[str, int]:
        """The first of each group in the host's line."""
        return self.drop(self.first(wants, sum(wants.values()), load=False), load=False)

    # Looks

    def component_available_host(self) -> dict[str, int]:
        """The length of the host's list."""
        return {self.groups[0].pool: len(self.host_free)}

    def component_free_host(self) -> dict[str, list[int]]:
        """The host's list."""
        return {self.groups[0].pool: self.host_free[:]}

    def component_host_entries(self) -> list[tuple[str, str | None, tuple[object, ...], int]]:
        """Every key of the host's table."""
        return [(*at, block) for at, block in self.host.items()]


def told(copy: Offload | None) -> dict[str, dict[int, int]]:
    """The blocks of a copy by group, and by where they end."""
    found: dict[str, dict[int, int]] = {}
    for (name, _, units), block in copy.blocks.items() if copy else ():
        found.setdefault(name, {})[len(units)] = block
    return found


class BlockOffloadTarget(BlockGroupsTarget):
    """Layouts of one pool alone, with host memory."""

    configs: tuple[Config, ...] = CONFIGS
    pools: tuple[str, ...] = ("component_host",)
    capabilities = (
        *BlockGroupsTarget.capabilities,
        "component_host",
        "component_host_counters",
        "component_host_view",
    )

    def make(self, config: Config) -> BlockGroups:
        """Fresh groups over fresh pools; without host pages none of the ports of a host."""
        if not config.host_pages:
            return super().make(config)
        layout = layout_for(config)
        return BlockOffload(layout.components, *layout.places.values(), *layout.host.values())


target = BlockOffloadTarget()
