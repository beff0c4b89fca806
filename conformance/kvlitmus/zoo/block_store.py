"""Groups of blocks with storage behind the host, as an offloading connector with a remote store keeps it.

No line says what goes next, on either tier: it is the longest prefix, and of equally long ones the one that came last.
A prefetch works out how far it gets before it takes anything.  It evicts what is missing for that, and nothing where it
would not get far enough; what it doesn't read into it gives back as soon as storage has answered.  Blocks are blocks:
whatever group one was reserved for, any group may be read into it.  A write takes what it can read, also where the host
lacks what storage has, and where storage lacks nothing it begins and takes nothing; what its prefix needs it pins by
key, come or still to come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kvlitmus.conformance.ports import Config
from kvlitmus.spec.words.policies import SELECTIVE, WRITE_BACK, WRITE_THROUGH
from kvlitmus.spec.words.shapes import Chunk, Component, Point, Window
from kvlitmus.spec.words.units import Key
from kvlitmus.zoo.block_groups import BlockGroups, BlockKey, beginning, key_of, layout_for
from kvlitmus.zoo.block_offload import Offload
from kvlitmus.zoo.block_writes import BlockWrites, BlockWritesTarget

CONFIGS = (
    Config(page_size=4, pages=20, host_pages=24, write="asked", storage="attached", components="groups"),
    Config(page_size=1, pages=20, host_pages=12, write=WRITE_BACK, storage="later", components="groups"),
    Config(page_size=2, pages=24, host_pages=40, write=SELECTIVE, storage="attached", components="groups+chunk"),
    Config(
        page_size=2, pages=20, host_pages=24, write=WRITE_THROUGH, storage="later", components="groups", bigram=True
    ),
    Config(page_size=4, pages=20, components="groups", bigram=True),
    Config(page_size=2, pages=24, components="groups+chunk"),
)


@dataclass(eq=False)
class Fetch:
    """A prefetch: what of its key it may read, the blocks of its anchor and its own, and what it reads into which.

    ``groups``: those for which it has blocks.  ``running``: whether its I/O may still write.  ``over``: whether it was
    committed or given up.
    """

    key: Key
    start: int
    length: int
    least: int
    anchor: Sequence[int]
    blocks: list[int]
    groups: Sequence[Component]
    boundary: int
    reads: dict[str, dict[int, int]] = field(default_factory=dict)
    running: bool = False
    over: bool = False


@dataclass(eq=False)
class Put:
    """A write: the keys that it pins on the host."""

    pinned: Sequence[BlockKey]


class BlockStore(BlockWrites):
    """Besides both tables whether storage is there, and which prefetches are not over."""

    def __init__(
        self, write: str, groups: Sequence[Component], blocks: int, host_blocks: int, *, attached: bool
    ) -> None:
        self.attached = attached
        super().__init__(write, groups, blocks, host_blocks)

    def component_reset(self) -> None:
        """Storage stays there or away."""
        super().component_reset()
        self.fetches: list[Fetch] = []

    # What goes next

    def loose(self, *, load: bool) -> Sequence[BlockKey]:
        """What nobody holds, the longest prefix first, and of equally long ones what came last."""
        return sorted(super().loose(load=load), key=lambda at: len(at[2]))[::-1]

    def hold(self, copy: Offload, needs: Iterable[BlockKey]) -> None:
        """On the host a copy holds what comes later too."""
        needs = list(needs)
        super().hold(copy, needs)
        later = [at for at in needs if at not in self.host]
        self.pins.update(later)
        copy.host += later

    # What is copied to the host besides

    def component_match(self, key: Key) -> tuple[int, dict[str, list[int]], object]:
        """With the selective policy a hit is a use too."""
        length, hit, handle = super().component_match(key)
        if length and self.write == SELECTIVE:
            self.save(beginning(key, length))
        return length, hit, handle

    def cached(self, key: Key) -> None:
        """What was fetched is copied to the host as what is inserted is, if all writes go through."""
        length = self.agreed(key)
        if length and self.write == WRITE_THROUGH:
            self.save(beginning(key, length))

    # Prefetches

    def component_prefetch(
        self, handle: object, key: Key, threshold: int
    ) -> tuple[Fetch | None, dict[str, list[int]], dict[str, int]]:
        """Blocks for as much as there is room for, if it is enough; otherwise nothing happens."""
        assert isinstance(handle, dict)
        anchor = handle[self.groups[0].name]
        start = len(anchor) * self.groups[0].unit
        self.keep(anchor)
        length = self.reachable((len(key.units) - start) // self.step * self.step)
        if not self.attached or length < max(threshold, self.step):
            self.give_up(anchor)
            return None, {}, {}
        wants = self.wants(length)
        freed = self.make_room((len(key.units) - start) // self.step * self.step, sum(wants.values()))
        places = {name: [self.free.pop(0) for _ in range(many)] for name, many in wants.items() if many}
        groups = [group for group in self.groups if group.name in places]
        blocks = [block for some in places.values() for block in some]
        fetch = Fetch(key, start, length, max(threshold, self.step), anchor, blocks, groups, start)
        self.fetches.append(fetch)
        return fetch, places, freed

    def keep(self, blocks: Sequence[int]) -> None:
        """An anchor waits in no line."""
        for block in blocks:
            self.held[block] = self.held.get(block, 0) + 1
            self.line.pop(block, None)

    def give_up(self, blocks: Sequence[int]) -> None:
        """It waits again."""
        for block in blocks:
            self.held[block] -= 1
        self.wait(blocks)

    def reachable(self, whole: int) -> int:
        """How many units there is room for when what a prefetch of all of them could evict has gone."""
        loose = Counter(name for name, _, _ in self.loose(load=True))
        room = len(self.free) + sum(min(many, loose[name]) for name, many in self.wants(whole).items())
        return next((some for some in range(whole, 0, -self.step) if sum(self.wants(some).values()) <= room), 0)

    def make_room(self, whole: int, blocks: int) -> dict[str, int]:
        """Evict what is missing for so many blocks, of each group no more than a prefetch of all units needs."""
        return self.drop(self.first(self.wants(whole), blocks - len(self.free), load=True), load=True)

    def wants(self, length: int) -> dict[str, int]:
        """How many blocks of each group a prefetch of so many units needs."""
        return {group.name: self.many(group, length) for group in self.groups}

    def many(self, group: Component, length: int) -> int:
        """How many blocks of one group it needs."""
        whole = length // group.unit
        if isinstance(group.shape, Point):
            return min(whole, 1)
        if isinstance(group.shape, Window):
            window = -(-group.shape.reach // group.unit)
            return window if whole >= window else 0
        if isinstance(group.shape, Chunk):
            return min(whole, (group.shape.size - 1) // group.unit)
        return whole

    def component_prefetch_found(
        self, fetch: object, stored: Mapping[str, Sequence[int]]
    ) -> tuple[int, dict[str, dict[int, int]], dict[str, list[int]]]:
        """Go from the end towards the anchor to what can be read, into the last blocks first; the others are free."""
        assert isinstance(fetch, Fetch)
        ends = range(fetch.start + fetch.length, fetch.start + fetch.least - 1, -self.step)
        fetch.boundary = next((end for end in ends if self.restores(fetch, end, stored)), fetch.start)
        groups = fetch.groups if fetch.boundary > fetch.start else ()
        reads = {group.name: self.behind_anchor(fetch, group, fetch.boundary) for group in groups}
        fetch.reads = {name: {end: fetch.blocks.pop() for end in ends} for name, ends in reads.items() if ends}
        back, fetch.blocks = fetch.blocks, [block for some in fetch.reads.values() for block in some.values()]
        fetch.running = bool(fetch.blocks)
        return fetch.boundary, {name: dict(some) for name, some in fetch.reads.items()}, self.returned(back)

    def behind_anchor(self, fetch: Fetch, group: Component, boundary: int) -> list[int]:
        """Where the blocks of a group end that are read for a boundary; of a window all, near the root too, or none."""
        if isinstance(group.shape, Window) and not self.many(group, boundary - fetch.start):
            return []
        return [end for end in self.ends(group, boundary) if end > fetch.start]

    def restores(self, fetch: Fetch, boundary: int, stored: Mapping[str, Sequence[int]]) -> bool:
        """Whether storage has what a boundary needs of each group for which there are blocks."""
        for group in fetch.groups:
            ends = self.behind_anchor(fetch, group, boundary)
            if not set(ends) <= set(stored.get(group.name, ())) or (isinstance(group.shape, Window) and not ends):
                return False
        return True

    def component_prefetch_settled(self, fetch: object) -> dict[str, list[int]]:
        """Nothing is written any more: the blocks of what is over are free."""
        assert isinstance(fetch, Fetch)
        fetch.running = False
        return self.end(fetch, {}) if fetch.over else {}

    def component_prefetch_commit(
        self, fetch: object, came: Mapping[str, Sequence[int]]
    ) -> tuple[int, dict[str, list[int]]]:
        """Blocks get their keys: the run up to the first hole in it, and the others if all of them came."""
        assert isinstance(fetch, Fetch)
        run, end = self.groups[0], fetch.start
        while end < fetch.boundary and end + run.unit in came.get(run.name, ()):
            end += run.unit
        whole = {
            name: reads
            for name, reads in fetch.reads.items()
            if end == fetch.boundary and reads.keys() <= set(came.get(name, ()))
        }
        reached = {at: block for at, block in fetch.reads.get(run.name, {}).items() if at <= end}
        entries = {**whole, run.name: reached}
        left = BlockGroups.component_insert(self, fetch.key, entries)
        for name, reads in entries.items():
            fetch.blocks = [block for block in fetch.blocks if block not in reads.values() or block in left[name]]
        back = self.end(fetch, came)
        self.cached(beginning(fetch.key, end))
        return end, back

    def component_prefetch_abort(self, fetch: object) -> dict[str, list[int]]:
        """As if nothing had come."""
        assert isinstance(fetch, Fetch)
        return self.end(fetch, {})

    def end(self, fetch: Fetch, came: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
        """It is over: its anchor waits again, and what it still has is free, unless I/O may write it."""
        if not fetch.over:
            self.give_up(fetch.anchor)
            self.fetches.remove(fetch)
        fetch.over = True
        reads = [(name, end, block) for name, some in fetch.reads.items() for end, block in some.items()]
        busy = {block for name, end, block in reads if fetch.running and end not in came.get(name, ())}
        back = [block for block in fetch.blocks if block not in busy]
        fetch.blocks = [block for block in fetch.blocks if block in busy]
        return self.returned(back)

    def returned(self, blocks: Sequence[int]) -> dict[str, list[int]]:
        """These blocks are free; they are told as if they were the last group's."""
        self.free += blocks
        return {self.groups[-1].name: [*blocks]} if blocks else {}

    # Storage

    def component_attach(self) -> None:
        """It is there."""
        self.attached = True

    def component_detach(self) -> dict[str, list[int]]:
        """It is away: the last prefetch is given up first."""
        self.attached = False
        back = [block for fetch in self.fetches[::-1] for some in self.end(fetch, {}).values() for block in some]
        return {self.groups[0].name: back}

    def component_write(
        self, handle: object, stored: Mapping[str, Sequence[int]]
    ) -> tuple[Put | None, dict[str, tuple[int, ...]]]:
        """Pin what a hit needs, if storage is there and all that it lacks can be read."""
        assert isinstance(handle, dict)
        run = handle[self.groups[0].name]
        needs = self.needs(key_of(self.keys[run[-1]])) if run else []
        takes = [at for at in needs if len(at[2]) not in stored.get(at[0], ())]
        if not self.attached or not self.host.keys() >= set(takes):
            return None, {}
        self.pins.update(needs)
        ends = {name: tuple(len(at[2]) for at in takes[::-1] if at[0] == name) for name, _, _ in takes}
        return Put(needs), ends

    def component_written(self, write: object, ok: bool) -> None:
        """Nothing is read any more."""
        assert isinstance(write, Put)
        self.pins.subtract(write.pinned)


class BlockStoreTarget(BlockWritesTarget):
    """Layouts of one pool alone, with host memory, a write policy, and storage behind the host."""

    configs: tuple[Config, ...] = CONFIGS
    kind: type[BlockStore] = BlockStore
    pools: tuple[str, ...] = ("component_host", "component_writes", "component_storage")
    capabilities = (*BlockWritesTarget.capabilities, "component_prefetch", "component_storage")

    def make(self, config: Config) -> BlockGroups:
        """Fresh groups over fresh pools; without host memory storage neither comes nor goes, and is only read."""
        layout = layout_for(config)
        (blocks,), (host_blocks,) = layout.places.values(), layout.host.values() or [0]
        attached = config.storage != "later"
        return self.kind(config.write, layout.components, blocks, host_blocks, attached=attached)


target = BlockStoreTarget()
