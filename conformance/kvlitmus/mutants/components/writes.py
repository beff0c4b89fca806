"""Mutants of the write policies of components, and legal variations of them."""

from __future__ import annotations

from typing import Any

from kvlitmus.conformance.run.plan import COMPONENT_HOST_CONFIGS, COMPONENT_WRITE_CONFIGS
from kvlitmus.conformance.specimen.components.host import ComponentCopier, Pinned
from kvlitmus.conformance.specimen.components.tree import ComponentNode, ComponentTree
from kvlitmus.conformance.specimen.components.writes import ComponentPolicy
from kvlitmus.mutants.registry import mutant, null_mutant
from kvlitmus.spec.interface.components import ComponentBegun
from kvlitmus.spec.words.units import Key

_SGLANG = "https://github.com/sgl-project/sglang/"
THROUGH = tuple(config for config in COMPONENT_WRITE_CONFIGS if config.write == "write_through")
SELECTIVE = tuple(config for config in COMPONENT_WRITE_CONFIGS if config.write == "write_through_selective")
BACK = tuple(config for config in COMPONENT_WRITE_CONFIGS if config.write == "write_back")

# What is due


@mutant("component-writes-forget-an-insert", kills=("COMP-55",), configs=THROUGH)
class WritesForgetAnInsert(ComponentPolicy):
    """Write-through backs up what it is asked to, and nothing that is inserted: the host stays empty."""

    def is_due(self, node: ComponentNode) -> bool:
        return False


@mutant("component-writes-count-to-three", kills=("COMP-55",), configs=SELECTIVE)
class WritesCountToThree(ComponentPolicy):
    """With the selective policy the second use is not enough."""

    hot_after = 3


@mutant("component-writes-at-the-first-use", kills=("COMP-53",), configs=SELECTIVE)
class WritesAtTheFirstUse(ComponentPolicy):
    """With the selective policy each prompt is copied at once, also the many that nobody asks for again."""

    hot_after = 1


@mutant("component-writes-once", kills=("COMP-55",), configs=THROUGH)
class WritesOnce(ComponentPolicy):
    """What was backed up once is taken to be on the host, whether the copy failed or the host has evicted it since."""

    def __init__(self, copier: ComponentCopier, tree: ComponentTree, write: str) -> None:
        super().__init__(copier, tree, write)
        self.saved: set[ComponentNode] = set()

    def is_due(self, node: ComponentNode) -> bool:
        if node in self.saved:
            return False
        self.saved.add(node)
        return True


@mutant("component-writes-wait-for-a-free-host", kills=("COMP-55",), configs=THROUGH)
class WritesWaitForAFreeHost(ComponentPolicy):
    """A host that is full is never evicted from for what is inserted: it keeps what came first for ever."""

    def is_due(self, node: ComponentNode) -> bool:
        return all(self.copier.host.free.values()) and super().is_due(node)


@mutant("component-writes-an-inner-boundary", kills=("COMP-55",), configs=THROUGH)
class WritesAnInnerBoundary(ComponentPolicy):
    """Not the last boundary of an insert is backed up but the one before it: each turn lacks its own end."""

    def last_boundary(self, key: Key) -> ComponentNode | None:
        last = super().last_boundary(key)
        return super().last_boundary(key._replace(tokens=key.tokens[: last.end - 1 + key.bigram])) if last else None


@mutant("component-writes-where-the-kv-ends", kills=("COMP-54",), configs=THROUGH)
class WritesWhereTheKvEnds(ComponentPolicy):
    """What is backed up is as long as the KV, whether the window and the state are there or not."""

    def last_boundary(self, key: Key) -> ComponentNode | None:
        nodes = [node for node in self.tree.walk(key) if self.tree.base.name in node.places]
        return nodes[-1] if nodes else None

    def save(self, node: ComponentNode, *, wait: bool = False) -> None:
        if all(name in at.places for name, at in self.copier.needs(node)):
            super().save(node, wait=wait)
        else:
            self.rows.append(ComponentBegun(None, *self.prefix(node), {self.tree.base.name: {}}, {}))


# When


