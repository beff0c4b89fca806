"""Mutants of backups: copied too early, too late, not at all, or taken note of before they are done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.conformance.specimen.prefix.backup import BackupQueue
from kvlitmus.conformance.specimen.prefix.host import Copier
from kvlitmus.conformance.specimen.prefix.tier import TierTree
from kvlitmus.conformance.specimen.prefix.tree import Node
from kvlitmus.conformance.specimen.prefix.works import TieredNode, Work
from kvlitmus.mutants.hosted import HOSTED, NOT_BACK, SELECTIVE, SGLANG, THROUGH, VLLM, WRITE_BACK
from kvlitmus.mutants.registry import mutant
from kvlitmus.spec.words.units import Unit


@mutant(
    "ack-before-the-copy",
    bugs=("V13", "S36"),
    links=(VLLM + "issues/45704", SGLANG + "pull/20746"),
    kills=("BACKUP-03", "TIER-08"),
)
class AckBeforeTheCopy(BackupQueue):
    """Pages count as backed up that were never copied: every tick acknowledges whatever was queued."""

    def acks(self) -> None:
        while self.queue:
            self.finish(self.queue.popleft())


@mutant(
    "acks-in-any-order",
    bugs=("S64", "S06"),
    links=(SGLANG + "pull/27010", SGLANG + "pull/4082"),
    kills=("BACKUP-03",),
)
class AcksInAnyOrder(BackupQueue):
    """Ranks drift apart: a copy is acknowledged before one that was started earlier."""

    def acks(self) -> None:
        for work in [work for work in self.queue if work.landed]:
            self.queue.remove(work)
            self.end(work)


STREAMS = replace(PROFILE, copy_acks="any_order")
"""Several streams, whose copies are acknowledged as they end."""


@mutant("acks-of-a-stream-before-the-copy", profile=STREAMS, kills=("BACKUP-03", "TIER-08"))
class AcksOfAStreamBeforeTheCopy(AcksInAnyOrder):
    """Pages count as backed up that were never copied: what ends in one stream ends what began before it in all."""

    def acks(self) -> None:
        landed = [work for work in self.queue if work.landed]
        while landed and self.queue[0] is not landed[-1]:
            self.finish(self.queue.popleft())
        super().acks()


@mutant(
    "ack-keeps-the-lock",
    bugs=("S05",),
    links=(SGLANG + "issues/5499",),
    kills=("LOCK-01", "LOCK-02", "LOCK-03", "LOCK-04", "TREE-04", "LOCK-06", "LIFE-08"),
)
class AckKeepsTheLock(BackupQueue):
    """What was ever backed up can never be evicted: the lock of the backup is not given back."""

    def finish(self, work: Work) -> None:
        """Lock once more than is given back."""
        self.tree.lock(work.nodes[-1])
        super().finish(work)


@mutant(
    "ack-unlocks-twice",
    bugs=("L06", "H-57"),
    links=("https://github.com/LMCache/LMCache/pull/3004",),
    kills=("LOCK-01", "LOCK-02", "LOCK-03", "LOCK-04", "TREE-04", "LOCK-06"),
)
class AckUnlocksTwice(BackupQueue):
    """A running request loses its protection to the ack of a backup, which gives back a lock too many.

    Where nothing is locked any more the second one is ignored, so that nobody notices.
    """

    def finish(self, work: Work) -> None:
        end = work.nodes[-1]
        super().finish(work)
        if end.locks:
            self.tree.unlock(end)


@mutant(
    "backup-takes-no-lock",
    bugs=("V16", "T02"),
    links=(VLLM + "issues/52360", "https://github.com/NVIDIA/TensorRT-LLM/issues/8813"),
    kills=("LOCK-01", "LOCK-02", "LOCK-03", "LOCK-04", "TREE-04", "LOCK-06", "TIER-08"),
)
class BackupTakesNoLock(BackupQueue):
    """KV is stored under another prompt's key: the page is evicted and used again while its copy is under way."""

    def start(self, node: TieredNode, namespace: str | None, units: tuple[Unit, ...]) -> bool:
        started = super().start(node, namespace, units)
        if started:
            self.tree.unlock(node)
        return started

    def finish(self, work: Work) -> None:
        self.tree.lock(work.nodes[-1])
        super().finish(work)


