"""Mutants of loads: sources that vanish, half a load, and what a load that fails leaves behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kvlitmus.conformance.specimen.prefix.host import Copier
from kvlitmus.conformance.specimen.prefix.load import Loader
from kvlitmus.conformance.specimen.prefix.tier import TierTree
from kvlitmus.conformance.specimen.prefix.tree import Unit
from kvlitmus.conformance.specimen.prefix.works import TieredNode, Work, key_of
from kvlitmus.mutants.hosted import HOSTED, LMCACHE, SGLANG, VLLM, WRITE_BACK
from kvlitmus.mutants.registry import mutant
from kvlitmus.spec.words.units import Key

LOCKS = ("LOCK-01", "LOCK-02", "LOCK-03", "LOCK-04", "TREE-04", "LOCK-06")


class OnlyAnchorsArePinned(TierTree):
    """A tree in which a load pins nothing."""

    loading = False

    def pin(self, node: TieredNode) -> None:
        if not self.loading:
            super().pin(node)

    def unpin(self, node: TieredNode) -> None:
        if not self.loading:
            super().unpin(node)

    def split_works(self, upper: TieredNode, node: TieredNode) -> None:
        super().split_works(upper, node)
        upper.pins -= sum(work.kind == "load" for work in node.works)


@mutant(
    "load-sources-not-pinned",
    bugs=("H-29",),
    links=(SGLANG + "pull/27631", SGLANG + "pull/31427"),
    kills=("TIER-11", "TIER-08", "LOAD-02", "LOAD-05", "LOAD-01"),
    configs=WRITE_BACK,
    beside=(OnlyAnchorsArePinned,),
)
class LoadSourcesNotPinned(Loader):
    """Wrong KV is loaded.

    Making room on the device under write-back makes room on the host, and takes the very pages that are
    about to be loaded.
    """

    tree: OnlyAnchorsArePinned

    def load_back(self, key: Key, quota: int | None = None) -> tuple[int, list[int] | None]:
        self.tree.loading = True
        answer = super().load_back(key, quota)
        self.tree.loading = False
        return answer

    def finish(self, work: Work) -> None:
        self.tree.loading = True
        super().finish(work)
        self.tree.loading = False

    def start(self, key: Key, before: int, behind: list[TieredNode], found: list[int]) -> None:
        """Sources that are gone meanwhile are read all the same."""
        whole = [node for node in behind if node.host]
        super().start(key, before, whole, found)


@mutant(
    "half-a-load",
    bugs=("V19", "L06"),
    links=(VLLM + "pull/26813", LMCACHE + "issues/4133"),
    kills=("LOAD-01",),
)
class HalfALoad(Loader):
    """A request that was promised all of its prefix gets a part of it: the load brings the first node only."""

    def start(self, key: Key, before: int, behind: list[TieredNode], found: list[int]) -> None:
        """And gives the rest of the memory back."""
        for node in behind[1:]:
            self.tree.unpin(node)
        first = behind[0]
        count = len(first.host)
        self.pool.give_back(found[count:])
        del found[count:]
        tokens = before + len(first.key) + key.bigram
        super().start(key._replace(tokens=key.tokens[:tokens]), before, behind[:1], found)


@mutant(
    "load-drops-its-source",
    bugs=("L05",),
    links=(LMCACHE + "pull/3884",),
    kills=("FETCH-14", "TIER-13", "TREE-05", "LOAD-05", "EVENT-03", "TIER-11"),
)
class LoadDropsItsSource(Loader):
    """The next eviction loses what was loaded: host copies are removed once they have been read."""

    def finish(self, work: Work) -> None:
        nodes = list(work.nodes)
        super().finish(work)
        for node in nodes:
            if not node.children and not node.pins:
                self.tree.host.give_back(node.host)
                self.tree.tell_removed("host", node.names)
                node.host = []
                self.tree.settle(node)


@mutant(
    "load-moves-instead-of-copying",
    bugs=("L05",),
    links=(LMCACHE + "pull/3884",),
    kills=("LOAD-05", "TREE-05", "TIER-11"),
)
class LoadMovesInsteadOfCopying(Loader):
    """What is loaded back has to be written to the host again: a load frees its source at once."""

    def start(self, key: Key, before: int, behind: list[TieredNode], found: list[int]) -> None:
        super().start(key, before, behind, found)
        self.land(self.queue[-1])
        for node in behind:
            if not node.children:
                self.tree.tell_removed("host", node.names)
                self.tree.host.give_back(node.host)
                node.host = []


@mutant(
    "failed-load-keeps-a-part",
    bugs=("V18", "V19"),
    links=(VLLM + "issues/45474", VLLM + "pull/26813"),
    kills=("LOAD-04", "LOAD-03"),
)
class FailedLoadKeepsAPart(Loader):
    """A load that finds too little room says that it was declined, and has begun with what there was room for."""

    def undo(self, resident: TieredNode, behind: list[TieredNode]) -> None:
        """As many nodes as fit; nobody is told."""
        super().undo(resident, behind)
        first = behind[0]
        found = self.pool.take(len(first.host)) if len(behind) > 1 else None
        if found is not None:
            units: tuple[Unit, ...] = ()
            at: TieredNode | None = first
            while at is not None:
                units, at = at.key + units, at.parent
            self.tree.pin(first)
            key = key_of(first.namespace, units, isinstance(units[0], tuple))
            self.start(key, len(units) - len(first.key), [first], found)


@mutant(
    "load-takes-no-lock",
    bugs=("S88", "S89"),
    links=(SGLANG + "pull/35769", SGLANG + "pull/36738"),
    kills=(*LOCKS, "TIER-08"),
)
class LoadTakesNoLock(Loader):
    """A restored prefix is corrupt: its pages are evicted and used again while the copy into them is under way."""

    def start(self, key: Key, before: int, behind: list[TieredNode], found: list[int]) -> None:
        super().start(key, before, behind, found)
        self.tree.unlock(behind[-1])

    def finish(self, work: Work) -> None:
        self.tree.lock(work.nodes[-1])
        super().finish(work)


@mutant(
    "load-walks-upwards",
    bugs=("S51",),
    links=(SGLANG + "pull/25088",),
    kills=("LOAD-02", "TREE-02", "TIER-08"),
)
class LoadWalksUpwards(Loader):
    """Prefixes come back in a wrong order: nodes are collected from the end, slots handed out from the beginning."""

    def start(self, key: Key, before: int, behind: list[TieredNode], found: list[int]) -> None:
        """The last node gets the first slots."""
        turned = []
        at = len(found)
        for node in behind:
            at -= len(node.host)
            turned += found[at : at + len(node.host)]
        given = list(found)
        super().start(key, before, behind, turned)
        found[:] = given


@mutant(
    "failed-load-keeps-its-lock",
    bugs=("S78", "L02"),
    links=(SGLANG + "pull/30986", LMCACHE + "issues/1034"),
    kills=(*LOCKS, "LIFE-08"),
)
class FailedLoadKeepsItsLock(Loader):
    """Memory fills with what nobody can evict: a load that finds no room gives its pins back, not its lock."""

    def undo(self, resident: TieredNode, behind: list[TieredNode]) -> None:
        for node in behind:
            self.tree.unpin(node)


@mutant(
    "failed-load-keeps-its-pins",
    bugs=("L02",),
    links=(LMCACHE + "issues/1034", LMCACHE + "pull/1075"),
    kills=("LIFE-08", "TIER-15"),
)
class FailedLoadKeepsItsPins(Loader):
    """Host memory fills with what nobody can evict: pins are dropped by loads that succeed alone."""

    def undo(self, resident: TieredNode, behind: list[TieredNode]) -> None:
        self.tree.unlock(resident)


@mutant(
    "load-noted-before-it-has-landed",
    bugs=("S44", "S90", "V14"),
    links=(SGLANG + "pull/22811", SGLANG + "pull/36743", VLLM + "issues/46951"),
    kills=("BACKUP-03",),
)
class LoadNotedBeforeItHasLanded(Loader):
    """Attention reads what isn't there yet: a load counts as over at the next tick, landed or not."""

    def acks(self) -> None:
        while self.queue:
            self.finish(self.queue.popleft())


