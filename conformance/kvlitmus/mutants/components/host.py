"""Mutants of host memory of components, and legal variations of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kvlitmus.conformance.run.plan import COMPONENT_HOST_CONFIGS
from kvlitmus.conformance.specimen.components.host import ComponentCopier, ComponentCopy, Pinned
from kvlitmus.conformance.specimen.components.tree import ComponentNode, ComponentPools, ComponentTree
from kvlitmus.conformance.specimen.parts import PROFILE
from kvlitmus.mutants.registry import mutant, null_mutant
from kvlitmus.spec.words.shapes import Component, Point, Window
from kvlitmus.spec.words.units import Key

_SGLANG = "https://github.com/sgl-project/sglang/"
_VLLM = "https://github.com/vllm-project/vllm/"
HOSTS = COMPONENT_HOST_CONFIGS[:1]
ALL_HOSTS = COMPONENT_HOST_CONFIGS
"""Tight ones too, and pools that components share."""
TWO_KEYS = "two keys are computed and one is backed up first, which takes some calls each"
INDEXED = (replace(HOSTS[0], components="kv+index"),)
WINDOWED = tuple(config for config in COMPONENT_HOST_CONFIGS if config.components.startswith("kv+swa"))

# What is copied


@mutant("component-backup-forgets-the-window", kills=("COMP-32",), configs=HOSTS)
class BackupForgetsTheWindow(ComponentCopier):
    """A backup takes KV and states and forgets the window: what comes back later can't be used."""

    def lacks(self, node: ComponentNode, *, load: bool) -> Pinned:
        return [(name, at) for name, at in super().lacks(node, load=load) if load or name != "swa"]


@mutant(
    "component-backup-forgets-the-index",
    bugs=("S65", "S102"),
    links=(f"{_SGLANG}issues/26975", f"{_SGLANG}issues/39830", f"{_SGLANG}pull/39698"),
    kills=("COMP-32",),
    configs=INDEXED,
)
class BackupForgetsTheIndex(ComponentCopier):
    """A backup takes the KV and not what belongs to each of its tokens beside it: hits on the host read old rows."""

    def lacks(self, node: ComponentNode, *, load: bool) -> Pinned:
        return [(name, at) for name, at in super().lacks(node, load=load) if load or name != "index"]


@mutant("component-backup-of-another-state", kills=("COMP-32",), configs=HOSTS)
class BackupOfAnotherState(ComponentCopier):
    """A backup takes the first state on the path, not its boundary's: the model goes on from a state of the past."""

    def lacks(self, node: ComponentNode, *, load: bool) -> Pinned:
        found = super().lacks(node, load=load)
        if load:
            return found
        first = node
        while first.above is not None and first.above.above is not None:
            first = first.above
        return [(name, first if name == "state" else at) for name, at in found]


@mutant("component-backup-copies-again", kills=("COMP-32",), configs=HOSTS)
class BackupCopiesAgain(ComponentCopier):
    """A backup copies what the host has already: each turn of a conversation takes memory for all turns before."""

    def lacks(self, node: ComponentNode, *, load: bool) -> Pinned:
        return super().lacks(node, load=load) if load else list(self.needs(node))


@mutant("component-load-forgets-the-window", kills=("COMP-32",), configs=HOSTS)
class LoadForgetsTheWindow(ComponentCopier):
    """A load back brings KV and the state, and no window: the boundary for which it was made isn't one."""

    def lacks(self, node: ComponentNode, *, load: bool) -> Pinned:
        return [(name, at) for name, at in super().lacks(node, load=load) if not load or name != "swa"]


@mutant("component-load-of-half-a-window", kills=("COMP-32",), configs=HOSTS)
class LoadOfHalfAWindow(ComponentCopier):
    """Of a window only the last page is loaded back: the first tokens behind it attend to nothing."""

    def lacks(self, node: ComponentNode, *, load: bool) -> Pinned:
        return [(name, at) for name, at in super().lacks(node, load=load) if not load or name != "swa" or at is node]


