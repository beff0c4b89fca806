"""The specimen's copies between device and host: a queue of them, and what becomes of one that fails."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import ClassVar

from kvlitmus.conformance.specimen.prefix.host import Copier, CopyFailed
from kvlitmus.conformance.specimen.prefix.tier import TierTree
from kvlitmus.conformance.specimen.prefix.works import TieredNode, Work, WorkTable
from kvlitmus.spec.words.units import Key


class CopyQueue:
    """Copies of one kind, in the order in which they were started and are taken note of.

    kind: what a copy is called.  tier: where it goes to.  pins: whether the host copies of its nodes may not go as
    long as it lasts.  A copy that fails is given up; one on which something depends is made again.
    """

    kind: ClassVar[str]
    tier: ClassVar[str]
    pins: ClassVar[bool]

    def __init__(self, tree: TierTree, copier: Copier, works: WorkTable) -> None:
        self.tree = tree
        self.copier = copier
        self.works = works
        self.queue: deque[Work] = deque()

    def submitted(self) -> bool:
        """Whether a copy can begin."""
        try:
            self.copier.submit(self.kind)
        except CopyFailed:
            return False
        return True

    def follow(
        self, nodes: Sequence[TieredNode], key: Key, start: int, sources: Sequence[int], targets: Sequence[int]
    ) -> None:
        """The copy is under way."""
        work = self.works.add(self.kind, key, start)
        work.pins = self.pins
        work.nodes, work.sources, work.targets = list(nodes), sources, targets
        for node in nodes:
            node.works.append(work)
        self.queue.append(work)

    def fail(self, work: Work) -> None:
        """The copy is over, and was not made."""
        self.copier.spoil(self.tier, work.targets)
        work.landed = work.failed = True
        work.layers = 0

    def acks(self) -> None:
        """Take note of copies that are over, in the order in which they were started."""
        over = 0
        while over < len(self.queue) and self.queue[over].landed:
            over += 1
        for _ in range(over):
            self.end(self.queue.popleft())

    def end(self, work: Work) -> None:
        """Take note of one that is over."""
        if work.failed:
            self.end_failed(work)
        else:
            self.finish(work)

    def end_failed(self, work: Work) -> None:
        """One that failed: it is made again if it must."""
        if self.needed(work.nodes):
            self.again(work)
        else:
            self.give_up(work)

    def again(self, work: Work) -> None:
        """Make a copy that failed once more, behind all others; if it can't begin, the next tick tries."""
        if not self.submitted():
            self.queue.append(work)
            return
        nodes = list(work.nodes)
        self.works.remove(work)
        self.follow(nodes, work.key, work.start, work.sources, work.targets)

    def needed(self, nodes: list[TieredNode]) -> bool:
        """Whether something depends on what was to be copied."""
        raise NotImplementedError

    def give_up(self, work: Work) -> None:
        """A copy that failed: its nodes are as they were."""
        raise NotImplementedError

    def finish(self, work: Work) -> None:
        """A copy that was made."""
        raise NotImplementedError
