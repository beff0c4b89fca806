"""The specimen's write policies of components: what it backs up by itself, as it is inserted or about to go."""

from __future__ import annotations

from collections.abc import Iterator

from kvlitmus.conformance.specimen.components.host import ComponentCopier, placed
from kvlitmus.conformance.specimen.components.tree import ComponentNode, ComponentTree
from kvlitmus.spec.interface.components import ComponentBegun
from kvlitmus.spec.words.policies import SELECTIVE, WRITE_BACK, WRITE_THROUGH
from kvlitmus.spec.words.units import Key


class ComponentPolicy:
    """Begins backups, and keeps what has begun until somebody asks."""

    hot_after = 2
    """With the selective policy a node is backed up when so many inserts have gone through it."""

    def __init__(self, copier: ComponentCopier, tree: ComponentTree, write: str) -> None:
        self.copier, self.tree, self.write = copier, tree, write
        self.rows: list[ComponentBegun] = []
        self.uses: dict[ComponentNode, int] = {}
        if write == WRITE_BACK:
            tree.leaving = self.leaving

    def before_insert(self, key: Key) -> None:
        """An insert goes through what is cached of a key; what it is about to cache, it uses for the first time."""
        cached = {node for node in self.tree.walk(key) if self.tree.base.name in node.places}
        self.uses = {node: many for node, many in self.uses.items() if self.tree.base.name in node.places}
        for node in cached:
            self.uses[node] = self.uses.get(node, 0) + 1

    def inserted(self, key: Key) -> None:
        """An insert has ended: the last boundary of its key is backed up, if the policy makes it due."""
        node = self.last_boundary(key)
        for each in self.tree.walk(key):
            self.uses.setdefault(each, 1)
        if node is not None and self.is_due(node):
            self.save(node)

    def is_due(self, node: ComponentNode) -> bool:
        """Whether the policy wants a boundary on the host now."""
        hot = self.uses.get(node, 0) >= self.hot_after
        return self.write == WRITE_THROUGH or (self.write == SELECTIVE and hot)

    def last_boundary(self, key: Key) -> ComponentNode | None:
        """The deepest node of a key at which every component could end on the device."""
        return self.tree.last_usable(self.tree.walk(key), len(key.units))

    def leaving(self, node: ComponentNode, names: list[str]) -> None:
        """Entries of a node are about to leave the device: every boundary that needs one is saved first."""
        for below in list(self.subtree(node)):
            if below.end % self.tree.step == 0 and self.needs_one_of(below, node, names) and self.is_whole(below):
                self.save(below, wait=True)

    def subtree(self, node: ComponentNode) -> Iterator[ComponentNode]:
        """A node, and all below it."""
        yield node
        for child in node.children.values():
            yield from self.subtree(child)

    def needs_one_of(self, boundary: ComponentNode, node: ComponentNode, names: list[str]) -> bool:
        """Whether a boundary needs what a node is about to lose."""
        return any(at is node and name in names for name, at in self.copier.needs(boundary))

    def is_whole(self, node: ComponentNode) -> bool:
        """Whether every component can end at a node with what the device has."""
        path: list[ComponentNode] = []
        at: ComponentNode | None = node
        while at is not None and at.above is not None:
            path.append(at)
            at = at.above
        return self.tree.last_usable(reversed(path), node.end) is node

    def save(self, node: ComponentNode, *, wait: bool = False) -> None:
        """Begin to back up what a boundary needs, and wait for it if it is about to go."""
        copy, freed = self.copier.back_up(node)
        if copy is None and not any(freed.values()):
            return
        places = placed(copy)
        if copy is not None and wait:
            self.copier.ended(copy, ok=True)
            copy = None
        self.rows.append(ComponentBegun(copy, *self.prefix(node), places, freed))

    def prefix(self, node: ComponentNode) -> tuple[str | None, tuple[object, ...]]:
        """The namespace of a node, and all units up to it."""
        units: tuple[object, ...] = ()
        at = node
        while at.above is not None:
            units = at.units + units
            at = at.above
        return self.tree.namespace(node), units

    def take(self) -> list[ComponentBegun]:
        """What has begun since somebody asked."""
        rows, self.rows = self.rows, []
        return rows