@mutant("component-load-by-the-least", kills=("LOAD-11",), configs=HOSTS)
class LoadByTheLeast(ComponentCopier):
    """How far is loaded is the least of how far each component reaches, which may be a boundary of none."""

    def deepest(self, key: Key) -> ComponentNode | None:
        reaches: dict[str, ComponentNode] = {}
        for one in self.components:
            walk = self.tree.walker(one)
            for node in self.tree.walk(key):
                if walk.goes_on(ComponentNode(node.units, node.above, node.end, places=self.together(node))):
                    reaches[one.name] = node
        if len(reaches) < len(self.components):
            return None
        return min(reaches.values(), key=lambda node: node.end)


@mutant("component-load-of-one-tier", kills=("LOAD-11", "COMP-36"), configs=HOSTS)
class LoadOfOneTier(ComponentCopier):
    """Only what the host has by itself is loaded back: a prefix that both tiers have together is computed anew."""

    def together(self, node: ComponentNode) -> dict[str, int]:
        return dict(node.host)


@mutant("component-load-of-no-state-alone", kills=("COMP-36",), configs=HOSTS)
class LoadOfNoStateAlone(ComponentCopier):
    """A load back without KV is not thought to be worth it: where only a state is missing all is computed anew."""

    def load(self, node: ComponentNode | None, key: Key) -> tuple[ComponentCopy | None, dict[str, int]]:
        deepest = self.deepest(key)
        if deepest and all(name != self.base.name for name, _ in self.lacks(deepest, load=True)):
            return None, {}
        return super().load(node, key)


@mutant(
    "component-hit-counts-what-is-to-be-loaded",
    bugs=("S51",),
    links=(f"{_SGLANG}pull/25088", f"{_SGLANG}issues/24869"),
    kills=("TREE-02",),
    configs=HOSTS,
)
class HitCountsWhatIsToBeLoaded(ComponentTree):
    """A hit is as long as the KV where the host has the rest; when that isn't loaded back, the length stays."""

    def match(self, key: Key) -> ComponentNode | None:
        self.clock += 1
        base = self.base.name

        def expected(node: ComponentNode) -> ComponentNode:
            places = {name: place for name, place in node.host.items() if name != base} | node.places
            return ComponentNode(node.units, node.above, node.end, places=places)

        return self.last_usable(self.walk(key), self.most(key), expected)


# Room


@mutant(
    "component-refused-load-publishes-its-state",
    bugs=("S78",),
    links=(f"{_SGLANG}pull/30986",),
    kills=("COMP-15", "TREE-02", "POOL-10"),
    configs=ALL_HOSTS,
)
class RefusedLoadPublishesItsState(ComponentCopier):
    """A load back caches a place for the state before it looks for room for the rest, and leaves it when it ends."""

    def begin(self, node: ComponentNode, *, load: bool) -> tuple[ComponentCopy | None, dict[str, int]]:
        copy, freed = super().begin(node, load=load)
        for one in self.components if load and copy is None else ():
            if isinstance(one.shape, Point) and one.name not in node.places:
                for place in (self.pools.alloc({one.name: 1}) or {}).get(one.name, ()):
                    self.tree.put(node, one.name, place)
        return copy, freed


@mutant("component-copy-refusal-leaks", kills=("POOL-10",), configs=HOSTS)
class CopyRefusalLeaks(ComponentCopier):
    """Buffers are taken component by component; if the last has no room, nobody gives back those of the others."""

    def buffers(self, wants: Mapping[str, int], *, load: bool) -> dict[str, list[int]] | None:
        found: dict[str, list[int]] = {}
        for name, many in wants.items():
            one = super().buffers({name: many}, load=load)
            if one is None:
                return None
            found |= one
        return found


@mutant("component-copy-refusal-keeps-its-pins", kills=("COMP-12",), configs=HOSTS)
class CopyRefusalKeepsItsPins(ComponentCopier):
    """A copy that is refused leaves pinned what it would have read: it can never be evicted again."""

    def begin(self, node: ComponentNode, *, load: bool) -> tuple[ComponentCopy | None, dict[str, int]]:
        copy, freed = super().begin(node, load=load)
        if copy is None and self.lacks(node, load=load):
            self.pin(ComponentCopy(load, node.end, [], [], []), node)
        return copy, freed


