"""Mutants of storage behind the host memory of components."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kvlitmus.conformance.run.plan import COMPONENT_STORAGE_CONFIGS
from kvlitmus.conformance.specimen.components.host import Pinned
from kvlitmus.conformance.specimen.components.prefetch import ComponentFetch, Places
from kvlitmus.conformance.specimen.components.storing import ComponentWrite, ComponentWriter
from kvlitmus.conformance.specimen.components.tree import ComponentNode
from kvlitmus.mutants.registry import mutant
from kvlitmus.spec.words.units import Key

STORED = COMPONENT_STORAGE_CONFIGS[:1]
LATER = COMPONENT_STORAGE_CONFIGS[1:2]

# What is written


@mutant("component-write-forgets-the-window", kills=("COMP-32",), configs=STORED)
class WriteForgetsTheWindow(ComponentWriter):
    """A write takes KV and states and forgets the window: what is fetched later can't be used."""

    def lacking(self, node: ComponentNode, stored: Mapping[str, Collection[int]]) -> Pinned:
        return [(name, at) for name, at in super().lacking(node, stored) if name != "swa"]


@mutant("component-write-of-what-storage-has", kills=("COMP-32",), configs=STORED)
class WriteOfWhatStorageHas(ComponentWriter):
    """A write takes all of a prefix, whatever storage has of it: each turn of a conversation is written again."""

    def lacking(self, node: ComponentNode, stored: Mapping[str, Collection[int]]) -> Pinned:
        return list(self.copies.needs(node)) if super().lacking(node, stored) else []


@mutant("component-write-goes-by-the-kv", kills=("COMP-32", "COMP-59"), configs=STORED)
class WriteGoesByTheKv(ComponentWriter):
    """Where storage has the KV of a page it is thought to have the page: its window and its state are never written."""

    def lacking(self, node: ComponentNode, stored: Mapping[str, Collection[int]]) -> Pinned:
        base = stored.get(self.copies.base.name, ())
        return [(name, at) for name, at in super().lacking(node, stored) if at.end not in base]


@mutant("component-write-of-what-is-on-the-device", kills=("COMP-58",), configs=STORED)
class WriteOfWhatIsOnTheDevice(ComponentWriter):
    """A write begins though nobody has backed up what it takes: it reads host memory that holds something else."""

    def may_write(self, node: ComponentNode) -> bool:
        return self.attached


@mutant("component-write-needs-the-kv-alone", kills=("COMP-58",), configs=STORED)
class WriteNeedsTheKvAlone(ComponentWriter):
    """A write begins where the host has the KV, though the window or the state has gone from there."""

    def may_write(self, node: ComponentNode) -> bool:
        base = self.copies.base.name
        return self.attached and all(name in at.host for name, at in self.copies.needs(node) if name == base)


@mutant("component-write-while-storage-is-away", kills=("COMP-58",))
class WriteWhileStorageIsAway(ComponentWriter):
    """Nobody asks whether storage is there: the write ends never, and what it reads stays on the host for ever."""

    def may_write(self, node: ComponentNode) -> bool:
        return all(name in at.host for name, at in self.copies.needs(node))


@mutant("component-write-of-whole-prefixes-alone", kills=("COMP-59",), configs=STORED)
class WriteOfWholePrefixesAlone(ComponentWriter):
    """Where storage has some of a prefix, the rest is never written: a conversation is stored up to its first turn."""

    def lacking(self, node: ComponentNode, stored: Mapping[str, Collection[int]]) -> Pinned:
        return [] if any(stored.values()) else super().lacking(node, stored)


# What a write reads


@mutant("component-write-protects-nothing", kills=("COMP-13", "LOCK-01"), configs=STORED)
class WriteProtectsNothing(ComponentWriter):
    """What is written isn't protected: it is evicted while the write reads it, and storage gets another key's KV."""

    def pin(self, node: ComponentNode) -> Pinned:
        return []


@mutant("component-write-of-a-part-protects-nothing", kills=("COMP-13", "LOCK-01"), configs=STORED)
class WriteOfAPartProtectsNothing(ComponentWriter):
    """A write begins where the host lacks what storage has, and nothing of that prefix is protected there."""

    def may_write(self, node: ComponentNode) -> bool:
        return self.attached

    def lacking(self, node: ComponentNode, stored: Mapping[str, Collection[int]]) -> Pinned:
        takes = super().lacking(node, stored)
        return takes if all(name in at.host for name, at in takes) else []

    def pin(self, node: ComponentNode) -> Pinned:
        return super().pin(node) if super().may_write(node) else []


@mutant("component-write-protects-the-kv-alone", kills=("COMP-13", "LOCK-01"), configs=STORED)
class WriteProtectsTheKvAlone(ComponentWriter):
    """Of what is written the KV is protected: the window and the state are evicted while they are read."""

    def pin(self, node: ComponentNode) -> Pinned:
        pinned = super().pin(node)
        for name, at in pinned:
            at.host_locks[name] -= name != self.copies.base.name
        return [(name, at) for name, at in pinned if name == self.copies.base.name]


