"""The specimen's loads: what is cached on the host alone comes back to the device."""

from __future__ import annotations

from kvlitmus.conformance.specimen.prefix.copies import CopyQueue
from kvlitmus.conformance.specimen.prefix.host import Copier
from kvlitmus.conformance.specimen.prefix.pool import PagedPool
from kvlitmus.conformance.specimen.prefix.tier import TierTree
from kvlitmus.conformance.specimen.prefix.tree import Node
from kvlitmus.conformance.specimen.prefix.works import TieredNode, Work, WorkTable, cut
from kvlitmus.spec.words.units import Key

LAYERS = 3
"""How many layers a load copies, one after the other."""


class Loader(CopyQueue):
    """Loads of all that a key has on the host alone.

    Upkeep: from the start to the notice of its end, the path to the end of a load is locked, and the
    host copies that it reads are pinned.
    """

    kind, tier, pins = "load", "device", True

    def __init__(self, tree: TierTree, pool: PagedPool, copier: Copier, works: WorkTable, threshold: int) -> None:
        super().__init__(tree, copier, works)
        self.pool = pool
        self.threshold = threshold

    def load_back(self, key: Key, quota: int | None = None) -> tuple[int, list[int] | None]:
        """How many units were resident, and the pages for the others; ``None`` where it isn't done."""
        pages, resident, behind = self.tree.reach(key.namespace, key.units)
        before = len(pages) * self.pool.page_size
        units = sum(len(node.key) for node in behind)
        if units < self.threshold or (quota is not None and units > self.allowance(quota, resident)):
            return before, None
        if not behind:
            return before, []
        for node in behind:
            self.tree.pin(node)
        self.tree.lock(resident)
        found = self.room(units // self.pool.page_size, resident)
        if found is not None and not self.submitted():
            self.pool.give_back(found)
            found = None
        if found is None:
            self.undo(resident, behind)
            return before, None
        self.start(cut(key, before + units), before, behind, found)
        self.tree.unlock(resident)
        return before, found

    def allowance(self, quota: int, resident: TieredNode) -> int:
        """What a quota leaves when the path to ``resident`` gets locked."""
        newly = 0
        node: Node | None = resident
        while node is not None and node.parent is not None:
            newly += 0 if node.locks else len(node.key)
            node = node.parent
        return quota - newly

    def room(self, pages: int, resident: TieredNode) -> list[int] | None:
        """Device pages; what lacks is evicted, while the path to ``resident`` is locked."""
        found = self.pool.take(pages)
        if found is None:
            self.tree.evict((pages - len(self.pool.free_list)) * self.pool.page_size)
            found = self.pool.take(pages)
        return found

    def undo(self, resident: TieredNode, behind: list[TieredNode]) -> None:
        """Nothing is loaded: protect nothing."""
        self.tree.unlock(resident)
        for node in behind:
            self.tree.unpin(node)

    def start(self, key: Key, before: int, behind: list[TieredNode], found: list[int]) -> None:
        """The nodes are resident; their contents are under way."""
        at = 0
        for node in behind:
            self.tree.restore(node, found[at : at + len(node.host)])
            at += len(node.host)
        self.tree.lock(behind[-1])
        self.follow(behind, key, before, [page for node in behind for page in node.host], found)

    def copy(self, work: Work, layers: int = LAYERS) -> None:
        """So many more layers are copied; one number stands for all of them, and comes with the last."""
        work.layers = min(LAYERS, work.layers + layers)
        if work.layers == LAYERS:
            self.land(work)

    def land(self, work: Work) -> None:
        """The copy is made."""
        self.copier.to_device(work.sources, work.targets)
        work.landed = True

    def bringing(self) -> dict[int, int]:
        """What device slots hold once the loads have landed that fill them; until they end, their sources stay."""
        size = self.pool.page_size
        held: dict[int, int] = {}
        for work in self.queue:
            for source, target in zip(work.sources, work.targets, strict=True):
                held.update(zip(range(target * size, target * size + size), self.copier.read(source), strict=True))
        return held

    def ready(self, work: Work) -> int:
        """How many layers may be read."""
        return work.layers

    def finish(self, work: Work) -> None:
        """One of them has landed."""
        nodes = list(work.nodes)
        self.works.remove(work)
        for node in nodes:
            self.tree.unpin(node)
        self.tree.unlock(nodes[-1])

    def needed(self, nodes: list[TieredNode]) -> bool:
        """Whether somebody else has a lock on these nodes, or resident ones hang below them."""
        below = [child for node in nodes for child in node.children.values() if child not in nodes]
        return nodes[0].locks > 1 or any(child.pages for child in below)

    def give_up(self, work: Work) -> None:
        """The nodes are on the host alone again."""
        nodes = list(work.nodes)
        self.finish(work)
        for node in reversed(nodes):
            self.tree.demote(node, len(node.pages))