@mutant("component-backup-evicts-everything", kills=("COMP-13",), configs=HOSTS)
class BackupEvictsEverything(ComponentCopier):
    """Where the host is full all of it is evicted for one backup: whoever comes next finds nothing."""

    def make_room(self, wants: Mapping[str, int], *, load: bool) -> dict[str, int]:
        if load or self.host.enough(wants):
            return super().make_room(wants, load=load)
        return self.evict(dict.fromkeys(wants, 1000))


@mutant("component-full-host-refuses", kills=("COMP-36",), configs=HOSTS)
class FullHostRefuses(ComponentCopier):
    """Nothing is evicted for a backup: once the host is full, what came first stays, and nothing else comes."""

    def make_room(self, wants: Mapping[str, int], *, load: bool) -> dict[str, int]:
        return super().make_room(wants, load=load) if load else {}


@mutant("component-refused-backup-hides-what-it-evicted", kills=("POOL-10",), configs=ALL_HOSTS, long_because=TWO_KEYS)
class RefusedBackupHidesWhatItEvicted(ComponentCopier):
    """A backup makes room in one pool, finds too little in another, and is refused as if nothing had been evicted."""

    def begin(self, node: ComponentNode, *, load: bool) -> tuple[ComponentCopy | None, dict[str, int]]:
        copy, freed = super().begin(node, load=load)
        return (copy, freed) if copy or load else (None, {})


@mutant("component-refused-load-hides-what-it-evicted", kills=("POOL-10",), configs=ALL_HOSTS, long_because=TWO_KEYS)
class RefusedLoadHidesWhatItEvicted(ComponentCopier):
    """A load back makes room in one pool, finds too little in another, and says nothing of what it has evicted."""

    def begin(self, node: ComponentNode, *, load: bool) -> tuple[ComponentCopy | None, dict[str, int]]:
        copy, freed = super().begin(node, load=load)
        return (copy, freed) if copy or not load else (None, {})


# Copies under way


@mutant("component-load-source-evicted", kills=("COMP-13", "LOCK-01"), configs=HOSTS)
class LoadSourceEvicted(ComponentCopier):
    """What a load back reads isn't pinned on the host: it is evicted and overwritten while it is copied."""

    def pin(self, copy: ComponentCopy, node: ComponentNode) -> None:
        super().pin(copy, node)
        if copy.load:
            for name, at in copy.host:
                at.host_locks[name] -= 1
            copy.host = []


@mutant("component-backup-source-evicted", kills=("COMP-13", "LOCK-01"), configs=HOSTS)
class BackupSourceEvicted(ComponentCopier):
    """What a backup reads isn't pinned on the device: somebody else writes there while it is copied."""

    def pin(self, copy: ComponentCopy, node: ComponentNode) -> None:
        super().pin(copy, node)
        if not copy.load:
            for name, at in copy.device:
                at.locks[name] -= 1
            copy.device = []


@mutant("component-copy-seen-too-early", kills=("TREE-02", "COMP-15"), configs=HOSTS)
class CopySeenTooEarly(ComponentCopier):
    """What is being copied is cached at once: a request reads it before it is there."""

    def is_early(self, name: str, *, load: bool) -> bool:
        """Whether entries of a component are cached before they have been copied."""
        return True

    def begin(self, node: ComponentNode, *, load: bool) -> tuple[ComponentCopy | None, dict[str, int]]:
        copy, freed = super().begin(node, load=load)
        if copy:
            for name, at, place in copy.buffers:
                if self.is_early(name, load=load):
                    self.land(copy, at, name, place)
        return copy, freed