@mutant(
    "short-loads-declined",
    bugs=("H-53",),
    kills=("LOAD-03",),
)
class ShortLoadsDeclined(Loader):
    """Short prompts are never loaded back: below a number in the code, which nobody declares, it isn't worth it."""

    def load_back(self, key: Key, quota: int | None = None) -> tuple[int, list[int] | None]:
        self.threshold = 10
        return super().load_back(key, quota)


@mutant("load-makes-no-room", kills=("LOAD-03",))
class LoadMakesNoRoom(Loader):
    """The host tier is never hit once the device is full, although nothing there is in use."""

    def room(self, pages: int, resident: TieredNode) -> list[int] | None:
        return self.pool.take(pages)


@mutant(
    "load-evicts-its-own-path",
    kills=("TREE-05", "LOAD-01", "LOAD-02"),
    configs=tuple(replace(config, policy="mru") for config in HOSTED[:2]),
)
class LoadEvictsItsOwnPath(Loader):
    """What is loaded hangs below a gap: to make room for it, the beginning of its own prompt is evicted."""

    def room(self, pages: int, resident: TieredNode) -> list[int] | None:
        """As if what is resident needed no protection."""
        self.tree.unlock(resident)
        found = super().room(pages, resident)
        self.tree.lock(resident)
        return found


@mutant(
    "load-copies-the-first-page-only",
    bugs=("V18",),
    links=(VLLM + "issues/45474",),
    kills=("TIER-08",),
)
class LoadCopiesTheFirstPageOnly(Copier):
    """Behind the first page of what is loaded back there is noise."""

    def to_device(self, sources: Sequence[int], targets: Sequence[int]) -> None:
        super().to_device(sources[:1], targets[:1])


@mutant("load-is-not-told", kills=("EVENT-01", "EVENT-02"))
class LoadIsNotTold(Loader):
    """Routers believe that a prefix is on the host when it is on the device again."""

    def start(self, key: Key, before: int, behind: list[TieredNode], found: list[int]) -> None:
        told = len(self.tree.told)
        super().start(key, before, behind, found)
        del self.tree.told[told:]


@mutant(
    "next-layer-told-ready",
    bugs=("S44",),
    links=(SGLANG + "pull/22811",),
    kills=("LOAD-06",),
)
class NextLayerToldReady(Loader):
    """A forward pass reads a layer whose copy is still under way: the counter is raised when a copy begins."""

    def ready(self, work: Work) -> int:
        """The layer that is being copied counts."""
        return super().ready(work) + 1


@mutant(
    "quota-widened-by-what-is-locked",
    bugs=("H-27",),
    kills=("LOAD-07",),
)
class QuotaWidenedByWhatIsLocked(Loader):
    """The units that a load newly locks are added to its quota instead of being taken off: a wrong sign."""

    def allowance(self, quota: int, resident: TieredNode) -> int:
        return 2 * quota - super().allowance(quota, resident)


@mutant("quota-counts-the-last-node", kills=("LOAD-07",))
class QuotaCountsTheLastNode(Loader):
    """Loads take more memory than they may: of what a load newly locks only the node that it hangs on is counted."""

    def allowance(self, quota: int, resident: TieredNode) -> int:
        """The rest of the path for nothing."""
        return quota - (0 if resident.locks or resident.parent is None else len(resident.key))
