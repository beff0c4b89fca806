"""Mutants after a copy that failed: what it was to fill counts as filled, or what it held is never given back."""

from __future__ import annotations

from kvlitmus.conformance.ports import Begun
from kvlitmus.conformance.specimen.hierarchy import TieredSpecimen
from kvlitmus.conformance.specimen.prefix.backup import BackupQueue
from kvlitmus.conformance.specimen.prefix.host import CopyFailed
from kvlitmus.conformance.specimen.prefix.load import Loader
from kvlitmus.conformance.specimen.prefix.tier import TierTree
from kvlitmus.conformance.specimen.prefix.tree import Node
from kvlitmus.conformance.specimen.prefix.works import TieredNode, Work
from kvlitmus.mutants.hosted import SGLANG, VLLM, WRITE_BACK
from kvlitmus.mutants.registry import mutant, null_mutant
from kvlitmus.spec.words.units import Key

LOST = VLLM + "issues/19329"
"""A load that fails isn't noticed: what comes out is wrong, or nothing does."""

SHARED = VLLM + "issues/49250"
"""Two requests share what could not be loaded."""

DEAD = SGLANG + "pull/38427"
"""A copy that raises is never acknowledged, and what it holds is never given back."""

UNSPILT = SGLANG + "pull/27108"
"""A page counts as written back though it was not."""


@mutant(
    "load-resident-before-it-can-begin",
    bugs=("vllm#19329",),
    links=(LOST,),
    kills=("LOAD-04", "TIER-08", "TIER-11", "LOCK-04", "LIFE-08"),
)
class LoadResidentBeforeItCanBegin(Loader):
    """Garbage is served: the pages are resident already when the copy is asked for, and it can't begin.

    The load is declined, but its pages are found by the next match, and the lock on them stays.
    """

    refused = False

    def load_back(self, key: Key, quota: int | None = None) -> tuple[int, list[int] | None]:
        before, found = super().load_back(key, quota)
        if self.refused:
            self.refused = False
            self.works.remove(self.queue.pop())
            return before, None
        return before, found

    def submitted(self) -> bool:
        """Asked for, but nobody looks until later."""
        self.refused = not super().submitted()
        return True


@mutant(
    "failed-load-counts-as-landed",
    bugs=("vllm#19329",),
    links=(LOST,),
    kills=("LOAD-08", "TIER-08"),
)
class FailedLoadCountsAsLanded(Loader):
    """Garbage is served: whoever takes note of loads asks whether they are over, not how they ended."""

    def give_up(self, work: Work) -> None:
        self.finish(work)

    def again(self, work: Work) -> None:
        self.finish(work)


@mutant(
    "failed-load-is-not-told",
    bugs=("vllm#19329",),
    links=(LOST,),
    kills=("LOAD-10",),
)
class FailedLoadIsNotTold(Loader):
    """A request waits for ever, or computes with garbage: the error stays in the thread that copies, until a tick."""

    bad: frozenset[int] = frozenset()

    def fail(self, work: Work) -> None:
        super().fail(work)
        work.failed = False
        self.bad |= {work.id}

    def acks(self) -> None:
        for work in self.queue:
            work.failed = work.id in self.bad
        super().acks()


@mutant(
    "failed-load-keeps-its-slots",
    bugs=("sglang#38427",),
    links=(DEAD,),
    kills=("POOL-12", "POOL-14"),
)
class FailedLoadKeepsItsSlots(Loader):
    """Each load that fails costs device memory: its pages are forgotten before they are free."""

    def give_up(self, work: Work) -> None:
        """The first page is not given back."""
        release = self.tree.release
        self.tree.release = lambda pages: release(pages[1:])
        super().give_up(work)
        self.tree.release = release


@mutant(
    "failed-load-drops-the-host-copy",
    bugs=("vllm#19329",),
    links=(LOST,),
    kills=("LOAD-09", "FETCH-14"),
)
class FailedLoadDropsTheHostCopy(Loader):
    """What could have been loaded a moment later is computed again: a load that fails takes its sources along."""

    def give_up(self, work: Work) -> None:
        nodes = list(work.nodes)
        super().give_up(work)
        for node in reversed(nodes):
            if node in self.tree.host_leaves:
                self.tree.trim_host(node, len(node.host))


@mutant(
    "failed-load-never-ends",
    bugs=("sglang#38427",),
    links=(DEAD,),
    kills=("LIFE-06", "LIFE-08"),
)
class FailedLoadNeverEnds(Loader):
    """Nothing is acknowledged any more: the one that failed has not landed, and holds up those behind it."""

    def acks(self) -> None:
        while self.queue and self.queue[0].landed and not self.queue[0].failed:
            self.finish(self.queue.popleft())


@mutant(
    "failed-load-takes-what-a-request-holds",
    bugs=("vllm#49250",),
    links=(SHARED,),
    kills=("LOCK-01", "LOCK-02", "TREE-05"),
)
class FailedLoadTakesWhatARequestHolds(Loader):
    """A running request's pages are handed out again: a load that failed goes, whoever uses its pages."""

    def needed(self, nodes: list[TieredNode]) -> bool:
        return any(child.pages for node in nodes for child in node.children.values() if child not in nodes)