@mutant(
    "component-state-is-used-before-it-is-loaded",
    bugs=("S90",),
    links=(f"{_SGLANG}pull/36743",),
    kills=("TREE-02", "COMP-15"),
    configs=HOSTS,
)
class StateIsUsedBeforeItIsLoaded(CopySeenTooEarly):
    """A state that is loaded back is cached as soon as that begins: who goes on from it copies half of it."""

    def is_early(self, name: str, *, load: bool) -> bool:
        return load and name == "state"


@mutant(
    "component-index-is-used-before-it-is-loaded",
    bugs=("S44",),
    links=(f"{_SGLANG}pull/22811",),
    kills=("COMP-15",),
    configs=INDEXED,
)
class IndexIsUsedBeforeItIsLoaded(CopySeenTooEarly):
    """Readers of the KV wait for a load back, and readers of the index keys beside it don't: theirs count at once."""

    def is_early(self, name: str, *, load: bool) -> bool:
        return load and name == "index"


@mutant(
    "component-copies-share-a-pin",
    bugs=("S84",),
    links=(f"{_SGLANG}pull/34975", f"{_SGLANG}pull/35009", f"{_SGLANG}pull/35931", f"{_SGLANG}pull/36317"),
    kills=("COMP-13", "LOCK-01"),
    configs=HOSTS,
)
class CopiesShareAPin(ComponentCopier):
    """A node remembers one copy that needs it: the next one takes its pin over, whatever components it is of."""

    def __init__(self, pools: ComponentPools, host: ComponentPools, tree: ComponentTree) -> None:
        super().__init__(pools, host, tree)
        self.pending: dict[ComponentNode, ComponentCopy] = {}

    def pin(self, copy: ComponentCopy, node: ComponentNode) -> None:
        super().pin(copy, node)
        for at in {at for _, at in copy.device + copy.host}:
            if at in self.pending:
                self.drop(self.pending[at], at)
            self.pending[at] = copy

    def drop(self, copy: ComponentCopy, node: ComponentNode) -> None:
        """A copy has no pin on a node any more."""
        device, host = ([row for row in pins if row[1] is node] for pins in (copy.device, copy.host))
        super().unpin(ComponentCopy(copy.load, copy.end, device, host, []))
        copy.device = [row for row in copy.device if row[1] is not node]
        copy.host = [row for row in copy.host if row[1] is not node]

    def unpin(self, copy: ComponentCopy) -> None:
        super().unpin(copy)
        self.pending = {at: one for at, one in self.pending.items() if one is not copy}


@mutant("component-failed-copy-stays", kills=("COMP-29",), configs=HOSTS)
class FailedCopyStays(ComponentCopier):
    """Nobody looks whether a copy has succeeded: what it should have brought is cached as if it were there."""

    def ended(self, copy: ComponentCopy, *, ok: bool) -> dict[str, list[int]]:
        return super().ended(copy, ok=True)


@mutant(
    "component-failed-load-undoes-the-kv-alone",
    bugs=("V18",),
    links=(f"{_VLLM}issues/45474", f"{_VLLM}pull/50388"),
    kills=("COMP-15", "COMP-29"),
    configs=HOSTS,
)
class FailedLoadUndoesTheKvAlone(ComponentCopier):
    """A load back that failed is undone for the first component only: windows and states that nobody wrote stay."""

    def ended(self, copy: ComponentCopy, *, ok: bool) -> dict[str, list[int]]:
        if copy.load and not ok:
            rest = [row for row in copy.buffers if row[0] != self.base.name]
            copy.buffers = [row for row in copy.buffers if row[0] == self.base.name]
            super().ended(ComponentCopy(True, copy.end, [], [], rest), ok=True)
        return super().ended(copy, ok=ok)


@mutant("component-failed-copy-leaks", kills=("COMP-29",), configs=HOSTS)
class FailedCopyLeaks(ComponentCopier):
    """The buffers of a copy that failed aren't given back: each failure loses memory."""

    def ended(self, copy: ComponentCopy, *, ok: bool) -> dict[str, list[int]]:
        if not ok:
            copy.buffers = []
        return super().ended(copy, ok=ok)