APART = replace(PROFILE, copy_locks="apart")
"""Copies protect by a mark of their own."""


@mutant("copies-are-marked-and-locked", profile=APART, kills=("LOCK-02", "LOCK-04", "LOCK-06"))
class CopiesAreMarkedAndLocked(AckKeepsTheLock):
    """The mark of a backup is taken away when it ends, and a lock is left: what was backed up can never be evicted."""


class LateCopier(Copier):
    """Copies whose sources are read later than they are asked for."""

    def __init__(self, page_size: int, device_pages: int, host_pages: int) -> None:
        super().__init__(page_size, device_pages, host_pages)
        self.late: list[tuple[list[int], list[int]]] = []

    def catch_up(self) -> None:
        """Make the copies that were asked for."""
        for sources, targets in self.late:
            self.to_host(sources, targets)
        self.late.clear()


@mutant(
    "write-back-does-not-wait",
    bugs=("S48",),
    links=(SGLANG + "pull/24585",),
    kills=("TIER-08",),
    configs=WRITE_BACK,
    beside=(LateCopier,),
)
class WriteBackDoesNotWait(BackupQueue):
    """The host holds somebody else's KV: an eviction frees the device pages while their copies are still queued."""

    copier: LateCopier

    def spill(self, node: TieredNode, pages: int) -> int:
        """Queue the copy; the one before is made by now."""
        self.copier.catch_up()
        before = list(self.copier.host)
        written = super().spill(node, pages)
        self.copier.host[:] = before
        if written:
            self.copier.late.append((node.pages, node.host))
        return written

    def acks(self) -> None:
        self.copier.catch_up()
        super().acks()


@mutant(
    "write-back-loses-what-does-not-fit",
    bugs=("S113", "S72"),
    links=(SGLANG + "issues/26886", SGLANG + "pull/28468"),
    kills=("POOL-12", "TIER-04"),
    configs=WRITE_BACK,
)
class WriteBackLosesTheHead(TierTree):
    """A prompt's beginning is deleted under its own end.

    A page for which the host has no room is dropped as under write-through, children or not.
    """

    def trim(self, leaf: Node, pages: int) -> int:
        freed = super().trim(leaf, pages)
        if freed or not isinstance(leaf, TieredNode) or leaf.host:
            return freed
        return self.drop(leaf, pages)


@mutant(
    "copies-in-another-order",
    bugs=("T04", "L11"),
    links=("https://github.com/NVIDIA/TensorRT-LLM/pull/13124", "https://github.com/LMCache/LMCache/issues/4463"),
    kills=("TIER-08",),
)
class CopiesInAnotherOrder(Copier):
    """The right pages with each other's contents: sources are sorted for the copy engine, targets are not."""

    def to_host(self, sources: Sequence[int], targets: Sequence[int]) -> None:
        super().to_host(sorted(sources), targets)


@mutant(
    "copy-forgets-the-last-slot",
    bugs=("S102", "S65"),
    links=(SGLANG + "issues/39830", SGLANG + "issues/26975"),
    kills=("TIER-08",),
    configs=tuple(config for config in HOSTED if config.page_size > 1),
)
class CopyForgetsTheLastSlot(Copier):
    """One in four tokens comes back as noise: a backup leaves out the last slot of each page."""

    def to_host(self, sources: Sequence[int], targets: Sequence[int]) -> None:
        size = self.page_size
        kept = [self.host[target * size + size - 1] for target in targets]
        super().to_host(sources, targets)
        for target, value in zip(targets, kept, strict=True):
            self.host[target * size + size - 1] = value


@mutant(
    "chunks-count-as-uses",
    bugs=("S14",),
    links=(SGLANG + "pull/9776",),
    kills=("BACKUP-02", "TREE-12", "TREE-11", "TREE-13"),
    configs=SELECTIVE,
)
class ChunksCountAsUses(TierTree):
    """Everything is backed up at once: a prompt that is computed in chunks counts as many uses of its beginning."""

    def insert(
        self, namespace: str | None, units: tuple[Unit, ...], pages: Sequence[int], priority: int, chunked: bool
    ) -> tuple[int, TieredNode]:
        """A chunk is an insert like any other."""
        return super().insert(namespace, units, pages, priority, False)


