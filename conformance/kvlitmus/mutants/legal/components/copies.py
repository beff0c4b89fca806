"""Null mutants of copies as engines with nodes have them: cached from the beginning, and of all on their path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kvlitmus.conformance.run.plan import COMPONENT_HOST_CONFIGS, COMPONENT_STORAGE_CONFIGS
from kvlitmus.conformance.specimen.components.host import ComponentCopier, ComponentCopy, Pinned
from kvlitmus.conformance.specimen.components.storing import ComponentWriter
from kvlitmus.conformance.specimen.components.tree import ComponentNode, ComponentPools, ComponentTree
from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.mutants.legal.components.tree import NodeTree, ReplacingTree, WholeNodes
from kvlitmus.mutants.registry import null_mutant
from kvlitmus.spec.words.shapes import Component

BEGUN = replace(PROFILE, component_landing="begun")
BY_PATH = replace(PROFILE, component_extent="path")
SPARING = replace(PROFILE, component_host_spares="device")
CHAINED = replace(BEGUN, component_extent="path", component_host_spares="device")
UNSPARED = replace(CHAINED, component_host_spares="nothing")
CHAINED_NODES = replace(CHAINED, evict_granularity="node")
CHAINED_REFILL = replace(CHAINED, component_refill="replaces")


def path_to(node: ComponentNode) -> Iterator[ComponentNode]:
    """The nodes from the end of a prefix up to its first page."""
    at: ComponentNode | None = node
    while at is not None and at.above is not None:
        yield at
        at = at.above


def hold(copy: ComponentCopy, name: str, at: ComponentNode, *, device: bool) -> None:
    """Pin one more entry for a copy, on the device or on the host."""
    (copy.device if device else copy.host).append((name, at))
    locks = at.locks if device else at.host_locks
    locks[name] = locks.get(name, 0) + 1


class LandingCopier(ComponentCopier):
    """What a copy brings hangs on its nodes from the beginning, pinned until the copy has ended."""

    def __init__(self, pools: ComponentPools, host: ComponentPools, tree: ComponentTree) -> None:
        super().__init__(pools, host, tree)
        self.landing: Pinned = []

    def begin(self, node: ComponentNode, *, load: bool) -> tuple[ComponentCopy | None, dict[str, int]]:
        copy, freed = super().begin(node, load=load)
        if copy is not None:
            self.hang(copy)
        return copy, freed

    def hang(self, copy: ComponentCopy) -> None:
        """What a copy brings is cached from now on, and pinned."""
        for name, at, place in copy.buffers:
            (self.tree if copy.load else self).put(at, name, place)
            self.hold(copy, name, at, device=copy.load)
        self.landing += [(name, at) for name, at, _ in copy.buffers if not copy.load]

    def hold(self, copy: ComponentCopy, name: str, at: ComponentNode, *, device: bool) -> None:
        """Pin one more entry for a copy."""
        hold(copy, name, at, device=device)

    def ended(self, copy: ComponentCopy, *, ok: bool) -> dict[str, list[int]]:
        assert ok, "what is cached from its beginning can't fail"
        self.unpin(copy)
        landed = [(name, at) for name, at, _ in copy.buffers if not copy.load]
        self.landing = [one for one in self.landing if one not in landed]
        return {}


@null_mutant("component-copies-count-from-the-beginning", profile=BEGUN, configs=COMPONENT_HOST_CONFIGS)
class CopiesCountFromTheBeginning(LandingCopier):
    """A copy's entries are cached when it has begun: others hit them, and take nothing a second time."""


class LandedWriter(ComponentWriter):
    """Nothing is written to storage that is only landing on the host."""

    def may_write(self, node: ComponentNode) -> bool:
        assert isinstance(self.copies, LandingCopier)
        return super().may_write(node) and not any(one in self.copies.landing for one in self.copies.needs(node))


@null_mutant(
    "component-writes-wait-for-what-lands", beside=(LandedWriter,), profile=BEGUN, configs=COMPONENT_STORAGE_CONFIGS
)
class WritesWaitForWhatLands(LandingCopier):
    """A write to storage is refused where a backup still brings what its boundary needs, though it counts as cached."""


@null_mutant("component-load-brings-its-path", profile=BY_PATH, configs=COMPONENT_HOST_CONFIGS)
class LoadBringsItsPath(ComponentCopier):
    """A load back brings all that the host has on its path, also states and windows that its boundary doesn't need."""

    def lacks(self, node: ComponentNode, *, load: bool) -> Pinned:
        found = super().lacks(node, load=load)
        if not load or not found:
            return found
        needed = {(name, id(at)) for name, at in found}
        more = [(name, at) for at in path_to(node) for name in at.host if name not in at.places]
        return [*found, *[(name, at) for name, at in more if (name, id(at)) not in needed]]

    def pin(self, copy: ComponentCopy, node: ComponentNode) -> None:
        super().pin(copy, node)
        pinned = {(name, id(at)) for name, at in copy.host}
        for name, at in self.lacks(node, load=copy.load):
            if copy.load and (name, id(at)) not in pinned and name in at.host:
                hold(copy, name, at, device=False)


