"""The specimen's backups: what is copied from the device to the host, when, and how that is taken note of."""

from __future__ import annotations

from collections.abc import Callable

from kvlitmus.conformance.specimen.prefix.copies import CopyQueue
from kvlitmus.conformance.specimen.prefix.host import Copier, CopyFailed, HostPool
from kvlitmus.conformance.specimen.prefix.tier import TierTree
from kvlitmus.conformance.specimen.prefix.works import TieredNode, Work, WorkTable, key_of
from kvlitmus.spec.words.units import Key, Unit

USES = {"write_through": 1, "write_through_selective": 2}
"""After how many uses a page is backed up."""


class BackupQueue(CopyQueue):
    """Backups of whole nodes.

    Upkeep: a node that is backed up has its host pages at once, and its path is locked until the
    job's ack.  ``queue`` holds the jobs in the order of their acks.
    """

    kind, tier, pins = "backup", "host", False

    def __init__(
        self, tree: TierTree, host: HostPool, copier: Copier, works: WorkTable, write: str, bigram: bool
    ) -> None:
        super().__init__(tree, copier, works)
        self.host = host
        self.bigram = bigram
        self.uses = USES.get(write, 0)
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
        return not node.host and node.uses >= self.uses and (parent.parent is None or bool(parent.host))

    def start(self, node: TieredNode, namespace: str | None, units: tuple[Unit, ...]) -> bool:
        """Begin to back up a node; whether there was memory for it and the copy could begin."""
        pages = self.tree.host_room(len(node.pages))
        if pages is None:
            return False
        if not self.submitted():
            self.host.give_back(pages)
            return False
        node.host = pages
        key = key_of(namespace, units, self.bigram)
        self.follow([node], key, len(units) - len(node.key), node.pages, pages)
        self.tree.lock(node)
        return True

    def land(self, work: Work) -> None:
        """The copy is made."""
        self.copier.to_host(work.sources, work.targets)
        work.landed = True

    def give_up(self, work: Work) -> None:
        """The nodes are on the device alone."""
        nodes = list(work.nodes)
        self.works.remove(work)
        for node in nodes:
            node.host = []
        self.host.give_back(work.targets)
        self.tree.unlock(nodes[-1])

    def needed(self, nodes: list[TieredNode]) -> bool:
        """Whether something depends on the host copies of these nodes: a pin, or a copy below them."""
        below = [child for node in nodes for child in node.children.values() if child not in nodes]
        return any(node.pins for node in nodes) or any(child.host for child in below)

    def finish(self, work: Work) -> None:
        """One ack."""
        nodes = list(work.nodes)
        self.works.remove(work)
        for node in nodes:
            self.tree.tell_stored("host", node)
        self.tree.unlock(nodes[-1])
        self.backed(nodes, work.key, work.start)

    def spill(self, node: TieredNode, pages: int) -> int:
        """Write the last pages of an un-backed leaf to the host, at once; returns how many could be.

        The node is cut above them.  Where the copy fails, nothing of it is there, and nothing was cut.
        """
        found = self.tree.host_room(pages)
        if found is None and self.host.free_list:
            found = self.host.take(min(pages, len(self.host.free_list)))
        if not found:
            return 0
        try:
            self.copier.submit("spill")
            self.copier.to_host(node.pages[-len(found) :], found)
            self.copier.submit("spilled")
        except CopyFailed:
            self.copier.spoil("host", found)
            self.host.give_back(found)
            return 0
        if len(found) < len(node.pages):
            self.tree.split(node, len(node.pages) - len(found))
        node.host = found
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