@mutant(
    "selective-is-not",
    bugs=("S14",),
    links=(SGLANG + "pull/9776",),
    kills=("BACKUP-02",),
    configs=SELECTIVE,
)
class SelectiveIsNot(BackupQueue):
    """The host fills with prompts that nobody asks for again: the first use is enough."""

    def due(self, node: TieredNode) -> bool:
        parent = node.parent
        return not node.host and parent is not None and (parent.parent is None or bool(parent.host))


@mutant(
    "child-before-its-parent",
    bugs=("S113", "H-54"),
    links=(SGLANG + "issues/26886",),
    kills=("TREE-05",),
)
class ChildBeforeItsParent(BackupQueue):
    """A prompt's end is on the host without its beginning: whether the page before is backed is not asked."""

    def due(self, node: TieredNode) -> bool:
        return not node.host and node.uses >= self.uses


@mutant(
    "backup-makes-no-room",
    bugs=("S82",),
    links=(SGLANG + "issues/12875",),
    kills=("BACKUP-01",),
)
class BackupMakesNoRoom(BackupQueue):
    """Once the host is full nothing is ever backed up again, although nothing on it is in use."""

    def start(self, node: TieredNode, namespace: str | None, units: tuple[Unit, ...]) -> bool:
        if len(self.host.free_list) < len(node.pages):
            return False
        return super().start(node, namespace, units)


@mutant(
    "last-page-not-backed-up",
    bugs=("V15",),
    links=(VLLM + "pull/48596",),
    kills=("BACKUP-01",),
)
class LastPageNotBackedUp(BackupQueue):
    """The last page of a prompt is never on the host: what is due is determined before it is there."""

    def start(self, node: TieredNode, namespace: str | None, units: tuple[Unit, ...]) -> bool:
        if len(node.pages) == 1:
            return False
        upper = self.tree.split(node, len(node.pages) - 1)
        return super().start(upper, namespace, units[: -self.tree.page_size])


@mutant(
    "failed-backup-gives-up",
    bugs=("H-60",),
    kills=("BACKUP-01",),
)
class FailedBackupGivesUp(BackupQueue):
    """A page for which there was no room once is never backed up, nor is anything behind it."""

    given_up: set[int]

    def start(self, node: TieredNode, namespace: str | None, units: tuple[Unit, ...]) -> bool:
        started = super().start(node, namespace, units)
        if not started:
            self.given_up.add(node.serial)
        return started

    def due(self, node: TieredNode) -> bool:
        self.given_up = getattr(self, "given_up", set())
        return node.serial not in self.given_up and super().due(node)


@mutant(
    "idle-cache-takes-no-note",
    bugs=("S35",),
    links=(SGLANG + "pull/20560",),
    kills=("LIFE-06", "LIFE-08"),
)
class IdleCacheTakesNoNote(BackupQueue):
    """Other instances see nothing of what was computed: acks are only looked at when something new was queued."""

    started = False

    def start(self, node: TieredNode, namespace: str | None, units: tuple[Unit, ...]) -> bool:
        self.started = super().start(node, namespace, units) or self.started
        return self.started

    def acks(self) -> None:
        if self.started:
            self.started = False
            super().acks()


@mutant("landing-flushes-the-tiers", kills=("FETCH-14",), configs=NOT_BACK)
class LandingFlushesTheTiers(BackupQueue):
    """Each copy that lands on the host costs all that nobody uses just then: there is no second hit."""

    def land(self, work: Work) -> None:
        super().land(work)
        self.tree.evict(self.tree.evictable)
        self.tree.evict_host(len(self.host.stored) * self.tree.page_size)


class Filtering(BackupQueue):
    """Backups of what has a priority, or was used once more than the write policy says, as the profile declares."""

    def due(self, node: TieredNode) -> bool:
        return super().due(node) and self.passes(node)

    def passes(self, node: TieredNode) -> bool:
        """Whether the filter lets it through."""
        return node.priority > 0 or node.uses > self.uses


FILTERED = replace(PROFILE, backup_filter="own")