@mutant("component-copy-overwrites", kills=("COMP-29",), configs=HOSTS)
class CopyOverwrites(ComponentCopier):
    """What a load back has brought takes the place of what somebody has cached there meanwhile, which nobody frees."""

    def land(self, copy: ComponentCopy, node: ComponentNode, name: str, place: int) -> bool:
        (node.places if copy.load else node.host).pop(name, None)
        return super().land(copy, node, name, place)


@mutant("component-backup-under-a-shorter-key", kills=("COMP-15",), configs=HOSTS)
class BackupUnderAShorterKey(ComponentCopier):
    """A state is hung one page too early on the host: whoever loads it goes on from a state of the future."""

    def land(self, copy: ComponentCopy, node: ComponentNode, name: str, place: int) -> bool:
        before = node.above
        if name == "state" and not copy.load and before is not None and before.above is not None:
            return super().land(copy, before, name, place)
        return super().land(copy, node, name, place)


@mutant("component-copy-unpins-what-it-brought", bugs=("H-37",), kills=("COMP-12",), configs=HOSTS)
class CopyUnpinsWhatItBrought(ComponentCopier):
    """The end of a copy walks the path anew and unpins all that is there by then, also what was pinned by nobody."""

    def ended(self, copy: ComponentCopy, *, ok: bool) -> dict[str, list[int]]:
        returned = super().ended(copy, ok=ok)
        for name, node, place in copy.buffers:
            there, locks = (node.places, node.locks) if copy.load else (node.host, node.host_locks)
            if there.get(name) == place:
                locks[name] = locks.get(name, 0) - 1
        return returned


@mutant(
    "component-unlock-after-a-load-back",
    bugs=("H-37",),
    kills=("COMP-12",),
    configs=HOSTS,
)
class UnlockAfterALoadBack(ComponentTree):
    """What was loaded back below a lock is unlocked with it, and was never locked: its count falls below zero."""

    def unlock(self, cover: Mapping[str, Sequence[ComponentNode]]) -> None:
        super().unlock(cover)
        for node in cover["kv"]:
            for name in node.places.keys() & node.host.keys():
                if node not in cover[name]:
                    node.locks[name] = node.locks.get(name, 0) - 1


@mutant("component-load-keeps-old-pairs", kills=("TREE-03", "COMP-15", "POOL-12"), configs=WINDOWED)
class LoadKeepsOldPairs(ComponentCopier):
    """A load back leaves the map from KV to the window as it was: the window is read where others had it before."""

    def __init__(self, pools: ComponentPools, host: ComponentPools, tree: ComponentTree) -> None:
        super().__init__(pools, host, tree)
        self.pairs: dict[int, int] = {}

    def begin(self, node: ComponentNode, *, load: bool) -> tuple[ComponentCopy | None, dict[str, int]]:
        self.pairs |= {
            one.places["kv"]: one.places["swa"] for one in self.tree.nodes() if one.places.keys() >= {"kv", "swa"}
        }
        return super().begin(node, load=load)

    def land(self, copy: ComponentCopy, node: ComponentNode, name: str, place: int) -> bool:
        if copy.load and name == "swa" and name not in node.places:
            place = self.pairs.get(node.places.get("kv", -1), place)
        return super().land(copy, node, name, place)


# Evictions


@mutant("component-host-window-without-kv", bugs=("H-63",), kills=("COMP-19",), configs=HOSTS)
class HostWindowWithoutKv(ComponentCopier):
    """KV goes from the host by itself: a window or a state stays there that nobody can load."""

    def goes_with(self, node: ComponentNode, name: str) -> list[str]:
        return [name]


@mutant("component-host-evicts-heads", kills=("TREE-05",), configs=HOSTS)
class HostEvictsHeads(ComponentCopier):
    """KV goes from the host wherever it is the oldest: ends without their beginning stay, and take memory."""

    def is_leaf(self, node: ComponentNode) -> bool:
        return True


