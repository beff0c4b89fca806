"""The specimen's backups: what is copied from the device to the host, when, and how that is taken note of."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from kvlitmus.conformance.specimen.host import Copier, HostPool
from kvlitmus.conformance.specimen.tiers import TieredNode, TierTree
from kvlitmus.conformance.specimen.works import Work, WorkTable, key_of
from kvlitmus.spec.units import Key, Unit

USES = {"write_through": 1, "write_through_selective": 2}
"""After how many uses a page is backed up."""


class BackupQueue:
    """Backups of whole nodes.

    Upkeep: a node that is backed up has its host pages at once, and its path is locked until the
    job's ack.  ``queue`` holds the jobs in the order of their acks.
    """

    def __init__(
        self, tree: TierTree, host: HostPool, copier: Copier, works: WorkTable, write: str, bigram: bool
    ) -> None:
        self.tree = tree
        self.host = host
        self.copier = copier
        self.works = works
        self.bigram = bigram
        self.uses = USES.get(write, 0)
        self.queue: deque[Work] = deque()
        self.backed: Callable[[list[TieredNode], Key, int], None] = lambda *_: None

    def after_insert(self, namespace: str | None, units: tuple[Unit, ...], path: list[TieredNode]) -> None:
        """Back up the nodes of a path that are due."""
        if not self.uses:
            return
        end = 0
        for node in path:
            end += len(node.key)
            if self.due(node):
                self.start(node, namespace, units[:end])

    def due(self, node: TieredNode) -> bool:
        """Whether a node is to be backed up: used often enough, and the page before it is backed."""
        parent = node.parent
        assert parent is not None
        return not node.host and node.hits >= self.uses and (parent.parent is None or bool(parent.host))

    def start(self, node: TieredNode, namespace: str | None, units: tuple[Unit, ...]) -> bool:
        """Begin to back up a node; whether there was memory for it."""
        pages = self.tree.host_room(len(node.pages))
        if pages is None:
            return False
        node.host = pages
        work = self.works.add("backup", key_of(namespace, units, self.bigram), len(units) - len(node.key))
        work.nodes, work.sources, work.targets = [node], node.pages, pages
        node.works.append(work)
        self.tree.lock(node)
        self.queue.append(work)
        return True

    def land(self, work: Work) -> None:
        """The copy is made."""
        self.copier.to_host(work.sources, work.targets)
        work.landed = True

    def acks(self) -> None:
        """Take note of copies that have landed, in the order in which they were started."""
        while self.queue and self.queue[0].landed:
            self.finish(self.queue.popleft())

    def finish(self, work: Work) -> None:
        """One ack."""
        nodes = list(work.nodes)
        self.works.remove(work)
        for node in nodes:
            self.tree.tell_stored("host", node)
        self.tree.unlock(nodes[-1])
        self.backed(nodes, work.key, work.start)

    def spill(self, node: TieredNode, pages: int) -> int:
        """Write the last pages of an un-backed leaf to the host, at once; returns for how many there was room.

        The node is cut above them.
        """
        found = self.tree.host_room(pages)
        if found is None and self.host.free_list:
            found = self.host.take(min(pages, len(self.host.free_list)))
        if not found:
            return 0
        if len(found) < len(node.pages):
            self.tree.split(node, len(node.pages) - len(found))
        node.host = found
        self.copier.to_host(node.pages, found)
        self.tree.tell_stored("host", node)
        units = self.path_units(node)
        self.backed([node], key_of(node.namespace, units, self.bigram), len(units) - len(node.key))
        return len(found)

    def path_units(self, node: TieredNode) -> tuple[Unit, ...]:
        """All units from the root to the end of this node."""
        units = node.key
        at = node.parent
        while at is not None:
            units = at.key + units
            at = at.parent
        return units
