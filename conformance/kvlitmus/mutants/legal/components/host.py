"""Null mutants of the host memory of components: what is begun, and what is evicted for it."""

from __future__ import annotations

from collections.abc import Mapping

from kvlitmus.conformance.run.plan import COMPONENT_HOST_CONFIGS, COMPONENT_WRITE_CONFIGS
from kvlitmus.conformance.specimen.components.host import ComponentCopier, ComponentCopy
from kvlitmus.conformance.specimen.components.tree import ComponentNode
from kvlitmus.mutants.legal.components.tree import BY_NODE, NodeTree, WholeNodes
from kvlitmus.mutants.registry import null_mutant


@null_mutant("component-backup-of-nothing", configs=COMPONENT_HOST_CONFIGS[:2])
class BackupOfNothing(ComponentCopier):
    """A backup begins even where the host lacks nothing: it takes nothing, and protects its prefix until it ends."""

    def begin(self, node: ComponentNode, *, load: bool) -> tuple[ComponentCopy | None, dict[str, int]]:
        if load or self.lacks(node, load=load):
            return super().begin(node, load=load)
        copy = ComponentCopy(load, node.end, [], [], [])
        self.pin(copy, node)
        return copy, {}


@null_mutant("component-backup-foresees-its-refusal", configs=COMPONENT_HOST_CONFIGS)
class BackupForeseesItsRefusal(ComponentCopier):
    """Nothing is evicted from the host for a backup where even all that nobody needs would not be enough."""

    def make_room(self, wants: Mapping[str, int], *, load: bool) -> dict[str, int]:
        pool_of, free = self.host.pool_of, {pool: len(some) for pool, some in self.host.free.items()}
        for node in self.tree.nodes():
            for name in node.host:
                free[pool_of[name]] += not node.host_locks.get(name)
        needed = dict.fromkeys(free, 0)
        for name, many in wants.items():
            needed[pool_of[name]] += many
        if not load and any(many > free[pool] for pool, many in needed.items()):
            return {}
        return super().make_room(wants, load=load)


class NodeCopier(WholeNodes, ComponentCopier):
    """On the host too the rest of a node goes with its end."""

    def same(self, node: ComponentNode, other: ComponentNode | None) -> bool:
        """Whether the page before belongs to the node of this one, as the tree has it."""
        assert isinstance(self.tree, NodeTree)
        return self.tree.same(node, other)


@null_mutant("component-host-by-node", beside=(NodeTree,), profile=BY_NODE, configs=COMPONENT_HOST_CONFIGS)
class HostByNode(NodeCopier):
    """What was inserted in a row is evicted in a row, from the device and from the host, as the profile declares."""


WRITTEN_BACK = tuple(config for config in COMPONENT_WRITE_CONFIGS if config.write == "write_back")


@null_mutant("component-write-back-by-node", beside=(NodeTree,), profile=BY_NODE, configs=WRITTEN_BACK)
class WriteBackByNode(NodeCopier):
    """Whole nodes leave the device, and each boundary in them is saved before, where the host has or makes room."""


@null_mutant("component-copy-pins-names", configs=COMPONENT_HOST_CONFIGS)
class CopyPinsNames(ComponentCopier):
    """A copy protects everything that its boundary needs, also what comes to a tier only after it began."""

    def pin(self, copy: ComponentCopy, node: ComponentNode) -> None:
        super().pin(copy, node)
        for name, at in self.needs(node):
            if (name, at) not in copy.device:
                copy.device.append((name, at))
                at.locks[name] = at.locks.get(name, 0) + 1
            if (name, at) not in copy.host:
                copy.host.append((name, at))
                at.host_locks[name] = at.host_locks.get(name, 0) + 1
