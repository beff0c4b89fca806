"""Null mutants of storage behind the host memory of components: when a write may begin, and in which order it goes."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kvlitmus.conformance.run.plan import COMPONENT_STORAGE_CONFIGS
from kvlitmus.conformance.specimen.components.host import Pinned
from kvlitmus.conformance.specimen.components.prefetch import Places
from kvlitmus.conformance.specimen.components.storing import ComponentWrite, ComponentWriter
from kvlitmus.conformance.specimen.components.tree import ComponentNode
from kvlitmus.mutants.registry import null_mutant


@null_mutant("component-write-of-nothing", configs=COMPONENT_STORAGE_CONFIGS)
class WriteOfNothing(ComponentWriter):
    """A write begins even where storage lacks nothing: it takes nothing, and protects its prefix until it ends."""

    def write(self, node: ComponentNode | None, stored: Mapping[str, Collection[int]]) -> ComponentWrite | None:
        write = super().write(node, stored)
        if write is None and node is not None and self.may_write(node):
            write = ComponentWrite([], self.pin(node))
            self.writing.append(write)
        return write


@null_mutant("component-write-of-what-it-can-read", configs=COMPONENT_STORAGE_CONFIGS)
class WriteOfWhatItCanRead(ComponentWriter):
    """A write begins where the host has all that storage lacks, though it may lack what storage has."""

    def may_write(self, node: ComponentNode) -> bool:
        return self.attached

    def lacking(self, node: ComponentNode, stored: Mapping[str, Collection[int]]) -> Pinned:
        takes = super().lacking(node, stored)
        return takes if all(name in at.host for name, at in takes) else []


@null_mutant("component-detach-newest-first", configs=COMPONENT_STORAGE_CONFIGS)
class DetachNewestFirst(ComponentWriter):
    """The last prefetch is given up first, and places come back in that order: the order is nobody's concern."""

    def detach(self) -> Places:
        self.fetching.reverse()
        return super().detach()