@mutant("component-writes-without-being-asked", kills=("COMP-53",), configs=COMPONENT_HOST_CONFIGS[:1])
class WritesWithoutBeingAsked(ComponentPolicy):
    """A cache that is to back up what it is asked to backs up every insert."""

    def is_due(self, node: ComponentNode) -> bool:
        return True


@mutant("component-writes-back-at-once", kills=("COMP-53",), configs=BACK)
class WritesBackAtOnce(ComponentPolicy):
    """With write-back every insert is backed up at once too, though nothing leaves the device."""

    def is_due(self, node: ComponentNode) -> bool:
        return True

    def save(self, node: ComponentNode, *, wait: bool = True) -> None:
        super().save(node, wait=True)


# What an eviction loses


@mutant("component-writes-nothing-back", kills=("COMP-56",), configs=BACK)
class WritesNothingBack(ComponentPolicy):
    """With write-back an eviction drops what it takes, though the host has room."""

    def leaving(self, node: ComponentNode, names: list[str]) -> None:
        return None


@mutant(
    "component-writes-back-with-the-kv-alone",
    bugs=("S72",),
    links=(f"{_SGLANG}pull/28468", f"{_SGLANG}pull/29204"),
    kills=("COMP-56",),
    configs=BACK,
)
class WritesBackWithTheKvAlone(ComponentPolicy):
    """What goes with KV is saved, and a window or a state that goes alone is lost, and its boundary with it."""

    def leaving(self, node: ComponentNode, names: list[str]) -> None:
        if self.tree.base.name in names:
            super().leaving(node, names)


@mutant("component-writes-back-its-own-boundary", kills=("COMP-56",), configs=BACK)
class WritesBackItsOwnBoundary(ComponentPolicy):
    """Only the boundary where an entry ends is saved: those behind it, whose window begins there, are lost."""

    def subtree(self, node: ComponentNode) -> Any:
        return iter([node])


@mutant("component-writes-forget-the-window", kills=("COMP-32",), configs=BACK + THROUGH)
class WritesForgetTheWindow(ComponentCopier):
    """What the cache backs up by itself is the KV and the state: the window is left out."""

    def lacks(self, node: ComponentNode, *, load: bool) -> Pinned:
        found = super().lacks(node, load=load)
        return found if load else [(name, at) for name, at in found if name != "swa"]


# What is told


@mutant(
    "component-writes-untold", kills=("POOL-10", "COMP-15", "COMP-16", "POOL-12", "EVENT-02"), configs=THROUGH + BACK
)
class WritesUntold(ComponentPolicy):
    """Nobody is told of backups: the host fills, and copies never end."""

    def take(self) -> list[ComponentBegun]:
        self.rows.clear()
        return []


@mutant("component-writes-untold-evictions", kills=("POOL-10", "COMP-16"), configs=THROUGH + BACK)
class WritesUntoldEvictions(ComponentPolicy):
    """What a backup has evicted from the host is not told."""

    def take(self) -> list[ComponentBegun]:
        return [row._replace(evicted={}) for row in super().take()]


# Legal variations


@null_mutant("null-component-writes-wait", configs=THROUGH)
class WritesWait(ComponentPolicy):
    """With write-through too a backup is waited for: it has ended when the insert returns."""

    def save(self, node: ComponentNode, *, wait: bool = True) -> None:
        super().save(node, wait=True)


@null_mutant("null-component-writes-every-boundary", configs=THROUGH)
class WritesEveryBoundary(ComponentPolicy):
    """An insert backs up the boundaries on its way too, so that states in the middle of a key are kept."""

    def inserted(self, key: Key) -> None:
        for node in list(self.tree.walk(key)):
            if node.end % self.tree.step == 0 and self.is_whole(node) and node is not self.last_boundary(key):
                self.save(node)
        super().inserted(key)


@null_mutant("null-component-writes-back-the-longest-first", configs=BACK)
class WritesBackTheLongestFirst(ComponentPolicy):
    """Of several boundaries that an eviction would lose the longest is saved first."""

    def subtree(self, node: ComponentNode) -> Any:
        return reversed(list(super().subtree(node)))