@mutant("component-detach-forgets-writes", kills=("COMP-13", "LOCK-01"), configs=STORED)
class DetachForgetsWrites(ComponentWriter):
    """When storage goes, writes are thought to have ended: what they still read can be evicted."""

    def detach(self) -> Places:
        for write in self.writing:
            self.unpin(write)
        return super().detach()


@mutant("component-failed-write-keeps-its-pins", kills=("COMP-12",), configs=STORED)
class FailedWriteKeepsItsPins(ComponentWriter):
    """A write that fails leaves pinned what it read: it can never be evicted from the host again."""

    def unpin(self, write: ComponentWrite) -> None:
        if self.failed:
            return
        super().unpin(write)

    failed = False

    def ended(self, write: ComponentWrite, *, ok: bool) -> None:
        self.failed = not ok
        super().ended(write, ok=ok)
        self.failed = False


@mutant("component-failed-write-counts", bugs=("H-60",), kills=("COMP-32", "COMP-59"), configs=STORED)
class FailedWriteCounts(ComponentWriter):
    """What a failed write has taken is thought to be in storage, and is never written again: there is a gap in what
    storage has, and no prefetch gets behind it.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.thought: Pinned = []

    def ended(self, write: ComponentWrite, *, ok: bool) -> None:
        self.thought += [] if ok else write.takes
        super().ended(write, ok=ok)

    def lacking(self, node: ComponentNode, stored: Mapping[str, Collection[int]]) -> Pinned:
        return [one for one in super().lacking(node, stored) if one not in self.thought]


# What storage takes with it


@mutant("component-detach-loses-prefetches", kills=("COMP-29",), configs=STORED)
class DetachLosesPrefetches(ComponentWriter):
    """When storage goes, prefetches are forgotten with their memory: nobody ever gives it back."""

    def give_up(self, fetch: ComponentFetch) -> Places:
        return {}


@mutant("component-detach-frees-what-is-written", kills=("COMP-29",), configs=STORED)
class DetachFreesWhatIsWritten(ComponentWriter):
    """When storage goes, all memory of prefetches is free at once: what still comes is written over somebody's KV."""

    def give_up(self, fetch: ComponentFetch) -> Places:
        fetch.running = False
        return super().give_up(fetch)


@mutant("component-detach-gives-up-one", kills=("COMP-29",), configs=STORED)
class DetachGivesUpOne(ComponentWriter):
    """Of several prefetches the last alone is given up when storage goes: the others wait for it for ever."""

    def detach(self) -> Places:
        del self.fetching[:-1]
        return super().detach()


@mutant("component-detach-waits-for-running-prefetches", kills=("COMP-29",), configs=STORED)
class DetachWaitsForRunningPrefetches(ComponentWriter):
    """A prefetch whose I/O runs gives nothing back until that has ended, not even what it doesn't read into."""

    def give_up(self, fetch: ComponentFetch) -> Places:
        if not fetch.running:
            return super().give_up(fetch)
        self.fetches.tree.unlock(fetch.guard)
        fetch.over = True
        return {}


@mutant("component-prefetch-while-storage-is-away", kills=("COMP-20",))
class PrefetchWhileStorageIsAway(ComponentWriter):
    """A prefetch begins while storage is away: it has memory that nothing is ever read into."""

    def begin_fetch(
        self, node: ComponentNode | None, key: Key, threshold: int
    ) -> tuple[ComponentFetch | None, dict[str, int]]:
        attached, self.attached = self.attached, True
        begun = super().begin_fetch(node, key, threshold)
        self.attached = attached
        return begun


@mutant("component-prefetch-evicts-before-it-asks", kills=("COMP-13",))
class PrefetchEvictsBeforeItAsks(ComponentWriter):
    """A prefetch makes room before it asks whether storage is there: each attempt costs what others could have used."""

    def begin_fetch(
        self, node: ComponentNode | None, key: Key, threshold: int
    ) -> tuple[ComponentFetch | None, dict[str, int]]:
        if self.attached:
            return super().begin_fetch(node, key, threshold)
        fetch, freed = self.fetches.begin(node, key, threshold)
        if fetch is not None:
            self.fetches.abort(fetch)
        return None, freed


@mutant("component-storage-comes-with-a-reset", kills=("COMP-58", "COMP-20"), configs=LATER)
class StorageComesWithAReset(ComponentWriter):
    """Whoever is made anew takes storage to be there: after a reset it is used while it is away."""

    def __init__(self, *parts: object, attached: bool) -> None:
        super().__init__(*parts, attached=True)  # type: ignore[arg-type]