@mutant("a-filter-forgets-the-parent", profile=FILTERED, configs=NOT_BACK, kills=("TREE-05",))
class AFilterForgetsTheParent(Filtering):
    """Host memory is spent on what can't be found: what the filter lets through, here what is longer than a page, is
    copied below what it declined.
    """

    def due(self, node: TieredNode) -> bool:
        return not node.host and node.uses >= self.uses and len(node.pages) > 1


@mutant("a-filter-in-place-of-the-policy", profile=FILTERED, configs=SELECTIVE, kills=("BACKUP-02",))
class AFilterInPlaceOfThePolicy(Filtering):
    """The host fills up with what is used once: what has a priority is copied at its first use, whatever the write
    policy says.
    """

    def due(self, node: TieredNode) -> bool:
        assert node.parent is not None
        backed = node.parent.parent is None or bool(node.parent.host)
        return not node.host and backed and self.passes(node)


UNCOUNTED = replace(PROFILE, hit_counts="none")


@mutant("uncounted-and-backed-up-at-once", profile=UNCOUNTED, configs=SELECTIVE, kills=("BACKUP-02",))
class UncountedAndBackedUpAtOnce(BackupQueue):
    """The host fills up with what is used once: a cache that counts no hits can't tell a second use from the first."""

    def due(self, node: TieredNode) -> bool:
        return super().due(node) or (node.uses > 0 and node.parent is self.tree.root(node.namespace) and not node.host)


@mutant("uncounted-and-backed-up-late", profile=UNCOUNTED, configs=THROUGH, kills=("BACKUP-01",))
class UncountedAndBackedUpLate(BackupQueue):
    """What was inserted once is lost with its eviction: under write-through it waits for a second use."""

    def due(self, node: TieredNode) -> bool:
        return super().due(node) and node.uses > self.uses


class BacksUpAtTheTick(BackupQueue):
    """Backups wait for the next tick: an insertion leaves a note of its key."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.keys: list[tuple[str | None, tuple[Unit, ...]]] = []

    def after_insert(self, namespace: str | None, units: tuple[Unit, ...], path: list[TieredNode]) -> None:
        if self.uses:
            self.keys.append((namespace, units))

    def acks(self) -> None:
        super().acks()
        for namespace, units in self.noted():
            super().after_insert(namespace, units, self.resident(namespace, units))

    def noted(self) -> list[tuple[str | None, tuple[Unit, ...]]]:
        """The keys whose pages are looked at now."""
        keys, self.keys = self.keys, []
        return keys

    def resident(self, namespace: str | None, units: tuple[Unit, ...]) -> list[TieredNode]:
        """The nodes of a key that are on the device; the last one ends with it."""
        path: list[TieredNode] = []
        node, at = self.tree.root(namespace), 0
        while len(units) - at >= self.tree.page_size:
            child = node.children.get(self.tree.child_key(units[at : at + self.tree.page_size]))
            if not isinstance(child, TieredNode) or not child.pages:
                break
            common = self.tree.common_pages(child.key, units, at)
            whole = common == len(child.pages)
            node = child if whole else self.tree.split(child, common)
            path.append(node)
            if not whole:
                break
            at += len(node.key)
        return path


AT_TICKS = replace(PROFILE, backup_moment="tick")


@mutant("backups-wait-for-two-ticks", profile=AT_TICKS, configs=NOT_BACK, kills=("BACKUP-01",))
class BackupsWaitForTwoTicks(BacksUpAtTheTick):
    """What is evicted soon was never copied: backups begin a tick later than was promised."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.before: list[tuple[str | None, tuple[Unit, ...]]] = []

    def noted(self) -> list[tuple[str | None, tuple[Unit, ...]]]:
        before, self.before = self.before, super().noted()
        return before


@mutant("a-tick-backs-up-too-early", profile=AT_TICKS, configs=SELECTIVE, kills=("BACKUP-02",))
class ATickBacksUpTooEarly(BacksUpAtTheTick):
    """The host fills up with what is used once: a tick backs up whatever was inserted, used often or not."""

    def due(self, node: TieredNode) -> bool:
        assert node.parent is not None
        return not node.host and (node.parent.parent is None or bool(node.parent.host))
