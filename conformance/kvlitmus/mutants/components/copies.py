"""Mutants of copies of components as engines with nodes have them: cached from the beginning, along their path."""

from __future__ import annotations

from kvlitmus.conformance.run.plan import COMPONENT_HOST_CONFIGS, COMPONENT_STORAGE_CONFIGS
from kvlitmus.conformance.specimen.components.host import ComponentCopier, ComponentCopy, Pinned
from kvlitmus.conformance.specimen.components.tree import ComponentNode
from kvlitmus.mutants.legal.components.copies import (
    BEGUN,
    BY_PATH,
    CHAINED,
    SPARING,
    ChainCopier,
    LandingCopier,
    LoadBringsItsPath,
    SparingCopier,
    path_to,
)
from kvlitmus.mutants.registry import mutant
from kvlitmus.spec.words.shapes import Component

# Cached from the beginning


@mutant("component-landing-is-not-pinned", kills=("LOCK-01",), configs=COMPONENT_HOST_CONFIGS, profile=BEGUN)
class LandingIsNotPinned(LandingCopier):
    """What is being copied to a tier counts there, and may be evicted: another gets its place while it is written."""

    def hold(self, copy: ComponentCopy, name: str, at: ComponentNode, *, device: bool) -> None:
        """It is told, and nothing protects it."""


@mutant("component-landing-is-given-back", kills=("COMP-29",), configs=COMPONENT_HOST_CONFIGS, profile=BEGUN)
class LandingIsGivenBack(LandingCopier):
    """When a copy has ended its buffers are given back, as if its prefix had been cached before, and stay cached."""

    def ended(self, copy: ComponentCopy, *, ok: bool) -> dict[str, list[int]]:
        super().ended(copy, ok=ok)
        returned: dict[str, list[int]] = {}
        for name, _, place in copy.buffers:
            returned.setdefault(name, []).append(place)
        return returned


@mutant("component-landing-is-taken-twice", kills=("COMP-32",), configs=COMPONENT_HOST_CONFIGS, profile=BEGUN)
class LandingIsTakenTwice(LandingCopier):
    """A copy takes again what another one is just bringing, and the place that it had there is nobody's."""

    def lacks(self, node: ComponentNode, *, load: bool) -> Pinned:
        coming = {(name, id(at)) for copy in self.running if copy.load == load for name, at, _ in copy.buffers}
        found = super().lacks(node, load=load)
        return [*found, *[(name, at) for name, at in self.needs(node) if (name, id(at)) in coming]]

    @property
    def running(self) -> list[ComponentCopy]:
        """The copies that have not ended."""
        return self.__dict__.setdefault("under_way", [])  # type: ignore[no-any-return]

    def begin(self, node: ComponentNode, *, load: bool) -> tuple[ComponentCopy | None, dict[str, int]]:
        copy, freed = super().begin(node, load=load)
        self.running.extend([copy] if copy else [])
        return copy, freed

    def ended(self, copy: ComponentCopy, *, ok: bool) -> dict[str, list[int]]:
        self.running.remove(copy)
        return super().ended(copy, ok=ok)


@mutant("component-landing-waits", kills=("TREE-02", "POOL-12"), configs=COMPONENT_HOST_CONFIGS, profile=BEGUN)
class LandingWaits(LandingCopier):
    """A load back that has begun is found only when it has ended: the batch that it is for computes all of it anew."""

    def begin(self, node: ComponentNode, *, load: bool) -> tuple[ComponentCopy | None, dict[str, int]]:
        copy, freed = super(LandingCopier, self).begin(node, load=load)
        if copy is not None and not load:
            self.hang(copy)
        return copy, freed

    def ended(self, copy: ComponentCopy, *, ok: bool) -> dict[str, list[int]]:
        if copy.load:
            return super(LandingCopier, self).ended(copy, ok=ok)
        return super().ended(copy, ok=ok)


@mutant("component-write-reads-what-lands", kills=("COMP-58",), configs=COMPONENT_STORAGE_CONFIGS, profile=BEGUN)
class WriteReadsWhatLands(LandingCopier):
    """A write to storage begins with what a backup still brings to the host: what is stored is half of it, or old."""


# Along the path


@mutant("component-path-is-copied-again", kills=("COMP-32",), configs=COMPONENT_HOST_CONFIGS, profile=CHAINED)
class PathIsCopiedAgain(ChainCopier):
    """A backup along the path takes also the states that the host has, each turn of a conversation all of them."""

    def lacks(self, node: ComponentNode, *, load: bool) -> Pinned:
        if load:
            return super().lacks(node, load=load)
        return [(name, at) for name, at in self.needs(node) if name not in at.host or name == self.components[-1].name]


