"""Groups of blocks that go to the host by themselves, as an offloading connector does with its write policies.

With write-back the line says which blocks go next; whatever prefix could still be hit and needs one of them is copied
first, and the copy is waited for.  The selective policy counts nothing: a prefix that could be hit before an insert is
used again by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvlitmus.conformance.ports import Config
from kvlitmus.spec.interface.components import ComponentBegun
from kvlitmus.spec.words.policies import SELECTIVE, WRITE_BACK, WRITE_THROUGH
from kvlitmus.spec.words.shapes import Component
from kvlitmus.spec.words.units import Key
from kvlitmus.zoo.block_groups import BlockGroups, BlockKey, beginning, key_of, layout_for
from kvlitmus.zoo.block_offload import BlockOffload, BlockOffloadTarget, told

CONFIGS = (
    Config(page_size=4, pages=20, host_pages=24, write=WRITE_THROUGH, components="groups"),
    Config(page_size=1, pages=20, host_pages=12, write=SELECTIVE, components="groups"),
    Config(page_size=2, pages=24, host_pages=40, write=WRITE_BACK, components="groups+chunk"),
    Config(page_size=1, pages=20, host_pages=12, write=WRITE_BACK, components="groups"),
)


class BlockWrites(BlockOffload):
    """Backs up what is inserted, or what is about to leave the device."""

    def __init__(self, write: str, groups: Sequence[Component], blocks: int, host_blocks: int) -> None:
        self.write = write
        super().__init__(groups, blocks, host_blocks)

    def component_reset(self) -> None:
        """Nothing has begun."""
        super().component_reset()
        self.begun: list[ComponentBegun] = []

    def component_begun(self) -> list[ComponentBegun]:
        """What has begun since somebody asked."""
        begun, self.begun = self.begun, []
        return begun

    def component_insert(self, key: Key, entries: Mapping[str, Mapping[int, int]]) -> dict[str, list[int]]:
        """As without policies; then the longest hit is copied, if it is to be."""
        before = self.agreed(key)
        left = super().component_insert(key, entries)
        length = self.agreed(key)
        if length and (self.write == WRITE_THROUGH or (self.write == SELECTIVE and length == before)):
            self.save(beginning(key, length))
        return left

    def save(self, key: Key, *, wait: bool = False) -> None:
        """Copy a prefix to the host; one for which there is no room isn't told, since nothing has gone for it."""
        copy, freed = self.offload(key, load=False)
        if copy is None:
            return
        blocks = told(copy)
        if wait:
            self.component_copied(copy, True)
        self.begun.append(ComponentBegun(None if wait else copy, key.namespace, key.units, blocks, freed))

    def component_evict(self, wants: Mapping[str, int]) -> dict[str, int]:
        """The first of each group in the line."""
        freed = {}
        for name, many in wants.items():
            gone = self.first({name: many}, many, load=True)
            freed[name] = self.drop(gone, load=True).get(name, 0)
        return freed

    def drop(self, gone: Sequence[BlockKey], *, load: bool) -> dict[str, int]:
        """Before blocks leave the device, every prefix is copied that needs one and could be hit."""
        if load and self.write == WRITE_BACK:
            for prefix in [at for at in self.found if at[0] == self.groups[0].name]:
                self.save_before(prefix, gone)
        return super().drop(gone, load=load)

    def save_before(self, prefix: BlockKey, gone: Sequence[BlockKey]) -> None:
        """Copy a prefix that needs some of these blocks, if it could be hit."""
        key = key_of(prefix)
        if set(self.needs(key)) & set(gone) and self.agreed(key) == len(key.units):
            self.save(key, wait=True)


class BlockWritesTarget(BlockOffloadTarget):
    """Layouts of one pool alone, with host memory and a write policy."""

    configs: tuple[Config, ...] = CONFIGS
    pools: tuple[str, ...] = ("component_host", "component_writes")
    capabilities = (*BlockOffloadTarget.capabilities, "component_writes")

    def make(self, config: Config) -> BlockGroups:
        """Fresh groups over fresh pools."""
        layout = layout_for(config)
        return BlockWrites(config.write, layout.components, *layout.places.values(), *layout.host.values())


target = BlockWritesTarget()
