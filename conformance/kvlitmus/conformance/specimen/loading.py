"""The specimen's loads: what is cached on the host alone comes back to the device."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from kvlitmus.conformance.specimen.host import Copier, CopyFailed
from kvlitmus.conformance.specimen.pool import PagedPool
from kvlitmus.conformance.specimen.tiers import TierTree
from kvlitmus.conformance.specimen.tree import Node
from kvlitmus.conformance.specimen.works import TieredNode, Work, WorkTable, cut
from kvlitmus.spec.units import Key

LAYERS = 3
"""How many layers a load copies, one after the other."""


class Loader:
    """Loads of all that a key has on the host alone.

    Upkeep: from the start to the notice of its end, the path to the end of a load is locked, and the
    host copies that it reads are pinned.  A load that fails is given up, and its nodes are on the host alone;
    one whose nodes are locked by somebody else, or carry resident ones, is made again.
    """

    def __init__(self, tree: TierTree, pool: PagedPool, copier: Copier, works: WorkTable, threshold: int) -> None:
        self.tree = tree
        self.pool = pool
        self.copier = copier
        self.works = works
        self.threshold = threshold
        self.queue: deque[Work] = deque()

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

    def submitted(self) -> bool:
        """Whether the copy of a load can begin."""
        try:
            self.copier.submit("load")
        except CopyFailed:
            return False
        return True

    def start(self, key: Key, before: int, behind: list[TieredNode], found: list[int]) -> None:
        """The nodes are resident; their contents are under way."""
        at = 0
        for node in behind:
            self.tree.restore(node, found[at : at + len(node.host)])
            at += len(node.host)
        self.tree.lock(behind[-1])
        self.follow(behind, key, before, found)

    def follow(self, nodes: Sequence[TieredNode], key: Key, start: int, targets: Sequence[int]) -> None:
        """The copy is under way."""
        work = self.works.add("load", key, start)
        work.pins = True
        work.nodes = list(nodes)
        work.sources = [page for node in nodes for page in node.host]
        work.targets = targets
        for node in nodes:
            node.works.append(work)
        self.queue.append(work)

    def copy(self, work: Work, layers: int = LAYERS) -> None:
        """So many more layers are copied; one number stands for all of them, and comes with the last."""
        work.layers = min(LAYERS, work.layers + layers)
        if work.layers == LAYERS:
            self.land(work)

    def land(self, work: Work) -> None:
        """The copy is made."""
        self.copier.to_device(work.sources, work.targets)
        work.landed = True

    def ready(self, work: Work) -> int:
        """How many layers may be read."""
        return work.layers

    def acks(self) -> None:
        """Take note of loads that are over, in the order in which they were started."""
        over = 0
        while over < len(self.queue) and self.queue[over].landed:
            over += 1
        for _ in range(over):
            work = self.queue.popleft()
            if not work.failed:
                self.finish(work)
            elif self.needed(work.nodes):
                self.again(work)
            else:
                self.give_up(work)

    def finish(self, work: Work) -> None:
        """One of them has landed."""
        nodes = list(work.nodes)
        self.works.remove(work)
        for node in nodes:
            self.tree.unpin(node)
        self.tree.unlock(nodes[-1])

    def fail(self, work: Work) -> None:
        """The copy is over, and was not made."""
        self.copier.spoil("device", work.targets)
        work.landed = work.failed = True
        work.layers = 0

    def needed(self, nodes: list[TieredNode]) -> bool:
        """Whether somebody else has a lock on these nodes, or resident ones hang below them."""
        below = [child for node in nodes for child in node.children.values() if child not in nodes]
        return nodes[0].locks > 1 or any(child.pages for child in below)

    def again(self, work: Work) -> None:
        """Load once more, behind all others; if the copy can't begin, the next tick tries."""
        if not self.submitted():
            self.queue.append(work)
            return
        nodes = list(work.nodes)
        self.works.remove(work)
        self.follow(nodes, work.key, work.start, work.targets)

    def give_up(self, work: Work) -> None:
        """The nodes are on the host alone again."""
        nodes = list(work.nodes)
        self.finish(work)
        for node in reversed(nodes):
            self.tree.demote(node, len(node.pages))