@null_mutant("component-copies-pin-their-path", profile=BY_PATH, configs=COMPONENT_HOST_CONFIGS)
class CopiesPinTheirPath(ComponentCopier):
    """A copy pins the nodes of its path whole, on both tiers, with what its boundary doesn't need."""

    def pin(self, copy: ComponentCopy, node: ComponentNode) -> None:
        pin_path(copy, node)


def pin_path(copy: ComponentCopy, node: ComponentNode) -> None:
    """Pin for a copy all that either tier has of a path."""
    for at in path_to(node):
        for name in at.places:
            hold(copy, name, at, device=True)
        for name in at.host:
            hold(copy, name, at, device=False)


class SparingCopier(ComponentCopier):
    """An eviction from the host takes what is there alone."""

    def evictable(self, component: Component) -> list[ComponentNode]:
        """Not what is on the device too."""
        return [node for node in super().evictable(component) if component.name not in node.places]


@null_mutant("component-host-spares-what-the-device-has", profile=SPARING, configs=COMPONENT_HOST_CONFIGS)
class HostSparesWhatTheDeviceHas(SparingCopier):
    """An eviction from the host takes what is there alone: what is on both tiers goes after it left the device."""


class PartCopier(LandingCopier):
    """A backup goes from the first boundary on its path to its own, each with what it needs, while there is room."""

    def back_up(self, node: ComponentNode | None) -> tuple[ComponentCopy | None, dict[str, int]]:
        whole: ComponentCopy | None = None
        freed: dict[str, int] = {}
        for at in reversed(list(path_to(node)) if node else []):
            if at.end % self.tree.step or not self.backs(at):
                continue
            one, gone = self.begin(at, load=False)
            for name, many in gone.items():
                freed[name] = freed.get(name, 0) + many
            if one is None and self.lacks(at, load=False):
                break
            whole = joined(whole, one)
        return whole, freed

    def backs(self, node: ComponentNode) -> bool:
        """Whether a prefix on the path is a boundary of the device."""
        return all(name in at.places for name, at in self.needs(node))


class ChainCopier(SparingCopier, PartCopier):
    """Backups in parts, and a host that spares what the device has too."""


def joined(first: ComponentCopy | None, second: ComponentCopy | None) -> ComponentCopy | None:
    """Two backups as one."""
    if first is None or second is None:
        return first or second
    return ComponentCopy(
        second.load,
        second.end,
        first.device + second.device,
        first.host + second.host,
        first.buffers + second.buffers,
    )


@null_mutant("component-backups-go-by-the-path", profile=CHAINED, configs=COMPONENT_HOST_CONFIGS)
class BackupsGoByThePath(ChainCopier):
    """A backup takes the boundaries before its own first, each with what it needs, and stops where the host is full."""


class PathCopier(PartCopier):
    """All of a path is pinned from the beginning of a copy to its end, also where a backup stops earlier."""

    def back_up(self, node: ComponentNode | None) -> tuple[ComponentCopy | None, dict[str, int]]:
        if node is None:
            return None, {}
        whole = ComponentCopy(False, node.end, [], [], [])
        self.pin(whole, node)
        copy, freed = super().back_up(node)
        if copy is None:
            self.unpin(whole)
            return None, freed
        return joined(copy, whole), freed

    def pin(self, copy: ComponentCopy, node: ComponentNode) -> None:
        pin_path(copy, node)


@null_mutant("component-backups-pin-their-path", profile=UNSPARED, configs=COMPONENT_HOST_CONFIGS)
class BackupsPinTheirPath(PathCopier):
    """A backup goes by its path, and evicts nothing of it from the host for its parts, which may stop it earlier."""


@null_mutant("component-copies-go-by-nodes", profile=CHAINED, configs=COMPONENT_HOST_CONFIGS)
class CopiesGoByNodes(SparingCopier, PathCopier):
    """Backups and loads back pin their path whole, and the host spares what the device has, as with nodes."""


@null_mutant(
    "component-copies-keep-what-a-refill-brings",
    beside=(ReplacingTree,),
    profile=CHAINED_REFILL,
    configs=COMPONENT_HOST_CONFIGS,
)
class CopiesKeepWhatARefillBrings(CopiesGoByNodes):
    """An insert that refills a window leaves the KV where it is that a copy has pinned, also what it doesn't take."""


@null_mutant(
    "component-backups-evict-nodes-for-each-part",
    beside=(NodeTree,),
    profile=CHAINED_NODES,
    configs=COMPONENT_HOST_CONFIGS,
)
class BackupsEvictNodesForEachPart(WholeNodes, ChainCopier):
    """Each part of a backup that finds too little room evicts for itself, and by node the rest of a node each time."""

    def same(self, node: ComponentNode, other: ComponentNode | None) -> bool:
        """Whether the page before belongs to the node of this one, as the tree has it."""
        assert isinstance(self.tree, NodeTree)
        return self.tree.same(node, other)
