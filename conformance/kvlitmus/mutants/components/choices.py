"""Mutants of caches of components that have made other choices: by node, in pairs, with replacements."""

from __future__ import annotations

from collections.abc import Mapping

from kvlitmus.conformance.run.plan import COMPONENT_CONFIGS
from kvlitmus.conformance.specimen.components.tree import ComponentNode, ComponentTree
from kvlitmus.mutants.legal.components.tree import (
    BY_NODE,
    FREEING,
    PAIRED,
    PAIRS,
    REPLACING,
    NodeTree,
    PairedPools,
    ReplacingTree,
)
from kvlitmus.mutants.registry import mutant
from kvlitmus.spec.words.units import Key


@mutant("component-eviction-goes-on", kills=("COMP-13",), profile=BY_NODE, configs=PAIRS)
class EvictionGoesOn(NodeTree):
    """With the node at the end of a path the nodes before it go as well: prefixes that others share are lost."""

    def same(self, node: ComponentNode, other: ComponentNode | None) -> bool:
        return other is not None and other.above is not None


@mutant("component-lock-beyond-its-node", kills=("COMP-10",), profile=BY_NODE, configs=PAIRS)
class LockBeyondItsNode(NodeTree):
    """A window is protected to the root, not to the start of the node in which it starts: long prompts pin its pool."""

    def lock(self, node: ComponentNode | None) -> dict[str, list[ComponentNode]]:
        cover = super().lock(node)
        more = [one for one in cover["kv"] if "swa" in one.places and one not in cover["swa"]]
        for one in more:
            one.locks["swa"] = one.locks.get("swa", 0) + 1
        return cover | {"swa": more + cover["swa"]}


@mutant("component-duplicates-stay", kills=("POOL-10", "POOL-12"), profile=FREEING, configs=COMPONENT_CONFIGS[:3])
class DuplicatesStay(ComponentTree):
    """Duplicates are said to be free, and aren't: each time memory is lost."""


@mutant("component-refill-leaks", kills=("POOL-10", "POOL-12"), profile=REPLACING, configs=PAIRS)
class RefillLeaks(ReplacingTree):
    """The KV that gives way to what was brought isn't freed: each recovery of a window loses memory."""

    def displace(self, node: ComponentNode, base: str) -> None:
        del node.places[base]


@mutant("component-refill-under-a-lock", kills=("TREE-09", "TREE-11", "COMP-15"), profile=REPLACING, configs=PAIRS)
class RefillUnderALock(ReplacingTree):
    """The KV of a tombstone gives way though a running request reads it."""

    def insert(self, key: Key, entries: Mapping[str, Mapping[int, int]]) -> dict[str, list[int]]:
        base = self.components[0].name
        for node in self.walk(key):
            if node.end in entries.get(base, {}) and base in node.places and "swa" not in node.places:
                self.displace(node, base)
        return super().insert(key, entries)


@mutant("component-pair-stays-tied", kills=("POOL-12", "POOL-10"), beside=(PairedPools,), profile=PAIRED, configs=PAIRS)
class PairStaysTied(ComponentTree):
    """A window's entry that filled a tombstone stays tied to the KV that it came with, and is freed with that."""