@mutant("component-path-goes-beyond", kills=("COMP-32",), configs=COMPONENT_HOST_CONFIGS, profile=CHAINED)
class PathGoesBeyond(ChainCopier):
    """A backup takes of the window what comes behind its boundary too, in whole nodes, as others have computed it."""

    def lacks(self, node: ComponentNode, *, load: bool) -> Pinned:
        found = super().lacks(node, load=load)
        behind = [] if load or not found else node.children.values()
        return [*found, *[(name, at) for at in behind for name in at.places if name not in at.host]]


@mutant("component-path-stops-early", kills=("COMP-32",), configs=COMPONENT_HOST_CONFIGS, profile=CHAINED)
class PathStopsEarly(ChainCopier):
    """A backup along the path leaves its last boundary out, though there is room for it."""

    def back_up(self, node: ComponentNode | None) -> tuple[ComponentCopy | None, dict[str, int]]:
        boundaries = [at for at in path_to(node) if at.end % self.tree.step == 0] if node else []
        return super().back_up(next((at for at in boundaries if at is not node), node))


@mutant(
    "component-path-forgets-a-part",
    kills=("POOL-10", "COMP-15"),
    configs=COMPONENT_HOST_CONFIGS,
    profile=CHAINED,
)
class PathForgetsAPart(ChainCopier):
    """A backup that stops for want of room answers that it was refused: what it took before stays on the host."""

    def back_up(self, node: ComponentNode | None) -> tuple[ComponentCopy | None, dict[str, int]]:
        copy, freed = super().back_up(node)
        if copy is not None and node is not None and copy.end < node.end:
            return None, freed
        return copy, freed


@mutant(
    "component-path-stops-with-kv-alone",
    kills=("COMP-32",),
    configs=COMPONENT_HOST_CONFIGS,
    profile=CHAINED,
)
class PathStopsWithKvAlone(ChainCopier):
    """Where there is no room for all that a boundary needs, its KV alone goes to the host: nothing can be loaded."""

    bare = False

    def begin(self, node: ComponentNode, *, load: bool) -> tuple[ComponentCopy | None, dict[str, int]]:
        copy, freed = super().begin(node, load=load)
        if copy is None and not load and not any(freed.values()):
            self.bare = True
            copy, freed = super().begin(node, load=load)
            self.bare = False
        return copy, freed

    def lacks(self, node: ComponentNode, *, load: bool) -> Pinned:
        return [one for one in super().lacks(node, load=load) if not self.bare or one[0] == self.base.name]


@mutant(
    "component-path-lets-its-parts-go", kills=("COMP-13", "LOCK-01"), configs=COMPONENT_HOST_CONFIGS, profile=CHAINED
)
class PathLetsItsPartsGo(ChainCopier):
    """A backup that stops unpins what its first parts read and write, as one that was refused would."""

    def back_up(self, node: ComponentNode | None) -> tuple[ComponentCopy | None, dict[str, int]]:
        copy, freed = super().back_up(node)
        if copy is not None and node is not None and copy.end < node.end:
            self.unpin(copy)
            copy.device, copy.host = [], []
        return copy, freed


@mutant(
    "component-path-reads-what-may-go", kills=("COMP-13", "LOCK-01"), configs=COMPONENT_HOST_CONFIGS, profile=BY_PATH
)
class PathReadsWhatMayGo(LoadBringsItsPath):
    """A load back pins on the host what its boundary needs, and not what else of its path it reads there."""

    def pin(self, copy: ComponentCopy, node: ComponentNode) -> None:
        ComponentCopier.pin(self, copy, node)


# What the device has too


@mutant(
    "component-host-spares-everything", kills=("COMP-36", "COMP-12"), configs=COMPONENT_HOST_CONFIGS, profile=SPARING
)
class HostSparesEverything(SparingCopier):
    """Nothing is ever evicted from the host: once it is full, what came first stays."""

    def evictable(self, component: Component) -> list[ComponentNode]:
        return []


@mutant(
    "component-host-spares-what-the-device-had",
    kills=("COMP-36", "COMP-12"),
    configs=COMPONENT_HOST_CONFIGS,
    profile=SPARING,
)
class HostSparesWhatTheDeviceHad(SparingCopier):
    """What was loaded back once is spared for good, as if it were on the device still."""

    def begin(self, node: ComponentNode, *, load: bool) -> tuple[ComponentCopy | None, dict[str, int]]:
        copy, freed = super().begin(node, load=load)
        if copy is not None and load:
            self.loaded.update((name, at.end, at.units) for name, at, _ in copy.buffers)
        return copy, freed

    @property
    def loaded(self) -> set[object]:
        """What was loaded back."""
        return self.__dict__.setdefault("once_loaded", set())  # type: ignore[no-any-return]

    def evictable(self, component: Component) -> list[ComponentNode]:
        found = super().evictable(component)
        return [node for node in found if (component.name, node.end, node.units) not in self.loaded]