@mutant(
    "failed-backup-counts-as-landed",
    bugs=("vllm#19329",),
    links=(LOST,),
    kills=("LOAD-08", "TIER-08"),
)
class FailedBackupCountsAsLanded(BackupQueue):
    """The host holds garbage under a prefix: the copy failed, and is acknowledged like any other."""

    def end_failed(self, work: Work) -> None:
        self.finish(work)


@mutant(
    "failed-backup-keeps-the-lock",
    bugs=("sglang#38427",),
    links=(DEAD,),
    kills=("LOCK-02", "LOCK-03", "LOCK-04", "LOCK-06", "LIFE-08"),
)
class FailedBackupKeepsTheLock(BackupQueue):
    """What could not be backed up can't be evicted any more: its lock is given back with an ack, and there is none."""

    def end_failed(self, work: Work) -> None:
        self.tree.lock(work.nodes[-1])
        super().end_failed(work)


@mutant(
    "failed-backup-stays-busy",
    bugs=("sglang#38427",),
    links=(DEAD,),
    kills=("BACKUP-01",),
)
class FailedBackupStaysBusy(BackupQueue):
    """A node is never backed up again: that a copy of it is under way is noted before it can't begin."""

    busy: frozenset[TieredNode] = frozenset()

    def due(self, node: TieredNode) -> bool:
        return super().due(node) and node not in self.busy

    def start(self, node: TieredNode, namespace: str | None, units: tuple[object, ...]) -> bool:
        """Busy from now on, begun or not."""
        self.busy |= {node}
        return super().start(node, namespace, units)  # type: ignore[arg-type]

    def finish(self, work: Work) -> None:
        self.busy -= set(work.nodes)
        super().finish(work)


@mutant(
    "failed-backup-leaves-its-host-pages",
    bugs=("sglang#38427",),
    links=(DEAD,),
    kills=("POOL-12",),
)
class FailedBackupLeavesItsHostPages(BackupQueue):
    """Each backup that fails costs host memory: the node forgets its pages, and nobody frees them."""

    def end_failed(self, work: Work) -> None:
        if not self.needed(work.nodes):
            work.targets = work.targets[1:]
        super().end_failed(work)


@mutant(
    "failed-backup-forgets-what-is-below",
    bugs=("vllm#19329",),
    links=(LOST,),
    kills=("TREE-05",),
)
class FailedBackupForgetsWhatIsBelow(BackupQueue):
    """A host copy can't be reached: the one above it was given up after a copy of it had failed."""

    def needed(self, nodes: list[TieredNode]) -> bool:
        return any(node.pins for node in nodes)


@mutant(
    "spill-settled-before-its-copy",
    bugs=("sglang#27108",),
    links=(UNSPILT,),
    kills=("TIER-08",),
    configs=WRITE_BACK,
)
class SpillSettledBeforeItsCopy(BackupQueue):
    """A later load serves garbage: under write-back pages count as written before the copy that then fails."""

    def spill(self, node: TieredNode, pages: int) -> int:
        room = self.host.available() // self.host.page_size
        failing, self.copier.failing = self.copier.failing, {}
        done = super().spill(node, pages)
        self.copier.failing = failing
        if done and room:
            try:
                for kind in ("spill", "spilled"):
                    self.copier.submit(kind)
            except CopyFailed:
                self.copier.spoil("host", node.host)
        return done


@mutant(
    "memory-runs-out-too-late",
    bugs=("S22",),
    links=(SGLANG + "pull/16067",),
    kills=("LOAD-04", "POOL-12"),
)
class MemoryRunsOutTooLate(TieredSpecimen):
    """A page is cached and its request's as well: memory runs out when the tree has taken the pages already.

    Upstream: what a refused request has set aside isn't returned; here: what it has published isn't taken back.
    """

    def publish(self, rid: int, *, chunked: bool) -> Begun:
        """Taken before it is known that it can be."""
        after, self.memory = self.memory, None
        begun = super().publish(rid, chunked=chunked)
        self.memory = after
        self.take_memory()
        return begun


@null_mutant("failed-copies-are-made-again")
class FailedLoadsAreMadeAgain(Loader):
    """A load that failed is begun again at once, whoever waits for it: a cache may hope."""

    def needed(self, nodes: list[TieredNode]) -> bool:
        return True


@null_mutant("failed-backups-are-made-again")
class FailedBackupsAreMadeAgain(BackupQueue):
    """A backup that failed is begun again at once instead of at the next use."""

    def needed(self, nodes: list[TieredNode]) -> bool:
        return True


@null_mutant("a-copy-that-cannot-begin-is-asked-for-twice")
class AsksTwice(Loader):
    """Where a load can't begin it is tried once more before it is declined."""

    def submitted(self) -> bool:
        return super().submitted() or super().submitted()


@null_mutant("a-failed-spill-loses-the-page", configs=WRITE_BACK)
class AFailedSpillLosesThePage(TierTree):
    """Under write-back a page whose copy fails leaves the device all the same, if nothing hangs below it."""

    failures = 0

    def trim(self, leaf: Node, pages: int) -> int:
        """Dropped, where the copy was what failed."""
        assert isinstance(leaf, TieredNode)
        room = self.host.available() // self.host.page_size + len(self.host_leaves)
        freed = super().trim(leaf, pages)
        if freed or not room or leaf.host or leaf.children or self.host.refuse_after is not None:
            return freed
        return self.drop(leaf, pages)