@mutant("component-host-evicts-too-little", kills=("COMP-12",), configs=HOSTS)
class HostEvictsTooLittle(ComponentCopier):
    """An eviction from the host ends after one entry of each component, whatever was asked for."""

    def evict(self, wants: Mapping[str, int]) -> dict[str, int]:
        return super().evict({name: min(1, many) for name, many in wants.items()})


@mutant("component-host-goes-with-the-device", kills=("COMP-16", "POOL-10"), configs=HOSTS)
class HostGoesWithTheDevice(ComponentTree):
    """An eviction from the device takes the copy on the host along: what was backed up for that very moment is lost."""

    def goes_with(self, node: ComponentNode, name: str) -> list[str]:
        found = super().goes_with(node, name)
        for one in found:
            node.host.pop(one, None)
        return found


@mutant(
    "component-prune-forgets-the-host",
    bugs=("S81",),
    links=(f"{_SGLANG}issues/33713",),
    kills=("COMP-16", "POOL-10"),
    configs=HOSTS,
)
class PruneForgetsTheHost(ComponentTree):
    """A node that has lost its last entry on the device is removed, though its copies are on the host."""

    def prune(self, node: ComponentNode) -> None:
        if not node.places and not node.children:
            node.host.clear()
        super().prune(node)


@mutant("component-copy-buffers-stay-free", kills=("POOL-04", "POOL-12"), configs=HOSTS)
class CopyBuffersStayFree(ComponentCopier):
    """The places that a backup writes to stay on the free list until it has ended: the next one writes there, too."""

    def buffers(self, wants: Mapping[str, int], *, load: bool) -> dict[str, list[int]] | None:
        found = super().buffers(wants, load=load)
        if found and not load:
            for name, places in found.items():
                self.host.give(name, places)
        return found

    def land(self, copy: ComponentCopy, node: ComponentNode, name: str, place: int) -> bool:
        landed = super().land(copy, node, name, place)
        free = self.host.free[self.host.pool_of[name]]
        if landed and not copy.load and place in free:
            free.remove(place)
        return landed


@mutant("component-failed-backup-frees-twice", kills=("POOL-12",), configs=HOSTS)
class FailedBackupFreesTwice(ComponentCopier):
    """Places of a backup that failed are put on the free list twice: two prefixes get them."""

    def ended(self, copy: ComponentCopy, *, ok: bool) -> dict[str, list[int]]:
        returned = super().ended(copy, ok=ok)
        if not ok and not copy.load:
            for name, places in returned.items():
                self.host.give(name, places)
        return returned


# Legal variations


@null_mutant("component-host-oldest-last", profile=replace(PROFILE, component_order="own"), configs=HOSTS)
class HostOldestLast(ComponentCopier):
    """On the host the last needed goes first: the order of evictions is the cache's own, as the profile declares."""

    def evictable(self, component: Component) -> list[ComponentNode]:
        found = super().evictable(component)
        return [max(found, key=lambda node: (node.used, node.end))] if found else []


@null_mutant("component-copy-takes-states-first", configs=COMPONENT_HOST_CONFIGS)
class CopyTakesStatesFirst(ComponentCopier):
    """States and windows are copied before the KV, and get their places first: the order is nobody's concern."""

    def lacks(self, node: ComponentNode, *, load: bool) -> Pinned:
        shapes = {one.name: one.shape for one in self.components}
        return sorted(super().lacks(node, load=load), key=lambda row: not isinstance(shapes[row[0]], Point | Window))


@null_mutant("component-host-evicts-what-is-short", configs=COMPONENT_HOST_CONFIGS)
class HostEvictsWhatIsShort(ComponentCopier):
    """For a backup no more is evicted than is missing of what it takes, component by component."""

    def make_room(self, wants: Mapping[str, int], *, load: bool) -> dict[str, int]:
        pools = self.pools if load else self.host
        if load or len(set(pools.pool_of.values())) < len(pools.pool_of):
            return super().make_room(wants, load=load)
        missing = {name: many - len(pools.free[pools.pool_of[name]]) for name, many in wants.items()}
        mine = {name: many for name, many in missing.items() if many > 0}
        return self.evict(mine) if mine else {}
